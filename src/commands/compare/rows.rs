//! Comparison of two files of rows: the same sweep with two versions of kbc, of a machine file, or
//! of a program.

use crate::cli::{Compare, ReportFormat};
use crate::report::human::time;
use crate::session::{Failure, Outcome, Session};
use kbc_diag::{Diagnostic, Diagnostics};
use serde::Serialize;
use std::collections::BTreeMap;

/// Values that differ by less than this share count as equal: rows have three digits after the
/// decimal point.
const SAME: f64 = 1e-6;

/// Rows of both files.
#[derive(Serialize)]
struct Found {
    schema: u32,
    command: &'static str,
    kind: &'static str,
    a: String,
    b: String,
    rows: usize,
    faster: usize,
    slower: usize,
    same: usize,
    /// Rows whose status differs, or which have no time in one of the files.
    changed: Vec<Changed>,
    /// Rows of which one is faster, sorted by gain.
    different: Vec<Different>,
}

#[derive(Serialize)]
struct Changed {
    row: String,
    at: BTreeMap<String, String>,
    a: String,
    b: String,
}

#[derive(Serialize)]
struct Different {
    row: String,
    at: BTreeMap<String, String>,
    a_ns: f64,
    b_ns: f64,
    /// Time of B divided by that of A.
    ratio: f64,
    /// Algorithms, if they differ.
    algorithms: Option<[String; 2]>,
}

type Rows = (Vec<String>, Vec<BTreeMap<String, String>>);

fn usage(title: String) -> Failure {
    let d = Diagnostic::error("E588", title)
        .help("give two files of one sweep, written by `kbc sweep FILE -o ROWS.csv`");
    Failure::Usage(Diagnostics::from(d))
}

fn read(session: &mut Session, path: &str) -> Outcome<Rows> {
    let (_, text) = session.read(path)?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns: Vec<String> = match reader.headers() {
        Ok(h) => h.iter().map(str::to_owned).collect(),
        Err(e) => return Err(usage(format!("{path} is not a file of rows: {e}"))),
    };
    if let Some(missing) = ["row", "status", "time_ns"].iter().find(|c| !columns.iter().any(|h| h == *c)) {
        return Err(usage(format!("{path} is not a file of rows: it has no column `{missing}`")));
    }
    let rows = reader.deserialize().collect::<Result<Vec<_>, _>>();
    Ok((columns, rows.map_err(|e| usage(format!("{path} is not a file of rows: {e}")))?))
}

/// Compares row by row.
///
/// # Errors
/// Returns E588 for a file that is not a file of rows, for rows of different grids, and for a flag
/// that does not apply to rows.
pub(super) fn run(session: &mut Session, args: &Compare) -> Outcome {
    let flags = [
        ("--of", args.of.is_some()),
        ("--over", args.over.is_some()),
        ("-D", !args.define.is_empty()),
        ("--topology", args.topology.is_some()),
        ("--set", !args.set.is_empty()),
        ("--program", args.program.is_some()),
        ("--using", !args.using.is_empty()),
        ("--out", args.out.is_some()),
        ("--cache", args.cache.is_some()),
        ("--no-cache", args.no_cache),
    ];
    kbc_compiler::load::refuse(&flags, "two files of rows")?;
    let (columns, a) = read(session, &args.a)?;
    let (_, b) = read(session, &args.b)?;
    if a.len() != b.len() || a.iter().zip(&b).any(|(a, b)| a["row"] != b["row"]) {
        return Err(usage(format!(
            "the rows of the two files differ: {} has {}, and {} has {}",
            args.a,
            a.len(),
            args.b,
            b.len()
        )));
    }
    // Axes and columns of the sweep itself come before the standard ones. The columns that are
    // equal in both files identify a row.
    let place: Vec<&String> = columns
        .iter()
        .skip_while(|c| *c != "row")
        .skip(1)
        .take_while(|c| *c != "status")
        .filter(|c| a.iter().zip(&b).all(|(a, b)| a.get(*c) == b.get(*c)))
        .collect();
    if place.is_empty() && !a.is_empty() {
        return Err(usage(format!("no axis has the same values in {} and {}", args.a, args.b)));
    }
    let mut found = Found {
        schema: super::SCHEMA,
        command: "compare",
        kind: "rows",
        a: args.a.clone(),
        b: args.b.clone(),
        rows: a.len(),
        faster: 0,
        slower: 0,
        same: 0,
        changed: vec![],
        different: vec![],
    };
    for (a, b) in a.iter().zip(&b) {
        let at = || place.iter().map(|c| ((*c).clone(), a[*c].clone())).collect();
        let time = |r: &BTreeMap<String, String>| r["time_ns"].parse::<f64>().ok().filter(|t| *t > 0.0);
        let (Some(a_ns), Some(b_ns), true) = (time(a), time(b), a["status"] == b["status"]) else {
            if a["status"] == b["status"] && a["time_ns"] == b["time_ns"] {
                found.same += 1;
            } else {
                let (a_status, b_status) = (a["status"].clone(), b["status"].clone());
                found.changed.push(Changed { row: a["row"].clone(), at: at(), a: a_status, b: b_status });
            }
            continue;
        };
        let ratio = b_ns / a_ns;
        if (ratio - 1.0).abs() <= SAME {
            found.same += 1;
            continue;
        }
        *(if ratio < 1.0 { &mut found.faster } else { &mut found.slower }) += 1;
        let algorithms = a.get("algorithm").zip(b.get("algorithm")).filter(|(x, y)| x != y);
        let algorithms = algorithms.map(|(x, y)| [x.clone(), y.clone()]);
        found.different.push(Different { row: a["row"].clone(), at: at(), a_ns, b_ns, ratio, algorithms });
    }
    found.different.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    match args.report {
        ReportFormat::Human => session.result(&human(&found)),
        ReportFormat::Json => session.result(
            &serde_json::to_string(&found)
                .map_err(|e| Diagnostic::error("E991", format!("a comparison without a form: {e}")))?,
        ),
    }
    Ok(())
}

fn human(found: &Found) -> String {
    let mut out = format!("A  {}\nB  {}\n", found.a, found.b);
    out += &format!(
        "{} rows: B is faster in {}, slower in {}, the same in {}; {} changed\n",
        found.rows,
        found.faster,
        found.slower,
        found.same,
        found.changed.len()
    );
    let words = |at: &BTreeMap<String, String>| {
        at.iter().map(|(c, v)| format!("{c} {v}")).collect::<Vec<_>>().join(", ")
    };
    for c in &found.changed {
        out += &format!("row {}: {}: {} in A, {} in B\n", c.row, words(&c.at), c.a, c.b);
    }
    for d in &found.different {
        let algorithms =
            d.algorithms.as_ref().map_or(String::new(), |[a, b]| format!("; {a} in A, {b} in B"));
        let (a, b) = (time(d.a_ns), time(d.b_ns));
        out +=
            &format!("row {}: {}: {a} in A, {b} in B, {:.3} x{algorithms}\n", d.row, words(&d.at), d.ratio);
    }
    out
}
