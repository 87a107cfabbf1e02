//! Test of the check of rounds against an independent oracle, which uses numbers instead of
//! multisets.
//!
//! Rounds of right algorithms are damaged (drop, duplicate, retarget, shift, flip reduce, swap
//! rounds). The oracle runs them on random 64-bit words with wrapping sums, and has a hand-written
//! definition of each collective. The check must accept what the oracle finds right and reject what
//! it finds wrong. The two share no code but the data of the rounds. The statement and ranks that a
//! message names are compared with the damage.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use common::World;
use kbc_rounds::meaning::check;
use kbc_rounds::rounds::coordinates;
use kbc_rounds::{Call, Limits, Rounds, Transfer, expand};

/// SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn word(rank: u32, buffer: u32, place: u32) -> u64 {
    mix(u64::from(rank) << 40 | u64::from(buffer) << 32 | u64::from(place))
}

/// Runs rounds on words; returns `None` if a rule of rounds is broken.
fn run(r: &Rounds, state: &mut BTreeMap<(u32, u32, u32), u64>) -> Option<()> {
    for round in &r.rounds {
        let before = state.clone();
        let (mut replaced, mut added) = (BTreeSet::new(), BTreeSet::new());
        for x in round {
            for (from, to) in x.from.places().zip(x.to.places()) {
                let v = *before.get(&(x.src, x.from.buffer, from))?;
                let place = (x.dst, x.to.buffer, to);
                if x.reduce {
                    before.get(&place)?;
                    added.insert(place);
                    let old = state.get(&place).copied().unwrap_or_default();
                    state.insert(place, old.wrapping_add(v));
                } else {
                    if !replaced.insert(place) {
                        return None;
                    }
                    state.insert(place, v);
                }
            }
        }
        if added.intersection(&replaced).next().is_some() {
            return None;
        }
    }
    Some(())
}

/// Checks whether rounds fulfil the contract of a standard collective.
fn is_right(r: &Rounds, coll: &str, root: u32) -> bool {
    let (p, n) = (r.ranks(), r.atoms);
    let block = |b: u32| b * (n / p)..(b + 1) * (n / p);
    let all = 0..p;
    let mut state = BTreeMap::new();
    let mut want = BTreeMap::new();
    let sum = |i: u32| all.clone().fold(0u64, |s, q| s.wrapping_add(word(q, 0, i)));
    for rank in all.clone() {
        let starts = match coll {
            "all_gather" | "gather" => block(rank),
            "broadcast" | "scatter" if rank != root => 0..0,
            _ => 0..n,
        };
        state.extend(starts.map(|i| ((rank, 0, i), word(rank, 0, i))));
        let ends: Vec<((u32, u32, u32), u64)> = match coll {
            "all_reduce" => (0..n).map(|i| ((rank, 0, i), sum(i))).collect(),
            "reduce" if rank == root => (0..n).map(|i| ((rank, 0, i), sum(i))).collect(),
            "reduce_scatter" => block(rank).map(|i| ((rank, 0, i), sum(i))).collect(),
            "broadcast" => (0..n).map(|i| ((rank, 0, i), word(root, 0, i))).collect(),
            "scatter" => block(rank).map(|i| ((rank, 0, i), word(root, 0, i))).collect(),
            "gather" if rank != root => vec![],
            "all_gather" | "gather" => (0..n).map(|i| ((rank, 0, i), word(i / (n / p), 0, i))).collect(),
            "all_to_all" => all
                .clone()
                .flat_map(|b| {
                    block(b).zip(block(rank)).map(move |(to, from)| ((rank, 1, to), word(b, 0, from)))
                })
                .collect(),
            _ => vec![],
        };
        want.extend(ends);
    }
    run(r, &mut state).is_some() && want.iter().all(|(place, v)| state.get(place) == Some(v))
}

/// Damages rounds as `seed` chooses; returns `None` if that changes nothing.
fn damage(r: &Rounds, seed: u64) -> Option<Rounds> {
    Some(damage_at(r, seed)?.0)
}

/// Returns the same, with the rounds (from 0) and the transfer that were damaged.
fn damage_at(r: &Rounds, seed: u64) -> Option<(Rounds, [usize; 2], Transfer)> {
    let mut out = r.clone();
    let p = r.ranks();
    let at: Vec<(usize, usize)> =
        r.rounds.iter().enumerate().flat_map(|(t, x)| (0..x.len()).map(move |i| (t, i))).collect();
    let &(t, i) = at.get((mix(seed) % at.len().max(1) as u64) as usize)?;
    let pick = mix(seed ^ 1);
    let other = |not: u32| (not + 1 + (pick % u64::from(p - 1)) as u32) % p;
    let x: &mut Transfer = &mut out.rounds[t][i];
    let (hit, mut also) = (x.clone(), t);
    match seed % 8 {
        0 => drop(out.rounds[t].remove(i)),
        1 => {
            let copy = x.clone();
            let to = (pick % out.rounds.len() as u64) as usize;
            out.rounds[to].push(copy);
            also = to;
        }
        2 if p > 1 => x.dst = other(x.dst),
        3 if p > 1 => x.src = other(x.src),
        4 | 5 => {
            let side = if seed % 8 == 4 { &mut x.from } else { &mut x.to };
            let total = r.buffers[side.buffer as usize].atoms;
            let runs = side.runs();
            if runs.len() != 1 || runs[0].len == total {
                return None;
            }
            let start = (runs[0].start + 1) % (total - runs[0].len + 1);
            *side = kbc_rounds::region::Region::whole(side.buffer, total).part(start, side.len);
        }
        6 => x.reduce = !x.reduce,
        7 => {
            let to = (pick % out.rounds.len() as u64) as usize;
            out.rounds.swap(t, to);
            also = to;
        }
        _ => return None,
    }
    (out != *r).then_some((out, [t, also], hit))
}

/// How often messages name the damage.
#[derive(Default, Debug)]
struct Aim {
    messages: usize,
    /// The first place they point at is the damaged statement.
    statement: usize,
    /// They name a rank of the damaged transfer,
    rank: usize,
    /// its round,
    round: usize,
    /// or both.
    both: usize,
}

impl Aim {
    /// Every message names rank, chunk and statement; counts how often these are those of the
    /// damage.
    fn count(&mut self, world: &World, r: &Rounds, d: &kbc_diag::Diagnostics, at: [usize; 2], x: &Transfer) {
        let text = world.show(d);
        let first = &d.list[0];
        let at_the_end = d.list.iter().filter(|e| e.code.starts_with("E11")).count();
        assert!(at_the_end == 0 || d.list.len() == 1, "more than one cause is told:\n{text}");
        assert!(first.title.contains("rank ") && first.title.contains('['), "no rank or no chunk:\n{text}");
        assert!(!first.span().is_none(), "no statement:\n{text}");
        self.messages += 1;
        self.statement += usize::from(first.span() == x.span);
        let has = |word: &str| {
            text.match_indices(word)
                .any(|(i, _)| !text[i + word.len()..].starts_with(|c: char| c.is_ascii_digit()))
        };
        let named = |rank: u32| {
            let name = r.rank_name(rank);
            has(name.strip_prefix("rank ").unwrap_or(&name))
        };
        let rank = named(x.src) || named(x.dst);
        let round = at.iter().any(|t| has(&format!("round {}", t + 1)));
        self.rank += usize::from(rank);
        self.round += usize::from(round);
        self.both += usize::from(rank && round);
    }

    fn percent(&self, n: usize) -> usize {
        100 * n / self.messages.max(1)
    }
}

#[test]
fn mutants_are_rejected_or_right() {
    let world = World::with_library();
    let cases: [(&str, &str, &[i64]); 24] = [
        ("reduce_scatter", "ring", &[5]),
        ("all_gather", "ring", &[4]),
        ("all_reduce", "ring", &[4]),
        ("all_reduce", "bidirectional_ring", &[3]),
        ("all_reduce", "one_phase", &[4]),
        ("all_reduce", "two_phase", &[5]),
        ("all_reduce", "recursive_doubling", &[6]),
        ("all_reduce", "halving_doubling", &[6]),
        ("all_reduce", "nhr", &[5]),
        ("all_reduce", "double_tree", &[5]),
        ("all_reduce", "torus2", &[2, 3]),
        ("all_reduce", "line", &[4]),
        ("all_reduce", "mesh2", &[2, 2]),
        ("reduce_scatter", "line", &[4]),
        ("all_gather", "bruck", &[5]),
        ("all_to_all", "direct", &[4]),
        ("all_to_all", "pairwise", &[4]),
        ("all_to_all", "bruck", &[5]),
        ("broadcast", "binomial", &[6]),
        ("broadcast", "scatter_gather", &[4]),
        ("reduce", "binary_tree", &[6]),
        ("gather", "binomial", &[5]),
        ("scatter", "binomial", &[6]),
        ("all_gather", "pat", &[6]),
    ];
    let (mut rejected, mut equal) = (0, 0);
    let mut aim = Aim::default();
    for (coll, name, sizes) in cases {
        let mut call = world.call(coll, name, sizes, None);
        if world.is_rooted(&call) {
            call.root = Some(coordinates(sizes, 1));
        }
        let root = u32::from(call.root.is_some());
        // Without the contracts of inner applies: the oracle does not know them.
        let limits = Limits::default();
        let whole = expand(&world.lib, &call, &limits).unwrap();
        let right = whole.in_lanes(1, 0, &limits).unwrap();
        assert!(is_right(&right, coll, root), "the oracle and {coll} {name}");
        assert!(check(&world.lib, &right).is_ok());
        for seed in 0..160 {
            let seed = (mix(seed) & !7) | (seed % 8);
            let Some((mutant, rounds, hit)) = damage_at(&right, seed) else { continue };
            // With the contracts of inner applies, the check is stricter, never more lenient.
            if check(&world.lib, &mutant).is_err()
                && let Some(inlined) = damage(&whole, seed)
            {
                assert!(
                    check(&world.lib, &inlined).is_err(),
                    "{coll} {name}, seed {seed}: hidden by an apply"
                );
            }
            let (want, got) = (is_right(&mutant, coll, root), check(&world.lib, &mutant));
            match (want, &got) {
                (true, Ok(())) => equal += 1,
                (false, Err(d)) => {
                    assert!(d.has_errors());
                    aim.count(&world, &mutant, d, rounds, &hit);
                    rejected += 1;
                }
                (true, Err(d)) => panic!("{coll} {name}, seed {seed}: right, but\n{}", world.show(d)),
                (false, Ok(())) => panic!("{coll} {name}, seed {seed}: wrong, but accepted"),
            }
        }
    }
    assert!(rejected > 2500, "{rejected} rejected, {equal} equal");
    // Messages point at the damage and name it.
    let rates = [aim.statement, aim.rank, aim.round, aim.both].map(|n| aim.percent(n));
    assert!(
        rates[0] >= 80 && rates[1] >= 95 && rates[2] >= 75 && rates[3] >= 75,
        "percent {rates:?} of {aim:?}"
    );
    // Some mutants are equivalent: a ring whose first hop skips a rank, rounds that may be swapped.
    assert!((100..600).contains(&equal), "{rejected} rejected, {equal} equal");
}

/// `pipeline` and `instances` preserve the meaning of every algorithm, and need the expected number
/// of rounds.
#[test]
fn lanes_keep_the_meaning() {
    let world = World::with_library();
    for alg in world.lib.algorithms() {
        let decl = world.lib.algorithm(alg);
        let sizes: Vec<i64> = [4, 2, 2][..decl.axes.len()].to_vec();
        let root = decl.root.as_ref().map(|_| coordinates(&sizes, 1));
        let call = Call { alg, sizes, root, args: vec![] };
        if !kbc_rounds::group::is_legal(&world.lib, &call).unwrap() {
            continue;
        }
        let r = expand(&world.lib, &call, &Limits::default()).unwrap();
        for (lanes, delay) in [(2, 0), (3, 1), (4, 1)] {
            let many = r.in_lanes(lanes, delay, &Limits::default()).unwrap();
            if let Err(d) = check(&world.lib, &many) {
                panic!("{} {} in {lanes} lanes:\n{}", decl.coll.node, decl.name.node, world.show(&d));
            }
        }
    }
    let r = expand(&world.lib, &world.call("all_reduce", "ring", &[4], None), &Limits::default()).unwrap();
    assert_eq!(r.in_lanes(u32::MAX, 1, &Limits::default()).unwrap_err().code, "E040");
    // A chain with pipeline k equals the text that spells out k chunks.
    for (p, k) in [(2, 3), (5, 4), (6, 1)] {
        let chain =
            expand(&world.lib, &world.call("broadcast", "chain", &[p], Some(&[0])), &Limits::default())
                .unwrap();
        let cost = kbc_rounds::cost(&chain.in_lanes(k, 1, &Limits::default()).unwrap());
        assert_eq!(i64::from(cost.rounds), p - 2 + i64::from(k));
    }
}
