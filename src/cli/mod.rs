//! The command line: subcommands, flags, and messages about wrong arguments.

mod evaluation;
mod plot;
mod trials;

pub use evaluation::{Compare, Repro, Sweep};
pub use plot::{Picture, Plot, PlotLinks, PlotTopology, PlotWhat, ThemeChoice};
pub use trials::{
    Bench, BenchCcl, BenchSelect, BenchWhat, Fuzz, FuzzBounds, FuzzChecker, FuzzEmitted, FuzzEngines,
    FuzzRange, FuzzReaders, FuzzSchedules, FuzzWhat, Mutate,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use kbc_compiler::engine::Engine;
use kbc_compiler::options;
use kbc_compiler::torch::files::TorchArguments;
use kbc_diag::{Diagnostic, SourceMap, render};

/// A compiler for collective algorithms and tensor-parallel programs.
#[derive(Parser, Debug)]
#[command(name = "kbc", version, about, propagate_version = true)]
pub struct Cli {
    /// Format of messages about the input.
    #[arg(long, global = true, value_enum, default_value_t = DiagnosticFormat::Human, help_heading = "Messages")]
    pub diagnostics: DiagnosticFormat,
    /// When to colour messages.
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Messages")]
    pub color: ColorChoice,
    /// Prints results, warnings and errors only, without progress and notes.
    #[arg(long, short, global = true, help_heading = "Messages")]
    pub quiet: bool,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Form of diagnostics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DiagnosticFormat {
    /// With the source text and marks under it.
    Human,
    /// `file:line:col: error[CODE]: words`, one per line.
    Short,
    /// One JSON object per line.
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

fn at_least_one() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..)
}

/// Returns the last value of a flag among the words of a command line, which may be invalid
/// otherwise.
fn last_value<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let mut at = words.iter().take_while(|w| *w != "--");
    let mut out = None;
    while let Some(word) = at.next() {
        if let Some(rest) = word.strip_prefix(flag) {
            match rest.strip_prefix('=') {
                Some(value) => out = Some(value),
                None if rest.is_empty() => out = at.next().map(String::as_str),
                None => {}
            }
        }
    }
    out
}

/// Returns the colours that `--color` requests for messages about the command line itself.
pub fn color_of(words: &[String]) -> clap::ColorChoice {
    match last_value(words, "--color") {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}

/// Prints a message about the command line in the form of `--diagnostics` (E416). Returns None if
/// that is the human-readable form, or if it is not an error (`--help`, `--version`).
pub fn usage(e: &clap::Error, words: &[String]) -> Option<String> {
    if !e.use_stderr() {
        return None;
    }
    let text = e.to_string();
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let mut d = Diagnostic::error("E416", lines.next().unwrap_or("").trim_start_matches("error: "));
    for line in lines.filter(|l| !l.starts_with("For more information")) {
        d = match (line.strip_prefix("tip: "), line.starts_with("Usage: ")) {
            (Some(tip), _) => d.help(tip),
            (None, true) => d.note(line),
            // Returns what is missing, and the possible values.
            (None, false) => Diagnostic { title: format!("{} {line}", d.title), ..d },
        };
    }
    match last_value(words, "--diagnostics") {
        Some("short" | "json") => Some(before(&d, words)),
        _ => None,
    }
}

/// Prints a message about the command line, in the form that its words request.
pub fn before(d: &Diagnostic, words: &[String]) -> String {
    let map = SourceMap::default();
    match last_value(words, "--diagnostics") {
        Some("short") => render::short(d, &map) + "\n",
        Some("json") => render::json(d, &map) + "\n",
        _ => render::human(d, &map, false),
    }
}

/// Form of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ReportFormat {
    /// Text for people.
    Human,
    /// One JSON object (docs/report.md).
    Json,
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Prove, execute and time a program, and compare it with the single-device result
    Compile(Compile),
    /// Prove only: the algorithms of a file on many shapes, the schedule of a program, or a kernel
    Check(Check),
    /// Start a folder with an algorithm, a program, a machine and a README
    New(New),
    /// Convert exported PyTorch programs to a `.kb` file
    Import(Import),
    /// Execute and time only, optionally under adversarial conditions
    Run(Run),
    /// Write an HTML page: chunks step by step, timeline, links, critical path, evidence
    Report(MakePage),
    /// Run passes on a `.kir` or `.tile` file
    Opt(Opt),
    /// Format `.kb` and `.kir` files in place
    Fmt(Fmt),
    /// Replay the file that a crash of kbc left
    Replay(Replay),
    /// Explain an error code, a choice of the compiler, or where the time goes
    Explain(Explain),
    /// List the passes with the properties that they need, establish and invalidate
    Passes(Passes),
    /// List algorithms, kernels, topologies, element types and so on
    List(List),
    /// Draw a machine, alone or with the use of its links by a program
    Plot(Plot),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Measure kbc's choice of algorithms, or run the all-reduce of two kernbench files
    Bench(Bench),
    /// Test kbc itself with random programs, schedules and damaged files
    Fuzz(Fuzz),
    /// Compare published figures with those of kbc
    CompareReference(CompareReference),
    /// Compare two algorithms, machines or programs: which is faster where, and why
    Compare(Compare),
    /// Make every figure and table of the documentation again, or check them
    Repro(Repro),
    /// Run a program over machines, sizes, algorithms and memories; each run is checked
    Sweep(Sweep),
    /// Measure the error rate of the checker with small changes of schedules
    Mutate(Mutate),
}

/// What of a file is meant, and with which values.
#[derive(Args, Debug, Clone, Default)]
pub struct Selection {
    /// Sets a parameter: `-D tp=8`; for a check of algorithms `-D p=8`, the number of ranks.
    #[arg(short = 'D', value_name = "NAME=VALUE", help_heading = "Program")]
    pub define: Vec<String>,
    /// Replaces the topology of the program: a shape, `torus(2,3)`, or a machine file,
    /// `machine.yaml`. Or the name of a topology of the file, if it has several.
    #[arg(long, value_name = "SHAPE|FILE|NAME", help_heading = "Program")]
    pub topology: Option<String>,
    /// The mesh, if the file has several.
    #[arg(long, value_name = "NAME", help_heading = "Program")]
    pub mesh: Option<String>,
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
    /// Algorithm of the collectives for which the program names none: `ring`, `ring with (pipeline: 4)`;
    /// repeatable, for collectives of several kinds. For a file of algorithms, the same as
    /// `--algorithm`.
    #[arg(long, value_name = "ALGORITHM", help_heading = "Program")]
    pub using: Vec<String>,
}

impl Selection {
    /// The same as options of the compiler.
    pub fn plain(&self) -> options::Selection {
        let Selection { define, topology, mesh, set, program, algorithm, ranks, using } = self.clone();
        options::Selection { define, topology, mesh, set, program, algorithm, ranks, using }
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

/// `kbc compile`
#[derive(Args, Clone, Debug)]
pub struct Compile {
    /// The input.
    #[command(flatten)]
    pub source: Source,
    /// The target: `sim` executes here; `kbc list targets` lists targets for which kernels are
    /// emitted.
    #[arg(long, default_value = "sim")]
    pub target: String,
    /// Folder for emitted code; by default FILE.TARGET in the working directory, FILE without its
    /// extension.
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<String>,
    /// Format of the report.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
    /// Also times the program with stragglers and slow links: a `.yaml` file with a `perturb`
    /// section, or its content, `{seed: 1, runs: 20, links: [{count: 1, slow: 4}]}`.
    #[arg(long, value_name = "FILE|TEXT")]
    pub perturb: Option<String>,
    /// Also writes an artefact: graph, kir, dot, dot-graph, trace, log; for a target also tile,
    /// cpp; repeatable. Without a path it goes to standard output in place of the report, once the
    /// schedule is proven. `trace=FILE` opens in the Perfetto UI; `log` has one JSON object per
    /// operation. With tile or cpp, a folder is written only if --out names it.
    #[arg(long, value_name = "KIND[=PATH]")]
    pub emit: Vec<String>,
    /// Ranks in a trace or log: `0..8,12`.
    #[arg(long, value_name = "RANKS")]
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

/// `kbc check`
#[derive(Args, Debug)]
pub struct Check {
    /// A `.kb`, `.kir`, `.tile` or `.xml` file, `-` for standard input; PyTorch programs as `.json`
    /// or `.pt2`, or a folder of them. Without a file, the library is checked.
    pub file: Option<String>,
    /// PyTorch programs of the other ranks.
    #[arg(value_name = "MORE")]
    pub more: Vec<String>,
    /// The part of the file.
    #[command(flatten)]
    pub of: Selection,
    /// Contract of an imported schedule: a `.kb` file with one `collective`, over `src` and `dst`
    /// (in place: over `v`).
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub post: Option<String>,
    /// Counts the signals of every algorithm of the file or library, and compares them with one
    /// barrier per round, on 4 and 8 ranks or on `--ranks`; with `--algorithm`, also where its
    /// messages could land instead. For a `.kir` file, prints the use and the form of each array of
    /// signals.
    #[arg(long)]
    pub sync: bool,
    /// The target of a `.tile` text; a2a3 by default.
    #[arg(long)]
    pub target: Option<String>,
    /// Process groups of PyTorch programs.
    #[command(flatten)]
    pub groups: Groups,
    /// Format of the report.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

impl Check {
    /// The part that every verb with a file has.
    pub fn source(&self) -> Source {
        Source { file: self.file.clone().unwrap_or_default(), of: self.of.clone(), post: self.post.clone() }
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

/// `kbc new`
#[derive(Args, Debug)]
pub struct New {
    /// Name of the algorithm, and of the folder.
    pub name: String,
    /// The folder; NAME in the working directory by default.
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<String>,
    /// Replaces the folder even if something in it was not written by kbc, or was edited.
    #[arg(long)]
    pub force: bool,
}

/// `kbc import`
#[derive(Args, Debug)]
pub struct Import {
    /// A folder of PyTorch programs, or the programs of all ranks.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// The `.kb` file; data files are written beside it. `-` is standard output, for programs
    /// without data.
    #[arg(short, long, value_name = "FILE")]
    pub out: String,
    /// Tag of the programs, such as `fwd` in rank0.fwd.model.json, if the folder has several.
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Makes one global program with placements, from ranks that agree up to symmetry.
    #[arg(long)]
    pub lift: bool,
    /// Value of a symbolic size, `-D s77=16`, if the data does not determine it.
    #[arg(short = 'D', value_name = "NAME=N")]
    pub define: Vec<String>,
    /// Process groups and files of weights.
    #[command(flatten)]
    pub groups: Groups,
}

/// `kbc run`
#[derive(Args, Debug)]
pub struct Run {
    /// The input.
    #[command(flatten)]
    pub source: Source,
    /// Seed of interleavings and of generated data.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Runs with stale views, late puts and random interleavings, and several calls at any skew.
    #[arg(long)]
    pub adversarial: bool,
    /// Number of seeds of an adversarial run, starting at `--seed`.
    #[arg(long, default_value_t = 20, requires = "adversarial", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Number of calls in a row.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub calls: Option<u32>,
    /// Times only, without data.
    #[arg(long, conflicts_with_all = ["adversarial", "calls", "seed", "input", "output", "engine", "timings"])]
    pub no_data: bool,
    /// Prints the size of the machine code and the time of the JIT and of the run.
    #[arg(long)]
    pub timings: bool,
    /// Executes only, without timing.
    #[arg(long, conflicts_with_all = ["emit", "trace_ranks"])]
    pub no_time: bool,
    /// Simulates the time of every rank, even if one rank of each orbit could stand for the others.
    #[arg(long, conflicts_with = "no_time")]
    pub every_rank: bool,
    /// Also times the program with stragglers and slow links: a `.yaml` file with a `perturb`
    /// section, or its content, `{seed: 1, runs: 20, links: [{count: 1, slow: 4}]}`.
    #[arg(long, value_name = "FILE|TEXT", conflicts_with = "no_time")]
    pub perturb: Option<String>,
    /// Also writes a record of the timed call: trace (for the Perfetto UI) or log (JSON lines);
    /// repeatable. A log without a path goes to standard output in place of the report.
    #[arg(long, value_name = "KIND[=PATH]")]
    pub emit: Vec<String>,
    /// Ranks in a trace or log: `0..8,12`.
    #[arg(long, value_name = "RANKS")]
    pub trace_ranks: Option<String>,
    /// Format of the report.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
    /// Input and output data.
    #[command(flatten)]
    pub data: Data,
}

/// `kbc report`
#[derive(Args, Debug)]
pub struct MakePage {
    /// A `.kb` program, or a `.kir` schedule with a machine; `-` is standard input.
    pub file: String,
    /// The part of the file.
    #[command(flatten)]
    pub of: Selection,
    /// The HTML file; `-` is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub out: String,
    /// Proves and times only. Execution takes most of the time if tensors are large.
    #[arg(long, conflicts_with_all = ["input", "engine"])]
    pub no_data: bool,
    /// Ranks in the timeline: `0..8,12`; all by default.
    #[arg(long, value_name = "RANKS")]
    pub trace_ranks: Option<String>,
    /// Data of an input: `x=file.npy`, `w=file.npz:key`, `w=file.safetensors:key`.
    #[arg(long, value_name = "NAME=FILE[:KEY]", help_heading = "Data")]
    pub input: Vec<String>,
    /// The engine: machine code (the default), or the interpreter, which defines the results.
    #[arg(long, value_enum, help_heading = "Data")]
    pub engine: Option<EngineChoice>,
}

/// `kbc opt`
#[derive(Args, Debug)]
pub struct Opt {
    /// A `.kir` or `.tile` file; `-` is standard input.
    pub file: String,
    /// The passes: `infer,place` or a named pipeline; by default those that the first line of the
    /// file names (`; kbc: opt -p ..`, as a crash writes it), else `default`. For a `.tile` file
    /// `layout,buffers`, in their own order; all by default.
    #[arg(long, short, value_name = "PASSES")]
    pub passes: Option<String>,
    /// The target of a `.tile` file; a2a3 by default.
    #[arg(long)]
    pub target: Option<String>,
    /// The output file; `-` is standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: String,
    /// A `.kb` file with algorithms in addition to the library; repeatable.
    #[arg(long = "use", value_name = "FILE")]
    pub uses: Vec<String>,
    /// Prints source positions.
    #[arg(long)]
    pub locs: bool,
    /// Format of the output.
    #[arg(long, default_value = "kir", value_parser = ["kir", "dot"])]
    pub emit: String,
    /// Dumps between passes.
    #[command(flatten)]
    pub watch: Watch,
}

/// `kbc fmt`
#[derive(Args, Debug)]
pub struct Fmt {
    /// Files, or folders with `.kb` and `.kir` files; `-` is standard input, formatted to standard
    /// output.
    #[arg(required = true)]
    pub files: Vec<String>,
    /// Writes nothing; exits with 1 and the names of files that are not formatted.
    #[arg(long)]
    pub check: bool,
    /// With --check, also prints the lines that would change.
    #[arg(long, requires = "check")]
    pub diff: bool,
    /// Rewrites old forms of the language to the new ones, and changes nothing else.
    #[arg(long, conflicts_with_all = ["check", "diff"])]
    pub migrate: bool,
}

/// `kbc replay`
#[derive(Args, Debug)]
pub struct Replay {
    /// kbc-crash.kb or kbc-crash.kir.
    pub file: String,
}

/// `kbc explain`
#[derive(Args, Debug)]
pub struct Explain {
    /// An error code (`E021`), or one of: select, placement, overlap, memory, window, traffic,
    /// bound, path, links.
    pub topic: String,
    /// The program, for topics other than error codes.
    pub file: Option<String>,
    /// The part of the file.
    #[command(flatten)]
    pub of: Selection,
    /// The target: its kernel's window (`window`), or its hand-written kernels for comparison
    /// (`traffic`).
    #[arg(long)]
    pub target: Option<String>,
    /// Format of `traffic`, `path` and `links`.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

/// `kbc compare-reference`
#[derive(Args, Debug)]
pub struct CompareReference {
    /// Files of published figures (docs/reference.md), or folders with such files; specs/reference
    /// of kbc's source by default.
    pub files: Vec<String>,
    /// Format of the table.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

/// `kbc passes`
#[derive(Args, Debug)]
pub struct Passes {
    /// A pass, whose page is printed.
    pub name: Option<String>,
    /// Format of the table.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

/// `kbc list`
#[derive(Args, Debug)]
pub struct List {
    /// One of: algorithms (the default), collectives, functions, kernels, operations, dtypes,
    /// reductions, topologies, passes, targets, codes; or the name of an algorithm; then files
    /// whose declarations are listed in addition to the library.
    #[arg(value_name = "WHAT|FILE")]
    pub what: Vec<String>,
    /// For the costs of an algorithm: a size of its shape, or a parameter.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub define: Vec<String>,
    /// Format of the table.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

/// `kbc completions`
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
