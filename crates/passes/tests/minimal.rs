//! SYNC-3: nothing can be left out. In the ring family's schedules, with slots of every policy,
//! each notify, wait, release and acquire is dropped alone. The checker rejects the result, and
//! under the weakest memory allowed it misbehaves.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_backend_sim::interp::{RunOptions, run};
use kbc_checker::mutate::{Operator, Target, apply, mutations};
use kbc_checker::{CheckOptions, check};
use kbc_ir::schedule::SignalUse;
use kbc_judge::{Behaviour, ClassifyOptions, calls, classify};
use stack::{Layout, World};
use std::collections::BTreeMap;

#[test]
fn no_signal_and_no_fence_of_the_ring_family_can_be_dropped() {
    let world = World::shipped();
    let mut wrong = vec![];
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut credits = 0;
    for coll in ["all_reduce", "reduce_scatter", "all_gather"] {
        for ring in ["ring", "bidirectional_ring"] {
            for (p, option) in [
                (2, ""),
                (3, ""),
                (4, ""),
                (5, ""),
                (3, "slots: 1"),
                (4, "slots: 2"),
                (3, "slots: 3"),
                (4, "slots: 5"),
            ] {
                let case = world.case(&format!("{coll} {ring}({option})"), &[p], None);
                let l = Layout { unit: p, ..Layout::ints(2 * p) };
                let m = stack::synchronized(world, &case, &l).unwrap();
                let s = m.schedule().unwrap();
                credits += s.signals.iter().filter(|s| s.usage == SignalUse::Credit).count();
                let calls = calls(s);
                let feeds: Vec<_> = (0..calls).map(|c| stack::feed(world, &case, &l, c)).collect();
                let expected = run(s, &feeds, &RunOptions { calls, ..RunOptions::default() }).unwrap();
                let options = ClassifyOptions { calls, ..ClassifyOptions::default() };
                for mutant in mutations(s) {
                    let (operator, target) = mutant.class();
                    let between = matches!(target, Target::Notify | Target::Wait | Target::Fence);
                    if operator != Operator::Drop || !between {
                        continue;
                    }
                    let bad = apply(s, &mutant);
                    *seen.entry(mutant.word).or_default() += 1;
                    if check(&bad, &CheckOptions::default()).ok() {
                        wrong.push(format!("{}: accepted: {}", world.show(&case), mutant.text));
                    }
                    match classify(&bad, &feeds, &expected, &options).unwrap() {
                        Behaviour::Misbehaves(_) => {}
                        other => wrong.push(format!("{}: {other:?}: {}", world.show(&case), mutant.text)),
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {seen:?}\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert_eq!(
        seen.keys().copied().collect::<Vec<_>>(),
        ["fence.acquire", "fence.release", "notify", "wait"]
    );
    assert!(seen.values().all(|n| *n >= 60) && credits >= 10, "{seen:?}, {credits} arrays of credits");
}
