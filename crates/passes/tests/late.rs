//! Tests of late receipts: in a schedule that is written out for each rank, a rank takes a message
//! before it touches one of its places again, and not before.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_backend_sim::interp::{RunOptions, run};
use kbc_checker::{CheckOptions, check};
use kbc_ir::Module;
use kbc_ir::schedule::{Mark, Point, SOp, SStmt};
use kbc_numerics::generate::mix32;
use kbc_passes::testing::taken_in;
use kbc_rounds::region::{Interval, Region, Run};
use kbc_rounds::{Call, Limits, Rounds, expand};
use stack::{Case, Layout, World, argument};
use std::fmt::Write;

/// A condition that always holds, and that has no symbolic form.
const TEXT: &str = "fn deep(v) = if v == 0 { 0 } else { 1 + deep((v - 1) / 2) }\n";

/// Returns a world with algorithms that are written out for each rank.
fn world(algorithms: &str) -> World {
    World::with("late.kb", &format!("{TEXT}{algorithms}"))
}

/// Returns what a rank does in a module, one letter an operation: `s` for a message that it
/// publishes, `r` for one that it accepts, `m` for a local move.
fn program(m: &Module, rank: usize) -> String {
    let letter = |s: &SStmt| match s {
        SStmt::Op(SOp::Mark(Mark { point: Point::Publish, .. }), _) => Some('s'),
        SStmt::Op(SOp::Mark(Mark { point: Point::Expect, .. }), _) => Some('r'),
        SStmt::Op(SOp::Copy { src, .. } | SOp::Reduce { src, .. }, _) => {
            matches!(src, kbc_ir::schedule::Ref::Chunk { .. }).then_some('m')
        }
        _ => None,
    };
    let roles = &stack::region(m).roles;
    assert_eq!(roles.len() as u64, m.mesh.ranks(), "a role a rank");
    roles[rank].streams[0].body.iter().filter_map(letter).collect()
}

fn programs(world: &World, name: &str, p: u64) -> Vec<String> {
    let m = stack::expanded(world, &world.case(name, &[p], None), &Layout::ints(p)).unwrap();
    (0..p as usize).map(|rank| program(&m, rank)).collect()
}

/// A rank that sends something else first does not wait for what it sends on later. What it does
/// not need, it takes at the end.
#[test]
fn a_message_is_taken_when_it_is_needed() {
    let world = world(
        "algorithm apart: all_gather over (r mod p) { for k in 1..p { if deep(r) < p { put [r] -> r + k } } }
        algorithm around: all_gather over (r mod p) {
            for k in 0..p-1 { if deep(r) < p { put [r - k] -> r + 1 } }
        }
        algorithm twice: all_gather over (r mod p) {
            if deep(r) < p { put [r] -> r + 1 }
            if deep(r) < p { put [r] -> r - 1 }
            if deep(r) < p { put [r - 1] -> r + 2 }
        }
        algorithm moved: all_gather over (r mod p) {
            scratch t[p]
            if deep(r) < p { put [r] -> t[r] at r + 1 }
            if deep(r) < p { put [r] -> r - 1 }
            put t[r - 1] -> [r - 1]
            if deep(r) < p { put [r - 1] -> r + 2 }
        }",
    );
    assert_eq!(programs(&world, "all_gather apart", 4), ["sssrrr"; 4]);
    assert_eq!(programs(&world, "all_gather around", 4), ["srsrsr"; 4]);
    assert_eq!(programs(&world, "all_gather twice", 5), ["ssrsrr"; 5]);
    assert_eq!(programs(&world, "all_gather moved", 5), ["ssrmsrr"; 5]);
}

/// The messages of one sender are taken in the order in which it sends them, although the second is
/// needed first.
#[test]
fn messages_of_a_sender_are_taken_in_order() {
    let world = world(
        "algorithm pair: all_gather over (r of p) {
            if r == 0 && deep(r) < p { put [0 of 4] -> 1 }
            if r == 0 { put [1 of 4] -> 1 }
            if r == 2 { put [2 of 4] -> 1 }
            if r == 1 { put [3 of 4] -> 2 }
            if r == 1 { put [1 of 4] -> 2 }
        }",
    );
    let m = stack::expanded(&world, &world.case("all_gather pair", &[3], None), &Layout::ints(12)).unwrap();
    assert_eq!(program(&m, 1), "srrsr");
}

/// With places that are written again, a rank takes messages earlier: additions keep their order.
#[test]
fn additions_to_one_place_wait_for_each_other() {
    let world = world(
        "algorithm onto: all_reduce over (r of p) {
            if r == 0 && deep(r) < p { put [0 of 2] -> 2 reduce }
            if r == 1 { put [0 of 2] -> 2 reduce }
            if r == 2 { put [1 of 2] -> 1 }
            if r == 3 { put [0 of 2] -> 2 }
            if r == 2 { put [1 of 2] -> 3 }
            if r == 2 { put [0 of 2] -> 3 }
        }",
    );
    let case = world.case("all_reduce onto", &[4], None);
    let m = stack::expanded(&world, &case, &Layout::ints(8)).unwrap();
    assert_eq!(program(&m, 2), "ssrrrs");
    assert!(stack::oracle::compare(&world, &case) > 0);
}

/// Number of random algorithms.
const ALGORITHMS: u32 = 24;

/// Returns an algorithm of random rounds on `p` ranks: messages and local moves, copied or added,
/// between random places of the vector and a scratch. In one round a place is either replaced once
/// or added to.
fn random(seed: u32, p: u32) -> String {
    let mut drawn = 0;
    let mut draw = |n: u32| {
        drawn += 1;
        mix32(drawn, seed, 77) % n
    };
    let mut text =
        format!("algorithm random{seed}: all_reduce over (r of p) where p == {p} {{ scratch t[1]\n");
    // Every place of the scratch has a value.
    text += "put [..] -> t[0]\n";
    for _ in 0..3 + draw(6) {
        text += "together {\n";
        // What is written at each rank in this round: buffer, first eighth, length, whether added.
        let mut written: Vec<(u32, u32, u32, u32, bool)> = vec![];
        for _ in 0..1 + draw(2 * p) {
            let (from, to) = (draw(p), draw(p));
            let len = 1 + draw(2);
            let (a, b, x, y) = (draw(2), draw(2), draw(9 - len), draw(9 - len));
            let add = draw(2) == 0;
            let clash = |w: &(u32, u32, u32, u32, bool)| {
                w.0 == to && w.1 == b && w.2 < y + len && y < w.2 + w.3 && !(add && w.4)
            };
            // Local moves of a round are done in order, and places of one move must not overlap.
            let moves_again = from == to && (written.iter().any(|w| w.0 == to) || a == b);
            if written.iter().any(clash) || moves_again {
                continue;
            }
            written.push((to, b, y, len, add));
            let place = |buffer: u32, at: u32| {
                format!("{}[b for b in {at}..{} of 8]", ["", "t[0]"][buffer as usize], at + len)
            };
            let at = if from == to { String::new() } else { format!(" at {to}") };
            let add = if add { " reduce" } else { "" };
            writeln!(
                text,
                "if r == {from} && deep(r) < p {{ put {} -> {}{at}{add} }}",
                place(a, x),
                place(b, y)
            )
            .unwrap();
        }
        text += "}\n";
    }
    text + "}\n"
}

/// Random algorithms have the bits of their rounds, and are free of races and deadlocks, whether
/// messages are put or fetched.
#[test]
fn random_rounds_have_their_sums() {
    let ranks = |seed| 2 + seed % 4;
    let world = world(&(0..ALGORITHMS).map(|seed| random(seed, ranks(seed))).collect::<String>());
    for seed in 0..ALGORITHMS {
        let p = u64::from(ranks(seed));
        let case = world.case(&format!("all_reduce random{seed}"), &[p], None);
        let with = |word| Case { options: vec![("transfer".into(), argument(word))], ..case.clone() };
        for case in [case.clone(), with("pull"), with("rendezvous")] {
            assert!(stack::oracle::compare(&world, &case) > 0);
            let l = Layout::ints(16);
            let mut m = stack::expanded(&world, &case, &l).unwrap();
            assert_eq!(stack::region(&m).roles.len() as u64, p, "a role a rank");
            // The results are not those of an all-reduce.
            let kbc_ir::Body::Schedule(s) = &mut m.body else { panic!("a schedule") };
            s.regions[1].contract = None;
            stack::pass(&world, &mut m, &kbc_passes::allocate::Allocate).unwrap();
            stack::pass(&world, &mut m, &kbc_passes::synchronize::Synchronize).unwrap();
            let s = m.schedule().unwrap();
            let v = check(s, &CheckOptions::default());
            assert!(v.ok(), "{}: {}", world.show(&case), world.words(&v.errors));
            let feeds: Vec<_> = (0..3).map(|c| stack::feed(&world, &case, &l, c)).collect();
            run(s, &feeds, &RunOptions { calls: 3, ..RunOptions::default() }).unwrap();
        }
    }
}

/// Returns the same rounds in atoms that are finer by a factor.
fn finer(rounds: &Rounds, factor: u32) -> Rounds {
    let mut out = rounds.clone();
    out.atoms *= factor;
    out.buffers.iter_mut().for_each(|b| b.atoms *= factor);
    let buffers = out.buffers.clone();
    let moved = |r: &Region| {
        let whole = Region::whole(r.buffer, buffers[r.buffer as usize].atoms);
        let part = |x: &Run| Interval { start: x.start * factor, len: x.len * factor };
        whole.select(&r.runs().iter().map(part).collect::<Vec<_>>())
    };
    for x in out.rounds.iter_mut().flatten() {
        (x.from, x.to) = (moved(&x.from), moved(&x.to));
    }
    out
}

/// Whether places are looked at one by one, or, where there are many, by runs: receipts are the
/// same.
#[test]
fn receipts_do_not_depend_on_the_number_of_places() {
    let world = world("");
    let mut late = 0;
    for (coll, name, sizes) in [
        ("all_reduce", "ring", vec![6]),
        ("all_reduce", "hierarchical_flat", vec![8]),
        ("all_reduce", "swing", vec![8]),
        ("all_reduce", "torus2_all_links", vec![2, 3]),
        ("all_gather", "rails_flat", vec![8]),
        ("all_gather", "bruck", vec![5]),
        ("all_to_all", "bruck", vec![6]),
        ("reduce_scatter", "torus3_all_links", vec![2, 2, 2]),
    ] {
        let sizes: Vec<u64> = sizes;
        let case = world.case(&format!("{coll} {name}"), &sizes, None);
        let sizes = sizes.iter().map(|s| *s as i64).collect();
        let call = Call { alg: case.alg, sizes, root: None, args: vec![] };
        let rounds = expand(&world.lib, &call, &Limits::default()).unwrap();
        let taken = taken_in(&rounds);
        assert!(rounds.atoms < 4096 && finer(&rounds, 5000).atoms > 4096);
        assert_eq!(taken, taken_in(&finer(&rounds, 5000)), "{name}");
        late += (0..).zip(&taken).map(|(t, round)| round.iter().filter(|x| **x > t).count()).sum::<usize>();
    }
    assert!(late > 50, "{late}");
}
