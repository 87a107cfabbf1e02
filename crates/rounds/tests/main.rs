//! Tests of `kbc-rounds`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

mod common;

mod errors;
mod garbled;
mod language;
mod library;
mod mutants;
mod templates;
mod units;
