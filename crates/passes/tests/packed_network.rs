//! Tests of the network into which trees are packed: it has the links that messages take.

use kbc_diag::FileId;
use kbc_machine::topology::Topology;
use kbc_passes::packed::{
    MachineNetwork, MessageLimit, PackedCollective, PackedRequest, TreeMethod, phases, routed_network,
    whole_network,
};
use std::collections::BTreeMap;

fn network(text: &str) -> MachineNetwork {
    let topology = Topology::parse(text, FileId(0)).unwrap_or_else(|d| panic!("{text}: {}", d.title));
    whole_network(&topology).expect("a network")
}

/// Returns the ends of the edges.
fn edges(of: &MachineNetwork) -> Vec<(usize, usize)> {
    of.network.edges().iter().map(|e| (e.from, e.to)).collect()
}

/// From device 0 to device 1 a message is faster by way of device 2, so none takes the link.
#[test]
fn links_slower_than_a_detour_are_left_out() {
    let machine = |ns: u32| {
        network(&format!(
            "graph(3, 0) {{ link (0)->(1): 50 GB/s, {ns} ns; link (1)->(0): 50 GB/s, 100 ns; \
             link (0)<->(2): 50 GB/s, 300 ns; link (2)<->(1): 50 GB/s, 300 ns }}"
        ))
    };
    assert!(edges(&machine(600)).contains(&(0, 1)));
    let slow = edges(&machine(700));
    assert!(!slow.contains(&(0, 1)) && slow.contains(&(1, 0)) && slow.len() == 5, "{slow:?}");
}

/// A link carries trees if it is the stated route of its ends, and not if the stated route leads
/// elsewhere.
#[test]
fn links_follow_stated_routes() {
    let slow = "graph(3, 0) { link (0)->(1): 50 GB/s, 700 ns; link (1)->(0): 50 GB/s, 100 ns; \
                link (0)<->(2): 50 GB/s, 300 ns; link (2)<->(1): 50 GB/s, 300 ns";
    assert_eq!(edges(&network(&format!("{slow} }}"))).len(), 5);
    assert_eq!(edges(&network(&format!("{slow}; route: (0)->(1) }}"))).len(), 6);
    let around = edges(&network("ring(4) { route: (0)->(3)->(2)->(1) }"));
    assert!(around.len() == 7 && !around.contains(&(0, 1)), "{around:?}");
    // Both of two switches, each with half of the pairs.
    let mut text = "graph(4, 2) { route: (0)<->#1<->(1), (2)<->#1<->(3)".to_owned();
    for d in 0..4 {
        text += &format!("; link ({d})<->#0: 50 GB/s, 300 ns; link ({d})<->#1: 50 GB/s, 300 ns");
    }
    let both = edges(&network(&format!("{text} }}")));
    assert_eq!(both.iter().filter(|e| e.0 == 5 || e.1 == 5).count(), 8, "{both:?}");
}

/// All messages between two devices pass the first of two switches. With `ecmp` device 1 is reached
/// over the second one, which then has more links in than out; trees need switches with equal
/// capacity in and out, so no link is left out.
#[test]
fn switches_that_no_message_passes_are_left_out() {
    let machine = |settings: &str| {
        let mut text = format!("graph(3, 2) {{ {settings}");
        for d in 0..3 {
            for s in 0..2 {
                text += &format!("link ({d})<->#{s}: 50 GB/s, 300 ns; ");
            }
        }
        edges(&network(&format!("{text}}}")))
    };
    let single = machine("");
    assert!(single.iter().all(|e| e.0 != 4 && e.1 != 4) && single.len() == 6, "{single:?}");
    assert_eq!(machine("routing: ecmp; ").len(), 12);
}

/// Two devices of each switch, and a slower switch that joins all: the routes of pairs leave it
/// out, and messages that name relays do not. They name as few as lead along their path.
#[test]
fn messages_that_name_relays_use_every_link_that_is_a_route() {
    let text = "graph(4, 3) { link (0)<->#0: 50 GB/s, 300 ns; link (1)<->#0: 50 GB/s, 300 ns; \
         link (2)<->#1: 50 GB/s, 300 ns; link (3)<->#1: 50 GB/s, 300 ns; link #0<->#1: 50 GB/s, 300 ns; \
         link #0<->#2: 25 GB/s, 400 ns; link #1<->#2: 25 GB/s, 400 ns }";
    let topology = Topology::parse(text, FileId(0)).expect("a machine");
    let plain = whole_network(&topology).expect("a network");
    assert!(!plain.via && edges(&plain).iter().all(|e| e.0 != 6 && e.1 != 6));
    let routed = routed_network(&topology).expect("a network").expect("another network");
    assert!(routed.via && edges(&routed).len() == 14, "{:?}", edges(&routed));
    assert_eq!(routed.relays(&topology, &[0, 4, 5, 2]), Vec::<u32>::new());
    assert_eq!(routed.relays(&topology, &[0, 4, 6, 5, 2]), [2]);
    // Other machines have no relays with numbers.
    for other in [
        "ring(4)",
        "switch(4)",
        "package(ring(2), mesh(2, 2), 2)",
        "graph(2, 0) { link (0)<->(1): 1 GB/s, 1 ns }",
    ] {
        let topology = Topology::parse(other, FileId(0)).expect("a machine");
        assert!(routed_network(&topology).expect("a network").is_none(), "{other}");
    }
}

/// A network keeps what was made for it, and still gives each request what a new network gives.
#[test]
fn plans_do_not_depend_on_earlier_requests() {
    let mut compared = 0;
    let plans = |network: &MachineNetwork, request: &PackedRequest| {
        let of = phases(network, request).expect("trees");
        of.iter().map(|p| (p.collective, p.plan.clone())).collect::<Vec<_>>()
    };
    for machine in ["mesh(3, 3)", "torus(2, 4)", "hierarchy(full(4), switch(2))"] {
        let kept = network(machine);
        let mut new = BTreeMap::new();
        for collective in PackedCollective::ALL.into_iter().filter(|c| *c != PackedCollective::AllToAll) {
            let sizes = [4096, 1 << 20, 4096];
            let methods = TreeMethod::ALL
                .into_iter()
                .filter(|m| *m != TreeMethod::Spanning || collective == PackedCollective::AllReduce);
            let methods: Vec<TreeMethod> = methods.collect();
            for (bytes, method) in sizes.into_iter().flat_map(|b| methods.iter().map(move |m| (b, *m))) {
                for trees in [None, Some(2), None] {
                    let request = PackedRequest {
                        collective,
                        root: 1,
                        method: match (trees, method) {
                            (Some(_), TreeMethod::Fastest) => TreeMethod::Trees,
                            _ => method,
                        },
                        trees,
                        gather: None,
                        pieces: None,
                        bytes,
                        elements: 0,
                        messages: MessageLimit { usual: 2048, most: 8192 },
                    };
                    let known = plans(&kept, &request);
                    let new = new.entry(request).or_insert_with(|| plans(&network(machine), &request));
                    assert_eq!(known, *new, "{machine}: {request:?}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 3 * (4 * 9 + 12) * 3);
}
