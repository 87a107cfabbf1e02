//! Programs with several successive contractions: their bounds are known to be replaced before they
//! are computed.
//!
//! Two thirds of the time of an evaluation are the products that bounds need. In deep programs
//! these bounds are larger than the results, and [`super::probe`] replaces all of them. That only
//! needs to be known, so this module evaluates such a program with *lower limits* of its bounds:
//! for matmuls from every [`super::matmul::EVERY`]-th term, whose sums are not more than the whole
//! ones because no term is negative; for all other operations by their rules, which give no larger
//! bound for smaller bounds of their operands. If all limits are loose and not below their
//! replacements, so are the bounds, and the replacements are the results. Otherwise the program is
//! evaluated with its bounds, too. The result is the same in either case.
//!
//! Values do not depend on bounds, with one exception: a result that certainly overflows is
//! infinite, and not a large number. Where an infinity or NaN appears, limits are given up.

use super::{EvalMode, Fed, RefTensor, probe, run_all};
use kbc_diag::Diagnostic;
use kbc_ir::graph::{Graph, OpId, OpKind};
use kbc_ir::types::DType;
use kbc_numerics::tensor::in_vectors;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

/// Number of successive contractions from which lower limits are tried. With fewer, bounds are
/// rarely so large that a part of their terms shows it.
const DEEP: usize = 4;

/// Evaluates a program, and replaces loose bounds of its results.
pub(super) fn evaluate(
    graph: &Graph,
    fed: &[Fed<'_>],
    how: EvalMode<'_>,
    tail: &BTreeSet<OpId>,
) -> Result<Vec<RefTensor>, Diagnostic> {
    let mut probes = None;
    if tail.is_empty() && has_limits(graph) {
        match by_limits(graph, fed, how)? {
            ByLimits::Decided(results) => return Ok(results),
            ByLimits::Open(seen) => probes = seen,
        }
    }
    by_bounds(graph, fed, how, (tail, probes))
}

/// The disturbed results ([`probe::disturbed`]).
type Probes = Vec<Vec<RefTensor>>;

/// What lower limits of bounds have shown.
pub(super) enum ByLimits {
    /// All bounds are replaced. These are the results.
    Decided(Vec<RefTensor>),
    /// Bounds must be known. The disturbed results, if they were needed.
    Open(Option<Probes>),
}

/// Evaluates a program with lower limits of its bounds.
pub(super) fn by_limits(graph: &Graph, fed: &[Fed<'_>], how: EvalMode<'_>) -> Result<ByLimits, Diagnostic> {
    let lost = AtomicBool::new(false);
    let how_limits = EvalMode { limits: Some(&lost), ..how };
    let mut limits = run_all(graph, fed, how_limits, &BTreeSet::new())?;
    if limits.is_empty() || !limits.iter().all(probe::loose) {
        return Ok(ByLimits::Open(None));
    }
    let seen = disturbed(graph, fed, how)?;
    let decided = probe::replace(&mut limits, &seen);
    Ok(if decided { ByLimits::Decided(limits) } else { ByLimits::Open(Some(seen)) })
}

/// Evaluates a program with its bounds.
pub(super) fn by_bounds(
    graph: &Graph,
    fed: &[Fed<'_>],
    how: EvalMode<'_>,
    (tail, probes): (&BTreeSet<OpId>, Option<Probes>),
) -> Result<Vec<RefTensor>, Diagnostic> {
    let mut results = run_all(graph, fed, how, tail)?;
    if results.iter().any(probe::loose) {
        let probes = probes.map_or_else(|| disturbed(graph, fed, how), Ok)?;
        probe::tighten(&mut results, &probes);
    }
    Ok(results)
}

fn disturbed(graph: &Graph, fed: &[Fed<'_>], how: EvalMode<'_>) -> Result<Probes, Diagnostic> {
    let none = BTreeSet::new();
    probe::disturbed(|coins| run_all(graph, fed, EvalMode { coins: Some(coins), ..how }, &none))
}

/// Whether lower limits of bounds are worth a try.
fn has_limits(graph: &Graph) -> bool {
    let mut depth: BTreeMap<OpId, usize> = BTreeMap::new();
    for &id in graph.order() {
        let op = graph.op(id);
        // Inside a tile kernel infinities would not be seen; saturated numbers depend on bounds.
        let saturates = |t: DType| t.float().is_some_and(|f| !f.infinite);
        if matches!(op.kind, OpKind::Tiles(_)) || op.ty.as_ref().is_some_and(|t| saturates(t.dtype)) {
            return false;
        }
        let before = graph.operands(id).iter().filter_map(|o| depth.get(o)).max().copied().unwrap_or(0);
        let own = usize::from(matches!(op.kind, OpKind::Matmul { .. } | OpKind::Grouped(_)));
        depth.insert(id, before + own);
    }
    depth.values().any(|d| *d >= DEEP)
}

/// Whether all numbers are finite.
pub(super) fn finite(values: &[f64]) -> bool {
    const INFINITE: u64 = f64::INFINITY.to_bits();
    values.chunks(1 << 12).all(|some| {
        // Bits of numbers without a sign have the order of the numbers; NaN is above infinity.
        in_vectors(|| some.iter().fold(0, |most: u64, v| most.max(v.abs().to_bits()))) < INFINITE
    })
}
