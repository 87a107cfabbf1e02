//! Tests of the classifier (SYNC-7) against the adversary, which shares nothing with it but the
//! walk and arithmetic, on every mutant of the hand-written schedules.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common;

use common::*;
use kbc_backend_sim::adversary::{AdversaryOptions, SEEDS, adversarial};
use kbc_backend_sim::interp::{RunOptions, RunResult, run};
use kbc_checker::mutate::{Mutation, apply, meaning_preserving, mutations};
use kbc_ir::schedule::Schedule;
use kbc_judge::{Behaviour, ClassifyOptions, Evidence, calls, classify, same};
use kbc_numerics::tensor::Tensor;

const CALLS: u32 = 4;

/// Number of seeds for mutants that pass. The others get up to [`SEEDS`] and need fewer.
const STAND: u64 = 12;

fn prepared(name: &str) -> (Schedule, Vec<Vec<Tensor>>, RunResult) {
    let s = load(name);
    let feeds = inputs(&s, CALLS);
    let golden = run(&s, &feeds, &RunOptions { calls: CALLS, ..RunOptions::default() }).unwrap();
    (s, feeds, golden)
}

/// Returns options for exploration only.
fn exploring() -> ClassifyOptions {
    ClassifyOptions { calls: CALLS, first: 0, runs: 0, ..ClassifyOptions::default() }
}

fn wrong(b: &Behaviour) -> bool {
    matches!(b, Behaviour::Misbehaves(_))
}

/// Without a race, one run stands for all.
#[test]
fn right_schedules_stand_by_one_run() {
    for name in names() {
        let (s, feeds, golden) = prepared(&name);
        let b = classify(&s, &feeds, &golden, &exploring()).unwrap();
        assert_eq!(b, Behaviour::Stands(Evidence::Every(1)), "{name}");
    }
}

#[test]
fn exploring_and_the_adversary_agree() {
    let (mut misbehave, mut stand, mut disagree) = (0, 0, vec![]);
    for name in names() {
        let (s, feeds, golden) = prepared(&name);
        for m in mutations(&s) {
            let mutant = apply(&s, &m);
            let b = classify(&mutant, &feeds, &golden, &exploring()).unwrap();
            let runs = if wrong(&b) { SEEDS } else { STAND };
            let o = AdversaryOptions { calls: CALLS, runs, ..AdversaryOptions::default() };
            let failure = adversarial(&mutant, &feeds, Some(&golden), &o).unwrap().failure;
            *(if wrong(&b) { &mut misbehave } else { &mut stand }) += 1;
            if failure.is_some() != wrong(&b) || matches!(b, Behaviour::Stands(Evidence::Runs(_))) {
                let why = failure.map(|f| (f.seed, f.diagnostic.title));
                disagree.push(format!("{name}: {} {:?}: {b:?}, adversary {why:?}", m.text, m.site));
            }
        }
    }
    assert!(disagree.is_empty(), "{disagree:#?}");
    assert!(misbehave > 300 && stand > 50, "{misbehave} {stand}");
}

/// Random orders find no failure that exploration does not find, for all kinds of mutations.
#[test]
fn random_orders_find_no_more_than_exploring() {
    let (mut found, mut tried) = (0, 0);
    for name in names() {
        let (s, feeds, golden) = prepared(&name);
        for m in meaning_preserving(&s).into_iter().step_by(3) {
            let mutant = apply(&s, &m);
            let explored = classify(&mutant, &feeds, &golden, &exploring()).unwrap();
            let o = ClassifyOptions { events: 0, first: 30, runs: 30, seed: 9, ..exploring() };
            let random = classify(&mutant, &feeds, &golden, &o).unwrap();
            tried += 1;
            found += u32::from(wrong(&random));
            assert!(wrong(&explored) || !wrong(&random), "{name}: {}: {explored:?} {random:?}", m.text);
        }
    }
    assert!(tried > 300 && found > tried / 2, "{found} of {tried}");
}

/// The first run shows only some errors; reversing races shows the others.
#[test]
fn other_orders_are_what_finds_races() {
    let (s, feeds, golden) = prepared("ring_all_reduce");
    let one_run = ClassifyOptions { events: 0, ..exploring() };
    let hidden = |m: &Mutation| {
        let mutant = apply(&s, m);
        let once = classify(&mutant, &feeds, &golden, &one_run).unwrap();
        once == Behaviour::Stands(Evidence::Runs(0))
            && wrong(&classify(&mutant, &feeds, &golden, &exploring()).unwrap())
    };
    assert!(meaning_preserving(&s).iter().filter(|m| hidden(m)).count() > 3);
}

#[test]
fn calls_and_sameness() {
    // Two sets of slots, one set, one set with a credit.
    assert_eq!(calls(&load("mesh2x3")), 4);
    assert_eq!(calls(&load("ring_all_reduce")), 3);
    assert!((3..=6).contains(&calls(&load("broadcast_credit"))));
    for name in names() {
        let s = load(&name);
        assert!(same(&s, &s, CALLS), "{name}");
        let changed = mutations(&s).iter().filter(|m| !same(&s, &apply(&s, m), CALLS)).count();
        assert!(changed > 5, "{name}: {changed}");
    }
}
