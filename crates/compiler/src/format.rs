//! Formatting: the canonical form of `.kb` and `.kir` texts, and how a text differs from it.
//!
//! [`kbc_frontend::fmt`] and [`kbc_ir::text`] define the form.

use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use std::path::Path;

/// Returns the canonical form of a text. Its name says whether it is a `.kir` text; without an
/// extension, as for standard input, its first line does.
///
/// # Errors
/// Returns the errors of parsing.
pub fn format(file: FileId, name: &str, text: &str) -> Result<String, Diagnostics> {
    if is_kir(name, text) { kbc_ir::text::format(file, text) } else { kbc_frontend::fmt::format(file, text) }
}

/// Returns whether a text is `.kir` and not `.kb`, by its name and its first line.
pub fn is_kir(name: &str, text: &str) -> bool {
    let code = |l: &&str| !l.is_empty() && !l.starts_with(';');
    match Path::new(name).extension() {
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
pub fn unformatted(file: FileId, name: &str, text: &str, formatted: &str) -> Diagnostic {
    let mut at = 0;
    for (old, new) in text.split_inclusive('\n').zip(formatted.split_inclusive('\n')) {
        if old != new {
            break;
        }
        at += old.len();
    }
    let line = text[at..].lines().next().map_or(0, str::len);
    Diagnostic::error("E039", format!("{name} is not formatted"))
        .primary(Span::new(file, at, at + line), "first line that would change")
        .help(format!("kbc fmt {name}"))
}

/// Returns removed and added lines, in hunks without context: `@ 12`, `- old`, `+ new`.
pub fn diff(name: &str, old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let (mut i, mut j) = (0, 0);
    let mut out = format!("--- {name}\n+++ {name}, formatted\n");
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
