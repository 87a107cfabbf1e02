//! Log of the steps that led to each event, for the critical path. It has a fixed size and keeps
//! the newest records.

use super::clock::Time;
use super::controllers::Access;
use kbc_machine::topology::{DeviceId, MAX_NODES};

/// Number of records that are kept.
pub(super) const KEPT: u64 = 1 << 21;

/// Flag in an operation number: more hops of the message follow.
pub(super) const MORE: u32 = 1 << 31;
/// `what` of a fence.
pub(super) const FENCE: u32 = u32::MAX;
/// `what` of local work on a unit: this constant minus the unit's index. Links have smaller numbers
/// ([`super::links`]).
pub(super) const WORK: u32 = u32::MAX - 1;

/// `what` of the steps of a message at the end of a queue ([`super::queues`]), of a credit, and of
/// a sender that polls.
pub(super) const DRAIN: u32 = u32::MAX - 8;
pub(super) const SLOT_WRITE: u32 = u32::MAX - 9;
pub(super) const SLOT_READ: u32 = u32::MAX - 10;
pub(super) const CREDIT: u32 = u32::MAX - 11;
pub(super) const POLL: u32 = u32::MAX - 12;
/// Next stage of a message of a queue whose head has arrived: the inlet of its receiver.
pub(super) const INLET: u32 = u32::MAX - 13;
/// `what` of an acknowledgement that travels back.
pub(super) const ACK: u32 = u32::MAX - 16;
/// `what` of the bytes of a message behind its head, after the controller at its destination.
pub(super) const TAIL: u32 = u32::MAX - 17;
/// `what` of a message at its core or copying queue ([`super::cores`]): its head leaves at `start`,
/// and the core puts the tail `end - start` behind the head.
pub(super) const CORE: u32 = u32::MAX - 18;
/// `what` of a core that moves data itself.
pub(super) const HELD: u32 = u32::MAX - 20;
/// `what` of the preloaded operands of a tile kernel.
pub(super) const PRELOAD: u32 = u32::MAX - 21;
/// `what` of elements that PEs of a device send to each other ([`super::inside`]).
pub(super) const FETCH: u32 = u32::MAX - 22;
/// `what` of a notify through memory.
pub(super) const NOTIFY: u32 = u32::MAX - 19;
/// Links have numbers below this constant (a complete machine of 65,536 devices has exactly as
/// many). A controller that a message is read from is this constant plus its node, and one that it
/// is written to is larger by [`MAX_NODES`].
pub(super) const LINKS: u32 = u32::MAX - 65_535;

/// Returns the `what` of a controller.
pub(super) fn controller(node: DeviceId, access: Access) -> u32 {
    LINKS + node.0 + if access == Access::Write { MAX_NODES } else { 0 }
}

/// Returns the controller of a `what`. None if it is not a controller.
pub(super) fn controlled(what: u32) -> Option<(DeviceId, Access)> {
    match what.checked_sub(LINKS)? {
        n if n < MAX_NODES => Some((DeviceId(n), Access::Read)),
        n if n < 2 * MAX_NODES => Some((DeviceId(n - MAX_NODES), Access::Write)),
        _ => None,
    }
}

/// A step, which became possible with the end of the step before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Time at which it got what it needed: the link or the units.
    pub(super) start: Time,
    /// Time at which it ended: its head is at the next link, or its tail at the receiver.
    pub(super) end: Time,
    /// Distance to the record of the step before it. 0 if there is none.
    pub(super) back: u32,
    /// Thread of the operation.
    pub(super) thread: u32,
    /// Number of the operation, with the flag [`MORE`].
    pub(super) op: u32,
    /// A link, a controller, or one of the constants of this module. For a controller, `end` is the
    /// time at which an idle controller would have been done.
    pub(super) what: u32,
}

/// A reference to a record (numbers start at 1) or to none, as another rank sees it: moved by an
/// element of the group of [`kbc_checker::Orbits`], which is below 2^16 as ranks are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Last(u64);

const NUMBER: u32 = 48;

impl Last {
    /// Returns a reference to a record that is not moved. There are at most 2^48 records.
    pub(super) fn new(number: u64) -> Last {
        Last(number)
    }

    /// Returns the number of the record. 0 for none.
    pub(super) fn number(self) -> u64 {
        self.0 & ((1 << NUMBER) - 1)
    }

    /// Returns the element by which the record is moved.
    pub(super) fn turn(self) -> u64 {
        self.0 >> NUMBER
    }

    /// Returns the same record moved by this element instead.
    pub(super) fn turned(self, turn: u64) -> Last {
        Last(self.number() | turn << NUMBER)
    }
}

/// The newest records. Numbers start at 1, and 0 stands for none.
#[derive(Debug)]
pub(super) struct Log {
    list: Vec<Record>,
    /// The elements by which the steps before are moved. Empty if none is moved.
    turns: Vec<u16>,
    kept: u64,
    /// Number of the first record ever added.
    first: u64,
    /// Number of the newest record.
    newest: u64,
    /// Number of the oldest record that is kept.
    oldest: u64,
}

impl Log {
    /// Returns a log that keeps up to `kept` records. The first record has number `after + 1`. With
    /// `kept` 0 it keeps none.
    pub(super) fn new(kept: u64, after: u64) -> Log {
        Log { list: vec![], turns: vec![], kept, first: after + 1, newest: after, oldest: after + 1 }
    }

    /// Adds the record with the next number. The step before it is moved by `turn`.
    pub(super) fn push(&mut self, number: u64, record: Record, turn: u64) {
        debug_assert_eq!(number, self.newest + 1, "records come one after another");
        self.newest = number;
        if self.kept == 0 {
            self.oldest = number + 1;
        } else if (self.list.len() as u64) < self.kept {
            self.list.push(record);
        } else {
            let place = self.place(number);
            self.list[place] = record;
            self.oldest = number + 1 - self.kept;
        }
        if self.kept > 0 && (turn > 0 || !self.turns.is_empty()) {
            let place = self.place(number);
            self.turns.resize(self.list.len(), 0);
            self.turns[place] = turn as u16;
        }
    }

    /// Returns the record with a number, if it is kept.
    pub(super) fn get(&self, number: u64) -> Option<&Record> {
        if number < self.oldest || number > self.newest {
            return None;
        }
        self.list.get(self.place(number))
    }

    /// Returns the element by which the step before a record is moved.
    pub(super) fn turn(&self, number: u64) -> u64 {
        self.turns.get(self.place(number)).copied().unwrap_or(0).into()
    }

    fn place(&self, number: u64) -> usize {
        ((number - self.first) % self.kept.max(1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest() {
        let record = |op| Record { start: Time::ZERO, end: Time::ZERO, back: 0, thread: 0, op, what: FENCE };
        for (kept, after, many) in [(4, 0, 3), (4, 0, 11), (4, 7, 11), (1, 3, 2), (0, 0, 5)] {
            let mut log = Log::new(kept, after);
            for i in after + 1..=after + many {
                log.push(i, record(i as u32), i % 3);
            }
            for i in 0..after + many + 3 {
                let there = i > after && i <= after + many && i + kept > after + many;
                assert_eq!(
                    log.get(i).map(|r| u64::from(r.op)),
                    there.then_some(i),
                    "{kept} {after} {many} {i}"
                );
                if there {
                    assert_eq!(log.turn(i), i % 3);
                }
            }
        }
    }
}
