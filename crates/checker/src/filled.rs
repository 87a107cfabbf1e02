//! Filled memory: which elements of buffers and slots hold something, since which call, and by
//! which writer.
//!
//! The module owns the runs of elements of every memory of the walked ranks. [`super::engine`]
//! decides which region may read elements that another region wrote. Runs are kept apart from the
//! places of [`super::order`], because a place is a part of a line, and a local operation may fill
//! only some of its elements.

use kbc_ir::walk::Mem;
use std::collections::{BTreeMap, HashMap};

/// The writer of a run of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer {
    /// The call of the stream that wrote.
    pub call: u64,
    /// The region that wrote, or `HOST`, which is the host.
    pub region: u32,
}

/// The number that stands for the host where a region is expected.
pub(super) const HOST: u32 = u32::MAX;

/// Disjoint runs of elements: first element to (one past the last, writer).
#[derive(Default)]
pub struct Runs(BTreeMap<u64, (u64, Writer)>);

impl Runs {
    /// Fills the elements `lo..hi`.
    pub fn write(&mut self, lo: u64, hi: u64, by: Writer) {
        if self.0.get(&lo) == Some(&(hi, by)) {
            return;
        }
        // A run that begins before this one and reaches into it keeps its outer parts.
        if let Some((&start, &(end, was))) = self.0.range(..lo).next_back()
            && end > lo
        {
            self.0.insert(start, (lo, was));
            if end > hi {
                self.0.insert(hi, (end, was));
            }
        }
        let inside: Vec<u64> = self.0.range(lo..hi).map(|(start, _)| *start).collect();
        for start in inside {
            if let Some((end, was)) = self.0.remove(&start)
                && end > hi
            {
                self.0.insert(hi, (end, was));
            }
        }
        let (mut lo, mut hi) = (lo, hi);
        if let Some((&start, &(end, was))) = self.0.range(..lo).next_back()
            && end == lo
            && was == by
        {
            lo = start;
        }
        if let Some(&(end, was)) = self.0.get(&hi)
            && was == by
        {
            self.0.remove(&hi);
            hi = end;
        }
        self.0.insert(lo, (hi, by));
    }

    /// Empties the elements `lo..hi`.
    pub fn clear(&mut self, lo: u64, hi: u64) {
        self.write(lo, hi, Writer { call: u64::MAX, region: HOST });
        // A run merges only with a run of the same writer, and no emptied run is ever left in the
        // map, so this one still begins at `lo`.
        self.0.remove(&lo);
    }

    /// Returns the runs of `lo..hi` in order. Elements that nothing has filled have no writer.
    pub fn of(&self, lo: u64, hi: u64) -> Vec<(u64, u64, Option<Writer>)> {
        let mut out = vec![];
        let mut at = lo;
        let before = self.0.range(..=lo).next_back().filter(|(_, (end, _))| *end > lo);
        let first = before.map_or(lo, |(start, _)| *start);
        for (&start, &(end, by)) in self.0.range(first..hi) {
            if start > at {
                out.push((at, start, None));
            }
            at = end.min(hi);
            out.push((start.max(lo), at, Some(by)));
        }
        if at < hi {
            out.push((at, hi, None));
        }
        out
    }
}

impl Writer {
    /// Returns the position of the writer in the text. The host comes before all regions.
    fn stands(self) -> Option<u32> {
        (self.region != HOST).then_some(self.region)
    }

    /// Whether the writer is the host or a region that stands no later than `region`.
    pub(super) fn up_to(self, region: u32) -> bool {
        self.stands() <= Some(region)
    }
}

/// One memory of a walked rank.
#[derive(Default)]
struct Memory {
    /// The last writer of each element.
    last: Runs,
    /// Of all writers of an element in the last call that wrote it, the one that stands first in
    /// the text.
    first: Runs,
}

/// All memories of the walked ranks.
#[derive(Default)]
pub(super) struct Filled {
    memories: HashMap<(usize, Mem), Memory>,
}

impl Filled {
    /// Marks the elements `lo..hi` as written.
    pub(super) fn write(&mut self, rep: usize, mem: Mem, (lo, hi): (u64, u64), by: Writer) {
        if lo < hi {
            let memory = self.memories.entry((rep, mem)).or_default();
            memory.last.write(lo, hi, by);
            for (lo, hi, was) in memory.first.of(lo, hi) {
                if was.is_none_or(|was| was.call < by.call || by.stands() < was.stands()) {
                    memory.first.write(lo, hi, by);
                }
            }
        }
    }

    /// Returns the last writers of the elements `lo..hi`, run by run.
    pub(super) fn of(&self, rep: usize, mem: Mem, run: (u64, u64)) -> Vec<(u64, u64, Option<Writer>)> {
        self.runs(rep, mem, run, |m| &m.last)
    }

    /// Returns, run by run, the writer that stands first in the text among all that wrote the
    /// elements `lo..hi` in the last call that did.
    pub(super) fn first(&self, rep: usize, mem: Mem, run: (u64, u64)) -> Vec<(u64, u64, Option<Writer>)> {
        self.runs(rep, mem, run, |m| &m.first)
    }

    fn runs(
        &self,
        rep: usize,
        mem: Mem,
        (lo, hi): (u64, u64),
        which: impl Fn(&Memory) -> &Runs,
    ) -> Vec<(u64, u64, Option<Writer>)> {
        if lo >= hi {
            return vec![];
        }
        match self.memories.get(&(rep, mem)) {
            Some(memory) => which(memory).of(lo, hi),
            None => vec![(lo, hi, None)],
        }
    }

    /// Empties the elements `lo..hi`.
    pub(super) fn clear(&mut self, rep: usize, mem: Mem, (lo, hi): (u64, u64)) {
        if lo < hi
            && let Some(memory) = self.memories.get_mut(&(rep, mem))
        {
            memory.last.clear(lo, hi);
            memory.first.clear(lo, hi);
        }
    }

    /// Empties a memory because another memory at the same addresses was written.
    pub(super) fn clear_aliased(&mut self, rep: usize, mem: Mem) {
        self.memories.remove(&(rep, mem));
    }
}
