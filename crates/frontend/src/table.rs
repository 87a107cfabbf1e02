//! Tables: the functions that `table` items declare, from lists in the text or from CSV files.
//!
//! A table of one dimension is a function of an index, and a table of two dimensions one of a row
//! and a column. Every name that sees functions sees tables.

use crate::ast::{TableDecl, TableSource};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use kbc_rounds::ast::{Expr, ExprKind, FnBody, FnDecl, Ident};

/// Returns the function of a table. `text` is the CSV file that the table names, with its id.
/// Returns None if errors were reported.
pub fn function(decl: TableDecl, text: Option<(FileId, &str)>, found: &mut Diagnostics) -> Option<FnDecl> {
    let body = match (decl.source, text) {
        (TableSource::List(list), _) => FnBody::List(list),
        (TableSource::Rows(rows), _) => {
            let spans: Vec<Span> = rows.iter().map(|r| r.span).collect();
            matrix(rows.into_iter().map(|r| r.node).collect(), &spans, found)?
        }
        (TableSource::File(_), Some((file, text))) => read(file, text, found)?,
        // The file could not be read, which was reported.
        (TableSource::File(_), None) => return None,
    };
    let index = |name: &str| Ident::new(name.to_owned(), decl.name.span);
    let params = match body {
        FnBody::Rows(_) => vec![index("row"), index("column")],
        FnBody::List(_) | FnBody::Expr(_) => vec![index("index")],
    };
    Some(FnDecl { name: decl.name, params, body, span: decl.span, doc: decl.doc })
}

/// Returns a table of two dimensions, whose rows must have equal lengths.
fn matrix(rows: Vec<Vec<Expr>>, spans: &[Span], found: &mut Diagnostics) -> Option<FnBody> {
    let first = rows.first().map_or(0, Vec::len);
    if let Some((row, span)) = rows.iter().zip(spans).find(|(r, _)| r.len() != first) {
        let entries = if row.len() == 1 { "entry" } else { "entries" };
        let title = format!("a row of a table has {} {entries}, and the first row {first}", row.len());
        let d = Diagnostic::error("E011", title).primary(*span, "this row");
        let d = d.secondary(spans.first().copied().unwrap_or(Span::NONE), "the first row");
        found.push(d.help("give every row the same number of entries"));
        return None;
    }
    Some(FnBody::Rows(rows))
}

/// Reads the entries of a CSV file. A single row or column is a table of one dimension.
fn read(file: FileId, text: &str, found: &mut Diagnostics) -> Option<FnBody> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let help = "a table file has integers only, separated by commas, and no line of headings";
    let (mut rows, mut spans) = (vec![], vec![]);
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(e) => {
                let at = e.position().map_or(0, |p| p.byte() as usize).min(text.len());
                let d = Diagnostic::error("E011", "a line of a table file cannot be read");
                found.push(d.primary(Span::new(file, at, text.len()), "from here on").help(help));
                return None;
            }
        };
        let start = record.position().map_or(0, |p| p.byte() as usize).min(text.len());
        let blank = text[start..].len() - text[start..].trim_start().len();
        let start = start + blank;
        let line = text[start..].lines().next().unwrap_or("").trim_end().len();
        let span = Span::new(file, start, start + line);
        let mut row = vec![];
        for entry in &record {
            match entry.parse::<i64>() {
                Ok(i) => row.push(Expr { kind: ExprKind::Int(i), span }),
                Err(_) => {
                    let title = format!("an entry of a table is not an integer: `{}`", entry.escape_debug());
                    found.push(Diagnostic::error("E011", title).primary(span, "in this line").help(help));
                    return None;
                }
            }
        }
        rows.push(row);
        spans.push(span);
    }
    if rows.is_empty() {
        let d = Diagnostic::error("E011", "a table file has no entries");
        found.push(d.primary(Span::new(file, 0, 0), "this file").help(help));
        return None;
    }
    if rows.iter().all(|r| r.len() == 1) {
        return Some(FnBody::List(rows.into_iter().flatten().collect()));
    }
    match rows.len() {
        1 => rows.pop().map(FnBody::List),
        _ => matrix(rows, &spans, found),
    }
}
