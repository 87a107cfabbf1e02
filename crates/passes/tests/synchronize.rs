//! Tests of `synchronize`: deliberately wrong versions are rejected by the checker, with the code
//! of the mistake, and fail under the adversary; the correct one adds exactly what `expand` asked
//! for.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_backend_sim::adversary::{AdversaryOptions, adversarial};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_checker::{CheckOptions, check};
use kbc_diag::Diagnostics;
use kbc_ir::expr::Expr;
use kbc_ir::rewrite::replace_ops;
use kbc_ir::schedule::*;
use kbc_ir::{Module, Props};
use kbc_passes::allocate::Allocate;
use kbc_passes::synchronize::Synchronize;
use kbc_passes::{Changed, Pass, PassCx, PassInfo};
use stack::{Case, Layout, World};
use std::collections::BTreeSet;

/// Seeds within which the adversary must break every wrong schedule here.
const SEEDS: u64 = 100;

/// How a `synchronize` can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    /// Notifies without a release before them.
    NoRelease,
    /// Waits without an acquire after them.
    NoAcquire,
    /// Waits for the arrivals of the previous call.
    OldEpoch,
    /// One slot per message, without waiting until it is free.
    NoCredit,
}

/// A pass that does what `synchronize` does, with one mistake.
struct WrongSynchronize(Wrong);

static INFO: PassInfo = PassInfo {
    name: "wrong-synchronize",
    summary: "`synchronize` with a mistake",
    requires: Props::EXPANDED.with(Props::ALLOCATED),
    gives: Props::SYNCHRONIZED,
    breaks: Props::NONE,
    options: &[],
};

impl Pass for WrongSynchronize {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        Synchronize.run(module, cx)?;
        let kbc_ir::Body::Schedule(s) = &mut module.body else { panic!("a schedule") };
        let credits: BTreeSet<SignalId> = (0..s.signals.len() as u32)
            .map(SignalId)
            .filter(|i| s.signal(*i).usage == SignalUse::Credit)
            .collect();
        let keep = |op: &SOp| match (self.0, op) {
            (Wrong::NoRelease, SOp::FenceRelease) | (Wrong::NoAcquire, SOp::FenceAcquire) => None,
            (Wrong::OldEpoch, SOp::Wait { counter: Counter { signal, index }, value })
                if !credits.contains(signal) =>
            {
                // The value of the previous call.
                let before = |n: &kbc_ir::Name| (*n == *CALL).then(|| Expr::var(CALL) - Expr::Int(1));
                Some(SOp::Wait {
                    counter: Counter { signal: *signal, index: index.clone() },
                    value: value.subst(&before).simplify(),
                })
            }
            (
                Wrong::NoCredit,
                SOp::Wait { counter: Counter { signal, .. }, .. }
                | SOp::Notify { counter: Counter { signal, .. }, .. },
            ) if credits.contains(signal) => None,
            _ => Some(op.clone()),
        };
        for stream in s.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams) {
            replace_ops(&mut stream.body, &mut |op, out| out.extend(keep(&op)));
        }
        Ok(Changed::Yes)
    }
}

/// Assigns offsets only: every window keeps one slot per message.
struct OneSlot;

impl Pass for OneSlot {
    fn info(&self) -> &'static PassInfo {
        &kbc_passes::allocate::INFO
    }

    fn run(&self, module: &mut Module, _cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        let kbc_ir::Body::Schedule(s) = &mut module.body else { panic!("a schedule") };
        let mut at = 0;
        for w in &mut s.windows {
            w.offset = Some(at);
            at = (at + w.slots * w.capacity * w.dtype.bytes()).next_multiple_of(64);
        }
        Ok(Changed::Yes)
    }
}

/// Algorithms whose halves are each other's credit: one slot per message is enough without other
/// credits.
const STAND: [&str; 4] = [
    "all_reduce ring",
    "all_reduce two_phase",
    "all_reduce halving_doubling",
    "all_reduce bidirectional_ring",
];

/// Checks whether one slot per message needs no credit. If no rank sends to the rank from which it
/// receives in the same round, the message that comes from there one call later is the credit:
/// lines and pairwise exchanges of an odd number of ranks.
fn stands(name: &str, p: u64) -> bool {
    let crossing = p.is_multiple_of(2);
    STAND.contains(&name) || !crossing && ["all_reduce line", "all_to_all pairwise"].contains(&name)
}

const OTHERS: [&str; 9] = [
    "all_gather ring",
    "reduce_scatter direct",
    "all_reduce one_phase",
    "all_reduce line",
    "all_to_all pairwise",
    "broadcast binomial",
    "reduce binary_tree",
    "gather binomial",
    "scatter direct",
];

/// The checker rejects every mistake in every algorithm with the code of what is missing (and any
/// codes that follow from it), and each breaks within [`SEEDS`] seeds of the adversary.
#[test]
fn wrong_synchronisation_is_rejected() {
    let world = World::shipped();
    let mut told = String::new();
    for name in STAND.into_iter().chain(OTHERS) {
        for p in [4, 5] {
            let case = world.case(name, &[p], None);
            let case = Case { root: world.rooted(case.alg).then_some(1), ..case };
            let l = Layout { unit: p, ..Layout::ints(2 * p) };
            let good = stack::synchronized(world, &case, &l).unwrap();
            let feeds: Vec<_> = (0..4).map(|c| stack::feed(world, &case, &l, c)).collect();
            let options = RunOptions { calls: 4, ..RunOptions::default() };
            let golden = run(good.schedule().unwrap(), &feeds, &options).unwrap();
            for (kind, code) in [
                (Wrong::NoRelease, "E345"),
                (Wrong::NoAcquire, "E346"),
                (Wrong::OldEpoch, "E347"),
                (Wrong::NoCredit, "E349"),
            ] {
                let mut m = stack::expanded(world, &case, &l).unwrap();
                let allocate: &dyn Pass = if kind == Wrong::NoCredit { &OneSlot } else { &Allocate };
                stack::pass(world, &mut m, allocate).unwrap();
                stack::pass(world, &mut m, &WrongSynchronize(kind))
                    .unwrap_or_else(|d| panic!("{}", world.words(&d)));
                let s = m.schedule().unwrap();
                let v = check(s, &CheckOptions::default());
                let codes: BTreeSet<&str> = v.errors.list.iter().map(|d| d.code).collect();
                let attack = AdversaryOptions { calls: 4, runs: SEEDS, ..AdversaryOptions::default() };
                // A schedule may be so wrong that even an undisturbed run fails.
                let broken = match adversarial(s, &feeds, Some(&golden), &attack) {
                    Ok(r) => r.failure.map(|f| f.diagnostic.code),
                    Err(d) => Some(d.list[0].code),
                };
                if kind == Wrong::NoCredit && stands(name, p) {
                    assert!(v.ok() && broken.is_none(), "{name} on {p}: {codes:?} {broken:?}");
                    continue;
                }
                assert!(codes.contains(code), "{name} on {p} {kind:?}: {codes:?}, not {code}");
                assert!(broken.is_some(), "{name} on {p} {kind:?} survives {SEEDS} seeds");
                if p == 4 {
                    told +=
                        &format!("{name}, {kind:?}: {}\n", codes.into_iter().collect::<Vec<_>>().join(" "));
                }
            }
        }
    }
    insta::assert_snapshot!(told);
}

/// Without the mistake, nothing is rejected, so the mistake is what is rejected.
#[test]
fn what_is_rejected_is_the_mistake() {
    let world = World::shipped();
    for name in STAND.into_iter().chain(OTHERS) {
        let case = world.case(name, &[4], None);
        let case = Case { root: world.rooted(case.alg).then_some(1), ..case };
        for allocate in [&OneSlot as &dyn Pass, &Allocate] {
            let mut m = stack::expanded(world, &case, &Layout { unit: 4, ..Layout::ints(8) }).unwrap();
            stack::pass(world, &mut m, allocate).unwrap();
            stack::pass(world, &mut m, &Synchronize).unwrap();
            let v = check(m.schedule().unwrap(), &CheckOptions::default());
            assert!(v.ok(), "{name}: {}", world.words(&v.errors));
            assert_eq!(m.schedule().unwrap().calls, Calls::Any);
        }
    }
}

/// The pass leaves no mark, inserts no barrier, and places its counters one cache line apart.
#[test]
fn signals_have_places_and_marks_are_gone() {
    let world = World::shipped();
    let shapes = |axes| match axes {
        1 => vec![vec![1], vec![5]],
        2 => vec![vec![2, 3]],
        _ => vec![vec![2, 1, 2]],
    };
    for case in world.cases(&shapes, &|p| vec![p - 1]) {
        let p = case.ranks();
        let m = stack::synchronized(world, &case, &Layout { unit: p, ..Layout::ints(p) }).unwrap();
        let s = m.schedule().unwrap();
        let mut end = 0;
        for signal in &s.signals {
            assert_eq!(signal.offset, Some(end), "{}", world.show(&case));
            assert_ne!(signal.usage, SignalUse::Barrier);
            end += 64 * signal.count;
        }
        let printed = kbc_ir::text::print(&m, &kbc_ir::text::PrintOptions::default());
        for mark in Point::ALL {
            let word = format!("  {} (", mark.name());
            assert!(!printed.contains(&word), "{}", world.show(&case));
        }
    }
}
