//! The independent check rejects results in which one thing is wrong.

use crate::checker::{check, check_spanning};
use crate::topologies::{a100, boxes, grid, h100, mi250};
use kbc_synthesis::{
    ExactRatio, Network, RateProof, SpanningEdge, SpanningPacking, TightCut, TightPartition, TreeCollective,
    TreePacking, pack_some_spanning_trees, pack_some_trees, pack_spanning_trees, pack_trees,
};

fn cut(packing: &mut TreePacking) -> &mut TightCut {
    match &mut packing.proof {
        RateProof::Cut(cut) | RateProof::WholeTrees { cut, .. } => cut,
    }
}

fn plus(r: ExactRatio) -> ExactRatio {
    ExactRatio::new(r.numerator() + 1, r.denominator()).expect("not 0")
}

type Mutation = (&'static str, fn(&mut TreePacking));

const MUTATIONS: [Mutation; 22] = [
    ("a tree is missing", |p| drop(p.classes.pop())),
    ("a tree is there twice", |p| p.classes.push(p.classes[0].clone())),
    ("another root", |p| p.classes[0].root = p.classes[0].edges[0].to),
    ("a multiplicity", |p| p.classes[0].trees += 1),
    ("no multiplicity", |p| p.classes[0].trees = 0),
    ("an edge is missing", |p| p.classes[0].edges.truncate(5)),
    ("an edge is there twice", |p| p.classes[0].edges.extend_from_within(..1)),
    ("edges in another order", |p| p.classes[0].edges.reverse()),
    ("another begin of an edge", |p| p.classes[0].edges[1].from = p.classes[0].edges[1].to),
    ("another end of an edge", |p| p.classes[0].edges[1].to = p.classes[0].edges[0].to),
    ("a route without its last node", |p| p.classes[0].edges[0].routes[0].nodes.truncate(1)),
    ("a route backwards", |p| p.classes[0].edges[0].routes[0].nodes.reverse()),
    ("a route to nowhere", |p| p.classes[0].edges[0].routes[0].nodes.insert(1, 1 << 30)),
    ("a route carries more", |p| p.classes[0].edges[0].routes[0].trees += 1),
    ("no routes", |p| p.classes[0].edges[0].routes.clear()),
    ("a load", |p| p.loads[0].trees += 1),
    ("a limit", |p| p.loads[0].limit += 1),
    ("a load is missing", |p| p.loads.truncate(2)),
    ("the scale", |p| p.scale = plus(p.scale)),
    ("the rate", |p| p.rate = plus(p.rate)),
    ("the weight of the cut", |p| cut(p).weight += 1),
    ("the capacity of the cut", |p| cut(p).capacity += 1),
];

fn rejected(network: &Network, collective: TreeCollective, fixed: Option<u64>, packing: &TreePacking) {
    check(network, collective, fixed, packing).expect("sound");
    let reject = |name: &str, changed: &TreePacking| {
        assert!(check(network, collective, fixed, changed).is_err(), "not noticed: {name}");
    };
    for (name, change) in MUTATIONS {
        let mut changed = packing.clone();
        change(&mut changed);
        if changed != *packing {
            reject(name, &changed);
        }
    }
    // Every node that joins or leaves the cut changes it.
    let nodes = cut(&mut packing.clone()).nodes.clone();
    for v in network.members() {
        let mut changed = packing.clone();
        let list = &mut cut(&mut changed).nodes;
        list.retain(|x| x != v);
        if *list == nodes {
            list.push(*v);
        }
        reject("the cut", &changed);
    }
    let mut changed = packing.clone();
    changed.roots.swap_remove(0);
    reject("a root is missing", &changed);
    let mut changed = packing.clone();
    cut(&mut changed).nodes = (0..network.nodes()).collect();
    reject("a cut with nobody outside", &changed);
    let other = match collective {
        TreeCollective::AllGather => TreeCollective::ReduceScatter,
        _ => TreeCollective::AllGather,
    };
    assert!(check(network, other, fixed, packing).is_err(), "another collective");
    assert!(check(network, collective, Some(1000), packing).is_err(), "another number of trees");
}

#[test]
fn wrong_packings_are_rejected() {
    let networks = [a100(2), boxes(2, 3, 7, 2), mi250(1, 16), grid(&[3, 3], false)];
    for network in networks.map(|s| s.network()) {
        for collective in [
            TreeCollective::AllGather,
            TreeCollective::ReduceScatter,
            TreeCollective::Broadcast { root: 2 },
            TreeCollective::Reduce { root: 2 },
        ] {
            rejected(&network, collective, None, &pack_trees(&network, collective).expect("trees"));
        }
    }
    let network = mi250(2, 16).network();
    let packing = pack_some_trees(&network, TreeCollective::AllGather, 2).expect("trees");
    assert!(matches!(packing.proof, RateProof::WholeTrees { .. }));
    rejected(&network, TreeCollective::AllGather, Some(2), &packing);
    let mut changed = packing.clone();
    if let RateProof::WholeTrees { below, .. } = &mut changed.proof {
        *below = ExactRatio::new(1, 100).expect("not 0");
    }
    check(&network, TreeCollective::AllGather, Some(2), &changed).expect_err("a scale far below");
}

/// A route through another switch that exists, with a wrong load.
#[test]
fn a_detour_is_noticed() {
    let network = a100(2).network();
    let packing = pack_trees(&network, TreeCollective::AllGather).expect("trees");
    let mut changed = packing.clone();
    let route = changed.classes.iter_mut().flat_map(|c| &mut c.edges).flat_map(|e| &mut e.routes);
    let longest = route.max_by_key(|r| r.nodes.len()).expect("a route");
    assert!(longest.nodes.len() >= 5, "by card, switch and card");
    longest.nodes.remove(2);
    check(&network, TreeCollective::AllGather, None, &changed).expect_err("a route without a link");
}

fn proof(packing: &mut SpanningPacking) -> &mut TightPartition {
    packing.proof.as_mut().expect("a proof")
}

type SpanningMutation = (&'static str, fn(&mut SpanningPacking));

const SPANNING: [SpanningMutation; 13] = [
    ("a tree is missing", |p| drop(p.classes.pop())),
    ("a tree is there twice", |p| p.classes.push(p.classes[0].clone())),
    ("a multiplicity", |p| p.classes[0].trees += 1),
    ("another centre", |p| p.classes[0].centre = p.classes[0].edges[2].far),
    ("an edge is missing", |p| p.classes[0].edges.truncate(5)),
    ("an edge is another", |p| p.classes[0].edges[0] = SpanningEdge::direct(0, 8)),
    ("a load", |p| p.loads[0].trees += 1),
    ("a limit", |p| p.loads[0].limit += 1),
    ("the scale", |p| p.scale = plus(p.scale)),
    ("the rate", |p| p.rate = plus(p.rate)),
    ("the number of trees", |p| p.trees += 1),
    ("the crossing capacity", |p| proof(p).crossing += 1),
    ("a part is missing", |p| drop(proof(p).parts.pop())),
];

#[test]
fn wrong_spanning_trees_are_rejected() {
    let network = grid(&[3, 3], false).network();
    let packing = pack_spanning_trees(&network).expect("trees");
    check_spanning(&network, &packing).expect("sound");
    for (name, change) in SPANNING {
        let mut changed = packing.clone();
        change(&mut changed);
        assert!(check_spanning(&network, &changed).is_err(), "not noticed: {name}");
    }
    let mut changed = packing.clone();
    let last = proof(&mut changed).parts.pop().expect("parts");
    proof(&mut changed).parts[0].extend(last);
    assert!(check_spanning(&network, &changed).is_err(), "two parts become one");
}

/// Trees that pass switches: their routes are looked at, too.
#[test]
fn wrong_spanning_trees_over_switches_are_rejected() {
    let network = h100(2).network();
    let packing = pack_some_spanning_trees(&network, 4).expect("trees");
    check_spanning(&network, &packing).expect("sound");
    let changes: [SpanningMutation; 4] = [
        ("a route without its switches", |p| p.classes[0].edges[0].through.clear()),
        ("a route by a member", |p| p.classes[0].edges[0].through[0] = p.classes[0].edges[1].far),
        ("a load", |p| p.loads[0].trees += 1),
        ("the rate", |p| p.rate = plus(p.rate)),
    ];
    for (name, change) in changes {
        let mut changed = packing.clone();
        change(&mut changed);
        assert!(check_spanning(&network, &changed).is_err(), "not noticed: {name}");
    }
}
