//! The table of a benchmark for people.

use super::{BenchHostReport, BenchRow, BenchStage};
use kbc_compiler::report::amounts::{bytes, count, time};

/// Formats what a benchmark found.
pub fn human(found: &BenchHostReport) -> String {
    let mut out = String::new();
    let mut last = None;
    let width = found.rows.iter().filter_map(|r| r.algorithm.as_ref()).map(String::len).max().unwrap_or(0);
    let width = width.max(NARROWEST);
    for row in found.rows.iter().filter(|r| r.stage == BenchStage::Measured) {
        let of = (&row.collective, row.ranks);
        if last != Some(of) {
            last = Some(of);
            out += &head(found, row, width);
        }
        out += &line(row, width);
    }
    if found.rows.iter().any(|r| r.stage == BenchStage::Measured) {
        out += "ratio: time over that of kbc's fastest algorithm in shared memory, in the same round\n";
    }
    for left in &found.left_out {
        let at = left.bytes.map_or(String::new(), |n| format!(" at {}", bytes(n)));
        let of = format!("{} {} on {}", left.collective, left.algorithm, count(left.ranks, "rank"));
        out += &format!("left out: {of}{at}: {}\n", left.why);
    }
    for peer in &found.not_measured {
        out += &format!("not measured: {}: {}\n", peer.peer, peer.why);
    }
    if let Some(output) = &found.output {
        out += &format!("written: {output}\n");
    }
    out
}

/// Width of the column of algorithms, at least.
const NARROWEST: usize = 24;

fn head(found: &BenchHostReport, row: &BenchRow, width: usize) -> String {
    let processors = match found.processors {
        Some(n) if n < row.ranks => format!(", which take turns on {}", count(n, "processor")),
        Some(n) => format!(" on {}", count(n, "processor")),
        None => String::new(),
    };
    format!(
        "{} on {}{processors}; {} in turn\n{:>10}  {:<16} {:<width$} {:>11} {:>11} {:>11} {:>7}  {}\n",
        row.collective,
        count(row.ranks, "rank"),
        count(found.rounds, "round"),
        "bytes",
        "contestant",
        "algorithm",
        "median",
        "quarter",
        "3 quarters",
        "ratio",
        "smallest to largest"
    )
}

fn line(row: &BenchRow, width: usize) -> String {
    let number = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
    let line = format!(
        "{:>10}  {:<16} {:<width$} {:>11} {:>11} {:>11} {:>7}  {} to {}{}",
        bytes(row.bytes),
        row.contestant,
        row.algorithm.as_deref().unwrap_or("-"),
        time(row.time_ns),
        time(row.q1_ns),
        time(row.q3_ns),
        number(row.ratio),
        number(row.ratio_min),
        number(row.ratio_max),
        if row.best { "  best" } else { "" }
    );
    format!("{}\n", line.trim_end())
}
