//! Catalogue: the names that a program or an option can use, from the library and from the user's
//! files.

use crate::backends::platforms;
use crate::failure::Outcome;
use crate::load::{everything, library};
use crate::workspace::Workspace;
use kbc_diag::codes::CODES;
use kbc_diag::{FileId, Span};
use kbc_frontend::ast::Item;
use kbc_frontend::lower::{call_form, operations};
use kbc_ir::types::{DType, ReduceOp};
use kbc_machine::topology::{SHAPE_NAMES, Topology, shape_example, shape_form};
use kbc_rounds::Library;
use kbc_rounds::ast::AlgorithmDecl;
use kbc_rounds::namespace::Space;
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
    /// The namespace of the file, if it has one.
    namespace: Option<String>,
    summary: String,
}

/// What can be listed. Algorithms have a table of their own ([`algorithms`]), as have passes.
pub const WHAT: [&str; 13] = [
    "algorithms",
    "collectives",
    "functions",
    "kernels",
    "programs",
    "namespaces",
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
    ["algorithms", "collectives", "functions", "kernels", "programs", "namespaces"].contains(&what)
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
        "namespaces" => namespaces(workspace, files)?,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

fn entry(name: &str, summary: &str, file: &str) -> Entry {
    Entry { name: name.into(), summary: summary.into(), file: file.into(), namespace: None }
}

/// Returns the row of a declaration of a file.
fn declared(workspace: &Workspace, library: &Library, name: &str, summary: &str, span: Span) -> Entry {
    let file = workspace.name_of(span);
    Entry { namespace: library.namespace_of(span.file), ..entry(name, summary, &file) }
}

/// Returns where a declaration stands: a module of the library by its namespace, and another file
/// by its name, with its namespace if it has one.
pub(crate) fn place(file: &str, namespace: Option<&String>) -> String {
    match namespace {
        Some(n) if file.starts_with("<lib>/") => format!("  [{n}]"),
        Some(n) => format!("  [{n}, {file}]"),
        None if file.is_empty() => String::new(),
        None => format!("  [{file}]"),
    }
}

/// Formats a table for people.
pub fn human(table: &[Entry]) -> String {
    let width = table.iter().filter(|e| !e.summary.is_empty()).map(|e| e.name.chars().count()).max();
    let mut out = String::new();
    for e in table {
        let file = place(&e.file, e.namespace.as_ref());
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
    let library = library(workspace, files, &[])?;
    let mut out: Vec<Entry> = library
        .collectives()
        .map(|id| {
            let c = library.collective(id);
            let whole: Vec<String> = workspace.quote(c.span).split_whitespace().map(str::to_owned).collect();
            declared(workspace, &library, &c.name.node, &whole.join(" "), c.span)
        })
        .collect();
    out.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    Ok(out)
}

/// Returns functions with their parameters: built-in ones and those of files.
fn functions(workspace: &mut Workspace, files: &[String]) -> Outcome<Vec<Entry>> {
    let library = library(workspace, files, &[])?;
    let mut out: Vec<Entry> = library
        .functions()
        .map(|f| {
            let names: Vec<&str> = f.params.iter().map(|p| p.node.as_str()).collect();
            let name = format!("{}({})", f.name.node, names.join(", "));
            declared(workspace, &library, &name, first(&f.doc), f.span)
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
        let name = format!("{}({parameters})", name.node);
        out.push(declared(workspace, &loaded.library, &name, first(doc), span));
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
            out.push(declared(workspace, &loaded.library, &call_form(p), first(&p.doc), p.span));
        }
    }
    out.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    Ok(out)
}

/// Returns the namespaces that files can name: those of the library with the first sentence of each
/// module, and those that the files name.
fn namespaces(workspace: &mut Workspace, files: &[String]) -> Outcome<Vec<Entry>> {
    let library = library(workspace, files, &[])?;
    let mut out = vec![];
    for (name, space) in library.spaces(Span::NONE.file) {
        let (summary, file) = match space {
            Space::Library => ("The built-in library.".to_owned(), String::new()),
            Space::File(id) => {
                let file = workspace.map.get(id);
                let about = file.map(|f| about(&f.text)).unwrap_or_default();
                (about, file.map_or(String::new(), |f| f.name.to_string()))
            }
        };
        out.push(entry(&name, &summary, &file));
    }
    Ok(out)
}

/// Returns the first sentence of the comment with which a text begins.
fn about(text: &str) -> String {
    let lines = text.lines().map_while(|l| l.strip_prefix("//")).filter(|l| !l.starts_with('/'));
    let whole = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    whole.split_inclusive(". ").next().unwrap_or_default().trim().to_owned()
}

/// Lists collectives and the algorithms that exist for them, with those that `files` declare.
///
/// # Errors
/// Of reading and parsing the files.
pub fn algorithms(workspace: &mut Workspace, files: &[String]) -> Outcome<Vec<Row>> {
    let library = library(workspace, files, &[])?;
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
                namespace: library.namespace_of(a.span.file),
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
        out += &format!("  {name:<34} {legal:<24} {}{}\n", r.summary, place(&r.file, r.namespace.as_ref()));
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
