//! Tests that references between files lead somewhere: relative links of Markdown pages, with the
//! headings that they name, and paths below `docs` in sources, programs and machine files.

use crate::common::root;
use crate::tidy::files;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Folders whose texts are read, beside the files at the root.
const FOLDERS: [&str; 7] = [".github", "benches", "crates", "docs", "specs", "src", "tests"];

/// Texts at the root.
const AT_ROOT: [&str; 4] = ["ARCHITECTURE.md", "CHANGELOG.md", "Cargo.toml", "README.md"];

/// A file that a test writes into a folder of its own, as a neighbour of a page.
const WRITTEN_BY_A_TEST: &str = "docs/reference/block.kb";

/// Returns the text files of the repository with one of these endings, with their paths.
fn texts(endings: &[&str]) -> Vec<(String, String)> {
    let mut all = files(&FOLDERS, endings);
    for name in AT_ROOT.iter().filter(|n| endings.iter().any(|e| n.ends_with(e))) {
        all.push(((*name).to_owned(), std::fs::read_to_string(root().join(name)).expect("a text")));
    }
    all
}

/// Returns a page without its fenced blocks.
fn without_blocks(page: &str) -> String {
    let mut out = String::new();
    let mut fence: Option<String> = None;
    for line in page.lines() {
        let ticks: String = line.trim_start().chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if line.trim() == open => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => out += &format!("{line}\n"),
        }
    }
    out
}

/// Returns a text without its code in back quotes. Code ends with as many quotes as it began.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        out += &rest[..at];
        let quotes = rest[at..].chars().take_while(|c| *c == '`').count();
        let body = &rest[at + quotes..];
        let mut from = 0;
        let end = loop {
            let Some(next) = body[from..].find('`') else { break body.len() };
            let run = body[from + next..].chars().take_while(|c| *c == '`').count();
            from += next + run;
            if run == quotes {
                break from;
            }
        };
        rest = &body[end..];
    }
    out + rest
}

/// Returns the anchors of a page's headings, as the usual viewers of Markdown form them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for line in without_blocks(page).lines() {
        let level = line.chars().take_while(|c| *c == '#').count();
        let Some(title) = line[level..].strip_prefix(' ').filter(|_| level > 0) else { continue };
        let kept = title.trim().to_lowercase();
        let slug: String = kept
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let mut name = slug.clone();
        let mut n = 0;
        while !out.insert(name.clone()) {
            n += 1;
            name = format!("{slug}-{n}");
        }
    }
    out
}

/// Returns a path without `.` and `..`; nothing if it leaves the repository.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !out.pop() => return None,
            Component::Normal(name) => out.push(name),
            _ => {}
        }
    }
    Some(out)
}

#[test]
fn links_lead_to_pages_and_headings() {
    let mut wrong = vec![];
    let mut seen = 0;
    for (name, page) in texts(&[".md"]) {
        let text = without_code(&without_blocks(&page));
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, heading) = target.split_once('#').map_or((target, None), |(p, h)| (p, Some(h)));
            if target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            seen += 1;
            let folder = Path::new(&name).parent().expect("a file is in a folder");
            let to = match path {
                "" => Some(PathBuf::from(&name)),
                _ => plain(&folder.join(path)),
            };
            let Some(to) = to.filter(|to| root().join(to).exists()) else {
                wrong.push(format!("{name}: {target} does not exist"));
                continue;
            };
            let Some(heading) = heading else { continue };
            let page = std::fs::read_to_string(root().join(&to)).unwrap_or_default();
            if !anchors(&page).contains(heading) {
                wrong.push(format!("{name}: {target}: {} has no such heading", to.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 600, "{seen} links");
}

/// Returns the paths below `docs` that a text names from the root of the repository.
fn named(text: &str) -> BTreeSet<&str> {
    let part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let starts = text.match_indices("docs/").filter(|(at, _)| {
        let before = &text[..*at];
        before.ends_with("../") || !before.ends_with(part)
    });
    starts
        .map(|(at, _)| {
            let end = text[at..].find(|c| !part(c)).map_or(text.len(), |n| at + n);
            text[at..end].trim_end_matches(['.', '/', '-'])
        })
        .collect()
}

#[test]
fn paths_of_docs_exist() {
    let endings =
        [".md", ".rs", ".lalrpop", ".kb", ".kir", ".tile", ".yaml", ".yml", ".toml", ".py", ".js", ".csv"];
    let (mut seen, mut wrong) = (0, vec![]);
    for (name, text) in texts(&endings) {
        for path in named(&text) {
            seen += 1;
            // `docs/errors/CODE.md` stands for the page of any code.
            let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
            let any = stem.len() > 1 && stem.bytes().all(|b| b.is_ascii_uppercase());
            if path != WRITTEN_BY_A_TEST && !any && !root().join(path).exists() {
                wrong.push(format!("{name}: {path}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 150, "{seen} paths");
}

#[test]
fn code_and_headings_are_read_as_viewers_do() {
    assert_eq!(without_code("a `[x](y)` b ``c`d`` e"), "a  b  e");
    assert_eq!(without_blocks("a\n```kb\n[x](y)\n```\nb\n"), "a\nb\n");
    let names = anchors("# Mutants: the checker's own error rate\n## A `b_c`\n## A `b_c`\n");
    let expected = ["a-b_c", "a-b_c-1", "mutants-the-checkers-own-error-rate"];
    assert!(names.iter().eq(expected.iter()), "{names:?}");
    let text = "see docs/README.md. and ../../docs/adr/001-numbers.md, not x/docs/d.md";
    assert!(named(text).iter().eq(["docs/README.md", "docs/adr/001-numbers.md"].iter()));
}
