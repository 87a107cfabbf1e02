//! Printing of graphs as `.kb` text: the body of a `ranks` part.
//!
//! This module owns the choice of `let`s and of their names, and the form of expressions. The
//! formatter owns spaces and line ends.

use super::axes::Axes;
use super::graph::{Layer, NodeId, NodeOp, Operand, RankCollective};
use super::lift::{Lifted, live, uses};
use super::names::Names;
use crate::torch::dtype::DType;
use crate::torch::model::Program;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Greatest length, in characters, of an expression that is printed at its use.
const SHORT: usize = 48;

/// Prints a number as the language reads it.
fn number(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e15 { format!("{}", x as i64) } else { format!("{x:?}") }
}

/// Prints a type: `f32[8, 16]`.
pub fn type_of(dtype: DType, sizes: &[i64]) -> String {
    let list: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    if list.is_empty() { dtype.name().into() } else { format!("{}[{}]", dtype.name(), list.join(", ")) }
}

/// An expression with its precedence: 1 for a sum, 2 for a product, 3 for a sign, 4 for
/// anything else.
struct Text {
    text: String,
    level: u8,
}

/// The printer of a part's body.
pub struct Body<'a> {
    it: &'a Lifted,
    p: &'a Program,
    axes: &'a Axes,
    /// Names of the nodes that have one: arguments and lets.
    names: BTreeMap<NodeId, String>,
    taken: Names,
    count: Vec<usize>,
    live: Vec<bool>,
    /// Expressions that are printed at their use.
    inline: BTreeMap<NodeId, Text>,
}

impl<'a> Body<'a> {
    /// Prepares the body of a program whose arguments already have names.
    pub fn new(
        it: &'a Lifted,
        p: &'a Program,
        axes: &'a Axes,
        args: BTreeMap<NodeId, String>,
        taken: Names,
    ) -> Self {
        let live = live(it);
        let count = uses(it);
        Body { it, p, axes, names: args, taken, count, live, inline: BTreeMap::new() }
    }

    fn operand(&self, o: &Operand, level: u8) -> String {
        let t = match o {
            Operand::Num(x) => return number(*x),
            Operand::Node(n) => match (self.names.get(n), self.inline.get(n)) {
                (Some(name), _) => return name.clone(),
                (_, Some(t)) => t,
                _ => return "?".into(),
            },
        };
        if t.level < level { format!("({})", t.text) } else { t.text.clone() }
    }

    fn over(&self, range: &std::ops::Range<usize>) -> String {
        format!("over: {}", self.axes.over(range))
    }

    fn text(&self, n: NodeId) -> Text {
        let node = &self.it.graph.nodes[n];
        let arg = |i: usize| self.operand(&node.args[i], 1);
        let list =
            |from: usize| node.args[from..].iter().map(|a| self.operand(a, 1)).collect::<Vec<_>>().join(", ");
        let numbers = |l: &[i64]| l.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let typed = |usual: DType| match node.dtype {
            d if d == usual => String::new(),
            d => format!(", type: {}", d.name()),
        };
        let text = match &node.op {
            NodeOp::Infix(op) => {
                let level = if matches!(op, '+' | '-') { 1 } else { 2 };
                let (a, b) = (self.operand(&node.args[0], level), self.operand(&node.args[1], level + 1));
                return Text { text: format!("{a} {op} {b}"), level };
            }
            NodeOp::Call("-") => {
                return Text { text: format!("-{}", self.operand(&node.args[0], 3)), level: 3 };
            }
            NodeOp::Call(f) => format!("{f}({})", list(0)),
            NodeOp::Select(how) => format!("select({} {how} {}, {})", arg(0), arg(1), list(2)),
            NodeOp::Matmul => format!("matmul({})", list(0)),
            NodeOp::Layer(Layer::Softmax(dim)) => format!("softmax({}, dim: {dim})", arg(0)),
            NodeOp::Layer(Layer::LogSoftmax(dim)) => format!("log_softmax({}, dim: {dim})", arg(0)),
            NodeOp::Layer(Layer::Norm(eps)) => format!("layer_norm({}, eps: {})", list(0), number(*eps)),
            NodeOp::Reduce(how, dim, keep) => {
                format!("{how}({}, dim: {dim}{})", arg(0), if *keep { ", keep: true" } else { "" })
            }
            NodeOp::Reshape => format!("reshape({}, [{}])", arg(0), numbers(&node.sizes)),
            NodeOp::Transpose(order) => {
                let order: Vec<i64> = order.iter().map(|d| *d as i64).collect();
                format!("transpose({}, [{}])", arg(0), numbers(&order))
            }
            NodeOp::Slice(dim, from, to) => format!("slice({}, dim: {dim}, from: {from}, to: {to})", arg(0)),
            NodeOp::Concat(dim) => format!("concat({}, dim: {dim})", list(0)),
            NodeOp::Cast => format!("{}({})", node.dtype.name(), arg(0)),
            NodeOp::Wait => format!("wait({})", arg(0)),
            NodeOp::Placed => arg(0),
            NodeOp::Collective(c, range) => {
                let (x, over) = (arg(0), self.over(range));
                let how = match c {
                    RankCollective::AllReduce(how) => (*how).to_owned(),
                    RankCollective::AllGather(d) => format!("dim: {d}"),
                    RankCollective::ReduceScatter(how, d) => format!("{how}, dim: {d}"),
                    RankCollective::Dims(from, to) => format!("from: {from}, to: {to}"),
                    RankCollective::Broadcast(root) => format!("root: {root}"),
                    RankCollective::Rows(rows) => {
                        let rows: Vec<String> = rows.iter().map(|r| format!("[{}]", numbers(r))).collect();
                        format!("counts: [{}]", rows.join(", "))
                    }
                };
                format!("{}({x}, {how}, {over})", c.kind().name())
            }
            NodeOp::Full(x) => {
                format!("full([{}], {}{})", numbers(&node.sizes), number(*x), typed(DType::F32))
            }
            NodeOp::Iota(d) | NodeOp::Numbered(d) => {
                let dim = if node.sizes.len() > 1 { format!(", dim: {d}") } else { String::new() };
                format!("iota([{}]{dim}{})", numbers(&node.sizes), typed(DType::I32))
            }
            NodeOp::Owned => format!("embedding({})", list(0)),
            NodeOp::Input(_) | NodeOp::Constant(_) | NodeOp::Opaque => String::new(),
        };
        Text { text, level: 4 }
    }

    /// Chooses a name for a node: that of PyTorch, or one derived from the operation.
    fn name(&mut self, n: NodeId) -> String {
        let node = &self.it.graph.nodes[n];
        let of = match (&node.op, node.args.first()) {
            // A value that is waited for at once is named after its collective.
            (NodeOp::Wait, Some(Operand::Node(c))) if self.inline.contains_key(c) => *c,
            _ => n,
        };
        let name = match self.it.names.get(&of) {
            Some(name) => name.clone(),
            None => {
                let owner =
                    self.p.nodes[node.of].op.name.split('.').nth(1).unwrap_or("").trim_start_matches('_');
                let owner = owner.strip_prefix("native_").unwrap_or(owner);
                let what = match &node.op {
                    NodeOp::Infix('+') => "add",
                    NodeOp::Infix('-') => "sub",
                    NodeOp::Infix('*') => "mul",
                    NodeOp::Infix(_) => "div",
                    NodeOp::Call("-") => "neg",
                    NodeOp::Call(f) | NodeOp::Reduce(f, ..) => f,
                    NodeOp::Select(_) => "select",
                    NodeOp::Matmul => "matmul",
                    NodeOp::Layer(Layer::Norm(_)) => "layer_norm",
                    NodeOp::Layer(_) => "softmax",
                    NodeOp::Reshape => "reshape",
                    NodeOp::Transpose(_) => "transpose",
                    NodeOp::Slice(..) => "slice",
                    NodeOp::Concat(_) => "concat",
                    NodeOp::Cast => node.dtype.name(),
                    NodeOp::Wait => "wait",
                    NodeOp::Placed => "placed",
                    NodeOp::Collective(..) => "collective",
                    NodeOp::Full(_) => "full",
                    NodeOp::Iota(_) | NodeOp::Numbered(_) => "iota",
                    NodeOp::Owned => "embedding",
                    NodeOp::Input(_) | NodeOp::Constant(_) => "input",
                    NodeOp::Opaque => "opaque",
                };
                if owner.contains(what) { owner.to_owned() } else { format!("{owner}_{what}") }
            }
        };
        let name = if self.count[n] == 0 { format!("unused_{name}") } else { name };
        let name = self.taken.take(&name);
        if self.count[n] == 0 { format!("_{name}") } else { name }
    }

    /// Returns the next live node.
    fn next(&self, n: NodeId) -> Option<NodeId> {
        (n + 1..self.live.len()).find(|m| {
            self.live[*m] && !matches!(self.it.graph.nodes[*m].op, NodeOp::Input(_) | NodeOp::Constant(_))
        })
    }

    /// Prints the lets and the result.
    pub fn write(mut self) -> String {
        let mut out = String::new();
        let mut source = None;
        for n in 0..self.it.graph.nodes.len() {
            let node = &self.it.graph.nodes[n];
            if !self.live[n] || matches!(node.op, NodeOp::Input(_) | NodeOp::Constant(_)) {
                continue;
            }
            let text = self.text(n);
            let begun = |o: &Operand| matches!(o, Operand::Node(c) if self.inline.contains_key(c));
            let inline = match node.op {
                // A collective and its wait on one line.
                NodeOp::Collective(..) => {
                    self.count[n] == 1
                        && self.next(n).is_some_and(|m| {
                            self.it.graph.nodes[m].op == NodeOp::Wait
                                && self.it.graph.nodes[m].args == [Operand::Node(n)]
                        })
                }
                NodeOp::Wait => self.count[n] == 1 && !node.args.iter().any(begun),
                // Only a named value can have an annotation.
                NodeOp::Placed => false,
                _ => self.count[n] == 1 && text.text.chars().count() <= SHORT,
            };
            let last = self.it.outputs.len() == 1 && self.it.outputs[0].0 == n && self.count[n] == 1;
            if inline || last {
                self.inline.insert(n, text);
                continue;
            }
            let line = self.p.written.nodes.get(node.of).and_then(|w| w.source.as_deref());
            if let Some(line) = line.filter(|l| source != Some(*l)) {
                let _ = writeln!(out, "        // {line}");
                source = Some(line);
            }
            let name = self.name(n);
            let ty = self.it.placed.get(&n).map_or_else(String::new, |t| format!(": {t}"));
            let _ = writeln!(out, "        let {name}{ty} = {}", text.text);
            self.names.insert(n, name);
        }
        let results: Vec<String> =
            self.it.outputs.iter().map(|(n, _)| self.operand(&Operand::Node(*n), 1)).collect();
        let result = match &results[..] {
            [one] => one.clone(),
            more => format!("({})", more.join(", ")),
        };
        if result.starts_with(['(', '-']) && !out.is_empty() {
            let end = out.trim_end().len();
            // Ends the last let, which would otherwise continue with the result.
            out.replace_range(end.., ";\n");
        }
        let _ = writeln!(out, "        {result}");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_are_printed() {
        assert_eq!(number(-2.0), "-2");
        assert_eq!(number(1e-5), "1e-5");
        assert_eq!(type_of(DType::F32, &[]), "f32");
    }
}
