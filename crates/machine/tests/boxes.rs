//! Tests of the sizes of boxes.

use kbc_diag::FileId;
use kbc_machine::topology::{DeviceId, Topology};

fn sizes(text: &str, ranks: &[u32]) -> Vec<u64> {
    let machine = Topology::parse(text, FileId(0)).expect("a machine");
    machine.box_sizes(&ranks.iter().map(|&r| DeviceId(r)).collect::<Vec<_>>())
}

/// Six devices at two switches of three, which a slower link joins.
const TWO_SWITCHES: &str = "graph(6, 2) { link (0)<->#0: 50 GB/s, 1 us; link (1)<->#0: 50 GB/s, 1 us; \
     link (2)<->#0: 50 GB/s, 1 us; link (3)<->#1: 50 GB/s, 1 us; link (4)<->#1: 50 GB/s, 1 us; \
     link (5)<->#1: 50 GB/s, 1 us; link #0<->#1: 50 GB/s, 1 us }";

/// Four pairs with fast links, and slower links from everybody to one switch.
const RAILS: &str = "graph(8, 1) { link (0)<->(1): 300 GB/s, 1 us; link (2)<->(3): 300 GB/s, 1 us; \
     link (4)<->(5): 300 GB/s, 1 us; link (6)<->(7): 300 GB/s, 1 us; link (0)<->#0: 25 GB/s, 1 us; \
     link (1)<->#0: 25 GB/s, 1 us; link (2)<->#0: 25 GB/s, 1 us; link (3)<->#0: 25 GB/s, 1 us; \
     link (4)<->#0: 25 GB/s, 1 us; link (5)<->#0: 25 GB/s, 1 us; link (6)<->#0: 25 GB/s, 1 us; \
     link (7)<->#0: 25 GB/s, 1 us }";

#[test]
fn boxes_have_shorter_ways_or_faster_links() {
    let all: Vec<u32> = (0..8).collect();
    assert_eq!(sizes(TWO_SWITCHES, &all[..6]), [3]);
    assert_eq!(sizes(RAILS, &all), [2]);
}

/// Boxes are runs of equally many ranks in the order of the ranks.
#[test]
fn ranks_that_are_not_in_runs_have_no_boxes() {
    assert_eq!(sizes(TWO_SWITCHES, &[0, 3, 1, 4, 2, 5]), [0_u64; 0]);
    assert_eq!(sizes(TWO_SWITCHES, &[0, 1, 2, 3]), [0_u64; 0]);
    assert_eq!(sizes(TWO_SWITCHES, &[1, 2, 3, 4]), [2]);
    assert_eq!(sizes(TWO_SWITCHES, &[0, 1, 2]), [0_u64; 0]);
    assert_eq!(sizes(RAILS, &[0, 2, 4, 6]), [0_u64; 0]);
    assert_eq!(sizes("ring(8) { link: 50 GB/s, 500 ns }", &[0, 1, 2, 3, 4, 5, 6, 7]), [0_u64; 0]);
}
