//! Options of a use: which of them the lowering implements, and the errors for the others.
//!
//! An option never changes the meaning of an algorithm, so an option without an implementation
//! could be dropped silently. It is an error nevertheless, because the user asks for its effect.

use kbc_diag::{Diagnostic, Span};
use kbc_ir::types::MemKind;
use kbc_rounds::options::OptionValue;

/// The effects that the options of a use ask for.
#[derive(Clone, Debug)]
pub(in crate::expand) struct Options {
    /// Memory of the windows.
    pub(in crate::expand) memory: MemKind,
    /// Number of lanes of every chunk, each lane one round later than the previous one.
    pub(in crate::expand) pipeline: i64,
    /// Number of lanes of every chunk that run concurrently.
    pub(in crate::expand) instances: i64,
    /// Number of cores of a rank that share the transfers. Each core is a stream with its own
    /// lanes.
    pub(in crate::expand) cores: i64,
    /// Number of slots for the messages to each neighbour, used in rotation.
    pub(in crate::expand) slots: Option<i64>,
    /// Who moves the data.
    pub(in crate::expand) transfer: Mover,
}

/// The side that moves a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::expand) enum Mover {
    /// The sender writes into a slot of the receiver.
    Push,
    /// The receiver fetches the data, which the sender has put into a slot of its own.
    Pull,
    /// The same, and the sender's call ends when all receivers have fetched. So the slot need not
    /// be memory of its own: a backend may let receivers fetch from where the data lies.
    Rendezvous,
    /// The receiver fetches data that is added, from all its sources at once, so that switches can
    /// add it. Other data is pushed, so that switches can copy it.
    Switch,
}

impl Mover {
    const ALL: [(&'static str, Mover); 4] = [
        ("push", Mover::Push),
        ("pull", Mover::Pull),
        ("rendezvous", Mover::Rendezvous),
        ("switch", Mover::Switch),
    ];

    /// Checks whether the receiver fetches a message, given whether its data is added.
    pub(in crate::expand) fn pulls(self, adds: bool) -> bool {
        match self {
            Mover::Push => false,
            Mover::Pull | Mover::Rendezvous => true,
            Mover::Switch => adds,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            memory: MemKind::Hbm,
            pipeline: 1,
            instances: 1,
            cores: 1,
            slots: None,
            transfer: Mover::Push,
        }
    }
}

impl Options {
    /// Sets an option. `inside` states that the use is an `apply` within an algorithm.
    ///
    /// # Errors
    /// Returns E033 if the option has no implementation there.
    pub(in crate::expand) fn set(
        &mut self,
        name: &str,
        value: &OptionValue,
        inside: bool,
        span: Span,
    ) -> Result<(), Diagnostic> {
        match (name, value) {
            ("pipeline", OptionValue::Count(k)) if *k <= MAX_LANES => self.pipeline = *k,
            ("instances", OptionValue::Count(k)) if *k <= MAX_LANES => self.instances = *k,
            ("cores", OptionValue::Count(k)) if *k <= MAX_LANES && !inside => self.cores = *k,
            ("pipeline" | "instances" | "cores", OptionValue::Count(k)) if *k > MAX_LANES => {
                return Err(refused(name, span, &format!("the limit is {MAX_LANES} lanes")));
            }
            ("cores", OptionValue::Count(1)) => {}
            ("transfer", OptionValue::Word(w)) if !inside => {
                let found = Mover::ALL.iter().find(|m| m.0 == w);
                let none = || refused(name, span, &format!("`{w}` has no implementation"));
                self.transfer = found.ok_or_else(none)?.1;
            }
            ("slots" | "memory" | "cores", _) if inside => {
                let why = "windows and cores belong to the whole collective: write the option where the program uses the collective";
                return Err(refused(name, span, why));
            }
            ("slots", OptionValue::Count(k)) => self.slots = Some(*k),
            ("memory", OptionValue::Word(w)) => {
                self.memory = MemKind::parse(w).unwrap_or(MemKind::Hbm);
            }
            _ => accept_default(name, value, span)?,
        }
        Ok(())
    }

    /// Checks the options of an `apply` in a schedule with one role per rank, which implements none
    /// of them.
    ///
    /// # Errors
    /// Returns E033 if one of them asks for an effect.
    pub(in crate::expand) fn unmoved(&self, span: Span) -> Result<(), Diagnostic> {
        for (name, k) in [("pipeline", self.pipeline), ("instances", self.instances)] {
            if k > 1 {
                let why = "kbc generates separate code for every rank of this algorithm, which supports only options of the collective in the program";
                return Err(refused(name, span, why));
            }
        }
        Ok(())
    }
}

/// Largest number of lanes for `pipeline`, `instances` and `cores`.
const MAX_LANES: i64 = 64;

pub(crate) fn refused(name: &str, span: Span, why: &str) -> Diagnostic {
    Diagnostic::error("E033", format!("option `{name}` is not possible here"))
        .primary(span, "requested here")
        .note(why)
        .help("remove the option; it does not change the result of the algorithm")
}

/// Accepts an option whose value asks for the default behaviour.
///
/// # Errors
/// Returns E033 if it asks for anything else.
fn accept_default(name: &str, value: &OptionValue, span: Span) -> Result<(), Diagnostic> {
    let anyway = match value {
        OptionValue::Count(k) => *k == 1 && name != "slots",
        OptionValue::Word(w) => name == "transfer" && w == "push",
        OptionValue::Flag(on) => !on,
    };
    if anyway {
        return Ok(());
    }
    let why = match name {
        "overlap" => {
            "the pass `overlap` splits a collective of a global program together with an adjacent matmul; it does not apply inside an `apply`, in a local program, or on a machine with queues"
        }
        "fuse" => {
            "the pass `fuse` joins collectives of a global program; it does not apply inside an `apply` or in a local program"
        }
        "order" => {
            "the order of additions follows the rounds: own value first, then the sources by their distance"
        }
        "accumulate" => {
            "windows and buffers have the element type of the operand, so each sum is rounded to it"
        }
        "transfer" => {
            "the direction of transfers belongs to the whole collective: write the option where the program uses the collective"
        }
        _ => "messages arrive in the slots of windows",
    };
    Err(refused(name, span, why))
}
