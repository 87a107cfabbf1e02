//! Tests of the pages of docs/errors: the failing block of a page yields exactly its code, the
//! repaired one no message; and every code that is raised anywhere has a page.
//!
//! * A `kb` block with a program is compiled; one without is checked on the page's number of ranks.
//! * A `kir` block with a schedule is checked; one with a graph, or whose first line names passes,
//!   goes through `kbc opt`.
//! * An `sh` block is a command line. A `tile` or `json` block is checked.
//! * A block with the option `--check` goes through `kbc fmt`, a `json` block with `--import`
//!   through `kbc import`.
//!
//! A page without blocks states why.

use crate::common;

use common::{Ran, Scratch, root, short};
use kbc_diag::codes::{CODES, Code, Example};
use std::collections::BTreeSet;
use std::path::Path;

fn run(scratch: &Scratch, e: &Example) -> Ran {
    if e.language == "sh" {
        let line = e.text.trim();
        assert_eq!(line.lines().count(), 1, "one command: {line}");
        return scratch.line(&format!("{line} --diagnostics short"));
    }
    let name = format!("page.{}", e.language);
    scratch.write(&name, e.text.as_bytes());
    let program = e.text.lines().any(|l| l.starts_with("program ") || l.starts_with("local "));
    let command = match (e.language, program, e.text.contains("\ngraph\n")) {
        ("kb", ..) if e.args == "--check" => format!("fmt {name}"),
        ("kb", true, _) => format!("compile {name}"),
        ("kb", false, _) if e.text.contains("algorithm ") => format!("check {name} -D p={}", e.ranks),
        ("kb", false, _) => format!("check {name}"),
        ("json", ..) if e.args == "--import" => {
            return scratch.line(&format!("kbc import {name} -o - --diagnostics short"));
        }
        _ if e.text.starts_with("; kbc: opt") => format!("opt {name}"),
        (_, _, true) => format!("opt {name} -p infer"),
        _ => format!("check {name}"),
    };
    scratch.line(&format!("kbc {command} {} --diagnostics short", e.args))
}

/// Returns what is wrong with a page.
fn faults(scratch: &Scratch, c: &Code) -> Vec<String> {
    let examples = c.examples();
    let kinds: Vec<bool> = examples.iter().map(|e| e.fails).collect();
    match c.why_no_examples() {
        Some(why) if kinds.is_empty() && why.len() > 15 => return vec![],
        Some(_) => return vec![format!("{}: blocks and a reason why there are none", c.code)],
        None if kinds != [true, false] => {
            return vec![format!("{}: not one failing and one fixed block", c.code)];
        }
        None => {}
    }
    let mut out = vec![];
    for e in &examples {
        let ran = run(scratch, e);
        let found = short(&ran.stderr);
        let codes: BTreeSet<&str> = found.iter().map(|s| s.code.as_str()).collect();
        let warning = found.iter().all(|s| s.severity != "error");
        let right = if e.fails {
            codes == BTreeSet::from([c.code]) && (ran.code == 0) == warning
        } else {
            codes.is_empty() && ran.code == 0
        };
        if !right {
            out.push(format!(
                "{} {}: exit {}\n{}",
                c.code,
                if e.fails { "fails" } else { "fixed" },
                ran.code,
                ran.stderr
            ));
        }
    }
    out
}

#[test]
fn every_page_does_what_it_says() {
    let scratch = Scratch::new();
    let wrong: Vec<String> = CODES.iter().flat_map(|c| faults(&scratch, c)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let run = CODES.iter().filter(|c| c.why_no_examples().is_none()).count();
    assert!(run >= 100, "only {run} of {} pages are run", CODES.len());
}

/// Collects the codes in string literals of a folder's sources.
fn raised(dir: &Path, out: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            raised(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs" || e == "lalrpop") {
            let text = std::fs::read_to_string(&path).expect("a source");
            // Tests inside a module may name codes that do not exist.
            let text = text.split("#[cfg(test)]").next().unwrap_or("");
            for (at, _) in text.match_indices("\"E") {
                let code = &text.as_bytes()[at + 1..(at + 5).min(text.len())];
                if code.len() == 4
                    && code[1..].iter().all(u8::is_ascii_digit)
                    && text[at + 5..].starts_with('"')
                {
                    out.insert(String::from_utf8_lossy(code).into_owned());
                }
            }
        }
    }
}

#[test]
fn every_code_that_is_raised_has_a_page_and_the_other_way_round() {
    let mut found = BTreeSet::new();
    raised(&root().join("src"), &mut found);
    for entry in std::fs::read_dir(root().join("crates")).expect("the crates") {
        raised(&entry.expect("an entry").path().join("src"), &mut found);
    }
    let pages: BTreeSet<String> = CODES.iter().map(|c| c.code.to_owned()).collect();
    let without: Vec<_> = found.difference(&pages).collect();
    let unused: Vec<_> = pages.difference(&found).collect();
    assert!(without.is_empty() && unused.is_empty(), "no page: {without:?}; never raised: {unused:?}");
}
