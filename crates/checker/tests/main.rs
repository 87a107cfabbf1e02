//! Tests of `kbc-checker`; one binary, a module per subject.

// The tests have the allocator of the command line.
use kbc_allocator as _;

mod common;

mod checker;
mod checker_files;
mod checker_mutants;
mod checker_ways;
mod forms;
mod queues;
mod units;
