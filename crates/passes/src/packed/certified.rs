//! Certified rates: the best rate of a collective that is known to be attainable on a machine.
//!
//! A lower bound says what no schedule can beat. It does not say that a schedule comes near it. The
//! certificate here is a set of trees, checked and counted anew (`kbc_synthesis::CarriedData`),
//! along routes that messages of the machine can take. Cut into ever smaller pieces they take as
//! long as their busiest link, plus what becomes negligible for large vectors.

use super::choice::best_trees;
use super::matched::FEW_MATCHED_TREES;
use super::network::{MachineNetwork, is_whole, routed_network, whole_network};
use super::phase::PackedCollective;
use super::spanning::{spanning_trees, tried};
use kbc_machine::bounds::{Problem, Sizes};
use kbc_machine::topology::{Forward, Topology};
use kbc_synthesis::{CarriedData, MatchedRoots, SpanningEdge, SpanningPacking, match_all_reduce};
use std::rc::Rc;

/// Largest number of ranks for which a certificate is looked for.
const MOST_RANKS: usize = 64;

/// Returns the nanoseconds of a collective at the best certified rate: the time for which the
/// busiest link carries the data of the best trees that are known. None if no trees are known that
/// attain any rate there: only collectives of trees over all devices of a machine of up to 64
/// devices are looked at, and links must be the only thing that takes time.
pub fn certified_ns(topology: &Topology, problem: &Problem) -> Option<f64> {
    let collective = PackedCollective::of(problem.kind).filter(|c| *c != PackedCollective::AllToAll)?;
    let settings = topology.settings();
    let additions = !problem.kind.reduces() || settings.vector().is_infinite();
    let simple = settings.memory().is_infinite()
        && settings.cores.memory().is_infinite()
        && settings.cores.put_limit().is_none()
        && settings.cores.get_limit().is_none()
        && settings.queues().is_none()
        && settings.forward() == Forward::CutThrough
        && topology.paces().next().is_none()
        && !topology.is_package();
    let whole = is_whole(topology, std::slice::from_ref(&problem.group));
    let even = match &problem.sizes {
        Sizes::Even => true,
        Sizes::Blocks(blocks) => blocks.windows(2).all(|pair| pair[0] == pair[1]),
        Sizes::Pairs(_) => false,
    };
    if !additions || !simple || !whole || !even || problem.group.len() > MOST_RANKS {
        return None;
    }
    let root = problem.root.unwrap_or(0) as u64;
    let networks = [whole_network(topology).ok(), routed_network(topology).ok().flatten()];
    let times = networks.iter().flatten().filter_map(|n| n.certified(topology, (collective, root), problem));
    times.reduce(f64::min)
}

impl MachineNetwork {
    /// Returns the nanoseconds of the busiest link of the best trees that are known, if messages
    /// can take their routes.
    fn certified(
        &self,
        topology: &Topology,
        (collective, root): (PackedCollective, u64),
        problem: &Problem,
    ) -> Option<f64> {
        let bytes = problem.bytes as f64;
        let of_root = if collective.has_blocks() || collective == PackedCollective::AllReduce {
            bytes / self.network.members().len() as f64
        } else {
            bytes
        };
        let follows = |nodes: &[usize]| self.via || self.relays(topology, nodes).is_empty();
        let trees = |of: PackedCollective| {
            let packing = best_trees(self, of, root)?;
            let mut routes = packing.classes.iter().flat_map(|c| &c.edges).flat_map(|e| &e.routes);
            let usable = routes.all(|r| follows(&r.nodes));
            usable.then(|| CarriedData::of_trees(&self.network, &packing, of_root)).flatten()
        };
        let ns = |data: CarriedData| Some(data.time(&self.network)? / self.unit * 1e9);
        if collective != PackedCollective::AllReduce {
            return ns(trees(collective)?);
        }
        let spanning = |packing: Rc<SpanningPacking>| {
            let usable =
                packing.classes.iter().flat_map(|c| &c.edges).map(SpanningEdge::nodes).all(|nodes| {
                    let back: Vec<usize> = nodes.iter().rev().copied().collect();
                    follows(&nodes) && follows(&back)
                });
            ns(usable.then(|| CarriedData::of_spanning(&self.network, &packing, bytes)).flatten()?)
        };
        // A reduce-scatter and an all-gather whose pieces follow one another run at the same time,
        // and share the links.
        let both = || {
            let gather = trees(PackedCollective::AllGather)?;
            ns(trees(PackedCollective::ReduceScatter)?.and(&gather))
        };
        // Where each rank would use switches or unequal links, trees for all may be better.
        let matched = |(roots, number)| {
            let network = &self.network;
            let matching = match_all_reduce(network, &self.timings, roots, number, bytes).ok()?;
            let mut edges = matching.up.iter().chain(&matching.down).flat_map(|t| &t.edges);
            let usable = edges.all(|e| follows(&e.nodes()));
            ns(usable.then(|| CarriedData::of_matching(network, &matching, bytes)).flatten()?)
        };
        if let Some(best) = spanning_trees(self).ok().and_then(spanning) {
            return Some(best);
        }
        let numbers = tried(self, |_| true).unwrap_or_default().into_iter();
        let roots = [MatchedRoots::Central, MatchedRoots::All];
        let matchings = roots.into_iter().flat_map(|at| FEW_MATCHED_TREES.map(|k| (at, k)));
        let others = numbers.filter_map(spanning).chain(matchings.filter_map(matched));
        both().into_iter().chain(others).reduce(f64::min)
    }
}
