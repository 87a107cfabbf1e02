//! Groups of arguments that several subcommands have.

use clap::{Args, ValueEnum};
use kbc_compiler::engine::Engine;
use kbc_compiler::options;
use kbc_compiler::torch::files::TorchArguments;

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
