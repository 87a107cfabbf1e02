//! Measured rows: medians and spread of the rounds, and their form as CSV.
//!
//! Rows of `kbc dev bench host` and measured rows of `kbc sweep` are read into one form.

use crate::samples::Samples;
use kbc_diag::{Diagnostic, FileId, Span};
use kbc_ir::types::DType;
use serde::{Deserialize, Serialize};

/// When a row was measured.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "lowercase")]
pub enum BenchStage {
    /// Once, to find the fastest algorithms.
    #[default]
    Screened,
    /// In all rounds, in turn with the other contestants.
    Measured,
}

fn f32() -> String {
    "f32".to_owned()
}

/// A contestant at a size.
#[derive(Serialize, Deserialize, Clone, PartialEq, Default, Debug)]
pub struct BenchRow {
    /// The collective.
    pub collective: String,
    /// Number of ranks.
    pub ranks: u64,
    /// S of the conventions of busbw.
    pub bytes: u64,
    /// Elements of the whole vector.
    pub count: u64,
    /// Type of the elements. Files of the first version do not have it.
    #[serde(default = "f32")]
    pub element: String,
    /// `kbc`, `kbc/MPI` for its program over an MPI of that name, or the name of a peer.
    pub contestant: String,
    /// `memory`, `mpi`, or `command` for a peer that is a command.
    pub transport: String,
    /// The algorithm, for programs of kbc.
    pub algorithm: Option<String>,
    /// When it was measured.
    pub stage: BenchStage,
    /// Whether it is the fastest measured row of its contestant at this size.
    pub best: bool,
    /// Number of rounds.
    pub rounds: u64,
    /// Calls in a block of the first round, if they are known.
    pub repeat: Option<u64>,
    /// Time of a call in ns: the median over the rounds, each of which is a median of blocks.
    pub time_ns: f64,
    /// The smallest of the rounds.
    pub min_ns: f64,
    /// The smallest time that a quarter of the rounds does not exceed.
    pub q1_ns: f64,
    /// The smallest time that three quarters of the rounds do not exceed.
    pub q3_ns: f64,
    /// The largest of the rounds.
    pub max_ns: f64,
    /// Its time over that of kbc's best algorithm over shared memory in the same round: the median
    /// of the rounds. None for a row that was measured once.
    pub ratio: Option<f64>,
    /// The smallest of these quotients.
    pub ratio_min: Option<f64>,
    /// The largest of them.
    pub ratio_max: Option<f64>,
    /// S over the time, in GB/s.
    pub algbw_gbs: f64,
    /// That times the factor of busbw.
    pub busbw_gbs: Option<f64>,
    /// Elements that were compared in all rounds; none if the peer says nothing about it.
    pub compared: Option<u64>,
    /// Elements of them that differ.
    pub wrong: Option<u64>,
}

/// Rounds to as many digits as a file has, so that what is written is what is read.
fn digits(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

impl BenchRow {
    /// Fills in the times of the rounds, and their quotients with those of the reference.
    #[must_use]
    pub fn with(mut self, times: &Samples, reference: Option<&Samples>, bus_factor: Option<f64>) -> BenchRow {
        let ns = |v: f64| digits(v, 1);
        self.rounds = times.0.len() as u64;
        self.time_ns = ns(times.median());
        self.min_ns = ns(times.quantile(0.0));
        self.q1_ns = ns(times.quantile(0.25));
        self.q3_ns = ns(times.quantile(0.75));
        self.max_ns = ns(times.quantile(1.0));
        let ratios = reference.map(|r| times.over(r));
        let of = |f: &dyn Fn(&Samples) -> f64| ratios.as_ref().map(|r| digits(f(r), 4));
        self.ratio = of(&Samples::median);
        self.ratio_min = of(&|r| r.quantile(0.0));
        self.ratio_max = of(&|r| r.quantile(1.0));
        let algbw = if self.time_ns > 0.0 { self.bytes as f64 / self.time_ns } else { 0.0 };
        self.algbw_gbs = digits(algbw, 6);
        self.busbw_gbs = bus_factor.map(|f| digits(f * algbw, 6));
        self
    }
}

/// Marks the fastest measured row of every contestant at every size.
pub fn mark_best(rows: &mut [BenchRow]) {
    for i in 0..rows.len() {
        let row = &rows[i];
        let is_rival = |r: &BenchRow| {
            r.stage == BenchStage::Measured
                && (&r.collective, r.ranks, r.bytes, &r.contestant)
                    == (&row.collective, row.ranks, row.bytes, &row.contestant)
        };
        let first = rows.iter().enumerate().filter(|(_, r)| is_rival(r));
        let best = first.min_by(|a, b| a.1.time_ns.total_cmp(&b.1.time_ns)).map(|(k, _)| k);
        rows[i].best = best == Some(i);
    }
}

/// Returns rows as CSV.
///
/// # Errors
/// E991: a row has no form as CSV, which is an error of kbc.
pub fn csv(rows: &[BenchRow]) -> Result<Vec<u8>, Diagnostic> {
    let failed =
        |e: &dyn std::fmt::Display| Diagnostic::error("E991", format!("the rows cannot be written: {e}"));
    let mut out = csv::Writer::from_writer(vec![]);
    for row in rows {
        out.serialize(row).map_err(|e| failed(&e))?;
    }
    out.into_inner().map_err(|e| failed(&e))
}

/// Measured rows of a file.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct MeasuredRows {
    /// The rows.
    pub rows: Vec<BenchRow>,
    /// Rows of a sweep that have no measured time of a single collective.
    pub others: usize,
    /// Whether they are those of a sweep, which runs any program.
    pub swept: bool,
}

/// The columns of a row of a sweep that say what was measured.
#[derive(Deserialize)]
struct SweptRow {
    status: String,
    operation: Option<String>,
    algorithm: Option<String>,
    ranks: Option<u64>,
    bytes: Option<u64>,
    element: Option<String>,
    transport: Option<String>,
    rounds: Option<u64>,
    repeat: Option<u64>,
    time_ns: Option<f64>,
    min_ns: Option<f64>,
    q1_ns: Option<f64>,
    q3_ns: Option<f64>,
    max_ns: Option<f64>,
    algbw_gbs: Option<f64>,
    busbw_gbs: Option<f64>,
    checked: Option<u64>,
    mismatches: Option<u64>,
}

impl SweptRow {
    /// The same as a row of the benchmark; none if no processes measured it, or not one collective.
    fn row(self) -> Option<BenchRow> {
        let (bytes, element) = (self.bytes?, self.element?);
        let size = DType::parse(&element)?.bytes();
        Some(BenchRow {
            collective: self.operation?,
            ranks: self.ranks?,
            bytes,
            count: bytes / size,
            element,
            contestant: "kbc".to_owned(),
            transport: self.transport?,
            algorithm: self.algorithm,
            stage: BenchStage::Measured,
            best: false,
            rounds: self.rounds?,
            repeat: self.repeat,
            time_ns: self.time_ns.filter(|_| self.status == "right")?,
            min_ns: self.min_ns?,
            q1_ns: self.q1_ns?,
            q3_ns: self.q3_ns?,
            max_ns: self.max_ns?,
            ratio: None,
            ratio_min: None,
            ratio_max: None,
            algbw_gbs: self.algbw_gbs.unwrap_or_default(),
            busbw_gbs: self.busbw_gbs,
            compared: self.checked,
            wrong: self.mismatches,
        })
    }
}

/// Reads measured rows from CSV: those of `kbc dev bench host`, or of a sweep.
///
/// # Errors
/// Returns E481 with the line for a file that is neither.
pub fn read(text: &str, file: FileId) -> Result<MeasuredRows, Diagnostic> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let has = |columns: &csv::StringRecord, name: &str| columns.iter().any(|c| c == name);
    let swept = reader.headers().is_ok_and(|h| ["row", "status", "transport"].iter().all(|c| has(h, c)));
    let mut out = MeasuredRows { swept, ..MeasuredRows::default() };
    let unread = |e: csv::Error| {
        let at = e.position().map_or(0, |p| p.byte() as usize).min(text.len());
        let why = match e.kind() {
            csv::ErrorKind::Deserialize { err, .. } => err.kind().to_string(),
            _ => e.to_string(),
        };
        Diagnostic::error("E481", format!("not a measured row: {why}"))
            .primary(Span::new(file, at, at), "here")
            .help("docs/reference/host.md describes the columns")
    };
    if !swept {
        out.rows = reader.deserialize().collect::<Result<_, _>>().map_err(unread)?;
        return Ok(out);
    }
    for row in reader.deserialize::<SweptRow>() {
        match row.map_err(unread)?.row() {
            Some(row) => out.rows.push(row),
            None => out.others += 1,
        }
    }
    Ok(out)
}
