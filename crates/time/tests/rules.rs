//! Tests of time under the rules of a machine (`forward`, `round`, `endpoint`) and with perturbed
//! ranks and links (docs/reference/machine.md).

use crate::time_kit;

use kbc_diag::{FileId, Span, Spanned};
use kbc_machine::topology::perturb::{
    Distribution, Perturb, PerturbTargets, RankName, SlowLinks, Stragglers,
};
use kbc_machine::topology::{DeviceId, Fragment, LinkId, LinkRate, Pace, Topology};
use kbc_time::perturb::perturbed;
use kbc_time::*;
use time_kit::*;

fn contiguous(t: &Timing) {
    assert_eq!(t.path.first().map(|s| s.start_ns), Some(0.0));
    assert_eq!(t.path.last().map(|s| s.end_ns), Some(t.ns));
    assert!(t.path.windows(2).all(|w| w[0].end_ns == w[1].start_ns), "{:?}", t.path);
}

/// Rank 0 sends 1000 f32 to rank `to` of p, `times` times.
fn messages(p: u64, to: u64, times: u64) -> kbc_ir::schedule::Schedule {
    let body = format!(
        "        for s in 0..{times}\n          if r == 0\n            put v -> ({to}) : @w[s]\n            \
         fence.release\n            notify ({to}) : @s[0]\n        if r == {to}\n          wait @s[0] >= call * {times} \
         + {times}\n          fence.acquire\n"
    );
    parse(&one_region(p, 1000, times, 1, &body))
}

const ANALYTICAL: &str = "link: 50 GiB/s, 500 ns; forward: store_and_forward; round: 1 ns; endpoint: 1 ns";

#[test]
fn a_ring_in_whole_nanoseconds_is_the_formula() {
    for (p, alpha) in [(2u64, 500.0), (3, 0.0), (8, 500.0), (13, 0.5), (64, 500.25)] {
        let n = 1 << 20;
        let text = ANALYTICAL.replace("500 ns", &format!("{alpha} ns"));
        let t = time(&parse(&ring(p, n * p)), &machine(&format!("ring({p}) {{ {text} }}")));
        let b = 50.0 * (1u64 << 30) as f64 / 1e9;
        let want = 2.0 * (p - 1) as f64 * (alpha + (4 * n) as f64 / b).floor() + (2 * p - 1) as f64;
        assert_eq!(t.ns, want, "{p}");
        contiguous(&t);
        let sum = t.breakdown();
        assert_eq!(sum.endpoint_ns, (2 * p - 1) as f64);
        assert!((sum.latency_ns - 2.0 * (p - 1) as f64 * alpha).abs() < 1e-6 && sum.queue_ns == 0.0);
    }
}

#[test]
fn a_stored_message_pays_its_bytes_on_every_link() {
    // 4000 bytes at 10 bytes per ns.
    let t =
        time(&messages(4, 3, 1), &machine("mesh(4) { link: 10 GB/s, 100 ns; forward: store_and_forward }"));
    assert_eq!(t.ns, 3.0 * (100.0 + 400.0));
    contiguous(&t);
    let causes: Vec<Cause> = t.path.iter().map(|s| s.cause).collect();
    let link = |i: u32| LinkId(2 * i);
    assert_eq!(
        causes,
        (0..3).flat_map(|i| [Cause::Latency(link(i)), Cause::Service(link(i))]).collect::<Vec<_>>()
    );
    // Two of them follow each other through the links.
    let t =
        time(&messages(4, 3, 2), &machine("mesh(4) { link: 10 GB/s, 100 ns; forward: store_and_forward }"));
    assert_eq!(t.ns, 3.0 * 500.0 + 400.0);
    let cut = time(&messages(4, 3, 1), &machine("mesh(4) { link: 10 GB/s, 100 ns }"));
    assert_eq!(cut.ns, 3.0 * 100.0 + 400.0);
}

#[test]
fn rounding_is_down_and_keeps_the_order() {
    let three = "mesh(3) { link: 3 GB/s, 0.5 ns; round: 1 ns";
    // 4000 / 3 = 1333.3: floor(1333.8) with store-and-forward; head floor(0.5) and tail
    // floor(1333.8) with cut-through.
    let stored = machine(&format!("{three}; forward: store_and_forward }}"));
    assert_eq!(time(&messages(3, 2, 1), &stored).ns, 2.0 * 1333.0);
    assert_eq!(time(&messages(3, 2, 1), &machine(&format!("{three} }}"))).ns, 1333.0);
    let quantum = machine("mesh(3) { link: 3 GB/s, 0.5 ns; round: 100 ns; forward: store_and_forward }");
    assert_eq!(time(&messages(3, 2, 3), &quantum).ns, 2.0 * 1300.0 + 2.0 * 1300.0);
    // A separate notify after a put: floor(2.6) of the hold and floor(0.9) of its own would be
    // earlier than floor(3.5).
    let body = "        if r == 0\n          put v -> (1) : @w[0]\n          fence.release\n          notify (2) : @s[1]\n          \
                notify (1) : @s[0]\n        if r == 1\n          wait @s[0] >= call + 1\n          fence.acquire\n        \
                if r == 2\n          wait @s[1] >= call + 1\n";
    let s = parse(&one_region(3, 13, 1, 2, body));
    let topo = machine("full(3) { link: 20 GB/s, 0.9 ns; round: 1 ns; forward: store_and_forward }");
    let mut seen = Seen::default();
    simulate_observed(&s, &topo, &TimeOptions::default(), &mut seen).unwrap();
    let at = |kind| seen.messages.iter().find(|m| m.kind == kind && m.to == 1).unwrap().delivered_ns;
    assert_eq!((at(MessageKind::Put), at(MessageKind::Notify)), (3.0, 3.0));
}

#[test]
fn endpoints_are_paid_before_messages_and_at_the_end() {
    let t = time(&messages(3, 2, 1), &machine("mesh(3) { link: 10 GB/s, 100 ns; endpoint: 7 ns }"));
    assert_eq!(t.ns, 7.0 + 2.0 * 100.0 + 400.0 + 7.0);
    contiguous(&t);
    assert_eq!(t.breakdown().endpoint_ns, 14.0);
    // No rank sends anything.
    let alone = parse(&one_region(1, 1000, 1, 1, "        copy v = v\n"));
    assert_eq!(time(&alone, &machine("ring(1) { endpoint: 7 ns }")).ns, 0.0);
}

#[test]
fn a_late_rank_and_a_slow_unit_are_on_the_path() {
    let mut topo = machine("ring(4) { link: 10 GB/s, 100 ns; vector: 1 GB/s }");
    let s = parse(&ring(4, 4000));
    let plain = time(&s, &topo);
    topo.set_pace(DeviceId(2), Pace { late_ns: 1e6, ..Pace::NORMAL }).unwrap();
    let late = time(&s, &topo);
    contiguous(&late);
    assert_eq!((late.path[0].cause, late.path[0].rank, late.path[0].end_ns), (Cause::Late, 2, 1e6));
    assert_eq!(late.breakdown().late_ns, 1e6);
    assert_eq!(late.ns, plain.ns + 1e6);
    topo.set_pace(DeviceId(2), Pace { slower: [1.0, 1.0, 3.0], late_ns: 0.0 }).unwrap();
    let slow = time(&s, &topo);
    contiguous(&slow);
    // Three reductions of 4000 bytes on every rank; those of rank 2 take three times as long.
    let work: f64 = slow
        .path
        .iter()
        .filter(|s| s.rank == 2 && s.cause == Cause::Work(Unit::Vector))
        .map(|s| s.end_ns - s.start_ns)
        .sum();
    assert!(slow.ns > plain.ns && work >= 12_000.0, "{work}");
    topo.set_pace(DeviceId(2), Pace { slower: [3.0, 3.0, 1.0], late_ns: 0.0 }).unwrap();
    assert_eq!(time(&s, &topo).ns, plain.ns, "units that are not limited stay so");
}

/// Returns a perturbation with seed 1 and one run.
fn perturb(stragglers: Vec<Stragglers>, links: Vec<SlowLinks>) -> Perturb {
    Perturb { seed: 1, runs: 1, stragglers, links, span: Span::NONE }
}

fn slow_links(text: &str, slow: f64) -> SlowLinks {
    let set = Fragment { text, file: FileId(0), base: 0 }.links().expect("a selector of this test");
    SlowLinks {
        who: PerturbTargets::These(vec![Spanned::new(set, Span::NONE)]),
        slow: Some(Distribution::Constant(slow)),
        latency: None,
    }
}

#[test]
fn a_perturbed_link_changes_only_what_crosses_it() {
    let s = parse(&direct(8, 8000, "[k of 8]", "copy v[k of 8] = @w[k - 1]"));
    let topo = machine("ring(8) { link: 10 GB/s, 100 ns }");
    let seen = |topo: &Topology| {
        let mut seen = Seen::default();
        simulate_observed(&s, topo, &TimeOptions::default(), &mut seen).unwrap();
        seen.messages.sort_by_key(|m| (m.from, m.to, m.kind));
        seen.messages
    };
    let slow = perturbed(&topo, &perturb(vec![], vec![slow_links("(4)->(5)", 20.0)]), 1).unwrap();
    assert_eq!(
        slow.own_rates().collect::<Vec<_>>(),
        [(
            topo.links_between(DeviceId(4), DeviceId(5))[0].id,
            LinkRate { bandwidth: 0.5e9, latency_ns: 100.0 }
        )]
    );
    let (before, after) = (seen(&topo), seen(&slow));
    let crosses = |m: &Delivery| {
        let route = topo.route(DeviceId(m.from as u32), DeviceId(m.to as u32), None);
        route.filter_map(|l| topo.link(l)).any(|l| (l.from.0, l.to.0) == (4, 5))
    };
    let (mut same, mut later) = (0, 0);
    for (a, b) in before.iter().zip(&after) {
        if crosses(a) {
            assert!(b.delivered_ns > a.delivered_ns);
            later += 1;
        } else if a.delivered_ns == b.delivered_ns {
            same += 1;
        } else {
            // Only a message that shares a link with one that crossed may change.
            let route: Vec<LinkId> =
                topo.route(DeviceId(a.from as u32), DeviceId(a.to as u32), None).collect();
            let shares = before.iter().filter(|m| crosses(m)).any(|m| {
                topo.route(DeviceId(m.from as u32), DeviceId(m.to as u32), None).any(|l| route.contains(&l))
            });
            assert!(shares, "{a:?} {b:?}");
        }
    }
    assert!(later >= 10 && same >= 28, "{later} {same}");
}

#[test]
fn draws_depend_on_seed_entry_and_element_alone() {
    let topo = machine("torus(8, 8) { link: 10 GB/s, 100 ns }");
    let share = |latency| SlowLinks {
        who: PerturbTargets::Share(0.1),
        slow: Some(Distribution::Lognormal(2.0, 0.5)),
        latency,
    };
    let late = Stragglers {
        who: PerturbTargets::Count(Spanned::new(5, Span::NONE)),
        slow: Some(Distribution::Uniform(1.0, 2.0)),
        units: [false, true, false],
        late: Some(Distribution::Exponential(1000.0)),
    };
    let one = perturb(vec![late.clone()], vec![share(None)]);
    let a = perturbed(&topo, &one, 7).unwrap();
    assert_eq!(a, perturbed(&topo, &one, 7).unwrap());
    assert_ne!(a, perturbed(&topo, &one, 8).unwrap());
    // A tenth of 256 links, rounded up; five ranks; nothing is faster.
    assert_eq!((a.own_rates().count(), a.paces().count()), (26, 5));
    assert!(a.own_rates().all(|(_, r)| r.bandwidth <= 10e9 && r.latency_ns == 100.0));
    assert!(a.paces().all(|(_, p)| p.slower[0] == 1.0 && p.slower[1] > 1.0 && p.late_ns > 0.0));
    // With latency, too: the same links with the same bandwidths.
    let b =
        perturbed(&topo, &perturb(vec![], vec![share(Some(Distribution::Uniform(0.0, 50.0)))]), 7).unwrap();
    for ((l, x), (m, y)) in a.own_rates().zip(b.own_rates()) {
        assert_eq!((l, x.bandwidth), (m, y.bandwidth));
        assert!((100.0..150.0).contains(&y.latency_ns));
    }
    // Entries accumulate.
    let twice = perturb(vec![], vec![slow_links("+x", 2.0), slow_links("x", 3.0)]);
    let c = perturbed(&topo, &twice, 7).unwrap();
    let rates: Vec<f64> = c.own_rates().map(|(_, r)| (r.bandwidth / 1e7).round()).collect();
    assert_eq!(
        (rates.iter().filter(|r| **r == 167.0).count(), rates.iter().filter(|r| **r == 333.0).count()),
        (64, 64)
    );
}

#[test]
fn who_is_not_there_is_an_error() {
    let topo = machine("ring(8)");
    let entry =
        |who| Stragglers { who, slow: Some(Distribution::Constant(2.0)), units: [true; 3], late: None };
    for (who, words) in [
        (PerturbTargets::These(vec![Spanned::new(RankName::Number(8), Span::NONE)]), "no such rank"),
        (PerturbTargets::These(vec![Spanned::new(RankName::At(vec![1, 2]), Span::NONE)]), "no such rank"),
        (
            PerturbTargets::Count(Spanned::new(9, Span::NONE)),
            "9 ranks cannot be perturbed: the machine has 8",
        ),
    ] {
        let e = perturbed(&topo, &perturb(vec![entry(who)], vec![]), 1).unwrap_err();
        assert!(e.code == "E465" && e.title.contains(words), "{}", e.title);
    }
    let e = perturbed(&topo, &perturb(vec![], vec![slow_links("y", 2.0)]), 1).unwrap_err();
    assert_eq!(e.code, "E447");
}

#[test]
fn a_flit_is_paid_where_the_message_is_slowest_whole_or_not() {
    // First flit, then all but the last at the bottleneck, then the last one.
    let topo = machine("mesh(4) { link: 10 GB/s, 100 ns; link (1)->(2): 4 GB/s, 30 ns }");
    for elements in [1u64, 63, 64, 65, 96, 1000] {
        let body = "        if r == 0\n          put v -> (3) : @w[0]\n          fence.release\n          notify (3) : @s[0]\n        \
                    if r == 3\n          wait @s[0] >= call + 1\n          fence.acquire\n";
        let (bytes, flit) = (4 * elements, 256);
        let flits = bytes.div_ceil(flit);
        let want = 230.0 + ((flits - 1) * flit) as f64 / 4.0 + (bytes - (flits - 1) * flit) as f64 / 4.0;
        let s = parse(&one_region(4, elements, 1, 1, body));
        assert_eq!(time(&s, &topo).ns, want, "{elements}");
        // For a single message, it makes no difference when the bytes are charged.
        let drain =
            machine("mesh(4) { link: 10 GB/s, 100 ns; forward: drain; link (1)->(2): 4 GB/s, 30 ns }");
        let t = time(&s, &drain);
        assert_eq!(t.ns, want, "{elements}");
        contiguous(&t);
    }
}

#[test]
fn a_message_that_waited_drains_whole() {
    // The second message waits 400 ns for the first link. With cut-through, its tail is then as far
    // behind as its bytes; a slower link before the wait makes the difference.
    let body = "        if r == 0\n          put v -> (2) : @w[0]\n          fence.release\n          notify (2) : @s[0]\n        \
                if r == 1\n          put v -> (2) : @w[1]\n          fence.release\n          notify (2) : @s[1]\n        \
                if r == 2\n          wait @s[0] >= call + 1\n          fence.acquire\n          wait @s[1] >= call + 1\n          fence.acquire\n";
    let s = parse(&one_region(3, 1000, 2, 2, body));
    let rates = "link: 10 GB/s, 100 ns; link (0)->(1): 5 GB/s, 100 ns";
    let cut = time(&s, &machine(&format!("mesh(3) {{ {rates} }}")));
    let drain = time(&s, &machine(&format!("mesh(3) {{ {rates}; forward: drain }}")));
    // At 100 it is at the second link, which is free at 400: by then, 300 of the 800 ns behind its
    // head have passed.
    assert_eq!(cut.ns, 400.0 + 100.0 + 500.0);
    assert_eq!(drain.ns, 400.0 + 100.0 + 800.0);
    contiguous(&cut);
    contiguous(&drain);
    assert_eq!(drain.breakdown().service_ns, 800.0);
}

#[test]
fn every_rank_starts_a_launch_later() {
    let s = parse(&ring(4, 4000));
    let plain = time(&s, &machine("ring(4) { link: 10 GB/s, 100 ns }"));
    let mut topo = machine("ring(4) { link: 10 GB/s, 100 ns; launch: 250 ns }");
    let t = time(&s, &topo);
    assert_eq!(t.ns, plain.ns + 250.0);
    assert_eq!((t.path[0].cause, t.breakdown().launch_ns), (Cause::Launch, 250.0));
    contiguous(&t);
    topo.set_pace(DeviceId(2), Pace { late_ns: 1e6, ..Pace::NORMAL }).unwrap();
    let late = time(&s, &topo);
    assert_eq!((late.breakdown().launch_ns, late.breakdown().late_ns), (250.0, 1e6));
    contiguous(&late);
}

/// One stream multiplies, the other adds: 2 x 16^3 operations at 1 per ns, 1024 bytes at 1 per ns.
const TWO_UNITS: &str = "kir 1
module @m
mesh tp 2
schedule calls any
buffer %a : f32[16, 16] hbm temp
buffer %b : f32[16, 16] hbm temp
buffer %x : f32[256] hbm temp
buffer %y : f16[256] hbm temp
region @c local
  role all
    stream one
      matmul %b = %a, %a
    stream two
      cast %y = %x
";

#[test]
fn arithmetic_and_vector_work_may_share_a_slot() {
    let s = parse(TWO_UNITS);
    let rates = "device: 1 GFLOP/s, 1000 TB/s; vector: 1 GB/s";
    let own = time(&s, &machine(&format!("ring(2) {{ {rates} }}")));
    assert!((own.ns - 8192.0).abs() < 1.0, "{}", own.ns);
    let shared = time(&s, &machine(&format!("ring(2) {{ {rates}; compute: shared }}")));
    assert!((shared.ns - (8192.0 + 1024.0)).abs() < 1.0, "{}", shared.ns);
    assert!(shared.breakdown().unit_queue_ns > 1000.0, "{:?}", shared.path);
    contiguous(&shared);
}

#[test]
fn transfers_of_a_device_wait_for_its_channel_until_they_are_acknowledged() {
    // Two puts of 400 ns each to different neighbours, with 100 ns of latency.
    let body = "        if r == 0\n          put v -> (1) : @w[0]\n          put v -> (3) : @w[0]\n          fence.release\n          \
                notify (1) : @s[0]\n          notify (3) : @s[0]\n        if r % 2 == 1\n          \
                wait @s[0] >= call + 1\n          fence.acquire\n";
    let s = parse(&one_region(4, 1000, 1, 1, body));
    let free = time(&s, &machine("ring(4) { link: 10 GB/s, 100 ns }"));
    assert_eq!(free.ns, 500.0);
    let one = time(&s, &machine("ring(4) { link: 10 GB/s, 100 ns; dma: 1 }"));
    assert_eq!(one.ns, 500.0 + 100.0 + 500.0);
    assert_eq!(one.breakdown().acknowledged_ns, 100.0);
    contiguous(&one);
    assert_eq!(time(&s, &machine("ring(4) { link: 10 GB/s, 100 ns; dma: 2 }")).ns, 500.0);
    // Reading has a channel of its own, which is occupied until the data arrives.
    let body = "        if r == 0\n          get v <- (1) : @w[0]\n          get v <- (3) : @w[0]\n          put v -> (1) : @w[1]\n          \
                fence.complete\n";
    let s = parse(&one_region(4, 1000, 2, 1, body));
    let t = time(&s, &machine("ring(4) { link: 10 GB/s, 100 ns; dma: 1 }"));
    assert_eq!(t.ns, 2.0 * (100.0 + 500.0));
    contiguous(&t);
}

#[test]
fn vector_units_work_in_whole_steps() {
    let took = |n: u64, vector: &str| {
        let body = "        if r == 0\n          combine sum v, @w[0]\n";
        time(&parse(&one_region(2, n, 1, 1, body)), &machine(&format!("ring(2) {{ vector: {vector} }}"))).ns
    };
    // 4 bytes per element.
    for (n, steps) in [(1, 1), (64, 1), (128, 1), (129, 2), (256, 2), (1000, 8)] {
        assert_eq!(took(n, "512 GB/s, 512 B"), f64::from(steps), "{n}");
        assert_eq!(took(n, "512 GB/s"), n as f64 / 128.0, "{n}");
    }
    // A rate that replaces another one has its own step, or none.
    let first = Topology::parse("ring(2) { vector: 512 GB/s, 512 B }", FileId(0)).unwrap();
    let (own, none) = (first.settings(), Topology::parse("ring(2) { vector: 1 GB/s }", FileId(0)).unwrap());
    assert_eq!(none.settings().over(own).vector_step, None);
    assert_eq!(own.over(none.settings()).vector_step, Some(512.0));
}

/// What matters is how many messages are on their way at once, not how many there are.
#[test]
fn only_messages_at_once_need_memory() {
    let p = 600;
    let topo = machine(&format!("ring({p}) {{ link: 50 GB/s, 500 ns; link (0)->(1): 25 GB/s, 1 us }}"));
    let options = TimeOptions { memory: Some(64 << 20), path: false, ..TimeOptions::default() };
    let t = simulate(&parse(&ring(p, p)), &topo, &options).unwrap_or_else(|d| panic!("{d:#?}"));
    assert!(t.ns > 2.0 * (p - 1) as f64 * 500.0, "{}", t.ns);
    let direct = format!(
        "        for s in 1..{p}\n          put v[r of {p}] -> ((r + s) % {p}) : @w[s - 1]\n          \
         fence.release\n          notify ((r + s) % {p}) : @s[0]\n        \
         wait @s[0] >= call * {times} + {times}\n        fence.acquire\n",
        times = p - 1
    );
    let found = simulate(&parse(&one_region(p, p, p - 1, 1, &direct)), &topo, &options).err();
    assert_eq!(found.map(|d| d.list[0].code), Some("E369"));
}
