//! Verbs that try kbc itself: what it chooses, its engines, its checker.

use super::{ReportFormat, at_least_one};
use clap::{Args, Subcommand};

/// `kbc bench`
#[derive(Args, Debug)]
pub struct Bench {
    /// What is measured.
    #[command(subcommand)]
    pub what: BenchWhat,
}

/// What is measured.
#[derive(Subcommand, Debug)]
pub enum BenchWhat {
    /// The choice of algorithms against the simulated time of all of them, on machines and sizes drawn by a seed
    Select(BenchSelect),
    /// The all-reduce that a kernbench ccl.yaml describes, on the machine of its topology.yaml: right on every rank, and how fast
    Ccl(BenchCcl),
}

/// `kbc bench ccl`
#[derive(Args, Debug)]
pub struct BenchCcl {
    /// The machine: a kernbench topology.yaml, or `package(ring(6), mesh(4, 4), 8)`.
    #[arg(long, value_name = "FILE|SHAPE")]
    pub topology: String,
    /// What runs on it: a kernbench ccl.yaml.
    #[arg(long, value_name = "FILE")]
    pub ccl: String,
    /// A value for a key of the ccl.yaml: `-D algorithm=tree`, `-D n_elem=64`, `-D ranks=pe`; repeatable.
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    pub define: Vec<String>,
    /// Overrides a setting of the machine: `forward: drain`, `queue: tcm, 2`; repeatable.
    #[arg(long = "set", value_name = "SETTING")]
    pub set: Vec<String>,
    /// A `.kb` file with algorithms that an entry may name, before those kbc has; repeatable.
    #[arg(long, value_name = "FILE")]
    pub using: Vec<String>,
    /// Writes the report for people with the execution time of every PE to this file.
    #[arg(long, value_name = "FILE")]
    pub log: Option<String>,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

/// `kbc bench select`
#[derive(Args, Debug)]
pub struct BenchSelect {
    /// How many points of the grid.
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub points: u64,
    /// Seed of the grid.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The number of the first point.
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub first: u64,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

/// `kbc fuzz`
#[derive(Args, Debug)]
pub struct Fuzz {
    /// What is made at random.
    #[command(subcommand)]
    pub what: FuzzWhat,
}

/// What is made at random.
#[derive(Subcommand, Debug)]
pub enum FuzzWhat {
    /// Programs through all passes; the interpreter and machine code must have the same bits
    Engines(FuzzEngines),
    /// Programs emitted, compiled with the stand-in headers and run under their memory model; the results must be the simulator's
    Emitted(FuzzEmitted),
    /// Schedules, right ones and wrong ones; both engines must have the same bits, or fail both
    Schedules(FuzzSchedules),
    /// Schedules, right ones and wrong ones, judged by the checker and by running them under the weak memory model
    Checker(FuzzChecker),
    /// Damaged files for everything that reads one; no panic, no long time, no error without a code and a place
    Readers(FuzzReaders),
    /// Programs on machines of their own, with many algorithms each; no time may be below a bound, and a program has one bound
    Bounds(FuzzBounds),
}

/// `kbc fuzz readers`
#[derive(Args, Debug)]
pub struct FuzzReaders {
    /// Files, or folders of files, that are damaged beside those that are built in.
    pub files: Vec<String>,
    /// How many damaged files.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub inputs: u64,
    /// Seed: the same seed damages the same files in the same way.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The number of the first one.
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub first: u64,
    /// This number alone, and what is read goes to standard output.
    #[arg(long, value_name = "K", conflicts_with_all = ["inputs", "first"])]
    pub only: Option<u64>,
    /// Folder for files that are not read as they should be.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub out: String,
}

/// Which of the random ones.
#[derive(Args, Debug)]
pub struct FuzzRange {
    /// How many.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub programs: u64,
    /// Seed: the same seed gives the same programs and inputs.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The number of the first one.
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub first: u64,
    /// This number alone, and its text is shown.
    #[arg(long, value_name = "K", conflicts_with_all = ["programs", "first"])]
    pub only: Option<u64>,
    /// Folder for what shows a difference.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub out: String,
}

/// `kbc fuzz engines`
#[derive(Args, Debug)]
pub struct FuzzEngines {
    /// A `.kb` file to run in place of a random program, on the inputs of `--seed` and `--only`.
    pub file: Option<String>,
    /// Which.
    #[command(flatten)]
    pub range: FuzzRange,
}

/// `kbc fuzz bounds`
#[derive(Args, Debug)]
pub struct FuzzBounds {
    /// A `.kb` file to try in place of a random program, with the algorithms of `--seed` and `--only`.
    pub file: Option<String>,
    /// Which.
    #[command(flatten)]
    pub range: FuzzRange,
}

/// `kbc fuzz emitted`
#[derive(Args, Debug)]
pub struct FuzzEmitted {
    /// A `.kb` file to run in place of a random program, on the inputs of `--seed` and `--only`.
    pub file: Option<String>,
    /// Which.
    #[command(flatten)]
    pub range: FuzzRange,
    /// Programs that are compiled together.
    #[arg(long, default_value_t = 25, value_name = "N", value_parser = at_least_one())]
    pub batch: usize,
    /// Folder of the stand-in headers; those of the checkout around the current folder if nothing is said.
    #[arg(long, value_name = "DIR")]
    pub standin: Option<String>,
    /// Keeps what is compiled in this folder.
    #[arg(long, value_name = "DIR")]
    pub build: Option<String>,
}

/// `kbc fuzz schedules`
#[derive(Args, Debug)]
pub struct FuzzSchedules {
    /// `.kir` files to vary beside collectives of the library.
    pub files: Vec<String>,
    /// Which.
    #[command(flatten)]
    pub range: FuzzRange,
}

/// `kbc fuzz checker`
#[derive(Args, Debug)]
pub struct FuzzChecker {
    /// `.kir` files to change beside random schedules and collectives of the library.
    pub files: Vec<String>,
    /// How many.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub schedules: u64,
    /// Seed: the same seed gives the same schedules.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The number of the first one.
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub first: u64,
    /// This number alone.
    #[arg(long, value_name = "K", conflicts_with_all = ["schedules", "first"])]
    pub only: Option<u64>,
    /// Threads; as many as there are processors if nothing is said.
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    pub jobs: Option<usize>,
    /// Events that exploring all orders of one accepted schedule may take.
    #[arg(long, default_value_t = 60_000, value_name = "N")]
    pub events: u64,
    /// Folder for schedules that the checker is wrong about.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub out: String,
}

/// `kbc mutate`
#[derive(Args, Debug)]
pub struct Mutate {
    /// `.kb` files of algorithms or programs, `.kir` schedules; the library if there is none.
    pub files: Vec<String>,
    /// One algorithm alone: `ring` or `all_reduce.ring`.
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<String>,
    /// Numbers of ranks for algorithms; those over several axes are taken on every torus and mesh with so many.
    #[arg(long, value_name = "LO..HI", default_value = "2..9")]
    pub ranks: String,
    /// How many mutants, spread evenly over the schedules.
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = at_least_one())]
    pub limit: usize,
    /// Every mutant there is.
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Draws the mutants and the random orders.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Threads; as many as there are processors if nothing is said.
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    pub jobs: Option<usize>,
    /// Events that exploring all orders of one mutant may take: about a second.
    #[arg(long, default_value_t = kbc_judge::EVENTS, value_name = "N")]
    pub events: u64,
    /// Runs in random orders of a mutant whose exploration does not end.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: u64,
    /// Also prints so many of the equivalent mutants as `.kir`, drawn by the seed; 20 if no number is given.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20", conflicts_with = "report")]
    pub equivalent: Option<usize>,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}
