//! Table of the error bounds of the functions that a program uses.

use crate::lower::chain::Bound;
use crate::package::python::{float, quoted};
use kbc_ir::graph::{Graph, OpKind};
use kbc_ir::scalar::{Scalar, ScalarUn};
use std::collections::BTreeSet;

/// Prints the known error bounds of the functions that a program uses, such as `{"exp": (1.0, 0.0,
/// float("inf"))}`: units in the last place, absolute error, and the range of arguments in which it
/// holds.
pub(super) fn errors(graph: &Graph, bound: &dyn Fn(ScalarUn) -> Option<Bound>) -> String {
    fn functions(e: &Scalar, out: &mut BTreeSet<ScalarUn>) {
        match e {
            Scalar::Num(_) | Scalar::Arg(_) => {}
            Scalar::Un(op, a) => {
                out.insert(*op);
                functions(a, out);
            }
            Scalar::Pow(a, _) => functions(a, out),
            Scalar::Bin(_, a, b) => [a, b].into_iter().for_each(|x| functions(x, out)),
            Scalar::If(c, a, b) => [&c.a, &c.b, a, b].into_iter().for_each(|x| functions(x, out)),
        }
    }
    let mut all = BTreeSet::new();
    for id in graph.order() {
        match &graph.op(*id).kind {
            OpKind::Map(f) => functions(&f.body, &mut all),
            OpKind::Tiles(k) => k.functions().iter().for_each(|f| functions(&f.body, &mut all)),
            _ => {}
        }
    }
    let line = |op: &ScalarUn| {
        let (ulps, error, within) = match bound(*op)? {
            Bound::Ulps(n) => (n, 0.0, f64::INFINITY),
            Bound::Absolute { error, within } => (0.0, error, within),
        };
        Some(format!("{}: ({}, {}, {})", quoted(op.name()), float(ulps), float(error), float(within)))
    };
    let all: Vec<String> = all.iter().filter_map(line).collect();
    format!("{{{}}}", all.join(", "))
}
