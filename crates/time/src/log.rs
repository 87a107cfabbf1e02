//! The record of what came from what: as much of it as fits in a fixed size, the newest last.

use super::clock::Time;
use super::controllers::Access;
use kbc_machine::topology::{DeviceId, MAX_NODES};

/// Steps that are kept.
pub(super) const KEPT: u64 = 1 << 21;

/// Marks an operation number as one of which more hops follow.
pub(super) const MORE: u32 = 1 << 31;
/// `what` of a fence.
pub(super) const FENCE: u32 = u32::MAX;
/// `what` of local work on a unit: this minus the unit's place. Links have smaller numbers ([`super::links`]).
pub(super) const WORK: u32 = u32::MAX - 1;

/// `what` of what happens to a message at the end of a queue ([`super::queues`]), and of a credit.
pub(super) const DRAIN: u32 = u32::MAX - 8;
pub(super) const SLOT_WRITE: u32 = u32::MAX - 9;
pub(super) const SLOT_READ: u32 = u32::MAX - 10;
pub(super) const CREDIT: u32 = u32::MAX - 11;
pub(super) const POLL: u32 = u32::MAX - 12;
/// Where a message of a queue is once its head is there: it asks to be taken in.
pub(super) const INLET: u32 = u32::MAX - 13;
/// `what` of the way back of an acknowledgement.
pub(super) const ACK: u32 = u32::MAX - 16;
/// `what` of the bytes of a message that has passed the controller at its end, behind its head.
pub(super) const TAIL: u32 = u32::MAX - 17;
/// `what` of a message that its core lets go at `start` and has through alone at `end` ([`super::cores`]).
pub(super) const CORE: u32 = u32::MAX - 18;
/// `what` of a core that moves data itself.
pub(super) const HELD: u32 = u32::MAX - 20;
/// `what` of operands of a tile kernel that are preloaded.
pub(super) const PRELOAD: u32 = u32::MAX - 21;
/// `what` of elements that PEs of a device send each other ([`super::inside`]).
pub(super) const FETCH: u32 = u32::MAX - 22;
/// `what` of a notify through memory.
pub(super) const NOTIFY: u32 = u32::MAX - 19;
/// Links have numbers below this (a complete machine of 65,536 devices has as many); a controller that a message comes from is
/// this plus its node, one that it goes to as many as there may be nodes further.
pub(super) const LINKS: u32 = u32::MAX - 65_535;

/// `what` of a controller.
pub(super) fn controller(node: DeviceId, access: Access) -> u32 {
    LINKS + node.0 + if access == Access::Write { MAX_NODES } else { 0 }
}

/// The controller that a `what` is, if it is one.
pub(super) fn controlled(what: u32) -> Option<(DeviceId, Access)> {
    match what.checked_sub(LINKS)? {
        n if n < MAX_NODES => Some((DeviceId(n), Access::Read)),
        n if n < 2 * MAX_NODES => Some((DeviceId(n - MAX_NODES), Access::Write)),
        _ => None,
    }
}

/// A step: it was possible from the end of the step before it on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// When it got what it needed: the link, the units.
    pub(super) start: Time,
    /// When it was over: its head at the next link, its tail at the receiver.
    pub(super) end: Time,
    /// How many records before this one the step before it is; 0 for none.
    pub(super) back: u32,
    /// Whose.
    pub(super) thread: u32,
    /// The operation, with [`MORE`].
    pub(super) op: u32,
    /// A link, a controller (then `end` is when it would be through alone), or one of the constants of this module.
    pub(super) what: u32,
}

/// A record by its number from 1, or none, as another rank sees it: moved by an element of the group of
/// [`kbc_checker::Orbits`], which is below 2^16 as ranks are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Last(u64);

const NUMBER: u32 = 48;

impl Last {
    /// Of a rank itself. There are no more than 2^48 records.
    pub(super) fn new(number: u64) -> Last {
        Last(number)
    }

    /// 0 for none.
    pub(super) fn number(self) -> u64 {
        self.0 & ((1 << NUMBER) - 1)
    }

    /// How far it is moved.
    pub(super) fn turn(self) -> u64 {
        self.0 >> NUMBER
    }

    /// The same record, moved so far.
    pub(super) fn turned(self, turn: u64) -> Last {
        Last(self.number() | turn << NUMBER)
    }
}

/// Records, numbered from 1. `0` stands for none.
#[derive(Debug)]
pub(super) struct Log {
    list: Vec<Record>,
    /// How far the step before each is moved; empty where nothing is.
    turns: Vec<u16>,
    kept: u64,
    /// Number of the first there ever was.
    first: u64,
    /// Number of the newest.
    newest: u64,
    /// Number of the oldest that may be looked up.
    oldest: u64,
}

impl Log {
    /// Keeps up to `kept` records, the first one with number `after + 1`; none at all with `kept` 0.
    pub(super) fn new(kept: u64, after: u64) -> Log {
        Log { list: vec![], turns: vec![], kept, first: after + 1, newest: after, oldest: after + 1 }
    }

    /// Adds the record with the next number; the step before it is moved by `turn`.
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

    /// The record with a number.
    pub(super) fn get(&self, number: u64) -> Option<&Record> {
        if number < self.oldest || number > self.newest {
            return None;
        }
        self.list.get(self.place(number))
    }

    /// How far the step before a record is moved.
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
