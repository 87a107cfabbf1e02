//! `synchronize` that is deliberately wrong is rejected by the checker, with the code that says why, and fails under
//! the adversary; the right one is what `expand` asked for and no more.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod stack;

use kbc_backend_sim::adversary::{AdversaryOptions, adversarial};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_diag::Diagnostics;
use kbc_ir::checker::{CheckOptions, check};
use kbc_ir::expr::Expr;
use kbc_ir::schedule::*;
use kbc_ir::{Module, Props};
use kbc_passes::synchronize::Synchronize;
use kbc_passes::{Changed, Pass, PassCx, PassInfo};
use stack::{Layout, World};
use std::collections::BTreeSet;

/// Seeds within which the adversary must have broken every wrong schedule here.
const SEEDS: u64 = 100;

/// How a `synchronize` can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    /// Notifies without a release before them.
    NoRelease,
    /// Waits without an acquire after them.
    NoAcquire,
    /// Arrivals are waited for as of the call before.
    OldEpoch,
    /// One slot a message, and nobody asks whether it is free.
    NoCredit,
}

/// A pass that does what `synchronize` does, but for one thing.
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
            (Wrong::OldEpoch, SOp::Wait { signal, index, value }) if !credits.contains(signal) => {
                // The value as it was one call ago.
                let before = |n: &kbc_ir::Name| (*n == *CALL).then(|| Expr::var(CALL) - Expr::Int(1));
                Some(SOp::Wait { signal: *signal, index: index.clone(), value: value.subst(&before).simplify() })
            }
            (Wrong::NoCredit, SOp::Wait { signal, .. } | SOp::Notify { signal, .. }) if credits.contains(signal) => None,
            _ => Some(op.clone()),
        };
        fn edit(list: &[SStmt], keep: &dyn Fn(&SOp) -> Option<SOp>) -> Vec<SStmt> {
            let mut out = vec![];
            for s in list {
                match s {
                    SStmt::For { var, lo, hi, body } => out.push(SStmt::For {
                        var: var.clone(),
                        lo: lo.clone(),
                        hi: hi.clone(),
                        body: edit(body, keep),
                    }),
                    SStmt::If { cond, then, other } => out.push(SStmt::If {
                        cond: cond.clone(),
                        then: edit(then, keep),
                        other: edit(other, keep),
                    }),
                    SStmt::Op(op, span) => out.extend(keep(op).map(|op| SStmt::Op(op, *span))),
                }
            }
            out
        }
        for stream in s.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams) {
            stream.body = edit(&stream.body, &keep);
        }
        if self.0 == Wrong::NoCredit {
            s.signals.retain(|s| s.usage != SignalUse::Credit);
        }
        Ok(Changed::Yes)
    }
}

/// Offsets and nothing else: every window keeps one slot a message.
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

/// What each mistake is told as. A reuse without credit is only one where nothing else orders it: the gather half of
/// an all-reduce is a credit for the reduce-scatter half (LANGUAGE 7.2), so such algorithms stand.
const TABLE: &[(&str, u64, Wrong, &[&str])] = &[
    ("all_reduce ring", 4, Wrong::NoRelease, &["?"]),
];

#[test]
fn probe() {
    let world = World::reference();
    for (name, p) in [("all_reduce ring", 4), ("all_gather ring", 4), ("all_reduce one_phase", 4), ("all_reduce two_phase", 4), ("all_reduce halving_doubling", 5), ("broadcast binomial", 5), ("reduce binary_tree", 5), ("all_to_all pairwise", 4), ("all_reduce line", 4), ("gather binomial", 5), ("all_reduce bidirectional_ring", 4)] {
        for kind in [Wrong::NoRelease, Wrong::NoAcquire, Wrong::OldEpoch, Wrong::NoCredit] {
            let case = world.case(name, &[p], None);
            let case = stack::Case { root: world.rooted(case.alg).then_some(1), ..case };
            let l = Layout { unit: p, ..Layout::ints(2 * p) };
            let mut m = stack::expanded(world, &case, &l).unwrap();
            let allocate: &dyn Pass = if kind == Wrong::NoCredit { &OneSlot } else { &kbc_passes::allocate::Allocate };
            stack::pass(world, &mut m, allocate).unwrap();
            stack::pass(world, &mut m, &WrongSynchronize(kind)).unwrap_or_else(|d| panic!("{}", world.words(&d)));
            let s = m.schedule().unwrap();
            let v = check(s, &CheckOptions::default());
            let codes: BTreeSet<&str> = v.errors.list.iter().map(|d| &*d.code).collect();
            let good = stack::synchronized(world, &case, &l).unwrap();
            let feeds: Vec<_> = (0..4).map(|c| stack::feed(world, &case, &l, c)).collect();
            let golden = run(good.schedule().unwrap(), &feeds, &RunOptions { calls: 4, ..Default::default() }).unwrap();
            let adv = adversarial(s, &feeds, Some(&golden), &AdversaryOptions { calls: 4, runs: SEEDS, ..Default::default() });
            let adv = match adv { Ok(r) => r.failure.map(|f| (f.seed, f.diagnostic.code.to_string())), Err(d) => Some((0, d.list[0].code.to_string())) };
            println!("(\"{name}\", {p}, Wrong::{kind:?}, &{codes:?}) adv {adv:?}");
        }
    }
    let _ = TABLE;
}
