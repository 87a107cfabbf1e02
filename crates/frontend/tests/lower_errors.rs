//! Tests of errors in programs: each `lower/errors/*.kb` marks the lines of its messages.
//!
//! A marker `//~ E005 "text"` is at the end of the line of the message; several messages of one
//! line have a marker each. A marker on a line of its own is for a message without a place in the
//! file. The text must occur in the title, at a place, in a note or in the help. Every message has
//! a marker, and every marker has a message. To add a case, copy a file; `//@` gives options as in
//! `lower.rs`.

use crate::common;

use common::{compile, runs};
use kbc_diag::{Diagnostic, Severity, render};
use std::path::Path;

/// Returns line (0 for none), code and text of the markers of a file.
fn markers(text: &str) -> Vec<(usize, String, String)> {
    let mut out = vec![];
    for (i, line) in text.lines().enumerate() {
        let mut parts = line.split("//~");
        let code = parts.next().unwrap_or("");
        for marker in parts {
            let (name, words) = marker.trim().split_once(' ').expect("a code and a text");
            let words =
                words.trim().strip_prefix('"').and_then(|w| w.strip_suffix('"')).expect("a text in quotes");
            out.push((if code.trim().is_empty() { 0 } else { i + 1 }, name.to_owned(), words.to_owned()));
        }
    }
    out
}

fn all_words(d: &Diagnostic) -> String {
    let mut out = vec![d.title.clone()];
    out.extend(d.labels.iter().map(|l| l.text.clone()));
    out.extend(d.notes.iter().cloned());
    out.extend(d.help.iter().cloned());
    out.join("\n")
}

/// Returns the differences between messages and markers of a file, one line each.
fn differences(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("found by a glob");
    let mut open = markers(&text);
    assert!(!open.is_empty(), "{} has no marker", path.display());
    let lines = runs(&text);
    let [line] = &lines[..] else { panic!("{}: one run", path.display()) };
    let (disk, result) = compile(path, line);
    // A case without errors is about its warnings.
    let found = result.map_or_else(|found| found, |lowered| lowered.warnings);
    let worst = if found.has_errors() { Severity::Error } else { Severity::Warning };
    let mut wrong = vec![];
    for d in found.list.iter().filter(|d| d.severity == worst) {
        let own = disk
            .map
            .get(d.span().file)
            .is_some_and(|f| Some(&*f.name) == path.file_name().and_then(|n| n.to_str()));
        let at = if own { disk.map.line_col(d.span()).map_or(0, |p| p.0) } else { 0 };
        let hit = open.iter().position(|m| m.0 == at && m.1 == d.code && all_words(d).contains(&m.2));
        match hit {
            Some(i) => {
                open.remove(i);
            }
            None => wrong.push(format!("no marker: {} [{}]", render::short(d, &disk.map), all_words(d))),
        }
    }
    wrong.extend(
        open.into_iter().map(|m| format!("no message: {}:{} {} \"{}\"", path.display(), m.0, m.1, m.2)),
    );
    wrong
}

#[test]
fn every_fault_is_told_at_its_line() {
    let (mut cases, mut wrong) = (0, vec![]);
    insta::glob!("lower/errors", "*.kb", |path| {
        wrong.extend(differences(path));
        cases += 1;
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases >= 20, "{cases}");
}

#[test]
fn five_independent_faults_in_one_run() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lower/errors/five_at_once.kb");
    let (_, result) = compile(&path, "");
    let found = result.expect_err("five faults");
    let mut codes: Vec<&str> = found.list.iter().map(|d| d.code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert!(codes.len() >= 5, "{codes:?}");
}
