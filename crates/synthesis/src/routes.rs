//! Routes of edges between members: which paths of the network carry them.

use crate::certificate::RouteShare;
use crate::logical::Splitting;
use std::collections::BTreeMap;

/// The routes that make up each edge (from, to), with their numbers of trees.
pub(crate) struct RouteTable {
    routes: BTreeMap<(usize, usize), Vec<RouteShare>>,
}

impl RouteTable {
    /// Returns the table of a network's own edges.
    pub fn new(edges: &BTreeMap<(usize, usize), u128>) -> RouteTable {
        let share = |(&(u, v), &trees): (&(usize, usize), &u128)| {
            ((u, v), vec![RouteShare { nodes: vec![u, v], trees }])
        };
        RouteTable { routes: edges.iter().map(share).collect() }
    }

    /// Joins the routes of two edges that meet at a switch.
    pub fn split(&mut self, s: &Splitting) {
        let first = self.take(s.from, s.at, s.trees);
        let mut second = self.take(s.at, s.to, s.trees);
        if s.from == s.to {
            return;
        }
        let joined = self.routes.entry((s.from, s.to)).or_default();
        for a in first {
            let mut left = a.trees;
            while left > 0 {
                let Some(b) = second.last_mut() else { break };
                let trees = left.min(b.trees);
                let nodes = a.nodes.iter().chain(&b.nodes[1..]).copied().collect();
                joined.push(RouteShare { nodes: without_loops(nodes), trees });
                left -= trees;
                b.trees -= trees;
                if b.trees == 0 {
                    second.pop();
                }
            }
        }
        merge(joined);
    }

    /// Removes and returns routes of an edge that carry this many trees, shortest first.
    pub fn take(&mut self, from: usize, to: usize, trees: u128) -> Vec<RouteShare> {
        let mut taken = vec![];
        let mut left = trees;
        let Some(routes) = self.routes.get_mut(&(from, to)) else { return taken };
        while left > 0 {
            let Some(last) = routes.last_mut() else { break };
            if last.trees > left {
                last.trees -= left;
                taken.push(RouteShare { nodes: last.nodes.clone(), trees: left });
                break;
            }
            left -= last.trees;
            taken.extend(routes.pop());
        }
        taken
    }
}

/// Orders routes from long to short, and adds up equal ones.
fn merge(routes: &mut Vec<RouteShare>) {
    routes.sort_by(|a, b| b.nodes.len().cmp(&a.nodes.len()).then_with(|| b.nodes.cmp(&a.nodes)));
    routes.dedup_by(|b, a| {
        let same = a.nodes == b.nodes;
        if same {
            a.trees += b.trees;
        }
        same
    });
}

/// Cuts out what lies between two visits of one node.
fn without_loops(nodes: Vec<usize>) -> Vec<usize> {
    let mut out: Vec<usize> = vec![];
    for v in nodes {
        match out.iter().position(|&u| u == v) {
            Some(i) => out.truncate(i + 1),
            None => out.push(v),
        }
    }
    out
}
