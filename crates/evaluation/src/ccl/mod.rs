//! The all-reduce of two kernbench files: prepared as a program on a machine, and run.

pub mod prepare;
pub mod run;

pub use prepare::{Bench, CclOptions, Part, prepare};
pub use run::{Finished, Found, run};
