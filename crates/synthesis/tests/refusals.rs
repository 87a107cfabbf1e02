//! Inputs that are refused, each with its own error, and inputs at the edges of the ranges.

use crate::checker::{check, check_spanning};
use crate::topologies::{Dice, Sketch, random, ring, star};
use kbc_synthesis::{
    ExactRatio, Network, SynthesisError, TreeCollective, best_rate, pack_some_trees, pack_spanning_trees,
    pack_trees,
};

fn refuses(network: Result<Network, SynthesisError>) -> SynthesisError {
    network.expect_err("refused")
}

#[test]
fn networks() {
    let none: [(usize, usize, u64); 0] = [];
    assert_eq!(refuses(Network::new(2, none, [])), SynthesisError::TooFewMembers { members: 0 });
    assert_eq!(refuses(Network::new(2, none, [1])), SynthesisError::TooFewMembers { members: 1 });
    assert_eq!(
        refuses(Network::new(2, [(0, 2, 1)], [0, 1])),
        SynthesisError::NodeOutOfRange { node: 2, nodes: 2 }
    );
    assert_eq!(refuses(Network::new(2, none, [0, 7])), SynthesisError::NodeOutOfRange { node: 7, nodes: 2 });
    assert_eq!(refuses(Network::new(2, none, [1, 0, 1])), SynthesisError::RepeatedMember { node: 1 });
    let large = refuses(Network::new(2, [(0, 1, u64::MAX), (1, 0, 1)], [0, 1]));
    assert_eq!(large, SynthesisError::Overflow { what: "the sum of the capacities" });
    let nodes = refuses(Network::new(usize::MAX, none, [0, 1]));
    assert_eq!(nodes, SynthesisError::Overflow { what: "the number of nodes" });
}

#[test]
fn edges_without_use_are_dropped() {
    let network = Network::new(2, [(0, 1, 2), (0, 1, 3), (1, 1, 9), (1, 0, 0)], [0, 1]).expect("sound");
    assert_eq!(network.edges().len(), 1);
    assert_eq!(network.edges()[0].capacity, 5);
    // With capacity 0 there is no way back.
    let error = pack_trees(&network, TreeCollective::AllGather).expect_err("refused");
    assert_eq!(error, SynthesisError::Unreachable { from: 1, to: 0 });
    assert_eq!(error.to_string(), "no path leads from node 1 to node 0");
    let broadcast = TreeCollective::Broadcast { root: 0 };
    let packing = pack_trees(&network, broadcast).expect("one way is enough");
    assert_eq!(packing.rate, ExactRatio::new(5, 1).expect("not 0"));
    check(&network, broadcast, None, &packing).expect("sound");
    let error = best_rate(&network, TreeCollective::Reduce { root: 0 }).expect_err("refused");
    assert_eq!(error, SynthesisError::Unreachable { from: 1, to: 0 });
}

#[test]
fn requests() {
    let network = star(3, 2).network();
    for (root, error) in [
        (3, SynthesisError::NotAMember { node: 3 }),
        (4, SynthesisError::NodeOutOfRange { node: 4, nodes: 4 }),
    ] {
        assert_eq!(pack_trees(&network, TreeCollective::Broadcast { root }), Err(error));
        assert_eq!(best_rate(&network, TreeCollective::Reduce { root }), Err(error));
    }
    let zero = pack_some_trees(&network, TreeCollective::AllGather, 0);
    assert_eq!(zero, Err(SynthesisError::ZeroTrees));
    assert_eq!(pack_spanning_trees(&network), Err(SynthesisError::ForwardingNode { node: 3 }));
    let mut s = ring(4);
    s.edges.push((2, 1, 1));
    let unequal = pack_spanning_trees(&s.network());
    assert_eq!(unequal, Err(SynthesisError::UnequalDirections { from: 1, to: 2 }));
    let mut s = Sketch::of_members(4);
    s.link(0, 1, 1);
    s.link(2, 3, 1);
    assert_eq!(pack_spanning_trees(&s.network()), Err(SynthesisError::Unreachable { from: 0, to: 2 }));
}

/// A switch that receives less than it could send gives up what it cannot use.
#[test]
fn a_switch_with_spare_capacity_is_balanced() {
    let mut s = star(4, 3);
    s.edges.push((4, 0, 5));
    let network = s.network();
    let packing = pack_trees(&network, TreeCollective::AllGather).expect("spare capacity");
    assert_eq!(packing.rate, ExactRatio::new(1, 1).expect("not 0"));
    check(&network, TreeCollective::AllGather, None, &packing).expect("sound");
}

/// A switch that would have to copy: the cuts promise more than forwarding can do.
#[test]
fn a_switch_that_would_have_to_copy_is_refused() {
    let edges = [(0, 3, 1), (3, 1, 1), (3, 2, 1)];
    let network = Network::new(4, edges, [0, 1, 2]).expect("sound");
    let error = pack_trees(&network, TreeCollective::Broadcast { root: 0 }).expect_err("refused");
    assert_eq!(error, SynthesisError::UnbalancedSwitch { node: 3, entering: 1, leaving: 2 });
    assert!(error.to_string().contains("node 3 only forwards"), "{error}");
}

/// Whatever the input, the answer is a result or an error.
#[test]
fn large_numbers() {
    let most = u64::MAX / 2;
    let network = Network::new(2, [(0, 1, most), (1, 0, most)], [0, 1]).expect("sound");
    let packing = pack_trees(&network, TreeCollective::AllGather).expect("trees");
    assert_eq!(packing.rate, ExactRatio::new(u128::from(most), 1).expect("not 0"));
    check_spanning(&network, &pack_spanning_trees(&network).expect("trees")).expect("sound");
    let mut dice = Dice(21);
    for _ in 0..20 {
        let network = random(&mut dice, 6, 2, u64::MAX >> 8, 2).network();
        for collective in [TreeCollective::AllGather, TreeCollective::Reduce { root: 3 }] {
            let packing = pack_trees(&network, collective).expect("trees");
            assert_eq!(packing.rate, best_rate(&network, collective).expect("a rate").rate);
            // Neither a panic nor an endless search.
            for trees in [1, 7, u64::MAX] {
                let some = pack_some_trees(&network, collective, trees);
                let known = |e: &SynthesisError| matches!(e, SynthesisError::Overflow { .. });
                assert!(some.as_ref().err().is_none_or(known), "{some:?}");
            }
        }
    }
}

#[test]
fn fractions_are_exact() {
    let ratio = |a, b| ExactRatio::new(a, b).expect("not 0");
    assert_eq!(ratio(6, 4), ratio(3, 2));
    assert!(ratio(1, 3) < ratio(1, 2) && ratio(7, 2) > ratio(10, 3) && ratio(0, 5) < ratio(1, u128::MAX));
    let (a, b) = (ratio(u128::MAX - 1, u128::MAX), ratio(u128::MAX - 2, u128::MAX - 1));
    assert!(a > b);
    assert_eq!(a.max(b), a);
    assert_eq!(ExactRatio::new(1, 0), None);
    assert_eq!(ratio(0, 3).inverse(), None);
    assert_eq!((ratio(8, 2).to_string(), ratio(2, 8).to_string()), ("4".into(), "1/4".into()));
    assert_eq!(ratio(1, 4).to_f64(), 0.25);
}
