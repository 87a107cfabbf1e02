//! Tests of the exact time of queues (SIM-3): slots in every memory and model, credits,
//! back-pressure, draining, and their parts of the critical path.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use kbc_diag::FileId;
use kbc_ir::schedule::Schedule;
use kbc_ir::text;
use kbc_machine::topology::Topology;
use kbc_time::{Cause, Slot, TimeOptions, Timing, simulate};

fn parse(kir: &str) -> Schedule {
    let module = text::parse(FileId(0), kir).unwrap_or_else(|d| panic!("{d:?}\n{kir}"));
    module.schedule().unwrap().clone()
}

fn time(s: &Schedule, machine: &str) -> Timing {
    let topo = Topology::parse(machine, FileId(0)).unwrap_or_else(|d| panic!("{machine}: {d:?}"));
    simulate(s, &topo, &TimeOptions::default()).unwrap_or_else(|d| panic!("{machine}: {:?}", d.list))
}

/// Rank 0 sends `count` messages of `n` elements to rank 1, through `depth` slots.
fn messages(count: u64, n: u64, depth: u64) -> Schedule {
    parse(&format!(
        "kir 1
module @m
mesh tp 2
schedule calls any
buffer %x : f32[{n}] hbm temp
queue @r_minus[1] : f32[{depth} x {n}] tcm
region @c over tp as (r of 2)
  on v = %x line {n}
  role from where r == 0
    stream main
      for s in 0..{count}
        send v -> (r + 1) : @r_minus[0]
  role to where r == 1
    stream main
      for s in 0..{count}
        recv v <- (r - 1) : @r_minus[0]
"
    ))
}

/// Returns a ring all-reduce on p ranks of p n elements, as `enqueue` makes it.
fn ring(p: u64, n: u64) -> Schedule {
    parse(&format!(
        "kir 1
module @m
mesh tp {p}
schedule calls any
buffer %x : f32[{all}] hbm temp
buffer %t : f32[{all}] hbm temp
queue @r_minus[1] : f32[4 x {n}] tcm
region @c over tp as (r of {p})
  on v = %x line {all}
  scratch t = %t line {all}
  role all
    stream main
      for s in 1..{p}
        send v[(r - s) % {p} of {p}] -> ((r + 1) % {p}) : @r_minus[0]
        recv t[(r - s - 1) % {p} of {p}] <- ((r - 1) % {p}) : @r_minus[0]
        combine sum v[(r - s - 1) % {p} of {p}], t[(r - s - 1) % {p} of {p}]
      for s in 1..{p}
        send v[(r - s + 1) % {p} of {p}] -> ((r + 1) % {p}) : @r_minus[0]
        recv v[(r - s) % {p} of {p}] <- ((r - 1) % {p}) : @r_minus[0]
",
        all = p * n
    ))
}

/// Memory, model, and the cost in ns of an access of 128 bytes.
const ACCESS: [(&str, u32, f64); 9] = [
    ("tcm", 0, 0.0),
    ("sram", 0, 0.0),
    ("hbm", 0, 0.0),
    ("tcm", 1, 0.25),
    ("sram", 1, 3.0),
    ("hbm", 1, 10.0),
    ("tcm", 2, 0.25),
    ("sram", 2, 3.25),
    ("hbm", 2, 7.0),
];

#[test]
fn one_message_in_every_memory_and_model() {
    let s = messages(1, 32, 4);
    for (memory, model, access) in ACCESS {
        for (forward, bytes) in [("cut_through", false), ("drain", true)] {
            let t = time(
                &s,
                &format!("mesh(2) {{ link: 128 GB/s, 11 ns; forward: {forward}; queue: {memory}, {model} }}"),
            );
            assert_eq!(t.ns, 12.0 + 2.0 * access, "{memory} {model}");
            let slots = if access > 0.0 { 2 } else { 0 };
            assert_eq!((t.slot_accesses(), t.breakdown().slot_ns), (slots, 2.0 * access));
            let causes: Vec<Cause> = t.path.iter().map(|s| s.cause).skip(1).collect();
            let link = t.links[0].link;
            let mut want = vec![if bytes { Cause::Drain } else { Cause::Service(link) }];
            want.extend([Cause::Slot(Slot::Write), Cause::Slot(Slot::Read)].iter().filter(|_| slots > 0));
            assert_eq!((t.path[0].cause, causes), (Cause::Latency(link), want));
        }
    }
}

#[test]
fn costs_of_slots_are_data_of_the_machine() {
    let s = messages(1, 32, 4);
    let with = |more: &str| time(&s, &format!("mesh(2) {{ link: 128 GB/s, 11 ns; {more} }}")).ns;
    assert_eq!(with("queue: sram, 1; slot_sram: 64 GB/s, 5 ns"), 12.0 + 2.0 * 7.0);
    assert_eq!(with("queue: sram, 2; slot_sram: 64 GB/s, 5 ns"), 12.0 + 2.0 * 3.25);
    assert_eq!(with("queue: hbm, 2; hop_hbm: 128 GB/s, 1 ns, 64 GB/s"), 12.0 + 2.0 * 4.0);
    assert_eq!(with("queue: tcm, 2; slot_tcm: 64 GB/s, 1 ns"), 12.0 + 2.0 * 3.0);
    // An empty message costs its setup; without queues of the machine, it costs nothing.
    let empty = messages(1, 0, 4);
    assert_eq!(time(&empty, "mesh(2) { link: 128 GB/s, 11 ns; queue: hbm, 1 }").ns, 23.0);
    assert_eq!(time(&empty, "mesh(2) { link: 128 GB/s, 11 ns }").ns, 11.0);
}

/// The difference between two memories is the number of accesses on the critical path times the
/// difference of their costs.
#[test]
fn memories_differ_by_the_accesses_on_the_path() {
    for p in [2, 4, 7] {
        let s = ring(p, 32);
        let at = |memory, model| {
            let queue = format!("queue: {memory}, {model}; vector: 64 GB/s");
            time(&s, &format!("ring({p}) {{ link: 128 GB/s, 11 ns; {queue} }}"))
        };
        let times: Vec<(Timing, f64)> = ACCESS.iter().map(|(k, m, cost)| (at(*k, *m), *cost)).collect();
        let accesses = 2 * 2 * (p - 1);
        for (a, cost_a) in &times {
            if *cost_a > 0.0 {
                assert_eq!(a.slot_accesses(), accesses, "{p}");
            }
            for (b, cost_b) in &times {
                assert_eq!(a.ns - b.ns, accesses as f64 * (cost_a - cost_b), "{p}");
            }
        }
    }
}

/// One slot, three messages: the second and the third wait for credits, asleep or polling.
#[test]
fn full_queues_wait_for_credits() {
    let s = messages(3, 32, 1);
    let with =
        |more: &str| time(&s, &format!("mesh(2) {{ link: 128 GB/s, 100 ns; queue: sram, 1; {more} }}"));
    // A message has arrived and is taken after 101 + 6 ns; its credit arrives 100 + 16 / 128 ns
    // later.
    let (taken, credit) = (107.0, 100.125);
    let sleep = with("backpressure: sleep");
    assert_eq!(sleep.ns, 3.0 * taken + 2.0 * credit);
    assert_eq!((sleep.breakdown().credit_ns, sleep.breakdown().poll_ns), (2.0 * credit, 0.0));
    assert_eq!(with("credit: 128 B").ns, 3.0 * taken + 2.0 * 101.0);
    assert_eq!(with("credit: 0 B").ns, 3.0 * taken + 2.0 * 100.0);
    for period in [1.0, 7.0, 50.0, 1000.0] {
        let poll = with(&format!("backpressure: poll, {period} ns"));
        let mut sent = 0.0;
        for _ in 0..2 {
            sent += ((taken + credit) / period).ceil() * period;
        }
        assert_eq!(poll.ns, sent + taken, "{period}");
        assert_eq!(poll.breakdown().poll_ns, sent - 2.0 * (taken + credit), "{period}");
    }
    // Three slots are enough for three messages, which are written one after another while the
    // first is read; a second slot allows two in flight.
    let deep = |depth| time(&messages(3, 32, depth), "mesh(2) { link: 128 GB/s, 100 ns; queue: sram, 1 }").ns;
    assert_eq!(deep(3), 101.0 + 3.0 * 3.0 + 3.0);
    assert_eq!(deep(2), 2.0 * taken + credit);
}

/// A credit does not wait behind data on its way back, unless the machine has no queues: then it is
/// a notify.
#[test]
fn credits_have_a_path_of_their_own() {
    let s = parse(
        "kir 1
module @m
mesh tp 2
schedule calls any
buffer %x : f32[1280] hbm temp
queue @q[2] : f32[1 x 1280] tcm
region @c over tp as (r of 2)
  on v = %x line 1280
  role from where r == 0
    stream main
      send v[0 of 40] -> (r + 1) : @q[0]
      send v[0 of 40] -> (r + 1) : @q[0]
    stream back
      recv v[1 of 2] <- (r + 1) : @q[1]
  role to where r == 1
    stream main
      recv v[0 of 40] <- (r - 1) : @q[0]
      recv v[0 of 40] <- (r - 1) : @q[0]
    stream back
      send v[1 of 2] -> (r - 1) : @q[1]
",
    );
    // 2560 bytes occupy the link back until 20 ns; the credit is sent after 2 ns.
    let own = time(&s, "mesh(2) { link: 128 GB/s, 1 ns; queue: tcm }");
    assert_eq!(own.ns, 21.0, "the data back ends last");
    let sends = |t: &Timing| t.path.iter().filter(|s| s.cause == Cause::Credit).count();
    assert_eq!(sends(&own), 0);
    let notify = time(&s, "mesh(2) { link: 128 GB/s, 1 ns; signal: 16 B }");
    assert_eq!(notify.ns, 20.0 + 1.0 + 0.125 + 2.0);
    assert!(notify.links.iter().any(|l| l.queue_ns == 18.0), "{:?}", notify.links);
    assert!(own.links.iter().all(|l| l.queue_ns == 0.0), "{:?}", own.links);
}

/// Messages are written to slots when they arrive: a late receiver only pays for reading them.
#[test]
fn late_receivers_only_read() {
    let s = messages(2, 32, 4);
    for forward in ["cut_through", "drain"] {
        let mut topo = Topology::parse(
            &format!("mesh(2) {{ link: 128 GB/s, 11 ns; forward: {forward}; queue: tcm, 1 }}"),
            FileId(0),
        )
        .unwrap();
        let mut pace = topo.pace(kbc_machine::topology::DeviceId(1));
        pace.late_ns = 1000.0;
        topo.set_pace(kbc_machine::topology::DeviceId(1), pace).unwrap();
        let ns = simulate(&s, &topo, &TimeOptions::default()).unwrap().ns;
        assert_eq!(ns, 1000.0 + 2.0 * 0.25, "{forward}");
    }
}

/// Ranks 0 and 2 send to rank 1, which waits for the message of `first` and then for the other one.
fn from_both_sides(first: u64) -> Schedule {
    let recv = |rank: u64| {
        let (sign, queue) = if rank == 0 { ("r - 1", "r_minus") } else { ("r + 1", "r_plus") };
        format!("      recv v <- ({sign}) : @{queue}[0]\n")
    };
    parse(&format!(
        "kir 1
module @m
mesh tp 3
schedule calls any
buffer %x : f32[32] hbm temp
queue @r_minus[1] : f32[4 x 32] tcm
queue @r_plus[1] : f32[4 x 32] tcm
region @c over tp as (r of 3)
  on v = %x line 32
  role low where r == 0
    stream main
      send v -> (r + 1) : @r_minus[0]
  role high where r == 2
    stream main
      send v -> (r - 1) : @r_plus[0]
  role middle where r == 1
    stream main
{}{}",
        recv(first),
        recv(2 - first)
    ))
}

/// The inlet of a rank takes in one message after another, in the order of arrival, whichever is
/// read first. A message that arrives while another is read costs only its own read afterwards.
#[test]
fn inlets_take_messages_in_one_after_another() {
    let at = |first, near: f64, far: f64| {
        let mut topo =
            Topology::parse("mesh(3) { link: 128 GB/s, 11 ns; forward: drain; queue: sram, 1 }", FileId(0))
                .unwrap();
        for (rank, late) in [(0, near), (2, far)] {
            let mut pace = topo.pace(kbc_machine::topology::DeviceId(rank));
            pace.late_ns = late;
            topo.set_pace(kbc_machine::topology::DeviceId(rank), pace).unwrap();
        }
        simulate(&from_both_sides(first), &topo, &TimeOptions::default()).unwrap()
    };
    // 11 ns until a head arrives, 1 ns of bytes, 3 ns per access. If both arrive at once, the
    // second waits for the inlet.
    for first in [0, 2] {
        let t = at(first, 0.0, 0.0);
        let in_order = first == 0;
        // The message of rank 0 is in its slot after 15 ns, the other one after 19.
        assert_eq!(t.ns, if in_order { 22.0 } else { 25.0 }, "{first}");
        assert!(
            t.path.iter().any(|s| s.cause == Cause::Inlet && s.end_ns - s.start_ns == 4.0),
            "{:?}",
            t.path
        );
        assert_eq!(t.breakdown().queue_ns, 4.0);
        assert_eq!(t.slot_accesses(), if in_order { 2 } else { 3 });
    }
    // The message that is read first comes much later: the other one is in its slot by then, and
    // adds only its read.
    let t = at(0, 100.0, 0.0);
    assert_eq!((t.ns, t.slot_accesses()), (100.0 + 15.0 + 3.0 + 3.0, 3));
    // The other order hides it.
    let t = at(2, 100.0, 0.0);
    assert_eq!((t.ns, t.slot_accesses()), (100.0 + 15.0 + 3.0, 2));
}
