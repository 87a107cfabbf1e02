//! Tests of `kbc-judge`; one binary, a module per subject.

#[path = "../../backend-sim/tests/common/mod.rs"]
mod common;

mod adversary_mutants;
mod barriers;
mod classify;
