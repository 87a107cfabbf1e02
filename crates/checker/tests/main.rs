//! Tests of `kbc-checker`; one binary, a module per subject.

mod common;

mod checker;
mod checker_files;
mod checker_mutants;
mod checker_ways;
mod forms;
mod queues;
mod units;
