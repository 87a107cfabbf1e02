//! Tests of the evaluation; one binary, a module per subject.

mod cache;
mod units;
