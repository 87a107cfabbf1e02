//! Rule V16 for operations on whole local buffers.

use super::graph::undeclared_argument;
use super::{Report, V2, V16, product};
use crate::expr::Expr;
use crate::fill::has;
use crate::graph::OpKind;
use crate::result::{broadcast, matmul_shape, result_of};
use crate::schedule::{Buffer, BufferId, Filling, LocalOp, Schedule};
use crate::shape::ShapeOp;
use crate::types::{CutRule, DType};
use crate::walk::Program;
use kbc_diag::Span;

/// Returns the sizes of a buffer if they are the same on every rank.
fn sizes(b: &Buffer) -> Option<Vec<u64>> {
    b.dims.iter().map(|d| d.as_int().and_then(|v| u64::try_from(v).ok())).collect()
}

pub(super) fn local(s: &Schedule, op: &LocalOp, span: Span, out: &mut Report) {
    let get = |id: BufferId| s.buffers.get(id.0 as usize);
    let srcs: Vec<Option<&Buffer>> = op.srcs().into_iter().map(get).collect();
    let all: Option<Vec<&Buffer>> = srcs.into_iter().collect();
    let (Some(dst), Some(srcs)) = (get(op.dst()), all) else {
        return out.fail(V2, "this operation names a buffer that does not exist", span, "here");
    };
    let shapes: Option<Vec<Vec<u64>>> = srcs.iter().map(|b| sizes(b)).collect();
    if let Err(why) = fits(op, dst, &srcs, shapes, sizes(dst)) {
        out.fail(V16, why, span, "here");
    }
}

/// Checks whether a local operation has a result on a rank: sizes agree there, and the part that it
/// names exists.
///
/// # Errors
/// Returns a message about what does not hold.
pub fn legal_on(program: &Program, op: &LocalOp, rank: u64) -> Result<(), String> {
    let s = program.schedule;
    let dims = |b: BufferId| program.dims(b, rank).map_err(|f| f.text);
    let (ids, target) = (op.srcs(), dims(op.dst())?);
    let shapes = ids.iter().map(|b| dims(*b)).collect::<Result<Vec<_>, _>>()?;
    let srcs: Vec<&Buffer> = ids.iter().map(|b| s.buffer(*b)).collect();
    fits(op, s.buffer(op.dst()), &srcs, Some(shapes.clone()), Some(target.clone()))?;
    let value = |e: &Expr| {
        let v = program.local_value(e, rank).map_err(|e| e.to_string())?;
        u64::try_from(v).map_err(|_| format!("part {v}"))
    };
    let elements = |dims: &[u64]| product(dims.iter().copied()).unwrap_or(u64::MAX);
    // Number of elements of one part of a dimension of n elements.
    let part = |n: u64, at: &Expr, parts: u64, rule: &CutRule| {
        let i = value(at)?;
        if i >= parts {
            return Err(format!("part {i} of {parts} does not exist"));
        }
        let part = rule.part(n, i, parts);
        Ok(part.end - part.start)
    };
    match op {
        LocalOp::Pack { dst: _, src: _, dim, parts, rule, at: Some(at) } => {
            block(&shapes[0], &target, *dim, part(along(&shapes[0], &target, *dim)?, at, *parts, rule)?)
        }
        LocalOp::Unpack { dst: _, src: _, dim, parts, rule, at: Some(at) } => {
            block(&target, &shapes[0], *dim, part(along(&target, &shapes[0], *dim)?, at, *parts, rule)?)
        }
        LocalOp::Slice { dst: _, src: _, dim, index, of, rule } => {
            let mut want = shapes[0].clone();
            let d = *dim as usize;
            want[d] = part(want[d], index, *of, rule)?;
            // A rank without elements of the source has none of the result.
            if want[d] <= 1 && target.len() < want.len() {
                want.remove(d);
            }
            if want == target {
                return Ok(());
            }
            Err(format!("the part has sizes {want:?}, and the destination has {target:?}"))
        }
        LocalOp::Grouped { dst: _, x: _, w: _, runs, places, at } => {
            let ([rows, d], [matrices, k, f], [r, n]) = (&shapes[0][..], &shapes[1][..], &target[..]) else {
                return Err("a grouped matmul of rows [T, D] and matrices [G, D, F] gives [T, F]".into());
            };
            if (rows, d, f) != (r, k, n) {
                return Err(format!("{:?} times {:?} does not give {target:?}", shapes[0], shapes[1]));
            }
            let at = value(at)?;
            let place = usize::try_from(at).ok().and_then(|i| places.get(i));
            let (row, first) = place.ok_or_else(|| format!("place {at} of {}", places.len()))?;
            let met = runs.matrices(*row, *rows);
            let mine = |m: &u64| m.checked_sub(*first).is_some_and(|m| m < *matrices);
            if met.len() as u64 == *rows && met.iter().all(mine) {
                return Ok(());
            }
            Err(format!("rows from {row} on need matrices that this rank does not hold"))
        }
        LocalOp::Embedding { dst: _, table: _, ids: _, first } => {
            program.local_value(first, rank).map(drop).map_err(|e| e.to_string())
        }
        LocalOp::Fill { dst: _, with: Filling::Place { dim: _, first } } => {
            program.local_value(first, rank).map(drop).map_err(|e| e.to_string())
        }
        LocalOp::Cast { dst: _, src: _ }
        | LocalOp::Copy { dst: _, src: _ }
        | LocalOp::Pack { dst: _, src: _, dim: _, parts: _, rule: _, at: None }
        | LocalOp::Unpack { dst: _, src: _, dim: _, parts: _, rule: _, at: None } => {
            if elements(&shapes[0]) == elements(&target) {
                return Ok(());
            }
            Err(format!("{} elements do not fit in {}", elements(&shapes[0]), elements(&target)))
        }
        LocalOp::Compute { func: _, dst: _, args: _ }
        | LocalOp::Matmul { dst: _, a: _, b: _ }
        | LocalOp::ReduceDim { op: _, mean: _, dst: _, src: _, dim: _ }
        | LocalOp::Transpose { dst: _, src: _, perm: _ }
        | LocalOp::Tiles { kernel: _, dst: _, args: _ }
        | LocalOp::Fill { dst: _, with: Filling::Number(_) } => Ok(()),
    }
}

/// Returns the number of elements of a line along the dimension that its blocks cut, for a tensor
/// that is one block. A line that has elements cannot consist of blocks without elements.
fn along(tensor: &[u64], line: &[u64], dim: u32) -> Result<u64, String> {
    let unit: u64 = tensor.iter().enumerate().filter(|(d, _)| *d != dim as usize).map(|(_, n)| n).product();
    match line.iter().product::<u64>() {
        0 => Ok(0),
        n if n.checked_rem(unit) == Some(0) => Ok(n / unit),
        n => Err(format!("a line of {n} elements cannot be divided into blocks of sizes {tensor:?}")),
    }
}

/// Checks that a tensor is one block of a line, with `part` elements along the dimension that is
/// cut.
fn block(tensor: &[u64], line: &[u64], dim: u32, part: u64) -> Result<(), String> {
    let have = tensor[dim as usize];
    if have == part || tensor.contains(&0) && line.contains(&0) {
        return Ok(());
    }
    Err(format!("the part has {part} elements along dimension {dim}, and the tensor has {have}"))
}

fn fits(
    op: &LocalOp,
    dst: &Buffer,
    srcs: &[&Buffer],
    shapes: Option<Vec<Vec<u64>>>,
    target: Option<Vec<u64>>,
) -> Result<(), String> {
    let same_type = || match srcs.iter().find(|b| b.dtype != dst.dtype) {
        Some(b) => Err(format!("{} is {}, but {} is {}", b.name, b.dtype, dst.name, dst.dtype)),
        None => Ok(()),
    };
    let count = |s: &[u64]| product(s.iter().copied());
    let same_count = || match (&shapes, &target) {
        (Some(a), Some(b)) if a.iter().any(|a| count(a) != count(b)) => {
            Err(format!("{} has {b:?} elements, and its operand has {:?}", dst.name, a[0]))
        }
        _ => Ok(()),
    };
    let result = |shape: Result<Vec<u64>, String>| match (&target, shape?) {
        (Some(have), want) if *have != want => {
            Err(format!("{} has sizes {have:?}, and the result has {want:?}", dst.name))
        }
        _ => Ok(()),
    };
    let dimension = |b: &Buffer, dim: u32| match (dim as usize) < b.dims.len() {
        true => Ok(()),
        false => {
            Err(format!("{} has {} dimensions, so dimension {dim} does not exist", b.name, b.dims.len()))
        }
    };
    let some_parts =
        |n: u64| if n == 0 { Err("the number of parts must be at least 1".to_string()) } else { Ok(()) };
    match op {
        LocalOp::Compute { func, args, dst: _ } => {
            if args.len() != func.params.len() {
                let (want, have) = (func.params.len(), args.len());
                return Err(format!("{} takes {want} operands, and {have} are given", func.name));
            }
            if let Some(i) = undeclared_argument(func) {
                return Err(format!(
                    "kernel {} reads operand {i}, and the operation has {} operands",
                    func.name,
                    func.params.len()
                ));
            }
            same_type()?;
            shapes.map_or(Ok(()), |s| result(broadcast(&s)))
        }
        LocalOp::Matmul { dst: _, a: _, b: _ } => {
            let (a, b) = (srcs[0], srcs[1]);
            if a.dtype != b.dtype {
                return Err(format!("{} is {}, but {} is {}", a.name, a.dtype, b.name, b.dtype));
            }
            accumulated(a.dtype, dst)?;
            shapes.map_or(Ok(()), |s| result(matmul_shape(&s[0], &s[1])))
        }
        LocalOp::ReduceDim { op, mean, dim, dst: _, src: _ } => {
            let src = srcs[0];
            dimension(src, *dim)?;
            if !src.dtype.reduces() {
                return Err(format!("{} cannot be reduced by {op}", src.dtype));
            }
            accumulated(src.dtype, dst)?;
            if *mean == Some(0) {
                return Err("the divisor of a mean must be at least 1".into());
            }
            match (shapes, target) {
                (Some(s), Some(t)) => {
                    let mut rest = s[0].clone();
                    rest.remove(*dim as usize);
                    if count(&rest) == count(&t) {
                        return Ok(());
                    }
                    Err(format!(
                        "{} has sizes {t:?}, and the operand without dimension {dim} has {rest:?}",
                        dst.name
                    ))
                }
                _ => Ok(()),
            }
        }
        LocalOp::Cast { dst: _, src: _ } => same_count(),
        LocalOp::Copy { dst: _, src: _ } => same_type().and_then(|()| same_count()),
        LocalOp::Pack { dim, parts, at, rule, dst: _, src: _ }
        | LocalOp::Unpack { dim, parts, at, rule, dst: _, src: _ } => {
            let tensor = if matches!(op, LocalOp::Pack { dst: _, src: _, dim: _, parts: _, rule: _, at: _ }) {
                srcs[0]
            } else {
                dst
            };
            dimension(tensor, *dim)?;
            some_parts(*parts)?;
            one_row(rule, *parts)?;
            same_type()?;
            if at.is_some() { Ok(()) } else { same_count() }
        }
        LocalOp::Transpose { perm, dst: _, src: _ } => {
            same_type()?;
            // The number of dimensions is checked first, because sizes may not be constant.
            let op = ShapeOp::Transpose(perm.iter().map(|d| *d as usize).collect());
            op.sizes(&[vec![1; srcs[0].dims.len()]])?;
            if dst.dims.len() != perm.len() {
                return Err(format!(
                    "{} has {} dimensions, and its operand has {}",
                    dst.name,
                    dst.dims.len(),
                    perm.len()
                ));
            }
            shapes.map_or(Ok(()), |s| result(op.sizes(&s)))
        }
        LocalOp::Embedding { dst: _, table: _, ids: _, first: _ } => {
            let (table, ids) = (srcs[0], srcs[1]);
            if table.dtype != dst.dtype {
                return Err(format!("{} is {}, but {} is {}", table.name, table.dtype, dst.name, dst.dtype));
            }
            let some =
                |b: &Buffer, s: Option<Vec<u64>>| (b.dtype, s.unwrap_or_else(|| vec![1; b.dims.len()]));
            let known = sizes(table).is_some() && sizes(ids).is_some();
            let operands = [some(table, sizes(table)), some(ids, sizes(ids))];
            let made = result_of(&OpKind::Embedding, &operands)?.map(|r| r.1).unwrap_or_default();
            if made.len() != dst.dims.len() {
                return Err(format!(
                    "{} has {} dimensions, and the result has {}",
                    dst.name,
                    dst.dims.len(),
                    made.len()
                ));
            }
            if known { result(Ok(made)) } else { Ok(()) }
        }
        LocalOp::Grouped { runs, places, dst: _, x: _, w: _, at: _ } => {
            same_type()?;
            let dims = [srcs[0].dims.len(), srcs[1].dims.len(), dst.dims.len()];
            if dims != [2, 3, 2] {
                return Err("a grouped matmul of rows [T, D] and matrices [G, D, F] gives [T, F]".into());
            }
            let row = runs.rows();
            match places.iter().find(|p| p.0 > row) {
                _ if places.is_empty() => Err("a grouped matmul needs at least one place".into()),
                Some(p) => Err(format!("a place begins at row {}, and there are {row}", p.0)),
                None => Ok(()),
            }
        }
        LocalOp::Tiles { kernel, dst: _, args: _ } => {
            kernel.facts().map_err(|f| format!("kernel {}: {}", kernel.name, f.what))?;
            let sides = kernel.params.iter().zip(srcs).chain([(&kernel.result, &dst)]);
            if srcs.len() != kernel.params.len() {
                return Err(format!("{} takes {} operands", kernel.name, kernel.params.len()));
            }
            for (side, b) in sides {
                if side.dtype != b.dtype || side.dims != b.dims.len() {
                    let (have, want) = (b.dims.len(), side.dims);
                    let (a, b) = (&side.name, b.dtype);
                    return Err(format!("{a} is {} of {want} dimensions, not {b} of {have}", side.dtype));
                }
            }
            let views = shapes.as_ref().map(|s| s.iter().map(|s| &s[..]).collect::<Vec<_>>());
            match views {
                Some(v) => kernel.extents(&v, target.as_deref()).map(|_| ()),
                None => Ok(()),
            }
        }
        LocalOp::Fill { with: Filling::Number(v), dst: _ } => has(dst.dtype, *v),
        LocalOp::Fill { with: Filling::Place { dim, first: _ }, dst: _ } => dimension(dst, *dim),
        LocalOp::Slice { dim, of, rule, dst: _, src: _, index: _ } => {
            dimension(srcs[0], *dim)?;
            some_parts(*of)?;
            one_row(rule, *of)?;
            same_type()?;
            // The result may lack the dimension, if the part has one element.
            let single = match (&shapes, rule) {
                (Some(s), CutRule::Even | CutRule::Ceil) => [0, *of].contains(&s[0][*dim as usize]),
                _ => true,
            };
            let lacks = srcs[0].dims.len() == dst.dims.len() + 1;
            if srcs[0].dims.len() == dst.dims.len() || lacks && single {
                return Ok(());
            }
            Err(format!(
                "{} has {} dimensions, and its operand has {}",
                dst.name,
                dst.dims.len(),
                srcs[0].dims.len()
            ))
        }
    }
}

/// Checks that explicit lengths are one row with as many lengths as there are parts.
fn one_row(rule: &CutRule, parts: u64) -> Result<(), String> {
    match rule {
        CutRule::Lengths(l) if l.of() != parts || l.rows() != 1 => {
            Err(format!("[{l}] are not {parts} lengths that match the parts"))
        }
        CutRule::Even | CutRule::Ceil | CutRule::Lengths(_) | CutRule::Lines(_) => Ok(()),
    }
}

/// Checks that the result of an accumulation has the type of the operands or the type in which it
/// is accumulated.
fn accumulated(operand: DType, dst: &Buffer) -> Result<(), String> {
    if dst.dtype == operand || (operand.is_float() && dst.dtype == DType::F32) {
        return Ok(());
    }
    Err(format!("{} is {}, and the operands are {operand}", dst.name, dst.dtype))
}
