//! Tables of sweep rows in pages of the documentation.
//!
//! A page contains `<!-- rows: SWEEP AXIS=VALUES .. : column, column as title, .. -->`, a table,
//! and `<!-- end -->`. The table is generated from the rows of the sweep that have these values.
//! With `across AXIS` before the colon, each value of that axis becomes a column, whose cells show
//! the last column of the list.

use crate::sweep::table::{SweepLine, plain};
use kbc_compiler::report::amounts::{bytes, time};
use kbc_diag::{Diagnostic, FileId, Span};
use serde_json::Value;
use std::collections::BTreeMap;

/// The content of a marker.
struct Marker<'t> {
    sweep: &'t str,
    only: Vec<(&'t str, Vec<&'t str>)>,
    across: Option<&'t str>,
    /// Columns with their titles.
    columns: Vec<(&'t str, &'t str)>,
}

const OPEN: &str = "<!-- rows: ";
const CLOSE: &str = "<!-- end -->";

/// Returns the page with its tables regenerated.
///
/// # Errors
/// Returns E589 for a marker without an end, with an unknown sweep or column, or for which no row
/// is left.
pub fn remade(
    text: &str,
    file: FileId,
    sweeps: &BTreeMap<String, Vec<SweepLine>>,
) -> Result<String, Diagnostic> {
    let mut out = String::new();
    let mut at = 0;
    // A marker stands at the beginning of a line; elsewhere the text only mentions it.
    let begins = |at: usize| at == 0 || text[..at].ends_with('\n');
    while let Some(open) = text[at..].match_indices(OPEN).map(|m| m.0 + at).find(|o| begins(*o)) {
        let wrong = |title: String| {
            Diagnostic::error("E589", title).primary(Span::new(file, open, open + OPEN.len()), "here")
        };
        let head = text[open..]
            .find(" -->")
            .map(|e| e + open)
            .ok_or_else(|| wrong("a marker without ` -->`".into()))?;
        let body = head + " -->".len();
        let close = text[body..].find(CLOSE).map(|c| c + body);
        let close = close.ok_or_else(|| wrong(format!("rows without {CLOSE}")))?;
        let marker = marker(&text[open + OPEN.len()..head]).map_err(wrong)?;
        let lines = sweeps
            .get(marker.sweep)
            .ok_or_else(|| wrong(format!("no sweep `{}` in the list", marker.sweep)))?;
        out += &text[at..body];
        out += "\n\n";
        out += &table(&marker, lines).map_err(wrong)?;
        out.push('\n');
        at = close;
    }
    Ok(out + &text[at..])
}

fn marker(text: &str) -> Result<Marker<'_>, String> {
    let (head, columns) = text.split_once(':').ok_or("a marker needs columns after a colon")?;
    let mut words = head.split_whitespace();
    let sweep = words.next().ok_or("a marker needs a sweep")?;
    let (mut only, mut across) = (vec![], None);
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((name, values)) => only.push((name, values.split(',').collect())),
            None if word == "across" => across = Some(words.next().ok_or("`across` needs a column")?),
            None => return Err(format!("`{word}` is neither AXIS=VALUES nor `across AXIS`")),
        }
    }
    let columns = columns.split(',').map(|c| {
        let c = c.trim();
        c.split_once(" as ").map_or((c, c), |(name, title)| (name.trim(), title.trim()))
    });
    Ok(Marker { sweep, only, across, columns: columns.collect() })
}

/// Formats a value for a page: times, bytes and percentages get their units.
fn cell(column: &str, v: &Value) -> String {
    match v.as_f64() {
        Some(x) if column.ends_with("_ns") => time(x),
        Some(x) if column.ends_with("percent") => format!("{x:.1} %"),
        Some(x) if column.starts_with("bytes") => bytes(x as u64),
        _ => plain(v).replace('|', "\\|"),
    }
}

fn table(m: &Marker<'_>, lines: &[SweepLine]) -> Result<String, String> {
    let named = m.columns.iter().map(|c| c.0).chain(m.only.iter().map(|o| o.0)).chain(m.across);
    for column in named {
        if lines.iter().any(|l| !l.columns.iter().any(|c| c.0 == column)) {
            return Err(format!("the rows of `{}` have no column `{column}`", m.sweep));
        }
    }
    let kept: Vec<&SweepLine> = lines
        .iter()
        .filter(|l| m.only.iter().all(|(c, values)| values.contains(&plain(l.get(c)).as_str())))
        .collect();
    if kept.is_empty() {
        return Err(format!("the selection leaves no row of `{}`", m.sweep));
    }
    let (mut titles, mut rows): (Vec<String>, Vec<Vec<String>>) = (vec![], vec![]);
    match (m.across, m.columns.split_last()) {
        (Some(across), Some((shown, keys))) => {
            let mut values: Vec<String> = vec![];
            let mut groups: Vec<(Vec<String>, BTreeMap<String, String>)> = vec![];
            for l in kept {
                let value = plain(l.get(across));
                if !values.contains(&value) {
                    values.push(value.clone());
                }
                let key: Vec<String> = keys.iter().map(|k| cell(k.0, l.get(k.0))).collect();
                let text = cell(shown.0, l.get(shown.0));
                match groups.iter_mut().find(|g| g.0 == key) {
                    Some(g) => {
                        if g.1.insert(value, text).is_some() {
                            return Err(format!("there are several rows of `{}` for one cell", m.sweep));
                        }
                    }
                    None => groups.push((key, BTreeMap::from([(value, text)]))),
                }
            }
            titles.extend(keys.iter().map(|k| k.1.to_owned()));
            titles.extend(values.iter().map(|v| {
                format!("{v}{}", if shown.1 == shown.0 { String::new() } else { format!(", {}", shown.1) })
            }));
            for (key, cells) in groups {
                let all = values.iter().map(|v| cells.get(v).cloned().unwrap_or_default());
                rows.push(key.into_iter().chain(all).collect());
            }
        }
        _ => {
            titles.extend(m.columns.iter().map(|c| c.1.to_owned()));
            rows.extend(kept.iter().map(|l| m.columns.iter().map(|c| cell(c.0, l.get(c.0))).collect()));
        }
    }
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> = titles.iter().map(|_| "---".to_owned()).collect();
    let mut out = line(&titles) + &line(&rule).replace(' ', "");
    rows.iter().for_each(|r| out += &line(r));
    Ok(out)
}
