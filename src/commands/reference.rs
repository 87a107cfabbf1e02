//! `kbc compare-reference`: published figures beside those of kbc.
//!
//! Every time is that of a program that was proven before and, if that is not too much data,
//! executed and compared with its single-device result.

use crate::analyse;
use crate::bounds::{self, Subject};
use crate::checkout;
use crate::cli::{CompareReference, ReportFormat, Selection, Source};
use crate::measure;
use crate::reference::{Figure, Measure, Run, read};
use crate::session::{Failure, Outcome, Session, named, words};
use crate::traffic;
use kbc_diag::{Diagnostic, Diagnostics, FileId};
use kbc_machine::topology::Topology;
use kbc_time::{TimeOptions, simulate};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The measured value of a run (ns, or notifies of all ranks in a call), and the work that was done
/// for it.
#[derive(Clone, Copy)]
struct Measured {
    value: f64,
    executed: bool,
}

/// A published figure and that of kbc.
#[derive(Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Published value, if there is one.
    pub published: Option<f64>,
    /// Value of kbc; None if it is not measured.
    pub ours: Option<f64>,
    /// Deviation of kbc in percent; in percentage points if the value is a percentage.
    deviation: Option<f64>,
    /// `executed`; `proven` if executing would need too much data or there is only a schedule; None
    /// if no program runs.
    evidence: Option<&'static str>,
    within: Option<f64>,
    ok: bool,
    from: Option<String>,
    note: Option<String>,
}

/// A file of figures.
#[derive(Serialize)]
pub struct Found {
    file: String,
    source: String,
    /// Its figures in order.
    pub figures: Vec<Row>,
}

/// Measures and prints.
///
/// # Errors
/// Returns the errors of reading a file and of compiling its programs, and E997 if a figure
/// deviates more than its file allows.
pub fn run(session: &mut Session, args: &CompareReference) -> Outcome {
    let mut all = vec![];
    let usual = [checkout::find("specs/reference")];
    for path in files(if args.files.is_empty() { &usual } else { &args.files })? {
        all.push(one(session, &path)?);
    }
    match args.report {
        ReportFormat::Human => session.result(all.iter().map(human).collect::<String>().trim_end()),
        ReportFormat::Json => {
            let json = serde_json::to_string(&all)
                .map_err(|e| Diagnostic::error("E991", format!("a report without a form: {e}")))?;
            session.result(&json);
        }
    }
    let off: Vec<&Row> = all.iter().flat_map(|f| &f.figures).filter(|r| !r.ok).collect();
    if off.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = off.iter().map(|r| r.name.as_str()).collect();
    let count = all.iter().map(|f| f.figures.len()).sum::<usize>();
    let title = format!("{} of {count} figures deviate more than the file allows", off.len());
    let d = Diagnostic::error("E997", title).note(names.join("; "));
    Err(Failure::Program(Diagnostics::from(d)))
}

/// Returns the files, with folders replaced by the `.yaml` files in them.
fn files(names: &[String]) -> Outcome<Vec<String>> {
    let mut out = vec![];
    for name in names {
        let path = Path::new(name);
        if !path.is_dir() {
            out.push(name.clone());
            continue;
        }
        let cannot =
            |e: &std::io::Error| Diagnostic::error("E412", format!("cannot read {name}: {}", words(e)));
        let entries = std::fs::read_dir(path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut found: Vec<String> = entries
            .map_err(|e| cannot(&e))?
            .iter()
            .map(std::fs::DirEntry::path)
            .filter(|p| p.extension().is_some_and(|e| e == "yaml" || e == "yml"))
            .map(|p| named(&p))
            .collect::<std::io::Result<_>>()
            .map_err(|e| cannot(&e))?;
        if found.is_empty() {
            return Err(Diagnostic::error("E412", format!("no .yaml file in {name}")).into());
        }
        found.sort();
        out.extend(found);
    }
    Ok(out)
}

/// Measures the figures of a file.
///
/// # Errors
/// Returns the errors of reading it and of compiling its programs.
pub fn one(session: &mut Session, path: &str) -> Outcome<Found> {
    let (file, text) = session.read(path)?;
    let reference = read(&text, file)?;
    let mut done: BTreeMap<(Run, Measure), Measured> = BTreeMap::new();
    let mut ours: BTreeMap<&str, f64> = BTreeMap::new();
    let mut figures = vec![];
    for f in &reference.figures {
        session.progress(&f.name);
        let mut evidence = None;
        let value = match (&f.run, &f.change, &f.rate, &f.ratio) {
            (Some(run), ..) => {
                let key = (run.clone(), f.measure);
                let Measured { value, executed } = match done.get(&key) {
                    Some(done) => *done,
                    None => measured(session, file, run, f.measure)?,
                };
                done.insert(key, Measured { value, executed });
                evidence = Some(if executed { "executed" } else { "proven" });
                ours.insert(&f.name, value);
                Some(match f.unit.as_str() {
                    "us" => value / 1e3,
                    "ms" => value / 1e6,
                    _ => value,
                })
            }
            (_, Some(c), ..) => {
                let both = ours.get(c.from.as_str()).zip(ours.get(c.to.as_str()));
                both.map(|(from, to)| (to / from - 1.0) * 100.0)
            }
            (_, _, Some(rate), _) => ours.get(rate.of.as_str()).map(|ns| {
                let a_ns = rate.amount as f64 / ns;
                if f.unit == "TFLOP/s" { a_ns / 1e3 } else { a_ns }
            }),
            (.., Some(ratio)) => {
                let both = ours.get(ratio.of.as_str()).zip(ours.get(ratio.by.as_str()));
                both.map(|(of, by)| of / by)
            }
            _ => None,
        };
        figures.push(row(f, value, evidence));
    }
    Ok(Found { file: path.to_owned(), source: reference.source.trim().to_owned(), figures })
}

fn row(f: &Figure, ours: Option<f64>, evidence: Option<&'static str>) -> Row {
    let deviation = ours.zip(f.published).map(|(ours, published)| match f.change {
        Some(_) => ours - published,
        None => (ours / published - 1.0) * 100.0,
    });
    Row {
        name: f.name.clone(),
        unit: f.unit.clone(),
        published: f.published,
        ours,
        deviation,
        evidence,
        within: f.within,
        ok: f.within.is_none_or(|w| deviation.is_some_and(|d| d.abs() <= w)),
        from: f.from.clone(),
        note: f.note.as_ref().map(|n| n.trim().to_owned()),
    }
}

/// Returns the time of a proven schedule on a machine.
fn taken(subject: Subject<'_>, topology: &Topology, measure: Measure) -> Outcome<f64> {
    let schedule = subject.schedule;
    if measure == Measure::Notifies {
        return Ok(traffic::count(schedule)?.whole().iter().map(|t| t.notifies as f64).sum());
    }
    let options = TimeOptions { path: measure == Measure::Preloaded, ..TimeOptions::default() };
    let timing = simulate(schedule, topology, &options)?;
    match measure {
        Measure::Time => return Ok(timing.ns),
        Measure::Preloaded => return Ok(timing.ns - timing.breakdown().preload_ns),
        Measure::Bound | Measure::Notifies => {}
    }
    Ok(bounds::against(subject, topology, &timing)?.ns)
}

/// Returns the time of a program, after it was proven and its numbers were compared.
fn measured(session: &mut Session, file: FileId, run: &Run, measure: Measure) -> Outcome<Measured> {
    let beside = |path: &str| session.beside(file, path).to_string_lossy().into_owned();
    let topology = run.topology.as_ref().map(|t| match t.ends_with(".yaml") || t.ends_with(".yml") {
        true => beside(t),
        false => t.clone(),
    });
    let source = Source {
        file: beside(&run.program),
        of: Selection {
            define: run.define.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            topology,
            set: run.set.clone(),
            program: run.named.clone(),
            algorithm: None,
            ranks: None,
            using: vec![],
        },
        post: None,
    };
    let ready = measure::ready(session, &source.plain())?;
    let compare = ready.trust(session)?.compare;
    if let Some(c) = compare.as_ref().filter(|c| !analyse::passes(c)) {
        let title = format!("the result of {} differs from its single-device result", source.file);
        return Err(Diagnostic::error("E430", title)
            .note(c.hints.join("; "))
            .help(format!("kbc run {} shows the details", source.file))
            .into());
    }
    let value = taken(ready.subject()?, ready.topology(), measure)?;
    Ok(Measured { value, executed: compare.is_some() })
}

fn human(found: &Found) -> String {
    let width = found.figures.iter().map(|r| r.name.chars().count()).max().unwrap_or(0).max(6);
    let mut out = format!("{}\n", found.file);
    for line in found.source.lines() {
        out += &format!("  {}\n", line.trim());
    }
    out += &format!("{:width$}  {:>14}  {:>14}  {:>10}\n", "figure", "published", "ours", "deviation");
    for r in &found.figures {
        let published = r.published.map_or("-".to_owned(), |p| format!("{p} {}", r.unit));
        let ours = r.ours.map_or("-".to_owned(), |o| format!("{o:.2} {}", r.unit));
        let points = if r.unit == "%" { "pp" } else { "%" };
        // A value that is shown as zero has no sign.
        let shown = |d: f64| if d.abs() < 0.005 { 0.0 } else { d };
        let deviation = r.deviation.map_or("-".to_owned(), |d| format!("{:+.2} {points}", shown(d)));
        let allowed = match (r.within, r.ok) {
            (Some(w), true) => format!("  within {w} {points}"),
            (Some(w), false) => format!("  NOT within {w} {points}"),
            (None, _) => String::new(),
        };
        let evidence = r.evidence.map_or(String::new(), |e| format!("  {e}"));
        out +=
            &format!("{:width$}  {published:>14}  {ours:>14}  {deviation:>10}{evidence}{allowed}\n", r.name);
        for note in r.from.iter().chain(&r.note) {
            out += &format!("    {}\n", note.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    out
}
