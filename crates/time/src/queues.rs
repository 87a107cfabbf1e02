//! Queues in time (docs/explanation/time.md, "Queues").
//!
//! For each queue, a rank has four tallies among its counters: messages arrived, slots credited,
//! messages sent, and messages received. A sender continues while it has sent fewer messages than
//! the number of slots plus credits. A message uses links like a put. The rest depends on the
//! machine:
//!
//! * On a machine with the setting `queue`, every rank has an inlet, which takes in one message
//!   after another (drain, write to a slot), whether or not a stream waits for it. The receiver
//!   pays for the read of the slot, and a credit uses no link.
//! * On any other machine a credit is a notify of its own, and slots are free.
//!
//! This module owns the tallies and the times of accesses to slots. The engine's part of these
//! rules is in `engine/queues.rs`. The names of the steps on the critical path are in
//! [`super::report::Cause`].

use super::clock::Time;
use kbc_machine::topology::queue::{Access, Backpressure, Queues};

/// A tally of a queue at one of its two ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tally {
    /// Messages that have arrived.
    Arrived,
    /// Slots that have been given back.
    Credited,
    /// Messages that have been sent.
    Sent,
    /// Messages that have been received.
    Received,
}

impl Tally {
    pub(super) const ALL: [Tally; 4] = [Tally::Arrived, Tally::Credited, Tally::Sent, Tally::Received];
}

/// The times of a machine's queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    access: Option<Access>,
    pub(super) credit_bytes: u64,
    /// Interval at which a sender looks for a free slot. None if it sleeps until there is one.
    pub(super) poll: Option<Time>,
}

impl Costs {
    pub(super) fn new(queues: &Queues) -> Costs {
        let poll = match queues.backpressure {
            Backpressure::Sleep => None,
            Backpressure::Poll(ns) => Some(Time::from_ns(ns)),
        };
        Costs { access: queues.access, credit_bytes: queues.credit_bytes, poll }
    }

    /// Returns the time of one access to a slot.
    pub(super) fn access(&self, bytes: u64) -> Time {
        self.access.map_or(Time::ZERO, |a| {
            Time::from_ns(a.setup_ns) + Time::of(bytes, a.bandwidth) + Time::of(bytes, a.hop)
        })
    }
}
