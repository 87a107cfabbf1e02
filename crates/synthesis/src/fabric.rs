//! Fabric: what a member reaches through switches at a moment, and which pieces members have for
//! one another.

use crate::match_network::{MatchNetwork, NEVER};
use std::collections::VecDeque;

/// Pieces that are compared for one receiver.
const COMPARED: usize = 16;

/// Receivers that are compared.
const RECEIVERS: usize = 8;

/// The pieces that every node holds, and those that it holds or that are on their way to it.
pub(crate) struct PieceSets {
    words: usize,
    held: Vec<u64>,
    claimed: Vec<u64>,
}

impl PieceSets {
    pub fn new(nodes: usize, pieces: usize) -> PieceSets {
        let words = pieces.div_ceil(64);
        PieceSets { words, held: vec![0; words * nodes], claimed: vec![0; words * nodes] }
    }

    /// Notes that a node holds a piece.
    pub fn hold(&mut self, node: usize, piece: usize) {
        self.held[node * self.words + piece / 64] |= 1 << (piece % 64);
    }

    /// Notes that a piece is on its way to a node, or there.
    pub fn claim(&mut self, node: usize, piece: usize) {
        self.claimed[node * self.words + piece / 64] |= 1 << (piece % 64);
    }

    /// Whether a piece is on its way to a node, or there.
    pub fn claimed(&self, node: usize, piece: usize) -> bool {
        self.claimed[node * self.words + piece / 64] >> (piece % 64) & 1 == 1
    }

    fn rows(&self, from: usize, to: usize) -> (&[u64], &[u64]) {
        let row = |node: usize| node * self.words..(node + 1) * self.words;
        (&self.held[row(from)], &self.claimed[row(to)])
    }

    /// Whether a node has a piece that another lacks.
    fn any_lacking(&self, from: usize, to: usize) -> bool {
        let (held, claimed) = self.rows(from, to);
        held.iter().zip(claimed).any(|(h, c)| h & !c != 0)
    }

    /// Returns some of the pieces that one node has and another lacks, beginning with a piece.
    pub fn lacking(&self, from: usize, to: usize, begin: usize) -> impl Iterator<Item = usize> {
        let (held, claimed) = self.rows(from, to);
        let low = (1u64 << (begin % 64)) - 1;
        let word = move |i: usize| {
            let at = (begin / 64 + i) % self.words;
            // The first word is looked at twice: from the piece on, and at the end before it.
            let part = if i == 0 {
                !low
            } else if i == self.words {
                low
            } else {
                u64::MAX
            };
            (at, held[at] & !claimed[at] & part)
        };
        let bits = |(at, mut open): (usize, u64)| {
            std::iter::from_fn(move || {
                let bit = (open != 0).then(|| open.trailing_zeros() as usize)?;
                open &= open - 1;
                Some(64 * at + bit)
            })
        };
        (0..=self.words).map(word).flat_map(bits).take(COMPARED)
    }
}

/// A member that is reached.
pub(crate) struct FabricEnd {
    pub to: usize,
    /// Time after which a piece that is sent alone has arrived.
    pub alone: u64,
    /// The edge that enters the member, and the place of the switch before it.
    last: usize,
    before: usize,
}

/// A switch that is reached: the edge that enters it, the place of the switch before it, when the
/// head arrives after the start, and the longest time for which an edge is occupied so far.
#[derive(Clone, Copy)]
struct FabricStep {
    edge: usize,
    before: usize,
    head: u64,
    lag: u64,
}

/// Paths through switches.
pub(crate) struct Fabric {
    /// The edge with which each switch begins, counted from its first, so that equal paths take
    /// turns.
    turn: Vec<usize>,
    /// The receiver of the last message of each edge.
    served: Vec<usize>,
    seen: Vec<u64>,
    search: u64,
    steps: Vec<FabricStep>,
    open: VecDeque<usize>,
    /// The members that the last search reached.
    pub found: Vec<FabricEnd>,
}

impl Fabric {
    pub fn new(net: &MatchNetwork) -> Fabric {
        Fabric {
            turn: vec![0; net.nodes()],
            served: net.edges.iter().map(|e| e.from).collect(),
            seen: vec![0; net.nodes()],
            search: 0,
            steps: vec![],
            open: VecDeque::new(),
            found: vec![],
        }
    }

    /// Finds members that lack something, which a message reaches now over free edges if it begins
    /// with an edge into a switch; fewest edges first, and at the first switch those after the last
    /// receiver. Returns when another edge is free.
    pub fn search(
        &mut self,
        net: &MatchNetwork,
        sets: &PieceSets,
        free: &[u64],
        (edge, now): (usize, u64),
    ) -> u64 {
        self.search += 1;
        self.steps.clear();
        self.open.clear();
        self.found.clear();
        let begin = net.edges[edge];
        self.seen[begin.from] = self.search;
        self.seen[begin.to] = self.search;
        let after = net.leaving(begin.to);
        self.turn[begin.to] = net.edges[after].partition_point(|next| next.to <= self.served[edge]);
        let (head, lag) = (begin.latency, begin.occupied);
        self.steps.push(FabricStep { edge, before: NOWHERE, head, lag });
        self.open.push_back(0);
        let mut again = NEVER;
        while let Some(at) = self.open.pop_front() {
            let step = self.steps[at];
            let node = net.edges[step.edge].to;
            let leaving = net.leaving(node);
            let first = leaving.start + self.turn[node] % leaving.len().max(1);
            for e in (first..leaving.end).chain(leaving.start..first) {
                let next = net.edges[e];
                if self.seen[next.to] == self.search {
                    continue;
                }
                let member = net.member[next.to];
                if member && !sets.any_lacking(begin.from, next.to) {
                    continue;
                }
                if free[e] > now + step.head {
                    again = again.min(free[e] - step.head);
                    continue;
                }
                self.seen[next.to] = self.search;
                let (head, lag) = (step.head + next.latency, step.lag.max(next.occupied));
                if member {
                    self.found.push(FabricEnd { to: next.to, alone: head + lag, last: e, before: at });
                    if self.found.len() == RECEIVERS {
                        return again;
                    }
                } else {
                    self.steps.push(FabricStep { edge: e, before: at, head, lag });
                    self.open.push_back(self.steps.len() - 1);
                }
            }
        }
        again
    }

    /// Returns the edges of the path to a member that was found, and notes that it is taken.
    pub fn taken(&mut self, net: &MatchNetwork, edge: usize, found: usize) -> Vec<usize> {
        let end = &self.found[found];
        self.served[edge] = end.to;
        let mut path = vec![end.last];
        let mut at = end.before;
        while let Some(step) = self.steps.get(at) {
            self.turn[net.edges[step.edge].to] += 1;
            path.push(step.edge);
            at = step.before;
        }
        path.reverse();
        path
    }
}

/// The place before the first switch.
const NOWHERE: usize = usize::MAX;
