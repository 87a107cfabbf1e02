//! Reductions of a dimension, and of the leading dimension of a partial input.

use super::precision::{F32, Precision, grain, grain_of_sum, significant_bits, times};
use super::{Pending, RefTensor, Step, Value};
use kbc_diag::Diagnostic;
use kbc_ir::graph::Input;
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::tensor::{Data, Tensor, in_vectors};
use std::iter::{StepBy, Take};
use std::ops::RangeFrom;
use std::sync::Arc;

/// A sum of products or of elements, computed in f32 but not yet stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub v: f64,
    /// Sum of the absolute values of the terms.
    pub size: f64,
    /// A number of which the terms are multiples.
    pub grain: f64,
    /// Error that comes from the operands.
    pub propagated: f64,
    /// Error of the operation's own f32 roundings; 0 if all partial results are exact.
    pub own: f64,
}

/// Stores a sum. If `parts` ranks share it, each rounds its part, and the parts are added in the
/// type.
#[inline]
pub(super) fn store(stored: &Precision, s: Sum, parts: f64) -> (f64, f64) {
    if !s.v.is_finite() {
        return (s.v, if s.propagated == 0.0 { 0.0 } else { f64::INFINITY });
    }
    let e = s.propagated + s.own;
    let reach = s.size + e;
    // An order of the additions might overflow: f32 for the sum itself, the stored type for its
    // parts.
    if e.is_nan() || reach > F32.max || (parts > 1.0 && reach > stored.max) {
        return (s.v, f64::INFINITY);
    }
    let narrow = *stored != F32;
    if e == 0.0 && (if parts > 1.0 { stored.exact(s.size, s.grain) } else { stored.holds(s.v) }) {
        return (s.v, 0.0);
    }
    match () {
        () if !narrow => (s.v, e),
        () if parts > 1.0 => (s.v, e + stored.gamma(parts) * reach + 0.5 * parts * stored.eta),
        () => super::scalar::rounded(stored, s.v, e, true),
    }
}

/// An element to be reduced: value, bound, and size as in `Pending`.
pub type Item = (f64, f64, f64);

/// Multiplies items in any order. Returns value, bound, and the factor by which partial products
/// may differ from 1. `whole` states that all items and all their parts are integers.
pub(super) fn multiply(p: &Precision, items: &[Item], whole: bool) -> (f64, f64, f64) {
    let (mut v, mut e) = (1.0f64, 0.0f64);
    let (mut hi, mut lo, mut bits) = (1.0f64, 1.0f64, 0);
    for (x, ex, size) in items {
        let reach = x.abs() + ex;
        e = v.abs() * ex + e * reach;
        v *= x;
        hi *= reach.max(*size).max(1.0);
        if *x != 0.0 {
            let least = x.abs() - ex;
            lo *= if least > 0.0 { least.min(1.0) } else { 0.0 };
        }
        bits += significant_bits(*x);
    }
    if let Some((x, ..)) = items.iter().find(|i| !i.0.is_finite()) {
        let v = if x.is_nan() { f64::NAN } else { v };
        return (v, if items.iter().all(|i| i.1 == 0.0) { 0.0 } else { f64::INFINITY }, f64::INFINITY);
    }
    let spread = hi.max(1.0 / lo);
    // Beyond these limits some order of the factors overflows or underflows in between.
    if e.is_nan() || spread * (1.0 + 1e-6) >= p.max.min(1.0 / p.tiny) {
        return (v, f64::INFINITY, spread);
    }
    // The odd part of a partial product divides that of the product, so it has no more bits.
    if e == 0.0 && (bits <= p.bits || (whole && p.exact(hi, 1.0))) {
        return (v, 0.0, spread);
    }
    let roundings = items.len().saturating_sub(1) as f64;
    (v, e + times(p.gamma(roundings), v.abs() + e), spread)
}

/// Returns the smallest or largest item, or NaN if one is NaN.
pub(super) fn extreme(op: ReduceOp, items: &[Item]) -> (f64, f64) {
    fn pick(op: ReduceOp, items: &[Item], f: impl Fn(&Item) -> f64) -> f64 {
        let all = items.iter().map(f);
        if op == ReduceOp::Min {
            all.fold(f64::INFINITY, f64::min)
        } else {
            all.fold(f64::NEG_INFINITY, f64::max)
        }
    }
    if let Some((_, e, _)) = items.iter().find(|i| i.0.is_nan()) {
        return (f64::NAN, *e);
    }
    let v = pick(op, items, |i| i.0);
    if items.iter().all(|i| i.1 == 0.0) {
        return (v, 0.0);
    }
    if items.iter().any(|i| i.1.is_infinite()) {
        return (v, f64::INFINITY);
    }
    let (lo, hi) = (pick(op, items, |i| i.0 - i.1), pick(op, items, |i| i.0 + i.1));
    if v.is_infinite() { (v, 0.0) } else { (v, (hi - v).max(v - lo)) }
}

/// Calls `f` with the elements `o, 0.., i` of `[outer, n, inner]`, in order of the result.
fn each(outer: usize, n: usize, inner: usize, mut f: impl FnMut(Places)) {
    for o in 0..outer {
        for i in 0..inner {
            f((o * n * inner + i..).step_by(inner).take(n));
        }
    }
}

/// The elements that are combined to one.
type Places = Take<StepBy<RangeFrom<usize>>>;

/// Evaluates the reduction of one dimension.
pub(super) fn run(
    step: &Step<'_>,
    x: &Value,
    op: ReduceOp,
    mean: bool,
    dim: usize,
    keep: bool,
) -> Result<Value, Diagnostic> {
    let mut shape = x.t.shape.clone();
    let Some(&size) = shape.get(dim) else {
        return Err(step.broken("it reduces a dimension that its operand does not have"));
    };
    let (outer, inner) = (step.room(&shape[..dim])?, step.room(&shape[dim + 1..])?);
    if keep {
        shape[dim] = 1;
    } else {
        shape.remove(dim);
    }
    let n = size as usize;
    if mean && (op != ReduceOp::Sum || !x.t.dtype.is_float()) {
        return Err(step.broken("a mean is defined only for floats"));
    }
    if let Some(values) = &x.t.exact {
        if x.t.dtype != DType::I32 {
            return Err(step.broken("kbc can move this type but not compute with it"));
        }
        let (mut exact, mut bound) = (vec![], vec![]);
        each(outer, n, inner, |at| {
            let items: Vec<(i64, f64)> = at.map(|i| (values[i], x.t.bound[i])).collect();
            let (v, e) = integers(op, &items);
            exact.push(v);
            bound.push(e);
        });
        return Ok(Value::whole(RefTensor::integers(DType::I32, shape, exact, bound)));
    }
    let Some(stored) = Precision::of(x.t.dtype) else {
        return Err(step.broken("kbc can move this type but not compute with it"));
    };
    let pending = x.pending_for(step.partial());
    let earlier = pending.map_or(1.0, |p| p.parts);
    let shared = step.partial() == Some(op) && matches!(op, ReduceOp::Sum | ReduceOp::Prod);
    let parts = if shared { step.parts.max(earlier) } else { 1.0 };
    let item = |i: usize| {
        let (v, e) = (x.t.value[i], x.bound(i));
        (v, e, pending.map_or(v.abs(), |p| p.size[i]))
    };
    let (mut value, mut bound, mut sizes, mut least) = (vec![], vec![], vec![], f64::INFINITY);
    let mut items: Vec<Item> = Vec::with_capacity(n);
    // Rows of exact numbers are reduced where they are.
    let rows = inner == 1 && n > 0 && x.exact && pending.is_none() && op != ReduceOp::Prod;
    let mut first = 0;
    each(outer, n, inner, |at| {
        if rows {
            let row = &x.t.value[first..first + n];
            first += n;
            let (v, e, size, grain) = match op {
                ReduceOp::Sum => {
                    let size = row.iter().map(|v| v.abs()).sum();
                    let sums = Totals { n, v: row.iter().sum(), size, propagated: 0.0 };
                    let common = |size: f64| grain_of_sum(row.iter().copied(), size);
                    let sum = total(sums, common, mean, parts, earlier);
                    let (v, e) = store(&stored, sum, parts);
                    (v, e, sum.size, sum.grain)
                }
                _ => (exact_extreme(op, row), 0.0, 0.0, 0.0),
            };
            value.push(v);
            bound.push(e);
            if shared {
                sizes.push(size);
                least = if e == 0.0 { least.min(grain) } else { least };
            }
            return;
        }
        items.clear();
        items.extend(at.map(item));
        let common = |size: f64| match pending {
            Some(p) => p.grain,
            None => grain_of_sum(items.iter().map(|i| i.0), size),
        };
        let (v, e, size, grain) = match op {
            ReduceOp::Sum => {
                let mut sum = total(Totals::of(&items), common, mean, parts, earlier);
                if step.terms.is_some() {
                    sum.own = 0.0;
                }
                let (v, e) = store(&stored, sum, parts);
                (v, e, sum.size, sum.grain)
            }
            ReduceOp::Prod => {
                let whole = match pending {
                    Some(p) => p.grain == 1.0,
                    None => items.iter().all(|i| i.0.fract() == 0.0),
                };
                product(&stored, &items, whole, parts, earlier)
            }
            ReduceOp::Min | ReduceOp::Max => {
                let (v, e) = extreme(op, &items);
                (v, e, 0.0, 0.0)
            }
        };
        value.push(v);
        bound.push(e);
        if shared {
            sizes.push(size);
            if e == 0.0 {
                least = least.min(grain);
            }
        }
    });
    let t = Arc::new(RefTensor::real(x.t.dtype, shape, value, bound));
    let pending = Pending { op, parts, size: sizes, grain: least };
    Ok(Value { t, pending: shared.then(|| Arc::new(pending)), exact: false })
}

/// Returns the smallest or largest of exact numbers, as [`extreme`] does.
fn exact_extreme(op: ReduceOp, row: &[f64]) -> f64 {
    if row.iter().any(|v| v.is_nan()) {
        return f64::NAN;
    }
    match op {
        ReduceOp::Min => row.iter().copied().fold(f64::INFINITY, f64::min),
        _ => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

/// The sums over some items.
struct Totals {
    /// Number of items.
    n: usize,
    v: f64,
    size: f64,
    propagated: f64,
}

impl Totals {
    fn of(items: &[Item]) -> Totals {
        let sum = |f: fn(&Item) -> f64| items.iter().map(f).sum();
        Totals { n: items.len(), v: sum(|i| i.0), size: sum(|i| i.2), propagated: sum(|i| i.1) }
    }
}

/// Returns the sum, or mean, of items in f32, computed by each of `parts` ranks that share it;
/// `earlier` ranks hold parts of each item. `common` returns the grain of items whose absolute
/// values have this sum.
fn total(sums: Totals, common: impl Fn(f64) -> f64, mean: bool, parts: f64, earlier: f64) -> Sum {
    let Totals { n, v, size, propagated } = sums;
    let n = n as f64;
    // The grain decides only whether sums of exact items are exact.
    let common = if propagated == 0.0 { common(size) } else { 0.0 };
    let exact = propagated == 0.0 && F32.exact(size, common);
    let additions = (n - 1.0 + earlier - 1.0).max(0.0);
    if !mean {
        let own = if exact { 0.0 } else { F32.gamma(additions) * (size + propagated) };
        return Sum { v, size, grain: common, propagated, own };
    }
    if n == 0.0 {
        return Sum { v: f64::NAN, size: 0.0, grain: 0.0, propagated: 0.0, own: 0.0 };
    }
    // Quotients by a power of two are exact above the subnormal numbers. Another quotient may be
    // exact, too, if there is only one.
    let simple = grain(n) == n && common / n >= F32.eta;
    let lucky = parts == 1.0 && F32.holds(n) && F32.holds(v / n) && v / n * n == v;
    let own = if exact && (simple || lucky) {
        0.0
    } else {
        F32.gamma(additions + 2.0) * (size + propagated) / n + parts * F32.eta
    };
    let grain = if simple { common / n } else { 0.0 };
    Sum { v: v / n, size: size / n, grain, propagated: propagated / n, own }
}

/// Returns the product of items: computed in f32 by each rank, stored once per rank, and the ranks'
/// products multiplied.
fn product(
    stored: &Precision,
    items: &[Item],
    whole: bool,
    parts: f64,
    earlier: f64,
) -> (f64, f64, f64, f64) {
    let extra = if earlier > 1.0 { items.len() as f64 * earlier } else { 0.0 };
    let exactly = if whole { 1.0 } else { 0.0 };
    let (v, e, spread) = multiply(&F32, items, whole);
    if *stored == F32 {
        let e = if e == 0.0 { 0.0 } else { e + times(F32.gamma(extra), v.abs() + e) };
        return (v, e, spread, exactly);
    }
    if parts == 1.0 {
        let (v, e) = super::scalar::rounded(stored, v, e, true);
        return (v, e, spread, exactly);
    }
    let (_, exact, _) = multiply(stored, items, whole);
    if exact == 0.0 {
        return (v, 0.0, spread, exactly);
    }
    // Unlike in a sum, the roundings of all parts reach the result: one per part, and one per
    // product of two parts.
    let narrow =
        if exact.is_finite() { stored.gamma(2.0 * parts - 1.0) * (v.abs() + e) } else { f64::INFINITY };
    (v, e + times(F32.gamma(extra), v.abs() + e) + narrow, spread, exactly)
}

/// Evaluates the reduction of i32, wrapping. An empty reduction gives the neutral value.
pub(super) fn integers(op: ReduceOp, items: &[(i64, f64)]) -> (i64, f64) {
    let v = items.iter().map(|i| i.0 as i32);
    let value = match op {
        ReduceOp::Sum => v.fold(0, i32::wrapping_add),
        ReduceOp::Prod => v.fold(1, i32::wrapping_mul),
        ReduceOp::Min => v.fold(i32::MAX, i32::min),
        ReduceOp::Max => v.fold(i32::MIN, i32::max),
    };
    if items.iter().all(|i| i.1 == 0.0) {
        return (i64::from(value), 0.0);
    }
    let floats: Vec<Item> = items.iter().map(|(v, e)| (*v as f64, *e, v.unsigned_abs() as f64)).collect();
    let sum = |f: &dyn Fn(&Item) -> f64| floats.iter().map(f).sum::<f64>();
    let (reach, e) = match op {
        ReduceOp::Sum => (sum(&|i| i.2 + i.1), sum(&|i| i.1)),
        ReduceOp::Prod => {
            let top: f64 = floats.iter().map(|i| i.2 + i.1).product();
            (
                floats.iter().map(|i| (i.2 + i.1).max(1.0)).product(),
                top - floats.iter().map(|i| i.2).product::<f64>(),
            )
        }
        ReduceOp::Min | ReduceOp::Max => (0.0, extreme(op, &floats).1),
    };
    (i64::from(value), if reach <= f64::from(i32::MAX) { e.ceil() } else { f64::INFINITY })
}

/// Returns an input's value: the tensor, or the combination of the leading dimension if it is
/// partial over ranks.
pub(super) fn input(declared: &Input, tensor: &Tensor) -> Result<Value, Diagnostic> {
    let ty = &declared.ty;
    let sizes = ty.sizes();
    let wrong = |what: String| {
        Diagnostic::error("E405", format!("the data for input `{}` {what}", declared.name))
            .primary(declared.span, format!("declared as {ty}"))
    };
    if tensor.dtype() != ty.dtype {
        return Err(wrong(format!(
            "has the element type {}, and the declared type is {}",
            tensor.dtype(),
            ty.dtype
        ))
        .help(format!(
            "declare the input as {} and cast it in the program, or convert the file",
            tensor.dtype()
        )));
    }
    let exact = tensor.data().to_i64();
    let Some((op, _)) = &ty.partial else {
        if tensor.shape() != sizes {
            return Err(wrong(format!(
                "has the shape {:?}, and the declared shape is {sizes:?}",
                tensor.shape()
            )));
        }
        return Ok(match exact {
            Some(ints) => {
                let bound = vec![0.0; ints.len()];
                Value { exact: true, ..Value::whole(RefTensor::integers(ty.dtype, sizes, ints, bound)) }
            }
            None => Value::exact(ty.dtype, sizes, tensor.data().to_f64()),
        });
    };
    let p = match tensor.shape() {
        [p, rest @ ..] if rest == sizes && *p > 0 => *p as usize,
        other => {
            return Err(wrong(format!(
                "has the shape {other:?}; a partial input needs {sizes:?} for each rank"
            ))
            .help("add a leading dimension with the number of ranks"));
        }
    };
    let inner = tensor.data().len() / p;
    if let Some(ints) = exact {
        if ty.dtype != DType::I32 {
            return Err(wrong(format!(
                "has the element type {}, which kbc can move but not reduce",
                ty.dtype
            )));
        }
        let mut out = Vec::with_capacity(inner);
        each(1, p, inner, |at| out.push(integers(*op, &at.map(|i| (ints[i], 0.0)).collect::<Vec<_>>()).0));
        let bound = vec![0.0; inner];
        return Ok(Value::whole(RefTensor::integers(ty.dtype, sizes, out, bound)));
    }
    let Some(stored) = Precision::of(ty.dtype) else {
        return Err(wrong(format!("has the element type {}, which kbc can move but not reduce", ty.dtype)));
    };
    let Combined { value, bound, size, grain } = match op {
        ReduceOp::Sum => sums(&stored, tensor.data(), p),
        _ => combined(*op, &stored, &tensor.data().to_f64(), p),
    };
    let pending = Pending { op: *op, parts: p as f64, size, grain };
    let keeps = matches!(op, ReduceOp::Sum | ReduceOp::Prod);
    Ok(Value {
        t: Arc::new(RefTensor::real(ty.dtype, sizes, value, bound)),
        pending: keeps.then(|| Arc::new(pending)),
        exact: false,
    })
}

/// The parts of all ranks combined: value, bound and size of each element, and the common grain
/// ([`Pending`]).
struct Combined {
    value: Vec<f64>,
    bound: Vec<f64>,
    size: Vec<f64>,
    grain: f64,
}

impl Combined {
    /// Returns the result without elements.
    fn new(elements: usize) -> Combined {
        let [value, bound, size] = [(); 3].map(|()| Vec::with_capacity(elements));
        Combined { value, bound, size, grain: f64::INFINITY }
    }

    fn push(&mut self, (value, bound, size): Item) {
        self.value.push(value);
        self.bound.push(bound);
        self.size.push(size);
    }
}

/// Number of elements of a part that are added at a time: they fit in the caches.
const BLOCK: usize = 1 << 12;

/// Adds `p` parts, which stand one after the other, in their order.
fn sums(stored: &Precision, parts: &Data, p: usize) -> Combined {
    let inner = parts.len() / p;
    let mut out = Combined::new(inner);
    let mut room = vec![0.0; BLOCK.min(inner)];
    for first in (0..inner).step_by(BLOCK) {
        let terms = &mut room[..BLOCK.min(inner - first)];
        // A sum begins with -0, the neutral element of the addition.
        out.value.resize(first + terms.len(), -0.0);
        out.size.resize(first + terms.len(), 0.0);
        let (v, size) = (&mut out.value[first..], &mut out.size[first..]);
        let mut whole = Some(Whole { bits: 0, largest: 0.0 });
        for part in 0..p {
            parts.read_f64(part * inner + first, terms);
            for ((x, v), size) in terms.iter().zip(&mut *v).zip(&mut *size) {
                *v += x;
                *size += x.abs();
            }
            whole = whole.and_then(|w| w.with(terms));
        }
        if let Some(common) = whole.map(Whole::grain)
            && whole.is_some_and(|w| stored.exact(w.largest, common))
        {
            // All elements are multiples of the grain, and no sum is larger than the largest terms.
            out.grain = out.grain.min(common);
            out.bound.resize(first + terms.len(), 0.0);
            continue;
        }
        let mut common = vec![f64::INFINITY; terms.len()];
        for part in 0..p {
            parts.read_f64(part * inner + first, terms);
            common.iter_mut().zip(&*terms).for_each(|(common, x)| *common = grain(*x).min(*common));
        }
        for ((v, size), common) in v.iter().zip(&*size).zip(common) {
            out.grain = out.grain.min(common);
            out.bound.push(added(stored, *v, *size, common, p));
        }
    }
    out
}

/// What is known of terms that are integers.
#[derive(Clone, Copy)]
struct Whole {
    /// The bits of all terms together, in two's complement.
    bits: u64,
    /// The sum of the largest absolute values of the parts.
    largest: f64,
}

impl Whole {
    /// Adds the terms of a part, or returns None if one is no integer below 2^51.
    fn with(self, terms: &[f64]) -> Option<Whole> {
        // In this sum an integer stands in the last bits.
        const SHIFT: f64 = (3u64 << 51) as f64;
        let (mut whole, mut bits, mut largest) = (true, self.bits, 0);
        in_vectors(|| {
            for x in terms {
                let shifted = x + SHIFT;
                whole &= shifted - SHIFT == *x;
                bits |= shifted.to_bits().wrapping_sub(SHIFT.to_bits());
                // The bits of positive numbers have the order of the numbers.
                largest = largest.max(x.abs().to_bits());
            }
        });
        let largest = f64::from_bits(largest);
        (whole && largest < (1u64 << 51) as f64).then_some(Whole { bits, largest: self.largest + largest })
    }

    /// Returns the largest power of two of which all terms are multiples, infinite if all are 0.
    fn grain(self) -> f64 {
        if self.bits == 0 { f64::INFINITY } else { super::precision::pow2(self.bits.trailing_zeros() as i32) }
    }
}

/// Combines `p` parts, which stand one after the other, by another operator than a sum.
fn combined(op: ReduceOp, stored: &Precision, elements: &[f64], p: usize) -> Combined {
    let inner = elements.len() / p;
    let mut out = Combined::new(inner);
    each(1, p, inner, |at| {
        let items: Vec<Item> = at.map(|i| (elements[i], 0.0, elements[i].abs())).collect();
        let item = match op {
            ReduceOp::Sum => unreachable!("`sums` adds"),
            ReduceOp::Prod => {
                let whole = items.iter().all(|i| i.0.fract() == 0.0);
                out.grain = out.grain.min(f64::from(whole));
                multiply(stored, &items, whole)
            }
            ReduceOp::Min | ReduceOp::Max => {
                let (v, e) = extreme(op, &items);
                (v, e, 0.0)
            }
        };
        out.push(item);
    });
    out
}

/// Returns the bound of a sum of n values of a type, added in that type.
fn added(stored: &Precision, v: f64, size: f64, common: f64, n: usize) -> f64 {
    let own = stored.gamma(n as f64 - 1.0) * size;
    match () {
        () if !v.is_finite() || stored.exact(size, common) => 0.0,
        () if size + own > stored.max => f64::INFINITY,
        () => own,
    }
}
