//! Tests of messages that name the relays that they pass (`via`, docs/explanation/time.md).

use crate::time_kit;

use kbc_ir::schedule::Schedule;
use kbc_machine::topology::Topology;
use kbc_time::*;
use time_kit::*;

/// Two devices over two relays. The route of the machine is the one over `#0`.
fn two_ways() -> Topology {
    machine(
        "graph(2, 2) { link (0)<->#0: 10 GB/s, 100 ns; link (1)<->#0: 10 GB/s, 100 ns; \
         link (0)<->#1: 4 GB/s, 300 ns; link (1)<->#1: 8 GB/s, 500 ns }",
    )
}

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

fn one(via: &str) -> Schedule {
    schedule(&format!("put v -> (1){via} : @w[0]\nfence.release\nnotify (1) : @s[0]"), "")
}

#[test]
fn a_message_takes_the_routes_from_relay_to_relay() {
    let topo = two_ways();
    assert_eq!(time(&one(""), &topo).ns, 100.0 + 100.0 + 400.0);
    assert_eq!(time(&one(" via [0]"), &topo).ns, 100.0 + 100.0 + 400.0);
    assert_eq!(time(&one(" via [1]"), &topo).ns, 300.0 + 500.0 + 1000.0);
    // From #1 the nearest way to #0 leads back over device 0.
    assert_eq!(time(&one(" via [1, 0]"), &topo).ns, 300.0 + 300.0 + 100.0 + 100.0 + 1000.0);
    let t = time(&one(" via [1]"), &topo);
    let names: Vec<String> =
        t.links.iter().filter(|l| l.messages > 0).map(|l| topo.link_name(l.link)).collect();
    assert_eq!(names, ["(0)->#1", "#1->(1)"]);
}

/// A stated route is the route of its pair. It leads from relay to relay, too.
#[test]
fn a_message_takes_the_stated_route() {
    let stated = |route: &str| {
        let text = two_ways().to_string();
        machine(&format!("{}; route: {route} }}", text.strip_suffix(" }").expect("settings")))
    };
    let slow = 300.0 + 500.0 + 1000.0;
    assert_eq!(time(&one(""), &stated("(0)->#1->(1)")).ns, slow);
    assert_eq!(time(&one(" via [0]"), &stated("(0)->#1->(1)")).ns, 600.0);
    assert_eq!(time(&one(""), &stated("(1)->#1->(0)")).ns, 600.0);
    assert_eq!(time(&one(" via [1]"), &stated("#1->(0)->#0->(1)")).ns, 300.0 + 300.0 + 200.0 + 1000.0);
    let topo = stated("(0)->#1->(1)");
    let t = time(&one(""), &topo);
    let names: Vec<String> =
        t.links.iter().filter(|l| l.messages > 0).map(|l| topo.link_name(l.link)).collect();
    assert_eq!(names, ["(0)->#1", "#1->(1)"]);
    // A notify travels alone over the route of its pair.
    let alone = schedule("fence.release\nnotify (1) : @s[0]", "");
    assert_eq!(time(&alone, &topo).ns, 800.0);
}

/// On a generator, too, and one rank does not stand for another there.
#[test]
fn a_stated_route_of_a_generator_is_taken_by_one_pair() {
    let text = |route: &str| format!("ring(4) {{ link: 10 GB/s, 100 ns{route} }}");
    let schedule = parse(&half_ring(4, 4000, false));
    let [plain, stated, longer] = ["", "; route: (1)->(2)", "; route: (1)->(0)->(3)->(2)"]
        .map(|route| time(&schedule, &machine(&text(route))));
    assert_eq!(plain.ns, stated.ns);
    let busy = |t: &Timing| t.links.iter().filter(|l| l.messages > 0).count();
    assert_eq!((busy(&plain), busy(&stated), busy(&longer)), (4, 4, 6));
    // Two more links with 100 ns each.
    assert_eq!(longer.ns, plain.ns + 200.0);
}

/// The notify travels with the second put, which arrives first. It takes effect when both have
/// arrived: only then rank 1 sends back.
#[test]
fn a_notify_waits_for_data_on_another_route() {
    let puts = |first: &str, second: &str| {
        let sends = format!(
            "put v[0 of 1] -> (1){first} : @w[0]\nput v[0 of 1] -> (1){second} : @w[1]\nfence.release\nnotify (1) : @s[0]"
        );
        schedule(&sends, "put v -> (0) : @w[2]\nfence.release\nnotify (0) : @s[1]")
    };
    let (fast, slow) = (600.0, 1800.0);
    assert_eq!(time(&puts(" via [1]", ""), &two_ways()).ns, slow + fast);
    assert_eq!(time(&puts("", " via [1]"), &two_ways()).ns, slow + fast);
    // Two messages over one route follow each other.
    assert_eq!(time(&puts("", ""), &two_ways()).ns, fast + 400.0 + fast);
}

/// A notify that travels alone has a route of its own, and waits in the same way.
#[test]
fn a_notify_alone_may_name_relays() {
    let sends = |via: &str, data: &str| {
        let sends = format!(
            "put v -> (1){data} : @w[0]\nfence.release\nput v -> (0) : @w[3]\nfence.release\nnotify (1){via} : @s[0]"
        );
        schedule(&sends, "put v -> (0) : @w[2]\nfence.release\nnotify (0) : @s[1]")
    };
    assert_eq!(time(&sends("", " via [1]"), &two_ways()).ns, 1800.0 + 600.0);
    // Without bytes it takes the latencies of its relays: 800 ns, and the data takes 600 ns.
    assert_eq!(time(&sends(" via [1]", " via [0]"), &two_ways()).ns, 800.0 + 600.0);
}

/// The data of a get passes the relays; its request takes the route of the machine.
#[test]
fn the_data_of_a_get_passes_the_relays() {
    let get = |via: &str| {
        let body =
            format!("        if r == 0\n          get v <- (1){via} : @w[0]\n          fence.complete\n");
        parse(&one_region(2, 1000, 1, 1, &body))
    };
    assert_eq!(time(&get(""), &two_ways()).ns, 200.0 + 200.0 + 400.0);
    assert_eq!(time(&get(" via [1]"), &two_ways()).ns, 200.0 + 800.0 + 1000.0);
}

#[test]
fn relays_must_exist() {
    let fault = |via: &str, topo: &Topology| {
        let found = simulate(&one(via), topo, &TimeOptions::default()).expect_err("no such relay");
        let d = found.list.first().expect("a diagnostic");
        assert!(d.code == "E598" && !d.labels.is_empty(), "{d:?}");
        d.title.clone()
    };
    let told = fault(" via [0, 2]", &two_ways());
    assert!(told.contains("has no relay #2: it has 2, numbered from 0"), "{told}");
    for none in ["ring(2)", "switch(2)", "graph(2, 0) { link (0)<->(1): 1 GB/s, 1 ns }"] {
        let told = fault(" via [0]", &machine(none));
        assert!(told.contains("has no relays with numbers"), "{told}");
    }
    let island = machine(
        "graph(2, 2) { link (0)<->#0: 10 GB/s, 100 ns; link (1)<->#0: 10 GB/s, 100 ns; \
         link #0->#1: 10 GB/s, 100 ns }",
    );
    let told = fault(" via [1]", &island);
    assert!(told.contains("no path leads from #1 to (0)"), "{told}");
}
