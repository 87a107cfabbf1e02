//! Tests of the network into which trees are packed: it has the links that messages take.

use kbc_diag::FileId;
use kbc_machine::topology::Topology;
use kbc_passes::packed::{MachineNetwork, whole_network};

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
