//! Tests of lowering from `.kb` to the graph level: each `lower/good/*.kb` and every file of
//! `specs` has its graph as a snapshot.
//!
//! To add a case, copy a file. A line `//@ -D tp=2 --topology ring(7)` runs the case with these
//! options; each such line is a run. Every graph passes the verifier and survives a round trip
//! through its text.

use crate::common;

use common::{compile, runs};
use kbc_diag::{FileId, render};
use kbc_ir::text::{self, PrintOptions};
use std::path::Path;

/// Returns all runs of a file as text.
fn graphs(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("found by a glob");
    let mut out = String::new();
    for line in runs(&text) {
        let (disk, result) = compile(path, &line);
        let lowered = result.unwrap_or_else(|found| {
            let all: Vec<String> = found.list.iter().map(|d| render::human(d, &disk.map, false)).collect();
            panic!("{} {line}:\n{}", path.display(), all.join("\n"))
        });
        assert!(lowered.warnings.is_empty());
        let found = kbc_ir::verify::verify(&lowered.module);
        let faults: Vec<&String> = found.list.iter().map(|d| &d.title).collect();
        assert!(faults.is_empty(), "{} {line}: {faults:#?}", path.display());
        let located = text::print(&lowered.module, &PrintOptions { locs: true });
        let back = text::parse(FileId(0), &located).unwrap_or_else(|d| panic!("{d:#?}\n{located}"));
        assert_eq!(text::print(&back, &PrintOptions { locs: true }), located, "{}", path.display());
        let params: Vec<String> = lowered.params.iter().map(|(n, v)| format!("{n} = {v}")).collect();
        if !line.is_empty() {
            out += &format!("; {line}\n");
        }
        if !params.is_empty() {
            out += &format!("; {}\n", params.join(", "));
        }
        out += &text::print(&lowered.module, &PrintOptions::default());
        out.push('\n');
    }
    out
}

fn snapshots(kind: &str, base: &str, pattern: &str) -> usize {
    let mut n = 0;
    insta::glob!(base, pattern, |path| {
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(kind, graphs(path));
        });
        n += 1;
    });
    n
}

#[test]
fn programs() {
    assert!(snapshots("graph", "lower/good", "*.kb") >= 15);
}

#[test]
fn specs() {
    assert!(snapshots("spec", "../../../specs", "{*,bench/*,algorithms/*,kernbench/centre*}.kb") >= 10);
}
