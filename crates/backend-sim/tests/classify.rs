//! The classifier against the adversary on every mutant of the hand-written schedules (SYNC-7).
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod common;

use common::*;
use kbc_backend_sim::classify::{Behaviour, ClassifyOptions, classify};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_ir::checker::{CheckOptions, check};
use kbc_ir::mutate::{apply, mutations};

#[test]
fn explore_corpus() {
    for name in names() {
        let s = load(&name);
        let feeds = inputs(&s, 4);
        let golden = run(&s, &feeds, &RunOptions { calls: 4, ..RunOptions::default() }).unwrap();
        let o = ClassifyOptions::default();
        let b = classify(&s, &feeds, &golden, &o).unwrap();
        println!("{name}: {b:?}");
        for m in mutations(&s) {
            let x = apply(&s, &m);
            let t = std::time::Instant::now();
            let b = classify(&x, &feeds, &golden, &o).unwrap();
            let v = check(&x, &CheckOptions::default());
            let codes: Vec<_> = v.errors.list.iter().map(|d| d.code).collect();
            let bad = matches!(b, Behaviour::Misbehaves(_));
            let ms = t.elapsed().as_millis();
            if bad == v.ok() || ms > 500 {
                println!("   {} {:?}: {codes:?} {b:?} {ms} ms", m.text, m.site);
            }
        }
    }
}
