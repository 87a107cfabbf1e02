//! Operations that move elements: where each element of the result comes from, by its index.

use super::{Pending, RefTensor, Step, Value};
use crate::tensor::multi_index;
use kbc_diag::Diagnostic;
use kbc_ir::shape::ShapeOp;
use std::rc::Rc;

/// The result, or why there is none.
pub(super) fn run(step: &Step<'_>, op: &ShapeOp) -> Result<Value, Diagnostic> {
    let given: Vec<Vec<u64>> = step.operands.iter().map(|x| x.t.shape.clone()).collect();
    let sizes = op.sizes(&given).map_err(|why| step.broken(&why))?;
    let n = step.room(&sizes)?;
    let source = |i: usize| -> (usize, usize) {
        let mut at = multi_index(&sizes, i as u64);
        match op {
            ShapeOp::Reshape(_) => (0, i),
            ShapeOp::Transpose(perm) => {
                let mut from = vec![0; at.len()];
                perm.iter().zip(&at).for_each(|(d, x)| from[*d] = *x);
                (0, number(&given[0], &from))
            }
            ShapeOp::Slice { dim, from, .. } => {
                at[*dim] += from;
                (0, number(&given[0], &at))
            }
            ShapeOp::Concat { dim } => {
                let mut which = 0;
                while at[*dim] >= given[which][*dim] {
                    at[*dim] -= given[which][*dim];
                    which += 1;
                }
                (which, number(&given[which], &at))
            }
        }
    };
    let order: Vec<(usize, usize)> = (0..n).map(source).collect();
    let operands = step.operands;
    let moved = |of: &dyn Fn(&Value, usize) -> f64| -> Vec<f64> {
        order.iter().map(|(x, i)| of(&operands[*x], *i)).collect()
    };
    let bound = moved(&|x, i| x.t.bound[i]);
    let first = step.operands.first().ok_or_else(|| step.broken("it has no operand"))?;
    let whole: Option<Vec<&Vec<i64>>> = operands.iter().map(|x| x.t.exact.as_ref()).collect();
    let t = match whole {
        Some(all) => {
            RefTensor::integers(first.t.dtype, sizes, order.iter().map(|(x, i)| all[*x][*i]).collect(), bound)
        }
        None => RefTensor::real(first.t.dtype, sizes, moved(&|x, i| x.t.value[i]), bound),
    };
    let parts: Option<Vec<&Pending>> = operands.iter().map(|x| x.pending_for(step.partial())).collect();
    let pending = parts.filter(|p| !p.is_empty()).map(|all| Pending {
        op: all[0].op,
        parts: all.iter().map(|p| p.parts).fold(0.0, f64::max),
        size: order.iter().map(|(x, i)| all[*x].size[*i]).collect(),
        grain: all.iter().map(|p| p.grain).fold(f64::INFINITY, f64::min),
    });
    Ok(Value { t: Rc::new(t), pending: pending.map(Rc::new), exact: operands.iter().all(|x| x.exact) })
}

/// Position of an element in row-major order.
fn number(shape: &[u64], at: &[u64]) -> usize {
    at.iter().zip(shape).fold(0, |n, (i, d)| n * *d as usize + *i as usize)
}
