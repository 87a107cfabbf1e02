//! Comparison of published figures with kbc: runs the program of each figure, and computes how far
//! the two are apart.
//!
//! A figure is a time, a rate, a count of notifies, or a change or ratio of two runs. A program is
//! proven before it is timed. If it does not have too much data, it is also executed and compared
//! with its single-device result.

use super::file::{Figure, Measure, ReferenceRun, read};
use crate::traffic;
use kbc_compiler::analyse;
use kbc_compiler::bounds::{self, Subject};
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::measure;
use kbc_compiler::options::{Selection, Source};
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, FileId, SourceMap};
use kbc_machine::topology::Topology;
use kbc_time::{TimeOptions, simulate};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

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
    /// Whether the deviation is as small as the file demands.
    pub ok: bool,
    /// Why it is not ok, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Value>,
    /// Whether its program failed.
    #[serde(skip)]
    pub failed: bool,
    from: Option<String>,
    note: Option<String>,
}

/// A file of figures.
#[derive(Serialize)]
pub struct MeasuredFile {
    file: String,
    source: String,
    /// Its figures in order.
    pub figures: Vec<Row>,
}

/// Measures the figures of a file.
///
/// # Errors
/// Returns the errors of reading it and of compiling its programs.
pub fn one(workspace: &mut Workspace, path: &str) -> Outcome<MeasuredFile> {
    let (file, text) = workspace.read(path)?;
    let reference = read(&text, file)?;
    let mut done: BTreeMap<(ReferenceRun, Measure), Result<Measured, Value>> = BTreeMap::new();
    let mut ours: BTreeMap<&str, f64> = BTreeMap::new();
    let mut figures = vec![];
    for f in &reference.figures {
        workspace.progress(&f.name);
        let (mut evidence, mut failure) = (None, None);
        let value = match (&f.run, &f.change, &f.rate, &f.ratio) {
            (Some(run), ..) => {
                let key = (run.clone(), f.measure);
                let known = match done.get(&key) {
                    Some(done) => done.clone(),
                    None => match measured(workspace, file, run, f.measure) {
                        Ok(found) => Ok(found),
                        Err(why @ Failure::Program(_)) => {
                            workspace.report(why.messages());
                            Err(why.json(&workspace.map))
                        }
                        Err(other) => return Err(other),
                    },
                };
                done.insert(key, known.clone());
                match known {
                    Ok(Measured { value, executed }) => {
                        evidence = Some(if executed { "executed" } else { "proven" });
                        ours.insert(&f.name, value);
                        Some(match f.unit.as_str() {
                            "us" => value / 1e3,
                            "ms" => value / 1e6,
                            _ => value,
                        })
                    }
                    Err(why) => {
                        failure = Some(why);
                        None
                    }
                }
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
        figures.push(Row { evidence, ..row(f, value, failure, &workspace.map) });
    }
    Ok(MeasuredFile { file: path.to_owned(), source: reference.source.trim().to_owned(), figures })
}

fn row(f: &Figure, ours: Option<f64>, failure: Option<Value>, map: &SourceMap) -> Row {
    let deviation = ours.zip(f.published).map(|(ours, published)| match f.change {
        Some(_) => ours - published,
        None => (ours / published - 1.0) * 100.0,
    });
    let ok = failure.is_none() && f.within.is_none_or(|w| deviation.is_some_and(|d| d.abs() <= w));
    let failed = failure.is_some();
    let failure = failure.or_else(|| {
        let deviates = Diagnostic::error("E997", format!("{} deviates more than the file allows", f.name));
        (!ok).then(|| Failure::Program(deviates.into()).json(map))
    });
    Row {
        name: f.name.clone(),
        unit: f.unit.clone(),
        published: f.published,
        ours,
        deviation,
        evidence: None,
        within: f.within,
        ok,
        failure,
        failed,
        from: f.from.clone(),
        note: f.note.as_ref().map(|n| n.trim().to_owned()),
    }
}

/// Returns the time of a proven schedule on a machine.
fn measured_value(subject: Subject<'_>, topology: &Topology, measure: Measure) -> Outcome<f64> {
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
fn measured(
    workspace: &mut Workspace,
    file: FileId,
    run: &ReferenceRun,
    measure: Measure,
) -> Outcome<Measured> {
    let beside = |path: &str| workspace.beside(file, path).to_string_lossy().into_owned();
    let topology = run.topology.as_ref().map(|t| match t.ends_with(".yaml") || t.ends_with(".yml") {
        true => beside(t),
        false => t.clone(),
    });
    let source = Source {
        file: beside(&run.program),
        of: Selection {
            mesh: run.mesh.clone(),
            define: run.define.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            topology,
            set: run.set.clone(),
            program: run.named.clone(),
            algorithm: None,
            ranks: None,
            using: vec![],
            order: None,
            effort: None,
            fuse: None,
        },
        post: None,
    };
    let ready = measure::ready(workspace, &source)?;
    let compare = ready.trust(workspace)?.compare;
    if let Some(c) = compare.as_ref().filter(|c| !analyse::passes(c)) {
        let title = format!("the result of {} differs from its single-device result", source.file);
        return Err(Diagnostic::error("E430", title)
            .note(c.hints.join("; "))
            .help(format!("kbc run {} shows the details", source.file))
            .into());
    }
    let value = measured_value(ready.subject()?, ready.topology(), measure)?;
    Ok(Measured { value, executed: compare.is_some() })
}

/// Formats the table of a file for people.
pub fn human(found: &MeasuredFile) -> String {
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
        let evidence = if r.failed { Some("failed") } else { r.evidence };
        let evidence = evidence.map_or(String::new(), |e| format!("  {e}"));
        out +=
            &format!("{:width$}  {published:>14}  {ours:>14}  {deviation:>10}{evidence}{allowed}\n", r.name);
        for note in r.from.iter().chain(&r.note) {
            out += &format!("    {}\n", note.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    out
}
