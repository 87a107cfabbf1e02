//! Templates of a package and their values: harness, layout, test, README, manifest.

use super::platform::{platforms, runtimes_of};
use crate::cpp::numbers::device_type;
use crate::profile::{DIALECT, PROFILES, Profile};
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use kbc_tiles::args::tables_tensor;
use kbc_tiles::args::{self, Status, TensorArg};
use kbc_tiles::backend::Support;
use kbc_tiles::package::golden::Numbers;
use kbc_tiles::package::python::{self, fill, quoted, tuple};
use kbc_tiles::package::{Bus, Layout, Package, RowKind, Source, bus, refused};
use kbc_tiles::tile::{NRANKS, Reach, TensorUse, tasks};
use serde::Serialize;
use std::fmt::Write;

/// Returns a range of devices such as `0-3`, for the largest claimed rank count of at most 4; if
/// there is none, for the smallest claimed rank count.
fn devices(package: &Package<'_>) -> String {
    let ranks = &package.claim.ranks;
    let n = ranks.iter().rfind(|r| **r <= 4).or(ranks.first()).copied().unwrap_or(1);
    format!("0-{}", n.saturating_sub(1))
}

/// Returns the command that runs the test of a package in its folder.
pub fn test_command(package: &Package<'_>) -> Vec<String> {
    let devices = devices(package);
    ["python", "main.py", "-p", "a2a3sim", "-d", &devices].map(str::to_owned).to_vec()
}

/// Returns the runtime that launches the kernels: the first supported one of the target.
fn runtime(profile: &Profile) -> &'static str {
    profile.runtimes.iter().find(|r| r.unsupported_because.is_empty()).map_or("", |r| r.name)
}

/// Returns the revisions against which the facts of the target were checked.
fn revision(profile: &Profile) -> String {
    let one = |r: &crate::profile::Revision| format!("{} at {}", r.project, r.commit);
    profile.revisions.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the element types of a package, in lines of a dictionary of Python.
fn types(package: &Package<'_>, of: fn(DType) -> String) -> String {
    let tensors = args::tensors(package.kernel);
    let has = |d: DType| d.scaled().is_none() || tensors.iter().any(|t| t.dtype() == d);
    let types: Vec<DType> = DType::ALL.into_iter().filter(|d| has(*d)).collect();
    let lines = types.chunks(4).map(|c| python::dictionary(c.iter().copied(), of));
    lines.map(|l| format!("    {l},\n")).collect()
}

pub(super) fn entry(package: &Package<'_>, profile: &Profile) -> String {
    let device = types(package, |d| format!("DataType.{}", device_type(d)));
    let table = [("KERNEL", &package.kernel.name[..]), ("RUNTIME", runtime(profile)), ("DEVICE", &device)];
    fill(include_str!("templates/entry.py"), &table)
}

pub(super) fn harness() -> String {
    let words = |d: DType| quoted(d.row().torch);
    let lines = DType::ALL.chunks(4).map(|c| python::dictionary(c.iter().copied(), words));
    let lines: String = lines.map(|l| format!("    {l},\n")).collect();
    fill(include_str!("templates/harness.py"), &[("TORCH", &lines)])
}

/// Prints the bytes of algbw and the factor of busbw, as a pair of Python.
fn moved(package: &Package<'_>) -> String {
    let (Some(rule), Some(x)) = (bus(&package.program), package.program.inputs.first()) else {
        return "None".into();
    };
    let all = x.sizes.iter().fold(Expr::Int(x.ty.dtype.bytes() as i64), |n, d| n * d.clone());
    let bytes = python::expr(&all.simplify());
    match rule {
        Bus::Twice => format!("{bytes}, 2 * (nranks - 1) / nranks"),
        Bus::Share => format!("{bytes}, (nranks - 1) / nranks"),
        Bus::ShareOfPart => format!("({bytes}) // nranks, (nranks - 1) / nranks"),
        Bus::One => format!("{bytes}, 1"),
    }
}

pub(super) fn main(package: &Package<'_>, profile: &Profile) -> String {
    let help = match &package.claim.count {
        Some(c) => quoted(&format!("{}: 0 to {}, {} unless given", c.parameter, c.largest, c.default)),
        None => quoted("all sizes of this kernel are fixed"),
    };
    let root = match package.kernel.root {
        Some(own) => quoted(&format!("root of the launches: any rank, {own} unless given")),
        None => quoted("a launch of this kernel takes no root"),
    };
    let mut ranks: Vec<u64> = package.claim.ranks.iter().copied().filter(|r| *r <= 4).collect();
    if ranks.is_empty() {
        ranks.extend(package.claim.ranks.first());
    }
    let sizes = |r: &u64| match package.claim.count {
        Some(_) => format!("{r}x0 {r}x1"),
        None => r.to_string(),
    };
    let example = ranks.iter().map(sizes).collect::<Vec<_>>().join(" ");
    fill(
        include_str!("templates/main.py"),
        &[
            ("KERNEL", &package.kernel.name),
            ("DEVICES", &devices(package)),
            ("RUNTIME", runtime(profile)),
            ("COUNT_HELP", &help),
            ("ROOT_HELP", &root),
            ("EXAMPLE", &example),
        ],
    )
}

/// Prints `layout.py`: sizes, arguments and limits of the kernel that the Python files use.
pub(super) fn layout(
    package: &Package<'_>,
    profile: &Profile,
    layout: &Layout,
) -> Result<String, Diagnostic> {
    let kernel = package.kernel;
    let mut tensors = String::new();
    for t in args::tensors(kernel) {
        let (role, index) = match &t {
            TensorArg::Data(d) => {
                (if d.access == TensorUse::In { "input" } else { "output" }, d.index.to_string())
            }
            TensorArg::Tables => ("tables", "None".into()),
            TensorArg::Memory => ("memory", "None".into()),
            TensorArg::Window => ("window", "None".into()),
            TensorArg::Status => ("status", "None".into()),
            // Only tasks take areas.
            TensorArg::Area(_) => continue,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            tensors,
            "    Tensor({}, \"{}\", \"{}\", \"{role}\", {index}),",
            quoted(t.name()),
            t.dtype(),
            t.direction()
        );
    }
    let scalars = tuple(args::scalars(kernel).iter().map(|s| quoted(s.name())));
    let tasks = tasks::split(kernel);
    let kernels: String = package
        .sources
        .iter()
        .filter_map(|source| {
            let first = *source.tasks.first()?;
            let blocks = tasks[first].kernel.cores;
            let directions = args::task_tensors(kernel, &tasks, first);
            let directions = tuple(directions.iter().map(|t| quoted(t.direction)));
            let (name, core) = (quoted(&source.name), quoted(DIALECT.core(source.core)));
            Some(format!("    Kernel({name}, {core}, {blocks}, {directions}),\n"))
        })
        .collect();
    let submitted: String = (0..tasks.len())
        .filter_map(|i| {
            let number = package.sources.iter().position(|s| s.tasks.contains(&i))?;
            Some(format!("    Task({}, {number}),\n", quoted(tasks[i].name.as_str())))
        })
        .collect();
    let mut lengths = vec![];
    for t in &kernel.tensors {
        without_table(&t.name, &t.len)?;
        lengths.push(python::expr(&t.len));
    }
    let (mut rows, mut own) = (String::new(), String::new());
    for row in &layout.rows {
        for e in [&row.at, &row.bytes] {
            only_sizes(&row.name, e)?;
        }
        let what = match &row.kind {
            RowKind::Signals { per_call, .. } => {
                only_sizes(&row.name, per_call)?;
                "counters, a line each".to_owned()
            }
            RowKind::Slots { dtype, reach: Reach::Peers, .. } => format!("slots of {dtype}"),
            RowKind::Slots { dtype, reach: Reach::Own, .. } => format!("{dtype}, this rank alone"),
        };
        let _ = writeln!(
            if row.in_window() { &mut rows } else { &mut own },
            "        Row({}, {}, {}, {}),",
            quoted(&row.name),
            python::expr(&row.at),
            python::expr(&row.bytes),
            quoted(&what)
        );
    }
    let mut tables = String::new();
    for r in package.claim.ranks.iter().filter(|_| !kernel.tables.is_empty()) {
        let _ = writeln!(tables, "    {r}: {},", tuple(tables_tensor(kernel, *r)?));
    }
    let count = package.claim.count.as_ref();
    let number = |v: Option<u64>| v.map_or_else(|| "None".into(), |v| v.to_string());
    let support = |all: &[Support]| {
        all.iter().fold(String::new(), |mut out, s| {
            let why = s.unsupported_because.map_or_else(|| "None".into(), quoted);
            let _ = writeln!(out, "    {}: {why},", quoted(s.name));
            out
        })
    };
    let status: String =
        Status::ALL.iter().map(|s| format!("    {}: {},\n", s.code(), quoted(s.words()))).collect();
    let cores: String =
        PROFILES.iter().map(|p| format!("    {}: {},\n", quoted(p.name), p.limits.cores)).collect();
    Ok(fill(
        include_str!("templates/layout.py"),
        &[
            ("KERNEL", &kernel.name),
            ("RANKS", &tuple(&package.claim.ranks)),
            ("COUNT", &count.map_or_else(|| "None".into(), |c| quoted(&c.parameter))),
            ("LARGEST_COUNT", &number(count.map(|c| c.largest))),
            ("DEFAULT_COUNT", &number(count.map(|c| c.default))),
            ("PLATFORMS", &support(&platforms())),
            ("CORES", &cores),
            ("RUNTIMES", &support(&runtimes_of(profile))),
            ("STATUS", &status),
            ("TENSORS", &tensors),
            ("SCALARS", &scalars),
            ("KERNELS", &kernels),
            ("TASKS", &submitted),
            ("ROOT", &number(kernel.root)),
            ("OWN", &package.own.as_ref().map_or_else(|| "None".into(), |_| quoted(kbc_tiles::package::OWN))),
            ("TABLES", &tables),
            ("LENGTHS", &tuple(lengths)),
            ("ROWS", &rows),
            ("BYTES", &python::expr(&layout.bytes)),
            ("OWN_ROWS", &own),
            ("MEMORY", &python::expr(&layout.memory)),
            ("LAUNCHES", &python::expr(&layout.launches)),
            ("MOVED", &moved(package)),
        ],
    ))
}

/// Checks that a place in the window depends on sizes alone, which are the same on every rank and
/// in every launch.
fn only_sizes(row: &Name, e: &kbc_ir::expr::Expr) -> Result<(), Diagnostic> {
    let mut other = None;
    e.vars(&mut |n| {
        if ![NRANKS, kbc_tiles::tile::COUNT].contains(&n.as_str()) {
            other = Some(n.clone());
        }
    });
    match other {
        None => without_table(row, e),
        Some(n) => Err(refused(format!("the place of `{row}` in the window depends on `{n}`"))),
    }
}

/// Checks that an expression reads no table: only the kernel has the tables.
fn without_table(name: &Name, e: &kbc_ir::expr::Expr) -> Result<(), Diagnostic> {
    if e.has_table() {
        Err(refused(format!("the size or place of `{name}` is read from a table")))
    } else {
        Ok(())
    }
}

pub(super) fn conftest(profile: &Profile) -> String {
    fill(include_str!("templates/conftest.py"), &[("RUNTIME", runtime(profile))])
}

pub(super) fn test(package: &Package<'_>, profile: &Profile) -> String {
    let (claim, kernel) = (&package.claim, package.kernel);
    let number = |v: Option<u64>| v.map_or_else(|| "None".into(), |v| v.to_string());
    let few = claim.ranks.first().copied().unwrap_or(1);
    let mut cases = vec![];
    match &claim.count {
        None => cases.extend(
            claim.ranks.iter().filter(|r| **r <= 8).flat_map(|r| [(*r, None, "forms"), (*r, None, "exact")]),
        ),
        Some(count) => {
            // No element, one element, fewer elements than ranks, a full tile, one more element
            // than that, and several tiles with a remainder.
            let tile = package.kernel.tiles.iter().map(|t| u64::from(t.elements)).max().unwrap_or(1);
            let mut counts = vec![0, 1, 5, 1009, tile, tile + 1, 2 * tile + 1809];
            counts.retain(|c| *c <= count.largest);
            counts.sort_unstable();
            counts.dedup();
            // Counts are tried on as many ranks as small machines have devices for. Every other
            // number of ranks has one case.
            let usual = claim.ranks.iter().rfind(|r| **r <= 4).copied().unwrap_or(few);
            for (i, c) in counts.iter().enumerate() {
                let data = if i % 2 == 0 { "exact" } else { "forms" };
                cases.push((usual, Some(*c), data));
            }
            let others = claim.ranks.iter().filter(|r| **r <= 8 && **r != usual);
            let largest = counts.last().copied().unwrap_or(0);
            cases.extend(others.map(|r| (*r, Some(largest), "forms")));
        }
    }
    // Roots take turns, from the last rank down.
    let mut turns = 0;
    let cases: String = cases
        .iter()
        .map(|(ranks, count, data)| {
            let root = kernel.root.map(|_| {
                turns += 1;
                (ranks * turns - turns) % ranks
            });
            format!("    ({ranks}, {}, \"{data}\", {}),\n", number(*count), number(root))
        })
        .collect();
    let over = claim.ranks.last().map_or(0, |r| r + 1);
    let mut refused = vec![
        format!("([\"-d\", \"0-{over}\"], \"this kernel is checked for\")"),
        "([\"-p\", \"a5\"], \"platform a5\")".to_owned(),
        "([\"--runtime\", \"aicpu_build_graph\"], \"runtime aicpu_build_graph\")".to_owned(),
        "([\"--iterations\", \"0\"], \"at least one launch\")".to_owned(),
        "([\"--repeat\", \"3\"], \"goes with --perf alone\")".to_owned(),
    ];
    if let Some(c) = &claim.count {
        refused.push(format!("([\"--count\", \"{}\"], \"this kernel is checked for\")", c.largest + 1));
    }
    let refused = format!("(\n    {},\n)", refused.join(",\n    "));
    fill(
        include_str!("templates/test.py"),
        &[
            ("KERNEL", &package.kernel.name),
            ("RUNTIME", runtime(profile)),
            ("CASES", &cases),
            ("REFUSED", &refused),
        ],
    )
}

/// Returns a reason in brackets; empty if there is none.
fn because(why: Option<&String>) -> String {
    why.map_or_else(String::new, |w| format!(" (because {w})"))
}

pub(super) fn readme(package: &Package<'_>, profile: &Profile, layout: &Layout) -> String {
    let kernel = package.kernel;
    let mut arguments = String::new();
    let all = args::tensors(kernel);
    for (i, t) in all.iter().enumerate() {
        let _ = writeln!(arguments, "| {i} | {} | {} | {} |", t.name(), t.dtype(), t.direction());
    }
    for (i, s) in args::scalars(kernel).iter().enumerate() {
        let _ = writeln!(arguments, "| {} | {} | scalar | IN |", all.len() + i, s.name());
    }
    let mut rows = String::new();
    for r in &layout.rows {
        let what = match &r.kind {
            RowKind::Signals { count, .. } => format!("{count} counters, a line each"),
            RowKind::Slots { slots, capacity, dtype, reach } => {
                let who = if *reach == Reach::Own { "; of this rank alone, in `memory`" } else { "" };
                format!("{slots} slots of {capacity} {dtype}{who}")
            }
        };
        let _ = writeln!(rows, "| {} | `{}` | `{}` | {what} |", r.name, r.at, r.bytes);
    }
    let evidence: String =
        package.evidence.iter().map(|e| format!("| {} | {} |\n", e.step, e.words)).collect();
    let ranks: Vec<String> = package.claim.ranks.iter().map(u64::to_string).collect();
    let sizes = match &package.claim.count {
        Some(c) => format!("{} from 0 to {}", c.parameter, c.largest),
        None => "all sizes fixed".into(),
    };
    let globals = |all: &[kbc_tiles::package::Global]| {
        let one = |g: &kbc_tiles::package::Global| format!("`{}: {}`", g.name, shown(g));
        all.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let tasks = tasks::split(kernel);
    let kernels: String = package
        .sources
        .iter()
        .map(|s| {
            let what = match s.tasks[..] {
                _ if tasks.len() == 1 => "the kernel".to_owned(),
                [_] => "a task".into(),
                _ => format!("the tasks {}", names(&tasks, s)),
            };
            let core = DIALECT.core(s.core);
            let word = core.to_uppercase();
            let cores = match s.tasks.first().map_or(1, |first| tasks[*first].kernel.cores) {
                1 => format!("one {word} core"),
                n => format!("{n} {word} cores"),
            };
            format!("| `kernels/{core}/{}.cpp` | {what}, for {cores} of every rank |\n", s.name)
        })
        .collect();
    let others: Vec<String> = profile
        .runtimes
        .iter()
        .skip(1)
        .filter(|r| r.unsupported_because.is_empty())
        .map(|r| format!("`{}`", r.name))
        .collect();
    let others = others.join(", ");
    let root = match kernel.root {
        Some(own) => format!("* Root: any rank of a launch (`--root`), {own} unless given.\n"),
        None => String::new(),
    };
    let compared = match Numbers::of(package) {
        Numbers::Plain => "equal, bit for bit but for the sign of zero",
        Numbers::Bounded => {
            "as near to its golden value as a bound on the kernel's rounding errors says, which `golden.py` computes for\n\
             every element; a launch prints the largest error as a part of its bound"
        }
    };
    fill(
        include_str!("templates/README.md"),
        &[
            ("KERNEL", &kernel.name),
            ("KERNELS", &kernels),
            ("PROGRAM", &package.program.name),
            ("FILE", &package.program.file),
            ("IN", &globals(&package.program.inputs)),
            ("RESULTS", &globals(&package.program.results)),
            ("RANKS", &(ranks.join(", ") + &because(package.claim.reasons.ranks.as_ref()))),
            ("SIZES", &(sizes + &because(package.claim.reasons.sizes.as_ref()))),
            ("TEST", &test_command(package).join(" ")),
            ("ARGUMENTS", &arguments),
            ("ROWS", &rows),
            ("EVIDENCE", &evidence),
            ("COMPARED", compared),
            ("PROFILE", profile.name),
            ("REVISION", &revision(profile)),
            ("RUNTIME", runtime(profile)),
            ("OTHER_RUNTIMES", &others),
            ("ROOT", &root),
        ],
    )
}

/// Returns the names of the tasks that run a kernel.
fn names(tasks: &[tasks::Task], source: &Source) -> String {
    let all: Vec<&str> = source.tasks.iter().map(|i| tasks[*i].name.as_str()).collect();
    all.join(", ")
}

/// Prints the type of a global tensor as a program writes it, with its sizes as expressions.
fn shown(g: &kbc_tiles::package::Global) -> String {
    let size = |(size, dim): (&kbc_ir::expr::Expr, &kbc_ir::types::Dim)| match &dim.cut {
        None => size.to_string(),
        Some(cut) => format!("{size}@{cut}"),
    };
    let sizes: Vec<String> = g.sizes.iter().zip(&g.ty.dims).map(size).collect();
    let rest = kbc_ir::types::TensorType { dims: vec![], ..g.ty.clone() }.to_string();
    let placed = rest.strip_prefix(g.ty.dtype.name()).unwrap_or_default();
    format!("{}[{}]{placed}", g.ty.dtype, sizes.join(", "))
}

/// `manifest.json`: the facts of the package in machine-readable form.
#[derive(Serialize)]
struct Manifest<'a> {
    format: u32,
    kernel: &'a str,
    program: &'a str,
    source: &'a str,
    profile: &'a str,
    revision: String,
    runtime: &'a str,
    /// All runtimes that the package serves, that one first.
    runtimes: Vec<&'a str>,
    platforms: Vec<&'a str>,
    ranks: &'a [u64],
    count: Option<CountLine<'a>>,
    /// The program's root, if a launch may take another one.
    root: Option<u64>,
    tensors: Vec<TensorLine<'a>>,
    scalars: Vec<String>,
    kernels: Vec<KernelLine<'a>>,
    executed_at: ExecutedAt,
    window: Vec<RowLine>,
    window_bytes: String,
    memory_bytes: String,
    launches: String,
    compared: &'static str,
    evidence: Vec<EvidenceLine<'a>>,
}

#[derive(Serialize)]
struct CountLine<'a> {
    parameter: &'a str,
    largest: u64,
    default: u64,
}

#[derive(Serialize)]
struct TensorLine<'a> {
    name: String,
    dtype: &'a str,
    direction: &'a str,
    elements: Option<String>,
}

#[derive(Serialize)]
struct KernelLine<'a> {
    file: String,
    core: &'a str,
    cores: u32,
    tasks: Vec<String>,
    /// What a rank executes in one task, the largest numbers over the ranks.
    executes: Option<Numbered>,
}

/// The size for which operations were counted.
#[derive(Serialize)]
struct ExecutedAt {
    ranks: u64,
    count: u64,
}

/// Numbers with their names, as an object of JSON.
struct Numbered(Vec<(String, u64)>);

impl Serialize for Numbered {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, n)| (name, n)))
    }
}

#[derive(Serialize)]
struct RowLine {
    name: String,
    kind: &'static str,
    at: String,
    bytes: String,
    per_call: Option<String>,
}

#[derive(Serialize)]
struct EvidenceLine<'a> {
    step: &'a str,
    words: &'a str,
}

pub(super) fn manifest(package: &Package<'_>, profile: &Profile, layout: &Layout) -> String {
    let kernel = package.kernel;
    let all = args::tensors(kernel);
    let line = |t: &TensorArg<'_>| TensorLine {
        name: t.name().to_owned(),
        dtype: t.dtype().name(),
        direction: t.direction(),
        elements: match t {
            TensorArg::Data(d) => Some(d.len.to_string()),
            _ => None,
        },
    };
    let row = |r: &kbc_tiles::package::WindowRow| {
        let (kind, per_call) = match &r.kind {
            RowKind::Signals { per_call, .. } => ("signals", Some(per_call.to_string())),
            RowKind::Slots { reach: Reach::Peers, .. } => ("window", None),
            RowKind::Slots { reach: Reach::Own, .. } => ("own", None),
        };
        RowLine { name: r.name.to_string(), kind, at: r.at.to_string(), bytes: r.bytes.to_string(), per_call }
    };
    let tasks = tasks::split(kernel);
    let of = |s: &Source| KernelLine {
        file: format!("kernels/{}/{}.cpp", DIALECT.core(s.core), s.name),
        core: DIALECT.core(s.core),
        cores: s.tasks.first().map_or(1, |first| tasks[*first].kernel.cores),
        tasks: s.tasks.iter().map(|i| tasks[*i].name.to_string()).collect(),
        // Tasks that share a text differ in names alone.
        executes: s
            .tasks
            .first()
            .and_then(|first| package.executed.tasks.get(*first).copied().flatten())
            .map(|counts| Numbered(counts.named(&DIALECT))),
    };
    let manifest = Manifest {
        format: 1,
        kernel: &kernel.name,
        program: &package.program.name,
        source: &package.program.file,
        profile: profile.name,
        revision: revision(profile),
        runtime: runtime(profile),
        runtimes: profile
            .runtimes
            .iter()
            .filter(|r| r.unsupported_because.is_empty())
            .map(|r| r.name)
            .collect(),
        platforms: platforms().iter().filter(|p| p.unsupported_because.is_none()).map(|p| p.name).collect(),
        ranks: &package.claim.ranks,
        count: package.claim.count.as_ref().map(|c| CountLine {
            parameter: &c.parameter,
            largest: c.largest,
            default: c.default,
        }),
        root: kernel.root,
        tensors: all.iter().map(line).collect(),
        scalars: args::scalars(kernel).iter().map(|s| s.name().to_owned()).collect(),
        kernels: package.sources.iter().map(of).collect(),
        executed_at: ExecutedAt { ranks: package.executed.ranks, count: package.executed.count },
        window: layout.rows.iter().map(row).collect(),
        window_bytes: layout.bytes.to_string(),
        memory_bytes: layout.memory.to_string(),
        launches: layout.launches.to_string(),
        compared: if Numbers::of(package) == Numbers::Plain { "equal" } else { "within bounds" },
        evidence: package.evidence.iter().map(|e| EvidenceLine { step: &e.step, words: &e.words }).collect(),
    };
    // All fields are strings, numbers and lists of them, which JSON can represent.
    serde_json::to_string_pretty(&manifest).expect("a structure of plain fields") + "\n"
}
