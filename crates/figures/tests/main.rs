//! Tests of `kbc-figures`; one binary, a module per subject.

mod samples;

mod figures;
mod properties;
mod units;
mod wrong;
