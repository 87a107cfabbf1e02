//! Tests of `kbc-backend-sim`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

mod common;

mod adversary;
mod interp;
mod jit;
mod jit_alone;
mod units;
