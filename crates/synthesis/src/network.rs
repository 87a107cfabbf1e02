//! The network that carries a collective: nodes, edges with capacities, members.

use crate::error::SynthesisError;
use std::collections::BTreeMap;

/// A directed edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkEdge {
    /// Node that sends.
    pub from: usize,
    /// Node that receives.
    pub to: usize,
    /// Bandwidth in whole units that the caller chooses; larger than 0.
    pub capacity: u64,
}

/// A network and the nodes that take part in the collective.
///
/// Members send, receive, copy and combine. All other nodes only forward: switches, and the devices
/// outside the group of a collective. They neither copy nor combine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    nodes: usize,
    edges: Vec<NetworkEdge>,
    members: Vec<usize>,
}

/// Largest number of nodes. With sums of capacities below 2^64, all products stay below 2^128.
const MAX_NODES: usize = 1 << 24;

impl Network {
    /// Returns a network of nodes `0..nodes`. `edges` holds (from, to, capacity). Parallel edges
    /// become one with the sum of their capacities. Edges with capacity 0 and edges from a node to
    /// itself are dropped.
    ///
    /// # Errors
    ///
    /// [`SynthesisError::NodeOutOfRange`] and [`SynthesisError::RepeatedMember`].
    /// [`SynthesisError::TooFewMembers`] for fewer than two. [`SynthesisError::Overflow`] if there
    /// are more than 2^24 nodes or if the sum of all capacities is 2^64 or more; the caller can
    /// divide capacities by their greatest common divisor.
    pub fn new(
        nodes: usize,
        edges: impl IntoIterator<Item = (usize, usize, u64)>,
        members: impl IntoIterator<Item = usize>,
    ) -> Result<Network, SynthesisError> {
        if nodes > MAX_NODES {
            return Err(SynthesisError::Overflow { what: "the number of nodes" });
        }
        let exists = |node: usize| match node < nodes {
            true => Ok(()),
            false => Err(SynthesisError::NodeOutOfRange { node, nodes }),
        };
        let mut sums: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        let mut total = 0u64;
        for (from, to, capacity) in edges {
            exists(from)?;
            exists(to)?;
            if from != to && capacity > 0 {
                let what = "the sum of the capacities";
                total = total.checked_add(capacity).ok_or(SynthesisError::Overflow { what })?;
                *sums.entry((from, to)).or_insert(0) += capacity;
            }
        }
        let mut members: Vec<usize> = members.into_iter().collect();
        members.sort_unstable();
        members.iter().try_for_each(|&m| exists(m))?;
        if let Some(twice) = members.windows(2).find(|w| w[0] == w[1]) {
            return Err(SynthesisError::RepeatedMember { node: twice[0] });
        }
        if members.len() < 2 {
            return Err(SynthesisError::TooFewMembers { members: members.len() });
        }
        let edges =
            sums.into_iter().map(|((from, to), capacity)| NetworkEdge { from, to, capacity }).collect();
        Ok(Network { nodes, edges, members })
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the edges, ordered by (from, to). No two edges have the same ends.
    pub fn edges(&self) -> &[NetworkEdge] {
        &self.edges
    }

    /// Returns the members in ascending order.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// Returns the network with every edge turned around.
    pub fn reversed(&self) -> Network {
        let turn = |e: &NetworkEdge| NetworkEdge { from: e.to, to: e.from, capacity: e.capacity };
        let mut edges: Vec<NetworkEdge> = self.edges.iter().map(turn).collect();
        edges.sort_unstable_by_key(|e| (e.from, e.to));
        Network { nodes: self.nodes, edges, members: self.members.clone() }
    }

    /// Returns the first member that a member does not reach.
    pub(crate) fn unreached(&self, from: usize) -> Option<usize> {
        let mut seen = vec![false; self.nodes];
        seen[from] = true;
        let mut open = vec![from];
        while let Some(u) = open.pop() {
            let first = self.edges.partition_point(|e| e.from < u);
            for e in self.edges[first..].iter().take_while(|e| e.from == u) {
                if !seen[e.to] {
                    seen[e.to] = true;
                    open.push(e.to);
                }
            }
        }
        self.members.iter().copied().find(|&m| !seen[m])
    }
}
