//! Tests of machines whose links are a list (TOPO-1): routes against an exhaustive search, text,
//! limits. Tests of packages of cubes (TOPO-2 to TOPO-5): routes of messages, locations of
//! memories, what a rank is.

use kbc_diag::FileId;
use kbc_ir::types::MemKind;
use kbc_machine::topology::{DeviceId, Direction, LinkId, Topology};

fn machine(text: &str) -> Topology {
    Topology::parse(text, FileId(0)).unwrap_or_else(|d| panic!("{text}: {d:?}"))
}

fn refused(text: &str) -> (String, String) {
    let d = Topology::parse(text, FileId(0)).expect_err(text);
    (d.code.to_owned(), d.title)
}

/// Returns a pseudo-random number.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Returns a connected list of links with latencies of a few ns, so that many routes are equally
/// long.
fn drawn(seed: u64) -> Topology {
    let mut s = seed;
    let (devices, relays) = (1 + draw(&mut s) % 6, draw(&mut s) % 5);
    let nodes = devices + relays;
    let name = |n: u64| if n < devices { format!("({n})") } else { format!("#{}", n - devices) };
    let mut links = vec![];
    let mut rate = || format!("{} GB/s, {} ns", 1 + draw(&mut s) % 9, draw(&mut s) % 4);
    for n in 1..nodes {
        links.push(format!("link {}<->{}: {}", name(n / 2), name(n), rate()));
    }
    for a in 0..nodes {
        for b in 0..nodes {
            if a != b && (a * 7 + b * 3 + seed).is_multiple_of(5) {
                links.push(format!("link {}->{}: {}", name(a), name(b), rate()));
            }
        }
    }
    let list = if links.is_empty() { String::new() } else { format!(" {{ {} }}", links.join("; ")) };
    machine(&format!("graph({devices}, {relays}){list}"))
}

/// Returns latency and hops of the best route between all nodes, by relaxing every link until
/// nothing changes.
fn best(t: &Topology) -> Vec<Vec<(f64, u32)>> {
    let n = t.node_count();
    let mut far = vec![vec![(f64::INFINITY, 0); n]; n];
    (0..n).for_each(|i| far[i][i] = (0.0, 0));
    loop {
        let mut changed = false;
        for l in t.links() {
            let rest = far[l.to.0 as usize].clone();
            for (known, rest) in far[l.from.0 as usize].iter_mut().zip(rest) {
                let way = (rest.0 + l.rate.latency_ns, rest.1 + 1);
                if way < *known {
                    *known = way;
                    changed = true;
                }
            }
        }
        if !changed {
            return far;
        }
    }
}

#[test]
fn routes_are_the_best_and_of_those_the_first() {
    let mut longest = 0;
    for seed in 0..300 {
        let t = drawn(seed);
        let far = best(&t);
        let n = t.node_count() as u32;
        for (from, to) in (0..n).flat_map(|a| (0..n).map(move |b| (DeviceId(a), DeviceId(b)))) {
            let route: Vec<LinkId> = t.route_between(from, to).expect("connected").collect();
            let cost = t.route_cost(from, to, None);
            assert_eq!(
                (cost.latency_ns, cost.hops),
                far[from.0 as usize][to.0 as usize],
                "{t}: {from:?} {to:?}"
            );
            let mut at = from;
            for id in &route {
                // The first of the links that are on a best route.
                let good = t.links_from(at).into_iter().find(|l| {
                    let rest = far[l.to.0 as usize][to.0 as usize];
                    (rest.0 + l.rate.latency_ns, rest.1 + 1) == far[at.0 as usize][to.0 as usize]
                });
                assert_eq!(good.map(|l| l.id), Some(*id), "{t}: {from:?} {to:?}");
                at = t.link(*id).expect("of a route").to;
            }
            assert_eq!(at, to);
            assert_eq!(t.hops(from, to) as usize, route.len());
            longest = longest.max(route.len());
        }
    }
    assert!(longest > 4, "{longest}");
}

#[test]
fn a_list_reads_back_as_it_is_printed() {
    for t in (0..50).map(drawn) {
        let text = t.to_string();
        let again = machine(&text);
        assert_eq!((&again, again.to_string()), (&t, text));
        assert!(t.links().all(|l| t.links_from(l.from).contains(&l) && t.links_into(l.to).contains(&l)));
    }
    let t = machine(
        "graph(2, 1) { link (0)<->#0: 10 GB/s, 5 ns; link (1)<->#0: unlimited, 2.5 ns; link (0)->#0: 1 GB/s, 5 ns }",
    );
    assert_eq!(
        t.to_string(),
        "graph(2, 1) { link (0)->#0: 1 GB/s, 5 ns; link #0->(0): 10 GB/s, 5 ns; link (1)->#0: unlimited, 2.5 ns; \
         link #0->(1): unlimited, 2.5 ns }"
    );
    assert!(!t.is_uniform() && t.is_listed() && t.has_switches() && t.only_axis().is_none());
    assert!(!t.carries(1, 2, false) && !t.is_rotation_invariant(0) && t.pairs(0) == 0);
    assert_eq!(t.route_cost(DeviceId(0), DeviceId(1), None).bandwidth, 1e9);
    assert_eq!((t.diameter(), t.degree(DeviceId(0))), (2, 1));
}

#[test]
fn lists_that_are_refused() {
    for (text, code, word) in [
        ("graph(2, 0)", "E443", "there is no route from (0) to (1)"),
        ("graph(2, 0) { link (1)->(0): 1 GB/s, 1 ns }", "E443", "there is no route from (0)"),
        ("graph(2, 0) { link (0)->(1): 1 GB/s, 1 ns }", "E443", "there is no route from (1)"),
        ("graph(2, 0) { link (0)->#0: 1 GB/s, 1 ns }", "E447", "has no node #0"),
        ("graph(2, 0) { link (0)->(0): 1 GB/s, 1 ns }", "E447", "leads back to its own node"),
        ("graph(2, 0) { link +x: 1 GB/s, 1 ns }", "E447", "named by their ends"),
        ("graph(2, 0) { link: 1 GB/s, 1 ns }", "E445", "`link` does not apply"),
        ("graph(2, 0) { wrap2: 1 }", "E445", "`wrap2` does not apply"),
        ("graph(2, 0) { hbm_link: 1 GB/s }", "E445", "`hbm_link` does not apply"),
        ("ring(4) { ranks: pe }", "E445", "`ranks` does not apply"),
        ("ring(4) { link (0)->(1): unlimited, 1 ns }", "E445", "invalid rate of link"),
        ("ring(4) { link: unlimited, 1 ns }", "E445", "wrong kind"),
        ("graph(0, 2)", "E443", "out of range (1..="),
        ("graph(8000, 8000)", "E443", "16000 nodes"),
        ("graph(2)", "E442", "found 1 argument"),
        ("hierarchy(graph(2, 0), ring(2))", "E442", ""),
        ("package(full(2), mesh(1, 1), 1)", "E442", ""),
        ("package(ring(2), mesh(4), 1)", "E442", ""),
        ("package(torus(2, 2, 2), mesh(1, 1), 1)", "E442", ""),
        ("package(ring(64), mesh(8, 8), 8)", "E443", "nodes"),
        ("package(ring(2), mesh(1, 1), 1) { link: 1 GB/s, 1 ns }", "E445", "`link` does not apply"),
        ("package(ring(2), mesh(1, 1), 1) { ranks: rank }", "E445", "ranks` must be pe, cube or sip"),
        ("package(ring(2), mesh(1, 1), 1) { cube_link: 128 GB/s, 0 }", "E445", "out of range"),
        ("package(ring(2), mesh(1, 1), 1) { pe_wire: 1, 2, 3, 4, 5 }", "E445", "one to four"),
        ("package(ring(2), mesh(1, 1), 1) { hbm_wire: 1 ns }", "E445", "plain number"),
        ("package(ring(2), mesh(1, 1), 1) { data: hbm }", "E445", "must be one of pe, named"),
        ("package(ring(2), mesh(1, 1), 1) { hbm_channels: 65, 1 GB/s, 256 B }", "E445", "number of channels"),
        ("package(ring(2), mesh(1, 1), 1) { hbm_channels: 8 }", "E445", "needs three values"),
        ("package(ring(2), mesh(1, 1), 1) { hbm_channels: 8, 1 GB/s, 0.5 B }", "E445", "burst"),
        ("package(ring(2), mesh(1, 1), 1) { hbm_switch: 3 }", "E445", "wrong kind of value"),
        ("ring(2) { data: named }", "E445", "does not apply"),
        ("package(ring(2), mesh(1, 1), 1) { ranks: pe; ranks: pe }", "E445", "twice"),
    ] {
        let (found, title) = refused(text);
        assert!(found == code && title.contains(word), "{text}: {found} {title}");
    }
}

/// The machine of the published figures, with wires that make every part of a latency
/// distinguishable.
const SIX: &str = "package(torus(2, 3), mesh(4, 4), 8) { pe_wire: 100, 200, 300, 400; cube_link: 128 GB/s, 4; \
                   router_node: 0.5 ns; hbm_wire: 50; hbm_link: 256 GB/s; sram_link: 128 GB/s; port_node: 8 ns; \
                   port_wire: 100; cube_wire: 200; io_node: 10 ns; sip_link: 64 GB/s }";

fn names(t: &Topology, from: &[u32], to: &[u32]) -> Vec<String> {
    let (a, b) = (t.device(from).expect("a device"), t.device(to).expect("a device"));
    t.route(a, b, None).map(|l| t.link_name(l)).collect()
}

#[test]
fn a_package_has_structural_places() {
    let t = machine(SIX);
    assert_eq!(
        t.axes().collect::<Vec<_>>(),
        [("sip_y", 2), ("sip_x", 3), ("cube_y", 4), ("cube_x", 4), ("pe", 8)]
    );
    assert_eq!((t.device_count(), t.device(&[1, 2, 3, 3, 7])), (768, Some(DeviceId(767))));
    // Routers, slices, SRAM, ports (24 edges of a mesh of cubes, both ends), and two IO nodes per
    // SIP.
    assert_eq!(t.node_count(), 768 * 2 + 96 * 2 + 6 * 48 + 12);
    assert_eq!(machine(&t.to_string()), t);
    let names: std::collections::BTreeSet<String> =
        (0..t.node_count() as u32).map(|n| t.name(DeviceId(n))).collect();
    assert_eq!(names.len(), t.node_count());
    let links: std::collections::BTreeSet<String> = t.links().map(|l| t.link_name(l.id)).collect();
    assert_eq!(links.len() as u64, t.link_count());
    // Every name is found again.
    let mut own = t.clone();
    let last = t.links().find(|l| t.link_name(l.id).ends_with("#3")).expect("connections");
    own.set_rate(last.id, kbc_machine::topology::LinkRate { bandwidth: 1e9, latency_ns: 1.0 })
        .expect("in range");
    let text = own.to_string();
    assert!(text.contains("link east(0,0,0,0)->west(0,0,0,1) #3: 1 GB/s, 1 ns"), "{text}");
    assert_eq!(machine(&text), own);
}

#[test]
fn messages_of_a_package_go_along_x_first() {
    let t = machine(SIX);
    // In a cube: two wires and the router.
    assert_eq!(
        names(&t, &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 5]),
        ["(0,0,0,0,0)->router(0,0,0,0)", "router(0,0,0,0)->(0,0,0,0,5)"]
    );
    let cost = |a: &[u32], b: &[u32]| {
        let (a, b) = (t.device(a).expect("a device"), t.device(b).expect("a device"));
        t.route_cost(a, b, None)
    };
    // PE 0 is at the first corner (1 ns of wire), PE 5 at the third (3 ns); the router takes half a
    // nanosecond.
    assert_eq!(cost(&[0, 0, 0, 0, 0], &[0, 0, 0, 0, 5]).latency_ns, 1.0 + 0.5 + 3.0);
    // Through cubes: x before y, by the connection with the destination's number.
    assert_eq!(
        names(&t, &[0, 0, 2, 1, 0], &[0, 0, 1, 2, 6]),
        [
            "(0,0,2,1,0)->router(0,0,2,1)",
            "router(0,0,2,1)->east(0,0,2,1)",
            "east(0,0,2,1)->west(0,0,2,2) #3",
            "west(0,0,2,2)->router(0,0,2,2)",
            "router(0,0,2,2)->north(0,0,2,2)",
            "north(0,0,2,2)->south(0,0,1,2) #3",
            "south(0,0,1,2)->router(0,0,1,2)",
            "router(0,0,1,2)->(0,0,1,2,6)",
        ]
    );
    // A hop between cubes: port, wire, port, wire, router.
    let hop = (1.0 + 8.0) + (2.0 + 8.0) + (1.0 + 0.5);
    let far = cost(&[0, 0, 2, 1, 0], &[0, 0, 1, 2, 6]);
    assert_eq!((far.latency_ns, far.bandwidth), (1.0 + 0.5 + 2.0 * hop + 4.0, 128e9));
    // Between SIPs through their IO nodes, without a hop of the mesh at either end.
    assert_eq!(
        names(&t, &[0, 0, 2, 2, 0], &[1, 0, 2, 2, 0]),
        [
            "(0,0,2,2,0)->router(0,0,2,2)",
            "router(0,0,2,2)->io_out(0,0)",
            "io_out(0,0)->io_in(1,0)",
            "io_in(1,0)->router(1,0,2,2)",
            "router(1,0,2,2)->(1,0,2,2,0)",
        ]
    );
}

#[test]
fn nothing_within_a_sip_leaves_it() {
    // An IO node (10 ns) without a wire costs less than a hop between cubes, yet routes inside a
    // SIP do not use it.
    let t = machine(SIX);
    for (a, b) in (0..128).flat_map(|a| (0..128).map(move |b| (DeviceId(a), DeviceId(b)))) {
        let (from, to) = (t.coordinates(a), t.coordinates(b));
        let cubes = from[2].abs_diff(to[2]) + from[3].abs_diff(to[3]);
        let expected = if a == b { 0 } else { 2 + 3 * cubes };
        assert_eq!(t.hops(a, b), expected, "{from:?} {to:?}");
        assert!(t.route(a, b, None).all(|l| !t.link_name(l).contains("io")), "{from:?} {to:?}");
    }
    // A route between SIPs uses no connections between cubes.
    for to in (128..768).step_by(77) {
        let route: Vec<String> = t.route(DeviceId(5), DeviceId(to), None).map(|l| t.link_name(l)).collect();
        assert!(
            route[1].contains("->io_out(0,0)") && route[route.len() - 2].starts_with("io_in("),
            "{route:?}"
        );
        assert!(route[2..route.len() - 2].iter().all(|l| l.starts_with("io_")), "{route:?}");
    }
}

#[test]
fn memory_is_behind_the_router() {
    let t = machine(SIX);
    let device = t.device(&[1, 2, 3, 0, 6]).expect("a device");
    let port = |kind| t.memory_port(device, kind);
    assert_eq!(port(MemKind::Tcm), device);
    assert_eq!(t.name(port(MemKind::Hbm)), "hbm(1,2,3,0,6)");
    assert_eq!(t.name(port(MemKind::Sram)), "sram(1,2,3,0)");
    let way = |from, to| -> Vec<String> {
        t.route_between(from, to).expect("nodes").map(|l| t.link_name(l)).collect()
    };
    assert_eq!(
        way(port(MemKind::Hbm), device),
        ["hbm(1,2,3,0,6)->router(1,2,3,0)", "router(1,2,3,0)->(1,2,3,0,6)"]
    );
    assert_eq!(t.route_cost(device, port(MemKind::Hbm), None).bandwidth, 256e9);
    assert_eq!(t.route_cost(device, port(MemKind::Sram), None).bandwidth, 128e9);
    // The slice of a neighbour.
    let other = t.device(&[1, 2, 3, 1, 0]).expect("a device");
    assert_eq!(way(device, t.memory_port(other, MemKind::Hbm)).len(), 5);
    assert!(t.route_between(device, DeviceId(99_999)).is_none());
    // Machines without such ports have their memory at the device.
    let ring = machine("ring(4)");
    assert_eq!(ring.memory_port(DeviceId(2), MemKind::Hbm), DeviceId(2));
    assert_eq!(ring.route_between(DeviceId(0), DeviceId(2)).map(|r| r.len()), Some(2));
    assert!(machine("switch(4)").route_between(DeviceId(0), DeviceId(4)).is_none());
}

#[test]
fn ranks_are_pes_cubes_or_sips() {
    for (ranks, axes, devices) in [
        ("pe", vec!["sip_y", "sip_x", "cube_y", "cube_x", "pe"], 768),
        ("cube", vec!["sip_y", "sip_x", "cube_y", "cube_x"], 96),
        ("sip", vec!["sip_y", "sip_x"], 6),
    ] {
        let t =
            machine(&format!("package(torus(2, 3), mesh(4, 4), 8) {{ ranks: {ranks}; port_node: 8 ns }}"));
        assert_eq!((t.axes().map(|a| a.0).collect::<Vec<_>>(), t.device_count()), (axes, devices));
        assert!(t.connected(kbc_diag::Span::NONE).is_ok());
        let at = t.coordinates(DeviceId(devices as u32 - 1));
        let places: Vec<String> = at.iter().map(u32::to_string).collect();
        assert_eq!(
            t.name(t.memory_port(DeviceId(devices as u32 - 1), MemKind::Hbm)),
            format!("hbm({})", places.join(","))
        );
    }
    // SIPs on one axis.
    let t = machine("package(ring(6), mesh(1, 1), 1) { io_node: 10 ns }");
    assert_eq!(t.axes().collect::<Vec<_>>(), [("sip", 6), ("cube_y", 1), ("cube_x", 1), ("pe", 1)]);
    // Of two equally long directions, the positive one.
    assert!(names(&t, &[3, 0, 0, 0], &[0, 0, 0, 0]).contains(&"io_out(3)->io_in(4)".to_owned()));
    assert!(names(&t, &[0, 0, 0, 0], &[5, 0, 0, 0]).contains(&"io_out(0)->io_in(5)".to_owned()));
    let mesh = machine("package(mesh(6), mesh(1, 1), 1) { io_node: 10 ns }");
    assert_eq!(names(&mesh, &[0, 0, 0, 0], &[5, 0, 0, 0]).len(), 13);
    // Three by two and two by three differ.
    let [a, b] = ["2, 3", "3, 2"].map(|s| machine(&format!("package(torus({s}), mesh(1, 1), 1)")));
    assert!(a != b && a.device_count() == b.device_count() && a.sizes().ne(b.sizes()));
}

/// The links out of a SIP limit a large all-reduce: six parts with three wires each.
#[test]
fn the_wires_of_sips_bound_an_all_reduce() {
    use kbc_machine::bounds::{CollKind, Problem, bound};
    for ranks in ["cube", "pe"] {
        let t = machine(&SIX.replace("{ pe_wire", &format!("{{ ranks: {ranks}; pe_wire")));
        let problem = Problem::new(CollKind::AllReduce, 1 << 20, t.devices());
        let b = bound(&t, &problem).expect("a bound");
        let ns = 2.0 * 5.0 * f64::from(1u32 << 20) / (6.0 * 3.0 * 64e9) * 1e9;
        assert!((b.bandwidth_ns - ns).abs() < 1e-6 * ns, "{ranks}: {} {ns}", b.bandwidth_ns);
        assert_eq!(b.partition.len(), 6);
    }
}

/// TOPO-4: how a peer is written selects one of two wires, as on a torus.
#[test]
fn a_wrap_of_two_sips_has_one_wire_or_two() {
    let with =
        |wrap2| machine(&format!("package(torus(2, 3), mesh(1, 1), 1) {{ ranks: sip; wrap2: {wrap2} }}"));
    let (one, two) = (with(1), with(2));
    assert_eq!(two.link_count() - one.link_count(), 6);
    assert!(!one.has_doubled_links() && two.has_doubled_links());
    let (a, b) = (two.device(&[0, 1]).expect("a SIP"), two.device(&[1, 1]).expect("a SIP"));
    let way = |t: &Topology, hint| -> Vec<String> { t.route(a, b, hint).map(|l| t.link_name(l)).collect() };
    assert_eq!(way(&two, Some(Direction::Plus))[2], "io_out(0,1)->io_in(1,1) #1");
    assert_eq!(way(&two, Some(Direction::Minus))[2], "io_out(0,1)->io_in(1,1) #2");
    assert_eq!(way(&two, None), way(&two, Some(Direction::Plus)));
    assert_eq!(way(&one, Some(Direction::Minus)), way(&one, None));
    assert_eq!(way(&one, None)[2], "io_out(0,1)->io_in(1,1)");
}
