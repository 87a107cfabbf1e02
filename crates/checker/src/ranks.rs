//! Sets of ranks with a compact form for regular sets.
//!
//! On a ring, in Bruck's algorithm and on a tree, a chunk holds one run of ranks; in halving and
//! doubling it holds as many runs as the chunk is wide. With runs, the checker's memory grows with
//! the contents of the ranks and not with the square of their number. The module owns the forms of
//! a set, union, and moves by a rotation of blocks.

use std::sync::Arc;

/// A set of ranks of a group. Each set has exactly one form, so sets are equal if their forms are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ranks {
    /// Bits, in a group of up to 64 ranks.
    Word(u64),
    /// One run: first, and one past the last. The empty set is 0, 0.
    Run(u32, u32),
    /// Two or more runs, sorted and disjoint, as long as they need less memory than bits.
    Runs(Arc<[(u32, u32)]>),
    /// Bits.
    Bits(Arc<[u64]>),
}

/// A rotation of the positions in every block: `i` goes to `(i + by) mod block` within its block.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Size of a block in ranks.
    pub block: u64,
    /// Positions by which it moves.
    pub by: u64,
}

impl Rotation {
    /// Returns the position to which `i` goes.
    pub fn act(&self, i: u64) -> u64 {
        let y = i % self.block;
        i - y + (y + self.by) % self.block
    }
}

fn words(ranks: u64) -> usize {
    ranks.div_ceil(64).max(1) as usize
}

impl Ranks {
    /// Returns the empty set in a group of `ranks` ranks.
    pub(super) fn none(ranks: u64) -> Ranks {
        if ranks <= 64 { Ranks::Word(0) } else { Ranks::Run(0, 0) }
    }

    /// Returns the set of one rank.
    pub(super) fn one(ranks: u64, rank: u32) -> Ranks {
        if ranks <= 64 { Ranks::Word(1 << rank) } else { Ranks::Run(rank, rank + 1) }
    }

    /// Collects ranks in any order into a set. Fails with a rank that occurs twice.
    pub fn collect(ranks: u64, mut list: Vec<u32>) -> Result<Ranks, u32> {
        list.sort_unstable();
        if let Some(w) = list.windows(2).find(|w| w[0] == w[1]) {
            return Err(w[0]);
        }
        if ranks <= 64 {
            return Ok(Ranks::Word(list.iter().fold(0, |w, r| w | 1 << r)));
        }
        Ok(Ranks::of_runs(ranks, list.into_iter().map(|r| (r, r + 1))))
    }

    /// Creates a set from sorted runs that do not overlap.
    fn of_runs(ranks: u64, runs: impl Iterator<Item = (u32, u32)>) -> Ranks {
        let mut out: Vec<(u32, u32)> = vec![];
        for (lo, hi) in runs.filter(|r| r.0 < r.1) {
            match out.last_mut() {
                Some(last) if last.1 == lo => last.1 = hi,
                _ => out.push((lo, hi)),
            }
        }
        match out[..] {
            [] => Ranks::Run(0, 0),
            [(lo, hi)] => Ranks::Run(lo, hi),
            _ if out.len() <= words(ranks) => Ranks::Runs(out.into()),
            _ => {
                let mut bits = vec![0u64; words(ranks)];
                for (lo, hi) in out {
                    (lo..hi).for_each(|r| bits[r as usize / 64] |= 1 << (r % 64));
                }
                Ranks::Bits(bits.into())
            }
        }
    }

    /// Returns the runs in order.
    fn runs(&self) -> Box<dyn Iterator<Item = (u32, u32)> + '_> {
        match self {
            Ranks::Word(w) => Box::new(runs_of_bits(std::slice::from_ref(w))),
            Ranks::Run(lo, hi) => Box::new(std::iter::once((*lo, *hi)).filter(|r| r.0 < r.1)),
            Ranks::Runs(list) => Box::new(list.iter().copied()),
            Ranks::Bits(bits) => Box::new(runs_of_bits(bits)),
        }
    }

    /// Returns the number of ranks.
    pub(super) fn len(&self) -> usize {
        self.runs().map(|(lo, hi)| (hi - lo) as usize).sum()
    }

    /// Returns the ranks in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs().flat_map(|(lo, hi)| lo..hi)
    }

    /// Returns whether the rank is one of them.
    pub fn contains(&self, rank: u32) -> bool {
        match self {
            Ranks::Word(w) => rank < 64 && w >> rank & 1 == 1,
            Ranks::Bits(bits) => bits.get(rank as usize / 64).is_some_and(|w| w >> (rank % 64) & 1 == 1),
            Ranks::Run(..) | Ranks::Runs(_) => self.runs().any(|(lo, hi)| lo <= rank && rank < hi),
        }
    }

    /// Adds a set of the same group. Returns the ranks that were in both.
    pub fn add(&mut self, ranks: u64, new: &Ranks) -> Vec<u32> {
        if let (Ranks::Word(a), Ranks::Word(b)) = (&mut *self, new) {
            let both = *a & b;
            *a |= b;
            return if both == 0 { vec![] } else { Ranks::Word(both).iter().collect() };
        }
        let (mut both, mut out) = (vec![], vec![]);
        let mut all: Vec<(u32, u32)> = self.runs().chain(new.runs()).collect();
        all.sort_unstable();
        for (lo, hi) in all {
            match out.last_mut() {
                Some((_, end)) if *end >= lo => {
                    both.extend(lo..hi.min(*end));
                    *end = hi.max(*end);
                }
                _ => out.push((lo, hi)),
            }
        }
        *self = Ranks::of_runs(ranks, out.into_iter());
        both
    }

    /// Returns the set with every rank moved by rotations, applied one after another.
    pub fn moved(&self, ranks: u64, by: &[Rotation]) -> Ranks {
        if let Ranks::Word(_) = self {
            let to = |i: u32| by.iter().fold(i as u64, |i, r| r.act(i));
            return Ranks::Word(self.iter().fold(0, |w, r| w | 1 << to(r)));
        }
        let mut list: Vec<(u64, u64)> = self.runs().map(|(a, b)| (a as u64, b as u64)).collect();
        for r in by {
            list = list.iter().flat_map(|run| rotated(*run, r)).collect();
        }
        list.sort_unstable();
        Ranks::of_runs(ranks, list.into_iter().map(|(a, b)| (a as u32, b as u32)))
    }
}

/// Rotates a run: whole blocks stay, the pieces before and after them rotate within their blocks.
fn rotated((lo, hi): (u64, u64), r: &Rotation) -> Vec<(u64, u64)> {
    let mut out = vec![];
    let mut piece = |lo: u64, hi: u64| {
        // Inside one block there are two pieces: one that stays below the end of the block, and one
        // that wraps around.
        let end = (lo / r.block + 1) * r.block;
        let (a, b) = (lo + r.by, hi + r.by);
        if a < end {
            out.push((a, b.min(end)));
        }
        if b > end {
            out.push((a.max(end) - r.block, b - r.block));
        }
    };
    let (first, last) = (lo.next_multiple_of(r.block), hi / r.block * r.block);
    if lo / r.block == (hi - 1) / r.block {
        piece(lo, hi);
        return out;
    }
    if lo < first {
        piece(lo, first);
    }
    if last < hi {
        piece(last, hi);
    }
    if first < last {
        out.push((first, last));
    }
    out
}

fn runs_of_bits(bits: &[u64]) -> impl Iterator<Item = (u32, u32)> + '_ {
    let end = bits.len() as u32 * 64;
    // Returns the next rank from `at` on whose bit is `set`.
    let next = move |at: u32, set: bool| {
        let (mut w, mut skip) = ((at / 64) as usize, at % 64);
        while let Some(&word) = bits.get(w) {
            let word = if set { word } else { !word } >> skip << skip;
            if word != 0 {
                return w as u32 * 64 + word.trailing_zeros();
            }
            (w, skip) = (w + 1, 0);
        }
        end
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        let lo = next(at, true);
        if lo == end {
            return None;
        }
        at = next(lo, false);
        Some((lo, at))
    })
}
