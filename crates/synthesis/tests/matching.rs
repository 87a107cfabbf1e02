//! Matched trees: every rank gets everything once, no edge carries two messages at a time, time
//! runs the same both ways, and the plans are right.

#![allow(clippy::print_stderr, reason = "the figures are for a reader")]

use crate::streams::{Waits, simulate, timing};
use crate::topologies::{self, Dice, Sketch, random, random_regular};
use kbc_synthesis::{
    EdgeTiming, MatchedRoots, MatchedTree, Matching, Network, PieceMove, PieceNumber, RoundPlan,
    SynthesisError, TreeCollective, Waiting, best_rate, match_all_reduce, match_moves, match_trees,
    pack_some_trees, pack_spanning_trees, pack_trees, tree_rounds,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Checks that the edges of a tree lead from its root to all members, each once, over edges of the
/// network. Backwards, they lead to the root.
fn spans(network: &Network, tree: &MatchedTree, backwards: bool) {
    let mut reached = BTreeSet::from([tree.root]);
    for edge in &tree.edges {
        let (near, far) = if backwards { (edge.to, edge.from) } else { (edge.from, edge.to) };
        assert!(reached.contains(&near), "what is sent is held");
        assert!(reached.insert(far), "nothing arrives twice");
        for w in edge.nodes().windows(2) {
            assert!(network.edges().iter().any(|e| (e.from, e.to) == (w[0], w[1])), "an edge");
        }
        assert!(edge.through.iter().all(|n| !network.members().contains(n)), "switches forward");
    }
    assert_eq!(reached.into_iter().collect::<Vec<_>>(), network.members(), "all are reached");
}

/// Checks the times of a matching: a message is sent when its sender has the piece, and no edge
/// carries two at a time. Times are rounded to 1e-10 of the longest.
fn on_time(found: &Matching, times: &[EdgeTiming], bytes: f64) {
    let up = !found.up.is_empty();
    let trees = if up { &found.up } else { &found.down };
    let time: BTreeMap<(usize, usize), &EdgeTiming> = times.iter().map(|e| ((e.from, e.to), e)).collect();
    let piece = bytes / found.trees as f64;
    let near = |a: f64, b: f64| a - b < 1e-8 * found.ns.max(1.0);
    let mut uses: BTreeMap<(usize, usize), Vec<(f64, f64)>> = BTreeMap::new();
    let mut arrived: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    let mut last = 0.0f64;
    assert_eq!(found.passages.len(), trees.iter().map(|t| t.edges.len()).sum::<usize>());
    for p in &found.passages {
        assert!(near(last, p.sent_ns), "in the order in which they are sent");
        last = p.sent_ns;
        let edge = &trees[p.tree].edges[p.edge];
        let there = arrived.get(&(p.tree, edge.from)).copied().unwrap_or(0.0);
        assert!(near(there, p.sent_ns), "sent at {} what arrives at {there}", p.sent_ns);
        let latest = arrived.entry((p.tree, edge.to)).or_insert(0.0);
        *latest = latest.max(p.arrived_ns);
        assert!(p.arrived_ns <= found.ns * (1.0 + 1e-9));
        let hops: Vec<(usize, usize)> = edge.nodes().windows(2).map(|w| (w[0], w[1])).collect();
        // Backwards, the tail of a message is what the matching calls its head.
        let mut head = if up { p.arrived_ns } else { p.sent_ns };
        for hop in if up { hops.into_iter().rev().collect() } else { hops } {
            let busy = piece * time[&hop].ns_per_byte;
            let used = if up { (head - busy, head) } else { (head, head + busy) };
            uses.entry(hop).or_default().push(used);
            head += if up { -time[&hop].latency_ns } else { time[&hop].latency_ns };
        }
    }
    for (edge, mut used) in uses {
        used.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(used.windows(2).all(|w| near(w[0].1, w[1].0)), "two at a time on {edge:?}: {used:?}");
    }
}

/// Returns the route of each message of a plan.
fn routes(found: &Matching, cuts: u64) -> impl Fn(&PieceMove) -> Vec<usize> {
    let mut known: BTreeMap<(usize, u64, bool, usize, usize), Vec<usize>> = BTreeMap::new();
    let whole = !found.up.is_empty() && !found.down.is_empty();
    for (classes, reduce) in [(&found.up, true), (&found.down, false)] {
        let mut trees: BTreeMap<usize, u64> = BTreeMap::new();
        for class in classes {
            let root = if whole { 0 } else { class.root };
            let tree = trees.entry(root).or_insert(0);
            for e in &class.edges {
                known.insert((root, *tree, reduce, e.from, e.to), e.nodes());
            }
            *tree += 1;
        }
    }
    move |m| known[&(m.root, m.piece / cuts, m.reduce, m.from, m.to)].clone()
}

/// Executes a plan and checks what every member has at the end. A contribution is a bit.
fn right(network: &Network, found: &Matching, plan: &RoundPlan) {
    let members = network.members();
    let (up, down) = (!found.up.is_empty(), !found.down.is_empty());
    let trees = if up { &found.up } else { &found.down };
    let mut held: BTreeMap<(usize, usize, u64), BTreeSet<usize>> = BTreeMap::new();
    let roots: BTreeSet<usize> = if up && down { [0].into() } else { trees.iter().map(|t| t.root).collect() };
    let places = || roots.iter().flat_map(|&r| (0..plan.pieces).map(move |p| (r, p)));
    for (r, p) in places() {
        for &m in members.iter().filter(|&&m| up || m == r) {
            held.insert((m, r, p), [m].into());
        }
    }
    for round in &plan.rounds {
        let before = held.clone();
        for m in round {
            let sent = before.get(&(m.from, m.root, m.piece)).expect("what is sent is held");
            let place = held.entry((m.to, m.root, m.piece)).or_default();
            if m.reduce {
                assert!(place.is_disjoint(sent), "nothing is added twice: {m:?}");
                place.extend(sent);
            } else {
                *place = sent.clone();
            }
        }
    }
    let all: BTreeSet<usize> = members.iter().copied().collect();
    for (r, p) in places() {
        for &m in members.iter().filter(|&&m| down || m == r) {
            let want = if up { all.clone() } else { [r].into() };
            assert_eq!(held[&(m, r, p)], want, "member {m}, root {r}, piece {p}");
        }
    }
}

/// Networks of all kinds with times of all kinds.
fn varied(dice: &mut Dice) -> (Network, Vec<EdgeTiming>) {
    let most = [1, 2, 10, 1000][dice.below(4)];
    let sketch = match dice.below(4) {
        0 => topologies::fat_tree(1 + dice.below(4), 2 + dice.below(3), 1 + dice.below(3), 2, 3),
        1 => topologies::boxes(2, 2 + dice.below(4), 9, 1),
        _ => {
            let (members, switches, one_way) = (2 + dice.below(12), dice.below(5), dice.below(4));
            random(dice, members, switches, most, one_way)
        }
    };
    let network = sketch.network();
    let mut times = timing(&network);
    if dice.below(2) == 0 {
        times.iter_mut().for_each(|e| e.latency_ns = (dice.next() % 3000) as f64);
    }
    (network, times)
}

#[test]
fn every_network_is_matched() {
    let mut dice = Dice(2024);
    for i in 0..300 {
        let (network, times) = varied(&mut dice);
        let members = network.members().to_vec();
        let root = members[dice.below(members.len())];
        let all = [
            TreeCollective::AllGather,
            TreeCollective::ReduceScatter,
            TreeCollective::Broadcast { root },
            TreeCollective::Reduce { root },
        ];
        let (collective, trees) = (all[dice.below(4)], 1 + dice.next() % 5);
        let bytes = [0.0, 100.0, 1e6][dice.below(3)];
        let found = match_trees(&network, &times, collective, trees, bytes).expect("trees");
        assert_eq!(found, match_trees(&network, &times, collective, trees, bytes).expect("trees"));
        found.down.iter().for_each(|t| spans(&network, t, false));
        found.up.iter().for_each(|t| spans(&network, t, true));
        on_time(&found, &times, bytes);
        for (waiting, cuts) in [(Waiting::WhenNeeded, 1), (Waiting::WhenNeeded, 3), (Waiting::EachRound, 2)] {
            let plan = tree_rounds(&found, PieceNumber::Fixed(cuts), bytes, &times, waiting).expect("a plan");
            assert_eq!((plan.cuts, plan.pieces), (cuts, trees * cuts), "network {i}");
            right(&network, &found, &plan);
            let piece = bytes / plan.pieces as f64;
            let waits = if waiting == Waiting::WhenNeeded { Waits::Message } else { Waits::EarlierRounds };
            let ns = simulate(&plan, &times, piece, waits, routes(&found, cuts));
            let direct = network.nodes() == members.len();
            // Messages that come to a switch at the same time have no order.
            let most = if direct { 0.01 } else { 0.1 };
            assert!((plan.ns - ns).abs() <= most * ns, "network {i}: {ns} ns, planned {} ns", plan.ns);
            if cuts == 1 && waiting == Waiting::WhenNeeded {
                // Messages in the order of the matching are not later, whatever else is tried. At
                // switches members do not know when others send, and may come before them.
                let most = if direct { 1.001 } else { 1.5 };
                assert!(plan.ns <= found.ns * most, "network {i}: {} {}", plan.ns, found.ns);
            }
        }
    }
}

#[test]
fn all_reduces_are_matched() {
    let mut dice = Dice(7);
    for i in 0..100 {
        let (network, times) = varied(&mut dice);
        let (trees, bytes) = (1 + dice.next() % 9, [100.0, 1e6][dice.below(2)]);
        for at in [MatchedRoots::Central, MatchedRoots::All] {
            let found = match_all_reduce(&network, &times, at, trees, bytes).expect("trees");
            assert_eq!(found, match_all_reduce(&network, &times, at, trees, bytes).expect("trees"));
            found.down.iter().for_each(|t| spans(&network, t, false));
            found.up.iter().for_each(|t| spans(&network, t, true));
            let roots = |trees: &[MatchedTree]| trees.iter().map(|t| t.root).collect::<Vec<_>>();
            assert_eq!(roots(&found.up), roots(&found.down));
            for (waiting, cuts) in [(Waiting::WhenNeeded, 2), (Waiting::EachRound, 1)] {
                let plan =
                    tree_rounds(&found, PieceNumber::Fixed(cuts), bytes, &times, waiting).expect("a plan");
                right(&network, &found, &plan);
                let piece = bytes / plan.pieces as f64;
                let waits =
                    if waiting == Waiting::WhenNeeded { Waits::Message } else { Waits::EarlierRounds };
                let ns = simulate(&plan, &times, piece, waits, routes(&found, cuts));
                let most = if network.nodes() == network.members().len() { 0.01 } else { 0.1 };
                assert!((plan.ns - ns).abs() <= most * ns, "network {i}: {ns} ns, planned {} ns", plan.ns);
            }
        }
    }
}

/// A reduce-scatter is an all-gather of which time runs backwards on the network turned around.
#[test]
fn time_runs_both_ways() {
    let mut dice = Dice(31);
    for _ in 0..60 {
        let (network, times) = varied(&mut dice);
        let turn = |e: &EdgeTiming| EdgeTiming { from: e.to, to: e.from, ..*e };
        let turned: Vec<EdgeTiming> = times.iter().map(turn).collect();
        let root = network.members()[0];
        for (there, back) in [
            (TreeCollective::AllGather, TreeCollective::ReduceScatter),
            (TreeCollective::Broadcast { root }, TreeCollective::Reduce { root }),
        ] {
            let there = match_trees(&network, &times, there, 2, 1e5).expect("trees");
            let back = match_trees(&network.reversed(), &turned, back, 2, 1e5).expect("trees");
            assert_eq!(there.ns, back.ns);
        }
    }
}

/// On links that are alike both ways, the moves of a collective are those of the one that leads
/// back.
#[test]
fn moves_serve_both_ways_where_links_are_alike() {
    let mut dice = Dice(5);
    let (mut alike, mut other) = (0, 0);
    let grid = topologies::grid(&[3, 4], false).network();
    let times = timing(&grid);
    let networks = (0..40).map(|_| varied(&mut dice)).chain([(grid, times)]);
    for (network, times) in networks {
        let root = network.members()[0];
        for (there, back) in [
            (TreeCollective::AllGather, TreeCollective::ReduceScatter),
            (TreeCollective::ReduceScatter, TreeCollective::AllGather),
            (TreeCollective::Broadcast { root }, TreeCollective::Reduce { root }),
        ] {
            let moves = match_moves(&network, &times, there, 3, 1e5).expect("moves");
            assert_eq!(moves.matching(), match_trees(&network, &times, there, 3, 1e5).expect("trees"));
            let time = |e: &EdgeTiming| (e.latency_ns, e.ns_per_byte);
            let same = times
                .iter()
                .all(|e| times.iter().any(|f| (f.from, f.to, time(f)) == (e.to, e.from, time(e))));
            match moves.reversed() {
                Some(found) => {
                    assert_eq!(found, match_trees(&network, &times, back, 3, 1e5).expect("trees"));
                    alike += 1;
                }
                None => {
                    assert!(!same);
                    other += 1;
                }
            }
        }
    }
    assert!(alike >= 3 && other >= 3, "{alike} {other}");
}

#[test]
fn what_cannot_be_matched_is_refused() {
    let network = topologies::ring(4).network();
    let times = timing(&network);
    let matched = |times: &[EdgeTiming], collective, trees, bytes| {
        match_trees(&network, times, collective, trees, bytes).err()
    };
    let gather = TreeCollective::AllGather;
    assert_eq!(matched(&times, gather, 0, 1.0), Some(SynthesisError::ZeroTrees));
    let many = Some(SynthesisError::Overflow { what: "the number of messages" });
    assert_eq!(matched(&times, gather, 1 << 40, 1.0), many);
    let lost = Some(SynthesisError::Inconsistent { step: "the matching" });
    assert_eq!(matched(&times[1..], gather, 1, 1.0), lost);
    let nan = Some(SynthesisError::NotATime { what: "the number of bytes" });
    assert_eq!(matched(&times, gather, 1, f64::NAN), nan);
    let outside = Some(SynthesisError::NodeOutOfRange { node: 9, nodes: 4 });
    assert_eq!(matched(&times, TreeCollective::Reduce { root: 9 }, 1, 1.0), outside);
    let one_way = Network::new(3, [(0, 1, 1), (1, 2, 1), (2, 1, 1)], 0..3).expect("a network");
    let cut = match_trees(&one_way, &timing(&one_way), gather, 1, 1.0);
    assert_eq!(cut.err(), Some(SynthesisError::Unreachable { from: 1, to: 0 }));
}

/// At small sizes the farthest member is what counts: a matching is near its distance.
#[test]
fn small_pieces_take_the_shortest_time() {
    let network = topologies::grid(&[8, 8], false).network();
    let times = timing(&network);
    let found = match_trees(&network, &times, TreeCollective::AllGather, 1, 64.0).expect("trees");
    // 14 hops of 500 ns; the corners receive 63 blocks of 1.28 ns over two edges.
    assert!(found.ns >= 14.0 * 500.0 && found.ns < 14.0 * 500.0 + 60.0, "{}", found.ns);
    let found = match_all_reduce(&network, &times, MatchedRoots::Central, 4, 64.0).expect("trees");
    assert!(found.ns < 2.0 * 8.0 * 500.0 + 60.0, "{}", found.ns);
}

/// Each piece crosses between boxes once, although all devices of a box lack it.
#[test]
fn slow_links_wait_for_fast_ones() {
    let mut sketch = topologies::full(8);
    let other = topologies::full(8);
    sketch.nodes = 16;
    sketch.members = (0..16).collect();
    sketch.edges.iter_mut().for_each(|e| e.2 = 20);
    sketch.edges.extend(other.edges.iter().map(|&(u, v, _)| (u + 8, v + 8, 20)));
    (0..8).for_each(|v| sketch.link(v, v + 8, 1));
    let network = sketch.network();
    let found = match_trees(&network, &timing(&network), TreeCollective::AllGather, 1, 1e6).expect("trees");
    for tree in &found.down {
        let crossing = tree.edges.iter().filter(|e| e.from / 8 != e.to / 8).count();
        assert_eq!(crossing, 1, "the data of {}", tree.root);
    }
}

/// Machines of the figures, with links of 50 GB/s and 500 ns.
fn machines() -> Vec<(String, Sketch)> {
    let mut dice = Dice(5);
    let mut mixed = topologies::grid(&[4, 4], true);
    mixed.edges.iter_mut().filter(|e| e.0 / 4 == e.1 / 4).for_each(|e| e.2 = 4);
    let mut list = vec![
        ("mesh 3x3", topologies::grid(&[3, 3], false)),
        ("mesh 4x4", topologies::grid(&[4, 4], false)),
        ("mesh 8x8", topologies::grid(&[8, 8], false)),
        ("hypercube 4", topologies::hypercube(4)),
        ("torus 3x5", topologies::grid(&[3, 5], true)),
        ("torus 4x4x4", topologies::grid(&[4, 4, 4], true)),
        ("random 16/4", random_regular(&mut dice, 16, 4)),
        ("random 64/4", random_regular(&mut dice, 64, 4)),
        ("torus 4x4, rows of 200", mixed),
        ("4 boxes of 8, 450/50", topologies::h100(4)),
        ("fat tree 4x4, 2 spines", topologies::fat_tree(4, 4, 2, 1, 2)),
    ];
    // The first link fails, both ways.
    let failed: Vec<(&str, Sketch)> = list
        .iter()
        .filter(|m| m.1.nodes == m.1.members.len())
        .map(|(name, s)| {
            let mut s = s.clone();
            let (u, v, _) = s.edges[0];
            s.unlink(u, v);
            (*name, s)
        })
        .collect();
    list.push(("4 groups of 8", crate::reach::groups()));
    let list = list.into_iter().map(|(name, s)| (name.to_owned(), s));
    list.chain(failed.into_iter().map(|(n, s)| (format!("{n} -1 link"), s))).collect()
}

/// Bytes of the vector.
const SIZES: [f64; 4] = [65_536.0, 1_048_576.0, 16_777_216.0, 268_435_456.0];

fn fastest(
    network: &Network,
    times: &[EdgeTiming],
    bytes: f64,
    make: impl Fn(u64) -> Result<Matching, SynthesisError>,
) -> (u64, u64, f64, f64) {
    let mut best = (0, 0, f64::INFINITY, 0.0);
    let most = 16_384;
    for trees in (0..8).map(|i| 1 << i) {
        let Ok(found) = make(trees) else { break };
        let messages: usize = found.up.iter().chain(&found.down).map(|t| t.edges.len()).sum();
        if trees > 1 && messages > most {
            break;
        }
        let plan = tree_rounds(
            &found,
            PieceNumber::FastestUpTo(most.max(messages)),
            bytes,
            times,
            Waiting::WhenNeeded,
        );
        let plan = plan.expect("a plan");
        if plan.ns < best.2 {
            best = (trees, plan.cuts, plan.ns, found.ns);
        }
    }
    let _ = network;
    best
}

/// Run with `cargo test --release -p kbc-synthesis figures_of_matching -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
fn figures_of_matching() {
    let only = std::env::var("ONLY").unwrap_or_default();
    for (name, sketch) in machines().into_iter().filter(|m| m.0.contains(&only)) {
        let network = sketch.network();
        let times = timing(&network);
        let members = network.members().len() as f64;
        let gather = TreeCollective::AllGather;
        let rate = best_rate(&network, gather).expect("a rate").rate.to_f64() * 50.0;
        let broadcast = TreeCollective::Broadcast { root: 0 };
        let broadcast_rate = best_rate(&network, broadcast).expect("a rate").rate.to_f64() * 50.0;
        for bytes in SIZES {
            let most = 16_384;
            let packed = |collective, bytes: f64| {
                let full = pack_trees(&network, collective);
                let few = pack_some_trees(&network, collective, 1);
                let plan = |p: &_| {
                    let waiting = Waiting::WhenNeeded;
                    let plan = tree_rounds(p, PieceNumber::FastestUpTo(most), bytes, &times, waiting);
                    plan.map_or(f64::INFINITY, |p| p.ns)
                };
                full.into_iter().chain(few).map(|p| plan(&p)).fold(f64::INFINITY, f64::min)
            };
            let start = Instant::now();
            let trees = packed(gather, bytes / members);
            let packed_in = start.elapsed().as_secs_f64();
            let start = Instant::now();
            let found = fastest(&network, &times, bytes / members, |k| {
                match_trees(&network, &times, gather, k, bytes / members)
            });
            let seconds = start.elapsed().as_secs_f64();
            eprintln!(
                "{name}, {:>9} bytes, all-gather: trees {trees:10.0} ns ({packed_in:.2} s), matched {:10.0} ns \
                 ({}x{}, alone {:.0}, {seconds:.2} s), {:5.1} %; least {:.0}",
                bytes,
                found.2,
                found.0,
                found.1,
                found.3,
                100.0 * found.2 / trees,
                bytes / members / rate,
            );
            let trees = packed(broadcast, bytes);
            let found =
                fastest(&network, &times, bytes, |k| match_trees(&network, &times, broadcast, k, bytes));
            eprintln!(
                "{name}, {bytes:>9} bytes, broadcast: trees {trees:10.0} ns, matched {:10.0} ns ({}x{}, alone \
                 {:.0}), {:5.1} %; least {:.0}",
                found.2,
                found.0,
                found.1,
                found.3,
                100.0 * found.2 / trees,
                bytes / broadcast_rate,
            );
            let spanning = pack_spanning_trees(&network).map(|p| {
                let plan =
                    tree_rounds(&p, PieceNumber::FastestUpTo(most), bytes, &times, Waiting::WhenNeeded);
                (plan.map_or(f64::INFINITY, |p| p.ns), p.rate.to_f64() * 50.0)
            });
            let (trees, rate) =
                spanning.unwrap_or_else(|_| (2.0 * packed(gather, bytes / members), rate * members / 2.0));
            for at in [MatchedRoots::Central, MatchedRoots::All] {
                let start = Instant::now();
                let found =
                    fastest(&network, &times, bytes, |k| match_all_reduce(&network, &times, at, k, bytes));
                let seconds = start.elapsed().as_secs_f64();
                eprintln!(
                    "{name}, {bytes:>9} bytes, all-reduce {at:?}: trees {trees:10.0} ns, matched {:10.0} ns \
                     ({}x{}, {seconds:.2} s), {:5.1} %; least {:.0}",
                    found.2,
                    found.0,
                    found.1,
                    100.0 * found.2 / trees,
                    bytes / rate,
                );
            }
        }
    }
}

/// Run with `cargo test --release -p kbc-synthesis speed_of_matching -- --ignored --nocapture`.
#[test]
#[ignore = "prints times"]
fn speed_of_matching() {
    let machines = [
        ("mesh 8x8", topologies::grid(&[8, 8], false)),
        ("mesh 16x16", topologies::grid(&[16, 16], false)),
        ("mesh 32x32", topologies::grid(&[32, 32], false)),
        ("torus 8x8x8", topologies::grid(&[8, 8, 8], true)),
        ("8 boxes of 8", topologies::h100(8)),
        ("64 at a switch", topologies::star(64, 1)),
        ("512 at a switch", topologies::star(512, 1)),
        ("fat tree of 512", topologies::fat_tree(32, 16, 16, 1, 1)),
    ];
    for (name, sketch) in machines {
        let network = sketch.network();
        let times = timing(&network);
        let bytes = (1u64 << 30) as f64 / network.members().len() as f64;
        let start = Instant::now();
        let found = match_trees(&network, &times, TreeCollective::AllGather, 1, bytes).expect("trees");
        let seconds = start.elapsed().as_secs_f64();
        let rate = best_rate(&network, TreeCollective::AllGather).expect("a rate").rate.to_f64() * 50.0;
        let share = 100.0 * bytes / rate / found.ns;
        eprintln!(
            "{name}: {} moves in {seconds:.2} s, {:.0} ns, {share:.1} %",
            found.passages.len(),
            found.ns
        );
        let start = Instant::now();
        let plan =
            tree_rounds(&found, PieceNumber::Fixed(1), bytes, &times, Waiting::WhenNeeded).expect("a plan");
        let seconds = start.elapsed().as_secs_f64();
        eprintln!("  {} rounds in {seconds:.2} s, {:.0} ns", plan.rounds.len(), plan.ns);
    }
}
