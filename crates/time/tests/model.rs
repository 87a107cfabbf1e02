//! Tests of the time model: exact figures of small schedules, and the properties that
//! `docs/explanation/time.md` states.

use crate::time_kit;

use kbc_ir::schedule::Schedule;
use kbc_machine::topology::{DeviceId, Direction, LinkId, LinkRate, Topology};
use kbc_time::*;
use time_kit::*;

fn options(calls: u32) -> TimeOptions {
    TimeOptions { calls, ..TimeOptions::default() }
}

fn observed(s: &Schedule, topo: &Topology) -> (Timing, Seen) {
    let mut seen = Seen::default();
    let t = simulate_observed(s, topo, &options(1), &mut seen).unwrap_or_else(|d| panic!("{d:#?}"));
    (t, seen)
}

/// Checks that the path begins at 0, ends at the end, and has no gaps.
fn contiguous(t: &Timing) {
    if t.ns == 0.0 {
        assert_eq!(t.path, vec![]);
        return;
    }
    assert_eq!(t.path[0].start_ns, 0.0);
    assert_eq!(t.path[t.path.len() - 1].end_ns, t.ns);
    for w in t.path.windows(2) {
        assert_eq!(w[0].end_ns, w[1].start_ns, "{w:?}");
    }
    assert!(t.path.iter().all(|s| s.end_ns > s.start_ns));
}

#[test]
fn ring_all_reduce_costs_what_the_formula_says() {
    for (p, n, link, bandwidth, alpha) in [
        (2, 1000, "50 GB/s, 500 ns", 50e9, 500.0),
        (4, 9600, "50 GB/s, 500 ns", 50e9, 500.0),
        (7, 7 * 123, "30 GB/s, 700 ns", 30e9, 700.0),
        (16, 1 << 20, "12.5 GB/s, 0 ns", 12.5e9, 0.0),
        (64, 64 * 4096, "50 GB/s, 500 ns", 50e9, 500.0),
    ] {
        let t = time(&parse(&ring(p, n)), &machine(&format!("ring({p}) {{ link: {link} }}")));
        let chunk = (4 * n / p) as f64 * 1e9 / bandwidth;
        let want = (2 * (p - 1)) as f64 * (alpha + chunk);
        // If no quotient has to be rounded, the time is exact to the last bit.
        let exact = chunk.fract() == 0.0;
        assert!(
            if exact { t.ns == want } else { (t.ns / want - 1.0).abs() < 1e-14 },
            "{p} {n}: {} {want}",
            t.ns
        );
        assert_eq!(t.messages, 2 * p * (p - 1));
        contiguous(&t);
        let b = t.breakdown();
        assert_eq!((b.queue_ns, b.work_ns, b.fence_ns), (0.0, 0.0, 0.0));
        assert!((b.latency_ns - (2 * (p - 1)) as f64 * alpha).abs() < 1e-6);
        assert!(t.ranks.iter().all(|r| r.finish_ns == t.ns && r.sent_bytes == 2 * (p - 1) * 4 * n / p));
    }
}

#[test]
fn user_schedules_need_no_code() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../ir/tests/kir/good");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let s = parse(&std::fs::read_to_string(&path).unwrap());
        let p = s.mesh.ranks();
        for shape in [format!("ring({p})"), format!("mesh({p})"), format!("full({p})")] {
            let topo =
                machine(&format!("{shape} {{ fence: 20 ns; vector: 100 GB/s; device: 1 TFLOP/s, 1 TB/s }}"));
            let (one, three) = (time(&s, &topo), simulate(&s, &topo, &options(3)).unwrap());
            contiguous(&one);
            contiguous(&three);
            assert!(one.ns > 0.0 && three.ns > one.ns && three.call_ns.len() == 3, "{}", path.display());
            assert_eq!(three.messages, 3 * one.messages);
            assert_eq!(one, time(&s, &topo), "the same every time");
            seen += 1;
        }
    }
    assert!(seen >= 18);
}

#[test]
fn regions_have_spans() {
    let source = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../ir/tests/kir/good/shared_window.kir"
    ))
    .unwrap();
    let s = parse(&source);
    let t = time(&s, &machine("ring(4) { device: 1 TFLOP/s, 1 GB/s }"));
    let names: Vec<&str> = t.regions.iter().map(|r| s.regions[r.region.0 as usize].name.as_str()).collect();
    assert_eq!(names, ["pack", "rs", "step", "ag", "unpack"]);
    // 70 f32 read and written at 1 byte per ns.
    assert_eq!((t.regions[0].start_ns, t.regions[0].end_ns), (0.0, 560.0));
    assert_eq!(t.regions[4].end_ns, t.ns);
    assert!(t.regions.windows(2).all(|w| w[0].start_ns < w[1].start_ns && w[0].end_ns <= w[1].end_ns));
}

#[test]
fn one_rank_takes_no_time() {
    let t = time(&parse(&one_region(1, 1000, 1, 1, "        copy v = v\n")), &machine("ring(1)"));
    assert_eq!((t.ns, t.messages, t.path.len(), t.links.len()), (0.0, 0, 0, 0));
    assert_eq!(t.unlimited, ["memory"]);
    let none = simulate(&parse(&ring(4, 4)), &machine("ring(4)"), &options(0)).unwrap();
    assert_eq!((none.ns, none.messages), (0.0, 0));
}

#[test]
fn nothing_to_move_costs_latency() {
    let t = time(&parse(&ring(4, 0)), &machine("ring(4)"));
    assert_eq!(t.ns, 6.0 * 500.0);
    assert_eq!(t.messages, 24);
}

#[test]
fn a_line_carries_the_wrap_back() {
    // The hop from 7 to 0 passes all seven links back, so each directed link carries 7/4 of the
    // vector.
    let n = 1 << 16;
    let t = time(&parse(&ring(8, n)), &machine("mesh(8)"));
    assert_eq!(t.links.len(), 14);
    for l in &t.links {
        assert_eq!(l.bytes, 4 * n * 7 / 4);
    }
    assert_eq!(t.busiest().unwrap().bytes, 4 * n * 7 / 4);
    // The wrap is the slowest step of each round: seven hops and the bytes once.
    let chunk = (4 * n / 8) as f64 / 50.0;
    assert!(t.ns >= 7.0 * 500.0 + chunk + 13.0 * (500.0 + chunk));
    contiguous(&t);
}

/// Rank 0 sends 1000 elements to rank `to`.
fn one_message(p: u64, to: u64) -> Schedule {
    parse(&one_region(
        p,
        1000,
        1,
        1,
        &format!(
            "        if r == 0
          put v -> ({to}) : @w[0]
          fence.release
          notify ({to}) : @s[0]
        if r == {to}
          wait @s[0] >= 1
"
        ),
    ))
}

#[test]
fn a_machine_may_have_more_links_than_are_used() {
    // 89,700 links, of which a ring uses 300.
    let t = time(&parse(&ring(300, 300 * 25)), &machine("full(300)"));
    assert_eq!((t.ns, t.links.len()), (598.0 * 502.0, 300));
    assert!(t.links.windows(2).all(|w| w[0].link < w[1].link));
    assert!(t.links.iter().all(|l| l.bytes == 598 * 100 && l.messages == 598));
}

#[test]
fn cut_through_pays_latencies_and_the_slowest_link_once() {
    let mut topo = machine("mesh(4)");
    let s = one_message(4, 3);
    assert_eq!(time(&s, &topo).ns, 3.0 * 500.0 + 80.0);
    for (at, slow) in [(0, 10e9), (1, 10e9), (2, 10e9)] {
        let mut topo = topo.clone();
        topo.set_link(DeviceId(at), DeviceId(at + 1), LinkRate { bandwidth: slow, latency_ns: 600.0 })
            .unwrap();
        let t = time(&s, &topo);
        assert_eq!(t.ns, 1600.0 + 400.0, "slow link {at}");
        let busy: Vec<f64> = t.links.iter().map(|l| l.busy_ns).collect();
        let want: Vec<f64> = (0..3).map(|i| if i == at { 400.0 } else { 80.0 }).collect();
        assert_eq!(busy, want);
        let last = t.path[t.path.len() - 1];
        let link = topo.links_between(DeviceId(at), DeviceId(at + 1))[0].id;
        assert_eq!(last.cause, Cause::Service(link), "the slowest link is to blame");
        contiguous(&t);
    }
    topo.set_link(DeviceId(0), DeviceId(1), LinkRate { bandwidth: 10e9, latency_ns: 0.0 }).unwrap();
    assert_eq!(time(&s, &topo).breakdown().service_ns, 400.0);
}

#[test]
fn messages_on_a_link_are_served_in_the_order_they_came() {
    // Ranks 0 and 1 both send over the link 1 -> 2; the head of rank 0's message reaches it after
    // 500 ns.
    let body = "        if r < 2
          put v -> (2) : @w[r]
          fence.release
          notify (2) : @s[r]
        if r == 2
          wait @s[0] >= 1
          wait @s[1] >= 1
";
    let s = parse(&one_region(3, 100_000, 2, 2, body));
    let (t, seen) = observed(&s, &machine("mesh(3)"));
    let ends: Vec<(u64, f64)> = seen.messages.iter().map(|m| (m.from, m.delivered_ns)).collect();
    // 8000 ns of service each: the second one waits for the first.
    assert_eq!(ends, [(1, 8500.0), (0, 16500.0)]);
    assert_eq!(t.breakdown().queue_ns, 7500.0);
    assert!(t.path.iter().any(|s| matches!(s.cause, Cause::Queue(_)) && s.rank == 0));
    contiguous(&t);
}

#[test]
fn a_notify_after_a_put_rides_along_and_others_pay() {
    let send = |between: &str| {
        one_region(
            3,
            1000,
            2,
            2,
            &format!(
                "        if r == 0
          put v -> (1) : @w[0]
          fence.release
          fence.acquire
{between}          notify (1) : @s[0]
        if r == 1
          wait @s[0] >= 1
        if r == 2 && {}
          wait @s[1] >= 1
",
                i32::from(between.contains("notify"))
            ),
        )
    };
    let topo = machine("full(3) { signal: 100 B }");
    let rides = time(&parse(&send("")), &topo);
    assert_eq!((rides.ns, rides.messages), (580.0, 1));
    // After a message to another rank, the notify travels alone: 2 ns for 100 bytes, after the put.
    let alone = time(&parse(&send("          notify (2) : @s[1]\n")), &topo);
    assert_eq!((alone.ns, alone.messages), (582.0, 3));
    // A second notify no longer follows the put immediately.
    let twice = one_region(
        2,
        1000,
        1,
        2,
        "        if r == 0\n          put v -> (1) : @w[0]\n          notify (1) : @s[0]\n          notify (1) : @s[1]\n        if r == 1\n          wait @s[1] >= 1\n          wait @s[0] >= 1\n",
    );
    assert_eq!(time(&parse(&twice), &machine("full(2) { signal: 100 B }")).messages, 2);
}

#[test]
fn a_late_notify_comes_when_it_is_given() {
    // The fence takes longer than the message.
    let t = time(&one_message(2, 1), &machine("full(2) { fence: 2 us }"));
    assert_eq!((t.ns, t.messages), (2000.0, 1));
    let (path, b) = (&t.path, t.breakdown());
    assert_eq!((path.len(), path[0].cause, b.fence_ns), (1, Cause::Fence, 2000.0));
}

#[test]
fn fences_count_each_time() {
    let s = parse(&ring(4, 400));
    let t = time(&s, &machine("ring(4) { fence: 20 ns }"));
    // The release is over before the message arrives; the acquire adds to the time.
    assert_eq!(t.ns, 6.0 * (500.0 + 8.0 + 20.0));
    contiguous(&t);
    assert_eq!(t.unlimited, ["memory", "vector"]);
}

#[test]
fn gets_ask_and_are_answered() {
    let body = "        if r == 0
          get @w[0] <- (2) : v
          get @w[1] <- (1) : v
          fence.complete
";
    let (t, seen) =
        observed(&parse(&one_region(3, 1000, 2, 1, body)), &machine("mesh(3) { signal: 50 B; fence: 5 ns }"));
    // Both requests take the link 0 -> 1, 1 ns each; both replies take the link 1 -> 0, 80 ns each.
    let ends: Vec<(MessageKind, u64, f64)> =
        seen.messages.iter().map(|m| (m.kind, m.from, m.delivered_ns)).collect();
    use MessageKind::{Reply, Request};
    assert_eq!(ends, [(Request, 0, 502.0), (Request, 0, 1001.0), (Reply, 1, 1082.0), (Reply, 2, 2081.0)]);
    assert_eq!(t.ns, 2086.0);
    assert_eq!((t.ranks[0].received_bytes, t.ranks[2].sent_bytes), (8000, 4000));
    contiguous(&t);
}

#[test]
fn local_work_takes_its_units() {
    let text = |kernel: &str, streams: &str| {
        parse(&format!(
            "kir 1\nmodule @m\nmesh tp 1\n{kernel}schedule calls first\nbuffer %a : f32[100, 300] hbm temp\n\
             buffer %b : f32[300, 200] hbm temp\nbuffer %c : f32[100, 200] hbm temp\n\
             buffer %d : f32[100, 200] hbm temp\nbuffer %e : f16[100, 200] hbm temp\n\
             region @c local\n  role all\n{streams}"
        ))
    };
    let matmul = |streams: &str| text("", streams);
    let one = matmul("    stream main\n      matmul %c = %a, %b\n");
    // 12 MFLOP at 1 TFLOP/s are 12 us; (30000 + 60000 + 20000) * 4 bytes at 100 GB/s are 4.4 us.
    let t = time(&one, &machine("ring(1) { device: 1 TFLOP/s, 100 GB/s }"));
    assert_eq!((t.ns, t.path.len(), t.path[0].cause), (12_000.0, 1, Cause::Work(Unit::Arithmetic)));
    let t = time(&one, &machine("ring(1) { device: 10 TFLOP/s, 100 GB/s }"));
    assert_eq!((t.ns, t.path[0].cause), (4_400.0, Cause::Work(Unit::Memory)));
    assert_eq!(time(&one, &machine("ring(1)")).unlimited, ["arithmetic", "memory"]);
    // Two streams share the device: together they take twice as long.
    let two =
        matmul("    stream main\n      matmul %c = %a, %b\n    stream lane\n      matmul %d = %a, %b\n");
    let t = time(&two, &machine("ring(1) { device: 1 TFLOP/s, 100 GB/s }"));
    assert_eq!(t.ns, 24_000.0);
    assert_eq!(t.path[0].cause, Cause::UnitQueue(Unit::Arithmetic));
    contiguous(&t);
    // `max(x, x)` reads 80 kB and writes 80 kB: an operand that occurs twice is read once.
    let kernel = "kernel @twice(x, y) = max(x, y)\n";
    let square = text(kernel, "    stream main\n      map %d = twice(%c, %c)\n");
    assert_eq!(time(&square, &machine("ring(1) { device: 1 TFLOP/s, 80 GB/s }")).ns, 2000.0);
    // A conversion of 80 kB to 40 kB at 80 GB/s.
    let cast = matmul("    stream main\n      cast %e = %c\n");
    assert_eq!(time(&cast, &machine("ring(1) { vector: 80 GB/s }")).ns, 1000.0);
}

#[test]
fn streams_overlap_and_meet_at_events() {
    let s = |order: &str| {
        let streams = format!(
            "    stream main
        if r == 0
          put v -> (1) : @w[0]
          fence.release
          notify (1) : @s[0]
        if r == 1
          wait @s[0] >= 1
        {order}
    stream lane
        {}
        combine sum v, v
",
            if order.is_empty() { "record a" } else { "await a" }
        );
        parse(&streams_region(2, 1000, 1, 1, &streams.replace("        \n", "")))
    };
    let topo = machine("full(2) { vector: 4 GB/s }");
    // 1000 ns of work and 580 ns of message: in parallel, or one after the other.
    assert_eq!(time(&s(""), &topo).ns, 1000.0);
    let t = time(&s("record a"), &topo);
    assert_eq!(t.ns, 1580.0);
    assert_eq!((t.path[0].stream, t.path[t.path.len() - 1].stream), (0, 1));
    contiguous(&t);
}

#[test]
fn a_slow_link_changes_only_what_crosses_it() {
    // Two groups of three ranks on one line: of their messages only those from 4 to 5 cross the
    // link 4 -> 5.
    let body = "        for s in 0..4
          if r % 3 != 2
            put v -> (r + 1) : @w[s]
            fence.release
            notify (r + 1) : @s[0]
          if r % 3 != 0
            wait @s[0] >= s + 1
            fence.acquire
            put v -> (r - 1) : @w[s]
            fence.release
            notify (r - 1) : @s[1]
";
    let s = parse(&one_region(6, 1000, 4, 2, body));
    let topo = machine("mesh(6)");
    let (fast, before) = observed(&s, &topo);
    let mut slow = topo.clone();
    slow.set_link(DeviceId(4), DeviceId(5), LinkRate { bandwidth: 1e9, latency_ns: 500.0 }).unwrap();
    let (late, after) = observed(&s, &slow);
    assert!(late.ns > fast.ns);
    let of = |seen: &Seen, keep: &dyn Fn(&Delivery) -> bool| -> Vec<(u64, u64, u32, f64)> {
        let mut list: Vec<_> =
            seen.messages.iter().filter(|m| keep(m)).map(|m| (m.from, m.to, m.op, m.delivered_ns)).collect();
        list.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)).then(a.3.total_cmp(&b.3)));
        list
    };
    let other = |m: &Delivery| m.from != 5 && m.to != 5;
    assert_eq!(
        of(&before, &other),
        of(&after, &other),
        "messages that neither cross it nor wait for one that does"
    );
    let crossing = |m: &Delivery| (m.from, m.to) == (4, 5);
    let (x, y) = (of(&before, &crossing), of(&after, &crossing));
    assert!(x.len() == 4 && x.iter().zip(&y).all(|(a, b)| b.3 > a.3));
    // Every rank sends to every other at once. A message that shares no link with one that crosses
    // the slow link is unchanged.
    let s = parse(&direct(6, 6000, "[(r + k) % 6 of 6]", "copy v[(r - k) % 6 of 6] = @w[k - 1]"));
    let topo = machine("mesh(2, 3)");
    let slow_link = topo.links_between(DeviceId(1), DeviceId(4))[0].id;
    let mut slow = topo.clone();
    slow.set_rate(slow_link, LinkRate { bandwidth: 1e9, latency_ns: 900.0 }).unwrap();
    let ((_, before), (_, after)) = (observed(&s, &topo), observed(&s, &slow));
    let links = |m: &Delivery| -> Vec<LinkId> {
        topo.route(DeviceId(m.from as u32), DeviceId(m.to as u32), None).collect()
    };
    let touched: Vec<LinkId> =
        before.messages.iter().map(links).filter(|l| l.contains(&slow_link)).flatten().collect();
    let apart = |m: &Delivery| links(m).iter().all(|l| !touched.contains(l));
    let (x, y) = (of(&before, &apart), of(&after, &apart));
    assert!(x.len() > 10 && x.len() < 30);
    assert_eq!(x, y);
    assert_ne!(of(&before, &|_| true), of(&after, &|_| true));
}

#[test]
fn a_wrap_of_size_two_may_have_two_links() {
    // Each rank sends half to the other as `r + 1`, and half as `r - 1`.
    let body = "        put v[0 of 2] -> ((r + 1) % 2) : @w[0]
        fence.release
        notify ((r + 1) % 2) : @s[0]
        put v[1 of 2] -> ((r - 1) % 2) : @w[1]
        fence.release
        notify ((r - 1) % 2) : @s[1]
        wait @s[0] >= 1
        wait @s[1] >= 1
        fence.acquire
";
    let s = parse(&one_region(2, 50_000, 2, 2, body));
    let (one, two) = (time(&s, &machine("ring(2)")), time(&s, &machine("ring(2) { wrap2: 2 }")));
    assert_eq!((one.ns, one.links.len()), (4500.0, 2));
    assert_eq!((two.ns, two.links.len()), (2500.0, 4));
    assert!(two.links.iter().all(|l| l.bytes == 100_000));
    let topo = machine("ring(2) { wrap2: 2 }");
    let way = |id: LinkId| topo.link(id).unwrap().direction;
    assert_eq!(two.links.iter().filter(|l| way(l.link) == Direction::Minus).count(), 2);
}

#[test]
fn a_notify_one_way_waits_for_puts_the_other_way() {
    let body = "        if r == 0
          put v -> ((r + 1) % 2) : @w[0]
          fence.release
          notify ((r - 1) % 2) : @s[0]
        if r == 1
          wait @s[0] >= 1
";
    let mut s = parse(&one_region(2, 50_000, 1, 1, body));
    let topo = machine("ring(2) { wrap2: 2 }");
    // Directly after the put, the notify travels with it, however its peer is written.
    assert_eq!(time(&s, &topo).messages, 1);
    // With a copy in between, it travels alone, has the other link to itself, and still arrives
    // after the put: 4500 ns.
    s = parse(&one_region(2, 50_000, 1, 1, &body.replace("fence.release", "copy v = v")));
    let (t, seen) = observed(&s, &topo);
    assert_eq!(seen.messages[0].kind, MessageKind::Notify);
    assert_eq!((seen.messages[0].delivered_ns, t.ns, t.messages), (500.0, 4500.0, 2));
    contiguous(&t);
}

#[test]
fn calls_follow_each_other() {
    let s = parse(&ring(4, 400));
    let topo = machine("ring(4)");
    let t = simulate(&s, &topo, &options(5)).unwrap();
    assert_eq!(t.ns, 5.0 * 6.0 * 508.0);
    assert_eq!(t.call_ns, (1..=5).map(|c| f64::from(c) * 6.0 * 508.0).collect::<Vec<_>>());
    assert_eq!(t.regions.len(), 5);
    assert_eq!((t.regions[4].call, t.regions[4].start_ns), (4, t.call_ns[3]));
    contiguous(&t);
}

#[test]
fn ranks_may_be_on_many_axes() {
    let s = parse(
        &std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../ir/tests/kir/good/mesh2x3.kir"))
            .unwrap(),
    );
    // Stream `main`: rows, columns, rows, in thirds of a half, at most 9 + 9 + 9 elements; `lane`
    // has 13 + 13 + 13.
    let t = time(&s, &machine("mesh(2, 3) { link: 4 GB/s, 100 ns }"));
    assert!(t.ns >= 5.0 * 100.0);
    contiguous(&t);
}

#[test]
fn without_path_the_same_time() {
    let s = parse(&ring(5, 1001));
    let topo = machine("mesh(5) { vector: 10 GB/s }");
    let full = time(&s, &topo);
    let bare = simulate(&s, &topo, &TimeOptions { path: false, ..options(1) }).unwrap();
    assert_eq!(bare, Timing { path: vec![], ..full });
}

fn error(s: &Schedule, topo: &str) -> kbc_diag::Diagnostic {
    let list = simulate(s, &machine(topo), &options(1)).expect_err("an error").list;
    assert_eq!(list.len(), 1);
    list[0].clone()
}

#[test]
fn what_has_no_time_is_an_error() {
    let deadlock = ring(4, 4).replace("wait @s[0] >= call * 6 + s + 1", "wait @s[0] >= call * 6 + s + 2");
    let d = error(&parse(&deadlock), "ring(4)");
    assert_eq!(d.code, "E361");
    assert!(d.title.contains("4 of 4 ranks"), "{d:?}");
    assert_eq!(error(&parse(&ring(4, 4)), "ring(5)").code, "E371");
    let marked =
        one_region(2, 4, 1, 1, "        reserve ((r + 1) % 2) : @w[0]\n").replace(" synchronized", "");
    assert_eq!(error(&parse(&marked), "ring(2)").code, "E370");
    let far = ring(4, 4).replace("(r + 1) % 4) : @w", "r + 1) : @w");
    assert_eq!(error(&parse(&far), "ring(4)").code, "E303");
    assert_eq!(error(&parse(&ring(4, 4)), "ring(4) { link: 50 GB/s, 8000000000000 ms }").code, "E372");
    let counters = ring(4, 4).replace("signal @s[1]", "signal @s[2000000000]");
    assert_eq!(error(&parse(&counters), "ring(4)").code, "E373");
}
