//! What the tests of this crate need of its inner parts. It is no interface: no other crate uses
//! it.

use crate::deep::{ByLimits, by_bounds, by_limits};
use crate::{Accuracy, EvalMode, RefTensor, fed};
use kbc_diag::Diagnostic;
use kbc_ir::graph::Graph;
use kbc_numerics::tensor::Tensor;
use std::collections::BTreeSet;

const HOW: EvalMode<'static> = EvalMode { parts: 1.0, accuracy: Accuracy::Own, coins: None, limits: None };

/// Returns the results as lower limits of bounds decide them, if they do.
///
/// # Errors
/// Returns those of [`crate::evaluate`].
pub fn results_by_limits(graph: &Graph, inputs: &[Tensor]) -> Result<Option<Vec<RefTensor>>, Diagnostic> {
    Ok(match by_limits(graph, &fed(graph, inputs)?, HOW)? {
        ByLimits::Decided(results) => Some(results),
        ByLimits::Open(_) => None,
    })
}

/// Returns the results by the bounds themselves.
///
/// # Errors
/// Returns those of [`crate::evaluate`].
pub fn results_by_bounds(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<RefTensor>, Diagnostic> {
    by_bounds(graph, &fed(graph, inputs)?, HOW, (&BTreeSet::new(), None))
}
