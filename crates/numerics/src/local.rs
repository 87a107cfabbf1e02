//! Local operations of a schedule on tensors.
//!
//! The module owns shapes and the layout of lines. [`mod@crate::broadcast`] repeats operands to
//! larger shapes; [`crate::numbers`], [`crate::scalar_eval`] and [`crate::gemm`] implement the
//! arithmetic. It knows neither ranks nor the contents of memory: callers pass whole operands and
//! get the elements to write and their position.

use crate::broadcast::{broadcast, walk, whole};
use crate::gemm;
use crate::numbers::{self, Refusal};
use crate::scalar_eval;
use crate::tensor::{Data, Tensor, count};
use crate::tiles;
use kbc_ir::schedule::{Filling, LocalOp};
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::{CutRule, DType, ReduceOp};
use std::ops::Range;

/// The elements that a local operation touches on one rank: ranges `(start, len)` of its sources,
/// in the order of [`LocalOp::srcs`], and of its destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// The ranges that are read.
    pub reads: Vec<(u64, u64)>,
    /// The range that is written.
    pub write: (u64, u64),
}

/// Maximum number of parts of a line. Empty parts are visited, too.
const MAX_PARTS: u64 = 1 << 24;

/// Returns the block of a line that is part `at`. The line has `line` elements, `unit` of them for
/// one element of the cut dimension.
pub fn block(line: u64, unit: u64, parts: u64, rule: &CutRule, at: i64) -> Result<(u64, u64), Refusal> {
    let index = u64::try_from(at).ok().filter(|i| *i < parts).ok_or_else(|| {
        Refusal::new(
            format!("part {at} of {parts} does not exist"),
            "parts are numbered from 0 to `parts - 1`",
        )
    })?;
    let block = rule.block(line, unit, index, parts);
    Ok((block.start, block.end - block.start))
}

/// Returns the number of elements before, along and after a dimension.
pub fn outer_inner(shape: &[u64], dim: u32) -> Result<(u64, u64, u64), Refusal> {
    let d = dim as usize;
    let n = *shape.get(d).ok_or_else(|| {
        Refusal::new(
            format!("dimension {dim} does not exist; the tensor has {}", shape.len()),
            "dimensions count from 0",
        )
    })?;
    let size =
        |s| count(s).ok_or_else(|| Refusal::new("a shape has more than 2^64 elements", "use smaller sizes"));
    Ok((size(&shape[..d])?, n, size(&shape[d + 1..])?))
}

/// Returns what an operation touches. `part` is the value of its `at` or `index` expression on this
/// rank, if it has one.
pub fn footprint(
    op: &LocalOp,
    dst: &[u64],
    srcs: &[&[u64]],
    part: Option<i64>,
) -> Result<Footprint, Refusal> {
    let reads = srcs.iter().map(|s| whole(s)).collect::<Result<Vec<_>, _>>()?;
    let mut out = Footprint { reads, write: whole(dst)? };
    if let LocalOp::Pack { parts, .. } | LocalOp::Unpack { parts, .. } = op
        && !(1..=MAX_PARTS).contains(parts)
    {
        return Err(Refusal::new(
            format!("a dimension cannot be split into {parts} parts"),
            format!("the number of parts must be from 1 to {MAX_PARTS}"),
        ));
    }
    match (op, part, srcs.first()) {
        (LocalOp::Pack { dim, parts, rule, .. }, Some(at), Some(src)) => {
            let (outer, _, inner) = outer_inner(src, *dim)?;
            out.write = block(out.write.1, outer.saturating_mul(inner), *parts, rule, at)?;
        }
        (LocalOp::Unpack { dim, parts, rule, .. }, Some(at), Some(_)) => {
            let (outer, _, inner) = outer_inner(dst, *dim)?;
            out.reads[0] = block(out.reads[0].1, outer.saturating_mul(inner), *parts, rule, at)?;
        }
        _ => {}
    }
    Ok(out)
}

/// Executes an operation. Returns the elements to write from `footprint(..).write.0` on. Sources
/// are whole tensors, except that the source of an `Unpack` with `at` is only the block that its
/// footprint names.
pub fn apply(
    op: &LocalOp,
    dst: (&[u64], DType),
    srcs: &[&Tensor],
    part: Option<i64>,
) -> Result<Data, Refusal> {
    let (shape, dtype) = dst;
    let shapes: Vec<&[u64]> = srcs.iter().map(|t| t.shape()).collect();
    let (_, n) = match op {
        // Its source is already the block, so its footprint would look for a block of the block.
        LocalOp::Unpack { .. } if part.is_some() => whole(shape)?,
        _ => footprint(op, shape, &shapes, part)?.write,
    };
    let src = |i: usize| {
        srcs.get(i)
            .copied()
            .ok_or_else(|| Refusal::new(format!("operand {i} is missing"), "give all operands"))
    };
    let data = match op {
        LocalOp::Compute { func, .. } => {
            let args = srcs.iter().map(|t| broadcast(t, shape)).collect::<Result<Vec<_>, _>>()?;
            let args: Vec<&Data> = args.iter().collect();
            scalar_eval::map(func, &args, n as usize, dtype)?
        }
        LocalOp::Matmul { .. } => matmul(src(0)?, src(1)?, shape, dtype)?,
        LocalOp::Tiles { kernel, .. } => tiles::run(kernel, srcs, shape)?,
        LocalOp::Grouped { .. } => {
            let (x, w) = (src(0)?, src(1)?);
            multiplied(x, w, matmuls_of(op, (x.shape(), w.shape()), shape, part)?, dtype)?
        }
        LocalOp::ReduceDim { op, mean, dim, .. } => reduce_dim(*op, *mean, src(0)?, *dim, (n, dtype))?,
        LocalOp::Cast { .. } => numbers::cast(src(0)?.data(), dtype),
        LocalOp::Copy { .. } => src(0)?.data().clone(),
        LocalOp::Pack { dim, parts, rule, .. } => {
            let t = src(0)?;
            let (outer, size, inner) = outer_inner(t.shape(), *dim)?;
            match part {
                Some(_) => t.data().clone(),
                None => relayout(t.data(), outer, size, inner, *parts, rule, true),
            }
        }
        LocalOp::Unpack { dim, parts, rule, .. } => {
            let t = src(0)?;
            let (outer, size, inner) = outer_inner(shape, *dim)?;
            match part {
                Some(_) => t.data().clone(),
                None => relayout(t.data(), outer, size, inner, *parts, rule, false),
            }
        }
        LocalOp::Transpose { perm, .. } => {
            let t = src(0)?;
            t.data().picked(&transposed(t.shape(), perm)?)
        }
        LocalOp::Fill { with, .. } => filled(with, shape, dtype, part.unwrap_or(0))?,
        LocalOp::Embedding { .. } => rows(src(0)?, src(1)?, part.unwrap_or(0))?,
        LocalOp::Slice { dim, of, rule, .. } => {
            let t = src(0)?;
            let (_, size, _) = outer_inner(t.shape(), *dim)?;
            let (lo, len) = block(size, 1, *of, rule, part.unwrap_or(0))?;
            let mut bounds: Vec<(u64, u64)> = t.shape().iter().map(|n| (0, *n)).collect();
            bounds[*dim as usize] = (lo, lo + len);
            t.extract(&bounds).map(Tensor::into_data).unwrap_or_else(|| Data::zeros(dtype, 0))
        }
    };
    if data.dtype() != dtype || data.len() as u64 != n {
        return Err(Refusal::new(
            format!("{} {} elements do not match a destination of {n} {dtype}", data.len(), data.dtype()),
            "the sizes and element types of a local operation must match; use `cast` to convert",
        ));
    }
    Ok(data)
}

/// Returns elements that depend only on their position: a number, or the index along a dimension
/// from `first` on.
fn filled(with: &Filling, shape: &[u64], dtype: DType, first: i64) -> Result<Data, Refusal> {
    let (_, n) = whole(shape)?;
    match with {
        Filling::Number(v) => Ok(numbers::from_f64(dtype, &vec![*v; n as usize])),
        Filling::Place { dim, .. } => {
            let (outer, size, inner) = outer_inner(shape, *dim)?;
            let one = (0..size as i64).flat_map(|i| (0..inner).map(move |_| first + i));
            let values: Vec<i64> = (0..outer).flat_map(|_| one.clone()).collect();
            Ok(numbers::from_i64(dtype, &values))
        }
    }
}

/// Returns row `id - first` of a table for each id, and zeros where there is no such row.
fn rows(table: &Tensor, ids: &Tensor, first: i64) -> Result<Data, Refusal> {
    let (_, n, row) = outer_inner(table.shape(), 0)?;
    let ids = ids
        .data()
        .to_i64()
        .ok_or_else(|| Refusal::new("the row numbers are not integers", "row numbers must be i32 or i64"))?;
    let mut out = Data::zeros(table.dtype(), ids.len() * row as usize);
    for (i, id) in ids.iter().enumerate() {
        let at = id.checked_sub(first).and_then(|at| u64::try_from(at).ok()).filter(|at| *at < n);
        if let Some(at) = at {
            let (to, from) = (i * row as usize, (at * row) as usize);
            assert!(out.copy_from(to, table.data(), from, row as usize), "the row was found in the table");
        }
    }
    Ok(out)
}

/// Returns, for each dimension of a transpose, its size and its stride in the operand, in elements.
pub fn permuted(shape: &[u64], perm: &[u32]) -> Result<Vec<(u64, u64)>, Refusal> {
    let (_, _) = whole(shape)?;
    let op = ShapeOp::Transpose(perm.iter().map(|d| *d as usize).collect());
    op.sizes(&[shape.to_vec()])
        .map_err(|why| Refusal::new(why, "a permutation must name every dimension of the operand once"))?;
    let strides: Vec<u64> = (0..shape.len()).map(|d| shape[d + 1..].iter().product()).collect();
    Ok(perm.iter().map(|d| (shape[*d as usize], strides[*d as usize])).collect())
}

/// Returns the indices of the operand's elements in the order of its transpose.
fn transposed(shape: &[u64], perm: &[u32]) -> Result<Vec<usize>, Refusal> {
    let (_, n) = whole(shape)?;
    let (sizes, strides): (Vec<u64>, Vec<u64>) = permuted(shape, perm)?.into_iter().unzip();
    let strides: Vec<usize> = strides.into_iter().map(|s| s as usize).collect();
    Ok(walk(&sizes, &strides, n as usize))
}

/// Copies a tensor `[outer, n, inner]` to the line of the parts of n, or (`pack` false) back.
fn relayout(src: &Data, outer: u64, n: u64, inner: u64, parts: u64, rule: &CutRule, pack: bool) -> Data {
    let mut out = Data::zeros(src.dtype(), src.len());
    let mut line = 0;
    for b in 0..parts {
        let Range { start: lo, end: hi } = rule.part(n, b, parts);
        let run = ((hi - lo) * inner) as usize;
        if run == 0 {
            continue;
        }
        for o in 0..outer {
            let tensor = ((o * n + lo) * inner) as usize;
            let (to, from) = if pack { (line, tensor) } else { (tensor, line) };
            // The caller compares lengths, and so detects a source that does not have the size of
            // the shape.
            let _ = out.copy_from(to, src, from, run);
            line += run;
        }
    }
    out
}

/// Reduces a dimension. `want` is the number of elements and the type of the destination.
fn reduce_dim(
    op: ReduceOp,
    mean: Option<u64>,
    t: &Tensor,
    dim: u32,
    want: (u64, DType),
) -> Result<Data, Refusal> {
    let (outer, n, inner) = outer_inner(t.shape(), dim)?;
    if outer.checked_mul(inner) != Some(want.0) {
        return Err(Refusal::new(
            format!("dimension {dim} of {:?} cannot be reduced into {} elements", t.shape(), want.0),
            "the result must have the other dimensions",
        ));
    }
    let (outer, n, inner) = (outer as usize, n as usize, inner as usize);
    if t.dtype() == DType::I32 && mean.is_some() {
        return Err(Refusal::new("a mean of i32 is not defined", "cast to f32 first"));
    }
    fn fold<T: Copy>(v: &[T], dims: [usize; 3], none: T, f: impl Fn(T, T) -> T) -> Vec<T> {
        let [outer, n, inner] = dims;
        let mut out = Vec::with_capacity(outer * inner);
        for o in 0..outer {
            for i in 0..inner {
                let mut all = (0..n).map(|j| v[(o * n + j) * inner + i]);
                let first = all.next();
                out.push(first.map_or(none, |first| all.fold(first, &f)));
            }
        }
        out
    }
    let dims = [outer, n, inner];
    if let Data::I32(v) = t.data() {
        return Ok(Data::I32(fold(v, dims, numbers::identity_i32(op), |a, b| {
            numbers::combine_i32(op, a, b)
        })));
    }
    let wide = numbers::widen(t.data())?;
    let mut out = fold(&wide, dims, numbers::identity_f32(op), |a, b| numbers::combine_f32(op, a, b));
    if let Some(k) = mean {
        out.iter_mut().for_each(|x| *x /= k as f32);
    }
    numbers::narrow(out, want.1)
}

/// Splits `[.., r, c]` into leading sizes, r and c.
fn matrix(shape: &[u64]) -> Result<(&[u64], u64, u64), Refusal> {
    match shape {
        [lead @ .., r, c] => Ok((lead, *r, *c)),
        _ => Err(Refusal::new(
            format!("matmul is not defined for a tensor of {} dimensions", shape.len()),
            "the operands of matmul need at least two dimensions",
        )),
    }
}

/// Returns, for each matrix of the result, the number of the matrix of an operand that has these
/// leading sizes.
fn batches(lead: &[u64], result: &[u64]) -> Result<Vec<usize>, Refusal> {
    let n = count(lead)
        .ok_or_else(|| Refusal::new("a shape has more than 2^64 elements", "use smaller sizes"))?;
    let numbers: Vec<i64> = (0..n as i64).collect();
    let t = Tensor::new(lead, Data::I64(numbers))
        .ok_or_else(|| Refusal::new("the shape is too large", "use smaller sizes"))?;
    match broadcast(&t, result)? {
        Data::I64(v) => Ok(v.into_iter().map(|i| i as usize).collect()),
        _ => Ok(vec![]),
    }
}

/// A matmul, or a batch of them: sizes M, K, N, and for each matrix of the result the numbers of
/// its operands.
pub struct Matmul {
    /// M, K and N.
    pub sizes: (usize, usize, usize),
    /// For each matrix of the result, the numbers of its two operands.
    pub pairs: Vec<(usize, usize)>,
}

/// Returns the matmuls of which `[.., M, K] x [.., K, N]` into `dst` consists; none if the result
/// is empty.
pub fn batched_matmul(operands: (&[u64], &[u64]), dst: &[u64]) -> Result<Matmul, Refusal> {
    let (a, b) = operands;
    let (lead_a, m, k) = matrix(a)?;
    let (lead_b, k2, n) = matrix(b)?;
    let lead = match dst {
        [lead @ .., dm, dn] if (*dm, *dn) == (m, n) && k == k2 => lead,
        _ => {
            return Err(Refusal::new(
                format!("{a:?} times {b:?} does not give {dst:?}"),
                "[.., M, K] x [.., K, N] gives [.., M, N]",
            ));
        }
    };
    let sizes = (m as usize, k as usize, n as usize);
    if whole(dst)?.1 == 0 {
        return Ok(Matmul { sizes, pairs: vec![] });
    }
    let pairs = batches(lead_a, lead)?.into_iter().zip(batches(lead_b, lead)?).collect();
    Ok(Matmul { sizes, pairs })
}

/// Returns the matmuls of an operation that has some. A grouped one has one matmul per row.
pub fn matmuls_of(
    op: &LocalOp,
    (x, w): (&[u64], &[u64]),
    dst: &[u64],
    at: Option<i64>,
) -> Result<Matmul, Refusal> {
    let LocalOp::Grouped { runs, places, .. } = op else { return batched_matmul((x, w), dst) };
    let ([rows, d], [matrices, k, n], [r, f]) = (x, w, dst) else {
        return Err(Refusal::new(
            "the operands of this grouped matmul have other dimensions",
            "[T, D] x [G, D, F] gives [T, F]",
        ));
    };
    if (d, n, rows) != (k, f, r) {
        return Err(Refusal::new(
            format!("{x:?} times {w:?} does not give {dst:?}"),
            "[T, D] x [G, D, F] gives [T, F]",
        ));
    }
    let place = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| places.get(at));
    let Some((row, matrix)) = place else {
        return Err(Refusal::new("this grouped matmul lists no places", "list one place per rank"));
    };
    let all = runs.matrices(*row, *rows);
    let mine = |m: &u64| m.checked_sub(*matrix).filter(|m| m < matrices).map(|m| m as usize);
    let pairs: Option<Vec<(usize, usize)>> =
        all.iter().enumerate().map(|(i, m)| Some((i, mine(m)?))).collect();
    match pairs.filter(|p| p.len() as u64 == *rows) {
        // An empty product needs no work.
        Some(pairs) if whole(dst)?.1 > 0 => Ok(Matmul { sizes: (1, *d as usize, *n as usize), pairs }),
        Some(_) => Ok(Matmul { sizes: (1, *d as usize, *n as usize), pairs: vec![] }),
        None => Err(Refusal::new(
            format!(
                "rows {row}..{} need matrices {all:?}, and this rank holds {matrix}..{}",
                row + rows,
                matrix + matrices
            ),
            "the matrix of every row must be on the rank of the row",
        )),
    }
}

fn matmul(a: &Tensor, b: &Tensor, dst: &[u64], dtype: DType) -> Result<Data, Refusal> {
    multiplied(a, b, batched_matmul((a.shape(), b.shape()), dst)?, dtype)
}

fn multiplied(a: &Tensor, b: &Tensor, by: Matmul, dtype: DType) -> Result<Data, Refusal> {
    let Matmul { sizes: (m, k, n), pairs } = by;
    if a.dtype() != b.dtype() {
        return Err(Refusal::new(
            format!("{} x {}", a.dtype(), b.dtype()),
            "cast one operand to the type of the other",
        ));
    }
    if pairs.is_empty() {
        return Ok(Data::zeros(dtype, 0));
    }
    fn each_batch<T: Copy + Default>(
        pairs: impl Iterator<Item = (usize, usize)>,
        (m, k, n): (usize, usize, usize),
        (a, b): (&[T], &[T]),
        len: usize,
        gemm: impl Fn(usize, usize, usize, &[T], &[T], &mut [T]) -> Option<()>,
    ) -> Option<Vec<T>> {
        let mut out = vec![T::default(); len];
        for (i, (x, y)) in pairs.enumerate() {
            let c = out.get_mut(i * m * n..(i + 1) * m * n)?;
            gemm(m, k, n, &a[x * m * k..(x + 1) * m * k], &b[y * k * n..(y + 1) * k * n], c)?;
        }
        Some(out)
    }
    let len = pairs.len() * m * n;
    let pairs = pairs.into_iter();
    let sizes = || Refusal::new("the sizes of a matmul do not fit in memory", "use smaller sizes");
    if let (Data::I32(x), Data::I32(y)) = (a.data(), b.data()) {
        return Ok(Data::I32(each_batch(pairs, (m, k, n), (x, y), len, gemm::i32).ok_or_else(sizes)?));
    }
    let (x, y) = (numbers::widen(a.data())?, numbers::widen(b.data())?);
    numbers::narrow(each_batch(pairs, (m, k, n), (&x[..], &y[..]), len, gemm::f32).ok_or_else(sizes)?, dtype)
}
