//! The driver of kbc as a library: sessions, commands and reports, for the binary, its tests and benchmarks.
//!
//! It alone touches files, the terminal and the clock; everything it does beside that is calling, in order, the
//! frontend, the passes, the checker and the backends, and putting their findings into one report.

pub mod analyse;
pub mod asked;
pub mod backends;
pub mod bounds;
pub mod build;
pub mod ccl;
pub mod checkout;
pub mod cli;
pub mod commands;
pub mod confine;
pub mod contract;
pub mod crash;
pub mod data;
pub mod diagram;
pub mod emit;
pub mod engine;
pub mod fuzz;
pub mod heap;
pub mod host;
pub mod measure;
pub mod mutate;
pub mod outdir;
pub mod page;
pub mod perturb;
pub mod picture;
pub mod pipeline;
pub mod record;
pub mod reference;
pub mod report;
pub mod repro;
pub mod room;
pub mod selection;
pub mod session;
pub mod simulated;
pub mod standin;
pub mod sweep;
pub mod traffic;
pub mod yaml;
