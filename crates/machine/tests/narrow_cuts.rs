//! Tests of the bound of an all-to-all on machines that are too large for all cuts.

use crate::bounds::{Random, all, check_partition, evaluate, machine, near};
use kbc_diag::FileId;
use kbc_machine::bounds::{CollKind, bound};
use kbc_machine::topology::Topology;

/// A random tree of devices and relays, with other rates in the two directions of a link.
fn tree(random: &mut Random, devices: u64, relays: u64) -> Topology {
    let name = |n: u64| if n < devices { format!("({n})") } else { format!("#{}", n - devices) };
    let mut nodes: Vec<u64> = (0..devices + relays).collect();
    for i in (1..nodes.len()).rev() {
        nodes.swap(i, random.below(i as u64 + 1) as usize);
    }
    let mut links = vec![];
    for i in 1..nodes.len() {
        let other = nodes[random.below(i as u64) as usize];
        for (a, b) in [(nodes[i], other), (other, nodes[i])] {
            links.push(format!("link {}->{}: {} GB/s, 500 ns", name(a), name(b), 1 + random.below(9)));
        }
    }
    let text = format!("graph({devices}, {relays}) {{ {} }}", links.join("; "));
    Topology::parse(&text, FileId(0)).unwrap_or_else(|d| panic!("{text}: {d:#?}"))
}

/// On a tree of links the best cut of an all-to-all is one link, and is found on machines that are
/// too large for all cuts; elsewhere the cut that is found is one.
#[test]
fn narrow_cuts_of_an_all_to_all_are_found() {
    let mut random = Random(23);
    for (devices, relays) in [(14, 0), (20, 7), (33, 5), (60, 12)] {
        let topo = tree(&mut random, devices, relays);
        let problem = all(&topo, CollKind::AllToAll, devices * 100);
        let mut best = 0f64;
        for link in topo.links() {
            // The devices on the side of the link from which it leads.
            let mut side = vec![link.from];
            let mut at = 0;
            while let Some(&node) = side.get(at) {
                at += 1;
                for next in topo.links_from(node) {
                    if next.to != link.to && !side.contains(&next.to) {
                        side.push(next.to);
                    }
                }
            }
            let ranks = side.iter().filter(|d| (d.0 as usize) < topo.device_count()).count() as f64;
            let bytes = ranks * (devices as f64 - ranks) * 100.0;
            best = best.max(bytes / link.rate.bandwidth * 1e9);
        }
        let b = bound(&topo, &problem).unwrap();
        assert!(near(b.bandwidth_ns, best), "{topo}: {} {best}", b.bandwidth_ns);
        check_partition(&topo, &problem, &b);
    }
    for (shape, of_ranks) in [("tree(5, 2)", 20.0 * 5.0 / 1e9), ("hierarchy(full(4), switch(4))", 0.0)] {
        let topo = machine(shape);
        let p = topo.device_count() as u64;
        let problem = all(&topo, CollKind::AllToAll, p * 1000);
        let b = bound(&topo, &problem).unwrap();
        assert!(b.bandwidth_ns >= of_ranks * 1000.0 * 1e9 * (1.0 - 1e-12), "{shape}: {}", b.bandwidth_ns);
        let again = evaluate(&topo, &problem, &b.partition);
        assert!(b.bandwidth_ns <= again * (1.0 + 1e-12), "{shape}");
    }
}
