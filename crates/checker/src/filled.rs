//! Filled memory: which elements of buffers and slots hold something, since which call, and by
//! which writer.
//!
//! The module owns the runs of elements of every memory of the walked ranks. [`super::engine`]
//! decides which region may read elements that another region wrote. Runs are kept apart from the
//! places of [`super::order`], because a place is a part of a line, and a local operation may fill
//! only some of its elements.

use super::grid::Grids;
use super::sparse::Sparse;
use kbc_ir::walk::Mem;
use std::collections::BTreeMap;

/// The writer of a run of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer {
    /// The call of the stream that wrote.
    pub call: u32,
    /// The region that wrote, or `HOST`, which is the host.
    pub region: u32,
}

/// The number that stands for the host where a region is expected.
pub(super) const HOST: u32 = u32::MAX;

/// Disjoint runs of elements of one memory, each with its writer.
///
/// A slot usually holds one run, and there may be a slot for every message of every rank, so a
/// single run has a form without a tree.
#[derive(Default)]
pub enum Runs {
    /// No element is filled.
    #[default]
    None,
    /// One run: first element, one past the last, writer.
    One(u64, u64, Writer),
    /// First element to (one past the last, writer).
    Many(BTreeMap<u64, (u64, Writer)>),
}

impl Runs {
    /// Fills the elements `lo..hi`.
    pub fn write(&mut self, lo: u64, hi: u64, by: Writer) {
        match *self {
            Runs::None => *self = Runs::One(lo, hi, by),
            Runs::One(start, end, _) if lo <= start && end <= hi => *self = Runs::One(lo, hi, by),
            Runs::One(start, end, was) if was == by && lo <= end && start <= hi => {
                *self = Runs::One(start.min(lo), end.max(hi), by);
            }
            Runs::One(..) | Runs::Many(_) => write(self.tree(), lo, hi, by),
        }
    }

    /// Empties the elements `lo..hi`.
    pub fn clear(&mut self, lo: u64, hi: u64) {
        match *self {
            Runs::None => {}
            Runs::One(start, end, _) if lo <= start && end <= hi => *self = Runs::None,
            Runs::One(..) | Runs::Many(_) => {
                let tree = self.tree();
                write(tree, lo, hi, Writer { call: u32::MAX, region: HOST });
                // A run merges only with a run of the same writer, and no emptied run is ever left
                // in the map, so this one still begins at `lo`.
                tree.remove(&lo);
            }
        }
    }

    /// Changes to the form of a tree.
    fn tree(&mut self) -> &mut BTreeMap<u64, (u64, Writer)> {
        *self = match std::mem::take(self) {
            Runs::None => Runs::Many(BTreeMap::new()),
            Runs::One(start, end, by) => Runs::Many(BTreeMap::from([(start, (end, by))])),
            Runs::Many(tree) => Runs::Many(tree),
        };
        match self {
            Runs::Many(tree) => tree,
            Runs::None | Runs::One(..) => unreachable!("it has just become a tree"),
        }
    }

    /// Returns the runs of `lo..hi` in order. Elements that nothing has filled have no writer.
    pub fn of(&self, lo: u64, hi: u64) -> Vec<(u64, u64, Option<Writer>)> {
        let mut out = vec![];
        let mut at = lo;
        let mut push = |start: u64, end: u64, by: Writer| {
            if start > at {
                out.push((at, start, None));
            }
            at = end.min(hi);
            out.push((start.max(lo), at, Some(by)));
        };
        match self {
            Runs::None => {}
            Runs::One(start, end, by) => {
                if *start < hi && lo < *end {
                    push(*start, *end, *by);
                }
            }
            Runs::Many(tree) => {
                let before = tree.range(..=lo).next_back().filter(|(_, (end, _))| *end > lo);
                let first = before.map_or(lo, |(start, _)| *start);
                tree.range(first..hi).for_each(|(&start, &(end, by))| push(start, end, by));
            }
        }
        if at < hi {
            out.push((at, hi, None));
        }
        out
    }
}

/// Fills the elements `lo..hi` of a tree of runs.
fn write(tree: &mut BTreeMap<u64, (u64, Writer)>, lo: u64, hi: u64, by: Writer) {
    if tree.get(&lo) == Some(&(hi, by)) {
        return;
    }
    // A run that begins before this one and reaches into it keeps its outer parts.
    if let Some((&start, &(end, was))) = tree.range(..lo).next_back()
        && end > lo
    {
        tree.insert(start, (lo, was));
        if end > hi {
            tree.insert(hi, (end, was));
        }
    }
    let inside: Vec<u64> = tree.range(lo..hi).map(|(start, _)| *start).collect();
    for start in inside {
        if let Some((end, was)) = tree.remove(&start)
            && end > hi
        {
            tree.insert(hi, (end, was));
        }
    }
    let (mut lo, mut hi) = (lo, hi);
    if let Some((&start, &(end, was))) = tree.range(..lo).next_back()
        && end == lo
        && was == by
    {
        lo = start;
    }
    if let Some(&(end, was)) = tree.get(&hi)
        && was == by
    {
        tree.remove(&hi);
        hi = end;
    }
    tree.insert(lo, (hi, by));
}

impl Writer {
    /// Creates the writer in a call, of which there are at most a thousand.
    pub(super) fn new(call: u64, region: u32) -> Writer {
        Writer { call: call as u32, region }
    }

    /// Returns the call.
    pub(super) fn call(self) -> u64 {
        self.call.into()
    }

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
pub enum Memory {
    /// Nothing is filled.
    #[default]
    Empty,
    /// One run, which one writer has filled: first element, one past the last, writer. Most slots
    /// hold one.
    One(u64, u64, Writer),
    /// Any runs.
    Many(Box<Writers>),
}

/// The writers of the elements of a memory.
#[derive(Default)]
pub struct Writers {
    /// The last writer of each element.
    last: Runs,
    /// Of all writers of an element in the last call that wrote it, the one that stands first in
    /// the text.
    first: Runs,
}

impl Memory {
    /// Fills the elements `lo..hi`.
    pub fn write(&mut self, lo: u64, hi: u64, by: Writer) {
        match self {
            Memory::Empty => *self = Memory::One(lo, hi, by),
            Memory::One(start, end, was) if (*start, *end, *was) == (lo, hi, by) => {}
            Memory::One(start, end, was) if lo <= *start && *end <= hi && was.call < by.call => {
                *self = Memory::One(lo, hi, by);
            }
            Memory::One(..) | Memory::Many(_) => {
                let writers = self.writers();
                writers.last.write(lo, hi, by);
                for (lo, hi, was) in writers.first.of(lo, hi) {
                    if was.is_none_or(|was| was.call < by.call || by.stands() < was.stands()) {
                        writers.first.write(lo, hi, by);
                    }
                }
            }
        }
    }

    /// Empties the elements `lo..hi`.
    pub fn clear(&mut self, lo: u64, hi: u64) {
        match self {
            Memory::Empty => {}
            Memory::One(start, end, _) if lo <= *start && *end <= hi => *self = Memory::Empty,
            Memory::One(start, end, _) if hi <= *start || *end <= lo => {}
            Memory::One(..) | Memory::Many(_) => {
                let writers = self.writers();
                writers.last.clear(lo, hi);
                writers.first.clear(lo, hi);
            }
        }
    }

    /// Returns the last writers of the elements `lo..hi`, run by run.
    pub fn last(&self, lo: u64, hi: u64) -> Vec<(u64, u64, Option<Writer>)> {
        self.runs(lo, hi, |w| &w.last)
    }

    /// Returns, run by run, the writer that stands first in the text among all that wrote the
    /// elements `lo..hi` in the last call that did.
    pub fn first(&self, lo: u64, hi: u64) -> Vec<(u64, u64, Option<Writer>)> {
        self.runs(lo, hi, |w| &w.first)
    }

    fn runs(&self, lo: u64, hi: u64, which: impl Fn(&Writers) -> &Runs) -> Vec<(u64, u64, Option<Writer>)> {
        match self {
            Memory::Empty => vec![(lo, hi, None)],
            Memory::One(start, end, by) => Runs::One(*start, *end, *by).of(lo, hi),
            Memory::Many(writers) => which(writers).of(lo, hi),
        }
    }

    /// Changes to the form of any runs.
    fn writers(&mut self) -> &mut Writers {
        let run = || match *self {
            Memory::One(lo, hi, by) => Runs::One(lo, hi, by),
            Memory::Empty | Memory::Many(_) => Runs::None,
        };
        if !matches!(self, Memory::Many(_)) {
            *self = Memory::Many(Box::new(Writers { last: run(), first: run() }));
        }
        match self {
            Memory::Many(writers) => writers,
            Memory::Empty | Memory::One(..) => unreachable!("it has just become a list"),
        }
    }
}

/// All memories of the walked ranks.
pub(super) struct Filled {
    memories: Sparse<Memory>,
    /// Number of buffers of a rank.
    buffers: usize,
    /// For each window, the number of its first slot, counted over all memories of a rank.
    windows: Vec<usize>,
    /// Number of memories of a rank.
    width: usize,
}

impl Filled {
    /// Creates the memories of so many walked ranks. None of them holds anything.
    pub(super) fn new(buffers: usize, grids: &Grids, reps: usize) -> Filled {
        let width = buffers + grids.slot_count();
        Filled { memories: Sparse::new(width * reps), buffers, windows: grids.first_slots().to_vec(), width }
    }

    /// Returns the number of a memory.
    fn number(&self, rep: usize, mem: Mem) -> usize {
        let own = match mem {
            Mem::Buffer(b) => b as usize,
            Mem::Slot(w, s) => self.buffers + self.windows[w as usize] + s as usize,
        };
        rep * self.width + own
    }

    /// Marks the elements `lo..hi` as written.
    pub(super) fn write(&mut self, rep: usize, mem: Mem, (lo, hi): (u64, u64), by: Writer) {
        if lo < hi {
            let number = self.number(rep, mem);
            self.memories.entry(number, Memory::default).write(lo, hi, by);
        }
    }

    /// Returns the last writers of the elements `lo..hi`, run by run.
    pub(super) fn of(&self, rep: usize, mem: Mem, (lo, hi): (u64, u64)) -> Vec<(u64, u64, Option<Writer>)> {
        self.memory(rep, mem).filter(|_| lo < hi).map_or_else(|| nobody(lo, hi), |m| m.last(lo, hi))
    }

    /// Returns, run by run, the writer that stands first in the text among all that wrote the
    /// elements `lo..hi` in the last call that did.
    pub(super) fn first(
        &self,
        rep: usize,
        mem: Mem,
        (lo, hi): (u64, u64),
    ) -> Vec<(u64, u64, Option<Writer>)> {
        self.memory(rep, mem).filter(|_| lo < hi).map_or_else(|| nobody(lo, hi), |m| m.first(lo, hi))
    }

    fn memory(&self, rep: usize, mem: Mem) -> Option<&Memory> {
        self.memories.get(self.number(rep, mem))
    }

    /// Empties the elements `lo..hi`.
    pub(super) fn clear(&mut self, rep: usize, mem: Mem, (lo, hi): (u64, u64)) {
        let number = self.number(rep, mem);
        if let Some(memory) = self.memories.get_mut(number).filter(|_| lo < hi) {
            memory.clear(lo, hi);
        }
    }

    /// Empties a memory because another memory at the same addresses was written.
    pub(super) fn clear_aliased(&mut self, rep: usize, mem: Mem) {
        let number = self.number(rep, mem);
        self.memories.remove(number);
    }
}

/// Returns the elements `lo..hi` as a run that nobody has written.
fn nobody(lo: u64, hi: u64) -> Vec<(u64, u64, Option<Writer>)> {
    if lo < hi { vec![(lo, hi, None)] } else { vec![] }
}
