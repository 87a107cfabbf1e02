//! Measured rows beside simulated times of the same programs on a machine.

use super::{BenchCollective, BenchRow, BenchStage, read};
use crate::samples::Samples;
use kbc_compiler::failure::Outcome;
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
    /// Rows of other contestants, and of the screening, which are not simulated.
    pub others: usize,
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
/// Returns E481 for a file that is not one of `kbc dev bench host`, or that has no row to compare,
/// and the errors of compiling on that machine.
pub fn predicted(workspace: &mut Workspace, path: &str, topology: &str) -> Outcome<PredictedFile> {
    let (file, text) = workspace.read(path)?;
    let all = read(&text, file)?;
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
    let mut rows = vec![];
    for (row, algorithm) in &own {
        workspace.progress(&format!("{} {algorithm}: {}", row.collective, bytes(row.bytes)));
        let Some(collective) = BenchCollective::named(&row.collective) else {
            return Err(wrong(format!("`{}` is not a collective of the benchmark", row.collective)).into());
        };
        let (name, text) = collective.text(row.ranks, row.count);
        workspace.give(&name, &text);
        let (using, topology) = (vec![(*algorithm).clone()], Some(topology.to_owned()));
        let of = Selection { using, topology, ..Selection::default() };
        let source = Source { file: name, of, post: None };
        let ready = measure::ready(workspace, &source)?;
        ready.prove(workspace)?;
        let predicted_ns = simulate(ready.schedule()?, ready.topology(), &TimeOptions::default())?.ns;
        rows.push(PredictedRow {
            collective: row.collective.clone(),
            ranks: row.ranks,
            bytes: row.bytes,
            algorithm: (*algorithm).clone(),
            measured_ns: row.time_ns,
            predicted_ns,
            error_percent: (predicted_ns / row.time_ns - 1.0) * 100.0,
        });
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
        others: all.len() - own.len(),
        median_error_percent: Some(median(&mut rows.iter())),
        collectives,
        choice_percent: (!choices.0.is_empty()).then(|| choices.median()),
        worst_choice_percent: (!choices.0.is_empty()).then(|| choices.quantile(1.0)),
        rows,
    })
}

/// Returns for every size with several algorithms by how much the algorithm that is predicted to be
/// the fastest is slower than the fastest one, in percent.
fn choices(rows: &[PredictedRow]) -> Samples {
    let mut out = vec![];
    for (i, r) in rows.iter().enumerate() {
        let is_same =
            |o: &&PredictedRow| (&o.collective, o.ranks, o.bytes) == (&r.collective, r.ranks, r.bytes);
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
            r.collective,
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
    if found.others > 0 {
        out += &format!("{} other rows of the file are not simulated\n", found.others);
    }
    out
}
