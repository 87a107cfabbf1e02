//! Rewriting of schedules: copies of statements, references and operations with their expressions,
//! windows or operations replaced. [`crate::schedule`] defines the tree.

use crate::expr::Expr;
use crate::name::Name;
use crate::schedule::*;

/// Returns the statements with every variable replaced for which `f` returns an expression.
pub fn subst_stmts(list: &[SStmt], f: &impl Fn(&Name) -> Option<Expr>) -> Vec<SStmt> {
    map_exprs(list, &|e| e.subst(f))
}

/// Returns the statements with every operation replaced by those that `f` returns for it, possibly
/// none.
pub fn replace_ops(list: &[SStmt], f: &dyn Fn(&SOp) -> Vec<SOp>) -> Vec<SStmt> {
    list.iter()
        .flat_map(|s| match s {
            SStmt::For { var, lo, hi, body } => vec![SStmt::For {
                var: var.clone(),
                lo: lo.clone(),
                hi: hi.clone(),
                body: replace_ops(body, f),
            }],
            SStmt::If { cond, then, other } => vec![SStmt::If {
                cond: cond.clone(),
                then: replace_ops(then, f),
                other: replace_ops(other, f),
            }],
            SStmt::Op(op, span) => f(op).into_iter().map(|op| SStmt::Op(op, *span)).collect(),
        })
        .collect()
}

/// Returns the statements with every expression replaced by its image under `f`: bounds,
/// conditions, and those of operations.
pub fn map_exprs(list: &[SStmt], f: &impl Fn(&Expr) -> Expr) -> Vec<SStmt> {
    list.iter()
        .map(|s| match s {
            SStmt::For { var, lo, hi, body } => {
                SStmt::For { var: var.clone(), lo: f(lo), hi: f(hi), body: map_exprs(body, f) }
            }
            SStmt::If { cond, then, other } => {
                SStmt::If { cond: f(cond), then: map_exprs(then, f), other: map_exprs(other, f) }
            }
            SStmt::Op(op, span) => SStmt::Op(op.map_exprs(f), *span),
        })
        .collect()
}

impl Ref {
    /// Returns the reference with every expression replaced by its image under `f`.
    pub fn map_exprs(&self, f: &impl Fn(&Expr) -> Expr) -> Ref {
        match self {
            Ref::Chunk { operand, path } => Ref::Chunk {
                operand: *operand,
                path: path
                    .iter()
                    .map(|p| Part { index: f(&p.index), len: f(&p.len), of: f(&p.of) })
                    .collect(),
            },
            Ref::Slot { window, slot } => Ref::Slot { window: *window, slot: f(slot) },
        }
    }
}

impl SOp {
    /// Returns the windows that the operation names, in order.
    pub fn windows(&self) -> Vec<WindowId> {
        let slot = |r: &Ref| match r {
            Ref::Slot { window, .. } => Some(*window),
            Ref::Chunk { .. } => None,
        };
        match self {
            SOp::Copy { dst, src }
            | SOp::Reduce { dst, src, .. }
            | SOp::Put { src, dst, .. }
            | SOp::Get { dst, src, .. } => [dst, src].into_iter().filter_map(slot).collect(),
            SOp::Send { src: r, .. } | SOp::Recv { dst: r, .. } => slot(r).into_iter().collect(),
            SOp::Mark { window, .. } => vec![*window],
            _ => vec![],
        }
    }

    /// Returns the operation with every window replaced by its image under `f`.
    pub fn map_windows(&self, f: &dyn Fn(WindowId) -> WindowId) -> SOp {
        let mut out = self.clone();
        let slot = |r: &mut Ref| {
            if let Ref::Slot { window, .. } = r {
                *window = f(*window);
            }
        };
        match &mut out {
            SOp::Copy { dst, src }
            | SOp::Reduce { dst, src, .. }
            | SOp::Put { src, dst, .. }
            | SOp::Get { dst, src, .. } => [dst, src].into_iter().for_each(slot),
            SOp::Send { src: r, .. } | SOp::Recv { dst: r, .. } => slot(r),
            SOp::Mark { window, .. } => *window = f(*window),
            _ => {}
        }
        out
    }

    /// Returns the operation with every expression of its references, peers and counters replaced
    /// by its image under `f`. Local operations stay as they are.
    pub fn map_exprs(&self, f: &impl Fn(&Expr) -> Expr) -> SOp {
        let peers = |p: &Peer| p.iter().map(f).collect::<Peer>();
        match self {
            SOp::Copy { dst, src } => SOp::Copy { dst: dst.map_exprs(f), src: src.map_exprs(f) },
            SOp::Reduce { op, dst, src } => {
                SOp::Reduce { op: *op, dst: dst.map_exprs(f), src: src.map_exprs(f) }
            }
            SOp::Put { src, peer, dst } => {
                SOp::Put { src: src.map_exprs(f), peer: peers(peer), dst: dst.map_exprs(f) }
            }
            SOp::Get { dst, peer, src } => {
                SOp::Get { dst: dst.map_exprs(f), peer: peers(peer), src: src.map_exprs(f) }
            }
            SOp::Send { src, peer, queue, index } => {
                SOp::Send { src: src.map_exprs(f), peer: peers(peer), queue: *queue, index: f(index) }
            }
            SOp::Recv { dst, peer, queue, index } => {
                SOp::Recv { dst: dst.map_exprs(f), peer: peers(peer), queue: *queue, index: f(index) }
            }
            SOp::Room { peer, queue, index } => {
                SOp::Room { peer: peers(peer), queue: *queue, index: f(index) }
            }
            SOp::Notify { peer, signal, index } => {
                SOp::Notify { peer: peers(peer), signal: *signal, index: f(index) }
            }
            SOp::Wait { signal, index, value } => {
                SOp::Wait { signal: *signal, index: f(index), value: f(value) }
            }
            SOp::Mark { point, peer, window, slot } => {
                SOp::Mark { point: *point, peer: peers(peer), window: *window, slot: f(slot) }
            }
            SOp::FenceRelease
            | SOp::FenceAcquire
            | SOp::FenceComplete
            | SOp::Record(_)
            | SOp::Await(_)
            | SOp::Local(_)
            | SOp::Launch(_)
            | SOp::HostWait(_)
            | SOp::HostRead(_)
            | SOp::HostWrite { .. }
            | SOp::Drain => self.clone(),
        }
    }
}
