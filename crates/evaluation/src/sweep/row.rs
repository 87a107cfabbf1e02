//! Facts of a sweep's row: the results of running its program, one per column.
//!
//! This module owns the facts and takes them from a report. [`kbc_compiler::measure`] and
//! [`kbc_compiler::analyse`] execute and time the program.

use super::request::{RowEngine, RowProgram, RowRequest};
use crate::ccl::{CclOptions, prepare};
use kbc_compiler::analyse;
use kbc_compiler::bounds::certified_ns;
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::measure::{MeasuredSchedule, TimingChecks};
use kbc_compiler::options::{Selection, Source};
use kbc_compiler::perturb;
use kbc_compiler::report::{CollectiveReport, Report};
use kbc_compiler::workspace::{Workspace, plain};
use kbc_diag::Diagnostic;
use kbc_machine::topology::Topology;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Whether the numbers of a row are trustworthy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Proven, and every element on every rank is right.
    Right,
    /// Proven, but not compared: the data is too large to execute, or it is a schedule without a
    /// program.
    Proven,
    /// Elements differ.
    Wrong,
    /// kbc does not compile it.
    Refused,
}

impl Status {
    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Status::Right => "right",
            Status::Proven => "proven",
            Status::Wrong => "wrong",
            Status::Refused => "refused",
        }
    }

    /// Checks whether the time of such a row is valid.
    pub fn holds(self) -> bool {
        matches!(self, Status::Right | Status::Proven)
    }
}

/// The facts of a row. Times are in ns, rates in GB/s, sizes in bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// Whether the numbers are trustworthy.
    pub status: Status,
    /// Code and title of the reason, if the row is wrong or refused.
    pub why: Option<String>,
    /// The failure as JSON, if the row is wrong or refused.
    pub failure: Option<serde_json::Value>,
    /// Number of elements compared on all ranks.
    pub checked: u64,
    /// Number of elements that differ.
    pub mismatches: u64,
    /// Simulated time of one call.
    pub time_ns: Option<f64>,
    /// Its lower bound.
    pub bound_ns: Option<f64>,
    /// 100 * bound / time.
    pub percent: Option<f64>,
    /// The same with the time at the best certified rate, or with the bound if that is longer. None
    /// if there is not exactly one collective, or no certificate.
    pub certified_percent: Option<f64>,
    /// The row that gives the bound.
    pub bottleneck: Option<String>,
    /// The largest cause in the critical path: `latency`, `bytes`, `work`, ..
    pub limited_by: Option<String>,
    /// Percentage of the time that this cause takes.
    pub limited_percent: Option<f64>,
    /// Collectives, joined by ` + `.
    pub operation: Option<String>,
    /// Their algorithms, joined in the same way.
    pub algorithm: Option<String>,
    /// Whether kbc chose one of the algorithms.
    pub selected: bool,
    /// Number of ranks of the mesh.
    pub ranks: u64,
    /// S of the bandwidth conventions, if there is exactly one collective.
    pub bytes: Option<u64>,
    /// algbw, if there is exactly one collective.
    pub algbw_gbs: Option<f64>,
    /// busbw, if there is exactly one collective.
    pub busbw_gbs: Option<f64>,
    /// Time of the critical path spent on preloading operands.
    pub preload_ns: Option<f64>,
    /// Messages of one call.
    pub messages: Option<u64>,
    /// Number of links in use.
    pub links_used: Option<u64>,
    /// Median over the runs on perturbed machines, if the machine asks for them.
    pub perturbed_median_ns: Option<f64>,
    /// 95th percentile over these runs.
    pub perturbed_p95_ns: Option<f64>,
    /// The machine.
    pub machine: Option<String>,
    /// How its processes ran, if the time is measured.
    #[serde(default)]
    pub measured: Option<MeasuredFacts>,
}

/// How the processes of a row ran. Times are in ns; each is that of a round, which is the median of
/// its blocks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MeasuredFacts {
    /// What the processes share: `memory`, or windows of `mpi`.
    pub transport: String,
    /// Type of the elements, if the inputs have one type.
    pub element: Option<String>,
    /// Number of rounds.
    pub rounds: u64,
    /// Calls in a block of the first round.
    pub repeat: u64,
    /// The smallest of the rounds.
    pub min_ns: f64,
    /// The smallest time that a quarter of the rounds does not exceed.
    pub q1_ns: f64,
    /// The smallest time that three quarters of the rounds do not exceed.
    pub q3_ns: f64,
    /// The largest of the rounds.
    pub max_ns: f64,
}

/// Resolves a path relative to a sweep file.
pub fn beside(sweep: &str, path: &str) -> String {
    match Path::new(sweep).parent() {
        Some(dir) => plain(&dir.join(path)).to_string_lossy().into_owned(),
        None => path.to_owned(),
    }
}

/// Returns the machine of a row: a shape, or a file relative to the sweep file.
fn machine(sweep: &str, point: &RowRequest) -> Option<String> {
    point.of.topology.as_ref().map(|t| match t.ends_with(".yaml") || t.ends_with(".yml") {
        true => beside(sweep, t),
        false => t.clone(),
    })
}

/// Returns the values of `--using` of a row, without empty ones.
fn using(point: &RowRequest) -> impl Iterator<Item = &String> {
    point.of.using.iter().filter(|u| !u.is_empty())
}

/// Returns the program of a row as a command takes it. The text of a program becomes a file beside
/// the sweep file; an entry of a ccl.yaml becomes the program that `kbc dev bench ccl` runs.
///
/// # Errors
/// Returns the errors of [`prepare()`].
pub fn source(workspace: &mut Workspace, sweep: &str, point: &RowRequest) -> Outcome<Source> {
    let file = match &point.program {
        RowProgram::File(path) => beside(sweep, path),
        RowProgram::Text(text) => {
            let name = format!("{sweep}.kb");
            workspace.give(&name, text);
            name
        }
        RowProgram::Ccl(path) => return Ok(prepare(workspace, &bench(sweep, point, path))?.source),
    };
    Ok(Source { file, of: options(sweep, point), post: None })
}

/// Returns the options of a row as a command takes them.
fn options(sweep: &str, point: &RowRequest) -> Selection {
    let using = using(point).cloned().collect();
    Selection { topology: machine(sweep, point), using, ..point.of.clone() }
}

/// Returns the arguments of `kbc dev bench ccl` for a row of a ccl.yaml.
fn bench(sweep: &str, point: &RowRequest, ccl: &str) -> CclOptions {
    CclOptions {
        topology: machine(sweep, point).unwrap_or_default(),
        ccl: beside(sweep, ccl),
        define: point.of.define.clone(),
        set: point.of.set.clone(),
        using: using(point).map(|u| beside(sweep, u)).collect(),
    }
}

/// Returns the command line that is equivalent to a row. The text of a program appears as the file
/// that stands for it.
pub fn command(sweep: &str, point: &RowRequest) -> Vec<String> {
    let verb = if point.engine.measures() { "launch" } else { "run" };
    let (mut out, files) = match &point.program {
        RowProgram::File(path) => (vec![verb.to_owned(), beside(sweep, path)], false),
        RowProgram::Text(_) => (vec![verb.to_owned(), format!("{sweep}.kb")], false),
        RowProgram::Ccl(path) => (
            ["dev", "bench", "ccl", "--ccl"]
                .map(str::to_owned)
                .into_iter()
                .chain([beside(sweep, path)])
                .collect(),
            true,
        ),
    };
    let mut of = options(sweep, point);
    if files {
        of.using.iter_mut().for_each(|u| *u = beside(sweep, u));
    }
    for (flag, values) in of.flags() {
        out.extend(values.iter().flat_map(|v| [flag.to_owned(), v.clone()]));
    }
    out.extend((point.engine == RowEngine::Mpi).then(|| "--mpi".to_owned()));
    out
}

/// Executes, compares and times a compiled program.
///
/// # Errors
/// Returns the errors of the proof, of the execution and of the timing.
pub fn facts(workspace: &Workspace, source: &Source, ready: &MeasuredSchedule) -> Outcome<Facts> {
    let schedule = ready.schedule()?;
    let TimingChecks { compare, .. } = ready.trust(workspace)?;
    let (report, _) = ready.timed(workspace, "run", &source.file)?;
    let perturbed =
        ready.perturb().map(|p| perturb::runs(ready.subject()?, ready.topology(), p)).transpose()?;
    let wrong = compare.as_ref().is_some_and(|c| !analyse::passes(c));
    let status = match &compare {
        Some(_) if wrong => Status::Wrong,
        Some(_) => Status::Right,
        None => Status::Proven,
    };
    let differs = wrong.then(|| {
        let hints = compare.as_ref().map_or(String::new(), |c| c.hints.join("; "));
        let title = format!("the result differs from the single-device result {hints}");
        Diagnostic::error("E430", title.trim_end())
    });
    let why = differs.as_ref().map(|d| format!("{} {}", d.code, d.title));
    let failure = differs.map(|d| Failure::Program(d.into()).json(&workspace.map));
    let one = only(&report);
    let most = report.totals.iter().max_by(|a, b| a.ns.total_cmp(&b.ns)).filter(|t| t.ns > 0.0);
    Ok(Facts {
        status,
        why,
        failure,
        checked: compare.as_ref().map_or(0, |c| c.elements),
        mismatches: compare.as_ref().map_or(0, |c| c.mismatches),
        time_ns: report.time_ns.filter(|_| !wrong),
        bound_ns: report.bound_ns,
        percent: report.percent.filter(|_| !wrong),
        certified_percent: one.filter(|_| !wrong).and_then(|c| certified(&report, c, ready.topology())),
        bottleneck: report.bottleneck.clone().filter(|_| report.bound_ns.is_some_and(|b| b > 0.0)),
        limited_by: most.map(|t| t.cause.to_string()),
        limited_percent: most.map(|t| t.percent),
        ranks: schedule.mesh.ranks(),
        algbw_gbs: one.and_then(|c| c.algbw).filter(|_| !wrong),
        busbw_gbs: one.and_then(|c| c.busbw).filter(|_| !wrong),
        preload_ns: report
            .time_ns
            .filter(|_| !wrong)
            .map(|_| report.totals.iter().find(|t| t.cause == "preload").map_or(0.0, |t| t.ns)),
        messages: report.messages,
        links_used: report.links_used,
        perturbed_median_ns: perturbed.as_ref().map(|p| p.median_ns),
        perturbed_p95_ns: perturbed.as_ref().map(|p| p.p95_ns),
        ..described(&report)
    })
}

/// Returns the only collective of a program, if there is exactly one.
fn only(report: &Report) -> Option<&CollectiveReport> {
    match &report.collectives[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// Returns the facts of a proven program before it is compared and timed.
pub(super) fn described(report: &Report) -> Facts {
    let joined = |of: &dyn Fn(&CollectiveReport) -> String| {
        let mut all: Vec<String> = report.collectives.iter().map(of).collect();
        all.dedup();
        (!all.is_empty()).then(|| all.join(" + "))
    };
    Facts {
        operation: joined(&|c| c.operation.clone()),
        algorithm: joined(&|c| c.algorithm.clone()),
        selected: report.collectives.iter().any(|c| !c.asked),
        ranks: report.mesh.iter().map(|a| a.size).product(),
        bytes: only(report).map(|c| c.bytes),
        machine: report.machine.clone(),
        ..empty(Status::Proven)
    }
}

/// Returns the time of the only collective at the best certified rate as a percentage of the time
/// of its program.
fn certified(report: &Report, c: &CollectiveReport, topology: &Topology) -> Option<f64> {
    let (time, bound) = (report.time_ns?, report.bound_ns?);
    let certified = certified_ns(topology, c.problem.as_ref()?)?;
    (time > 0.0).then(|| 100.0 * certified.max(bound) / time)
}

/// Returns the facts of a row that kbc does not compile.
pub fn refused(why: String, failure: Option<serde_json::Value>) -> Facts {
    Facts { why: Some(why), failure, ..empty(Status::Refused) }
}

/// Returns facts of this status, of which nothing else is known.
fn empty(status: Status) -> Facts {
    Facts {
        status,
        why: None,
        failure: None,
        checked: 0,
        mismatches: 0,
        time_ns: None,
        bound_ns: None,
        percent: None,
        certified_percent: None,
        bottleneck: None,
        limited_by: None,
        limited_percent: None,
        operation: None,
        algorithm: None,
        selected: false,
        ranks: 0,
        bytes: None,
        algbw_gbs: None,
        busbw_gbs: None,
        preload_ns: None,
        messages: None,
        links_used: None,
        perturbed_median_ns: None,
        perturbed_p95_ns: None,
        machine: None,
        measured: None,
    }
}
