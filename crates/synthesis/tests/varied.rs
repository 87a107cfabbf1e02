//! Many networks of all kinds, each checked: random graphs and fat trees, groups, removed links,
//! uneven directions, given numbers of trees.

use crate::checker::check;
use crate::topologies::{Dice, Sketch, fat_tree, random};
use kbc_synthesis::{SynthesisError, TreeCollective, pack_some_trees, pack_trees};

/// Returns a network, and whether every switch has as much capacity in as out.
fn varied(dice: &mut Dice) -> (Sketch, bool) {
    let most = [1, 2, 10, 1000, 1_000_000][dice.below(5)];
    let mut s = if dice.below(3) == 0 {
        let (down, up) = (1 + dice.next() % 4, 1 + dice.next() % 4);
        fat_tree(2 + dice.below(5), 1 + dice.below(5), 1 + dice.below(4), down, up)
    } else {
        let (members, switches) = (2 + dice.below(30), dice.below(12));
        random(dice, members, switches, most, 0)
    };
    if dice.below(3) == 0 {
        let last = dice.below(4);
        s.members.retain(|m| m % 4 <= last);
    }
    for _ in 0..dice.below(3) {
        let (u, v, _) = s.edges[dice.below(s.edges.len())];
        s.unlink(u, v);
        if s.edges.is_empty() {
            return (s, true);
        }
    }
    let balanced = dice.below(4) > 0;
    for _ in 0..if balanced { 0 } else { 3 } {
        let at = dice.below(s.edges.len());
        s.edges[at].2 += 1 + dice.next() % most;
    }
    (s, balanced)
}

#[test]
fn varied_networks() {
    let mut dice = Dice(77);
    let (mut packed, mut refused) = (0, 0);
    for i in 0..600 {
        let (sketch, balanced) = varied(&mut dice);
        let Ok(network) = sketch.build() else { continue };
        let root = network.members()[0];
        let all = [
            TreeCollective::AllGather,
            TreeCollective::ReduceScatter,
            TreeCollective::Broadcast { root },
            TreeCollective::Reduce { root },
        ];
        let (collective, fixed) = (all[dice.below(4)], [None, Some(1), Some(2), Some(7)][dice.below(4)]);
        let result = match fixed {
            None => pack_trees(&network, collective),
            Some(trees) => pack_some_trees(&network, collective, trees),
        };
        match result {
            Ok(packing) => {
                check(&network, collective, fixed, &packing).unwrap_or_else(|e| panic!("network {i}: {e}"));
                packed += 1;
            }
            Err(SynthesisError::Unreachable { .. }) => {}
            // Whole trees on uneven links can unbalance a switch, too.
            Err(SynthesisError::UnbalancedSwitch { .. }) if !balanced || fixed.is_some() => refused += 1,
            Err(error) => panic!("network {i}: {error}"),
        }
    }
    assert!(packed > 500 && refused <= 6, "{packed} packed, {refused} refused");
}
