//! `kbc list`: collectives and the algorithms that exist for them, the library's and the user's side by side.

use crate::cli::{List, ReportFormat};
use crate::session::{Outcome, Session};
use kbc_rounds::ast::AlgorithmDecl;
use serde::Serialize;

#[derive(Serialize)]
struct Row {
    collective: String,
    algorithm: String,
    parameters: Vec<String>,
    axes: usize,
    condition: Option<String>,
    file: String,
    summary: String,
}

/// Prints the table.
///
/// # Errors
/// Of reading and parsing the files.
pub fn run(session: &mut Session, args: &List) -> Outcome {
    let library = super::library(session, &args.files)?;
    let mut rows: Vec<Row> = library
        .algorithms()
        .map(|id| {
            let a = library.algorithm(id);
            Row {
                collective: a.coll.node.clone(),
                algorithm: a.name.node.clone(),
                parameters: a
                    .params
                    .iter()
                    .map(|(p, e)| format!("{} = {}", p.node, text(session, e.span)))
                    .collect(),
                axes: a.axes.len(),
                condition: a.cond.as_ref().map(|c| text(session, c.span)),
                file: session.map.get(a.span.file).map_or_else(String::new, |f| f.name.clone()),
                summary: of_family(&library, a),
            }
        })
        .collect();
    rows.sort_by(|a, b| (&a.collective, &a.algorithm, &a.file).cmp(&(&b.collective, &b.algorithm, &b.file)));
    if args.report == ReportFormat::Json {
        let all = serde_json::json!({ "schema": 1, "algorithms": rows });
        session.result(&all.to_string());
        return Ok(());
    }
    let mut out = String::new();
    let mut last = "";
    for r in &rows {
        if r.collective != last {
            out += &format!("{}{}\n", if last.is_empty() { "" } else { "\n" }, r.collective);
            last = &r.collective;
        }
        let mut name = r.algorithm.clone();
        if !r.parameters.is_empty() {
            name += &format!("({})", r.parameters.join(", "));
        }
        let legal = match (&r.condition, r.axes) {
            (Some(c), 1) => format!("where {c}"),
            (Some(c), n) => format!("{n} axes, where {c}"),
            (None, 1) => "any number of ranks".into(),
            (None, n) => format!("{n} axes"),
        };
        out += &format!("  {name:<28} {legal:<24} {}  [{}]\n", r.summary, r.file);
    }
    session.result(&out);
    Ok(())
}

/// The summary of an algorithm, or of the first of its name in the same file: a family is described once.
fn of_family(library: &kbc_rounds::Library, a: &AlgorithmDecl) -> String {
    let mut family = library
        .algorithms()
        .map(|id| library.algorithm(id))
        .filter(|b| b.name.node == a.name.node && b.span.file == a.span.file && !summary(b).is_empty());
    match summary(a) {
        own if own.is_empty() => family.next().map_or(own, summary),
        own => own,
    }
}

/// First line of the documentation.
fn summary(a: &AlgorithmDecl) -> String {
    a.doc.lines().next().unwrap_or("").trim().to_owned()
}

fn text(session: &Session, span: kbc_diag::Span) -> String {
    session
        .map
        .get(span.file)
        .and_then(|f| f.text.get(span.start as usize..span.end as usize))
        .unwrap_or("")
        .to_owned()
}
