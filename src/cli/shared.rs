//! Groups of arguments that several subcommands have.

use clap::{Args, ValueEnum};
use kbc_compiler::engine::Engine;
use kbc_compiler::options;
use kbc_compiler::run::RunRequest;
use kbc_compiler::torch::files::TorchArguments;
use kbc_diag::Diagnostic;
use kbc_passes::select::MOST_EFFORT;
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
    /// One JSON object (docs/reference/report.md).
    Json,
}

/// What of a file is meant, and with which values.
#[derive(Args, Debug, Clone, Default)]
pub struct Selection {
    /// Sets a parameter: `-D tp=8`.
    #[arg(short = 'D', long, value_name = "NAME=VALUE", help_heading = "Program")]
    pub define: Vec<String>,
    /// The machine, in place of that of the program.
    ///
    /// A shape, `torus(2,3)`, or a machine file, `machine.yaml`. Or the name of a topology of the
    /// file, if it has several.
    #[arg(long, value_name = "SHAPE|FILE|NAME", help_heading = "Program")]
    pub topology: Option<String>,
    /// The mesh, if the file has several.
    #[arg(long, value_name = "NAME", help_heading = "Program")]
    pub mesh: Option<String>,
    /// Sets a property of the machine: `forward: drain`.
    ///
    /// Also the rate of some links: `link x: 5 GB/s, 1 us`; repeatable.
    #[arg(long = "set", value_name = "SETTING", help_heading = "Program")]
    pub set: Vec<String>,
    /// The program, if the file has several.
    ///
    /// `kbc compile --target` takes several with commas between them, and writes a folder for each.
    #[arg(long, value_name = "NAME", help_heading = "Program")]
    pub program: Option<String>,
    /// The algorithm of a file without a program: `'my_ring(d: -1)'`.
    ///
    /// A check takes all algorithms of that name, also with ranges of arguments: `'my_ring(k:
    /// 1..4)'`.
    #[arg(long, value_name = "ALGORITHM", help_heading = "Program")]
    pub algorithm: Option<String>,
    /// Number of ranks of an algorithm: `8`.
    ///
    /// A check also takes `2..9,16`.
    #[arg(long, value_name = "RANKS", help_heading = "Program")]
    pub ranks: Option<String>,
    /// Algorithm where none is named: `'ring with (pipeline: 4)'`.
    ///
    /// Repeatable, for collectives of several kinds.
    #[arg(long, value_name = "ALGORITHM", help_heading = "Program")]
    pub using: Vec<String>,
    /// `fixed`: every element is added in one order, at all sizes.
    ///
    /// Only algorithms are taken for which that holds, so the bits of a result do not depend on the
    /// position of an element or on the number of elements.
    #[arg(long, value_name = "ORDER", value_parser = ["any", "fixed"], help_heading = "Program")]
    pub order: Option<String>,
    /// Effort of the search of `select`: 0 to 16.
    ///
    /// With k, it considers packed trees of about 16,384 k messages, compositions of algorithms of
    /// 262,144 k messages in all, and options; with 0 none of them. The default is 1, and 0 for
    /// targets with kernels.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u8).range(0..=MOST_EFFORT as i64), help_heading = "Program")]
    pub effort: Option<u8>,
    /// Small collectives become one, up to this many bytes per rank.
    ///
    /// They do the same over the same axis and do not depend on each other. Without it, only uses
    /// with `fuse: bytes` do so.
    #[arg(long, value_name = "BYTES", hide_short_help = true, help_heading = "Program")]
    pub fuse: Option<u64>,
}

impl Selection {
    /// Takes the parameters and the number of ranks of other options, and leaves the rest.
    pub fn set_size(&mut self, of: options::Selection) {
        self.define = of.define;
        self.ranks = of.ranks;
    }

    /// Returns options of the compiler as those of the command line.
    ///
    /// # Errors
    /// Returns E420 for a number that is none.
    pub fn of(plain: options::Selection) -> Result<Selection, Diagnostic> {
        let options::Selection {
            define,
            topology,
            mesh,
            set,
            program,
            algorithm,
            ranks,
            using,
            order,
            effort,
            fuse,
        } = plain;
        let wrong =
            |flag: &str, text: &str| Diagnostic::error("E420", format!("{flag} {text}: not a number"));
        let effort = effort.map(|k| k.parse().map_err(|_| wrong("--effort", &k))).transpose()?;
        let fuse = fuse.map(|n| n.parse().map_err(|_| wrong("--fuse", &n))).transpose()?;
        Ok(Selection { define, topology, mesh, set, program, algorithm, ranks, using, order, effort, fuse })
    }

    /// The same as options of the compiler.
    pub fn plain(&self) -> options::Selection {
        let Selection { define, topology, mesh, set, program, algorithm, ranks, using, order, effort, fuse } =
            self.clone();
        let [effort, fuse] = [effort.map(|k| k.to_string()), fuse.map(|n| n.to_string())];
        options::Selection {
            define,
            topology,
            mesh,
            set,
            program,
            algorithm,
            ranks,
            using,
            order,
            effort,
            fuse,
        }
    }
}

/// What is compiled.
#[derive(Args, Debug, Clone)]
pub struct Source {
    /// A `.kb`, `.kir` or `.xml` file, or PyTorch programs; `-` is standard input.
    ///
    /// An MSCCL schedule is an `.xml` file. A PyTorch program has those of the other ranks beside
    /// it, or stands for a folder of them.
    pub file: String,
    /// The part of the file.
    #[command(flatten)]
    pub of: Selection,
    /// Contract of an imported schedule.
    ///
    /// A `.kb` file with one `collective`, over `src` and `dst` (in place: over `v`).
    #[arg(hide_short_help = true, long, value_name = "FILE", help_heading = "Program")]
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
    /// Prints the module after a pass (or `all`) to standard error.
    ///
    /// Repeatable. Where a target is emitted also the kernel: after tile (as it is lowered),
    /// layout, buffers, fences, flags.
    #[arg(hide_short_help = true, long, value_name = "PASS", help_heading = "Passes")]
    pub print_after: Vec<String>,
    /// Prints the module after every pass that changed it.
    #[arg(hide_short_help = true, long, help_heading = "Passes")]
    pub print_changed: bool,
    /// Writes the module before and after every pass into a folder.
    ///
    /// Names of the files are 00-input.kir, 01-infer.kir, ..
    #[arg(hide_short_help = true, long, value_name = "DIR", help_heading = "Passes")]
    pub dump_dir: Option<String>,
    /// Replaces a folder that kbc did not write, or that was edited.
    ///
    /// The folder of dumps or of emitted code.
    #[arg(hide_short_help = true, long, help_heading = "Passes")]
    pub force: bool,
    /// Prints the time of every pass, of the JIT and of the run.
    ///
    /// Also the size of the machine code.
    #[arg(hide_short_help = true, long, help_heading = "Passes")]
    pub timings: bool,
}

/// Input and output data.
#[derive(Args, Debug, Clone, Default)]
pub struct Data {
    /// Data of an input: `x=file.npy`, `w=file.npz:key`.
    ///
    /// Files are .npy, .npz and .safetensors.
    #[arg(long, value_name = "NAME=FILE[:KEY]")]
    pub input: Vec<String>,
    /// Machine code (the default), or the interpreter.
    ///
    /// The interpreter defines the results. It is the default for schedules that are written out
    /// for every rank and have more than 2,000 operations or little data, for which it is faster.
    #[arg(hide_short_help = true, long, value_enum)]
    pub engine: Option<EngineChoice>,
    /// Where the output goes: a result, `y=file.npy`, or code.
    ///
    /// `NAME=FILE` writes a result, the global value as rank 0 sees it, as .npy, .npz or
    /// .safetensors; repeatable. A path without a name is the folder of emitted code (by default
    /// FILE.TARGET in the working directory), or the file of the artefact that `--emit KIND` names.
    #[arg(long, short, alias = "out", value_name = "[NAME=]PATH")]
    pub output: Vec<String>,
}

impl Data {
    /// The same as options of the compiler.
    pub fn plain(&self) -> options::Data {
        let Data { input, engine, .. } = self.clone();
        options::Data { input, engine: engine.map(EngineChoice::plain), output: self.results() }
    }

    /// Returns the results that are written, each as `NAME=FILE`.
    pub fn results(&self) -> Vec<String> {
        self.output.iter().filter(|o| is_result(o)).cloned().collect()
    }

    /// Returns the path that is not of a result.
    ///
    /// # Errors
    /// Returns E416 if there are several.
    pub fn place(&self) -> Result<Option<&str>, Diagnostic> {
        let mut paths = self.output.iter().filter(|o| !is_result(o));
        match (paths.next(), paths.next()) {
            (first, None) => Ok(first.map(String::as_str)),
            (_, Some(second)) => {
                let d = Diagnostic::error("E416", format!("--output {second}: there is one place already"));
                Err(d.help("write --output NAME=FILE for a result"))
            }
        }
    }
}

/// What `kbc run` and `kbc compile` do with a program.
#[derive(Args, Debug, Clone)]
pub struct Execution {
    /// Leaves the proof out.
    #[arg(long)]
    pub no_proof: bool,
    /// Leaves the execution out: proves and times, without data.
    #[arg(long, conflicts_with_all = ["adversarial", "calls", "seed", "input", "engine"])]
    pub no_data: bool,
    /// Leaves the timing out.
    #[arg(long)]
    pub no_time: bool,
    /// Also runs with stale views, late puts, random interleavings.
    ///
    /// Such a run has several calls at any skew.
    #[arg(long)]
    pub adversarial: bool,
    /// Number of seeds of an adversarial run, from `--seed` on.
    #[arg(hide_short_help = true, long, default_value_t = 20, requires = "adversarial", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Seed of interleavings and of generated data.
    #[arg(hide_short_help = true, long, default_value_t = 0)]
    pub seed: u64,
    /// Number of calls in a row.
    #[arg(hide_short_help = true, long, value_parser = clap::value_parser!(u32).range(1..))]
    pub calls: Option<u32>,
    /// Simulates the time of every rank.
    ///
    /// Otherwise one rank of each orbit may stand for the others.
    #[arg(hide_short_help = true, long, conflicts_with = "no_time")]
    pub every_rank: bool,
    /// Also times with stragglers and slow links.
    ///
    /// A `.yaml` file with a `perturb` section, or its content, `{seed: 1, runs: 20, links:
    /// [{count: 1, slow: 4}]}`.
    #[arg(hide_short_help = true, long, value_name = "FILE|TEXT", conflicts_with = "no_time")]
    pub perturb: Option<String>,
    /// Also writes kir, json, dot, graph, dot-graph, trace, log.
    ///
    /// For a target also tile and cpp; repeatable. Without a path the artefact goes to standard
    /// output in place of the report, once the schedule is proven. `trace=FILE` opens in the
    /// Perfetto UI; `log` has one JSON object per operation. With tile or cpp, a folder is written
    /// only if --output names it.
    #[arg(long, value_name = "KIND[=PATH]")]
    pub emit: Vec<String>,
    /// Ranks in a trace or log: `0..8,12`.
    #[arg(hide_short_help = true, long, value_name = "RANKS", conflicts_with = "no_time")]
    pub trace_ranks: Option<String>,
    /// The pipeline to run instead of the default one.
    #[arg(
        hide_short_help = true,
        long,
        short,
        value_name = "PASSES",
        default_value = "default",
        help_heading = "Passes"
    )]
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

/// Checks whether a value of `--output` is `NAME=FILE`. A path with `=` can begin with `./`.
fn is_result(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
    })
}

/// What carries out a schedule's operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum EngineChoice {
    /// Machine code, made by cranelift; bit for bit what the interpreter does.
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
    /// Members of a process group of PyTorch programs: `7=0-3`.
    ///
    /// Also `7=0,2`; repeat it for another group of the same name. It overrides groups.json.
    #[arg(hide_short_help = true, long, value_name = "NAME=RANKS", help_heading = "Program")]
    pub group: Vec<String>,
    /// Weights of PyTorch programs, .npz or .safetensors.
    ///
    /// For archives that have only a pickle: a file with the names of the model; `*` stands for the
    /// rank.
    #[arg(hide_short_help = true, long, value_name = "FILE", help_heading = "Program")]
    pub weights: Option<String>,
    /// The unsharded model, exported for one rank.
    ///
    /// Both are evaluated on the same inputs, and their results are compared.
    #[arg(hide_short_help = true, long, value_name = "FOLDER|FILE", help_heading = "Program")]
    pub reference: Option<String>,
}

impl Groups {
    /// The same as options of the compiler.
    pub fn plain(&self) -> TorchArguments {
        let Groups { group, weights, reference } = self.clone();
        TorchArguments { group, weights, reference }
    }
}
