//! The all-reduce of `kbc dev bench ccl`: a `ccl.yaml` and a machine (`topology.yaml`) as a
//! program, an algorithm with arguments, and settings of the machine's queues.
//!
//! The module decides what becomes of every key of the two files, and warns about keys without
//! effect. [`kbc_frontend::machine`] reads the files. The names of algorithms are data
//! (`specs/kernbench/ccl.kb`).

use kbc_compiler::arguments::{self, Argument};
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::options::{Selection, Source};
use kbc_compiler::workspace::Workspace;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Severity, Span, Spanned};
use kbc_frontend::load::load;
use kbc_frontend::machine;
use kbc_frontend::machine::ccl::{self, Backpressure, Overrides, Run, RunRanks};
use kbc_machine::topology::queue::Backpressure as Sending;
use kbc_machine::topology::{Settings, Shape, Topology};
use kbc_rounds::ast::AlgorithmDecl;

/// The algorithms of the benchmark. The name appears in messages that point into them.
const ALGORITHMS: (&str, &str) = ("<kernbench>/ccl.kb", include_str!("../../../../specs/kernbench/ccl.kb"));

/// Name of the generated program.
const PROGRAM: &str = "<bench ccl>";

/// Cost model of slots if the topology states none: the cost of their memory
/// (docs/reference/machine.md, `queue`).
const MODEL: usize = 1;

/// Largest number of PEs for which a sum of f16 zeros and ones is exact.
const EXACT: u64 = 1 << 11;

/// Interval in ns at which a sender polls, if the topology does not state it. Neither file has a
/// key for it.
const POLL_NS: f64 = 10.0;

/// The PEs that take part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeSelection {
    /// One PE of every SIP.
    Sip,
    /// One PE of every cube of every SIP.
    Cube,
    /// All PEs of every SIP.
    All,
    /// The first PEs of SIP 0.
    Pe,
}

/// Numbers of SIPs, cubes and PEs of the machine.
struct Counts {
    sips: Shape,
    /// Rows and columns.
    cubes: [u32; 2],
    /// Of a cube.
    pes: u32,
}

impl Counts {
    fn sips(&self) -> u64 {
        self.sips.sizes().iter().map(|n| u64::from(*n)).product()
    }

    fn of_a_sip(&self) -> u64 {
        self.cubes.iter().map(|n| u64::from(*n)).product::<u64>() * u64::from(self.pes)
    }

    /// Columns of the SIPs; a ring is one row.
    fn columns(&self) -> u64 {
        self.sips.sizes().last().map_or(1, |n| u64::from(*n))
    }
}

/// A run that is ready to be built.
pub struct PreparedBench {
    /// Values from the file.
    pub run: Run,
    /// The algorithm with its arguments.
    pub algorithm: String,
    /// The PEs that take part.
    pub part: PeSelection,
    /// PEs that take part for each rank of the report.
    pub each: u64,
    /// PEs of a cube.
    pub pes: u64,
    /// The program and its machine.
    pub source: Source,
}

/// Inputs of a benchmark.
#[derive(Clone, Debug, Default)]
pub struct CclOptions {
    /// The machine: a kernbench topology.yaml, or `package(ring(6), mesh(4, 4), 8)`.
    pub topology: String,
    /// The benchmark: a kernbench ccl.yaml.
    pub ccl: String,
    /// Keys of the ccl.yaml, each as `KEY=VALUE`.
    pub define: Vec<String>,
    /// Settings of the machine.
    pub set: Vec<String>,
    /// Files with algorithms that an entry may name.
    pub using: Vec<String>,
}

/// Reads the files, builds the program, and reports keys without effect.
///
/// # Errors
/// Returns the errors of reading; E464 for a machine without SIPs; E467 if the machine or the
/// algorithm cannot have that many ranks; E005 for an unknown algorithm; the errors of `-D`.
pub fn prepare(workspace: &mut Workspace, args: &CclOptions) -> Outcome<PreparedBench> {
    let set = arguments::settings(workspace, &args.set)?;
    if set.settings.package.ranks.is_some() {
        let d = Diagnostic::error(
            "E416",
            "--set ranks does not apply here: the files and their algorithm define the ranks",
        );
        return Err(Failure::Usage(d.help("write -D ranks=pe or -D ranks=sip").into()));
    }
    let (file, text) = workspace.read(&args.ccl)?;
    let said = ccl::read(&text, file)?;
    workspace.report(&said.warnings);
    let mut asked = Overrides::default();
    for (name, value) in arguments::defines(&args.define)? {
        let text = format!("{name}={value}");
        let at = workspace.add_text("<-D>", &text);
        let spanned = |t: &str, lo: usize| Spanned::new(t.to_owned(), Span::new(at, lo, lo + t.len()));
        asked.set(&spanned(&name, 0), &spanned(&value, name.len() + 1))?;
    }
    let (counts, settings) = machine(workspace, &args.topology)?;
    let run = said.run(counts.sips(), counts.of_a_sip(), &asked)?;
    let mut told = Diagnostics::new();
    for note in &run.notes {
        let mut d = Diagnostic::warning("E467", note.clone());
        d.severity = Severity::Note;
        told.push(run.at("world_size").into_iter().fold(d, |d, at| d.primary(at, "given here")));
    }
    workspace.give(ALGORITHMS.0, ALGORITHMS.1);
    let uses: Vec<String> =
        args.using.iter().map(String::as_str).chain([ALGORITHMS.0]).map(|f| format!("use {f:?}\n")).collect();
    let uses = uses.concat();
    let (decl, exchanges) = find(workspace, &uses, &run, &mut told)?;
    let part = part(&decl, &run, &counts)?;
    if has(&decl, "exchange") {
        told.extend(exchange(&run, &counts, &exchanges)?);
    }
    let using = arguments(&decl, &run, &counts)?;
    told.extend(idle(&decl, &run, &counts));
    workspace.report(&told);
    let queues = queues(&run, &settings);
    let (axis, ranks) = match part {
        PeSelection::Sip => ("sip", "ranks: sip".to_owned()),
        PeSelection::Cube => ("cube", "ranks: cube".to_owned()),
        PeSelection::All => ("rank", "ranks: pe".to_owned()),
        PeSelection::Pe => ("pe", run.ranks_setting()),
    };
    let n = run.n_elem;
    // This topology is a placeholder; `--topology` replaces it.
    let program = format!(
        "{uses}param n = {n}\ntopology machine = ring(1)\nmesh m = machine[{axis}]\n\nprogram sum_of_all(v: f16[n] \
         partial(sum@{axis})) -> f16[n] {{ all_reduce(v, sum, over: {axis}, using: {using}) }}\n"
    );
    workspace.give(PROGRAM, &program);
    let mut set = vec![format!("{ranks}; {queues}")];
    set.extend(args.set.iter().cloned());
    let each = match part {
        PeSelection::Sip | PeSelection::Pe => 1,
        PeSelection::Cube => counts.of_a_sip() / u64::from(counts.pes),
        PeSelection::All => counts.of_a_sip(),
    };
    let pes = run.world_size.saturating_mul(each);
    if pes > EXACT {
        let title = format!("{pes} PEs take part in `{}` (limit: {EXACT})", run.algorithm);
        return Err(Diagnostic::error("E467", title)
            .note("sums of more f16 values are rounded, so a wrong sum could not be distinguished from a rounded one")
            .into());
    }
    let of = Selection { topology: Some(args.topology.clone()), set, ..Selection::default() };
    let source = Source { file: PROGRAM.to_owned(), of, post: None };
    Ok(PreparedBench { run, algorithm: using, part, each, pes: u64::from(counts.pes), source })
}

/// Returns the numbers of SIPs, cubes and PEs of the machine, and its settings. Warnings are
/// reported when the machine is built.
fn machine(workspace: &mut Workspace, name: &str) -> Outcome<(Counts, Settings)> {
    let (shape, settings, at) = match arguments::argument(workspace, "<--topology>", name)? {
        Argument::Text(text, file) => {
            let written = Topology::parse_shape(&text, file)?;
            (Some(written.shape), written.settings, Span::new(file, 0, text.len()))
        }
        Argument::File(text, file) => {
            let read = machine::read(&text, file)?;
            let at = read.shape.as_ref().map_or(Span::new(file, 0, 0), |s| s.span);
            (read.shape.map(|s| s.node), read.settings, at)
        }
    };
    match shape {
        Some(Shape::Package { sips, cubes, pes }) => Ok((Counts { sips: *sips, cubes, pes }, settings)),
        _ => Err(Diagnostic::error("E464", "kbc dev bench ccl needs a machine of SIPs with cubes and PEs")
            .primary(at, "this machine")
            .help(
                "give a kernbench topology.yaml with `system`, `sip` and `cube`, or a shape such as `package(ring(6), mesh(4, 4), 8)`",
            )
            .into()),
    }
}

/// Returns the all-reduce that an entry names, with a note if the name was interpreted, and the
/// possible exchanges between SIPs: those over rows and columns that are not from the library.
///
/// The algorithm has the name of the entry or of the last part of its `module`, or is the only one
/// with a name all of whose words occur in one of these; the longest such name wins. For example,
/// `ring_allreduce_tcm` is `ring`.
fn find(
    workspace: &mut Workspace,
    uses: &str,
    run: &Run,
    told: &mut Diagnostics,
) -> Outcome<(AlgorithmDecl, Vec<String>)> {
    let root = workspace.add_text("<files>", uses);
    let (loaded, found) = load(Some((root, uses.to_owned())), workspace);
    if found.has_errors() {
        return Err(found.into());
    }
    let library = &loaded.library;
    let coll = library.find_collective(root, "all_reduce", Span::NONE).map_err(|d| *d)?;
    let all: Vec<&AlgorithmDecl> =
        library.algorithms_of(root, coll).into_iter().map(|a| library.algorithm(a)).collect();
    let builtin = |id: FileId| library.is_builtin(id);
    let over = |d: &&&AlgorithmDecl| d.axes.len() == 2 && !builtin(d.name.span.file);
    let exchanges = all.iter().filter(over).map(|d| d.name.node.clone()).collect();
    let module = run.module.as_deref().and_then(|m| m.rsplit(['.', '/', ':']).find(|p| *p != "py"));
    let said: Vec<&str> = [Some(run.algorithm.as_str()), module].into_iter().flatten().collect();
    let at = |d: Diagnostic| run.at("algorithm").into_iter().fold(d, |d, at| d.primary(at, "chosen here"));
    for name in &said {
        let called = |d: &&&AlgorithmDecl| d.name.node == *name || names(d).any(|n| n == *name);
        if let Some(decl) = all.iter().find(called) {
            return Ok(((*decl).clone(), exchanges));
        }
    }
    for name in &said {
        if let Some((decl, by)) = within(name, &all) {
            let title = format!("`{name}` is interpreted as `{by}`");
            let note = Diagnostic { severity: Severity::Note, ..Diagnostic::warning("E005", title) };
            told.push(at(note).help(format!(
                "write `module: {by}` to confirm, or give another algorithm with `--using FILE.kb`"
            )));
            return Ok((decl.clone(), exchanges));
        }
    }
    let own = |d: &AlgorithmDecl| workspace.map.get(d.name.span.file).is_none_or(|f| f.name != ALGORITHMS.0);
    let mut known: Vec<&str> = vec![];
    let mut others: Vec<&str> = vec![];
    for d in &all {
        match names(d).next() {
            Some(_) => known.extend(names(d)),
            None if builtin(d.name.span.file) => others.push(&d.name.node),
            None if own(d) => known.push(&d.name.node),
            None => {}
        }
    }
    others.retain(|o| !known.contains(o));
    others.sort_unstable();
    let near = said.iter().find_map(|n| nearest(n, known.iter().chain(&others).copied()));
    let near = near.map_or(String::new(), |n| format!("did you mean `{n}`? "));
    let or = module.filter(|m| *m != run.algorithm).map_or(String::new(), |m| format!(" or `{m}`"));
    Err(at(Diagnostic::error("E005", format!("there is no all-reduce `{}`{or}", run.algorithm)))
        .note(format!("the all-reduces are {}", known.join(", ")))
        .note(format!("algorithms of the library are also possible: {}", others.join(", ")))
        .help(format!(
            "{near}An entry can name one of them with `module: {}`; add your own with --using FILE.kb",
            known.first().unwrap_or(&"..")
        ))
        .into())
}

/// Returns the further names of an algorithm: `alias a, b`.
fn names(decl: &AlgorithmDecl) -> impl Iterator<Item = &str> {
    decl.aliases.iter().map(|a| a.node.as_str())
}

/// Returns the words of a name: `RingAllreduce-tcm` has ring, allreduce and tcm.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut out: Vec<String> = vec![];
    let mut before = ' ';
    for c in name.chars() {
        if c.is_alphanumeric() {
            let begins = !before.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase());
            match out.last_mut() {
                Some(word) if !begins => word.extend(c.to_lowercase()),
                _ => out.push(c.to_lowercase().collect()),
            }
        }
        before = c;
    }
    out
}

/// Returns the algorithm with the longest alias whose words all occur in `name`, or None
/// if two algorithms have equally long ones.
fn within<'a>(name: &str, all: &[&'a AlgorithmDecl]) -> Option<(&'a AlgorithmDecl, &'a str)> {
    let has = words(name);
    let mut fits: Vec<(usize, &AlgorithmDecl, &str)> = vec![];
    for decl in all {
        for by in names(decl) {
            let needs = words(by);
            if needs.iter().all(|w| has.contains(w)) {
                fits.push((needs.len(), decl, by));
            }
        }
    }
    let most = fits.iter().map(|f| f.0).max()?;
    let mut best = fits.into_iter().filter(|f| f.0 == most);
    let (_, decl, by) = best.next()?;
    best.all(|b| b.1.name == decl.name).then_some((decl, by))
}

fn has(decl: &AlgorithmDecl, name: &str) -> bool {
    decl.params.iter().any(|p| p.0.node == name)
}

/// Returns the PEs that take part. The parameters of an algorithm show whether it works inside
/// SIPs.
fn part(decl: &AlgorithmDecl, run: &Run, counts: &Counts) -> Result<PeSelection, Diagnostic> {
    let inside =
        [("cube_w", PeSelection::Cube), ("pes", PeSelection::All)].into_iter().find(|p| has(decl, p.0));
    match (inside, run.ranks) {
        (None, RunRanks::Sip) => Ok(PeSelection::Sip),
        (None, RunRanks::Pe) => Ok(PeSelection::Pe),
        (Some((_, part)), RunRanks::Sip) => Ok(part),
        (Some(_), RunRanks::Pe) => {
            let title = format!(
                "`{}` runs between SIPs, and the {} ranks are PEs of SIP 0",
                run.algorithm, run.world_size
            );
            let d = Diagnostic::error("E467", title);
            let at = run.at("world_size").or(run.at("ranks"));
            let d = at.into_iter().fold(d, |d, at| d.primary(at, format!("from {}", run.origin)));
            Err(d.help(format!("write `world_size: {}`, the number of SIPs, or remove it", counts.sips())))
        }
    }
}

/// Returns the algorithm with its arguments, in the form of `using`.
fn arguments(decl: &AlgorithmDecl, run: &Run, counts: &Counts) -> Result<String, Diagnostic> {
    let [rows, columns] = counts.cubes.map(u64::from);
    let width = match run.ranks {
        RunRanks::Sip => counts.columns(),
        RunRanks::Pe => run.world_size / rows_of(run.world_size),
    };
    let root = root(run, columns, rows)?;
    let mut list = vec![];
    for (name, _) in &decl.params {
        let value = match name.node.as_str() {
            "w" => width.to_string(),
            "sip_w" => counts.columns().to_string(),
            "cube_w" => columns.to_string(),
            "cube_h" => rows.to_string(),
            "cubes" => (rows * columns).to_string(),
            "pes" => counts.pes.to_string(),
            "root_x" | "root_y" => match root {
                Some((x, y)) => if name.node == "root_x" { x } else { y }.to_string(),
                None => continue,
            },
            "exchange" => run.topology.clone().unwrap_or_else(|| joined(&counts.sips).to_owned()),
            _ => continue,
        };
        list.push(format!("{}: {value}", name.node));
    }
    let name = &decl.name.node;
    Ok(if list.is_empty() { name.clone() } else { format!("{name}({})", list.join(", ")) })
}

/// Checks the hint of an entry about the exchange between SIPs. Returns a note if the machine
/// connects them otherwise, and E005 for an unknown exchange.
fn exchange(run: &Run, counts: &Counts, known: &[String]) -> Result<Diagnostics, Diagnostic> {
    let (Some(asked), own) = (&run.topology, joined(&counts.sips)) else { return Ok(Diagnostics::new()) };
    let at = |d: Diagnostic| run.at("topology").into_iter().fold(d, |d, at| d.primary(at, "from this entry"));
    if !known.contains(asked) {
        let near = nearest(asked, known.iter().map(String::as_str));
        let near = near.map_or(String::new(), |n| format!("did you mean `{n}`? "));
        let d = Diagnostic::error("E005", format!("unknown exchange between SIPs `{asked}`"));
        return Err(at(d).help(format!("{near}The exchanges are {}", known.join(", "))));
    }
    let title = format!("SIPs exchange as `{asked}`, and the machine connects them as `{own}`");
    let note = Diagnostic { severity: Severity::Note, ..at(Diagnostic::warning("E466", title)) };
    Ok(if asked == own { Diagnostics::new() } else { note.into() })
}

/// Returns the largest number of rows that is at most the number of columns.
pub(crate) fn rows_of(n: u64) -> u64 {
    (1..=n.isqrt()).rev().find(|r| n.is_multiple_of(*r)).unwrap_or(1)
}

/// Returns how SIPs are connected, as a value of `system.sips.topology`.
fn joined(sips: &Shape) -> &'static str {
    match sips {
        Shape::Torus(_) => "torus_2d",
        Shape::Mesh(_) => "mesh_2d_no_wrap",
        _ => "ring_1d",
    }
}

/// Returns `root_cube` as a pair. A single number counts the cubes row by row.
fn root(run: &Run, columns: u64, rows: u64) -> Result<Option<(u64, u64)>, Diagnostic> {
    let Some(text) = &run.root_cube else { return Ok(None) };
    let numbers: Vec<u64> =
        text.trim_matches(['(', ')']).split(',').filter_map(|n| n.trim().parse().ok()).collect();
    let at = match numbers[..] {
        [x, y] => (x, y),
        [n] => (n % columns, n / columns),
        _ => return Ok(None),
    };
    if at.0 < columns && at.1 < rows {
        return Ok(Some(at));
    }
    let d =
        Diagnostic::error("E462", format!("`root_cube` is {text}, and a SIP has {columns} x {rows} cubes"));
    Err(run
        .at("root_cube")
        .into_iter()
        .fold(d, |d, at| d.primary(at, "this is not a cube of a SIP"))
        .help("columns and rows count from 0; the default root is the centre, (columns / 2, rows / 2)"))
}

/// Returns the queues of a run as settings of its machine. The cost model of slots and the polling
/// interval come from the topology.
fn queues(run: &Run, settings: &Settings) -> String {
    let model = settings.queue.queue.map_or(MODEL, |q| q.1.number());
    let sending = match (run.backpressure, settings.queue.backpressure) {
        (Backpressure::Sleep, _) => "sleep".to_owned(),
        (Backpressure::Poll, Some(Sending::Poll(ns))) => format!("poll, {ns} ns"),
        (Backpressure::Poll, _) => format!("poll, {POLL_NS} ns"),
    };
    format!(
        "queue: {}, {model}; slots: {}, {} B; credit: {} B; backpressure: {sending}",
        run.buffer_kind, run.n_slots, run.slot_size, run.credit_bytes
    )
}

/// Warns about keys of the file that have no effect on this run, with the reason.
fn idle(decl: &AlgorithmDecl, run: &Run, counts: &Counts) -> Diagnostics {
    let mut out = Diagnostics::new();
    let mut tell = |key: &str, why: String| {
        if let Some(at) = run.at(key) {
            let title = format!("`{key}` has no effect here");
            out.push(Diagnostic::warning("E466", title).primary(at, "given here").help(why));
        }
    };
    tell(
        "vc_chunk_size",
        "kbc models a message as one stream of bytes, and `forward` defines how it passes through links"
            .into(),
    );
    let own = joined(&counts.sips);
    // Both are facts: the machine connects its SIPs in one way, and the algorithm defines its own
    // exchange.
    let hint = run.topology.as_deref().unwrap_or("");
    let confirms = (run.ranks == RunRanks::Sip && hint == own) || names(decl).any(|n| n == hint);
    if !has(decl, "exchange") && !confirms {
        let why = match run.ranks {
            RunRanks::Sip => format!("the machine connects its SIPs as `{own}`, and"),
            RunRanks::Pe => "PEs are connected by the routers of their cubes, and".to_owned(),
        };
        let what = "defines itself which rank sends to which";
        tell("topology", format!("{why} `{}` {what}", run.algorithm));
    }
    if !has(decl, "root_x") {
        tell("root_cube", format!("`{}` has no root cube", run.algorithm));
    }
    out
}
