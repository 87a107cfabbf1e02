//! The order of a graph.

use kbc_diag::Span;
use kbc_ir::graph::{Graph, GraphOp, OpKind};

fn op(name: &str) -> GraphOp {
    GraphOp { kind: OpKind::Demand, name: name.into(), ty: None, want: None, span: Span::NONE }
}

#[test]
fn places_are_those_of_the_order() {
    let mut g = Graph::default();
    let a = g.push(op("a"), &[]);
    let b = g.push(op("b"), &[a]);
    let c = g.insert(1, op("c"), &[a]);
    g.set_operand(b, 0, c);
    let places = |g: &Graph| g.order().iter().map(|id| g.position(*id)).collect::<Vec<_>>();
    assert_eq!((g.order(), places(&g)), (&[a, c, b][..], vec![0, 1, 2]));
    assert_eq!(g.users(a), [(c, 0)]);
    g.set_operand(b, 0, a);
    g.remove(c);
    assert_eq!((g.order(), places(&g), g.position(c)), (&[a, b][..], vec![0, 1], 2));
    // petgraph may give the number of a removed operation to a new one.
    let d = g.insert(0, op("d"), &[]);
    assert_eq!((g.order(), places(&g)), (&[d, a, b][..], vec![0, 1, 2]));
    assert!(g.order_is_topological());
}
