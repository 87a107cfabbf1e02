//! The all-reduce of two kernbench files: prepared as a program on a machine, and run.

pub mod prepare;
pub mod run;

pub use prepare::{CclOptions, PeSelection, PreparedBench, prepare};
pub use run::{CclReport, Finished, run};
