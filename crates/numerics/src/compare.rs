//! Comparison of every element on every rank with a reference, each element with its own bound.
//!
//! The module owns the rule and the report. The reference and its bounds come from the crate
//! `kbc_reference`.
//!
//! **The rule.** Floating-point elements pass if `|got - ref| <= bound` in f64. NaN passes only
//! against NaN, an infinity only against the same infinity. The comparison is numeric: -0 passes
//! against +0 even if the bound is zero, because the order of a sum decides which of the two it
//! gives. (Two executions of one schedule are compared bit for bit instead, by
//! [`Data::first_difference`].) Integers pass if they are equal, whatever the bound. An element
//! whose bound is NaN does not pass.

use crate::element::Value;
use crate::shard::{Part, contribution, for_each_run};
use crate::tensor::{Data, Tensor, multi_index};
use kbc_ir::types::{Mesh, ReduceOp, TensorType};
use std::borrow::Borrow;
use std::ops::Range;

/// Reference values of one result, over its global shape.
#[derive(Clone, Copy, Debug)]
pub enum ReferenceValues<'a> {
    /// Values of a floating-point result.
    Float(&'a [f64]),
    /// Values of an integer result.
    Int(&'a [i64]),
}

/// The expected value of a result.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Global sizes.
    pub shape: &'a [u64],
    /// Values, row-major.
    pub values: ReferenceValues<'a>,
    /// Error bound of each element. One entry applies to all elements; an empty list means zero.
    pub bound: &'a [f64],
}

impl Expected<'_> {
    fn value(&self, i: usize) -> Option<Value> {
        match self.values {
            ReferenceValues::Float(v) => v.get(i).map(|x| Value::Float(*x)),
            ReferenceValues::Int(v) => v.get(i).map(|x| Value::Int(*x)),
        }
    }

    fn bounds_are_finite(&self, from: usize, len: usize) -> bool {
        match self.bound {
            [] => true,
            [one] => one.is_finite(),
            all => all.get(from..from + len).is_some_and(|b| b.iter().fold(true, |f, b| f & b.is_finite())),
        }
    }

    fn bound(&self, i: usize) -> f64 {
        match self.bound {
            [] => 0.0,
            [one] => *one,
            all => all.get(i).copied().unwrap_or(f64::NAN),
        }
    }
}

/// The element with the largest error in units of its bound.
#[derive(Clone, PartialEq, Debug)]
pub struct Worst {
    /// The rank.
    pub rank: u64,
    /// Index in the global tensor.
    pub index: Vec<u64>,
    /// The reference value.
    pub expected: Value,
    /// The rank's value.
    pub got: Value,
    /// The error bound.
    pub bound: f64,
    /// `|got - ref| / bound`; infinite if the bound is zero and they differ.
    pub error: f64,
}

/// The fault of one rank's contribution to a sum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultyContribution {
    /// It was left out.
    Missing,
    /// It was added twice.
    Doubled,
}

/// A contribution that explains mismatches of a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// The contributor: its linear index over the axes of the sum.
    pub contributor: u64,
    /// The fault.
    pub blame: FaultyContribution,
    /// Number of mismatches that it explains.
    pub explains: u64,
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// Number of elements compared, over all ranks.
    pub elements: u64,
    /// Number of elements that do not pass.
    pub mismatches: u64,
    /// Number of elements that pass whatever their value, because their bound is infinite.
    pub unbounded: u64,
    /// The largest `|got - ref| / bound`; 0 if nothing was compared.
    pub max_err: f64,
    /// The element with that error; None if every element is exactly right.
    pub worst: Option<Worst>,
    /// The first element that does not pass, by rank and position.
    pub first: Option<Worst>,
    /// Contributions that explain mismatches, the best explanation first.
    pub hints: Vec<Hint>,
    /// A sentence if shapes or types do not fit and nothing could be compared.
    pub unfit: Option<String>,
}

impl Comparison {
    /// Returns the result before anything is compared.
    pub fn none() -> Comparison {
        Comparison {
            elements: 0,
            mismatches: 0,
            unbounded: 0,
            max_err: 0.0,
            worst: None,
            first: None,
            hints: vec![],
            unfit: None,
        }
    }

    /// Counts one element. Returns whether it passes.
    fn note(
        &mut self,
        (got, want, bound): (Value, Value, f64),
        rank: u64,
        index: impl Fn() -> Vec<u64>,
    ) -> bool {
        let e = error(got, want, bound);
        self.elements += 1;
        self.unbounded += u64::from(bound.is_infinite() && want.as_f64().is_finite());
        let here = || Worst { rank, index: index(), expected: want, got, bound, error: e };
        if e > self.max_err {
            self.max_err = e;
            self.worst = Some(here());
        }
        if e > 1.0 {
            self.mismatches += 1;
            if self.first.is_none() {
                self.first = Some(here());
            }
        }
        e <= 1.0
    }

    /// Merges the comparisons of different elements of one result, without hints.
    #[must_use]
    pub fn merged(mut self, other: Comparison) -> Comparison {
        let place = |w: &Option<Worst>| w.as_ref().map(|w| (w.rank, w.index.clone()));
        let earlier =
            |a: &Option<Worst>, b: &Option<Worst>| b.is_some() && (a.is_none() || place(b) < place(a));
        let larger = other.max_err > self.max_err;
        if larger || (other.max_err == self.max_err && earlier(&self.worst, &other.worst)) {
            (self.max_err, self.worst) = (other.max_err, other.worst);
        }
        if earlier(&self.first, &other.first) {
            self.first = other.first;
        }
        self.elements += other.elements;
        self.mismatches += other.mismatches;
        self.unbounded += other.unbounded;
        self.unfit = self.unfit.or(other.unfit);
        self
    }

    /// Whether every element passes.
    pub fn ok(&self) -> bool {
        self.mismatches == 0 && self.unfit.is_none()
    }
}

/// Returns the error of an element in units of its bound; at most 1 passes.
fn error(got: Value, want: Value, bound: f64) -> f64 {
    match (got, want) {
        (Value::Int(a), Value::Int(b)) => {
            if a == b {
                0.0
            } else {
                f64::INFINITY
            }
        }
        _ => {
            let (a, b) = (got.as_f64(), want.as_f64());
            // Nothing is known of the element, so it passes whatever its value.
            if bound == f64::INFINITY && b.is_finite() {
                return 0.0;
            }
            if a == b || (a.is_nan() && b.is_nan()) {
                return 0.0;
            }
            let off = (a - b).abs();
            let e = if off <= bound { off / bound } else { (off / bound).max(1.0f64.next_up()) };
            // NaN on one side only, or a NaN bound, is the worst possible error.
            if e.is_nan() || bound.is_nan() { f64::INFINITY } else { e }
        }
    }
}

/// Contributions to a sum: for each contributor, the elements over the global shape of the result.
pub type Contributions<'a> = &'a [Vec<f64>];

/// Returns the contributions with which a partial sum is fed: slice r of the feed is contributor
/// r's. Returns None for other types, and for feeds that [`crate::shard::check_feed`] rejects.
pub fn contributions(ty: &TensorType, mesh: &Mesh, feed: &Tensor) -> Option<Vec<Vec<f64>>> {
    let (_, of) = contribution(ty, mesh, 0)?;
    let sum = matches!(ty.partial, Some((ReduceOp::Sum, _)));
    if !sum || crate::shard::check_feed("", ty, mesh, feed).is_err() {
        return None;
    }
    let n = feed.elements().checked_div(of as usize)?;
    Some((0..of as usize).map(|r| feed.data().slice(r * n, n).to_f64()).collect())
}

/// Compares the ranks' parts of one result (`parts[rank]`) with the expected value. If the result
/// is itself partial, the parts of the ranks that are summed are first added in f64.
/// `contributions` are the inputs of a result that is their elementwise sum, if it is one; they are
/// used to explain mismatches.
pub fn compare(
    ty: &TensorType,
    mesh: &Mesh,
    parts: &[impl Borrow<Part>],
    expected: &Expected<'_>,
    contributions: Option<Contributions<'_>>,
) -> Comparison {
    let mut out = Comparison::none();
    let held: Vec<Holding> = match &ty.partial {
        None => (0..).zip(parts).map(|(rank, p)| Holding::of(rank, p.borrow())).collect(),
        Some(_) => summed(ty, mesh, parts),
    };
    let mut explained: Vec<[u64; 2]> = vec![[0; 2]; contributions.map_or(0, <[_]>::len)];
    let mut seen: Option<Seen<'_, '_>> = None;
    for h in &held {
        if h.bounds.len() != expected.shape.len()
            || h.bounds.iter().zip(expected.shape).any(|(b, n)| b.1 > *n)
        {
            out.unfit = Some(format!(
                "{} holds {:?} of a result of shape {:?}",
                mesh.show(h.rank),
                h.bounds,
                expected.shape
            ));
            return out;
        }
        let part = ComparedPart { holding: h, bounds: h.bounds.to_vec(), start: 0 };
        let whole = part.compare(&mut out, expected, &mut seen, |at, off| {
            for (c, counts) in contributions.unwrap_or(&[]).iter().zip(&mut explained) {
                let Some(x) = c.get(at) else { continue };
                // A contribution of zero explains nothing.
                counts[0] += u64::from(off == -x && off != 0.0);
                counts[1] += u64::from(off == *x && off != 0.0);
            }
        });
        if !whole {
            out.unfit = Some(format!("{} holds fewer elements than its box", mesh.show(h.rank)));
        }
    }
    out.hints = hints(&explained, out.mismatches);
    out
}

/// Compares rows `rows` of dimension `dim`, before which all dimensions have size 1, with
/// `expected`, which has these rows alone. The type is not partial. Hints are not given.
pub fn compare_rows(
    ty: &TensorType,
    mesh: &Mesh,
    parts: &[impl Borrow<Part>],
    expected: &Expected<'_>,
    (dim, rows): (usize, Range<u64>),
) -> Comparison {
    let mut out = Comparison::none();
    let held: Vec<Holding> = (0..).zip(parts).map(|(rank, p)| Holding::of(rank, p.borrow())).collect();
    let sizes = ty.sizes();
    let mut seen: Option<Seen<'_, '_>> = None;
    for h in &held {
        if h.bounds.len() != sizes.len() || h.bounds.iter().zip(&sizes).any(|(b, n)| b.1 > *n) {
            out.unfit = Some(format!("{} holds {:?}", mesh.show(h.rank), h.bounds));
            return out;
        }
        let (lo, hi) = (h.bounds[dim].0.max(rows.start), h.bounds[dim].1.min(rows.end));
        if lo >= hi {
            continue;
        }
        let mut bounds = h.bounds.to_vec();
        let inner: u64 = bounds[dim + 1..].iter().map(|b| b.1 - b.0).product();
        let start = ((lo - bounds[dim].0) * inner) as usize;
        bounds[dim] = (lo - rows.start, hi - rows.start);
        let part = ComparedPart { holding: h, bounds, start };
        if !part.compare(&mut out, expected, &mut seen, |_, _| {}) {
            out.unfit = Some(format!("{} holds fewer elements than its box", mesh.show(h.rank)));
        }
    }
    for found in [&mut out.worst, &mut out.first].into_iter().flatten() {
        found.index[dim] += rows.start;
    }
    out
}

/// Compares the ranks' parts of all results (`got[rank][result]`) with what each rank should hold.
pub fn compare_held(got: &[Vec<Part>], want: &[Vec<Part>], off: &[Vec<Vec<f64>>]) -> Comparison {
    let mut out = Comparison::none();
    for (rank, (got, (want, off))) in got.iter().zip(want.iter().zip(off)).enumerate() {
        for (got, (want, off)) in got.iter().zip(want.iter().zip(off)) {
            if got.bounds != want.bounds {
                out.unfit = Some(format!("expected the elements {:?}, found {:?}", want.bounds, got.bounds));
                return out;
            }
            for (i, bound) in off.iter().enumerate() {
                let (Some(x), Some(y)) = (got.tensor.data().get(i), want.tensor.data().get(i)) else {
                    out.unfit = Some("there are fewer elements than expected".into());
                    return out;
                };
                let index = || {
                    let local = multi_index(want.tensor.shape(), i as u64);
                    local.iter().zip(&want.bounds).map(|(i, b)| i + b.0).collect()
                };
                out.note((x, y, *bound), rank as u64, index);
            }
        }
    }
    out
}

/// Returns the contributions that explain at least half of the mismatches, the best first.
fn hints(explained: &[[u64; 2]], mismatches: u64) -> Vec<Hint> {
    let mut all: Vec<Hint> = explained
        .iter()
        .enumerate()
        .flat_map(|(c, [missing, doubled])| {
            [(FaultyContribution::Missing, *missing), (FaultyContribution::Doubled, *doubled)]
                .map(|(blame, explains)| Hint { contributor: c as u64, blame, explains })
        })
        .filter(|h| h.explains > 0 && 2 * h.explains >= mismatches)
        .collect();
    all.sort_by_key(|h| (std::cmp::Reverse(h.explains), h.contributor, h.blame));
    all
}

/// A box of what a rank holds, of which all elements are compared.
struct ComparedPart<'a, 'h> {
    holding: &'a Holding<'h>,
    /// The box in the expected tensor.
    bounds: Vec<(u64, u64)>,
    /// Its first element in the rank's part.
    start: usize,
}

/// A box that was compared and in which every element passes.
struct Seen<'a, 'h> {
    part: ComparedPart<'a, 'h>,
    elements: u64,
    unbounded: u64,
}

impl<'a, 'h> ComparedPart<'a, 'h> {
    /// Compares the elements and counts them. `wrong` gets position and difference of those that do
    /// not pass. Returns whether all elements exist. What has the bits of a box that was `seen` has
    /// the same outcome.
    fn compare(
        self,
        out: &mut Comparison,
        expected: &Expected<'_>,
        seen: &mut Option<Seen<'a, 'h>>,
        mut wrong: impl FnMut(usize, f64),
    ) -> bool {
        if let Some(seen) = seen
            && seen.part.bounds == self.bounds
            && seen.part.same_bits(&self)
        {
            out.elements += seen.elements;
            out.unbounded += seen.unbounded;
            return true;
        }
        let before = (out.elements, out.unbounded, out.mismatches);
        let mut whole = true;
        for_each_run(expected.shape, &self.bounds, |global, local, len| {
            if expected.bounds_are_finite(global, len) && self.equals(local, expected, global, len) {
                out.elements += len as u64;
                return;
            }
            whole &= self.holding.each(self.start + local, len, |i, got| {
                let at = global + i;
                let Some(want) = expected.value(at) else { return false };
                let bound = expected.bound(at);
                if got == want && bound.is_finite() {
                    out.elements += 1;
                    return true;
                }
                let index = || multi_index(expected.shape, at as u64);
                if !out.note((got, want, bound), self.holding.rank, index) {
                    wrong(at, got.as_f64() - want.as_f64());
                }
                true
            });
        });
        if whole && out.mismatches == before.2 {
            let (elements, unbounded) = (out.elements - before.0, out.unbounded - before.1);
            *seen = Some(Seen { part: self, elements, unbounded });
        }
        whole
    }

    fn same_bits(&self, other: &Self) -> bool {
        let len = self.bounds.iter().map(|b| (b.1 - b.0) as usize).product();
        match (&self.holding.data, &other.holding.data) {
            (HeldData::Own(a), HeldData::Own(b)) => a.same_bits(self.start, b, other.start, len),
            _ => false,
        }
    }

    /// Whether all elements of a run are the expected numbers.
    fn equals(&self, local: usize, expected: &Expected<'_>, global: usize, len: usize) -> bool {
        let (HeldData::Own(got), ReferenceValues::Float(want)) = (&self.holding.data, expected.values) else {
            return false;
        };
        want.get(global..global + len).is_some_and(|want| got.equals(self.start + local, want))
    }
}

/// The elements that are compared on one rank.
struct Holding<'a> {
    rank: u64,
    bounds: &'a [(u64, u64)],
    data: HeldData<'a>,
}

enum HeldData<'a> {
    Own(&'a Data),
    Sum(Vec<f64>),
}

impl<'a> Holding<'a> {
    fn of(rank: u64, p: &'a Part) -> Self {
        Holding { rank, bounds: &p.bounds, data: HeldData::Own(p.tensor.data()) }
    }

    /// Calls `f` with `len` elements from `start` on and their numbers from 0, until it returns
    /// false. Returns whether all exist and none returned false.
    fn each(&self, start: usize, len: usize, mut f: impl FnMut(usize, Value) -> bool) -> bool {
        match &self.data {
            HeldData::Own(d) => d.each(start, len, f),
            HeldData::Sum(v) => {
                let run = start.checked_add(len).and_then(|end| v.get(start..end));
                run.is_some_and(|run| run.iter().enumerate().all(|(i, x)| f(i, Value::Float(*x))))
            }
        }
    }
}

/// Combines parts that belong to one value in f64, and reports them at the first rank of each
/// group.
fn summed<'a>(ty: &TensorType, mesh: &Mesh, parts: &'a [impl Borrow<Part>]) -> Vec<Holding<'a>> {
    let Some((op, axes)) = &ty.partial else { return vec![] };
    let mut out: Vec<(Vec<i64>, Holding<'a>)> = vec![];
    for (rank, p) in parts.iter().map(Borrow::<Part>::borrow).enumerate() {
        let coords = mesh.coords(rank as u64);
        let others: Vec<i64> =
            mesh.axes.iter().zip(coords).filter(|(a, _)| !axes.contains(&a.name)).map(|(_, c)| c).collect();
        let values = p.tensor.data().to_f64();
        match out.iter_mut().find(|(k, _)| *k == others) {
            Some((_, Holding { data: HeldData::Sum(sum), .. })) => {
                sum.iter_mut().zip(values).for_each(|(a, b)| *a = crate::numbers::combine_f64(*op, *a, b));
            }
            _ => {
                debug_assert!(contribution(ty, mesh, rank as u64).is_some_and(|c| c.0 == 0));
                out.push((
                    others,
                    Holding { rank: rank as u64, bounds: &p.bounds, data: HeldData::Sum(values) },
                ));
            }
        }
    }
    out.into_iter().map(|(_, h)| h).collect()
}
