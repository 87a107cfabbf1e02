//! Tests of `kbc-order`; one binary, a module per subject.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

// The tests have the allocator of the command line.
use kbc_allocator as _;

#[path = "../../passes/tests/common/mod.rs"]
mod common;
#[path = "../../passes/tests/stack/mod.rs"]
mod stack;

mod differential;
mod equality;
mod library;
mod mutants;
mod programs;
mod sizes;
