//! Tests of `transfer: pull`, `rendezvous` and `switch` through the whole stack. Every algorithm
//! of the library is proven, gives the interpreter's bits as machine code, fulfils its contract on
//! every rank, and passes under the adversaries; and none of its synchronisation can be left out.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::cases::all_cases;
use crate::stack;

use kbc_backend_sim::adversary::{AdversaryOptions, adversarial};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_backend_sim::jit;
use kbc_checker::mutate::{Operator, Target, apply, mutations};
use kbc_checker::{CheckOptions, check};
use kbc_ir::schedule::{Calls, Ref, SOp, SStmt, Schedule};
use kbc_ir::types::CutRule;
use kbc_judge::{Behaviour, ClassifyOptions, calls, classify};
use kbc_passes::expand::Arg;
use stack::{Case, Layout, World};
use std::collections::{BTreeMap, BTreeSet};

/// Returns how many operations of a kind the text of a schedule has.
fn count(s: &Schedule, of: &dyn Fn(&SOp) -> bool) -> usize {
    fn list(l: &[SStmt], of: &dyn Fn(&SOp) -> bool) -> usize {
        l.iter()
            .map(|s| match s {
                SStmt::For { body, .. } => list(body, of),
                SStmt::If { then, other, .. } => list(then, of) + list(other, of),
                SStmt::Op(op, _) => usize::from(of(op)),
            })
            .sum()
    }
    let streams = s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams);
    streams.map(|s| list(&s.body, of)).sum()
}

/// Runs all checks of one case; returns false if its sizes may be rejected and are.
fn one(world: &World, case: &Case, l: &Layout) -> Result<bool, String> {
    let m = match stack::synchronized(world, case, l) {
        Ok(m) => m,
        Err(d) if d.list.iter().all(|d| d.code == "E332") && !l.n.is_multiple_of(case.ranks()) => {
            return Ok(false);
        }
        Err(d) => return Err(world.words(&d)),
    };
    let s = m.schedule().unwrap();
    let puts = count(s, &|op| matches!(op, SOp::Put { .. }));
    let gets = count(s, &|op| matches!(op, SOp::Get { .. }));
    let sums = count(s, &|op| matches!(op, SOp::GetCombine { .. }));
    let notifies = count(s, &|op| matches!(op, SOp::Notify { .. }));
    let switch = case.options.iter().any(|o| matches!(&o.1, Arg::Word(w) if *w == *"switch"));
    if puts > 0 && !switch || (sums > 0) != switch || (gets == 0) != (notifies == 0) {
        return Err(format!("{puts} puts, {gets} gets, {sums} that combine, {notifies} notifies"));
    }
    let feeds: Vec<_> = (0..3).map(|call| stack::feed(world, case, l, call)).collect();
    let code = jit::compile(s).map_err(|d| world.words(&d))?;
    let mut undisturbed = None;
    for seed in [None, Some(l.n + 1)] {
        let options = RunOptions { calls: 3, seed, ..RunOptions::default() };
        let result = run(s, &feeds, &options).map_err(|d| world.words(&d))?;
        if let Some(e) = stack::wrong(world, case, l, &feeds, &result, stack::region(&m)) {
            return Err(e);
        }
        let compiled = code.run(&feeds, &options).map_err(|d| world.words(&d))?;
        if compiled != result {
            return Err("machine code has other bits".into());
        }
        undisturbed.get_or_insert(result);
    }
    let v = check(s, &CheckOptions { calls: Some(Calls::Any), ..CheckOptions::default() });
    if !v.ok() {
        return Err(world.words(&v.errors));
    }
    let attack = AdversaryOptions { calls: 3, seed: l.n, runs: 3, ..AdversaryOptions::default() };
    match adversarial(s, &feeds, undisturbed.as_ref(), &attack).map_err(|d| world.words(&d))?.failure {
        Some(f) => Err(world.words(&f.diagnostic.into())),
        None => Ok(true),
    }
}

#[test]
fn the_library_is_fetched() {
    let world = World::shipped();
    let shapes = |axes: usize| -> Vec<Vec<u64>> {
        match axes {
            1 => (1..=6).chain([8, 9]).map(|p| vec![p]).collect(),
            2 => vec![vec![2, 2], vec![2, 3], vec![3, 2], vec![3, 3]],
            _ => vec![vec![2, 2, 2]],
        }
    };
    let (mut wrong, mut ran) = (vec![], BTreeSet::new());
    let all = all_cases();
    let roots = |p: u64| [0, p - 1].into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    for (i, case) in world.cases(&shapes, &roots).into_iter().enumerate() {
        let p = case.ranks();
        let with =
            |word: &str| Case { options: vec![("transfer".into(), Arg::Word(word.into()))], ..case.clone() };
        let sizes = [(3 * p, CutRule::Even), (2 * p + 1, CutRule::Even), (p + 2, CutRule::Ceil)];
        let cases = ["pull", "rendezvous"].map(with);
        for (k, (case, (n, rule))) in cases.iter().flat_map(|c| sizes.clone().map(|s| (c, s))).enumerate() {
            // All sizes, or the first one and a third of those with blocks of unequal length; and
            // one of three cases of a rendezvous.
            if !all && k > 0 && (i + k) % 3 > 0 {
                continue;
            }
            let unit = if n % p == 0 { p } else { 1 };
            match one(world, case, &Layout { unit, rule: rule.clone(), ..Layout::ints(n) }) {
                Ok(true) => _ = ran.insert(case.alg),
                Ok(false) => {}
                Err(e) => wrong.push(format!("{} with {n} elements: {e}", world.show(case))),
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
    let missing: Vec<String> =
        world.lib.algorithms().filter(|a| !ran.contains(a)).map(|a| world.name(a)).collect();
    assert!(missing.is_empty(), "never ran: {missing:?}");
}

/// With `transfer: switch`, every algorithm of the library is proven and right, or rejected
/// because switches have nothing to add.
#[test]
fn switches_add_what_ranks_fetch() {
    let world = World::shipped();
    let shapes = |axes: usize| -> Vec<Vec<u64>> {
        match axes {
            1 => [2, 3, 4, 6].map(|p| vec![p]).to_vec(),
            2 => vec![vec![3, 3]],
            _ => vec![],
        }
    };
    let (mut wrong, mut ran) = (vec![], BTreeSet::new());
    for case in world.cases(&shapes, &|_| vec![0]) {
        let p = case.ranks();
        let case = Case { options: vec![("transfer".into(), Arg::Word("switch".into()))], ..case };
        for n in [3 * p, 2 * p + 1] {
            let l = Layout { unit: if n % p == 0 { p } else { 1 }, ..Layout::ints(n) };
            match stack::synchronized(world, &case, &l) {
                Err(d) if d.list.iter().all(|d| d.code == "E033") => {}
                _ => match one(world, &case, &l) {
                    Ok(true) => _ = ran.insert(world.name(case.alg)),
                    Ok(false) => {}
                    Err(e) => wrong.push(format!("{} with {n} elements: {e}", world.show(&case))),
                },
            }
        }
    }
    for (name, p, options) in [
        ("all_reduce two_phase", 4, &["pipeline: 3", "instances: 2", "pipeline: 2, instances: 3"][..]),
        ("all_reduce one_phase", 5, &["pipeline: 2", "instances: 2"]),
        ("reduce_scatter direct", 3, &["pipeline: 4", "instances: 4"]),
        ("reduce direct", 4, &["pipeline: 2", "instances: 2"]),
    ] {
        for option in options {
            let case = world.case(&format!("{name}(transfer: switch, {option})"), &[p], None);
            let case = Case { root: world.rooted(case.alg).then_some(1), ..case };
            match one(world, &case, &Layout { unit: p, ..Layout::ints(12 * p) }) {
                Ok(true) => {}
                Ok(false) => wrong.push(format!("{}: refused", world.show(&case))),
                Err(e) => wrong.push(format!("{}: {e}", world.show(&case))),
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
    insta::assert_snapshot!(ran.into_iter().collect::<Vec<_>>().join("\n"), @r"
    all_reduce hierarchical
    all_reduce hierarchical_flat
    all_reduce one_phase
    all_reduce swing_latency
    all_reduce two_phase
    reduce direct
    reduce_scatter direct
    ");
}

/// With lanes, cores, pipelines and rotating slots.
#[test]
fn beside_other_options() {
    let world = World::shipped();
    let mut wrong = vec![];
    for (name, p, options) in [
        ("all_reduce ring", 4, &["instances: 2", "pipeline: 2", "cores: 3", "slots: 1", "slots: 3"][..]),
        ("all_reduce two_phase", 4, &["instances: 2", "pipeline: 3", "cores: 2, pipeline: 2"]),
        ("all_gather direct", 5, &["instances: 2", "pipeline: 2", "cores: 3"]),
        ("all_to_all direct", 3, &["cores: 2", "pipeline: 2"]),
        ("broadcast chain", 4, &["pipeline: 4", "instances: 2"]),
        ("all_reduce halving_doubling", 5, &["cores: 2", "instances: 2"]),
        ("reduce binary_tree", 6, &["pipeline: 2", "cores: 2"]),
    ] {
        for option in options {
            // A rendezvous has one slot for each message.
            let words: &[&str] =
                if option.starts_with("slots") { &["pull"] } else { &["pull", "rendezvous"] };
            for (word, n) in words.iter().flat_map(|w| [(w, 8 * p), (w, 3 * p)]) {
                let case = world.case(&format!("{name}(transfer: {word}, {option})"), &[p], None);
                let case = Case { root: world.rooted(case.alg).then_some(1), ..case };
                match one(world, &case, &Layout { unit: p, ..Layout::ints(n) }) {
                    Ok(true) => {}
                    Ok(false) => wrong.push(format!("{}: refused", world.show(&case))),
                    Err(e) => wrong.push(format!("{} with {n}: {e}", world.show(&case))),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
}

/// All readers of a message read one slot, and a pull has no more signals than a push.
#[test]
fn slots_are_shared_and_signals_are_those_of_a_push() {
    let world = World::shipped();
    for (name, p, slots) in [
        // One slot of a rank's own block for all readers, alternating between calls.
        ("all_gather direct", 5, 2),
        ("all_reduce two_phase", 4, 4),
        ("all_reduce one_phase", 4, 2),
        ("all_to_all pairwise", 4, 8),
        ("all_reduce ring", 4, 6),
    ] {
        let made = |transfer: &str| {
            let case = world.case(&format!("{name}(transfer: {transfer})"), &[p], None);
            stack::synchronized(world, &case, &Layout { unit: p, ..Layout::ints(4 * p) }).unwrap()
        };
        let (pulled, pushed) = (made("pull"), made("push"));
        let all: u64 = pulled.schedule().unwrap().windows.iter().map(|w| w.slots).sum();
        assert_eq!(all, slots, "{name}");
        let signals = |m: &kbc_ir::Module| {
            let counts = stack::count::count(m);
            (counts.messages, counts.credits, counts.arrival_waits, counts.credit_waits)
        };
        assert_eq!(signals(&pulled), signals(&pushed), "{name}");
    }
}

/// With a rendezvous, every message has one slot, and no wait for an earlier call stands before a
/// rank's first copy: what orders that copy has happened in the calls before.
#[test]
fn a_rendezvous_is_over_when_a_call_ends() {
    let world = World::shipped();
    for (name, p, slots, credits) in [
        ("all_gather direct", 5, 1, 4),
        ("all_to_all direct", 4, 4, 3),
        ("reduce_scatter direct", 4, 3, 3),
        ("all_gather ring", 4, 3, 3),
        // The messages of the second phase imply that those of the first one are over.
        ("all_reduce two_phase", 4, 4, 0),
        ("broadcast direct", 4, 1, 3),
    ] {
        let case = world.case(&format!("{name}(transfer: rendezvous)"), &[p], None);
        let case = Case { root: world.rooted(case.alg).then_some(0), ..case };
        let m = stack::synchronized(world, &case, &Layout { unit: p, ..Layout::ints(4 * p) }).unwrap();
        let s = m.schedule().unwrap();
        assert_eq!(s.windows.iter().map(|w| w.slots).sum::<u64>(), slots, "{name}");
        let counts = stack::count::count(&m);
        assert_eq!(
            counts.credit_waits,
            if name.starts_with("broadcast") { credits } else { credits * p },
            "{name}"
        );
        let region = stack::region(&m);
        let first = region.roles[0].streams[0].body.iter().map(|s| {
            let list = std::slice::from_ref(s);
            let has = |of: &dyn Fn(&SOp) -> bool| {
                let mut found = false;
                kbc_ir::schedule::each_op(list, &mut |op, _| found |= of(op));
                found
            };
            (
                has(&|op| matches!(op, SOp::Wait { .. })),
                has(&|op| matches!(op, SOp::Copy { dst: Ref::Slot { .. }, .. })),
            )
        });
        let (wait, copy) = first.into_iter().find(|(wait, copy)| *wait || *copy).unwrap();
        assert!(copy && (!wait || name == "all_gather ring"), "{name}");
    }
    let case = world.case("all_reduce ring(transfer: rendezvous, slots: 2)", &[4], None);
    let refused = stack::synchronized(world, &case, &Layout::ints(8)).unwrap_err();
    assert_eq!(refused.list[0].code, "E033");
}

/// SYNC-3 for pulls: each notify, wait and fence is dropped alone. The checker rejects the result,
/// and under the weakest memory allowed it misbehaves.
#[test]
fn no_signal_and_no_fence_can_be_dropped() {
    let world = World::shipped();
    let mut wrong = vec![];
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for (name, p, transfer) in [
        ("all_reduce ring", 2, "pull"),
        ("all_reduce ring", 4, "pull"),
        ("all_reduce ring", 3, "pull, slots: 1"),
        ("reduce_scatter ring", 4, "pull"),
        ("all_gather ring", 3, "pull"),
        ("all_reduce bidirectional_ring", 4, "pull"),
        ("broadcast chain", 4, "pull"),
        ("reduce chain", 4, "pull"),
        ("all_gather direct", 3, "rendezvous"),
        ("reduce_scatter direct", 3, "rendezvous"),
        ("all_gather ring", 3, "rendezvous"),
        ("all_reduce two_phase", 3, "rendezvous"),
        ("broadcast chain", 4, "rendezvous"),
        ("reduce binary_tree", 4, "rendezvous"),
        ("reduce_scatter direct", 3, "switch"),
        ("all_reduce two_phase", 3, "switch"),
        ("all_reduce two_phase", 3, "switch, pipeline: 2"),
    ] {
        let case = world.case(&format!("{name}(transfer: {transfer})"), &[p], None);
        let case = Case { root: world.rooted(case.alg).then_some(0), ..case };
        let l = Layout { unit: p, ..Layout::ints(2 * p) };
        let m = stack::synchronized(world, &case, &l).unwrap();
        let s = m.schedule().unwrap();
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
    assert!(wrong.is_empty(), "{} of {seen:?}\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    let words: Vec<&str> = seen.keys().copied().collect();
    assert_eq!(words, ["fence.acquire", "fence.complete", "fence.release", "notify", "wait"]);
}
