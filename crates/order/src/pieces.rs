//! Pieces: the contents of a memory as runs of elements with one tree each.

use crate::trees::{Forest, TreeId};

/// Elements `start .. start + len` of a memory, which all have one tree. The anchor of the tree of
/// element `start + k` is at position `base + k`; if the tree has no position, at `base`, which is
/// then 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// First element.
    pub start: u64,
    /// Number of elements.
    pub len: u64,
    /// The tree.
    pub tree: TreeId,
    /// Position of the anchor for the first element.
    pub base: i64,
    /// Whether the tree has a position.
    pub placed: bool,
}

impl Piece {
    /// Creates a run with the anchor at `base`.
    pub fn new(forest: &Forest, (start, len): (u64, u64), tree: TreeId, base: i64) -> Piece {
        let placed = forest.positional(tree);
        Piece { start, len, tree, base: if placed { base } else { 0 }, placed }
    }

    fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Returns the position of the anchor for element `at` of the memory.
    pub fn base_at(&self, at: u64) -> i64 {
        if self.placed { self.base + (at as i64 - self.start as i64) } else { self.base }
    }

    /// Returns the elements `lo .. hi` of the run.
    pub fn part(&self, lo: u64, hi: u64) -> Piece {
        Piece { start: lo, len: hi - lo, base: self.base_at(lo), ..*self }
    }

    fn continues(&self, next: &Piece) -> bool {
        self.tree == next.tree && self.end() == next.start && self.base_at(next.start) == next.base
    }
}

/// The contents of a memory: sorted, disjoint runs. Elements in no run hold nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pieces(Vec<Piece>);

impl Pieces {
    /// Returns the number of runs.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the runs of `start .. start + len`, counted from `start`, or the first element that
    /// holds nothing.
    pub fn read(&self, start: u64, len: u64) -> Result<Vec<Piece>, u64> {
        let (mut at, end) = (start, start + len);
        let first = self.0.partition_point(|p| p.end() <= start);
        let mut out = vec![];
        for p in &self.0[first..] {
            if at == end || p.start > at {
                break;
            }
            let part = p.part(at, p.end().min(end));
            at = part.end();
            out.push(Piece { start: part.start - start, ..part });
        }
        if at == end { Ok(out) } else { Err(at) }
    }

    /// Overwrites elements from `start` on with runs that are counted from it.
    pub fn write(&mut self, start: u64, runs: &[Piece]) {
        let Some(end) = runs.last().map(|p| start + p.end()) else { return };
        let first = self.0.partition_point(|p| p.end() <= start);
        let last = self.0.partition_point(|p| p.start < end);
        let mut new: Vec<Piece> = Vec::with_capacity(runs.len() + 4);
        // The neighbours are taken along, so that runs that continue each other become one.
        let (from, to) = (first.saturating_sub(1), (last + 1).min(self.0.len()));
        let before = self.0[from..last].iter().filter(|p| p.start < start);
        let before: Vec<Piece> = before.map(|p| p.part(p.start, p.end().min(start))).collect();
        let after = self.0[first..to].iter().filter(|p| p.end() > end);
        let after: Vec<Piece> = after.map(|p| p.part(p.start.max(end), p.end())).collect();
        let moved = runs.iter().map(|p| Piece { start: p.start + start, ..*p });
        for p in before.into_iter().chain(moved).chain(after).filter(|p| p.len > 0) {
            match new.last_mut() {
                Some(l) if l.continues(&p) => l.len += p.len,
                _ => new.push(p),
            }
        }
        self.0.splice(from..to, new);
    }
}

/// Calls `f` with the runs of two lists of equal length, cut where either is cut.
pub(crate) fn overlay(a: &[Piece], b: &[Piece], f: &mut impl FnMut(Piece, Piece)) {
    let (mut i, mut j, mut at) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let end = x.end().min(y.end());
        if at < end {
            f(x.part(at, end), y.part(at, end));
        }
        at = end;
        i += usize::from(x.end() == end);
        j += usize::from(y.end() == end);
    }
}
