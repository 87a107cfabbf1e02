//! Comparison of two files of rows: the same sweep with two versions of kbc, of a machine file, or
//! of a program.

use super::Sides;
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::load::refuse;
use kbc_compiler::report::amounts::time;
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use serde::Serialize;
use std::collections::BTreeMap;

/// Values that differ by less than this share count as equal: rows have three digits after the
/// decimal point.
const SAME: f64 = 1e-6;

/// The rows of both files; it serialises to the JSON of `kbc compare`.
#[derive(Serialize)]
pub struct RowsReport {
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

fn read(workspace: &mut Workspace, path: &str) -> Outcome<Rows> {
    let (_, text) = workspace.read(path)?;
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

/// Compares two files of rows, row by row.
///
/// # Errors
/// E588: one that is no file of rows, or two of different grids; an option that means nothing for
/// rows.
pub fn compare(workspace: &mut Workspace, sides: &Sides) -> Outcome<RowsReport> {
    refuse(&[("--of", sides.of.is_some()), ("--over", sides.over.is_some())], "two files of rows")?;
    refuse(&sides.select.given(), "two files of rows")?;
    let (columns, a) = read(workspace, &sides.a)?;
    let (_, b) = read(workspace, &sides.b)?;
    if a.len() != b.len() || a.iter().zip(&b).any(|(a, b)| a["row"] != b["row"]) {
        return Err(usage(format!(
            "the rows of the two files differ: {} has {}, and {} has {}",
            sides.a,
            a.len(),
            sides.b,
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
        return Err(usage(format!("no axis has the same values in {} and {}", sides.a, sides.b)));
    }
    let mut found = RowsReport {
        schema: super::SCHEMA,
        command: "compare",
        kind: "rows",
        a: sides.a.clone(),
        b: sides.b.clone(),
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
    Ok(found)
}

/// Formats the comparison for people.
pub fn human(found: &RowsReport) -> String {
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
