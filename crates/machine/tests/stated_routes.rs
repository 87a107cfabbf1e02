//! Tests of stated routes (`route: (0)->#1->(3)`): messages of the pair take them, nothing else
//! changes, and the text keeps them.

use std::collections::BTreeSet;

use kbc_diag::{Diagnostic, FileId, Span};
use kbc_machine::bounds::{CollKind, Problem, bound, distances};
use kbc_machine::topology::{
    Described, DeviceId, LinkId, LinkRate, Shape, Topology, WayFault, WayOfMessage, brief,
};

fn parsed(text: &str) -> Result<Topology, Diagnostic> {
    Topology::parse(text, FileId::default())
}

fn machine(text: &str) -> Topology {
    parsed(text).unwrap_or_else(|d| panic!("{text}: {} {}", d.code, d.title))
}

/// Returns the text of a machine with more settings.
fn with(text: &str, more: &str) -> String {
    match text.strip_suffix(" }") {
        Some(inner) => format!("{inner}; {more} }}"),
        None => format!("{text} {{ {more} }}"),
    }
}

fn links(t: &Topology, from: u32, to: u32) -> Vec<LinkId> {
    t.route(DeviceId(from), DeviceId(to), None).collect()
}

/// Two leaves of two devices each below two spines.
const FAT_TREE: &str = "graph(4, 4) { link (0)<->#0: 50 GB/s, 300 ns; link (1)<->#0: 50 GB/s, 300 ns; \
     link (2)<->#1: 50 GB/s, 300 ns; link (3)<->#1: 50 GB/s, 300 ns; link #0<->#2: 50 GB/s, 300 ns; \
     link #1<->#2: 50 GB/s, 300 ns; link #0<->#3: 40 GB/s, 400 ns; link #1<->#3: 30 GB/s, 500 ns }";

const MACHINES: [&str; 14] = [
    "ring(6)",
    "torus(3, 4)",
    "torus(2, 3) { wrap2: 2 }",
    "torus(4, 2) { wrap2: 2; link +x: 10 GB/s, 1 us }",
    "mesh(3, 3) { link (0,0)->(0,1): 7 GB/s, 2 us }",
    "hypercube(3)",
    "full(5)",
    "switch(4)",
    "tree(2, 2)",
    "hierarchy(full(3), switch(3))",
    "mesh(3, 3) { link (0,0)->(0,1): 0 GB/s }",
    "mesh(3, 3) { failed: (1,1) }",
    FAT_TREE,
    "package(ring(2), mesh(1, 2), 2) { cube_link: 10 GB/s, 3 }",
];

/// A path of links from one node that passes no node twice, chosen by a number, or None if it does
/// not end at a device.
fn walk(t: &Topology, start: u32, mut choice: u64, most: usize) -> Option<Vec<LinkId>> {
    let (mut at, mut seen, mut path) = (DeviceId(start), BTreeSet::from([DeviceId(start)]), vec![]);
    loop {
        let open = |l: &kbc_machine::topology::Link| !l.rate.is_failed() && !seen.contains(&l.to);
        let next: Vec<_> = t.links_from(at).into_iter().filter(open).collect();
        if path.len() >= most && (at.0 as usize) < t.device_count() || next.is_empty() {
            break;
        }
        let link = next[(choice % next.len() as u64) as usize];
        choice = choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 3;
        (at, _) = (link.to, seen.insert(link.to));
        path.push(link.id);
    }
    (!path.is_empty() && (at.0 as usize) < t.device_count()).then_some(path)
}

/// Random routes of every kind of machine: the pair takes the route, all others keep theirs, and
/// the text and the bounds are those of the machine.
#[test]
fn one_pair_takes_the_route_and_no_other() {
    let mut stated = 0;
    for text in MACHINES {
        let plain = machine(text);
        for (start, choice) in plain.devices().flat_map(|d| (0..6).map(move |c| (d.0, c))) {
            let Some(path) = walk(&plain, start, choice * 97 + 5, 1 + choice as usize % 4) else { continue };
            stated += 1;
            let to = plain.link(*path.last().expect("a link")).expect("a link").to.0;
            let said = with(text, &format!("route: {}", plain.route_name(&path)));
            let topo = machine(&said);
            assert_eq!(links(&topo, start, to), path, "{said}");
            let hint =
                topo.route(DeviceId(start), DeviceId(to), Some(kbc_machine::topology::Direction::Minus));
            assert_eq!((hint.len(), hint.collect::<Vec<_>>()), (path.len(), path.clone()), "{said}");
            let rates = path.iter().map(|l| plain.rate(*l));
            let cost = topo.route_cost(DeviceId(start), DeviceId(to), None);
            assert_eq!(cost.hops as usize, path.len());
            assert!(
                (cost.latency_ns - rates.clone().map(|r| r.latency_ns).sum::<f64>()).abs() < 1e-6,
                "{said}"
            );
            assert_eq!(cost.bandwidth, rates.map(|r| r.bandwidth).fold(f64::INFINITY, f64::min), "{said}");
            for (a, b) in plain.devices().flat_map(|a| plain.devices().map(move |b| (a, b))) {
                if (a.0, b.0) != (start, to) {
                    assert_eq!(links(&topo, a.0, b.0), links(&plain, a.0, b.0), "{said}: {a:?} to {b:?}");
                }
            }
            assert_eq!(machine(&topo.to_string()), topo, "{said}");
            assert!(topo != plain && topo.to_string().contains("route: "), "{said}");
            assert!(!topo.is_uniform() && !topo.is_complete() && !topo.is_transitive(), "{said}");
            let longest = plain.devices().map(|d| topo.hops(DeviceId(start), d)).max();
            assert_eq!(Some(topo.eccentricity(DeviceId(start))), longest, "{said}");
            assert!(topo.diameter() as usize >= path.len(), "{said}");
            for kind in [CollKind::AllGather, CollKind::AllReduce, CollKind::AllToAll, CollKind::Broadcast] {
                let mut problem = Problem::new(kind, 1 << 16, plain.devices());
                problem.root = (kind == CollKind::Broadcast).then_some(0);
                let [a, b] = [&plain, &topo].map(|t| bound(t, &problem).expect("a bound"));
                assert_eq!(a, b, "{said}: {kind:?}");
            }
            let all: Vec<DeviceId> = plain.devices().collect();
            let [a, b] = [&plain, &topo]
                .map(|t| distances(t, &all).expect("distances").ns(start as usize, to as usize));
            assert_eq!(a, b, "{said}");
        }
    }
    assert!(stated > 250, "{stated}");
}

#[test]
fn both_directions_and_several_routes() {
    let topo = machine("ring(6) { route: (0)<->(5)<->(4)<->(3), (1)->(2) }");
    let names: Vec<String> = topo.stated_routes().map(|(_, _, links)| topo.route_name(links)).collect();
    assert_eq!(names, ["(0)->(5)->(4)->(3)", "(1)->(2)", "(3)->(4)->(5)->(0)"]);
    assert_eq!(
        topo.to_string(),
        "ring(6) { route: (0)->(5)->(4)->(3); route: (1)->(2); route: (3)->(4)->(5)->(0) }"
    );
    let many = machine(
        "ring(6) { fence: 1 ns; route: (0)<->(1), (1)<->(2), (2)<->(3); link (0)->(1): 1 GB/s, 1 ns }",
    );
    assert_eq!(brief(&many.to_string()), "ring(6) { fence: 1 ns; link (0)->(1): 1 GB/s, 1 ns; 6 routes }");
    // One of two links around a wrap, and one of several connections.
    let wrap = machine("torus(2, 3) { wrap2: 2; route: (0,0)->(1,0) -x->(1,1) }");
    assert_eq!(wrap.to_string(), "torus(2, 3) { wrap2: 2; route: (0,0)->(1,0) -x->(1,1) }");
}

/// Where a message names relays, stated routes lead from one to the next.
#[test]
fn messages_that_name_relays_take_stated_routes() {
    let topo = machine(&with(FAT_TREE, "route: (0)->#0->#3->#1->(2), #2->#1->#3, (2)->#1->#2->#0->(0)"));
    let past = |from: u32, to: u32, via: &'static [u32]| -> (usize, String) {
        let route = topo.route(DeviceId(from), DeviceId(to), WayOfMessage { hint: None, via });
        let left = route.len();
        let links: Vec<LinkId> = route.collect();
        assert_eq!(left, links.len());
        (left, topo.route_name(&links))
    };
    assert_eq!(past(0, 2, &[]), (4, "(0)->#0->#3->#1->(2)".into()));
    assert_eq!(past(0, 2, &[2]), (4, "(0)->#0->#2->#1->(2)".into()));
    assert_eq!(past(0, 2, &[2, 3]), (6, "(0)->#0->#2->#1->#3->#1->(2)".into()));
    assert_eq!(past(0, 2, &[3, 2]).1, "(0)->#0->#3->#0->#2->#1->(2)");
    assert_eq!(topo.check_relays(&[2, 3]), Ok(()));
    assert_eq!(topo.check_relays(&[4]), Err(WayFault::Unknown(4)));
    // The link of a pair may be stated where a detour is faster.
    let slow = "graph(3, 0) { link (0)<->(1): 5 GB/s, 9 us; link (1)<->(2): 5 GB/s, 1 us; link (2)<->(0): 5 GB/s, 1 us }";
    let hops = |t: &Topology| t.hops(DeviceId(0), DeviceId(1));
    assert_eq!((hops(&machine(slow)), hops(&machine(&with(slow, "route: (0)->(1)")))), (2, 1));
}

/// A motion is a symmetry only if it takes stated routes to stated routes.
#[test]
fn routes_must_move_too() {
    let one = machine("ring(4) { route: (0)->(3)->(2) }");
    assert!(!one.carries(1, 4, false) && !one.carries(2, 2, false) && !one.is_rotation_invariant(0));
    let two = machine("ring(4) { route: (0)->(3)->(2), (2)->(1)->(0) }");
    assert!(!two.carries(1, 4, false) && two.carries(2, 2, false) && !two.is_rotation_invariant(0));
    let all = machine("ring(4) { route: (0)->(3)->(2), (1)->(0)->(3), (2)->(1)->(0), (3)->(2)->(1) }");
    assert!(all.carries(1, 4, false) && all.is_rotation_invariant(0) && !all.is_uniform());
    let same = machine("full(4) { route: (0)->(1) }");
    assert!(!same.carries(1, 4, true) && !same.is_complete());
}

#[test]
fn routes_of_failed_links_and_nodes_are_dropped_with_them() {
    let layers = |base: &str, more: &str| {
        let base = Described::from(Topology::parse_shape(base, FileId::default()).expect("a machine"));
        let more = Topology::parse_settings(more, FileId::default()).expect("settings");
        Described::stacked([base, more], Shape::Ring(1), Span::NONE)
    };
    let text = "torus(3, 3) { route: (0,0)->(0,1)->(1,1), (1,0)->(1,1)->(1,2), (2,0)->(2,2)->(2,1) }";
    for (more, left) in [
        ("failed: (1,1)", "failed: (1,1); route: (2,0)->(2,2)->(2,1)"),
        ("failed: (2,2)", "failed: (2,2); route: (0,0)->(0,1)->(1,1); route: (1,0)->(1,1)->(1,2)"),
        (
            "link (0,1)->(1,1): 0 GB/s",
            "link (0,1)->(1,1): 0 B/s, 0 ns; route: (1,0)->(1,1)->(1,2); route: (2,0)->(2,2)->(2,1)",
        ),
        // A route of the same pair takes the place of the first one.
        (
            "route: (0,0)->(1,0)->(1,1); failed: (2,1)",
            "failed: (2,1); route: (0,0)->(1,0)->(1,1); route: (1,0)->(1,1)->(1,2)",
        ),
    ] {
        let topo = layers(text, more).unwrap_or_else(|d| panic!("{more}: {}", d.title));
        assert_eq!(topo.to_string(), format!("torus(3, 3) {{ {left} }}"), "{more}");
        assert_eq!(machine(&topo.to_string()), topo);
        for (from, to, links) in topo.stated_routes() {
            assert_eq!(topo.route(from, to, None).collect::<Vec<_>>(), links);
            let ends: Vec<String> = [from, to].map(|d| topo.name(d)).into();
            let name = topo.route_name(links);
            assert!(name.starts_with(&ends[0]) && name.ends_with(&ends[1]), "{name}");
        }
    }
    let d = layers(text, "failed: (2,2); route: (2,0)->(2,2)->(2,1)").expect_err("it has failed");
    assert_eq!((d.code, d.title.as_str()), ("E441", "(2,2) on the route has failed"));
    // A link of a list fails, and one of a machine that is built.
    let topo =
        layers(&with(FAT_TREE, "route: (0)->#0->#3->#1->(2)"), "link #3->#1: 0 GB/s").expect("a machine");
    assert!(!topo.has_stated_routes());
    let mut topo = machine(text);
    let gone = links(&topo, 0, 4)[0];
    topo.set_rate(gone, LinkRate { bandwidth: 0.0, latency_ns: 0.0 }).expect("it may fail");
    assert_eq!(topo.stated_routes().count(), 2);
}

/// Another shape keeps the routes, as rates of single links, unless one of the two is a list.
#[test]
fn another_shape() {
    let over = |base: &str, new: &str| {
        let of =
            |text: &str| Described::from(Topology::parse_shape(text, FileId::default()).expect("a machine"));
        Described::stacked([of(base), of(new)], Shape::Ring(1), Span::NONE).map_err(|d| d.code)
    };
    let text = "ring(4) { route: (0)->(3)->(2) }";
    assert!(over(text, "full(4)").expect("it has these links").has_stated_routes());
    assert_eq!(over(text, "ring(8)"), Err("E447"));
    let list = "graph(2, 0) { link (0)<->(1): 1 GB/s, 1 ns }";
    assert!(!over(text, list).expect("a list").has_stated_routes());
    assert!(!over(&with(list, "route: (0)->(1)"), "ring(4)").expect("a ring").has_stated_routes());
}

#[test]
fn machines_that_cannot_be() {
    let cases = [
        ("ring(4) { route: (0)->(4) }", "E447", "ring(4) has no device (4)", "(0)->(4)"),
        ("ring(4) { route: (0)->#1->(2) }", "E447", "ring(4) has no relay #1", "(0)->#1"),
        ("ring(4) { route: (0)->(1)->(3) }", "E447", "ring(4) has no link (1)->(3)", "(1)->(3)"),
        ("ring(4) { route: (0)->(1)->(2)->(3)->(0) }", "E441", "the route passes (0) twice", "(3)->(0)"),
        ("ring(4) { route: (0)->(1)->(0)->(3) }", "E441", "the route passes (0) twice", "(1)->(0)"),
        (
            "ring(4) { route: (0)->(3)->(2), (1)->(2); route: (0)->(1)->(2) }",
            "E441",
            "two routes lead from (0) to (2)",
            "(0)->(1)->(2)",
        ),
        ("ring(4) { route: (0)<->(1), (1)->(0) }", "E441", "two routes lead from (1) to (0)", "(1)->(0)"),
        ("ring(4) { route: (0)->(3)->(2); failed: (3) }", "E441", "(3) on the route has failed", "(0)->(3)"),
        (
            "ring(4) { route: (0)->(3)->(2); link (3)->(2): 0 GB/s }",
            "E441",
            "the link (3)->(2) on the route has failed",
            "(3)->(2)",
        ),
        ("torus(2, 3) { wrap2: 2; route: (0,0)->(1,0)->(1,1) }", "E441", "which of 2 links", "(0,0)->(1,0)"),
        (
            "tree(2, 2) { route: x.1#0->x.2#0->x.1#1 }",
            "E441",
            "the route ends at the switch x.1#0",
            "x.1#0->x.2#0->x.1#1",
        ),
        ("switch(2) { route: (0)->x.1#0 }", "E441", "the route ends at the switch x.1#0", "(0)->x.1#0"),
        ("ring(4) { route: (0) }", "E446", "expected `->`", "}"),
        ("ring(4) { route: (0)-(1) }", "E446", "expected `->`", "("),
        ("ring(4) { route: 0->1 }", "E446", "expected a device", "0"),
        ("ring(4) { route: (0)->(1)<->(2) }", "E446", "the same arrow", "-"),
        ("torus(2, 3) { wrap2: 2; route: (0,0)<->(1,0) -x }", "E446", "cannot choose", "(0,0)<->(1,0) -x"),
    ];
    for (text, code, title, at) in cases {
        let found = parsed(text).expect_err(text);
        assert!(found.code == code && found.title.contains(title), "{text}: {} {}", found.code, found.title);
        let span = found.labels[0].span;
        assert_eq!(&text[span.start as usize..span.end as usize], at, "{text}");
    }
}
