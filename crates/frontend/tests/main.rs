//! Tests of `kbc-frontend`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

#[path = "../../../tests/common/cases.rs"]
mod cases;

mod common;

mod errors;
mod fmt;
mod generated;
#[cfg(feature = "grammar")]
mod grammar;
mod kernbench;
mod listings;
mod lower;
mod lower_errors;
mod lower_robust;
mod machine;
mod migrate;
mod pages;
mod robust;
mod tokens;
mod tree;
mod units;
