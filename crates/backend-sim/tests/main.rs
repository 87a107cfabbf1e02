//! Tests of `kbc-backend-sim`; one binary, a module per subject.

mod common;

mod adversary;
mod interp;
mod jit;
mod jit_alone;
mod units;
