//! Tests of `kbc-import`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

mod torch;
mod verdicts;
