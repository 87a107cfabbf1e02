//! `kbc fmt`: brings files into their canonical form.
//!
//! The module selects the files and writes them. [`kbc_compiler::format`] has the form and the
//! difference from it.

use crate::cli::Fmt;
use crate::crash::{self, Stage};
use crate::outdir;
use crate::session::{Outcome, Session, named, words};
use kbc_compiler::format;
use kbc_diag::{Diagnostic, Diagnostics};
use serde_json::json;
use std::path::Path;

/// Formats the files, or checks them.
///
/// # Errors
/// Returns E039 for every file that is not formatted (`--check`), and the errors of reading,
/// parsing and writing. Every file is processed, and a file with an error is not changed.
pub fn run(session: &mut Session, args: &Fmt) -> Outcome {
    let mut found = Diagnostics::new();
    let files = files(&args.files, &mut found);
    let mut rows = vec![];
    if args.migrate {
        let changed = migrate(session, &files, &mut found);
        rows.extend(files.iter().zip(changed).map(|(path, how)| row(path, &how)));
    }
    for path in files.iter().filter(|_| !args.migrate) {
        match one(session, args, path) {
            Ok(changed) => rows.push(row(path, &Ok(changed))),
            Err(failure) => {
                rows.push(row(path, &Err(failure.json(&session.map))));
                found.extend(failure.into_parts().0);
            }
        }
    }
    if session.is_json() && (args.check || !args.files.iter().any(|f| f == "-")) {
        let ok = !found.has_errors();
        session.json(&json!({ "schema": 1, "command": "fmt", "ok": ok, "files": rows }))?;
    }
    if found.has_errors() { Err(found.into()) } else { Ok(()) }
}

/// Whether the text of a file changed, or its failure as JSON.
type Changed = Result<bool, serde_json::Value>;

/// Returns the row of a file for JSON.
fn row(path: &str, changed: &Changed) -> serde_json::Value {
    let mut out = json!({ "file": path, "ok": changed.is_ok(), "changed": changed == &Ok(true) });
    if let Err(failure) = changed {
        out["failure"] = failure.clone();
    }
    out
}

/// Returns the files, with folders replaced by their content.
fn files(names: &[String], found: &mut Diagnostics) -> Vec<String> {
    let mut out = vec![];
    for name in names {
        let path = Path::new(name);
        let before = out.len();
        if path.is_dir() {
            if let Err(e) = below(path, &mut out) {
                found.push(Diagnostic::error("E412", format!("cannot read {name}: {}", words(&e))));
            } else if out.len() == before {
                found.push(Diagnostic::error("E412", format!("no .kb or .kir file in {name}")));
            }
        } else if name == "-" || known(path) {
            out.push(name.clone());
        } else {
            found.push(
                Diagnostic::error("E416", format!("{name} cannot be formatted"))
                    .help("give .kb or .kir files, folders, or - for standard input"),
            );
        }
    }
    out
}

fn known(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "kb" || e == "kir")
}

/// Returns the files in a folder and below it, ordered by name, without hidden ones.
fn below(dir: &Path, out: &mut Vec<String>) -> std::io::Result<()> {
    let mut all = std::fs::read_dir(dir)?.collect::<std::io::Result<Vec<_>>>()?;
    all.sort_by_key(std::fs::DirEntry::file_name);
    for entry in all {
        let (path, kind) = (entry.path(), entry.file_type()?);
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            below(&path, out)?;
        } else if known(&path) {
            out.push(named(&path)?);
        }
    }
    Ok(())
}

/// Rewrites the old forms of the `.kb` files. A file that another one uses may have to be rewritten
/// before the names of the other one are known, so all files are read again until none changes.
///
/// Returns for every file whether it changed.
fn migrate(session: &mut Session, files: &[String], found: &mut Diagnostics) -> Vec<Changed> {
    let mut rows = vec![Ok(false); files.len()];
    loop {
        let mut again = session.fresh(vec![]);
        let mut errors = Diagnostics::new();
        let mut changed = false;
        for (path, row) in files.iter().zip(&mut rows) {
            match migrate_one(&mut again, path) {
                Ok(now) => {
                    changed |= now;
                    *row = Ok(now || *row == Ok(true));
                }
                Err(failure) => {
                    *row = Err(failure.json(&again.map));
                    errors.extend(failure.into_parts().0);
                }
            }
        }
        if !changed {
            // Messages show texts of the session that read them.
            *session = again;
            found.extend(errors);
            return rows;
        }
    }
}

/// Rewrites the old forms of a file. Returns whether another file may now have to be read again.
fn migrate_one(session: &mut Session, path: &str) -> Outcome<bool> {
    let (file, text) = session.read(path)?;
    crash::stage(Stage::Read);
    let now = if format::is_kir(path, &text) {
        None
    } else {
        kbc_frontend::migrate::migrate(file, &text, &mut **session)
    };
    match now {
        _ if path == "-" => session.print_artefact(now.as_deref().unwrap_or(&text)),
        Some(now) => {
            outdir::rewrite(Path::new(path), now.as_bytes())?;
            return Ok(true);
        }
        None => {}
    }
    Ok(false)
}

/// Processes one file. Returns whether its text changes.
fn one(session: &mut Session, args: &Fmt, path: &str) -> Outcome<bool> {
    let (file, text) = session.read(path)?;
    crash::stage(Stage::Read);
    let formatted = format::format(file, path, &text)?;
    if args.check {
        if formatted == *text {
            return Ok(false);
        }
        if args.diff && !session.is_json() {
            session.result(&format::diff(path, &text, &formatted));
        }
        let name = session.map.get(file).map_or(path, |f| &f.name);
        return Err(format::unformatted(file, name, &text, &formatted).into());
    }
    let changed = formatted != *text;
    if path == "-" {
        session.print_artefact(&formatted);
    } else if changed {
        outdir::rewrite(Path::new(path), formatted.as_bytes())?;
    }
    Ok(changed)
}
