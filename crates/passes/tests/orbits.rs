//! Tests of symmetry on the library's algorithms that are symmetric by shifts of a stride, by
//! several digits of one coordinate, by pieces of a line or in their scratch (ADR 20; SYNC-4,
//! ALG-7). They check the number of orbits on few and on many ranks, and that walking one rank of
//! each orbit finds the same errors as walking every rank, also on mutants that break the symmetry
//! on one rank.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_checker::mutate::{apply, apply_on, mutations};
use kbc_checker::{CheckOptions, Method, Strategy, Verdict, check};
use kbc_ir::schedule::Schedule;
use stack::{Layout, World};
use std::collections::BTreeSet;

/// Algorithm, small shape, large shape, orbits.
type Case = (&'static str, &'static [u64], &'static [u64], [u64; 2]);

/// Algorithm, a small shape and a large one, and the orbits of each.
const CASES: [Case; 13] = [
    ("all_reduce ring", &[5], &[1024], [1, 1]),
    ("all_reduce swing", &[8], &[1024], [2, 2]),
    ("reduce_scatter swing", &[8], &[512], [2, 2]),
    ("all_gather swing", &[16], &[512], [2, 2]),
    ("all_reduce swing_latency", &[8], &[1024], [2, 2]),
    ("all_reduce hierarchical_flat(g: 2)", &[6], &[96], [1, 1]),
    ("all_reduce hierarchical_flat(g: 3, inside: ring, across: nhr)", &[9], &[96], [1, 1]),
    ("all_reduce hierarchical_flat", &[8], &[1024], [1, 1]),
    ("all_reduce blueconnect", &[8], &[512], [1, 1]),
    ("all_reduce torus2_all_links", &[3, 2], &[16, 16], [1, 1]),
    // Slots are numbered by column, so only shifts of rows are symmetries.
    ("all_to_all torus2", &[2, 3], &[16, 16], [2, 16]),
    ("all_reduce torus3", &[2, 2, 2], &[4, 4, 8], [1, 1]),
    ("reduce_scatter halving_recursive", &[8], &[512], [1, 1]),
];

/// Number of mutants of each case.
const MUTANTS: usize = 120;

fn schedule(name: &str, sizes: &[u64]) -> Schedule {
    let world = World::shipped();
    let case = world.case(name, sizes, None);
    let p = case.ranks();
    let m = stack::synchronized(world, &case, &Layout { unit: p, ..Layout::ints(12 * p) });
    m.unwrap_or_else(|d| panic!("{name}: {}", world.words(&d))).schedule().unwrap().clone()
}

fn by(s: &Schedule, strategy: Strategy) -> Verdict {
    check(s, &CheckOptions { strategy, ..CheckOptions::default() })
}

fn orbits(v: &Verdict) -> Option<u64> {
    match v.meaning {
        Method::Symmetric { orbits } => Some(orbits),
        _ => None,
    }
}

/// Maps the codes of a verdict to kinds of errors: which of two unordered accesses comes first
/// depends on the order of the walk.
fn kinds(v: &Verdict) -> BTreeSet<&'static str> {
    let kind = |c| match c {
        "E341" | "E342" | "E343" | "E344" => "contents",
        "E347" | "E348" | "E349" => "not ordered",
        c => c,
    };
    v.errors.list.iter().map(|d| kind(d.code)).collect()
}

#[test]
fn there_are_few_orbits() {
    for (name, small, large, want) in CASES {
        for (sizes, want) in [small, large].into_iter().zip(want) {
            let v = by(&schedule(name, sizes), Strategy::Symmetric);
            let why = v.asymmetric.as_deref().unwrap_or("");
            assert!(v.ok() && orbits(&v) == Some(want), "{name} on {sizes:?}: {:?} {why}", v.meaning);
        }
    }
}

/// Chains of notifies show the order of these algorithms on many ranks, without vector clocks.
#[test]
fn chains_suffice_on_many_ranks() {
    let mut by_clocks = vec![];
    for (name, _, sizes, _) in CASES {
        let v = check(
            &schedule(name, sizes),
            &CheckOptions { strategy: Strategy::Symmetric, chains_from: 0, ..CheckOptions::default() },
        );
        assert!(v.ok(), "{name}: {}", v.text);
        if !v.by_chains {
            by_clocks.push(name);
        }
    }
    // The chains of this one branch too often for the limit of the search.
    assert_eq!(by_clocks, ["all_reduce hierarchical_flat(g: 3, inside: ring, across: nhr)"]);
}

/// An algorithm without such a group is walked on every rank, and the verdict states the reason.
#[test]
fn what_does_not_move_is_walked() {
    for (name, sizes, root, reason) in [
        ("all_reduce double_tree", &[96][..], None, "a guard in region"),
        ("all_reduce mesh2", &[10, 8], None, "a guard in region"),
        ("all_reduce snake", &[10, 8], None, "@view"),
        ("reduce binomial", &[96], Some(0), "the contract of region"),
        // Directions share the list of blocks, not each block; or a chunk, not what the next axis
        // makes of it.
        ("reduce_scatter torus2_all_links", &[10, 8], None, "shift in different ways"),
        ("all_reduce torus3_all_links", &[5, 4, 4], None, "shift in different ways"),
    ] {
        let world = World::shipped();
        let case = world.case(name, sizes, root);
        let m = stack::synchronized(world, &case, &Layout::ints(case.ranks())).unwrap();
        let v = by(m.schedule().unwrap(), Strategy::Auto);
        assert!(v.ok() && v.meaning == Method::Fingerprints, "{name}: {:?}", v.meaning);
        let why = v.asymmetric.unwrap_or_default();
        assert!(why.contains(reason), "{name}: {why}");
    }
}

#[test]
fn ways_agree_on_mutants() {
    let (mut together, mut all, mut differ) = (0, 0, vec![]);
    for (name, sizes, ..) in CASES {
        let s = schedule(name, sizes);
        let list = mutations(&s);
        for (i, m) in list.iter().enumerate().step_by(list.len().div_ceil(MUTANTS)) {
            // Every third mutation is on one rank only.
            let mutant = if i % 3 == 2 { apply_on(&s, m, 1) } else { apply(&s, m) };
            let one = by(&mutant, Strategy::Symmetric);
            all += 1;
            if one.asymmetric.is_some() {
                continue;
            }
            together += 1;
            let exact = by(&mutant, Strategy::Expanded);
            if kinds(&exact) != kinds(&one) {
                let what = if i % 3 == 2 { " on rank 1" } else { "" };
                differ.push(format!(
                    "{name}: {}{what}: {:?}, one rank {:?}",
                    m.text,
                    kinds(&exact),
                    kinds(&one)
                ));
            }
        }
    }
    assert!(differ.is_empty(), "{} of {together}:\n{}", differ.len(), differ.join("\n"));
    assert!(all > 1000 && together * 5 > all * 2, "{together} of {all}");
}
