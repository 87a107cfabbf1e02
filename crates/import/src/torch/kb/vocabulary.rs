//! Vocabulary parallelism: recognises lookups in a table of which each rank has some rows. The
//! indices are row numbers of the whole table, rows of other ranks yield zeros, and the results of
//! all ranks are summed.
//!
//! This module owns the recognition. A rank subtracts its first row from the indices, replaces
//! indices of other ranks' rows by some row of its own, and replaces their results by zeros. The
//! module does not match the form of these expressions. For every row of the whole table and every
//! rank, it evaluates which row the rank looks up and whether it yields that row or zero.

use super::axes::Axes;
use super::consts::ConstData;
use super::graph::{Graph, GraphNode, NodeId, NodeOp, Operand};
use super::lift::{Lifted, live};
use super::rank_differences::Differing;
use std::collections::BTreeSet;

/// Greatest number of rows of a whole table that are evaluated.
const MAX_ROWS: i64 = 1 << 20;

/// Greatest number of operations after a lookup that may contain the replacement by zeros.
const STEPS: usize = 4;

/// A lookup: of the rows of a table, or of elements along a dimension as a sum over
/// marked elements.
struct Lookup {
    /// The node that yields the rows.
    at: NodeId,
    /// The node with the indices.
    numbers: NodeId,
    /// Number of rows per rank.
    rows: i64,
    /// For a lookup of elements: the node that numbers them, and their dimension.
    marked: Option<(NodeId, usize)>,
}

/// Replaces lookups that ranks make in their own rows by lookups in the whole table.
pub fn owned(all: &mut [Lifted], differing: &mut Differing, axes: &Axes) {
    if differing.numbers.is_empty() {
        return;
    }
    loop {
        let found = axes.list.iter().find_map(|a| {
            let rank = |at: usize| at as u64 / a.stride % a.size;
            let rows = |l: &Lookup| l.rows.checked_mul(a.size as i64).filter(|n| *n <= MAX_ROWS);
            lookups(&all[0], differing).into_iter().find_map(|l| {
                let total = rows(&l)?;
                let (ids, end) = global_lookup(all, differing, &l, total, &rank)?;
                Some((l, ids, end))
            })
        });
        let Some((l, ids, end)) = found else { return };
        for it in all.iter_mut() {
            rewrite(it, &l, ids, end);
        }
        for n in [l.numbers, end, l.at] {
            differing.numbers.remove(&n);
        }
    }
}

/// Returns which nodes depend on numbers that differ between ranks, through elementwise operations.
fn dependent(g: &Graph, differing: &Differing) -> Vec<bool> {
    let mut out = vec![false; g.nodes.len()];
    for (n, node) in g.nodes.iter().enumerate() {
        let elementwise = matches!(
            node.op,
            NodeOp::Infix(_) | NodeOp::Select(_) | NodeOp::Cast | NodeOp::Reshape | NodeOp::Call(_)
        ) && !matches!(node.op, NodeOp::Call("embedding" | "argmax" | "cumsum"));
        out[n] = elementwise && (differing.numbers.contains_key(&n) || node.uses().any(|m| out[m]));
    }
    out
}

/// Returns the lookups whose indices depend on what differs between ranks.
fn lookups(it: &Lifted, differing: &Differing) -> Vec<Lookup> {
    let g = &it.graph;
    let (own, does) = (dependent(g, differing), live(it));
    let mut out = vec![];
    for (at, node) in g.nodes.iter().enumerate().filter(|(n, _)| does[*n]) {
        match (&node.op, &node.args[..]) {
            (NodeOp::Call("embedding"), [Operand::Node(table), Operand::Node(ids)]) if own[*ids] => {
                out.push(Lookup { at, numbers: *ids, rows: g.nodes[*table].sizes[0], marked: None });
            }
            (NodeOp::Reduce("sum", d, _), [Operand::Node(s)]) => {
                let Some((a, b, x)) = marked(g, *s) else { continue };
                for (ids, line) in [(a, b), (b, a)] {
                    if own[ids] && counts_along(g, line, *d) && !own[x] {
                        let rows = g.nodes[*s].sizes[*d];
                        out.push(Lookup { at, numbers: ids, rows, marked: Some((line, *d)) });
                    }
                }
            }
            _ => {}
        }
    }
    out
}

/// Matches a choice that takes elements where two numbers are equal and 0 elsewhere. Returns the
/// two compared nodes and the node of the elements. If the truth values have another type than the
/// elements, they are 0 and 1 of that type.
fn marked(g: &Graph, n: NodeId) -> Option<(NodeId, NodeId, NodeId)> {
    let none = Operand::Num(0.0);
    match (&g.nodes[n].op, &g.nodes[n].args[..]) {
        (NodeOp::Select("=="), [Operand::Node(a), Operand::Node(b), Operand::Node(x), no]) if *no == none => {
            Some((*a, *b, *x))
        }
        (NodeOp::Select("!="), [Operand::Node(flag), zero, Operand::Node(x), no])
            if *zero == none && *no == none =>
        {
            let mut flag = &g.nodes[*flag];
            while let (NodeOp::Cast, [Operand::Node(m)]) = (&flag.op, &flag.args[..]) {
                flag = &g.nodes[*m];
            }
            match (&flag.op, &flag.args[..]) {
                (NodeOp::Select("=="), [Operand::Node(a), Operand::Node(b), yes, no])
                    if *yes == Operand::Num(1.0) && *no == none =>
                {
                    Some((*a, *b, *x))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Checks whether a constant is 0, 1, 2 .. along a dimension.
fn counts_along(g: &Graph, n: NodeId, dim: usize) -> bool {
    let node = &g.nodes[n];
    match node.op {
        NodeOp::Iota(d) => d == dim,
        NodeOp::Constant(k) => {
            let line = node.sizes.iter().enumerate().all(|(d, n)| d == dim || *n == 1);
            line && match &g.constants[k].1.held {
                ConstData::Each(list) => list.iter().enumerate().all(|(i, x)| *x == i as f64),
                ConstData::One(x) => *x == 0.0 && node.sizes.get(dim) == Some(&1),
            }
        }
        _ => false,
    }
}

/// Returns the node with the indices into the whole table, and the node at which the result is zero
/// for rows of other ranks.
fn global_lookup(
    all: &[Lifted],
    differing: &Differing,
    l: &Lookup,
    total: i64,
    rank: &impl Fn(usize) -> u64,
) -> Option<(NodeId, NodeId)> {
    let g = &all[0].graph;
    let own = dependent(g, differing);
    let ids = leaf(g, &own, l.numbers)?;
    // The replaced nodes have no other use.
    let once = |n: NodeId| g.nodes.iter().flat_map(GraphNode::uses).filter(|m| *m == n).count() == 1;
    if !once(l.numbers) || l.marked.is_some_and(|(line, _)| !once(line)) {
        return None;
    }
    let mut end = l.at;
    for _ in 0..STEPS {
        let mut users = (0..g.nodes.len()).filter(|n| g.nodes[*n].uses().any(|m| m == end));
        let next = users.next()?;
        if users.next().is_some() || all[0].outputs.iter().any(|o| o.0 == end) {
            return None;
        }
        end = next;
        let others = g.nodes[end].uses().filter(|m| own[*m]).all(|m| leaf(g, &own, m) == Some(ids));
        if !matches!(g.nodes[end].op, NodeOp::Infix(_) | NodeOp::Select(_) | NodeOp::Cast | NodeOp::Reshape)
            || !others
        {
            return None;
        }
        if right(all, l, ids, end, total, rank) {
            return Some((ids, end));
        }
    }
    None
}

/// Returns the only value that a function of indices depends on.
fn leaf(g: &Graph, own: &[bool], n: NodeId) -> Option<NodeId> {
    let (mut below, mut leaves, mut seen) = (vec![n], BTreeSet::new(), BTreeSet::new());
    while let Some(n) = below.pop() {
        if !seen.insert(n) {
            continue;
        }
        match g.nodes[n].op {
            _ if own[n] => below.extend(g.nodes[n].uses()),
            NodeOp::Constant(_) | NodeOp::Full(_) => {}
            // The same indices in another shape.
            NodeOp::Reshape | NodeOp::Cast => below.extend(g.nodes[n].uses()),
            _ => {
                leaves.insert(n);
            }
        }
    }
    let mut leaves = leaves.into_iter();
    leaves.next().filter(|_| leaves.next().is_none())
}

/// Checks that every rank yields its rows for their indices in the whole table, and zeros
/// for all others.
fn right(
    all: &[Lifted],
    l: &Lookup,
    ids: NodeId,
    end: NodeId,
    total: i64,
    rank: &impl Fn(usize) -> u64,
) -> bool {
    all.iter().enumerate().all(|(at, it)| {
        let first = rank(at) as i64 * l.rows;
        let g = &it.graph;
        let (mut numbers, mut gives) = (Value::new(g, &[ids], l.numbers), Value::new(g, &[ids, l.at], end));
        (0..total).all(|v| {
            let mine = (first..first + l.rows).contains(&v);
            let Some(number) = numbers.of(&[v as f64]) else { return false };
            let inside = number >= 0.0 && number < l.rows as f64;
            let picks = !mine || number == (v - first) as f64;
            let wanted = if mine { [5.0, -3.0] } else { [0.0, 0.0] };
            inside && picks && [5.0, -3.0].map(|row| gives.of(&[v as f64, row])) == wanted.map(Some)
        })
    })
}

/// Evaluator for single elements, given one number for each of some nodes.
struct Value<'a> {
    g: &'a Graph,
    said: Vec<NodeId>,
    /// The nodes on which the value depends, in order.
    order: Vec<NodeId>,
    end: NodeId,
    held: Vec<Option<f64>>,
}

impl<'a> Value<'a> {
    fn new(g: &'a Graph, said: &[NodeId], end: NodeId) -> Value<'a> {
        let (mut below, mut seen) = (vec![end], BTreeSet::new());
        while let Some(n) = below.pop() {
            if !said.contains(&n) && seen.insert(n) {
                below.extend(g.nodes[n].uses());
            }
        }
        let held = vec![None; g.nodes.len()];
        Value { g, said: said.to_vec(), order: seen.into_iter().collect(), end, held }
    }

    fn of(&mut self, values: &[f64]) -> Option<f64> {
        for (n, x) in self.said.iter().zip(values) {
            self.held[*n] = Some(*x);
        }
        for i in 0..self.order.len() {
            let n = self.order[i];
            self.held[n] = self.step(&self.g.nodes[n]);
        }
        self.held[self.end]
    }

    fn step(&self, node: &GraphNode) -> Option<f64> {
        let arg = |i: usize| match node.args.get(i)? {
            Operand::Num(x) => Some(*x),
            Operand::Node(m) => self.held[*m],
        };
        let whole = node.dtype.class() != 2;
        Some(match &node.op {
            NodeOp::Constant(k) => self.g.constants[*k].1.uniform()?,
            NodeOp::Full(x) => *x,
            NodeOp::Reshape => arg(0)?,
            NodeOp::Cast => {
                let x = arg(0)?;
                if whole { x.trunc() } else { x }
            }
            NodeOp::Infix(op) => {
                let (a, b) = (arg(0)?, arg(1)?);
                match op {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ if whole => (a / b).trunc(),
                    _ => a / b,
                }
            }
            NodeOp::Call("min") => arg(0)?.min(arg(1)?),
            NodeOp::Call("max") => arg(0)?.max(arg(1)?),
            NodeOp::Call("abs") => arg(0)?.abs(),
            NodeOp::Call("-") => -arg(0)?,
            NodeOp::Select(how) => {
                let (a, b) = (arg(0)?, arg(1)?);
                arg(if holds(how, a, b) { 2 } else { 3 })?
            }
            _ => return None,
        })
    }
}

/// Checks whether a comparison holds.
pub(super) fn holds(how: &str, a: f64, b: f64) -> bool {
    match how {
        "<" => a < b,
        "<=" => a <= b,
        ">" => a > b,
        ">=" => a >= b,
        "==" => a == b,
        _ => a != b,
    }
}

/// Rewrites a lookup in one rank's graph: it takes indices of the whole table, and its results are
/// summed over ranks.
fn rewrite(it: &mut Lifted, l: &Lookup, ids: NodeId, end: NodeId) {
    let g = &mut it.graph;
    // The indices, in the shape that the lookup takes.
    let numbers = &mut g.nodes[l.numbers];
    (numbers.op, numbers.args) = (NodeOp::Reshape, vec![Operand::Node(ids)]);
    let last = match l.marked {
        None => {
            let table = g.nodes[l.at].args[0];
            let lookup: &mut GraphNode = &mut g.nodes[l.at];
            (lookup.op, lookup.args) = (NodeOp::Owned, vec![table, Operand::Node(l.numbers)]);
            l.at
        }
        Some((line, dim)) => {
            g.nodes[line].op = NodeOp::Numbered(dim);
            l.at
        }
    };
    let (from, to) = (g.nodes[last].sizes.clone(), g.nodes[end].sizes.clone());
    if from == to {
        for a in g.nodes.iter_mut().flat_map(|n| &mut n.args) {
            if *a == Operand::Node(end) {
                *a = Operand::Node(last);
            }
        }
        it.outputs.iter_mut().filter(|o| o.0 == end).for_each(|o| o.0 = last);
    } else {
        let end = &mut g.nodes[end];
        (end.op, end.args) = (NodeOp::Reshape, vec![Operand::Node(last)]);
    }
}
