//! Rounds: which piece of which tree crosses which edge of the network at what time.
//!
//! The order is a list schedule (Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl.
//! Math. 17, 1969). In each round every edge carries as many pieces as its capacity allows: first
//! those of lower number within their trees, and of these the ones after which the most messages
//! follow one another. Collectives towards roots are those from roots on the reversed network, in
//! reversed order.

use crate::certificate::{SpanningPacking, TreeDirection, TreePacking};
use crate::error::SynthesisError;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A message: one piece of one tree moves along one edge of the tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PieceMove {
    /// Member that sends.
    pub from: usize,
    /// Member that receives.
    pub to: usize,
    /// Root of the tree; for an all-reduce 0, since its trees share one vector.
    pub root: usize,
    /// The piece, counted from 0 among all pieces of the root.
    pub piece: u64,
    /// Whether the receiver adds the piece to its own. Otherwise it replaces it.
    pub reduce: bool,
}

/// Messages in rounds. A message needs what earlier rounds bring; those of a round are independent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoundPlan {
    /// Pieces of equal length into which the data of each root is cut; for an all-reduce those of
    /// the whole vector.
    pub pieces: u64,
    /// The rounds. The messages of a round are ordered by sender.
    pub rounds: Vec<Vec<PieceMove>>,
    /// Rounds that the busiest edge needs for its pieces. No plan of these trees has fewer.
    pub least: u128,
}

/// Largest number of messages of a plan.
const MOST_MOVES: u128 = 1 << 22;

/// Returns the rounds in which the trees of a packing carry the data, each tree in `cuts` pieces.
///
/// # Errors
/// [`SynthesisError::Overflow`] if there are more than 2^22 messages;
/// [`SynthesisError::Inconsistent`] for a packing whose parts do not fit together, which is none
/// that this crate returns.
pub fn tree_rounds(packing: &TreePacking, cuts: u64) -> Result<RoundPlan, SynthesisError> {
    let towards = packing.direction == TreeDirection::ToRoot;
    let turned = |(a, b): (usize, usize)| if towards { (b, a) } else { (a, b) };
    let mut list =
        ListSchedule::new(packing.loads.iter().map(|l| (turned((l.from, l.to)), l.limit, l.trees)));
    let per_tree = packing.classes.first().map_or(0, |c| c.edges.len() as u128);
    let trees: u128 = packing.classes.iter().map(|c| c.trees).sum();
    fits(trees, per_tree, cuts)?;
    let mut pieces: BTreeMap<usize, u64> = BTreeMap::new();
    for class in &packing.classes {
        // Trees of a class differ in the routes of their edges.
        let mut routes: Vec<Vec<(&[usize], u128)>> =
            class.edges.iter().map(|e| e.routes.iter().map(|r| (&r.nodes[..], r.trees)).collect()).collect();
        for _ in 0..class.trees {
            let mut taken: Vec<&[usize]> = vec![];
            for shares in &mut routes {
                let Some(share) = shares.iter_mut().rev().find(|s| s.1 > 0) else {
                    return Err(SynthesisError::Inconsistent { step: "the rounds" });
                };
                share.1 -= 1;
                taken.push(share.0);
            }
            for cut in 0..cuts {
                let next = pieces.entry(class.root).or_insert(0);
                let piece = *next;
                *next += 1;
                let mut into: BTreeMap<usize, usize> = BTreeMap::new();
                for (edge, route) in class.edges.iter().zip(&taken) {
                    let (from, to) = turned((edge.from, edge.to));
                    let hops: Vec<(usize, usize)> = route.windows(2).map(|w| turned((w[0], w[1]))).collect();
                    let brings = PieceMove { from, to, root: class.root, piece, reduce: false };
                    let after: Vec<usize> = into.get(&from).copied().into_iter().collect();
                    into.insert(to, list.add(brings, cut, &hops, &after)?);
                }
            }
        }
    }
    let per_root = pieces.values().copied().max().unwrap_or(0);
    let (mut rounds, least) = list.run(cuts);
    if towards {
        rounds.reverse();
        for moved in rounds.iter_mut().flatten() {
            (moved.from, moved.to, moved.reduce) = (moved.to, moved.from, true);
        }
    }
    Ok(sorted(RoundPlan { pieces: per_root, rounds, least }))
}

/// Returns the rounds of an all-reduce: each piece is reduced up its tree and broadcast down again,
/// each tree in `cuts` pieces.
///
/// # Errors
/// [`SynthesisError::Overflow`] if there are more than 2^22 messages;
/// [`SynthesisError::Inconsistent`] for a packing whose parts do not fit together, which is none
/// that this crate returns.
pub fn spanning_rounds(packing: &SpanningPacking, cuts: u64) -> Result<RoundPlan, SynthesisError> {
    let both = packing
        .loads
        .iter()
        .flat_map(|l| [((l.from, l.to), l.limit, l.trees), ((l.to, l.from), l.limit, l.trees)]);
    let mut list = ListSchedule::new(both);
    let per_tree = packing.classes.first().map_or(0, |c| 2 * c.edges.len() as u128);
    fits(packing.trees, per_tree, cuts)?;
    let mut piece = 0;
    for class in &packing.classes {
        for cut in (0..class.trees).flat_map(|_| 0..cuts) {
            // Edges from the far end on, so that what a node needs has been added before.
            let mut sums: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for &(near, far) in class.edges.iter().rev() {
                let after = sums.remove(&far).unwrap_or_default();
                let up = PieceMove { from: far, to: near, root: 0, piece, reduce: true };
                let up = list.add(up, cut, &[(far, near)], &after)?;
                sums.entry(near).or_default().push(up);
            }
            let mut into = sums;
            for &(near, far) in &class.edges {
                let down = PieceMove { from: near, to: far, root: 0, piece, reduce: false };
                let after = into.get(&near).cloned().unwrap_or_default();
                into.insert(far, vec![list.add(down, cut, &[(near, far)], &after)?]);
            }
            piece += 1;
        }
    }
    let (rounds, least) = list.run(cuts);
    Ok(sorted(RoundPlan { pieces: piece, rounds, least }))
}

fn fits(trees: u128, per_tree: u128, cuts: u64) -> Result<(), SynthesisError> {
    let moves = trees.checked_mul(per_tree).and_then(|m| m.checked_mul(u128::from(cuts)));
    match moves {
        Some(moves) if moves <= MOST_MOVES => Ok(()),
        _ => Err(SynthesisError::Overflow { what: "the number of messages" }),
    }
}

fn sorted(mut plan: RoundPlan) -> RoundPlan {
    plan.rounds.iter_mut().for_each(|round| round.sort_unstable());
    plan
}

/// A message that waits for others.
struct Job {
    moved: PieceMove,
    /// The edges of the network that it crosses.
    hops: Vec<usize>,
    /// Jobs that need it.
    next: Vec<usize>,
    /// Jobs that it needs and that are not over.
    open: usize,
    /// The piece's number within its tree. An all-reduce would otherwise send all pieces up before
    /// any down, although the two directions use different edges at each place.
    cut: u64,
    /// Length of the longest chain of jobs that begins with it.
    chain: usize,
}

/// An edge during the rounds, in units of `1 / limit` of a piece.
struct Lane {
    limit: u128,
    trees: u128,
    /// Capacity that is left in this round.
    room: u128,
    /// Jobs that are ready and cross this edge first, by cut, chain and number.
    ready: BinaryHeap<(Reverse<u64>, usize, Reverse<usize>)>,
}

/// The list schedule.
struct ListSchedule {
    lanes: Vec<Lane>,
    number: BTreeMap<(usize, usize), usize>,
    jobs: Vec<Job>,
}

impl ListSchedule {
    /// Returns a schedule without jobs for edges with their limits and loads in trees.
    fn new(edges: impl Iterator<Item = ((usize, usize), u128, u128)>) -> ListSchedule {
        let (mut lanes, mut number) = (vec![], BTreeMap::new());
        for (ends, limit, trees) in edges.filter(|e| e.2 > 0) {
            number.insert(ends, lanes.len());
            lanes.push(Lane { limit, trees, room: 0, ready: BinaryHeap::new() });
        }
        ListSchedule { lanes, number, jobs: vec![] }
    }

    /// Adds a job that needs other jobs, which have been added before, and returns its number.
    fn add(
        &mut self,
        moved: PieceMove,
        cut: u64,
        hops: &[(usize, usize)],
        after: &[usize],
    ) -> Result<usize, SynthesisError> {
        let missing = SynthesisError::Inconsistent { step: "the rounds" };
        let lane = |h: &(usize, usize)| self.number.get(h).copied();
        let hops: Vec<usize> = hops.iter().map(lane).collect::<Option<_>>().ok_or(missing)?;
        if hops.is_empty() {
            return Err(missing);
        }
        let at = self.jobs.len();
        after.iter().for_each(|&a| self.jobs[a].next.push(at));
        self.jobs.push(Job { moved, hops, next: vec![], open: after.len(), cut, chain: 1 });
        Ok(at)
    }

    fn open(&mut self, at: usize) {
        let Job { hops, cut, chain, .. } = &self.jobs[at];
        self.lanes[hops[0]].ready.push((Reverse(*cut), *chain, Reverse(at)));
    }

    /// Returns the messages in rounds, and the number of rounds that the busiest edge needs.
    fn run(mut self, cuts: u64) -> (Vec<Vec<PieceMove>>, u128) {
        // In a round, the edge with the least capacity carries one piece.
        let unit = self.lanes.iter().map(|l| l.limit).min().unwrap_or(1).max(1);
        let rounds = |l: &Lane| (l.trees * u128::from(cuts) * unit).div_ceil(l.limit.max(1));
        let least = self.lanes.iter().map(rounds).max().unwrap_or(0);
        for at in (0..self.jobs.len()).rev() {
            let longest = self.jobs[at].next.iter().map(|&n| self.jobs[n].chain).max();
            self.jobs[at].chain = 1 + longest.unwrap_or(0);
        }
        for at in 0..self.jobs.len() {
            if self.jobs[at].open == 0 {
                self.open(at);
            }
        }
        let (mut left, mut out) = (self.jobs.len(), vec![]);
        while left > 0 {
            for lane in &mut self.lanes {
                // A part of a piece is kept for the next round; more was not needed and is gone.
                lane.room = lane.room.min(unit - 1) + lane.limit;
            }
            let (mut round, mut over) = (vec![], vec![]);
            for first in 0..self.lanes.len() {
                let mut blocked = vec![];
                while self.lanes[first].room >= unit
                    && let Some(job) = self.lanes[first].ready.pop()
                {
                    let at = job.2.0;
                    if self.jobs[at].hops.iter().any(|&h| self.lanes[h].room < unit) {
                        blocked.push(job);
                        continue;
                    }
                    for &hop in &self.jobs[at].hops {
                        self.lanes[hop].room -= unit;
                    }
                    round.push(self.jobs[at].moved);
                    over.push(at);
                }
                self.lanes[first].ready.extend(blocked);
            }
            left -= over.len();
            for at in over {
                for next in std::mem::take(&mut self.jobs[at].next) {
                    self.jobs[next].open -= 1;
                    if self.jobs[next].open == 0 {
                        self.open(next);
                    }
                }
            }
            out.push(round);
        }
        (out, least)
    }
}
