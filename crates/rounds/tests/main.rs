//! Tests of `kbc-rounds`; one binary, a module per subject.

mod common;

mod errors;
mod garbled;
mod language;
mod library;
mod mutants;
mod templates;
mod units;
