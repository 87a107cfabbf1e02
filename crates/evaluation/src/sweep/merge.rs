//! Merging of shards: checks that the rows are those of this sweep, that each occurs, and that one
//! version of kbc made them.

use super::columns::FAILURE;
use super::grid::Grid;
use super::table::SweepLine;
use kbc_diag::Diagnostic;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A file of rows as JSON lines.
pub struct RowsFile<'t> {
    /// Name of the file.
    pub name: &'t str,
    /// Text of the file.
    pub text: &'t str,
}

/// Largest number of rows that a message names.
const NAMED: usize = 8;

/// Merges parts in the order of the grid. `sweep` is the digest of the sweep file.
///
/// # Errors
/// Returns E584 for a line that is not a row, a row of another sweep or another kbc, a row with two
/// different values, or missing rows.
pub fn merge(
    grid: &Grid,
    sweep: &str,
    parts: &[RowsFile<'_>],
    columns: &[String],
) -> Result<Vec<SweepLine>, Diagnostic> {
    let wrong = |title: String| Diagnostic::error("E584", title);
    let mut rows: BTreeMap<usize, (SweepLine, String)> = BTreeMap::new();
    for part in parts {
        for (number, text) in part.text.lines().enumerate().filter(|l| !l.1.trim().is_empty()) {
            let place = format!("{}:{}", part.name, number + 1);
            let map: Map<String, Value> = serde_json::from_str(text).map_err(|e| {
                wrong(format!("{place} is not a row: {e}"))
                    .help("--merge needs the JSON lines of `kbc sweep -o FILE.jsonl`")
            })?;
            let of = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or("nothing").to_owned();
            if of("sweep") != sweep {
                return Err(wrong(format!(
                    "{place} is a row of another sweep, or of another version of this one"
                ))
                .help("run that shard again with this file"));
            }
            let version = env!("CARGO_PKG_VERSION");
            if of("kbc") != version {
                return Err(wrong(format!(
                    "{place} was made by kbc {}, and this is kbc {version}",
                    of("kbc")
                )));
            }
            let row = map.get("row").and_then(Value::as_u64).map(|r| r as usize);
            let row = row.filter(|r| *r < grid.points.len()).ok_or_else(|| {
                wrong(format!("{place} has no row of this sweep, which has {}", grid.points.len()))
            })?;
            if let Some(missing) = columns.iter().find(|c| !map.contains_key(*c)) {
                return Err(wrong(format!("{place} has no column `{missing}`")));
            }
            let line = SweepLine {
                columns: columns.iter().map(|c| (c.clone(), map[c].clone())).collect(),
                failure: map.get(FAILURE).cloned(),
            };
            match rows.get(&row) {
                Some((before, _)) if *before == line => {}
                Some((_, first)) => {
                    return Err(wrong(format!("row {row} has other values in {place} than in {first}")));
                }
                None => {
                    rows.insert(row, (line, place));
                }
            }
        }
    }
    let missing: Vec<String> =
        (0..grid.points.len()).filter(|r| !rows.contains_key(r)).map(|r| r.to_string()).collect();
    if !missing.is_empty() {
        let more = missing.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let some = missing[..missing.len().min(NAMED)].join(", ");
        let title = format!("{} of {} rows are missing", missing.len(), grid.points.len());
        return Err(wrong(title)
            .note(format!("rows {some}{more}"))
            .help("row k is in shard k mod N + 1 of N"));
    }
    Ok(rows.into_values().map(|r| r.0).collect())
}
