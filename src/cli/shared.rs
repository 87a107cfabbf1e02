//! Groups of arguments that several subcommands have.

use clap::{Args, ValueEnum};
use kbc_compiler::engine::Engine;
use kbc_compiler::options;
use kbc_compiler::run::RunRequest;
use kbc_compiler::torch::files::TorchArguments;
use kbc_time::TimeOptions;

/// Parses a number that is not 0.
pub(super) fn at_least_one() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..)
}

/// Form of results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// Text for people.
    Human,
    /// One JSON object (docs/report.md).
    Json,
}

/// What of a file is meant, and with which values.
#[derive(Args, Debug, Clone, Default)]
pub struct Selection {
    /// Sets a parameter: `-D tp=8`; for a check of algorithms `-D p=8`, the number of ranks.
    #[arg(short = 'D', value_name = "NAME=VALUE", help_heading = "Program")]
    pub define: Vec<String>,
    /// Replaces the topology of the program: a shape, `torus(2,3)`, or a machine file,
    /// `machine.yaml`.
    #[arg(long, value_name = "SHAPE|FILE", help_heading = "Program")]
    pub topology: Option<String>,
    /// Sets a property of the machine, or the rate of some links: `forward: drain`, `link x: 5
    /// GB/s, 1 us`; repeatable.
    #[arg(long = "set", value_name = "SETTING", help_heading = "Program")]
    pub set: Vec<String>,
    /// The program, if the file has several.
    #[arg(long, value_name = "NAME", help_heading = "Program")]
    pub program: Option<String>,
    /// The algorithm to compile, with its arguments, if the file has no program: `my_ring`,
    /// `'my_ring(d: -1)'`. A check takes all algorithms of that name, also with ranges of
    /// arguments: `'my_ring(k: 1..4)'`.
    #[arg(long, value_name = "ALGORITHM", help_heading = "Program")]
    pub algorithm: Option<String>,
    /// Number of ranks of an algorithm: `8`; a check also takes `2..9,16`.
    #[arg(long, value_name = "RANKS", help_heading = "Program")]
    pub ranks: Option<String>,
    /// Algorithm of the collectives for which the program names none: `ring`, `ring(pipeline: 4)`;
    /// repeatable, for collectives of several kinds. For a file of algorithms, the same as
    /// `--algorithm`.
    #[arg(long, value_name = "ALGORITHM", help_heading = "Program")]
    pub using: Vec<String>,
}

impl Selection {
    /// The same as options of the compiler.
    pub fn plain(&self) -> options::Selection {
        let Selection { define, topology, set, program, algorithm, ranks, using } = self.clone();
        options::Selection { define, topology, set, program, algorithm, ranks, using }
    }
}

/// What is compiled.
#[derive(Args, Debug, Clone)]
pub struct Source {
    /// A `.kb` file, or an MSCCL schedule (`.xml`); to compile also a PyTorch program, whose other
    /// ranks are beside it, or a folder of them. `-` is standard input.
    pub file: String,
    /// The part of the file.
    #[command(flatten)]
    pub of: Selection,
    /// Contract of an imported schedule: a `.kb` file with one `collective`, over `src` and `dst`
    /// (in place: over `v`).
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub post: Option<String>,
}

impl Source {
    /// The same as options of the compiler.
    pub fn plain(&self) -> options::Source {
        options::Source { file: self.file.clone(), of: self.of.plain(), post: self.post.clone() }
    }
}

/// Printing between passes.
#[derive(Args, Debug, Clone, Default)]
pub struct Watch {
    /// Prints the module after a pass (or `all`) to standard error; repeatable. Where a target is
    /// emitted also the kernel: after tile (as it is lowered), layout, buffers, fences, flags.
    #[arg(long, value_name = "PASS", help_heading = "Passes")]
    pub print_after: Vec<String>,
    /// Prints the module after every pass that changed it.
    #[arg(long, help_heading = "Passes")]
    pub print_changed: bool,
    /// Writes the module before the first and after every pass into a folder: 00-input.kir,
    /// 01-infer.kir, ..
    #[arg(long, value_name = "DIR", help_heading = "Passes")]
    pub dump_dir: Option<String>,
    /// Replaces a dump folder or a folder of emitted code even if something in it was not written
    /// by kbc, or was edited.
    #[arg(long, help_heading = "Passes")]
    pub force: bool,
    /// Prints the time of every pass, of the JIT and of the run, and the size of the machine code.
    #[arg(long, help_heading = "Passes")]
    pub timings: bool,
}

/// Input and output data.
#[derive(Args, Debug, Clone, Default)]
pub struct Data {
    /// Data of an input: `x=file.npy`, `w=file.npz:key`, `w=file.safetensors:key`.
    #[arg(long, value_name = "NAME=FILE[:KEY]", help_heading = "Data")]
    pub input: Vec<String>,
    /// The engine: machine code (the default), or the interpreter, which defines the results.
    #[arg(long, value_enum, help_heading = "Data")]
    pub engine: Option<EngineChoice>,
    /// Writes a result (the global value as rank 0 sees it): `y=file.npy` (or .npz, .safetensors).
    #[arg(long, value_name = "NAME=FILE", help_heading = "Data")]
    pub output: Vec<String>,
}

impl Data {
    /// The same as options of the compiler.
    pub fn plain(&self) -> options::Data {
        let Data { input, engine, output } = self.clone();
        options::Data { input, engine: engine.map(EngineChoice::plain), output }
    }
}

/// What `kbc run` and `kbc compile` do with a program.
#[derive(Args, Debug, Clone)]
pub struct Execution {
    /// Leaves the proof out.
    #[arg(long, help_heading = "Run")]
    pub no_proof: bool,
    /// Leaves the execution out: proves and times, without data.
    #[arg(long, help_heading = "Run", conflicts_with_all = ["adversarial", "calls", "seed", "input", "output", "engine"])]
    pub no_data: bool,
    /// Leaves the timing out.
    #[arg(long, help_heading = "Run")]
    pub no_time: bool,
    /// Also runs with stale views, late puts and random interleavings, and several calls at any skew.
    #[arg(long, help_heading = "Run")]
    pub adversarial: bool,
    /// Number of seeds of an adversarial run, starting at `--seed`.
    #[arg(long, help_heading = "Run", default_value_t = 20, requires = "adversarial", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Seed of interleavings and of generated data.
    #[arg(long, help_heading = "Run", default_value_t = 0)]
    pub seed: u64,
    /// Number of calls in a row.
    #[arg(long, help_heading = "Run", value_parser = clap::value_parser!(u32).range(1..))]
    pub calls: Option<u32>,
    /// Simulates the time of every rank, even if one rank of each orbit could stand for the others.
    #[arg(long, help_heading = "Run", conflicts_with = "no_time")]
    pub every_rank: bool,
    /// Also times the program with stragglers and slow links: a `.yaml` file with a `perturb`
    /// section, or its content, `{seed: 1, runs: 20, links: [{count: 1, slow: 4}]}`.
    #[arg(long, help_heading = "Run", value_name = "FILE|TEXT", conflicts_with = "no_time")]
    pub perturb: Option<String>,
    /// Also writes an artefact: graph, kir, dot, dot-graph, trace, log; for a target also tile,
    /// cpp; repeatable. Without a path it goes to standard output in place of the report, once the
    /// schedule is proven. `trace=FILE` opens in the Perfetto UI; `log` has one JSON object per
    /// operation. With tile or cpp, a folder is written only if --out names it.
    #[arg(long, help_heading = "Run", value_name = "KIND[=PATH]")]
    pub emit: Vec<String>,
    /// Ranks in a trace or log: `0..8,12`.
    #[arg(long, help_heading = "Run", value_name = "RANKS", conflicts_with = "no_time")]
    pub trace_ranks: Option<String>,
    /// The pipeline to run instead of the default one.
    #[arg(long, short, value_name = "PASSES", default_value = "default", help_heading = "Passes")]
    pub passes: String,
    /// Dumps between passes.
    #[command(flatten)]
    pub watch: Watch,
    /// Input and output data.
    #[command(flatten)]
    pub data: Data,
    /// Process groups of PyTorch programs.
    #[command(flatten)]
    pub groups: Groups,
}

impl Execution {
    /// Returns how often and in which order the program is executed.
    pub fn request(&self) -> RunRequest {
        RunRequest {
            data: self.data.plain(),
            calls: self.calls,
            seed: self.seed,
            adversaries: self.adversarial.then_some(self.seeds),
        }
    }

    /// Returns how it is timed.
    pub fn time(&self) -> TimeOptions {
        TimeOptions { every_rank: self.every_rank, ..TimeOptions::default() }
    }

    /// Returns the flags about passes that were given, for inputs on which no pass runs.
    pub fn about_passes(&self) -> [(&'static str, bool); 4] {
        [
            ("--passes", self.passes != "default"),
            ("--print-after", !self.watch.print_after.is_empty()),
            ("--print-changed", self.watch.print_changed),
            ("--dump-dir", self.watch.dump_dir.is_some()),
        ]
    }
}

/// What carries out a schedule's operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum EngineChoice {
    /// Machine code, made by cranelift; bit for bit what the interpreter does.
    #[default]
    Jit,
    /// The interpreter, which defines what a schedule means.
    Interp,
}

impl EngineChoice {
    /// The engine.
    pub fn plain(self) -> Engine {
        match self {
            EngineChoice::Jit => Engine::Jit,
            EngineChoice::Interp => Engine::Interp,
        }
    }
}

/// Process groups of PyTorch programs that no file states.
#[derive(Args, Clone, Default, Debug)]
pub struct Groups {
    /// Members of a process group of PyTorch programs: `7=0-3`, `7=0,2`; repeat it for another
    /// group of the same name. It overrides groups.json.
    #[arg(long, value_name = "NAME=RANKS", help_heading = "Program")]
    pub group: Vec<String>,
    /// Weights of PyTorch programs whose archives have only a pickle: an `.npz` or `.safetensors`
    /// file with the names of the model; `*` stands for the rank.
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub weights: Option<String>,
    /// The unsharded model, exported for one rank. Both are evaluated on the same inputs, and their
    /// results are compared.
    #[arg(long, value_name = "FOLDER|FILE", help_heading = "Program")]
    pub reference: Option<String>,
}

impl Groups {
    /// The same as options of the compiler.
    pub fn plain(&self) -> TorchArguments {
        let Groups { group, weights, reference } = self.clone();
        TorchArguments { group, weights, reference }
    }
}
