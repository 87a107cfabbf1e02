//! Application of mutations to a schedule.
//!
//! The module owns the hand-made changes of one statement and of its place in the text, and the
//! restriction of any change to one rank. The parent module enumerates the changes;
//! [`super::alter`] changes fields.

use super::alter::{Chooser, alter, next, once};
use super::{Change, MutatedField, Mutation, MutationKind, found};
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::form::Form;
use kbc_ir::rewrite::{replace_ops, subst_stmts};
use kbc_ir::schedule::*;
use kbc_ir::visit::{self, ExprUse, FieldMut};

fn turned(e: &Expr) -> Expr {
    Expr::un(UnOp::Not, e.clone())
}

/// Returns the statements that replace a statement, or None if the kind does not apply to it.
pub(super) fn changed(r: &Region, st: &SStmt, kind: MutationKind) -> Option<Vec<SStmt>> {
    let op = match st {
        SStmt::Op(SOp::Mark(_), _) => return None,
        SStmt::Op(op, span) => Some((op, *span)),
        SStmt::For { var: _, lo: _, hi: _, body: _ } | SStmt::If { cond: _, then: _, other: _ } => None,
    };
    let twice = || vec![st.clone(), st.clone()];
    match kind {
        MutationKind::Drop => op.map(|_| vec![]),
        MutationKind::Duplicate => op.map(|_| twice()),
        MutationKind::SkipCall => {
            op.map(|_| vec![SStmt::If { cond: turned(&once()), then: vec![st.clone()], other: vec![] }])
        }
        MutationKind::GuardTwice => matches!(st, SStmt::If { cond: _, then: _, other: _ }).then(twice),
        MutationKind::LoopTwice => matches!(st, SStmt::For { var: _, lo: _, hi: _, body: _ }).then(twice),
        MutationKind::LoopReversed => {
            let SStmt::For { var, lo, hi, body } = st else { return None };
            let other = lo.clone() + hi.clone() - Expr::Int(1) - Expr::var(var.as_str());
            let body = subst_stmts(body, &|n| (n == var).then(|| other.clone()));
            Some(vec![SStmt::For { var: var.clone(), lo: lo.clone(), hi: hi.clone(), body }])
        }
        MutationKind::PeerBoth(i) => {
            let (op, span) = op?;
            Some(vec![st.clone(), SStmt::Op(next_peer(r, op, i)?, span)])
        }
        MutationKind::ExtentLess | MutationKind::ExtentMore | MutationKind::Cut => {
            let (op, span) = op?;
            Some(vec![SStmt::Op(resized(op, kind)?, span)])
        }
        MutationKind::NoReduce => {
            let (SOp::Reduce { op: _, dst, src }, span) = op? else { return None };
            Some(vec![SStmt::Op(SOp::Copy { dst: dst.clone(), src: src.clone() }, span)])
        }
        MutationKind::Reduce => {
            let (SOp::Copy { dst, src }, span) = op? else { return None };
            let op = kbc_ir::types::ReduceOp::Sum;
            Some(vec![SStmt::Op(SOp::Reduce { op, dst: dst.clone(), src: src.clone() }, span)])
        }
        MutationKind::Fence(k) => {
            let (SOp::FenceRelease | SOp::FenceAcquire | SOp::FenceComplete, span) = op? else {
                return None;
            };
            let fence = match k {
                0 => SOp::FenceRelease,
                1 => SOp::FenceAcquire,
                _ => SOp::FenceComplete,
            };
            Some(vec![SStmt::Op(fence, span)])
        }
        MutationKind::Swap
        | MutationKind::First
        | MutationKind::Last
        | MutationKind::Ring(_)
        | MutationKind::Unsignalled(_)
        | MutationKind::Stale(_)
        | MutationKind::Bit(_)
        | MutationKind::Taken(_)
        | MutationKind::Field(..) => None,
    }
}

/// Returns the operation for the next peer in coordinate `i`.
fn next_peer(r: &Region, op: &SOp, i: u32) -> Option<SOp> {
    let size = r.coords.get(i as usize).filter(|c| c.1 > 1)?.1;
    let mut out = op.clone();
    let mut done = false;
    visit::op_fields_mut(&mut out, &mut |field| {
        if let FieldMut::Expr(of, e) = field
            && of == ExprUse::Peer(i)
        {
            *e = next(e, Expr::Int(i64::try_from(size).unwrap_or(i64::MAX)));
            done = true;
        }
    });
    done.then_some(out)
}

/// Changes the number of chunks on both sides alike. Otherwise the sizes would differ, and nothing
/// else would be tested.
fn resized(op: &SOp, kind: MutationKind) -> Option<SOp> {
    let mut out = op.clone();
    let (mut sides, mut done) = (0, false);
    visit::op_fields_mut(&mut out, &mut |field| {
        if let FieldMut::Ref(_, r) = field {
            sides += 1;
            done |= extent(r, kind).is_some();
        }
    });
    (sides == 2 && done).then_some(out)
}

fn extent(x: &mut Ref, kind: MutationKind) -> Option<()> {
    let Ref::Chunk { operand: _, path } = x else { return None };
    let p = path.last_mut()?;
    if kind == MutationKind::Cut {
        p.of = p.of.clone() + Expr::Int(1);
    } else if kind == MutationKind::ExtentMore {
        p.len = p.len.clone() + Expr::Int(1);
    } else if p.len != Expr::Int(1) {
        p.len = p.len.clone() - Expr::Int(1);
    } else {
        return None;
    }
    Some(())
}

/// A path to a statement of a body: at each level the number of the statement, and 1 for an `else`.
type Path = [(usize, u8)];

/// Visits every operation of a body with its path, in order.
pub(super) fn each_op<'a>(list: &'a [SStmt], path: &mut Vec<(usize, u8)>, f: &mut dyn FnMut(&'a SOp, &Path)) {
    for (i, st) in list.iter().enumerate() {
        path.push((i, 0));
        match st {
            SStmt::For { var: _, lo: _, hi: _, body } => each_op(body, path, f),
            SStmt::If { cond: _, then, other } => {
                each_op(then, path, f);
                if let Some(last) = path.last_mut() {
                    last.1 = 1;
                }
                each_op(other, path, f);
            }
            SStmt::Op(op, _) => f(op, path),
        }
        path.pop();
    }
}

/// Guards the statement of operation number `op`: the new statement runs where `cond` holds, the
/// old one elsewhere.
fn guarded(list: &mut [SStmt], op: u32, cond: &Expr, old: &SStmt, at: &mut u32) {
    for st in list {
        match st {
            SStmt::For { var: _, lo: _, hi: _, body } => guarded(body, op, cond, old, at),
            SStmt::If { cond: _, then, other } => {
                guarded(then, op, cond, old, at);
                guarded(other, op, cond, old, at);
            }
            SStmt::Op(_, _) => {
                if *at == op {
                    *st = SStmt::If { cond: cond.clone(), then: vec![st.clone()], other: vec![old.clone()] };
                }
                *at += 1;
                // The contents of the guard are not counted again.
            }
        }
    }
}

/// Changes one field, only on the ranks of a guard if there is one.
fn field(s: &Schedule, spot: MutatedField, change: Change, guard: Option<Expr>) -> Schedule {
    let mut out = s.clone();
    let known = found(s);
    let Some(f) = known.get(spot.number as usize) else { return out };
    let mut number = 0;
    visit::each_field_mut(&mut out, &mut |_, field| {
        if number == spot.number {
            let mut c = Chooser { pick: Some(change), found: vec![] };
            match (field, &guard, spot.op) {
                (FieldMut::Expr(of, e), Some(g), None) => {
                    let old = e.clone();
                    alter(s, &f.at, &f.seen, FieldMut::Expr(of, e), &mut c);
                    *e = Expr::select(g.clone(), e.clone(), old);
                }
                (field, _, _) => alter(s, &f.at, &f.seen, field, &mut c),
            }
        }
        number += 1;
    });
    if let (Some(cond), Some(op)) = (guard, spot.op) {
        let mut old = None;
        let mut at = 0;
        for st in s.regions.iter().flat_map(|r| &r.roles).flat_map(|role| &role.streams) {
            each_statement(&st.body, &mut |st| {
                if at == op {
                    old = Some(st.clone());
                }
                at += 1;
            });
        }
        if let Some(old) = old {
            let mut at = 0;
            for st in out.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|role| &mut role.streams) {
                guarded(&mut st.body, op, &cond, &old, &mut at);
            }
        }
    }
    out
}

/// Visits every statement that is an operation, in order.
fn each_statement<'a>(list: &'a [SStmt], f: &mut dyn FnMut(&'a SStmt)) {
    for st in list {
        match st {
            SStmt::For { var: _, lo: _, hi: _, body } => each_statement(body, f),
            SStmt::If { cond: _, then, other } => {
                each_statement(then, f);
                each_statement(other, f);
            }
            SStmt::Op(_, _) => f(st),
        }
    }
}

/// Changes everything that a schedule does with a window or an array of signals.
fn throughout(s: &Schedule, kind: MutationKind) -> Schedule {
    let mut out = s.clone();
    if let MutationKind::Stale(x) | MutationKind::Bit(x) | MutationKind::Taken(x) = kind {
        let form = &mut out.signals[x as usize].form;
        *form = match (kind, *form) {
            (MutationKind::Stale(_), Form::Sense { fresh: _ }) => Form::Sense { fresh: false },
            (MutationKind::Stale(_), Form::Clearing { fresh: _ }) => Form::Clearing { fresh: false },
            (MutationKind::Bit(_), Form::Epoch) => Form::Sense { fresh: true },
            (MutationKind::Taken(_), Form::Epoch | Form::Sense { fresh: _ }) => {
                Form::Clearing { fresh: true }
            }
            (_, form) => form,
        };
    }
    for stream in out.regions.iter_mut().flat_map(|r| &mut r.roles).flat_map(|role| &mut role.streams) {
        replace_ops(&mut stream.body, &mut |op, out| match (&op, kind) {
            (
                SOp::Notify { peer: _, counter: Counter { signal, index: _ } }
                | SOp::Wait { counter: Counter { signal, index: _ }, value: _ },
                MutationKind::Unsignalled(x),
            ) if signal.0 == x => {}
            (SOp::Wait { counter: Counter { signal, index }, value }, MutationKind::Bit(x))
                if signal.0 == x =>
            {
                out.push(SOp::Wait {
                    counter: Counter { signal: *signal, index: index.clone() },
                    value: value.clone().modulo(2),
                });
            }
            (SOp::Wait { counter: Counter { signal, index }, value: _ }, MutationKind::Taken(x))
                if signal.0 == x =>
            {
                out.push(SOp::Wait {
                    counter: Counter { signal: *signal, index: index.clone() },
                    value: Expr::Int(1),
                });
            }
            (_, MutationKind::Ring(x)) => {
                let mut op = op;
                visit::op_fields_mut(&mut op, &mut |field| {
                    if let FieldMut::Ref(_, Ref::Slot { window, slot }) = field
                        && window.0 == x
                    {
                        *slot = slot.subst(&|n| (n == CALL).then_some(Expr::Int(0)));
                    }
                });
                out.push(op);
            }
            _ => out.push(op),
        });
    }
    out
}

/// Returns those changes, each with the kind and the name of its subject, and the number of the
/// first region that uses the subject.
pub(super) fn whole_object_changes(
    s: &Schedule,
) -> Vec<(MutationKind, &'static str, kbc_ir::name::Name, usize)> {
    let first = |new: &Schedule| new.regions.iter().zip(&s.regions).position(|(a, b)| a != b);
    let mut out = vec![];
    for (i, w) in s.windows.iter().enumerate() {
        let kind = MutationKind::Ring(i as u32);
        out.extend(first(&throughout(s, kind)).map(|at| (kind, "window", w.name.clone(), at)));
    }
    for (i, x) in s.signals.iter().enumerate() {
        let k = i as u32;
        let Some(at) = first(&throughout(s, MutationKind::Unsignalled(k))) else { continue };
        out.push((MutationKind::Unsignalled(k), "signal", x.name.clone(), at));
        for kind in [MutationKind::Stale(k), MutationKind::Bit(k), MutationKind::Taken(k)] {
            if throughout(s, kind).signals[i].form != x.form {
                out.push((kind, "signal", x.name.clone(), at));
            }
        }
    }
    out
}

/// Returns the schedule with a mutation applied; it is unchanged if the site does not belong to the
/// schedule.
pub fn apply(s: &Schedule, m: &Mutation) -> Schedule {
    change(s, m, None)
}

/// Returns the schedule with a mutation applied on only one rank of each group, given by its index
/// in the group: a guard surrounds the statement.
pub fn apply_on(s: &Schedule, m: &Mutation, index: u64) -> Schedule {
    change(s, m, Some(index))
}

/// Returns the condition that selects one rank of a group.
fn here(region: &Region, index: u64) -> Expr {
    let mut rest = index;
    let mut cond: Option<Expr> = None;
    for (name, size) in region.coords.iter().rev() {
        let here = Expr::bin(BinOp::Eq, Expr::var(name.as_str()), Expr::Int((rest % size) as i64));
        rest /= size;
        cond = Some(match cond {
            Some(c) => here.and(c),
            None => here,
        });
    }
    cond.unwrap_or(Expr::Int(1))
}

fn change(s: &Schedule, m: &Mutation, only: Option<u64>) -> Schedule {
    if m.kind.is_whole() {
        return throughout(s, m.kind);
    }
    let mut out = s.clone();
    let region = s.regions.get(m.site.region);
    let guard = only.filter(|_| m.kind.on_one_rank()).zip(region).map(|(index, region)| here(region, index));
    if let MutationKind::Field(spot, change) = m.kind {
        return field(s, spot, change, guard);
    }
    let Some(region) = region else { return out };
    let Some(role) = out.regions[m.site.region].roles.get_mut(m.site.role) else { return out };
    let Some((last, above)) = m.site.path.split_last() else { return out };
    let Some(stream) = role.streams.get_mut(m.site.stream) else { return out };
    let mut body = &mut stream.body;
    for (i, branch) in above {
        body = match body.get_mut(*i) {
            Some(SStmt::For { var: _, lo: _, hi: _, body }) => body,
            Some(SStmt::If { cond: _, then, other }) => {
                if *branch == 1 {
                    other
                } else {
                    then
                }
            }
            Some(SStmt::Op(..)) | None => return s.clone(),
        };
    }
    // The statements of the block that changes.
    let at = last.0;
    let moved = |kind| m.kind == kind;
    let (i, end) = if moved(MutationKind::Swap) {
        (at, at + 2)
    } else if moved(MutationKind::First) {
        (0, at + 1)
    } else if moved(MutationKind::Last) {
        (at, body.len())
    } else {
        (at, at + 1)
    };
    if end > body.len() {
        return s.clone();
    }
    let old: Vec<SStmt> = body[i..end].to_vec();
    let mut new = old.clone();
    if moved(MutationKind::First) {
        new.rotate_right(1);
    } else if moved(MutationKind::Swap) || moved(MutationKind::Last) {
        new.rotate_left(1);
    } else {
        match changed(region, &old[0], m.kind) {
            Some(list) => new = list,
            None => return s.clone(),
        }
    }
    let put = match guard {
        Some(cond) => vec![SStmt::If { cond, then: new, other: old }],
        None => new,
    };
    body.splice(i..end, put);
    out
}
