//! The network as matching sees it: whole numbers of time, who is a member, and for every root how
//! far its data still has to go behind each node.

use crate::error::SynthesisError;
use crate::moves::EdgeTiming;
use crate::network::Network;
use crate::paths::{EdgeTable, ShortestPaths, UNREACHED};

/// Time of what has not happened.
pub(crate) const NEVER: u64 = u64::MAX;

/// Units of time in the longest time of an edge: times are compared exactly, and sums of the
/// largest number of messages stay below 2^63.
const STEPS: f64 = (1u64 << 36) as f64;

/// An edge in whole units of time.
#[derive(Clone, Copy)]
pub(crate) struct MatchEdge {
    pub from: usize,
    pub to: usize,
    /// Time of the head of a piece.
    pub latency: u64,
    /// For how long a piece occupies the edge.
    pub occupied: u64,
}

impl MatchEdge {
    /// Returns the time after which a piece that is sent alone has arrived.
    pub fn alone(&self) -> u64 {
        self.latency + self.occupied
    }
}

/// A network for pieces of one length.
pub(crate) struct MatchNetwork {
    /// Edges ordered by sender and receiver.
    pub edges: Vec<MatchEdge>,
    /// The first edge that leaves each node; one entry more than nodes.
    pub first: Vec<usize>,
    /// Whether each node is a member.
    pub member: Vec<bool>,
    /// The members in ascending order.
    pub members: Vec<usize>,
    /// For each member, the edges that enter it from members, the fastest first.
    pub inward: Vec<Vec<usize>>,
    /// Whether some member is entered from members by edges of different speed, or through
    /// switches.
    pub uneven: bool,
    /// Nanoseconds of a unit of time.
    pub unit: f64,
    /// Length of each edge. A message passes switches with its head, and is complete when it
    /// reaches a member. A length of 0 would leave the order of nodes open.
    lengths: Vec<u64>,
    table: EdgeTable,
}

impl MatchNetwork {
    /// Returns the network for pieces of `bytes` bytes. If `backwards`, all edges are turned
    /// around.
    pub fn new(network: &Network, edges: &[EdgeTiming], bytes: f64, backwards: bool) -> MatchNetwork {
        let longest = edges.iter().map(|e| e.latency_ns.max(bytes * e.ns_per_byte)).fold(0.0, f64::max);
        let unit = if longest > 0.0 { longest / STEPS } else { 1.0 };
        let whole = |ns: f64| (ns / unit).round() as u64;
        let mut list: Vec<MatchEdge> = edges
            .iter()
            .map(|e| {
                let (from, to) = if backwards { (e.to, e.from) } else { (e.from, e.to) };
                let (latency, occupied) = (whole(e.latency_ns), whole(bytes * e.ns_per_byte));
                MatchEdge { from, to, latency, occupied }
            })
            .collect();
        list.sort_by_key(|e| (e.from, e.to));
        let nodes = network.nodes();
        let mut member = vec![false; nodes];
        network.members().iter().for_each(|&m| member[m] = true);
        let mut inward = vec![vec![]; nodes];
        for (i, e) in list.iter().enumerate().filter(|(_, e)| member[e.from] && member[e.to]) {
            inward[e.to].push(i);
        }
        inward.iter_mut().for_each(|edges| edges.sort_by_key(|&i| list[i].alone()));
        let speeds = |edges: &Vec<usize>| {
            let all = edges.iter().map(|&i| list[i].alone());
            all.clone().min() != all.max()
        };
        let uneven = inward.iter().any(speeds) || member.iter().any(|m| !m);
        let first = (0..=nodes).map(|v| list.partition_point(|e| e.from < v)).collect();
        let length = |e: &MatchEdge| if member[e.to] { e.alone() } else { e.latency }.max(1);
        let lengths = list.iter().map(length).collect();
        let table = EdgeTable::new(nodes, list.iter().map(|e| (e.from, e.to)));
        MatchNetwork {
            edges: list,
            first,
            member,
            members: network.members().to_vec(),
            inward,
            uneven,
            unit,
            lengths,
            table,
        }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.member.len()
    }

    /// Returns the edges that leave a node.
    pub fn leaving(&self, node: usize) -> std::ops::Range<usize> {
        self.first[node]..self.first[node + 1]
    }

    /// Checks whether two networks have the same edges with the same times.
    pub fn alike(&self, other: &MatchNetwork) -> bool {
        let times = |e: &MatchEdge| (e.from, e.to, e.latency, e.occupied);
        self.edges.iter().map(times).eq(other.edges.iter().map(times))
    }

    /// Returns how far each node's data is from others that lack it, for data of a root.
    ///
    /// # Errors
    /// [`SynthesisError::Unreachable`] if a member is not reached.
    pub fn reach(&self, root: usize) -> Result<RootReach, SynthesisError> {
        let mut paths = ShortestPaths::default();
        paths.search(&self.table, &self.lengths, root);
        let distance = paths.distance;
        if let Some(&to) = self.members.iter().find(|&&m| distance[m] == UNREACHED) {
            return Err(SynthesisError::Unreachable { from: root, to });
        }
        let mut order: Vec<usize> = (0..self.nodes()).filter(|&v| distance[v] != UNREACHED).collect();
        order.sort_by_key(|&v| std::cmp::Reverse(distance[v]));
        let mut tail = vec![0u64; self.nodes()];
        for v in order {
            let behind = self.leaving(v).filter(|&e| {
                let to = self.edges[e].to;
                distance[v] + self.lengths[e] == distance[to] && (self.member[to] || tail[to] > 0)
            });
            tail[v] = behind.map(|e| self.lengths[e] + tail[self.edges[e].to]).max().unwrap_or(0);
        }
        let far = self.members.iter().map(|&m| distance[m]).max().unwrap_or(0);
        Ok(RootReach { tail, far })
    }
}

/// Distances of the data of a root.
pub(crate) struct RootReach {
    /// For each node, the length of the longest of the shortest paths from the root that go on
    /// behind it.
    pub tail: Vec<u64>,
    /// Distance of the farthest member.
    pub far: u64,
}
