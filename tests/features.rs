//! Tests that `docs/reference/features.md` is complete and true: every id that the repository uses
//! has a row, files and tests that it names exist, and the command line accepts its commands.

use crate::common::root;
use crate::docs::{read, words};
use std::collections::BTreeSet;
use std::path::Path;

/// Areas of the rows of docs/reference/features.md.
const AREAS: [&str; 16] = [
    "LANG", "TOPO", "TP", "ALG", "SYNC", "SIM", "ASC", "EVAL", "IR", "IO", "TOOL", "TRUST", "SYN", "HOST",
    "PY", "PLAN",
];

/// Returns the ids of rows in a text: `TOPO-6`, but not `DGX-1`.
fn ids(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
        .filter(|word| {
            word.split_once('-').is_some_and(|(area, number)| {
                AREAS.contains(&area) && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
            })
        })
        .map(str::to_owned)
        .collect()
}

/// Collects the text files below a folder, with their paths from the root.
fn texts(dir: &Path, out: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(dir).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            texts(&path, out);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let name = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            out.push((name, text));
        }
    }
}

/// Every id that the repository uses has a row on docs/reference/features.md.
#[test]
fn every_id_has_its_row() {
    let page = read("docs/reference/features.md");
    // A row is a heading, or an item among the ids that were dropped.
    let rows: BTreeSet<String> = page
        .lines()
        .filter_map(|l| {
            let heading = l.strip_prefix("### ").and_then(|l| l.split_once(':'));
            let item = l.strip_prefix("* `").and_then(|l| l.split_once("`:"));
            heading.or(item)
        })
        .flat_map(|(id, _)| ids(id))
        .collect();
    assert!(rows.len() >= 102, "{} rows", rows.len());
    let mut all = vec![];
    for dir in ["tests", "specs", "crates", "src", "docs", "benches"] {
        texts(&root().join(dir), &mut all);
    }
    for file in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        all.push((file.to_owned(), read(file)));
    }
    let mut lost = vec![];
    for (name, text) in &all {
        lost.extend(ids(text).difference(&rows).map(|id| format!("{name}: {id}")));
    }
    assert!(lost.is_empty(), "docs/reference/features.md has no row for\n{}", lost.join("\n"));
}

/// Paths and test functions of docs/reference/features.md exist.
#[test]
fn evidence_of_features_exists() {
    let page = read("docs/reference/features.md");
    let (mut wrong, mut tests) = (vec![], 0);
    for paragraph in page.split("\n\n") {
        let is_evidence = paragraph.starts_with("Tests: ");
        let (mut depth, mut source) = (0usize, String::new());
        for (i, piece) in paragraph.split('`').enumerate() {
            if i % 2 == 0 {
                for c in piece.chars() {
                    match c {
                        '(' => depth += 1,
                        ')' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                }
                continue;
            }
            let starts = ["src/", "crates/", "docs/", "specs/", "tests/", "benches/"];
            if starts.iter().any(|s| piece.starts_with(s)) && !piece.contains([' ', '*']) {
                if !root().join(piece).exists() {
                    wrong.push(format!("{piece}: there is no such file"));
                } else if depth == 0 && piece.ends_with(".rs") {
                    source = read(piece);
                }
            } else if is_evidence
                && depth > 0
                && piece.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            {
                tests += 1;
                // Attributes may come between `#[test]` and the function, and a helper may have its
                // name.
                let is_test = source
                    .match_indices(&format!("fn {piece}("))
                    .any(|(at, _)| source[..at].lines().rev().take(4).any(|l| l.trim() == "#[test]"));
                if !is_test {
                    wrong.push(format!("`{piece}` is no test of the file before it"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "docs/reference/features.md:\n{}", wrong.join("\n"));
    assert!(tests > 200, "{tests} tests");
}

/// Every current row shows a command that the command line accepts.
#[test]
fn every_feature_shows_a_command() {
    use clap::Parser;
    let page = read("docs/reference/features.md");
    let (kept, _) = page.split_once("\n## Not kept, or kept in part\n").expect("the last section");
    let mut wrong = vec![];
    for row in kept.split("\n### ").skip(1) {
        let name = row.lines().next().unwrap_or("");
        let commands: Vec<&str> =
            row.lines().filter_map(|l| l.strip_prefix("    ")).filter(|l| !l.is_empty()).collect();
        if commands.is_empty() || !row.contains("\nTests: ") {
            wrong.push(format!("{name}: a command and a paragraph `Tests:` are needed"));
        }
        for line in commands {
            if line.starts_with("kbc ") {
                if let Err(e) = kbc::cli::Cli::try_parse_from(words(line)) {
                    wrong.push(format!("{name}: {line}\n{e}"));
                }
            } else if !line.starts_with("cargo ") {
                wrong.push(format!("{name}: {line} is no command of kbc or cargo"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/reference/features.md:\n{}", wrong.join("\n"));
}
