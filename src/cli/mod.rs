//! The command line: verbs, flags, what is said about wrong ones, and nothing else.

mod evaluation;
mod plot;
mod trials;

pub use evaluation::{Compare, Repro, Sweep};
pub use plot::{Picture, Plot, PlotLinks, PlotTopology, PlotWhat, ThemeChoice};
pub use trials::{
    Bench, BenchCcl, BenchSelect, BenchWhat, Fuzz, FuzzBounds, FuzzChecker, FuzzEmitted, FuzzEngines,
    FuzzRange, FuzzReaders, FuzzSchedules, FuzzWhat, Mutate,
};

use crate::engine::Engine;
use clap::{Args, Parser, Subcommand, ValueEnum};
use kbc_diag::{Diagnostic, SourceMap, render};

/// A compiler for collective algorithms and tensor-parallel programs.
#[derive(Parser, Debug)]
#[command(name = "kbc", version, about, propagate_version = true)]
pub struct Cli {
    /// How messages about the input are written.
    #[arg(long, global = true, value_enum, default_value_t = DiagnosticFormat::Human, help_heading = "Messages")]
    pub diagnostics: DiagnosticFormat,
    /// Colours in messages.
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, help_heading = "Messages")]
    pub color: ColorChoice,
    /// No progress and no notes, only results, warnings and errors.
    #[arg(long, short, global = true, help_heading = "Messages")]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Form of diagnostics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DiagnosticFormat {
    /// With the source text and marks under it.
    Human,
    /// `file:line:col: error[CODE]: words`, one a line.
    Short,
    /// One JSON object a line.
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

/// The last value of a flag among the words of a command line, which need not be right otherwise.
fn said<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
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

/// The colours that `--color` asks for in messages about the command line itself.
pub fn color_of(words: &[String]) -> clap::ColorChoice {
    match said(words, "--color") {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}

/// A message about the command line in the form that `--diagnostics` asks for (E416); none where that is the one for
/// people, or where it is no error (`--help`, `--version`).
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
            // What is missing, and the values there are.
            (None, false) => Diagnostic { title: format!("{} {line}", d.title), ..d },
        };
    }
    match said(words, "--diagnostics") {
        Some("short" | "json") => Some(before(&d, words)),
        _ => None,
    }
}

/// A message about the command line, in the form that its words ask for.
pub fn before(d: &Diagnostic, words: &[String]) -> String {
    let map = SourceMap::default();
    match said(words, "--diagnostics") {
        Some("short") => render::short(d, &map) + "\n",
        Some("json") => render::json(d, &map) + "\n",
        _ => render::human(d, &map, false),
    }
}

/// Form of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Human,
    /// One JSON object (docs/report.md).
    Json,
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Prove, execute, time and compare with the single-device result
    Compile(Compile),
    /// Prove only: the algorithms of a file on many shapes, a program's schedule, or a kernel as text
    Check(Check),
    /// Make a `.kb` file of exported PyTorch programs
    Import(Import),
    /// Simulate only: `.kb` or `.kir`
    Run(Run),
    /// One HTML page about a program or schedule: timeline, links, critical path, chunks step by step, evidence
    Report(MakePage),
    /// Run passes on a `.kir` or `.tile` file
    Opt(Opt),
    /// Bring `.kb` and `.kir` files into their one form, in place
    Fmt(Fmt),
    /// Replay the file a crash of kbc left
    Replay(Replay),
    /// What an error code means, or why the compiler chose what it chose
    Explain(Explain),
    /// The passes and what they need, give and break
    Passes(Passes),
    /// What there is: algorithms, kernels, topologies, dtypes, ..
    List(List),
    /// A machine as a picture, alone or with what a program makes of its links
    Plot(Plot),
    /// A script that completes kbc's verbs and flags in a shell
    Completions(Completions),
    /// Measurements: kbc's choice of algorithms, and the all-reduce benchmark of two kernbench files
    Bench(Bench),
    /// Random programs on both engines, compared bit for bit
    Fuzz(Fuzz),
    /// Published figures beside ours
    CompareReference(CompareReference),
    /// Two algorithms, machines or programs: who wins where, and why
    Compare(Compare),
    /// Every figure and table of the documentation, made again or held against what is there
    Repro(Repro),
    /// Many runs over axes: machines, sizes, algorithms, memories; each one checked
    Sweep(Sweep),
    /// The checker's own error rate: small wrong changes of schedules, judged by it and by running them
    Mutate(Mutate),
}

/// What of a file is meant, and with which values.
#[derive(Args, Debug, Clone, Default)]
pub struct Selection {
    /// Overrides a parameter: `-D tp=8`; where algorithms are checked `-D p=8`, the number of ranks.
    #[arg(short = 'D', value_name = "NAME=VALUE", help_heading = "Program")]
    pub define: Vec<String>,
    /// Replaces the shape of the program's topology: `torus(2,3)`; or a machine file, `machine.yaml`.
    #[arg(long, value_name = "SHAPE|FILE", help_heading = "Program")]
    pub topology: Option<String>,
    /// Overrides a setting of the machine, or the rate of some links: `forward: drain`, `link x: 5 GB/s, 1 us`; repeatable.
    #[arg(long = "set", value_name = "SETTING", help_heading = "Program")]
    pub set: Vec<String>,
    /// The program to take, if the file has several.
    #[arg(long, value_name = "NAME", help_heading = "Program")]
    pub program: Option<String>,
    /// The algorithm to take as program, with its arguments, if the file has no program: `my_ring`, `'my_ring(d: -1)'`; to check,
    /// those of that name, also with ranges of arguments: `'my_ring(k: 1..4)'`.
    #[arg(long, value_name = "ALGORITHM", help_heading = "Program")]
    pub algorithm: Option<String>,
    /// Ranks to compile an algorithm for, or to check algorithms on: `8`, to check also `2..9,16`.
    #[arg(long, value_name = "RANKS", help_heading = "Program")]
    pub ranks: Option<String>,
    /// The algorithm of collectives for which the program names none: `ring`, `ring(pipeline: 4)`; repeatable, where there are
    /// collectives of several kinds. For a file of algorithms the same as `--algorithm`.
    #[arg(long, value_name = "ALGORITHM", help_heading = "Program")]
    pub using: Vec<String>,
}

impl Selection {
    /// The flags that were given, for places where one means nothing.
    pub fn given(&self) -> [(&'static str, bool); 7] {
        [
            ("-D", !self.define.is_empty()),
            ("--topology", self.topology.is_some()),
            ("--set", !self.set.is_empty()),
            ("--program", self.program.is_some()),
            ("--algorithm", self.algorithm.is_some()),
            ("--ranks", self.ranks.is_some()),
            ("--using", !self.using.is_empty()),
        ]
    }
}

/// What is compiled.
#[derive(Args, Debug, Clone)]
pub struct Source {
    /// A `.kb` file, or an MSCCL schedule (`.xml`); to compile also a PyTorch program, whose other ranks are beside it, or a
    /// folder of them. `-` is standard input.
    pub file: String,
    /// What of it.
    #[command(flatten)]
    pub of: Selection,
    /// What an imported schedule has to do: a `.kb` file with one `collective`, over `src` and `dst` (in place over `v`).
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub post: Option<String>,
}

/// Printing between passes.
#[derive(Args, Debug, Clone, Default)]
pub struct Watch {
    /// Prints the module after a pass (or `all`) to standard error; repeatable. Where a target is emitted also the kernel: after
    /// tile (as it is lowered), layout, buffers, fences, flags.
    #[arg(long, value_name = "PASS", help_heading = "Passes")]
    pub print_after: Vec<String>,
    /// Prints the module after every pass that changed it.
    #[arg(long, help_heading = "Passes")]
    pub print_changed: bool,
    /// Writes the module before the first and after every pass into a folder: 00-input.kir, 01-infer.kir, ..
    #[arg(long, value_name = "DIR", help_heading = "Passes")]
    pub dump_dir: Option<String>,
    /// Replaces a dump folder or the folder of emitted code even if something in it was not written by kbc, or was edited.
    #[arg(long, help_heading = "Passes")]
    pub force: bool,
    /// Prints the time of every pass, of compiling to machine code and of running, and what was compiled.
    #[arg(long, help_heading = "Passes")]
    pub timings: bool,
}

/// Data in and out.
#[derive(Args, Debug, Clone, Default)]
pub struct Data {
    /// Data of an input: `x=file.npy`, `w=file.npz:key`, `w=file.safetensors:key`.
    #[arg(long, value_name = "NAME=FILE[:KEY]", help_heading = "Data")]
    pub input: Vec<String>,
    /// What executes: machine code, which is the default, or the interpreter that it has to agree with.
    #[arg(long, value_enum, help_heading = "Data")]
    pub engine: Option<Engine>,
    /// Writes a result (rank 0's view of the global value): `y=file.npy` (or .npz, .safetensors).
    #[arg(long, value_name = "NAME=FILE", help_heading = "Data")]
    pub output: Vec<String>,
}

/// `kbc compile`
#[derive(Args, Clone, Debug)]
pub struct Compile {
    /// What is compiled.
    #[command(flatten)]
    pub source: Source,
    /// What to compile for: sim executes here; kbc list targets has those for which kernels are emitted.
    #[arg(long, default_value = "sim")]
    pub target: String,
    /// Folder for emitted code; where nothing is said FILE.TARGET in the working directory, FILE without its ending.
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<String>,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
    /// Also times it with stragglers and slow links: a `.yaml` file with a `perturb` section, or its content,
    /// `{seed: 1, runs: 20, links: [{count: 1, slow: 4}]}`.
    #[arg(long, value_name = "FILE|TEXT")]
    pub perturb: Option<String>,
    /// Also writes an artefact: graph, kir, dot, dot-graph, trace, log; of a target's kernel: tile, cpp; repeatable. Without a
    /// path it goes to standard output in place of the report, once the schedule is proven. `trace=FILE` opens in the
    /// Perfetto UI, `log` has one JSON object an operation. With tile or cpp a folder is written only if --out names it.
    #[arg(long, value_name = "KIND[=PATH]")]
    pub emit: Vec<String>,
    /// Ranks of a trace or log: `0..8,12`.
    #[arg(long, value_name = "RANKS")]
    pub trace_ranks: Option<String>,
    /// The pipeline to run instead of the default one.
    #[arg(long, short, value_name = "PASSES", default_value = "default", help_heading = "Passes")]
    pub passes: String,
    /// What is printed between passes.
    #[command(flatten)]
    pub watch: Watch,
    /// Data in and out.
    #[command(flatten)]
    pub data: Data,
    /// Who is in groups of PyTorch programs.
    #[command(flatten)]
    pub groups: Groups,
}

/// `kbc check`
#[derive(Args, Debug)]
pub struct Check {
    /// A `.kb`, `.kir`, `.tile` or `.xml` file, `-` for standard input; PyTorch programs as `.json` or `.pt2`, or a folder of
    /// them; without one the library is checked.
    pub file: Option<String>,
    /// PyTorch programs of the other ranks.
    #[arg(value_name = "MORE")]
    pub more: Vec<String>,
    /// What of it.
    #[command(flatten)]
    pub of: Selection,
    /// What an imported schedule has to do: a `.kb` file with one `collective`, over `src` and `dst` (in place over `v`).
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub post: Option<String>,
    /// Counts the signals of every algorithm of the file, or of the library, against a barrier a round: on 4 and 8 ranks, or
    /// as many as `--ranks` says; with `--algorithm` also where its messages could land otherwise. Of a `.kir` file, what each
    /// array of signals does in a call, with its form.
    #[arg(long)]
    pub sync: bool,
    /// What a `.tile` text is verified for; a2a3 if nothing is said.
    #[arg(long)]
    pub target: Option<String>,
    /// Who is in groups of PyTorch programs.
    #[command(flatten)]
    pub groups: Groups,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

impl Check {
    /// The part that every verb with a file has.
    pub fn source(&self) -> Source {
        Source { file: self.file.clone().unwrap_or_default(), of: self.of.clone(), post: self.post.clone() }
    }
}

/// Groups of PyTorch programs that no file says.
#[derive(Args, Clone, Default, Debug)]
pub struct Groups {
    /// Who is in a group of PyTorch programs: `7=0-3`, `7=0,2`; again for another group of the same name. Wins over
    /// groups.json.
    #[arg(long, value_name = "NAME=RANKS", help_heading = "Program")]
    pub group: Vec<String>,
    /// Weights of PyTorch programs, where their archives have a pickle that is not read: an `.npz` or `.safetensors` with the
    /// names of the model, `*` in it for the rank.
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub weights: Option<String>,
    /// The unsharded model of PyTorch programs, exported for one rank: both are evaluated on the same inputs, and results
    /// compared.
    #[arg(long, value_name = "FOLDER|FILE", help_heading = "Program")]
    pub reference: Option<String>,
}

impl Groups {
    /// Names with members.
    ///
    /// # Errors
    /// E413: what is not of that form.
    pub fn parsed(&self) -> Result<Vec<(String, Vec<u64>)>, Diagnostic> {
        let one = |text: &String| {
            let wrong = || {
                Diagnostic::error("E413", format!("--group {text} is not NAME=RANKS"))
                    .help("write --group 7=0-3, or --group 7=0,2")
            };
            let (name, list) = text.split_once('=').filter(|p| !p.0.is_empty()).ok_or_else(wrong)?;
            let mut members = vec![];
            for part in list.split(',') {
                let (from, to) = part.split_once('-').unwrap_or((part, part));
                let number =
                    |w: &str| w.trim().parse::<u64>().ok().filter(|n| *n < 1 << 16).ok_or_else(wrong);
                members.extend(number(from)?..=number(to)?);
            }
            let different: std::collections::BTreeSet<&u64> = members.iter().collect();
            if members.is_empty() || different.len() != members.len() {
                return Err(wrong());
            }
            Ok((name.to_owned(), members))
        };
        self.group.iter().map(one).collect()
    }
}

/// `kbc import`
#[derive(Args, Debug)]
pub struct Import {
    /// A folder of PyTorch programs, or the programs of all ranks.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// The `.kb` file; its data files are written beside it. `-` is standard output, for programs that need none.
    #[arg(short, long, value_name = "FILE")]
    pub out: String,
    /// Programs of this tag, `fwd` in rank0.fwd.model.json, where a folder has several.
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// One global program, with placements on its arguments, of ranks that agree up to symmetry.
    #[arg(long)]
    pub lift: bool,
    /// What a symbol of the programs' sizes is, `-D s77=16`, where the data beside them does not say it.
    #[arg(short = 'D', value_name = "NAME=N")]
    pub define: Vec<String>,
    /// Who is in groups, and files of weights.
    #[command(flatten)]
    pub groups: Groups,
}

/// `kbc run`
#[derive(Args, Debug)]
pub struct Run {
    /// What is compiled.
    #[command(flatten)]
    pub source: Source,
    /// Seed of interleavings and of generated data.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Stale views, late puts, random interleavings; several calls at any skew.
    #[arg(long)]
    pub adversarial: bool,
    /// How many seeds an adversarial run tries, from `--seed` on.
    #[arg(long, default_value_t = 20, requires = "adversarial", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Calls in a row.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub calls: Option<u32>,
    /// Time only.
    #[arg(long, conflicts_with_all = ["adversarial", "calls", "seed", "input", "output", "engine", "timings"])]
    pub no_data: bool,
    /// Prints what was compiled to machine code, and how long compiling and running took.
    #[arg(long)]
    pub timings: bool,
    /// Data only.
    #[arg(long, conflicts_with_all = ["emit", "trace_ranks"])]
    pub no_time: bool,
    /// Simulates the time of every rank, also where one of each orbit stands for the others.
    #[arg(long, conflicts_with = "no_time")]
    pub every_rank: bool,
    /// Also times it with stragglers and slow links: a `.yaml` file with a `perturb` section, or its content,
    /// `{seed: 1, runs: 20, links: [{count: 1, slow: 4}]}`.
    #[arg(long, value_name = "FILE|TEXT", conflicts_with = "no_time")]
    pub perturb: Option<String>,
    /// Also writes a record of the timed call: trace (for the Perfetto UI) or log (JSON lines); repeatable. A log without
    /// a path goes to standard output in place of the report.
    #[arg(long, value_name = "KIND[=PATH]")]
    pub emit: Vec<String>,
    /// Ranks of a trace or log: `0..8,12`.
    #[arg(long, value_name = "RANKS")]
    pub trace_ranks: Option<String>,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
    /// Data in and out.
    #[command(flatten)]
    pub data: Data,
}

/// `kbc report`
#[derive(Args, Debug)]
pub struct MakePage {
    /// A `.kb` program, or a `.kir` schedule with a machine; `-` is standard input.
    pub file: String,
    /// What of it.
    #[command(flatten)]
    pub of: Selection,
    /// The page; `-` is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub out: String,
    /// Proves and times only: nothing is executed and compared, which takes most of the time where tensors are large.
    #[arg(long, conflicts_with_all = ["input", "engine"])]
    pub no_data: bool,
    /// Ranks of the timeline: `0..8,12`; all if nothing is said.
    #[arg(long, value_name = "RANKS")]
    pub trace_ranks: Option<String>,
    /// Data of an input: `x=file.npy`, `w=file.npz:key`, `w=file.safetensors:key`.
    #[arg(long, value_name = "NAME=FILE[:KEY]", help_heading = "Data")]
    pub input: Vec<String>,
    /// What executes: machine code, which is the default, or the interpreter that it has to agree with.
    #[arg(long, value_enum, help_heading = "Data")]
    pub engine: Option<Engine>,
}

/// `kbc opt`
#[derive(Args, Debug)]
pub struct Opt {
    /// A `.kir` or `.tile` file; `-` is standard input.
    pub file: String,
    /// The passes: `infer,place` or a named pipeline; without it those the file's first line names (`; kbc: opt -p ..`,
    /// as a crash writes it), else `default`. Of a `.tile` file: `layout,buffers`, in their own order; all if nothing is said.
    #[arg(long, short, value_name = "PASSES")]
    pub passes: Option<String>,
    /// What the passes of a `.tile` file are for; a2a3 if nothing is said.
    #[arg(long)]
    pub target: Option<String>,
    /// Where the result goes; `-` is standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: String,
    /// A `.kb` file whose algorithms may be used beside the library's; repeatable.
    #[arg(long = "use", value_name = "FILE")]
    pub uses: Vec<String>,
    /// Prints source positions.
    #[arg(long)]
    pub locs: bool,
    /// What to write: kir or dot.
    #[arg(long, default_value = "kir", value_parser = ["kir", "dot"])]
    pub emit: String,
    /// What is printed between passes.
    #[command(flatten)]
    pub watch: Watch,
}

/// `kbc fmt`
#[derive(Args, Debug)]
pub struct Fmt {
    /// Files, or folders with all `.kb` and `.kir` files in them; `-` is standard input, its form goes to standard
    /// output.
    #[arg(required = true)]
    pub files: Vec<String>,
    /// Writes nothing: exit code 1 and the names of the files that are not in their form.
    #[arg(long)]
    pub check: bool,
    /// With --check, also prints the lines that would change.
    #[arg(long, requires = "check")]
    pub diff: bool,
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
    /// An error code (E021), or one of: select, placement, overlap, memory, window, traffic, bound, path, links.
    pub topic: String,
    /// The program, for a topic that is about one.
    pub file: Option<String>,
    /// What of it.
    #[command(flatten)]
    pub of: Selection,
    /// Shows the window of the kernel that is emitted for a target (`window`), or the hand-written kernels of a target beside it (`traffic`).
    #[arg(long)]
    pub target: Option<String>,
    /// Form of `traffic`, `path` and `links`.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

/// `kbc compare-reference`
#[derive(Args, Debug)]
pub struct CompareReference {
    /// Files of published figures (docs/reference.md), or folders with such files; specs/reference of kbc's source if nothing is
    /// said.
    pub files: Vec<String>,
    /// Form of the table.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

/// `kbc passes`
#[derive(Args, Debug)]
pub struct Passes {
    /// One pass, with its page.
    pub name: Option<String>,
    /// Form of the table.
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub report: ReportFormat,
}

/// `kbc list`
#[derive(Args, Debug)]
pub struct List {
    /// One of: algorithms (if nothing is said), collectives, functions, kernels, operations, dtypes, reductions, topologies,
    /// passes, targets, codes; or the name of an algorithm; behind it, files whose declarations are listed beside the
    /// library's.
    #[arg(value_name = "WHAT|FILE")]
    pub what: Vec<String>,
    /// With the name of an algorithm: a size of its shape or a parameter, for its costs.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub define: Vec<String>,
    /// Form of the table.
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
