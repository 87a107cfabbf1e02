//! Contents of places: multisets of contributions, exact or as fingerprints.
//!
//! A contribution is a triple (rank, operand, atom): the data with which that rank started in that
//! atom of that operand. The module owns the two representations. [`super::meaning`] defines which
//! operation moves which contents.

use super::group::Group;
use super::ranks::{Ranks, Rotation};
use std::collections::BTreeMap;

/// Encodes operand and atom of a contribution as one number.
pub(super) fn label(operand: u32, atom: u64) -> u64 {
    (operand as u64) << 32 | atom
}

/// Decodes a label into operand and atom.
pub(super) fn unlabel(l: u64) -> (u32, u64) {
    ((l >> 32) as u32, l & 0xffff_ffff)
}

const NOTHING: u64 = u64::MAX;

/// The required contents of a place: the contributions of a set of ranks to one atom.
pub(super) struct RequiredContents<'a> {
    pub label: u64,
    /// The ranks, by index in the group.
    pub ranks: &'a Ranks,
    /// Number of the set, used as a key of remembered sums.
    pub set: u32,
    /// Number of the region, used as a key of remembered sums.
    pub region: u32,
}

/// The difference between a place and its required contents.
#[derive(Default, Debug)]
pub(super) struct Difference {
    /// Whether the place holds nothing at all.
    pub empty: bool,
    /// Index of a rank whose contribution is missing, and the number of missing contributions.
    pub lost: Option<(u32, usize)>,
    /// A contribution that is counted more than once, how often, and the operation that caused it.
    /// Fingerprints only know the number of surplus contributions.
    pub twice: Option<(u32, u32, u32)>,
    /// A contribution (rank, label) that does not belong there, and the number of such
    /// contributions. Fingerprints do not know which contribution it is.
    pub foreign: Option<(Option<(u32, u64)>, usize)>,
}

/// The effect of a group element on the indices of a group of ranks: rotations, applied one after
/// another. Shifting a digit rotates blocks as long as the digit's range; flipping a bit swaps the
/// halves of a block.
pub(super) struct RankRotation {
    steps: Vec<Rotation>,
}

impl RankRotation {
    /// Computes the effect of element `h` of `group`. `digits` lists (number of the digit, its
    /// stride in the index).
    pub(super) fn new(group: &Group, digits: &[(usize, u64)], h: u64) -> RankRotation {
        let mut steps = vec![];
        for &(k, stride) in digits {
            let (d, t) = (&group.digits[k], group.amount(k, h));
            if d.xor {
                let flipped = (0..u64::BITS).filter(|b| t >> b & 1 == 1);
                steps.extend(flipped.map(|b| Rotation { block: stride << (b + 1), by: stride << b }));
            } else if t != 0 {
                steps.push(Rotation { block: stride * d.size, by: stride * t });
            }
        }
        RankRotation { steps }
    }
}

/// A row of places.
pub(super) trait Contents {
    /// Creates places that hold nothing, for a group of `ranks` ranks.
    fn new(ranks: u64, cells: usize) -> Self;
    /// Returns the number of places.
    fn cells(&self) -> usize;
    /// Whether place `i` holds something.
    fn holds(&self, i: usize) -> bool;
    /// Makes place `i` hold exactly this contribution.
    fn own(&mut self, i: usize, rank: u32, label: u64);
    /// Becomes a copy of `n` places of another row, from place `lo` on.
    fn load(&mut self, from: &Self, lo: usize, n: usize);
    /// Replaces the places from `lo` on by the first `n` places of another row.
    fn store(&mut self, lo: usize, from: &Self, n: usize);
    /// Adds the first `n` places of another row to the places from `lo` on.
    fn add(&mut self, lo: usize, from: &Self, n: usize, op: u32);
    /// Moves every contribution by an element of the group, and place i to `place(i)`.
    fn translate(
        &mut self,
        turn: &RankRotation,
        relabel: &dyn Fn(u64) -> u64,
        place: &dyn Fn(usize) -> usize,
    );
    /// Compares place `i` with its required contents.
    fn differs(&self, i: usize, want: &RequiredContents, memo: &mut Memo) -> Option<Difference>;
}

/// Sums that have already been computed, by region, label and set.
pub(super) type Memo = BTreeMap<(u32, u64, u32), (Sum, u32)>;

/// Exact multisets: a set of ranks for the label of each place, and a map for everything else in
/// it.
pub(super) struct Exact {
    ranks: u64,
    base: Vec<u64>,
    sets: Vec<Ranks>,
    extra: BTreeMap<usize, Extra>,
}

#[derive(Clone, Default)]
struct Extra {
    /// Multiplicities, by (label, rank), beyond those in the set of ranks.
    more: BTreeMap<(u64, u32), u32>,
    /// The operation that added the last of them.
    op: u32,
}

impl Exact {
    fn drop_extra(&mut self, lo: usize, n: usize) {
        if !self.extra.is_empty() {
            self.extra.retain(|k, _| *k < lo || *k >= lo + n);
        }
    }

    fn note(&mut self, i: usize, label: u64, rank: u32, times: u32, op: u32) {
        let e = self.extra.entry(i).or_default();
        *e.more.entry((label, rank)).or_insert(0) += times;
        e.op = op;
    }
}

impl Contents for Exact {
    fn new(ranks: u64, cells: usize) -> Self {
        let sets = vec![Ranks::none(ranks); cells];
        Exact { ranks, base: vec![NOTHING; cells], sets, extra: BTreeMap::new() }
    }

    fn cells(&self) -> usize {
        self.base.len()
    }

    fn holds(&self, i: usize) -> bool {
        self.base[i] != NOTHING
    }

    fn own(&mut self, i: usize, rank: u32, label: u64) {
        self.drop_extra(i, 1);
        self.base[i] = label;
        self.sets[i] = Ranks::one(self.ranks, rank);
    }

    fn load(&mut self, from: &Self, lo: usize, n: usize) {
        self.ranks = from.ranks;
        self.base.clear();
        self.base.extend_from_slice(&from.base[lo..lo + n]);
        self.sets.clear();
        self.sets.extend_from_slice(&from.sets[lo..lo + n]);
        self.extra.clear();
        if !from.extra.is_empty() {
            self.extra.extend(from.extra.range(lo..lo + n).map(|(k, e)| (k - lo, e.clone())));
        }
    }

    fn store(&mut self, lo: usize, from: &Self, n: usize) {
        self.drop_extra(lo, n);
        self.base[lo..lo + n].copy_from_slice(&from.base[..n]);
        self.sets[lo..lo + n].clone_from_slice(&from.sets[..n]);
        if !from.extra.is_empty() {
            self.extra.extend(from.extra.range(..n).map(|(k, e)| (k + lo, e.clone())));
        }
    }

    fn add(&mut self, lo: usize, from: &Self, n: usize, op: u32) {
        for i in 0..n {
            let (at, label) = (lo + i, from.base[i]);
            if label == NOTHING {
                continue;
            }
            if self.base[at] == NOTHING {
                self.base[at] = label;
            }
            if self.base[at] == label {
                for r in self.sets[at].add(self.ranks, &from.sets[i]) {
                    self.note(at, label, r, 1, op);
                }
            } else {
                for r in from.sets[i].iter() {
                    self.note(at, label, r, 1, op);
                }
            }
            if let Some(e) = from.extra.get(&i) {
                for (&(label, r), &times) in &e.more {
                    self.note(at, label, r, times, op);
                }
            }
        }
    }

    fn translate(
        &mut self,
        turn: &RankRotation,
        relabel: &dyn Fn(u64) -> u64,
        place: &dyn Fn(usize) -> usize,
    ) {
        let n = self.cells();
        for (base, set) in self.base.iter_mut().zip(&mut self.sets) {
            if *base != NOTHING {
                *base = relabel(*base);
                *set = set.moved(self.ranks, &turn.steps);
            }
        }
        for e in self.extra.values_mut() {
            let old = std::mem::take(&mut e.more);
            for ((label, r), times) in old {
                let to = turn.steps.iter().fold(r as u64, |i, s| s.act(i)) as u32;
                *e.more.entry((relabel(label), to)).or_insert(0) += times;
            }
        }
        if (0..n).all(|i| place(i) == i) {
            return;
        }
        let mut out = Exact::new(self.ranks, n);
        for i in 0..n {
            out.base[place(i)] = self.base[i];
            out.sets[place(i)] = self.sets[i].clone();
            if let Some(e) = self.extra.remove(&i) {
                out.extra.insert(place(i), e);
            }
        }
        *self = out;
    }

    fn differs(&self, i: usize, want: &RequiredContents, _memo: &mut Memo) -> Option<Difference> {
        let set = &self.sets[i];
        let extra = self.extra.get(&i);
        if self.base[i] == want.label && set == want.ranks && extra.is_none() {
            return None;
        }
        let mut d = Difference { empty: !self.holds(i), ..Difference::default() };
        // All contributions in the place, with multiplicities.
        let mut all: BTreeMap<(u64, u32), u32> = extra.map(|e| e.more.clone()).unwrap_or_default();
        if self.holds(i) {
            for r in set.iter() {
                *all.entry((self.base[i], r)).or_insert(0) += 1;
            }
        }
        let mut lost = want.ranks.iter().filter(|r| !all.contains_key(&(want.label, *r)));
        if let Some(first) = lost.next() {
            d.lost = Some((first, lost.count() + 1));
        }
        let wanted = |&(l, r): &(u64, u32)| l == want.label && want.ranks.contains(r);
        let mut foreign = all.keys().filter(|k| !wanted(k));
        if let Some(&(l, r)) = foreign.next() {
            d.foreign = Some((Some((r, l)), foreign.count() + 1));
        }
        let op = extra.map_or(u32::MAX, |e| e.op);
        d.twice = all.iter().find(|(k, n)| wanted(k) && **n > 1).map(|((_, r), n)| (*r, *n, op));
        Some(d)
    }
}

/// Two sums modulo 2^61 - 1.
pub(super) type Sum = (u64, u64);

const PRIME: u64 = (1 << 61) - 1;

fn mix(mut x: u64) -> u64 {
    // The finaliser of splitmix64.
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn fingerprint(rank: u32, label: u64) -> Sum {
    let x = mix(label.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ mix(rank as u64 ^ 0x6a09_e667_f3bc_c908);
    (mix(x ^ 0x243f_6a88_85a3_08d3) % PRIME, mix(x ^ 0x1319_8a2e_0370_7344) % PRIME)
}

fn plus(a: Sum, b: Sum) -> Sum {
    ((a.0 + b.0) % PRIME, (a.1 + b.1) % PRIME)
}

/// The fingerprint of a place: the sum of one random number per contribution, and the number of
/// contributions.
#[derive(Clone, Copy, Default)]
pub(super) struct PlaceSummary {
    sum: Sum,
    count: u32,
}

/// Fingerprints of a row of places. Most rows have one place, and there may be millions of rows.
pub(super) enum Fingerprint {
    One([PlaceSummary; 1]),
    Many(Vec<PlaceSummary>),
}

impl Fingerprint {
    fn places(&self) -> &[PlaceSummary] {
        match self {
            Fingerprint::One(place) => place,
            Fingerprint::Many(places) => places,
        }
    }

    fn places_mut(&mut self) -> &mut [PlaceSummary] {
        match self {
            Fingerprint::One(place) => place,
            Fingerprint::Many(places) => places,
        }
    }
}

impl Contents for Fingerprint {
    fn new(_ranks: u64, cells: usize) -> Self {
        match cells {
            1 => Fingerprint::One([PlaceSummary::default()]),
            _ => Fingerprint::Many(vec![PlaceSummary::default(); cells]),
        }
    }

    fn cells(&self) -> usize {
        self.places().len()
    }

    fn holds(&self, i: usize) -> bool {
        self.places()[i].count > 0
    }

    fn own(&mut self, i: usize, rank: u32, label: u64) {
        self.places_mut()[i] = PlaceSummary { sum: fingerprint(rank, label), count: 1 };
    }

    fn load(&mut self, from: &Self, lo: usize, n: usize) {
        match (&from.places()[lo..lo + n], &mut *self) {
            ([place], _) => *self = Fingerprint::One([*place]),
            (places, Fingerprint::Many(own)) => {
                own.clear();
                own.extend_from_slice(places);
            }
            (places, Fingerprint::One(_)) => *self = Fingerprint::Many(places.to_vec()),
        }
    }

    fn store(&mut self, lo: usize, from: &Self, n: usize) {
        self.places_mut()[lo..lo + n].copy_from_slice(&from.places()[..n]);
    }

    fn add(&mut self, lo: usize, from: &Self, n: usize, _op: u32) {
        for (to, from) in self.places_mut()[lo..lo + n].iter_mut().zip(&from.places()[..n]) {
            to.sum = plus(to.sum, from.sum);
            to.count = to.count.saturating_add(from.count);
        }
    }

    fn translate(
        &mut self,
        _turn: &RankRotation,
        _relabel: &dyn Fn(u64) -> u64,
        _place: &dyn Fn(usize) -> usize,
    ) {
        unreachable!("fingerprints are no function of another rank's and are used with every rank walked")
    }

    fn differs(&self, i: usize, want: &RequiredContents, memo: &mut Memo) -> Option<Difference> {
        let (sum, n) = *memo.entry((want.region, want.label, want.set)).or_insert_with(|| {
            want.ranks.iter().fold(((0, 0), 0), |(s, n), r| (plus(s, fingerprint(r, want.label)), n + 1))
        });
        let PlaceSummary { sum: held, count: have } = self.places()[i];
        if held == sum && have == n {
            return None;
        }
        let first = want.ranks.iter().next().unwrap_or(0);
        Some(Difference {
            empty: have == 0,
            lost: (have < n).then(|| (first, (n - have) as usize)),
            twice: have.checked_sub(n).filter(|d| *d > 0).map(|d| (u32::MAX, d, u32::MAX)),
            foreign: (have == n).then_some((None, 1)),
        })
    }
}
