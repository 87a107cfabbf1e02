//! Matmuls: values, sums of absolute values, and propagated bounds.

use super::precision::{F32, Precision, common_grain, odd_factor};
use super::reduce::{Sum, store};
use super::scalar::{broadcast_order, broadcast_shape};
use super::{Pending, RefTensor, Step, Value, room};
use kbc_diag::Diagnostic;
use kbc_ir::grouped::Runs;
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::tensor::in_vectors;
use std::ops::Range;
use std::sync::Arc;

/// Evaluates `[.., M, K] x [.., K, N]` with leading dimensions broadcast.
pub(super) fn run(step: &Step<'_>, a: &Value, b: &Value, accumulate_f32: bool) -> Result<Value, Diagnostic> {
    let ([lead_a @ .., m, k], [lead_b @ .., k2, n]) = (&a.t.shape[..], &b.t.shape[..]) else {
        return Err(step.broken("operands of a matmul need at least two dimensions"));
    };
    let lead = broadcast_shape(&[lead_a, lead_b]).filter(|_| k == k2);
    let lead = lead.ok_or_else(|| step.broken("[.., M, K] x [.., K, N] gives [.., M, N]"))?;
    let dtype = a.t.dtype;
    if dtype != b.t.dtype {
        return Err(step.broken("operands of a matmul need the same element type"));
    }
    let mut shape = lead.clone();
    shape.extend([*m, *n]);
    let len = step.room(&shape)?;
    let sizes = (*m as usize, *k as usize, *n as usize);
    let batches = len.checked_div(sizes.0 * sizes.2).unwrap_or(0);
    let orders = [broadcast_order(lead_a, &lead, batches), broadcast_order(lead_b, &lead, batches)];
    products(step, (a, b), (shape, sizes), orders, accumulate_f32)
}

/// Evaluates rows `[T, D]`, each with its matrix of `[G, D, F]`.
pub(super) fn grouped(step: &Step<'_>, x: &Value, w: &Value, runs: &Runs) -> Result<Value, Diagnostic> {
    let ([rows, d], [matrices, k, f]) = (&x.t.shape[..], &w.t.shape[..]) else {
        return Err(step.broken("a grouped matmul needs rows with two dimensions and matrices with three"));
    };
    runs.fit(*rows, *matrices).map_err(|why| step.broken(&why))?;
    if d != k || x.t.dtype != w.t.dtype {
        return Err(
            step.broken("a grouped matmul [T, D] x [G, D, F] gives [T, F], all of the same element type")
        );
    }
    let shape = vec![*rows, *f];
    step.room(&shape)?;
    let order = runs.matrices(0, *rows).into_iter().map(|m| m as usize).collect();
    let sizes = (1, *d as usize, *f as usize);
    products(step, (x, w), (shape, sizes), [None, Some(order)], false)
}

/// Evaluates a batch of matmuls. `orders` list the matrices of each operand; None means in order.
fn products(
    step: &Step<'_>,
    (a, b): (&Value, &Value),
    (shape, (m, k, n)): (Vec<u64>, (usize, usize, usize)),
    [of_a, of_b]: [Option<Vec<usize>>; 2],
    accumulate_f32: bool,
) -> Result<Value, Diagnostic> {
    let dtype = a.t.dtype;
    let len = step.room(&shape)?;
    let batches = len.checked_div(m * n).unwrap_or(0);
    let job = |i: usize| {
        let (x, y) = (of_a.as_ref().map_or(i, |o| o[i]), of_b.as_ref().map_or(i, |o| o[i]));
        (x * m * k..(x + 1) * m * k, y * k * n..(y + 1) * k * n)
    };
    let sizes = (m, k, n);
    if dtype == DType::I32 && !accumulate_f32 {
        let (mut exact, mut bound) = (Vec::with_capacity(len), Vec::with_capacity(len));
        for (ra, rb) in (0..batches).map(job) {
            let (v, e) = integers(step, (&a.t, ra), (&b.t, rb), sizes)?;
            exact.extend(v);
            bound.extend(e);
        }
        return Ok(Value::whole(RefTensor::integers(dtype, shape, exact, bound)));
    }
    let result = if accumulate_f32 { DType::F32 } else { dtype };
    let (Some(_), Some(stored)) = (Precision::of(dtype), Precision::of(result)) else {
        return Err(step.broken("kbc can move this type but not compute with it"));
    };
    let shared = step.partial() == Some(ReduceOp::Sum);
    let (pa, pb) = (a.pending_for(step.partial()), b.pending_for(step.partial()));
    if pa.is_some() && pb.is_some() {
        return Err(step.broken("the product of two partial values is not the product of their sums"));
    }
    if step.terms.is_some() {
        let mut bound = Vec::with_capacity(len);
        for (ra, rb) in (0..batches).map(job) {
            let (left, right) = (MatmulOperand::new(a, pa, ra), MatmulOperand::new(b, pb, rb));
            let left: Vec<f64> = left.size().iter().map(|x| super::OUTER * x.abs()).collect();
            bound.extend(by_columns(sizes, &left, |at, out| absolute(&right.size()[at], out)));
        }
        return Ok(Value::whole(RefTensor::real(result, shape, vec![0.0; len], bound)));
    }
    // If an operand is still partial, additions across ranks come on top of those along K.
    let earlier = [pa, pb].into_iter().flatten().map(|p| p.parts).fold(1.0, f64::max);
    let parts = if shared { step.parts.max(earlier) } else { 1.0 };
    let roundings = k as f64;
    let roundings = if step.probe { roundings.min(3.0 * roundings.sqrt()) } else { roundings };
    let gamma = F32.gamma(roundings + earlier - 1.0);
    let subnormal = 0.5 * k as f64 * earlier * F32.eta;
    let (mut value, mut size) = (room::filled(len), vec![]);
    let mut bound = if step.coins.is_some() { vec![] } else { room::filled(len) };
    let mut least = f64::INFINITY;
    let mut row = SumsOfRow { size: vec![0.0; n], propagated: vec![0.0; n] };
    let mut spare = vec![0.0; n];
    for (batch, (ra, rb)) in (0..batches).map(job).enumerate() {
        let values = batch * m * n..(batch + 1) * m * n;
        let (mut left, mut right) = (MatmulOperand::new(a, pa, ra), MatmulOperand::new(b, pb, rb));
        let exact_rows = !step.probe && left.has_exact_row(k) && !all_rounded(&left, &right, sizes);
        if exact_rows {
            left.find_grains((m, k), false, pa.map(|p| p.grain));
            right.find_grains((k, n), true, pb.map(|p| p.grain));
        }
        let values = &mut value[values];
        kbc_numerics::gemm::f64(m, k, n, left.value, right.value, values).expect(LENGTHS);
        let sums = match () {
            () if step.probe => Sums::probe(&left, &right, sizes),
            () if step.limits.is_some() => Sums::least(&left, &right, sizes),
            () => Sums::new(&left, &right, sizes),
        };
        // Which sums are exact, and what the parts of ranks add, is decided element by element.
        let simple = stored == F32 && !shared && !exact_rows;
        for i in 0..m {
            let first = batch * m * n + i * n;
            let v = &mut values[i * n..(i + 1) * n];
            let e = if step.coins.is_some() { &mut spare[..] } else { &mut bound[first..first + n] };
            sums.row(i, &mut row);
            if !(simple && row.bounds(v, e, gamma, subnormal)) {
                for (j, (v, e)) in v.iter_mut().zip(&mut *e).enumerate() {
                    let (s, propagated) = (row.size[j], row.propagated[j]);
                    let q =
                        if exact_rows { left.grain[i].min(1e300) * right.grain[j].min(1e300) } else { 0.0 };
                    let exact = propagated == 0.0 && F32.exact(s, q);
                    let own = if exact { 0.0 } else { gamma * (s + propagated) + subnormal };
                    let sum = Sum { v: *v, size: s, grain: q, propagated, own };
                    (*v, *e) = store(&stored, sum, parts);
                    if shared && *e == 0.0 {
                        least = least.min(q);
                    }
                }
            }
            if shared {
                size.extend_from_slice(&row.size);
            }
            if let Some((coins, op)) = step.coins {
                coins.disturb(op, first, v, e);
            }
        }
        sums.errors.into_iter().chain(sums.size.list()).for_each(room::give_back);
    }
    let t = Arc::new(RefTensor::real(result, shape, value, bound));
    let pending = Pending { op: ReduceOp::Sum, parts, size, grain: least };
    Ok(Value { t, pending: shared.then(|| Arc::new(pending)), exact: step.coins.is_some() })
}

/// One operand of one matmul.
struct MatmulOperand<'a> {
    value: &'a [f64],
    /// Error bounds; None means that all are 0.
    bound: Option<&'a [f64]>,
    /// The sums of the absolute values of the parts, if the operand is partial. Otherwise the
    /// absolute values are those of the values.
    parts: Option<&'a [f64]>,
    /// The grain of each row (left operand) or column (right operand).
    grain: Vec<f64>,
}

impl<'a> MatmulOperand<'a> {
    fn new(x: &'a Value, pending: Option<&'a Pending>, range: Range<usize>) -> MatmulOperand<'a> {
        let bound = x.bounds().map(|e| &e[range.clone()]).filter(|e| e.iter().any(|e| *e != 0.0));
        MatmulOperand {
            value: &x.t.value[range.clone()],
            bound,
            parts: pending.map(|p| &p.size[range]),
            grain: vec![],
        }
    }

    /// Computes the grains of rows or columns. `common` is the grain of the parts of a partial
    /// value.
    fn find_grains(&mut self, (rows, cols): (usize, usize), columns: bool, common: Option<f64>) {
        let n = if columns { cols } else { rows };
        self.grain = match common {
            Some(q) => vec![q; n],
            None if columns => {
                let mut out = vec![f64::INFINITY; cols];
                for row in self.value.chunks(cols.max(1)) {
                    out.iter_mut().zip(row).for_each(|(q, v)| *q = q.min(super::precision::grain(*v)));
                }
                out
            }
            None if cols == 0 => vec![f64::INFINITY; rows],
            None => self.value.chunks(cols).map(|row| common_grain(row.iter().copied())).collect(),
        };
    }

    /// Whether all elements of some row have bound 0.
    fn has_exact_row(&self, cols: usize) -> bool {
        self.bound.is_none_or(|e| cols == 0 || e.chunks(cols).any(|row| row.iter().all(|e| *e == 0.0)))
    }

    /// Returns the numbers whose absolute values are used.
    fn size(&self) -> &'a [f64] {
        self.parts.unwrap_or(self.value)
    }
}

/// Whether single terms already show that every sum of the product is rounded in f32: the odd
/// factors of two numbers, which are what is left of them without powers of two, multiply to more
/// than f32 has significant bits. It looks at few numbers. For most data they suffice, and the
/// grains of all numbers are not computed. The terms are among those of lower limits
/// ([`Sums::least`]).
fn all_rounded(a: &MatmulOperand<'_>, b: &MatmulOperand<'_>, (m, k, n): (usize, usize, usize)) -> bool {
    /// Terms that are looked at, at most.
    const TERMS: usize = 16;
    /// More than 2^24, so that no error of a sum in f64 and no lower limit matters.
    const ENOUGH: f64 = (1 << 26) as f64;
    // The grain of a partial operand is that of its parts, of which these numbers are multiples.
    let mut largest = vec![0.0; n];
    for i in (0..k).step_by(EVERY).take(TERMS) {
        let least = (0..m).map(|r| odd_factor(a.value[r * k + i])).fold(f64::INFINITY, f64::min);
        let row = &b.value[i * n..(i + 1) * n];
        largest.iter_mut().zip(row).for_each(|(l, y)| *l = f64::max(*l, least * odd_factor(*y)));
        if largest.iter().all(|l| *l >= ENOUGH) {
            return true;
        }
    }
    false
}

/// The sums `sum |a| |b|` of all elements.
enum Sizes {
    Exact(Vec<f64>),
    /// The estimate of the Cauchy-Schwarz inequality: the sums of the squares of the rows of the
    /// left and of the columns of the right operand.
    Norms(Vec<f64>, Vec<f64>),
}

impl Sizes {
    /// Writes the sums of row `i`.
    fn row(&self, i: usize, out: &mut [f64]) {
        match self {
            Sizes::Exact(list) => out.copy_from_slice(&list[i * out.len()..(i + 1) * out.len()]),
            Sizes::Norms(rows, columns) => in_vectors(|| {
                out.iter_mut().zip(columns).for_each(|(out, column)| *out = (rows[i] * column).sqrt());
            }),
        }
    }

    /// Returns the list of all sums, if there is one.
    fn list(self) -> Option<Vec<f64>> {
        match self {
            Sizes::Exact(list) => Some(list),
            Sizes::Norms(..) => None,
        }
    }
}

/// The sums that bounds need.
struct Sums {
    size: Sizes,
    /// `sum e_a (|b| + e_b)` and `sum |a| e_b`, where there are bounds.
    errors: Vec<Vec<f64>>,
}

impl Sums {
    /// Computes the sums quickly for operands without bounds: sizes are estimates.
    fn probe(a: &MatmulOperand<'_>, b: &MatmulOperand<'_>, sizes: (usize, usize, usize)) -> Sums {
        Sums { size: norms(sizes, a.size(), b.size()), errors: vec![] }
    }

    /// Computes lower limits of the sums: those of every [`EVERY`]-th term, less than the sums are
    /// rounded by.
    fn least(a: &MatmulOperand<'_>, b: &MatmulOperand<'_>, (m, k, n): (usize, usize, usize)) -> Sums {
        let terms = k.div_ceil(EVERY);
        let columns = |x: &[f64]| -> Vec<f64> {
            x.chunks(k.max(1)).flat_map(|row| row.iter().step_by(EVERY).map(|x| x.abs())).collect()
        };
        let rows = |r: Range<usize>| {
            let skipped = r.start / n * (EVERY - 1) * n;
            r.start + skipped..r.end + skipped
        };
        let sum = |rows_of_a: usize, a: &[f64], b: &dyn Fn(Range<usize>, &mut [f64])| {
            let mut out = by_columns((rows_of_a, terms, n), a, |at, out| b(rows(at), out));
            out.iter_mut().for_each(|s| *s *= 1.0 - super::precision::pow2(-20));
            out
        };
        let mut left = columns(a.size());
        let mut errors = vec![];
        if let Some(eb) = b.bound {
            errors.push(sum(m, &left, &|at, out| out.copy_from_slice(&eb[at])));
        }
        let size = match (a.bound, b.bound) {
            (Some(ea), None) => {
                left.extend(columns(ea));
                let mut both = sum(2 * m, &left, &|at, out| absolute(&b.size()[at], out));
                errors.push(both.split_off(m * n));
                both
            }
            (ea, eb) => {
                if let (Some(ea), Some(eb)) = (ea, eb) {
                    errors.push(sum(m, &columns(ea), &|at, out| reach(&b.size()[at.clone()], &eb[at], out)));
                }
                sum(m, &left, &|at, out| absolute(&b.size()[at], out))
            }
        };
        Sums { size: Sizes::Exact(size), errors }
    }

    fn new(a: &MatmulOperand<'_>, b: &MatmulOperand<'_>, sizes: (usize, usize, usize)) -> Sums {
        let (m, k, n) = sizes;
        // Rows that are multiplied by the same columns are stacked, so that the columns are read
        // once.
        let mut left: Vec<f64> = a.size().iter().map(|x| x.abs()).collect();
        let mut errors = vec![];
        if let Some(eb) = b.bound {
            errors.push(product(sizes, &left, eb));
        }
        let size = match (a.bound, b.bound) {
            (Some(ea), None) => {
                left.extend_from_slice(ea);
                let mut both = by_columns((2 * m, k, n), &left, |at, out| absolute(&b.size()[at], out));
                errors.push(both.split_off(m * n));
                both
            }
            (ea, eb) => {
                if let (Some(ea), Some(eb)) = (ea, eb) {
                    errors.push(by_columns(sizes, ea, |at, out| {
                        reach(&b.size()[at.clone()], &eb[at], out);
                    }));
                }
                by_columns(sizes, &left, |at, out| absolute(&b.size()[at], out))
            }
        };
        Sums { size: Sizes::Exact(size), errors }
    }

    /// Writes the sums of row `i`.
    fn row(&self, i: usize, out: &mut SumsOfRow) {
        self.size.row(i, &mut out.size);
        let n = out.propagated.len();
        out.propagated.fill(0.0);
        for errors in &self.errors {
            out.propagated.iter_mut().zip(&errors[i * n..]).for_each(|(sum, e)| *sum += e);
        }
        // Infinity times zero means a factor about which nothing is known.
        out.propagated.iter_mut().for_each(|e| *e = if e.is_nan() { f64::INFINITY } else { *e });
    }
}

/// The sums of the elements of a row.
struct SumsOfRow {
    size: Vec<f64>,
    /// The error that comes from the operands.
    propagated: Vec<f64>,
}

impl SumsOfRow {
    /// Writes the bounds of the row, whose values are `v`, if all sums are rounded in f32 and none
    /// may overflow: by the rules of [`store`], in vectors. Returns false otherwise.
    fn bounds(&self, v: &[f64], e: &mut [f64], gamma: f64, subnormal: f64) -> bool {
        let mut decided = true;
        in_vectors(
            #[inline(always)]
            || {
                for (((v, e), s), propagated) in v.iter().zip(e).zip(&self.size).zip(&self.propagated) {
                    *e = propagated + (gamma * (s + propagated) + subnormal);
                    decided &= (v.abs() < f64::INFINITY) & (s + *e <= F32.max);
                }
            },
        );
        decided
    }
}

/// Returns the sums of the squares of the rows of `a` and of the columns of `b`.
fn norms((m, k, n): (usize, usize, usize), a: &[f64], b: &[f64]) -> Sizes {
    let mut columns = vec![0.0; n];
    for row in b.chunks_exact(n.max(1)).take(k) {
        columns.iter_mut().zip(row).for_each(|(c, x)| *c += x * x);
    }
    let row = |i: usize| a[i * k..(i + 1) * k].iter().map(|x| x * x).sum::<f64>();
    Sizes::Norms((0..m).map(row).collect(), columns)
}

/// Returns `a b` for row-major `a` of m x k and `b` of k x n.
fn product((m, k, n): (usize, usize, usize), a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut c = room::filled(m * n);
    kbc_numerics::gemm::f64(m, k, n, a, b, &mut c).expect(LENGTHS);
    c
}

const LENGTHS: &str = "the slices are those of the sizes";

/// Which terms lower limits of sums contain: every one with a number that this divides.
pub(super) const EVERY: usize = 4;

/// Number of elements of the right operand that are produced at a time, 2 MiB, or the next number
/// with which there are whole columns, a multiple of [`COLUMNS`] of them: enough columns for the
/// routine, and few enough to stay in the cache until they are multiplied.
const MADE: usize = 1 << 18;

/// The number of columns that are produced at a time is a multiple of this: rows of whole vectors
/// are not copied by the routine.
const COLUMNS: usize = 32;

/// Returns `a b` for row-major `a` of m x k, and `b` of k x n as `right` produces it: in runs of
/// elements of a row.
fn by_columns(
    (m, k, n): (usize, usize, usize),
    a: &[f64],
    right: impl Fn(Range<usize>, &mut [f64]),
) -> Vec<f64> {
    let mut c = room::filled(m * n);
    if c.is_empty() {
        return c;
    }
    let width = MADE.div_ceil(k.max(1)).next_multiple_of(COLUMNS).min(n);
    let mut made = room::filled(k * width);
    for j in (0..n).step_by(width) {
        let w = width.min(n - j);
        let columns = &mut made[..k * w];
        columns.chunks_exact_mut(w).enumerate().for_each(|(i, row)| right(i * n + j..i * n + j + w, row));
        for (row, of) in c.chunks_exact_mut(n).zip(product((m, k, w), a, columns).chunks_exact(w)) {
            row[j..j + w].copy_from_slice(of);
        }
    }
    room::give_back(made);
    c
}

fn absolute(x: &[f64], out: &mut [f64]) {
    out.iter_mut().zip(x).for_each(|(o, x)| *o = x.abs());
}

/// Writes the largest absolute values that numbers with these bounds may have.
fn reach(x: &[f64], e: &[f64], out: &mut [f64]) {
    out.iter_mut().zip(x.iter().zip(e)).for_each(|(o, (x, e))| *o = x.abs() + e);
}

type Block<'a> = (&'a RefTensor, Range<usize>);

/// Evaluates the matmul in wrapping i32, with bounds where operands have some.
fn integers(
    step: &Step<'_>,
    (a, ra): Block<'_>,
    (b, rb): Block<'_>,
    (m, k, n): (usize, usize, usize),
) -> Result<(Vec<i64>, Vec<f64>), Diagnostic> {
    let (Some(xa), Some(xb)) = (&a.exact, &b.exact) else {
        return Err(step.broken("its integers have no values"));
    };
    let (xa, xb) = (&xa[ra.clone()], &xb[rb.clone()]);
    let mut out = vec![0i32; m * n];
    for i in 0..m {
        let row = &mut out[i * n..(i + 1) * n];
        for j in 0..k {
            let x = xa[i * k + j] as i32;
            let other = &xb[j * n..(j + 1) * n];
            row.iter_mut().zip(other).for_each(|(c, y)| *c = c.wrapping_add(x.wrapping_mul(*y as i32)));
        }
    }
    let exact: Vec<i64> = out.into_iter().map(i64::from).collect();
    let (ea, eb) = (&a.bound[ra], &b.bound[rb]);
    if ea.iter().chain(eb).all(|e| *e == 0.0) {
        let bound = vec![0.0; exact.len()];
        return Ok((exact, bound));
    }
    let abs = |x: &[i64]| x.iter().map(|v| v.unsigned_abs() as f64).collect::<Vec<f64>>();
    let add = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x + y).collect::<Vec<f64>>();
    let (sa, sb) = (abs(xa), abs(xb));
    let size = product((m, k, n), &sa, &sb);
    let reach = product((m, k, n), &add(&sa, ea), &add(&sb, eb));
    // If the sum may wrap, a small change of an operand may change all of it.
    let limit = f64::from(i32::MAX);
    let bound = size
        .iter()
        .zip(&reach)
        .map(|(s, r)| {
            if r == s {
                0.0
            } else if *r <= limit {
                (r - s).ceil()
            } else {
                f64::INFINITY
            }
        })
        .collect();
    Ok((exact, bound))
}
