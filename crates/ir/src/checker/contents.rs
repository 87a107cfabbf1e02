//! What places hold: multisets of contributions, exactly or as fingerprints.
//!
//! A contribution is (rank, operand, atom): what that rank started with in that atom of that operand. Owns the two
//! representations; which operation moves what is [`super::meaning`]'s to say.

use super::group::Group;
use std::collections::BTreeMap;

/// Operand and atom of a contribution as one number.
pub(super) fn label(operand: u32, atom: u64) -> u64 {
    (operand as u64) << 32 | atom
}

/// Operand and atom of a label.
pub(super) fn unlabel(l: u64) -> (u32, u64) {
    ((l >> 32) as u32, l & 0xffff_ffff)
}

const NOTHING: u64 = u64::MAX;

/// What must be in a place: the contributions of a set of ranks to one atom.
pub(super) struct Want<'a> {
    pub label: u64,
    /// Bits by index in the group.
    pub ranks: &'a [u64],
    /// Number of the set, for remembering sums.
    pub set: u32,
    /// Number of the region, for the same.
    pub region: u32,
}

/// How a place differs from what it must hold.
#[derive(Default, Debug)]
pub(super) struct Difference {
    /// It holds nothing at all.
    pub empty: bool,
    /// Index of a rank whose contribution is missing, and how many are.
    pub lost: Option<(u32, usize)>,
    /// A contribution counted more than once, how often, and the operation that did it; fingerprints only know how
    /// many there are too many.
    pub twice: Option<(u32, u32, u32)>,
    /// A contribution (rank, label) that does not belong there; unknown to fingerprints.
    pub foreign: Option<(Option<(u32, u64)>, usize)>,
}

/// How the indices of a group move, for one element.
pub(super) struct Turn {
    /// (place in the group's index, size, xor, amount) of each digit.
    digits: Vec<(u64, u64, bool, u64)>,
    /// The same for sets as bits, one step after another.
    steps: Vec<Step>,
}

/// Bits of `left` go up by so many, bits of `right` down.
struct Step {
    up: usize,
    left: Vec<u64>,
    down: usize,
    right: Vec<u64>,
}

impl Turn {
    /// Of a group of `size` indices; `digits` gives (number of the digit, its place in the index).
    pub(super) fn new(group: &Group, digits: &[(usize, u64)], size: u64, h: u64) -> Turn {
        let digits: Vec<_> = digits
            .iter()
            .map(|&(k, stride)| (stride, group.digits[k].size, group.digits[k].xor, group.amount(k, h)))
            .filter(|d| d.3 != 0)
            .collect();
        let mut steps = vec![];
        for &(stride, n, xor, t) in &digits {
            if xor {
                for bit in (0..u64::BITS).filter(|b| t >> b & 1 == 1) {
                    let by = (stride << bit) as usize;
                    steps.push(Step::new(size, by, by, |i| ((i / stride) >> bit) & 1 == 0));
                }
            } else {
                let (up, down) = ((t * stride) as usize, ((n - t) * stride) as usize);
                steps.push(Step::new(size, up, down, |i| i / stride % n < n - t));
            }
        }
        Turn { digits, steps }
    }

    fn act(&self, i: u64) -> u64 {
        let mut out = i;
        for &(stride, size, xor, t) in &self.digits {
            let x = i / stride % size;
            let to = if xor { x ^ t } else { (x + t) % size };
            out = out - x * stride + to * stride;
        }
        out
    }

    /// Moves a set; `spare` is as long.
    fn bits(&self, set: &mut [u64], spare: &mut [u64]) {
        for s in &self.steps {
            spare.fill(0);
            or_up(spare, set, &s.left, s.up);
            or_down(spare, set, &s.right, s.down);
            set.copy_from_slice(spare);
        }
    }
}

impl Step {
    fn new(size: u64, up: usize, down: usize, goes_up: impl Fn(u64) -> bool) -> Step {
        let words = size.div_ceil(64).max(1) as usize;
        let (mut left, mut right) = (vec![0; words], vec![0; words]);
        for i in 0..size {
            let to = if goes_up(i) { &mut left } else { &mut right };
            to[i as usize / 64] |= 1 << (i % 64);
        }
        Step { up, left, down, right }
    }
}

/// A row of places.
pub(super) trait Contents {
    /// Places that hold nothing, for a group of that many ranks.
    fn new(ranks: u64, cells: usize) -> Self;
    /// Number of places.
    fn cells(&self) -> usize;
    /// Whether a place holds something.
    fn holds(&self, i: usize) -> bool;
    /// The place holds just this contribution.
    fn own(&mut self, i: usize, rank: u32, label: u64);
    /// Becomes a copy of a part of another row.
    fn load(&mut self, from: &Self, lo: usize, n: usize);
    /// Replaces places by the first `n` of another row.
    fn store(&mut self, lo: usize, from: &Self, n: usize);
    /// Adds the first `n` places of another row.
    fn add(&mut self, lo: usize, from: &Self, n: usize, op: u32);
    /// Moves every contribution by an element of the group, and place i to `place(i)`.
    fn translate(&mut self, turn: &Turn, relabel: &dyn Fn(u64) -> u64, place: &dyn Fn(usize) -> usize);
    /// What is wrong with a place.
    fn differs(&self, i: usize, want: &Want, memo: &mut Memo) -> Option<Difference>;
}

/// Sums that were computed already: by region, label and set.
pub(super) type Memo = BTreeMap<(u32, u64, u32), (Sum, u32)>;

/// Exact multisets: a bit a rank for the label of the place, and a map for whatever else is in it.
pub(super) struct Exact {
    ranks: u64,
    words: usize,
    base: Vec<u64>,
    bits: Vec<u64>,
    extra: BTreeMap<usize, Extra>,
}

#[derive(Clone, Default)]
struct Extra {
    /// (label, rank) and how often beyond what the bits say.
    more: BTreeMap<(u64, u32), u32>,
    /// The operation that brought the last of them.
    op: u32,
}

fn ones(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    words.iter().enumerate().flat_map(|(w, bits)| {
        let mut rest = *bits;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let b = rest.trailing_zeros();
            rest &= rest - 1;
            Some(w as u32 * 64 + b)
        })
    })
}

/// `dst |= (src & mask) << by` over words.
fn or_up(dst: &mut [u64], src: &[u64], mask: &[u64], by: usize) {
    let (skip, shift) = (by / 64, by % 64);
    for (j, d) in dst.iter_mut().skip(skip).enumerate() {
        *d |= (src[j] & mask[j]) << shift;
        if shift > 0 && j > 0 {
            *d |= (src[j - 1] & mask[j - 1]) >> (64 - shift);
        }
    }
}

/// `dst |= (src & mask) >> by` over words.
fn or_down(dst: &mut [u64], src: &[u64], mask: &[u64], by: usize) {
    let (skip, shift) = (by / 64, by % 64);
    for (i, d) in dst.iter_mut().enumerate().take(src.len().saturating_sub(skip)) {
        let j = i + skip;
        *d |= (src[j] & mask[j]) >> shift;
        if shift > 0 && j + 1 < src.len() {
            *d |= (src[j + 1] & mask[j + 1]) << (64 - shift);
        }
    }
}

impl Exact {
    fn range(&self, i: usize) -> std::ops::Range<usize> {
        i * self.words..(i + 1) * self.words
    }

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
        let words = ranks.div_ceil(64).max(1) as usize;
        Exact {
            ranks,
            words,
            base: vec![NOTHING; cells],
            bits: vec![0; cells * words],
            extra: BTreeMap::new(),
        }
    }

    fn cells(&self) -> usize {
        self.base.len()
    }

    fn holds(&self, i: usize) -> bool {
        self.base[i] != NOTHING
    }

    fn own(&mut self, i: usize, rank: u32, label: u64) {
        self.drop_extra(i, 1);
        let range = self.range(i);
        self.base[i] = label;
        self.bits[range.clone()].fill(0);
        self.bits[range.start + rank as usize / 64] = 1 << (rank % 64);
    }

    fn load(&mut self, from: &Self, lo: usize, n: usize) {
        (self.ranks, self.words) = (from.ranks, from.words);
        self.base.clear();
        self.base.extend_from_slice(&from.base[lo..lo + n]);
        self.bits.clear();
        self.bits.extend_from_slice(&from.bits[lo * self.words..(lo + n) * self.words]);
        self.extra.clear();
        if !from.extra.is_empty() {
            self.extra.extend(from.extra.range(lo..lo + n).map(|(k, e)| (k - lo, e.clone())));
        }
    }

    fn store(&mut self, lo: usize, from: &Self, n: usize) {
        self.drop_extra(lo, n);
        self.base[lo..lo + n].copy_from_slice(&from.base[..n]);
        self.bits[lo * self.words..(lo + n) * self.words].copy_from_slice(&from.bits[..n * self.words]);
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
                for w in 0..self.words {
                    let (to, new) = (at * self.words + w, from.bits[i * self.words + w]);
                    let both = self.bits[to] & new;
                    self.bits[to] |= new;
                    if both != 0 {
                        for r in ones(&[both]) {
                            self.note(at, label, r + w as u32 * 64, 1, op);
                        }
                    }
                }
            } else {
                for r in ones(&from.bits[from.range(i)]) {
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

    fn translate(&mut self, turn: &Turn, relabel: &dyn Fn(u64) -> u64, place: &dyn Fn(usize) -> usize) {
        let n = self.cells();
        let mut spare = vec![0; self.words];
        for (i, set) in self.bits.chunks_mut(self.words).enumerate() {
            if self.base[i] != NOTHING {
                self.base[i] = relabel(self.base[i]);
                turn.bits(set, &mut spare);
            }
        }
        for e in self.extra.values_mut() {
            let old = std::mem::take(&mut e.more);
            for ((label, r), times) in old {
                *e.more.entry((relabel(label), turn.act(r as u64) as u32)).or_insert(0) += times;
            }
        }
        if (0..n).all(|i| place(i) == i) {
            return;
        }
        let mut out = Exact::new(self.ranks, n);
        for i in 0..n {
            let (from, to) = (self.range(i), out.range(place(i)));
            out.base[place(i)] = self.base[i];
            out.bits[to].copy_from_slice(&self.bits[from]);
            if let Some(e) = self.extra.remove(&i) {
                out.extra.insert(place(i), e);
            }
        }
        *self = out;
    }

    fn differs(&self, i: usize, want: &Want, _memo: &mut Memo) -> Option<Difference> {
        let bits = &self.bits[self.range(i)];
        let extra = self.extra.get(&i);
        if self.base[i] == want.label && bits == want.ranks && extra.is_none() {
            return None;
        }
        let mut d = Difference { empty: !self.holds(i), ..Difference::default() };
        // Everything in the place, with multiplicities.
        let mut all: BTreeMap<(u64, u32), u32> = extra.map(|e| e.more.clone()).unwrap_or_default();
        if self.holds(i) {
            for r in ones(bits) {
                *all.entry((self.base[i], r)).or_insert(0) += 1;
            }
        }
        let mut lost = ones(want.ranks).filter(|r| !all.contains_key(&(want.label, *r)));
        if let Some(first) = lost.next() {
            d.lost = Some((first, lost.count() + 1));
        }
        let wanted = |&(l, r): &(u64, u32)| {
            l == want.label && want.ranks.get(r as usize / 64).is_some_and(|w| w >> (r % 64) & 1 == 1)
        };
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

/// Fingerprints: the sum of a random number a contribution, and how many there are.
pub(super) struct Finger {
    sums: Vec<Sum>,
    count: Vec<u32>,
}

impl Contents for Finger {
    fn new(_ranks: u64, cells: usize) -> Self {
        Finger { sums: vec![(0, 0); cells], count: vec![0; cells] }
    }

    fn cells(&self) -> usize {
        self.count.len()
    }

    fn holds(&self, i: usize) -> bool {
        self.count[i] > 0
    }

    fn own(&mut self, i: usize, rank: u32, label: u64) {
        self.sums[i] = fingerprint(rank, label);
        self.count[i] = 1;
    }

    fn load(&mut self, from: &Self, lo: usize, n: usize) {
        self.sums.clear();
        self.sums.extend_from_slice(&from.sums[lo..lo + n]);
        self.count.clear();
        self.count.extend_from_slice(&from.count[lo..lo + n]);
    }

    fn store(&mut self, lo: usize, from: &Self, n: usize) {
        self.sums[lo..lo + n].copy_from_slice(&from.sums[..n]);
        self.count[lo..lo + n].copy_from_slice(&from.count[..n]);
    }

    fn add(&mut self, lo: usize, from: &Self, n: usize, _op: u32) {
        for i in 0..n {
            self.sums[lo + i] = plus(self.sums[lo + i], from.sums[i]);
            self.count[lo + i] = self.count[lo + i].saturating_add(from.count[i]);
        }
    }

    fn translate(&mut self, _turn: &Turn, _relabel: &dyn Fn(u64) -> u64, _place: &dyn Fn(usize) -> usize) {
        unreachable!("fingerprints are no function of another rank's and are used with every rank walked")
    }

    fn differs(&self, i: usize, want: &Want, memo: &mut Memo) -> Option<Difference> {
        let (sum, n) = *memo.entry((want.region, want.label, want.set)).or_insert_with(|| {
            ones(want.ranks).fold(((0, 0), 0), |(s, n), r| (plus(s, fingerprint(r, want.label)), n + 1))
        });
        if self.sums[i] == sum && self.count[i] == n {
            return None;
        }
        let have = self.count[i];
        let first = ones(want.ranks).next().unwrap_or(0);
        Some(Difference {
            empty: have == 0,
            lost: (have < n).then(|| (first, (n - have) as usize)),
            twice: have.checked_sub(n).filter(|d| *d > 0).map(|d| (u32::MAX, d, u32::MAX)),
            foreign: (have == n).then_some((None, 1)),
        })
    }
}
