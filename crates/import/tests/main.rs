//! Tests of `kbc-import`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

#[path = "../../../tests/common/cases.rs"]
mod cases;

mod torch;
mod verdicts;
