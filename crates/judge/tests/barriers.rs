//! Tests of barriers in three forms between two phases that use one slot (SYNC-2). Correct ones
//! pass under the adversaries, and all their orders are equivalent to one run. Wrong ones fail
//! under the checker, the adversaries, and the classifier where it is exhaustive.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common;

use common::*;
use kbc_backend_sim::adversary::{AdversaryOptions, SEEDS, adversarial};
use kbc_backend_sim::interp::{RunOptions, RunResult, run};
use kbc_backend_sim::jit;
use kbc_checker::{CheckOptions, check};
use kbc_ir::schedule::{Calls, Form, Schedule};
use kbc_judge::{Behaviour, ClassifyOptions, Evidence, calls, classify};
use kbc_numerics::tensor::Tensor;

const KINDS: [&str; 2] = ["central", "dissemination"];
const FORMS: [&str; 3] = ["epoch", "sense", "clearing"];

fn wrong(name: &str) -> String {
    let path = format!("{}/../ir/tests/kir/check/{name}.kir", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// Returns inputs, and the results of a correct schedule: the sum of the ranks' vectors.
fn sums(right: &Schedule, n: u32) -> (Vec<Vec<Tensor>>, RunResult) {
    let feeds = inputs(right, n);
    let result = run(right, &feeds, &RunOptions { calls: n, ..RunOptions::default() }).unwrap();
    assert_right("a sum", right, &feeds, &result);
    (feeds, result)
}

/// Returns the verdicts on a schedule that should give the same results as the correct one.
fn fares(s: &Schedule, right: &Schedule) -> (Option<&'static str>, Behaviour) {
    let n = calls(s).max(4);
    let (feeds, golden) = sums(right, n);
    let o = AdversaryOptions { calls: n, runs: SEEDS, ..AdversaryOptions::default() };
    let failure = adversarial(s, &feeds, Some(&golden), &o).unwrap().failure;
    let o = ClassifyOptions { calls: n, ..ClassifyOptions::default() };
    (failure.map(|f| f.diagnostic.code), classify(s, &feeds, &golden, &o).unwrap())
}

/// Each form is correct for the first call and for any call. The barrier matters: without its
/// waits, each schedule is rejected.
#[test]
fn each_form_is_proven_and_stands() {
    for (kind, form) in KINDS.iter().flat_map(|k| FORMS.map(|f| (k, f))) {
        let name = format!("{kind}_{form}");
        let s = load(&name);
        assert!(s.signals.iter().any(|g| g.form.name() == form), "{name}");
        for calls in [Calls::First, Calls::Any] {
            let v = check(&s, &CheckOptions { calls: Some(calls), ..CheckOptions::default() });
            assert!(v.ok(), "{name}: {:#?}", v.errors.list);
        }
        let n = calls(&s).max(4);
        let (feeds, golden) = sums(&s, n);
        let o = AdversaryOptions { calls: n, runs: 2 * SEEDS, ..AdversaryOptions::default() };
        let report = adversarial(&s, &feeds, Some(&golden), &o).unwrap();
        assert!(report.failure.is_none(), "{name}: {:?}", report.failure.map(|f| f.diagnostic));
        let o = ClassifyOptions { calls: n, first: 0, runs: 0, ..ClassifyOptions::default() };
        let b = classify(&s, &feeds, &golden, &o).unwrap();
        assert_eq!(b, Behaviour::Stands(Evidence::Every(1)), "{name}");
        let free: String = short(&name)
            .lines()
            .filter(|l| !["@gather", "@go", "@d["].iter().any(|g| l.contains(g) && !l.starts_with("signal")))
            .filter(|l| !l.trim_start().starts_with("for "))
            .filter(|l| !["signal @gather", "signal @go", "signal @d"].iter().any(|g| l.starts_with(g)))
            .map(|l| format!("{l}\n"))
            .collect();
        assert!(!check(&parse(&free), &CheckOptions::default()).ok(), "{name} without its barrier");
        assert!(fares(&parse(&free), &s).0.is_some(), "{name} without its barrier");
    }
}

/// A rank that is one ahead of a sense, a notify in place of another rank's on a shared counter,
/// and memory that is not zeroed are rejected and go wrong. Each is repaired by what it lacks: an
/// epoch, a counter for each writer, `fresh`.
#[test]
fn wrong_forms_fall_and_repaired_ones_stand() {
    let [ahead, stand_in, stale] = ["e358_sense_one_ahead", "e358_stand_in", "e367_stale"].map(wrong);
    let epochs = ahead
        .replace(" sense fresh", "")
        .replace("& 1 == 1", ">= call * 2 + 1")
        .replace("& 1 == 0", ">= call * 2 + 2");
    let alone = stand_in
        .replace("@in[1] ", "@in[3] ")
        .replace(") : @in[0]", ") : @in[r - 1]")
        .replace("      wait @in[0] -= 3", "      for q in 0..3\n        wait @in[q] -= 1");
    let fresh = stale.replace("clearing", "clearing fresh");
    for (bad, good, code, adversary) in [
        (ahead, epochs, "E358", &["E361"][..]),
        (stand_in, alone, "E358", &["E362", "E366"]),
        (stale, fresh, "E367", &["E362"]),
    ] {
        let (s, right) = (parse(&bad), parse(&good));
        let v = check(&s, &CheckOptions::default());
        assert!(!v.ok() && v.errors.list.iter().all(|d| d.code == code), "{bad}: {:?}", v.errors.list);
        let (failure, behaviour) = fares(&s, &right);
        assert!(failure.is_some_and(|c| adversary.contains(&c)), "{bad}: {failure:?}");
        assert!(matches!(behaviour, Behaviour::Misbehaves(_)), "{bad}: {behaviour:?}");
        let v = check(&right, &CheckOptions::default());
        assert!(v.ok(), "{good}\n{:#?}", v.errors.list);
        assert_eq!(fares(&right, &right), (None, Behaviour::Stands(Evidence::Every(1))), "{good}");
    }
}

/// A sense may wrap and a clearing counter goes down again, so only epochs have a limit in signed
/// 32 bits.
#[test]
fn only_epochs_have_a_range() {
    let range = |name: &str, stated_calls| {
        let v = check(&load(name), &CheckOptions { stated_calls, ..CheckOptions::default() });
        (v.ok(), v.range)
    };
    assert_eq!(range("central_epoch", 1 << 16), (true, Some((i32::MAX as u64) / 2)));
    // Only the arrivals still grow there, by 1 per call.
    assert_eq!(range("central_sense", 1 << 30), (true, Some(i32::MAX as u64)));
    assert_eq!(range("central_clearing", 1 << 30), (true, Some(i32::MAX as u64)));
    assert!(!range("central_epoch", 1 << 31).0);
    assert_eq!(load("central_clearing").signals[1].form, Form::Clearing { fresh: true });
}

/// A value that a form does not have is an error in every engine: a sense above 1, a subtraction of
/// less than 1, memory that is not zeroed.
#[test]
fn every_engine_refuses_what_a_form_has_not() {
    let sense = wrong("e302_no_sense");
    let taken = sense.replace("sense fresh", "clearing fresh").replace("& 1 == 2", "-= 0 - 1 - r");
    for (text, code) in [(sense, "E302"), (taken, "E302"), (wrong("e367_stale"), "E362")] {
        let s = parse(&text);
        let feeds = inputs(&s, 1);
        let refused = run(&s, &feeds, &RunOptions::default()).unwrap_err();
        assert_eq!(refused.list[0].code, code, "{text}");
        match jit::compile(&s) {
            Ok(compiled) => {
                let refused = compiled.run(&feeds, &RunOptions::default()).unwrap_err();
                assert_eq!(refused.list[0].code, code, "{text}");
            }
            Err(d) => assert_eq!((d.list[0].code, code), ("E374", "E362"), "{text}"),
        }
    }
}
