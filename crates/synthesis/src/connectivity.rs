//! Rooted connectivity: whether every sink can receive all that the roots send, and if not, which
//! sets of nodes are entered by too little capacity.
//!
//! The condition of Edmonds (1973) for trees that start at several roots: every set of nodes that
//! contains a sink is entered by at least as much capacity as the roots outside the set send. It is
//! a maximum flow from a common source to each sink. The flows are computed one after another,
//! and a sink whose flow is complete becomes a source (as in Hao and Orlin, 1994): a set that is
//! entered by too little is still found at the first of its sinks. Most flows are then short,
//! because a neighbour of the sink is a source already. Each is found by layers
//! (Dinic, 1970) that are searched backward from the sink.

use fixedbitset::FixedBitSet;

/// Capacities and supplies of one check, in trees.
pub(crate) struct Supplied<'a> {
    /// Capacity of each edge, in the order given to [`Connectivity::new`].
    pub capacities: &'a [u128],
    /// What each sink's own node sends, in the order of the sinks.
    pub supplies: &'a [u128],
    /// Nodes of a tree in progress, and its multiplicity: any of the nodes can send it.
    pub growing: Option<(&'a [usize], u128)>,
}

/// A residual network on fixed nodes and edges. Capacities are given with each check.
pub(crate) struct Connectivity {
    nodes: usize,
    /// Sinks, in the order in which they were given.
    sinks: Vec<usize>,
    /// Positions in `sinks`, in the order in which they are searched.
    order: Vec<usize>,
    /// Arcs of node v: `first[v]..first[v + 1]`.
    first: Vec<usize>,
    to: Vec<usize>,
    /// The opposite arc.
    pair: Vec<usize>,
    room: Vec<u128>,
    /// Arc of each edge, then of each supply, then from the tree in progress to each sink, and last
    /// from the source to the tree in progress.
    arc: Vec<usize>,
    edges: usize,
    source: Vec<bool>,
    level: Vec<u32>,
    cursor: Vec<usize>,
    seen: Vec<usize>,
    path: Vec<usize>,
    /// What was added to arcs since the flow was 0.
    pushed: Vec<(usize, u128)>,
    /// Number of checks, and of arcs that were looked at in the last one.
    checks: usize,
    scanned: usize,
    /// Arcs looked at when flows were kept, and when each started anew.
    recent: [usize; 2],
}

/// One in so many checks is made in the way that seemed slower.
const OTHER_WAY: usize = 8;

const UNSEEN: u32 = u32::MAX;

impl Connectivity {
    /// Returns the network. `edges` holds (from, to).
    pub fn new(nodes: usize, edges: &[(usize, usize)], sinks: &[usize]) -> Connectivity {
        let (source, tree) = (nodes, nodes + 1);
        let mut ends: Vec<(usize, usize)> = edges.to_vec();
        ends.extend(sinks.iter().map(|&s| (source, s)));
        ends.extend(sinks.iter().map(|&s| (tree, s)));
        ends.push((source, tree));
        let mut first = vec![0; nodes + 3];
        for &(u, v) in &ends {
            first[u + 1] += 1;
            first[v + 1] += 1;
        }
        for v in 0..nodes + 2 {
            first[v + 1] += first[v];
        }
        let mut next = first.clone();
        let arcs = 2 * ends.len();
        let (mut to, mut pair, mut arc) = (vec![0; arcs], vec![0; arcs], vec![]);
        for &(u, v) in &ends {
            let (a, b) = (next[u], next[v]);
            next[u] += 1;
            next[v] += 1;
            (to[a], to[b], pair[a], pair[b]) = (v, u, b, a);
            arc.push(a);
        }
        let mut new = Connectivity {
            nodes,
            sinks: sinks.to_vec(),
            order: vec![],
            first,
            to,
            pair,
            room: vec![0; arcs],
            arc,
            edges: edges.len(),
            source: vec![false; nodes + 2],
            level: vec![UNSEEN; nodes + 2],
            cursor: vec![0; nodes + 2],
            seen: vec![],
            path: vec![],
            pushed: vec![],
            checks: 0,
            scanned: 0,
            recent: [0; 2],
        };
        new.order = new.search_order();
        new
    }

    /// Orders the sinks by distance from the first one, so that each has a neighbour before it.
    fn search_order(&self) -> Vec<usize> {
        let mut number = vec![usize::MAX; self.nodes];
        self.sinks.iter().enumerate().for_each(|(i, &s)| number[s] = i);
        let mut seen = vec![false; self.nodes];
        let mut order = vec![];
        for &start in &self.sinks {
            let mut queue = vec![];
            if !seen[start] {
                seen[start] = true;
                queue.push(start);
            }
            let mut head = 0;
            while let Some(&u) = queue.get(head) {
                head += 1;
                if number[u] != usize::MAX {
                    order.push(number[u]);
                }
                for &v in &self.to[self.first[u]..self.first[u + 1]] {
                    if v < self.nodes && !seen[v] {
                        seen[v] = true;
                        queue.push(v);
                    }
                }
            }
        }
        order
    }

    /// Returns sets of nodes that are entered by too little capacity: at most `most`, at least one
    /// if there is any. Each contains a sink.
    pub fn violated(&mut self, given: &Supplied, most: usize) -> Vec<FixedBitSet> {
        self.fill(given);
        let anew = self.starts_anew();
        let (sent, growing) = (given.supplies.iter().sum::<u128>(), given.growing.map_or(0, |g| g.1));
        let need = sent + growing;
        let mut found: Vec<FixedBitSet> = vec![];
        for i in 0..self.order.len() {
            let sink = self.sinks[self.order[i]];
            if self.run(sink, need) < need {
                let set = self.searched();
                if !found.contains(&set) {
                    found.push(set);
                }
                if found.len() >= most {
                    break;
                }
            }
            self.source[sink] = true;
            if anew {
                self.undo();
            }
        }
        self.recent[usize::from(anew)] = self.scanned;
        found
    }

    /// Returns the set that limits the flow from the supplies and from one node, which may send any
    /// amount, to a sink, unless the flow is `need`.
    pub fn limit(&mut self, given: &Supplied, from: usize, sink: usize, need: u128) -> Option<FixedBitSet> {
        self.fill(given);
        self.source[from] = true;
        (self.run(sink, need) < need).then(|| self.searched())
    }

    /// Whether the flow to each sink starts from nothing. Neighbours that are sources can then send
    /// all they have. Otherwise the flows so far stay, and parts of them are led to the next sink,
    /// which is faster where sources are far away. The way that scanned fewer arcs of late is
    /// taken, and sometimes the other one, to see whether that has changed.
    fn starts_anew(&mut self) -> bool {
        (self.checks, self.scanned) = (self.checks + 1, 0);
        let better = self.recent[1] <= self.recent[0];
        if self.checks.is_multiple_of(OTHER_WAY) { !better } else { better }
    }

    /// Removes the flow.
    fn undo(&mut self) {
        while let Some((a, width)) = self.pushed.pop() {
            self.room[a] += width;
            self.room[self.pair[a]] -= width;
        }
    }

    /// Returns the nodes that the last search reached.
    fn searched(&self) -> FixedBitSet {
        let mut set = FixedBitSet::with_capacity(self.nodes);
        self.seen.iter().filter(|&&v| v < self.nodes).for_each(|&v| set.insert(v));
        set
    }

    fn fill(&mut self, given: &Supplied) {
        self.room.fill(0);
        self.pushed.clear();
        for (i, &capacity) in given.capacities.iter().chain(given.supplies).enumerate() {
            self.room[self.arc[i]] = capacity;
        }
        if let Some((nodes, trees)) = given.growing {
            let last = self.arc.len() - 1;
            self.room[self.arc[last]] = trees;
            let from = self.edges + self.sinks.len();
            let inside: FixedBitSet = nodes.iter().copied().collect();
            for (i, &s) in self.sinks.iter().enumerate() {
                // More than the tree in progress sends never flows here.
                self.room[self.arc[from + i]] = if inside.contains(s) { trees } else { 0 };
            }
        }
        self.source.fill(false);
        self.source[self.nodes] = true;
    }

    /// Adds flow into a sink until it is `need` or no more can be added, and returns it. In the
    /// second case `seen` holds all nodes from which the sink can still be reached.
    fn run(&mut self, sink: usize, need: u128) -> u128 {
        let mut flow = 0;
        while flow < need && self.layer(sink) {
            flow += self.block(sink, need - flow);
        }
        flow
    }

    /// Numbers nodes by their distance to the sink, up to the nearest source.
    fn layer(&mut self, sink: usize) -> bool {
        for &v in &self.seen {
            self.level[v] = UNSEEN;
        }
        self.seen.clear();
        self.level[sink] = 0;
        self.cursor[sink] = self.first[sink];
        self.seen.push(sink);
        let (mut head, mut last) = (0, UNSEEN);
        while let Some(&v) = self.seen.get(head) {
            head += 1;
            if self.level[v] >= last {
                break;
            }
            self.scanned += self.first[v + 1] - self.first[v];
            for a in self.first[v]..self.first[v + 1] {
                let u = self.to[a];
                if self.level[u] == UNSEEN && self.room[self.pair[a]] > 0 {
                    self.level[u] = self.level[v] + 1;
                    self.cursor[u] = self.first[u];
                    self.seen.push(u);
                    if self.source[u] {
                        last = self.level[u];
                    }
                }
            }
        }
        last != UNSEEN
    }

    /// Adds a blocking flow of at most `most` from the sources of the last layer.
    fn block(&mut self, sink: usize, most: u128) -> u128 {
        let mut total = 0;
        self.path.clear();
        let mut v = sink;
        loop {
            if self.source[v] {
                let width = self.path.iter().map(|&a| self.room[a]).min().unwrap_or(0).min(most - total);
                total += width;
                let mut keep = self.path.len();
                for i in (0..self.path.len()).rev() {
                    let a = self.path[i];
                    self.room[a] -= width;
                    self.room[self.pair[a]] += width;
                    self.pushed.push((a, width));
                    if self.room[a] == 0 {
                        keep = i;
                    }
                }
                if total == most {
                    return total;
                }
                // Continues from the node before the first arc that is full.
                v = self.to[self.path[keep]];
                self.path.truncate(keep);
            }
            let end = self.first[v + 1];
            let mut at = self.cursor[v];
            while at < end {
                let (u, a) = (self.to[at], self.pair[at]);
                if self.room[a] > 0 && self.level[u] == self.level[v] + 1 {
                    break;
                }
                at += 1;
            }
            self.scanned += at - self.cursor[v] + 1;
            self.cursor[v] = at;
            if at < end {
                // The arc leads from the node found to the node that searched.
                self.path.push(self.pair[at]);
                v = self.to[at];
            } else {
                let Some(a) = self.path.pop() else { return total };
                v = self.to[a];
                self.cursor[v] += 1;
            }
        }
    }
}
