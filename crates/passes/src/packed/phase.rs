//! What is packed for a collective, and the phases of the algorithm that it becomes.

use kbc_ir::graph::CollKind;
use kbc_synthesis::{Matching, RoundPlan, SpanningPacking, TreePacking};
use std::rc::Rc;

/// Messages up to which trees are cut into more pieces, for each unit of the option `effort` of
/// `select`.
const CUT_MESSAGES: u64 = 16_384;
/// Up to this multiple of these messages, trees are cut further while that gains much.
const FURTHER_MESSAGES: u64 = 8;

/// A collective for which trees can be packed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PackedCollective {
    /// Every rank has the blocks of all.
    AllGather,
    /// Every rank has the reduction of its block.
    ReduceScatter,
    /// Every rank has the reduction of all vectors.
    AllReduce,
    /// Every rank has the vector of the root.
    Broadcast,
    /// The root has the reduction of all vectors.
    Reduce,
    /// Every rank has its block of all vectors. Paths take the place of trees.
    AllToAll,
}

impl PackedCollective {
    /// All of them.
    pub const ALL: [PackedCollective; 6] = {
        use PackedCollective::*;
        [AllGather, ReduceScatter, AllReduce, Broadcast, Reduce, AllToAll]
    };

    /// Returns the collective of a kind, if trees can be packed for it.
    pub fn of(kind: CollKind) -> Option<PackedCollective> {
        Self::ALL.into_iter().find(|c| c.kind() == kind)
    }

    /// Returns its kind in programs.
    #[must_use]
    pub fn kind(self) -> CollKind {
        match self {
            PackedCollective::AllGather => CollKind::AllGather,
            PackedCollective::ReduceScatter => CollKind::ReduceScatter,
            PackedCollective::AllReduce => CollKind::AllReduce,
            PackedCollective::Broadcast => CollKind::Broadcast,
            PackedCollective::Reduce => CollKind::Reduce,
            PackedCollective::AllToAll => CollKind::AllToAll,
        }
    }

    /// Returns its name in programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// Whether one rank is the root.
    #[must_use]
    pub fn has_root(self) -> bool {
        self.kind().rooted()
    }

    /// Whether the vector is divided into a block for each rank.
    #[must_use]
    pub fn has_blocks(self) -> bool {
        matches!(self, PackedCollective::AllGather | PackedCollective::ReduceScatter)
    }
}

/// Where trees come from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TreeMethod {
    /// Whichever is faster.
    Fastest,
    /// Packed trees, at the best rate of the machine.
    Trees,
    /// Trees by greedy matching, of low latency.
    Greedy,
    /// A number of spanning trees of an all-reduce, whose edges may pass switches.
    Spanning,
}

impl TreeMethod {
    /// All of them.
    pub const ALL: [TreeMethod; 4] = {
        use TreeMethod::*;
        [Fastest, Trees, Greedy, Spanning]
    };

    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TreeMethod::Fastest => "fastest",
            TreeMethod::Trees => "trees",
            TreeMethod::Greedy => "greedy",
            TreeMethod::Spanning => "spanning",
        }
    }
}

/// How many messages trees may have when they are cut into pieces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MessageLimit {
    /// Messages up to which pieces are taken that are faster.
    pub usual: u64,
    /// Messages up to which pieces are taken that are much faster.
    pub most: u64,
}

impl MessageLimit {
    /// No pieces.
    pub const NONE: MessageLimit = MessageLimit { usual: 0, most: 0 };

    /// Returns the limit for a value of the option `effort` of `select`.
    #[must_use]
    pub fn of_effort(effort: u64) -> MessageLimit {
        let usual = CUT_MESSAGES.saturating_mul(effort);
        MessageLimit { usual, most: usual.saturating_mul(FURTHER_MESSAGES) }
    }

    /// Returns the limit without the messages for pieces that are much faster.
    #[must_use]
    pub fn usual(self) -> MessageLimit {
        MessageLimit { most: self.usual, ..self }
    }

    /// Returns the limit with at most so many messages.
    #[must_use]
    pub fn at_most(self, messages: u64) -> MessageLimit {
        MessageLimit { usual: self.usual.min(messages), most: self.most.min(messages) }
    }
}

/// What to pack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PackedRequest {
    /// The collective, over all members of the network.
    pub collective: PackedCollective,
    /// The root, where there is one.
    pub root: u64,
    /// Where its trees come from.
    pub method: TreeMethod,
    /// Trees per root. None takes, of packed trees, the number that reaches the best rate, or few
    /// trees near it if that is large; of others, the fastest number. With a number, an all-reduce
    /// of packed trees is a reduce-scatter and an all-gather. Of spanning trees it is the number of
    /// all.
    pub trees: Option<u64>,
    /// Matched trees per root of the all-gather. With a number, an all-reduce of matched trees is a
    /// reduce-scatter of `trees` per root and this all-gather; with None it has the faster form.
    pub gather: Option<u64>,
    /// Pieces into which the data of a tree is cut; None takes what is fastest for `bytes`.
    pub pieces: Option<u64>,
    /// Bytes of the whole vector, for which the messages are ordered.
    pub bytes: u64,
    /// Elements of the whole vector, or 0 if it can have any number. Pieces of an all-to-all must
    /// have equal length.
    pub elements: u64,
    /// How many messages trees may have when they are cut into pieces.
    pub messages: MessageLimit,
}

/// The trees of a phase.
pub enum PhaseTrees {
    /// Trees from or to every root.
    Rooted(Rc<TreePacking>),
    /// Spanning trees, each up and then down.
    Spanning(Rc<SpanningPacking>),
    /// Matched trees of all kinds.
    Matched(Rc<Matching>),
}

impl PhaseTrees {
    /// Returns the number of messages with one piece of each tree, among so many members.
    pub(super) fn messages(&self, members: usize) -> u128 {
        match self {
            PhaseTrees::Rooted(packing) => rooted_messages(packing, members),
            PhaseTrees::Spanning(packing) => spanning_messages(packing),
            PhaseTrees::Matched(matching) => {
                matching.up.iter().chain(&matching.down).map(|c| c.edges.len() as u128).sum()
            }
        }
    }
}

/// Returns the number of messages of trees from or to every root, with one piece of each.
pub(super) fn rooted_messages(packing: &TreePacking, members: usize) -> u128 {
    let trees: u128 = packing.classes.iter().map(|c| c.trees).sum();
    trees * (members as u128 - 1)
}

/// Returns the same of spanning trees.
pub(super) fn spanning_messages(packing: &SpanningPacking) -> u128 {
    packing.trees * packing.classes.first().map_or(0, |c| 2 * c.edges.len() as u128)
}

/// A phase with its rounds.
pub struct OrderedPhase {
    /// What the phase does. An all-reduce may be a reduce-scatter and an all-gather.
    pub collective: PackedCollective,
    /// The trees.
    pub trees: PhaseTrees,
    /// The messages in rounds.
    pub plan: RoundPlan,
}

impl OrderedPhase {
    /// Returns the number of messages.
    pub fn messages(&self) -> usize {
        self.plan.rounds.iter().map(Vec::len).sum()
    }
}

/// Returns the estimated nanoseconds of phases.
pub fn planned_ns(phases: &[Rc<OrderedPhase>]) -> f64 {
    phases.iter().map(|p| p.plan.ns).sum()
}
