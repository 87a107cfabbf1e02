//! Sums of absolute terms: the unit of an error limit that does not depend on roundings.
//!
//! A bound follows all roundings of a program, and after many operations it may be far larger than
//! the error of any execution. Two executions of the same formulas, whatever their orders and
//! functions, agree in f32 to within a small part of the numbers that they add. So beside its bound
//! an element has the sum of the absolute terms of its *last contraction*, `sum |a| |b|` (which
//! Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.1 and 3.5, uses for products,
//! with the factor `gamma_K`), propagated through the operations after it: if every term is off by
//! [`OUTER`] of itself, the element is off by `OUTER` times its sum, to first order.
//!
//! | operation | sum of the absolute terms |
//! |---|---|
//! | input, fill, row of a table, cast of a whole number | `abs(x)` |
//! | `matmul`, grouped matmul, `dot` of a tile kernel | `sum abs(a) abs(b)` of the values of its operands |
//! | any other | by its rule for bounds ([`super`]), with `OUTER` times the sums of its operands as their bounds, divided by `OUTER` |
//!
//! The last row means: for a sum, the sums of the addends; for a reduction, a move or a collective,
//! those of the elements; for a product, `abs(a) S_b + S_a abs(b)` and a small rest; for a function
//! of one element, the slope times the sum, plus its own value (because a function is computed,
//! too). Numbers in expressions are terms. No sum is less than the value. A comparison of exact
//! values is exact; if one is not and may fall to either side, both sides count.
//!
//! Only the operations after the last contractions are evaluated for it: one additional matmul for
//! each of these, `abs(a) abs(b)`, and elementwise work. Programs with f16 or bf16 have no such
//! sums, because their stored values are rounded by more than [`OUTER`].

use super::{Fed, RefTensor, Step, Value};
use kbc_diag::Diagnostic;
use kbc_ir::graph::{Graph, OpId, OpKind};
use kbc_ir::types::DType;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum distance of an f32 result from that of another program, in units of the sum of its
/// absolute terms: 336 times the unit roundoff.
pub const OUTER: f64 = 2e-5;

/// Returns the operations whose sums lead to those of the results; none for a program with narrower
/// floats.
pub(super) fn tail(graph: &Graph) -> BTreeSet<OpId> {
    let dtype = |id: OpId| graph.op(id).ty.as_ref().map(|t| t.dtype);
    let narrow = |id: &OpId| dtype(*id).is_some_and(|d| d.is_float() && d != DType::F32);
    if graph.order().iter().any(narrow) {
        return BTreeSet::new();
    }
    let results = graph.order().iter().filter(|id| matches!(graph.op(**id).kind, OpKind::Output(_)));
    let mut left: Vec<OpId> = results.copied().collect();
    let mut out = BTreeSet::new();
    while let Some(id) = left.pop() {
        if dtype(id) != Some(DType::F32) || !out.insert(id) {
            continue;
        }
        if !matches!(graph.op(id).kind, OpKind::Matmul { .. } | OpKind::Grouped(_) | OpKind::Embedding) {
            left.extend(graph.operands(id));
        }
    }
    out
}

/// Adds to a value the sums of its terms, if those of the operands are known.
pub(super) fn add(step: &Step<'_>, fed: &[Fed<'_>], value: &mut Value) -> Result<(), Diagnostic> {
    if value.t.terms.is_some() || value.t.exact.is_some() {
        return Ok(());
    }
    let contraction = matches!(step.op.kind, OpKind::Matmul { .. } | OpKind::Grouped(_));
    let floats = step.operands.iter().all(|o| o.t.exact.is_none());
    let terms = if step.operands.is_empty() || !floats || matches!(step.op.kind, OpKind::Embedding) {
        value.t.value.iter().map(|v| v.abs()).collect()
    } else if contraction {
        let step = Step { terms: Some(step.operands), ..*step };
        divided(&step.run(fed)?.t)
    } else {
        let Some(operands) = step.operands.iter().map(moved_by).collect::<Option<Vec<Value>>>() else {
            return Ok(());
        };
        let step = Step { operands: &operands, terms: Some(step.operands), ..*step };
        divided(&step.run(fed)?.t)
    };
    put(value, terms);
    Ok(())
}

/// Returns a value whose bound is the error of its terms.
pub(super) fn moved_by(x: &Value) -> Option<Value> {
    let bound = x.t.terms.as_ref()?.iter().map(|s| OUTER * s).collect();
    let RefTensor { dtype, shape, value, .. } = &*x.t;
    let t = RefTensor::real(*dtype, shape.clone(), value.clone(), bound);
    Some(Value { t: Arc::new(t), pending: x.pending.clone(), exact: false })
}

/// Converts bounds back to the sums from which they were made.
pub(super) fn divided(t: &RefTensor) -> Vec<f64> {
    t.bound.iter().map(|b| b / OUTER).collect()
}

/// Stores the sums. No sum is less than the value.
pub(super) fn put(value: &mut Value, terms: Vec<f64>) {
    let known = |(s, v): (f64, &f64)| if s.is_nan() { f64::INFINITY } else { s.max(v.abs()) };
    let terms = terms.into_iter().zip(&value.t.value).map(known).collect();
    Arc::make_mut(&mut value.t).terms = Some(terms);
}
