//! The command line: subcommands, flags, and messages about wrong arguments.

mod computer;
mod evaluation;
pub mod help;
pub mod messages;
mod plot;
mod shared;
mod trials;

pub use computer::{BenchHost, Calibrate};
pub use evaluation::{Compare, JobKind, Repro, Sweep};
pub use plot::{Picture, Plot, PlotLinks, PlotTopology, PlotTree, PlotWhat, ThemeChoice};
pub use shared::{Data, EngineChoice, Execution, Format, Groups, Selection, Source, Watch};
pub use trials::{
    Bench, BenchCcl, BenchScale, BenchSelect, BenchWhat, Fuzz, FuzzBounds, FuzzChecker, FuzzEmitted,
    FuzzEngines, FuzzRange, FuzzReaders, FuzzSchedules, FuzzWhat, Mutate,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use kbc_compiler::synthesis::{PackedCollective, TreeMethod};

/// A compiler for collective algorithms and tensor-parallel programs.
#[derive(Parser, Debug)]
#[command(name = "kbc", version, about, propagate_version = true)]
#[command(mut_subcommands(hide_old))]
pub struct Cli {
    /// Form of results: text for people, or one JSON object.
    #[arg(hide_short_help = true, long, alias = "report", global = true, value_enum, default_value_t = Format::Human, help_heading = "Messages")]
    pub format: Format,
    /// Form of messages about the input.
    #[arg(hide_short_help = true, long, global = true, value_enum, default_value_t = DiagnosticFormat::Human, help_heading = "Messages")]
    pub diagnostics: DiagnosticFormat,
    /// When to colour messages.
    #[arg(hide_short_help = true, long, global = true, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Messages")]
    pub color: ColorChoice,
    /// Prints results, warnings and errors only.
    ///
    /// Leaves progress and notes out.
    #[arg(hide_short_help = true, long, short, global = true, help_heading = "Messages")]
    pub quiet: bool,
    /// Folder of what kbc keeps from one run to another.
    ///
    /// Comparisons of algorithms, and finished rows of sweeps. By default the folder in KBC_CACHE,
    /// else `kbc` in the user's cache folder.
    #[arg(hide_short_help = true, long, value_name = "DIR", global = true, value_parser = clap::builder::NonEmptyStringValueParser::new(), help_heading = "Cache")]
    pub cache: Option<String>,
    /// Neither reads nor writes that folder.
    #[arg(hide_short_help = true, long, global = true, conflicts_with = "cache", help_heading = "Cache")]
    pub no_cache: bool,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Hides a subcommand of kbc whose spelling is old: those of `dev` without `dev`.
fn hide_old(verb: clap::Command) -> clap::Command {
    let old = ["fuzz", "mutate", "replay", "repro", "bench", "compare-reference"];
    let is_old = old.contains(&verb.get_name());
    if is_old { verb.hide(true) } else { verb }
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

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Prove algorithms on many shapes, the schedule of a program, or a kernel
    Check(Check),
    /// Prove, execute and time a program, and compare it with the single-device result
    Run(Run),
    /// Emit code for a target, or do the same as run
    Compile(Compile),
    /// Compile a program to C, build and run it on this computer, and measure it
    Launch(Launch),
    /// Measure this computer, and write a machine file with its rates
    Calibrate(Calibrate),
    /// Write an HTML page: chunks step by step, timeline, links, critical path, evidence
    Report(MakePage),
    /// Explain an error code, a choice of the compiler, or where the time goes
    Explain(Explain),
    /// List algorithms, kernels, topologies, element types and so on
    List(List),
    /// Start a folder with an algorithm, a program, a machine and a README
    New(New),
    /// Format `.kb` and `.kir` files in place
    Fmt(Fmt),
    /// Run passes on a `.kir` or `.tile` file
    Opt(Opt),
    /// Convert exported PyTorch programs to a `.kb` file
    Import(Import),
    /// Draw a machine, alone, with the use of its links by a program, or with a packed tree
    Plot(Plot),
    /// Compare two algorithms, machines or programs: which is faster where, and why
    Compare(Compare),
    /// Run a program over machines, sizes, algorithms and memories; each run is checked
    Sweep(Sweep),
    /// Write an algorithm for one machine, from trees packed into its links
    Synth(Synth),
    /// Compile a program for the links that are left when some fail, and say what that costs
    Repair(Repair),
    /// Test and measure kbc itself, and replay its crashes
    Dev(Dev),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print or write manual pages
    Man(Man),
    /// The same as `kbc list passes`, for one release.
    #[command(hide = true)]
    Passes(Passes),
    /// The verbs of `dev` without `dev`, for one release. [`Cli`] hides them.
    #[command(flatten)]
    Old(DevVerb),
}

/// `kbc dev`
#[derive(Args, Debug)]
pub struct Dev {
    /// What to do.
    #[command(subcommand)]
    pub verb: DevVerb,
}

/// The verbs about kbc itself.
#[derive(Subcommand, Debug)]
pub enum DevVerb {
    /// Test kbc with random programs, schedules and damaged files
    Fuzz(Fuzz),
    /// Measure the error rate of the checker with small changes of schedules
    Mutate(Mutate),
    /// Replay the file that a crash of kbc left
    Replay(Replay),
    /// Make every figure and table of the documentation again, or check them
    Repro(Repro),
    /// Measure collectives on this computer beside MPI, kbc's choice of algorithms, or kbc itself
    Bench(Bench),
    /// Compare published figures, or measured rows, with those of kbc
    CompareReference(CompareReference),
}

/// `kbc compile`
#[derive(Args, Clone, Debug)]
pub struct Compile {
    /// The verb that was typed: `compile`, or `run`, which is the same for the target `sim`.
    #[arg(skip = "compile")]
    pub verb: &'static str,
    /// The input.
    #[command(flatten)]
    pub source: Source,
    /// The target: `sim` (this computer), or one of `kbc list targets`.
    #[arg(long, default_value = "sim")]
    pub target: String,
    /// End tasks where they would wait for peers; the runtime waits for them.
    ///
    /// A core is free for other tasks while nothing has arrived. Waits in the rounds of an
    /// algorithm stay in its kernel.
    #[arg(hide_short_help = true, long, help_heading = "Output")]
    pub deferred_waits: bool,
    /// What is done with the program.
    #[command(flatten)]
    pub execution: Execution,
}

/// `kbc check`
#[derive(Args, Debug)]
pub struct Check {
    /// What is checked: .kb, .kir, .tile, .xml, PyTorch programs; `-`.
    ///
    /// Without a file, the library is checked. PyTorch programs are `.json` or `.pt2` files, or a
    /// folder of them; `-` is standard input.
    pub file: Option<String>,
    /// PyTorch programs of the other ranks.
    #[arg(value_name = "MORE")]
    pub more: Vec<String>,
    /// The part of the file.
    #[command(flatten)]
    pub of: Selection,
    /// Contract of an imported schedule.
    ///
    /// A `.kb` file with one `collective`, over `src` and `dst` (in place: over `v`).
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub post: Option<String>,
    /// Counts the signals of algorithms, or of a `.kir` file.
    ///
    /// Compares them with one barrier per round, on 4 and 8 ranks or on `--ranks`; with
    /// `--algorithm`, also where its messages could land instead. For a `.kir` file, prints the use
    /// and the form of each array of signals.
    #[arg(long)]
    pub sync: bool,
    /// The target of a `.tile` text; a2a3 by default.
    #[arg(long)]
    pub target: Option<String>,
    /// Process groups of PyTorch programs.
    #[command(flatten)]
    pub groups: Groups,
}

impl Check {
    /// The part that every verb with a file has.
    pub fn source(&self) -> Source {
        Source { file: self.file.clone().unwrap_or_default(), of: self.of.clone(), post: self.post.clone() }
    }
}

/// `kbc new`
#[derive(Args, Debug)]
pub struct New {
    /// Name of the algorithm, and of the folder.
    pub name: String,
    /// The folder; NAME in the working directory by default.
    #[arg(short, long, alias = "out", value_name = "DIR")]
    pub output: Option<String>,
    /// Replaces a folder that kbc did not write, or that was edited.
    #[arg(long)]
    pub force: bool,
}

/// `kbc import`
#[derive(Args, Debug)]
pub struct Import {
    /// A folder of PyTorch programs, or the programs of all ranks.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// The `.kb` file; `-` is standard output.
    ///
    /// Data files are written beside it. Standard output is for programs without data.
    #[arg(short, long, alias = "out", value_name = "FILE")]
    pub output: String,
    /// Tag of the programs, if the folder has several.
    ///
    /// Such as `fwd` in rank0.fwd.model.json.
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Makes one global program with placements.
    ///
    /// From ranks that agree up to symmetry.
    #[arg(long)]
    pub lift: bool,
    /// Value of a symbolic size, if no data determines it: `-D s77=16`.
    #[arg(short = 'D', long, value_name = "NAME=N")]
    pub define: Vec<String>,
    /// Process groups and files of weights.
    #[command(flatten)]
    pub groups: Groups,
}

/// `kbc run`
#[derive(Args, Clone, Debug)]
pub struct Run {
    /// The input.
    #[command(flatten)]
    pub source: Source,
    /// What is done with the program.
    #[command(flatten)]
    pub execution: Execution,
}

impl Run {
    /// Returns the compilation for this computer that does the same.
    pub fn compile(&self) -> Compile {
        let Run { source, execution } = self.clone();
        Compile { verb: "run", source, target: "sim".into(), deferred_waits: false, execution }
    }
}

/// `kbc launch`
#[derive(Args, Debug)]
pub struct Launch {
    /// A `.kb` file; `-` is standard input.
    pub file: String,
    /// The part of the file.
    #[command(flatten)]
    pub of: Selection,
    /// Number of processes; by default that of the ranks of the program.
    ///
    /// It sets the parameter of the file that defines the number of ranks, or `--ranks` of an
    /// algorithm.
    #[arg(short = 'n', value_name = "RANKS", conflicts_with = "ranks", value_parser = clap::value_parser!(u64).range(1..))]
    pub processes: Option<u64>,
    /// Value of the parameter that sizes the data.
    ///
    /// The same as `-D` with the name of that parameter.
    #[arg(short, long, value_name = "COUNT")]
    pub count: Option<u64>,
    /// Checked calls in a row.
    ///
    /// By default 10, or 3 where the program computes.
    #[arg(long, value_name = "CALLS")]
    pub calls: Option<u64>,
    /// Calls in each of 5 measured blocks; 0 measures nothing.
    ///
    /// By default about 20 ms each.
    #[arg(long, value_name = "CALLS")]
    pub repeat: Option<u64>,
    /// Longest that a wait may take.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub limit: u64,
    /// Other inputs.
    #[arg(hide_short_help = true, long, default_value_t = 0, value_name = "SEED")]
    pub seed: u64,
    /// Random delays between checked calls.
    #[arg(hide_short_help = true, long)]
    pub delays: bool,
    /// Keeps every rank on one processor (Linux); launchers of MPI do so themselves.
    #[arg(long, conflicts_with = "mpi")]
    pub bind: bool,
    /// Runs the ranks as processes of MPI, by `MPICC` and `MPIRUN`.
    ///
    /// These environment variables name the compiler and the launcher, which are `mpicc` and
    /// `mpirun` by default, with their arguments: `MPIRUN='mpirun --oversubscribe'`.
    #[arg(long)]
    pub mpi: bool,
    /// Leaves the execution by kbc itself out; the processes compare every element.
    #[arg(long)]
    pub no_data: bool,
    /// Keeps the C in this folder.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<String>,
    /// Replaces a folder that kbc did not write, or that was edited.
    #[arg(hide_short_help = true, long, requires = "output")]
    pub force: bool,
}

/// `kbc report`
#[derive(Args, Debug)]
pub struct MakePage {
    /// A `.kb` program, or a `.kir` schedule with a machine; `-`.
    pub file: String,
    /// The part of the file.
    #[command(flatten)]
    pub of: Selection,
    /// The HTML file; `-` is standard output.
    #[arg(short, long, alias = "out", value_name = "FILE", default_value = "report.html")]
    pub output: String,
    /// Leaves the execution out: proves and times only.
    ///
    /// Execution takes most of the time if tensors are large.
    #[arg(long, conflicts_with_all = ["input", "engine"])]
    pub no_data: bool,
    /// Ranks in the timeline: `0..8,12`; all by default.
    #[arg(long, value_name = "RANKS")]
    pub trace_ranks: Option<String>,
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
}

/// `kbc synth`
#[derive(Args, Debug)]
pub struct Synth {
    /// The machine: `torus(2, 3)`, or a file, `machine.yaml`.
    #[arg(value_name = "SHAPE|FILE")]
    pub machine: String,
    /// The collective, over all devices.
    #[arg(value_name = "COLLECTIVE", value_parser = packed_collective())]
    pub collective: PackedCollective,
    /// The `.kb` file; `-` is standard output. Without it, only the summary is printed.
    ///
    /// A file with the ending `.kir` gets the schedule of the program in the `.kb` file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
    /// Sets a property of the machine: `forward: drain`.
    ///
    /// Also the rate of some links: `link x: 5 GB/s, 1 us`; repeatable.
    #[arg(long = "set", value_name = "SETTING")]
    pub set: Vec<String>,
    /// The root of a broadcast or a reduce; 0 by default.
    #[arg(long, value_name = "RANK")]
    pub root: Option<u64>,
    /// Where trees come from: packed at the best rate, or matched greedily for low latency.
    ///
    /// `trees` are packed and `greedy` ones are matched. `spanning` is a number of spanning trees
    /// of an all_reduce, which may pass switches. By default whichever is fastest for `--bytes`, by
    /// an estimate; packed ones if `--trees` or `--pieces` is given.
    #[arg(long, value_name = "METHOD", value_parser = tree_method())]
    pub method: Option<TreeMethod>,
    /// Trees per root; of an all_reduce by another method than `trees`, all trees.
    ///
    /// By default as many packed trees as reach the best rate. If those are more than 16, the least
    /// number that reaches 99 % of it. With this option an all_reduce of packed trees is a
    /// reduce_scatter and an all_gather.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub trees: Option<u64>,
    /// Pieces into which the data of each tree is cut.
    ///
    /// More pieces keep links busy, fewer have less latency. By default what is fastest for
    /// `--bytes`, by an estimate.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub pieces: Option<u64>,
    /// Lanes, side by side, into which the program of the file cuts every piece; at most 64.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub instances: u64,
    /// Bytes of the whole vector, for which pieces are chosen and messages are ordered.
    #[arg(long, value_name = "N", default_value_t = 64 << 20)]
    pub bytes: u64,
    /// Prints the fastest plan for each size from 1 KiB to 1 GiB.
    #[arg(long)]
    pub sizes: bool,
}

/// `kbc repair`
#[derive(Args, Debug)]
pub struct Repair {
    /// The program.
    pub file: String,
    /// What fails: a link `(0,1)->(0,2)`, both directions `(0,1)<->(0,2)`, or a device `(0,1)`;
    /// repeatable.
    #[arg(long, value_name = "LINK|DEVICE", required = true)]
    pub fail: Vec<String>,
    /// The part of the file.
    #[command(flatten)]
    pub of: Selection,
}

/// Returns the parser of the names of collectives that can be synthesised.
fn packed_collective() -> impl TypedValueParser<Value = PackedCollective> {
    let named = |name: String| PackedCollective::ALL.into_iter().find(|c| c.name() == name);
    PossibleValuesParser::new(PackedCollective::ALL.map(PackedCollective::name))
        .try_map(move |name| named(name).ok_or("not a collective that can be synthesised"))
}

/// Returns the parser of the names of methods of synthesis.
fn tree_method() -> impl TypedValueParser<Value = TreeMethod> {
    let named = |name: String| TreeMethod::ALL.into_iter().find(|m| m.name() == name);
    PossibleValuesParser::new(TreeMethod::ALL.map(TreeMethod::name))
        .try_map(move |name| named(name).ok_or("not a method of synthesis"))
}

/// `kbc opt`
#[derive(Args, Debug)]
pub struct Opt {
    /// A `.kir` or `.tile` file; `-` is standard input.
    pub file: String,
    /// The passes: `infer,place`, or a named pipeline.
    ///
    /// By default those that the first line of the file names (`; kbc: opt -p ..`, as a crash
    /// writes it), else `default`. For a `.tile` file `layout,buffers`, in their own order; all by
    /// default.
    #[arg(long, short, value_name = "PASSES")]
    pub passes: Option<String>,
    /// The target of a `.tile` file; a2a3 by default.
    #[arg(long)]
    pub target: Option<String>,
    /// The output file; `-` is standard output.
    #[arg(long, short, alias = "out", value_name = "FILE", default_value = "-")]
    pub output: String,
    /// A `.kb` file with further algorithms; repeatable.
    #[arg(long = "use", value_name = "FILE")]
    pub uses: Vec<String>,
    /// A value of a parameter of these files: `-D fan=3`; repeatable.
    ///
    /// A graph names its algorithms and does not hold the parameters that they see. Give the values
    /// with which it was compiled.
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE")]
    pub define: Vec<String>,
    /// Prints source positions.
    #[arg(long)]
    pub locs: bool,
    /// Form of the output.
    #[arg(long, default_value = "kir", value_parser = ["kir", "json", "dot"])]
    pub emit: String,
    /// Dumps between passes.
    #[command(flatten)]
    pub watch: Watch,
}

/// `kbc fmt`
#[derive(Args, Debug)]
pub struct Fmt {
    /// Files, or folders with `.kb` and `.kir` files; `-`.
    ///
    /// `-` is standard input, formatted to standard output.
    #[arg(required = true)]
    pub files: Vec<String>,
    /// Writes nothing; exits with 1 if a file is not formatted.
    ///
    /// Prints the names of these files.
    #[arg(long)]
    pub check: bool,
    /// With --check, also prints the lines that would change.
    #[arg(long, requires = "check")]
    pub diff: bool,
    /// Rewrites old forms of the language to the new ones, and changes nothing else.
    #[arg(long, conflicts_with_all = ["check", "diff"])]
    pub migrate: bool,
}

/// `kbc dev replay`
#[derive(Args, Debug)]
pub struct Replay {
    /// kbc-crash.kb or kbc-crash.kir.
    pub file: String,
}

/// `kbc explain`
#[derive(Args, Debug)]
pub struct Explain {
    /// A code (`E021`), or a topic.
    ///
    /// The topics are: select, placement, overlap, memory, window, traffic, bound, path, links,
    /// order.
    pub topic: String,
    /// The program, for topics other than codes.
    pub file: Option<String>,
    /// The part of the file.
    #[command(flatten)]
    pub of: Selection,
    /// The target, for `window` and `traffic`.
    ///
    /// Its kernel's window (`window`), or its hand-written kernels for comparison (`traffic`).
    #[arg(long)]
    pub target: Option<String>,
    /// Another size at which the order of additions is looked at, for `order`; repeatable.
    #[arg(long, value_name = "NAME=VALUE")]
    pub also: Vec<String>,
    /// Fail unless every element has one order of additions at all sizes, for `order`.
    #[arg(long)]
    pub fixed: bool,
}

/// `kbc dev compare-reference`
#[derive(Args, Debug)]
pub struct CompareReference {
    /// Files of published figures, or folders with such files.
    ///
    /// docs/reference/published-figures.md has their form; specs/reference of kbc's source by
    /// default. A `.csv` file has rows of `kbc dev bench host`.
    pub files: Vec<String>,
    /// The machine of measured rows: a shape, or a machine file.
    #[arg(long, value_name = "SHAPE|FILE")]
    pub topology: Option<String>,
}

/// `kbc list passes`
#[derive(Args, Debug)]
pub struct Passes {
    /// A pass, whose page is printed.
    pub name: Option<String>,
}

/// `kbc list`
#[derive(Args, Debug)]
pub struct List {
    /// A list, or an algorithm, `'ring(d: -1)'`; then files.
    ///
    /// The lists are: algorithms (the default), collectives, functions, kernels, programs,
    /// namespaces, operations, dtypes, reductions, topologies, passes, targets, codes. Declarations
    /// of the files are listed in addition to the library. An algorithm is named as for
    /// `--algorithm`. After `passes`, the name of a pass prints its page.
    #[arg(value_name = "WHAT|ALGORITHM|FILE")]
    pub what: Vec<String>,
    /// For costs of an algorithm: a size of its shape, or a parameter.
    #[arg(short = 'D', long, value_name = "NAME=VALUE")]
    pub define: Vec<String>,
    /// For costs of an algorithm: its number of ranks.
    #[arg(long, value_name = "RANKS")]
    pub ranks: Option<String>,
}

/// `kbc completions`
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `kbc man`
#[derive(Args, Debug)]
pub struct Man {
    /// The command whose page is printed: `compile`, `dev fuzz`.
    ///
    /// kbc itself by default.
    pub command: Vec<String>,
    /// Writes the pages of all commands into a folder.
    #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
    pub output: Option<String>,
}
