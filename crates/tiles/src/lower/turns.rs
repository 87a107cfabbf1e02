//! Turned loops: a loop that sends what its previous step computed begins with the computation.
//!
//! A step of a ring is `put v[r - s]`, a notify, a wait, `combine v[r - s - 1]`: it first sends
//! what the previous step has added. The loop becomes `put`, and then steps of `combine` and the
//! `put` of the next step, and the last `combine`. The operations and their order are the same. The
//! sum and its put are then next to each other, and the sum is sent from the core.

use super::places::same;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::rewrite::map_exprs;
use kbc_ir::schedule::{Ref, SOp, SStmt};

/// Returns the statements with their loops turned.
pub(super) fn turned(list: Vec<SStmt>) -> Vec<SStmt> {
    let mut out: Vec<SStmt> = vec![];
    for stmt in flat(list) {
        let SStmt::For { var, lo, hi, body } = stmt else {
            out.push(stmt);
            continue;
        };
        let body = turned(body);
        let bounds = lo.simplify().as_int().zip(hi.simplify().as_int());
        let (Some((first, end)), Some(at)) = (bounds, begins(&var, &body)) else {
            out.push(SStmt::For { var, lo, hi, body });
            continue;
        };
        let (head, rest) = body.split_at(at);
        let step = |list: &[SStmt], to: &Expr| {
            map_exprs(list, &|e| e.subst(&|n| (*n == var).then(|| to.clone())).simplify())
        };
        // The step before the first one may be in front of the loop already, apart from the loop
        // because it reads something else.
        let before = step(rest, &Expr::Int(first - 1));
        let lo = if out.ends_with(&before) && first <= end {
            out.truncate(out.len() - before.len());
            first - 1
        } else if first < end {
            out.extend(step(head, &Expr::Int(first)));
            first
        } else {
            out.push(SStmt::For { var, lo, hi, body });
            continue;
        };
        let next = Expr::var(var.clone()) + Expr::Int(1);
        let mut body = step(rest, &Expr::var(var.clone()));
        body.extend(step(head, &next));
        let last = step(rest, &Expr::Int(end - 1));
        out.push(SStmt::For { var, lo: Expr::Int(lo), hi: Expr::Int(end - 1), body });
        out.extend(last);
    }
    out
}

/// Returns a list with every branch on a constant replaced by the statements of the side that is
/// taken.
pub(super) fn flat(list: Vec<SStmt>) -> Vec<SStmt> {
    let mut out = vec![];
    for stmt in list {
        match stmt {
            SStmt::If { cond, then, other } => match cond.simplify().as_int() {
                Some(0) => out.extend(flat(other)),
                Some(_) => out.extend(flat(then)),
                None => out.push(SStmt::If { cond, then, other }),
            },
            stmt => out.push(stmt),
        }
    }
    out
}

/// Returns the position of the wait with which the second half of a loop's body begins, if that
/// half computes what the first half of the next step sends.
fn begins(var: &Name, body: &[SStmt]) -> Option<usize> {
    let op = |s: &'_ SStmt| matches!(s, SStmt::Op(op, _) if !matches!(op, SOp::Local(_)));
    body.iter().all(op).then_some(())?;
    let told = body.iter().position(|s| matches!(s, SStmt::Op(SOp::Notify { .. }, _)))?;
    let wait = body[told..].iter().position(|s| matches!(s, SStmt::Op(SOp::Wait { .. }, _)))?;
    let (head, rest) = body.split_at(told + wait);
    let sent = head.iter().filter_map(|s| match s {
        SStmt::Op(
            SOp::Put { src, dst: Ref::Slot { .. }, .. } | SOp::Copy { src, dst: Ref::Slot { .. } },
            _,
        ) => {
            let next = Expr::var(var.clone()) + Expr::Int(1);
            Some(src.map_exprs(&|e| e.subst(&|n| (n == var).then(|| next.clone())).simplify()))
        }
        _ => None,
    });
    let made = |r: &Ref| {
        rest.iter().any(|s| match s {
            SStmt::Op(SOp::Reduce { dst, .. } | SOp::Copy { dst, .. } | SOp::Get { dst, .. }, _) => {
                same(dst, r)
            }
            _ => false,
        })
    };
    sent.into_iter().any(|r| made(&r)).then_some(told + wait)
}
