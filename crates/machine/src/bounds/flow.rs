//! Maximum flow in integers (Dinic's algorithm), and a machine as a flow network.
//!
//! This module owns the flow computation of the other searches of `bounds`. Capacities are 128-bit
//! integers, so ratios are compared exactly and every search ends. Bandwidths become integers by
//! division by their greatest common divisor.

use fixedbitset::FixedBitSet;
use std::sync::Arc;

use crate::topology::Topology;
use kbc_ir::expr::gcd;

/// A residual network. Arc `i ^ 1` is the reverse of arc `i`.
pub(super) struct Flow {
    /// First arc of each node, or [`NONE`].
    first: Vec<usize>,
    /// Next arc of the same node, or [`NONE`].
    next: Vec<usize>,
    to: Vec<usize>,
    room: Vec<i128>,
    level: Vec<u32>,
    at: Vec<usize>,
}

const NONE: usize = usize::MAX;

impl Flow {
    /// Returns a network with nodes 0..n and no arcs.
    pub fn new(n: usize) -> Flow {
        Flow { first: vec![NONE; n], next: vec![], to: vec![], room: vec![], level: vec![], at: vec![] }
    }

    /// Adds an arc with its capacity, and the opposite arc with capacity `back`.
    pub fn arc(&mut self, from: usize, to: usize, capacity: i128, back: i128) {
        for (a, b, room) in [(from, to, capacity), (to, from, back)] {
            self.next.push(self.first[a]);
            self.first[a] = self.to.len();
            self.to.push(b);
            self.room.push(room);
        }
    }

    /// Returns the value of a maximum flow.
    pub fn run(&mut self, source: usize, sink: usize) -> i128 {
        let mut total = 0;
        while self.layer(source).contains(sink) {
            self.at.clone_from(&self.first);
            loop {
                let pushed = self.push(source, sink, i128::MAX);
                if pushed == 0 {
                    break;
                }
                total += pushed;
            }
        }
        total
    }

    /// Returns the nodes that the source still reaches. After [`Flow::run`] these are the source
    /// side of a minimum cut.
    pub fn layer(&mut self, source: usize) -> FixedBitSet {
        let n = self.first.len();
        self.level = vec![u32::MAX; n];
        self.level[source] = 0;
        let mut seen = FixedBitSet::with_capacity(n);
        seen.insert(source);
        let mut queue = vec![source];
        let mut head = 0;
        while let Some(&u) = queue.get(head) {
            head += 1;
            let mut arc = self.first[u];
            while arc != NONE {
                let v = self.to[arc];
                if self.room[arc] > 0 && !seen.contains(v) {
                    seen.insert(v);
                    self.level[v] = self.level[u] + 1;
                    queue.push(v);
                }
                arc = self.next[arc];
            }
        }
        seen
    }

    /// Pushes flow along one path of rising levels. The recursion is at most as deep as the number
    /// of nodes, which the limits of the callers keep to a few thousand.
    fn push(&mut self, u: usize, sink: usize, most: i128) -> i128 {
        if u == sink {
            return most;
        }
        while self.at[u] != NONE {
            let arc = self.at[u];
            let v = self.to[arc];
            if self.room[arc] > 0 && self.level[v] == self.level[u] + 1 {
                let pushed = self.push(v, sink, most.min(self.room[arc]));
                if pushed > 0 {
                    self.room[arc] -= pushed;
                    self.room[arc ^ 1] += pushed;
                    return pushed;
                }
            }
            self.at[u] = self.next[arc];
        }
        0
    }
}

/// A machine as a network: arcs between nodes with integer capacities.
pub(super) struct Net {
    /// Number of nodes: devices and relays.
    pub nodes: usize,
    /// Arcs: from, to, capacity. Capacities of parallel links are added.
    pub arcs: Vec<(usize, usize, i128)>,
    /// Bytes per second of one unit of capacity.
    unit: f64,
    /// Capacity of an arc with unlimited bandwidth. It exceeds the capacity of every cut without
    /// such an arc.
    unlimited: i128,
}

impl Net {
    /// Returns the network of a machine, memoised. Bandwidths that are not integers are rounded
    /// *up* to 2^-50 of the fastest link (2^-30 if some links are unlimited), so that what follows
    /// from a capacity stays a lower bound on time.
    pub fn of(topo: &Topology) -> Arc<Net> {
        topo.memoised("network of links", vec![], || Net::new(topo))
    }

    fn new(topo: &Topology) -> Net {
        let mut rates: Vec<(usize, usize, f64)> = vec![];
        for l in topo.links() {
            let (from, to) = (l.from.0 as usize, l.to.0 as usize);
            // Parallel links between two nodes have consecutive numbers, or nearly so.
            match rates.iter_mut().rev().take(2).find(|r| (r.0, r.1) == (from, to)) {
                Some(same) => same.2 += l.rate.bandwidth,
                None => rates.push((from, to, l.rate.bandwidth)),
            }
        }
        let finite = || rates.iter().map(|r| r.2).filter(|r| r.is_finite());
        let whole = finite().all(|r| r.fract() == 0.0 && r < 9e15);
        let all = finite().count() == rates.len();
        let unit = if whole {
            finite().fold(0u64, |g, r| gcd(g, r as u64)).max(1) as f64
        } else {
            // Leaves room for the capacity of unlimited links, below.
            finite().fold(0f64, f64::max) / 2f64.powi(if all { 50 } else { 30 })
        };
        // The capacity of an unlimited link is so much more than all others together that a minimum
        // cut contains such a link only if every cut does. The value of the cut then shows it.
        let limited: i128 = finite().map(|r| (r / unit).ceil() as i128).sum();
        let unlimited = (2 * topo.node_count() as i128).saturating_mul(limited).saturating_add(1);
        let units = |r: f64| if r.is_finite() { (r / unit).ceil() as i128 } else { unlimited };
        let arcs = rates.iter().map(|&(a, b, r)| (a, b, units(r))).collect();
        Net { nodes: topo.node_count(), arcs, unit, unlimited }
    }

    /// Returns a capacity in bytes per second. Infinite if an unlimited arc is included.
    pub fn rate(&self, capacity: i128) -> f64 {
        if capacity >= self.unlimited { f64::INFINITY } else { capacity as f64 * self.unit }
    }

    /// Returns the network with every arc reversed.
    pub fn reversed(&self) -> Net {
        let arcs = self.arcs.iter().map(|&(a, b, c)| (b, a, c)).collect();
        Net { nodes: self.nodes, arcs, ..*self }
    }

    /// Returns a flow network with `extra` further nodes and every capacity multiplied by `factor`.
    pub fn flow(&self, extra: usize, factor: i128) -> Flow {
        let mut flow = Flow::new(self.nodes + extra);
        for &(a, b, c) in &self.arcs {
            flow.arc(a, b, c * factor, 0);
        }
        flow
    }

    /// Returns the capacity of the arcs that leave a set of nodes.
    pub fn out(&self, inside: &FixedBitSet) -> i128 {
        let leaves = |a: &&(usize, usize, i128)| inside.contains(a.0) && !inside.contains(a.1);
        self.arcs.iter().filter(leaves).map(|a| a.2).sum()
    }
}
