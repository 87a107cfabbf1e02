//! Matched trees: trees of low latency, by greedy matching of pieces and edges in time.
//!
//! Packed trees reach the best rate, and some of them are deep. A matching moves each piece along
//! edges that are free when it is there, so its trees are near the shortest ones, and it needs
//! neither a rate nor balanced switches. The time of all moves is known, and is no proof that there
//! is nothing faster.

use crate::certificate::TreeDirection;
use crate::collective::TreeCollective;
use crate::error::SynthesisError;
use crate::match_network::{MatchNetwork, RootReach};
use crate::matching::{MatchChoice, MatchRule, Matched, Matcher, Moves, Pieces};
use crate::moves::{EdgeTiming, fits, possible};
use crate::network::Network;
use std::collections::BTreeMap;

/// Moves of all rules that are tried; the first is tried in any case.
const TRIED_MOVES: usize = 1 << 16;
/// Most rules that are tried.
const TRIED_RULES: u64 = 16;

/// A message from member to member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatchedEdge {
    /// Member that sends.
    pub from: usize,
    /// Member that receives.
    pub to: usize,
    /// The switches between them, in order.
    pub through: Vec<usize>,
}

impl MatchedEdge {
    /// Returns all nodes of the route.
    pub fn nodes(&self) -> Vec<usize> {
        let mut nodes = vec![self.from];
        nodes.extend(&self.through);
        nodes.push(self.to);
        nodes
    }
}

/// A tree that carries a piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatchedTree {
    /// The root.
    pub root: usize,
    /// The edges of the tree: one for each member except the root. An edge comes after the edge of
    /// its end that is nearer to the root.
    pub edges: Vec<MatchedEdge>,
}

impl MatchedTree {
    /// Returns the length of the longest path to or from the root, in edges of the tree.
    pub fn depth(&self) -> usize {
        let mut depths = BTreeMap::from([(self.root, 0usize)]);
        for e in &self.edges {
            // One of the ends has been seen: the one that is nearer to the root.
            let (near, far) = if depths.contains_key(&e.from) { (e.from, e.to) } else { (e.to, e.from) };
            let depth = depths.get(&near).map_or(0, |d| d + 1);
            depths.insert(far, depth);
        }
        depths.into_values().max().unwrap_or(0)
    }
}

/// A message of a matching, with its times if every edge carries its messages in the order of the
/// matching.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MatchedPassage {
    /// Number of the tree.
    pub tree: usize,
    /// Number of the edge of the tree.
    pub edge: usize,
    /// When the first edge of the route takes the message, in nanoseconds.
    pub sent_ns: f64,
    /// When it has arrived, in nanoseconds.
    pub arrived_ns: f64,
}

/// Trees that carry a collective, and when their messages are sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Matching {
    /// Trees of each root; of an all-reduce, all trees.
    pub trees: u64,
    /// Trees to the roots: those of a reduce-scatter, a reduce, and the first half of an
    /// all-reduce.
    pub up: Vec<MatchedTree>,
    /// Trees from the roots: those of an all-gather, a broadcast, and the second half of an
    /// all-reduce, tree by tree those of the first half.
    pub down: Vec<MatchedTree>,
    /// The messages in the order in which they are sent. An all-reduce has none: its halves overlap
    /// in an order that is found later.
    pub passages: Vec<MatchedPassage>,
    /// When the last message has arrived, in nanoseconds; for an all-reduce the sum of its halves.
    pub ns: f64,
}

impl Matching {
    /// Returns the time for which the busiest edge is occupied, in nanoseconds, if each root has
    /// `bytes` bytes. No order of the messages is faster.
    pub fn busiest_ns(&self, bytes: f64, edges: &[EdgeTiming]) -> f64 {
        let mut pieces: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for edge in self.up.iter().chain(&self.down).flat_map(|t| &t.edges) {
            let nodes = edge.nodes();
            nodes.windows(2).for_each(|w| *pieces.entry((w[0], w[1])).or_insert(0) += 1);
        }
        let time = |e: &EdgeTiming| {
            let pieces = pieces.get(&(e.from, e.to)).copied().unwrap_or(0);
            pieces as f64 * e.ns_per_byte * bytes / self.trees as f64
        };
        edges.iter().map(time).fold(0.0, f64::max)
    }
}

/// Where the trees of an all-reduce have their roots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MatchedRoots {
    /// At the members from which the farthest one is nearest.
    Central,
    /// At all members.
    All,
}

/// Returns trees of a collective, `trees` for each root. Each root has `bytes` bytes. `edges` has
/// the times of every edge of the network once.
///
/// Several rules of choice are tried, as many as a fixed number of moves allows.
///
/// # Errors
/// [`SynthesisError::Unreachable`] if the members that must be reached are not;
/// [`SynthesisError::NotAMember`] and [`SynthesisError::NodeOutOfRange`] for the root;
/// [`SynthesisError::ZeroTrees`]; [`SynthesisError::Overflow`] if there are more than 2^22
/// messages; [`SynthesisError::NotATime`]; [`SynthesisError::Inconsistent`] for an edge without
/// times.
pub fn match_trees(
    network: &Network,
    edges: &[EdgeTiming],
    collective: TreeCollective,
    trees: u64,
    bytes: f64,
) -> Result<Matching, SynthesisError> {
    Ok(match_moves(network, edges, collective, trees, bytes)?.matching())
}

/// The moves of a collective, as trees of that collective or of the one that leads back.
pub struct MatchedMoves {
    net: MatchNetwork,
    half: Half,
    trees: u64,
    /// Whether data moves to the roots.
    backwards: bool,
    /// Whether all links are alike both ways.
    both_ways: bool,
}

/// Returns the moves of what [`match_trees`] returns.
///
/// # Errors
/// Those of [`match_trees`].
pub fn match_moves(
    network: &Network,
    edges: &[EdgeTiming],
    collective: TreeCollective,
    trees: u64,
    bytes: f64,
) -> Result<MatchedMoves, SynthesisError> {
    let roots: Vec<usize> = match collective {
        TreeCollective::AllGather | TreeCollective::ReduceScatter => network.members().to_vec(),
        TreeCollective::Broadcast { root } | TreeCollective::Reduce { root } => {
            collective.weights(network)?;
            vec![root]
        }
    };
    sound(network, edges, bytes)?;
    let per_tree = network.members().len() as u128 - 1;
    matchable(roots.len() as u128, per_tree, trees)?;
    let backwards = collective.direction() == TreeDirection::ToRoot;
    let [net, other] =
        [backwards, !backwards].map(|back| MatchNetwork::new(network, edges, bytes / trees as f64, back));
    let roots = roots.into_iter().flat_map(|r| (0..trees).map(move |_| r)).collect();
    let half = Half::new(&net, roots)?;
    Ok(MatchedMoves { both_ways: net.alike(&other), net, half, trees, backwards })
}

impl MatchedMoves {
    /// Returns the trees.
    pub fn matching(&self) -> Matching {
        self.towards(self.backwards)
    }

    /// Returns what [`match_trees`] returns for the collective that leads back: an all-gather for a
    /// reduce-scatter. None if the links are not alike both ways, where other moves are faster.
    pub fn reversed(&self) -> Option<Matching> {
        self.both_ways.then(|| self.towards(!self.backwards))
    }

    fn towards(&self, backwards: bool) -> Matching {
        let (trees, passages) = (self.half.trees(backwards), self.half.passages(&self.net, backwards));
        let (up, down) = if backwards { (trees, vec![]) } else { (vec![], trees) };
        Matching { trees: self.trees, up, down, passages, ns: self.half.end as f64 * self.net.unit }
    }
}

/// Returns trees of an all-reduce of `bytes` bytes: each piece is reduced up its tree and broadcast
/// down again.
///
/// # Errors
/// As [`match_trees`].
pub fn match_all_reduce(
    network: &Network,
    edges: &[EdgeTiming],
    at: MatchedRoots,
    trees: u64,
    bytes: f64,
) -> Result<Matching, SynthesisError> {
    sound(network, edges, bytes)?;
    let per_tree = 2 * (network.members().len() as u128 - 1);
    matchable(1, per_tree, trees)?;
    let nets = [false, true].map(|back| MatchNetwork::new(network, edges, bytes / trees as f64, back));
    let roots = spread_roots(&nets, at, trees as usize)?;
    let down = Half::new(&nets[0], roots.clone())?;
    // On links that are alike both ways the same trees lead back.
    let up = match nets[1].alike(&nets[0]) {
        true => None,
        false => Some(Half::new(&nets[1], roots)?),
    };
    let first = up.as_ref().unwrap_or(&down);
    let ns = down.end as f64 * nets[0].unit + first.end as f64 * nets[1].unit;
    Ok(Matching { trees, up: first.trees(true), down: down.trees(false), passages: vec![], ns })
}

/// Returns a root for each tree of an all-reduce, in ascending order.
fn spread_roots(
    nets: &[MatchNetwork; 2],
    at: MatchedRoots,
    trees: usize,
) -> Result<Vec<usize>, SynthesisError> {
    let members = &nets[0].members;
    let mut able = members.clone();
    if at == MatchedRoots::Central {
        let mut far = vec![];
        for &m in members {
            far.push(nets[0].reach(m)?.far + nets[1].reach(m)?.far);
        }
        let least = far.iter().copied().min().unwrap_or(0);
        able = (0..members.len()).filter(|&i| far[i] == least).map(|i| members[i]).collect();
    }
    // Few trees begin far from one another.
    Ok((0..trees).map(|i| able[i * able.len() / trees]).collect())
}

/// The moves of one direction.
struct Half {
    roots: Vec<usize>,
    moves: Moves,
    end: u64,
}

impl Half {
    /// Returns the fastest moves that are found for pieces that begin at these roots, which are
    /// ordered.
    fn new(net: &MatchNetwork, roots: Vec<usize>) -> Result<Half, SynthesisError> {
        let mut own = roots.clone();
        own.dedup();
        let reach: Vec<RootReach> = own.iter().map(|&r| net.reach(r)).collect::<Result<_, _>>()?;
        let number = |r: &usize| own.partition_point(|o| o < r);
        // Distances in 32 bits.
        let longest = reach.iter().flat_map(|r| &r.tail).copied().max().unwrap_or(0);
        let shift = (u64::BITS - longest.leading_zeros()).saturating_sub(u32::BITS);
        let near = |tail: &u64| u32::try_from((longest - tail) >> shift).unwrap_or(u32::MAX);
        let pieces = Pieces {
            reach: roots.iter().map(number).collect(),
            near: reach.iter().map(|r| r.tail.iter().map(near).collect()).collect(),
            roots,
        };
        let moves = pieces.roots.len() * (net.members.len() - 1);
        let most = (TRIED_MOVES / moves.max(1)).max(1);
        let (mut best, mut end) = (None, u64::MAX);
        for rule in rules(net.uneven).take(most) {
            if let Some((moves, now)) = Matcher::new(net, &pieces, rule).run(end) {
                (best, end) = (Some(moves), now);
            }
        }
        let moves = best.ok_or(SynthesisError::Inconsistent { step: "the matching" })?;
        Ok(Half { roots: pieces.roots, moves, end })
    }

    /// Returns the trees. Backwards, data moves to the roots.
    fn trees(&self, backwards: bool) -> Vec<MatchedTree> {
        let count = self.moves.list.len() / self.roots.len();
        let tree = |&root: &usize| MatchedTree { root, edges: Vec::with_capacity(count) };
        let mut trees: Vec<MatchedTree> = self.roots.iter().map(tree).collect();
        for m in &self.moves.list {
            let (mut from, mut to) = (m.from as usize, m.to as usize);
            let mut through = self.moves.through(m).to_vec();
            if backwards {
                (from, to) = (to, from);
                through.reverse();
            }
            trees[m.piece as usize].edges.push(MatchedEdge { from, to, through });
        }
        trees
    }

    /// Returns the messages in the order in which they are sent. Backwards, what arrives last is
    /// sent first.
    fn passages(&self, net: &MatchNetwork, backwards: bool) -> Vec<MatchedPassage> {
        let mut edges = vec![0; self.roots.len()];
        let passage = |m: &Matched| {
            let tree = m.piece as usize;
            let edge = edges[tree];
            edges[tree] += 1;
            let (mut sent, mut arrived) = (m.sent, m.arrived);
            if backwards {
                (sent, arrived) = (self.end - arrived, self.end - sent);
            }
            let ns = |time: u64| time as f64 * net.unit;
            MatchedPassage { tree, edge, sent_ns: ns(sent), arrived_ns: ns(arrived) }
        };
        let mut passages: Vec<MatchedPassage> = self.moves.list.iter().map(passage).collect();
        if backwards {
            passages.reverse();
            passages.sort_by(|a, b| a.sent_ns.total_cmp(&b.sent_ns));
        }
        passages
    }
}

/// Returns the rules in the order in which they are tried.
fn rules(uneven: bool) -> impl Iterator<Item = MatchRule> {
    let choices = [MatchChoice::Farthest, MatchChoice::Rarest, MatchChoice::Any];
    // With equal edges there is no faster one to wait for.
    let patience: &[u64] = if uneven { &[4, 6, 0] } else { &[0] };
    let rule = move |seed| {
        patience.iter().flat_map(move |&patience| choices.map(|choice| MatchRule { choice, patience, seed }))
    };
    (0..TRIED_RULES).flat_map(rule).take(TRIED_RULES as usize)
}

/// Checks that every edge of the network has times, which are some.
fn sound(network: &Network, edges: &[EdgeTiming], bytes: f64) -> Result<(), SynthesisError> {
    possible(bytes, edges)?;
    let mut ends: Vec<(usize, usize)> = edges.iter().map(|e| (e.from, e.to)).collect();
    ends.sort_unstable();
    match network.edges().iter().map(|e| (e.from, e.to)).eq(ends) {
        true => Ok(()),
        false => Err(SynthesisError::Inconsistent { step: "the matching" }),
    }
}

fn matchable(roots: u128, per_tree: u128, trees: u64) -> Result<(), SynthesisError> {
    if trees == 0 {
        return Err(SynthesisError::ZeroTrees);
    }
    fits(roots, per_tree, trees)
}
