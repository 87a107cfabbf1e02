//! What trees attain: for how long the busiest edge carries their data.
//!
//! Trees are a certificate. They are cut into pieces, and the pieces follow one another along every
//! tree. With more and smaller pieces, a schedule of them comes as near to the time of the busiest
//! edge as one likes: an edge that has to carry less is idle now and then, and the first piece
//! takes a constant time to arrive. The functions here believe nothing that a packing says of
//! itself. They check that every tree reaches all members, and that its routes are edges of the
//! network, and they count the loads anew.

use crate::certificate::{SpanningPacking, TreeDirection, TreePacking};
use crate::matched::{MatchedEdge, Matching};
use crate::network::Network;
use std::collections::{BTreeMap, BTreeSet};

/// Data on each edge of a network.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CarriedData(BTreeMap<(usize, usize), f64>);

impl CarriedData {
    /// Returns what the edges carry if each root has that much data. None if the trees do not carry
    /// it: a tree leaves a member out, or the roots have different numbers of trees.
    pub fn of_trees(network: &Network, packing: &TreePacking, of_root: f64) -> Option<CarriedData> {
        let mut trees: BTreeMap<usize, u128> = BTreeMap::new();
        packing.classes.iter().for_each(|c| *trees.entry(c.root).or_default() += c.trees);
        let per_root = *trees.values().next()?;
        if trees.values().any(|&n| n != per_root) || !packing.roots.iter().map(|r| r.0).eq(trees.into_keys())
        {
            return None;
        }
        let share = of_root / per_root as f64;
        let mut out = CarriedData::default();
        for class in &packing.classes {
            let edges = class.edges.iter().map(|e| (e.from, e.to));
            if !reaches_all(network, class.root, edges, packing.direction) {
                return None;
            }
            for edge in &class.edges {
                if edge.routes.iter().map(|r| r.trees).sum::<u128>() != class.trees {
                    return None;
                }
                for route in &edge.routes {
                    let ends = (route.nodes.first(), route.nodes.last());
                    if ends != (Some(&edge.from), Some(&edge.to)) {
                        return None;
                    }
                    let steps = route.nodes.windows(2).map(|pair| (pair[0], pair[1]));
                    steps.for_each(|step| out.add(step, share * route.trees as f64));
                }
            }
        }
        Some(out)
    }

    /// Returns what the edges carry in an all-reduce of that much data: up every tree, and down.
    /// None if a tree leaves a member out.
    pub fn of_spanning(network: &Network, packing: &SpanningPacking, data: f64) -> Option<CarriedData> {
        let trees: u128 = packing.classes.iter().map(|c| c.trees).sum();
        let mut out = CarriedData::default();
        for class in &packing.classes {
            let mut seen = BTreeSet::from([class.centre]);
            let share = data * (class.trees as f64 / trees as f64);
            for edge in &class.edges {
                if !seen.contains(&edge.near) || !seen.insert(edge.far) {
                    return None;
                }
                for step in edge.nodes().windows(2) {
                    out.add((step[0], step[1]), share);
                    out.add((step[1], step[0]), share);
                }
            }
            if !seen.iter().eq(network.members()) {
                return None;
            }
        }
        Some(out)
    }

    /// Returns what the edges carry in an all-reduce of that much data by matched trees: up every
    /// tree of the first half, and down the one of the second half that belongs to it. None if a
    /// tree leaves a member out, or begins at another root than the first half ends.
    pub fn of_matching(network: &Network, matching: &Matching, data: f64) -> Option<CarriedData> {
        let (up, down) = (&matching.up, &matching.down);
        if up.is_empty() || !up.iter().map(|t| t.root).eq(down.iter().map(|t| t.root)) {
            return None;
        }
        let share = data / up.len() as f64;
        let mut out = CarriedData::default();
        for (trees, direction) in [(up, TreeDirection::ToRoot), (down, TreeDirection::FromRoot)] {
            for tree in trees {
                let edges = tree.edges.iter().map(|e| (e.from, e.to));
                if !reaches_all(network, tree.root, edges, direction) {
                    return None;
                }
                for nodes in tree.edges.iter().map(MatchedEdge::nodes) {
                    nodes.windows(2).for_each(|pair| out.add((pair[0], pair[1]), share));
                }
            }
        }
        Some(out)
    }

    fn add(&mut self, edge: (usize, usize), data: f64) {
        *self.0.entry(edge).or_insert(0.0) += data;
    }

    /// Adds what another part of the same collective carries at the same time.
    pub fn and(mut self, other: &CarriedData) -> CarriedData {
        other.0.iter().for_each(|(edge, data)| self.add(*edge, *data));
        self
    }

    /// Returns the time for which the busiest edge carries its data, in units of data per capacity.
    /// None if data crosses an edge that the network does not have.
    pub fn time(&self, network: &Network) -> Option<f64> {
        let capacities: BTreeMap<(usize, usize), u64> =
            network.edges().iter().map(|e| ((e.from, e.to), e.capacity)).collect();
        self.0
            .iter()
            .try_fold(0.0f64, |most, (edge, data)| Some(most.max(data / *capacities.get(edge)? as f64)))
    }
}

/// Checks whether the edges of a tree lead from its root to all members, or from all of them to it.
fn reaches_all(
    network: &Network,
    root: usize,
    mut edges: impl Iterator<Item = (usize, usize)>,
    direction: TreeDirection,
) -> bool {
    let mut seen = BTreeSet::from([root]);
    let grows = edges.all(|(from, to)| {
        let (near, far) = match direction {
            TreeDirection::FromRoot => (from, to),
            TreeDirection::ToRoot => (to, from),
        };
        seen.contains(&near) && seen.insert(far)
    });
    grows && seen.iter().eq(network.members())
}
