//! Paths: shortest paths in a network whose edges have lengths.
//!
//! Lengths are whole numbers, so that distances are exact and ties do not depend on rounding.

use crate::network::Network;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The edges of a network by their sender. An edge has the number of its place in the network.
pub(crate) struct EdgeTable {
    /// The first edge that leaves each node; one entry more than nodes.
    first: Vec<usize>,
    from: Vec<usize>,
    to: Vec<usize>,
}

impl EdgeTable {
    /// Returns the table of edges (from, to), which are ordered, between nodes `0..nodes`.
    pub(crate) fn new(nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> EdgeTable {
        let (from, to): (Vec<usize>, Vec<usize>) = edges.unzip();
        let first = (0..=nodes).map(|v| from.partition_point(|&f| f < v)).collect();
        EdgeTable { first, from, to }
    }

    /// Returns the table of a network.
    pub(crate) fn of(network: &Network) -> EdgeTable {
        EdgeTable::new(network.nodes(), network.edges().iter().map(|e| (e.from, e.to)))
    }

    /// Returns the number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.first.len() - 1
    }

    /// Returns the number of edges.
    pub(crate) fn len(&self) -> usize {
        self.to.len()
    }

    /// Returns the nodes of a path of edges, cut at the members between its ends.
    pub(crate) fn hops(&self, members: &[usize], path: &[u32]) -> Vec<Vec<usize>> {
        let mut hops: Vec<Vec<usize>> = vec![];
        let mut cut = true;
        for &e in path {
            let (from, to) = (self.from[e as usize], self.to[e as usize]);
            match hops.last_mut() {
                Some(hop) if !cut => hop.push(to),
                _ => hops.push(vec![from, to]),
            }
            cut = members.binary_search(&to).is_ok();
        }
        hops
    }

    /// Returns the edges of a path of nodes, or `None` if there is no such edge.
    pub(crate) fn edges(&self, nodes: &[usize]) -> Option<Vec<u32>> {
        let edge = |w: &[usize]| {
            let range = *self.first.get(w[0])?..*self.first.get(w[0].checked_add(1)?)?;
            let at = self.to.get(range.clone())?.binary_search(&w[1]).ok()?;
            u32::try_from(range.start + at).ok()
        };
        nodes.windows(2).map(edge).collect()
    }
}

/// Distance of a node that is not reached.
pub(crate) const UNREACHED: u64 = u64::MAX;

/// Shortest paths from one node to all others (Dijkstra, 1959). Of paths with equal length, the one
/// that was found first stays.
#[derive(Default)]
pub(crate) struct ShortestPaths {
    /// Distance of each node, or [`UNREACHED`].
    pub(crate) distance: Vec<u64>,
    /// The edge by which each node is reached.
    entered: Vec<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl ShortestPaths {
    /// Finds the paths from a node. The sum of any path's lengths must be below 2^64.
    pub(crate) fn search(&mut self, table: &EdgeTable, lengths: &[u64], start: usize) {
        let nodes = table.nodes();
        self.distance.clear();
        self.distance.resize(nodes, UNREACHED);
        self.entered.clear();
        self.entered.resize(nodes, u32::MAX);
        self.distance[start] = 0;
        self.heap.push(Reverse((0, start as u32)));
        while let Some(Reverse((distance, node))) = self.heap.pop() {
            let node = node as usize;
            if distance > self.distance[node] {
                continue;
            }
            let edges = table.first[node]..table.first[node + 1];
            for (edge, (&to, &length)) in
                edges.clone().zip(table.to[edges.clone()].iter().zip(&lengths[edges]))
            {
                let there = distance + length;
                if there < self.distance[to] {
                    self.distance[to] = there;
                    self.entered[to] = edge as u32;
                    self.heap.push(Reverse((there, to as u32)));
                }
            }
        }
    }

    /// Writes the edges of the path to a node that was reached.
    pub(crate) fn path(&self, table: &EdgeTable, end: usize, path: &mut Vec<u32>) {
        path.clear();
        let mut node = end;
        while let Some(&edge) = self.entered.get(node).filter(|&&e| e != u32::MAX) {
            path.push(edge);
            node = table.from[edge as usize];
        }
        path.reverse();
    }
}
