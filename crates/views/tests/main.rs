//! Tests of the views of a run; one binary, a module per subject.

mod page;
mod record;
mod units;
