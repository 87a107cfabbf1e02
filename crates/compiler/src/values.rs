//! Descriptions of a program's values: the type, the operation, and the reason for the placement.

use kbc_diag::Span;
use kbc_ir::graph::{Graph, OpKind};
use std::collections::BTreeMap;

/// A value of a program, in words.
pub struct ValueWords {
    /// As in `.kir`: `%h`.
    pub name: String,
    /// Its type with its placement.
    pub ty: String,
    /// What makes it: `matmul(%x, %w1)`.
    pub what: String,
    /// What its placement follows from, and the called program that it stands in.
    pub why: String,
    /// Where it is written.
    pub span: Span,
}

/// The values of a graph, in order.
pub fn values_of(g: &Graph) -> Vec<ValueWords> {
    let mut out = vec![];
    // Values with the same name are distinguished by a number, as in .kir.
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for &id in g.order() {
        let name = g.op(id).name.as_str();
        let n = count.entry(name).or_default();
        names.insert(id, if *n == 0 { format!("%{name}") } else { format!("%{name}#{n}") });
        *n += 1;
    }
    for &id in g.order() {
        let op = g.op(id);
        let ty = op.ty.as_ref().map_or_else(|| "?".into(), ToString::to_string);
        let mut args: Vec<String> = g.operands(id).iter().map(|o| names[o].clone()).collect();
        if let OpKind::Shape(s) = &op.kind {
            args.push(s.to_string());
        }
        let (what, why): (String, &str) = match &op.kind {
            OpKind::Input(_) => ("input".into(), "declared"),
            OpKind::Matmul { .. } => ("matmul".into(), "follows from its operands"),
            OpKind::Map(f) => (f.name.to_string(), "follows from its operands"),
            OpKind::ReduceDim { op, .. } => (op.to_string(), "follows from its operand"),
            OpKind::Cast(d) => (format!("cast to {d}"), "follows from its operand"),
            OpKind::Embedding => ("embedding".into(), "follows from its operands"),
            OpKind::Grouped(_) => ("grouped_matmul".into(), "follows from its operands"),
            OpKind::Tiles(k) => (k.name.to_string(), "follows from its operands"),
            OpKind::Fill(f) => (format!("fill {f}"), "every rank computes its part"),
            OpKind::Shape(s) => (s.name().into(), "follows from its operands"),
            OpKind::Collective(c) if c.explicit => (c.name().into(), "written in the program"),
            OpKind::Collective(c) => (c.name().into(), "because a user of the value demands it"),
            OpKind::Demand | OpKind::PartialDemand(_) => ("demand".into(), "annotation"),
            OpKind::Wait => ("wait".into(), "follows from its operand"),
            OpKind::Host(h) => (format!("host {}", h.word()), "follows from its operand"),
            OpKind::Output(_) => ("result".into(), "declared"),
        };
        let called: Vec<String> = g.calls(id).iter().map(|c| format!(", in {}", c.program)).collect();
        let called = called.concat();
        out.push(ValueWords {
            name: names[&id].clone(),
            ty,
            what: format!("{what}({})", args.join(", ")),
            why: format!("{why}{called}"),
            span: op.span,
        });
    }
    out
}
