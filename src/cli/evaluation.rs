//! Arguments of the subcommands that evaluate many runs and draw figures of them.

use super::plot::ThemeChoice;
use super::shared::Selection;
use clap::{Args, ValueEnum};
use kbc_evaluation::compare::Sides;
use kbc_evaluation::sweep::grid::Shard;

/// What runs the shards of a sweep.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobKind {
    /// A cluster with Slurm.
    Slurm,
    /// GitHub Actions.
    Github,
}

/// `kbc sweep`
#[derive(Args, Debug)]
pub struct Sweep {
    /// The sweep file (docs/reference/sweep.md).
    pub file: String,
    /// FILE.csv, FILE.jsonl, or a folder for both and figures.
    ///
    /// By default a table goes to standard output.
    #[arg(short, long, alias = "out", value_name = "PATH")]
    pub output: Option<String>,
    /// Runs one shard of the rows, `2/8`; `--merge` joins them.
    #[arg(long, value_name = "I/N", conflicts_with = "merge")]
    pub shard: Option<Shard>,
    /// Runs rows with these values of an axis: `n=64,128`; repeatable.
    #[arg(long, value_name = "AXIS=VALUES", conflicts_with = "merge")]
    pub only: Vec<String>,
    /// Joins the rows of all shards (FILE.jsonl); runs nothing.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["jobs", "list"])]
    pub merge: Vec<String>,
    /// Prints the rows with equivalent commands; runs nothing.
    #[arg(long, conflicts_with_all = ["output", "jobs"])]
    pub list: bool,
    /// Writes jobs that run the shards and merge them; runs nothing.
    ///
    /// `slurm`: a script of bash that submits an array job and a job that depends on it.
    /// `github`: a workflow. `-o` names the file; by default it goes to standard output.
    #[arg(long, value_enum, requires = "shards", conflicts_with_all = ["shard", "only", "merge", "list"])]
    pub emit: Option<JobKind>,
    /// Number of shards of `--emit`.
    #[arg(long, value_name = "N", requires = "emit", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub shards: Option<usize>,
    /// Lines of a shell that jobs of `--emit` begin with, such as `module load kbc`.
    #[arg(hide_short_help = true, long, value_name = "COMMAND", requires = "emit")]
    pub setup: Option<String>,
    /// Rows that run at a time; the number of cores by default.
    #[arg(short, long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub jobs: Option<usize>,
    /// Colours of the figures; light by default.
    #[arg(long, value_enum, requires = "output")]
    pub theme: Option<ThemeChoice>,
    /// Replaces a folder that kbc did not write, or that was edited.
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// `kbc compare`
#[derive(Args, Debug)]
pub struct Compare {
    /// An algorithm, a machine, a program or rows of a sweep.
    ///
    /// An algorithm with its arguments (`ring`, `'ring with (pipeline: 4)'`), a topology
    /// (`'ring(8)'`,
    /// `machine.yaml`), a `.kb` or `.kir` file, or rows of a sweep, `.csv`.
    pub a: String,
    /// The second item, of the same kind.
    pub b: String,
    /// The program that algorithms or machines are compared on.
    #[arg(long, value_name = "FILE")]
    pub of: Option<String>,
    /// A parameter and its values: `n=64..1048576`, `n=64,100`.
    ///
    /// A range doubles: each value is twice the one before.
    #[arg(long, value_name = "NAME=VALUES")]
    pub over: Option<String>,
    /// The part of the program, and the values of its parameters.
    #[command(flatten)]
    pub select: Selection,
    /// Also draws both times over size: FILE.svg or FILE.png.
    #[arg(short, long, alias = "out", value_name = "FILE")]
    pub output: Option<String>,
    /// Colours of the figure.
    #[arg(long, value_enum, default_value_t = ThemeChoice::Light, requires = "output")]
    pub theme: ThemeChoice,
}

impl Compare {
    /// The same as options of the evaluation.
    pub fn plain(&self) -> Sides {
        let Compare { a, b, of, over, select, .. } = self;
        Sides { a: a.clone(), b: b.clone(), of: of.clone(), over: over.clone(), select: select.plain() }
    }
}

/// `kbc dev repro`
#[derive(Args, Debug)]
pub struct Repro {
    /// The list of figures and tables (docs/explanation/evaluation.md).
    ///
    /// docs/repro.yaml of kbc's source by default.
    pub file: Option<String>,
    /// Writes nothing; exits with 1 if files would differ.
    ///
    /// Prints the names of these files.
    #[arg(long)]
    pub check: bool,
    /// Replaces a folder that kbc did not write, or that was edited.
    #[arg(long, conflicts_with = "check")]
    pub force: bool,
}
