//! Maximum size of integers in the inputs for which every partial result is exact.
//!
//! The analysis is static. If the inputs are integers of absolute value below m, each value of the
//! program is a multiple of a known power of two (its grain) and below a known size. Where size
//! over grain stays within the mantissa, nothing is rounded in any order and for any placement
//! ([`super::precision::Precision::exact`]).

mod tiles;

use super::precision::{F32, Precision, common_grain, grain};
use kbc_ir::dtype::Format;
use kbc_ir::fill::{FillContent, counts_to};
use kbc_ir::graph::{CollKind, Collective, Graph, OpId, OpKind};
use kbc_ir::local::{Local, MatchedCollective, matched_collectives};
use kbc_ir::scalar::{Scalar, ScalarBin, ScalarUn};
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::{DType, Mesh, ReduceOp};
use kbc_numerics::tensor::Tensor;
use std::collections::BTreeMap;

/// The largest modulus that is ever returned: that of [`kbc_numerics::generate::ExactRange`] has 32
/// bits.
const MAX_MODULUS: u64 = u32::MAX as u64;

/// Returns for each input the largest m such that, with integers in `0..m` (or of smaller absolute
/// value), every partial result of the program is exact in its type, and i32 does not wrap. First
/// one m is determined for all inputs, as large as possible for all together and for each at most
/// what its type holds. Then each input in turn gets the largest m that the others allow.
///
/// `given` has the data of inputs whose data is provided (their entry of the result is 0). The
/// result is None if the program has an operation that is not exact on integers (a function, a
/// division, a constant that is not a short binary fraction), if its given data is too wide, or if
/// not even m = 2 is exact. Normal data is appropriate then.
pub fn exact_modulus(graph: &Graph, mesh: &Mesh, given: &[Option<&Tensor>]) -> Option<Vec<u32>> {
    let types: Vec<DType> = graph.inputs.iter().map(|i| i.ty.dtype).collect();
    moduli(&types, given, |extents| exact(graph, mesh, extents).is_some())
}

/// Does the same for a local program, with one entry per input of [`Local::inputs`]. Also returns
/// None if collectives do not match.
pub fn exact_modulus_local(local: &Local, mesh: &Mesh, given: &[Option<&Tensor>]) -> Option<Vec<u32>> {
    let types: Vec<DType> = local.inputs(mesh).iter().map(|p| p.ty.dtype).collect();
    let order = matched_collectives(local, mesh).ok()?;
    moduli(&types, given, |extents| exact_local(local, mesh, &order, extents).is_some())
}

fn moduli(types: &[DType], given: &[Option<&Tensor>], exact: impl Fn(&[Extent]) -> bool) -> Option<Vec<u32>> {
    let fixed: Vec<Option<Extent>> =
        (0..types.len()).map(|i| given.get(i).copied().flatten().map(extent_of)).collect();
    let room: Vec<u64> = types.iter().map(|t| widest(*t)).collect();
    let fits = |m: &[u64]| -> bool {
        let extents: Vec<Extent> = m
            .iter()
            .zip(&fixed)
            .map(|(m, f)| f.unwrap_or(Extent { size: m.saturating_sub(1) as f64, grain: 1.0 }))
            .collect();
        exact(&extents)
    };
    let together = |m: u64| -> Vec<u64> { room.iter().map(|w| m.min(*w)).collect() };
    let start = largest(2, MAX_MODULUS, |m| fits(&together(m)))?;
    let mut out = together(start);
    for i in 0..out.len() {
        let others = out.clone();
        let grown = largest(out[i], room[i], |m| {
            let mut try_it = others.clone();
            try_it[i] = m;
            fits(&try_it)
        });
        out[i] = grown.unwrap_or(out[i]);
    }
    // Not larger than MOST, which has 32 bits.
    Some(out.iter().zip(&fixed).map(|(m, f)| if f.is_some() { 0 } else { *m as u32 }).collect())
}

/// Returns the largest m in `lo..=hi` that passes a test that holds up to some m, or None if `lo`
/// fails.
fn largest(lo: u64, hi: u64, ok: impl Fn(u64) -> bool) -> Option<u64> {
    if lo > hi || !ok(lo) {
        return None;
    }
    let (mut good, mut bad) = (lo, hi + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if ok(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}

/// Returns the largest m for which a type holds all of `0..m`.
fn widest(dtype: DType) -> u64 {
    match dtype.row().format {
        Format::Float(f) => (1 << f.digits) + 1,
        Format::Int { bits: 64, .. } => MAX_MODULUS,
        Format::Int { .. } => counts_to(dtype) + 1,
    }
}

/// The extent of a value: all elements are multiples of `grain` and at most `size`. For a partial
/// value, this holds for all sums of parts.
#[derive(Clone, Copy, Debug)]
struct Extent {
    size: f64,
    grain: f64,
}

/// Returns the extent of given data.
fn extent_of(t: &Tensor) -> Extent {
    let values = t.data().to_f64();
    let size = values.iter().map(|v| v.abs()).fold(0.0, f64::max);
    let finite = values.iter().all(|v| v.is_finite());
    Extent { size, grain: if finite { common_grain(values) } else { 0.0 } }
}

/// Returns the extent if sums of it are exact in the type.
fn holds(dtype: DType, x: Extent) -> Option<Extent> {
    let ok = match (dtype, Precision::of(dtype)) {
        (_, Some(p)) => p.exact(x.size, x.grain),
        (DType::I32, None) => x.size <= f64::from(i32::MAX) && x.grain >= 1.0,
        _ => true,
    };
    ok.then_some(x)
}

/// Returns Some if every partial result is exact.
fn exact(graph: &Graph, mesh: &Mesh, inputs: &[Extent]) -> Option<()> {
    let mut known = Extents::new();
    for &id in graph.order() {
        let result = extent(graph, mesh, id, &known, inputs)?;
        known.insert(id, result);
    }
    Some(())
}

/// Extents of the values so far, with their types.
type Extents = BTreeMap<OpId, (Extent, DType)>;

/// Does the same for a local program, with the extents that all ranks of a part share, from meeting
/// to meeting.
fn exact_local(local: &Local, mesh: &Mesh, order: &[MatchedCollective], inputs: &[Extent]) -> Option<()> {
    let mut parts: Vec<(Extents, usize)> = local.parts.iter().map(|_| (Extents::new(), 0)).collect();
    let mut first = 0;
    let own: Vec<&[Extent]> = local
        .parts
        .iter()
        .map(|p| {
            let list = inputs.get(first..first + p.graph.inputs.len());
            first += p.graph.inputs.len();
            list
        })
        .collect::<Option<_>>()?;
    let walk = |parts: &mut Vec<(Extents, usize)>, part: usize, until: Option<OpId>| -> Option<()> {
        let graph = &local.parts[part].graph;
        let (known, next) = &mut parts[part];
        while let Some(&id) = graph.order().get(*next) {
            *next += 1;
            if Some(id) == until {
                break;
            }
            let result = extent(graph, mesh, id, known, own[part])?;
            known.insert(id, result);
        }
        Some(())
    };
    for matched in order {
        let mut all: Option<(Extent, DType)> = None;
        for (part, id) in &matched.members {
            walk(&mut parts, *part, Some(*id))?;
            let operand = *local.parts[*part].graph.operands(*id).first()?;
            let (x, dtype) = *parts[*part].0.get(&operand)?;
            let joined = |y: Extent| Extent { size: x.size.max(y.size), grain: x.grain.min(y.grain) };
            all = Some((all.map_or(x, |a| joined(a.0)), dtype));
        }
        let (x, dtype) = all?;
        let (part, id) = *matched.members.first()?;
        let OpKind::Collective(c) = &local.parts[part].graph.op(id).kind else { return None };
        let ranks: u64 = c.axes().iter().filter_map(|a| mesh.axis(a)).map(|a| a.size).product();
        let result = holds(dtype, of_ranks(x, c.red, ranks as f64)?)?;
        for (part, id) in &matched.members {
            parts[*part].0.insert(*id, (result, dtype));
        }
    }
    (0..local.parts.len()).try_for_each(|part| walk(&mut parts, part, None))
}

/// Returns the extent of an operation whose operands have theirs, if its partial results are exact.
fn extent(
    graph: &Graph,
    mesh: &Mesh,
    id: OpId,
    known: &Extents,
    inputs: &[Extent],
) -> Option<(Extent, DType)> {
    let op = graph.op(id);
    let ids = graph.operands(id);
    let operands: Vec<(Extent, DType)> = ids.iter().map(|o| known.get(o).copied()).collect::<Option<_>>()?;
    let sizes = |k: usize| Some(graph.op(*ids.get(k)?).ty.as_ref()?.sizes());
    let first = operands.first().copied();
    Some(match &op.kind {
        OpKind::Input(i) => {
            let ty = &graph.inputs.get(*i)?.ty;
            let x = *inputs.get(*i)?;
            let ranks = |axes: &[kbc_ir::Name]| -> f64 {
                axes.iter().map(|a| mesh.axis(a).map_or(1.0, |a| a.size as f64)).product()
            };
            let x = match &ty.partial {
                Some((ReduceOp::Sum, axes)) => Extent { size: x.size * ranks(axes), ..x },
                Some((ReduceOp::Prod, axes)) => Extent {
                    size: x.size.max(1.0).powf(ranks(axes)),
                    grain: if x.grain >= 1.0 { 1.0 } else { 0.0 },
                },
                _ => x,
            };
            (holds(ty.dtype, x)?, ty.dtype)
        }
        OpKind::Matmul { accumulate_f32 } => {
            let [(a, dtype), (b, _)] = operands[..] else { return None };
            let k = *sizes(0)?.last()? as f64;
            let x = Extent { size: a.size * b.size * k, grain: a.grain * b.grain };
            let result = if *accumulate_f32 { DType::F32 } else { dtype };
            (holds(result, x)?, result)
        }
        OpKind::Grouped(_) => {
            let [(a, dtype), (b, _)] = operands[..] else { return None };
            let k = *sizes(0)?.last()? as f64;
            (holds(dtype, Extent { size: a.size * b.size * k, grain: a.grain * b.grain })?, dtype)
        }
        OpKind::Tiles(kernel) => {
            let sizes: Vec<Vec<u64>> = (0..ids.len()).map(sizes).collect::<Option<_>>()?;
            tiles::exact_extent(kernel, &operands, &sizes)?
        }
        OpKind::Map(f) => {
            let dtype = first?.1;
            let args: Vec<Extent> = operands.iter().map(|o| o.0).collect();
            (holds(dtype, expression(&f.body, &args, dtype)?)?, dtype)
        }
        OpKind::ReduceDim { op, mean, dim, .. } => {
            let (x, dtype) = first?;
            let n = *sizes(0)?.get(*dim)? as f64;
            let x = match op {
                ReduceOp::Sum if *mean => {
                    holds(dtype, Extent { size: x.size * n, ..x })?;
                    if grain(n) != n {
                        return None;
                    }
                    Extent { grain: x.grain / n, ..x }
                }
                ReduceOp::Sum => Extent { size: x.size * n, ..x },
                ReduceOp::Prod if x.grain >= 1.0 => Extent { size: x.size.max(1.0).powf(n), grain: 1.0 },
                ReduceOp::Prod => return None,
                ReduceOp::Min | ReduceOp::Max => x,
            };
            (holds(dtype, x)?, dtype)
        }
        OpKind::Cast(to) => {
            let x = first?.0;
            // The values do not change: there is no rounding, saturation or wrapping.
            let fits = to.is_float() || x.grain >= 1.0 && x.size < widest(*to) as f64;
            (holds(*to, x).filter(|_| fits)?, *to)
        }
        OpKind::Collective(c) if c.kind == CollKind::ByContract => {
            (holds(first?.1, combined(first?.0, c)?)?, first?.1)
        }
        OpKind::Embedding => {
            // The indices of rows are smaller than the number of rows.
            let rows = *sizes(0)?.first()? as f64;
            first.filter(|_| operands.get(1).is_some_and(|ids| ids.0.size < rows))?
        }
        OpKind::Fill(f) => {
            let x = match f.with {
                FillContent::Number(v) => number(v, f.dtype),
                FillContent::Place(d) => {
                    Extent { size: f.sizes.get(d)?.saturating_sub(1) as f64, grain: 1.0 }
                }
            };
            (holds(f.dtype, x)?, f.dtype)
        }
        OpKind::Shape(s) => {
            let (x, dtype) = first?;
            let x = match s {
                ShapeOp::Pad { value, .. } => joined(x, number(*value, dtype)),
                _ => x,
            };
            let all = operands.iter().fold(x, |x, (y, _)| joined(x, *y));
            (holds(dtype, all)?, dtype)
        }
        OpKind::Host(op) => operands.get(op.value()).copied()?,
        OpKind::Collective(_)
        | OpKind::Demand
        | OpKind::PartialDemand(_)
        | OpKind::Wait
        | OpKind::Output(_) => first?,
    })
}

/// Returns the extent of a user-defined collective: a place combines at most one part of every
/// rank.
fn combined(x: Extent, c: &Collective) -> Option<Extent> {
    let own = c.own.as_ref()?;
    of_ranks(x, own.contract.as_ref()?.red, own.ranks as f64)
}

/// Returns the extent of values of this many ranks, combined or moved.
fn of_ranks(x: Extent, red: Option<ReduceOp>, ranks: f64) -> Option<Extent> {
    Some(match red {
        Some(ReduceOp::Sum) => Extent { size: x.size * ranks, ..x },
        Some(ReduceOp::Prod) if x.grain >= 1.0 => Extent { size: x.size.max(1.0).powf(ranks), grain: 1.0 },
        Some(ReduceOp::Prod) => return None,
        Some(ReduceOp::Min | ReduceOp::Max) | None => x,
    })
}

/// Returns the extent of an expression, computed in f32 (i32).
fn expression(e: &Scalar, args: &[Extent], dtype: DType) -> Option<Extent> {
    let go = |e| expression(e, args, dtype);
    let computed = if dtype.is_float() { DType::F32 } else { dtype };
    let x = match e {
        Scalar::Num(v) => number(*v, dtype),
        Scalar::Arg(i) => *args.get(*i)?,
        Scalar::Un(ScalarUn::Neg | ScalarUn::Abs, a) => go(a)?,
        Scalar::Un(..) => return None,
        Scalar::Bin(op, a, b) => {
            let (x, y) = (go(a)?, go(b)?);
            let widest = x.grain.min(y.grain);
            match op {
                ScalarBin::Add | ScalarBin::Sub => Extent { size: x.size + y.size, grain: widest },
                ScalarBin::Mul => product(x, y),
                ScalarBin::Div => {
                    // Exact for a power of two; a quotient of i32 is truncated.
                    let Scalar::Num(d) = &**b else { return None };
                    if dtype.is_float() && d.abs() == grain(*d) && F32.holds(*d) {
                        Extent { size: x.size / d.abs(), grain: x.grain / d.abs() }
                    } else if dtype == DType::I32 && *d != 0.0 {
                        Extent { size: x.size, grain: 1.0 }
                    } else {
                        return None;
                    }
                }
                ScalarBin::Min | ScalarBin::Max => Extent { size: x.size.max(y.size), grain: widest },
            }
        }
        Scalar::Pow(_, 0) => Extent { size: 1.0, grain: 1.0 },
        Scalar::Pow(a, n) => {
            let x = go(a)?;
            // Powers of values of at most 1 stay there; others leave any type after 32 products.
            (1..(*n).min(64)).try_fold(x, |acc, _| holds(computed, product(acc, x)))?
        }
        Scalar::If(c, a, b) => {
            go(&c.a)?;
            go(&c.b)?;
            let (x, y) = (go(a)?, go(b)?);
            Extent { size: x.size.max(y.size), grain: x.grain.min(y.grain) }
        }
    };
    holds(computed, x)
}

/// Returns the extent of a number, rounded to the type.
fn number(v: f64, dtype: DType) -> Extent {
    let v = Precision::of(dtype).map_or(v, |p| p.round(v));
    Extent { size: v.abs(), grain: grain(v) }
}

/// Returns the extent that covers the elements of both.
fn joined(x: Extent, y: Extent) -> Extent {
    Extent { size: x.size.max(y.size), grain: x.grain.min(y.grain) }
}

fn product(x: Extent, y: Extent) -> Extent {
    let zero = x.size == 0.0 || y.size == 0.0;
    Extent { size: x.size * y.size, grain: if zero { f64::INFINITY } else { x.grain * y.grain } }
}
