//! Tests of the audit of kbc; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

#[path = "../../../tests/common/cases.rs"]
mod cases;

mod bounds;
mod engines;
mod units;

use std::path::Path;

/// Returns the root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
