//! Agenda: future events in order of time, and at equal times in order of thread and sequence
//! number.
//!
//! If ranks do the same, many events happen at few moments. If they do not, every event has a
//! moment of its own. So a heap holds moments, and each moment has a list of events. Memory is
//! linear in the number of pending events.

use super::clock::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No message.
pub(super) const NONE: u32 = u32::MAX;

/// An event: a thread, the number of one of its requests, and its message or [`NONE`]. Ordered by
/// thread, then by request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Item(u128);

impl Item {
    pub(super) fn new(thread: u32, sequence: u64, message: u32) -> Item {
        Item(u128::from(thread) << 96 | u128::from(sequence) << 32 | u128::from(message))
    }

    pub(super) fn thread(self) -> u32 {
        (self.0 >> 96) as u32
    }

    pub(super) fn message(self) -> u32 {
        self.0 as u32
    }
}

/// Number of moments that are found without searching the heap.
const RECENT: usize = 64;
/// An empty list with a larger capacity than this is freed, except for [`LARGE`] of them.
const ROOM: usize = 256;
const LARGE: usize = 8;

/// All pending events.
#[derive(Clone, Debug)]
pub(super) struct Agenda {
    moments: BinaryHeap<Reverse<(Time, u32)>>,
    lists: Vec<Vec<Item>>,
    /// Free indices of `lists`.
    free: Vec<u32>,
    /// Recent moments with their lists, hashed by time. A moment that is not here may have several
    /// lists.
    recent: [(Time, u32); RECENT],
    /// Indices of lists that may keep a large capacity.
    large: Vec<u32>,
}

impl Agenda {
    pub(super) fn new() -> Agenda {
        Agenda {
            moments: BinaryHeap::new(),
            lists: vec![],
            free: vec![],
            recent: [(Time::ZERO, NONE); RECENT],
            large: vec![],
        }
    }

    /// Adds an event.
    pub(super) fn push(&mut self, time: Time, item: Item) {
        let recent = &mut self.recent[time.hash(RECENT)];
        if recent.0 == time && recent.1 != NONE {
            self.lists[recent.1 as usize].push(item);
            return;
        }
        let list = self.free.pop().unwrap_or_else(|| {
            self.lists.push(vec![]);
            self.lists.len() as u32 - 1
        });
        *recent = (time, list);
        self.lists[list as usize].push(item);
        self.moments.push(Reverse((time, list)));
    }

    /// Moves all events of the next moment into an empty list, in order, and returns the moment.
    pub(super) fn take(&mut self, into: &mut Vec<Item>) -> Option<Time> {
        let Reverse((time, first)) = self.moments.pop()?;
        self.empty(time, first, into);
        while let Some(Reverse((t, list))) = self.moments.peek().copied()
            && t == time
        {
            self.moments.pop();
            self.empty(time, list, into);
        }
        if !into.is_sorted() {
            into.sort();
        }
        Some(time)
    }

    fn empty(&mut self, time: Time, place: u32, into: &mut Vec<Item>) {
        let recent = &mut self.recent[time.hash(RECENT)];
        if recent.1 == place {
            recent.1 = NONE;
        }
        let list = &mut self.lists[place as usize];
        if into.is_empty() {
            std::mem::swap(list, into);
        } else {
            into.append(list);
        }
        if list.capacity() > ROOM && !self.large.contains(&place) {
            if self.large.len() < LARGE {
                self.large.push(place);
            } else {
                *list = vec![];
            }
        }
        self.free.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_out_in_order() {
        let mut agenda = Agenda::new();
        let mut want = vec![];
        let mut x = 1u64;
        for i in 0..5000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Times that often coincide, and more distinct times than [`RECENT`].
            let time = Time::from_ns(((x >> 33) % if i % 2 == 0 { 7 } else { 1000 }) as f64);
            let item = Item::new((x >> 40) as u32 % 50, i, i as u32);
            agenda.push(time, item);
            want.push((time, item));
        }
        want.sort();
        let (mut got, mut due) = (vec![], vec![]);
        while let Some(time) = agenda.take(&mut due) {
            got.extend(due.drain(..).map(|i| (time, i)));
        }
        assert_eq!(got, want);
    }

    #[test]
    fn an_item_keeps_its_parts() {
        let i = Item::new(7, u64::MAX, 9);
        assert_eq!((i.thread(), i.message()), (7, 9));
        assert!(Item::new(1, u64::MAX, NONE) < Item::new(2, 0, 0) && Item::new(1, 1, 5) < Item::new(1, 2, 0));
    }
}
