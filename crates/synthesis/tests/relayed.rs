//! A number of spanning trees, on networks with and without switches.

use crate::checker::check_spanning;
use crate::topologies::{Dice, Sketch, boxes, grid, h100, mi250, random, random_regular};
use kbc_synthesis::{ExactRatio, Network, SynthesisError, pack_some_spanning_trees, pack_spanning_trees};

/// Members on one switch, with links of these capacities.
fn star(capacities: &[u64]) -> Sketch {
    let mut s = Sketch::of_members(capacities.len());
    let hub = s.switch();
    capacities.iter().enumerate().for_each(|(v, &c)| s.link(v, hub, c));
    s
}

fn rate(network: &Network, trees: u64, name: &str) -> ExactRatio {
    let packing = pack_some_spanning_trees(network, trees).expect(name);
    assert_eq!(packing.trees, u128::from(trees), "{name}");
    check_spanning(network, &packing).unwrap_or_else(|e| panic!("{name}: {e}"));
    packing.rate
}

/// Returns the best bound by a partition of all nodes: a tree crosses between the parts that have
/// members once less than there are such parts.
fn bound(network: &Network) -> f64 {
    let (n, members) = (network.nodes(), network.members());
    let mut best = f64::INFINITY;
    let mut part = vec![0; n];
    loop {
        let crossing: u64 = network
            .edges()
            .iter()
            .filter(|e| e.from < e.to && part[e.from] != part[e.to])
            .map(|e| e.capacity)
            .sum();
        let mut with_members: Vec<usize> = members.iter().map(|&m| part[m]).collect();
        with_members.sort_unstable();
        with_members.dedup();
        if with_members.len() > 1 {
            best = best.min(crossing as f64 / (with_members.len() as f64 - 1.0));
        }
        // The next partition: a part has a number of at most 1 more than those before it.
        let most = |at: usize| part[..at].iter().max().map_or(0, |m| m + 1);
        let Some(at) = (1..n).rev().find(|&at| part[at] < most(at)) else { return best };
        part[at] += 1;
        part[at + 1..].fill(0);
    }
}

/// On a star a slow member is a leaf of every tree, so it does not slow the others down. A
/// reduce-scatter and an all-gather would take twice the time.
#[test]
fn slow_members_of_a_star_are_leaves() {
    let rates = |of: &[u64], n: usize| (0..n).map(|i| of[i % of.len()]).collect::<Vec<u64>>();
    for (name, capacities, most) in [
        ("9 members", rates(&[4, 2, 1], 9), 1),
        ("17 members", rates(&[4, 2, 1], 17), 1),
        ("one fast member", [vec![20], vec![1; 20]].concat(), 1),
    ] {
        for trees in [4, 8, 16] {
            let found = rate(&star(&capacities).network(), trees, name);
            assert_eq!(Some(found), ExactRatio::new(most, 1), "{name}, {trees} trees");
        }
    }
}

/// Boxes of ForestColl. Half of each of two boxes of MI250 carries 208 in an all-gather, so 104 in
/// an all-reduce by reduce-scatter and all-gather, and 128 by spanning trees, which is the capacity
/// of the cards.
#[test]
fn boxes_are_near_their_bound() {
    let (half, h100, slow) = (mi250(2, 8).network(), h100(2).network(), boxes(3, 4, 9, 2).network());
    assert_eq!(Some(rate(&half, 8, "half boxes of MI250")), ExactRatio::new(128, 1));
    // 266 2/3 is the rate of a reduce-scatter and an all-gather, and the bound.
    assert!(rate(&h100, 32, "two boxes of H100").to_f64() > 0.96 * 800.0 / 3.0);
    assert!(rate(&slow, 16, "boxes on slow cards").to_f64() >= 16.0 / 3.0);
}

/// Without switches the strength is known exactly.
#[test]
fn the_strength_is_nearly_reached() {
    let mut dice = Dice(3);
    let mut sum = 0.0;
    for i in 0..60 {
        let sketch = match i % 3 {
            0 => random_regular(&mut dice, 8 + 2 * (i % 5), 3),
            1 => grid(&[2 + i % 4, 3], i % 2 == 0),
            _ => random(&mut dice, 3 + i % 9, 0, 9, 0),
        };
        let network = sketch.network();
        let best = pack_spanning_trees(&network).expect("connected").rate.to_f64();
        let found = rate(&network, 48, "a network").to_f64();
        assert!(found <= best * (1.0 + 1e-12), "network {i}: {found} is above the strength {best}");
        assert!(found >= 0.85 * best, "network {i}: {found} of {best}");
        sum += found / best;
    }
    assert!(sum > 0.97 * 60.0, "mean share {}", sum / 60.0);
}

/// With switches no partition is crossed more often than it allows.
#[test]
fn no_rate_is_above_a_partition() {
    let mut dice = Dice(8);
    let mut sum = 0.0;
    for i in 0..60 {
        let (members, switches) = (2 + dice.below(5), 1 + dice.below(2));
        let network = random(&mut dice, members, switches, [1, 3, 20][i % 3], 0).network();
        let found = rate(&network, 32, "a network").to_f64();
        let most = bound(&network);
        assert!(found <= most * (1.0 + 1e-12), "network {i}: {found} is above {most}");
        sum += found / most;
    }
    assert!(sum > 0.97 * 60.0, "mean share {}", sum / 60.0);
}

#[test]
fn impossible_requests_are_rejected() {
    let network = star(&[1, 1]).network();
    assert_eq!(pack_some_spanning_trees(&network, 0), Err(SynthesisError::ZeroTrees));
    let what = "the number of trees";
    assert_eq!(pack_some_spanning_trees(&network, u64::MAX), Err(SynthesisError::Overflow { what }));
    let two = Network::new(4, [(0, 1, 1), (1, 0, 1), (2, 3, 1), (3, 2, 1)], 0..4).expect("a network");
    assert_eq!(pack_some_spanning_trees(&two, 2), Err(SynthesisError::Unreachable { from: 0, to: 2 }));
    let unequal = Network::new(3, [(0, 2, 1), (2, 0, 2), (1, 2, 1), (2, 1, 1)], 0..2).expect("a network");
    assert_eq!(
        pack_some_spanning_trees(&unequal, 2),
        Err(SynthesisError::UnequalDirections { from: 0, to: 2 })
    );
}
