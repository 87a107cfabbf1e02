//! Tests of `kbc-judge`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

#[path = "../../backend-sim/tests/common/mod.rs"]
mod common;

mod adversary_mutants;
mod barriers;
mod classify;
