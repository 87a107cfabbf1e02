//! DMA channels: the limit on simultaneous transfers of a device in each direction (setting `dma`
//! of docs/reference/machine.md).
//!
//! This module owns the allocation of channels and the queue of waiting transfers. A put holds a
//! writing channel until the acknowledgement of its receiver has returned. A get holds a reading
//! channel until its data has arrived. Signals and credits need no channel.

use super::agenda::{Item, NONE};
use super::clock::Time;
use super::engine::Engine;
use super::log::{ACK, Last, Record};
use super::state::Message;
use std::collections::VecDeque;

/// The direction of a transfer, as seen by its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TransferDirection {
    /// Puts.
    Write,
    /// Gets.
    Read,
}

/// The channels of one device in one direction.
#[derive(Clone, Debug, Default)]
struct Group {
    busy: u32,
    waiting: VecDeque<Item>,
}

/// The channels of all devices, on a machine that limits them.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    most: u32,
    groups: Vec<[Group; 2]>,
}

impl Channels {
    /// Returns `most` channels in each direction for each of `devices` devices.
    pub(super) fn new(most: u32, devices: usize) -> Channels {
        Channels { most, groups: vec![<[Group; 2]>::default(); devices] }
    }

    /// Requests a channel. Returns false if the transfer has to wait for one.
    pub(super) fn enter(&mut self, device: u32, direction: TransferDirection, item: Item) -> bool {
        let group = &mut self.groups[device as usize][direction as usize];
        if group.busy < self.most {
            group.busy += 1;
            return true;
        }
        group.waiting.push_back(item);
        false
    }

    /// Ends a transfer. Returns the waiting transfer that gets its channel.
    pub(super) fn leave(&mut self, device: u32, direction: TransferDirection) -> Option<Item> {
        let group = &mut self.groups[device as usize][direction as usize];
        let next = group.waiting.pop_front();
        if next.is_none() {
            group.busy -= 1;
        }
        next
    }
}

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
        let place = s.free.pop().unwrap_or(s.messages.len() as u32);
        match s.messages.get_mut(place as usize) {
            Some(free) => *free = ack,
            None => s.messages.push(ack),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_wait_in_order_and_each_way_for_itself() {
        let item = |n| Item::new(0, n, n as u32);
        let mut c = Channels::new(2, 2);
        assert!(
            c.enter(1, TransferDirection::Write, item(0)) && c.enter(1, TransferDirection::Write, item(1))
        );
        assert!(
            !c.enter(1, TransferDirection::Write, item(2)) && !c.enter(1, TransferDirection::Write, item(3))
        );
        assert!(
            c.enter(1, TransferDirection::Read, item(4)) && c.enter(0, TransferDirection::Write, item(5))
        );
        assert_eq!(c.leave(1, TransferDirection::Write), Some(item(2)));
        assert_eq!(c.leave(1, TransferDirection::Write), Some(item(3)));
        assert_eq!(
            (c.leave(1, TransferDirection::Write), c.leave(1, TransferDirection::Write)),
            (None, None)
        );
        assert!(c.enter(1, TransferDirection::Write, item(6)));
    }
}
