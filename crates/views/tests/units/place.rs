//! Places of the nodes of a machine.

use kbc_machine::topology::Topology;
use kbc_views::page::place::places;

#[test]
fn no_two_nodes_stand_in_one_place() {
    for text in ["ring(8)", "torus(3,4)", "torus(2,3,4)", "full(5)", "switch(6)", "mesh(2,3)"] {
        let topology = Topology::parse(text, kbc_diag::FileId(0)).expect("a machine");
        let p = places(&topology);
        assert_eq!(p.names.len(), topology.node_count(), "{text}");
        for i in 0..p.x.len() {
            for j in 0..i {
                let apart = (p.x[i] - p.x[j]).abs() + (p.y[i] - p.y[j]).abs();
                assert!(apart > 0.25, "{text}: {} and {}", p.names[i], p.names[j]);
            }
        }
    }
}
