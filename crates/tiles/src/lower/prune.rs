//! Pruning: removes what never happens at a size, and names, memory and signals that nothing uses.
//!
//! An algorithm may have parts for some rank counts only, for instance for the ranks above a power
//! of two. At other rank counts the conditions of these parts are constant.

use crate::tile::visit::{each_of, each_op_mut};
use crate::tile::{AreaId, Kernel, Object, Op, SignalsId, Stmt};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;

/// Removes branches with constant conditions, then names, areas and signals that are not used.
pub(super) fn prune(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    branches(&mut body);
    names(&mut body);
    let mut uses = Uses { areas: vec![None; kernel.areas.len()], signals: vec![None; kernel.signals.len()] };
    each_op_mut(&mut body, &mut |op| uses.note(op));
    let number = |used: &mut Vec<Option<u32>>| {
        for (next, slot) in used.iter_mut().filter(|u| u.is_some()).enumerate() {
            *slot = Some(next as u32);
        }
    };
    number(&mut uses.areas);
    number(&mut uses.signals);
    each_op_mut(&mut body, &mut |op| uses.renumber(op));
    let mut i = 0;
    kernel.areas.retain(|_| {
        i += 1;
        uses.areas[i - 1].is_some()
    });
    let mut i = 0;
    kernel.signals.retain(|_| {
        i += 1;
        uses.signals[i - 1].is_some()
    });
    kernel.body = body;
}

/// Decides the conditions that depend on sizes, which are kept while kernels of several sizes are
/// compared: simplifies the conditions of branches, the numbers of turns and named values, and
/// removes branches that are always or never taken.
pub fn settle(kernel: &mut Kernel) {
    decide(&mut kernel.body, &mut vec![]);
    branches(&mut kernel.body);
}

/// Simplifies conditions, turns and named values. `zero`: positions in loops of at most one tile.
fn decide(body: &mut [Stmt], zero: &mut Vec<Name>) {
    for stmt in body {
        let settled = |e: &Expr| e.subst(&|n| zero.contains(n).then_some(Expr::Int(0))).simplify();
        match stmt {
            Stmt::If { cond, then, other } => {
                *cond = settled(cond);
                decide(then, zero);
                decide(other, zero);
            }
            Stmt::Turn { by, body, .. } => {
                *by = settled(by);
                decide(body, zero);
            }
            Stmt::Tiles { pos, total, step, body, .. } => {
                let before = zero.len();
                zero.extend(total.as_int().filter(|n| *n <= i64::from(*step)).map(|_| pos.clone()));
                decide(body, zero);
                zero.truncate(before);
            }
            Stmt::For { body, .. } | Stmt::Task { body, .. } => decide(body, zero),
            Stmt::Let { value, .. } => *value = value.simplify(),
            Stmt::Note { .. } | Stmt::Op(_) => {}
        }
    }
}

fn branches(body: &mut Vec<Stmt>) {
    let mut out = vec![];
    for mut stmt in std::mem::take(body) {
        match &mut stmt {
            Stmt::If { cond, then, other } => {
                branches(then);
                branches(other);
                match cond.as_int() {
                    Some(0) => out.append(other),
                    Some(_) => out.append(then),
                    None if then.is_empty() && other.is_empty() => {}
                    None => out.push(stmt),
                }
            }
            Stmt::For { lo, hi, body, .. } => {
                branches(body);
                let never = matches!((lo.as_int(), hi.as_int()), (Some(lo), Some(hi)) if lo >= hi);
                if !never && !body.is_empty() {
                    out.push(stmt);
                }
            }
            Stmt::Tiles { body, .. } | Stmt::Turn { body, .. } => {
                branches(body);
                out.push(stmt);
            }
            Stmt::Task { body, .. } => {
                branches(body);
                if body.iter().any(|s| !matches!(s, Stmt::Note { .. } | Stmt::Let { .. })) {
                    out.push(stmt);
                }
            }
            Stmt::Let { .. } | Stmt::Note { .. } | Stmt::Op(_) => out.push(stmt),
        }
    }
    *body = out;
}

/// Removes names that nothing after them in their block mentions. Returns the names from around the
/// block that the block mentions.
fn names(body: &mut Vec<Stmt>) -> Vec<Name> {
    let (mut kept, mut used) = (vec![], vec![]);
    for mut stmt in std::mem::take(body).into_iter().rev() {
        match &mut stmt {
            Stmt::Let { name, value } => {
                if !used.contains(name) {
                    continue;
                }
                // Statements before this one mean another value of that name.
                used.retain(|n| n != name);
                note(&mut used, value);
            }
            Stmt::For { lo, hi, body, .. } => {
                note(&mut used, lo);
                note(&mut used, hi);
                used.extend(names(body));
            }
            Stmt::If { cond, then, other } => {
                note(&mut used, cond);
                used.extend(names(then));
                used.extend(names(other));
            }
            Stmt::Tiles { total, body, .. } => {
                note(&mut used, total);
                used.extend(names(body));
            }
            Stmt::Turn { by, body, .. } => {
                note(&mut used, by);
                used.extend(names(body));
            }
            Stmt::Task { body, .. } => {
                names(body);
            }
            Stmt::Op(op) => each_of(op, &mut |e: &mut Expr| note(&mut used, e)),
            Stmt::Note { .. } => {}
        }
        kept.push(stmt);
    }
    kept.reverse();
    *body = kept;
    used
}

fn note(used: &mut Vec<Name>, e: &Expr) {
    e.vars(&mut |n| used.push(n.clone()));
}

/// New numbers of the areas and signals that are used.
struct Uses {
    areas: Vec<Option<u32>>,
    signals: Vec<Option<u32>>,
}

/// A part of an operation that has a number.
enum Numbered<'a> {
    Area(&'a mut AreaId),
    Signals(&'a mut SignalsId),
}

/// Returns the area or the array of signals that an operation uses.
fn numbered(op: &mut Op) -> Option<Numbered<'_>> {
    match op {
        Op::Load { from: at, .. }
        | Op::LoadRow { from: at, .. }
        | Op::LoadRows { from: at, .. }
        | Op::StoreRows { to: at, .. }
        | Op::Store { to: at, .. }
        | Op::LoadBlock { from: at, .. }
        | Op::StoreBlock { to: at, .. } => match &mut at.object {
            Object::Area(a) => Some(Numbered::Area(a)),
            Object::Tensor(_) => None,
        },
        Op::Notify { signals, .. } | Op::Wait { signals, .. } | Op::Defer { signals, .. } => {
            Some(Numbered::Signals(signals))
        }
        Op::Vector { .. }
        | Op::Select { .. }
        | Op::Convert { .. }
        | Op::Reduce { .. }
        | Op::Expand { .. }
        | Op::Spread { .. }
        | Op::Index { .. }
        | Op::Choose { .. }
        | Op::Move { .. }
        | Op::Matmul { .. }
        | Op::Release
        | Op::Acquire
        | Op::Complete
        | Op::Barrier(_)
        | Op::MemoryBarrier
        | Op::SetFlag { .. }
        | Op::WaitFlag { .. } => None,
    }
}

impl Uses {
    fn note(&mut self, op: &mut Op) {
        match numbered(op) {
            Some(Numbered::Area(a)) => self.areas[a.0 as usize] = Some(0),
            Some(Numbered::Signals(s)) => self.signals[s.0 as usize] = Some(0),
            None => {}
        }
    }

    fn renumber(&self, op: &mut Op) {
        match numbered(op) {
            Some(Numbered::Area(a)) => *a = AreaId(self.areas[a.0 as usize].unwrap_or(a.0)),
            Some(Numbered::Signals(s)) => *s = SignalsId(self.signals[s.0 as usize].unwrap_or(s.0)),
            None => {}
        }
    }
}
