//! Comparison of an execution with expected values that exist a block at a time.

use kbc_diag::Diagnostic;
use kbc_ir::graph::Graph;
use kbc_ir::types::{Mesh, TensorType};
use kbc_numerics::compare::{Comparison, compare_rows};
use kbc_numerics::shard::Part;
use kbc_numerics::tensor::Tensor;
use kbc_numerics::threads::shared_out;
use kbc_reference::{Blocks, EvalOptions, LargestNumbers};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Evaluates a call in blocks and compares them with what the ranks hold, so that the expected
/// values of a whole result never exist. Returns a comparison for each result, or None if the
/// values must be evaluated as a whole.
///
/// # Errors
/// Returns the errors of the evaluator.
pub fn by_blocks(
    graph: &Graph,
    mesh: &Mesh,
    (inputs, options): (&[Tensor], &EvalOptions),
    (types, outputs): (&[TensorType], &[Vec<Part>]),
) -> Result<Option<Vec<Comparison>>, Diagnostic> {
    let Some(blocks) = Blocks::of(graph, inputs, options) else { return Ok(None) };
    type Found = Vec<(Comparison, LargestNumbers)>;
    let compared = |rows: Range<u64>| -> Result<Found, Diagnostic> {
        let values = blocks.evaluate(rows.clone())?;
        let each = types.iter().zip(&values).enumerate().map(|(i, (ty, want))| {
            let parts: Vec<&Part> = outputs.iter().map(|rank| &rank[i]).collect();
            let rows = (blocks.dim(), rows.clone());
            (compare_rows(ty, mesh, &parts, &want.into(), rows), LargestNumbers::of(want))
        });
        Ok(each.collect())
    };
    let all = Mutex::new(Ok(vec![(Comparison::none(), LargestNumbers::default()); types.len()]));
    let size = inputs.iter().map(Tensor::elements).sum::<usize>().saturating_mul(4);
    shared_out(size, blocks.ranges(), |rows| {
        let found = compared(rows);
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *all, Ok(vec![]));
        *all = match (before, found) {
            (Ok(before), Ok(found)) => {
                let pairs = before.into_iter().zip(found);
                Ok(pairs.map(|(a, b)| (a.0.merged(b.0), a.1.merged(b.1))).collect())
            }
            (Err(d), _) | (_, Err(d)) => Err(d),
        };
    });
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    let tight = all.iter().zip(types).all(|((_, largest), ty)| largest.bounds_are_tight(ty.dtype));
    Ok(tight.then(|| all.into_iter().map(|found| found.0).collect()))
}
