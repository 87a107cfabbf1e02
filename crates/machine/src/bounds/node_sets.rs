//! Sets of nodes whose cuts are likely to be narrow: parts behind one node, switches with their
//! devices, and surroundings of a node.
//!
//! For an all-to-all no search finds the best of all cuts of a large machine. This module offers
//! the cuts around these sets and around what is outside of them, as far as a limit on work
//! allows. On a tree of links the sets behind one node contain the best cut.

use super::cuts::{Best, SendingSide};
use super::demand::Demand;
use super::flow::Net;
use super::search::{affordable, must_leave, out_of};
use crate::topology::Topology;
use fixedbitset::FixedBitSet;
use kbc_ir::collective::Movement;

/// Limit on the number of arcs, and of pairs of ranks if these have bytes of their own, that are
/// looked at for all sets together.
const MOST_WORK: u64 = 1 << 23;

struct Search<'s, 'p> {
    net: &'s Net,
    demand: &'s Demand<'p>,
    /// Neighbours of each node, in either direction, each once.
    next: Vec<Vec<usize>>,
    /// Work that may still be done.
    left: u64,
    /// The narrowest cut so far: its time, and the sending ranks.
    found: Option<(f64, FixedBitSet)>,
}

/// Offers the narrowest of the cuts around the sets, for an all-to-all. Its capacity is that of
/// the best division of relays between both sides.
pub(super) fn offer(topo: &Topology, demand: &Demand, best: &mut Best) {
    if demand.problem.kind.movement() != Some(Movement::SplitFromToSplit) || !affordable(topo, 1) {
        return;
    }
    let net = &*Net::of(topo);
    let mut next = vec![vec![]; net.nodes];
    for &(a, b, _) in &net.arcs {
        next[a].push(b);
        next[b].push(a);
    }
    next.iter_mut().for_each(|list| {
        list.sort_unstable();
        list.dedup();
    });
    let mut search = Search { net, demand, next, left: MOST_WORK, found: None };
    search.behind_nodes();
    search.switches();
    search.surroundings();
    let Some((_, sending)) = search.found else { return };
    let capacity = out_of(topo, demand, std::iter::once(sending.clone()));
    let rate = net.rate(capacity.first().copied().unwrap_or(i128::MAX));
    best.offer(must_leave(demand, &sending), rate, || SendingSide::Ranks(sending.ones().collect()));
}

impl Search<'_, '_> {
    /// What is behind a node: the parts into which the machine falls without it.
    fn behind_nodes(&mut self) {
        for node in 0..self.net.nodes {
            if self.left == 0 {
                return;
            }
            let mut seen = FixedBitSet::with_capacity(self.net.nodes);
            seen.insert(node);
            let mut parts = vec![];
            for &start in &self.next[node] {
                if seen.contains(start) {
                    continue;
                }
                let before = seen.clone();
                let mut list = vec![start];
                seen.insert(start);
                while let Some(at) = list.pop() {
                    let new = self.next[at].iter().copied().filter(|n| !seen.put(*n));
                    list.extend(new);
                }
                let mut part = seen.clone();
                part.difference_with(&before);
                parts.push(part);
            }
            self.left = self.left.saturating_sub(self.net.arcs.len() as u64);
            // With a single part, the rest is the node alone.
            for part in parts.iter().filter(|_| parts.len() > 1) {
                self.try_set(part);
            }
        }
    }

    /// Each relay with the devices that are linked with nothing else.
    fn switches(&mut self) {
        for relay in 0..self.net.nodes {
            let mut inside = FixedBitSet::with_capacity(self.net.nodes);
            inside.extend(self.next[relay].iter().copied().filter(|n| self.next[*n] == [relay]));
            if inside.is_clear() {
                continue;
            }
            inside.insert(relay);
            self.try_set(&inside);
        }
    }

    /// All nodes within some number of hops of a node.
    fn surroundings(&mut self) {
        for node in 0..self.net.nodes {
            let mut inside = FixedBitSet::with_capacity(self.net.nodes);
            inside.insert(node);
            let mut ring = vec![node];
            while !ring.is_empty() && self.left > 0 {
                self.try_set(&inside);
                let mut further = vec![];
                for at in ring {
                    further.extend(self.next[at].iter().copied().filter(|n| !inside.put(*n)));
                }
                ring = further;
            }
        }
    }

    /// Looks at the cuts around a set of nodes and around all others.
    fn try_set(&mut self, inside: &FixedBitSet) {
        let p = self.demand.ranks();
        let pairs = if self.demand.pairs().is_some() { p * p } else { p };
        let work = (self.net.arcs.len() + pairs) as u64;
        if self.left < work {
            self.left = 0;
            return;
        }
        self.left -= work;
        let group = &self.demand.problem.group;
        let ranks: FixedBitSet = (0..p).filter(|&r| inside.contains(group[r].0 as usize)).collect();
        let mut ranks = ranks;
        ranks.grow(p);
        let mut others = ranks.clone();
        others.toggle_range(..);
        let mut outside = inside.clone();
        outside.toggle_range(..);
        for (set, nodes) in [(ranks, inside), (others, &outside)] {
            let (bytes, capacity) = (must_leave(self.demand, &set), self.net.out(nodes));
            let time = bytes / self.net.rate(capacity);
            if bytes > 0.0 && self.found.as_ref().is_none_or(|(t, _)| time > t * (1.0 + 1e-12)) {
                self.found = Some((time, set));
            }
        }
    }
}
