//! Scale: how many trees each root has, and how many whole trees each edge carries.
//!
//! The best rate is a fraction, so some number of trees per root reaches it with whole trees on
//! every edge ([`optimal`]). That number may be large. [`fixed`] finds the best rate for a given
//! number of trees per root, as ForestColl does: the smallest scale U for which
//! `floor(U * capacity)` trees per edge suffice.

use crate::certificate::{BestRate, RateProof, TightCut};
use crate::connectivity::Supplied;
use crate::error::SynthesisError;
use crate::exact::{ExactRatio, common_divisor};
use crate::rate::Weighted;
use fixedbitset::FixedBitSet;

const TOO_LARGE: SynthesisError = SynthesisError::Overflow { what: "the number of trees" };

/// Whole trees per root and edge.
pub(crate) struct TreeCounts {
    /// Trees of a root of weight 1.
    pub per_weight: u128,
    /// Trees per unit of capacity.
    pub scale: ExactRatio,
    /// Trees that each edge carries, in the order of the edges.
    pub limits: Vec<u128>,
    /// Why no rate is higher.
    pub proof: RateProof,
}

/// Returns the smallest number of trees with which the best rate is reached without rounding.
pub(crate) fn optimal(weighted: &Weighted, best: BestRate) -> Result<TreeCounts, SynthesisError> {
    let (num, den) = (best.rate.denominator(), best.rate.numerator());
    let edges = weighted.network.edges();
    let divisor = edges.iter().fold(den, |g, e| common_divisor(g, u128::from(e.capacity)));
    let step = "the scale";
    let scale = ExactRatio::new(num, divisor).ok_or(SynthesisError::Inconsistent { step })?;
    // Every capacity is a multiple of the divisor.
    let limits = edges.iter().map(|e| u128::from(e.capacity) / divisor * num).collect();
    Ok(TreeCounts { per_weight: den / divisor, scale, limits, proof: RateProof::Cut(best.cut) })
}

/// Returns the smallest scale with which `trees` per root of weight 1 suffice.
///
/// The number of whole trees on an edge of capacity c changes at scales j / c with an integer j, so
/// the smallest scale has this form for the capacity of some edge. For each capacity, j is found by
/// bisection, and capacities that cannot improve on the best scale so far take one test.
pub(crate) fn fixed(
    weighted: &mut Weighted,
    best: &BestRate,
    trees: u64,
) -> Result<TreeCounts, SynthesisError> {
    if trees == 0 {
        return Err(SynthesisError::ZeroTrees);
    }
    let trees = u128::from(trees);
    let mut sizes: Vec<u128> = weighted.network.edges().iter().map(|e| u128::from(e.capacity)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // No scale below trees / rate suffices. One that lets every edge carry all trees does.
    let (num, den) = (best.rate.denominator(), best.rate.numerator());
    let lowest = num.checked_mul(trees).ok_or(TOO_LARGE)?;
    let all = weighted.weights.iter().sum::<u128>().checked_mul(trees).ok_or(TOO_LARGE)?;
    let smallest = sizes.first().copied().unwrap_or(1);
    let step = "the scale for a given number of trees";
    let ratio = |a, b| ExactRatio::new(a, b).ok_or(SynthesisError::Inconsistent { step });
    let mut scale = ratio(all, smallest)?;
    for &size in &sizes {
        // Scales j / size from `low` on are possible, and `high` is the first that is no better
        // than the best so far.
        let low = lowest.checked_mul(size).ok_or(TOO_LARGE)?.div_ceil(den);
        let high = scale.numerator().checked_mul(size).ok_or(TOO_LARGE)?.div_ceil(scale.denominator());
        let suffices = |weighted: &mut Weighted, j: u128| -> Result<bool, SynthesisError> {
            Ok(violated(weighted, ratio(j, size)?, trees)?.is_empty())
        };
        if high <= low || !suffices(weighted, high - 1)? {
            continue;
        }
        let (mut fails, mut works) = (low, high - 1);
        if suffices(weighted, low)? {
            works = low;
        }
        while works - fails > 1 {
            let middle = fails + (works - fails) / 2;
            if suffices(weighted, middle)? {
                works = middle;
            } else {
                fails = middle;
            }
        }
        scale = ratio(works, size)?;
    }
    let limits = whole(weighted, scale)?;
    let rate = ratio(trees.checked_mul(scale.denominator()).ok_or(TOO_LARGE)?, scale.numerator())?;
    if rate == best.rate {
        return Ok(TreeCounts { per_weight: trees, scale, limits, proof: RateProof::Cut(best.cut.clone()) });
    }
    // The largest scale below at which some edge changes.
    let mut below = ratio(0, 1)?;
    for &size in &sizes {
        let product = scale.numerator().checked_mul(size).ok_or(TOO_LARGE)?;
        below = below.max(ratio(product.div_ceil(scale.denominator()) - 1, size)?);
    }
    let far = violated(weighted, below, trees)?;
    let far = far.first().ok_or(SynthesisError::Inconsistent { step })?;
    let limits_below = whole(weighted, below)?;
    let crossing = weighted.network.edges().iter().zip(limits_below);
    let capacity = crossing.filter(|(e, _)| !far.contains(e.from) && far.contains(e.to)).map(|c| c.1).sum();
    let cut = TightCut { capacity, ..weighted.cut(far) };
    Ok(TreeCounts { per_weight: trees, scale, limits, proof: RateProof::WholeTrees { cut, below } })
}

/// Returns the whole trees of each edge at a scale.
fn whole(weighted: &Weighted, scale: ExactRatio) -> Result<Vec<u128>, SynthesisError> {
    let product = |c: u64| u128::from(c).checked_mul(scale.numerator()).ok_or(TOO_LARGE);
    let edges = weighted.network.edges().iter();
    let limits: Result<Vec<u128>, _> =
        edges.map(|e| Ok(product(e.capacity)? / scale.denominator())).collect();
    let sum = limits.as_ref().ok().and_then(|l| l.iter().try_fold(0u128, |a, &b| a.checked_add(b)));
    sum.ok_or(TOO_LARGE).and(limits)
}

fn violated(
    weighted: &mut Weighted,
    scale: ExactRatio,
    trees: u128,
) -> Result<Vec<FixedBitSet>, SynthesisError> {
    let capacities = whole(weighted, scale)?;
    let product = |w: &u128| w.checked_mul(trees).ok_or(TOO_LARGE);
    let supplies = weighted.weights.iter().map(product).collect::<Result<Vec<u128>, _>>()?;
    let given = Supplied { capacities: &capacities, supplies: &supplies, growing: None };
    Ok(weighted.check.violated(&given, 1))
}
