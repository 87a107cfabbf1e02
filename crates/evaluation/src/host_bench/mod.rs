//! Benchmarks of collectives on this computer: programs, contestants, rows and figures.
//!
//! `kbc dev bench host` builds and runs processes; this module knows what they compute and what
//! follows from their times. A row has a contestant, an algorithm and a size. [`predicted`] puts
//! simulated times beside the rows.

pub mod collectives;
mod figure;
pub mod predicted;
pub mod row;
mod table;

pub use collectives::{BENCH_COLLECTIVES, BenchCollective};
pub use figure::figures;
pub use row::{BenchRow, BenchStage, MeasuredRows, csv, read};
pub use table::human;

use serde::Serialize;

/// A peer that was not measured, and why.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct NotMeasured {
    /// Its name.
    pub peer: String,
    /// Why.
    pub why: String,
}

/// An algorithm of the library that was left out, and why.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The collective.
    pub collective: String,
    /// Number of ranks.
    pub ranks: u64,
    /// The algorithm.
    pub algorithm: String,
    /// The size in bytes, if it is left out at that size alone.
    pub bytes: Option<u64>,
    /// Why.
    pub why: String,
}

/// What a benchmark found; it serialises to the JSON of `kbc dev bench host`.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct BenchHostReport {
    /// The version of the form, 1.
    pub schema: u32,
    /// The command.
    pub command: &'static str,
    /// Whether all elements were equal.
    pub ok: bool,
    /// Processors of this computer, if their number is known.
    pub processors: Option<u64>,
    /// Rounds in which the contestants took turns.
    pub rounds: u64,
    /// The file or folder that was written, if there is one.
    pub output: Option<String>,
    /// Peers that were not measured.
    pub not_measured: Vec<NotMeasured>,
    /// Algorithms that were left out.
    pub left_out: Vec<LeftOut>,
    /// The rows.
    pub rows: Vec<BenchRow>,
}
