//! Maximum flow in whole numbers (Dinic), and a machine as a flow network.
//!
//! Owns the flow computation of the other searches here. Capacities are 128-bit integers, so ratios are compared
//! exactly and a search ends; bandwidths become integers by their greatest common divisor.

use fixedbitset::FixedBitSet;
use std::sync::Arc;

use crate::topology::Topology;
use kbc_ir::expr::gcd;

/// A residual network.
pub(super) struct Flow {
    /// First arc of each node, or [`NONE`].
    first: Vec<usize>,
    /// Next arc of the same node.
    next: Vec<usize>,
    to: Vec<usize>,
    room: Vec<i128>,
    level: Vec<u32>,
    at: Vec<usize>,
}

const NONE: usize = usize::MAX;

impl Flow {
    /// Nodes 0..n and no arc.
    pub fn new(n: usize) -> Flow {
        Flow { first: vec![NONE; n], next: vec![], to: vec![], room: vec![], level: vec![], at: vec![] }
    }

    /// An arc with its capacity, and that of the opposite one.
    pub fn arc(&mut self, from: usize, to: usize, capacity: i128, back: i128) {
        for (a, b, room) in [(from, to, capacity), (to, from, back)] {
            self.next.push(self.first[a]);
            self.first[a] = self.to.len();
            self.to.push(b);
            self.room.push(room);
        }
    }

    /// The value of a maximum flow.
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

    /// Nodes still reachable from the source: the source side of a minimum cut after [`Flow::run`].
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

    /// Pushes along one path of rising levels. Its depth is at most the number of nodes, which the limits of the
    /// callers keep to about a thousand.
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

/// A machine as a network: arcs between devices with whole capacities.
pub(super) struct Net {
    /// Number of devices.
    pub nodes: usize,
    /// (from, to, capacity), parallel links added up.
    pub arcs: Vec<(usize, usize, i128)>,
    /// Bytes a second of one unit of capacity.
    unit: f64,
    /// Capacity of an arc that nothing limits; more than that of any cut without one.
    unlimited: i128,
}

impl Net {
    /// Bandwidths that are no whole numbers are rounded *up* to 2^-50 of the fastest link, so that what follows from
    /// a capacity stays a lower bound on time.
    pub fn of(topo: &Topology) -> Arc<Net> {
        topo.remembered("network of links", vec![], || Net::new(topo))
    }

    fn new(topo: &Topology) -> Net {
        let mut rates: Vec<(usize, usize, f64)> = vec![];
        for l in topo.links() {
            let (from, to) = (l.from.0 as usize, l.to.0 as usize);
            // Several between two nodes have consecutive numbers, or nearly.
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
            // Room for what nothing limits, below.
            finite().fold(0f64, f64::max) / 2f64.powi(if all { 50 } else { 30 })
        };
        // What nothing limits: so much more than all others together that a cut through it is the best only where there is
        // none without, and is known by its size.
        let limited: i128 = finite().map(|r| (r / unit).ceil() as i128).sum();
        let unlimited = (2 * topo.node_count() as i128).saturating_mul(limited).saturating_add(1);
        let units = |r: f64| if r.is_finite() { (r / unit).ceil() as i128 } else { unlimited };
        let arcs = rates.iter().map(|&(a, b, r)| (a, b, units(r))).collect();
        Net { nodes: topo.node_count(), arcs, unit, unlimited }
    }

    /// A capacity in bytes a second; infinite where it goes through what nothing limits.
    pub fn rate(&self, capacity: i128) -> f64 {
        if capacity >= self.unlimited { f64::INFINITY } else { capacity as f64 * self.unit }
    }

    /// Every arc the other way round.
    pub fn reversed(&self) -> Net {
        let arcs = self.arcs.iter().map(|&(a, b, c)| (b, a, c)).collect();
        Net { nodes: self.nodes, arcs, ..*self }
    }

    /// The network with `extra` further nodes and every capacity times `factor`.
    pub fn flow(&self, extra: usize, factor: i128) -> Flow {
        let mut flow = Flow::new(self.nodes + extra);
        for &(a, b, c) in &self.arcs {
            flow.arc(a, b, c * factor, 0);
        }
        flow
    }

    /// Capacity of the arcs that leave a set of devices.
    pub fn out(&self, inside: &FixedBitSet) -> i128 {
        let leaves = |a: &&(usize, usize, i128)| inside.contains(a.0) && !inside.contains(a.1);
        self.arcs.iter().filter(leaves).map(|a| a.2).sum()
    }
}
