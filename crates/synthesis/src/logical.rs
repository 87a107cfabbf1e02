//! A network in which edges may stand for routes through switches that have been removed.
//!
//! This module owns the test whether every member can still receive all trees, and the removal of
//! capacity that unbalances a switch.

use crate::connectivity::{Connectivity, Supplied};
use crate::error::SynthesisError;
use fixedbitset::FixedBitSet;
use std::collections::BTreeMap;

/// One replacement: `trees` of (from, at) and (at, to) become `trees` of (from, to). If both ends
/// are the same node, the capacity is given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Splitting {
    pub from: usize,
    pub at: usize,
    pub to: usize,
    pub trees: u128,
}

/// A network in which some switches have been removed.
#[derive(Clone)]
pub(crate) struct Logical {
    pub nodes: usize,
    pub members: Vec<usize>,
    /// Trees that each edge (from, to) can carry; larger than 0.
    pub edges: BTreeMap<(usize, usize), u128>,
    /// Trees that each member sends as a root.
    pub supplies: Vec<u128>,
    /// Sets that are entered by exactly as much capacity as they need. They stay so.
    pub tight: Vec<FixedBitSet>,
}

impl Logical {
    /// Returns capacity into and out of a node.
    pub fn balance(&self, w: usize) -> (u128, u128) {
        let entering = self.edges.iter().filter(|e| e.0.1 == w).map(|e| e.1).sum();
        let leaving = self.edges.iter().filter(|e| e.0.0 == w).map(|e| e.1).sum();
        (entering, leaving)
    }

    /// Returns a set of nodes that is entered by too little capacity.
    pub fn violated(&self) -> Option<FixedBitSet> {
        let ends: Vec<(usize, usize)> = self.edges.keys().copied().collect();
        let capacities: Vec<u128> = self.edges.values().copied().collect();
        let mut check = Connectivity::new(self.nodes, &ends, &self.members);
        let given = Supplied { capacities: &capacities, supplies: &self.supplies, growing: None };
        check.violated(&given, 1).pop()
    }

    /// Returns the capacity into a set, and how much of it is needed.
    fn demand(&self, set: &FixedBitSet) -> (u128, u128) {
        let enters = |e: &(&(usize, usize), &u128)| !set.contains(e.0.0) && set.contains(e.0.1);
        let outside = self.members.iter().zip(&self.supplies).filter(|m| !set.contains(*m.0));
        (self.edges.iter().filter(enters).map(|e| e.1).sum(), outside.map(|m| m.1).sum())
    }

    fn take(&mut self, from: usize, to: usize, trees: u128) {
        if let Some(c) = self.edges.get_mut(&(from, to)) {
            *c = c.saturating_sub(trees);
            if *c == 0 {
                self.edges.remove(&(from, to));
            }
        }
    }

    /// Makes replacements.
    pub fn apply(&mut self, plan: &[Splitting]) {
        for s in plan.iter().filter(|s| s.trees > 0) {
            self.take(s.from, s.at, s.trees);
            self.take(s.at, s.to, s.trees);
            if s.from != s.to {
                *self.edges.entry((s.from, s.to)).or_insert(0) += s.trees;
            }
        }
    }

    /// Lowers an amount until a change by it passes, and returns it with the set that limits it.
    /// What a set loses by the change must be a multiple of the amount.
    pub fn largest(
        &self,
        mut trees: u128,
        change: impl Fn(&mut Logical, u128),
    ) -> (u128, Option<FixedBitSet>) {
        let mut limit = None;
        while trees > 0 {
            let mut changed = self.clone();
            change(&mut changed, trees);
            let Some(set) = changed.violated() else { break };
            let ((before, need), (after, _)) = (self.demand(&set), changed.demand(&set));
            let times = (before.saturating_sub(after) / trees).max(1);
            trees = (before.saturating_sub(need) / times).min(trees - 1);
            limit = Some(set);
        }
        (trees, limit)
    }

    /// Gives up capacity around nodes that only forward until each has as much in as out. The
    /// capacity given up is not needed at this rate.
    ///
    /// A node with too much capacity in gives some up along a path from a member, or from a node
    /// with too much capacity out, which balances every node between; likewise with too much out.
    /// Where a set limits what can be given up, other paths are tried, and where none is left, the
    /// search starts again with that node first. There may be combinations of paths that it misses.
    pub fn balanced(&mut self) -> Result<(), SynthesisError> {
        let mut order: Vec<usize> =
            (0..self.nodes).filter(|v| self.members.binary_search(v).is_err()).collect();
        let mut attempt = 0;
        loop {
            let mut changed = self.clone();
            let Some(at) = order.iter().position(|&w| !changed.balance_node(w)) else {
                *self = changed;
                return Ok(());
            };
            attempt += 1;
            let node = order[at];
            if at == 0 || attempt == ATTEMPTS {
                let (entering, leaving) = changed.balance(node);
                return Err(SynthesisError::UnbalancedSwitch { node, entering, leaving });
            }
            order[..=at].rotate_right(1);
        }
    }

    /// Balances one node. Returns whether that was possible.
    fn balance_node(&mut self, w: usize) -> bool {
        let mut tight: Vec<FixedBitSet> = vec![];
        loop {
            let (entering, leaving) = self.balance(w);
            if entering == leaving {
                return true;
            }
            let Some(path) = self.spare_path(w, entering > leaving, &tight) else { return false };
            let mut most = entering.abs_diff(leaving);
            if self.members.binary_search(&path.end).is_err() {
                let (entering, leaving) = self.balance(path.end);
                most = most.min(entering.abs_diff(leaving));
            }
            let width = path.edges.iter().filter_map(|e| self.edges.get(e)).min().copied().unwrap_or(0);
            let give_up = |l: &mut Logical, trees| {
                path.edges.iter().for_each(|&(u, v)| l.take(u, v, trees));
            };
            let (trees, limit) = self.largest(most.min(width), give_up);
            give_up(self, trees);
            tight.extend(limit);
        }
    }

    /// Returns a shortest path that ends at a node (`into`) or starts there, and that avoids edges
    /// into tight sets. Its other end is a member, or a node that is unbalanced in the other way.
    fn spare_path(&self, w: usize, into: bool, tight: &[FixedBitSet]) -> Option<SparePath> {
        let blocked = |e: &(usize, usize)| tight.iter().any(|x| !x.contains(e.0) && x.contains(e.1));
        let mut beside: Vec<Vec<(usize, usize)>> = vec![vec![]; self.nodes];
        for &e in self.edges.keys().filter(|e| !blocked(e)) {
            beside[if into { e.1 } else { e.0 }].push(e);
        }
        let mut before: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        let (mut queue, mut head) = (vec![w], 0);
        while let Some(&v) = queue.get(head) {
            head += 1;
            for &e in &beside[v] {
                let next = if into { e.0 } else { e.1 };
                if next == w || before.contains_key(&next) {
                    continue;
                }
                before.insert(next, e);
                let (entering, leaving) = self.balance(next);
                let other = if into { leaving > entering } else { entering > leaving };
                if other || self.members.binary_search(&next).is_ok() {
                    let (mut edges, mut at) = (vec![], next);
                    while at != w {
                        let e = *before.get(&at)?;
                        edges.push(e);
                        at = if into { e.1 } else { e.0 };
                    }
                    return Some(SparePath { edges, end: next });
                }
                queue.push(next);
            }
        }
        None
    }
}

/// Orders of nodes that are tried.
const ATTEMPTS: usize = 16;

/// Edges of a path along which capacity is given up.
struct SparePath {
    edges: Vec<(usize, usize)>,
    end: usize,
}
