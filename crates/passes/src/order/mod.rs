//! The order graph of LANGUAGE 7.1: which credits follow from the other signals, and which do not.
//!
//! Rounds of an algorithm on concrete ranks, as many calls of them as it takes to come back to a place (two, three with two slots a message), as events: a send
//! S, a local move, a receipt R, loading L and using U of a call. Edges are what each rank does one after another, the
//! arrival of every message, and one credit for each reuse of a slot (a ready for each reuse of a place, a "done" for
//! each pulled source). A credit that a path over the other edges implies is not needed; the transitive reduction of a
//! finite acyclic graph is unique, so what is left is *the* least set for that order and those slots (rule 7). Counted
//! in the last call: every call from the second on needs the same.
//!
//! Owns the policies and the counts; the graph itself is [`graph`], what happens in a call is [`events`]. Which policy
//! a schedule gets is the passes' to say ([`crate::allocate`] and [`choose`]).

pub mod choose;
mod events;
mod graph;

use kbc_rounds::Rounds;

/// Where a message lands, and so when that place is used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Policy {
    /// A slot for each message of a call; the next call's message takes it again.
    PerMessage,
    /// Two slots for each message, used by alternate calls.
    Alternate,
    /// So many slots for each pair of source and destination, in rotation, counting on from call to call.
    Slots(u32),
    /// At its destination, where it replaces and the receiver does not touch the place in the same round; else as
    /// [`Policy::PerMessage`].
    Direct,
    /// The receiver reads it at the source.
    Pull,
}

impl Policy {
    /// How reports write it.
    pub fn name(self) -> String {
        match self {
            Policy::PerMessage => "one slot a message".into(),
            Policy::Alternate => "two slots a message".into(),
            Policy::Slots(1) => "1 slot a channel".into(),
            Policy::Slots(k) => format!("{k} slots a channel"),
            Policy::Direct => "direct placement".into(),
            Policy::Pull => "pull".into(),
        }
    }
}

/// What a rank does one after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    /// Everything, in the order of the text: sends, local moves, receipts, round by round.
    Program,
    /// Only what shares chunks (rules 1 and 2): lanes run on their own. A credit that is not needed in this order is not
    /// needed in any the schedule may have.
    Data,
}

/// Signals of a call, and what they need not be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SyncCounts {
    /// Rounds with a message.
    pub rounds: u64,
    /// Messages: one arrival each.
    pub messages: u64,
    /// Slots on the rank that has most.
    pub slots: u64,
    /// Credits for every reuse.
    pub wanted: u64,
    /// Credits that nothing else implies.
    pub needed: u64,
    /// Notifies of a barrier a round: `rounds * p * (p - 1)`.
    pub naive: u64,
}

impl SyncCounts {
    /// Notifies of a call.
    pub fn notifies(&self) -> u64 {
        self.messages + self.needed
    }

    /// Waits of a call: one for each notify.
    pub fn waits(&self) -> u64 {
        self.notifies()
    }

    /// Fences of a call: a release before each notify, an acquire after the wait for each arrival.
    pub fn fences(&self) -> u64 {
        self.notifies() + self.messages
    }
}

/// Why there are no counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoCounts {
    /// The credits close a circle: with this policy the algorithm waits for itself.
    Circle,
    /// More events than [`MOST_EVENTS`].
    TooLarge(u64),
}

/// Events an order graph may have.
pub const MOST_EVENTS: u64 = 1 << 17;

/// Counts the signals of an algorithm's rounds.
///
/// # Errors
/// [`NoCounts`]: a circle, or too many events.
pub fn count(rounds: &Rounds, policy: Policy, within: Within) -> Result<SyncCounts, NoCounts> {
    let calls = events::Calls::of(rounds);
    let p = u64::from(rounds.ranks());
    let mut out = SyncCounts {
        rounds: calls.rounds_with_messages(),
        messages: calls.messages.len() as u64,
        slots: calls.slots(policy),
        naive: calls.rounds_with_messages() * p * p.saturating_sub(1),
        ..SyncCounts::default()
    };
    let graph = calls.graph(policy, within)?;
    (out.wanted, out.needed) = graph.credits()?;
    Ok(out)
}
