//! Load: reads programs, libraries and texts of the IR, with everything that they use.

use crate::arguments::defines;
use crate::failure::{Failure, Outcome};
use crate::options::{Selection, Source};
use crate::workspace::{Stage, Workspace};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Severity, Span};
use kbc_frontend::load::load;
use kbc_frontend::loaded::Loaded;
use kbc_ir::Module;
use kbc_rounds::Library;

/// Loads a file and everything it uses. Errors of its declarations are returned with it, so that
/// lowering can report errors of the program in the same run.
///
/// # Errors
/// Returns the errors of reading and parsing, because names and types could not be resolved without
/// the missing texts.
pub fn load_parts(workspace: &mut Workspace, path: &str) -> Outcome<(Loaded, Diagnostics)> {
    let (file, text) = workspace.read(path)?;
    workspace.stage(Stage::Read);
    let (loaded, found) = load(Some((file, text.to_string())), workspace);
    let unread = |code: &str| ("E001"..="E003").contains(&code) || code.starts_with("E41");
    if found.list.iter().any(|d| d.severity == Severity::Error && unread(d.code)) {
        return Err(found.into());
    }
    Ok((loaded, report_unless_errors(workspace, found)))
}

/// Loads a file and everything it uses.
///
/// # Errors
/// Returns the errors of reading, parsing and the checks that need no sizes.
pub fn load_file(workspace: &mut Workspace, path: &str) -> Outcome<Loaded> {
    let (file, text) = workspace.read(path)?;
    load_text(workspace, Some((file, text.to_string())))
}

/// Reads a `.kir` text and verifies that it is well formed.
///
/// # Errors
/// Of reading, parsing and the verifier; E416 for a program.
pub fn load_kir(workspace: &mut Workspace, path: &str) -> Outcome<(FileId, Module)> {
    if path.ends_with(".kb") {
        return Err(Diagnostic::error("E416", format!("{path} is a program, not a .kir file"))
            .help(format!(
                "write its graph with kbc compile {path} --emit graph=FILE.kir, or its schedule with --emit kir=FILE.kir"
            ))
            .into());
    }
    let (file, text) = workspace.read(path)?;
    workspace.stage(Stage::Read);
    let module = kbc_ir::text::parse(file, &text)?;
    workspace.environment.module("", &module);
    let found = kbc_ir::verify::verify(&module);
    if found.has_errors() {
        return Err(found.into());
    }
    workspace.report(&found);
    Ok((file, module))
}

/// The library, and the algorithms of some files, which see the parameters of their files with the
/// values that `define` gives them, as `-D` does.
///
/// # Errors
/// As [`load_file`], and those of the parameters.
pub fn library(workspace: &mut Workspace, files: &[String], define: &[String]) -> Outcome<Library> {
    let loaded = everything(workspace, files)?;
    Ok(kbc_frontend::lower::library(&loaded, &defines(define)?)?)
}

/// The library, and all that some files declare.
///
/// # Errors
/// As [`load_file`].
pub fn everything(workspace: &mut Workspace, files: &[String]) -> Outcome<Loaded> {
    // All files in one scope, as if one file used them all.
    // The text between quotes is taken as it is.
    let uses: Vec<String> = files.iter().map(|f| format!("use \"{f}\"\n")).collect();
    let text = uses.concat();
    let file = workspace.add_text("<files>", &text);
    load_text(workspace, (!files.is_empty()).then_some((file, text)))
}

fn load_text(workspace: &mut Workspace, root: Option<(FileId, String)>) -> Outcome<Loaded> {
    workspace.stage(Stage::Read);
    let (loaded, found) = load(root, workspace);
    let found = report_unless_errors(workspace, found);
    if found.has_errors() { Err(found.into()) } else { Ok(loaded) }
}

/// Returns errors only; if there are none, reports warnings and notes now.
fn report_unless_errors(workspace: &Workspace, mut found: Diagnostics) -> Diagnostics {
    // A copy of a library file hides the original, which needs no message.
    let text = |span: Span| workspace.map.get(span.file).map(|f| &*f.text);
    let copy = |d: &Diagnostic| match &d.labels[..] {
        [a, b] => d.severity == Severity::Note && a.span.file != b.span.file && text(a.span) == text(b.span),
        _ => false,
    };
    found.list.retain(|d| !copy(d));
    if !found.has_errors() {
        workspace.report(&found);
        found = Diagnostics::new();
    }
    found
}

/// Rejects arguments that would be ignored.
///
/// # Errors
/// Returns E416 for the first given flag that does not apply to `what`.
pub fn refuse(flags: &[(&str, bool)], what: &str) -> Outcome {
    match flags.iter().find(|f| f.1) {
        Some((flag, _)) => {
            Err(Failure::Usage(Diagnostic::error("E416", format!("{flag} does not apply to {what}")).into()))
        }
        None => Ok(()),
    }
}

/// Reads and verifies a `.kir` text that must hold a schedule.
///
/// # Errors
/// Of reading, parsing, verifying; E416 for a graph, and for flags that are about programs.
pub fn read_schedule(workspace: &mut Workspace, source: &Source) -> Outcome<Module> {
    let of = &source.of;
    refuse(&Selection { topology: None, set: vec![], ..of.clone() }.given(), "a .kir file")?;
    let (file, module) = load_kir(workspace, &source.file)?;
    if module.schedule().is_none() {
        return Err(Diagnostic::error("E416", "expected a schedule, found a graph")
            .primary(Span::new(file, 0, 0), "lower this graph with `kbc opt` first")
            .into());
    }
    Ok(module)
}
