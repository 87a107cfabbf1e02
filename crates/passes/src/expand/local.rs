//! Lowering of local programs: one region for each meeting, and one region between two meetings,
//! with one role per part.
//!
//! Parts have their own values. A meeting works on one buffer for all ranks, which is empty on
//! ranks that do not take part. A program with a single part for all ranks is lowered like a graph:
//! its schedule has one role.

use super::lower::{Lower, PartOps, Scope, ends};
use super::sizes::place;
use super::streams;
use crate::fresh::FreshNames;
use crate::order::choose::OneSlotCache;
use crate::pass::PassCx;
use kbc_diag::{Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::graph::{CollKind, Graph, GraphOp, OpId, OpKind};
use kbc_ir::local::{Local, LocalPart, MatchedCollective, group_types, matched_collectives};
use kbc_ir::schedule::*;
use kbc_ir::types::Mesh;
use std::collections::BTreeMap;

/// Placeholder for the operand where each part has its own.
const OWN: BufferId = BufferId(u32::MAX);

/// Lowers a local program whose collectives name their algorithms.
pub(super) fn lower(
    name: &Name,
    local: &Local,
    mesh: &Mesh,
    cx: &PassCx<'_>,
) -> Result<Schedule, Diagnostics> {
    let nothing = Graph::default();
    let mut l = Lower {
        cx,
        lib: cx.library,
        graph: &nothing,
        out: Schedule::new(name.clone(), mesh.clone()),
        values: BTreeMap::new(),
        pending: vec![],
        stream: MAIN.into(),
        ends: BTreeMap::new(),
        names: FreshNames::default(),
        known: OneSlotCache::default(),
        scope: Scope::default(),
        parts: vec![],
        matched: vec![],
        host: None,
    };
    let whole = local.parts.len() == 1;
    let mut walks: Vec<Walk> = vec![];
    let mut first = (0, 0);
    for (i, part) in local.parts.iter().enumerate() {
        let ranks = (!whole).then(|| predicate(mesh, &part.ranks));
        let scope = Scope { ranks: ranks.clone(), rows: Some(local.rows(mesh, i)), first };
        first = (first.0 + part.graph.inputs.len() as u32, first.1 + part.graph.results.len() as u32);
        walks.push(Walk { scope, values: BTreeMap::new(), ends: ends(&part.graph), next: 0 });
        if let Some(ranks) = ranks {
            let name = format!("ranks_{}", part.ranks.first().copied().unwrap_or(0));
            l.parts.push(PartOps { name: name.into(), ranks, ops: vec![] });
        }
    }
    let mut errors = Diagnostics::new();
    for matched in matched_collectives(local, mesh)? {
        for (part, until) in &matched.members {
            walk(&mut l, &mut walks[*part], (*part, &local.parts[*part]), Some(*until), &mut errors);
        }
        if let Err(d) = expand_collective(&mut l, &mut walks, local, &matched) {
            errors.extend(d);
        }
    }
    for (i, part) in local.parts.iter().enumerate() {
        walk(&mut l, &mut walks[i], (i, part), None, &mut errors);
    }
    l.flush();
    streams::order(&mut l.out);
    if errors.has_errors() { Err(errors) } else { Ok(l.out) }
}

/// The progress of a part.
struct Walk {
    scope: Scope,
    values: BTreeMap<OpId, BufferId>,
    /// [`Lower::ends`] of the part's graph.
    ends: BTreeMap<OpId, OpId>,
    /// Index of the next operation.
    next: usize,
}

/// Lowers the operations of a part up to a collective, or to the end of the part.
fn walk<'a>(
    l: &mut Lower<'a>,
    walk: &mut Walk,
    (number, part): (usize, &'a LocalPart),
    until: Option<OpId>,
    errors: &mut Diagnostics,
) {
    l.graph = &part.graph;
    l.scope = walk.scope.clone();
    std::mem::swap(&mut l.values, &mut walk.values);
    std::mem::swap(&mut l.ends, &mut walk.ends);
    while let Some(&id) = part.graph.order().get(walk.next) {
        walk.next += 1;
        if Some(id) == until {
            break;
        }
        if let Err(d) = l.op(id) {
            errors.extend(d);
        }
    }
    std::mem::swap(&mut l.values, &mut walk.values);
    std::mem::swap(&mut l.ends, &mut walk.ends);
    l.scope = Scope::default();
    if let Some(p) = l.parts.get_mut(number) {
        p.ops.append(&mut l.pending);
    }
}

/// Lowers a meeting: its region, and the operations of each part before and after it.
fn expand_collective<'a>(
    l: &mut Lower<'a>,
    walks: &mut [Walk],
    local: &'a Local,
    matched: &MatchedCollective,
) -> Result<(), Diagnostics> {
    let (part, id) = matched.members[0];
    l.graph = &local.parts[part].graph;
    let op: GraphOp = l.graph.op(id).clone();
    let OpKind::Collective(c) = &op.kind else { return Ok(()) };
    let (operand, mut to) = (l.graph.operands(id)[0], l.ty(id)?);
    let mut from = l.ty(operand)?;
    if c.kind == CollKind::AllToAll && c.counts.is_some() {
        // Numbers of rows differ from rank to rank.
        let p = l.group(&op, c)?.0.size;
        (from, to) = group_types(c, &c.axes(), p, &from, &to);
    }
    let sources: Vec<(usize, BufferId)> = matched
        .members
        .iter()
        .map(|(part, id)| {
            let operand = local.parts[*part].graph.operands(*id)[0];
            // An operand without a buffer comes from an operation that failed and has been
            // reported.
            Ok((*part, walks[*part].values.get(&operand).copied().ok_or_else(Diagnostics::new)?))
        })
        .collect::<Result<_, Diagnostics>>()?;
    let whole = l.parts.is_empty();
    if !whole && matched.members.len() < local.parts.len() {
        let ranks = sources.iter().map(|(p, _)| l.parts[*p].ranks.clone());
        l.scope.ranks = ranks.reduce(|a, b| Expr::bin(BinOp::Or, a, b));
    }
    l.matched = if whole { vec![] } else { sources.clone() };
    let src = if whole { sources[0].1 } else { OWN };
    let result = l.on_stream(c.stream.as_ref(), |l| l.exchange(&op, c, (src, &from), &to));
    l.matched.clear();
    l.scope = Scope::default();
    let result = result?;
    let after = if whole { vec![] } else { std::mem::take(&mut l.pending) };
    for ((part, id), (_, own)) in matched.members.iter().zip(&sources) {
        walks[*part].values.insert(*id, if result == OWN { *own } else { result });
        if let Some(p) = l.parts.get_mut(*part) {
            p.ops.extend(after.iter().cloned());
        }
    }
    Ok(())
}

impl Lower<'_> {
    /// Puts the pending operations of all parts into a region, with one role for each part that has
    /// any. Operations of a meeting belong to every member, each with its own operand.
    pub(super) fn flush_parts(&mut self) {
        let shared = std::mem::take(&mut self.pending);
        for (part, src) in self.matched.clone() {
            let own = shared.iter().map(|(op, cond, span)| (reading(op.clone(), src), cond.clone(), *span));
            self.parts[part].ops.extend(own);
        }
        let roles: Vec<(Role, Span)> = self.parts.iter_mut().filter_map(PartOps::role).collect();
        if roles.is_empty() {
            return;
        }
        let span = roles.iter().fold(Span::NONE, |s, r| s.to(r.1));
        let name = self.name("local");
        let after = self.out.regions.len().checked_sub(1).map(|i| RegionId(i as u32)).into_iter().collect();
        let mut region = Region::local(&self.out.mesh, name, vec![], after, span);
        region.roles = roles.into_iter().map(|r| r.0).collect();
        self.out.regions.push(region);
    }
}

impl PartOps {
    /// Returns the role of the pending operations, if there are any.
    fn role(&mut self) -> Option<(Role, Span)> {
        let ops = std::mem::take(&mut self.ops);
        let span = ops.iter().map(|o| o.2).reduce(Span::to)?;
        let streams = vec![Stream { name: MAIN.into(), body: super::lower::statements(&ops) }];
        Some((Role { name: self.name.clone(), ranks: RankSet::Where(self.ranks.clone()), streams }, span))
    }
}

/// Returns the operation on a part's own operand.
fn reading(op: LocalOp, own: BufferId) -> LocalOp {
    match op {
        LocalOp::Copy { dst, src } if src == OWN => LocalOp::Copy { dst, src: own },
        LocalOp::Pack { dst, src, dim, parts, rule, at } if src == OWN => {
            LocalOp::Pack { dst, src: own, dim, parts, rule, at }
        }
        other => other,
    }
}

/// Returns the condition, in mesh coordinates, that a rank is one of these.
fn predicate(mesh: &Mesh, ranks: &[u64]) -> Expr {
    let mut runs: Vec<(i64, i64)> = vec![];
    for r in ranks.iter().map(|r| *r as i64) {
        match runs.last_mut() {
            Some(last) if last.1 == r => last.1 += 1,
            _ => runs.push((r, r + 1)),
        }
    }
    let at = place(&mesh.axes);
    let below = |a: Expr, b: Expr| Expr::bin(BinOp::Lt, a, b);
    let one = |(a, b): (i64, i64)| {
        if b == a + 1 {
            return at.clone().equals(Expr::Int(a));
        }
        let from = (a > 0).then(|| below(Expr::Int(a - 1), at.clone()));
        let to = (b < mesh.ranks() as i64).then(|| below(at.clone(), Expr::Int(b)));
        match (from, to) {
            (Some(x), Some(y)) => x.and(y),
            (x, y) => x.or(y).unwrap_or(Expr::Int(1)),
        }
    };
    runs.into_iter().map(one).reduce(|a, b| Expr::bin(BinOp::Or, a, b)).unwrap_or(Expr::Int(0))
}
