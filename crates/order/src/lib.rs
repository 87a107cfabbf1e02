//! Order of additions: in which order the contributions to each element of a result are added.
//!
//! [`AdditionOrders::of`] executes one call of a schedule on all ranks with trees in place of
//! numbers. Leaves of a tree are elements of inputs, numbers, and elements that a computation made;
//! nodes are the `combine` operations of the schedule, destination first. Copies and messages do
//! not change a tree. Matmuls, elementwise functions and moves that change the order of elements
//! make new leaves, so a whole program is a number of values, each with its own additions: the
//! operands of such computations, what hosts read, and results.
//!
//! Memories are runs of elements with one tree each, and each tree is stored once. The cost depends
//! on the number of operations and of runs, and not on the number of elements.
//!
//! The order is that of one run. A schedule that the checker accepts has no other: only `combine`
//! adds, it adds on its own rank, and what it reads does not depend on the order in which messages
//! arrive. The IR has no message that adds at its receiver, so no order of a proven schedule
//! depends on time. The order inside a matmul or a reduction of a dimension is that of
//! `kbc_numerics` (docs/reference/numbers.md) and is not part of the tree.
//!
//! * [`OrderReport`]: all values with their trees, and whether ranks have equal bits.
//! * [`across_sizes`], [`is_fixed`]: one program at several sizes.
//! * [`AdditionTree`]: the additions of one element; its text is in terms of ranks.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

mod local;
mod located;
mod pieces;
mod report;
mod run;
mod shape;
mod sizes;
mod text;
mod trees;

pub use located::{LocatedNode, LocatedRun};
pub use report::{
    ClassPlace, ElementOrder, OrderClass, OrderReport, OrderedValue, UnequalElements, ValueUse,
};
pub use shape::{AdditionTree, TreeNode};
pub use sizes::{NotFixed, OrderAcrossSizes, across_sizes, is_fixed};

use kbc_diag::Diagnostics;
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::Schedule;
use kbc_ir::walk::Program;
use run::Outcome;

/// Largest number of different trees of a run, about 150 bytes each.
const MAX_TREES: usize = 1 << 23;

/// Largest number of runs of elements in all memories, 40 bytes each.
const MAX_PIECES: usize = 1 << 24;

/// Largest number of elements of a memory, so that no distance between two elements overflows.
const MAX_ELEMENTS: u64 = 1 << 60;

/// Largest number of nodes of all trees of a report, 24 bytes each.
const MAX_REPORT_NODES: usize = 1 << 24;

/// Largest number of contributions that are counted for one element, each once for each position.
const MAX_CONTRIBUTIONS: usize = 1 << 22;

/// Options of the analysis.
#[derive(Clone, Debug, Default)]
pub struct OrderOptions {
    /// Seed of the interleaving of streams; `None` is the deterministic order. The result is the
    /// same for every schedule that the checker accepts.
    pub seed: Option<u64>,
}

/// The orders of additions of one call of a schedule.
pub struct AdditionOrders<'s> {
    schedule: &'s Schedule,
    outcome: Outcome,
}

impl<'s> AdditionOrders<'s> {
    /// Computes the orders of additions of the first call of a verified schedule with signals.
    ///
    /// # Errors
    /// Returns the errors of a run: E361 for a deadlock, E362 for a read of an element that nothing
    /// wrote, E356 for a message of another size, E363 for a local operation that does not fit its
    /// operands, E364 for two types in one transfer, E365 for a result that was not written, E301
    /// to E305 from walking the schedule. Returns E354 if there are too many trees or runs.
    pub fn of(schedule: &'s Schedule, options: &OrderOptions) -> Result<AdditionOrders<'s>, Diagnostics> {
        let spelled = with_host_region(schedule);
        let program = Program::compile(&spelled)?;
        Ok(AdditionOrders { schedule, outcome: run::run(&program, options)? })
    }

    /// Returns the orders as plain data.
    ///
    /// # Errors
    /// Returns E354 if the trees have too many nodes, or if an element has too many contributions.
    pub fn report(&self) -> Result<OrderReport, Diagnostics> {
        report::report(self.schedule, &self.outcome)
    }
}
