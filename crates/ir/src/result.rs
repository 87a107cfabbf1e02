//! Result types: the sizes and element type of each graph operation's result.
//!
//! The module owns one rule per operation. The verifier checks types against it, and the front end
//! binds the sizes of called programs with it. `infer` derives placements.

use crate::contract_sides::sides;
use crate::graph::{CollKind, OpKind};
use crate::grouped::Runs;
use crate::tiles::TileKernel;
use crate::types::DType;

/// Returns the sizes of an elementwise result, with operands broadcast from the right.
///
/// # Errors
/// Returns a message if two sizes are incompatible.
pub fn broadcast(shapes: &[Vec<u64>]) -> Result<Vec<u64>, String> {
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for s in shapes {
        for (have, n) in out[rank - s.len()..].iter_mut().zip(s) {
            if *n != 1 && *have != 1 && *n != *have {
                return Err(format!("sizes {have} and {n} do not match"));
            }
            if *n != 1 {
                *have = *n;
            }
        }
    }
    Ok(out)
}

/// Returns the sizes of a matmul's result.
///
/// # Errors
/// Returns a message if the operands have fewer than two dimensions, or if their sizes do not
/// match.
pub fn matmul_shape(a: &[u64], b: &[u64]) -> Result<Vec<u64>, String> {
    let ([batch_a @ .., m, k], [batch_b @ .., k2, n]) = (a, b) else {
        return Err("operands of a matmul need at least two dimensions".into());
    };
    if k != k2 {
        return Err(format!("the first operand has {k} columns, the second {k2} rows"));
    }
    let mut out = broadcast(&[batch_a.to_vec(), batch_b.to_vec()])?;
    out.extend([*m, *n]);
    Ok(out)
}

/// Returns the sizes of a product of rows with one matrix per run.
pub(crate) fn grouped(runs: &Runs, operands: &[Vec<u64>]) -> Result<Vec<u64>, String> {
    let [x, w] = operands else { return Err("a grouped matmul needs two operands".into()) };
    let ([t, d], [g, k, f]) = (&x[..], &w[..]) else {
        return Err("a grouped matmul needs rows with two dimensions and matrices with three".into());
    };
    if d != k {
        return Err(format!("the rows have {d} elements, the matrices {k} rows"));
    }
    runs.fit(*t, *g)?;
    Ok(vec![*t, *f])
}

/// Returns the type of an embedding: rows of a table, selected by their numbers.
fn embedded(operands: &[(DType, Vec<u64>)]) -> Result<(DType, Vec<u64>), String> {
    let [(dtype, table), (number, ids)] = operands else {
        return Err("an embedding needs two operands".into());
    };
    let [_, row @ ..] = &table[..] else {
        return Err("the table of an embedding needs a dimension of rows".into());
    };
    if !matches!(number, DType::I32 | DType::I64) {
        return Err(format!("row numbers must be i32 or i64, not {number}"));
    }
    Ok((*dtype, ids.iter().chain(row).copied().collect()))
}

/// Returns the type of what a kernel over tiles stores.
pub(crate) fn tiles(k: &TileKernel, operands: &[(DType, Vec<u64>)]) -> Result<(DType, Vec<u64>), String> {
    if let Some((p, o)) = k.params.iter().zip(operands).find(|(p, o)| p.dtype != o.0) {
        return Err(format!("{} is {}, not {}", p.name, p.dtype, o.0));
    }
    let sizes: Vec<&[u64]> = operands.iter().map(|o| &o.1[..]).collect();
    Ok((k.result.dtype, k.result_sizes(&k.extents(&sizes, None)?)))
}

/// Returns the element type and sizes of the result for operands of these types. Returns `None` if
/// the operands do not decide it: for an input, and for a collective whose contract is not resolved
/// yet.
///
/// # Errors
/// Returns a message about what does not fit, to be printed after `matmul gives %x, but`.
pub fn result_of(kind: &OpKind, operands: &[(DType, Vec<u64>)]) -> Result<Option<(DType, Vec<u64>)>, String> {
    if let OpKind::Fill(f) = kind {
        f.fault()?;
        return Ok(Some((f.dtype, f.sizes.clone())));
    }
    let Some((operand, first)) = operands.first() else { return Ok(None) };
    let operand = *operand;
    if *kind == OpKind::Embedding {
        return embedded(operands).map(Some);
    }
    if let OpKind::Tiles(k) = kind {
        return tiles(k, operands).map(Some);
    }
    if let Some((d, _)) = operands.iter().find(|o| o.0 != operand) {
        return Err(format!("its operands are {operand} and {d}"));
    }
    let sizes = || operands.iter().map(|o| o.1.clone()).collect::<Vec<_>>();
    let dimension = |d: usize| match d < first.len() {
        true => Ok(()),
        false => Err(format!("its operand has no dimension {d}")),
    };
    let reduced = |op| match operand.reduces() {
        true => Ok(()),
        false => Err(format!("{operand} cannot be reduced by {op}")),
    };
    Ok(Some(match kind {
        OpKind::Input(_) | OpKind::Fill(_) => return Ok(None),
        OpKind::Matmul { accumulate_f32 } => {
            let [(_, a), (_, b)] = operands else { return Err("a matmul needs two operands".into()) };
            let wide = if operand.is_float() { DType::F32 } else { operand };
            (if *accumulate_f32 { wide } else { operand }, matmul_shape(a, b)?)
        }
        OpKind::Grouped(runs) => (operand, grouped(runs, &sizes())?),
        OpKind::Map(_) => (operand, broadcast(&sizes())?),
        OpKind::ReduceDim { dim, keep, op, .. } => {
            dimension(*dim)?;
            reduced(op)?;
            let mut s = first.clone();
            if *keep {
                s[*dim] = 1;
            } else {
                s.remove(*dim);
            }
            (operand, s)
        }
        OpKind::Embedding => embedded(operands)?,
        OpKind::Tiles(k) => tiles(k, operands)?,
        OpKind::Cast(d) => (*d, first.clone()),
        OpKind::Shape(s) => {
            s.has_number(operand)?;
            (operand, s.sizes(&sizes())?)
        }
        OpKind::Collective(c) => {
            for d in [c.dim, c.from_dim].into_iter().flatten() {
                dimension(d)?;
            }
            if let Some(op) = c.red {
                reduced(&op)?;
            }
            let mut s = first.clone();
            if c.kind == CollKind::ByContract {
                let (Some(d), Some(own)) = (c.dim, &c.own) else { return Ok(None) };
                let Some(contract) = &own.contract else { return Ok(None) };
                s[d] = sides(contract).and_then(|m| m.result_size(s[d], own.ranks))?;
            }
            (operand, s)
        }
        OpKind::Host(_) => {
            if let Some((dtype, sizes)) = operands.get(1).filter(|o| *o != &operands[0]) {
                return Err(format!("{dtype}{sizes:?} is written into {operand}{first:?}"));
            }
            (operand, first.clone())
        }
        OpKind::Demand | OpKind::PartialDemand(_) | OpKind::Wait | OpKind::Output(_) => {
            (operand, first.clone())
        }
    }))
}
