//! Report of a measurement: what the processes of each case and size took, beside another program
//! if there is one, and how fast that grows.

use super::cases::ScaleCase;
use super::slope::{last_slope, slope};
use crate::samples::Samples;
use serde::Serialize;
use std::fmt::Write;

/// Cost of one process.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProcessCost {
    /// Processor seconds, of the program and of the system on its behalf.
    pub cpu_seconds: f64,
    /// Seconds from its start to its end.
    pub wall_seconds: f64,
    /// Largest resident memory in bytes.
    pub peak_bytes: u64,
    /// Messages that it simulated, if its report counts them.
    pub messages: Option<u64>,
}

/// Cost of equal processes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScaleFigures {
    /// Number of processes.
    pub runs: usize,
    /// Median of their processor seconds.
    pub cpu_seconds: f64,
    /// Smallest of their processor seconds.
    pub smallest_cpu_seconds: f64,
    /// Largest of their processor seconds.
    pub largest_cpu_seconds: f64,
    /// Median of their seconds from start to end.
    pub wall_seconds: f64,
    /// Largest resident memory of all of them in bytes.
    pub peak_bytes: u64,
    /// Messages that each simulated, if their report counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Messages for each processor second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_cpu_second: Option<f64>,
}

impl ScaleFigures {
    /// Summarises processes; None if there are none.
    pub fn of(processes: &[ProcessCost]) -> Option<ScaleFigures> {
        if processes.is_empty() {
            return None;
        }
        let all = |of: fn(&ProcessCost) -> f64| Samples(processes.iter().map(of).collect());
        let (cpu, wall) = (all(|p| p.cpu_seconds), all(|p| p.wall_seconds));
        let cpu_seconds = cpu.median();
        let messages = processes.iter().find_map(|p| p.messages);
        Some(ScaleFigures {
            runs: processes.len(),
            cpu_seconds,
            smallest_cpu_seconds: cpu.quantile(0.0),
            largest_cpu_seconds: cpu.quantile(1.0),
            wall_seconds: wall.median(),
            peak_bytes: processes.iter().map(|p| p.peak_bytes).max()?,
            messages,
            messages_per_cpu_second: messages.filter(|_| cpu_seconds > 0.0).map(|n| n as f64 / cpu_seconds),
        })
    }
}

/// What one program did with a case at a size: its cost, or why it failed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScaleSide {
    /// Its cost, if every process succeeded.
    #[serde(flatten)]
    pub figures: Option<ScaleFigures>,
    /// The first line that a failed process printed on standard error, or how it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The failure, with its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<serde_json::Value>,
}

/// Cost of kbc divided by that of the other program.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScaleRatio {
    /// Of the medians of processor seconds.
    pub cpu_seconds: f64,
    /// Of the medians of seconds from start to end.
    pub wall_seconds: f64,
    /// Of the largest resident memories.
    pub peak_bytes: f64,
}

/// A case at a size.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScaleRow {
    /// The size; None for a case without sizes.
    pub size: Option<u64>,
    /// This kbc.
    #[serde(flatten)]
    pub own: ScaleSide,
    /// The other program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<ScaleSide>,
    /// Cost of kbc divided by that of the other program, if both succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<ScaleRatio>,
}

impl ScaleRow {
    /// Compares two sides at a size.
    pub fn new(size: Option<u64>, own: ScaleSide, against: Option<ScaleSide>) -> ScaleRow {
        let other = against.as_ref().and_then(|side| side.figures.as_ref());
        let ratio = own.figures.as_ref().zip(other).map(|(a, b)| ScaleRatio {
            cpu_seconds: a.cpu_seconds / b.cpu_seconds,
            wall_seconds: a.wall_seconds / b.wall_seconds,
            peak_bytes: a.peak_bytes as f64 / b.peak_bytes as f64,
        });
        ScaleRow { size, own, against, ratio }
    }
}

/// How fast the processor seconds of a program grow: the powers of the size.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScaleSlopes {
    /// Fitted to all sizes; None for fewer than two.
    pub slope: Option<f64>,
    /// Between the last two sizes.
    pub slope_of_last_two: Option<f64>,
}

impl ScaleSlopes {
    fn of<'a>(sides: impl Iterator<Item = (Option<u64>, &'a ScaleSide)>) -> ScaleSlopes {
        let point = |(size, side): (Option<u64>, &ScaleSide)| {
            Some((size? as f64, side.figures.as_ref()?.cpu_seconds))
        };
        let points: Vec<(f64, f64)> = sides.filter_map(point).collect();
        ScaleSlopes { slope: slope(&points), slope_of_last_two: last_slope(&points) }
    }
}

/// A case at all its sizes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScaleCaseReport {
    /// The name of the case.
    pub case: String,
    /// What is measured.
    pub about: String,
    /// What a size counts.
    pub unit: Option<String>,
    /// The words after `kbc`, with the places of the table.
    pub command: Vec<String>,
    /// The sizes.
    pub rows: Vec<ScaleRow>,
    /// How fast the cost of kbc grows.
    #[serde(flatten)]
    pub own: ScaleSlopes,
    /// How fast the cost of the other program grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<ScaleSlopes>,
}

impl ScaleCaseReport {
    /// Fits the slopes of the rows of a case.
    pub fn new(case: &ScaleCase, rows: Vec<ScaleRow>) -> ScaleCaseReport {
        let other = || rows.iter().filter_map(|row| Some((row.size, row.against.as_ref()?)));
        let against = other().next().is_some().then(|| ScaleSlopes::of(other()));
        let own = ScaleSlopes::of(rows.iter().map(|row| (row.size, &row.own)));
        let ScaleCase { name, about, unit, run, .. } = case.clone();
        ScaleCaseReport { case: name, about, unit, command: run, rows, own, against }
    }
}

/// All measured cases.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScaleReport {
    /// The version of the form.
    pub schema: u32,
    /// Whether every process succeeded.
    pub ok: bool,
    /// The other program.
    pub against: Option<String>,
    /// The cases in the order in which they were asked for.
    pub cases: Vec<ScaleCaseReport>,
}

impl ScaleReport {
    /// Gathers cases.
    pub fn new(cases: Vec<ScaleCaseReport>, against: Option<String>) -> ScaleReport {
        let mut report = ScaleReport { schema: 1, ok: false, against, cases };
        let failed = report.failed().count();
        report.ok = failed == 0;
        report
    }

    /// Returns why each side failed that did.
    pub fn failed(&self) -> impl Iterator<Item = &str> {
        let rows = self.cases.iter().flat_map(|case| &case.rows);
        rows.flat_map(|row| [Some(&row.own), row.against.as_ref()]).flatten().filter_map(|s| s.why.as_deref())
    }
}

/// Returns the report as text.
pub fn human(found: &ScaleReport) -> String {
    found.cases.iter().map(table).collect::<Vec<_>>().join("\n")
}

fn table(case: &ScaleCaseReport) -> String {
    let mut out = format!("{}: {}\n", case.case, case.about);
    let _ = write!(out, "{:>10} {:7}", case.unit.as_deref().unwrap_or(""), "");
    for head in ["CPU s", "smallest", "largest", "wall s", "peak MB"] {
        let _ = write!(out, " {head:>9}");
    }
    let counts = |row: &ScaleRow| row.own.figures.as_ref().is_some_and(|f| f.messages.is_some());
    if case.rows.iter().any(counts) {
        let _ = write!(out, " {:>12} {:>14}", "messages", "per CPU second");
    }
    out.push('\n');
    for row in &case.rows {
        let size = row.size.map_or(String::new(), |n| n.to_string());
        out += &line(&size, "kbc", &row.own);
        if let Some(other) = &row.against {
            out += &line("", "against", other);
        }
        if let Some(ratio) = &row.ratio {
            let (cpu, wall, peak) = (ratio.cpu_seconds, ratio.wall_seconds, ratio.peak_bytes);
            let _ = writeln!(out, "{:>10} {:7} {cpu:>9.2} {:19} {wall:>9.2} {peak:>9.2}", "", "ratio", "");
        }
    }
    let slopes = [("slope", Some(&case.own)), ("against: slope", case.against.as_ref())];
    for (what, slopes) in slopes {
        if let Some(ScaleSlopes { slope: Some(all), slope_of_last_two: Some(last) }) = slopes {
            let _ = writeln!(out, "  {what} {all:.2}, over the last two sizes {last:.2}");
        }
    }
    out
}

fn line(size: &str, who: &str, side: &ScaleSide) -> String {
    let mut out = format!("{size:>10} {who:7}");
    if let Some(f) = &side.figures {
        for seconds in [f.cpu_seconds, f.smallest_cpu_seconds, f.largest_cpu_seconds, f.wall_seconds] {
            let _ = write!(out, " {seconds:>9.4}");
        }
        let _ = write!(out, " {:>9.1}", f.peak_bytes as f64 / 1e6);
        if let (Some(n), Some(rate)) = (f.messages, f.messages_per_cpu_second) {
            let _ = write!(out, " {n:>12} {rate:>14.0}");
        }
    }
    if let Some(why) = &side.why {
        let _ = write!(out, " failed: {why}");
    }
    out.push('\n');
    out
}
