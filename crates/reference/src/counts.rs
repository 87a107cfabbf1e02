//! `all_to_all` with a matrix of counts: on one device, a permutation of rows.
//!
//! The result has, for every destination and then for every source, the rows that the source holds
//! for the destination. The module knows no ranks, lines or algorithms.

use super::{RefTensor, Step, Value};
use kbc_diag::Diagnostic;
use kbc_ir::Parts;

/// Returns the result, or an error if there is none.
pub(super) fn run(step: &Step<'_>, x: &Value, counts: &Parts) -> Result<Value, Diagnostic> {
    let shape = x.t.shape.clone();
    let sums = counts.totals();
    let total = sums.iter().try_fold(0u64, |n, s| n.checked_add(*s));
    if counts.rows() != counts.of() || shape.first().copied() != total {
        return Err(step.broken("its counts do not match its operand"));
    }
    let width = step.room(&shape[1..])?;
    // First row of each source's part.
    let starts: Vec<u64> = sums
        .iter()
        .scan(0, |at, n| {
            let first = *at;
            *at += n;
            Some(first)
        })
        .collect();
    let mut order: Vec<usize> = vec![];
    for d in 0..counts.of() {
        for (s, first) in (0..).zip(&starts) {
            let rows = first + counts.boundary(s, d)..first + counts.boundary(s, d + 1);
            order.extend(rows.flat_map(|row| (0..width).map(move |i| row as usize * width + i)));
        }
    }
    let moved = |from: &[f64]| order.iter().map(|i| from[*i]).collect::<Vec<f64>>();
    let bound = moved(&x.t.bound);
    let t = match &x.t.exact {
        Some(whole) => {
            RefTensor::integers(x.t.dtype, shape, order.iter().map(|i| whole[*i]).collect(), bound)
        }
        None => RefTensor::real(x.t.dtype, shape, moved(&x.t.value), bound),
    };
    Ok(Value { exact: x.exact, ..Value::whole(t) })
}
