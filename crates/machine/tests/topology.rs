//! Tests of machines: text, numbering of links, routes, rates. Closed forms are compared with a
//! search over the links themselves.

use std::collections::{BTreeSet, VecDeque};

use kbc_diag::{FileId, Span};
use kbc_machine::topology::{
    DEFAULT_LINK, DeviceId, Dimension, Direction, LinkId, LinkRate, Pace, Quantity, Settings, Topology,
    Written, quantity, unit_names,
};

const FILE: FileId = FileId(0);

fn machine(text: &str) -> Topology {
    Topology::parse(text, FILE).expect("a machine of this test")
}

/// Small machines of every kind, with axes of one and two, and both readings of a wrap of two.
const SMALL: [&str; 38] = [
    "ring(1)",
    "ring(2)",
    "ring(2) { wrap2: 2 }",
    "ring(3)",
    "ring(6)",
    "ring(7)",
    "torus(5)",
    "torus(2, 2)",
    "torus(2, 2) { wrap2: 2 }",
    "torus(2, 3)",
    "torus(3, 2) { wrap2: 2 }",
    "torus(4, 3)",
    "torus(1, 5)",
    "torus(2, 3, 4)",
    "torus(3, 1, 2) { wrap2: 2 }",
    "mesh(1)",
    "mesh(6)",
    "mesh(2, 3)",
    "mesh(4, 1)",
    "mesh(3, 2, 4)",
    "full(1)",
    "full(2)",
    "full(3)",
    "full(8)",
    "switch(1)",
    "switch(2)",
    "switch(5)",
    "hypercube(1)",
    "hypercube(4)",
    "tree(1, 3)",
    "tree(2, 3)",
    "tree(3, 2)",
    "hierarchy(full(4), ring(3))",
    "hierarchy(ring(4), switch(3))",
    "hierarchy(switch(2), full(3))",
    "hierarchy(mesh(2, 3), tree(2, 2))",
    "hierarchy(switch(3), switch(2))",
    "hierarchy(full(2), ring(2), mesh(3)) { wrap2: 2 }",
];

/// Returns devices and switches.
fn nodes(t: &Topology) -> impl Iterator<Item = DeviceId> {
    (0..t.node_count() as u32).map(DeviceId)
}

/// Returns the distances from a device along links.
fn search(t: &Topology, from: DeviceId) -> Vec<u32> {
    let mut far = vec![u32::MAX; t.node_count()];
    far[from.0 as usize] = 0;
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for l in t.links_from(at) {
            if far[l.to.0 as usize] == u32::MAX {
                far[l.to.0 as usize] = far[at.0 as usize] + 1;
                queue.push_back(l.to);
            }
        }
    }
    far
}

#[test]
fn links_are_numbered_densely_and_once() {
    for text in SMALL {
        let t = machine(text);
        let by_number: Vec<_> = t.links().collect();
        assert_eq!(by_number.len() as u64, t.link_count(), "{text}");
        let by_device: BTreeSet<LinkId> = nodes(&t).flat_map(|d| t.links_from(d)).map(|l| l.id).collect();
        assert_eq!(by_device, (0..by_number.len() as u32).map(LinkId).collect(), "{text}");
        let ends: BTreeSet<_> = by_number.iter().map(|l| (l.from, l.to, l.axis, l.direction)).collect();
        assert_eq!(ends.len(), by_number.len(), "{text}: two numbers of one link");
        for l in &by_number {
            assert!(t.links_from(l.from).contains(l), "{text}: {l:?}");
            assert!(t.links_between(l.to, l.from).iter().any(|b| b.axis == l.axis), "{text}: {l:?} one way");
            if l.from.0.max(l.to.0) as usize >= t.device_count() {
                continue;
            }
            let (a, b) = (t.coordinates(l.from), t.coordinates(l.to));
            let differ: Vec<usize> = (0..a.len()).filter(|&i| a[i] != b[i]).collect();
            assert_eq!(differ, [l.axis], "{text}: {l:?}");
        }
        let names: BTreeSet<String> = by_number.iter().map(|l| t.link_name(l.id)).collect();
        assert_eq!(names.len(), by_number.len(), "{text}: {names:?}");
    }
}

#[test]
fn link_counts() {
    for (text, links) in [
        ("ring(1)", 0),
        ("ring(2)", 2),
        ("ring(2) { wrap2: 2 }", 4),
        ("ring(6)", 12),
        ("torus(2, 3)", 18),
        ("torus(2, 3) { wrap2: 2 }", 24),
        ("torus(1, 5)", 10),
        ("mesh(2, 3)", 14),
        ("mesh(2, 3) { wrap2: 2 }", 14),
        ("mesh(3, 3, 3)", 108),
        ("full(8)", 56),
        ("full(65536)", 65_536 * 65_535),
        ("torus(256, 256)", 4 * 65_536),
    ] {
        assert_eq!(machine(text).link_count(), links, "{text}");
    }
}

#[test]
fn coordinates_follow_the_axes_last_fastest() {
    let t = machine("torus(2, 3)");
    assert_eq!(t.axes().collect::<Vec<_>>(), [("x", 2), ("y", 3)]);
    let names: Vec<String> = t.devices().map(|d| t.name(d)).collect();
    assert_eq!(names, ["(0,0)", "(0,1)", "(0,2)", "(1,0)", "(1,1)", "(1,2)"]);
    for text in SMALL {
        let t = machine(text);
        for d in t.devices() {
            assert_eq!(t.device(&t.coordinates(d)), Some(d), "{text}");
        }
    }
    assert_eq!(t.device(&[2, 0]), None);
    assert_eq!(t.device(&[0]), None);
    assert_eq!(machine("ring(4)").name(DeviceId(3)), "(3)");
}

#[test]
fn routes_are_connected_and_shortest() {
    for text in SMALL {
        let t = machine(text);
        for from in t.devices() {
            let far = search(&t, from);
            let farthest = *far[..t.device_count()].iter().max().unwrap();
            assert_eq!(t.eccentricity(from), farthest, "{text} from {}", t.name(from));
            for to in t.devices() {
                for hint in [None, Some(Direction::Plus), Some(Direction::Minus)] {
                    let route: Vec<_> = t.route(from, to, hint).map(|l| t.link(l).unwrap()).collect();
                    assert_eq!(route.len() as u32, far[to.0 as usize], "{text} {from:?} {to:?}");
                    assert_eq!(t.route(from, to, hint).len(), route.len());
                    let end = route.iter().fold(from, |at, l| {
                        assert_eq!(l.from, at, "{text}: broken route");
                        l.to
                    });
                    assert_eq!(end, to, "{text}");
                    assert!(route.is_sorted_by_key(|l| l.axis), "{text}: lowest axis first");
                }
            }
        }
        let worst = t.devices().map(|d| t.eccentricity(d)).max();
        assert_eq!(Some(t.diameter()), worst, "{text}");
    }
}

#[test]
fn ties_take_the_lowest_axis_then_the_positive_direction() {
    let walk = |text: &str, from: u32, to: u32| -> Vec<String> {
        let t = machine(text);
        t.route(DeviceId(from), DeviceId(to), None).map(|l| t.link_name(l)).collect()
    };
    assert_eq!(walk("ring(4)", 0, 2), ["(0)->(1)", "(1)->(2)"]);
    assert_eq!(walk("ring(4)", 3, 1), ["(3)->(0)", "(0)->(1)"]);
    assert_eq!(walk("ring(4)", 0, 3), ["(0)->(3)"]);
    assert_eq!(walk("mesh(2, 3)", 0, 5), ["(0,0)->(1,0)", "(1,0)->(1,1)", "(1,1)->(1,2)"]);
    assert_eq!(walk("mesh(2, 3)", 5, 0), ["(1,2)->(0,2)", "(0,2)->(0,1)", "(0,1)->(0,0)"]);
    assert_eq!(walk("full(4)", 3, 1), ["(3)->(1)"]);
}

#[test]
fn the_hint_picks_between_two_links_and_nothing_else() {
    let t = machine("torus(3, 2) { wrap2: 2 }");
    let first = |from: &[u32], to: &[u32], hint| {
        let (from, to) = (t.device(from).unwrap(), t.device(to).unwrap());
        t.route(from, to, hint).map(|l| t.link_name(l)).collect::<Vec<_>>().join(" ")
    };
    let (plus, minus) = (Some(Direction::Plus), Some(Direction::Minus));
    assert_eq!(first(&[0, 0], &[0, 1], None), "(0,0)->(0,1) +y");
    assert_eq!(first(&[0, 0], &[0, 1], plus), "(0,0)->(0,1) +y");
    assert_eq!(first(&[0, 0], &[0, 1], minus), "(0,0)->(0,1) -y");
    assert_eq!(first(&[0, 1], &[0, 0], minus), "(0,1)->(0,0) -y");
    assert_eq!(first(&[0, 0], &[1, 0], minus), "(0,0)->(1,0)", "an axis of three has one shortest way");
    // There is one link, so the hint has no effect.
    let one = machine("ring(2)");
    for hint in [None, plus, minus] {
        assert_eq!(one.route(DeviceId(1), DeviceId(0), hint).count(), 1);
    }
    // The two links of a pair are different resources in each direction.
    assert_eq!(t.links_between(DeviceId(0), DeviceId(1)).len(), 2);
}

#[test]
fn the_largest_machines_need_no_tables() {
    let full = machine("full(65536)");
    let last = full.link(LinkId((full.link_count() - 1) as u32)).unwrap();
    assert_eq!((last.from, last.to), (DeviceId(65_535), DeviceId(65_534)));
    assert_eq!(full.link(LinkId(u32::MAX)), None);
    let ring = machine("ring(65536)");
    assert_eq!(ring.route_cost(DeviceId(0), DeviceId(32_768), None).latency_ns, 32_768.0 * 500.0);
    assert_eq!(ring.diameter(), 32_768);
    let torus = machine("torus(32, 32, 64)");
    assert_eq!(torus.hops(DeviceId(0), DeviceId(65_535)), 3);
}

#[test]
fn own_rates_change_the_routes_over_them_only() {
    let mut t = machine("ring(4) { link: 10 GB/s, 100 ns }");
    let slow = LinkRate { bandwidth: 1e9, latency_ns: 700.0 };
    t.set_link(DeviceId(1), DeviceId(2), slow).unwrap();
    assert!(!t.is_uniform());
    let over = t.route_cost(DeviceId(0), DeviceId(2), None);
    assert_eq!((over.hops, over.latency_ns, over.bandwidth), (2, 800.0, 1e9));
    let back = t.route_cost(DeviceId(2), DeviceId(1), None);
    assert_eq!((back.hops, back.latency_ns, back.bandwidth), (1, 100.0, 1e10));
    assert_eq!(t.own_rates().count(), 1);
    t.set_link(DeviceId(1), DeviceId(2), LinkRate { bandwidth: 1e10, latency_ns: 100.0 }).unwrap();
    assert!(t.is_uniform());

    let e = t.set_link(DeviceId(0), DeviceId(2), slow).unwrap_err();
    assert_eq!((e.code, e.title.as_str()), ("E447", "ring(4) has no link (0)->(2)"));
    assert_eq!(e.help.as_deref(), Some("links lead to (1), (3)"));
    assert_eq!(t.set_link(DeviceId(0), DeviceId(9), slow).unwrap_err().code, "E447");
    assert_eq!(t.set_rate(LinkId(8), slow).unwrap_err().code, "E447");
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let rate = LinkRate { bandwidth: bad, latency_ns: 0.0 };
        assert_eq!(t.set_link(DeviceId(0), DeviceId(1), rate).unwrap_err().code, "E445");
    }
    let mut two = machine("ring(2) { wrap2: 2 }");
    two.set_link(DeviceId(0), DeviceId(1), slow).unwrap();
    assert_eq!(two.own_rates().count(), 2, "both links of the pair");
}

#[test]
fn text_comes_back_as_it_was() {
    for text in [
        "ring(6)",
        "torus(2, 3) { link: 50 GB/s, 500 ns; fence: 20 ns }",
        "mesh(4, 4, 2) { link: 50 GiB/s, 1 us; device: 100 TFLOP/s, 1.6 TB/s; vector: 200 GB/s; fence: 0 ns; \
         signal: 4 B; wrap2: 2 }",
        "full(8) { link: 1 B/s, 0.5 ns; wrap2: 1 }",
        "ring(4) { link: 50 GiB/s, 500 ns; forward: store_and_forward; round: 1 ns; endpoint: 2 ns }",
        "ring(8) { forward: cut_through; link (0)->(1): 25 GB/s, 1 us }",
        "ring(8) { queue: tcm, 0 }",
        "ring(8) { vector: 512 GB/s, 512 B }",
        "ring(8) { ub_size: 184 KiB; core_get: 4 KiB, 730 ns; core_put: 512 B, 500 ns; core_memory: 33 GB/s; \
         sdma: 21 GB/s, 2.5 us; engine: sdma; notify: 1 us }",
        "ring(8) { engine: core; notify: 0 ns }",
        "ring(8) { queue: hbm, 2; slots: 8, 4 KiB; credit: 16 B; backpressure: poll, 10 ns }",
        "ring(8) { backpressure: sleep; slot_tcm: 512 GB/s, 0 ns; slot_sram: 128 GB/s, 2 ns; slot_hbm: 32 GB/s, 6 ns; \
         hop_sram: 512 GB/s, 2 ns, 128 GB/s; hop_hbm: 256 GB/s, 6 ns, 256 GB/s }",
        "torus(4, 4) { link -x: 1 GB/s, 2 ns; link +y: 3 GB/s, 4 ns; link (0,0)->(0,1): 5 GB/s, 6 ns }",
        "ring(2) { wrap2: 2; link (1)->(0) -x: 7 GB/s, 8 ns }",
        "full(3) { link (2)->(0): 7 GB/s, 8 ns }",
        "switch(4) { link +x: 7 GB/s, 8 ns; link x.1#0->(2): 1 GB/s, 9 ns }",
        "tree(2, 3) { link +x.3: 100 GB/s, 1 us; link -x.3: 100 GB/s, 2 us; link x.1#0->x.2#0: 5 GB/s, 6 ns }",
        "hierarchy(full(2), switch(3)) { link +y: 9 GB/s, 1 us; link x.1#1->(2,1): 5 GB/s, 6 ns }",
        "hypercube(4) { link +x3: 9 GB/s, 1 us }",
    ] {
        assert_eq!(machine(text).to_string(), text);
    }
    // Other spellings of the same machine.
    for (text, same) in [
        (" torus( 2,3 )", "torus(2, 3)"),
        ("mesh(2,3){link:50GB/s,500ns}", "mesh(2, 3) { link: 50 GB/s, 500 ns }"),
        ("ring(4) { fence: 1000 ns; }", "ring(4) { fence: 1 us }"),
        ("ring(4) { link: 5e10 B/s, 0.5 us; }", "ring(4) { link: 50 GB/s, 500 ns }"),
        ("ring(4) { }", "ring(4)"),
        ("ring(3) { link x: 1 GB/s, 2 ns }", "ring(3) { link +x: 1 GB/s, 2 ns; link -x: 1 GB/s, 2 ns }"),
        (
            "mesh(3) { link x: 1 GB/s, 2 ns; link (1)->(0): 50 GB/s, 500 ns }",
            "mesh(3) { link +x: 1 GB/s, 2 ns; link (2)->(1): 1 GB/s, 2 ns }",
        ),
        (
            "ring(2) { link x: 3 GB/s, 1 ns; wrap2: 2; link (0)->(1): 2 GB/s, 1 ns }",
            "ring(2) { wrap2: 2; link (0)->(1) +x: 2 GB/s, 1 ns; link (1)->(0) -x: 3 GB/s, 1 ns; link (1)->(0) +x: \
             3 GB/s, 1 ns; link (0)->(1) -x: 2 GB/s, 1 ns }",
        ),
    ] {
        assert_eq!(machine(text).to_string(), same);
    }
}

#[test]
fn symmetries_that_rates_leave() {
    let turns = |text: &str| {
        let t = machine(text);
        (0..t.axes().len()).map(|a| t.is_rotation_invariant(a)).collect::<Vec<_>>()
    };
    assert_eq!(turns("torus(3, 4)"), [true, true]);
    assert_eq!(turns("torus(2, 4)"), [true, true]);
    assert_eq!(turns("ring(2) { wrap2: 2 }"), [true]);
    assert_eq!(turns("mesh(3, 1)"), [false, true]);
    assert_eq!(turns("full(5)"), [true]);
    assert_eq!(turns("hierarchy(switch(4), tree(2, 2))"), [false, true]);
    assert_eq!(turns("switch(4) { link +x: 1 GB/s, 2 ns }"), [true]);
    assert_eq!(turns("switch(4) { link (0)->x.1#0: 1 GB/s, 2 ns }"), [false]);
    assert_eq!(turns("hierarchy(full(2), switch(3)) { link (0,0)->x.1#0: 1 GB/s, 2 ns }"), [false, false]);
    // A direction may be slower everywhere; a single slow link breaks the symmetry of its own axis
    // and of the others.
    assert_eq!(turns("torus(3, 4) { link +x: 1 GB/s, 2 ns }"), [true, true]);
    assert_eq!(turns("torus(3, 4) { link (0,0)->(1,0): 1 GB/s, 2 ns }"), [false, false]);
    let column = "torus(2, 3) { link (0,0)->(0,1): 1 GB/s, 2 ns; link (0,1)->(0,2): 1 GB/s, 2 ns; \
                  link (0,2)->(0,0): 1 GB/s, 2 ns }";
    assert_eq!(turns(column), [false, true]);
    let mut t = machine("torus(2, 3)");
    t.set_pace(DeviceId(0), Pace { late_ns: 1.0, ..Pace::NORMAL }).unwrap();
    assert!(
        t.has_uniform_links()
            && !t.is_uniform()
            && !t.is_rotation_invariant(0)
            && !t.is_rotation_invariant(1)
    );
    t.set_pace(DeviceId(3), Pace { late_ns: 1.0, ..Pace::NORMAL }).unwrap();
    assert_eq!((t.is_rotation_invariant(0), t.is_rotation_invariant(1)), (true, false));
    t.set_pace(DeviceId(0), Pace::NORMAL).unwrap();
    t.set_pace(DeviceId(3), Pace::NORMAL).unwrap();
    assert!(t.is_uniform());
    assert_eq!(t.set_pace(DeviceId(6), Pace::NORMAL).unwrap_err().code, "E447");
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let pace = Pace { slower: [1.0, bad, 1.0], late_ns: 0.0 };
        assert_eq!(t.set_pace(DeviceId(0), pace).unwrap_err().code, "E445");
    }
}

#[test]
fn quantities_read_back_exactly() {
    // Rates of every size, including ones that no short decimal represents.
    let mut state = 1u64;
    for round in 0..4000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let fraction = (state >> 11) as f64 / (1u64 << 53) as f64;
        let amount = fraction * 10f64.powi(round % 30 - 9);
        for dimension in
            [Dimension::Bytes, Dimension::BytesPerSecond, Dimension::Nanoseconds, Dimension::FlopPerSecond]
        {
            let q = Quantity { amount, dimension };
            let text = q.to_string();
            let (number, unit) = text.split_once(' ').unwrap();
            assert_eq!(quantity(number, unit), Some(q), "{text}");
        }
    }
    assert_eq!(quantity("1", "TiB"), None);
    assert_eq!(quantity("1e400", "B"), None);
    assert_eq!(unit_names().len(), 21);
}

#[test]
fn settings_say_what_is_default_and_override_each_other() {
    let given = Topology::parse_shape("ring(4) { fence: 20 ns }", FILE).unwrap().settings;
    assert_eq!(given.link(), DEFAULT_LINK);
    assert_eq!(
        (given.flops(), given.memory(), given.vector()),
        (f64::INFINITY, f64::INFINITY, f64::INFINITY)
    );
    assert_eq!((given.fence_ns(), given.signal_bytes(), given.wrap2()), (20.0, 0.0, 1));
    assert_eq!(given.defaulted().len(), 5);
    assert!(!given.defaulted().contains(&"fence: 0 ns"));
    let program = Topology::parse_shape("ring(4) { link: 1 GB/s, 7 ns; fence: 9 ns; signal: 4 B }", FILE)
        .unwrap()
        .settings;
    let both = given.over(&program);
    assert_eq!(both.to_string(), " { link: 1 GB/s, 7 ns; fence: 20 ns; signal: 4 B }");
    assert_eq!(Settings::default().over(&program), program);
}

#[test]
fn bad_texts_are_one_clear_error() {
    for (text, code, words, place) in [
        ("tours(2, 3)", "E440", "did you mean `torus`", "tours"),
        ("grid(2, 3)", "E440", "ring, torus, mesh, full, switch, hypercube, tree, hierarchy", "grid"),
        ("tree(2, 17)", "E443", "tree(2, 17) has 131072 devices", "tree(2, 17)"),
        ("hierarchy(hypercube(16), ring(1))", "E443", "has 17 axes", "hierarchy(hypercube(16), ring(1))"),
        ("tree(2, 3) { link x.4: 1 GB/s, 1 ns }", "E447", "the levels are 1 to 3", "x.4"),
        ("tree(2, 3) { link x.1#4->x.2#0: 1 GB/s, 1 ns }", "E447", "no switch x.1#4", "x.1#4->x.2#0"),
        (
            "tree(2, 3) { link x.1#0->x: 1 GB/s, 1 ns }",
            "E446",
            "a device such as `(0,1)`, a switch such as `x.1#0` or a relay such as `#0",
            ":",
        ),
        ("ring()", "E442", "write ring(n)", "ring"),
        ("ring(4) { link +w: 1 GB/s, 1 ns }", "E446", "the names are x, y, z, x3", "w"),
        ("ring(4) { link (0)=(1): 1 GB/s, 1 ns }", "E446", "expected `->`", "="),
        ("ring(4) { link (0)->(1) x: 1 GB/s, 1 ns }", "E446", "expected `:`", "x"),
        ("ring(4) { link (a)->(1): 1 GB/s, 1 ns }", "E446", "expected a coordinate", "a"),
        (
            "ring(4) { link (99999999999)->(1): 1 GB/s, 1 ns }",
            "E446",
            "a coordinate is too large",
            "99999999999",
        ),
        ("ring(4) { link y: 1 GB/s, 1 ns }", "E447", "the axes with links are x", "y"),
        ("ring(4) { link (0)->(2): 1 GB/s, 1 ns }", "E447", "links lead to (1), (3)", "(0)->(2)"),
        ("ring(4) { link (0)->(4): 1 GB/s, 1 ns }", "E447", "the coordinates are x of 4", "(0)->(4)"),
        ("ring(4) { link (0,1)->(2): 1 GB/s, 1 ns }", "E447", "no device (0,1)", "(0,1)->(2)"),
        ("ring(4) { link (0)->(1) -x: 1 GB/s, 1 ns }", "E447", "in direction -x", "(0)->(1) -x"),
        ("ring(4) { link (0)->(1): 1 GB/s }", "E445", "has 1 values (allowed: 2)", "link"),
        ("ring(4) { forward: store }", "E445", "must be one of cut_through, store_and_forward", "store"),
        ("ring(4) { compute: both }", "E445", "must be one of separate, shared", "both"),
        ("ring(4) { vector: 5 GB/s, 5 ns }", "E445", "step of `vector` has the wrong kind", "5 ns"),
        ("ring(4) { vector: 5 GB/s, 0 B }", "E445", "out of range", "0 B"),
        ("ring(4) { vector: 5 GB/s, 0.5 B }", "E445", "cannot have 0.5 bytes", "0.5 B"),
        ("ring(4) { dma: 0 }", "E445", "dma` must be an integer from 1 to 65,536", "0"),
        ("ring(4) { dma: 1.5 }", "E445", "dma` must be an integer from 1 to 65,536", "1.5"),
        ("ring(4) { launch: 5 GB/s }", "E445", "wrong kind", "5 GB/s"),
        ("ring(4) { round: 0 ns }", "E445", "out of range", "0 ns"),
        ("ring(4) { endpoint: 1 B }", "E445", "wrong kind", "1 B"),
        ("ring(4) { core_get: 4 KiB }", "E445", "has 1 values (allowed: 2)", "core_get"),
        ("ring(4) { core_get: 0 B, 1 ns }", "E445", "out of range", "0 B"),
        ("ring(4) { core_put: 0.5 B, 1 ns }", "E445", "cannot have 0.5 bytes", "0.5 B"),
        ("ring(4) { core_put: 1 KiB, 0 ns }", "E445", "out of range", "0 ns"),
        ("ring(4) { core_memory: 5 ns }", "E445", "wrong kind", "5 ns"),
        ("ring(4) { sdma: 2.5 us, 21 GB/s }", "E445", "wrong kind", "2.5 us"),
        ("ring(4) { engine: dma }", "E445", "must be one of core, sdma", "dma"),
        (
            "ring(4) { engine: sdma }",
            "E445",
            "write its bandwidth and the fixed time of a transfer, such as `sdma: 21 GB/s, 2.5 us",
            "ring(4) { engine: sdma }",
        ),
        ("ring(4) { notify: 1 GB/s }", "E445", "wrong kind", "1 GB/s"),
        ("ring(4) { queue: dram }", "E445", "queue` has an unknown memory or cost model", "dram"),
        ("ring(4) { queue: ub, 1 }", "E445", "tcm, sram or hbm", "ub"),
        (
            "ring(4) { queue: tcm, 3 }",
            "E445",
            "the memory of the slots (tcm, sram or hbm), then the cost model: 0 (no cost), 1 (the memory), 2 (the memory and the route to it)",
            "tcm",
        ),
        ("ring(4) { queue: 4 }", "E445", "queue` needs a memory and a cost model", "4"),
        ("ring(4) { slots: 4 }", "E445", "slots` needs a number and a size", "4"),
        ("ring(4) { slots: 0, 4 B }", "E445", "cannot have 0 slots", "0"),
        ("ring(4) { slots: 1.5, 4 B }", "E445", "cannot have 1.5 slots", "1.5"),
        ("ring(4) { slots: 4, 0 B }", "E445", "out of range", "0 B"),
        ("ring(4) { slots: 4, 0.5 B }", "E445", "cannot have 0.5 bytes", "4"),
        ("ring(4) { credit: 1 ns }", "E445", "wrong kind", "1 ns"),
        ("ring(4) { backpressure: wait }", "E445", "backpressure` must be sleep or poll", "wait"),
        (
            "ring(4) { backpressure: poll }",
            "E445",
            "sleep` (a sender continues when the credit arrives) or `poll, 10 ns` (a sender checks every 10 ns)",
            "poll",
        ),
        ("ring(4) { backpressure: poll, 0 ns }", "E445", "out of range", "0 ns"),
        ("ring(4) { hop_sram: 1 GB/s, 1 ns }", "E445", "has 2 values (allowed: 3)", "hop_sram"),
        ("ring(4) { slot_hbm: 0 GB/s, 1 ns }", "E445", "out of range", "0 GB/s"),
        ("ring(2, 3)", "E442", "found 2 arguments", "ring"),
        ("mesh(1, 2, 3, 4)", "E442", "mesh(a, b) or mesh(a, b, c)", "mesh"),
        ("ring(full(2))", "E442", "integer sizes", "ring"),
        ("hierarchy(8, 4)", "E442", "two or more shapes", "hierarchy"),
        ("ring(0)", "E443", "size 0 of `ring` is out of range (1..=65536)", "0"),
        ("mesh(4, -1)", "E443", "size -1", "-1"),
        ("ring(65537)", "E443", "65537", "65537"),
        ("torus(300, 300)", "E443", "torus(300, 300) has 90000 devices", "torus(300, 300)"),
        ("ring(99999999999999999999)", "E443", "does not fit", "99999999999999999999"),
        ("ring(4) { lnik: 50 GB/s, 500 ns }", "E444", "did you mean `link`", "lnik"),
        (
            "ring(4) { colour: 3 }",
            "E444",
            "the names are link, device, vector, fence, signal, wrap2",
            "colour",
        ),
        ("ring(4) { link: 50 GB/s }", "E445", "has 1 values (allowed: 2)", "link"),
        ("ring(4) { link: 500 ns, 50 GB/s }", "E445", "a bandwidth such as `50 GB/s`, above zero", "500 ns"),
        ("ring(4) { link: 50 GB, 5 ns }", "E445", "bandwidth of `link`", "50 GB"),
        ("ring(4) { link: 0 GB/s, 5 ns }", "E445", "out of range", "0 GB/s"),
        ("ring(4) { fence: 20 }", "E445", "a time such as `500 ns`", "20"),
        ("ring(4) { fence: fast }", "E445", "a time such as `500 ns`", "fast"),
        ("ring(4) { wrap2: 3 }", "E445", "wrap2` must be 1 or 2", "3"),
        ("ring(4) { fence: 1 ns; fence: 1 ns }", "E445", "given twice", "fence"),
        ("ring(4) { fence: 20 nz }", "E446", "did you mean `ns`", "20 nz"),
        ("ring(4) { fence 20 ns }", "E446", "expected `:`", "2"),
        ("ring(4) { fence: 20 ns", "E446", "found the end of the text", ""),
        ("ring(4", "E446", "expected `,` or `)`", ""),
        ("ring 4", "E446", "expected `(`", "4"),
        ("ring(4) x", "E446", "expected the end", "x"),
        ("ring(p)", "E440", "unknown topology generator `p`", "p"),
        ("", "E446", "the name of a topology generator", ""),
        ("ring(4) { fence: 1.2.3 ns }", "E446", "`1.2.3` is not a number", "1.2.3"),
        ("ring(4) { fence: , }", "E446", "a number, a quantity", ","),
        ("ring(-)", "E446", "expected a size", ")"),
        ("\u{f8}(3)", "E446", "found `\u{f8}`", "\u{f8}"),
    ] {
        let e = Topology::parse(text, FILE).expect_err(text);
        let said = format!("{e:?}");
        assert_eq!(e.code, code, "{text}: {said}");
        assert!(said.contains(words), "{text}: {said}");
        let span = e.span();
        assert_eq!(&text[span.start as usize..span.end as usize], place, "{text}");
    }
    let deep = "hierarchy(".repeat(100_000);
    assert_eq!(Topology::parse(&deep, FILE).unwrap_err().code, "E446");
}

#[test]
fn a_shape_without_a_place_makes_a_message_without_a_place() {
    let Written { shape, settings, .. } = Topology::parse_shape("tree(2, 17)", FILE).unwrap();
    assert_eq!(shape.devices(), Some(1 << 17));
    let e = Topology::build(shape, settings, Span::NONE).unwrap_err();
    assert!(e.labels.is_empty());
}
