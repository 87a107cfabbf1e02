//! Tests of `switch: reduce, multicast`: the setting, and bounds of machines that have it.

use crate::bounds::{all, near, out};

use kbc_diag::FileId;
use kbc_machine::bounds::{self, CollKind, Method, bound};
use kbc_machine::topology::{DeviceId, Topology};

/// On machines whose switches combine and copy, the row of an all-reduce is the largest of all
/// cuts: n over the bandwidth that leaves one side.
#[test]
fn switches_that_add_halve_the_bound() {
    let with = |shape: &str, switch: &str| {
        let text = format!("{shape} {{ link: 1 GB/s, 0 ns; vector: 1 GB/s; switch: {switch} }}");
        Topology::parse(&text, FileId(0)).expect("a machine of this test")
    };
    let n = 8_000;
    for (shape, plain, adds) in [
        ("switch(8)", 14_000.0, 8_000.0),
        ("tree(2, 2)", 12_000.0, 8_000.0),
        ("hierarchy(switch(4), switch(2))", 7_000.0, 4_000.0),
    ] {
        let forward = with(shape, "forward");
        let found = bound(&forward, &all(&forward, CollKind::AllReduce, n)).expect("a bound");
        assert!(near(found.bandwidth_ns, plain), "{shape}: {found:?}");
        for (switch, method) in
            [("reduce, multicast", Method::Search), ("reduce", Method::Found), ("multicast", Method::Found)]
        {
            let topo = with(shape, switch);
            let problem = all(&topo, CollKind::AllReduce, n);
            let found = bound(&topo, &problem).expect("a bound");
            assert!(near(found.bandwidth_ns, adds) && found.method == method, "{shape} {switch}: {found:?}");
            let (_, again) = bounds::evaluate(&topo, &problem, &found.partition).expect("small");
            assert!(near(again, adds), "{shape} {switch}: {again}");
            // Every cut needs no longer than the one that was found.
            let ranks: Vec<DeviceId> = topo.devices().collect();
            for side in 1u32..(1 << ranks.len()) - 1 {
                let part = |inside: bool| -> Vec<DeviceId> {
                    ranks.iter().copied().filter(|d| (side >> d.0 & 1 == 1) == inside).collect()
                };
                let leaving = out(&topo, &ranks, &part(true));
                assert!(n as f64 / leaving <= found.bandwidth_ns * (1.0 + 1e-12), "{shape}: {side:b}");
            }
            // Ranks need not add what switches add.
            let reduces = switch.contains("reduce");
            assert_eq!(found.reduction_ns == 0.0, reduces, "{shape} {switch}: {found:?}");
            // Other collectives cross the same cuts with the same bytes.
            for kind in [CollKind::AllGather, CollKind::ReduceScatter] {
                let rows =
                    [&topo, &forward].map(|t| bound(t, &all(t, kind, n)).expect("a bound").bandwidth_ns);
                assert_eq!(rows[0], rows[1], "{shape} {switch}: {kind:?}");
            }
        }
    }
    let wrong = |text: &str| Topology::parse(text, FileId(0)).expect_err("not a machine").code;
    assert!(wrong("ring(4) { switch: reduce }") == "E445");
    for setting in ["switch: reduce, reduce", "switch: forward, reduce", "switch: adds", "switch: 2"] {
        assert!(wrong(&format!("switch(4) {{ {setting} }}")) == "E445", "{setting}");
    }
    let adaptive = "graph(2, 1) { routing: adaptive; switch: reduce; link (0)<->#0: 1 GB/s, 1 ns; link (1)<->#0: 1 GB/s, 1 ns }";
    assert!(wrong(adaptive) == "E445");
    assert!(wrong("switch(4) { switch: multicast; dma: 2 }") == "E445");
    for switch in ["forward", "reduce", "multicast", "reduce, multicast"] {
        let topo = with("switch(4)", switch);
        assert!(topo.to_string().contains(&format!("switch: {switch}")));
        assert_eq!(Topology::parse(&topo.to_string(), FileId(0)).expect("a machine"), topo);
    }
}
