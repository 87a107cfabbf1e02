//! DMA channels: the limit on simultaneous transfers of a device in each direction (setting `dma`
//! of docs/reference/machine.md).
//!
//! This module owns the allocation of channels and the queue of waiting transfers. A put holds a
//! writing channel until the acknowledgement of its receiver has returned. A get holds a reading
//! channel until its data has arrived. Signals and credits need no channel.

use super::agenda::Item;
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
