//! Every algorithm of the library and of the language reference through the whole stack.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod stack;

use kbc_backend_sim::adversary::{AdversaryOptions, adversarial};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_ir::checker::{CheckOptions, Way, check};
use kbc_ir::schedule::Calls;
use kbc_ir::text::{self, PrintOptions};
use stack::{Case, Layout, World};
use std::time::Instant;

fn shapes(axes: usize) -> Vec<Vec<u64>> {
    match axes {
        1 => (1..=9).map(|p| vec![p]).collect(),
        2 => vec![vec![1, 1], vec![1, 3], vec![3, 1], vec![2, 2], vec![2, 3], vec![3, 2], vec![3, 3], vec![2, 4]],
        _ => vec![vec![2, 2, 2], vec![2, 3, 2]],
    }
}

#[test]
fn probe() {
    let filter = std::env::var("ALG").unwrap_or_default();
    for world in [World::reference()] {
        let mut bad = std::collections::BTreeMap::<String, Vec<String>>::new();
        let mut t = [0f64; 6];
        for case in world.cases(&shapes, &|p| (0..p).collect()) {
            let name = world.name(case.alg);
            if !name.contains(&filter) { continue; }
            let p = case.ranks();
            let mut ns = vec![0, 1, p - 1, p, p + 1, 7 * p + 3];
            ns.dedup();
            let mut say = |what: &str, e: String| bad.entry(name.clone()).or_default().push(format!("{what} {}: {e}", world.show(&case)));
            for n in ns {
                let l = Layout { unit: 1 + n % 2, rule: if n % 3 == 1 { kbc_ir::types::CutRule::Ceil } else { kbc_ir::types::CutRule::Even }, ..Layout::ints(n) };
                let t0 = Instant::now();
                let m = match stack::synchronized(world, &case, &l) { Ok(m) => m, Err(d) => { say(&format!("build n={n}"), world.words(&d)); continue; } };
                t[0] += t0.elapsed().as_secs_f64();
                let t0 = Instant::now();
                let s = m.schedule().unwrap();
                let feeds: Vec<_> = (0..3).map(|c| stack::feed(world, &case, &l, c)).collect();
                match run(s, &feeds, &RunOptions { calls: 3, ..Default::default() }) {
                    Err(d) => say(&format!("run n={n}"), world.words(&d)),
                    Ok(r) => { if let Some(e) = stack::wrong(world, &case, &l, &feeds, &r, stack::region(&m)) { say(&format!("wrong n={n}"), e); } }
                }
                t[1] += t0.elapsed().as_secs_f64();
                if n == 7 * p + 3 {
                    for (i, way) in [Way::Expanded, Way::Symmetric, Way::Fingerprints].into_iter().enumerate() {
                        let t0 = Instant::now();
                        let v = check(s, &CheckOptions { calls: Some(Calls::Any), way, ..Default::default() });
                        if !v.ok() && !(way == Way::Symmetric && v.errors.list[0].code == "E354") { say(&format!("{way:?}"), world.words(&v.errors)); }
                        t[2 + i] += t0.elapsed().as_secs_f64();
                    }
                    let t0 = Instant::now();
                    let _ = adversarial(s, &feeds, None, &AdversaryOptions { runs: 2, ..Default::default() }).map(|r| if let Some(f) = r.failure { say("adv", world.words(&f.diagnostic.into())) });
                    t[5] += t0.elapsed().as_secs_f64();
                }
            }
        }
        println!("times {t:?}");
        for (n, list) in &bad { println!("## {n}: {}\n{}", list.len(), list[..list.len().min(std::env::var("N").ok().and_then(|v| v.parse().ok()).unwrap_or(2))].join("\n")); }
    }
}
#[test]
fn lines() {
    let world = World::reference();
    for alg in world.lib.algorithms() {
        let d = world.lib.algorithm(alg);
        let shapes: Vec<Vec<u64>> = match d.axes.len() { 1 => [4u64,5,8,9,16,17,64,81].map(|p| vec![p]).to_vec(), 2 => vec![vec![2,2],vec![2,3],vec![3,3],vec![4,4],vec![8,8]], _ => vec![vec![2,2,2],vec![2,3,2],vec![4,4,4]] };
        let mut out = String::new();
        for sizes in shapes {
            let case = Case { alg, args: vec![], root: world.rooted(alg).then_some(0), sizes: sizes.clone() };
            if !world.legal(&case) { continue; }
            let t = Instant::now();
            match stack::expanded(world, &case, &Layout::ints(case.ranks() * 12)) {
                Ok(m) => { let r = stack::region(&m); out += &format!(" {:?}:{}{}({:.0}ms)", sizes, text::print(&m, &PrintOptions::default()).lines().count(), if r.roles.len() > 1 { "C" } else { "" }, t.elapsed().as_secs_f64()*1e3); }
                Err(e) => out += &format!(" {:?}:{}", sizes, e.list[0].code),
            }
        }
        println!("{}: {out}", world.name(alg));
    }
}
