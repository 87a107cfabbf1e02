//! Matching: pieces meet free edges, event by event.
//!
//! An edge that is free takes a piece that its sender has and its receiver lacks, which is a
//! matching of edges and pieces in the graph that is expanded in time (Won et al., TACOS, MICRO
//! 2024). Which piece is decided by a [`MatchRule`]; TACOS takes any.
//!
//! * *Farthest first.* A piece that has the longest way to go behind the receiver goes first, as in
//!   schedules of critical paths. Of those that have equally far to go, the one with the fewest
//!   copies is taken, so that neighbours have something for one another.
//! * *Rarest first.* The number of copies decides, and then the distance.
//! * *Waiting for a faster edge.* An edge leaves out a piece that a faster one will have brought to
//!   the receiver, counted with all that waits for the faster edge. Between boxes each piece then
//!   crosses the slow links once, and the fast ones inside spread it.
//!
//! A piece reaches each member once, so its moves are a tree. A switch neither copies nor holds: a
//! message passes it with its head, on edges that are free when the head arrives
//! ([`crate::fabric`]).

use crate::fabric::{Fabric, PieceSets};
use crate::match_network::{MatchNetwork, NEVER};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Pieces that an edge leaves out in one look for a faster edge to bring them.
const LEFT_OUT: usize = 16;

/// Members up to which copies are counted exactly. With more, powers of two are told apart:
/// exact numbers would order what waits anew with every copy.
const FINE_COPIES: usize = 64;

/// What decides which piece an edge takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MatchChoice {
    /// The distance behind the receiver, then the number of copies.
    Farthest,
    /// The number of copies, then the distance behind the receiver.
    Rarest,
    /// Nothing but the seed.
    Any,
}

/// A rule of choice, and what breaks its ties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MatchRule {
    pub choice: MatchChoice,
    /// An edge waits for a faster one that brings the piece in this part of its own time, in
    /// quarters.
    pub patience: u64,
    pub seed: u64,
}

/// A piece that moves to a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matched {
    pub piece: u32,
    pub from: u32,
    pub to: u32,
    /// Where its switches begin among those of all moves, and their number.
    pub through: (u32, u32),
    /// When the first edge takes it, and when it has arrived.
    pub sent: u64,
    pub arrived: u64,
}

/// The moves of all pieces, in the order in which they are sent.
#[derive(Default)]
pub(crate) struct Moves {
    pub list: Vec<Matched>,
    /// The switches of all moves.
    switches: Vec<usize>,
}

impl Moves {
    /// Returns the nodes between the ends of a move.
    pub fn through(&self, moved: &Matched) -> &[usize] {
        let first = moved.through.0 as usize;
        &self.switches[first..first + moved.through.1 as usize]
    }
}

/// The pieces of a collective: where each begins, and its distances.
pub(crate) struct Pieces {
    /// The member where each piece begins, in ascending order.
    pub roots: Vec<usize>,
    /// Number of the distances of each piece.
    pub reach: Vec<usize>,
    /// For each root and node, how near the end of the longest way is that goes on behind the node:
    /// 0 for the longest of all.
    pub near: Vec<Vec<u32>>,
}

/// What happens at a moment. Arrivals come before edges look for pieces.
#[derive(Default)]
struct Moment {
    /// Pieces and the members that they reach.
    arrivals: Vec<(u32, u32)>,
    /// Edges.
    looks: Vec<u32>,
}

/// A run of the matching.
pub(crate) struct Matcher<'a> {
    net: &'a MatchNetwork,
    pieces: &'a Pieces,
    rule: MatchRule,
    sets: PieceSets,
    /// When each piece arrives at each node, if edges differ: place piece * nodes + node.
    arrival: Vec<u64>,
    /// Copies of each piece, including those on their way.
    copies: Vec<u32>,
    /// When each edge is free.
    free: Vec<u64>,
    /// When each edge looks for a piece, or [`NEVER`].
    due: Vec<u64>,
    /// What the edges between members may take; the least goes first.
    offers: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    /// Number of these offers that the receiver lacks, if edges differ.
    waiting: Vec<u32>,
    fabric: Fabric,
    events: BTreeMap<u64, Moment>,
    left: usize,
    moves: Moves,
}

impl<'a> Matcher<'a> {
    pub fn new(net: &'a MatchNetwork, pieces: &'a Pieces, rule: MatchRule) -> Matcher<'a> {
        let (nodes, edges, count) = (net.nodes(), net.edges.len(), pieces.roots.len());
        let left = count * (net.members.len() - 1);
        Matcher {
            net,
            pieces,
            rule,
            sets: PieceSets::new(nodes, count),
            arrival: vec![NEVER; if net.uneven { nodes * count } else { 0 }],
            copies: vec![1; count],
            free: vec![0; edges],
            due: vec![NEVER; edges],
            offers: vec![BinaryHeap::new(); edges],
            waiting: vec![0; edges],
            fabric: Fabric::new(net),
            events: BTreeMap::new(),
            left,
            moves: Moves { list: Vec::with_capacity(left), switches: vec![] },
        }
    }

    /// Returns the moves, and when the last has arrived; or `None` if that is not before `limit`.
    pub fn run(mut self, limit: u64) -> Option<(Moves, u64)> {
        for (piece, &root) in self.pieces.roots.iter().enumerate() {
            self.claim(piece, root, 0);
        }
        let mut end = 0;
        while let Some((now, mut moment)) = self.events.pop_first() {
            for &(piece, at) in &moment.arrivals {
                end = now;
                self.arrived(piece as usize, at as usize, now);
            }
            // Edges that look because of these arrivals.
            if let Some(mut more) = self.events.remove(&now) {
                moment.looks.append(&mut more.looks);
            }
            moment.looks.sort_unstable();
            for &edge in &moment.looks {
                self.look(edge as usize, now, limit)?;
            }
        }
        (self.left == 0).then_some((self.moves, end))
    }

    /// Notes that a piece is on its way to a member, where it arrives at a time.
    fn claim(&mut self, piece: usize, to: usize, arrives: u64) {
        self.sets.claim(to, piece);
        if self.net.uneven {
            self.arrival[piece * self.net.nodes() + to] = arrives;
        }
        self.events.entry(arrives).or_default().arrivals.push((piece as u32, to as u32));
    }

    fn arrived(&mut self, piece: usize, at: usize, now: u64) {
        self.sets.hold(at, piece);
        for e in self.net.leaving(at) {
            let to = self.net.edges[e].to;
            if self.net.member[to] {
                if self.sets.claimed(to, piece) {
                    continue;
                }
                let priority = self.priority(piece, to);
                self.offers[e].push(Reverse((priority, piece as u32)));
                self.waiting[e] += 1;
            }
            self.look_at(e, now.max(self.free[e]));
        }
    }

    /// Lets an edge look for a piece at a time, unless it does so earlier.
    fn look_at(&mut self, edge: usize, time: u64) {
        if time < self.due[edge] {
            self.due[edge] = time;
            self.events.entry(time).or_default().looks.push(edge as u32);
        }
    }

    /// Returns the number of copies of a piece as far as they are told apart, in 15 bits.
    fn level(&self, piece: usize) -> u64 {
        let copies = self.copies[piece];
        match self.net.members.len() <= FINE_COPIES {
            true => u64::from(copies),
            false => u64::from(u32::BITS - copies.leading_zeros()),
        }
    }

    /// Returns the priority of a piece for a receiver; the least goes first.
    fn priority(&self, piece: usize, to: usize) -> u64 {
        let near = u64::from(self.pieces.near[self.pieces.reach[piece]][to]);
        let tie = mixed(self.rule.seed, (piece as u64) << 32 | to as u64);
        match self.rule.choice {
            MatchChoice::Farthest => near << 32 | self.level(piece) << 16 | tie >> 48,
            MatchChoice::Rarest => self.level(piece) << 48 | near << 16 | tie >> 48,
            MatchChoice::Any => tie,
        }
    }

    /// Returns a priority with the present number of copies.
    fn renewed(&self, priority: u64, piece: usize) -> u64 {
        let shift = match self.rule.choice {
            MatchChoice::Farthest => 16,
            MatchChoice::Rarest => 48,
            MatchChoice::Any => return priority,
        };
        priority & !(0xffff << shift) | self.level(piece) << shift
    }

    /// Lets a free edge take a piece. Returns `None` if the piece arrives at the limit or later.
    fn look(&mut self, edge: usize, now: u64, limit: u64) -> Option<()> {
        if self.due[edge] != now {
            return Some(());
        }
        self.due[edge] = NEVER;
        if self.left == 0 {
            return Some(());
        }
        let direct = self.net.member[self.net.edges[edge].to];
        let (taken, again) = if direct { self.direct(edge, now) } else { self.through(edge, now) };
        match taken {
            Some((piece, path)) => {
                self.send(piece, &path, now, limit)?;
                self.look_at(edge, self.free[edge].max(now));
            }
            None if again != NEVER => self.look_at(edge, again.max(now + 1)),
            None => {}
        }
        Some(())
    }

    /// Returns what an edge between members takes, or when it may take what it leaves out now.
    fn direct(&mut self, edge: usize, now: u64) -> (Option<(usize, Vec<usize>)>, u64) {
        let e = self.net.edges[edge];
        let (mut taken, mut again, mut left_out) = (None, NEVER, vec![]);
        while let Some(Reverse((known, piece))) = self.offers[edge].pop() {
            if self.sets.claimed(e.to, piece as usize) {
                continue;
            }
            let priority = self.renewed(known, piece as usize);
            if priority > known {
                self.offers[edge].push(Reverse((priority, piece)));
                continue;
            }
            match self.sooner(piece as usize, e.to, now, e.alone()) {
                Some(time) => {
                    again = again.min(time);
                    left_out.push(Reverse((priority, piece)));
                    if left_out.len() == LEFT_OUT {
                        break;
                    }
                }
                None => {
                    taken = Some((piece as usize, vec![edge]));
                    break;
                }
            }
        }
        self.offers[edge].extend(left_out);
        (taken, again)
    }

    /// Returns what an edge into a switch takes and where it goes, or when another path is free.
    fn through(&mut self, edge: usize, now: u64) -> (Option<(usize, Vec<usize>)>, u64) {
        let from = self.net.edges[edge].from;
        let own = self.pieces.roots.partition_point(|&r| r < from);
        let mut again = self.fabric.search(self.net, &self.sets, &self.free, (edge, now));
        let mut best: Option<(u64, usize, usize)> = None;
        for (i, end) in self.fabric.found.iter().enumerate() {
            for piece in self.sets.lacking(from, end.to, own) {
                let priority = self.priority(piece, end.to);
                if best.is_none_or(|b| priority < b.0) {
                    match self.sooner(piece, end.to, now, end.alone) {
                        Some(time) => again = again.min(time),
                        None => best = Some((priority, piece, i)),
                    }
                }
            }
        }
        let Some((_, piece, i)) = best else { return (None, again) };
        (Some((piece, self.fabric.taken(self.net, edge, i))), again)
    }

    /// Returns when a piece arrives or has arrived at a member, if edges differ.
    fn when(&self, piece: usize, member: usize) -> u64 {
        self.arrival[piece * self.net.nodes() + member]
    }

    /// Returns when a faster edge brings a piece, if that is worth waiting for.
    fn sooner(&self, piece: usize, to: usize, now: u64, alone: u64) -> Option<u64> {
        if !self.net.uneven || self.rule.patience == 0 {
            return None;
        }
        let limit = now + alone / 4 * self.rule.patience;
        let faster = self.net.inward[to].iter().take_while(|&&e| self.net.edges[e].alone() < alone);
        let mut when = NEVER;
        for &e in faster {
            let other = self.net.edges[e];
            let there = self.when(piece, other.from);
            if there == NEVER {
                continue;
            }
            let own = u64::from(there <= now);
            let before = u64::from(self.waiting[e]).saturating_sub(own);
            let queue = self.free[e].max(now) + before * other.occupied;
            when = when.min(queue.max(there) + other.alone());
        }
        (when <= limit).then_some(when)
    }

    fn send(&mut self, piece: usize, path: &[usize], now: u64, limit: u64) -> Option<()> {
        let (mut head, mut lag) = (now, 0);
        for &e in path {
            let edge = self.net.edges[e];
            self.free[e] = head + edge.occupied;
            lag = edge.occupied.max(lag);
            head += edge.latency;
        }
        let arrived = head + lag;
        if arrived >= limit {
            return None;
        }
        let from = self.net.edges[*path.first()?].from;
        let to = self.net.edges[*path.last()?].to;
        if self.net.uneven {
            for &e in &self.net.inward[to] {
                if self.when(piece, self.net.edges[e].from) <= now {
                    self.waiting[e] = self.waiting[e].saturating_sub(1);
                }
            }
        }
        self.claim(piece, to, arrived);
        self.copies[piece] += 1;
        self.left -= 1;
        let through = (self.moves.switches.len() as u32, path.len() as u32 - 1);
        self.moves.switches.extend(path[1..].iter().map(|&e| self.net.edges[e].from));
        let (piece, from, to) = (piece as u32, from as u32, to as u32);
        self.moves.list.push(Matched { piece, from, to, through, sent: now, arrived });
        Some(())
    }
}

/// Mixes two numbers (the finaliser of SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
fn mixed(seed: u64, number: u64) -> u64 {
    let mut z = number.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
