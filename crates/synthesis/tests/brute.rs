//! The best rate found in a second way: over all cuts and all partitions of small networks.

use crate::checker::{check, check_spanning};
use crate::topologies::{Dice, Sketch, random};
use kbc_synthesis::{
    ExactRatio, Network, SynthesisError, TreeCollective, best_rate, pack_some_trees, pack_spanning_trees,
    pack_trees,
};

/// Returns the smallest of (capacity that leaves S) / (weight of S) over all sets S of nodes.
fn best_by_cuts(network: &Network, weight: impl Fn(usize) -> u128) -> ExactRatio {
    let mut best: Option<ExactRatio> = None;
    for set in 0..1usize << network.nodes() {
        let inside = |v: usize| set >> v & 1 == 1;
        if network.members().iter().all(|&m| inside(m)) {
            continue;
        }
        let leaves = network.edges().iter().filter(|e| inside(e.from) && !inside(e.to));
        let capacity = leaves.map(|e| u128::from(e.capacity)).sum();
        let sent = network.members().iter().filter(|m| inside(**m)).map(|&m| weight(m)).sum();
        let Some(ratio) = ExactRatio::new(capacity, sent) else { continue };
        if best.is_none_or(|b| ratio < b) {
            best = Some(ratio);
        }
    }
    best.expect("some set has a root")
}

/// Calls `each` for every partition of `0..n`, given as the part of each node.
fn partitions(n: usize, parts: &mut Vec<usize>, used: usize, each: &mut impl FnMut(&[usize], usize)) {
    if parts.len() == n {
        return each(parts, used);
    }
    for p in 0..=used {
        parts.push(p);
        partitions(n, parts, used.max(p + 1), each);
        parts.pop();
    }
}

fn strength_by_partitions(network: &Network) -> ExactRatio {
    let mut best: Option<ExactRatio> = None;
    partitions(network.nodes(), &mut vec![], 0, &mut |parts, count| {
        let between = network.edges().iter().filter(|e| e.from < e.to && parts[e.from] != parts[e.to]);
        let crossing = between.map(|e| u128::from(e.capacity)).sum();
        // A single part has no ratio.
        if let Some(ratio) = ExactRatio::new(crossing, count as u128 - 1)
            && best.is_none_or(|b| ratio < b)
        {
            best = Some(ratio);
        }
    });
    best.expect("a partition")
}

/// Checks all collectives with the best and with given numbers of trees. Returns whether trees
/// could be packed.
fn agrees(sketch: &Sketch, trees: &[u64], what: &str) -> bool {
    let network = sketch.network();
    let reversed = network.reversed();
    let root = network.members()[network.members().len() / 2];
    let only = |m: usize| u128::from(m == root);
    let rows = [
        (TreeCollective::AllGather, best_by_cuts(&network, |_| 1)),
        (TreeCollective::ReduceScatter, best_by_cuts(&reversed, |_| 1)),
        (TreeCollective::Broadcast { root }, best_by_cuts(&network, only)),
        (TreeCollective::Reduce { root }, best_by_cuts(&reversed, only)),
    ];
    let mut packed = true;
    for (collective, best) in rows {
        if best.numerator() == 0 {
            let error = pack_trees(&network, collective).expect_err(what);
            assert!(matches!(error, SynthesisError::Unreachable { .. }), "{what}: {error}");
            continue;
        }
        assert_eq!(best_rate(&network, collective).expect(what).rate, best, "{what}: {collective:?}");
        match pack_trees(&network, collective) {
            Ok(packing) => {
                assert_eq!(packing.rate, best, "{what}");
                check(&network, collective, None, &packing).expect(what);
            }
            Err(SynthesisError::UnbalancedSwitch { .. }) => packed = false,
            Err(error) => panic!("{what}: {error}"),
        }
        for &k in trees {
            match pack_some_trees(&network, collective, k) {
                Ok(packing) => {
                    assert!(packing.rate <= best, "{what}");
                    check(&network, collective, Some(k), &packing).expect(what);
                }
                Err(SynthesisError::UnbalancedSwitch { .. }) => packed = false,
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    packed
}

#[test]
fn random_networks_of_members() {
    let mut dice = Dice(1);
    for i in 0..150 {
        let members = 2 + dice.below(6);
        let most = [1, 3, 20, 1_000_000_007][i % 4];
        let one_way = dice.below(4);
        let s = random(&mut dice, members, 0, most, one_way);
        assert!(agrees(&s, &[1, 3], &format!("network {i}")), "network {i} has no switch");
    }
}

#[test]
fn random_networks_with_switches() {
    let mut dice = Dice(2);
    for i in 0..150 {
        let (members, switches) = (2 + dice.below(4), 1 + dice.below(4));
        let most = [1, 4, 30][i % 3];
        let one_way = dice.below(3);
        let s = random(&mut dice, members, switches, most, one_way);
        assert!(agrees(&s, &[1, 2, 5], &format!("network {i}")), "network {i} is balanced");
    }
}

/// Groups: the other devices only forward. Also networks from which links were removed.
#[test]
fn groups_and_removed_links() {
    let mut dice = Dice(3);
    for i in 0..100 {
        let mut s = random(&mut dice, 7, 1, 6, 0);
        s.members.retain(|_| dice.below(3) > 0);
        for _ in 0..dice.below(3) {
            let (u, v, _) = s.edges[dice.below(s.edges.len())];
            s.unlink(u, v);
        }
        if s.members.len() >= 2 {
            assert!(agrees(&s, &[1, 4], &format!("network {i}")), "network {i} is balanced");
        }
    }
}

/// Switches with unequal capacity in and out: the rate is exact, and trees are either sound or
/// refused.
#[test]
fn unbalanced_switches() {
    let mut dice = Dice(4);
    let mut packed = 0;
    for i in 0..100 {
        let mut s = random(&mut dice, 5, 3, 5, 0);
        for _ in 0..3 {
            let at = dice.below(s.edges.len());
            s.edges[at].2 += 1 + dice.next() % 4;
        }
        packed += usize::from(agrees(&s, &[2], &format!("network {i}")));
    }
    assert!(packed >= 70, "{packed} of 100");
}

#[test]
fn spanning_trees_of_random_networks() {
    let mut dice = Dice(5);
    for i in 0..150 {
        let members = 2 + dice.below(6);
        let network = random(&mut dice, members, 0, [1, 2, 9, 1_000_000_007][i % 4], 0).network();
        let packing = pack_spanning_trees(&network).expect("connected");
        assert_eq!(packing.rate, strength_by_partitions(&network), "network {i}");
        check_spanning(&network, &packing).unwrap_or_else(|e| panic!("network {i}: {e}"));
    }
}
