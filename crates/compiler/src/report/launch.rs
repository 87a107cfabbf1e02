//! The part of a report about a launched program: what its ranks compared and measured, beside the
//! simulated time and the bound.

use super::Report;
use super::amounts::{bytes, count, percent, time};
use kbc_machine::topology::brief;
use serde::{Deserialize, Serialize};

/// What a program of this computer printed about its run (`--json` of docs/reference/host.md).
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct LaunchReport {
    /// The version of the form, 1.
    pub schema: u32,
    /// Name of the program.
    pub program: String,
    /// What its processes share: `memory` of one computer, or windows of `mpi`.
    pub transport: String,
    /// Number of processes, one a rank.
    pub ranks: u64,
    /// The parameter that sizes the data, if there is one.
    pub parameter: Option<String>,
    /// Its value.
    pub count: Option<u64>,
    /// Number of checked calls.
    pub calls: u64,
    /// Number of elements that were compared, on all ranks.
    pub compared: u64,
    /// Number of elements that differ.
    pub wrong: u64,
    /// Whether integers stay exact in the program, so that elements have to be equal. Otherwise
    /// they are compared within bounds.
    #[serde(default = "equal")]
    pub exact: bool,
    /// Number of differing elements for which no bound is known.
    #[serde(default)]
    pub unbounded: u64,
    /// The largest error as a part of its bound; nothing if it has no bound.
    #[serde(default)]
    pub max_err: Option<f64>,
    /// Number of calls in a measured block; 0 if nothing was measured.
    pub repeat: u64,
    /// Time of a call in each block in ns, as measured.
    pub blocks_ns: Vec<f64>,
    /// Their median in ns.
    pub time_ns: Option<f64>,
    /// The smallest in ns.
    pub min_ns: Option<f64>,
    /// The largest in ns.
    pub max_ns: Option<f64>,
    /// S of the conventions of busbw in bytes, for a program of one collective.
    pub bytes: Option<u64>,
    /// busbw / algbw.
    pub bus_factor: Option<f64>,
    /// S / `time_ns`, in GB/s.
    pub algbw: Option<f64>,
    /// `algbw` times `bus_factor`, in GB/s.
    pub busbw: Option<f64>,
}

/// Programs that say nothing else compare bits.
fn equal() -> bool {
    true
}

/// Formats the report of a launch for people. `processors` is their number on this computer, if it
/// is known.
pub fn human(r: &Report, l: &LaunchReport, processors: Option<u64>) -> String {
    let machine = r.machine.as_ref().map_or_else(String::new, |m| brief(m));
    let mesh: Vec<String> = r.mesh.iter().map(|a| format!("{} = {}", a.name, a.size)).collect();
    let mut out = format!("{}: {} on {machine}, mesh {}\n", r.file, r.program, mesh.join(", "));
    for c in &r.collectives {
        let reduce = c.reduce.as_ref().map_or_else(String::new, |reduce| format!(" {reduce}"));
        out += &format!(
            "  {}{reduce} of {} over {} ({}): {}{}\n",
            c.operation,
            bytes(c.bytes),
            c.axis,
            count(c.ranks, "rank"),
            c.algorithm,
            if c.asked { "" } else { " (selected)" }
        );
    }
    let has = processors.map_or_else(String::new, |n| format!(", which has {}", count(n, "processor")));
    let size = match (&l.parameter, l.count) {
        (Some(name), Some(n)) => format!("; {name} = {n}"),
        _ => String::new(),
    };
    let place = match l.transport.as_str() {
        "mpi" => "of MPI".to_owned(),
        _ => format!("of this computer{has}"),
    };
    out += &format!("launched: {} {place}{size}\n", processes(l.ranks));
    let and = if l.repeat > 0 { " and the last measured one" } else { "" };
    let verdict = match l.wrong {
        0 if l.exact => format!("all {} elements on all ranks are equal, bit for bit", l.compared),
        0 => {
            let most = l.max_err.map_or_else(String::new, |part| format!(", at most {part:.2e} of them"));
            let unknown = match l.unbounded {
                0 => String::new(),
                n => format!("; {} without a known bound", count(n, "element")),
            };
            format!(
                "all {} elements on all ranks are within the bounds of their errors{most}{unknown}",
                l.compared
            )
        }
        n => format!("{n} of {} elements differ", l.compared),
    };
    out += &format!("  {} in a row{and}: {verdict}\n", count(l.calls, "call"));
    out += &table(r, l);
    out + if r.ok { "ok\n" } else { "not ok\n" }
}

fn processes(n: u64) -> String {
    format!("{n} process{}", if n == 1 { "" } else { "es" })
}

/// Formats the times in columns, each with its rates.
fn table(r: &Report, l: &LaunchReport) -> String {
    let rate = |ns: f64| {
        let algbw = l.bytes.filter(|_| ns > 0.0).map(|n| n as f64 / ns);
        [algbw, algbw.zip(l.bus_factor).map(|(a, f)| a * f)]
    };
    let gbs = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{r:.3} GB/s"));
    let mut rows = vec![];
    let mut row = |name: &str, ns: f64, of: String| {
        let [algbw, busbw] = rate(ns).map(gbs);
        rows.push([name.to_owned(), time(ns), algbw, busbw, of]);
    };
    if let (Some(ns), Some(min), Some(max)) = (l.time_ns, l.min_ns, l.max_ns) {
        let calls = count(l.repeat, "call");
        let of = format!("median of {} blocks of {calls}, {} to {}", l.blocks_ns.len(), time(min), time(max));
        row("measured here", ns, of);
    }
    if let Some(ns) = r.time_ns {
        row("simulated", ns, "a call on the machine of the program".into());
    }
    if let Some(ns) = r.bound_ns {
        let share =
            r.percent.map_or_else(String::new, |p| format!("; {} of the simulated time", percent(Some(p))));
        row("bound", ns, format!("of that machine{share}"));
    }
    let head = ["", "time", "algbw", "busbw"].map(str::to_owned);
    let width =
        |i: usize| rows.iter().map(|r| r[i].chars().count()).chain([head[i].len()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..4).map(width).collect();
    let line = |cells: &[String], of: &str| {
        let mut text = format!("  {:<1$}", cells[0], widths[0]);
        for (cell, width) in cells.iter().zip(&widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        format!("{text}  {of}")
    };
    let mut out = format!("{}\n", line(&head, "").trim_end());
    for r in &rows {
        out += &format!("{}\n", line(&r[..4], &r[4]));
    }
    if rows.len() > 2 {
        out += "  That machine is a model, and need not resemble this computer.\n";
    }
    out
}
