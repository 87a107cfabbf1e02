//! Rounds of packed trees, executed: who has what after each round, and what each edge carries.

use crate::topologies::{self, Sketch};
use kbc_synthesis::{
    Network, PieceMove, RoundPlan, SynthesisError, TreeCollective, pack_spanning_trees, pack_trees,
    spanning_rounds, tree_rounds,
};
use std::collections::BTreeMap;

/// What a node holds of a piece: the members whose contributions it contains, as bits. The key is
/// (node, root, piece).
type Holdings = BTreeMap<(usize, usize, u64), u64>;

/// Executes a round: all messages read the state before it.
fn execute(round: &[PieceMove], held: &mut Holdings) {
    let before = held.clone();
    let mut written = std::collections::BTreeSet::new();
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
    assert!(plan.rounds.len() as u128 >= plan.least, "no fewer rounds than the busiest edge needs");
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
    let switched = [topologies::star(6, 2)];
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

#[test]
fn every_piece_arrives_once() {
    for (sketch, direct) in networks() {
        let network = sketch.network();
        let members = network.members().to_vec();
        for collective in [TreeCollective::AllGather, TreeCollective::Broadcast { root: members[1] }] {
            for cuts in [1, 3] {
                let packing = pack_trees(&network, collective).expect("trees");
                let plan = tree_rounds(&packing, cuts).expect("rounds");
                let roots: Vec<usize> = packing.roots.iter().map(|r| r.0).collect();
                let places = || roots.iter().flat_map(|&r| (0..plan.pieces).map(move |p| (r, p)));
                let start = places().map(|(r, p)| ((r, r, p), 1 << r)).collect();
                let mut want = Holdings::new();
                for &m in &members {
                    want.extend(places().map(|(r, p)| ((m, r, p), 1u64 << r)));
                }
                assert_eq!(run(&plan, start), want, "{collective:?}");
                let sent: usize = plan.rounds.iter().map(Vec::len).sum();
                assert_eq!(sent, want.len() - places().count(), "nothing arrives twice");
                // Each piece of the data of a root has the same length, so a scale of several
                // trees per unit is several pieces at once.
                if direct && packing.loads.iter().all(|l| l.limit % packing.loads[0].limit == 0) {
                    within_capacity(&network, &plan);
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
        for collective in [TreeCollective::ReduceScatter, TreeCollective::Reduce { root: members[1] }] {
            let packing = pack_trees(&network, collective).expect("trees");
            let plan = tree_rounds(&packing, 2).expect("rounds");
            let roots: Vec<usize> = packing.roots.iter().map(|r| r.0).collect();
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

#[test]
fn an_all_reduce_goes_up_and_down() {
    for (sketch, _) in networks().into_iter().filter(|n| n.1) {
        let network = sketch.network();
        let members = network.members().to_vec();
        let all: u64 = members.iter().map(|m| 1 << m).sum();
        let packing = pack_spanning_trees(&network).expect("trees");
        for cuts in [1, 4] {
            let plan = spanning_rounds(&packing, cuts).expect("rounds");
            let places = || members.iter().flat_map(|&m| (0..plan.pieces).map(move |p| (m, 0, p)));
            let end = run(&plan, places().map(|at| (at, 1 << at.0)).collect());
            assert_eq!(end, places().map(|at| (at, all)).collect());
        }
    }
}

/// With more pieces the last rounds, in which edges are idle, matter less: up and down overlap.
#[test]
fn pieces_fill_the_edges() {
    let network = topologies::grid(&[4, 4], false).network();
    let packing = pack_spanning_trees(&network).expect("trees");
    let share = |cuts: u64| {
        let plan = spanning_rounds(&packing, cuts).expect("rounds");
        plan.least as f64 / plan.rounds.len() as f64
    };
    assert!(share(1) < share(8) && share(8) < share(32));
    assert!(share(32) > 0.9, "{}", share(32));
}

#[test]
fn too_many_messages_are_refused() {
    let network = topologies::ring(6).network();
    let packing = pack_trees(&network, TreeCollective::AllGather).expect("trees");
    let refused = SynthesisError::Overflow { what: "the number of messages" };
    assert_eq!(tree_rounds(&packing, 1 << 40), Err(refused));
    assert_eq!(tree_rounds(&packing, u64::MAX), Err(refused));
    let packing = pack_spanning_trees(&network).expect("trees");
    assert_eq!(spanning_rounds(&packing, u64::MAX), Err(refused));
}

/// A packing is plain data, which anybody can make. One that does not fit together is an error.
#[test]
fn parts_that_do_not_fit_are_refused() {
    let network = topologies::ring(4).network();
    let refused = Err(SynthesisError::Inconsistent { step: "the rounds" });
    let mut packing = pack_trees(&network, TreeCollective::AllGather).expect("trees");
    let whole = packing.clone();
    packing.loads.retain(|l| (l.from, l.to) != (0, 1));
    assert_eq!(tree_rounds(&packing, 1), refused, "an edge without a load");
    packing.clone_from(&whole);
    packing.classes[0].edges[0].routes.clear();
    assert_eq!(tree_rounds(&packing, 1), refused, "an edge without a route");
    packing.classes[0].edges[0].routes = whole.classes[0].edges[0].routes.clone();
    packing.classes[0].edges[0].routes[0].nodes.truncate(1);
    assert_eq!(tree_rounds(&packing, 1), refused, "a route that ends where it begins");
}
