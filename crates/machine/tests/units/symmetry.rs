//! Symmetries of machines.

use kbc_diag::FileId;
use kbc_machine::topology::{DeviceId, LinkId, LinkRate, Topology};

fn machine(text: &str) -> Topology {
    Topology::parse(text, FileId(0)).expect("a machine")
}

/// Checks the definition: every route becomes the route between the moved devices.
fn by_routes(t: &Topology, stride: u32, size: u32, xor: bool) -> bool {
    let moved = |d: DeviceId, by: u32| {
        let x = d.0 / stride % size;
        DeviceId(d.0 - x * stride + if xor { x ^ by } else { (x + by) % size } * stride)
    };
    (0..size).all(|by| {
        t.devices().all(|a| {
            t.devices().all(|b| {
                let here: Option<Vec<LinkId>> =
                    t.route(a, b, None).map(|l| t.link_moved(l, |d| moved(d, by))).collect();
                let there: Vec<LinkId> = t.route(moved(a, by), moved(b, by), None).collect();
                let rates = |l: &[LinkId]| l.iter().map(|l| t.rate(*l)).collect::<Vec<_>>();
                let own: Vec<LinkId> = t.route(a, b, None).collect();
                here.is_some_and(|h| h == there) && rates(&own) == rates(&there)
            })
        })
    })
}

#[test]
fn what_carries_takes_routes_to_routes() {
    let mut found = 0;
    for text in [
        "ring(8)",
        "ring(5)",
        "ring(2)",
        "torus(4,4)",
        "torus(2,3)",
        "torus(4,2,3)",
        "mesh(4)",
        "mesh(2,4)",
        "full(8)",
        "full(6)",
        "ring(1)",
        "switch(6)",
        "hypercube(3)",
        "tree(2,2)",
        "hierarchy(full(4),ring(3))",
        "hierarchy(ring(4),switch(2))",
        "hierarchy(switch(4),full(2))",
        "ring(4) { route: (0)->(3)->(2), (2)->(1)->(0) }",
        "ring(4) { route: (0)->(1) }",
        "full(4) { route: (0)->(3)->(2), (2)->(1)->(0) }",
        "torus(2,3) { route: (0,0)->(0,1)->(1,1)->(1,0), (1,0)->(1,1)->(0,1)->(0,0) }",
    ] {
        let t = machine(text);
        let n = t.device_count() as u32;
        for stride in 1..=n {
            for size in (2..=n).filter(|s| n.is_multiple_of(stride * s)) {
                for xor in [false, true] {
                    if xor && !size.is_power_of_two() {
                        continue;
                    }
                    if t.carries(stride.into(), size.into(), xor) {
                        assert!(by_routes(&t, stride, size, xor), "{text} {stride} {size} {xor}");
                        found += 1;
                    }
                }
            }
        }
    }
    assert!(found > 30, "{found}");
}

#[test]
fn what_everybody_knows() {
    assert!(machine("ring(8)").carries(1, 8, false));
    assert!(machine("ring(8)").carries(4, 2, false) && !machine("ring(8)").carries(1, 4, false));
    assert!(!machine("ring(8)").carries(1, 8, true) && machine("full(8)").carries(1, 8, true));
    assert!(!machine("mesh(8)").carries(1, 8, false));
    assert!(machine("torus(4,3)").carries(3, 4, false) && machine("torus(4,3)").carries(1, 3, false));
    assert!(!machine("torus(4,3)").carries(1, 12, false));
}

#[test]
fn rates_must_move_too() {
    let slow = LinkRate { bandwidth: 1e9, latency_ns: 700.0 };
    let mut t = machine("ring(4)");
    t.set_link(DeviceId(0), DeviceId(1), slow).expect("a link");
    assert!(!t.carries(1, 4, false) && !t.carries(2, 2, false));
    t.set_link(DeviceId(2), DeviceId(3), slow).expect("a link");
    assert!(!t.carries(1, 4, false) && t.carries(2, 2, false));
}
