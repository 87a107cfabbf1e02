//! Rounds of packed trees, executed: who has what after each round, and what each edge carries.

use crate::streams::timing;
use crate::topologies::{self, Sketch};
use kbc_synthesis::{
    EdgeTiming, Network, PieceMove, PieceNumber, RoundPlan, SynthesisError, TreeCollective, TreePacking,
    Waiting, pack_spanning_trees, pack_trees, tree_rounds,
};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a root's data.
const BYTES: f64 = 1e6;
const WAITING: [Waiting; 2] = [Waiting::WhenNeeded, Waiting::EachRound];

/// What a node holds of a piece: the members whose contributions it contains, as bits. The key is
/// (node, root, piece).
type Holdings = BTreeMap<(usize, usize, u64), u64>;

/// Executes a round: all messages read the state before it.
fn execute(round: &[PieceMove], held: &mut Holdings) {
    let before = held.clone();
    let mut written = BTreeSet::new();
    for m in round {
        let sent = *before.get(&(m.from, m.root, m.piece)).expect("what is sent is held");
        let place = (m.to, m.root, m.piece);
        if m.reduce {
            let there = held.get_mut(&place).expect("the receiver has a part of its own");
            assert_eq!(*there & sent, 0, "nothing is added twice: {m:?}");
            *there |= sent;
        } else {
            assert!(written.insert(place), "a place is replaced once: {m:?}");
            held.insert(place, sent);
        }
    }
}

/// Executes a plan from a state and returns the state at the end.
fn run(plan: &RoundPlan, mut held: Holdings) -> Holdings {
    plan.rounds.iter().for_each(|round| execute(round, &mut held));
    assert!(plan.ns > plan.least_ns, "no plan is faster than the busiest edge");
    assert!(plan.rounds.iter().all(|r| !r.is_empty()), "something moves in every round");
    held
}

/// Networks whose edges join members, so that a message crosses one edge; and such with switches.
fn networks() -> Vec<(Sketch, bool)> {
    let mut heterogeneous = topologies::ring(5);
    heterogeneous.link(0, 2, 3);
    let direct = [
        topologies::ring(6),
        topologies::grid(&[3, 3], false),
        topologies::grid(&[3, 4], true),
        topologies::hypercube(3),
        topologies::full(5),
        heterogeneous,
    ];
    let switched = [topologies::star(6, 2), topologies::fat_tree(3, 2, 1, 1, 1)];
    direct.into_iter().map(|s| (s, true)).chain(switched.into_iter().map(|s| (s, false))).collect()
}

/// Checks that each edge carries, up to every round, at most what its capacity allows.
fn within_capacity(network: &Network, plan: &RoundPlan) {
    let slowest = network.edges().iter().map(|e| e.capacity).min().expect("there are edges");
    let mut carried: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (t, round) in plan.rounds.iter().enumerate() {
        for m in round {
            *carried.entry((m.from, m.to)).or_insert(0) += 1;
        }
        for e in network.edges() {
            let most = (t as u64 + 1) * e.capacity / slowest;
            let now = carried.get(&(e.from, e.to)).copied().unwrap_or(0);
            assert!(now <= most, "edge {} -> {} carries {now} of {most}", e.from, e.to);
        }
    }
}

/// Checks that a member sends a receiver at most one message in a round, and that the receivers of
/// a round ascend, so that the order of its messages is that of the plan however rounds are sent.
fn one_to_each(plan: &RoundPlan) {
    for round in &plan.rounds {
        let ends = |m: &PieceMove| (m.from, m.to);
        assert!(round.windows(2).all(|w| ends(&w[0]) < ends(&w[1])));
    }
}

#[test]
fn every_piece_arrives_once() {
    for (sketch, direct) in networks() {
        let network = sketch.network();
        let members = network.members().to_vec();
        let times = timing(&network);
        for collective in [TreeCollective::AllGather, TreeCollective::Broadcast { root: members[1] }] {
            let packing = pack_trees(&network, collective).expect("trees");
            let roots: Vec<usize> = packing.roots.iter().map(|r| r.0).collect();
            for (cuts, waiting) in [1, 3, 16].into_iter().flat_map(|c| WAITING.map(|w| (c, w))) {
                let plan =
                    tree_rounds(&packing, PieceNumber::Fixed(cuts), BYTES, &times, waiting).expect("rounds");
                assert_eq!(
                    (plan.cuts, u128::from(plan.pieces)),
                    (cuts, packing.roots[0].1 * u128::from(cuts))
                );
                let places = || roots.iter().flat_map(|&r| (0..plan.pieces).map(move |p| (r, p)));
                let start = places().map(|(r, p)| ((r, r, p), 1 << r)).collect();
                let mut want = Holdings::new();
                for &m in &members {
                    want.extend(places().map(|(r, p)| ((m, r, p), 1u64 << r)));
                }
                assert_eq!(run(&plan, start), want, "{collective:?}");
                let sent: usize = plan.rounds.iter().map(Vec::len).sum();
                assert_eq!(sent, want.len() - places().count(), "nothing arrives twice");
                match waiting {
                    Waiting::WhenNeeded => one_to_each(&plan),
                    // Each piece of the data of a root has the same length, so a scale of several
                    // trees per unit is several pieces at once.
                    Waiting::EachRound => {
                        if direct && packing.loads.iter().all(|l| l.limit % packing.loads[0].limit == 0) {
                            within_capacity(&network, &plan);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_contribution_is_added_once() {
    for (sketch, _) in networks() {
        let network = sketch.network();
        let members = network.members().to_vec();
        let all: u64 = members.iter().map(|m| 1 << m).sum();
        let times = timing(&network);
        for collective in [TreeCollective::ReduceScatter, TreeCollective::Reduce { root: members[1] }] {
            let packing = pack_trees(&network, collective).expect("trees");
            let roots: Vec<usize> = packing.roots.iter().map(|r| r.0).collect();
            for waiting in WAITING {
                let plan =
                    tree_rounds(&packing, PieceNumber::Fixed(2), BYTES, &times, waiting).expect("rounds");
                let mut start = Holdings::new();
                for (&m, &r) in members.iter().flat_map(|m| roots.iter().map(move |r| (m, r))) {
                    start.extend((0..plan.pieces).map(|p| ((m, r, p), 1 << m)));
                }
                let end = run(&plan, start);
                for (&r, p) in roots.iter().flat_map(|r| (0..plan.pieces).map(move |p| (r, p))) {
                    assert_eq!(end[&(r, r, p)], all, "{collective:?}: root {r}, piece {p}");
                }
            }
        }
    }
}

#[test]
fn an_all_reduce_goes_up_and_down() {
    for (sketch, _) in networks().into_iter().filter(|n| n.1) {
        let network = sketch.network();
        let members = network.members().to_vec();
        let all: u64 = members.iter().map(|m| 1 << m).sum();
        let packing = pack_spanning_trees(&network).expect("trees");
        for (cuts, waiting) in [1, 4].into_iter().flat_map(|c| WAITING.map(|w| (c, w))) {
            let plan = tree_rounds(&packing, PieceNumber::Fixed(cuts), BYTES, &timing(&network), waiting)
                .expect("rounds");
            let places = || members.iter().flat_map(|&m| (0..plan.pieces).map(move |p| (m, 0, p)));
            let end = run(&plan, places().map(|at| (at, 1 << at.0)).collect());
            assert_eq!(end, places().map(|at| (at, all)).collect());
            let sent: usize = plan.rounds.iter().map(Vec::len).sum();
            assert_eq!(sent, 2 * (members.len() - 1) * plan.pieces as usize, "up and down each edge once");
            if waiting == Waiting::WhenNeeded {
                one_to_each(&plan);
            }
        }
    }
}

/// With more pieces the last rounds, in which edges are idle, matter less: up and down overlap.
#[test]
fn pieces_fill_the_edges() {
    let network = topologies::grid(&[4, 4], false).network();
    let packing = pack_spanning_trees(&network).expect("trees");
    for waiting in WAITING {
        let share = |cuts: u64| {
            let plan = tree_rounds(&packing, PieceNumber::Fixed(cuts), 1e9, &timing(&network), waiting)
                .expect("rounds");
            plan.least_ns / plan.ns
        };
        assert!(share(1) < share(8) && share(8) < share(32));
        assert!(share(32) > 0.9, "{}", share(32));
    }
}

/// Deep trees are cut into more pieces than usual where these gain much, and into no more where
/// data is small.
#[test]
fn more_messages_than_usual_must_gain_much() {
    let network = topologies::grid(&[8, 8], true).network();
    let times = timing(&network);
    let packing = pack_trees(&network, TreeCollective::Broadcast { root: 0 }).expect("trees");
    let (usual, most) = (4096, 32_768);
    for waiting in WAITING {
        let plan = |pieces, bytes| tree_rounds(&packing, pieces, bytes, &times, waiting).expect("plan");
        for bytes in [1e6, 1e9] {
            let few = plan(PieceNumber::FastestUpTo(usual), bytes);
            let more = plan(PieceNumber::FastestAbout { usual, most }, bytes);
            if few.cuts == more.cuts {
                assert!(bytes < 1e9, "{waiting:?}: {} pieces", few.cuts);
                continue;
            }
            let doubled = (more.cuts / few.cuts).ilog2() as i32;
            assert!(more.cuts > few.cuts && more.rounds.iter().map(Vec::len).sum::<usize>() <= most);
            assert!(more.ns < few.ns * 0.97f64.powi(doubled), "{waiting:?}: {} and {}", more.ns, few.ns);
        }
    }
}

#[test]
fn the_number_of_pieces_follows_the_bytes() {
    let network = topologies::grid(&[4, 4], true).network();
    let times = timing(&network);
    let (packing, gather) = (pack_spanning_trees(&network), pack_trees(&network, TreeCollective::AllGather));
    let (packing, gather) = (packing.expect("trees"), gather.expect("trees"));
    for waiting in WAITING {
        let fastest = |bytes| {
            tree_rounds(&packing, PieceNumber::FastestUpTo(8192), bytes, &times, waiting).expect("plan")
        };
        let plans: Vec<RoundPlan> = [1e3, 3e4, 1e9].into_iter().map(fastest).collect();
        assert_eq!(plans[0].cuts, 1);
        assert!(plans[1].cuts <= plans[2].cuts && plans[2].cuts > 1);
        for (plan, bytes) in plans.iter().zip([1e3, 3e4, 1e9]) {
            assert!(plan.rounds.iter().map(Vec::len).sum::<usize>() <= 8192);
            for cuts in [1, 4] {
                let other =
                    tree_rounds(&packing, PieceNumber::Fixed(cuts), bytes, &times, waiting).expect("plan");
                // A larger number must gain 2 %.
                assert!(plan.ns <= other.ns * 1.05, "{bytes} bytes in {cuts} pieces");
            }
        }
        let few = tree_rounds(&gather, PieceNumber::FastestUpTo(960), 1e9, &times, waiting).expect("plan");
        assert!(few.rounds.iter().map(Vec::len).sum::<usize>() <= 960);
        let refused = Err(SynthesisError::Overflow { what: "the number of messages" });
        assert_eq!(tree_rounds(&gather, PieceNumber::FastestUpTo(100), 1e9, &times, waiting), refused);
    }
}

#[test]
fn too_many_messages_are_refused() {
    let network = topologies::ring(6).network();
    let times = timing(&network);
    let packing = pack_trees(&network, TreeCollective::AllGather).expect("trees");
    let refused = SynthesisError::Overflow { what: "the number of messages" };
    let rounds = |cuts| tree_rounds(&packing, PieceNumber::Fixed(cuts), BYTES, &times, Waiting::WhenNeeded);
    assert_eq!(rounds(1 << 40), Err(refused));
    assert_eq!(rounds(u64::MAX), Err(refused));
    assert_eq!(rounds(0), Err(SynthesisError::ZeroPieces));
    let packing = pack_spanning_trees(&network).expect("trees");
    assert_eq!(
        tree_rounds(&packing, PieceNumber::Fixed(u64::MAX), BYTES, &times, Waiting::WhenNeeded),
        Err(refused)
    );
}

#[test]
fn what_is_no_time_is_refused() {
    let network = topologies::ring(4).network();
    let packing = pack_spanning_trees(&network).expect("trees");
    let refused = |bytes, change: fn(&mut EdgeTiming), what| {
        let mut times = timing(&network);
        change(&mut times[1]);
        let plan = tree_rounds(&packing, PieceNumber::Fixed(1), bytes, &times, Waiting::WhenNeeded);
        assert_eq!(plan, Err(SynthesisError::NotATime { what }));
    };
    refused(f64::NAN, |_| {}, "the number of bytes");
    refused(-1.0, |_| {}, "the number of bytes");
    refused(1.0, |e| e.latency_ns = -1.0, "a latency");
    refused(1.0, |e| e.ns_per_byte = f64::INFINITY, "the time of a byte");
}

/// A machine without latencies, and a collective without data, have plans like all others.
#[test]
fn no_time_is_a_time() {
    let network = topologies::grid(&[3, 3], false).network();
    let packing = pack_trees(&network, TreeCollective::ReduceScatter).expect("trees");
    let mut times = timing(&network);
    times.iter_mut().for_each(|e| e.latency_ns = 0.0);
    for (bytes, waiting) in [0.0, 1.0].into_iter().flat_map(|b| WAITING.map(|w| (b, w))) {
        let plan = tree_rounds(&packing, PieceNumber::Fixed(2), bytes, &times, waiting).expect("rounds");
        assert_eq!(plan.ns > 0.0, bytes > 0.0);
        let mut held = Holdings::new();
        for (m, r) in (0..9).flat_map(|m| (0..9).map(move |r| (m, r))) {
            held.extend((0..plan.pieces).map(|p| ((m, r, p), 1 << m)));
        }
        plan.rounds.iter().for_each(|round| execute(round, &mut held));
        assert!((0..9).all(|r| (0..plan.pieces).all(|p| held[&(r, r, p)] == 0x1ff)));
    }
}

/// A packing is plain data, which anybody can make. One that does not fit together is an error.
#[test]
fn parts_that_do_not_fit_are_refused() {
    let network = topologies::ring(4).network();
    let refused = Err(SynthesisError::Inconsistent { step: "the rounds" });
    let times = timing(&network);
    let rounds = |packing: &TreePacking, times| {
        tree_rounds(packing, PieceNumber::Fixed(1), BYTES, times, Waiting::WhenNeeded)
    };
    let mut packing = pack_trees(&network, TreeCollective::AllGather).expect("trees");
    let whole = packing.clone();
    assert_eq!(rounds(&packing, &times[1..]), refused, "an edge without times");
    packing.classes[0].edges[0].routes.clear();
    assert_eq!(rounds(&packing, &times), refused, "an edge without a route");
    packing.classes[0].edges[0].routes = whole.classes[0].edges[0].routes.clone();
    packing.classes[0].edges[0].routes[0].nodes.truncate(1);
    assert_eq!(rounds(&packing, &times), refused, "a route that ends where it begins");
}
