//! Arguments of the subcommands that evaluate many runs and draw figures of them.

use super::{ReportFormat, ThemeChoice};
use clap::Args;
use kbc_evaluation::compare::Sides;
use kbc_evaluation::sweep::grid::Shard;

/// `kbc sweep`
#[derive(Args, Debug)]
pub struct Sweep {
    /// The sweep file (docs/sweep.md).
    pub file: String,
    /// Where the rows go: FILE.csv, FILE.jsonl, or a folder for both and the figures. By default a
    /// table goes to standard output.
    #[arg(short, long, value_name = "PATH")]
    pub out: Option<String>,
    /// Runs one shard of the rows, `2/8`; `--merge` joins the shards.
    #[arg(long, value_name = "I/N", conflicts_with = "merge")]
    pub shard: Option<Shard>,
    /// Runs only rows with these values of an axis: `n=64`, `n=64,128`; repeatable.
    #[arg(long, value_name = "AXIS=VALUES", conflicts_with = "merge")]
    pub only: Vec<String>,
    /// Joins the rows of all shards (FILE.jsonl) and executes nothing.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["jobs", "cache", "no_cache", "list"])]
    pub merge: Vec<String>,
    /// Prints the rows, each with the equivalent command, and executes nothing.
    #[arg(long, conflicts_with_all = ["out", "report", "jobs", "cache", "no_cache"])]
    pub list: bool,
    /// Rows that run at a time; the number of cores by default.
    #[arg(short, long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub jobs: Option<usize>,
    /// Cache folder of finished rows; KBC_CACHE by default, else `kbc` in the user's cache folder.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<String>,
    /// Neither reads nor writes the cache.
    #[arg(long, conflicts_with = "cache")]
    pub no_cache: bool,
    /// Colours of the figures; light by default.
    #[arg(long, value_enum, requires = "out")]
    pub theme: Option<ThemeChoice>,
    /// Replaces a folder even if something in it was not written by kbc, or was edited.
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Format of the rows on standard output.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human, conflicts_with = "out")]
    pub report: ReportFormat,
}

/// `kbc compare`
#[derive(Args, Debug)]
pub struct Compare {
    /// An algorithm with its arguments (`ring`, `'ring with (pipeline: 4)'`), a topology (`'ring(8)'`,
    /// `machine.yaml`), a `.kb` or `.kir` file, or rows of a sweep, `.csv`.
    pub a: String,
    /// The second item, of the same kind.
    pub b: String,
    /// The program that two algorithms or topologies are compared on.
    #[arg(long, value_name = "FILE")]
    pub of: Option<String>,
    /// A parameter and its values: `n=64..1048576` (each twice the one before), or `n=64,100,1000`.
    #[arg(long, value_name = "NAME=VALUES")]
    pub over: Option<String>,
    /// Sets a parameter: `-D tp=8`.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub define: Vec<String>,
    /// Replaces the topology of the program: a shape, or a machine file.
    #[arg(long, value_name = "SHAPE|FILE")]
    pub topology: Option<String>,
    /// Sets a property of the machine; repeatable.
    #[arg(long = "set", value_name = "SETTING")]
    pub set: Vec<String>,
    /// The program, if the file has several.
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// Algorithm of the collectives for which the program names none; repeatable.
    #[arg(long, value_name = "ALGORITHM")]
    pub using: Vec<String>,
    /// Also draws both times over size: FILE.svg or FILE.png.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<String>,
    /// Colours of the figure.
    #[arg(long, value_enum, default_value_t = ThemeChoice::Light, requires = "out")]
    pub theme: ThemeChoice,
    /// Cache folder of finished rows, as for `kbc sweep`.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<String>,
    /// Neither reads nor writes the cache.
    #[arg(long, conflicts_with = "cache")]
    pub no_cache: bool,
    /// Format of the comparison.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

impl Compare {
    /// The same as options of the evaluation.
    pub fn plain(&self) -> Sides {
        Sides {
            a: self.a.clone(),
            b: self.b.clone(),
            of: self.of.clone(),
            over: self.over.clone(),
            define: self.define.clone(),
            topology: self.topology.clone(),
            set: self.set.clone(),
            program: self.program.clone(),
            using: self.using.clone(),
        }
    }
}

/// `kbc repro`
#[derive(Args, Debug)]
pub struct Repro {
    /// The list of figures and tables (docs/evaluation.md); docs/repro.yaml of kbc's source by
    /// default.
    pub file: Option<String>,
    /// Writes nothing; exits with 1 and the names of files that differ from what would be made.
    #[arg(long)]
    pub check: bool,
    /// Replaces the folder even if something in it was not written by kbc, or was edited.
    #[arg(long, conflicts_with = "check")]
    pub force: bool,
    /// Cache folder of finished rows, as for `kbc sweep`.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<String>,
    /// Neither reads nor writes the cache.
    #[arg(long, conflicts_with = "cache")]
    pub no_cache: bool,
}
