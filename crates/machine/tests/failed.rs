//! Failed links: routes lead around them, bounds do not count them, and the text keeps them.

use kbc_diag::FileId;
use kbc_machine::topology::{DeviceId, LinkId, LinkRate, Topology};

const FAILED: LinkRate = LinkRate { bandwidth: 0.0, latency_ns: 500.0 };

fn machine(text: &str) -> Topology {
    Topology::parse(text, FileId::default()).unwrap_or_else(|d| panic!("{text}: {}", d.title))
}

/// Every machine with each of its links failed: all routes exist, use no failed link, begin and end
/// where they should, and are shortest among those that are left.
#[test]
fn routes_lead_around_every_link() {
    let machines = [
        "ring(5)",
        "ring(2) { wrap2: 2 }",
        "torus(3, 4)",
        "torus(2, 3) { wrap2: 2 }",
        "mesh(3, 3)",
        "hypercube(3)",
        "full(5)",
        "hierarchy(full(3), ring(3))",
    ];
    for text in machines {
        let whole = machine(text);
        for id in (0..whole.link_count() as u32).map(LinkId) {
            let mut topo = whole.clone();
            topo.set_rate(id, FAILED).expect("a link may fail");
            if topo.connected(kbc_diag::Span::NONE).is_err() {
                continue;
            }
            assert_eq!(topo.failed_links().collect::<Vec<_>>(), [id], "{text}");
            let hops = distances(&topo, id);
            for (a, from) in topo.devices().enumerate() {
                for (b, to) in topo.devices().enumerate() {
                    let mut at = from;
                    let route: Vec<LinkId> = topo.route(from, to, None).collect();
                    for l in &route {
                        let link = topo.link(*l).expect("a link of the machine");
                        assert!(*l != id && link.from == at, "{text} without {}", topo.link_name(id));
                        at = link.to;
                    }
                    assert_eq!((at, route.len() as u32), (to, hops[a][b]), "{text}: {from:?} to {to:?}");
                }
            }
            // The text says it again, and the machine is whole again where the link is.
            let again = machine(&topo.to_string());
            assert_eq!(again, topo, "{text}");
            topo.set_rate(id, whole.rate(id)).expect("a link may come back");
            assert_eq!(topo, whole, "{text}");
            assert!(!topo.is_listed(), "{text}");
        }
    }
}

/// Hops between all devices, by breadth-first search over the links as they are listed.
fn distances(topo: &Topology, failed: LinkId) -> Vec<Vec<u32>> {
    let links: Vec<(u32, u32)> =
        topo.links().filter(|l| l.id != failed).map(|l| (l.from.0, l.to.0)).collect();
    let from = |start: DeviceId| {
        let mut far = vec![u32::MAX; topo.node_count()];
        far[start.0 as usize] = 0;
        for step in 0..topo.node_count() as u32 {
            for (a, b) in &links {
                if far[*a as usize] == step && far[*b as usize] == u32::MAX {
                    far[*b as usize] = step + 1;
                }
            }
        }
        far.truncate(topo.device_count());
        far
    };
    topo.devices().map(from).collect()
}

#[test]
fn a_machine_in_two_parts_is_refused() {
    let text = "mesh(3) { link (0)->(1): 0 GB/s }";
    let found = Topology::parse(text, FileId::default()).expect_err("(0) reaches nobody");
    assert_eq!(found.code, "E443");
    assert!(found.title.contains("no route from (0) to (1)"), "{}", found.title);
    let text = "torus(100, 100) { link (0,0)->(0,1): 0 GB/s }";
    let found = Topology::parse(text, FileId::default()).expect_err("too many nodes for a table");
    assert!(found.title.contains("cannot fail"), "{}", found.title);
}

/// A latency after the rate is kept, and names of switches stay.
#[test]
fn the_text_of_a_failed_link() {
    for text in [
        "torus(2, 3) { link (0,0)->(0,1): 0 B/s, 500 ns }",
        "hierarchy(full(2), switch(2)) { link (0,0)->(0,1): 0 B/s, 500 ns }",
        "graph(3) { link (0)->(1): 0 B/s, 500 ns }",
    ] {
        let Ok(topo) = Topology::parse(text, FileId::default()) else {
            assert!(text.starts_with("graph"), "{text}");
            continue;
        };
        assert_eq!(topo.to_string(), text);
    }
    let topo = machine("switch(3)");
    let whole: Vec<String> = topo.links().map(|l| topo.link_name(l.id)).collect();
    let mut listed = topo.clone();
    listed.set_rate(LinkId(0), FAILED).expect("a link may fail");
    let names: Vec<String> = listed.links().map(|l| listed.link_name(l.id)).collect();
    assert_eq!(names, whole);
}

/// Routes around a failed link depend on the latencies of the machine, and not on the order in
/// which its text states them.
#[test]
fn latencies_that_follow_a_failure_count() {
    let failed = "link (0,0)->(0,1): 0 GB/s";
    let slow = "link x: 50 GB/s, 5 us";
    let first = machine(&format!("torus(3, 4) {{ {failed}; {slow} }}"));
    let last = machine(&format!("torus(3, 4) {{ {slow}; {failed} }}"));
    for (a, b) in first.devices().flat_map(|a| first.devices().map(move |b| (a, b))) {
        let route = |t: &Topology| t.route(a, b, None).collect::<Vec<_>>();
        assert_eq!(route(&first), route(&last), "{a:?} to {b:?}");
    }
    // The other way round the ring is three hops of 500 ns; a detour over x would cost 10 us more.
    assert_eq!(first.hops(DeviceId(0), DeviceId(1)), 3);
    assert_eq!(first, last);
}
