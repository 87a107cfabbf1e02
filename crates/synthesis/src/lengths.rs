//! Lengths: the bound of the rate of a flow that lengths of edges give, in whole numbers.
//!
//! Every choice of lengths gives a true bound (the dual of maximum concurrent flow: Shahrokhi and
//! Matula, J. ACM 37, 1990). Where the best lengths are small whole numbers, which is usual on
//! regular machines, rounding finds them, and the bound is exact.

use crate::exact::{ExactRatio, common_divisor};
use crate::network::Network;
use crate::paths::{EdgeTable, ShortestPaths};

/// Lengths and their bound.
pub(crate) struct LengthBound {
    pub(crate) lengths: Vec<u64>,
    /// Sum of capacity times length.
    pub(crate) capacity: u128,
    /// Sum of demand times distance.
    pub(crate) demand: u128,
    /// The bound: `capacity / demand`.
    pub(crate) rate: ExactRatio,
}

/// Largest numbers to which lengths are rounded.
const ROUND: [u64; 8] = [1, 2, 3, 4, 6, 8, 12, 60];
/// Largest length. Paths of 2^24 edges stay below 2^60, and sums with capacities and demands of
/// less than 2^64 below 2^128.
const LONGEST: u128 = 1 << 36;

/// Returns the given lengths, which are at most 2^36, or roundings of them with a lower bound.
pub(crate) fn best_lengths(
    network: &Network,
    table: &EdgeTable,
    pairs: &[(usize, usize, u64)],
    lengths: &[u64],
) -> Option<LengthBound> {
    let mut search = ShortestPaths::default();
    let mut best = bound(network, table, pairs, lengths.to_vec(), &mut search);
    for rounded in candidates(network, lengths) {
        if let Some(next) = bound(network, table, pairs, rounded, &mut search)
            && best.as_ref().is_none_or(|b| next.rate < b.rate)
        {
            best = Some(next);
        }
    }
    best
}

/// Returns lengths rounded to few values, and lengths for which capacity times length is rounded to
/// few values: that is what edges have in common that are used in full.
fn candidates(network: &Network, lengths: &[u64]) -> Vec<Vec<u64>> {
    let capacities = || network.edges().iter().map(|e| u128::from(e.capacity));
    let multiple = capacities().try_fold(1u128, |l, c| {
        let next = l / common_divisor(l, c) * c;
        (next <= LONGEST).then_some(next)
    });
    let mut out = vec![];
    let rounded = |values: &[u128], steps: u64| -> Vec<u128> {
        let most = values.iter().copied().max().unwrap_or(1).max(1);
        values.iter().map(|v| (v * u128::from(steps) * 2 + most) / (2 * most)).collect()
    };
    let plain: Vec<u128> = lengths.iter().map(|&l| u128::from(l)).collect();
    let weights: Vec<u128> = plain.iter().zip(capacities()).map(|(l, c)| l * c).collect();
    for steps in ROUND {
        out.push(rounded(&plain, steps).into_iter().map(|l| l as u64).collect());
        if let Some(multiple) = multiple.filter(|m| m * u128::from(steps) <= LONGEST) {
            let length = |(w, c): (u128, u128)| (w * (multiple / c)) as u64;
            out.push(rounded(&weights, steps).into_iter().zip(capacities()).map(length).collect());
        }
    }
    out.dedup();
    out
}

/// Returns the bound of lengths, or `None` if all demand has distance 0.
fn bound(
    network: &Network,
    table: &EdgeTable,
    pairs: &[(usize, usize, u64)],
    lengths: Vec<u64>,
    search: &mut ShortestPaths,
) -> Option<LengthBound> {
    let capacity = network.edges().iter().zip(&lengths).map(|(e, &l)| u128::from(e.capacity) * u128::from(l));
    let capacity = capacity.sum();
    let (mut demand, mut at) = (0u128, usize::MAX);
    for &(from, to, amount) in pairs {
        if from != at {
            at = from;
            search.search(table, &lengths, at);
        }
        demand += u128::from(amount) * u128::from(search.distance[to]);
    }
    let rate = ExactRatio::new(capacity, demand)?;
    Some(LengthBound { lengths, capacity, demand, rate })
}
