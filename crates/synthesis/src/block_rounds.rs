//! Block rounds: the order of the messages of an all-to-all.
//!
//! As in `rounds.rs` the order is a list schedule (Graham, SIAM J. Appl. Math. 17, 1969): in each
//! round every edge carries what its capacity allows. All pieces are ready at the start, and those
//! with many messages before them would end last, so they go first. Among equals a sender goes from
//! one destination to the next, each sender beginning behind itself, so that at a switch all
//! receive at the same time.

use crate::exact::ExactRatio;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A message that waits for the one before it.
pub(crate) struct BlockJob {
    /// The edges that it crosses, of which there is at least one.
    pub(crate) edges: Vec<u32>,
    /// Number of its block.
    pub(crate) block: usize,
    /// Whether it is the first message of its piece.
    pub(crate) first: bool,
    pub(crate) piece: u64,
    /// Messages of the piece from this one on. The next job is that of the next message, if any.
    pub(crate) chain: usize,
    /// How far the destination is behind the source in the order of members.
    pub(crate) turn: usize,
}

/// Which messages go first: the least. The last number is that of the job.
type Priority = (u64, Reverse<usize>, u64, usize, usize);

/// An edge during the rounds.
struct BlockLane {
    /// What it can carry in a round, and what it can carry in this round.
    limit: u128,
    room: u128,
    /// What it still has to carry.
    left: u128,
    /// Jobs that are ready and cross this edge first.
    ready: BinaryHeap<Reverse<Priority>>,
}

/// Jobs of an edge that are passed over in a round, at most, because they find another edge full.
/// Without a limit, switches with many ports would take a time that is quadratic in the messages.
const PASSED: usize = 64;

/// Returns the numbers of the jobs that are done in each round. `limits` says what each edge
/// carries in a round, and `sizes` what a piece of each block needs. No size is larger than the
/// limit of an edge that its pieces cross.
///
/// Whether long paths go first among all pieces or among those of the same number depends on the
/// machine. Both are tried.
pub(crate) fn block_rounds(jobs: &[BlockJob], limits: &[u128], sizes: &[u128]) -> Vec<Vec<usize>> {
    let by_piece = list(jobs, limits, sizes, true);
    let by_path = list(jobs, limits, sizes, false);
    if by_path.len() < by_piece.len() { by_path } else { by_piece }
}

fn list(jobs: &[BlockJob], limits: &[u128], sizes: &[u128], by_piece: bool) -> Vec<Vec<usize>> {
    let smallest = sizes.iter().copied().min().unwrap_or(1);
    let kept = sizes.iter().copied().max().unwrap_or(1).saturating_sub(1);
    let lane = |&limit: &u128| BlockLane { limit, room: 0, left: 0, ready: BinaryHeap::new() };
    let mut lanes: Vec<BlockLane> = limits.iter().map(lane).collect();
    let open = |lanes: &mut [BlockLane], at: usize| {
        let job = &jobs[at];
        let (first, then) = if by_piece { (job.piece, 0) } else { (0, job.piece) };
        let key = (first, Reverse(job.chain), then, job.turn, at);
        lanes[job.edges[0] as usize].ready.push(Reverse(key));
    };
    for (at, job) in jobs.iter().enumerate() {
        job.edges.iter().for_each(|&e| lanes[e as usize].left += sizes[job.block]);
        if job.first {
            open(&mut lanes, at);
        }
    }
    let mut order: Vec<usize> = (0..lanes.len()).filter(|&e| lanes[e].left > 0).collect();
    let (mut left, mut out) = (jobs.len(), vec![]);
    while left > 0 {
        for lane in &mut lanes {
            // A part of a piece is kept for the next round; more was not needed and is gone.
            lane.room = lane.room.min(kept) + lane.limit;
        }
        // Edges that have the most left go first, or they would end last.
        let rest = |e: usize| ExactRatio::new(lanes[e].left, lanes[e].limit);
        order.sort_by_cached_key(|&e| (Reverse(rest(e)), e));
        let (mut round, mut passed) = (vec![], vec![]);
        for &first in &order {
            while lanes[first].room >= smallest
                && passed.len() < PASSED
                && let Some(ready) = lanes[first].ready.pop()
            {
                let at = ready.0.4;
                let (edges, size) = (&jobs[at].edges, sizes[jobs[at].block]);
                if edges.iter().any(|&e| lanes[e as usize].room < size) {
                    passed.push(ready);
                    continue;
                }
                for &e in edges {
                    lanes[e as usize].room -= size;
                    lanes[e as usize].left -= size;
                }
                round.push(at);
            }
            lanes[first].ready.extend(passed.drain(..));
        }
        left -= round.len();
        for &at in round.iter().filter(|&&at| jobs[at].chain > 1) {
            open(&mut lanes, at + 1);
        }
        out.push(round);
    }
    out
}
