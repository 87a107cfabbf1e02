//! Arguments of the subcommands that test kbc itself: its selection, its engines, its checker.

use super::computer::BenchHost;
use super::shared::at_least_one;
use clap::{Args, Subcommand};
use kbc_evaluation::ccl::CclOptions;

/// `kbc dev bench`
#[derive(Args, Debug)]
pub struct Bench {
    /// What to measure.
    #[command(subcommand)]
    pub what: BenchWhat,
}

/// What to measure.
#[derive(Subcommand, Debug)]
pub enum BenchWhat {
    /// Measure collectives on this computer, in turn with those of MPI and of other peers
    Host(BenchHost),
    /// Compare the selected algorithm with the fastest one, on random machines and sizes
    Select(BenchSelect),
    /// Run the all-reduce of a kernbench ccl.yaml on the machine of a topology.yaml: check every
    /// rank, and time it
    Ccl(BenchCcl),
    /// Measure how the processor time and the memory of kbc itself grow with size
    Scale(BenchScale),
}

/// `kbc dev bench scale`
#[derive(Args, Debug)]
pub struct BenchScale {
    /// The cases; all by default.
    ///
    /// A wrong name lists them.
    #[arg(value_name = "CASE")]
    pub cases: Vec<String>,
    /// The sizes of every case, in place of its own: `256,512,1024`.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    pub sizes: Vec<u64>,
    /// How often each size is measured.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = at_least_one())]
    pub repeat: usize,
    /// Another kbc, which runs in turn with this one.
    #[arg(long, value_name = "PATH")]
    pub against: Option<String>,
}

/// `kbc dev bench ccl`
#[derive(Args, Clone, Debug)]
pub struct BenchCcl {
    /// The machine: a kernbench topology.yaml, or a shape.
    ///
    /// Such as `package(ring(6), mesh(4, 4), 8)`.
    #[arg(long, value_name = "FILE|SHAPE")]
    pub topology: String,
    /// The benchmark: a kernbench ccl.yaml.
    #[arg(long, value_name = "FILE")]
    pub ccl: String,
    /// Sets a key of the ccl.yaml: `-D n_elem=64`; repeatable.
    ///
    /// Also `-D algorithm=tree`, `-D ranks=pe`.
    #[arg(short = 'D', long, value_name = "KEY=VALUE")]
    pub define: Vec<String>,
    /// Sets a property of the machine: `queue: tcm, 2`; repeatable.
    #[arg(long = "set", value_name = "SETTING")]
    pub set: Vec<String>,
    /// A `.kb` file with algorithms for entries; repeatable.
    ///
    /// They come before those of the library.
    #[arg(long, value_name = "FILE")]
    pub using: Vec<String>,
    /// Writes the report with the time of every PE to a file.
    #[arg(long, short, aliases = ["out", "log"], value_name = "FILE")]
    pub output: Option<String>,
}

impl BenchCcl {
    /// The same as options of the evaluation.
    pub fn plain(&self) -> CclOptions {
        let BenchCcl { topology, ccl, define, set, using, output: _ } = self.clone();
        CclOptions { topology, ccl, define, set, using }
    }
}

/// `kbc dev bench select`
#[derive(Args, Debug)]
pub struct BenchSelect {
    /// Number of points.
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub points: u64,
    /// Seed of the points.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of the first point.
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub first: u64,
}

/// `kbc dev fuzz`
#[derive(Args, Debug)]
pub struct Fuzz {
    /// What to test.
    #[command(subcommand)]
    pub what: FuzzWhat,
}

/// What to test.
#[derive(Subcommand, Debug)]
pub enum FuzzWhat {
    /// Random programs: the interpreter and the JIT must give the same bits
    Engines(FuzzEngines),
    /// Random programs, emitted and compiled with the stand-in headers: their results must be those
    /// of the simulator
    Emitted(FuzzEmitted),
    /// Random schedules, correct and wrong ones: both engines must give the same bits, or both must
    /// fail
    Schedules(FuzzSchedules),
    /// Random schedules, correct and wrong ones: the checker must agree with runs under the weak
    /// memory model
    Checker(FuzzChecker),
    /// Damaged files for every reader: no panic, no hang, no error without a code and a place
    Readers(FuzzReaders),
    /// Random programs on random machines, with many algorithms each: no time may be below the
    /// bound, and a program has one bound
    Bounds(FuzzBounds),
}

/// `kbc dev fuzz readers`
#[derive(Args, Debug)]
pub struct FuzzReaders {
    /// Files or folders to damage beside the built-in examples.
    pub files: Vec<String>,
    /// Number of damaged files.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub inputs: u64,
    /// Seed: the same seed damages the same files in the same way.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of the first case.
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub first: u64,
    /// Runs this number alone, and prints what is read.
    #[arg(long, value_name = "K", conflicts_with_all = ["inputs", "first"])]
    pub only: Option<u64>,
    /// Folder for files that are read wrongly.
    #[arg(short, long, alias = "out", value_name = "DIR", default_value = ".")]
    pub output: String,
}

/// Selects random cases.
#[derive(Args, Debug)]
pub struct FuzzRange {
    /// How many cases.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub programs: u64,
    /// Seed: the same seed gives the same programs and inputs.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of the first case.
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub first: u64,
    /// Runs this number alone, and prints its text.
    #[arg(long, value_name = "K", conflicts_with_all = ["programs", "first"])]
    pub only: Option<u64>,
    /// Folder for cases that show a difference.
    #[arg(short, long, alias = "out", value_name = "DIR", default_value = ".")]
    pub output: String,
}

/// `kbc dev fuzz engines`
#[derive(Args, Debug)]
pub struct FuzzEngines {
    /// A `.kb` file in place of a random program.
    ///
    /// It runs on the inputs of `--seed` and `--only`.
    pub file: Option<String>,
    /// Which random cases.
    #[command(flatten)]
    pub range: FuzzRange,
}

/// `kbc dev fuzz bounds`
#[derive(Args, Debug)]
pub struct FuzzBounds {
    /// A `.kb` file in place of a random program.
    ///
    /// It is tried with the algorithms of `--seed` and `--only`.
    pub file: Option<String>,
    /// Which random cases.
    #[command(flatten)]
    pub range: FuzzRange,
}

/// `kbc dev fuzz emitted`
#[derive(Args, Debug)]
pub struct FuzzEmitted {
    /// A `.kb` file in place of a random program.
    ///
    /// It runs on the inputs of `--seed` and `--only`.
    pub file: Option<String>,
    /// Which random cases.
    #[command(flatten)]
    pub range: FuzzRange,
    /// Programs that are compiled together.
    #[arg(long, default_value_t = 25, value_name = "N", value_parser = at_least_one())]
    pub batch: usize,
    /// Folder of the stand-in headers.
    ///
    /// By default those of the checkout around the current folder, the binary, or the build.
    #[arg(long, value_name = "DIR")]
    pub standin: Option<String>,
    /// Keeps the compiled sources and binaries in this folder.
    #[arg(long, value_name = "DIR")]
    pub build: Option<String>,
}

/// `kbc dev fuzz schedules`
#[derive(Args, Debug)]
pub struct FuzzSchedules {
    /// `.kir` files to vary beside collectives of the library.
    pub files: Vec<String>,
    /// Which random cases.
    #[command(flatten)]
    pub range: FuzzRange,
}

/// `kbc dev fuzz checker`
#[derive(Args, Debug)]
pub struct FuzzChecker {
    /// `.kir` files to change beside random schedules and the library.
    pub files: Vec<String>,
    /// How many cases.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub schedules: u64,
    /// Seed: the same seed gives the same schedules.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of the first case.
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub first: u64,
    /// Runs this number alone.
    #[arg(long, value_name = "K", conflicts_with_all = ["schedules", "first"])]
    pub only: Option<u64>,
    /// Threads; the number of processors by default.
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    pub jobs: Option<usize>,
    /// Limit of events for exploring all orders of one schedule.
    #[arg(long, default_value_t = 60_000, value_name = "N")]
    pub events: u64,
    /// Folder for schedules that the checker judges wrongly.
    #[arg(short, long, alias = "out", value_name = "DIR", default_value = ".")]
    pub output: String,
}

/// `kbc dev mutate`
#[derive(Args, Debug)]
pub struct Mutate {
    /// `.kb` or `.kir` files; the library by default.
    pub files: Vec<String>,
    /// Takes one algorithm alone: `ring`, `'all_reduce.ring(d: -1)'`.
    #[arg(long, value_name = "ALGORITHM")]
    pub algorithm: Option<String>,
    /// Numbers of ranks for algorithms: `8`, `2..9,16`.
    ///
    /// Algorithms over several axes run on every torus and mesh of that size.
    #[arg(long, value_name = "RANKS", default_value = "2..9")]
    pub ranks: String,
    /// Number of mutants, spread evenly over the schedules.
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = at_least_one())]
    pub limit: usize,
    /// Takes every mutant.
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Seed of the mutants and of the random orders.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Threads; the number of processors by default.
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    pub jobs: Option<usize>,
    /// Limit of events for all orders of a mutant.
    ///
    /// The default takes about a second.
    #[arg(long, default_value_t = kbc_judge::EVENTS, value_name = "N")]
    pub events: u64,
    /// Random orders for a mutant whose exploration does not end.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: u64,
    /// Also prints equivalent mutants; 20 without a number.
    ///
    /// As `.kir`, drawn by the seed.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20", conflicts_with = "format")]
    pub equivalent: Option<usize>,
}
