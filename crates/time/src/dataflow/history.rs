//! History: the steps of every thread in order, for the critical path. Repetitions are kept once.

use super::Unfit;
use super::room::Room;
use crate::clock::Time;
use crate::log::Record;
use std::collections::HashMap;

/// A record: a thread and the number of the record in its history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordId {
    pub(super) thread: u32,
    pub(super) number: u32,
}

impl RecordId {
    /// No record.
    pub(super) const NONE: RecordId = RecordId { thread: u32::MAX, number: 0 };
}

/// A step, which became possible with the end of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    cause: RecordId,
    op: u32,
    what: u32,
    /// Index of its wait and its duration in [`Intervals::list`].
    times: u32,
}

/// A step as it is added: its operation with the flag `MORE`, what it is, the time from the end of
/// its cause to its start, and its duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewEntry {
    pub(super) op: u32,
    pub(super) what: u32,
    pub(super) wait: Time,
    pub(super) takes: Time,
}

/// Some steps, the last ones when this was added, that come `times` more times.
#[derive(Clone, Debug)]
struct Repetition {
    /// Number of the first record of the repetitions.
    first: u32,
    times: u32,
    /// Index of the first of the steps in [`ThreadHistory::entries`].
    entry: u32,
    /// For each step: by how much the number of its cause grows with each repetition.
    steps: Box<[u32]>,
}

impl Repetition {
    /// Returns the number of the first record behind it.
    fn end(&self) -> u32 {
        self.first + self.times * self.steps.len() as u32
    }
}

#[derive(Clone, Debug, Default)]
struct ThreadHistory {
    entries: Vec<Entry>,
    repetitions: Vec<Repetition>,
    /// Number of records.
    count: u32,
}

/// Pairs of times, each with a number.
#[derive(Debug)]
struct Intervals {
    list: Vec<(Time, Time)>,
    /// Used for lookups only and never iterated.
    numbers: HashMap<(Time, Time), u32>,
    /// Recent pairs with their numbers, by hash.
    recent: Vec<((Time, Time), u32)>,
}

const RECENT: usize = 256;

impl Intervals {
    fn new() -> Intervals {
        Intervals { list: vec![], numbers: HashMap::new(), recent: vec![((Time::MAX, Time::MAX), 0); RECENT] }
    }

    fn number(&mut self, pair: (Time, Time), room: &mut Room) -> Result<u32, Unfit> {
        let place = (pair.0 + pair.1.times(3)).hash(RECENT);
        if self.recent[place].0 == pair {
            return Ok(self.recent[place].1);
        }
        let number = match self.numbers.get(&pair) {
            Some(number) => *number,
            None => {
                room.take(2 * size_of::<((Time, Time), u32)>())?;
                let number = u32::try_from(self.list.len()).map_err(|_| Unfit)?;
                self.list.push(pair);
                self.numbers.insert(pair, number);
                number
            }
        };
        self.recent[place] = (pair, number);
        Ok(number)
    }
}

/// The steps of all threads.
#[derive(Debug)]
pub(super) struct History {
    threads: Vec<ThreadHistory>,
    intervals: Intervals,
}

impl History {
    /// Returns the history of so many threads. Without threads it keeps nothing.
    pub(super) fn new(threads: usize) -> History {
        History { threads: vec![ThreadHistory::default(); threads], intervals: Intervals::new() }
    }

    /// Returns the number of records of a thread.
    pub(super) fn count(&self, thread: u32) -> u32 {
        self.threads.get(thread as usize).map_or(0, |t| t.count)
    }

    /// Adds a step of a thread.
    pub(super) fn push(
        &mut self,
        thread: u32,
        cause: RecordId,
        new: NewEntry,
        room: &mut Room,
    ) -> Result<RecordId, Unfit> {
        let Some(own) = self.threads.get_mut(thread as usize) else { return Ok(RecordId::NONE) };
        let times = self.intervals.number((new.wait, new.takes), room)?;
        room.take(size_of::<Entry>())?;
        let number = own.count;
        own.count = number.checked_add(1).ok_or(Unfit)?;
        own.entries.push(Entry { cause, op: new.op, what: new.what, times });
        Ok(RecordId { thread, number })
    }

    /// Returns the causes of the last `length` steps of a thread.
    pub(super) fn causes(&self, thread: u32, length: u32) -> impl Iterator<Item = RecordId> {
        let entries = self.threads.get(thread as usize).map_or(&[][..], |t| &t.entries[..]);
        entries[entries.len().saturating_sub(length as usize)..].iter().map(|e| e.cause)
    }

    /// Repeats the last steps of a thread so many times. There is a growth of the number of the
    /// cause for each of them. They were added one by one, behind any earlier repetition.
    pub(super) fn repeat(&mut self, thread: u32, times: u32, steps: Box<[u32]>) {
        let Some(own) = self.threads.get_mut(thread as usize).filter(|_| !steps.is_empty()) else { return };
        let entry = (own.entries.len() - steps.len()) as u32;
        let repetition = Repetition { first: own.count, times, entry, steps };
        own.count = repetition.end();
        own.repetitions.push(repetition);
    }

    fn get(&self, id: RecordId) -> Entry {
        let own = &self.threads[id.thread as usize];
        let before = own.repetitions.partition_point(|r| r.first <= id.number);
        let Some(repetition) = before.checked_sub(1).map(|i| &own.repetitions[i]) else {
            return own.entries[id.number as usize];
        };
        let length = repetition.steps.len() as u32;
        if id.number >= repetition.end() {
            return own.entries[(repetition.entry + length + (id.number - repetition.end())) as usize];
        }
        let (turn, step) = ((id.number - repetition.first) / length, (id.number - repetition.first) % length);
        let mut entry = own.entries[(repetition.entry + step) as usize];
        entry.cause.number += (turn + 1) * repetition.steps[step as usize];
        entry
    }

    /// Returns the number of records, and how many of them were added one by one.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (u64, u64) {
        let all = self.threads.iter().map(|t| u64::from(t.count)).sum();
        (all, self.threads.iter().map(|t| t.entries.len() as u64).sum())
    }

    /// Returns the steps that lead to a record, first one first.
    pub(super) fn chain(&self, last: RecordId) -> Vec<Record> {
        let (mut found, mut at) = (vec![], last);
        while at != RecordId::NONE {
            let entry = self.get(at);
            found.push((at.thread, entry));
            at = entry.cause;
        }
        let mut before = Time::ZERO;
        let mut out = Vec::with_capacity(found.len());
        for (thread, Entry { op, what, times, .. }) in found.into_iter().rev() {
            let (wait, takes) = self.intervals.list[times as usize];
            let start = before + wait;
            before = start + takes;
            out.push(Record { start, end: before, back: 0, thread, op, what });
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_like_single_steps() {
        // Thread 1 has three steps in each turn. The first is caused by a record of thread 0, whose
        // numbers grow by 2, the others by the step before.
        let turns = 40;
        let step = |turn: u32, i: u32| NewEntry {
            op: i,
            what: if turn < 3 { turn } else { 7 },
            wait: Time::ZERO,
            takes: Time::from_ns(f64::from(i + 1)),
        };
        let mut room = Room::new(1 << 20);
        let cause = |turn: u32, i: u32| match i {
            0 => RecordId { thread: 0, number: 2 * turn },
            i => RecordId { thread: 1, number: 3 * turn + i - 1 },
        };
        let build = |skips: &[(u32, u32)], room: &mut Room| {
            let mut history = History::new(2);
            let mut turn = 0;
            while turn < turns {
                for i in 0..3 {
                    history.push(1, cause(turn, i), step(turn, i), room).unwrap();
                }
                turn += 1;
                if let Some((_, times)) = skips.iter().find(|s| s.0 == turn) {
                    history.repeat(1, *times, Box::new([2, 3, 3]));
                    turn += times;
                }
            }
            history
        };
        let all = build(&[], &mut room);
        let some = build(&[(5, 10), (16, 1), (20, 20)], &mut room);
        assert_eq!(all.count(1), 3 * turns);
        assert_eq!(some.count(1), 3 * turns);
        assert!(some.threads[1].entries.len() < 40);
        for number in 0..3 * turns {
            let id = RecordId { thread: 1, number };
            assert_eq!(some.get(id), all.get(id), "{number}");
        }
    }
}
