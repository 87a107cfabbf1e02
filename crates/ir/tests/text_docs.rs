//! Tests of documentation that is generated from operations and modules: the tables of
//! `docs/reference/ir.md`, pictures.

use kbc_diag::FileId;
use kbc_ir::Body;
use kbc_ir::dot::{graph_dot, local_dot, schedule_dot};
use kbc_ir::optable::{Level, markdown, names};
use kbc_ir::text::parse;
use std::collections::BTreeSet;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/ir.md");

/// The tables in the page are those of the table of operations. With `KBC_BLESS` set, they are
/// written.
#[test]
fn the_page_has_the_table_of_operations() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let mut fresh = page.clone();
    for (level, word) in [(Level::Graph, "graph"), (Level::Schedule, "schedule")] {
        let (open, close) = (format!("<!-- operations: {word} -->\n"), "<!-- end -->");
        let start = fresh.find(&open).unwrap() + open.len();
        let end = start + fresh[start..].find(close).unwrap();
        fresh.replace_range(start..end, &markdown(level));
    }
    if std::env::var_os("KBC_BLESS").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
    }
    assert!(
        fresh == page,
        "docs/reference/ir.md is not what optable.rs says; run this test with KBC_BLESS=1"
    );
}

/// Every operation of the table occurs in a file of `kir`, and every operation of those files is in
/// the table.
#[test]
fn the_table_has_all_operations() {
    let mut seen: BTreeSet<(bool, String)> = BTreeSet::new();
    insta::glob!("kir/{good,graph,forms}/*.kir", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let is_graph = parse(FileId(0), &text).unwrap().schedule().is_none();
        let mut host = false;
        // Kernels have statements of their own, which come before the body.
        let body = |l: &&str| !["graph", "local", "schedule"].contains(&l.split(' ').next().unwrap_or(""));
        for line in text.lines().skip_while(body) {
            host = if line.starts_with(' ') { host } else { line == "host" };
            let word = match is_graph {
                true => line.split_once(" = ").filter(|_| line.trim_start().starts_with('%')).map(|l| l.1),
                // Operations of a schedule are below a stream, or below the host.
                false if host => line.strip_prefix("  ").map(str::trim_start),
                false => line.strip_prefix("      ").map(str::trim_start),
            };
            if let Some(w) = word.and_then(|w| w.split_whitespace().next()).filter(|w| *w != "else") {
                seen.insert((is_graph, w.to_string()));
            }
        }
    });
    let table = |level, is_graph| names(level).map(move |n| (is_graph, n.to_string()));
    let want: BTreeSet<_> = table(Level::Graph, true).chain(table(Level::Schedule, false)).collect();
    assert_eq!(seen, want);
}

#[test]
fn pictures() {
    insta::glob!(
        "kir/{graph/ffn_selected,graph/local,good/mesh2x3,good/shared_window,good/host_program,forms/all_forms}.kir",
        |path| {
            let text = std::fs::read_to_string(path).unwrap();
            let dot = match &parse(FileId(0), &text).unwrap().body {
                Body::Graph(g) => graph_dot(g),
                Body::Local(l) => local_dot(l),
                Body::Schedule(s) => schedule_dot(s),
            };
            insta::assert_snapshot!(dot);
        }
    );
}
