//! Rounds: which piece of which tree crosses which edge of the network, and in which order.
//!
//! Messages are ordered by a list schedule, in time ([`crate::dispatch`]) or in rounds
//! ([`crate::lockstep`]), depending on when members wait. Their time is that of members which send
//! them in this order ([`crate::replay`]).

use crate::certificate::{SpanningEdge, SpanningPacking, TreeDirection, TreePacking};
use crate::error::SynthesisError;
use crate::matched::Matching;
use crate::moves::{EdgeTiming, PieceMove, RoundPlan, Waiting, fits, possible};
use crate::orders::{Orders, TreeJobs};
use crate::planner::{Planner, Tried};
use crate::rooting::{RootedTree, given, level};
use std::collections::BTreeMap;

/// Trees whose messages are ordered.
#[derive(Clone, Copy, Debug)]
pub enum CarryingTrees<'a> {
    /// Packed trees. Each root has the bytes that are given.
    Rooted(&'a TreePacking),
    /// Spanning trees of an all-reduce: each piece is reduced up its tree and broadcast down again.
    /// The bytes are those of the vector.
    Spanning(&'a SpanningPacking),
    /// Matched trees. The bytes are those of each root, or of the vector of an all-reduce.
    Matched(&'a Matching),
}

impl<'a> From<&'a TreePacking> for CarryingTrees<'a> {
    fn from(packing: &'a TreePacking) -> Self {
        CarryingTrees::Rooted(packing)
    }
}

impl<'a> From<&'a SpanningPacking> for CarryingTrees<'a> {
    fn from(packing: &'a SpanningPacking) -> Self {
        CarryingTrees::Spanning(packing)
    }
}

impl<'a> From<&'a Matching> for CarryingTrees<'a> {
    fn from(matching: &'a Matching) -> Self {
        CarryingTrees::Matched(matching)
    }
}

/// The number of pieces into which each tree is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PieceNumber {
    /// This number.
    Fixed(u64),
    /// The fastest number among those with at most so many messages.
    FastestUpTo(usize),
    /// The same with `usual` messages, and with more, up to `most`, where these are much faster.
    FastestAbout {
        /// Messages up to which any gain counts.
        usual: usize,
        /// Messages up to which only large gains count.
        most: usize,
    },
}

/// Returns the rounds in which trees carry the data. `edges` has the times of every edge of the
/// network once.
///
/// # Errors
/// [`SynthesisError::Overflow`] if there are more than 2^22 messages, or if one piece of each tree
/// is more messages than the number of pieces allows; [`SynthesisError::ZeroPieces`] and
/// [`SynthesisError::NotATime`]; [`SynthesisError::Inconsistent`] for an edge without times, and
/// for a packing whose parts do not fit together, which is none that this crate returns.
pub fn tree_rounds<'a>(
    trees: impl Into<CarryingTrees<'a>>,
    pieces: PieceNumber,
    bytes: f64,
    edges: &[EdgeTiming],
    waiting: Waiting,
) -> Result<RoundPlan, SynthesisError> {
    possible(bytes, edges)?;
    let cuts = match pieces {
        PieceNumber::Fixed(cuts) => cuts,
        PieceNumber::FastestUpTo(_) | PieceNumber::FastestAbout { .. } => 1,
    };
    let (planner, number) = match trees.into() {
        CarryingTrees::Rooted(packing) => {
            let (orders, number) = tree_orders(packing, cuts, edges)?;
            (Planner::new(vec![orders], bytes / number as f64, waiting), number)
        }
        CarryingTrees::Spanning(packing) => {
            let number = packing.trees as u64;
            (Planner::new(spanning_orders(packing, cuts, edges)?, bytes / number as f64, waiting), number)
        }
        CarryingTrees::Matched(matching) => {
            (matched_planner(matching, cuts, bytes, edges, waiting)?, matching.trees)
        }
    };
    let found = match pieces {
        PieceNumber::Fixed(cuts) => planner.fixed(cuts as usize),
        PieceNumber::FastestUpTo(most) => planner.fastest(most, most),
        PieceNumber::FastestAbout { usual, most } => planner.fastest(usual, most),
    };
    finished(found, number)
}

/// Returns the planner of matched trees, which knows when the matching sends their messages.
fn matched_planner(
    matching: &Matching,
    cuts: u64,
    bytes: f64,
    edges: &[EdgeTiming],
    waiting: Waiting,
) -> Result<Planner, SynthesisError> {
    let halves = [(&matching.up, true), (&matching.down, false)];
    let (up, down) = (matching.up.len(), matching.down.len());
    let reduced = up > 0 && down > 0;
    let first = if up > 0 { &matching.up } else { &matching.down };
    let per_tree = first.first().map_or(0, |c| c.edges.len() as u128) * (1 + u128::from(reduced));
    fits(up.max(down) as u128, per_tree, cuts)?;
    if reduced && up != down {
        return Err(SynthesisError::Inconsistent { step: "the rounds" });
    }
    let members = edges.iter().map(|e| e.from.max(e.to) + 1).max().unwrap_or(0);
    let mut orders = Orders::new(edges);
    // Trees of each root so far.
    let mut trees: BTreeMap<usize, u64> = BTreeMap::new();
    for (tree, class) in first.iter().enumerate() {
        let mut jobs = TreeJobs::new(members);
        let root = class.root;
        // The trees of an all-reduce share one vector.
        let root_name = if reduced { 0 } else { root };
        let number = trees.entry(root_name).or_insert(0);
        for (classes, reduce) in halves {
            let Some(class) = classes.get(tree) else { continue };
            // From the far end on, so that what a node needs has been added before.
            let up = class.edges.iter().rev().filter(|_| reduce);
            for edge in up.chain(class.edges.iter().filter(|_| !reduce)) {
                let (from, to) = (edge.from, edge.to);
                let moved = PieceMove { from, to, root: root_name, piece: *number, reduce, route: 0 };
                let route = match edge.through.is_empty() {
                    true => orders.edge(from, to)?,
                    false => orders.route(&edge.nodes())?,
                };
                jobs.push(moved, route);
            }
            jobs.meet(root);
        }
        *number += 1;
        orders.add(jobs.list);
    }
    let mut planner = Planner::new(vec![orders], bytes / matching.trees as f64, waiting).sparing();
    if !matching.passages.is_empty() {
        let edges = first.first().map_or(0, |c| c.edges.len());
        let job = |p: &crate::matched::MatchedPassage| match up > 0 {
            true => (p.tree + 1) * edges - 1 - p.edge.min(edges - 1),
            false => p.tree * edges + p.edge,
        };
        let passage = |p| (job(p), p.sent_ns, p.arrived_ns);
        planner.know(matching.passages.iter().map(passage))?;
    }
    Ok(planner)
}

/// Returns the plan of an order, where each root has a number of trees.
fn finished(found: Option<(Orders, Tried)>, trees: u64) -> Result<RoundPlan, SynthesisError> {
    let (orders, tried) = found.ok_or(SynthesisError::Overflow { what: "the number of messages" })?;
    let (cuts, places) = (tried.cuts as u64, orders.places());
    let moves = |round: &Vec<usize>| round.iter().map(|&j| orders.message(places[j])).collect();
    Ok(RoundPlan {
        cuts,
        pieces: trees * cuts,
        rounds: tried.rounds.iter().map(moves).collect(),
        routes: orders.nodes(),
        ns: tried.ns,
        least_ns: orders.busiest(),
    })
}

/// Returns the jobs of the trees, and the number of trees of each root.
fn tree_orders(
    packing: &TreePacking,
    cuts: u64,
    edges: &[EdgeTiming],
) -> Result<(Orders, u64), SynthesisError> {
    let towards = packing.direction == TreeDirection::ToRoot;
    let members = edges.iter().map(|e| e.from.max(e.to) + 1).max().unwrap_or(0);
    let mut orders = Orders::new(edges);
    let per_tree = packing.classes.first().map_or(0, |c| c.edges.len() as u128);
    fits(packing.classes.iter().map(|c| c.trees).sum(), per_tree, cuts)?;
    // Trees of each root so far.
    let mut trees: BTreeMap<usize, u64> = BTreeMap::new();
    for class in &packing.classes {
        // Trees of a class differ in the routes of their edges.
        let mut routes: Vec<Vec<(&[usize], u128)>> =
            class.edges.iter().map(|e| e.routes.iter().map(|r| (&r.nodes[..], r.trees)).collect()).collect();
        for _ in 0..class.trees {
            let tree = trees.entry(class.root).or_insert(0);
            let mut jobs = TreeJobs::new(members);
            let mut list: Vec<usize> = (0..class.edges.len()).collect();
            if towards {
                // From the far end on, so that what a node needs has been added before.
                list.reverse();
            }
            for e in list {
                let (edge, shares) = (&class.edges[e], &mut routes[e]);
                let Some(share) = shares.iter_mut().rev().find(|s| s.1 > 0) else {
                    return Err(SynthesisError::Inconsistent { step: "the rounds" });
                };
                share.1 -= 1;
                let route = orders.route(share.0)?;
                let (from, to) = (edge.from, edge.to);
                let moved = PieceMove { from, to, root: class.root, piece: *tree, reduce: towards, route: 0 };
                jobs.push(moved, route);
            }
            *tree += 1;
            orders.add(jobs.list);
        }
    }
    Ok((orders, trees.into_values().max().unwrap_or(0)))
}

/// Returns the jobs of the trees with their roots as they are, and with roots for which both
/// directions of links are used evenly.
fn spanning_orders(
    packing: &SpanningPacking,
    cuts: u64,
    edges: &[EdgeTiming],
) -> Result<Vec<Orders>, SynthesisError> {
    let per_tree = packing.classes.first().map_or(0, |c| 2 * c.edges.len() as u128);
    fits(packing.trees, per_tree, cuts)?;
    let (given, level) = (given(&packing.classes), level(&packing.classes));
    let mut variants = vec![rooted_orders(&given, edges)?];
    if level != given {
        variants.push(rooted_orders(&level, edges)?);
    }
    Ok(variants)
}

fn rooted_orders(trees: &[RootedTree], edges: &[EdgeTiming]) -> Result<Orders, SynthesisError> {
    let mut orders = Orders::new(edges);
    let mut tree = 0;
    for (count, edges) in trees {
        for _ in 0..*count {
            let mut jobs = vec![];
            // Edges from the far end on, so that what a node needs has been added before.
            let mut sums: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for edge in edges.iter().rev() {
                let SpanningEdge { near, far, .. } = *edge;
                let needs = sums.remove(&far).unwrap_or_default();
                let moved = PieceMove { from: far, to: near, root: 0, piece: tree, reduce: true, route: 0 };
                sums.entry(near).or_default().push(jobs.len());
                let mut route = edge.nodes();
                route.reverse();
                jobs.push((moved, orders.route(&route)?, needs));
            }
            let mut into = sums;
            for edge in edges {
                let SpanningEdge { near, far, .. } = *edge;
                let moved = PieceMove { from: near, to: far, root: 0, piece: tree, reduce: false, route: 0 };
                let needs = into.get(&near).cloned().unwrap_or_default();
                into.insert(far, vec![jobs.len()]);
                jobs.push((moved, orders.route(&edge.nodes())?, needs));
            }
            tree += 1;
            orders.add(jobs);
        }
    }
    Ok(orders)
}
