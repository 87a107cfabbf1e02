//! Translation of one rank's program into a graph of kbc's operations.
//!
//! This module owns the traversal of the program, the treatment of inputs and results, and the
//! simplifications of the finished graph.

use super::axes::Axes;
use super::graph::{Graph, NodeId, NodeOp, Operand, RankCollective};
use super::placed_type::placed_type;
use super::step::Translation;
use super::values::{Val, stored_dtype};
use crate::torch::arg::Arg;
use crate::torch::dtype::DType;
use crate::torch::groups::{World, group_of};
use crate::torch::matching::MatchedCollective;
use crate::torch::model::{Node, Program, Role, ValueId, ValueKind};
use crate::torch::rule::Rule;
use kbc_diag::{Diagnostic, Diagnostics};
use std::collections::{BTreeMap, BTreeSet};

/// An input that is a tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// Its name in PyTorch's program.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Its index among the inputs that are tensors.
    pub number: usize,
    /// Its value.
    pub value: ValueId,
}

/// A translated program.
#[derive(Clone, Debug)]
pub struct Lifted {
    /// Its operations.
    pub graph: Graph,
    /// Inputs, indexed as in `NodeOp::Input`.
    pub inputs: Vec<Input>,
    /// Results, with their positions in PyTorch's list.
    pub outputs: Vec<(NodeId, usize)>,
    /// Names of nodes in PyTorch's program.
    pub names: BTreeMap<NodeId, String>,
    /// For a global program, types with placements.
    pub placed: BTreeMap<NodeId, String>,
}

/// Numbers of rows that the members of each all_to_all send to each other, by program and node.
pub type Counts = BTreeMap<(usize, usize), Vec<Vec<i64>>>;

/// Returns the row counts of all_to_all collectives, one matrix row per sender.
pub fn counts(world: &World, met: &[MatchedCollective]) -> Counts {
    let mut out = Counts::new();
    for m in met {
        let (p, n) = (&world.programs[m.at.0], m.at.1);
        if p.nodes[n].op.rule != Rule::AllToAll {
            continue;
        }
        let row = |(p, n): &(usize, usize)| {
            let p = &world.programs[*p];
            match p.nodes[*n].arg("input_split_sizes") {
                Arg::Ints(l) => l.iter().map(|i| p.int(i).unwrap_or(0)).collect(),
                _ => vec![],
            }
        };
        // In the order of the group, which may differ from that of the programs.
        let of = |rank: &u64| m.all.iter().find(|a| world.programs[a.0].rank == *rank);
        let matrix: Vec<Vec<i64>> = m.members.iter().filter_map(of).map(row).collect();
        for at in &m.all {
            out.insert(*at, matrix.clone());
        }
    }
    out
}

/// Options of a translation.
#[derive(Clone, Copy, Default, Debug)]
pub struct Mode {
    /// Keeps constants as they are, so that ranks with different constants have the
    /// same operations.
    pub plain: bool,
    /// Turns operations that cannot be expressed into `NodeOp::Opaque`.
    pub opaque: bool,
    /// Keeps reshapes as they are in PyTorch's program.
    pub written: bool,
}

/// Returns the inputs of a program that are tensors.
pub fn inputs(p: &Program) -> Vec<Input> {
    let named = p.written.inputs.iter().flat_map(|(arg, role)| arg.values().map(move |name| (name, role)));
    let tensors = named.enumerate().filter(|(value, _)| p.meta(*value).is_some()).enumerate();
    tensors
        .map(|(number, (value, (name, role)))| Input {
            name: name.clone(),
            role: role.clone(),
            number,
            value,
        })
        .collect()
}

/// Translates the program of a rank.
///
/// # Errors
/// Returns E550 for every operation that cannot be expressed.
pub fn translate(
    world: &World,
    at: usize,
    axes: &Axes,
    counts: &Counts,
    mode: Mode,
) -> Result<Lifted, Diagnostics> {
    let p = &world.programs[at];
    let mut found = Diagnostics::new();
    let mut g = Graph { plain: mode.plain, written: mode.written, ..Graph::default() };
    let mut env: Vec<Option<Val>> = vec![None; p.values.len()];
    let inputs = inputs(p);
    let mut names = BTreeMap::new();
    for (i, input) in inputs.iter().enumerate() {
        let Some(m) = p.meta(input.value) else { continue };
        match stored_dtype(m.dtype) {
            Ok(dtype) => {
                let n = g.push(NodeOp::Input(i), vec![], dtype, m.shape());
                env[input.value] = Some(Val::Node(n));
                names.insert(n, input.name.clone());
            }
            Err(why) => found.push(
                Diagnostic::error("E550", format!("the input `{}` cannot be expressed: {why}", input.name))
                    .note(p.file.clone()),
            ),
        }
    }
    let none: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let groups = world.groups.get(at).unwrap_or(&none);
    let mut lost: BTreeSet<ValueId> = BTreeSet::new();
    let mut used = vec![false; p.values.len()];
    for v in p.nodes.iter().flat_map(|n| &n.args).flat_map(Arg::values).chain(&p.outputs) {
        used[*v] = true;
    }
    for (i, node) in p.nodes.iter().enumerate() {
        g.at = i;
        // Errors that follow from an earlier failed operation are not reported.
        if node.args.iter().flat_map(Arg::values).any(|v| lost.contains(v)) {
            lost.extend(&node.outputs);
            continue;
        }
        let members = groups.get(group_of(p, i)).filter(|m| m.len() > 1);
        let over = members.and_then(|m| axes.of(m));
        let rows = counts.get(&(at, i)).map_or(&[][..], Vec::as_slice);
        let mut step = Translation { g: &mut g, p, node, env: &env, used: &used };
        let results = match step.results(over.as_ref(), rows) {
            Ok(r) => r,
            Err(_) if mode.opaque => opaque(p, node, &mut g, &env),
            Err(why) => {
                lost.extend(&node.outputs);
                found.push(
                    Diagnostic::error("E550", format!("{} cannot be expressed in .kb: {why}", node.op.name))
                        .primary(p.span(i), "here")
                        .note(p.place(i)),
                );
                continue;
            }
        };
        for (v, val) in node.outputs.iter().zip(results) {
            if let Val::Node(n) = val {
                names.entry(n).or_insert_with(|| name_of(p, i, *v));
            }
            env[*v] = Some(val);
        }
        if node.op.name == "aten.copy_.default"
            && let (Arg::Tensor(to), Some(v)) = (node.arg("self"), node.outputs.first())
        {
            env[*to] = env[*v].clone();
        }
    }
    let outputs = results(p, &mut g, &env, &lost, &mut found);
    if found.has_errors() {
        return Err(found);
    }
    let mut placed = BTreeMap::new();
    for (v, val) in p.values.iter().zip(&env) {
        let (Some(places), Some(Val::Node(n)), ValueKind::Tensor(m)) =
            (p.written.placements.get(&v.name), val, &v.kind)
        else {
            continue;
        };
        match placed_type(g.nodes[*n].dtype, &m.shape(), places, axes) {
            Ok(ty) => {
                placed.entry(*n).or_insert(ty);
            }
            Err(why) => found.push(
                Diagnostic::error(
                    "E550",
                    format!("the placement of `{}` cannot be expressed: {why}", v.name),
                )
                .note(p.file.clone()),
            ),
        }
    }
    if found.has_errors() {
        return Err(found);
    }
    let mut out = Lifted { graph: g, inputs, outputs, names, placed };
    gathers(&mut out, axes);
    scatters(&mut out.graph, axes);
    Ok(out)
}

/// Returns results for an operation that cannot be expressed.
fn opaque(p: &Program, node: &Node, g: &mut Graph, env: &[Option<Val>]) -> Vec<Val> {
    let known = |v: &ValueId| match &env[*v] {
        Some(Val::Node(n) | Val::Wide(n, _)) => vec![*n],
        Some(Val::Compared(c)) => c.sides.iter().filter_map(node_of).collect(),
        Some(Val::Const(_)) | None => vec![],
    };
    let args: Vec<Operand> =
        node.args.iter().flat_map(Arg::values).flat_map(known).map(Operand::Node).collect();
    let each = node.outputs.iter().map(|v| {
        let (dtype, sizes) = p.meta(*v).map_or((DType::F32, vec![]), |m| (m.dtype, m.shape()));
        Val::Node(g.push(NodeOp::Opaque, args.clone(), stored_dtype(dtype).unwrap_or(dtype), sizes))
    });
    each.collect()
}

fn node_of(o: &Operand) -> Option<NodeId> {
    if let Operand::Node(n) = o { Some(*n) } else { None }
}

/// Returns PyTorch's name of a value; for a part of a list, that of the operation.
fn name_of(p: &Program, node: usize, v: ValueId) -> String {
    let name = &p.values[v].name;
    let op = p.nodes[node].op.name.split('.').nth(1).unwrap_or("");
    let short = if name.starts_with("getitem") { op } else { name };
    let short = short.trim_start_matches('_');
    let short = short.strip_prefix("native_").unwrap_or(short);
    if short.is_empty() { "value".into() } else { short.to_owned() }
}

fn results(
    p: &Program,
    g: &mut Graph,
    env: &[Option<Val>],
    lost: &BTreeSet<ValueId>,
    found: &mut Diagnostics,
) -> Vec<(NodeId, usize)> {
    let mut out = vec![];
    let mut ids = p.outputs.iter();
    for (place, arg) in p.written.outputs.iter().enumerate() {
        for name in arg.values() {
            let Some(v) = ids.next().filter(|v| !lost.contains(v)) else { continue };
            let node = match (&env[*v], p.meta(*v)) {
                (Some(val), Some(m)) => stored_dtype(m.dtype).and_then(|d| g.whole(val, d)),
                // Sizes are not results of a program of tensors.
                _ if matches!(p.values[*v].kind, ValueKind::Int(_) | ValueKind::Bool) => continue,
                _ => Err("no operation computes it".into()),
            };
            match node {
                Ok(n) => out.push((n, place)),
                Err(why) => found.push(
                    Diagnostic::error("E550", format!("the result `{name}` cannot be expressed: {why}"))
                        .primary(p.span(p.nodes.len()), "returned here"),
                ),
            }
        }
    }
    if out.is_empty() && !found.has_errors() && lost.is_empty() {
        found.push(Diagnostic::error("E550", "the program has no results").note(p.file.clone()));
    }
    out
}

/// Counts the uses of each node by live nodes, results included.
pub fn uses(it: &Lifted) -> Vec<usize> {
    let live = live(it);
    let mut out = vec![0; it.graph.nodes.len()];
    let by = it.graph.nodes.iter().zip(live).filter(|n| n.1).flat_map(|n| n.0.uses());
    for n in by.chain(it.outputs.iter().map(|o| o.0)) {
        out[n] += 1;
    }
    out
}

fn ranks(axes: &Axes, over: &std::ops::Range<usize>) -> i64 {
    axes.list[over.clone()].iter().map(|a| a.size as i64).product()
}

/// Rewrites the `concat` along k of the parts along 0 of an all_gather along 0 into an
/// all_gather along k.
fn gathers(it: &mut Lifted, axes: &Axes) {
    let count = uses(it);
    for c in 0..it.graph.nodes.len() {
        let node = &it.graph.nodes[c];
        let NodeOp::Concat(k) = node.op else { continue };
        let parts: Vec<NodeId> = node.uses().collect();
        let Some((wait, 0)) = it.graph.pieces(&parts) else { continue };
        let [Operand::Node(gather)] = it.graph.nodes[wait].args[..] else { continue };
        let NodeOp::Collective(RankCollective::AllGather(0), over) = &it.graph.nodes[gather].op else {
            continue;
        };
        let over = over.clone();
        let even = parts.windows(2).all(|w| it.graph.nodes[w[0]].sizes == it.graph.nodes[w[1]].sizes);
        let alone = parts.iter().all(|p| count[*p] == 1) && count[wait] == parts.len() && count[gather] == 1;
        if !(even
            && alone
            && ranks(axes, &over) == parts.len() as i64
            && it.graph.nodes[wait].op == NodeOp::Wait)
        {
            continue;
        }
        let sizes = node.sizes.clone();
        it.graph.nodes[gather].op = NodeOp::Collective(RankCollective::AllGather(k), over);
        it.graph.nodes[gather].sizes.clone_from(&sizes);
        it.graph.nodes[wait].sizes = sizes;
        for a in it.graph.nodes.iter_mut().flat_map(|n| &mut n.args) {
            if *a == Operand::Node(c) {
                *a = Operand::Node(wait);
            }
        }
        it.outputs.iter_mut().filter(|o| o.0 == c).for_each(|o| o.0 = wait);
    }
}

/// Rewrites a `reduce_scatter` along 0 of parts along k that are concatenated along 0 into a
/// reduce_scatter along k.
fn scatters(g: &mut Graph, axes: &Axes) {
    for n in 0..g.nodes.len() {
        let NodeOp::Collective(RankCollective::ReduceScatter(how, 0), over) = &g.nodes[n].op else {
            continue;
        };
        let (how, over) = (*how, over.clone());
        let [Operand::Node(c)] = g.nodes[n].args[..] else { continue };
        if g.nodes[c].op != NodeOp::Concat(0) {
            continue;
        }
        let parts: Vec<NodeId> = g.nodes[c].uses().collect();
        let even = parts.windows(2).all(|w| g.nodes[w[0]].sizes == g.nodes[w[1]].sizes);
        if let Some((x, k)) = g.pieces(&parts)
            && even
            && ranks(axes, &over) == parts.len() as i64
        {
            g.nodes[n].op = NodeOp::Collective(RankCollective::ReduceScatter(how, k), over);
            g.nodes[n].args = vec![Operand::Node(x)];
        }
    }
}

/// Returns which nodes are live: those that results depend on, and collectives.
pub fn live(it: &Lifted) -> Vec<bool> {
    let mut out = vec![false; it.graph.nodes.len()];
    for (n, _) in &it.outputs {
        out[*n] = true;
    }
    for n in (0..out.len()).rev() {
        let node = &it.graph.nodes[n];
        let acts = matches!(node.op, NodeOp::Collective(..))
            || node.op == NodeOp::Wait
                && node.uses().any(|u| matches!(it.graph.nodes[u].op, NodeOp::Collective(..)));
        if out[n] || acts {
            out[n] = true;
            for u in node.uses() {
                out[u] = true;
            }
        }
    }
    out
}
