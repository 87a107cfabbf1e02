//! `kbc list`: the names that a program or the command line can use, from the library and from
//! files of the user.

use crate::backends::platforms;
use crate::cli::{List, Passes, ReportFormat};
use crate::session::{Failure, Outcome, Session};
use kbc_diag::codes::CODES;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, FileId, Span};
use kbc_frontend::ast::Item;
use kbc_frontend::lower::{call_form, operations};
use kbc_ir::types::{DType, ReduceOp};
use kbc_machine::topology::{SHAPE_NAMES, Topology, shape_example, shape_form};
use kbc_rounds::ast::AlgorithmDecl;
use serde::Serialize;
use std::path::Path;

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

/// The lists, and what each contains.
const WHAT: [&str; 12] = [
    "algorithms",
    "collectives",
    "functions",
    "kernels",
    "programs",
    "operations",
    "dtypes",
    "reductions",
    "topologies",
    "passes",
    "targets",
    "codes",
];

/// Prints a table.
///
/// # Errors
/// Returns E416 for an unknown name, and the errors of reading and parsing files.
pub fn run(session: &mut Session, args: &List) -> Outcome {
    let (what, files) = match args.what.split_first() {
        Some((first, rest)) if WHAT.contains(&first.as_str()) => (first.as_str(), rest),
        Some((first, rest)) if !first.contains(['.', '/']) && !Path::new(first).exists() => {
            let library = kbc_compiler::load::library(session, rest)?;
            if library.algorithms().any(|id| library.algorithm_name(id).node == *first) {
                return super::algorithms::show(session, &library, first, args);
            }
            return Err(Failure::Usage(unknown(first, &library).into()));
        }
        _ => (WHAT[0], &args.what[..]),
    };
    let declared = ["algorithms", "collectives", "functions", "kernels", "programs"].contains(&what);
    if !args.define.is_empty() {
        return Err(Diagnostic::error("E416", "-D applies only with the name of an algorithm")
            .help("write kbc list ring -D p=64")
            .into());
    }
    if let (Some(file), false) = (files.first(), declared) {
        return Err(
            Diagnostic::error("E416", format!("no file declares {what}, so {file} does not apply")).into()
        );
    }
    let table = match what {
        "algorithms" => return algorithms(session, files, args.report),
        "passes" => return super::passes::run(session, &Passes { name: None, report: args.report }),
        "collectives" => collectives(session, files)?,
        "functions" => functions(session, files)?,
        "kernels" => kernels(session, files)?,
        "programs" => programs(session, files)?,
        "operations" => operations().into_iter().map(|name| entry(name, "", "")).collect(),
        "dtypes" => DType::ALL.iter().map(|d| entry(d.name(), &count(d.bytes()), "")).collect(),
        "reductions" => ReduceOp::ALL.iter().map(|r| entry(r.name(), "", "")).collect(),
        "topologies" => SHAPE_NAMES.iter().map(|name| topology(name)).collect(),
        "targets" => targets(),
        _ => CODES.iter().map(|c| entry(c.code, c.title, "")).collect(),
    };
    session.result(&match args.report {
        ReportFormat::Json => serde_json::json!({ "schema": 1, what: table }).to_string(),
        ReportFormat::Human => human(&table),
    });
    Ok(())
}

/// A row of a table: a name, its description, and its source.
#[derive(Serialize)]
struct Entry {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    summary: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    file: String,
}

fn entry(name: &str, summary: &str, file: &str) -> Entry {
    Entry { name: name.into(), summary: summary.into(), file: file.into() }
}

fn human(table: &[Entry]) -> String {
    let width = table.iter().filter(|e| !e.summary.is_empty()).map(|e| e.name.chars().count()).max();
    let mut out = String::new();
    for e in table {
        let file = if e.file.is_empty() { String::new() } else { format!("  [{}]", e.file) };
        let name = format!("{:<w$}  {}{file}", e.name, e.summary, w = width.unwrap_or(0));
        out += &format!("{}\n", name.trim_end());
    }
    out
}

fn unknown(what: &str, library: &kbc_rounds::Library) -> Diagnostic {
    let d = Diagnostic::error("E416", format!("`{what}` is not a list, an algorithm or a file"))
        .note(format!("lists: {}", WHAT.join(", ")));
    let algorithms = library.algorithms().map(|id| library.algorithm_name(id).node.as_str());
    match nearest(what, WHAT.into_iter().chain(algorithms)) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    }
}

fn count(bytes: u64) -> String {
    format!("{bytes} byte{}", if bytes == 1 { "" } else { "s" })
}

/// A generator: how it is called, and why it is not supported, if that is so.
fn topology(name: &str) -> Entry {
    let why = match Topology::parse(shape_example(name), FileId::default()) {
        Ok(_) => String::new(),
        Err(d) => format!("refused: {}", d.title),
    };
    entry(shape_form(name), &why, "")
}

fn targets() -> Vec<Entry> {
    let mut out = vec![entry("sim", "proves, executes on every rank, compares, times", "")];
    out.extend(platforms().iter().map(|(backend, p)| match p.unsupported_because {
        Some(why) => entry(p.name, &format!("not supported: {why}"), ""),
        None => entry(p.name, backend.about(), ""),
    }));
    out
}

pub(super) fn file_of(session: &Session, span: Span) -> String {
    session.map.get(span.file).map_or_else(String::new, |f| f.name.to_string())
}

/// First line of documentation.
fn first(doc: &str) -> &str {
    doc.lines().next().unwrap_or("").trim()
}

/// Returns collectives with the text of their contracts.
fn collectives(session: &mut Session, files: &[String]) -> Outcome<Vec<Entry>> {
    let library = kbc_compiler::load::library(session, files)?;
    let mut out: Vec<Entry> = library
        .collectives()
        .map(|id| {
            let c = library.collective(id);
            let whole: Vec<String> = text(session, c.span).split_whitespace().map(str::to_owned).collect();
            entry(&c.name.node, &whole.join(" "), &file_of(session, c.span))
        })
        .collect();
    out.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    Ok(out)
}

/// Returns functions with their parameters: built-in ones and those of files.
fn functions(session: &mut Session, files: &[String]) -> Outcome<Vec<Entry>> {
    let library = kbc_compiler::load::library(session, files)?;
    let mut out: Vec<Entry> = library
        .functions()
        .map(|f| {
            let names: Vec<&str> = f.params.iter().map(|p| p.node.as_str()).collect();
            let name = format!("{}({})", f.name.node, names.join(", "));
            entry(&name, first(&f.doc), &file_of(session, f.span))
        })
        .collect();
    out.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    let built_in = kbc_rounds::eval::BUILTINS.iter().map(|b| entry(b.0, "built in (docs/language.md)", ""));
    Ok(built_in.chain(out).collect())
}

/// Elementwise and tile kernels with their parameters.
fn kernels(session: &mut Session, files: &[String]) -> Outcome<Vec<Entry>> {
    let loaded = kbc_compiler::load::everything(session, files)?;
    let names = |list: Vec<&str>| list.join(", ");
    let mut out = vec![];
    for item in loaded.files.iter().flat_map(|f| &f.tree().items) {
        let (name, parameters, doc, span) = match item {
            Item::Kernel(k) => {
                (&k.name, names(k.params.iter().map(|p| p.node.as_str()).collect()), &k.doc, k.span)
            }
            Item::TileKernel(k) => {
                (&k.name, names(k.args.iter().map(|a| a.name.node.as_str()).collect()), &k.doc, k.span)
            }
            _ => continue,
        };
        out.push(entry(&format!("{}({parameters})", name.node), first(doc), &file_of(session, span)));
    }
    out.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    Ok(out)
}

/// Returns programs with the form of their calls.
fn programs(session: &mut Session, files: &[String]) -> Outcome<Vec<Entry>> {
    let loaded = kbc_compiler::load::everything(session, files)?;
    let mut out = vec![];
    for item in loaded.files.iter().flat_map(|f| &f.tree().items) {
        if let Item::Program(p) = item {
            out.push(entry(&call_form(p), first(&p.doc), &file_of(session, p.span)));
        }
    }
    out.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    Ok(out)
}

/// Returns collectives and their algorithms.
fn algorithms(session: &mut Session, files: &[String], report: ReportFormat) -> Outcome {
    let library = kbc_compiler::load::library(session, files)?;
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
                file: file_of(session, a.span),
                summary: of_family(&library, a),
            }
        })
        .collect();
    rows.sort_by(|a, b| (&a.collective, &a.algorithm, &a.file).cmp(&(&b.collective, &b.algorithm, &b.file)));
    if report == ReportFormat::Json {
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
        out += &format!("  {name:<34} {legal:<24} {}  [{}]\n", r.summary, r.file);
    }
    session.result(&out);
    Ok(())
}

/// Returns the summary of an algorithm, or that of the first one of its name in the same file,
/// because a family is described once.
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
    first(&a.doc).to_owned()
}

pub(super) fn text(session: &Session, span: Span) -> String {
    session
        .map
        .get(span.file)
        .and_then(|f| f.text.get(span.start as usize..span.end as usize))
        .unwrap_or("")
        .to_owned()
}
