//! Text forms of rows: CSV, JSON lines, and a human-readable table.
//!
//! This module owns the order of columns and those that a file computes. [`super::columns`] has the
//! others.

use super::columns::{self, FAILURE, number};
use super::grid::{Grid, fill};
use super::request::RowRequest;
use super::row::Facts;
use super::run::SweepRow;
use super::spec::{place, wrong};
use kbc_diag::Diagnostic;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// Returns a value as text; null becomes empty.
pub fn plain(v: &Value) -> String {
    match v {
        Value::Null => String::new(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

/// Converts a text that is a number to a number.
fn typed(text: String) -> Value {
    match text.parse::<i64>() {
        Ok(n) => n.into(),
        Err(_) => match text.parse::<f64>() {
            Ok(x) if x.is_finite() && text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => x.into(),
            _ => text.into(),
        },
    }
}

/// A row.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepLine {
    /// Its columns in order.
    pub columns: Vec<(String, Value)>,
    /// The failure, if the row is wrong or refused. Only JSON has it.
    pub failure: Option<Value>,
}

impl SweepLine {
    /// Returns the value of a column; null if there is none.
    pub fn get(&self, column: &str) -> &Value {
        self.columns.iter().find(|c| c.0 == column).map_or(&Value::Null, |c| &c.1)
    }

    /// Returns the value of a column as a number.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.get(column).as_f64()
    }
}

impl Serialize for SweepLine {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let failure = self.failure.iter().map(|f| (FAILURE, f));
        let mut map = s.serialize_map(None)?;
        for (name, value) in self.columns.iter().map(|(n, v)| (n.as_str(), v)).chain(failure) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Evaluates a column such as `{bytes} * 16 + 8` after its names are filled in. A sum of products
/// and quotients of numbers becomes a number; any other text remains text. Plus and minus need
/// spaces around them, so that `2-4` and `1e+3` remain single words.
pub(crate) fn computed(text: &str) -> Value {
    let (mut sum, mut rest, mut sign) = (0.0, text, 1.0);
    loop {
        let next =
            [(" + ", 1.0), (" - ", -1.0)].into_iter().filter_map(|(s, f)| rest.find(s).map(|at| (at, f)));
        let next = next.min_by_key(|n| n.0);
        let Some(term) = product(&rest[..next.map_or(rest.len(), |n| n.0)]) else {
            return typed(text.trim().to_owned());
        };
        sum += sign * term;
        let Some((at, next)) = next else { break };
        (sign, rest) = (next, &rest[at + 3..]);
    }
    number(Some(sum).filter(|v| v.is_finite()), 6)
}

/// Parses a number, or several with `*` and `/` between them.
fn product(text: &str) -> Option<f64> {
    let mut value: Option<f64> = None;
    let mut rest = text.trim();
    let mut by = '*';
    loop {
        let end = rest.find(['*', '/']).unwrap_or(rest.len());
        let word = rest[..end].trim();
        let x = word.parse::<f64>().ok().filter(|x| x.is_finite())?;
        value = Some(match (value, by) {
            (None, _) => x,
            (Some(v), '*') => v * x,
            (Some(v), _) => v / x,
        });
        let Some(next) = rest[end..].chars().next() else { break };
        (by, rest) = (next, &rest[end + 1..]);
    }
    value
}

/// Returns a row as its columns: its index, the axes, the file's own columns, the usual ones. A
/// column of the file that needs a fact which the row lacks is empty.
///
/// # Errors
/// Returns E583 if a column of the file names something that is not a column.
pub fn line(grid: &Grid, text: &str, point: &RowRequest, facts: &Facts) -> Result<SweepLine, Diagnostic> {
    let mut out: Vec<(String, Value)> = vec![("row".into(), point.row.into())];
    for (axis, value) in grid.read.axes.iter().zip(&point.values) {
        out.push((axis.name.clone(), typed(value.label.clone())));
    }
    let values: Vec<_> = point.values.iter().collect();
    for (name, template) in &grid.read.columns {
        let mut empty = false;
        let full = fill(template, &mut |n, part| {
            if let Some(v) = super::grid::value(&grid.read.axes, &values, n, part) {
                return Some(v);
            }
            let usual = columns::of(grid.read.measures()).find(|u| u.0 == n && part.is_none())?;
            let v = plain(&(usual.1)(facts));
            empty |= v.is_empty();
            Some(v)
        });
        let full = full.map_err(|hole| {
            let title = format!("`{hole}` in column `{name}` is neither an axis nor a standard column");
            wrong(title, place(text, grid.read.file, &["columns"], name))
        })?;
        out.push((name.clone(), if empty { Value::Null } else { computed(&full) }));
    }
    let usual = columns::of(grid.read.measures()).filter(|u| u.0 != "row");
    out.extend(usual.map(|(name, of)| ((*name).to_owned(), of(facts))));
    Ok(SweepLine { columns: out, failure: facts.failure.clone() })
}

/// Returns all rows.
///
/// # Errors
/// Returns the same errors as [`line()`].
pub fn lines(grid: &Grid, text: &str, rows: &[SweepRow]) -> Result<Vec<SweepLine>, Diagnostic> {
    rows.iter().map(|r| line(grid, text, &grid.points[r.row], &r.facts)).collect()
}

/// Returns the rows as CSV with a header.
///
/// # Errors
/// Returns E991 if they cannot be written.
pub fn csv(lines: &[SweepLine]) -> Result<Vec<u8>, Diagnostic> {
    let unfit = |e: String| Diagnostic::error("E991", format!("rows without a form: {e}"));
    let mut out = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(vec![]);
    if let Some(first) = lines.first() {
        out.write_record(first.columns.iter().map(|c| &c.0)).map_err(|e| unfit(e.to_string()))?;
    }
    for l in lines {
        out.write_record(l.columns.iter().map(|c| plain(&c.1))).map_err(|e| unfit(e.to_string()))?;
    }
    out.into_inner().map_err(|e| unfit(e.to_string()))
}

/// Returns the rows as JSON lines, each with the digest of the sweep file and the version of kbc,
/// which `--merge` compares.
///
/// # Errors
/// Returns E991 if they cannot be written.
pub fn jsonl(lines: &[SweepLine], sweep: &str) -> Result<String, Diagnostic> {
    let mut out = String::new();
    for l in lines {
        let mut all = l.clone();
        all.columns.push(("sweep".into(), sweep.into()));
        all.columns.push(("kbc".into(), env!("CARGO_PKG_VERSION").into()));
        let unfit = |e: serde_json::Error| Diagnostic::error("E991", format!("rows without a form: {e}"));
        out += &serde_json::to_string(&all).map_err(unfit)?;
        out.push('\n');
    }
    Ok(out)
}

/// Returns a human-readable table: axes, the file's own columns, and the most important of the
/// usual ones.
pub fn human(grid: &Grid, lines: &[SweepLine]) -> String {
    let own = grid.read.axes.iter().map(|a| &a.name).chain(grid.read.columns.iter().map(|c| &c.0));
    let usual = [
        "algorithm",
        "transport",
        "time_ns",
        "min_ns",
        "max_ns",
        "rounds",
        "bound_ns",
        "percent",
        "limited_by",
        "status",
    ];
    let names: Vec<&str> = own.map(String::as_str).chain(usual).collect();
    // A column that is empty in every row is left out.
    let says = |n: &&&str| lines.iter().any(|l| !l.get(n).is_null());
    let names: Vec<&str> = names.iter().filter(says).copied().collect();
    let cell = |l: &SweepLine, n: &str| match l.get(n) {
        Value::Null => "-".to_owned(),
        v => plain(v),
    };
    let width = |n: &str| lines.iter().map(|l| cell(l, n).chars().count()).max().unwrap_or(0).max(n.len());
    let numeric = |n: &str| lines.iter().all(|l| l.get(n).is_number() || l.get(n).is_null());
    let put = |out: &mut String, n: &str, text: &str| {
        let w = width(n);
        *out += &if numeric(n) { format!("{text:>w$}  ") } else { format!("{text:<w$}  ") };
    };
    let mut out = String::new();
    for n in &names {
        put(&mut out, n, n);
    }
    out = out.trim_end().to_owned() + "\n";
    for l in lines {
        let mut row = String::new();
        for n in &names {
            put(&mut row, n, &cell(l, n));
        }
        out += row.trim_end();
        out.push('\n');
    }
    out
}
