//! Tests of options of a use through the whole stack: they change signals, slots and streams, never
//! results.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_backend_sim::adversary::{AdversaryOptions, adversarial};
use kbc_backend_sim::interp::{RunOptions, run};
use kbc_checker::{CheckOptions, check};
use kbc_ir::Module;
use kbc_ir::schedule::Calls;
use kbc_ir::walk::{Act, Cursor, Program, Step};
use stack::{Case, Layout, World};
use std::collections::{BTreeMap, BTreeSet};

/// Checks a use by numbers, proof and adversary; the error describes what is wrong.
fn fault(world: &World, case: &Case, n: u64) -> Result<Module, String> {
    let l = &Layout { unit: case.ranks(), ..Layout::ints(n) };
    let m = stack::synchronized(world, case, l).map_err(|d| world.words(&d))?;
    let s = m.schedule().unwrap();
    let feeds: Vec<_> = (0..3).map(|call| stack::feed(world, case, l, call)).collect();
    let mut undisturbed = None;
    for seed in [None, Some(n + 1)] {
        let options = RunOptions { calls: 3, seed, ..RunOptions::default() };
        let result = run(s, &feeds, &options).map_err(|d| world.words(&d))?;
        if let Some(e) = stack::wrong(world, case, l, &feeds, &result, stack::region(&m)) {
            return Err(e);
        }
        undisturbed.get_or_insert(result);
    }
    let v = check(s, &CheckOptions { calls: Some(Calls::Any), ..CheckOptions::default() });
    if !v.ok() {
        return Err(world.words(&v.errors));
    }
    let attack = AdversaryOptions { calls: 3, seed: n, runs: 3, ..AdversaryOptions::default() };
    if let Some(f) =
        adversarial(s, &feeds, undisturbed.as_ref(), &attack).map_err(|d| world.words(&d))?.failure
    {
        return Err(world.words(&f.diagnostic.into()));
    }
    Ok(m)
}

/// Runs algorithms of every kind with these options on small shapes. Some must be rejected with
/// E033, all others must be right.
fn sweep(options: &[&str], refused: &dyn Fn(&str, &str) -> bool) {
    let world = World::shipped();
    let mut wrong = vec![];
    let mut right = 0;
    for option in options {
        for (name, shapes) in SAMPLE {
            for sizes in *shapes {
                let (head, rest) = name.split_once('(').unwrap_or((name, ")"));
                let args = [rest.trim_end_matches(')'), option].join(", ");
                let case = world.case(&format!("{head}({})", args.trim_start_matches(", ")), sizes, None);
                let case = Case { root: world.rooted(case.alg).then_some(1), ..case };
                for n in [2 * case.ranks() * 4, 3 * case.ranks()] {
                    match (fault(world, &case, n), refused(name, option)) {
                        (Ok(_), false) => right += 1,
                        (Err(e), true) if e.starts_with("E033") => {}
                        (Ok(_), true) => wrong.push(format!("{}: not refused", world.show(&case))),
                        (Err(e), _) => wrong.push(format!("{} with {n}: {e}", world.show(&case))),
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong, {right} right\n{}",
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
    assert!(right > 20, "{right}");
}

type Sample = (&'static str, &'static [&'static [u64]]);

const SAMPLE: &[Sample] = &[
    ("all_reduce ring", &[&[2], &[4], &[5]]),
    ("all_gather ring", &[&[3], &[4]]),
    ("reduce_scatter ring", &[&[3], &[4]]),
    ("all_reduce bidirectional_ring", &[&[2], &[4]]),
    ("all_gather bidirectional_ring", &[&[5]]),
    ("all_reduce two_phase", &[&[4]]),
    ("all_reduce one_phase", &[&[3]]),
    ("all_reduce recursive_doubling", &[&[4], &[6]]),
    ("all_reduce halving_doubling", &[&[4], &[5]]),
    ("all_gather bruck", &[&[5]]),
    ("all_gather recursive_doubling", &[&[3], &[6], &[7]]),
    ("all_reduce swing", &[&[8]]),
    ("all_reduce up_down", &[&[5]]),
    ("all_to_all pairwise", &[&[4]]),
    ("all_to_all direct", &[&[3]]),
    ("broadcast chain", &[&[4], &[6]]),
    ("broadcast binomial", &[&[6]]),
    ("reduce binary_tree", &[&[6]]),
    ("gather binomial", &[&[5]]),
    ("scatter direct", &[&[4]]),
    ("all_reduce line", &[&[4]]),
    ("all_reduce torus2", &[&[2, 3]]),
];

#[test]
fn instances_and_pipelines() {
    sweep(
        &[
            "instances: 2",
            "pipeline: 2",
            "pipeline: 3",
            "instances: 2, pipeline: 2",
            "cores: 3",
            "cores: 2, pipeline: 2",
            "instances: 1, pipeline: 1",
        ],
        &|_, _| false,
    );
}

/// A pipeline of k on a chain has p - 2 + k rounds, and its text does not grow with the ranks.
/// Instances are streams.
#[test]
fn lanes_are_delayed_or_side_by_side() {
    let world = World::shipped();
    let made = |text: &str, p: u64| {
        let case = world.case(text, &[p], None);
        let case = Case { root: world.rooted(case.alg).then_some(0), ..case };
        stack::synchronized(world, &case, &Layout { unit: p, ..Layout::ints(24 * p) }).unwrap()
    };
    for (p, k) in [(4, 2), (4, 4), (6, 3)] {
        let m = made(&format!("broadcast chain(pipeline: {k})"), p);
        let c = stack::count::count(&m);
        assert_eq!((c.rounds, c.messages), (p - 2 + k, k * (p - 1)), "{p} ranks, {k} lanes");
        assert_eq!(stack::region(&m).roles.iter().map(|r| r.streams.len()).max(), Some(1));
    }
    let lines = |m: &Module| kbc_ir::text::print(m, &kbc_ir::text::PrintOptions::default()).lines().count();
    for option in ["pipeline: 4", "instances: 4", "cores: 4"] {
        let ring = format!("all_reduce ring({option})");
        assert_eq!(lines(&made(&ring, 4)), lines(&made(&ring, 16)), "{option}");
    }
    let m = made("all_reduce ring(instances: 4)", 4);
    assert_eq!(stack::region(&m).roles[0].streams.len(), 4);
    let m = made("all_reduce ring(cores: 4)", 4);
    let names: Vec<&str> = stack::region(&m).roles[0].streams.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["main", "core1", "core2", "core3"]);
    // The lanes of a vector begin at lines of 64 bytes.
    let line = &stack::region(&m).operands[0].line;
    assert_eq!((line.parts, &line.rule), (4, &kbc_ir::types::CutRule::Lines(16)));
}

/// Uses inside a `together`: pipelines share the loop of their rounds, and lanes of several parts
/// of every block are streams, as those of single parts are.
#[test]
fn uses_side_by_side() {
    let text = "algorithm delayed: all_gather over (r mod p) together {
            apply all_gather over r using ring        with (pipeline: 3) on [..][0 of 2]
            apply all_gather over r using ring(d: -1) with (pipeline: 3) on [..][1 of 2]
        }
        algorithm lines: all_gather over (x of w, y of h) together {
            apply all_gather over (x, y) using torus2(a: line, b: line) with (pipeline: 4) on [..][0 of 2]
            apply all_gather over (y, x) using torus2(a: line, b: line)
                with (pipeline: 4) on [b % w*h + b / w for b in 0..w*h][1 of 2]
        }
        algorithm shares: all_gather over (x of w, y of h) together {
            apply all_gather over (x, y) using torus2 on [..][0; 5 of 8]
            apply all_gather over (y, x) using torus2 on [b % w*h + b / w for b in 0..w*h][5; 3 of 8]
        }";
    let world = World::with("side_by_side.kb", text);
    for (name, shapes, streams) in [
        ("all_gather delayed", &[&[1][..], &[2], &[3], &[5]][..], 1),
        ("all_gather lines", &[&[1, 3], &[3, 1], &[2, 3], &[3, 3]], 1),
        ("all_gather shares", &[&[3, 5], &[4, 2]], 2),
    ] {
        for sizes in shapes {
            let case = world.case(name, sizes, None);
            for n in [0, case.ranks(), 53 * case.ranks()] {
                let m = fault(&world, &case, n).unwrap_or_else(|e| panic!("{}: {e}", world.show(&case)));
                let most = stack::region(&m).roles.iter().map(|r| r.streams.len()).max();
                assert_eq!(most, Some(streams), "{}", world.show(&case));
            }
        }
    }
}

/// Checks whether the ranks of an algorithm always send to the same neighbours, in one piece.
fn rotates(name: &str) -> bool {
    name.contains("ring") || name == "all_reduce torus2"
}

#[test]
fn slots_in_rotation() {
    sweep(&["slots: 1", "slots: 2", "slots: 3", "slots: 8", "slots: 2, instances: 2"], &|name, _| {
        !rotates(name)
    });
}

/// Below p slots, a rotation needs a credit for every message; from p slots on, none.
#[test]
fn a_rotation_of_p_slots_needs_no_credits() {
    let world = World::shipped();
    for (name, p, k, credits) in [
        ("all_reduce ring", 5, 4, true),
        ("all_reduce ring", 5, 5, false),
        ("all_reduce ring", 5, 7, false),
        ("all_gather ring", 5, 4, true),
        ("all_gather ring", 5, 5, false),
        ("reduce_scatter ring", 4, 3, true),
        ("reduce_scatter ring", 4, 4, false),
        ("all_reduce bidirectional_ring", 5, 1, true),
        ("all_reduce bidirectional_ring", 5, 2, false),
        ("all_gather bidirectional_ring", 5, 2, false),
    ] {
        let case = world.case(&format!("{name}(slots: {k})"), &[p], None);
        let m = stack::synchronized(world, &case, &Layout { unit: p, ..Layout::ints(6 * p) }).unwrap();
        let c = stack::count::count(&m);
        let windows = &m.schedule().unwrap().windows;
        assert!(windows.iter().all(|w| w.slots == k), "{}", world.show(&case));
        assert_eq!(windows.len(), 1 + usize::from(name.contains("bidirectional")), "{}", world.show(&case));
        assert_eq!(c.credits, if credits { c.messages } else { 0 }, "{}", world.show(&case));
    }
}

/// Returns the messages that each stream of rank 0 sends in a call in which no arrival of the first
/// window comes.
fn sent_without_arrivals(m: &Module) -> Vec<u64> {
    let s = m.schedule().unwrap();
    let program = Program::compile(s).unwrap();
    let width = program.streams.len() as u32;
    let held = |counter: u32| {
        let (signal, _) = program.counter_name(counter);
        s.signal(signal).name.to_string().ends_with("_w0_arrived")
    };
    let mut threads: Vec<_> = (0..program.ranks())
        .flat_map(|r| (0..width).map(move |t| (r, t)))
        .map(|(r, t)| (r, t, Cursor::new(&program, r, t, 0), None::<Act<'_>>))
        .collect();
    let (mut counts, mut events) = (BTreeMap::<(u64, u32), i64>::new(), BTreeSet::new());
    let mut sent = vec![0; width as usize];
    loop {
        let mut moved = false;
        for (rank, stream, cursor, kept) in &mut threads {
            loop {
                let act = match kept.take() {
                    Some(act) => act,
                    None => match cursor.next_step().unwrap() {
                        Some(Step::Act(act, ..)) => act,
                        Some(_) => continue,
                        None => break,
                    },
                };
                let stuck = match &act {
                    Act::Wait { counter, value } => {
                        counts.get(&(*rank, *counter)).copied().unwrap_or(0) < *value
                    }
                    Act::Await(e) => !events.contains(&(*rank, *e)),
                    _ => false,
                };
                if stuck {
                    *kept = Some(act);
                    break;
                }
                moved = true;
                match act {
                    Act::Notify { peer, counter } if !held(counter) => {
                        *counts.entry((peer, counter)).or_default() += 1
                    }
                    Act::Record(e) => _ = events.insert((*rank, e)),
                    Act::Put { .. } if *rank == 0 => sent[*stream as usize] += 1,
                    _ => {}
                }
            }
        }
        if !moved {
            return sent;
        }
    }
}

/// A message leaves when its data is present. If the arrivals of one lane are held back from the
/// first round on, the other lane still sends all its rounds. In lockstep, on one stream, nothing
/// of the second round leaves.
#[test]
fn a_lane_does_not_wait_for_the_rounds_of_another() {
    let world = World::shipped();
    let made = |text: &str| {
        let case = world.case(text, &[4], None);
        stack::synchronized(world, &case, &Layout { unit: 4, ..Layout::ints(32) }).unwrap()
    };
    let mut lanes = sent_without_arrivals(&made("all_reduce ring(instances: 2)"));
    lanes.sort_unstable();
    assert_eq!(lanes.into_iter().filter(|n| *n > 0).collect::<Vec<_>>(), [1, 6]);
    let both = sent_without_arrivals(&made("all_reduce bidirectional_ring"));
    assert_eq!(both.iter().sum::<u64>(), 2);
}

/// Cores of a rank begin with different peers, in pushes and, if nothing is added, in pulls.
/// Additions keep their order.
#[test]
fn cores_take_turns() {
    let world = World::shipped();
    for (name, transfer) in
        [("all_reduce two_phase", "push"), ("all_gather direct", "push"), ("all_gather direct", "pull")]
    {
        let case = world.case(&format!("{name}(cores: 5, transfer: {transfer})"), &[4], None);
        let m = stack::synchronized(world, &case, &Layout { unit: 4, ..Layout::ints(320) }).unwrap();
        let s = m.schedule().unwrap();
        let program = Program::compile(s).unwrap();
        let mut first = vec![];
        for stream in 0..program.streams.len() as u32 {
            let mut cursor = Cursor::new(&program, 1, stream, 0);
            let mut peers = vec![];
            while let Some(step) = cursor.next_step().unwrap() {
                if let Step::Act(Act::Put { peer, .. } | Act::Get { peer, .. }, ..) = step {
                    peers.push(peer);
                }
            }
            let mut once = peers[..3].to_vec();
            once.sort_unstable();
            assert_eq!(once, [0, 2, 3], "{name} {transfer}: everybody once");
            first.push(peers[0]);
        }
        first.sort_unstable();
        // Five cores, three peers.
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3, "{name} {transfer}: {first:?}");
        assert!(first.iter().all(|p| first.iter().filter(|q| *q == p).count() <= 2), "{first:?}");
    }
}
