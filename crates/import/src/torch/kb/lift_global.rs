//! Lifting: turns the programs of ranks that agree into one global program with placements
//! (`docs/adr/036-lift.md`).
//!
//! This module checks that the ranks agree, determines the placements that inputs may have, and
//! builds the global graph: the local graph with larger sizes, in which collectives change
//! placements. `find_placements` finds the placements.

use super::axes::{self, Axes};
use super::batches;
use super::consts::Const;
use super::effects;
use super::graph::{Graph, NodeId, NodeOp, Operand, RankCollective};
use super::lift::{Lifted, Mode, counts, live, translate};
use super::moved;
use super::placed_type::placed_type;
use super::placements::{AxisPlacement, Candidates, PlacementProblem, find_placements};
use super::rank_differences::{Differing, completed, differing_programs};
use super::vocabulary;
use super::{DataBeside, Kb, Out, machine, ranks};
use crate::torch::groups::World;
use crate::torch::matching::MatchedCollective;
use crate::torch::model::{Placement, Program};
use kbc_diag::{Diagnostic, Diagnostics};
use std::collections::BTreeMap;

/// How the ranks' arrays are assembled into one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joined {
    /// For each axis of the mesh, slowest first: its size, and the placement of the parts.
    pub by: Vec<(u64, AxisPlacement)>,
}

/// Writes the global program of a world, if its ranks agree up to symmetry.
///
/// # Errors
/// Returns the errors of [`super::write`], and E562 with the reason why there is no global program.
pub fn write(
    world: &World,
    met: &[MatchedCollective],
    name: &str,
    given: &DataBeside,
) -> Result<Kb, Diagnostics> {
    let axes = axes::axes(world, met)?;
    let first = formed(world, met, &axes, name, given, true);
    match &first {
        // Sizes do not always determine which dimensions were merged. The second attempt keeps
        // reshapes as written.
        Err(_) => formed(world, met, &axes, name, given, false).or(first),
        Ok(_) => first,
    }
}

/// Writes the program from graphs whose reshapes are as late as possible (`apart`) or where
/// PyTorch wrote them.
fn formed(
    world: &World,
    met: &[MatchedCollective],
    axes: &Axes,
    name: &str,
    given: &DataBeside,
    apart: bool,
) -> Result<Kb, Diagnostics> {
    let (mut all, mut differing) = alike(world, met, axes, apart)?;
    vocabulary::owned(&mut all, &mut differing, axes);
    let first = all[0].clone();
    let p = &world.programs[0];
    let stored = world.args.first().map_or(&[][..], Vec::as_slice);
    let mut out = Out::new(name, given, axes, &world.programs);
    let does = live(&first);
    let mut found: Vec<Vec<Option<AxisPlacement>>> = vec![];
    let mut joint: BTreeMap<NodeId, Vec<(usize, AxisPlacement)>> = BTreeMap::new();
    for (axis, a) in axes.list.iter().enumerate() {
        let candidates = candidates(world, &out, axes, axis, &first, stored);
        let own = differing.over(&all, a);
        let asked = PlacementProblem {
            g: &first.graph,
            live: &does,
            axis,
            size: a.size,
            candidates: &candidates,
            own: &own,
            results: &[],
            lenient: false,
            written: None,
        };
        let places = find_placements(asked).map_err(|stuck| {
            let node = &first.graph.nodes[stuck.at];
            let what = first.names.get(&stuck.at).map_or_else(String::new, |n| format!("`{n}`: "));
            let mut d = refused(&format!("{what}{}", stuck.why))
                .note(format!("over {}, from the uses of the results in the programs", a.name));
            if !matches!(node.op, NodeOp::Input(_) | NodeOp::Constant(_)) {
                d = d.primary(p.span(node.of), "here").note(p.place(node.of));
            }
            d
        })?;
        let part = |n: &usize| {
            matches!(first.graph.nodes[*n].op, NodeOp::Input(_))
                && places[*n] == Some(AxisPlacement::Partial("sum"))
        };
        if let Some(n) = (0..places.len()).find(part) {
            let name = first.names.get(&n).map_or("", String::as_str);
            let why = format!(
                "each rank of {} has a part of a sum for `{name}`, and that is not an argument",
                a.name
            );
            return Err(refused(&why).note(p.file.clone()).into());
        }
        for n in own.constants {
            if let Some(place) = places[n] {
                joint.entry(n).or_default().push((axis, place));
            }
        }
        found.push(places);
    }
    let constants = together(&all, &differing, axes, &joint)?;
    drop(all);
    let own = Parts { constants, factors: factors(&differing, axes, &found) };
    let it = rebuilt(p, first, &does, axes, &found, own)?;
    let joined = |n: NodeId| Joined {
        by: axes
            .list
            .iter()
            .zip(&found)
            .map(|(a, f)| (a.size, f[n].unwrap_or(AxisPlacement::Whole)))
            .collect(),
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
        machine(axes),
        super::names::word(name)
    );
    Ok(out.kb(text))
}

fn refused(why: &str) -> Diagnostic {
    Diagnostic::error("E562", format!("these programs do not form a global program: {why}"))
        .help("without --lift they become a local program")
}

/// Returns the graphs of all ranks, which have the same operations, and the
/// differences between them.
fn alike(
    world: &World,
    met: &[MatchedCollective],
    axes: &Axes,
    apart: bool,
) -> Result<(Vec<Lifted>, Differing), Diagnostics> {
    let counts = counts(world, met);
    let lifted = |plain: bool| -> Result<Vec<Lifted>, Diagnostics> {
        let mode = Mode { plain, opaque: false, written: false };
        let one = |at| {
            let it = translate(world, at, axes, &counts, mode)?;
            Ok(if apart { batches::delay_reshapes(it) } else { it })
        };
        (0..world.programs.len()).map(one).collect()
    };
    let mut all = lifted(false)?;
    completed(&mut all);
    let first = Differing::of(&all);
    if let Ok(it) = &first
        && it.numbers.is_empty()
    {
        return Ok((all, it.clone()));
    }
    // Constants may be numbers on one rank and data on another.
    let mut plain = lifted(true)?;
    completed(&mut plain);
    match (Differing::of(&plain), first) {
        (Ok(it), _) => Ok((plain, it)),
        (Err(_), Ok(it)) => Ok((all, it)),
        (Err(_), Err(at)) => {
            let d = differing_programs(world, &all, &at);
            let title = refused(&d.title);
            Err(Diagnostic { title: title.title, ..d }
                .help("without --lift they become a local program")
                .into())
        }
    }
}

/// What differs between ranks, assembled into global values.
struct Parts {
    /// Constants.
    constants: BTreeMap<NodeId, Const>,
    /// For products with numbers, the sum of these numbers.
    factors: BTreeMap<NodeId, f64>,
}

/// Returns the sums over ranks of the numbers by which ranks multiply.
fn factors(
    differing: &Differing,
    axes: &Axes,
    found: &[Vec<Option<AxisPlacement>>],
) -> BTreeMap<NodeId, f64> {
    let mut out = BTreeMap::new();
    for (n, by) in &differing.numbers {
        let mut parts: Vec<f64> = by.iter().filter_map(|l| l.first().copied()).collect();
        for (a, f) in axes.list.iter().zip(found).rev() {
            let sum = f[*n] == Some(AxisPlacement::Partial("sum"));
            let one = |of: &[f64]| if sum { of.iter().sum() } else { of[0] };
            parts = parts.chunks(a.size as usize).map(one).collect();
        }
        out.extend(parts.pop().map(|x| (*n, x)));
    }
    out
}

/// Assembles constants of which ranks have parts.
fn together(
    all: &[Lifted],
    differing: &Differing,
    axes: &Axes,
    joint: &BTreeMap<NodeId, Vec<(usize, AxisPlacement)>>,
) -> Result<BTreeMap<NodeId, Const>, Diagnostic> {
    let mut out = BTreeMap::new();
    for (n, by) in joint {
        let Some(ids) = differing.constants.get(n) else { continue };
        let mut parts: Vec<Const> =
            all.iter().zip(ids).map(|(l, k)| l.graph.constants[*k].1.clone()).collect();
        // Fastest axis first.
        for (axis, a) in axes.list.iter().enumerate().rev() {
            let place = by.iter().find(|b| b.0 == axis).map_or(AxisPlacement::Whole, |b| b.1);
            let groups = parts.chunks(a.size as usize).map(|of| match place {
                AxisPlacement::Split(d) => {
                    let mut sizes = of[0].sizes.clone();
                    sizes[d] = of.iter().map(|c| c.sizes[d]).sum();
                    moved::together(of[0].dtype, &sizes, d, of)
                }
                AxisPlacement::Partial(_) => {
                    let all: Vec<&Const> = of.iter().collect();
                    Const::map(of[0].dtype, &of[0].sizes, &all, |x| x.iter().sum())
                }
                AxisPlacement::Whole | AxisPlacement::Within(..) | AxisPlacement::Unknown => {
                    Ok(of[0].clone())
                }
            });
            parts = groups.collect::<Result<_, String>>().map_err(|why| refused(&why))?;
        }
        if let Some(whole) = parts.pop() {
            out.insert(*n, whole);
        }
    }
    Ok(out)
}

/// Returns the placements that inputs may have over an axis. Data that differs between ranks is
/// split. Equal data is whole, or split if its parts are equal.
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
        let (key, _, _) = out.given.stored(at, &world.programs[at], &it.inputs[i], stored)?;
        out.given.prints.get(at)?.get(&key).copied()
    };
    (0..it.inputs.len())
        .map(|i| {
            let rank = world.programs[0].meta(it.inputs[i].value).map_or(0, |m| m.sizes.len());
            let mut all = vec![];
            // Compare each rank with the next one on the axis.
            let next = (0..world.programs.len()).filter(|at| !(*at as u64 / stride + 1).is_multiple_of(size));
            let differ = next.filter_map(|at| Some(print(at, i)? != print(at + stride as usize, i)?));
            if !differ.into_iter().any(|d| d) {
                all.push(AxisPlacement::Whole);
            }
            let whole = !all.is_empty();
            all.extend((0..rank).map(AxisPlacement::Split));
            // This placement leads to a rejection that describes it.
            if !whole && rank < 2 {
                all.push(AxisPlacement::Partial("sum"));
            }
            all
        })
        .collect()
}

/// Returns the sizes of all parts together.
fn sizes(local: &[i64], of: &[(u64, AxisPlacement)]) -> Vec<i64> {
    let mut out = local.to_vec();
    for (n, p) in of {
        if let AxisPlacement::Split(d) = p {
            out[*d] *= *n as i64;
        }
    }
    out
}

/// Builds the graph with global sizes, and maps its nodes to their origins.
fn rebuilt(
    p: &Program,
    it: Lifted,
    does: &[bool],
    axes: &Axes,
    found: &[Vec<Option<AxisPlacement>>],
    mut own: Parts,
) -> Result<(Lifted, BTreeMap<NodeId, NodeId>), Diagnostic> {
    let mut g = Graph { constants: it.graph.constants.clone(), ..Graph::default() };
    let mut now: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    let mut typed: BTreeMap<NodeId, String> = BTreeMap::new();
    for (n, node) in it.graph.nodes.iter().enumerate().filter(|(n, _)| does[*n]) {
        let by: Vec<(u64, AxisPlacement)> = axes
            .list
            .iter()
            .zip(found)
            .map(|(a, f)| (a.size, f[n].unwrap_or(AxisPlacement::Whole)))
            .collect();
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
            // In a global program, the result of a collective is an ordinary value.
            (NodeOp::Wait, [Operand::Node(m)]) => *m,
            // An operation without effect, which was kept because other ranks may have
            // other numbers.
            (NodeOp::Infix('*' | '/'), [Operand::Node(m), Operand::Num(1.0)])
                if !own.factors.contains_key(&n) =>
            {
                *m
            }
            (NodeOp::Reshape, [Operand::Node(m)]) if g.nodes[*m].sizes == global => *m,
            (NodeOp::Infix(_), _) if own.factors.contains_key(&n) => {
                let node = node.uses().next().map_or(Operand::Num(0.0), |m| Operand::Node(now[&m]));
                let by = own.factors.get(&n).copied().unwrap_or(0.0);
                match g.infix('*', node, Operand::Num(by)) {
                    Operand::Node(x) => once(&mut g, x, n, axes, found, &mut typed)?,
                    Operand::Num(_) => continue,
                }
            }
            (NodeOp::Constant(k), _) if own.constants.contains_key(&n) => {
                let name = it.graph.constants[*k].0.clone();
                let Some(c) = own.constants.remove(&n) else { continue };
                g.constants.push((name, c));
                let new = g.push(NodeOp::Constant(g.constants.len() - 1), vec![], node.dtype, global);
                let part = found.iter().any(|f| f[n] == Some(AxisPlacement::Partial("sum")));
                if part { once(&mut g, new, n, axes, found, &mut typed)? } else { new }
            }
            (NodeOp::Numbered(d), _) => g.push(NodeOp::Iota(*d), vec![], node.dtype, global),
            (NodeOp::Owned, _) => g.push(NodeOp::Call("embedding"), args, node.dtype, global),
            // A share of a whole value, whose shares are summed, becomes the whole value on one
            // rank and zeros on the others.
            (NodeOp::Infix(_), _) if shared(&it.graph, n, axes, found).is_some() => {
                let Some(x) = shared(&it.graph, n, axes, found) else { continue };
                once(&mut g, now[&x], n, axes, found, &mut typed)?
            }
            // A slice that differs between ranks is the rank's part of a whole value.
            (NodeOp::Slice(dim, ..), [x]) if global[*dim] == sizes_of(&it.graph, &node.args[0], *dim) => {
                g.push(NodeOp::Placed, vec![*x], node.dtype, global)
            }
            (NodeOp::Collective(c, over), [Operand::Node(x)]) => {
                let Operand::Node(old) = node.args[0] else { continue };
                collective(&mut g, (c, over), (*x, old), axes, found, global)
            }
            (NodeOp::Reduce("mean", dim, keep), [Operand::Node(_)]) if cut(&node.args[0], *dim, found) => {
                // Each rank divides by the length that it has.
                let Operand::Node(old) = node.args[0] else { continue };
                let sum = g.push(NodeOp::Reduce("sum", *dim, *keep), args, node.dtype, global);
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
    let mut placed = typed;
    let ends = it.outputs.iter().map(|o| o.0);
    let begins = (0..it.graph.nodes.len()).filter(|n| matches!(it.graph.nodes[*n].op, NodeOp::Input(_)));
    let moved = (0..it.graph.nodes.len())
        .filter(|n| now.get(n).is_some_and(|new| g.nodes[*new].op == NodeOp::Placed));
    for n in begins.chain(ends).chain(moved).filter(|n| does[*n]) {
        let list: Vec<Placement> = found
            .iter()
            .map(|f| match f[n].unwrap_or(AxisPlacement::Whole) {
                AxisPlacement::Whole | AxisPlacement::Within(..) | AxisPlacement::Unknown => {
                    Placement::Replicated
                }
                AxisPlacement::Split(d) => Placement::Split(d),
                AxisPlacement::Partial(op) => {
                    Placement::Partial(if op == "prod" { "product".into() } else { op.into() })
                }
            })
            .collect();
        let new = &g.nodes[now[&n]];
        let ty = placed_type(new.dtype, &new.sizes, &list, axes)
            .map_err(|why| refused(&why).note(p.file.clone()))?;
        placed.insert(now[&n], ty);
    }
    let names = it.names.iter().filter_map(|(n, name)| Some((*now.get(n)?, name.clone()))).collect();
    let outputs = it.outputs.iter().map(|(n, place)| (now[n], *place)).collect();
    let back = it.outputs.iter().map(|o| o.0).chain((0..it.graph.nodes.len()).filter(|n| does[*n]));
    let from = back.filter_map(|n| Some((n, *now.get(&n)?))).collect();
    Ok((Lifted { graph: g, inputs: it.inputs, outputs, names, placed }, from))
}

/// Builds a value whose sum over ranks is `x`: a tensor with one row per rank, of which the first
/// row is `x` and the others are 0.
fn once(
    g: &mut Graph,
    x: NodeId,
    n: NodeId,
    axes: &Axes,
    found: &[Vec<Option<AxisPlacement>>],
    typed: &mut BTreeMap<NodeId, String>,
) -> Result<NodeId, Diagnostic> {
    let over: Vec<usize> =
        (0..axes.list.len()).filter(|a| found[*a][n] == Some(AxisPlacement::Partial("sum"))).collect();
    let [axis] = over[..] else {
        return Err(refused("a whole value is turned into parts of a sum over several axes"));
    };
    let (dtype, sizes) = (g.nodes[x].dtype, g.nodes[x].sizes.clone());
    let mut line = vec![1; sizes.len() + 1];
    line[0] = axes.list[axis].size as i64;
    let rows = g.push(NodeOp::Iota(0), vec![], dtype, line.clone());
    let split = |a: usize| if a == axis { Placement::Split(0) } else { Placement::Replicated };
    let places: Vec<Placement> = (0..axes.list.len()).map(split).collect();
    let rank = g.push(NodeOp::Placed, vec![Operand::Node(rows)], dtype, line.clone());
    typed.insert(rank, placed_type(dtype, &line, &places, axes).map_err(|why| refused(&why))?);
    let args = vec![Operand::Node(rank), Operand::Num(0.0), Operand::Node(x), Operand::Num(0.0)];
    let all = [&line[..1], &sizes[..]].concat();
    let one = g.push(NodeOp::Select("=="), args, dtype, all);
    Ok(g.push(NodeOp::Reduce("sum", 0, false), vec![Operand::Node(one)], dtype, sizes))
}

/// Returns the whole value that a node divides by the number of ranks, if the result is a
/// part of a sum.
fn shared(g: &Graph, n: NodeId, axes: &Axes, found: &[Vec<Option<AxisPlacement>>]) -> Option<NodeId> {
    axes.list.iter().zip(found).find_map(|(a, f)| {
        let x = effects::share_of(&g.nodes[n], a.size)?;
        (f[n] == Some(AxisPlacement::Partial("sum")) && f[x] == Some(AxisPlacement::Whole)).then_some(x)
    })
}

fn sizes_of(g: &Graph, of: &Operand, dim: usize) -> i64 {
    match of {
        Operand::Node(n) => g.nodes[*n].sizes[dim],
        Operand::Num(_) => 0,
    }
}

/// Translates a collective into the global program. An average becomes a sum and a division, and a
/// whole value stays whole.
fn collective(
    g: &mut Graph,
    (c, over): (&RankCollective, &std::ops::Range<usize>),
    (x, old): (NodeId, NodeId),
    axes: &Axes,
    found: &[Vec<Option<AxisPlacement>>],
    global: Vec<i64>,
) -> NodeId {
    let dtype = g.nodes[x].dtype;
    let ranks: u64 = axes.list[over.clone()].iter().map(|a| a.size).product();
    let whole = over.clone().all(|axis| found[axis][old] == Some(AxisPlacement::Whole));
    let divided = |g: &mut Graph, n: NodeId, op: char| match g.infix(
        op,
        Operand::Node(n),
        Operand::Num(ranks as f64),
    ) {
        Operand::Node(m) => m,
        Operand::Num(_) => n,
    };
    match c {
        RankCollective::AllReduce("avg" | "max" | "min") | RankCollective::Broadcast(_) if whole => x,
        RankCollective::AllReduce("sum") if whole => divided(g, x, '*'),
        RankCollective::AllReduce("avg") => {
            let sum = NodeOp::Collective(RankCollective::AllReduce("sum"), over.clone());
            let n = g.push(sum, vec![Operand::Node(x)], dtype, global);
            divided(g, n, '/')
        }
        RankCollective::ReduceScatter("avg", d) => {
            let sum = NodeOp::Collective(RankCollective::ReduceScatter("sum", *d), over.clone());
            let n = g.push(sum, vec![Operand::Node(x)], dtype, global);
            divided(g, n, '/')
        }
        _ => g.push(NodeOp::Collective(c.clone(), over.clone()), vec![Operand::Node(x)], dtype, global),
    }
}

/// Checks whether an operand is split along a dimension.
fn cut(of: &Operand, dim: usize, found: &[Vec<Option<AxisPlacement>>]) -> bool {
    match of {
        Operand::Node(n) => found.iter().any(|f| f[*n] == Some(AxisPlacement::Split(dim))),
        Operand::Num(_) => false,
    }
}
