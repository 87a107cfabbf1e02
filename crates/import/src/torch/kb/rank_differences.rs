//! Differences between ranks whose programs are otherwise the same: numbers, slices and constants.
//!
//! This module owns the comparison of the ranks' graphs, and the restriction of the differences to
//! one axis of the mesh.

use super::axes::Axis;
use super::graph::{Graph, GraphNode, NodeId, NodeOp, Operand};
use super::lift::Lifted;
use crate::torch::groups::{World, words};
use kbc_diag::Diagnostic;
use std::collections::{BTreeMap, BTreeSet};

/// The differences between ranks over one axis.
#[derive(Clone, Default, Debug)]
pub struct AxisDifferences {
    /// Nodes whose numbers differ, with a text that shows the numbers.
    pub numbers: BTreeMap<NodeId, String>,
    /// For each of these nodes, the sum of its numbers over the ranks of the axis, if it is the
    /// same on all lines of the mesh along that axis.
    pub sums: BTreeMap<NodeId, f64>,
    /// Slices that differ. The flag is set if they are the parts of the dimension in the
    /// order of the ranks.
    pub slices: BTreeMap<NodeId, bool>,
    /// Constants that differ.
    pub constants: BTreeSet<NodeId>,
}

/// The differences between the programs of all ranks, by node and rank.
#[derive(Clone, Default, Debug)]
pub struct Differing {
    /// Numbers among the operands.
    pub numbers: BTreeMap<NodeId, Vec<Vec<f64>>>,
    /// First elements of slices that have the same length.
    pub slices: BTreeMap<NodeId, Vec<i64>>,
    /// Indices of constants.
    pub constants: BTreeMap<NodeId, Vec<usize>>,
}

fn numbers(n: &GraphNode) -> Vec<f64> {
    n.args.iter().filter_map(|o| if let Operand::Num(x) = o { Some(*x) } else { None }).collect()
}

/// Returns an operation without what may differ between ranks.
fn bare(op: &NodeOp) -> NodeOp {
    match op {
        NodeOp::Slice(d, from, to) => NodeOp::Slice(*d, 0, to - from),
        NodeOp::Constant(_) => NodeOp::Constant(0),
        other => other.clone(),
    }
}

/// Checks that two graphs have the same operation at a node, apart from what may differ
/// between ranks.
fn similar(a: &Graph, b: &Graph, n: NodeId) -> Result<(), String> {
    let (x, y) = (&a.nodes[n], &b.nodes[n]);
    let nodes = |n: &GraphNode| {
        n.args.iter().map(|o| if let Operand::Node(m) = o { Some(*m) } else { None }).collect::<Vec<_>>()
    };
    if x.sizes != y.sizes {
        return Err(format!("different sizes, {:?} and {:?}", x.sizes, y.sizes));
    }
    if bare(&x.op) != bare(&y.op) || x.dtype != y.dtype || nodes(x) != nodes(y) {
        return Err("different operations".into());
    }
    Ok(())
}

/// Greatest number of sums that [`completed`] makes equal.
const ADDED: usize = 64;

/// Makes all ranks perform a sum that only some of them perform, such as a bias that rank 0 adds.
/// The added operand is multiplied by 1 on the ranks that perform the sum, and by 0 on the others.
pub fn completed(all: &mut [Lifted]) {
    for _ in 0..ADDED {
        let shortest = all.iter().map(|l| l.graph.nodes.len()).min().unwrap_or(0);
        let same = |n: usize| all[1..].iter().all(|l| similar(&all[0].graph, &l.graph, n).is_ok());
        let Some(at) = (0..shortest).find(|n| !same(*n)) else { return };
        // The sum and its operands, which every rank has.
        let sum = |l: &Lifted| match (&l.graph.nodes[at].op, &l.graph.nodes[at].args[..]) {
            (NodeOp::Infix('+'), [Operand::Node(x), Operand::Node(y)]) => Some((*x, *y)),
            _ => None,
        };
        let Some((x, y)) = all.iter().find_map(sum) else { return };
        for it in all.iter_mut() {
            let adds = sum(it) == Some((x, y));
            let (dtype, sizes) = (it.graph.nodes[y].dtype, it.graph.nodes[y].sizes.clone());
            let of = it.graph.nodes[at].of;
            let by = Operand::Num(if adds { 1.0 } else { 0.0 });
            let part =
                GraphNode { op: NodeOp::Infix('*'), args: vec![Operand::Node(y), by], dtype, sizes, of };
            if adds {
                inserted(it, at, vec![part]);
                it.graph.nodes[at + 1].args[1] = Operand::Node(at);
            } else {
                let whole = &it.graph.nodes[x];
                let args = vec![Operand::Node(x), Operand::Node(at)];
                let sum = GraphNode { op: NodeOp::Infix('+'), args, of, ..whole.clone() };
                inserted(it, at, vec![part, sum]);
                // Uses of the other operand become uses of the sum.
                for node in &mut it.graph.nodes[at + 2..] {
                    for a in node.args.iter_mut().filter(|a| **a == Operand::Node(x)) {
                        *a = Operand::Node(at + 1);
                    }
                }
                it.outputs.iter_mut().filter(|o| o.0 == x).for_each(|o| o.0 = at + 1);
            }
        }
    }
}

/// Inserts nodes at a position; later nodes are renumbered.
fn inserted(it: &mut Lifted, at: NodeId, nodes: Vec<GraphNode>) {
    let by = nodes.len();
    let moved = |n: NodeId| if n >= at { n + by } else { n };
    for a in it.graph.nodes[at..].iter_mut().flat_map(|n| &mut n.args) {
        if let Operand::Node(n) = a {
            *n = moved(*n);
        }
    }
    it.graph.nodes.splice(at..at, nodes);
    it.outputs.iter_mut().for_each(|o| o.0 = moved(o.0));
    it.names = std::mem::take(&mut it.names).into_iter().map(|(n, name)| (moved(n), name)).collect();
}

impl Differing {
    /// Compares the programs of all ranks.
    ///
    /// # Errors
    /// Returns the first difference between operations: the program, the node, and a description.
    pub fn of(all: &[Lifted]) -> Result<Differing, (usize, NodeId, String)> {
        let first = &all[0];
        let mut out = Differing::default();
        for (at, other) in all.iter().enumerate().skip(1) {
            let shorter = first.graph.nodes.len().min(other.graph.nodes.len());
            for n in 0..shorter {
                similar(&first.graph, &other.graph, n).map_err(|why| (at, n, why))?;
            }
            if first.graph.nodes.len() != other.graph.nodes.len() || first.outputs != other.outputs {
                return Err((at, shorter, "programs of different lengths".into()));
            }
        }
        for (n, node) in first.graph.nodes.iter().enumerate() {
            let of = |f: &dyn Fn(&Lifted) -> bool| all.iter().any(f);
            let mine = numbers(node);
            if of(&|l| numbers(&l.graph.nodes[n]) != mine) {
                out.numbers.insert(n, all.iter().map(|l| numbers(&l.graph.nodes[n])).collect());
            }
            match &node.op {
                NodeOp::Slice(_, from, _) => {
                    let start = |l: &Lifted| match l.graph.nodes[n].op {
                        NodeOp::Slice(_, from, _) => from,
                        _ => *from,
                    };
                    if of(&|l| start(l) != *from) {
                        out.slices.insert(n, all.iter().map(start).collect());
                    }
                }
                NodeOp::Constant(k) => {
                    let at = |l: &Lifted| match l.graph.nodes[n].op {
                        NodeOp::Constant(k) => k,
                        _ => *k,
                    };
                    if of(&|l| l.graph.constants[at(l)].1 != first.graph.constants[*k].1) {
                        out.constants.insert(n, all.iter().map(at).collect());
                    }
                }
                _ => {}
            }
        }
        Ok(out)
    }

    /// Restricts the differences to one axis.
    pub fn over(&self, all: &[Lifted], axis: &Axis) -> AxisDifferences {
        let mut out = AxisDifferences::default();
        for (n, by) in &self.numbers {
            if let Some((a, b)) = differ(by, axis) {
                out.numbers.insert(*n, format!("{a:?} and {b:?}"));
                let (size, stride) = (axis.size as usize, axis.stride as usize);
                let lines = (0..by.len()).filter(|at| at / stride % size == 0);
                let each =
                    lines.map(|at| (0..size).filter_map(|k| by.get(at + k * stride)?.first()).sum::<f64>());
                let sums: Vec<f64> = each.collect();
                if sums.iter().all(|s| *s == sums[0]) {
                    out.sums.insert(*n, sums[0]);
                }
            }
        }
        for (n, by) in &self.slices {
            if differ(by, axis).is_none() {
                continue;
            }
            let node = &all[0].graph.nodes[*n];
            let (NodeOp::Slice(d, from, to), Some(Operand::Node(x))) = (&node.op, node.args.first()) else {
                continue;
            };
            let part = to - from;
            let size = all[0].graph.nodes[*x].sizes[*d];
            let in_order = by
                .iter()
                .enumerate()
                .all(|(at, from)| *from == (at as u64 / axis.stride % axis.size) as i64 * part);
            out.slices.insert(*n, in_order && part * axis.size as i64 == size);
        }
        for (n, by) in &self.constants {
            let held: Vec<_> = all.iter().zip(by).map(|(l, k)| &l.graph.constants[*k].1).collect();
            if differ(&held, axis).is_some() {
                out.constants.insert(*n);
            }
        }
        out
    }
}

/// Returns the first two neighbours on an axis whose values differ.
fn differ<'a, T: PartialEq>(by: &'a [T], axis: &Axis) -> Option<(&'a T, &'a T)> {
    (0..by.len())
        .filter(|at| !(*at as u64 / axis.stride + 1).is_multiple_of(axis.size))
        .filter_map(|at| Some((&by[at], by.get(at + axis.stride as usize)?)))
        .find(|(a, b)| a != b)
}

/// Makes the message about ranks with different programs, with the line of the rank's program.
pub fn differing_programs(
    world: &World,
    all: &[Lifted],
    (at, n, what): &(usize, NodeId, String),
) -> Diagnostic {
    let (p, first) = (&world.programs[*at], &world.programs[0]);
    let title = format!("ranks {} have {what}", words(&[first.rank, p.rank]));
    let mut d = Diagnostic::error("E562", title);
    // An operation that one of them has and the other lacks.
    let node = match all[*at].graph.nodes.get(*n) {
        Some(node) => Some((p, node)),
        None => all[0].graph.nodes.get(*n).map(|node| (first, node)),
    };
    if let Some((p, node)) = node.filter(|n| !matches!(n.1.op, NodeOp::Input(_) | NodeOp::Constant(_))) {
        d = d.primary(p.span(node.of), format!("on rank {}", p.rank)).note(p.place(node.of));
    }
    d
}
