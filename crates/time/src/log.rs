//! Log of the steps that led to each event, for the critical path. It has a limited size and keeps
//! the newest records.

use super::clock::Time;
use super::controllers::Access;
use kbc_machine::topology::{DeviceId, MAX_NODES};
use std::collections::{HashMap, VecDeque};

/// Number of records that are kept at least. The log has room for so many records that all have
/// times of their own: 1.1 GiB. That is room for 3.4 times as many where no record has.
pub(super) const KEPT: u64 = 1 << 24;
/// Bytes of such a log for each record.
pub(super) const RECORD_BYTES: u64 = 4 * (WORDS + EXCEPTION_WORDS);

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
#[derive(Clone, Copy, PartialEq, Debug)]
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

/// A record in the log. Durations are few, so it has the number of its duration. Most steps begin
/// when the step before them ends; [`Chunk`] has the times of the others.
#[derive(Clone, Copy, Debug)]
struct Packed {
    back: u32,
    thread: u32,
    op: u32,
    what: u32,
    /// Index in [`Durations::list`], or [`OTHER`].
    duration: u16,
    /// Whether its start is in [`Chunk::starts`].
    waited: bool,
}

/// The duration of a step whose start and end are in [`Chunk::exceptions`].
const OTHER: u16 = u16::MAX;

/// 4-byte words of a record, of the start of a step that waited, and of the times of an exception.
const WORDS: u64 = 5;
const START_WORDS: u64 = 5;
const EXCEPTION_WORDS: u64 = 12;

/// Consecutive records.
#[derive(Debug, Default)]
struct Chunk {
    list: Vec<Packed>,
    /// Indices in `list`, ascending, of the steps that do not begin when the step before them ends,
    /// for example because a link is busy; and when they begin.
    waited: Vec<u32>,
    starts: Vec<Time>,
    /// Start and end of the steps whose duration has no number, by ascending index in `list`.
    exceptions: Vec<(u32, Time, Time)>,
    /// The elements by which the steps before are moved. Empty if none is moved.
    turns: Vec<u16>,
}

impl Chunk {
    fn words(&self) -> u64 {
        let (starts, exceptions) = (self.starts.len() as u64, self.exceptions.len() as u64);
        self.list.len() as u64 * WORDS + starts * START_WORDS + exceptions * EXCEPTION_WORDS
    }

    /// Makes room for as many records as another chunk has, with the same kinds of times.
    fn reserve_as(&mut self, other: &Chunk) {
        self.list.reserve(other.list.len());
        self.waited.reserve(other.waited.len());
        self.starts.reserve(other.starts.len());
        self.exceptions.reserve(other.exceptions.len());
        self.turns.reserve(other.turns.len());
    }
}

/// The durations of steps, each with a number below [`OTHER`].
#[derive(Debug)]
struct Durations {
    list: Vec<Time>,
    numbers: HashMap<Time, u16>,
    /// The last durations with their numbers, by hash.
    recent: Vec<(Time, u16)>,
}

/// Number of durations that are found without the table.
const RECENT: usize = 256;

impl Durations {
    fn new() -> Durations {
        Durations { list: vec![], numbers: HashMap::new(), recent: vec![(Time::MAX, OTHER); RECENT] }
    }

    /// Returns the number of a duration, or [`OTHER`] if there are too many.
    fn number(&mut self, duration: Time) -> u16 {
        let place = duration.hash(RECENT);
        if self.recent[place].0 == duration {
            return self.recent[place].1;
        }
        let number = match self.numbers.get(&duration) {
            Some(number) => *number,
            None if self.list.len() < usize::from(OTHER) => {
                self.list.push(duration);
                let number = (self.list.len() - 1) as u16;
                self.numbers.insert(duration, number);
                number
            }
            None => OTHER,
        };
        self.recent[place] = (duration, number);
        number
    }
}

/// What is known of the times of a record.
#[derive(Clone, Copy, Debug)]
enum Times {
    /// How long it takes. It begins when the step before it ends.
    Takes(Time),
    /// When it begins, and how long it takes.
    Waited(Time, Time),
    /// When it begins and ends.
    Other(Time, Time),
}

/// A record that was found in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptRecord {
    record: Packed,
    times: Times,
    /// The element by which the step before it is moved.
    pub(super) turn: u64,
}

impl KeptRecord {
    /// Returns the distance to the record of the step before it, as in [`Record::back`].
    pub(super) fn back(&self) -> u32 {
        self.record.back
    }

    /// Returns the record, given the end of the step before it.
    pub(super) fn after(&self, before: Time) -> Record {
        let Packed { back, thread, op, what, .. } = self.record;
        let (start, end) = match self.times {
            Times::Takes(takes) => (before, before + takes),
            Times::Waited(start, takes) => (start, start + takes),
            Times::Other(start, end) => (start, end),
        };
        Record { start, end, back, thread, op, what }
    }
}

/// The newest records. Numbers start at 1, and 0 stands for none.
#[derive(Debug)]
pub(super) struct Log {
    chunks: VecDeque<Chunk>,
    durations: Durations,
    /// Ends of the newest records, by number modulo the length.
    ends: Vec<Time>,
    /// Number of records in a full chunk.
    size: u64,
    /// Words that are kept at least, if there are so many.
    words: u64,
    /// Words of the chunks but the last one.
    full: u64,
    /// Number of the first record ever added.
    first: u64,
    /// Number of the newest record.
    newest: u64,
    /// Number of the oldest record that is kept.
    oldest: u64,
}

impl Log {
    /// Returns a log that keeps at least the newest `kept` records, of a run of so many threads.
    /// The first record has number `after + 1`. With `kept` 0 it keeps none.
    pub(super) fn new(kept: u64, after: u64, threads: usize) -> Log {
        // A step and the step before it usually have fewer records between them.
        let ends = (4 * threads).next_power_of_two().clamp(1 << 10, 1 << 20);
        Log {
            chunks: VecDeque::new(),
            durations: Durations::new(),
            ends: if kept > 0 { vec![Time::ZERO; ends] } else { vec![] },
            size: (kept / 8).clamp(1, 1 << 18),
            words: kept * (WORDS + EXCEPTION_WORDS),
            full: 0,
            first: after + 1,
            newest: after,
            oldest: after + 1,
        }
    }

    /// Adds the record with the next number. The step before it is moved by `turn`.
    pub(super) fn push(&mut self, number: u64, record: Record, turn: u64) {
        debug_assert_eq!(number, self.newest + 1, "records come one after another");
        self.newest = number;
        if self.words == 0 {
            self.oldest = number + 1;
            return;
        }
        if (number - self.first).is_multiple_of(self.size) {
            self.next_chunk();
        }
        let mask = self.ends.len() as u64 - 1;
        let (before, back) = (number.wrapping_sub(record.back.into()), u64::from(record.back));
        let follows = match record.back {
            0 => record.start == Time::ZERO,
            _ => back <= mask && before >= self.first && self.ends[(before & mask) as usize] == record.start,
        };
        self.ends[(number & mask) as usize] = record.end;
        let Record { start, end, back, thread, op, what } = record;
        // No step ends before it begins today; if one did, it would have no duration.
        let duration = if start <= end { self.durations.number(end.since(start)) } else { OTHER };
        let waited = !follows && duration != OTHER;
        let Some(chunk) = self.chunks.back_mut() else { return };
        if duration == OTHER {
            chunk.exceptions.push((chunk.list.len() as u32, start, end));
        } else if waited {
            chunk.waited.push(chunk.list.len() as u32);
            chunk.starts.push(start);
        }
        if turn > 0 || !chunk.turns.is_empty() {
            chunk.turns.resize(chunk.list.len(), 0);
            chunk.turns.push(turn as u16);
        }
        chunk.list.push(Packed { back, thread, op, what, duration, waited });
    }

    #[inline(never)]
    fn next_chunk(&mut self) {
        self.full += self.chunks.back().map_or(0, Chunk::words);
        let mut chunk = Chunk::default();
        while let Some(first) = self.chunks.front()
            && self.full - first.words() >= self.words
        {
            self.full -= first.words();
            self.oldest += first.list.len() as u64;
            // Its memory serves the new chunk.
            chunk = self.chunks.pop_front().unwrap_or_default();
        }
        chunk.list.clear();
        chunk.waited.clear();
        chunk.starts.clear();
        chunk.exceptions.clear();
        chunk.turns.clear();
        if let Some(before) = self.chunks.back() {
            chunk.reserve_as(before);
        }
        self.chunks.push_back(chunk);
    }

    /// Returns the record with a number, if it is kept.
    pub(super) fn get(&self, number: u64) -> Option<KeptRecord> {
        if number < self.oldest || number > self.newest {
            return None;
        }
        let (chunk, place) = ((number - self.oldest) / self.size, (number - self.oldest) % self.size);
        let chunk = self.chunks.get(chunk as usize)?;
        let record = *chunk.list.get(place as usize)?;
        let times = match record.duration {
            OTHER => {
                let at = chunk.exceptions.binary_search_by_key(&(place as u32), |e| e.0).ok()?;
                let (_, start, end) = chunk.exceptions[at];
                Times::Other(start, end)
            }
            number => {
                let takes = self.durations.list[usize::from(number)];
                match record.waited {
                    true => {
                        Times::Waited(chunk.starts[chunk.waited.binary_search(&(place as u32)).ok()?], takes)
                    }
                    false => Times::Takes(takes),
                }
            }
        };
        let turn = chunk.turns.get(place as usize).copied().unwrap_or(0).into();
        Some(KeptRecord { record, times, turn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records with every kind of times: those that follow, waits, ends before the start, and more
    /// durations than have numbers.
    fn record(number: u64, after: u64, ends: &[Time]) -> Record {
        let steps = [1, 1, 2, 900, 5000];
        let back = steps[number as usize % 5].min(number - after - 1);
        let end = |n: u64| if n == after { Time::ZERO } else { ends[(n - after - 1) as usize] };
        let mut start = end(number - if back == 0 { number - after } else { back });
        if number.is_multiple_of(7) {
            start = start + Time::from_ns(number as f64);
        }
        let takes = if number < 140_000 { number as f64 / 2.0 } else { (number % 3) as f64 };
        let (thread, op, what) = (number as u32, number as u32 % 9, FENCE);
        let end = match number.is_multiple_of(101) {
            true => start.since(Time::from_ns(1.0)),
            false => start + Time::from_ns(takes),
        };
        Record { start, end, back: back as u32, thread, op, what }
    }

    #[test]
    fn keeps_the_newest() {
        for (kept, after, many) in
            [(4, 0, 3), (4, 0, 111), (4, 7, 111), (1, 3, 2), (0, 0, 5), (300, 5, 9000), (1 << 18, 0, 150_000)]
        {
            let mut log = Log::new(kept, after, 1);
            let mut all = vec![];
            let mut ends = vec![];
            for number in after + 1..=after + many {
                let r = record(number, after, &ends);
                log.push(number, r, if number > 50 { number % 3 } else { 0 });
                ends.push(r.end);
                all.push(r);
            }
            for number in 0..after + many + 3 {
                let found = log.get(number);
                assert!(number > after && number <= after + many || found.is_none());
                if number > after && number + kept > after + many && number <= after + many {
                    assert!(found.is_some(), "{kept} {after} {many} {number}");
                }
                let Some(found) = found else { continue };
                let want = all[(number - after - 1) as usize];
                let back = u64::from(want.back);
                let before = if back == 0 { Time::ZERO } else { ends[(number - after - 1 - back) as usize] };
                assert_eq!(found.after(before), want, "{kept} {after} {many} {number}");
                assert_eq!(found.turn, if number > 50 { number % 3 } else { 0 });
            }
            let kept_words: u64 = log.chunks.iter().map(Chunk::words).sum();
            assert!(kept_words <= (kept + 2 * log.size) * (WORDS + EXCEPTION_WORDS), "{kept_words}");
        }
    }
}
