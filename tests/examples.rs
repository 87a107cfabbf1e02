//! Tests of the examples in the help of commands: every one runs.

use crate::common::kbc_with;
use crate::docs::words;
use crate::needs::{Need, found};
use crate::verbs::folder;
use kbc::cli::help::EXAMPLES;
use std::collections::BTreeSet;

/// Commands whose examples compile C or C++.
const BUILDING: [(&str, Need); 4] = [
    ("launch", Need::C),
    ("calibrate", Need::C),
    ("dev bench host", Need::C),
    ("dev fuzz emitted", Need::Cxx),
];

/// Runs the examples of some commands.
fn run_examples(least: usize, these: impl Fn(&str) -> bool) {
    let s = folder();
    let mut done = BTreeSet::new();
    for (path, examples) in EXAMPLES.iter().filter(|e| these(e.0)) {
        for (line, _) in *examples {
            let needs = BUILDING.iter().find(|b| line.starts_with(&format!("kbc {} ", b.0))).map(|b| b.1);
            if !done.insert(line) || needs.is_some_and(|n| found(n).is_none()) {
                continue;
            }
            let words = words(line);
            let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
            // `calibrate` repeats its loops many times; without optimisation they take a minute.
            let ran = kbc_with(s.path(), &words, "", &[("CFLAGS", "-O1")]);
            assert_eq!(ran.code, 0, "an example of kbc {path} --help: {line}\n{}{}", ran.stdout, ran.stderr);
            // Folders that a later example writes again.
            let _ = std::fs::remove_dir_all(s.path().join("your_ring"));
        }
    }
    assert!(done.len() > least, "{}", done.len());
}

fn builds(path: &str) -> bool {
    BUILDING.iter().any(|b| b.0 == path)
}

#[test]
fn examples_run() {
    run_examples(8, |path| !path.starts_with("dev") && !builds(path));
}

#[test]
fn examples_of_dev_run() {
    run_examples(8, |path| path.starts_with("dev") && !builds(path));
}

#[test]
fn examples_that_build_run() {
    run_examples(6, builds);
}
