//! Arguments of the subcommands that measure this computer.

use super::shared::at_least_one;
use clap::Args;

/// `kbc calibrate`
#[derive(Args, Debug)]
pub struct Calibrate {
    /// Number of processes.
    #[arg(short = 'n', default_value_t = 2, value_name = "RANKS", value_parser = clap::value_parser!(u64).range(2..=64))]
    pub processes: u64,
    /// The sizes that are measured: `4096,1MiB`.
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',', value_parser = size, default_value = "4KiB,64KiB,1MiB,16MiB")]
    pub sizes: Vec<u64>,
    /// The size whose rates are those of the machine.
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "1MiB")]
    pub at: u64,
    /// Calls in each of 5 measured blocks; by the size by default.
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: Option<u64>,
    /// Longest that a wait may take.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub limit: u64,
    /// The machine file, `machine.yaml`.
    ///
    /// By default it goes to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
}

/// `kbc dev bench host`
#[derive(Args, Debug)]
pub struct BenchHost {
    /// The collectives; all five by default.
    ///
    /// `all_reduce`, `all_gather`, `reduce_scatter`, `broadcast`, `all_to_all`.
    #[arg(value_name = "COLLECTIVE")]
    pub collectives: Vec<String>,
    /// Sizes of the whole vector: `8,4KiB,1MiB`.
    ///
    /// They are rounded up to whole elements of f32, the same number for each rank.
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',', value_parser = size, default_value = "8,64,512,4KiB,32KiB,256KiB,2MiB,16MiB,64MiB")]
    pub sizes: Vec<u64>,
    /// Numbers of processes: `2,4`.
    #[arg(short = 'n', value_name = "RANKS,..", value_delimiter = ',', default_value = "2", value_parser = clap::value_parser!(u64).range(2..=64))]
    pub processes: Vec<u64>,
    /// Algorithm in place of those of the library; repeatable.
    ///
    /// `'ring with (pipeline: 4)'`. It applies to the collectives that have it.
    #[arg(long, value_name = "ALGORITHM")]
    pub algorithm: Vec<String>,
    /// Fastest algorithms that are measured in turn, after one run of each.
    #[arg(long, default_value_t = 2, value_name = "K", value_parser = at_least_one())]
    pub keep: usize,
    /// Rounds in which all contestants take turns.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,
    /// Calls in each of 5 blocks of a run; about 20 ms by default.
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: Option<u64>,
    /// Other inputs.
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    pub seed: u64,
    /// Longest that a wait may take.
    #[arg(hide_short_help = true, long, default_value_t = 30, value_name = "SECONDS")]
    pub limit: u64,
    /// An MPI, by its compiler and its launcher; repeatable.
    ///
    /// Both may have arguments: `mpich=mpicc.mpich,mpirun.mpich -bind-to core`. By default the one
    /// of `MPICC` and `MPIRUN`, or of `mpicc` and `mpirun`, if there is one.
    #[arg(long, value_name = "NAME=COMPILER,LAUNCHER", conflicts_with = "no_mpi")]
    pub mpi: Vec<String>,
    /// Measures no MPI.
    #[arg(long)]
    pub no_mpi: bool,
    /// A peer: a command that prints one JSON object; repeatable.
    ///
    /// In it {collective}, {bytes}, {count}, {ranks}, {repeat} and {seed} are replaced.
    /// docs/reference/host.md describes the object.
    #[arg(long, value_name = "NAME=COMMAND")]
    pub peer: Vec<String>,
    /// Longest that a peer may take for a size.
    #[arg(hide_short_help = true, long, default_value_t = 300, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub peer_limit: u64,
    /// FILE.csv, or a folder for it and figures.
    ///
    /// By default only a table goes to standard output.
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<String>,
    /// Replaces a folder that kbc did not write, or that was edited.
    #[arg(hide_short_help = true, long, requires = "output")]
    pub force: bool,
}

/// Reads a number of bytes: `4096`, `4KiB`, `1MiB`, `1GiB`.
fn size(text: &str) -> Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let found = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = found.unwrap_or((text, 0));
    let bytes = digits.trim().parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes
        .filter(|n| (4..=1 << 40).contains(n))
        .ok_or_else(|| "write bytes, 4 or more, such as 4096 or 1MiB".into())
}
