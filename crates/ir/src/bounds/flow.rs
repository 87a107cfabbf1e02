//! Maximum flow in whole numbers (Dinic), and a machine as a flow network.
//!
//! Owns the flow computation of the other searches here. Capacities are 128-bit integers, so ratios are compared
//! exactly and a search ends; bandwidths become integers by their greatest common divisor.

use fixedbitset::FixedBitSet;

use crate::topology::Topology;

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
    pub unit: f64,
}

impl Net {
    /// Bandwidths that are no whole numbers are rounded *up* to 2^-50 of the fastest link, so that what follows from
    /// a capacity stays a lower bound on time.
    pub fn of(topo: &Topology) -> Net {
        let mut rates: Vec<(usize, usize, f64)> = vec![];
        for l in topo.links() {
            let (from, to) = (l.from.0 as usize, l.to.0 as usize);
            // Several between two nodes have consecutive numbers, or nearly.
            match rates.iter_mut().rev().take(2).find(|r| (r.0, r.1) == (from, to)) {
                Some(same) => same.2 += l.rate.bandwidth,
                None => rates.push((from, to, l.rate.bandwidth)),
            }
        }
        // What nothing limits carries what all the others carry together.
        let limited: f64 = rates.iter().map(|r| r.2).filter(|r| r.is_finite()).sum();
        rates.iter_mut().filter(|r| r.2 == f64::INFINITY).for_each(|r| r.2 = limited.max(1.0));
        let whole = rates.iter().all(|r| r.2.fract() == 0.0 && r.2 < 9e15);
        let unit = if whole {
            rates.iter().fold(0u64, |g, r| gcd(g, r.2 as u64)).max(1) as f64
        } else {
            rates.iter().fold(0f64, |m, r| m.max(r.2)) / 2f64.powi(50)
        };
        let arcs = rates.into_iter().map(|(a, b, r)| (a, b, (r / unit).ceil() as i128)).collect();
        Net { nodes: topo.node_count(), arcs, unit }
    }

    /// Every arc the other way round.
    pub fn reversed(&self) -> Net {
        let arcs = self.arcs.iter().map(|&(a, b, c)| (b, a, c)).collect();
        Net { nodes: self.nodes, arcs, unit: self.unit }
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

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
