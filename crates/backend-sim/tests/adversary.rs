//! Tests of the adversaries on the hand-written schedules: correct ones pass, and each one without
//! an essential operation fails.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common;

use common::*;
use kbc_backend_sim::adversary::{AdversaryOptions, SEEDS, adversarial};
use kbc_backend_sim::interp::{RunOptions, RunResult, run};
use kbc_diag::Span;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::{SOp, SStmt, Schedule};
use kbc_numerics::tensor::Tensor;

const CALLS: u32 = 4;

fn feeds_and_golden(name: &str, s: &Schedule) -> (Vec<Vec<Tensor>>, RunResult) {
    let feeds = inputs(s, CALLS);
    let base = run(s, &feeds, &RunOptions { calls: CALLS, ..RunOptions::default() }).unwrap();
    assert_right(name, s, &feeds, &base);
    (feeds, base)
}

fn options(runs: u64) -> AdversaryOptions {
    AdversaryOptions { calls: CALLS, runs, ..AdversaryOptions::default() }
}

#[test]
fn good_schedules_stand() {
    for name in &names() {
        let s = load(name);
        let (feeds, golden) = feeds_and_golden(name, &s);
        let report = adversarial(&s, &feeds, Some(&golden), &options(SEEDS)).unwrap();
        if let Some(f) = &report.failure {
            panic!("{name}: {:?} seed {}: {:#?}", f.policy, f.seed, f.diagnostic);
        }
        assert_eq!(report.runs, SEEDS);
        // The results after each call, or the values that the host reads in it.
        let outputs: usize = golden.outputs.iter().flatten().flatten().map(|p| p.tensor.elements()).sum();
        let reads: usize = golden.reads.iter().flatten().flatten().map(|r| r.tensor.elements()).sum();
        let a_run = if s.host.is_some() { reads } else { outputs };
        assert_eq!(report.elements, SEEDS * a_run as u64);
    }
}

/// A write of the host is a local operation that may be postponed; the host's own read still comes
/// after it.
#[test]
fn a_host_reads_what_it_wrote_itself() {
    let s = parse(
        "kir 1
module @m
mesh tp 1

schedule calls any
buffer %x : f32[2] hbm input 0 : f32[2]
buffer %y : f32[2] hbm output 0 : f32[2]
buffer %a : f32[2] hbm input 1 : f32[2]

host
  host.launch @last
  host.write %y = %x
  host.read %y
  host.drain

region @last local
  role all
    stream main
      copy %y = %a
",
    );
    let feeds = inputs(&s, CALLS);
    let golden = run(&s, &feeds, &RunOptions { calls: CALLS, ..RunOptions::default() }).unwrap();
    let report = adversarial(&s, &feeds, Some(&golden), &options(SEEDS)).unwrap();
    assert!(report.failure.is_none(), "{:#?}", report.failure);
}

/// Replaces each operation of a schedule by the result of `f`. Operations are numbered in order.
fn edit(s: &mut Schedule, f: &mut dyn FnMut(usize, &SOp, Span) -> Option<SStmt>) {
    fn body(list: &mut Vec<SStmt>, n: &mut usize, f: &mut dyn FnMut(usize, &SOp, Span) -> Option<SStmt>) {
        let old = std::mem::take(list);
        for mut st in old {
            match &mut st {
                SStmt::For { body: b, .. } => body(b, n, f),
                SStmt::If { then, other, .. } => {
                    body(then, n, f);
                    body(other, n, f);
                }
                SStmt::Op(op, span) => {
                    *n += 1;
                    list.extend(f(*n - 1, op, *span));
                    continue;
                }
            }
            list.push(st);
        }
    }
    let mut n = 0;
    for r in &mut s.regions {
        for stream in r.roles.iter_mut().flat_map(|role| &mut role.streams) {
            body(&mut stream.body, &mut n, f);
        }
    }
}

/// Returns the name of an operation if dropping it is an error.
fn essential(op: &SOp) -> Option<&'static str> {
    match op {
        SOp::FenceRelease => Some("release"),
        SOp::FenceAcquire => Some("acquire"),
        SOp::FenceComplete => Some("complete"),
        SOp::Wait { .. } => Some("wait"),
        SOp::Notify { .. } => Some("notify"),
        SOp::Await(_) => Some("await"),
        SOp::Record(_) => Some("record"),
        _ => None,
    }
}

/// Drops that have no effect here. The host's own accesses are never late, so a release that only
/// covers its reading of the last call's results can be dropped; the checker requires it
/// nevertheless.
const HARMLESS: [&str; 1] = ["direct_all_gather 1 release"];

/// Drops each essential operation of each good schedule wherever `kept` is false (everywhere if it
/// is absent). Returns the drops that no seed detected, and a line for each detected one.
fn drop_each(kept: Option<&Expr>) -> (Vec<String>, Vec<String>) {
    let (mut fell, mut escaped) = (vec![], vec![]);
    for name in &names() {
        let s = load(name);
        let (feeds, golden) = feeds_and_golden(name, &s);
        let mut drops = vec![];
        edit(&mut s.clone(), &mut |n, op, span| {
            drops.extend(essential(op).map(|what| (n, what)));
            Some(SStmt::Op(op.clone(), span))
        });
        for (n, what) in drops {
            let mut broken = s.clone();
            edit(&mut broken, &mut |k, op, span| {
                let op = SStmt::Op(op.clone(), span);
                match kept {
                    _ if k != n => Some(op),
                    None => None,
                    Some(kept) => Some(SStmt::If { cond: kept.clone(), then: vec![op], other: vec![] }),
                }
            });
            match adversarial(&broken, &feeds, Some(&golden), &options(SEEDS)).unwrap().failure {
                Some(f) => {
                    fell.push(format!("{name} {n} {what}: {} after {}", f.diagnostic.code, f.seed + 1))
                }
                None => escaped.push(format!("{name} {n} {what}")),
            }
        }
    }
    for h in HARMLESS {
        assert!(escaped.iter().any(|e| e == h), "{h} is caught by now");
    }
    escaped.retain(|e| !HARMLESS.contains(&e.as_str()));
    (fell, escaped)
}

/// An acquire on another stream than the reading one has no effect.
#[test]
fn streams_acquire_for_themselves() {
    let text = short("two_streams");
    let moved = text
        .replace("      fence.acquire\n", "")
        .replace("      record came", "      fence.acquire\n      record came");
    let (s, broken) = (parse(&text), parse(&moved));
    let (feeds, golden) = feeds_and_golden("two_streams", &s);
    assert!(adversarial(&broken, &feeds, Some(&golden), &options(SEEDS)).unwrap().failure.is_some());
}

/// A slot that is reused needs its credit, however many slots there are, because the writer may run
/// ahead without limit.
#[test]
fn a_credit_that_comes_one_message_early_is_found() {
    let text = short("broadcast_credit");
    let broken =
        parse(&text.replace("wait @free[0] >= call * 4 + s - 2", "wait @free[0] >= call * 4 + s - 3"));
    let (feeds, golden) = feeds_and_golden("broadcast_credit", &load("broadcast_credit"));
    let failure = adversarial(&broken, &feeds, Some(&golden), &options(SEEDS)).unwrap().failure.unwrap();
    let x = failure.difference.clone().unwrap();
    assert_ne!(x.expected, x.got);
    // The seed alone reproduces the failure.
    let again = AdversaryOptions { seed: failure.seed, runs: 1, ..options(1) };
    let f = adversarial(&broken, &feeds, Some(&golden), &again).unwrap().failure.unwrap();
    assert_eq!((f.seed, f.difference), (failure.seed, failure.difference));
    assert_eq!(f.diagnostic.code, "E366");
}

#[test]
fn schedules_that_lack_one_thing_fall() {
    let (fell, escaped) = drop_each(None);
    assert!(escaped.is_empty(), "{escaped:#?}\n{fell:#?}");
    assert!(fell.len() > 80, "{}", fell.len());
}

/// As above, but the operation is dropped in one call only, when every slot holds data of earlier
/// calls. The failure is then wrong data, not a read of uninitialised memory.
#[test]
fn schedules_that_lack_one_thing_once_fall() {
    let call = |n| Expr::bin(BinOp::Ne, Expr::var("call"), Expr::Int(n));
    let (fell, escaped) = drop_each(Some(&call(2)));
    assert!(escaped.is_empty(), "{escaped:#?}\n{fell:#?}");
}
