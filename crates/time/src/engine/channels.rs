//! The engine's part of DMA channels: acknowledgements, and the end of a transfer.

use super::Engine;
use crate::agenda::{Item, NONE};
use crate::clock::Time;
use crate::log::{ACK, Last, Record};
use crate::state::Message;

impl Engine<'_, '_, '_> {
    /// Sends the acknowledgement of a put that has arrived.
    pub(super) fn acknowledge(&mut self, m: &Message, from: u64, to: u64) {
        if self.setup.ops[m.op as usize].channel.is_none() {
            return;
        }
        let there = match (&self.setup.moves, self.setup.ops[m.op as usize].memories) {
            (Some(moves), Some([_, target])) => moves.port(to, target),
            _ => self.setup.device(to),
        };
        let here = self.setup.device(from);
        let back = Time::from_ns(self.setup.topo.route_cost(there, here, None).latency_ns);
        let (start, end) = (self.state.now, self.state.now + back);
        let record = Record { start, end, back: 0, thread: m.thread, op: m.op, what: ACK };
        let last = self.record(m.last, record);
        // A later notify cannot travel with an acknowledgement.
        let ack = Message { to: NONE, link: NONE, trip: NONE, thread: NONE, counter: m.thread, last, ..*m };
        let s = &mut self.state;
        let place = s.keep_message(ack);
        let item = Item::new(m.thread, self.sequence(m), place);
        self.at(end, item);
    }

    /// Ends a transfer and lets the next one that waits for its channel continue.
    pub(super) fn free_channel(&mut self, thread: u32, op: u32, cause: Last) {
        let device = self.setup.place(thread);
        let Some(direction) = self.setup.ops[op as usize].channel else { return };
        let Some(next) = self.state.channels.as_mut().and_then(|c| c.leave(device, direction)) else {
            return;
        };
        self.state.messages[next.message() as usize].last = cause;
        self.leaves(next);
    }
}
