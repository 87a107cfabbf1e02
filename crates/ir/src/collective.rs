//! Collectives: one row for each, with its name and with what the ranks of a group hold before and
//! after it.
//!
//! The two [`Holding`]s of a collective define it; [`Movement`] lists the pairs that exist. Its
//! contract ([`crate::contract_std`]), its placement rules, the sizes of its result in local
//! programs, the lines on which `expand` works, its lower bounds and its factor of the bus
//! bandwidth are derived from them. Further axes of a program's collective are attributes of
//! [`crate::graph::Collective`].

use crate::optable::Level::Graph;
use crate::optable::word;

/// Kind of a collective, or of a change of placement without communication.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the collectives")]
pub enum CollKind {
    AllReduce,
    ReduceScatter,
    AllGather,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    /// Replicated to split, without communication.
    Slice,
    /// A barrier: no rank goes on before all ranks have arrived. Values stay as they are.
    Barrier,
    /// A collective that is defined by its contract alone: a user-defined one, or one of the
    /// library that moves parts between ranks.
    ByContract,
}

// `ByContract` is the last kind, and all others have a name.
const _: () = assert!(CollKind::ALL.len() == CollKind::ByContract as usize);

/// What the ranks of a group hold of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holding {
    /// Each rank holds a contribution; their combination is the value.
    Partial,
    /// Each rank holds the value.
    Whole,
    /// The root alone holds the value.
    Root,
    /// Each rank holds its part along the dimension of the collective.
    Split,
    /// Each rank holds its part along the second dimension of the collective (`from`).
    SplitFrom,
}

impl Holding {
    /// Checks whether each rank holds a part along a dimension.
    pub fn is_split(self) -> bool {
        match self {
            Holding::Split | Holding::SplitFrom => true,
            Holding::Partial | Holding::Whole | Holding::Root => false,
        }
    }
}

/// The changes of [`Holding`] for which data moves, named by what the ranks hold before and after
/// them.
///
/// Code that depends on both holdings matches on this type, so that a new change does not compile
/// until that code knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are the two holdings")]
pub enum Movement {
    PartialToWhole,
    PartialToSplit,
    PartialToRoot,
    SplitToWhole,
    SplitToRoot,
    SplitFromToSplit,
    RootToWhole,
    RootToSplit,
}

impl Movement {
    /// Returns what the ranks hold before and after.
    pub fn holdings(self) -> (Holding, Holding) {
        use Holding::{Partial, Root, Split, SplitFrom, Whole};
        match self {
            Movement::PartialToWhole => (Partial, Whole),
            Movement::PartialToSplit => (Partial, Split),
            Movement::PartialToRoot => (Partial, Root),
            Movement::SplitToWhole => (Split, Whole),
            Movement::SplitToRoot => (Split, Root),
            Movement::SplitFromToSplit => (SplitFrom, Split),
            Movement::RootToWhole => (Root, Whole),
            Movement::RootToSplit => (Root, Split),
        }
    }
}

/// What a collective does to the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// It moves data, which changes what the ranks hold.
    Moves(Movement),
    /// Each rank keeps its part of the value that all of them hold.
    Slices,
    /// The ranks hold the same afterwards.
    Keeps,
    /// The contract of each use says it.
    Stated,
}

/// Row of a collective.
struct Row {
    /// Name in `.kb` and `.kir`.
    name: &'static str,
    effect: Effect,
    /// A call in `.kb`, for messages.
    call: &'static str,
}

impl CollKind {
    /// The kinds with a name of their own, which are all but `ByContract`.
    pub const ALL: [CollKind; 10] = [
        CollKind::AllReduce,
        CollKind::ReduceScatter,
        CollKind::AllGather,
        CollKind::AllToAll,
        CollKind::Broadcast,
        CollKind::Reduce,
        CollKind::Gather,
        CollKind::Scatter,
        CollKind::Slice,
        CollKind::Barrier,
    ];

    const fn row(self) -> Row {
        use Effect::{Keeps, Moves, Slices, Stated};
        use Movement::*;
        // A collective without a row in the table of operations is an error of compilation.
        macro_rules! row {
            ($name:literal, $effect:expr, $call:literal) => {
                Row { name: const { word(Graph, $name) }, effect: $effect, call: $call }
            };
        }
        match self {
            CollKind::AllReduce => {
                row!("all_reduce", Moves(PartialToWhole), "all_reduce(x, sum, over: tp)")
            }
            CollKind::ReduceScatter => {
                row!("reduce_scatter", Moves(PartialToSplit), "reduce_scatter(x, sum, dim: 0, over: tp)")
            }
            CollKind::AllGather => {
                row!("all_gather", Moves(SplitToWhole), "all_gather(x, dim: 0, over: tp)")
            }
            CollKind::AllToAll => {
                row!("all_to_all", Moves(SplitFromToSplit), "all_to_all(x, from: 0, to: 1, over: tp)")
            }
            CollKind::Broadcast => row!("broadcast", Moves(RootToWhole), "broadcast(x, from: 0, over: tp)"),
            CollKind::Reduce => row!("reduce", Moves(PartialToRoot), "reduce(x, sum, to: 0, over: tp)"),
            CollKind::Gather => row!("gather", Moves(SplitToRoot), "gather(x, dim: 0, to: 0, over: tp)"),
            CollKind::Scatter => {
                row!("scatter", Moves(RootToSplit), "scatter(x, dim: 0, from: 0, over: tp)")
            }
            CollKind::Slice => row!("keep_part", Slices, "let y: TYPE = x"),
            CollKind::Barrier => row!("barrier", Keeps, "barrier(x, over: tp)"),
            CollKind::ByContract => row!("own", Stated, "NAME(x, over: tp)"),
        }
    }

    /// Returns the name in `.kb` and `.kir`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns a call in `.kb`, for messages.
    pub fn call(self) -> &'static str {
        self.row().call
    }

    /// Returns the kind of that name. `own` is not among them.
    pub fn parse(s: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == s)
    }

    /// Returns what the ranks hold before and after the collective. Returns None if the value keeps
    /// its placement, or if each use of the collective states a contract.
    pub fn change(self) -> Option<(Holding, Holding)> {
        match self.row().effect {
            Effect::Moves(movement) => Some(movement.holdings()),
            Effect::Slices => Some((Holding::Whole, Holding::Split)),
            Effect::Keeps | Effect::Stated => None,
        }
    }

    /// Returns the change of a collective that moves data. Returns None for a slice, for a barrier,
    /// and for a collective that is defined by its contract.
    pub fn movement(self) -> Option<Movement> {
        match self.row().effect {
            Effect::Moves(movement) => Some(movement),
            Effect::Slices | Effect::Keeps | Effect::Stated => None,
        }
    }

    /// Checks whether the ranks hold this before the collective.
    pub fn takes(self, holding: Holding) -> bool {
        self.change().is_some_and(|(before, _)| before == holding)
    }

    /// Checks whether the ranks hold this after the collective.
    pub fn gives(self, holding: Holding) -> bool {
        self.change().is_some_and(|(_, after)| after == holding)
    }

    /// Checks whether the collective has a root.
    pub fn rooted(self) -> bool {
        self.takes(Holding::Root) || self.gives(Holding::Root)
    }

    /// Checks whether the collective combines contributions.
    pub fn reduces(self) -> bool {
        self.takes(Holding::Partial)
    }

    /// Checks whether the collective works on one block per rank, and not on a vector as a whole.
    pub fn blocked(self) -> bool {
        self.change().is_none_or(|(before, after)| before.is_split() || after.is_split())
    }
}
