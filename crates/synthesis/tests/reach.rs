//! Percent of the rate that plans reach in time.

#![allow(clippy::print_stderr, reason = "the figures are for a reader")]

use crate::streams::{GIGABYTES, Waits, simulate, timing};
use crate::topologies::{self, Dice, Sketch};
use kbc_synthesis::{
    ExactRatio, Network, PieceMove, PieceNumber, RoundPlan, TreeCollective, TreePacking, Waiting,
    pack_some_trees, pack_spanning_trees, pack_trees, tree_rounds,
};
use std::collections::BTreeMap;
use std::time::Instant;

/// Bytes of the vector.
const BYTES: f64 = 268_435_456.0;

/// Four groups of eight members that are joined in pairs; those at the same place of all groups
/// have a switch.
pub fn groups() -> Sketch {
    let mut s = Sketch::of_members(32);
    for g in 0..4 {
        for u in 0..8 {
            (u + 1..8).for_each(|v| s.link(8 * g + u, 8 * g + v, 1));
        }
    }
    for i in 0..8 {
        let w = s.switch();
        (0..4).for_each(|g| s.link(8 * g + i, w, 1));
    }
    s
}

/// Sixteen members at four switches, and one switch above.
fn switches() -> Sketch {
    let mut s = Sketch::of_members(16);
    let low: Vec<usize> = (0..4).map(|_| s.switch()).collect();
    let top = s.switch();
    for v in 0..16 {
        s.link(v, low[v / 4], 1);
    }
    low.iter().for_each(|&w| s.link(w, top, 1));
    s
}

/// Machines with links of 50 GB/s and 500 ns.
fn machines() -> Vec<(&'static str, Sketch)> {
    vec![
        ("mesh 4x4", topologies::grid(&[4, 4], false)),
        ("mesh 8x8", topologies::grid(&[8, 8], false)),
        ("hypercube 4", topologies::hypercube(4)),
        ("4 groups of 8", groups()),
        ("torus 4x4", topologies::grid(&[4, 4], true)),
        ("torus 4x4x4", topologies::grid(&[4, 4, 4], true)),
        ("tree of switches", switches()),
    ]
}

/// Returns the route of each message.
fn routes(packing: &TreePacking) -> impl Fn(&PieceMove) -> Vec<usize> + use<> {
    let mut known: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for edge in packing.classes.iter().flat_map(|c| &c.edges) {
        known.insert((edge.from, edge.to), edge.routes[0].nodes.clone());
    }
    move |m: &PieceMove| known[&(m.from, m.to)].clone()
}

/// A plan that was made and simulated.
struct Reached {
    plan: RoundPlan,
    /// Share of the rate.
    share: f64,
    seconds: f64,
}

impl Reached {
    /// Simulates a plan of data of `bytes` bytes per root with a rate per root.
    fn new(
        network: &Network,
        (bytes, rate): (f64, ExactRatio),
        waiting: Waiting,
        plan: impl FnOnce(f64) -> RoundPlan,
        route: impl Fn(&PieceMove) -> Vec<usize>,
    ) -> Reached {
        let start = Instant::now();
        let plan = plan(bytes);
        let seconds = start.elapsed().as_secs_f64();
        let all: &[Waits] = match waiting {
            Waiting::WhenNeeded => &[Waits::Message, Waits::Round],
            Waiting::EachRound => &[Waits::EarlierRounds],
        };
        let mut ns = 0.0f64;
        for &waits in all {
            let now = simulate(&plan, &timing(network), bytes / plan.pieces as f64, waits, &route);
            assert!((plan.ns / now - 1.0).abs() < 0.01, "{waits:?}: {now} ns, predicted {} ns", plan.ns);
            ns = ns.max(now);
        }
        Reached { share: bytes / (rate.to_f64() * GIGABYTES) / ns, plan, seconds }
    }
}

/// Returns plans of all collectives on a network: all-gather, reduce-scatter, and an all-reduce
/// where spanning trees carry it.
fn reached(network: &Network, bytes: f64, waiting: Waiting, most: usize) -> Vec<(&'static str, Reached)> {
    let (times, members) = (timing(network), network.members().len() as f64);
    let mut all = vec![];
    let both = [("all-gather", TreeCollective::AllGather), ("reduce-scatter", TreeCollective::ReduceScatter)];
    for (name, collective) in both {
        let packing = pack_trees(network, collective).expect("trees");
        let plan = |bytes| {
            tree_rounds(&packing, PieceNumber::FastestUpTo(most), bytes, &times, waiting).expect(name)
        };
        let amounts = (bytes / members, packing.rate);
        all.push((name, Reached::new(network, amounts, waiting, plan, routes(&packing))));
    }
    if let Ok(packing) = pack_spanning_trees(network) {
        let plan = |bytes| {
            tree_rounds(&packing, PieceNumber::FastestUpTo(most), bytes, &times, waiting).expect("all-reduce")
        };
        let route = |m: &PieceMove| vec![m.from, m.to];
        all.push(("all-reduce", Reached::new(network, (bytes, packing.rate), waiting, plan, route)));
    }
    all
}

/// Plans with few messages reach most of the rate, and their times are right.
#[test]
fn plans_reach_the_rate() {
    for (name, sketch) in machines().into_iter().filter(|m| m.1.members.len() < 64) {
        for (what, reached) in reached(&sketch.network(), BYTES, Waiting::WhenNeeded, 8192) {
            assert!(reached.share > 0.89, "{what} on {name}: {}", reached.share);
        }
        for (what, reached) in reached(&sketch.network(), BYTES, Waiting::EachRound, 8192) {
            assert!(reached.share > 0.55, "{what} on {name}: {}", reached.share);
        }
    }
}

/// A mesh of 5 x 5 with one slow link: the best rate needs 391 trees.
fn uneven_mesh() -> Network {
    let mut s = Sketch::of_members(25);
    for v in 0..25 {
        if v % 5 < 4 {
            s.link(v, v + 1, if v == 11 { 1 } else { 10 });
        }
        if v < 20 {
            s.link(v, v + 5, 10);
        }
    }
    s.network()
}

/// Many trees start one after another, as pieces do. If all started together, the plan would reach
/// 63 % of the rate.
#[test]
fn many_trees_follow_one_another() {
    let network = uneven_mesh();
    let packing = pack_spanning_trees(&network).expect("trees");
    assert_eq!(packing.trees, 391);
    let times = timing(&network);
    let waiting = Waiting::WhenNeeded;
    let plan = |bytes| tree_rounds(&packing, PieceNumber::Fixed(1), bytes, &times, waiting).expect("plan");
    let route = |m: &PieceMove| vec![m.from, m.to];
    let reached = Reached::new(&network, (BYTES, packing.rate), waiting, plan, route);
    assert!(reached.share > 0.85, "{}", reached.share);
}

/// Whole trees with more messages than usual are cut further while that gains much, as others are.
#[test]
fn many_trees_are_cut() {
    let network = uneven_mesh();
    let packing = pack_spanning_trees(&network).expect("trees");
    let whole = 391 * 2 * 24;
    let about = |most| PieceNumber::FastestAbout { usual: whole - 1, most };
    let cuts = |most| {
        let plan = tree_rounds(&packing, about(most), BYTES, &timing(&network), Waiting::WhenNeeded);
        plan.map(|plan| plan.cuts).ok()
    };
    assert_eq!(cuts(whole - 1), None, "not even whole trees");
    assert_eq!(cuts(whole), Some(1));
    assert_eq!(cuts(3 * whole), Some(3), "the number at the limit is tried, too");
}

/// Times are right where links differ and messages are small.
#[test]
fn times_are_right_where_links_differ() {
    let mut dice = Dice(11);
    for _ in 0..8 {
        let network = topologies::random(&mut dice, 7, 0, 5, 0).network();
        for (bytes, waiting) in
            [(1e4, Waiting::WhenNeeded), (1e7, Waiting::WhenNeeded), (1e6, Waiting::EachRound)]
        {
            reached(&network, bytes, waiting, 4096);
        }
    }
    for sketch in [topologies::h100(2), topologies::fat_tree(4, 2, 1, 1, 2)] {
        reached(&sketch.network(), 1e7, Waiting::WhenNeeded, 4096);
        reached(&sketch.network(), 1e7, Waiting::EachRound, 4096);
    }
}

fn print(name: &str, what: &str, waiting: Waiting, reached: &Reached) {
    eprintln!(
        "{waiting:?} {name}, {what}: {:.1} % in {} rounds and {} messages, planned in {:.2} s",
        100.0 * reached.share,
        reached.plan.rounds.len(),
        reached.plan.rounds.iter().map(Vec::len).sum::<usize>(),
        reached.seconds,
    );
}

/// Run with `cargo test --release -p kbc-synthesis figures_of_plans -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
fn figures_of_plans() {
    for waiting in [Waiting::WhenNeeded, Waiting::EachRound] {
        for (name, sketch) in machines() {
            for (what, reached) in reached(&sketch.network(), BYTES, waiting, 65_536) {
                print(name, what, waiting, &reached);
            }
        }
        let mesh = topologies::grid(&[8, 8], false).network();
        for (what, reached) in reached(&mesh, BYTES, waiting, 131_072) {
            print("mesh 8x8, more messages", what, waiting, &reached);
        }
        let (torus, bytes) = (topologies::grid(&[8, 8, 8], true).network(), BYTES / 512.0);
        let packing = pack_some_trees(&torus, TreeCollective::AllGather, 1).expect("trees");
        let plan = |bytes| {
            tree_rounds(&packing, PieceNumber::Fixed(1), bytes, &timing(&torus), waiting).expect("plan")
        };
        let route = |m: &PieceMove| vec![m.from, m.to];
        let reached = Reached::new(&torus, (bytes, packing.rate), waiting, plan, route);
        print("torus 8x8x8, one tree per root", "all-gather", waiting, &reached);
    }
}
