//! Fusion: several small collectives become one.
//!
//! Small collectives pay latency and messages each. Collectives over one axis that do the same and
//! do not depend on each other are joined: their operands are flattened and put one behind another,
//! one collective runs, and its result is cut into theirs.
//!
//! **Which ones.** Collectives of one kind, axis, combiner, root, element type, algorithm, options
//! and requirement on the order of additions, whose operands are placed alike. An all_reduce,
//! reduce or broadcast is joined if its operand is whole, or if only its first dimension is split,
//! into equal parts. A reduce_scatter or all_gather is joined if it splits or gathers the first
//! dimension into equal parts, and nothing else is split: the values are then matrices with one row
//! per rank, side by side. Other collectives stay as they are.
//!
//! **How many.** `fuse: bytes` in a use, `--fuse` or the option `bytes` states the largest sum of
//! bytes per rank: of the operand or of the result, whichever is larger. A use comes before the
//! other two, and `fuse: 1` keeps a collective alone. In the order of the program, a group takes
//! collectives until one of its kind does not fit or depends on one that it has. Without a limit
//! nothing is joined.
//!
//! **Order of additions.** The place of an element in the vector changes, and with it the order in
//! which an algorithm may add it. A collective that asks for `order: fixed` keeps its bits, because
//! `select` takes an algorithm whose order does not depend on places and sizes.
//!
//! Programs with host statements and local programs stay as they are; a use in them that states
//! `fuse` is an error (E033).
//!
//! ```kir,before
//! kir 1
//! module @sums
//! machine "ring(4) { link: 50 GB/s, 500 ns }"
//! mesh tp 4
//! props typed placed
//!
//! graph @sums
//! input @w : f32[6, 4] partial(sum@tp)
//! input @b : f32[4] partial(sum@tp)
//! result : f32[6, 4]
//! result : f32[4]
//!
//! %w = input @w : f32[6, 4] partial(sum@tp)
//! %b = input @b : f32[4] partial(sum@tp)
//! %u = all_reduce sum %w over tp using ring with (fuse: 1024) : f32[6, 4]
//! %v = all_reduce sum %b over tp using ring with (fuse: 1024) : f32[4]
//! %p = output 0 %u : f32[6, 4]
//! %q = output 1 %v : f32[4]
//! ```
//!
//! ```kir,after
//! kir 1
//! module @sums
//! machine ring(4) { link: 50 GB/s, 500 ns }
//! mesh tp 4
//! props typed placed
//!
//! graph @sums
//! input @w : f32[6, 4] partial(sum@tp)
//! input @b : f32[4] partial(sum@tp)
//! result : f32[6, 4]
//! result : f32[4]
//!
//! %w = input @w : f32[6, 4] partial(sum@tp)
//! %b = input @b : f32[4] partial(sum@tp)
//! %w_flat = reshape %w to [24] : f32[24] partial(sum@tp)
//! %u_fused_in = concat %w_flat, %b dim 0 : f32[28] partial(sum@tp)
//! %u_fused = all_reduce sum %u_fused_in over tp using ring : f32[28]
//! %u_flat = slice %u_fused dim 0 from 0 to 24 : f32[24]
//! %u = reshape %u_flat to [6, 4] : f32[6, 4]
//! %v = slice %u_fused dim 0 from 24 to 28 : f32[4]
//! %p = output 0 %u : f32[6, 4]
//! %q = output 1 %v : f32[4]
//! ```
//!
//! Not done here: the algorithm of the joined collective, which `select` chooses for its size, and
//! running collectives beside each other (`overlap`).

use crate::expand::refused;
use crate::fresh::FreshNames;
use crate::pass::{Changed, OptionKind, Options, Pass, PassCx, PassInfo, PassOption, graph_of};
use kbc_diag::Diagnostics;
use kbc_ir::graph::{Collective, Graph, GraphOp, Movement, OpId, OpKind, UsingArg};
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::{Cut, CutRule, Dim, Mesh, TensorType};
use kbc_ir::{Body, Module, Props};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The record of `fuse`.
pub static INFO: PassInfo = PassInfo {
    name: "fuse",
    summary: "small collectives that do the same and do not depend on each other become one",
    requires: Props::TYPED.with(Props::PLACED),
    gives: Props::NONE,
    breaks: Props::NONE,
    options: &[PassOption {
        name: "bytes",
        summary: "the largest sum of bytes per rank, where the program and the command line state none; 0 joins nothing",
        kind: OptionKind::Count { least: 0, most: u64::MAX },
        default: "0",
    }],
};

/// The name of the option of a use.
const FUSE: &str = "fuse";

/// The largest number of collectives in one: the number of operands of a concatenation.
const MOST: usize = 255;

/// The pass `fuse`.
pub struct Fuse {
    options: Options,
}

impl Fuse {
    /// Returns the pass with options of [`INFO`].
    pub fn new(options: &Options) -> Self {
        Fuse { options: options.clone() }
    }
}

impl Pass for Fuse {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn options(&self) -> Options {
        self.options.clone()
    }

    fn run(&self, module: &mut Module, cx: &PassCx<'_>) -> Result<Changed, Diagnostics> {
        // A schedule has no collectives any more, and local programs say themselves what is sent.
        if !matches!(module.body, Body::Graph(_)) {
            return Ok(Changed::No);
        }
        let limit = cx.fuse.unwrap_or_else(|| self.options.count("bytes").unwrap_or(0));
        let mesh = module.mesh.clone();
        let graph = graph_of(module, &INFO)?;
        let host = graph.order().iter().any(|id| matches!(graph.op(*id).kind, OpKind::Host(_)));
        if host && let Some(id) = graph.order().iter().find(|id| stated(&graph.op(**id).kind)) {
            let why = "collectives in a program with host statements stay where the host has them";
            return Err(graph.with_call_sites(*id, refused(FUSE, graph.op(*id).span, why)).into());
        }
        let mut parts: BTreeMap<OpId, Part> = BTreeMap::new();
        let mut changed = false;
        for id in graph.order().to_vec() {
            let part = if host { None } else { Part::of(graph, &mesh, id, limit) };
            changed |= without_option(graph, id);
            parts.extend(part.map(|part| (id, part)));
        }
        let all: Vec<OpId> = graph.order().iter().copied().filter(|id| parts.contains_key(id)).collect();
        let mut joined = BTreeSet::new();
        for first in all {
            if joined.contains(&first) {
                continue;
            }
            let group = group(graph, &parts, &joined, first);
            joined.extend(&group);
            if group.len() > 1 {
                join(graph, &group, &parts);
                changed = true;
            }
        }
        Ok(changed.into())
    }
}

/// Checks whether a use states the option.
fn stated(kind: &OpKind) -> bool {
    match kind {
        OpKind::Collective(Collective { using: Some(u), .. }) => u.options.iter().any(|(n, _)| *n == FUSE),
        _ => false,
    }
}

/// Removes the option from a use. Returns whether it was there.
fn without_option(graph: &mut Graph, id: OpId) -> bool {
    let there = stated(&graph.op(id).kind);
    if there && let OpKind::Collective(Collective { using: Some(u), .. }) = &mut graph.op_mut(id).kind {
        u.options.retain(|(n, _)| *n != FUSE);
    }
    there
}

/// A collective that can be joined with others.
struct Part {
    /// Everything in which the collectives of a group agree.
    alike: String,
    /// The largest sum of bytes per rank.
    limit: u64,
    /// Bytes per rank.
    bytes: u64,
    /// The flat types of the operand and of the result.
    flat: [TensorType; 2],
}

impl Part {
    /// Returns a collective as a part, if it can be joined with others.
    fn of(graph: &Graph, mesh: &Mesh, id: OpId, limit: u64) -> Option<Part> {
        let op = graph.op(id);
        let OpKind::Collective(c) = &op.kind else { return None };
        let options = c.using.iter().flat_map(|u| &u.options);
        let count = |name: &str| {
            options.clone().find(|(n, _)| *n == name).and_then(|(_, v)| match v {
                UsingArg::Int(k) => u64::try_from(*k).ok(),
                UsingArg::Name(_) => None,
            })
        };
        let limit = count(FUSE).unwrap_or(limit);
        // A collective that is cut together with a matmul stays with it.
        if limit == 0 || c.counts.is_some() || !c.joined.is_empty() || count("overlap").is_some() {
            return None;
        }
        let from = graph.operands(id).first().and_then(|o| graph.op(*o).ty.as_ref())?;
        let to = op.ty.as_ref()?;
        if from.elements() == 0 || from.dtype != to.dtype {
            return None;
        }
        let flat = flat(c, mesh, from, to)?;
        let first = vec![0; mesh.axes.len()];
        let bytes = |t: &TensorType| {
            let all = TensorType { only: None, ..t.clone() };
            all.local_box(mesh, &first).iter().fold(t.dtype.bytes(), |n, (lo, hi)| n.saturating_mul(hi - lo))
        };
        let bytes = bytes(from).max(bytes(to));
        // What is left of the types once their columns are taken away.
        let placed = |t: &TensorType| {
            let mut t = t.clone();
            t.dims.pop();
            format!("{:?} {} {:?} {:?}", t.dtype, t.dims.len(), t, t.only)
        };
        let using = c.using.as_ref().map(|u| {
            let options: Vec<_> = u.options.iter().filter(|(n, _)| *n != FUSE).collect();
            format!("{:?} {:?} {options:?} {:?}", u.alg, u.args, u.span.file)
        });
        let alike = format!(
            "{:?} {:?} {:?} {:?} {:?} {using:?} {:?} {limit} {} | {}",
            c.kind,
            c.red,
            c.axis,
            c.root,
            c.fixed_order,
            op.span.file,
            placed(&flat[0]),
            placed(&flat[1])
        );
        (bytes <= limit).then_some(Part { alike, limit, bytes, flat })
    }
}

/// Returns the flat types of the operand and of the result of a collective: vectors, or matrices
/// whose rows are the parts of ranks. Returns `None` if a rank's part is not one row.
fn flat(c: &Collective, mesh: &Mesh, from: &TensorType, to: &TensorType) -> Option<[TensorType; 2]> {
    let first = |t: &TensorType| t.dims.first().and_then(|d| d.cut.clone());
    let inner = |t: &TensorType| t.dims.iter().skip(1).all(|d| d.cut.is_none());
    if !inner(from) || !inner(to) {
        return None;
    }
    let size = from.dims.first().map_or(1, |d| d.size);
    // The number of equal parts of the first dimension.
    let rows = |cut: &Cut| {
        let sizes: Option<Vec<u64>> = cut.axes.iter().map(|a| Some(mesh.axis(a)?.size)).collect();
        let rows: u64 = sizes?.into_iter().product();
        (cut.rule == CutRule::Even && size.is_multiple_of(rows)).then_some(rows)
    };
    let over_axis = |cut: &Option<Cut>| cut.as_ref().is_some_and(|cut| cut.axes == [c.axis.clone()]);
    let rows = match (c.kind.movement()?, first(from), first(to)) {
        (Movement::PartialToWhole | Movement::PartialToRoot | Movement::RootToWhole, a, b) if a == b => {
            match a {
                Some(cut) => Some(rows(&cut)?),
                None => None,
            }
        }
        (Movement::SplitToWhole, a, None) if over_axis(&a) && c.dim == Some(0) => Some(rows(&a?)?),
        (Movement::PartialToSplit, None, b) if over_axis(&b) && c.dim == Some(0) => Some(rows(&b?)?),
        _ => return None,
    };
    let of = |t: &TensorType| {
        let n = t.elements();
        let dims = match rows {
            Some(rows) => vec![Dim { size: rows, cut: first(t) }, Dim { size: n / rows, cut: None }],
            None => vec![Dim { size: n, cut: None }],
        };
        TensorType { dims, ..t.clone() }
    };
    Some([of(from), of(to)])
}

/// Returns the collectives that are joined with the first one, in the order of the program.
fn group(graph: &Graph, parts: &BTreeMap<OpId, Part>, joined: &BTreeSet<OpId>, first: OpId) -> Vec<OpId> {
    let one = &parts[&first];
    let mut sum = one.bytes;
    let mut out = vec![first];
    // Everything that depends on a collective of the group.
    let mut below = BTreeSet::from([first]);
    for &id in &graph.order()[graph.position(first) + 1..] {
        let depends = graph.operands(id).iter().any(|o| below.contains(o));
        if depends {
            below.insert(id);
        }
        let Some(part) = parts.get(&id).filter(|p| p.alike == one.alike && !joined.contains(&id)) else {
            continue;
        };
        sum = sum.saturating_add(part.bytes);
        if depends || sum > one.limit || out.len() == MOST {
            break;
        }
        out.push(id);
        below.insert(id);
    }
    out
}

/// Replaces collectives by one.
fn join(graph: &mut Graph, group: &[OpId], parts: &BTreeMap<OpId, Part>) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let mut fresh = FreshNames::of(graph);
    // The new values keep the names that the users of the old ones see.
    group.iter().for_each(|id| fresh.free(&graph.op(*id).name));
    let outer = graph.enter(graph.within(*first));
    let template = graph.op(*first).clone();
    let mut push = |graph: &mut Graph, kind: OpKind, hint: &str, ty: TensorType, operands: &[OpId]| {
        let (at, name) = (graph.position(*last), fresh.name(hint));
        graph.insert(at, GraphOp { kind, name, ty: Some(ty), want: None, span: template.span }, operands)
    };
    let mut flats = vec![];
    for id in group {
        let [source] = graph.operands(*id)[..] else { return };
        let (name, ty) = (graph.op(source).name.clone(), parts[id].flat[0].clone());
        flats.push(match graph.op(source).ty.as_ref() == Some(&ty) {
            true => source,
            false => {
                let kind = OpKind::Shape(ShapeOp::Reshape(ty.sizes()));
                push(graph, kind, &format!("{name}_flat"), ty, &[source])
            }
        });
    }
    // The last dimension of the flat types is the one that grows.
    let columns = |ty: &TensorType| ty.dims.last().map_or(0, |d| d.size);
    let all: u64 = group.iter().map(|id| columns(&parts[id].flat[0])).sum();
    let [from, to] = [0, 1].map(|side| {
        let mut ty = parts[first].flat[side].clone();
        ty.dims.iter_mut().next_back().into_iter().for_each(|d| d.size = all);
        ty
    });
    let dim = from.dims.len().saturating_sub(1);
    let hint = format!("{}_fused", template.name);
    let packed = push(graph, OpKind::Shape(ShapeOp::Concat { dim }), &format!("{hint}_in"), from, &flats);
    let sum = push(graph, template.kind.clone(), &hint, to, &[packed]);
    let mut at = 0;
    for id in group {
        let (ty, size) = (parts[id].flat[1].clone(), columns(&parts[id].flat[1]));
        let name = graph.op(*id).name.clone();
        let own = graph.op(*id).ty.clone().filter(|own| *own != ty);
        let slice = OpKind::Shape(ShapeOp::Slice { dim, from: at, to: at + size });
        at += size;
        let hint = if own.is_some() { format!("{name}_flat") } else { name.to_string() };
        let mut new = push(graph, slice, &hint, ty, &[sum]);
        if let Some(own) = own {
            new = push(graph, OpKind::Shape(ShapeOp::Reshape(own.sizes())), &name, own, &[new]);
        }
        for (user, index) in graph.users(*id) {
            graph.set_operand(user, index, new);
        }
    }
    graph.enter(outer);
    group.iter().for_each(|id| graph.remove(*id));
    graph.reorder(in_order(graph));
}

/// Returns the operations in an order of their dependences that changes as little as possible.
fn in_order(graph: &Graph) -> Vec<OpId> {
    let mut missing: BTreeMap<OpId, usize> =
        graph.order().iter().map(|id| (*id, graph.operands(*id).len())).collect();
    let ready = graph.order().iter().filter(|id| missing[*id] == 0);
    let mut ready: BinaryHeap<Reverse<(usize, OpId)>> =
        ready.map(|id| Reverse((graph.position(*id), *id))).collect();
    let mut out = vec![];
    while let Some(Reverse((_, id))) = ready.pop() {
        out.push(id);
        for (user, _) in graph.users(id) {
            if let Some(left) = missing.get_mut(&user) {
                *left -= 1;
                if *left == 0 {
                    ready.push(Reverse((graph.position(user), user)));
                }
            }
        }
    }
    out
}
