//! Failed nodes: the ranks are the devices that are left, nothing passes a failed node, and the
//! text keeps the whole machine.

use std::collections::BTreeSet;

use kbc_diag::{Diagnostic, FileId, Span};
use kbc_machine::bounds::{CollKind, Problem, bound};
use kbc_machine::topology::{DeviceId, LinkId, Node, Topology};

fn parsed(text: &str) -> Result<Topology, Diagnostic> {
    Topology::parse(text, FileId::default())
}

fn machine(text: &str) -> Topology {
    parsed(text).unwrap_or_else(|d| panic!("{text}: {}", d.title))
}

/// Every machine with each of its devices failed, by breadth-first search over the links of the
/// whole machine.
#[test]
fn every_device_may_fail() {
    let machines = [
        "ring(5)",
        "torus(3, 4)",
        "torus(2, 3) { wrap2: 2 }",
        "mesh(3, 3)",
        "hypercube(3)",
        "full(5)",
        "switch(4)",
        "tree(2, 2)",
        "hierarchy(full(3), switch(3))",
        "graph(3, 1) { link (0)<->#0: 9 GB/s, 1 us; link (1)<->#0: 9 GB/s, 1 us; link (2)<->#0: 9 GB/s, 1 us; link (0)<->(1): 1 GB/s, 3 us }",
        "graph(4, 2) { routing: ecmp; link (0)<->#0: 9 GB/s, 1 us; link (1)<->#0: 9 GB/s, 1 us; link (2)<->#0: 9 GB/s, 1 us; link (3)<->#0: 9 GB/s, 1 us; link (0)<->#1: 9 GB/s, 1 us; link (1)<->#1: 9 GB/s, 1 us; link (2)<->#1: 9 GB/s, 1 us; link (3)<->#1: 9 GB/s, 1 us }",
    ];
    for text in machines {
        let whole = machine(text);
        for gone in whole.devices() {
            let name = whole.name(gone);
            let with = match text.strip_suffix(" }") {
                Some(inner) => format!("{inner}; failed: {name} }}"),
                None => format!("{text} {{ failed: {name} }}"),
            };
            let topo = machine(&with);
            let left: Vec<DeviceId> = whole.devices().filter(|d| *d != gone).collect();
            assert_eq!(topo.device_count(), left.len(), "{with}");
            assert_eq!(topo.node_count(), whole.node_count() - 1, "{with}");
            assert_eq!(topo.axes().collect::<Vec<_>>(), [("x", left.len() as u32)], "{with}");
            assert_eq!(topo.failed_nodes().collect::<Vec<_>>(), [gone], "{with}");
            for (d, old) in topo.devices().zip(&left) {
                assert_eq!((topo.name(d), topo.number_on_whole(d)), (whole.name(*old), *old), "{with}");
                assert_eq!(topo.find(&topo.node(d)), Some(d), "{with}");
            }
            assert_eq!(topo.find(&whole.node(gone)), None, "{with}");
            let links = whole.links().filter(|l| l.from != gone && l.to != gone);
            let links: Vec<(u32, u32, String)> =
                links.map(|l| (l.from.0, l.to.0, whole.link_name(l.id))).collect();
            let names: Vec<String> = topo.links().map(|l| topo.link_name(l.id)).collect();
            assert_eq!(names, links.iter().map(|l| l.2.clone()).collect::<Vec<_>>(), "{with}");
            for (from, old) in topo.devices().zip(&left) {
                let far = distances(&links, old.0, whole.node_count());
                for (to, other) in topo.devices().zip(&left) {
                    let mut at = from;
                    for l in topo.route(from, to, None) {
                        let link = topo.link(l).expect("a link of the machine");
                        assert_eq!(link.from, at, "{with}");
                        at = link.to;
                    }
                    assert_eq!(at, to, "{with}");
                    if !text.starts_with("graph") {
                        assert_eq!(topo.hops(from, to), far[other.0 as usize], "{with}: {from:?} to {to:?}");
                    }
                }
            }
            assert_eq!(machine(&topo.to_string()), topo, "{with}");
            assert_eq!(topo.whole(), &whole, "{with}");
        }
    }
}

fn distances(links: &[(u32, u32, String)], start: u32, nodes: usize) -> Vec<u32> {
    let mut far = vec![u32::MAX; nodes];
    far[start as usize] = 0;
    for step in 0..nodes as u32 {
        for (a, b, _) in links {
            if far[*a as usize] == step && far[*b as usize] == u32::MAX {
                far[*b as usize] = step + 1;
            }
        }
    }
    far
}

/// A machine with failed devices has the bounds and routes of the list of links that is left.
#[test]
fn it_is_the_list_of_links_that_is_left() {
    let topo = machine("mesh(3, 3) { link: 50 GB/s, 500 ns; failed: (0,1), (2,2) }");
    let mut list = String::from("graph(7, 0) { ");
    for l in topo.links() {
        list += &format!("link ({})->({}): {}; ", l.from.0, l.to.0, l.rate);
    }
    let list = machine(&format!("{} }}", list.trim_end_matches("; ")));
    for kind in [CollKind::AllGather, CollKind::AllReduce] {
        let problem = Problem::new(kind, 1 << 20, list.devices());
        let [a, b] = [&topo, &list].map(|t| bound(t, &problem).expect("a bound"));
        assert_eq!((a.ns, a.latency_ns, a.exact), (b.ns, b.latency_ns, b.exact), "{problem:?}");
        assert_eq!(a.partition, b.partition, "{problem:?}");
        assert!(a.bottleneck.contains("(0,0)") || kind == CollKind::AllReduce, "{}", a.bottleneck);
    }
    for (a, b) in topo.devices().flat_map(|a| topo.devices().map(move |b| (a, b))) {
        let route = |t: &Topology| t.route(a, b, None).collect::<Vec<LinkId>>();
        assert_eq!(route(&topo), route(&list));
    }
    assert!(!topo.has_switches(), "a failed device is no switch");
}

#[test]
fn switches_and_relays_fail() {
    let topo = machine("tree(2, 2) { failed: x.1#0, (0), (1) }");
    assert_eq!(topo.devices().map(|d| topo.name(d)).collect::<Vec<_>>(), ["(2)", "(3)"]);
    assert_eq!(topo.to_string(), "tree(2, 2) { failed: (0), (1), x.1#0 }");
    let both = "link (0)<->#0: 9 GB/s, 1 us; link (1)<->#0: 9 GB/s, 1 us; link (0)<->#1: 9 GB/s, 2 us; link (1)<->#1: 9 GB/s, 2 us";
    let topo = machine(&format!("graph(2, 2) {{ {both}; failed: #0 }}"));
    let route: Vec<String> = topo.route(DeviceId(0), DeviceId(1), None).map(|l| topo.link_name(l)).collect();
    assert_eq!(route, ["(0)->#1", "#1->(1)"]);
    assert_eq!(machine(&topo.to_string()), topo);
}

/// Rates that follow a failure, selectors of axes, and rates of single links mean the same as on
/// the whole machine.
#[test]
fn rates_of_links_that_are_left() {
    let first = machine("torus(3, 3) { failed: (1,1); link x: 25 GB/s, 1 us; link (0,0)->(0,1): 0 GB/s }");
    let last = machine("torus(3, 3) { link x: 25 GB/s, 1 us; link (0,0)->(0,1): 0 GB/s; failed: (1,1) }");
    assert_eq!(first, last);
    let name = |id| first.link_name(id);
    assert_eq!(first.failed_links().map(name).collect::<Vec<_>>(), ["(0,0)->(0,1)"]);
    let slow: BTreeSet<String> =
        first.links().filter(|l| l.rate.bandwidth == 25e9).map(|l| name(l.id)).collect();
    assert_eq!(slow.len(), 2 * 9 - 4, "{slow:?}");
    let set = |text: &str| {
        let fragment = kbc_machine::topology::Fragment { text, file: FileId::default(), base: 0 }.links();
        first.select(&kbc_diag::Spanned::new(fragment.expect("a selector"), Span::NONE))
    };
    assert_eq!(set("x").expect("links").len(), 2 * 9 - 4);
    assert_eq!(
        set("(0,0)->(1,0)").expect("a link").into_iter().map(name).collect::<Vec<_>>(),
        ["(0,0)->(1,0)"]
    );
    let gone = set("(0,1)->(1,1)").expect_err("it has failed with its device");
    assert!(gone.code == "E447" && gone.title.contains("is left"), "{}", gone.title);
}

#[test]
fn machines_that_cannot_be() {
    let cases = [
        ("mesh(1, 3) { failed: (0,1) }", "E443", "no route from (0,0) to (0,2)"),
        ("switch(3) { failed: x.1#0 }", "E443", "no route from (0) to (1)"),
        ("ring(3) { failed: (0), (1), (2) }", "E443", "all devices of ring(3) have failed"),
        ("ring(3) { failed: (3) }", "E447", "ring(3) has no device (3)"),
        ("ring(3) { failed: #0 }", "E447", "ring(3) has no relay #0"),
        ("ring(3) { failed: 3 }", "E446", "expected a device"),
        ("ring(3) { failed: x }", "E446", "expected a device"),
        ("torus(100, 100) { failed: (1,1) }", "E443", "cannot fail"),
        ("package(ring(2), mesh(2, 2), 2) { failed: (0,0,0,0) }", "E445", "of a package cannot fail"),
    ];
    for (text, code, title) in cases {
        let found = parsed(text).expect_err(text);
        assert!(found.code == code && found.title.contains(title), "{text}: {} {}", found.code, found.title);
    }
    assert_eq!(machine("ring(3) { failed: (0), (2), (0) }").to_string(), "ring(3) { failed: (0), (2) }");
}

/// One device that is left is a machine with one rank.
#[test]
fn one_device_is_left() {
    let topo = machine("ring(2) { failed: (0) }");
    assert_eq!((topo.device_count(), topo.link_count(), topo.name(DeviceId(0))), (1, 0, "(1)".into()));
    assert_eq!(topo.node(DeviceId(0)), Node::Device(vec![1]));
}
