//! Queues in time: a message takes its links like a put, a credit like a notify of its own.
//!
//! Four tallies stand among the counters of a rank for each queue: what arrived, what was credited, what it sent, what
//! it received. A sender goes on while it has sent fewer than the slots and the credits together.

use super::MessageKind;
use super::engine::{Engine, Letter};
use super::state::Doing;
use kbc_ir::walk::Brief;

/// What is counted of a queue, at the rank that counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tally {
    /// Messages that arrived.
    Arrived,
    /// Slots that were given back.
    Credited,
    /// Messages sent.
    Sent,
    /// Messages received.
    Received,
}

impl<'p> Engine<'_, 'p, '_> {
    /// A thread comes to an operation on a queue; whether it goes on at once.
    pub(super) fn queue(&mut self, thread: u32, act: &Brief<'p>, op: u32) -> bool {
        let (&Brief::Send { peer, queue, .. } | &Brief::Recv { peer, queue } | &Brief::Room { peer, queue }) =
            act
        else {
            return true;
        };
        let setup = self.setup;
        let place = setup.place(thread);
        let own = setup.rank(thread);
        let number = |tally| setup.counter(place, setup.tally(tally, peer, queue));
        let counters = &mut self.state.counters;
        // What must have come, and how often: the slots are there from the beginning.
        let (gate, wanted, done) = match act {
            Brief::Recv { .. } => {
                (Tally::Arrived, i64::from(counters[number(Tally::Received)]) + 1, Tally::Received)
            }
            _ => {
                let depth = i64::try_from(setup.program.depth(queue)).unwrap_or(i64::MAX);
                (Tally::Credited, i64::from(counters[number(Tally::Sent)]) + 1 - depth, Tally::Sent)
            }
        };
        if i64::from(counters[number(gate)]) < wanted {
            self.state.threads[thread as usize].doing =
                Doing::Counter(setup.tally(gate, peer, queue), wanted);
            self.state.held.insert(thread, (*act, op));
            return false;
        }
        let (kind, bytes, told) = match *act {
            Brief::Send { bytes, .. } => (MessageKind::Put, bytes, Tally::Arrived),
            Brief::Recv { .. } => (MessageKind::Notify, setup.signal_bytes, Tally::Credited),
            _ => return true,
        };
        let count = &mut counters[number(done)];
        *count = count.saturating_add(1);
        let counter = setup.tally(told, own, queue);
        self.post(thread, op, Letter { kind, peer, bytes, reply: 0, counter });
        true
    }
}
