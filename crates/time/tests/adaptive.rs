//! Tests of `routing: adaptive`: messages choose between equal links when they are there
//! (docs/explanation/time.md, "Links").

use crate::time_kit;

use kbc_ir::schedule::Schedule;
use kbc_machine::topology::Topology;
use time_kit::*;

/// Two devices over two relays whose routes are equally long. The bandwidths of the links from
/// device 0 to the relays, and from these to device 1, are given in GB/s.
fn two_ways(settings: &str, out: [u32; 2], on: [u32; 2]) -> Topology {
    let mut text = format!("graph(2, 2) {{ {settings}");
    for relay in 0..2 {
        let (out, on) = (out[relay], on[relay]);
        text += &format!(
            "link (0)->#{relay}: {out} GB/s, 100 ns; link #{relay}->(1): {on} GB/s, 100 ns; \
             link (1)->#{relay}: 10 GB/s, 100 ns; link #{relay}->(0): 10 GB/s, 100 ns; "
        );
    }
    machine(&format!("{text}}}"))
}

const ADAPTIVE: &str = "routing: adaptive; ";

/// Rank 0 does `sends`, rank 1 waits for its counter 0 and then does `then`. The line has 4,000
/// bytes, as every message.
fn schedule(sends: &str, then: &str) -> Schedule {
    let lines = |text: &str| -> String { text.lines().map(|l| format!("          {l}\n")).collect() };
    let body = format!(
        "        if r == 0\n{}        if r == 1\n          wait @s[0] >= call + 1\n          fence.acquire\n{}",
        lines(sends),
        lines(then)
    );
    parse(&one_region(2, 1000, 4, 2, &body))
}

/// Rank 0 sends so many messages, one after another.
fn several(count: u32) -> Schedule {
    let puts: String = (0..count).map(|i| format!("put v[0 of 1] -> (1) : @w[{i}]\n")).collect();
    schedule(&format!("{puts}fence.release\nnotify (1) : @s[0]"), "")
}

/// Names of the links that carried messages, with the number of messages.
fn used(schedule: &Schedule, topo: &Topology) -> Vec<(String, u64)> {
    let links = time(schedule, topo).links;
    links.iter().filter(|l| l.messages > 0).map(|l| (topo.link_name(l.link), l.messages)).collect()
}

#[test]
fn messages_take_the_link_that_is_free() {
    let alike = |settings: &str| two_ways(settings, [10, 10], [10, 10]);
    // Without a choice all share one route: 200 ns of latency, and 400 ns for each message.
    for settings in ["", "routing: ecmp; "] {
        let times = [1, 2, 4].map(|count| time(&several(count), &alike(settings)).ns);
        assert_eq!(times, [600.0, 1000.0, 1800.0], "{settings}");
    }
    let times = [1, 2, 3, 4].map(|count| time(&several(count), &alike(ADAPTIVE)).ns);
    assert_eq!(times, [600.0, 600.0, 1000.0, 1000.0]);
    let name = |text: &str, messages| (text.to_owned(), messages);
    let both = [name("(0)->#0", 2), name("#0->(1)", 2), name("(0)->#1", 1), name("#1->(1)", 1)];
    let mut found = used(&several(3), &alike(ADAPTIVE));
    found.sort();
    let mut expected = both.to_vec();
    expected.sort();
    assert_eq!(found, expected);
}

/// What counts is when the last byte has entered a link: 400 ns over the fast one, and 1,000 ns
/// over the slow one. So the third message is the first one over the slow link.
#[test]
fn a_slow_link_is_taken_when_the_fast_one_has_more_to_carry() {
    let topo = two_ways(ADAPTIVE, [10, 4], [10, 10]);
    let times = [1, 2, 3, 4].map(|count| time(&several(count), &topo).ns);
    // The slow one is the bottleneck of the third; the fourth follows the second.
    assert_eq!(times, [600.0, 1000.0, 1200.0, 1400.0]);
    let slow: Vec<u64> =
        used(&several(4), &topo).into_iter().filter(|l| l.0 == "(0)->#1").map(|l| l.1).collect();
    assert_eq!(slow, [1]);
}

/// The choice is made at the node where routes part, when the message is there: two messages of
/// different devices meet at the leaf `#0`.
#[test]
fn a_choice_is_made_on_the_way() {
    let tree = |settings: &str| {
        let mut text = format!("graph(4, 4) {{ {settings}");
        for (a, b) in [("(0)", 0), ("(1)", 0), ("(2)", 1), ("(3)", 1)] {
            text += &format!("link {a}<->#{b}: 10 GB/s, 100 ns; ");
        }
        for (leaf, spine) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
            text += &format!("link #{leaf}<->#{spine}: 10 GB/s, 100 ns; ");
        }
        machine(&format!("{text}}}"))
    };
    let put =
        "          put v -> (r + 2) : @w[0]\n          fence.release\n          notify (r + 2) : @s[0]\n";
    let wait = "          wait @s[0] >= call + 1\n          fence.acquire\n";
    let body = format!("        if r < 2\n{put}        if r >= 2\n{wait}");
    let across = parse(&one_region(4, 1000, 1, 1, &body));
    assert_eq!(time(&across, &tree("")).ns, 4.0 * 100.0 + 800.0);
    assert_eq!(time(&across, &tree(ADAPTIVE)).ns, 4.0 * 100.0 + 400.0);
}

/// The second put overtakes the first one, whose route ends in a slow link. The notify that travels
/// with it takes effect when both have arrived: only then rank 1 sends back.
#[test]
fn a_notify_waits_for_data_that_chose_a_slower_route() {
    let topo = two_ways(ADAPTIVE, [10, 10], [1, 10]);
    let sends =
        "put v[0 of 1] -> (1) : @w[0]\nput v[0 of 1] -> (1) : @w[1]\nfence.release\nnotify (1) : @s[0]";
    let back = schedule(sends, "put v -> (0) : @w[2]\nfence.release\nnotify (0) : @s[1]");
    assert_eq!(time(&several(1), &topo).ns, 200.0 + 4000.0);
    assert_eq!(time(&back, &topo).ns, 200.0 + 4000.0 + 600.0);
}

#[test]
fn named_relays_and_stated_routes_leave_no_choice() {
    let topo = two_ways(ADAPTIVE, [10, 10], [10, 10]);
    let puts = "put v[0 of 1] -> (1) via [0] : @w[0]\nput v[0 of 1] -> (1) via [0] : @w[1]\n";
    let named = schedule(&format!("{puts}fence.release\nnotify (1) : @s[0]"), "");
    assert_eq!(time(&named, &topo).ns, 1000.0);
    let text = topo.to_string();
    let stated = machine(&format!("{}; route: (0)->#1->(1) }}", text.strip_suffix(" }").expect("settings")));
    assert_eq!(time(&several(2), &stated).ns, 1000.0);
    assert!(used(&several(2), &stated).iter().all(|(name, _)| name.contains("#1")));
}

/// The messages of a queue stay in order, so they take one route.
#[test]
fn messages_of_a_queue_do_not_choose() {
    let queue = parse(
        "kir 1
module @m
mesh tp 2
schedule calls any
buffer %x : f32[1000] hbm temp
queue @q[1] : f32[4 x 1000] tcm
region @c over tp as (r of 2)
  on v = %x line 1000
  role from where r == 0
    stream main
      for s in 0..4
        send v -> (r + 1) : @q[0]
  role to where r == 1
    stream main
      for s in 0..4
        recv v <- (r - 1) : @q[0]
",
    );
    let topo = |settings: &str| two_ways(settings, [10, 10], [10, 10]);
    assert_eq!(time(&queue, &topo(ADAPTIVE)).ns, 200.0 + 4.0 * 400.0);
    let carried = used(&queue, &topo(ADAPTIVE));
    assert!(carried.iter().filter(|l| l.0.starts_with("(0)")).all(|l| l.0 == "(0)->#0"), "{carried:?}");
    assert_eq!(carried.len(), used(&queue, &topo("")).len());
}
