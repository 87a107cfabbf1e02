//! What ranks have of their own in programs that are otherwise the same: numbers, slices, constants.
//!
//! Owns the comparison of the ranks' graphs, and what of it is so over one axis of the mesh.

use super::axes::Axis;
use super::graph::{Graph, NodeId, Op, Operand};
use super::lift::Lifted;
use crate::torch::groups::{World, words};
use kbc_diag::Diagnostic;
use std::collections::{BTreeMap, BTreeSet};

/// What ranks have of their own over one axis.
#[derive(Clone, Default, Debug)]
pub struct Own {
    /// Nodes whose numbers differ, with what they are.
    pub numbers: BTreeMap<NodeId, String>,
    /// Slices that differ: whether they are the parts of the dimension, in the order of the ranks.
    pub slices: BTreeMap<NodeId, bool>,
    /// Constants that differ.
    pub constants: BTreeSet<NodeId>,
}

/// What the programs of all ranks have of their own, by rank.
#[derive(Clone, Default, Debug)]
pub struct Differing {
    /// Numbers among the operands.
    pub numbers: BTreeMap<NodeId, Vec<Vec<f64>>>,
    /// First elements of slices of one length.
    pub slices: BTreeMap<NodeId, Vec<i64>>,
    /// The numbers of constants.
    pub constants: BTreeMap<NodeId, Vec<usize>>,
}

fn numbers(n: &super::graph::Node) -> Vec<f64> {
    n.args.iter().filter_map(|o| if let Operand::Num(x) = o { Some(*x) } else { None }).collect()
}

/// An operation without what ranks may have of their own.
fn bare(op: &Op) -> Op {
    match op {
        Op::Slice(d, from, to) => Op::Slice(*d, 0, to - from),
        Op::Constant(_) => Op::Constant(0),
        other => other.clone(),
    }
}

/// Whether two graphs do the same at a node, but for what ranks may have of their own.
fn similar(a: &Graph, b: &Graph, n: NodeId) -> Result<(), String> {
    let (x, y) = (&a.nodes[n], &b.nodes[n]);
    let nodes = |n: &super::graph::Node| {
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

impl Differing {
    /// Of the programs of all ranks.
    ///
    /// # Errors
    /// The first operation that is another one, the program that has it, and in words what is different.
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
                Op::Slice(_, from, _) => {
                    let start = |l: &Lifted| match l.graph.nodes[n].op {
                        Op::Slice(_, from, _) => from,
                        _ => *from,
                    };
                    if of(&|l| start(l) != *from) {
                        out.slices.insert(n, all.iter().map(start).collect());
                    }
                }
                Op::Constant(k) => {
                    let at = |l: &Lifted| match l.graph.nodes[n].op {
                        Op::Constant(k) => k,
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

    /// What of it is so over an axis.
    pub fn over(&self, all: &[Lifted], axis: &Axis) -> Own {
        let mut out = Own::default();
        for (n, by) in &self.numbers {
            if let Some((a, b)) = differ(by, axis) {
                out.numbers.insert(*n, format!("{a:?} and {b:?}"));
            }
        }
        for (n, by) in &self.slices {
            if differ(by, axis).is_none() {
                continue;
            }
            let node = &all[0].graph.nodes[*n];
            let (Op::Slice(d, from, to), Some(Operand::Node(x))) = (&node.op, node.args.first()) else {
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

/// The first two neighbours on an axis that have different things.
fn differ<'a, T: PartialEq>(by: &'a [T], axis: &Axis) -> Option<(&'a T, &'a T)> {
    (0..by.len())
        .filter(|at| !(*at as u64 / axis.stride + 1).is_multiple_of(axis.size))
        .filter_map(|at| Some((&by[at], by.get(at + axis.stride as usize)?)))
        .find(|(a, b)| a != b)
}

/// Where ranks have different programs, in words and with the line of the rank's program.
pub fn unlike(world: &World, all: &[Lifted], (at, n, what): &(usize, NodeId, String)) -> Diagnostic {
    let (p, first) = (&world.programs[*at], &world.programs[0]);
    let title = format!("ranks {} have {what}", words(&[first.rank, p.rank]));
    let mut d = Diagnostic::error("E562", title);
    // what one of them has more than the other
    let node = match all[*at].graph.nodes.get(*n) {
        Some(node) => Some((p, node)),
        None => all[0].graph.nodes.get(*n).map(|node| (first, node)),
    };
    if let Some((p, node)) = node.filter(|n| !matches!(n.1.op, Op::Input(_) | Op::Constant(_))) {
        d = d.primary(p.span(node.of), format!("on rank {}", p.rank)).note(p.place(node.of));
    }
    d
}
