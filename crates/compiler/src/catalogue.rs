//! Catalogue: the names that a program or an option can use, from the library and from the user's
//! files.

use crate::backends::platforms;
use crate::failure::Outcome;
use crate::load::{everything, library};
use crate::workspace::Workspace;
use kbc_diag::FileId;
use kbc_diag::codes::CODES;
use kbc_frontend::ast::Item;
use kbc_frontend::lower::{call_form, operations};
use kbc_ir::types::{DType, ReduceOp};
use kbc_machine::topology::{SHAPE_NAMES, Topology, shape_example, shape_form};
use kbc_rounds::Library;
use kbc_rounds::ast::AlgorithmDecl;
use serde::Serialize;

/// An algorithm.
#[derive(Serialize)]
pub struct Row {
    collective: String,
    algorithm: String,
    parameters: Vec<String>,
    axes: usize,
    condition: Option<String>,
    file: String,
    summary: String,
}

/// What can be listed. Algorithms have a table of their own ([`algorithms`]), as have passes.
pub const WHAT: [&str; 12] = [
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

/// Whether files declare what is listed.
pub fn is_declared(what: &str) -> bool {
    ["algorithms", "collectives", "functions", "kernels", "programs"].contains(&what)
}

/// Lists what has that name in [`WHAT`], with what `files` declare; the codes of messages for
/// another name.
///
/// # Errors
/// Of reading and parsing the files.
pub fn table(workspace: &mut Workspace, what: &str, files: &[String]) -> Outcome<Vec<Entry>> {
    Ok(match what {
        "collectives" => collectives(workspace, files)?,
        "functions" => functions(workspace, files)?,
        "kernels" => kernels(workspace, files)?,
        "programs" => programs(workspace, files)?,
        "operations" => operations().into_iter().map(|name| entry(name, "", "")).collect(),
        "dtypes" => DType::ALL.iter().map(|d| entry(d.name(), &count(d.bytes()), "")).collect(),
        "reductions" => ReduceOp::ALL.iter().map(|r| entry(r.name(), "", "")).collect(),
        "topologies" => SHAPE_NAMES.iter().map(|name| topology(name)).collect(),
        "targets" => targets(),
        _ => CODES.iter().map(|c| entry(c.code, c.title, "")).collect(),
    })
}

/// A row of a table: a name, its description, and its source.
#[derive(Serialize)]
pub struct Entry {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    summary: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    file: String,
}

fn entry(name: &str, summary: &str, file: &str) -> Entry {
    Entry { name: name.into(), summary: summary.into(), file: file.into() }
}

/// Formats a table for people.
pub fn human(table: &[Entry]) -> String {
    let width = table.iter().filter(|e| !e.summary.is_empty()).map(|e| e.name.chars().count()).max();
    let mut out = String::new();
    for e in table {
        let file = if e.file.is_empty() { String::new() } else { format!("  [{}]", e.file) };
        let name = format!("{:<w$}  {}{file}", e.name, e.summary, w = width.unwrap_or(0));
        out += &format!("{}\n", name.trim_end());
    }
    out
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

/// First line of documentation.
fn first(doc: &str) -> &str {
    doc.lines().next().unwrap_or("").trim()
}

/// Returns collectives with the text of their contracts.
fn collectives(workspace: &mut Workspace, files: &[String]) -> Outcome<Vec<Entry>> {
    let library = library(workspace, files)?;
    let mut out: Vec<Entry> = library
        .collectives()
        .map(|id| {
            let c = library.collective(id);
            let whole: Vec<String> = workspace.quote(c.span).split_whitespace().map(str::to_owned).collect();
            entry(&c.name.node, &whole.join(" "), &workspace.name_of(c.span))
        })
        .collect();
    out.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    Ok(out)
}

/// Returns functions with their parameters: built-in ones and those of files.
fn functions(workspace: &mut Workspace, files: &[String]) -> Outcome<Vec<Entry>> {
    let library = library(workspace, files)?;
    let mut out: Vec<Entry> = library
        .functions()
        .map(|f| {
            let names: Vec<&str> = f.params.iter().map(|p| p.node.as_str()).collect();
            let name = format!("{}({})", f.name.node, names.join(", "));
            entry(&name, first(&f.doc), &workspace.name_of(f.span))
        })
        .collect();
    out.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    let built_in =
        kbc_rounds::eval::BUILTINS.iter().map(|b| entry(b.0, "built in (docs/reference/language.md)", ""));
    Ok(built_in.chain(out).collect())
}

/// Elementwise and tile kernels with their parameters.
fn kernels(workspace: &mut Workspace, files: &[String]) -> Outcome<Vec<Entry>> {
    let loaded = everything(workspace, files)?;
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
        out.push(entry(&format!("{}({parameters})", name.node), first(doc), &workspace.name_of(span)));
    }
    out.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    Ok(out)
}

/// Returns programs with the form of their calls.
fn programs(workspace: &mut Workspace, files: &[String]) -> Outcome<Vec<Entry>> {
    let loaded = everything(workspace, files)?;
    let mut out = vec![];
    for item in loaded.files.iter().flat_map(|f| &f.tree().items) {
        if let Item::Program(p) = item {
            out.push(entry(&call_form(p), first(&p.doc), &workspace.name_of(p.span)));
        }
    }
    out.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    Ok(out)
}

/// Lists collectives and the algorithms that exist for them, with those that `files` declare.
///
/// # Errors
/// Of reading and parsing the files.
pub fn algorithms(workspace: &mut Workspace, files: &[String]) -> Outcome<Vec<Row>> {
    let library = library(workspace, files)?;
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
                    .map(|(p, e)| format!("{} = {}", p.node, workspace.quote(e.span)))
                    .collect(),
                axes: a.axes.len(),
                condition: a.cond.as_ref().map(|c| workspace.quote(c.span)),
                file: workspace.name_of(a.span),
                summary: of_family(&library, a),
            }
        })
        .collect();
    rows.sort_by(|a, b| (&a.collective, &a.algorithm, &a.file).cmp(&(&b.collective, &b.algorithm, &b.file)));
    Ok(rows)
}

/// Formats the algorithms for people.
pub fn human_algorithms(rows: &[Row]) -> String {
    let mut out = String::new();
    let mut last = "";
    for r in rows {
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
    out
}

/// Returns the summary of an algorithm, or that of the first one of its name in the same file,
/// because a family is described once.
fn of_family(library: &Library, a: &AlgorithmDecl) -> String {
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
