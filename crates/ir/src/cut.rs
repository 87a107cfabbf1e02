//! Cuts: where the parts of a dimension, the blocks of a line and the chunks of a block begin.
//!
//! This is the only place of these rules. They are generic over the [`Algebra`], so that the same
//! text gives integers, expressions and machine code.

use crate::algebra::{Algebra, IntegerAlgebra};
use crate::types::CutRule;
use std::ops::Range;

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
        let mut alg = IntegerAlgebra::default();
        let at = match self {
            CutRule::Lines(unit) if *unit > n => {
                CutRule::Lines(n).bound(&mut alg, &row.into(), &n.into(), &i.into(), &k.into())
            }
            rule => rule.bound(&mut alg, &row.into(), &n.into(), &i.into(), &k.into()),
        };
        alg.result(at).unwrap_or(n).min(n)
    }

    /// Returns the elements of part i of n elements in k parts, `0 <= i < k`.
    pub fn part(&self, n: u64, i: u64, k: u64) -> Range<u64> {
        self.boundary(n, i, k)..self.boundary(n, i + 1, k)
    }

    /// Returns the elements of a line of `elements` elements that are block i of `k`, where every
    /// element of the dimension that is cut has `unit` elements of the line.
    pub fn block(&self, elements: u64, unit: u64, i: u64, k: u64) -> Range<u64> {
        // Without elements, a line has only empty blocks.
        let cut = self.part(elements.checked_div(unit).unwrap_or(0), i, k);
        cut.start * unit..cut.end * unit
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

/// Chunks `num .. num + cnt` of the `den` chunks of a line. A chunk may itself be cut into chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunks<N> {
    /// Number of the first chunk.
    pub num: N,
    /// Number of chunks.
    pub cnt: N,
    /// Number of chunks of the line.
    pub den: N,
}

/// Reason why chunks do not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoChunks {
    /// They are not within the whole, or the whole is not cut.
    Outside,
    /// The line would have too many chunks to be counted.
    TooMany,
}

impl<N> Chunks<N> {
    /// Converts the numbers.
    pub fn map<M>(self, f: impl Fn(N) -> M) -> Chunks<M> {
        Chunks { num: f(self.num), cnt: f(self.cnt), den: f(self.den) }
    }
}

impl<N: Clone> Chunks<N> {
    /// Returns the whole line as one chunk.
    pub fn whole<A: Algebra<Num = N>>(alg: &mut A) -> Chunks<N> {
        Chunks { num: alg.int(0), cnt: alg.int(1), den: alg.int(1) }
    }

    /// Returns chunks `index .. index + len` of the `of` chunks into which the first of these is
    /// cut.
    pub fn part<A: Algebra<Num = N>>(&self, alg: &mut A, (index, len, of): (&N, &N, &N)) -> Chunks<N> {
        let scaled = alg.mul(&self.num, of);
        Chunks { num: alg.add(&scaled, index), cnt: len.clone(), den: alg.mul(&self.den, of) }
    }

    /// Returns the number of the chunk after the last.
    pub fn end<A: Algebra<Num = N>>(&self, alg: &mut A) -> N {
        alg.add(&self.num, &self.cnt)
    }
}

impl Chunks<u64> {
    /// The whole line as one chunk.
    pub const WHOLE: Chunks<u64> = Chunks { num: 0, cnt: 1, den: 1 };

    /// Returns [`Chunks::part`] of integers.
    ///
    /// # Errors
    /// Returns the reason if there are no such chunks.
    pub fn cut(self, [index, len, of]: [i64; 3]) -> Result<Chunks<u64>, NoChunks> {
        let inside = of >= 1 && index >= 0 && len >= 0 && index.checked_add(len).is_some_and(|end| end <= of);
        if !inside {
            return Err(NoChunks::Outside);
        }
        let mut alg = IntegerAlgebra::default();
        let wide = |v: i64| u128::from(v.unsigned_abs());
        let part = self.map(u128::from).part(&mut alg, (&wide(index), &wide(len), &wide(of)));
        let fit = |v: u128| i64::try_from(v).map(i64::unsigned_abs).map_err(|_| NoChunks::TooMany);
        Ok(Chunks { num: fit(part.num)?, cnt: fit(part.cnt)?, den: fit(part.den)? })
    }

    /// Returns the chunks of which these consist, of `of` chunks of the line; `None` if these are
    /// not made of whole ones.
    pub fn among(self, of: u64) -> Option<Chunks<u64>> {
        let exact = |n: u64| n.checked_mul(of)?.checked_div(self.den).filter(|v| v * self.den == n * of);
        Some(Chunks { num: exact(self.num)?, cnt: exact(self.cnt)?, den: of })
    }
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
    /// Returns a number of elements that no run of `cnt` of `den` chunks exceeds, on ranks whose
    /// extent, unit and lengths are at most these.
    pub fn longest(&self, cnt: u64, den: u64) -> u64 {
        let wide = u128::from;
        let (cnt, den, parts) = (wide(cnt), wide(den.max(1)), wide(self.parts.max(1)));
        let (extent, unit) = (wide(self.extent), wide(self.unit));
        let whole = extent * unit;
        // A run of evenly cut elements: the difference of two boundaries that are rounded up.
        let even = |n: u128, cnt: u128| n.checked_mul(cnt).map_or(u128::MAX, |n| n.div_ceil(den));
        // The largest number of elements in this many blocks.
        let run = |blocks: u128| match self.rule {
            CutRule::Lengths(parts) => {
                wide(parts.longest_run(u64::try_from(blocks).unwrap_or(u64::MAX))).min(extent)
            }
            CutRule::Even | CutRule::Ceil => blocks.saturating_mul(extent.div_ceil(parts)).min(extent),
            CutRule::Lines(_) => extent,
        };
        let scaled = cnt * parts;
        let most = if parts == 1 {
            even(whole, cnt)
        } else if let CutRule::Lines(line) = self.rule {
            // Every boundary is less than one line away from its even position.
            even(whole, cnt).saturating_add(wide(*line) * unit)
        } else if scaled % den == 0 {
            run(scaled / den) * unit
        } else if scaled < den && den % parts == 0 {
            even(run(1) * unit, scaled)
        } else {
            run(scaled / den + 2) * unit
        };
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// Returns the first element of chunk `num` of `den`, or `None` if it does not fit in 64 bits.
    pub fn start(&self, num: u64, den: u64) -> Option<u64> {
        let line = Sized {
            parts: self.parts,
            rule: self.rule,
            extent: u128::from(self.extent),
            unit: u128::from(self.unit),
            row: u128::from(self.row),
        };
        let mut alg = IntegerAlgebra::default();
        let at = line.address(&mut alg, &num.into(), &den.into());
        alg.result(at)
    }
}
