//! Verbs that evaluate: many runs, and what is drawn of them.

use super::ReportFormat;
use crate::sweep::grid::Shard;
use clap::Args;

/// `kbc sweep`
#[derive(Args, Debug)]
pub struct Sweep {
    /// The sweep file (docs/sweep.md).
    pub file: String,
    /// Where the rows go: FILE.csv, FILE.jsonl, or a folder for both and the figures. If nothing is said a table goes to standard
    /// output.
    #[arg(short, long, value_name = "PATH")]
    pub out: Option<String>,
    /// Only a part of the rows, `2/8`; `--merge` puts the parts together.
    #[arg(long, value_name = "I/N", conflicts_with = "merge")]
    pub shard: Option<Shard>,
    /// Only rows with these values of an axis: `n=64`, `n=64,128`; repeatable.
    #[arg(long, value_name = "AXIS=VALUES", conflicts_with = "merge")]
    pub only: Vec<String>,
    /// Executes nothing: puts the rows of FILE.jsonl of all shards together.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["jobs", "cache", "no_cache", "list"])]
    pub merge: Vec<String>,
    /// Prints the rows and the command that is the same as each, and executes nothing.
    #[arg(long, conflicts_with_all = ["out", "report", "jobs", "cache", "no_cache"])]
    pub list: bool,
    /// Rows at a time; if nothing is said as many as there are cores.
    #[arg(short, long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub jobs: Option<usize>,
    /// Folder of rows that are known; if nothing is said that of KBC_CACHE, else kbc in the user's folder of caches.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<String>,
    /// Knows nothing and keeps nothing.
    #[arg(long, conflicts_with = "cache")]
    pub no_cache: bool,
    /// Replaces a folder even if something in it was not written by kbc, or was edited.
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Form of rows on standard output.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human, conflicts_with = "out")]
    pub report: ReportFormat,
}
