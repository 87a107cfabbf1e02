//! Tests of simulating one rank of each orbit: when it stands for all, and what prevents that.

use crate::time_kit;

use kbc_ir::schedule::Schedule;
use kbc_machine::topology::{DeviceId, LinkRate, Topology};
use kbc_time::*;
use time_kit::*;

/// Simulates with and without symmetry, which must agree; returns how the first was computed.
fn both(s: &Schedule, topo: &Topology, options: &TimeOptions) -> (Timing, Walked) {
    let mut some = simulate(s, topo, options).expect("it runs");
    let all = simulate(s, topo, &TimeOptions { every_rank: true, ..options.clone() }).expect("it runs");
    let walked = std::mem::replace(&mut some.walked, all.walked.clone());
    assert_eq!(some, all, "{walked:?}");
    (some, walked)
}

fn default(s: &Schedule, topo: &Topology) -> Walked {
    both(s, topo, &TimeOptions::default()).1
}

fn every(reason: &str) -> Walked {
    Walked::Every(reason.into())
}

#[test]
fn a_ring_is_one_orbit() {
    let s = parse(&ring(8, 800));
    let (t, walked) = both(&s, &machine("ring(8)"), &TimeOptions { calls: 3, ..TimeOptions::default() });
    assert_eq!(walked, Walked::Orbits(1));
    assert_eq!((t.messages, t.links.len(), t.ranks.len(), t.path.len()), (336, 8, 8, 84));
    // One chunk is not divisible by eight.
    assert_eq!(
        default(&parse(&ring(8, 801)), &machine("ring(8)")),
        every("chunks of v in region c differ in length")
    );
    let moves = every("the machine is not symmetric");
    assert_eq!(default(&s, &machine("mesh(8)")), moves);
    assert_eq!(default(&s, &machine("torus(2,4)")), moves);
}

#[test]
fn many_ranks_in_no_time() {
    let s = parse(&ring(1 << 14, 1 << 24));
    let topo = machine("ring(16384)");
    let t = simulate(&s, &topo, &TimeOptions::default()).unwrap();
    assert_eq!(t.walked, Walked::Orbits(1));
    assert_eq!((t.ns, t.messages), (32766.0 * (500.0 + 4096.0 / 50.0), 32766 << 14));
    assert_eq!((t.ranks.len(), t.links.len()), (1 << 14, 1 << 14));
    assert_eq!(t.path.len(), 65532);
    assert!(t.path.windows(2).all(|w| w[0].end_ns == w[1].start_ns));
}

#[test]
fn a_slow_link_makes_ranks_differ() {
    let s = parse(&ring(8, 800));
    let mut topo = machine("ring(8)");
    let slow = LinkRate { bandwidth: 1e9, latency_ns: 500.0 };
    topo.set_link(DeviceId(2), DeviceId(3), slow).unwrap();
    assert_eq!(default(&s, &topo), every("the machine is not symmetric"));
}

/// Every rank sends two hops away and, after a fence, one hop. If the fence is as long as a
/// latency, both messages want a link at the same time.
#[test]
fn two_ranks_that_want_a_link_at_once_are_not_one() {
    let s = parse(&one_region(
        8,
        1000,
        2,
        2,
        "        put v -> ((r + 2) % 8) : @w[0]
        fence.release
        notify ((r + 2) % 8) : @s[0]
        put v -> ((r + 1) % 8) : @w[1]
        fence.release
        notify ((r + 1) % 8) : @s[1]
        wait @s[0] >= call + 1
        wait @s[1] >= call + 1
",
    ));
    let tied = default(&s, &machine("ring(8) { link: 50 GB/s, 500 ns; fence: 500 ns }"));
    assert_eq!(tied, every("messages of different ranks need a link at the same time"));
    let not = default(&s, &machine("ring(8) { link: 50 GB/s, 500 ns; fence: 400 ns }"));
    assert_eq!(not, Walked::Orbits(1));
    // Without contention, the order of messages makes no difference.
    let empty = parse(&one_region(
        8,
        0,
        2,
        2,
        "        put v -> ((r + 2) % 8) : @w[0]
        fence.release
        put v -> ((r + 1) % 8) : @w[1]
",
    ));
    let machine = machine("ring(8) { link: 50 GB/s, 500 ns; fence: 500 ns }");
    assert_eq!(
        both(&empty, &machine, &TimeOptions { path: false, ..TimeOptions::default() }).1,
        Walked::Orbits(1)
    );
}

/// Messages from both neighbours at the same time: rank 0 sees them in another order than rank 1.
#[test]
fn a_path_that_could_go_both_ways_is_found_from_every_rank() {
    let s = parse(&one_region(
        8,
        1000,
        2,
        2,
        "        put v -> ((r + 1) % 8) : @w[0]
        fence.release
        notify ((r + 1) % 8) : @s[0]
        put v -> ((r - 1) % 8) : @w[1]
        fence.release
        notify ((r - 1) % 8) : @s[1]
        wait @s[0] >= call + 1
        wait @s[1] >= call + 1
",
    ));
    let topo = machine("ring(8)");
    assert_eq!(default(&s, &topo), every("several critical paths are equally long"));
    let (_, walked) = both(&s, &topo, &TimeOptions { path: false, ..TimeOptions::default() });
    assert_eq!(walked, Walked::Orbits(1));
}

#[test]
fn what_is_observed_is_every_rank() {
    let mut seen = Seen::default();
    let (s, topo) = (parse(&ring(4, 400)), machine("ring(4)"));
    let t = simulate_observed(&s, &topo, &TimeOptions::default(), &mut seen).unwrap();
    assert_eq!(t.walked, every("every rank is observed"));
    assert_eq!(seen.messages.len() as u64, t.messages);
}

#[test]
fn local_work_is_added_up() {
    let topo = machine("ring(4) { device: 1 TFLOP/s, 1 GB/s }");
    let (t, walked) = both(&parse(&ring(4, 400)), &topo, &TimeOptions::default());
    assert_eq!(walked, Walked::Orbits(1));
    // Three reductions of 100 elements, 1200 bytes each, and three copies of 800.
    assert!(t.ranks.iter().all(|r| r.work_ns == 6000.0));
}
