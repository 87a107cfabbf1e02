//! Tests of the setting `routing`: how routes of equal cost are chosen on lists of links.

use kbc_diag::FileId;
use kbc_machine::topology::{DeviceId, Topology, WayFault, WayOfMessage};
use std::collections::BTreeMap;

/// Two leaves of four devices below two spines: relays 8 and 9 are leaves, 10 and 11 spines.
fn fat_tree(settings: &str) -> Result<Topology, String> {
    let mut text = format!("graph(8, 4) {{ {settings}");
    for d in 0..8 {
        text += &format!("link ({d})<->#{}: 50 GB/s, 300 ns; ", d / 4);
    }
    for (leaf, spine) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
        text += &format!("link #{leaf}<->#{spine}: 50 GB/s, 300 ns; ");
    }
    Topology::parse(&format!("{text}}}"), FileId(0)).map_err(|d| format!("{}: {}", d.code, d.title))
}

/// Returns how many routes between devices of different leaves pass each spine.
fn passing(topology: &Topology) -> BTreeMap<u32, usize> {
    let mut out = BTreeMap::new();
    for from in 0..8 {
        for to in (0..8).filter(|to| to / 4 != from / 4) {
            let route: Vec<_> = topology.route(DeviceId(from), DeviceId(to), None).collect();
            assert_eq!(route.len(), 4);
            let spine = topology.link(route[1]).expect("a link").to.0;
            assert!(spine >= 10);
            *out.entry(spine).or_default() += 1;
        }
    }
    out
}

#[test]
fn equal_routes_spread_over_destinations() {
    let single = fat_tree("").expect("a machine");
    assert_eq!(passing(&single), BTreeMap::from([(10, 32)]));
    assert_eq!(passing(&fat_tree("routing: single; ").expect("a machine")), passing(&single));
    let ecmp = fat_tree("routing: ecmp; ").expect("a machine");
    assert_eq!(passing(&ecmp), BTreeMap::from([(10, 16), (11, 16)]));
    // All sources take the same spine towards a destination.
    let first = |from| ecmp.route(DeviceId(from), DeviceId(5), None).nth(1).expect("a link");
    assert!((0..4).all(|from| first(from) == first(0)));
    // The text says it, and gives the same machine.
    let again = Topology::parse(&ecmp.to_string(), FileId(0)).expect("its own text");
    assert!(ecmp.to_string().contains("routing: ecmp") && again == ecmp && again != single);
}

#[test]
fn other_machines_and_words_are_refused() {
    let torus = Topology::parse("torus(4, 4) { routing: ecmp }", FileId(0)).expect_err("one route per pair");
    assert_eq!(torus.code, "E445");
    assert!(fat_tree("routing: adaptive; ").expect_err("not a rule").starts_with("E445"));
}

/// A route past relays consists of the machine's routes from one to the next.
#[test]
fn a_message_may_name_the_relays_that_it_passes() {
    let tree = fat_tree("").expect("a machine");
    let (from, to) = (DeviceId(0), DeviceId(5));
    let past = |via: &'static [u32]| -> Vec<String> {
        let route = tree.route(from, to, WayOfMessage { hint: None, via });
        let links: Vec<_> = route.clone().collect();
        assert_eq!(route.len(), links.len());
        assert_eq!(
            f64::from(links.len() as u32) * 300.0,
            tree.route_cost(from, to, WayOfMessage { hint: None, via }).latency_ns
        );
        links.into_iter().map(|l| tree.link_name(l)).collect()
    };
    let first = ["(0)->#0", "#0->#2", "#2->#1", "#1->(5)"];
    let second = ["(0)->#0", "#0->#3", "#3->#1", "#1->(5)"];
    assert_eq!(past(&[]), first);
    assert_eq!(past(&[2]), first);
    assert_eq!(past(&[3]), second);
    // Relays that lie on the route anyway, and one twice.
    assert_eq!(past(&[0, 3, 3, 1]), second);
    assert_eq!(past(&[1, 0]).len(), 8);
    let round: Vec<_> = tree.route(from, from, WayOfMessage { hint: None, via: &[2] }).collect();
    assert_eq!(round.len(), 4);

    assert_eq!(tree.check_relays(&[0, 3, 1]), Ok(()));
    assert_eq!(tree.check_relays(&[0, 4]), Err(WayFault::Unknown(4)));
    assert_eq!(tree.check_relays(&[u32::MAX]), Err(WayFault::Unknown(u32::MAX)));
    for text in [
        "ring(4)",
        "switch(4)",
        "package(ring(2), mesh(2, 2), 2)",
        "graph(2, 0) { link (0)<->(1): 1 GB/s, 1 ns }",
    ] {
        let other = Topology::parse(text, FileId(0)).unwrap_or_else(|d| panic!("{text}: {}", d.title));
        assert_eq!(other.check_relays(&[0]), Err(WayFault::NoRelays), "{text}");
        assert_eq!(other.check_relays(&[]), Ok(()));
    }
}
