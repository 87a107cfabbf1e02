//! Order graph: decides which credits of an algorithm follow from its other signals
//! (`docs/adr/015-order-graph.md`).
//!
//! A slot may be written again only after its last message was read. Either a credit conveys that,
//! or other messages imply it. The graph shows which is the case. It is drawn from the rounds of an
//! algorithm on concrete ranks, for as many calls as it takes to return to a slot: two, or three
//! with two slots per message. Its events are, for each call, the loading of the inputs, sends,
//! local moves, receipts, and the use of the results. Its edges are the order within each rank, the
//! arrival of every message, and one credit for each reuse of a slot. With direct placement, a
//! credit for each reuse of a place ("ready") takes the place of the credit for a slot, and with
//! pull a credit for each pulled source ("done").
//!
//! A credit that a path over the other edges implies is not needed. The transitive reduction of a
//! finite acyclic graph is unique, so the remaining credits are *the* least set for that order and
//! those slots. Credits are counted in the last call, because every call from the second on needs
//! the same ones.
//!
//! This module owns the policies and the counts. `graph` is the graph itself, and `events`
//! makes the events of a call. The passes choose the policy of a schedule ([`crate::allocate`] and
//! [`choose`]).

pub mod choose;
mod events;
mod graph;

use kbc_rounds::Rounds;

/// Where a message lands, which determines when that place is used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Policy {
    /// One slot for each message of a call. The same message of the next call uses the slot again.
    PerMessage,
    /// Two slots for each message, used by alternate calls.
    Alternate,
    /// This many slots for each pair of source and destination, used in rotation. The count
    /// continues from call to call.
    Slots(u32),
    /// The destination itself, if the message replaces the data there and the receiver does not
    /// touch the place in the same round. Otherwise as [`Policy::PerMessage`].
    Direct,
    /// No slot: the receiver reads the message at the source.
    Pull,
}

impl Policy {
    /// Returns the name that reports use.
    pub fn name(self) -> String {
        match self {
            Policy::PerMessage => "one slot per message".into(),
            Policy::Alternate => "two slots per message".into(),
            Policy::Slots(1) => "1 slot per channel".into(),
            Policy::Slots(k) => format!("{k} slots per channel"),
            Policy::Direct => "direct placement".into(),
            Policy::Pull => "pull".into(),
        }
    }
}

/// The order that is assumed within a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    /// Everything in program order: sends, local moves and receipts, round by round. Schedules that
    /// are written out for each rank have later receipts ([`crate::expand`]).
    Program,
    /// Only steps that share chunks are ordered, so lanes run independently. A credit that this
    /// order does not need is not needed in any order that the schedule may have, late receipts
    /// included.
    Data,
}

/// Signals of a call, with the upper limits that they are compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SyncCounts {
    /// Rounds with at least one message.
    pub rounds: u64,
    /// Messages, each with one arrival.
    pub messages: u64,
    /// Slots on the rank that has most.
    pub slots: u64,
    /// Credits if every reuse gets one.
    pub wanted: u64,
    /// Credits that nothing else implies.
    pub needed: u64,
    /// Notifies if every round ends with a barrier: `rounds * p * (p - 1)`.
    pub naive: u64,
}

impl SyncCounts {
    /// Returns the notifies of a call.
    pub fn notifies(&self) -> u64 {
        self.messages + self.needed
    }

    /// Returns the waits of a call: one for each notify.
    pub fn waits(&self) -> u64 {
        self.notifies()
    }

    /// Returns the fences of a call: a release before each notify, and an acquire after the wait
    /// for each arrival.
    pub fn fences(&self) -> u64 {
        self.notifies() + self.messages
    }
}

/// Reasons why there are no counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoSyncCounts {
    /// The credits close a cycle: with this policy the algorithm waits for itself.
    Cycle,
    /// The graph has this many events, which is too large (see [`MAX_EVENTS`]).
    TooLarge(u64),
}

/// Largest number of events of an order graph.
pub const MAX_EVENTS: u64 = 1 << 17;

/// Counts the signals of an algorithm's rounds.
///
/// # Errors
/// Returns [`NoSyncCounts`] if the credits close a cycle, or if there are too many events.
pub fn count(rounds: &Rounds, policy: Policy, within: Within) -> Result<SyncCounts, NoSyncCounts> {
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
