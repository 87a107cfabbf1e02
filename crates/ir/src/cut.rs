//! Cuts: where the parts of a dimension, the blocks of a line and the chunks of a block begin.
//!
//! This is the only place of these rules. They are generic over the [`Algebra`], so that the same
//! text gives integers, expressions and machine code.

use crate::algebra::{Algebra, Exact};
use crate::name::Name;
use crate::types::{CutRule, Dim, Mesh};

impl CutRule {
    /// Returns boundary `i` of `n` elements in `k` parts, for an `i` of at most `k`. `row` is the
    /// row of given lengths that applies.
    pub fn bound<A: Algebra>(&self, alg: &mut A, row: &A::Num, n: &A::Num, i: &A::Num, k: &A::Num) -> A::Num {
        if alg.known(i) == Some(0) {
            return alg.int(0);
        }
        if alg.same(i, k) {
            return n.clone();
        }
        match self {
            CutRule::Even => even(alg, n, i, k),
            CutRule::Ceil => {
                let each = alg.div_up(n, k);
                let at = alg.mul(&each, i);
                alg.min(&at, n)
            }
            CutRule::Lengths(parts) => alg.listed(parts, row, n, i),
            CutRule::Lines(unit) => {
                let unit = alg.line(*unit);
                let (scaled, lines) = (alg.mul(n, i), alg.mul(k, &unit));
                let at = alg.div_up(&scaled, &lines);
                let at = alg.mul(&at, &unit);
                alg.min(&at, n)
            }
        }
    }

    /// Returns the length of part `i` of `n` elements in `k` parts.
    pub fn length<A: Algebra>(&self, alg: &mut A, row: &A::Num, n: &A::Num, i: &A::Num, k: u64) -> A::Num {
        if let CutRule::Lengths(parts) = self {
            return alg.listed_length(parts, row, n, i);
        }
        if let Some(n) = alg.known(n).filter(|n| self.equal_parts(*n, k)) {
            return alg.int(n / k);
        }
        let (one, k) = (alg.int(1), alg.int(k));
        let next = alg.add(i, &one);
        let end = self.bound(alg, row, n, &next, &k);
        let start = self.bound(alg, row, n, i, &k);
        alg.sub(&end, &start)
    }

    /// Returns boundary i of n elements in k parts, `0 <= i <= k`.
    pub fn boundary(&self, n: u64, i: u64, k: u64) -> u64 {
        self.boundary_in(0, n, i, k)
    }

    /// Returns boundary i of n elements in k parts, using this row of the lengths. If the lengths
    /// do not add up to n, the last part absorbs the difference.
    pub fn boundary_in(&self, row: u64, n: u64, i: u64, k: u64) -> u64 {
        // A boundary is at most n, and products of two numbers of 64 bits fit. Only the unit of
        // lines may exceed them; one of n elements or more has the same boundaries as n.
        let mut alg = Exact::default();
        let at = match self {
            CutRule::Lines(unit) if *unit > n => {
                CutRule::Lines(n).bound(&mut alg, &row.into(), &n.into(), &i.into(), &k.into())
            }
            rule => rule.bound(&mut alg, &row.into(), &n.into(), &i.into(), &k.into()),
        };
        alg.result(at).unwrap_or(n).min(n)
    }

    /// Checks whether all `k` parts of n elements are known to have the same length.
    pub fn equal_parts(&self, n: u64, k: u64) -> bool {
        match self {
            CutRule::Even | CutRule::Ceil => n.is_multiple_of(k),
            CutRule::Lengths(_) => false,
            CutRule::Lines(unit) => n.is_multiple_of((*unit).max(1).saturating_mul(k)),
        }
    }
}

/// Returns boundary `i` of `n` elements in `k` even parts.
fn even<A: Algebra>(alg: &mut A, n: &A::Num, i: &A::Num, k: &A::Num) -> A::Num {
    let scaled = alg.mul(n, i);
    alg.div_up(&scaled, k)
}

/// Returns the first element of chunk `num` of `den` of the elements `start .. end`, which are cut
/// evenly.
pub fn inside<A: Algebra>(
    alg: &mut A,
    (start, end): (&A::Num, &A::Num),
    num: &A::Num,
    den: &A::Num,
) -> A::Num {
    let length = alg.sub(end, start);
    let at = even(alg, &length, num, den);
    alg.add(start, &at)
}

/// A line of elements on a rank: `parts` blocks, which cut `extent` by a rule, in units of `unit`
/// elements. See [`crate::schedule::Line`].
#[derive(Clone, Copy, Debug)]
pub struct Sized<'r, N> {
    /// Number of blocks.
    pub parts: u64,
    /// Rule of the cut into blocks.
    pub rule: &'r CutRule,
    /// Elements along the dimension that the blocks cut.
    pub extent: N,
    /// Elements of the line per element of `extent`.
    pub unit: N,
    /// Row of the rule's lengths.
    pub row: N,
}

impl<N: Clone> Sized<'_, N> {
    /// Returns the number of elements.
    pub fn whole<A: Algebra<Num = N>>(&self, alg: &mut A) -> N {
        alg.mul(&self.unit, &self.extent)
    }

    /// Returns the first element of block `i`, for an `i` of at most the number of blocks.
    pub fn block<A: Algebra<Num = N>>(&self, alg: &mut A, i: &N) -> N {
        let parts = alg.int(self.parts);
        let at = self.rule.bound(alg, &self.row, &self.extent, i, &parts);
        alg.mul(&self.unit, &at)
    }

    /// Returns the first element of chunk `num` of `den`, for a `num` of at most `den`.
    pub fn address<A: Algebra<Num = N>>(&self, alg: &mut A, num: &N, den: &N) -> N {
        if alg.same(num, den) {
            return self.whole(alg);
        }
        if self.parts == 1 {
            let whole = self.whole(alg);
            return CutRule::Even.bound(alg, &self.row, &whole, num, den);
        }
        let (parts, one) = (alg.int(self.parts), alg.int(1));
        let scaled = alg.mul(num, &parts);
        let (block, rest) = (alg.div(&scaled, den), alg.rem(&scaled, den));
        let first = alg.min(&block, &parts);
        let start = self.block(alg, &first);
        if alg.known(&rest) == Some(0) {
            return start;
        }
        let next = alg.add(&block, &one);
        let next = alg.min(&next, &parts);
        let end = self.block(alg, &next);
        inside(alg, (&start, &end), &rest, den)
    }
}

impl Sized<'_, u64> {
    /// Returns the first element of chunk `num` of `den`, or `None` if it does not fit in 64 bits.
    pub fn start(&self, num: u64, den: u64) -> Option<u64> {
        let line = Sized {
            parts: self.parts,
            rule: self.rule,
            extent: u128::from(self.extent),
            unit: u128::from(self.unit),
            row: u128::from(self.row),
        };
        let mut alg = Exact::default();
        let at = line.address(&mut alg, &num.into(), &den.into());
        alg.result(at)
    }
}

/// Returns the first element and the number of elements of a dimension that a rank holds. `coord`
/// returns the rank's coordinate on an axis.
pub fn part<A: Algebra>(
    alg: &mut A,
    dim: &Dim,
    mesh: &Mesh,
    coord: &impl Fn(&mut A, &Name) -> A::Num,
) -> (A::Num, A::Num) {
    let (mut start, mut n) = (alg.int(0), alg.int(dim.size));
    let Some(cut) = &dim.cut else { return (start, n) };
    let (row, size) = (alg.int(0), |a: &Name| mesh.axis(a).map_or(1, |a| a.size));
    if let CutRule::Lengths(_) = cut.rule {
        // Given lengths do not nest, so several axes act as one.
        let mut axes = cut.axes.iter().filter(|a| mesh.axis(a).is_some());
        let first = match axes.next() {
            Some(a) => (coord(alg, a), size(a)),
            None => (alg.int(0), 1),
        };
        let (i, k) = axes.fold(first, |(i, k), a| {
            let (of, at) = (alg.int(size(a)), coord(alg, a));
            let scaled = alg.mul(&i, &of);
            (alg.add(&scaled, &at), k * size(a))
        });
        let of = alg.int(k);
        return (cut.rule.bound(alg, &row, &n, &i, &of), cut.rule.length(alg, &row, &n, &i, k));
    }
    for axis in &cut.axes {
        let (k, i) = (size(axis), coord(alg, axis));
        let of = alg.int(k);
        let at = cut.rule.bound(alg, &row, &n, &i, &of);
        start = alg.add(&start, &at);
        n = cut.rule.length(alg, &row, &n, &i, k);
    }
    (start, n)
}

#[cfg(test)]
#[path = "cut_tests.rs"]
mod tests;
