//! Measured rows beside simulated times of the same programs on a machine.

use super::{BenchCollective, BenchRow, BenchStage, LeftOut, MeasuredRows, read};
use crate::samples::Samples;
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::measure;
use kbc_compiler::options::{Selection, Source};
use kbc_compiler::report::amounts::{bytes, time};
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, Span};
use kbc_time::{TimeOptions, simulate};
use serde::Serialize;

/// A measured time and the simulated one.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct PredictedRow {
    /// The collective.
    pub collective: String,
    /// Number of ranks.
    pub ranks: u64,
    /// S of the conventions of busbw.
    pub bytes: u64,
    /// Type of the elements.
    pub element: String,
    /// The algorithm.
    pub algorithm: String,
    /// The measured time of a call in ns.
    pub measured_ns: f64,
    /// The simulated time in ns.
    pub predicted_ns: f64,
    /// Deviation of the simulated time in percent of the measured one.
    pub error_percent: f64,
}

/// The rows of a file; it serialises to the JSON of `kbc dev compare-reference`.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct PredictedFile {
    /// The version of the form, 1.
    pub schema: u32,
    /// The file.
    pub file: String,
    /// The machine.
    pub machine: String,
    /// Rows of programs of kbc that share memory, measured in all rounds.
    pub rows: Vec<PredictedRow>,
    /// Rows of other contestants, of the screening, and of a sweep that no processes sharing memory
    /// measured, which are not simulated.
    pub others: usize,
    /// Measured rows of a sweep that cannot be simulated on the machine, with the reason.
    pub left_out: Vec<LeftOut>,
    /// Median of the sizes of the errors in percent.
    pub median_error_percent: Option<f64>,
    /// The same by collective.
    pub collectives: Vec<(String, f64)>,
    /// Median of how much longer the algorithm with the smallest simulated time takes than the
    /// fastest measured one, in percent; none if no size has several algorithms.
    pub choice_percent: Option<f64>,
    /// The largest of these.
    pub worst_choice_percent: Option<f64>,
}

/// Compares the rows of a file with simulated times on a machine: a shape, or a machine file.
///
/// # Errors
/// Returns E481 for a file without measured rows, or that has no row to compare, and the errors of
/// compiling on that machine. A row of a sweep may have an algorithm of a file that is not there,
/// or another number of ranks: it is left out with the reason.
pub fn predicted(workspace: &mut Workspace, path: &str, topology: &str) -> Outcome<PredictedFile> {
    let (file, text) = workspace.read(path)?;
    let MeasuredRows { rows: all, others, swept } = read(&text, file)?;
    let is_own = |r: &&BenchRow| r.stage == BenchStage::Measured && r.transport == "memory";
    let own: Vec<(&BenchRow, &String)> =
        all.iter().filter(is_own).filter_map(|r| Some((r, r.algorithm.as_ref()?))).collect();
    let wrong = |title: String| {
        Diagnostic::error("E481", title)
            .primary(Span::new(file, 0, 0), "here")
            .help("docs/reference/host.md describes the columns")
    };
    if own.is_empty() {
        return Err(wrong("no row of kbc in shared memory that was measured in turn".into()).into());
    }
    let (mut rows, mut left_out) = (vec![], vec![]);
    for (row, algorithm) in &own {
        workspace.progress(&format!("{} {algorithm}: {}", row.collective, bytes(row.bytes)));
        let found = match BenchCollective::named(&row.collective) {
            Some(collective) => simulated_ns(workspace, collective, row, algorithm, topology),
            None => Err(wrong(format!("`{}` is not a collective of the benchmark", row.collective)).into()),
        };
        let predicted_ns = match found {
            Ok(ns) => ns,
            Err(Failure::Program(d)) if swept => {
                let why = d.list.first().map_or_else(String::new, |d| format!("{} {}", d.code, d.title));
                let (collective, algorithm) = (row.collective.clone(), (*algorithm).clone());
                let bytes = Some(row.bytes);
                left_out.push(LeftOut { collective, ranks: row.ranks, algorithm, bytes, why });
                continue;
            }
            Err(failure) => return Err(failure),
        };
        rows.push(PredictedRow {
            collective: row.collective.clone(),
            ranks: row.ranks,
            bytes: row.bytes,
            element: row.element.clone(),
            algorithm: (*algorithm).clone(),
            measured_ns: row.time_ns,
            predicted_ns,
            error_percent: (predicted_ns / row.time_ns - 1.0) * 100.0,
        });
    }
    if let (true, Some(first)) = (rows.is_empty(), left_out.first()) {
        let d = wrong("no measured row can be simulated on this machine".into());
        return Err(d.note(format!("{} {}: {}", first.collective, first.algorithm, first.why)).into());
    }
    let median = |rows: &mut dyn Iterator<Item = &PredictedRow>| {
        Samples(rows.map(|r| r.error_percent.abs()).collect()).median()
    };
    let mut collectives: Vec<(String, f64)> = vec![];
    for r in &rows {
        if collectives.iter().all(|c| c.0 != r.collective) {
            let of = median(&mut rows.iter().filter(|o| o.collective == r.collective));
            collectives.push((r.collective.clone(), of));
        }
    }
    let choices = choices(&rows);
    Ok(PredictedFile {
        schema: 1,
        file: path.to_owned(),
        machine: topology.to_owned(),
        others: others + all.len() - own.len(),
        left_out,
        median_error_percent: Some(median(&mut rows.iter())),
        collectives,
        choice_percent: (!choices.0.is_empty()).then(|| choices.median()),
        worst_choice_percent: (!choices.0.is_empty()).then(|| choices.quantile(1.0)),
        rows,
    })
}

/// Returns the simulated time of a row on a machine in ns.
fn simulated_ns(
    workspace: &mut Workspace,
    collective: BenchCollective,
    row: &BenchRow,
    algorithm: &str,
    topology: &str,
) -> Outcome<f64> {
    let (name, text) = collective.text_of(&row.element, row.ranks, row.count);
    workspace.give(&name, &text);
    let (using, topology) = (vec![algorithm.to_owned()], Some(topology.to_owned()));
    let of = Selection { using, topology, ..Selection::default() };
    let source = Source { file: name, of, post: None };
    let ready = measure::ready(workspace, &source)?;
    ready.prove(workspace)?;
    Ok(simulate(ready.schedule()?, ready.topology(), &TimeOptions::default())?.ns)
}

/// Returns for every size with several algorithms by how much the algorithm that is predicted to be
/// the fastest is slower than the fastest one, in percent.
fn choices(rows: &[PredictedRow]) -> Samples {
    let mut out = vec![];
    for (i, r) in rows.iter().enumerate() {
        let is_same = |o: &&PredictedRow| {
            (&o.collective, o.ranks, o.bytes, &o.element) == (&r.collective, r.ranks, r.bytes, &r.element)
        };
        if rows[..i].iter().any(|o| is_same(&o)) {
            continue;
        }
        let same: Vec<&PredictedRow> = rows.iter().filter(is_same).collect();
        let chosen = same.iter().min_by(|a, b| a.predicted_ns.total_cmp(&b.predicted_ns));
        let fastest = same.iter().map(|o| o.measured_ns).min_by(f64::total_cmp);
        if let (Some(chosen), Some(fastest), true) = (chosen, fastest, same.len() > 1) {
            out.push((chosen.measured_ns / fastest - 1.0) * 100.0);
        }
    }
    Samples(out)
}

/// Formats the comparison for people.
pub fn human(found: &PredictedFile) -> String {
    let mut out = format!("{} on {}\n", found.file, found.machine);
    let width = found.rows.iter().map(|r| r.algorithm.chars().count()).max().unwrap_or(0).max(9);
    out += &format!(
        "{:<14}  {:>5}  {:>10}  {:<width$}  {:>12}  {:>12}  {:>8}\n",
        "collective", "ranks", "bytes", "algorithm", "measured", "predicted", "error"
    );
    for r in &found.rows {
        out += &format!(
            "{:<14}  {:>5}  {:>10}  {:<width$}  {:>12}  {:>12}  {:>+6.1} %\n",
            if r.element == "f32" { r.collective.clone() } else { format!("{} {}", r.collective, r.element) },
            r.ranks,
            bytes(r.bytes),
            r.algorithm,
            time(r.measured_ns),
            time(r.predicted_ns),
            r.error_percent
        );
    }
    for (name, percent) in &found.collectives {
        out += &format!("median error of {name}: {percent:.1} %\n");
    }
    if let Some(percent) = found.median_error_percent {
        out += &format!("median error of {} rows: {percent:.1} %\n", found.rows.len());
    }
    if let (Some(median), Some(worst)) = (found.choice_percent, found.worst_choice_percent) {
        out += &format!(
            "the algorithm that is predicted to be the fastest takes {median:.1} % longer than the \
             fastest one (median of sizes; at most {worst:.1} %)\n"
        );
    }
    for l in &found.left_out {
        let size = l.bytes.map_or_else(String::new, |b| format!(", {}", bytes(b)));
        out += &format!(
            "not simulated: {} {} on {} ranks{size}: {}\n",
            l.collective, l.algorithm, l.ranks, l.why
        );
    }
    if found.others > 0 {
        out += &format!("{} other rows of the file are not simulated\n", found.others);
    }
    out
}
