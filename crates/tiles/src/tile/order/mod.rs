//! Order analysis: the order that a kernel's flags, barriers and fences establish on all its paths.
//!
//! The module owns the abstract state (which accesses may have happened, and which pipes are
//! certain to start after each of them), its joins and fixed points over loops, and the findings.
//! Pass `flags` inserts synchronisation at the findings; the verifier reports them.
//!
//! The analysis uses these rules:
//!
//! * A pipe executes in text order, and may start an operation before an earlier one has completed,
//!   except for the matrix unit, whose products follow each other.
//! * A flag from `p` to `q` is set once everything issued to `p` before has completed, and `q`
//!   starts nothing issued later before the flag is set.
//! * A barrier of a pipe orders that pipe in the same way; a barrier of all pipes orders all.
//! * A loop may run no iteration.
//! * An event may be set again only once its last wait is known to have completed.
//! * A notify to this rank is from one core to another. The notified cores rely on it also for data
//!   that others reported to this core, and this data is in memory for them only after a barrier of
//!   all pipes and a `dsb`.

mod faults;
mod state;
mod trials;
mod walk;

pub use faults::{Fault, Finding};
pub use trials::Trials;

use super::Kernel;
use state::State;
use std::collections::BTreeSet;
use walk::{Facts, Walk, left};

/// Returns all violations of the order in a kernel: first those at its end, then by place.
pub fn analyse(kernel: &Kernel) -> Vec<Finding> {
    let facts = Facts::new(kernel);
    let mut walk = Walk { facts: &facts, found: BTreeSet::new() };
    let end = walk.block(&facts.program.root, State::default());
    let mut found = walk.found;
    found.extend(left(end));
    found.into_iter().collect()
}
