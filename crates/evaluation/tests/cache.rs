//! Tests of the cache of rows: what it finds again, and what it does not believe.

use kbc_compiler::Workspace;
use kbc_compiler::entries::Entries;
use kbc_compiler::workspace::Environment;
use kbc_diag::{Diagnostics, SourceMap};
use kbc_evaluation::sweep::cache::{Cache, RowEntries};
use kbc_evaluation::sweep::load::{chosen, load};
use kbc_evaluation::sweep::run::{SweepRow, Within, run};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A program, and a sweep of two sizes.
const FILES: [(&str, &str); 2] = [
    (
        "sum.kb",
        "
        param n = 64
        topology sys = ring(4) { link: 50 GB/s, 500 ns }
        mesh m = sys[tp]
        program total(x: f32[n] partial(sum@tp)) -> f32[n] { x }
        ",
    ),
    (
        "sizes.yaml",
        "
sweep: 1
title: all-reduce
file: sum.kb
axes:
  n: [64, 4096]
define: { n: '{n}' }
",
    ),
];

/// Files in memory, and codes of the messages about them.
#[derive(Default)]
struct Memory {
    files: Mutex<BTreeMap<String, String>>,
    entries: Mutex<BTreeMap<String, Vec<u8>>>,
    codes: Mutex<Vec<&'static str>>,
}

impl Environment for Memory {
    fn text(&self, path: &str) -> io::Result<Vec<u8>> {
        let files = self.files.lock().expect("no panic");
        files.get(path).map(|t| t.clone().into_bytes()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn messages(&self, list: &Diagnostics, _: &SourceMap) {
        self.codes.lock().expect("no panic").extend(list.list.iter().map(|d| d.code));
    }
}

/// Entries in memory.
struct Kept(Arc<Memory>);

impl Entries for Kept {
    fn load(&self, key: &str) -> Option<Vec<u8>> {
        self.0.entries.lock().expect("no panic").get(key).cloned()
    }

    fn keep(&self, key: &str, entry: &[u8]) {
        self.0.entries.lock().expect("no panic").insert(key.to_owned(), entry.to_owned());
    }

    fn name(&self, key: &str) -> String {
        format!("entry {key}")
    }

    fn place(&self) -> String {
        "memory".into()
    }
}

impl RowEntries for Kept {
    fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.0.text(Path::new(path).to_str()?).ok()
    }
}

/// Runs the sweep with a cache of a kbc.
fn rows(memory: &Arc<Memory>, kbc: &str) -> Vec<SweepRow> {
    let cache = Cache::new(Box::new(Kept(memory.clone())), kbc.into());
    let mut workspace = Workspace::new(memory.clone());
    let loaded = load(&mut workspace, "sizes.yaml").expect("a sweep");
    let points = chosen(&loaded.grid, &[], None).expect("all rows");
    let within = Within { jobs: 2, cache: Some(&cache) };
    run(&workspace, "sizes.yaml", &points, &within, &mut |_| {}).expect("it runs").rows
}

fn memory() -> Arc<Memory> {
    let memory = Arc::new(Memory::default());
    let files = FILES.map(|(name, text)| (name.to_owned(), text.to_owned()));
    *memory.files.lock().expect("no panic") = files.into();
    memory
}

#[test]
fn rows_are_found_again_by_what_they_were_made_from() {
    let memory = memory();
    let first = rows(&memory, "kbc");
    assert!(first.iter().all(|r| !r.cached && r.facts.status.holds()));
    let again = rows(&memory, "kbc");
    assert!(again.iter().all(|r| r.cached));
    let facts = |rows: &[SweepRow]| rows.iter().map(|r| r.facts.clone()).collect::<Vec<_>>();
    assert_eq!(facts(&again), facts(&first));
    // Another kbc may compute something else, and another program is another one.
    assert!(rows(&memory, "another kbc").iter().all(|r| !r.cached));
    let changed = FILES[0].1.replace("500 ns", "900 ns");
    memory.files.lock().expect("no panic").insert("sum.kb".into(), changed);
    let other = rows(&memory, "kbc");
    assert!(other.iter().all(|r| !r.cached));
    assert!(other.iter().zip(&first).all(|(a, b)| a.facts.time_ns > b.facts.time_ns));
}

#[test]
fn a_damaged_entry_is_told_and_computed_again() {
    let memory = memory();
    let first = rows(&memory, "kbc");
    for entry in memory.entries.lock().expect("no panic").values_mut() {
        *entry.last_mut().expect("some bytes") ^= 1;
    }
    let again = rows(&memory, "kbc");
    assert!(again.iter().all(|r| !r.cached));
    assert!(again.iter().zip(&first).all(|(a, b)| a.facts == b.facts));
    assert_eq!(*memory.codes.lock().expect("no panic"), ["E592"]);
    assert!(rows(&memory, "kbc").iter().all(|r| r.cached), "entries are written anew");
}
