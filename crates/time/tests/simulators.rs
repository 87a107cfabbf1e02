//! Tests that the two simulators of time agree on every algorithm of the library: the simulation
//! stream by stream and the event engine, which runs with an observer.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::stack;

use kbc_diag::FileId;
use kbc_machine::topology::{LinkId, LinkRate, Topology};
use kbc_time::{Observer, TimeOptions, simulate, simulate_observed};
use stack::{Layout, World};

struct Nothing;

impl Observer for Nothing {}

/// Returns machines with a number of axes: with and without symmetry, and where local work takes
/// time.
fn machines(sizes: &[u64]) -> Vec<Topology> {
    let list: Vec<String> = sizes.iter().map(u64::to_string).collect();
    let (shape, p) = (list.join(", "), sizes.iter().product::<u64>());
    let wrapped = if sizes.len() == 1 { "ring" } else { "torus" };
    let machine = |text: String| Topology::parse(&text, FileId(0)).unwrap();
    let mut slow = machine(format!("{wrapped}({shape}) {{ link: 10 GB/s, 100 ns }}"));
    if let Some(link) = slow.link(LinkId(1)) {
        slow.set_link(link.from, link.to, LinkRate { bandwidth: 3e9, latency_ns: 700.0 }).unwrap();
    }
    vec![
        machine(format!("{wrapped}({shape}) {{ link: 10 GB/s, 100 ns }}")),
        machine(format!(
            "mesh({shape}) {{ link: 10 GB/s, 100 ns; vector: 3 GB/s; fence: 20 ns; endpoint: 5 ns }}"
        )),
        machine(format!("full({p}) {{ link: 10 GB/s, 100 ns; vector: 3 GB/s }}")),
        slow,
    ]
}

#[test]
fn they_agree_on_the_library() {
    let world = World::shipped();
    let shapes = |axes: usize| match axes {
        1 => vec![vec![4], vec![5], vec![16]],
        2 => vec![vec![2, 4], vec![3, 3], vec![4, 4]],
        3 => vec![vec![2, 2, 2], vec![2, 3, 2]],
        _ => vec![],
    };
    let (mut runs, mut wrong) = (0, vec![]);
    for case in world.cases(&shapes, &|p| vec![0, p / 2]) {
        let p = case.ranks();
        for layout in [Layout { unit: p, ..Layout::ints(12 * p) }, Layout::ints(7 * p + 3)] {
            let Ok(module) = stack::synchronized(world, &case, &layout) else { continue };
            let schedule = module.schedule().unwrap();
            for topo in machines(&case.sizes) {
                for (calls, path) in [(1, true), (3, true), (2, false)] {
                    let options = TimeOptions { calls, path, every_rank: true, ..TimeOptions::default() };
                    let words = |d| world.words(&d);
                    let streams = simulate(schedule, &topo, &options).map_err(words);
                    let events = simulate_observed(schedule, &topo, &options, &mut Nothing).map_err(words);
                    runs += 1;
                    if streams != events {
                        wrong.push(format!("{} on {} ({calls} calls)", world.show(&case), topo.shape()));
                    }
                }
            }
        }
    }
    assert!(runs > 2000, "{runs}");
    assert!(wrong.is_empty(), "{} of {runs}: {wrong:#?}", wrong.len());
}
