//! Tests of `switch: reduce, multicast`: messages that switches combine and copy
//! (docs/explanation/time.md, "Switches that combine and copy").

use crate::time_kit;

use kbc_ir::schedule::Schedule;
use kbc_machine::topology::Topology;
use kbc_time::Timing;
use time_kit::*;

/// Ranks below switches, with links of 10 GB/s and 100 ns.
fn below(shape: &str, switch: &str) -> Topology {
    machine(&format!("{shape} {{ link: 10 GB/s, 100 ns; switch: {switch} }}"))
}

/// One region in which rank 0 does some operations, and the others nothing. The line has 4,000
/// bytes, which is 400 ns on a link.
fn rank0(p: u64, ops: &str) -> Schedule {
    let lines: String = ops.lines().map(|l| format!("          {l}\n")).collect();
    parse(&one_region(p, 1000, 8, 1, &format!("        if r == 0\n{lines}")))
}

/// Rank 0 puts its line to all other ranks.
fn to_all(p: u64) -> Schedule {
    rank0(p, &format!("for k in 1..{p}\n  put v -> (k) : @w[0]\nfence.release"))
}

/// Rank 0 fetches the sum of the lines of all other ranks.
fn from_all(p: u64) -> Schedule {
    let more = format!("for k in 2..{p}\n  get.combine sum v <- (k) : @w[0]\nfence.complete");
    rank0(p, &format!("get v <- (1) : @w[0]\n{more}"))
}

/// Bytes that a link carried.
fn bytes(t: &Timing, topo: &Topology, link: &str) -> u64 {
    t.links.iter().find(|l| topo.link_name(l.link) == link).map_or(0, |l| l.bytes)
}

#[test]
fn a_message_for_several_ranks_passes_a_link_once() {
    let s = to_all(4);
    let (plain, copies) = (below("switch(4)", "forward"), below("switch(4)", "multicast"));
    // Two latencies, and the bytes three times or once.
    assert_eq!([time(&s, &plain).ns, time(&s, &copies).ns], [1400.0, 600.0]);
    let sent = |topo: &Topology| {
        let t = time(&s, topo);
        (
            bytes(&t, topo, "(0)->x.1#0"),
            bytes(&t, topo, "x.1#0->(3)"),
            t.ranks[0].sent_bytes,
            t.ranks[3].received_bytes,
        )
    };
    assert_eq!(sent(&plain), (12_000, 4_000, 12_000, 4_000));
    assert_eq!(sent(&copies), (4_000, 4_000, 4_000, 4_000));
    // Switches that only reduce do not copy.
    assert_eq!(time(&s, &below("switch(4)", "reduce")).ns, 1400.0);
}

#[test]
fn copies_are_made_at_the_last_switch_that_routes_have_in_common() {
    let (s, topo) = (to_all(8), below("tree(2, 3)", "multicast"));
    let t = time(&s, &topo);
    assert_eq!(t.ns, 6.0 * 100.0 + 400.0);
    let once = ["(0)->x.1#0", "x.1#0->x.2#0", "x.2#0->x.3#0", "x.3#0->x.2#1", "x.2#1->x.1#3", "x.1#3->(7)"];
    assert_eq!(once.map(|link| bytes(&t, &topo, link)), [4_000; 6]);
}

#[test]
fn devices_that_forward_do_not_copy() {
    // Ranks 2 and 3 are reached through rank 1, rank 1 through a relay.
    let link = |a: &str, b: &str| format!("link {a}<->{b}: 10 GB/s, 100 ns");
    let links = [link("(0)", "#0"), link("#0", "(1)"), link("(1)", "(2)"), link("(1)", "(3)")].join("; ");
    let topo = machine(&format!("graph(4, 1) {{ switch: multicast; {links} }}"));
    let s = rank0(4, "for k in 1..4\n  put v -> (k) : @w[0]\nfence.release");
    let t = time(&s, &topo);
    // The relay makes a copy for each of the three. Rank 1 passes two of them on.
    assert_eq!((bytes(&t, &topo, "(0)->#0"), bytes(&t, &topo, "#0->(1)")), (4_000, 12_000));
    assert_eq!(t.ns, 3.0 * 100.0 + 3.0 * 400.0);
}

#[test]
fn other_elements_other_times_and_writes_between_make_other_messages() {
    let topo = below("switch(4)", "reduce, multicast");
    let at = |ops: &str| time(&rank0(4, ops), &topo).ns;
    let both = |between: &str, second: &str| {
        at(&format!("put v[0 of 2] -> (1) : @w[0]\n{between}put {second} -> (2) : @w[0]\nfence.release"))
    };
    // 2,000 bytes take 200 ns.
    assert_eq!(both("", "v[0 of 2]"), 400.0);
    assert_eq!(both("fence.release\nnotify (1) : @s[0]\n", "v[0 of 2]"), 400.0);
    assert_eq!(both("", "v[1 of 2]"), 600.0);
    assert_eq!(both("fence.release\ncopy v[1 of 2] = v[0 of 2]\n", "v[0 of 2]"), 600.0);
    let slow = machine("switch(4) { link: 10 GB/s, 100 ns; fence: 50 ns; switch: multicast }");
    let two = "put v -> (1) : @w[0]\nfence.release\nput v -> (2) : @w[0]";
    assert_eq!(time(&rank0(4, two), &slow).ns, 200.0 + 800.0);
}

#[test]
fn contributions_become_one_message_where_they_meet() {
    let s = from_all(4);
    // A request and an answer take two latencies each, and the answer its bytes once.
    let topo = below("switch(4)", "reduce");
    let t = time(&s, &topo);
    assert_eq!(t.ns, 400.0 + 400.0);
    assert_eq!((bytes(&t, &topo, "x.1#0->(0)"), bytes(&t, &topo, "(3)->x.1#0")), (4_000, 4_000));
    assert_eq!((t.ranks[0].received_bytes, t.ranks[3].sent_bytes), (4_000, 4_000));
    // Without it, each get waits for the one before it.
    for switch in ["forward", "multicast"] {
        let topo = below("switch(4)", switch);
        let t = time(&s, &topo);
        assert_eq!((t.ns, bytes(&t, &topo, "x.1#0->(0)")), (3.0 * 800.0, 12_000), "{switch}");
    }
    // On every level of a tree.
    let topo = below("tree(2, 3)", "reduce");
    let t = time(&from_all(8), &topo);
    assert_eq!(t.ns, 12.0 * 100.0 + 400.0);
    let once = ["(7)->x.1#3", "x.1#3->x.2#1", "x.2#1->x.3#0", "x.3#0->x.2#0", "x.2#0->x.1#0", "x.1#0->(0)"];
    assert_eq!(once.map(|link| bytes(&t, &topo, link)), [4_000; 6]);
}

#[test]
fn a_sum_waits_for_its_last_contribution() {
    let link = "link (3)->x.1#0: 1 GB/s, 700 ns";
    let topo = machine(&format!("switch(4) {{ link: 10 GB/s, 100 ns; switch: reduce; {link} }}"));
    // The request takes two latencies. The contribution comes at 1 GB/s, and so does the sum.
    assert_eq!(time(&from_all(4), &topo).ns, 200.0 + 700.0 + 100.0 + 4000.0);
}

#[test]
fn ranks_combine_what_switches_do_not() {
    let vector = |switch: &str| {
        let topo =
            machine(&format!("switch(4) {{ link: 10 GB/s, 100 ns; vector: 10 GB/s; switch: {switch} }}"));
        time(&from_all(4), &topo).ns
    };
    // Two additions of 4,000 bytes, or none.
    assert_eq!([vector("forward"), vector("reduce")], [3.0 * 800.0 + 2.0 * 400.0, 800.0]);
    // Contributions that meet in no switch arrive by themselves, and the rank adds them.
    let links = "link (0)<->(1): 10 GB/s, 100 ns; link (0)<->(2): 10 GB/s, 100 ns; link (3)<->#0: 10 GB/s, 100 ns; link (0)<->#0: 10 GB/s, 100 ns";
    let topo = machine(&format!("graph(4, 1) {{ switch: reduce; vector: 10 GB/s; {links} }}"));
    let s = rank0(3 + 1, "get v <- (1) : @w[0]\nget.combine sum v <- (2) : @w[0]\nfence.complete");
    assert_eq!(time(&s, &topo).ns, 200.0 + 400.0 + 400.0);
    // A get that combines with what is there adds as well.
    let into = "get.combine sum v <- (1) : @w[0]\nget.combine sum v <- (2) : @w[0]\nfence.complete";
    let topo = machine("switch(4) { link: 10 GB/s, 100 ns; vector: 10 GB/s; switch: reduce }");
    assert_eq!(time(&rank0(4, into), &topo).ns, 800.0 + 400.0);
}

#[test]
fn only_contributions_to_one_sum_become_one_message() {
    let both = below("switch(4)", "reduce, multicast");
    let at = |ops: &str| {
        let times = ["reduce", "reduce, multicast"].map(|s| time(&rank0(4, ops), &below("switch(4)", s)).ns);
        assert_eq!(times[0], times[1], "{ops}");
        (times[0], bytes(&time(&rank0(4, ops), &both), &both, "x.1#0->(0)"))
    };
    let get = |peer: u32| format!("get v <- ({peer}) : @w[0]\n");
    let more = |op: &str, peer: u32| format!("get.combine {op} v <- ({peer}) : @w[0]\n");
    let end = "fence.complete";
    assert_eq!(at(&[&get(1), &more("max", 2), &more("max", 3), end].concat()), (800.0, 4_000));
    // The last one waits for the first two.
    assert_eq!(at(&[&get(1), &more("max", 2), &more("sum", 3), end].concat()), (1600.0, 8_000));
    assert_eq!(at(&[&get(1), end, "\n", &more("sum", 2), end].concat()), (1600.0, 8_000));
    // A put between them has no effect on them.
    assert_eq!(at(&[&get(1), "put v -> (3) : @w[1]\n", &more("sum", 2), end].concat()).1, 4_000);
}

#[test]
fn copies_of_several_messages_may_alternate() {
    let topo = below("switch(4)", "multicast");
    let put = |part: u32, peer: u32| format!("put v[{part} of 2] -> ({peer}) : @w[{part}]\n");
    let t = time(&rank0(4, &[put(0, 1), put(1, 1), put(0, 2), put(1, 2)].concat()), &topo);
    assert_eq!((t.ns, bytes(&t, &topo, "(0)->x.1#0"), t.ranks[0].sent_bytes), (600.0, 4_000, 4_000));
    // What the rank fetches in between may be what it sends.
    let own = "get v[0 of 2] <- (0) : v[1 of 2]\nfence.complete\n";
    let t = time(&rank0(4, &[&put(0, 1), own, &put(0, 2)].concat()), &topo);
    assert_eq!((t.ns, bytes(&t, &topo, "(0)->x.1#0")), (600.0, 4_000));
}

#[test]
fn a_get_that_comes_when_others_are_answered_is_another_message() {
    let topo = machine("switch(4) { link: 10 GB/s, 0 ns; switch: reduce }");
    let late = "get v <- (1) : @w[0]\nnotify (0) : @s[0]\nwait @s[0] >= call + 1\nget.combine sum v <- (2) : @w[0]\nfence.complete";
    let through = "get v <- (0) : @w[0]\nget.combine sum v <- (2) : @w[0]\nfence.complete";
    // Without latencies the answers leave at the moment at which the gets are issued.
    for (ops, ns) in [(late, 400.0), (through, 400.0)] {
        let t = time(&rank0(4, ops), &topo);
        assert!(t.ns == ns || t.ns == 2.0 * ns, "{ops}: {}", t.ns);
    }
}

#[test]
fn every_rank_is_simulated_and_every_message_delivered() {
    let topo = below("switch(8)", "reduce, multicast");
    let t = time(&from_all(8), &topo);
    assert!(format!("{:?}", t.walked).contains("switches combine or copy messages"), "{:?}", t.walked);
    let mut seen = vec![];
    let s = from_all(8);
    struct Seen<'a>(&'a mut Vec<(u64, f64)>);
    impl kbc_time::Observer for Seen<'_> {
        fn delivered(&mut self, d: &kbc_time::Delivery) {
            if d.kind == kbc_time::MessageKind::Reply {
                self.0.push((d.from, d.delivered_ns));
            }
        }
    }
    let options = kbc_time::TimeOptions::default();
    kbc_time::simulate_observed(&s, &topo, &options, &mut Seen(&mut seen)).expect("a time");
    // In the order in which they were asked for, all at once.
    assert_eq!(seen, (1..8).map(|from| (from, 800.0)).collect::<Vec<_>>());
}
