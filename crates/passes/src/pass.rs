//! Definition of a pass: its record, its options, its context and its findings.
//!
//! This module owns [`Pass`], [`PassInfo`], typed options and [`PassCx`]. [`crate::ALL`] lists
//! the passes, and [`crate::pipeline`] puts them in order.

use crate::findings::Findings;
use crate::findings::select::{Ranking, SelectTable};
use crate::order::choose::OneSlotCache;
use crate::packed::PackedCache;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::graph::{Graph, Using};
use kbc_ir::schedule::Schedule;
use kbc_ir::{Body, Module, Props};
use kbc_machine::topology::Topology;
use kbc_rounds::library::Library;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// The record of a pass, used by the order check, `kbc list passes`, dumps and documentation.
#[derive(Clone, Copy, Debug)]
pub struct PassInfo {
    /// Name in pipelines, in dumps and in `docs/passes/NAME.md`.
    pub name: &'static str,
    /// Summary of one line for `kbc list passes`.
    pub summary: &'static str,
    /// Properties that the module must have before the pass.
    pub requires: Props,
    /// Properties that the module has after the pass.
    pub gives: Props,
    /// Properties that no longer hold after the pass.
    pub breaks: Props,
    /// The options of the pass.
    pub options: &'static [PassOption],
}

/// An option of a pass, such as `by` in `select{by=time}`.
#[derive(Clone, Copy, Debug)]
pub struct PassOption {
    /// Name.
    pub name: &'static str,
    /// Summary of one line for `kbc list passes`.
    pub summary: &'static str,
    /// The kind of its values.
    pub kind: OptionKind,
    /// Description of the default, for people.
    pub default: &'static str,
}

/// The kind of values that an option of a pass takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionKind {
    /// An integer in a closed range.
    Count {
        /// The least value.
        least: u64,
        /// The greatest value.
        most: u64,
    },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A name that the pass looks up itself.
    Name,
}

impl fmt::Display for OptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionKind::Count { least, most: u64::MAX } => write!(f, "an integer of at least {least}"),
            OptionKind::Count { least, most } => write!(f, "an integer from {least} to {most}"),
            OptionKind::Flag => f.write_str("true | false"),
            OptionKind::Word(words) => f.write_str(&words.join(" | ")),
            OptionKind::Name => f.write_str("a name"),
        }
    }
}

/// The value of an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptionValue {
    /// An integer.
    Count(u64),
    /// A flag.
    Flag(bool),
    /// A word that the option lists, or a name.
    Word(String),
}

/// The options given to one step of a pipeline, already checked against the record of the pass.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    values: BTreeMap<String, OptionValue>,
}

impl Options {
    /// Returns a set without options.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds the option `name=value` of a pass.
    ///
    /// # Errors
    /// Returns E904 if the pass has no such option (the message lists the valid ones), if the
    /// option cannot have this value, or if the option is given twice.
    pub fn set(
        &mut self,
        info: &PassInfo,
        name: (&str, Span),
        value: (&str, Span),
    ) -> Result<(), Diagnostic> {
        let Some(option) = info.options.iter().find(|o| o.name == name.0) else {
            let valid: Vec<&str> = info.options.iter().map(|o| o.name).collect();
            let mut d = Diagnostic::error("E904", format!("pass `{}` has no option `{}`", info.name, name.0))
                .primary(name.1, "not an option of this pass");
            d = match valid.is_empty() {
                true => d.help(format!("`{}` takes no options", info.name)),
                false => d.note(format!("valid: {}", valid.join(", "))),
            };
            if let Some(n) = nearest(name.0, valid.iter().copied()) {
                d = d.help(format!("did you mean `{n}`?"));
            }
            return Err(d);
        };
        let read = match option.kind {
            OptionKind::Count { least, most } => {
                value.0.parse().ok().filter(|v| (least..=most).contains(v)).map(OptionValue::Count)
            }
            OptionKind::Flag => value.0.parse().ok().map(OptionValue::Flag),
            OptionKind::Word(words) => words.contains(&value.0).then(|| OptionValue::Word(value.0.into())),
            OptionKind::Name => (!value.0.is_empty()).then(|| OptionValue::Word(value.0.into())),
        };
        let Some(read) = read else {
            return Err(Diagnostic::error(
                "E904",
                format!("invalid value of option `{}` of pass `{}`: `{}`", name.0, info.name, value.0),
            )
            .primary(value.1, format!("expected {}", option.kind)));
        };
        if self.values.insert(name.0.into(), read).is_some() {
            return Err(Diagnostic::error("E904", format!("option `{}` is given twice", name.0))
                .primary(name.1, "given again here")
                .help("remove one of them"));
        }
        Ok(())
    }

    /// Returns the integer of that name, if it was given.
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.values.get(name) {
            Some(OptionValue::Count(v)) => Some(*v),
            _ => None,
        }
    }

    /// Returns the flag of that name, if it was given.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.values.get(name) {
            Some(OptionValue::Flag(v)) => Some(*v),
            _ => None,
        }
    }

    /// Returns the word or name of that name, if it was given.
    pub fn word(&self, name: &str) -> Option<&str> {
        match self.values.get(name) {
            Some(OptionValue::Word(v)) => Some(v),
            _ => None,
        }
    }
}

impl fmt::Display for Options {
    /// Prints `{a=1,b=x}`, or nothing if there are no options.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.values.is_empty() {
            return Ok(());
        }
        let parts: Vec<String> = self
            .values
            .iter()
            .map(|(k, v)| match v {
                OptionValue::Count(v) => format!("{k}={v}"),
                OptionValue::Flag(v) => format!("{k}={v}"),
                OptionValue::Word(v) => format!("{k}={v}"),
            })
            .collect();
        write!(f, "{{{}}}", parts.join(","))
    }
}

/// Whether a pass changed the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// The pass changed the module.
    Yes,
    /// The module is as before.
    No,
}

impl From<bool> for Changed {
    fn from(changed: bool) -> Self {
        if changed { Changed::Yes } else { Changed::No }
    }
}

/// Measures the time of a schedule. The driver supplies it, because passes may not depend on a
/// backend.
pub trait TimeModel {
    /// Returns the nanoseconds of one call of the module, which is at the schedule level and
    /// synchronized.
    ///
    /// # Errors
    /// Returns the reason why the module cannot be timed.
    fn nanoseconds(&self, module: &Module) -> Result<f64, Diagnostics>;
}

/// Compares orders of additions. The driver supplies an implementation, because this crate does not
/// execute schedules.
pub trait OrderModel {
    /// Compares the orders in which algorithms add the elements of a collective. An algorithm is
    /// given as the collective at several sizes; the modules are at the schedule level and
    /// synchronized.
    ///
    /// Returns for each algorithm why it has no fixed order, or a number. Two algorithms with one
    /// number add every element in one order, at all sizes, or no order can change their bits.
    fn orders(&self, algorithms: &[Vec<Module>]) -> Vec<Result<usize, String>>;
}

/// Keeps rankings of candidates from one run to another. The driver supplies an implementation,
/// because passes know no files.
///
/// A question has everything that a ranking follows from, besides the code and the built-in library
/// of kbc, which an implementation adds.
pub trait RankingStore {
    /// Returns a short text that stands for a long one in questions: other texts have other ones.
    fn digest(&self, text: &str) -> String;

    /// Returns the ranking that was kept for a question. None if there is none, or if what was kept
    /// cannot be read.
    fn find(&self, question: &str) -> Option<Ranking>;

    /// Keeps the ranking for a question. Whatever cannot be kept is found again another time.
    fn keep(&self, question: &str, ranking: &Ranking);
}

/// The context of a pass: what it may use besides the module.
pub struct PassCx<'a> {
    /// Collectives and algorithms.
    pub library: &'a Library,
    /// The machine, if it is known.
    pub topology: Option<&'a Topology>,
    /// Measures schedules, if the driver supplies a model.
    pub time: Option<&'a dyn TimeModel>,
    /// Finds orders of additions, if the driver supplies a model. Without one, a collective that
    /// must have a fixed order is an error (E904).
    pub order: Option<&'a dyn OrderModel>,
    /// Whether all collectives that combine must have a fixed order, and not only those for which
    /// the program says so.
    pub fixed_order: bool,
    /// How long packed trees are searched, in place of the option `effort` of `select`.
    pub effort: Option<u64>,
    /// The largest sum of bytes per rank that `fuse` joins, in place of its option `bytes`.
    pub fuse: Option<u64>,
    /// Algorithms for collectives for which the program names none. If several fit a collective,
    /// the first is taken.
    pub using: Vec<Using>,
    /// Findings of the passes run so far.
    pub findings: RefCell<Findings>,
    /// Trees that were packed so far.
    pub packed: Rc<PackedCache>,
    /// What is known about the slots of the algorithms of the library.
    pub slots: Rc<OneSlotCache>,
    /// Rankings of earlier runs, if the driver keeps them.
    pub rankings: Option<&'a dyn RankingStore>,
    /// What `select` has found for the same program, which its option `explain` completes.
    pub chosen: Option<&'a SelectTable>,
}

impl<'a> PassCx<'a> {
    /// Returns a context with a library and a machine, and nothing else.
    pub fn new(library: &'a Library, topology: Option<&'a Topology>) -> Self {
        PassCx {
            library,
            topology,
            time: None,
            order: None,
            fixed_order: false,
            effort: None,
            fuse: None,
            using: vec![],
            findings: RefCell::default(),
            packed: Rc::default(),
            slots: Rc::default(),
            rankings: None,
            chosen: None,
        }
    }

    /// Returns a context for a pipeline inside a pass, which packs the same trees and measures
    /// nothing.
    pub fn inner<'b>(&self, topology: Option<&'b Topology>) -> PassCx<'b>
    where
        'a: 'b,
    {
        let (packed, slots) = (self.packed.clone(), self.slots.clone());
        PassCx { packed, slots, ..PassCx::new(self.library, topology) }
    }

    /// Adds a model that measures schedules.
    pub fn with_time(self, time: &'a dyn TimeModel) -> Self {
        PassCx { time: Some(time), ..self }
    }

    /// Adds a model that finds orders of additions, and says whether all of them must be fixed.
    pub fn with_order(self, order: &'a dyn OrderModel, fixed_order: bool) -> Self {
        PassCx { order: Some(order), fixed_order, ..self }
    }

    /// Adds rankings of earlier runs.
    pub fn with_rankings(self, rankings: Option<&'a dyn RankingStore>) -> Self {
        PassCx { rankings, ..self }
    }

    /// Adds what `select` has found for the same program.
    pub fn with_chosen(self, chosen: &'a SelectTable) -> Self {
        PassCx { chosen: Some(chosen), ..self }
    }

    /// Sets the effort of the search for packed trees.
    pub fn with_effort(self, effort: Option<u64>) -> Self {
        PassCx { effort, ..self }
    }

    /// Sets the largest sum of bytes per rank that `fuse` joins.
    pub fn with_fuse(self, fuse: Option<u64>) -> Self {
        PassCx { fuse, ..self }
    }

    /// Adds algorithms that the caller asks for and the program does not name.
    pub fn with_using(self, using: Vec<Using>) -> Self {
        PassCx { using, ..self }
    }

    /// Takes the warnings and notes collected so far.
    pub fn take_messages(&self) -> Diagnostics {
        std::mem::take(&mut self.findings.borrow_mut().messages)
    }
}

/// A pass: one rewrite of a module.
pub trait Pass {
    /// Returns the record of the pass.
    fn info(&self) -> &'static PassInfo;

    /// Returns the options the pass was made with, for dumps and reproducers.
    fn options(&self) -> Options {
        Options::none()
    }

    /// Rewrites the module. The pass manager checks `requires` before and sets the properties
    /// afterwards.
    ///
    /// # Errors
    /// Returns what is wrong with the program. The module may then be partly rewritten and must not
    /// be used.
    fn run(&self, module: &mut Module, cx: &PassCx<'_>) -> Result<Changed, Diagnostics>;
}

/// Returns the graph of a module, for a pass of the graph level.
///
/// # Errors
/// Returns E901 if the module is a local program or already a schedule.
pub fn graph_of<'m>(module: &'m mut Module, info: &PassInfo) -> Result<&'m mut Graph, Diagnostic> {
    match &mut module.body {
        Body::Graph(g) => Ok(g),
        Body::Local(_) => Err(Diagnostic::error(
            "E901",
            format!(
                "pass `{}` works on global values, and module @{} is a local program",
                info.name, module.name
            ),
        )
        .primary(Span::NONE, "remove it from the pipeline")),
        Body::Schedule(_) => Err(Diagnostic::error(
            "E901",
            format!(
                "pass `{}` works on the graph level, and module @{} is a schedule",
                info.name, module.name
            ),
        )
        .primary(Span::NONE, "run it before `expand`")),
    }
}

/// Returns the schedule of a module, for a pass of the schedule level.
///
/// # Errors
/// Returns E901 if the module is not a schedule yet.
pub fn schedule_of<'m>(module: &'m mut Module, info: &PassInfo) -> Result<&'m mut Schedule, Diagnostic> {
    match &mut module.body {
        Body::Schedule(s) => Ok(s),
        Body::Graph(_) | Body::Local(_) => Err(Diagnostic::error(
            "E901",
            format!(
                "pass `{}` works on the schedule level, and module @{} is a graph",
                info.name, module.name
            ),
        )
        .primary(Span::NONE, "run it after `expand`")),
    }
}
