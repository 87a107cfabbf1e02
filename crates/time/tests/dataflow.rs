//! Tests that the simulation stream by stream gives the result of the event engine, in every field.
//! An observer of a run asks for the engine, so a run with one and a run without are compared.

use crate::time_kit;

use kbc_ir::schedule::Schedule;
use kbc_machine::topology::{LinkId, LinkRate, Topology};
use kbc_time::*;
use time_kit::*;

struct Nothing;

impl Observer for Nothing {}

/// Simulates every rank in both ways, which must agree.
fn same(schedule: &Schedule, topo: &Topology, calls: u32) -> Timing {
    let options = TimeOptions { calls, every_rank: true, ..TimeOptions::default() };
    let t = simulate(schedule, topo, &options);
    let engine = simulate_observed(schedule, topo, &options, &mut Nothing);
    match (t, engine) {
        (Ok(t), Ok(engine)) => {
            assert_eq!(t.ranks, engine.ranks);
            assert_eq!(t.links, engine.links);
            assert_eq!(t.path.len(), engine.path.len());
            for (a, b) in t.path.iter().zip(&engine.path) {
                assert_eq!(a, b);
            }
            assert_eq!(t, engine);
            let short = simulate(schedule, topo, &TimeOptions { path: false, ..options }).expect("times");
            assert_eq!(short, Timing { path: vec![], ..t.clone() });
            t
        }
        (Err(a), Err(b)) => panic!("{a:?} {b:?}"),
        (a, b) => panic!("{a:?} {b:?}"),
    }
}

/// Numbers from a fixed sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Rules of machines, for links of 10 GB/s and 100 ns.
const RULES: [&str; 12] = [
    "",
    "; fence: 11 ns",
    "; fence: 400 ns",
    "; vector: 7 GB/s",
    "; vector: 7 GB/s; fence: 11 ns; endpoint: 7 ns; launch: 250 ns",
    "; device: 1 TFLOP/s, 3 GB/s; vector: 2 GB/s",
    "; endpoint: 7 ns",
    "; round: 1 ns; forward: store_and_forward; endpoint: 1 ns",
    "; round: 3 ns",
    "; forward: drain",
    "; signal: 100 B",
    "; core_memory: 3 GB/s",
];

fn machines(shape: &str) -> impl Iterator<Item = Topology> {
    RULES.iter().map(move |rules| machine(&format!("{shape} {{ link: 10 GB/s, 100 ns{rules} }}")))
}

#[test]
fn rings() {
    for p in [2, 3, 5, 16, 40] {
        for n in [p * 50, p * 50 + 3, 1] {
            let s = parse(&ring(p, n));
            for topo in machines(&format!("ring({p})")) {
                for calls in [1, 3] {
                    same(&s, &topo, calls);
                }
            }
            same(&s, &machine(&format!("mesh({p})")), 2);
            same(&s, &machine(&format!("full({p})")), 2);
        }
        for reduce in [false, true] {
            same(&parse(&half_ring(p, p * 64, reduce)), &machine(&format!("ring({p})")), 3);
        }
    }
}

/// Slow and fast links at random places, so that messages wait for links and ranks for each other.
#[test]
fn rings_with_links_of_many_rates() {
    let mut random = Random(1);
    for round in 0..60 {
        let p = 3 + random.below(38);
        let s = parse(&ring(p, p * (1 + random.below(2000))));
        let rules = RULES[round % RULES.len()];
        let mut topo = machine(&format!("ring({p}) {{ link: 10 GB/s, 100 ns{rules} }}"));
        for _ in 0..1 + random.below(5) {
            let link = topo.link(LinkId(random.below(topo.link_count()) as u32)).expect("a link");
            let bandwidth = [1e9, 2.5e9, 9e9, 40e9][random.below(4) as usize];
            let latency_ns = [50.0, 100.0, 333.3, 5000.0][random.below(4) as usize];
            topo.set_link(link.from, link.to, LinkRate { bandwidth, latency_ns }).expect("a link");
        }
        same(&s, &topo, 1 + random.below(3) as u32);
    }
}

#[test]
fn other_patterns() {
    for topo in machines("mesh(6)") {
        // Pieces along a line: a rank without a sender is as fast as its link.
        for pieces in [1, 2, 7, 100] {
            same(&parse(&chain(6, pieces * 100, pieces)), &topo, 2);
            same(&parse(&chain(6, pieces * 100 + 1, pieces)), &topo, 2);
        }
        same(&parse(&doubling(4, 100)), &machine("full(4)"), 3);
    }
    for topo in machines("full(6)") {
        same(&parse(&direct(6, 600, "[(r + k) % 6 of 6]", "copy v[(r - k) % 6 of 6] = @w[k - 1]")), &topo, 3);
    }
    for topo in machines("ring(6)") {
        // Streams share links: only the engine knows who comes first.
        same(&parse(&direct(6, 600, "[(r + k) % 6 of 6]", "copy v[(r - k) % 6 of 6] = @w[k - 1]")), &topo, 3);
    }
}

/// A ring with credits: a rank may be at most two turns ahead of the next one. Counters and slots
/// alternate.
fn credited(p: u64, turns: u64) -> Schedule {
    let body = format!(
        "        for s in 0..{turns}
          if s > 1
            wait @s[2] >= call * {turns} + s - 1
          put v[s % {p} of {p}] -> ((r + 1) % {p}) : @w[s % 2]
          fence.release
          notify ((r + 1) % {p}) : @s[s % 2]
          wait @s[s % 2] >= call * {half} + s / 2 + 1
          fence.acquire
          copy v[s % {p} of {p}] = @w[s % 2]
          notify ((r - 1) % {p}) : @s[2]
",
        half = turns / 2
    );
    parse(&one_region(p, 100 * p, 2, 3, &body))
}

#[test]
fn credits_hold_a_ring_back() {
    for topo in machines("ring(5)") {
        same(&credited(5, 40), &topo, 2);
    }
    let mut topo = machine("ring(5) { link: 10 GB/s, 100 ns; vector: 3 GB/s }");
    let link = topo.link(LinkId(2)).expect("a link");
    topo.set_link(link.from, link.to, LinkRate { bandwidth: 1e9, latency_ns: 900.0 }).expect("a link");
    same(&credited(5, 60), &topo, 2);
}

/// Waits of one turn that ask one counter for several notifies, and one that asks for many at once.
#[test]
fn waits_of_several_notifies() {
    let body = |receive: &str| {
        format!(
            "        for s in 0..50
          for k in 0..2
            put v[0 of 4] -> ((r + 1) % 4) : @w[0]
            fence.release
            notify ((r + 1) % 4) : @s[0]
{receive}"
        )
    };
    for receive in [
        "          wait @s[0] >= call * 100 + 2 * s + 2\n",
        "          wait @s[0] >= call * 100 + 2 * s + 1\n          wait @s[0] >= call * 100 + 2 * s + 2\n",
        "          wait @s[0] >= call * 100 + s + 1\n",
        "        for s in 0..50\n          wait @s[0] >= call * 100 + 40\n          wait @s[0] >= call * 100 + s + 1\n",
        "        wait @s[0] >= call * 100 + 30\n        for s in 0..100\n          wait @s[0] >= call * 100 + s + 1\n          \
         put v[1 of 4] -> ((r + 1) % 4) : @w[1]\n          fence.release\n          notify ((r + 1) % 4) : @s[1]\n        for s in 0..100\n          \
         wait @s[1] >= call * 100 + s + 1\n",
    ] {
        for topo in machines("ring(4)") {
            same(&parse(&one_region(4, 400, 2, 2, &body(receive))), &topo, 2);
        }
    }
}

/// Two streams of a rank, in both directions of a ring.
#[test]
fn streams_in_two_directions() {
    let part = |stream: &str, step: i64, s: u64| {
        format!(
            "    stream {stream}\n      for s in 0..30\n        put v[{s} of 2] -> ((r + {step}) % 6) : @w[{s}]\n        \
             fence.release\n        notify ((r + {step}) % 6) : @s[{s}]\n        wait @s[{s}] >= call * 30 + s + 1\n        \
             fence.acquire\n"
        )
    };
    let s = parse(&streams_region(6, 600, 2, 2, &(part("main", 1, 0) + &part("other", 5, 1))));
    for topo in machines("ring(6)") {
        same(&s, &topo, 2);
    }
}

/// Forms of counters other than epochs.
#[test]
fn forms_of_counters() {
    for form in ["clearing", "sense"] {
        let body = "        for s in 0..20
          put v[0 of 4] -> ((r + 1) % 4) : @w[0]
          fence.release
          notify ((r + 1) % 4) : @s[0]
          wait @s[0] VALUE
          fence.acquire
";
        let value = if form == "sense" { "& 1 == (s + 1) % 2" } else { "-= 1" };
        let text = one_region(4, 400, 1, 1, &body.replace("VALUE", value));
        let s = parse(&text.replace("arrival at 0", &format!("barrier {form} fresh")));
        for topo in machines("ring(4)") {
            same(&s, &topo, 2);
        }
    }
}

/// Four million ranks' worth of turns: 2 * 2047 turns on each of 2,048 ranks.
#[test]
fn many_ranks_that_differ() {
    let s = parse(&ring(2048, 1 << 20));
    let mut topo = machine("ring(2048) { link: 50 GB/s, 500 ns }");
    let link = topo.link(LinkId(0)).expect("a link");
    topo.set_link(link.from, link.to, LinkRate { bandwidth: 25e9, latency_ns: 1000.0 }).expect("a link");
    let t = simulate(&s, &topo, &TimeOptions::default()).unwrap();
    assert_eq!(t.messages, 2048 * 4094);
    assert!(t.path.windows(2).all(|w| w[0].end_ns == w[1].start_ns) && t.path.len() > 4094);
}
