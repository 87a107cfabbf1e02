//! Search for the best of all cuts, by maximum flows.
//!
//! This module owns the exact searches over all cuts:
//!
//! * Blocks that must reach a rank: the largest ratio of weight to capacity, by repeated minimum
//!   cuts.
//! * One vector that must reach every rank: minimum cuts.
//! * All-to-all on very small machines: every cut.
//!
//! Devices outside the group are relays. They are nodes of the network, and count as ranks of
//! neither side.

use fixedbitset::FixedBitSet;

use super::cuts::{Best, SendingSide};
use super::demand::{Demand, SideTotals};
use super::flow::{Flow, Net};
use crate::topology::{DeviceId, Topology};
use kbc_ir::collective::Movement;

/// Number of nodes up to which flows are computed. It also limits the depth of a path.
const MAX_NODES: usize = 1024;
/// Limit on the number of flows times the number of links of a search.
const MAX_WORK: u64 = 1 << 20;
/// Number of devices up to which every cut of an all-to-all is evaluated.
const ALL_CUTS: usize = 12;

/// Checks whether `flows` maximum flows over all links of a machine are affordable.
pub(super) fn affordable(topo: &Topology, flows: usize) -> bool {
    let links = topo.link_count();
    // Most nodes of a list of links are leaves or in the middle of a link, so more nodes are
    // allowed.
    let most = if topo.is_listed() { 4 * MAX_NODES } else { MAX_NODES };
    topo.node_count() <= most && links <= MAX_WORK && links * flows as u64 <= MAX_WORK
}

/// Offers the best cut to `best`. Returns whether it is the best of all.
pub(super) fn offer(topo: &Topology, demand: &Demand, best: &mut Best) -> bool {
    let p = demand.ranks();
    let root = demand.problem.root.unwrap_or(0);
    let Some(change) = demand.problem.kind.movement() else { return false };
    let flows = match change {
        Movement::SplitToRoot | Movement::RootToSplit => 1,
        Movement::PartialToWhole => 2 * p,
        Movement::PartialToSplit
        | Movement::PartialToRoot
        | Movement::SplitToWhole
        | Movement::SplitFromToSplit
        | Movement::RootToWhole => p,
    };
    if !affordable(topo, flows) {
        return false;
    }
    let net = Net::of(topo);
    let back = net.reversed();
    match change {
        Movement::SplitToWhole => (0..p).for_each(|v| blocks(&net, demand, v, false, best)),
        Movement::PartialToSplit => (0..p).for_each(|v| blocks(&back, demand, v, true, best)),
        Movement::SplitToRoot => blocks(&net, demand, root, false, best),
        Movement::RootToSplit => blocks(&back, demand, root, true, best),
        Movement::RootToWhole => vector(topo, demand, root, false, best),
        Movement::PartialToRoot => vector(topo, demand, root, true, best),
        Movement::PartialToWhole => {
            vector(topo, demand, 0, false, best);
            vector(topo, demand, 0, true, best);
        }
        Movement::SplitFromToSplit => return every(topo, &net, demand, best),
    }
    true
}

/// Returns the ranks inside a set of devices, or outside it.
fn ranks(demand: &Demand, inside: &FixedBitSet, outside: bool) -> Vec<usize> {
    let group = &demand.problem.group;
    (0..group.len()).filter(|&r| inside.contains(group[r].0 as usize) != outside).collect()
}

/// Offers the cut that maximises weight(S) / C_out(S) over all S without `sink`. On a reversed
/// network S is the set that receives the blocks, and the bytes must leave its complement.
fn blocks(net: &Net, demand: &Demand, sink: usize, reversed: bool, best: &mut Best) {
    let group = &demand.problem.group;
    let goal = group[sink].0 as usize;
    let total = i128::from(demand.total - demand.weight(sink));
    let mut inside: FixedBitSet = (0..net.nodes).filter(|&v| v != goal).collect();
    inside.grow(net.nodes);
    let (mut weight, mut capacity) = (total, net.out(&inside));
    if total == 0 {
        return;
    }
    loop {
        // All blocks reach the sink in time weight / capacity unless another cut is tighter.
        let source = net.nodes;
        let mut flow = net.flow(1, weight);
        for (r, device) in group.iter().enumerate().filter(|(r, _)| *r != sink) {
            flow.arc(source, device.0 as usize, i128::from(demand.weight(r)) * capacity, 0);
        }
        if flow.run(source, goal) >= total * capacity {
            break;
        }
        inside = flow.layer(source);
        weight = ranks(demand, &inside, false).iter().map(|&r| i128::from(demand.weight(r))).sum();
        capacity = net.out(&inside);
    }
    let bytes = weight as f64 * demand.unit;
    best.offer(bytes, net.rate(capacity), || SendingSide::Ranks(ranks(demand, &inside, reversed)));
}

/// Offers the cuts of the maximum flows from the root to every other rank, with n bytes each. On a
/// reversed network the flows go to the root.
fn vector(topo: &Topology, demand: &Demand, root: usize, reversed: bool, best: &mut Best) {
    let group = &demand.problem.group;
    let n = demand.problem.bytes as f64;
    let source = group[root].0 as usize;
    let net = Net::of(topo);
    let what = if reversed { "least flows to a rank" } else { "least flows from a rank" };
    let mut of = self::group(demand);
    of.push(root as u32);
    let flows = topo.memoised(what, of, || {
        let net = if reversed { std::sync::Arc::new(net.reversed()) } else { net.clone() };
        let others = group.iter().enumerate().filter(|(r, _)| *r != root);
        let one = |(_, device): (usize, &DeviceId)| {
            let mut flow = net.flow(0, 1);
            let value = flow.run(source, device.0 as usize);
            (value, flow.layer(source))
        };
        others.map(one).collect::<Vec<(i128, FixedBitSet)>>()
    });
    for (value, layer) in flows.iter() {
        best.offer(n, net.rate(*value), || SendingSide::Ranks(ranks(demand, layer, reversed)));
    }
}

/// Returns the devices of the group, as a key for [`Topology::memoised`].
pub(super) fn group(demand: &Demand) -> Vec<u32> {
    demand.problem.group.iter().map(|d| d.0).collect()
}

/// Offers every cut of a small machine whose devices are all ranks. Returns false if the machine is
/// larger.
fn every(topo: &Topology, net: &Net, demand: &Demand, best: &mut Best) -> bool {
    let p = demand.ranks();
    if p > ALL_CUTS || p != topo.node_count() {
        return false;
    }
    let mut rank_of = vec![0usize; p];
    demand.problem.group.iter().enumerate().for_each(|(r, d)| rank_of[d.0 as usize] = r);
    for mask in 1..(1u32 << p) - 1 {
        let has = |rank: usize| mask >> rank & 1 == 1;
        let leaves = |a: &&(usize, usize, i128)| has(rank_of[a.0]) && !has(rank_of[a.1]);
        let capacity: i128 = net.arcs.iter().filter(leaves).map(|a| a.2).sum();
        let members: FixedBitSet = (0..p).filter(|&r| has(r)).collect();
        let bytes = must_leave(demand, &members);
        best.offer(bytes, net.rate(capacity), || SendingSide::Ranks(members.ones().collect()));
    }
    true
}

/// Returns the bytes that must go from some ranks to the others.
pub(super) fn must_leave(demand: &Demand, set: &FixedBitSet) -> f64 {
    let p = demand.ranks();
    match demand.pairs() {
        Some(m) => {
            let crosses = |i: &usize| set.contains(i / p) && !set.contains(i % p);
            (0..p * p).filter(crosses).map(|i| u128::from(m[i])).sum::<u128>() as f64
        }
        None => demand.out(set.ones().fold(SideTotals::default(), |side, r| SideTotals {
            ranks: side.ranks + 1,
            weight: side.weight + demand.weight(r),
            root: side.root || demand.one(r).root,
        })),
    }
}

/// Returns the maximum flow from a set of ranks to all other ranks, for each of the sets, in units
/// of the network. This is C_out of docs/explanation/bounds.md. No set may be empty or contain all
/// ranks.
pub(super) fn out_of(topo: &Topology, demand: &Demand, sets: impl Iterator<Item = FixedBitSet>) -> Vec<i128> {
    let sets: Vec<FixedBitSet> = sets.collect();
    let mut of = group(demand);
    for set in &sets {
        of.push(u32::MAX);
        of.extend(set.ones().map(|r| r as u32));
    }
    topo.memoised("flows out of parts", of, || flows_out(&Net::of(topo), demand, &sets)).to_vec()
}

fn flows_out(net: &Net, demand: &Demand, sets: &[FixedBitSet]) -> Vec<i128> {
    let group = &demand.problem.group;
    let (source, sink) = (net.nodes, net.nodes + 1);
    let much: i128 = net.arcs.iter().map(|a| a.2).sum::<i128>() + 1;
    let one = |set: &FixedBitSet| {
        let mut flow: Flow = net.flow(2, 1);
        for (r, device) in group.iter().enumerate() {
            let device = device.0 as usize;
            if set.contains(r) {
                flow.arc(source, device, much, 0);
            } else {
                flow.arc(device, sink, much, 0);
            }
        }
        flow.run(source, sink)
    };
    sets.iter().map(one).collect()
}
