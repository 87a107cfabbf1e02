//! Comparison of two algorithms, machines or programs over sizes: who wins where, from where on,
//! and why.
//!
//! Rows are those of sweeps ([`crate::sweep`]), kept and checked like them; crossovers are
//! simulated (`crossing`). Two files of rows are compared in [`rows`].

mod both;
mod crossing;
pub mod rows;

use crate::sweep::request::{RowEngine, RowProgram, RowRequest};
use crate::sweep::run::{Within, run as execute};
use crate::sweep::spec::{AxisValue, doubling};
use crate::sweep::{Facts, row};
use both::{Both, ComparedSide, SAME, ratio};
use crossing::{Crossing, Sample, crossings};
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::measure::ready;
use kbc_compiler::options::Selection;
use kbc_compiler::report::amounts::{bytes, time};
use kbc_compiler::report::{Report, path};
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics, FileId};
use kbc_figures::latency::Latency;
use kbc_figures::{Fault, Figure, Heading, Series, Theme};
use kbc_machine::topology::Topology;
use serde::Serialize;
use std::collections::BTreeMap;

/// What is compared, and on what.
#[derive(Clone, Debug, Default)]
pub struct Sides {
    /// An algorithm with its arguments, a topology, a `.kb` or `.kir` file, or a `.csv` of rows.
    pub a: String,
    /// The second item, of the same kind.
    pub b: String,
    /// The program that two algorithms or topologies are compared on.
    pub of: Option<String>,
    /// A parameter and its values: `n=64..1048576`, which doubles, or `n=64,100,1000`.
    pub over: Option<String>,
    /// The part of the program, and the values of its parameters.
    pub select: Selection,
}

impl Sides {
    /// Whether both are files of rows.
    pub fn are_rows(&self) -> bool {
        self.a.ends_with(".csv") && self.b.ends_with(".csv")
    }
}

/// Kind of A and B.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum ComparedKind {
    Algorithms,
    Topologies,
    Programs,
}

/// The comparison; it serialises to the JSON of `kbc compare`.
#[derive(Serialize)]
pub struct ComparisonReport {
    schema: u32,
    command: &'static str,
    kind: ComparedKind,
    a: String,
    b: String,
    /// The program that they are compared on.
    #[serde(skip)]
    on: Option<String>,
    /// The parameter that is varied.
    over: Option<String>,
    rows: Vec<Both>,
    /// Sizes from which the other item is faster: bytes, or values of the parameter if there are no
    /// bytes.
    crossovers: Vec<Crossing>,
    /// Sizes at which one item gains most over the other, and the reasons.
    why: Vec<Why>,
}

/// The critical paths at one size.
#[derive(Serialize)]
struct Why {
    value: Option<u64>,
    faster: char,
    /// Time of the slower item divided by that of the faster one.
    gain: f64,
    /// By cause: ns of A and of B.
    causes: Vec<(String, f64, f64)>,
    paths: [Vec<String>; 2],
}

/// Schema of the JSON.
const SCHEMA: u32 = 1;

/// Checks that both sides are of one kind and that there is something to compare them on.
///
/// # Errors
/// E588 if not; E413 for values of a parameter that cannot be read.
pub fn check(sides: &Sides) -> Outcome {
    kind(sides)?;
    sides.over.as_deref().map(over).transpose()?;
    Ok(())
}

/// Compares. If there is no size at which both sides have a time, `hear` gets the messages about
/// them.
///
/// # Errors
/// Those of [`check`]; of reading and building; E585 for rows that are wrong or refused on both
/// sides.
pub fn compare(
    workspace: &mut Workspace,
    sides: &Sides,
    within: &Within<'_>,
    hear: &mut dyn FnMut(&str),
) -> Outcome<ComparisonReport> {
    let kind = kind(sides)?;
    let over = sides.over.as_deref().map(over).transpose()?;
    let values: Vec<Option<u64>> = match &over {
        Some((_, values)) => values.iter().map(|v| Some(*v)).collect(),
        None => vec![None],
    };
    let mut points = vec![];
    for side in [&sides.a, &sides.b] {
        for v in &values {
            let over = over.as_ref().zip(*v).map(|(o, v)| (&*o.0, v));
            points.push(point(sides, kind, side, over, points.len()));
        }
    }
    let all: Vec<&RowRequest> = points.iter().collect();
    let found = execute(workspace, HERE, &all, within, &mut |_| {})?;
    let facts: BTreeMap<usize, &Facts> = found.rows.iter().map(|r| (r.row, &r.facts)).collect();
    let of = |i: usize| facts.get(&i).copied();
    let mut both = vec![];
    for (i, value) in values.iter().enumerate() {
        let (Some(a), Some(b)) = (of(i), of(i + values.len())) else { continue };
        let bytes = a.bytes.filter(|n| b.bytes == Some(*n));
        both.push(Both { value: *value, bytes, a: ComparedSide::of(a), b: ComparedSide::of(b) });
    }
    // Errors of one side are reported if nothing is left to compare.
    if both.iter().all(|r| ratio(r).is_none()) {
        let why = both.iter().find_map(|r| r.a.why.as_ref().or(r.b.why.as_ref()));
        let title = "there is no size at which both can be compared";
        let d = Diagnostic::error("E585", title).note(why.map_or("no times", String::as_str));
        found.heard.iter().for_each(|h| hear(&h.0));
        return Err(Failure::Program(d.into()));
    }
    let why = whys(workspace, &both, &points)?;
    let crossovers = match &over {
        Some((name, _)) => crossings(&both, &mut |value| {
            let of = [&sides.a, &sides.b].map(|side| point(sides, kind, side, Some((name, value)), 0));
            sampled(workspace, of)
        })?,
        None => vec![],
    };
    Ok(ComparisonReport {
        schema: SCHEMA,
        command: "compare",
        kind,
        a: sides.a.clone(),
        b: sides.b.clone(),
        on: sides.of.clone(),
        over: over.as_ref().map(|o| o.0.clone()),
        crossovers,
        rows: both,
        why,
    })
}

/// Base of the paths on the command line: the working folder.
const HERE: &str = "compare";

fn usage(d: Diagnostic) -> Failure {
    Failure::Usage(Diagnostics::from(d))
}

/// Returns the kind of the two items.
fn kind(sides: &Sides) -> Outcome<ComparedKind> {
    let wrong = |title: String| Diagnostic::error("E588", title);
    let ends = |w: &str, ends: &[&str]| ends.iter().any(|e| w.ends_with(e));
    let of = |w: &str| {
        if ends(w, &[".kb", ".kir"]) {
            ComparedKind::Programs
        } else if ends(w, &[".yaml", ".yml"])
            || w.starts_with('{')
            || Topology::parse_shape(w, FileId::default()).is_ok()
        {
            ComparedKind::Topologies
        } else {
            ComparedKind::Algorithms
        }
    };
    let (a, b) = (of(&sides.a), of(&sides.b));
    if a != b {
        let title = format!("cannot compare {} ({a:?}) with {} ({b:?})", sides.a, sides.b).to_lowercase();
        return Err(usage(
            wrong(title)
                .help("compare two algorithms, two topologies, two programs or two files of rows (.csv)"),
        ));
    }
    match (a, &sides.of) {
        (ComparedKind::Programs, Some(of)) => {
            Err(usage(wrong(format!("--of {of} does not apply to a comparison of two programs"))))
        }
        (ComparedKind::Algorithms | ComparedKind::Topologies, None) => {
            let d = wrong("the program on which to compare them is missing".into());
            Err(usage(d.help("name a program: --of specs/all_reduce.kb")))
        }
        (ComparedKind::Topologies, _) if sides.select.topology.is_some() => {
            Err(usage(wrong("--topology does not apply to a comparison of topologies".into())))
        }
        (ComparedKind::Algorithms, _) if !sides.select.using.is_empty() => {
            Err(usage(wrong("--using does not apply to a comparison of algorithms".into())))
        }
        _ => Ok(a),
    }
}

/// Parses `n=64..1048576`, which doubles, or `n=64,100,1000`.
fn over(text: &str) -> Outcome<(String, Vec<u64>)> {
    let wrong = || {
        let d = Diagnostic::error("E413", format!("--over {text} is not NAME=VALUES"));
        usage(d.help("write --over n=64..1048576 (which doubles n), or --over n=64,100,1000"))
    };
    let (name, values) = text.split_once('=').ok_or_else(wrong)?;
    let number = |t: &str| t.trim().parse::<u64>().map_err(|_| wrong());
    let values: Vec<u64> = match values.split_once("..") {
        Some(_) => doubling(values).ok_or_else(wrong)?,
        None => values.split(',').map(number).collect::<Outcome<_>>()?,
    };
    let different: std::collections::BTreeSet<u64> = values.iter().copied().collect();
    if values.is_empty() || name.trim().is_empty() || different.len() != values.len() {
        return Err(wrong());
    }
    Ok((name.trim().to_owned(), different.into_iter().collect()))
}

fn point(sides: &Sides, kind: ComparedKind, side: &str, over: Option<(&str, u64)>, row: usize) -> RowRequest {
    let program = if kind == ComparedKind::Programs { side } else { sides.of.as_deref().unwrap_or(side) };
    let mut of = sides.select.clone();
    match kind {
        ComparedKind::Topologies => of.topology = Some(side.to_owned()),
        ComparedKind::Algorithms => of.using.push(side.to_owned()),
        ComparedKind::Programs => {}
    }
    of.define.extend(over.map(|(n, v)| format!("{n}={v}")));
    RowRequest {
        row,
        values: vec![AxisValue { label: side.to_owned(), parts: BTreeMap::new() }],
        program: RowProgram::File(program.to_owned()),
        engine: RowEngine::Sim,
        of,
    }
}

/// Returns the positions of the sizes: bytes if all rows have them, otherwise the values of the
/// parameter.
fn x(rows: &[Both], r: &Both) -> Option<f64> {
    let all = rows.iter().all(|r| r.bytes.is_some());
    if all { r.bytes.map(|b| b as f64) } else { r.value.map(|v| v as f64) }
}

fn curve(rows: &[Both], of: fn(&Both) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> =
        rows.iter().filter_map(|r| Some((x(rows, r)?, of(r)?))).filter(|p| p.0 > 0.0 && p.1 > 0.0).collect();
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    out.dedup_by(|a, b| a.0 == b.0);
    out
}

/// Proves and times both sides; None if one of them is rejected.
fn sampled(workspace: &mut Workspace, points: [RowRequest; 2]) -> Outcome<Option<Sample>> {
    let mut one = |point: &RowRequest| -> Outcome<Option<(f64, Option<u64>)>> {
        match report(workspace, point) {
            Ok(report) => {
                let bytes = match &report.collectives[..] {
                    [one] => Some(one.bytes),
                    _ => None,
                };
                Ok(report.time_ns.filter(|t| *t > 0.0).map(|t| (t, bytes)))
            }
            Err(failure) => match failure.into_parts() {
                (_, 1) => Ok(None),
                (d, _) => Err(d.into()),
            },
        }
    };
    let (Some(a), Some(b)) = (one(&points[0])?, one(&points[1])?) else { return Ok(None) };
    Ok(Some(Sample { bytes: a.1.filter(|n| b.1 == Some(*n)), a: a.0, b: b.0 }))
}

/// Returns where A gains most, and where B does.
fn whys(workspace: &mut Workspace, rows: &[Both], points: &[RowRequest]) -> Outcome<Vec<Why>> {
    let mut out = vec![];
    for faster in ['A', 'B'] {
        let gain = |r: &Both| ratio(r).map(|x| if faster == 'A' { 1.0 / x } else { x });
        let gains = rows.iter().enumerate().filter_map(|(i, r)| Some((i, gain(r)?)));
        let Some((i, most)) = gains.filter(|g| g.1 > 1.0 + SAME).reduce(|a, b| if b.1 > a.1 { b } else { a })
        else {
            continue;
        };
        let [a, b] = [i, i + rows.len()].map(|p| report(workspace, &points[p]));
        let (a, b) = (a?, b?);
        let mut names: Vec<String> = vec![];
        for t in a.totals.iter().chain(&b.totals).filter(|t| t.ns > 0.0) {
            if !names.contains(&t.cause) {
                names.push(t.cause.clone());
            }
        }
        let ns = |r: &Report, name: &str| r.totals.iter().find(|t| t.cause == name).map_or(0.0, |t| t.ns);
        out.push(Why {
            value: rows[i].value,
            faster,
            gain: most,
            causes: names.iter().map(|n| (n.clone(), ns(&a, n), ns(&b, n))).collect(),
            paths: [path::lines(&a), path::lines(&b)],
        });
    }
    Ok(out)
}

/// Returns the proven report of a point.
fn report(workspace: &mut Workspace, point: &RowRequest) -> Outcome<Report> {
    let mut own = workspace.fresh(vec![]);
    let source = row::source(&mut own, HERE, point)?;
    let ready = ready(&mut own, &source)?;
    ready.prove(workspace)?;
    Ok(ready.timed(&own, "compare", &source.file)?.0)
}

/// Draws the times of both over the size.
///
/// # Errors
/// A fault if there is nothing that can be drawn.
pub fn draw(found: &ComparisonReport, theme: Theme) -> Result<Figure, Fault> {
    let name = |side: char, of: &str| format!("{side}: {of}");
    let series = |side: char, of: &str, time: fn(&Both) -> Option<f64>| {
        let mut points = curve(&found.rows, time);
        // Simulated points around crossovers are marked.
        let around = found.crossovers.iter().flat_map(|c| &c.around);
        points.extend(around.map(|(x, a, b)| (*x, if side == 'A' { *a } else { *b })));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup_by(|a, b| a.0 == b.0);
        Series::new(name(side, of), points)
    };
    let bounds = |of: fn(&Both) -> Option<f64>| curve(&found.rows, of);
    let (a, b) = (bounds(|r| r.a.bound_ns), bounds(|r| r.b.bound_ns));
    let bounds = if a == b {
        vec![Series::new("bound", a)]
    } else {
        vec![Series::new("bound of A", a), Series::new("bound of B", b)]
    };
    let all_bytes = found.rows.iter().all(|r| r.bytes.is_some());
    let chart = Latency {
        heading: Heading::new(format!("{} and {}", found.a, found.b), found.on.clone().unwrap_or_default())
            .with_theme(theme),
        x_label: if all_bytes { "bytes".into() } else { found.over.clone().unwrap_or_default() },
        series: vec![series('A', &found.a, |r| r.a.time_ns), series('B', &found.b, |r| r.b.time_ns)],
        bounds: bounds.into_iter().filter(|b| !b.points.is_empty()).collect(),
    };
    chart.draw()
}

/// Returns lines beside each other; the left column is as wide as its longest line.
fn side_by_side(left: &[String], right: &[String]) -> String {
    let width = left.iter().map(|l| l.chars().count()).max().unwrap_or(0);
    let empty = String::new();
    let at = |list: &'_ [String], i: usize| list.get(i).unwrap_or(&empty).clone();
    (0..left.len().max(right.len()))
        .map(|i| format!("{:<width$} |{}", at(left, i), at(right, i)).trim_end().to_owned() + "\n")
        .collect()
}

/// Formats the comparison for people.
pub fn human(found: &ComparisonReport) -> String {
    let on = found.on.as_ref().map_or_else(String::new, |f| format!(" on {f}"));
    let mut out =
        format!("A  {}\nB  {}\n{}{on}\n\n", found.a, found.b, format!("{:?}", found.kind).to_lowercase());
    let over = found.over.as_deref().unwrap_or("");
    let mut table: Vec<[String; 7]> =
        vec![[over, "bytes", "A", "B", "bound of A", "bound of B", "faster"].map(str::to_owned)];
    for r in &found.rows {
        let shown = |s: &ComparedSide| s.time_ns.map_or_else(|| s.status.to_owned(), time);
        let bound = |s: &ComparedSide| s.bound_ns.filter(|b| *b > 0.0).map_or("-".to_owned(), time);
        let faster = match ratio(r) {
            Some(x) if x > 1.0 + SAME => format!("B {x:.2} x"),
            Some(x) if x < 1.0 - SAME => format!("A {:.2} x", 1.0 / x),
            Some(_) => "same".into(),
            None => "-".into(),
        };
        table.push([
            r.value.map_or(String::new(), |v| v.to_string()),
            r.bytes.map_or("-".into(), bytes),
            shown(&r.a),
            shown(&r.b),
            bound(&r.a),
            bound(&r.b),
            faster,
        ]);
    }
    let width = |c: usize| table.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    for r in &table {
        let cells: Vec<String> = (0..7).map(|c| format!("{:>w$}", r[c], w = width(c))).collect();
        out += &format!("{}\n", cells.join("  ").trim_end());
    }
    out.push('\n');
    let all_bytes = found.rows.iter().all(|r| r.bytes.is_some());
    let at = |x: f64| {
        let x = x.round() as u64;
        if all_bytes { bytes(x) } else { format!("{over} = {x}") }
    };
    match &found.crossovers[..] {
        [] if found.rows.len() > 1 => {
            let wins = |c: char| found.why.iter().any(|w| w.faster == c);
            out += match (wins('A'), wins('B')) {
                (true, false) => "A is never slower\n",
                (false, true) => "B is never slower\n",
                (false, false) => "both take the same time at every size\n",
                (true, true) => "no crossover between sizes that both have\n",
            };
        }
        list => list.iter().for_each(|c| out += &format!("{} is faster from {} on\n", c.faster, at(c.at))),
    }
    for w in &found.why {
        let place = w.value.map_or(String::new(), |v| format!(" at {over} = {v}"));
        out += &format!("\ncritical paths where {} gains most{place}, {:.2} x\n", w.faster, w.gain);
        out += &format!("  {:<18} {:>12} {:>12} {:>12}\n", "cause", "A", "B", "B - A");
        let sums = w.causes.iter().fold((0.0, 0.0), |s, c| (s.0 + c.1, s.1 + c.2));
        let signed = |d: f64| if d < 0.0 { format!("-{}", time(-d)) } else { time(d) };
        let all = w.causes.iter().map(|c| (c.0.as_str(), c.1, c.2)).chain([("all", sums.0, sums.1)]);
        for (name, a, b) in all {
            out += &format!("  {name:<18} {:>12} {:>12} {:>12}\n", time(a), time(b), signed(b - a));
        }
        let titled = |c: char, p: &[String]| [vec![format!("  {c}")], p.to_vec()].concat();
        out += &side_by_side(&titled('A', &w.paths[0]), &titled('B', &w.paths[1]));
    }
    out
}
