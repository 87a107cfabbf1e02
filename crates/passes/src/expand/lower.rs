//! Lowering of a graph to a schedule: buffers for values, regions for local operations, and one
//! region for each collective.
//!
//! This module turns a tensor into the line on which a collective works. Packing, unpacking and the
//! copies around a region are ordinary operations, which are visible in the schedule and timed.

use super::emit::{Arg, Request, collective};
use super::sizes::{joined_axis, largest, local_dims, part_start, place};
use super::streams;
use crate::fresh::FreshNames;
use crate::order::choose::OneSlotCache;
use crate::packed;
use crate::pass::PassCx;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_ir::fill::FillContent;
use kbc_ir::graph::{CollKind, Collective, Graph, GraphOp, Holding, OpId, OpKind, UsingArg};
use kbc_ir::schedule::*;
use kbc_ir::types::{Axis, CutRule, Dim, MemKind, Mesh, ReduceOp, TensorType};
use kbc_rounds::library::Library;
use std::collections::BTreeMap;

/// Lowers a placed graph whose collectives name their algorithms.
pub(super) fn lower(
    name: &Name,
    graph: &Graph,
    mesh: &Mesh,
    cx: &PassCx<'_>,
) -> Result<Schedule, Diagnostics> {
    let mut l = Lower {
        cx,
        lib: cx.library,
        graph,
        out: Schedule::new(name.clone(), mesh.clone()),
        values: BTreeMap::new(),
        pending: vec![],
        stream: MAIN.into(),
        ends: ends(graph),
        names: FreshNames::default(),
        known: OneSlotCache::default(),
        scope: Scope::default(),
        parts: vec![],
        matched: vec![],
        host: HostBody::of(graph),
    };
    let mut errors = Diagnostics::new();
    for &id in graph.order() {
        if let Err(d) = l.op(id) {
            errors.list.extend(d.into_iter().map(|d| graph.with_call_sites(id, d)));
        }
    }
    l.flush();
    streams::order(&mut l.out);
    l.host_ends();
    if errors.has_errors() { Err(errors) } else { Ok(l.out) }
}

/// Returns the local operations whose value is used only as a result. They write the result's
/// buffer directly, and nothing is copied.
pub(crate) fn ends(graph: &Graph) -> BTreeMap<OpId, OpId> {
    let mut uses: BTreeMap<OpId, Vec<OpId>> = BTreeMap::new();
    for &id in graph.order() {
        for o in graph.operands(id) {
            uses.entry(o).or_default().push(id);
        }
    }
    let local = |id: OpId| {
        use OpKind::{Cast, Embedding, Fill, Grouped, Map, Matmul, ReduceDim, Tiles};
        let op = &graph.op(id).kind;
        matches!(
            op,
            Matmul { .. } | Map(_) | Tiles(_) | ReduceDim { .. } | Embedding | Grouped(_) | Fill(_) | Cast(_)
        )
    };
    let one = |(id, users): (OpId, Vec<OpId>)| match users[..] {
        [end] if local(id) && matches!(graph.op(end).kind, OpKind::Output(_)) => Some((id, end)),
        _ => None,
    };
    uses.into_iter().filter_map(one).collect()
}

/// The scope of a graph whose values do not exist on all ranks.
#[derive(Clone, Default)]
pub(super) struct Scope {
    /// The ranks that have the values, as a condition in mesh coordinates. None for all ranks.
    pub(super) ranks: Option<Expr>,
    /// First dimension of the stacks of which inputs and outputs are rows.
    pub(super) rows: Option<Dim>,
    /// Numbers of inputs and outputs before the graph's own.
    pub(super) first: (u32, u32),
}

/// Local operations of a part that are in no region yet.
pub(super) struct PartOps {
    pub(super) name: Name,
    pub(super) ranks: Expr,
    pub(super) ops: Vec<(LocalOp, Option<Expr>, Span)>,
}

/// The host's program under construction.
#[derive(Default)]
pub(super) struct HostBody {
    pub(super) body: Vec<SStmt>,
    /// Number of regions that have been launched.
    pub(super) launched: usize,
    pub(super) span: Span,
}

impl HostBody {
    /// Returns an empty program, or none for a graph without host statements.
    pub(super) fn of(graph: &Graph) -> Option<HostBody> {
        let acts = graph.order().iter().map(|id| graph.op(*id));
        let span = acts.filter(|op| matches!(op.kind, OpKind::Host(_))).map(|op| op.span).next()?;
        Some(HostBody { span, ..HostBody::default() })
    }
}

pub(super) struct Lower<'a> {
    pub(super) cx: &'a PassCx<'a>,
    pub(super) lib: &'a Library,
    pub(super) graph: &'a Graph,
    pub(super) scope: Scope,
    /// In a local program with several parts: the pending operations of each.
    pub(super) parts: Vec<PartOps>,
    /// The parts that take part in the current collective, each with its operand.
    pub(super) matched: Vec<(usize, BufferId)>,
    pub(super) out: Schedule,
    pub(super) values: BTreeMap<OpId, BufferId>,
    /// Local operations that are in no region yet, with a condition if only some ranks perform
    /// them.
    pub(super) pending: Vec<(LocalOp, Option<Expr>, Span)>,
    /// The stream of the pending operations.
    pub(super) stream: Name,
    /// Local operations that write a result's buffer, each with the result.
    pub(super) ends: BTreeMap<OpId, OpId>,
    pub(super) names: FreshNames,
    /// Results about algorithms that see other functions than those of the context.
    pub(super) known: OneSlotCache,
    /// The host's program so far, if there are host statements.
    pub(super) host: Option<HostBody>,
}

/// Returns local operations as statements.
pub(super) fn statements(ops: &[(LocalOp, Option<Expr>, Span)]) -> Vec<SStmt> {
    let one = |(op, cond, span): &(LocalOp, Option<Expr>, Span)| {
        let st = SStmt::Op(SOp::Local(op.clone()), *span);
        match cond {
            Some(c) => SStmt::If { cond: c.clone(), then: vec![st], other: vec![] },
            None => st,
        }
    };
    ops.iter().map(one).collect()
}

impl Lower<'_> {
    pub(super) fn name(&mut self, hint: &str) -> Name {
        self.names.name(hint)
    }

    pub(super) fn buffer(
        &mut self,
        hint: &str,
        ty: &TensorType,
        dims: Vec<Expr>,
        role: BufferRole,
        span: Span,
    ) -> BufferId {
        let name = self.name(hint);
        let global = (role != BufferRole::Temp).then(|| {
            let mut ty = ty.clone();
            self.scope.rows.iter().for_each(|rows| ty.dims.insert(0, rows.clone()));
            ty
        });
        self.out.buffers.push(Buffer {
            name,
            dtype: ty.dtype,
            dims,
            memory: MemKind::Hbm,
            zero: false,
            role,
            global,
            span,
        });
        BufferId(self.out.buffers.len() as u32 - 1)
    }

    pub(super) fn value(&mut self, hint: &str, ty: &TensorType, span: Span) -> BufferId {
        let dims = self.dims(ty);
        self.buffer(hint, ty, dims, BufferRole::Temp, span)
    }

    /// Adds the buffer of a result.
    fn output(&mut self, number: usize, op: &GraphOp, ty: &TensorType) -> BufferId {
        let dims = self.dims(ty);
        let role = BufferRole::Output(self.scope.first.1 + number as u32);
        self.buffer(&op.name, ty, dims, role, op.span)
    }

    /// Returns the sizes of a value on a rank. They are 0 on ranks that do not have it.
    pub(super) fn dims(&self, ty: &TensorType) -> Vec<Expr> {
        let mut dims = local_dims(ty, &self.out.mesh);
        if let Some(ranks) = &self.scope.ranks {
            // A single element counts as a row of length one, or zero where the rank does not have
            // it.
            let first = if dims.is_empty() { Expr::Int(1) } else { dims.remove(0) };
            dims.insert(0, Expr::select(ranks.clone(), first, Expr::Int(0)));
        }
        dims
    }

    pub(super) fn ty(&self, id: OpId) -> Result<TensorType, Diagnostics> {
        let op = self.graph.op(id);
        op.ty.clone().ok_or_else(|| {
            Diagnostic::error("E901", format!("%{} has no type yet", op.name))
                .primary(op.span, "run `infer` first")
                .into()
        })
    }

    pub(super) fn of(&self, id: OpId) -> Result<BufferId, Diagnostics> {
        // An operand without a buffer comes from an operation that failed and has been reported.
        self.values.get(&id).copied().ok_or_else(Diagnostics::new)
    }

    fn local(&mut self, op: LocalOp, span: Span) {
        self.pending.push((op, None, span));
    }

    /// Puts the pending local operations into a region.
    pub(super) fn flush(&mut self) {
        if !self.parts.is_empty() {
            return self.flush_parts();
        }
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        let body = statements(&pending);
        let span = pending.iter().fold(Span::NONE, |s, p| s.to(p.2));
        let name = self.name("local");
        let after = self.out.regions.len().checked_sub(1).map(|i| RegionId(i as u32)).into_iter().collect();
        let mut region = Region::local(&self.out.mesh, name, body, after, span);
        region.roles[0].streams[0].name = self.stream.clone();
        self.out.regions.push(region);
    }

    /// Runs `f` with its operations on this stream.
    pub(super) fn on_stream<T>(&mut self, stream: Option<&Name>, f: impl FnOnce(&mut Self) -> T) -> T {
        let Some(stream) = stream else { return f(self) };
        self.flush();
        let outer = std::mem::replace(&mut self.stream, stream.clone());
        let made = f(self);
        self.flush();
        self.stream = outer;
        made
    }

    pub(super) fn op(&mut self, id: OpId) -> Result<(), Diagnostics> {
        let op: GraphOp = self.graph.op(id).clone();
        let operands = self.graph.operands(id);
        if let OpKind::Output(i) = &op.kind {
            let src = self.of(operands[0])?;
            if self.ends.contains_key(&operands[0]) {
                return Ok(());
            }
            let ty = self.ty(operands[0])?;
            let dst = self.output(*i, &op, &ty);
            self.local(LocalOp::Copy { dst, src }, op.span);
            return Ok(());
        }
        let ty = self.ty(id)?;
        let buffer = match &op.kind {
            OpKind::Input(i) => {
                let dims = self.dims(&ty);
                let role = BufferRole::Input(self.scope.first.0 + *i as u32);
                self.buffer(&op.name, &ty, dims, role, op.span)
            }
            OpKind::Demand | OpKind::PartialDemand(_) | OpKind::Wait => self.of(operands[0])?,
            OpKind::Host(h) => self.host(id, *h, &op, &operands)?,
            OpKind::Collective(c) => {
                self.on_stream(c.stream.as_ref(), |l| l.collective(&op, c, operands[0], &ty))?
            }
            OpKind::Output(_) => return Ok(()),
            kind => {
                let args = operands.iter().map(|o| self.of(*o)).collect::<Result<Vec<_>, _>>()?;
                let end = self.ends.get(&id).map(|end| self.graph.op(*end).clone());
                let dst = match &end {
                    Some(end) if let OpKind::Output(i) = end.kind => self.output(i, end, &ty),
                    _ => self.value(&op.name, &ty, op.span),
                };
                let local = match kind {
                    OpKind::Matmul { .. } => LocalOp::Matmul { dst, a: args[0], b: args[1] },
                    OpKind::Map(func) => LocalOp::Compute { func: func.clone(), dst, args },
                    OpKind::Tiles(kernel) => LocalOp::Tiles { kernel: kernel.clone(), dst, args },
                    OpKind::ReduceDim { op, mean, dim, .. } => {
                        let from = self.ty(operands[0])?;
                        let mean = mean.then(|| from.dims[*dim].size);
                        LocalOp::ReduceDim { op: *op, mean, dst, src: args[0], dim: *dim as u32 }
                    }
                    OpKind::Embedding => {
                        let first = part_start(&self.ty(operands[0])?.dims[0], &self.out.mesh);
                        LocalOp::Embedding { dst, table: args[0], ids: args[1], first }
                    }
                    OpKind::Grouped(runs) => {
                        let types = [self.ty(operands[0])?, self.ty(operands[1])?];
                        let (places, at) = self.starts(&types);
                        LocalOp::Grouped { dst, x: args[0], w: args[1], runs: runs.clone(), places, at }
                    }
                    OpKind::Fill(f) => LocalOp::Fill { dst, with: self.filling(f.with, &ty) },
                    OpKind::Shape(s) => {
                        let types = operands.iter().map(|o| self.ty(*o)).collect::<Result<Vec<_>, _>>()?;
                        let args: Vec<_> = args.into_iter().zip(types).collect();
                        self.shape(s, (dst, &ty), &args, op.span)
                    }
                    _ => LocalOp::Cast { dst, src: args[0] },
                };
                self.local(local, op.span);
                dst
            }
        };
        self.values.insert(id, buffer);
        Ok(())
    }

    /// Returns where the parts of two values begin along dimension 0, for each position on the axes
    /// that cut it, and the position of a rank.
    fn starts(&self, types: &[TensorType; 2]) -> (Vec<(u64, u64)>, Expr) {
        let mesh = &self.out.mesh;
        let cuts = |a: &Axis| types.iter().any(|t| t.dims[0].cut.iter().any(|c| c.axes.contains(&a.name)));
        let axes: Vec<Axis> = mesh.axes.iter().filter(|a| cuts(a)).cloned().collect();
        let first = |t: &TensorType, at: &[i64]| t.local_box(mesh, at).first().map_or(0, |b| b.0);
        let places = (0..axes.iter().map(|a| a.size).product::<u64>()).map(|i| {
            let mut rest = i;
            let mut at = vec![0; mesh.axes.len()];
            for (d, a) in mesh.axes.iter().enumerate().rev().filter(|(_, a)| cuts(a)) {
                at[d] = (rest % a.size) as i64;
                rest /= a.size;
            }
            (first(&types[0], &at), first(&types[1], &at))
        });
        (places.collect(), place(&axes))
    }

    /// Returns the filling of a part of a value.
    fn filling(&self, with: FillContent, ty: &TensorType) -> Filling {
        match with {
            FillContent::Number(v) => Filling::Number(v),
            FillContent::Place(d) => {
                Filling::Place { dim: d as u32, first: part_start(&ty.dims[d], &self.out.mesh) }
            }
        }
    }

    /// Returns the number of elements of a buffer's dimensions other than `skip`, as an expression.
    pub(super) fn unit(&self, b: BufferId, skip: Option<usize>) -> Expr {
        let dims = &self.out.buffer(b).dims;
        dims.iter()
            .enumerate()
            .filter(|(i, _)| Some(*i) != skip)
            .fold(Expr::Int(1), |n, (_, d)| n * d.clone())
    }

    fn collective(
        &mut self,
        op: &GraphOp,
        c: &Collective,
        from: OpId,
        ty: &TensorType,
    ) -> Result<BufferId, Diagnostics> {
        let src = self.of(from)?;
        let from_ty = self.ty(from)?;
        self.exchange(op, c, (src, &from_ty), ty)
    }

    /// Returns the axes of a collective as one axis, and this rank's position in their group.
    pub(super) fn group(&self, op: &GraphOp, c: &Collective) -> Result<(Axis, Expr), Diagnostics> {
        let axes: Option<Vec<Axis>> = c.axes().iter().map(|a| self.out.mesh.axis(a).cloned()).collect();
        let Some(axes) = axes else {
            return Err(Diagnostic::error("E201", format!("the mesh has no axis `{}`", c.axis))
                .primary(op.span, "here")
                .into());
        };
        Ok((joined_axis(&axes), place(&axes)))
    }

    /// Lowers a collective: its region, and the operations before and after it. Returns the buffer
    /// of its result.
    pub(super) fn exchange(
        &mut self,
        op: &GraphOp,
        c: &Collective,
        (src, from_ty): (BufferId, &TensorType),
        ty: &TensorType,
    ) -> Result<BufferId, Diagnostics> {
        let (axis, me) = self.group(op, c)?;
        let p = axis.size;
        let rule_of =
            |t: &TensorType, d: usize| t.dims[d].cut.as_ref().map_or(CutRule::Even, |c| c.rule.clone());
        let dim = c.dim.unwrap_or(0);
        let span = op.span;
        let root = c.root.unwrap_or(0);
        let at_root = me.clone().equals(Expr::Int(root as i64));
        if c.kind == CollKind::Slice {
            let dst = self.value(&op.name, ty, span);
            let rule = rule_of(ty, dim);
            self.local(LocalOp::Slice { dst, src, dim: dim as u32, index: me, of: p, rule }, span);
            return Ok(dst);
        }
        // The line: the data on which the collective works in place. If the value is held by one
        // coordinate of another axis, the other groups work on empty lines.
        let full = |t: &TensorType| {
            let mut t = t.clone();
            t.partial = None;
            t.only = t.only.filter(|o| o.1 != axis.name);
            t
        };
        match c.kind {
            CollKind::ByContract => return self.own(op, c, &axis, (src, from_ty), ty),
            _ if c.counts.is_some() => {
                return self.counted(op, c, (&axis, me), src, (&full(from_ty), &full(ty)), ty);
            }
            CollKind::Barrier => return self.barrier(op, c, &axis, (src, from_ty)),
            _ => {}
        }
        let mut after: Vec<(LocalOp, Option<Expr>)> = vec![];
        let (from_root, to_root) = (c.kind.takes(Holding::Root), c.kind.gives(Holding::Root));
        let (operands, result) = match c.kind.change() {
            Some((Holding::Partial | Holding::Root | Holding::Whole, to)) if !to.is_split() => {
                let v = self.value(&format!("{}_v", op.name), &full(from_ty), span);
                let cond = from_root.then(|| at_root.clone());
                self.pending.push((LocalOp::Copy { dst: v, src }, cond, span));
                let line = Line::vector(self.unit(v, None));
                let result = if to_root {
                    let dst = self.value(&op.name, ty, span);
                    after.push((LocalOp::Copy { dst, src: v }, Some(at_root)));
                    dst
                } else {
                    v
                };
                (vec![(v, line)], result)
            }
            Some((Holding::Partial | Holding::Root | Holding::Whole, _)) => {
                let rule = rule_of(ty, dim);
                let v = self.value(&format!("{}_v", op.name), &full(from_ty), span);
                let cond = from_root.then(|| at_root.clone());
                let pack =
                    LocalOp::Pack { dst: v, src, dim: dim as u32, parts: p, rule: rule.clone(), at: None };
                self.pending.push((pack, cond, span));
                let dst = self.value(&op.name, ty, span);
                let unpack = LocalOp::Unpack {
                    dst,
                    src: v,
                    dim: dim as u32,
                    parts: p,
                    rule: rule.clone(),
                    at: Some(me),
                };
                after.push((unpack, None));
                let extent = self.out.buffer(v).dims[dim].clone();
                (
                    vec![(
                        v,
                        Line { parts: p, extent, unit: self.unit(v, Some(dim)), rule, row: Expr::Int(0) },
                    )],
                    dst,
                )
            }
            Some((Holding::Split, _)) => {
                let rule = rule_of(from_ty, dim);
                let v = self.value(&format!("{}_v", op.name), &full(ty), span);
                let pack = LocalOp::Pack {
                    dst: v,
                    src,
                    dim: dim as u32,
                    parts: p,
                    rule: rule.clone(),
                    at: Some(me),
                };
                self.local(pack, span);
                let dst = self.value(&op.name, ty, span);
                let unpack =
                    LocalOp::Unpack { dst, src: v, dim: dim as u32, parts: p, rule: rule.clone(), at: None };
                after.push((unpack, to_root.then_some(at_root)));
                let extent = self.out.buffer(v).dims[dim].clone();
                (
                    vec![(
                        v,
                        Line { parts: p, extent, unit: self.unit(v, Some(dim)), rule, row: Expr::Int(0) },
                    )],
                    dst,
                )
            }
            Some((Holding::SplitFrom, _)) | None => {
                let from_dim = c.from_dim.unwrap_or(0);
                let (to_rule, from_rule) = (rule_of(ty, dim), rule_of(from_ty, from_dim));
                let s = self.value(&format!("{}_src", op.name), &full(from_ty), span);
                self.local(
                    LocalOp::Pack { dst: s, src, dim: dim as u32, parts: p, rule: to_rule.clone(), at: None },
                    span,
                );
                let d = self.value(&format!("{}_dst", op.name), &full(ty), span);
                let dst = self.value(&op.name, ty, span);
                let unpack = LocalOp::Unpack {
                    dst,
                    src: d,
                    dim: from_dim as u32,
                    parts: p,
                    rule: from_rule.clone(),
                    at: None,
                };
                after.push((unpack, None));
                let line = |l: &Self, b: BufferId, dim: usize, rule| Line {
                    parts: p,
                    extent: l.out.buffer(b).dims[dim].clone(),
                    unit: l.unit(b, Some(dim)),
                    rule,
                    row: Expr::Int(0),
                };
                (vec![(s, line(self, s, dim, to_rule)), (d, line(self, d, from_dim, from_rule))], dst)
            }
        };
        self.flush();
        self.region(op, c, &axis, operands)?;
        for (local, cond) in after {
            self.pending.push((local, cond, span));
        }
        Ok(result)
    }

    pub(super) fn region(
        &mut self,
        op: &GraphOp,
        c: &Collective,
        axis: &kbc_ir::types::Axis,
        operands: Vec<(BufferId, Line)>,
    ) -> Result<(), Diagnostics> {
        let Some(using) = &c.using else {
            return Err(Diagnostic::error("E901", format!("{} has no algorithm yet", c.name()))
                .primary(op.span, "run `select` first")
                .into());
        };
        // A text of the command line or of the IR sees what the program sees.
        let own = !using.span.is_none() && self.lib.knows(using.span.file);
        let at = if own { using.span } else { op.span };
        let file = at.file;
        let lib = &*crate::part_of::library_for(self.lib, c.own.as_deref(), file);
        let coll = lib.find_collective(file, c.name(), at).map_err(|d| Diagnostics::from(*d))?;
        let alg = lib.find_algorithm(file, coll, &using.alg, at).map_err(|d| Diagnostics::from(*d))?;
        let trees = match packed::is_packed(lib, alg) {
            true => Some(self.packed(c, using, at)?),
            false => None,
        };
        let packed = trees.as_ref().map(|trees| trees.library(self.lib, alg));
        let lib = packed.as_ref().unwrap_or(lib);
        let axes = lib.algorithm(alg).axes.len();
        let parts: Vec<u64> = axis.parts.iter().map(|p| p.1).collect();
        let sizes = if axes == 1 {
            vec![axis.size]
        } else if parts.len() == axes {
            parts
        } else {
            return Err(Diagnostic::error(
                "E022",
                format!(
                    "`{}` works on {axes} axes, and `{}` has {}",
                    using.alg,
                    axis.name,
                    parts.len().max(1)
                ),
            )
            .primary(at, "used here")
            .into());
        };
        let given = |list: &[(Name, UsingArg)]| -> Vec<(String, Arg)> {
            list.iter()
                .map(|(n, v)| {
                    let v = match v {
                        UsingArg::Int(i) => Arg::Int(*i),
                        UsingArg::Name(w) => Arg::Word(w.to_string()),
                    };
                    (n.to_string(), v)
                })
                .collect()
        };
        let (args, options) = (given(&using.args), given(&using.options));
        let largest = operands.iter().map(|(_, l)| self.largest(l)).collect();
        let name = self.name(c.name());
        let request = Request {
            lib,
            trees: trees.as_deref(),
            coll,
            alg,
            written: using.alg.as_str(),
            args: &args,
            options: &options,
            red: c.red.unwrap_or(ReduceOp::Sum),
            root: c.root,
            over: c.axes(),
            sizes,
            operands,
            largest,
            name,
            span: at,
            queues: self.cx.topology.is_some_and(|t| t.settings().queues().is_some()),
            known: if std::ptr::eq(lib, self.cx.library) { &self.cx.slots } else { &self.known },
        };
        let first = self.out.regions.len();
        collective(&request, &mut self.out)?;
        if self.stream.as_str() != MAIN {
            let regions = self.out.regions.iter_mut().skip(first);
            for s in regions.flat_map(|r| &mut r.roles).flat_map(|r| &mut r.streams) {
                s.name = match s.name.as_str() {
                    MAIN => self.stream.clone(),
                    lane => format!("{}_{lane}", self.stream).into(),
                };
            }
        }
        Ok(())
    }

    /// Returns the largest extent and unit of a line over all ranks.
    fn largest(&self, l: &Line) -> (u64, u64) {
        largest(l, &self.out.mesh)
    }
}
