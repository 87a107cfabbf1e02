//! Moves: the messages of trees in rounds as plain data, and what their times depend on.

use crate::error::SynthesisError;

/// Largest number of messages of a plan.
const MOST_MOVES: u128 = 1 << 22;

/// Times of a directed edge of the network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EdgeTiming {
    /// Node that sends.
    pub from: usize,
    /// Node that receives.
    pub to: usize,
    /// Time of the head of a message on the edge, in nanoseconds.
    pub latency_ns: f64,
    /// Time for which each byte occupies the edge, in nanoseconds.
    pub ns_per_byte: f64,
}

/// When a member waits for what is sent to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// Before the first of its messages that needs it, or at the beginning of the round of that
    /// message: plans are equally fast with both.
    WhenNeeded,
    /// At the end of the round in which it is sent.
    EachRound,
}

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
    /// Number of its route among those of the plan.
    pub route: usize,
}

/// Messages in rounds. A message needs what earlier rounds bring; those of a round are independent.
#[derive(Clone, PartialEq, Debug)]
pub struct RoundPlan {
    /// Pieces of each tree.
    pub cuts: u64,
    /// Pieces of equal length into which the data of each root is cut; for an all-reduce those of
    /// the whole vector.
    pub pieces: u64,
    /// The rounds. The messages of a round are ordered by sender and receiver, in which order a
    /// member sends them. If it waits when needed, it sends each receiver one message in a round.
    pub rounds: Vec<Vec<PieceMove>>,
    /// The routes of messages: nodes of the network from sender to receiver, both included. All
    /// between them only forward.
    pub routes: Vec<Vec<usize>>,
    /// Time of the plan in nanoseconds, if every member sends its messages in this order and waits
    /// as the plan was made for.
    pub ns: f64,
    /// Time of the busiest edge in nanoseconds, without latencies. No plan of these trees is
    /// faster.
    pub least_ns: f64,
}

/// Checks that bytes and times are finite and not negative.
pub(crate) fn possible(bytes: f64, edges: &[EdgeTiming]) -> Result<(), SynthesisError> {
    let time = |x: f64| x.is_finite() && x >= 0.0;
    let what = match edges.iter().find(|e| !time(e.latency_ns) || !time(e.ns_per_byte)) {
        Some(e) if !time(e.latency_ns) => "a latency",
        Some(_) => "the time of a byte",
        None if !time(bytes) => "the number of bytes",
        None => return Ok(()),
    };
    Err(SynthesisError::NotATime { what })
}

/// Checks that the number of messages is within the limit.
pub(crate) fn fits(trees: u128, per_tree: u128, cuts: u64) -> Result<(), SynthesisError> {
    if cuts == 0 {
        return Err(SynthesisError::ZeroPieces);
    }
    let moves = trees.checked_mul(per_tree).and_then(|m| m.checked_mul(u128::from(cuts)));
    match moves {
        Some(moves) if moves <= MOST_MOVES => Ok(()),
        _ => Err(SynthesisError::Overflow { what: "the number of messages" }),
    }
}
