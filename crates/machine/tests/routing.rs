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
    assert!(fat_tree("routing: random; ").expect_err("not a rule").starts_with("E445"));
}

/// A message may take either spine, and the route continues from the one that it takes.
#[test]
fn adaptive_routes_choose_at_every_node() {
    let tree = fat_tree("routing: adaptive; ").expect("a machine");
    assert!(tree.is_adaptive() && !fat_tree("routing: ecmp; ").expect("a machine").is_adaptive());
    assert!(tree.to_string().contains("routing: adaptive"));
    assert_eq!(Topology::parse(&tree.to_string(), FileId(0)).expect("its own text"), tree);
    let taken = |way: WayOfMessage<'static>, spine: &str| -> Vec<String> {
        let mut route = tree.route(DeviceId(0), DeviceId(5), way);
        let mut out = vec![];
        while let Some(link) = route.next() {
            let link = route.choose(link, |l| !tree.link_name(l).contains(spine));
            out.push(tree.link_name(link));
        }
        assert_eq!((route.len(), out.len()), (0, 4));
        out
    };
    let free = WayOfMessage::default();
    assert_eq!(taken(free, "#2"), ["(0)->#0", "#0->#2", "#2->#1", "#1->(5)"]);
    assert_eq!(taken(free, "#3"), ["(0)->#0", "#0->#3", "#3->#1", "#1->(5)"]);
    // The first link of equal cost is that of a route without choices.
    assert_eq!(taken(free, "no such spine"), taken(free, "#2"));
    // A message that names its relays does not choose.
    assert_eq!(taken(WayOfMessage { hint: None, via: &[2] }, "#3"), taken(free, "#2"));
    assert_eq!(tree.possible_links(DeviceId(0), DeviceId(5)).len(), 6);
    assert_eq!(tree.possible_links(DeviceId(0), DeviceId(1)).len(), 2);
    // Neither does a pair with a stated route.
    let text = tree.to_string();
    let stated = format!("{}; route: (0)->#0->#3->#1->(5) }}", text.strip_suffix(" }").expect("settings"));
    let stated = Topology::parse(&stated, FileId(0)).expect("a machine");
    let route = stated.route(DeviceId(0), DeviceId(5), None);
    assert!(route.clone().all(|l| route.choices(l).is_empty()));
    assert_eq!(stated.possible_links(DeviceId(0), DeviceId(5)).len(), 4);
    // A failed spine leaves one choice.
    let failed = format!("{}; failed: #2 }}", text.strip_suffix(" }").expect("settings"));
    let failed = Topology::parse(&failed, FileId(0)).expect("a machine");
    assert_eq!(failed.possible_links(DeviceId(0), DeviceId(5)).len(), 4);
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
