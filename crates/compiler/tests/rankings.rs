//! Tests of kept rankings: which questions are the same, and that an answer that was kept changes
//! nothing.

use super::SUM;
use kbc_compiler::entries::Entries;
use kbc_compiler::options::Selection;
use kbc_compiler::workspace::Environment;
use kbc_compiler::{Built, Options, Source, Workspace, compile};
use kbc_diag::{Diagnostics, SourceMap};
use kbc_ir::text::{PrintOptions, print};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Entries in memory, and the codes of messages.
#[derive(Default)]
struct Memory {
    entries: Kept,
    codes: Mutex<Vec<&'static str>>,
}

/// Entries, and how many were found and kept.
#[derive(Default)]
struct Kept {
    all: Mutex<BTreeMap<String, Vec<u8>>>,
    found: AtomicUsize,
    kept: AtomicUsize,
}

impl Kept {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.all.lock().expect("no panic")
    }

    /// Returns how many were found and kept since the last time.
    fn counts(&self) -> (usize, usize) {
        (self.found.swap(0, Ordering::Relaxed), self.kept.swap(0, Ordering::Relaxed))
    }
}

impl Entries for Kept {
    fn load(&self, key: &str) -> Option<Vec<u8>> {
        let entry = self.all().get(key).cloned();
        self.found.fetch_add(usize::from(entry.is_some()), Ordering::Relaxed);
        entry
    }

    fn keep(&self, key: &str, entry: &[u8]) {
        self.kept.fetch_add(1, Ordering::Relaxed);
        self.all().insert(key.to_owned(), entry.to_owned());
    }

    fn name(&self, key: &str) -> String {
        format!("entry {key}")
    }

    fn place(&self) -> String {
        "memory".into()
    }
}

impl Environment for Memory {
    fn cache(&self) -> Option<&dyn Entries> {
        Some(&self.entries)
    }

    fn messages(&self, list: &Diagnostics, _: &SourceMap) {
        self.codes.lock().expect("no panic").extend(list.list.iter().map(|d| d.code));
    }
}

/// Compiles a text, and returns the number of rankings that were kept then.
fn with(memory: &Arc<Memory>, text: &str, of: &Selection) -> (Built, usize) {
    let mut workspace = Workspace::new(memory.clone());
    workspace.give("p.kb", text);
    let source = Source { of: of.clone(), ..Source::of("p.kb") };
    let built = compile(&mut workspace, &source, &Options::default()).expect("it compiles");
    (built, memory.entries.all().len())
}

/// Two collectives with one answer, two with answers of their own, and one that names its
/// algorithm.
const FOUR: &str = "
topology sys = torus(2, 4) { link: 50 GB/s, 500 ns }
mesh m = sys[a: 2, b: 4]
program p(x: f32[4096] partial(sum@a), y: f32[4096] partial(sum@a), z: f32[8000] partial(sum@b), w: f32[64] partial(max@b))
    -> (f32[4096], f32[4096], f32[8000], f32[64]) { (x, y, z, w) }
";

#[test]
fn a_kept_ranking_gives_what_is_found_without_one() {
    let text = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs/all_reduce.kb"),
    );
    for text in [SUM, FOUR, &text.expect("a program of the repository")] {
        let mut alone = Workspace::default();
        alone.give("p.kb", text);
        let expected = compile(&mut alone, &Source::of("p.kb"), &Options::default()).expect("it compiles");
        let memory = Arc::new(Memory::default());
        let (first, kept) = with(&memory, text, &Selection::default());
        assert!(kept > 0);
        assert_eq!(memory.entries.counts(), (0, kept));
        let (again, _) = with(&memory, text, &Selection::default());
        // Nothing was asked that was not known.
        assert_eq!(memory.entries.counts(), (kept, 0));
        for built in [&first, &again] {
            assert_eq!(built.select, expected.select);
            let text = |of: &Built| print(&of.module, &PrintOptions::default());
            assert_eq!(text(built), text(&expected));
        }
        assert!(memory.codes.lock().expect("no panic").is_empty());
    }
}

#[test]
fn another_question_is_not_answered_with_what_was_kept() {
    let memory = Arc::new(Memory::default());
    let plain = Selection::default();
    let (_, mut kept) = with(&memory, SUM, &plain);
    assert_eq!(kept, 1);
    let mut asks = |text: &str, of: &Selection, what: &str| {
        let (_, now) = with(&memory, text, of);
        assert_eq!(now, kept + 1, "{what}");
        kept = now;
    };
    asks(&SUM.replace("1000]", "1001]"), &plain, "a size");
    asks(&SUM.replace("f32", "f16"), &plain, "a type");
    asks(&SUM.replace("50 GB", "51 GB"), &plain, "a rate");
    asks(&SUM.replace("500 ns }", "500 ns; fence: 20 ns }"), &plain, "a setting");
    asks(&SUM.replace("ring(4)", "switch(4)"), &plain, "a shape");
    asks(&SUM.replace("sum@tp", "max@tp"), &plain, "a combiner");
    asks(SUM, &Selection { effort: Some("0".into()), ..Selection::default() }, "an effort");
    asks(SUM, &Selection { order: Some("fixed".into()), ..Selection::default() }, "an order");
    asks(SUM, &Selection { set: vec!["link x: 5 GB/s, 1 us".into()], ..Selection::default() }, "a slow link");
    let own = |n: &str| {
        format!(
            "{SUM}
param k = {n}
algorithm mine: all_reduce over (r mod p) where p > k {{
    for s in 1..p   {{ put [r - s mod p] -> r + 1 reduce }}
    for s in 0..p-1 {{ put [r - s mod p] -> r + 1 }}
}}"
        )
    };
    asks(&own("1"), &plain, "an algorithm of the program");
    let other = Selection { define: vec!["k=2".into()], ..Selection::default() };
    asks(&own("1"), &other, "a parameter of the program");
    asks(
        &own("1").replace("-> r + 1 }", "-> r + 1 reduce }").replace("reduce reduce", "reduce"),
        &plain,
        "another text",
    );
}

/// What belongs to a program and not to its collectives changes no question.
#[test]
fn programs_share_answers() {
    let memory = Arc::new(Memory::default());
    let plain = Selection::default();
    let (_, kept) = with(&memory, SUM, &plain);
    let other = format!(
        "// Another file.\n{}",
        SUM.replace("total", "other").replace("(x", "(value").replace("{ x }", "{ value }")
    );
    assert_eq!(with(&memory, &other, &plain).1, kept);
    // A named algorithm asks nothing.
    let named = Selection { using: vec!["ring".into()], ..Selection::default() };
    assert_eq!(with(&memory, &SUM.replace("1000", "77"), &named).1, kept);
}

#[test]
fn a_damaged_entry_is_told_and_found_again() {
    let memory = Arc::new(Memory::default());
    let plain = Selection::default();
    let (first, _) = with(&memory, SUM, &plain);
    let whole = memory.entries.all().clone();
    for entry in memory.entries.all().values_mut() {
        let at = entry.len() - 2;
        entry[at] ^= 1;
    }
    let (again, _) = with(&memory, SUM, &plain);
    assert_eq!(again.select, first.select);
    assert_eq!(*memory.codes.lock().expect("no panic"), ["E592"]);
    assert_eq!(*memory.entries.all(), whole, "it is as before");
}
