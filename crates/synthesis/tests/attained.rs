//! What trees attain, counted from the trees alone.

use crate::reach;
use crate::topologies::{self, Sketch};
use kbc_synthesis::{
    CarriedData, EdgeTiming, MatchedRoots, Network, TreeCollective, match_all_reduce,
    pack_some_spanning_trees, pack_spanning_trees, pack_trees,
};

fn sketches() -> Vec<(&'static str, Sketch)> {
    vec![
        ("ring", topologies::ring(6)),
        ("mesh", topologies::grid(&[3, 4], false)),
        ("torus", topologies::grid(&[3, 3, 3], true)),
        ("hypercube", topologies::hypercube(4)),
        ("groups behind switches", reach::groups()),
    ]
}

/// The time of data of one unit for each root at the rate that the packing states.
fn stated(rate: kbc_synthesis::ExactRatio) -> f64 {
    rate.denominator() as f64 / rate.numerator() as f64
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * b
}

#[test]
fn trees_attain_the_rate_that_is_stated() {
    for (name, sketch) in sketches() {
        let network = sketch.network();
        for collective in [
            TreeCollective::AllGather,
            TreeCollective::ReduceScatter,
            TreeCollective::Broadcast { root: 0 },
            TreeCollective::Reduce { root: 1 },
        ] {
            let packing = pack_trees(&network, collective).expect("trees");
            let carried = CarriedData::of_trees(&network, &packing, 1.0).expect("all members are reached");
            let time = carried.time(&network).expect("edges of the network");
            assert!(close(time, stated(packing.rate)), "{name} {collective:?}: {time}, {}", packing.rate);
        }
    }
}

#[test]
fn spanning_trees_attain_the_strength() {
    for (name, sketch) in sketches().into_iter().filter(|s| s.0 != "groups behind switches") {
        let network = sketch.network();
        let packing = pack_spanning_trees(&network).expect("spanning trees");
        let carried = CarriedData::of_spanning(&network, &packing, 1.0).expect("all members are reached");
        let time = carried.time(&network).expect("links of the network");
        assert!(close(time, stated(packing.rate)), "{name}: {time}, {}", packing.rate);
    }
}

#[test]
fn spanning_trees_over_switches_attain_their_rate() {
    for (name, sketch) in sketches() {
        let network = sketch.network();
        let packing = pack_some_spanning_trees(&network, 8).expect("spanning trees");
        let carried = CarriedData::of_spanning(&network, &packing, 1.0).expect("all members are reached");
        let time = carried.time(&network).expect("links of the network");
        assert!(close(time, stated(packing.rate)), "{name}: {time}, {}", packing.rate);
    }
}

fn timings(network: &Network) -> Vec<EdgeTiming> {
    let timing = |e: &kbc_synthesis::NetworkEdge| EdgeTiming {
        from: e.from,
        to: e.to,
        latency_ns: 500.0,
        ns_per_byte: 1.0 / e.capacity as f64,
    };
    network.edges().iter().map(timing).collect()
}

#[test]
fn matched_trees_take_as_long_as_their_busiest_edge() {
    let network = reach::groups().network();
    let edges = timings(&network);
    let matching = match_all_reduce(&network, &edges, MatchedRoots::All, 8, 1e6).expect("trees");
    let carried = CarriedData::of_matching(&network, &matching, 1e6).expect("all members are reached");
    let time = carried.time(&network).expect("edges of the network");
    assert!(close(time, matching.busiest_ns(1e6, &edges)), "{time}");
}

#[test]
fn trees_that_do_not_carry_the_data_attain_nothing() {
    let network = topologies::grid(&[3, 3], false).network();
    let good = pack_trees(&network, TreeCollective::AllGather).expect("trees");
    let attained = |packing: &kbc_synthesis::TreePacking| CarriedData::of_trees(&network, packing, 1.0);
    let mut without_member = good.clone();
    without_member.classes[0].edges.pop();
    assert_eq!(attained(&without_member), None);
    let mut fewer_trees = good.clone();
    fewer_trees.classes[0].trees += 1;
    assert_eq!(attained(&fewer_trees), None);
    let mut other_route = good.clone();
    other_route.classes[0].edges[0].routes[0].nodes.reverse();
    assert_eq!(attained(&other_route), None);
    let mut twice = good.clone();
    let edge = twice.classes[0].edges[0].clone();
    *twice.classes[0].edges.last_mut().expect("an edge") = edge;
    assert_eq!(attained(&twice), None);
    // A route over an edge that does not exist is found when the time is asked for.
    let mut no_edge = good.clone();
    let route = &mut no_edge.classes[0].edges[0].routes[0];
    let (from, to) = (route.nodes[0], route.nodes[route.nodes.len() - 1]);
    let far = (0..9)
        .find(|&v| v != from && v != to && !network.edges().iter().any(|e| (e.from, e.to) == (from, v)));
    route.nodes.insert(1, far.expect("a node that is no neighbour"));
    assert_eq!(attained(&no_edge).and_then(|c| c.time(&network)), None);
    // The halves of an all-reduce by matched trees belong together.
    let edges = timings(&network);
    let mut matching = match_all_reduce(&network, &edges, MatchedRoots::All, 9, 1e6).expect("trees");
    matching.down.rotate_left(1);
    assert_eq!(CarriedData::of_matching(&network, &matching, 1.0), None);
}
