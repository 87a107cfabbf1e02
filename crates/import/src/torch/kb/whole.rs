//! Programs of ranks that agree, as one global program with placements (docs/adr/036-lift.md).
//!
//! Owns that the ranks agree, what inputs may be, and the global graph: the local one with larger sizes, in which
//! collectives change placements. What placements there are is [`super::places`]'s.

use super::axes::{self, Axes};
use super::batches;
use super::global;
use super::graph::{Graph, NodeId, Op, Operand};
use super::lift::{Lifted, counts, lift, live};
use super::places::{Candidates, Place, places};
use super::{Given, Kb, Out, machine, ranks};
use crate::torch::groups::{World, words};
use crate::torch::matching::Met;
use crate::torch::model::{Placement, Program};
use kbc_diag::{Diagnostic, Diagnostics};
use std::collections::BTreeMap;

/// How the ranks' arrays become one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joined {
    /// For each axis of the mesh, the slowest first: its size, and where its parts go.
    pub by: Vec<(u64, Place)>,
}

/// The global program of a world, if its ranks agree up to symmetry.
///
/// # Errors
/// Those of [`super::write`], and E562: why there is none.
pub fn write(world: &World, met: &[Met], name: &str, given: &Given) -> Result<Kb, Diagnostics> {
    let axes = axes::axes(world, met)?;
    let counts = counts(world, met);
    let mut all = vec![];
    for at in 0..world.programs.len() {
        all.push(batches::apart(lift(world, at, &axes, &counts)?));
    }
    alike(world, &all)?;
    let first = all.swap_remove(0);
    drop(all);
    let p = &world.programs[0];
    let stored = world.args.first().map_or(&[][..], Vec::as_slice);
    let mut out = Out::new(name, given, &axes, &world.programs);
    let does = live(&first);
    let mut found: Vec<Vec<Option<Place>>> = vec![];
    for axis in 0..axes.list.len() {
        let candidates = candidates(world, &out, &axes, axis, &first, stored);
        found.push(places(&first.graph, &does, axis, &candidates).map_err(|stuck| {
            let node = &first.graph.nodes[stuck.at];
            let what = first.names.get(&stuck.at).map_or_else(String::new, |n| format!("`{n}`: "));
            let mut d = refused(&format!("{what}{}", stuck.why))
                .note(format!("over {}, as the programs use what they give", axes.list[axis].name));
            if !matches!(node.op, Op::Input(_) | Op::Constant(_)) {
                d = d.primary(p.span(node.of), "here").note(p.place(node.of));
            }
            d
        })?);
    }
    let it = rebuilt(p, first, &does, &axes, &found)?;
    let joined = |n: NodeId| Joined {
        by: axes.list.iter().zip(&found).map(|(a, f)| (a.size, f[n].unwrap_or(Place::Whole))).collect(),
    };
    out.joined = Some(it.1.iter().map(|(old, new)| (*new, joined(*old))).collect());
    let body = out.part(0, p, stored, it.0);
    if out.found.has_errors() {
        return Err(out.found);
    }
    let version = &p.written.torch;
    let by = if version.is_empty() { "PyTorch".into() } else { format!("PyTorch {version}") };
    let text = format!(
        "// Made by kbc import from the programs of {} that {by} exported, which agree: sizes are global.\n\n{}\nprogram {} {body}\n",
        ranks(world.size),
        machine(&axes),
        super::print::word(name)
    );
    Ok(out.kb(text))
}

fn refused(why: &str) -> Diagnostic {
    Diagnostic::error("E562", format!("these programs are no global program: {why}"))
        .help("without --lift they become a local program")
}

/// Whether all ranks have the program of the first.
fn alike(world: &World, all: &[Lifted]) -> Result<(), Diagnostic> {
    let first = &all[0];
    for (other, p) in all.iter().zip(&world.programs).skip(1) {
        let differ = |n: usize, what: &str| {
            let node = other.graph.nodes.get(n);
            let mut d = refused(&format!("ranks {} have {what}", words(&[world.programs[0].rank, p.rank])));
            if let Some(node) = node.filter(|n| !matches!(n.op, Op::Input(_) | Op::Constant(_))) {
                d = d.primary(p.span(node.of), format!("on rank {}", p.rank)).note(p.place(node.of));
            }
            d
        };
        for (n, (a, b)) in first.graph.nodes.iter().zip(&other.graph.nodes).enumerate() {
            let numbers = |n: &super::graph::Node| {
                n.args
                    .iter()
                    .filter_map(|o| if let Operand::Num(x) = o { Some(*x) } else { None })
                    .collect::<Vec<_>>()
            };
            let (x, y) = (numbers(a), numbers(b));
            if a.op == b.op && x != y {
                return Err(differ(n, &format!("different numbers, {x:?} and {y:?}")));
            }
            if let (Op::Slice(d, from, to), Op::Slice(e, since, until)) = (&a.op, &b.op)
                && (d, from, to) != (e, since, until)
            {
                return Err(differ(n, &format!("different slices, {from}..{to} and {since}..{until}")));
            }
            if (&a.op, &a.args, a.dtype) != (&b.op, &b.args, b.dtype) {
                return Err(differ(n, "different operations"));
            }
            if a.sizes != b.sizes {
                return Err(differ(n, &format!("different sizes, {:?} and {:?}", a.sizes, b.sizes)));
            }
            if let Op::Constant(k) = a.op
                && first.graph.constants[k].1 != other.graph.constants[k].1
            {
                return Err(differ(n, "different constants, such as a first row"));
            }
        }
        if first.graph.nodes.len() != other.graph.nodes.len() || first.outputs != other.outputs {
            return Err(differ(usize::MAX, "programs of different lengths"));
        }
    }
    Ok(())
}

/// What the inputs may be over an axis: what differs between its ranks is split, what is the same is whole, or was cut from
/// what has equal parts.
fn candidates(
    world: &World,
    out: &Out<'_>,
    axes: &Axes,
    axis: usize,
    it: &Lifted,
    stored: &[String],
) -> Candidates {
    let Axes { list } = axes;
    let (size, stride) = (list[axis].size, list[axis].stride);
    let print = |at: usize, i: usize| {
        let (key, _, _) = out.stored(at, &world.programs[at], &it.inputs[i], stored)?;
        out.given.prints.get(at)?.get(&key).copied()
    };
    (0..it.inputs.len())
        .map(|i| {
            let rank = world.programs[0].meta(it.inputs[i].value).map_or(0, |m| m.sizes.len());
            let mut all = vec![];
            // of each rank and the one that is next on the axis
            let next = (0..world.programs.len()).filter(|at| !(*at as u64 / stride + 1).is_multiple_of(size));
            let differ = next.filter_map(|at| Some(print(at, i)? != print(at + stride as usize, i)?));
            if !differ.into_iter().any(|d| d) {
                all.push(Place::Whole);
            }
            all.extend((0..rank).map(Place::Split));
            all
        })
        .collect()
}

/// Sizes of all parts together.
fn sizes(local: &[i64], of: &[(u64, Place)]) -> Vec<i64> {
    let mut out = local.to_vec();
    for (n, p) in of {
        if let Place::Split(d) = p {
            out[*d] *= *n as i64;
        }
    }
    out
}

/// The graph with global sizes, and where its nodes come from.
fn rebuilt(
    p: &Program,
    it: Lifted,
    does: &[bool],
    axes: &Axes,
    found: &[Vec<Option<Place>>],
) -> Result<(Lifted, BTreeMap<NodeId, NodeId>), Diagnostic> {
    let mut g = Graph { constants: it.graph.constants.clone(), ..Graph::default() };
    let mut now: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    for (n, node) in it.graph.nodes.iter().enumerate().filter(|(n, _)| does[*n]) {
        let by: Vec<(u64, Place)> =
            axes.list.iter().zip(found).map(|(a, f)| (a.size, f[n].unwrap_or(Place::Whole))).collect();
        let args: Vec<Operand> = node
            .args
            .iter()
            .map(|a| match a {
                Operand::Node(m) => Operand::Node(now[m]),
                num => *num,
            })
            .collect();
        g.at = node.of;
        let global = sizes(&node.sizes, &by);
        let new = match (&node.op, &args[..]) {
            // in a global program a collective is a value
            (Op::Wait, [Operand::Node(m)]) => *m,
            (Op::Reduce("mean", dim, keep), [Operand::Node(_)]) if cut(&node.args[0], *dim, found) => {
                // each rank divides by what it has
                let Operand::Node(old) = node.args[0] else { continue };
                let sum = g.push(Op::Reduce("sum", *dim, *keep), args, node.dtype, global);
                let own = it.graph.nodes[old].sizes[*dim] as f64;
                match g.infix('/', Operand::Node(sum), Operand::Num(own)) {
                    Operand::Node(m) => m,
                    Operand::Num(_) => sum,
                }
            }
            _ => g.push(node.op.clone(), args, node.dtype, global),
        };
        now.insert(n, new);
    }
    let mut placed = BTreeMap::new();
    let ends = it.outputs.iter().map(|o| o.0);
    let begins = (0..it.graph.nodes.len()).filter(|n| matches!(it.graph.nodes[*n].op, Op::Input(_)));
    for n in begins.chain(ends).filter(|n| does[*n]) {
        let list: Vec<Placement> = found
            .iter()
            .map(|f| match f[n].unwrap_or(Place::Whole) {
                Place::Whole => Placement::Replicated,
                Place::Split(d) => Placement::Split(d),
                Place::Partial(op) => {
                    Placement::Partial(if op == "prod" { "product".into() } else { op.into() })
                }
            })
            .collect();
        let new = &g.nodes[now[&n]];
        let ty = global::type_of(new.dtype, &new.sizes, &list, axes)
            .map_err(|why| refused(&why).note(p.file.clone()))?;
        placed.insert(now[&n], ty);
    }
    let names = it.names.iter().filter_map(|(n, name)| Some((*now.get(n)?, name.clone()))).collect();
    let outputs = it.outputs.iter().map(|(n, place)| (now[n], *place)).collect();
    let back = it.outputs.iter().map(|o| o.0).chain((0..it.graph.nodes.len()).filter(|n| does[*n]));
    let from = back.filter_map(|n| Some((n, *now.get(&n)?))).collect();
    Ok((Lifted { graph: g, inputs: it.inputs, outputs, names, placed }, from))
}

/// Whether an operand is split along a dimension.
fn cut(of: &Operand, dim: usize, found: &[Vec<Option<Place>>]) -> bool {
    match of {
        Operand::Node(n) => found.iter().any(|f| f[*n] == Some(Place::Split(dim))),
        Operand::Num(_) => false,
    }
}
