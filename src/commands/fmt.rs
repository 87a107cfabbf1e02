//! `kbc fmt`: brings files into their canonical form.
//!
//! The module selects the files, writes them, and implements `--check`. `kbc_frontend::fmt` and
//! `kbc_ir::text` define the form.

use crate::cli::Fmt;
use crate::crash::{self, Stage};
use crate::outdir;
use crate::session::{Outcome, Session, named, words};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use std::path::Path;

/// Formats the files, or checks them.
///
/// # Errors
/// Returns E039 for every file that is not formatted (`--check`), and the errors of reading,
/// parsing and writing. Every file is processed, and a file with an error is not changed.
pub fn run(session: &mut Session, args: &Fmt) -> Outcome {
    let mut found = Diagnostics::new();
    let files = files(&args.files, &mut found);
    if args.migrate {
        migrate(session, &files, &mut found);
        return if found.has_errors() { Err(found.into()) } else { Ok(()) };
    }
    for path in files {
        if let Err(failure) = one(session, args, &path) {
            found.extend(failure.into_parts().0);
        }
    }
    if found.has_errors() { Err(found.into()) } else { Ok(()) }
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
fn migrate(session: &mut Session, files: &[String], found: &mut Diagnostics) {
    let mut changed = true;
    while std::mem::take(&mut changed) {
        let mut again = session.fresh(vec![]);
        let mut errors = Diagnostics::new();
        for path in files {
            match migrate_one(&mut again, path) {
                Ok(now) => changed |= now,
                Err(failure) => errors.extend(failure.into_parts().0),
            }
        }
        if !changed {
            // Messages show texts of the session that read them.
            *session = again;
            found.extend(errors);
        }
    }
}

/// Rewrites the old forms of a file. Returns whether another file may now have to be read again.
fn migrate_one(session: &mut Session, path: &str) -> Outcome<bool> {
    let (file, text) = session.read(path)?;
    crash::stage(Stage::Read);
    let now =
        if is_kir(path, &text) { None } else { kbc_frontend::migrate::migrate(file, &text, &mut **session) };
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

/// Processes one file.
fn one(session: &mut Session, args: &Fmt, path: &str) -> Outcome {
    let (file, text) = session.read(path)?;
    crash::stage(Stage::Read);
    let formatted = if is_kir(path, &text) {
        kbc_ir::text::format(file, &text)?
    } else {
        kbc_frontend::fmt::format(file, &text)?
    };
    if args.check {
        if formatted == *text {
            return Ok(());
        }
        if args.diff {
            session.result(&diff(path, &text, &formatted));
        }
        return Err(unformed(session, file, path, &text, &formatted).into());
    }
    if path == "-" {
        session.print_artefact(&formatted);
    } else if formatted != *text {
        outdir::rewrite(Path::new(path), formatted.as_bytes())?;
    }
    Ok(())
}

/// A text on standard input is `.kir` if its first line of code says so.
fn is_kir(path: &str, text: &str) -> bool {
    let code = |l: &&str| !l.is_empty() && !l.starts_with(';');
    match Path::new(path).extension() {
        Some(e) => e == "kir",
        None => text
            .trim_start_matches('\u{feff}')
            .lines()
            .map(str::trim)
            .find(code)
            .is_some_and(|l| l.split_whitespace().next() == Some("kir")),
    }
}

/// Returns E039 at the first line that would change.
fn unformed(session: &Session, file: FileId, path: &str, text: &str, formatted: &str) -> Diagnostic {
    let mut at = 0;
    for (old, new) in text.split_inclusive('\n').zip(formatted.split_inclusive('\n')) {
        if old != new {
            break;
        }
        at += old.len();
    }
    let line = text[at..].lines().next().map_or(0, str::len);
    let name = session.map.get(file).map_or(path, |f| &f.name);
    Diagnostic::error("E039", format!("{name} is not formatted"))
        .primary(Span::new(file, at, at + line), "first line that would change")
        .help(format!("kbc fmt {name}"))
}

/// Returns removed and added lines, in hunks without context: `@ 12`, `- old`, `+ new`.
fn diff(path: &str, old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let (mut i, mut j) = (0, 0);
    let mut out = format!("--- {path}\n+++ {path}, formatted\n");
    if a == b {
        out += "@ line ends, or a mark of the byte order\n";
    }
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        // The nearest pair of equal lines with content ends the hunk. Beyond this distance,
        // everything is one hunk.
        let reach = (a.len() - i).max(b.len() - j);
        let same = |x: Option<&&str>, y: Option<&&str>| x == y && x.is_some_and(|x| x.trim().len() > 1);
        let (di, dj) = (0..=2 * reach.min(200))
            .flat_map(|sum| (0..=sum).map(move |di| (di, sum - di)))
            .find(|&(di, dj)| same(a.get(i + di), b.get(j + dj)))
            .unwrap_or((a.len() - i, b.len() - j));
        out += &format!("@ {}\n", i + 1);
        a[i..i + di].iter().for_each(|l| out += &format!("-{}{l}\n", if l.is_empty() { "" } else { " " }));
        b[j..j + dj].iter().for_each(|l| out += &format!("+{}{l}\n", if l.is_empty() { "" } else { " " }));
        (i, j) = (i + di, j + dj);
    }
    out
}
