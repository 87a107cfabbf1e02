//! All-to-all: paths whose rate is near the best one, by maximum concurrent flow.
//!
//! Fractional flows are balanced at rising powers of the potential (`equilibrium.rs`), until the
//! rate that they reach meets the bound of their lengths. Then the flows are rounded to whole
//! shares (`whole.rs`), and the lengths to whole numbers. Rates and bounds are computed from these
//! alone.

use crate::equilibrium::{Equilibrium, PairPaths};
use crate::error::SynthesisError;
use crate::exact::ExactRatio;
use crate::flow::{AllToAllFlow, FlowEdge, FlowPath, PairFlow};
use crate::lengths::{LengthBound, best_lengths};
use crate::network::Network;
use crate::paths::{EdgeTable, ShortestPaths, UNREACHED};

/// Returns paths for an all-to-all in which each member sends the amount 1 to each other member.
///
/// # Errors
/// [`SynthesisError::Unreachable`] if there is no path from some member to another.
pub fn all_to_all_flow(network: &Network) -> Result<AllToAllFlow, SynthesisError> {
    let members = network.members();
    let row = |&s: &usize| members.iter().filter(move |&&t| t != s).map(move |&t| (s, t, 1));
    flow(network, &members.iter().flat_map(row).collect::<Vec<_>>())
}

/// Returns paths for an all-to-all(v). `demands[i][j]` is the amount, in any unit, that member i
/// sends to member j; members are counted in ascending order. What a member sends to itself needs
/// no path and is ignored.
///
/// # Errors
/// [`SynthesisError::DemandShape`] if `demands` has not one row and one column for each member.
/// [`SynthesisError::NoDemand`] if no member sends anything to another.
/// [`SynthesisError::Unreachable`] for a pair with demand and without a path.
/// [`SynthesisError::Overflow`] if the demands add up to 2^64 or more.
pub fn all_to_all_v_flow(network: &Network, demands: &[Vec<u64>]) -> Result<AllToAllFlow, SynthesisError> {
    let members = network.members();
    for len in std::iter::once(demands.len()).chain(demands.iter().map(Vec::len)) {
        if len != members.len() {
            return Err(SynthesisError::DemandShape { len, members: members.len() });
        }
    }
    let mut pairs = vec![];
    let mut total = 0u64;
    for (&source, row) in members.iter().zip(demands) {
        for (&destination, &demand) in members.iter().zip(row) {
            if source != destination && demand > 0 {
                let what = "the sum of the demands";
                total = total.checked_add(demand).ok_or(SynthesisError::Overflow { what })?;
                pairs.push((source, destination, demand));
            }
        }
    }
    if pairs.is_empty() {
        return Err(SynthesisError::NoDemand);
    }
    flow(network, &pairs)
}

/// Power `2^k + 2` of the potential at the end. The most loaded edge then weighs e times as much as
/// one with 1/4096 less load.
const LAST_POWER: u32 = 12;
/// Visits of edges for which the sweeps at one power are meant, and the least and largest number of
/// sweeps. A visit takes about 20 ns.
const EFFORT: u64 = 1_000_000;
const SWEEPS: (u64, u64) = (4, 32);
/// Visits of edges in the whole search, from which on very large networks get fewer sweeps.
const MOST_EFFORT: u64 = 600_000_000;
/// Rounds in which flow is shifted between known paths after each search for new ones.
const SETTLING: usize = 2;
/// Distance from the bound, as a share of it, at which the search ends.
const NEAR: f64 = 1e-5;
/// Numbers of shares that are tried for a rate that equals the bound. With few shares a pair has
/// few paths.
const FEW_SHARES: [u64; 3] = [1, 2, 12];
/// Shares otherwise. The number has all divisors up to 10.
const MANY_SHARES: u64 = 5040;

/// Returns paths for pairs (source, destination, demand), which are ordered.
fn flow(network: &Network, pairs: &[(usize, usize, u64)]) -> Result<AllToAllFlow, SynthesisError> {
    let table = EdgeTable::of(network);
    reachable(network, &table, pairs)?;
    let capacities = network.edges().iter().map(|e| e.capacity as f64).collect();
    let empty = |&(source, destination, demand): &(usize, usize, u64)| PairPaths {
        source,
        destination,
        demand: demand as f64,
        paths: vec![],
    };
    let mut flows = Equilibrium::new(&table, capacities, pairs.iter().map(empty).collect());
    let (lengths, near) = balance(&mut flows);
    let bound = best_lengths(network, &table, pairs, &lengths);
    let bound = bound.ok_or(SynthesisError::Inconsistent { step: "the bound of the flow" })?;
    let fractional = std::mem::take(&mut flows.pairs);
    let tried = FEW_SHARES.into_iter().filter(|_| near).chain([MANY_SHARES]);
    let mut best: Option<(ExactRatio, AllToAllFlow)> = None;
    for shares in tried {
        flows.pairs.clone_from(&fractional);
        flows.make_whole(&vec![shares; pairs.len()]);
        let whole = result(network, &table, pairs, &flows.pairs, shares, &bound)?;
        if best.as_ref().is_none_or(|b| whole.rate > b.0) {
            best = Some((whole.rate, whole));
        }
        if best.as_ref().is_some_and(|b| b.0 == bound.rate) {
            break;
        }
    }
    best.map(|b| b.1).ok_or(SynthesisError::Inconsistent { step: "the flow" })
}

/// Checks that there is a path for each pair.
fn reachable(
    network: &Network,
    table: &EdgeTable,
    pairs: &[(usize, usize, u64)],
) -> Result<(), SynthesisError> {
    let lengths = vec![1; network.edges().len()];
    let (mut search, mut at) = (ShortestPaths::default(), usize::MAX);
    for &(from, to, _) in pairs {
        if from != at {
            at = from;
            search.search(table, &lengths, at);
        }
        if search.distance[to] == UNREACHED {
            return Err(SynthesisError::Unreachable { from, to });
        }
    }
    Ok(())
}

/// Balances the flows. Returns the lengths with the least bound, and whether the flows are near it.
fn balance(flows: &mut Equilibrium) -> (Vec<u64>, bool) {
    let mut lengths = flows.whole_lengths().to_vec();
    let (mut least, mut effort) = (f64::INFINITY, 0);
    for power in 1..=LAST_POWER {
        flows.set_power(power);
        let (mut sweeps, mut most) = (0, 1);
        while sweeps < most {
            flows.sweep();
            (0..SETTLING).for_each(|_| flows.settle());
            sweeps += 1;
            let (capacity, demand) = flows.bound();
            if capacity / demand < least {
                least = capacity / demand;
                lengths.copy_from_slice(flows.whole_lengths());
            }
            if 1.0 >= (1.0 - NEAR) * least * flows.most() {
                return (lengths, true);
            }
            let once = flows.effort() * (1 + SETTLING as u64);
            effort += once;
            let powers = u64::from(LAST_POWER - power + 1);
            let affordable = MOST_EFFORT.saturating_sub(effort) / (once * powers);
            most = (EFFORT / once).clamp(SWEEPS.0, SWEEPS.1).min(affordable);
        }
    }
    (lengths, false)
}

/// Returns flows of whole shares with their exact rate and the bound.
fn result(
    network: &Network,
    table: &EdgeTable,
    pairs: &[(usize, usize, u64)],
    flows: &[PairPaths],
    shares: u64,
    bound: &LengthBound,
) -> Result<AllToAllFlow, SynthesisError> {
    let mut edges: Vec<FlowEdge> = network
        .edges()
        .iter()
        .zip(&bound.lengths)
        .map(|(e, &length)| FlowEdge { from: e.from, to: e.to, capacity: e.capacity, load: 0, length })
        .collect();
    let mut out = vec![];
    for (&(source, destination, demand), flow) in pairs.iter().zip(flows) {
        let mut paths = vec![];
        for path in &flow.paths {
            let path_shares = path.parts(flow.demand, shares);
            for &e in &path.edges {
                // Less than 2^64 demand in all, times 5040.
                edges[e as usize].load += u128::from(demand) * u128::from(path_shares);
            }
            let hops = table.hops(network.members(), &path.edges);
            paths.push(FlowPath { hops, shares: path_shares });
        }
        if paths.iter().map(|p| p.shares).sum::<u64>() != shares {
            return Err(SynthesisError::Inconsistent { step: "the shares of paths" });
        }
        paths.sort_by(|a, b| a.hops.cmp(&b.hops));
        out.push(PairFlow { source, destination, demand, paths });
    }
    let rate = |e: &FlowEdge| ExactRatio::new(u128::from(e.capacity) * u128::from(shares), e.load);
    let rate = edges.iter().filter_map(rate).min();
    Ok(AllToAllFlow {
        shares,
        rate: rate.ok_or(SynthesisError::Inconsistent { step: "the rate of the flow" })?,
        bound: bound.rate,
        capacity_length: bound.capacity,
        demand_length: bound.demand,
        members: network.members().to_vec(),
        pairs: out,
        edges,
    })
}
