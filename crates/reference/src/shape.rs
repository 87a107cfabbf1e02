//! Operations that move elements: determines by index where each element of the result comes from.

use super::lanes::Gather;
use super::precision::{Precision, common_grain};
use super::scalar::strided;
use super::{Pending, RefTensor, Step, Value, room};
use kbc_diag::Diagnostic;
use kbc_ir::fill::{Fill, FillContent};
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::tensor::multi_index;
use std::sync::Arc;

/// Returns the result, or an error if there is none.
pub(super) fn run(step: &Step<'_>, op: &ShapeOp) -> Result<Value, Diagnostic> {
    let given: Vec<Vec<u64>> = step.operands.iter().map(|x| x.t.shape.clone()).collect();
    let sizes = op.sizes(&given).map_err(|why| step.broken(&why))?;
    let n = step.room(&sizes)?;
    if let Some(order) = strided_order(op, &given, &sizes)
        && let [x] = step.operands
        && x.t.exact.is_none()
        && x.pending_for(step.partial()).is_none()
    {
        let all = |from: &[f64]| {
            let mut out = room::filled(n);
            order.read(from, 0, &mut out);
            out
        };
        let bound = x.bounds().map_or(vec![], all);
        let t = RefTensor::real(x.t.dtype, sizes, all(&x.t.value), bound);
        return Ok(Value { t: Arc::new(t), pending: None, exact: x.exact });
    }
    let operands: Vec<Value> = step.operands.iter().cloned().map(Value::complete).collect();
    let step = &Step { operands: &operands, ..*step };
    let order: Vec<(usize, usize)> = match op {
        ShapeOp::Reshape(_) => (0..n).map(|i| (0, i)).collect(),
        ShapeOp::Transpose(perm) => {
            let own = strides(&given[0]);
            let strides: Vec<usize> = perm.iter().map(|d| own[*d]).collect();
            strided(&sizes, &strides, n).into_iter().map(|i| (0, i)).collect()
        }
        ShapeOp::Slice { dim, from, .. } => {
            let own = strides(&given[0]);
            let first = *from as usize * own[*dim];
            strided(&sizes, &own, n).into_iter().map(|i| (0, first + i)).collect()
        }
        ShapeOp::Entry(index) => {
            let first = *index as usize * n;
            (first..first + n).map(|i| (0, i)).collect()
        }
        ShapeOp::Pad { dim, before, .. } => {
            let own = strides(&given[0]);
            let place = |i: usize| {
                let mut at = multi_index(&sizes, i as u64);
                match at[*dim].checked_sub(*before) {
                    Some(inside) if inside < given[0][*dim] => {
                        at[*dim] = inside;
                        (0, at.iter().zip(&own).map(|(x, s)| *x as usize * s).sum())
                    }
                    _ => (1, 0),
                }
            };
            (0..n).map(place).collect()
        }
        ShapeOp::Concat { dim } => {
            // Number of elements that each operand has per index of the dimensions before.
            let runs: Vec<usize> = given.iter().map(|g| g[*dim..].iter().product::<u64>() as usize).collect();
            let outer = sizes[..*dim].iter().product::<u64>() as usize;
            (0..outer)
                .flat_map(|o| runs.iter().enumerate().map(move |(which, run)| (which, o * run, *run)))
                .flat_map(|(which, first, run)| (first..first + run).map(move |i| (which, i)))
                .collect()
        }
    };
    let operands = step.operands;
    let first = step.operands.first().ok_or_else(|| step.broken("it has no operand"))?;
    let mut from: Vec<&RefTensor> = operands.iter().map(|x| &*x.t).collect();
    let put = match op {
        ShapeOp::Pad { value, .. } => Some(constant(first.t.dtype, vec![], *value)),
        _ => None,
    };
    from.extend(&put);
    let t = moved(&first.t, sizes, &from, |i| order[i]);
    let parts: Option<Vec<&Pending>> = operands.iter().map(|x| x.pending_for(step.partial())).collect();
    let pending = parts.filter(|p| !p.is_empty()).map(|all| Pending {
        op: all[0].op,
        parts: all.iter().map(|p| p.parts).fold(0.0, f64::max),
        // An inserted element has the neutral value in every rank's part: 0 of a sum, 1 of a
        // product.
        size: order
            .iter()
            .map(|(x, i)| {
                all.get(*x).map_or(f64::from(u8::from(all[0].op == ReduceOp::Prod)), |p| p.size[*i])
            })
            .collect(),
        grain: all.iter().map(|p| p.grain).fold(f64::INFINITY, f64::min),
    });
    Ok(Value { t: Arc::new(t), pending: pending.map(Arc::new), exact: operands.iter().all(|x| x.exact) })
}

/// Returns the order of an operation that takes all elements from one operand, equally far apart
/// along each dimension of the result.
fn strided_order(op: &ShapeOp, given: &[Vec<u64>], sizes: &[u64]) -> Option<Gather> {
    let own = strides(given.first()?);
    Some(match op {
        ShapeOp::Reshape(_) => Gather::new(sizes, &strides(sizes), 0),
        ShapeOp::Transpose(perm) => {
            let strides: Vec<usize> = perm.iter().map(|d| own[*d]).collect();
            Gather::new(sizes, &strides, 0)
        }
        ShapeOp::Slice { dim, from, .. } => Gather::new(sizes, &own, *from as usize * own[*dim]),
        ShapeOp::Entry(index) => {
            let n = sizes.iter().product::<u64>() as usize;
            Gather::new(sizes, &strides(sizes), *index as usize * n)
        }
        ShapeOp::Pad { .. } | ShapeOp::Concat { .. } => return None,
    })
}

/// Evaluates a fill: elements that depend only on their position.
pub(super) fn fill(step: &Step<'_>, f: &Fill) -> Result<Value, Diagnostic> {
    f.fault().map_err(|why| step.broken(&why))?;
    let n = step.room(&f.sizes)?;
    let t = match f.with {
        FillContent::Number(v) => constant(f.dtype, f.sizes.clone(), v),
        FillContent::Place(d) => {
            let inner: u64 = f.sizes[d + 1..].iter().product();
            let values: Vec<i64> = (0..n as u64).map(|i| (i / inner.max(1) % f.sizes[d]) as i64).collect();
            match f.dtype.is_float() {
                true => {
                    let values = values.into_iter().map(|v| v as f64).collect();
                    RefTensor::real(f.dtype, f.sizes.clone(), values, vec![0.0; n])
                }
                false => RefTensor::integers(f.dtype, f.sizes.clone(), values, vec![0.0; n]),
            }
        }
    };
    Ok(Value { t: Arc::new(t), pending: None, exact: true })
}

/// Returns a tensor with one number everywhere.
fn constant(dtype: DType, shape: Vec<u64>, v: f64) -> RefTensor {
    let n = shape.iter().product::<u64>() as usize;
    match Precision::of(dtype) {
        Some(p) => RefTensor::real(dtype, shape, vec![p.round(v); n], vec![0.0; n]),
        None => RefTensor::integers(dtype, shape, vec![v as i64; n], vec![0.0; n]),
    }
}

/// Returns a tensor whose element i is an element of a source; `at` selects the source and its
/// element.
pub(super) fn moved(
    like: &RefTensor,
    shape: Vec<u64>,
    from: &[&RefTensor],
    of: impl Fn(usize) -> (usize, usize),
) -> RefTensor {
    let n = shape.iter().product::<u64>() as usize;
    let places: Vec<(usize, usize)> = (0..n).map(of).collect();
    let bound = places.iter().map(|(s, i)| from[*s].bound[*i]).collect();
    let whole: Option<Vec<&Vec<i64>>> = from.iter().map(|t| t.exact.as_ref()).collect();
    match whole {
        Some(whole) => {
            let list = places.iter().map(|(s, i)| whole[*s][*i]).collect();
            RefTensor::integers(like.dtype, shape, list, bound)
        }
        None => RefTensor::real(
            like.dtype,
            shape,
            places.iter().map(|(s, i)| from[*s].value[*i]).collect(),
            bound,
        ),
    }
}

/// Evaluates an embedding: rows of a table by their numbers. Fails with E409 for a number that is
/// not a row.
pub(super) fn embedding(step: &Step<'_>) -> Result<Value, Diagnostic> {
    let [table, ids] = step.two()?;
    let (Some((rows, row)), Some(numbers)) = (table.t.shape.split_first(), &ids.t.exact) else {
        return Err(step.broken("it needs a table of rows and integer row numbers"));
    };
    let shape: Vec<u64> = ids.t.shape.iter().chain(row).copied().collect();
    let n = step.room(&shape)?;
    let width = row.iter().product::<u64>() as usize;
    let mut order = Vec::with_capacity(n);
    for (i, id) in numbers.iter().enumerate() {
        let Some(at) = u64::try_from(*id).ok().filter(|at| at < rows) else {
            let at = multi_index(&ids.t.shape, i as u64);
            return Err(Diagnostic::error("E409", format!("row {id} is outside a table of {rows} rows"))
                .primary(step.op.span, format!("element {at:?} of the row numbers is {id}"))
                .help("row numbers start at 0"));
        };
        order.extend((at as usize * width..).take(width));
    }
    let t = moved(&table.t, shape, &[&table.t], |i| (0, order[i]));
    // One rank has the row and the others add zeros, so nothing is rounded.
    let pending = (step.partial() == Some(ReduceOp::Sum)).then(|| Pending {
        op: ReduceOp::Sum,
        parts: step.parts,
        size: t.value.iter().map(|v| v.abs()).collect(),
        grain: common_grain(t.value.iter().copied()),
    });
    Ok(Value { t: Arc::new(t), pending: pending.map(Arc::new), exact: table.exact })
}

/// Returns the distance from one element to the next along each dimension, in row-major order.
fn strides(shape: &[u64]) -> Vec<usize> {
    (0..shape.len()).map(|d| shape[d + 1..].iter().product::<u64>() as usize).collect()
}
