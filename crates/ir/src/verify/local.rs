//! Operations on whole local buffers: rule V16.

use super::graph::undeclared_argument;
use super::{Report, V2, V16, product};
use crate::fill::has;
use crate::graph::OpKind;
use crate::result::{broadcast, product_shape, result_of};
use crate::schedule::{Buffer, BufferId, Filling, LocalOp, Schedule};
use crate::shape::ShapeOp;
use crate::types::{CutRule, DType};
use kbc_diag::Span;

/// The sizes of a buffer, if they are the same on every rank.
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
    if let Err(why) = fits(op, dst, &srcs) {
        out.fail(V16, why, span, "here");
    }
}

fn fits(op: &LocalOp, dst: &Buffer, srcs: &[&Buffer]) -> Result<(), String> {
    let same_type = || match srcs.iter().find(|b| b.dtype != dst.dtype) {
        Some(b) => Err(format!("{} is {}, but {} is {}", b.name, b.dtype, dst.name, dst.dtype)),
        None => Ok(()),
    };
    let shapes: Option<Vec<Vec<u64>>> = srcs.iter().map(|b| sizes(b)).collect();
    let target = sizes(dst);
    let count = |s: &[u64]| product(s.iter().copied());
    let same_count = || match (&shapes, &target) {
        (Some(a), Some(b)) if a.iter().any(|a| count(a) != count(b)) => {
            Err(format!("{} has {b:?} elements, its operand {:?}", dst.name, a[0]))
        }
        _ => Ok(()),
    };
    let result = |shape: Result<Vec<u64>, String>| match (&target, shape?) {
        (Some(have), want) if *have != want => {
            Err(format!("{} has sizes {have:?}, the result has {want:?}", dst.name))
        }
        _ => Ok(()),
    };
    let dimension = |b: &Buffer, dim: u32| match (dim as usize) < b.dims.len() {
        true => Ok(()),
        false => Err(format!("{} has {} dimensions, none of number {dim}", b.name, b.dims.len())),
    };
    let some_parts = |n: u64| if n == 0 { Err("a cut has at least one part".to_string()) } else { Ok(()) };
    match op {
        LocalOp::Compute { func, args, .. } => {
            if args.len() != func.params.len() {
                let (want, have) = (func.params.len(), args.len());
                return Err(format!("{} takes {want} operands, {have} are given", func.name));
            }
            if let Some(i) = undeclared_argument(func) {
                return Err(format!("kernel {} reads operand {i}, but has {}", func.name, func.params.len()));
            }
            same_type()?;
            shapes.map_or(Ok(()), |s| result(broadcast(&s)))
        }
        LocalOp::Matmul { .. } => {
            let (a, b) = (srcs[0], srcs[1]);
            if a.dtype != b.dtype {
                return Err(format!("{} is {}, but {} is {}", a.name, a.dtype, b.name, b.dtype));
            }
            accumulated(a.dtype, dst)?;
            shapes.map_or(Ok(()), |s| result(product_shape(&s[0], &s[1])))
        }
        LocalOp::ReduceDim { op, mean, dim, .. } => {
            let src = srcs[0];
            dimension(src, *dim)?;
            if !src.dtype.reduces() {
                return Err(format!("{} cannot be reduced by {op}", src.dtype));
            }
            accumulated(src.dtype, dst)?;
            if *mean == Some(0) {
                return Err("a mean divides by at least 1".into());
            }
            match (shapes, target) {
                (Some(s), Some(t)) => {
                    let mut rest = s[0].clone();
                    rest.remove(*dim as usize);
                    if count(&rest) == count(&t) {
                        return Ok(());
                    }
                    Err(format!(
                        "{} has sizes {t:?}, without dimension {dim} the operand has {rest:?}",
                        dst.name
                    ))
                }
                _ => Ok(()),
            }
        }
        LocalOp::Cast { .. } => same_count(),
        LocalOp::Copy { .. } => same_type().and_then(|()| same_count()),
        LocalOp::Pack { dim, parts, at, rule, .. } | LocalOp::Unpack { dim, parts, at, rule, .. } => {
            let tensor = if matches!(op, LocalOp::Pack { .. }) { srcs[0] } else { dst };
            dimension(tensor, *dim)?;
            some_parts(*parts)?;
            one_row(rule, *parts)?;
            same_type()?;
            if at.is_some() { Ok(()) } else { same_count() }
        }
        LocalOp::Transpose { perm, .. } => {
            same_type()?;
            // The number of dimensions first: sizes may be known on no rank.
            let op = ShapeOp::Transpose(perm.iter().map(|d| *d as usize).collect());
            op.sizes(&[vec![1; srcs[0].dims.len()]])?;
            if dst.dims.len() != perm.len() {
                return Err(format!(
                    "{} has {} dimensions, its operand {}",
                    dst.name,
                    dst.dims.len(),
                    perm.len()
                ));
            }
            shapes.map_or(Ok(()), |s| result(op.sizes(&s)))
        }
        LocalOp::Embedding { .. } => {
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
                    "{} has {} dimensions, the result {}",
                    dst.name,
                    dst.dims.len(),
                    made.len()
                ));
            }
            if known { result(Ok(made)) } else { Ok(()) }
        }
        LocalOp::Grouped { runs, places, .. } => {
            same_type()?;
            let dims = [srcs[0].dims.len(), srcs[1].dims.len(), dst.dims.len()];
            if dims != [2, 3, 2] {
                return Err("rows [T, D] and matrices [G, D, F] give [T, F]".into());
            }
            let row = runs.rows();
            match places.iter().find(|p| p.0 > row) {
                _ if places.is_empty() => Err("a grouped product has at least one place".into()),
                Some(p) => Err(format!("a place begins at row {}, and there are {row}", p.0)),
                None => Ok(()),
            }
        }
        LocalOp::Tiles { kernel, .. } => {
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
        LocalOp::Fill { with: Filling::Number(v), .. } => has(dst.dtype, *v),
        LocalOp::Fill { with: Filling::Place { dim, .. }, .. } => dimension(dst, *dim),
        LocalOp::Slice { dim, of, rule, .. } => {
            dimension(srcs[0], *dim)?;
            some_parts(*of)?;
            one_row(rule, *of)?;
            same_type()?;
            if srcs[0].dims.len() == dst.dims.len() {
                return Ok(());
            }
            Err(format!("{} has {} dimensions, its operand {}", dst.name, dst.dims.len(), srcs[0].dims.len()))
        }
    }
}

/// Lengths are as many as the parts.
fn one_row(rule: &CutRule, parts: u64) -> Result<(), String> {
    match rule {
        CutRule::Lengths(l) if l.of() != parts || l.rows() != 1 => {
            Err(format!("lengths [{l}] are not those of {parts} parts"))
        }
        _ => Ok(()),
    }
}

/// The result of an accumulation has the type of the operands, or keeps the one it is accumulated in.
fn accumulated(operand: DType, dst: &Buffer) -> Result<(), String> {
    if dst.dtype == operand || (operand.is_float() && dst.dtype == DType::F32) {
        return Ok(());
    }
    Err(format!("{} is {}, the operands are {operand}", dst.name, dst.dtype))
}
