//! One memory of one rank as different readers see it.
//!
//! A write that a reader is not entitled to see yet is a *veil*: beside the new elements the place
//! keeps the old ones, and that reader gets one or the other at random. The module owns elements
//! and veils. [`super::world`] decides who has acquired what.

use crate::host::EarlyWrites;
use crate::store::{Cells, Ranges};
use kbc_numerics::rng::Rng;
use kbc_numerics::tensor::Data;

/// Maximum number of writes that a place remembers. Older ones are treated as visible to every
/// reader.
const REMEMBERED: usize = 64;

/// The writer, and the number of the writer's release that covers the write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    /// The rank.
    pub(super) rank: u64,
    /// Its thread.
    pub(super) thread: usize,
    /// The release, counted from 1.
    pub(super) release: u64,
}

/// A write that not every reader must see, and the old elements.
struct UnseenWrite {
    start: u64,
    old: Data,
    /// The old elements that held something.
    held: Ranges,
    writer: Writer,
}

impl UnseenWrite {
    fn end(&self) -> u64 {
        self.start + self.old.len() as u64
    }

    /// Returns its part inside `lo .. hi`, if any.
    fn part(&self, lo: u64, hi: u64) -> Option<UnseenWrite> {
        let (lo, hi) = (lo.max(self.start), hi.min(self.end()));
        (lo < hi).then(|| UnseenWrite {
            start: lo,
            old: self.old.slice((lo - self.start) as usize, (hi - lo) as usize),
            held: self.held.window(lo - self.start, hi - lo),
            writer: self.writer,
        })
    }
}

/// A memory of a rank.
pub(super) struct RankMemory {
    cells: Cells,
    veils: Vec<UnseenWrite>,
    pub(super) early: EarlyWrites,
    /// Whether peers `get` from it. If so, the rank's own writes are also veiled for them.
    remote_readers: bool,
}

impl RankMemory {
    /// Creates a place that holds these elements.
    pub(super) fn new(cells: Cells, remote_readers: bool) -> RankMemory {
        RankMemory { cells, veils: vec![], early: EarlyWrites::default(), remote_readers }
    }

    /// Returns what a reader sees, or the first element that holds nothing for it. `fresh` states
    /// which writes it must see. Of the others it sees the new or the old elements: all, none, or
    /// each at random.
    pub(super) fn read(
        &self,
        start: u64,
        len: u64,
        fresh: impl Fn(&Writer) -> bool,
        rng: &mut Rng,
    ) -> Result<Data, u64> {
        let end = start + len;
        let covers = |v: &&UnseenWrite| v.start < end && v.end() > start;
        if !self.veils.iter().filter(covers).any(|v| !fresh(&v.writer)) {
            return self.cells.read(start, len);
        }
        let (mut data, held) = self.cells.peek(start, len);
        let mut holds: Vec<bool> = (0..len).map(|i| held.contains(i)).collect();
        // Elements for which no newer write has been chosen yet.
        let mut open = vec![true; len as usize];
        for v in self.veils.iter().rev().filter(covers) {
            let (lo, hi) = (v.start.max(start), v.end().min(end));
            if fresh(&v.writer) {
                open[(lo - start) as usize..(hi - start) as usize].fill(false);
                continue;
            }
            let mode = rng.below(3);
            for i in lo..hi {
                let (at, from) = ((i - start) as usize, (i - v.start) as usize);
                if !open[at] {
                    continue;
                }
                if mode == 0 || (mode == 1 && rng.one_in(2)) {
                    let same_type = data.copy_from(at, &v.old, from, 1);
                    debug_assert!(same_type, "a place has one type");
                    holds[at] = v.held.contains(from as u64);
                } else {
                    open[at] = false;
                }
            }
        }
        match holds.iter().position(|h| !h) {
            Some(i) => Err(start + i as u64),
            None => Ok(data),
        }
    }

    /// Performs a write by the rank itself, which the rank sees at once.
    pub(super) fn write(&mut self, start: u64, data: &Data, writer: Writer) {
        if self.remote_readers {
            self.veil(start, data, writer);
        } else {
            self.lift(start, start + data.len() as u64, self.veils.len());
        }
        let same_type = self.cells.write(start, data);
        debug_assert!(same_type, "types were compared before");
    }

    /// Performs a peer's write that lands.
    pub(super) fn land(&mut self, start: u64, data: &Data, writer: Writer) {
        self.veil(start, data, writer);
        let same_type = self.cells.write(start, data);
        debug_assert!(same_type, "types were compared before");
    }

    fn veil(&mut self, start: u64, data: &Data, writer: Writer) {
        if data.is_empty() {
            return;
        }
        if self.veils.len() == REMEMBERED {
            self.veils.remove(0);
        }
        let (old, held) = self.cells.peek(start, data.len() as u64);
        self.veils.push(UnseenWrite { start, old, held, writer });
    }

    /// Removes the veils among the first `upto` over some elements: no reader sees what is under
    /// them any more.
    fn lift(&mut self, lo: u64, hi: u64, upto: usize) {
        let newer = self.veils.split_off(upto);
        let older = std::mem::take(&mut self.veils);
        for v in older {
            self.veils.extend(v.part(0, lo));
            self.veils.extend(v.part(hi, u64::MAX));
        }
        self.veils.extend(newer);
    }

    /// Handles an acquire of the rank: writes that all its streams must see now lose their veils.
    /// Where peers read, veils stay, because a peer must be notified of a write by its writer,
    /// whatever the rank between them knows.
    pub(super) fn acquired(&mut self, seen_by_all: impl Fn(&Writer) -> bool) {
        if self.remote_readers {
            return;
        }
        let mut i = 0;
        while i < self.veils.len() {
            if !seen_by_all(&self.veils[i].writer) {
                i += 1;
                continue;
            }
            let (lo, hi) = (self.veils[i].start, self.veils[i].end());
            let before = self.veils.len();
            self.lift(lo, hi, i + 1);
            // `lift` may have cut older veils into pieces, which shifts the veils after them.
            i = (i + 1 + self.veils.len()).saturating_sub(before);
        }
    }

    /// Whether it has no veil.
    pub(super) fn is_clear(&self) -> bool {
        self.veils.is_empty()
    }

    /// Begins a call on the rank: everything except what was written for that call is forgotten.
    pub(super) fn begin_call(&mut self, call: i64) {
        let kept = self.early.begin(call);
        self.veils.retain_mut(|v| {
            v.held = Ranges::default();
            (v.start..v.end()).any(|i| kept.contains(i))
        });
        self.cells.keep_only(kept);
    }
}
