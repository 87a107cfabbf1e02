//! Forms: the relation between the coordinates of a rank and those of its peer, in closed form
//! where possible, and the simplification of the conditions that follow.

use crate::expand::interpret::{Ranges, Transfer, strip};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::interval;
use std::sync::Arc;

/// The relation between own coordinate and peer coordinate on one axis.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::expand) enum Form {
    Same,
    Shift(Expr),
    Xor(Expr),
    Other,
}

impl Transfer {
    pub(in crate::expand) fn forms(&self, ranges: &Ranges) -> Vec<Form> {
        self.peer
            .iter()
            .zip(&self.group.own)
            .zip(self.group.sizes.iter().zip(&self.group.wraps))
            .map(|((peer, own), (size, wraps))| form(peer, own, wraps.then_some(*size), ranges))
            .collect()
    }

    /// Returns the peer's group coordinates, wrapped if the axis wraps.
    pub(in crate::expand) fn wrapped_peer(&self, ranges: &Ranges) -> Vec<Expr> {
        self.peer
            .iter()
            .zip(self.group.sizes.iter().zip(&self.group.wraps))
            .map(|(e, (size, wraps))| if *wraps { ranges.wrap(e, &Expr::Int(*size)) } else { e.clone() })
            .collect()
    }

    /// Returns the condition that the peer is this rank itself.
    pub(in crate::expand) fn is_self(&self, forms: &[Form], ranges: &Ranges) -> Expr {
        let peer = self.wrapped_peer(ranges);
        forms.iter().enumerate().fold(Expr::Int(1), |acc, (i, f)| {
            let own = self.group.own[i].clone();
            acc.and(match f {
                Form::Same => Expr::Int(1),
                Form::Shift(d) if self.group.wraps[i] => {
                    strip(d, self.group.sizes[i]).modulo(self.group.sizes[i]).equals(Expr::Int(0))
                }
                Form::Shift(d) | Form::Xor(d) => d.clone().equals(Expr::Int(0)),
                Form::Other => peer[i].clone().equals(own),
            })
        })
    }
}

/// Returns the parts of a conjunction, in order.
pub(in crate::expand) fn conjuncts(e: &Expr) -> Vec<Expr> {
    match e {
        Expr::Bin(BinOp::And, a, b) => {
            let mut out = conjuncts(a);
            out.extend(conjuncts(b));
            out
        }
        e if e.is_true() => vec![],
        e => vec![e.clone()],
    }
}

pub(in crate::expand) fn in_range(e: &Expr, size: i64, ranges: &Ranges) -> Expr {
    let (lo, hi) = ranges.fact(e, &[]).within.limits();
    let low = if lo >= 0 { Expr::Int(1) } else { Expr::bin(BinOp::Ge, e.clone(), Expr::Int(0)) };
    let high = if hi < size { Expr::Int(1) } else { Expr::bin(BinOp::Lt, e.clone(), Expr::Int(size)) };
    low.and(high)
}

/// Simplifies an expression: joins sums, drops redundant `mod`s, and decides comparisons that
/// follow from ranges.
pub(in crate::expand) fn tidy(e: &Expr, ranges: &Ranges) -> Expr {
    match e {
        Expr::Int(_) | Expr::Var(_) => e.clone(),
        Expr::Un(op, a) => Expr::un(*op, tidy(a, ranges)),
        Expr::Bin(BinOp::Mod, a, k) if k.as_int().is_some_and(|k| k > 0) => {
            match ranges.wrap(&tidy(a, ranges), k) {
                Expr::Bin(BinOp::Mod, a, k) => ranges.wrap(&a.simplify(), &k),
                e => e,
            }
        }
        Expr::Bin(op, a, b) => {
            let (a, b) = (tidy(a, ranges), tidy(b, ranges));
            decided(*op, &a, &b, ranges).unwrap_or_else(|| kbc_ir::expr::join(*op, a, b))
        }
        Expr::Select(c, a, b) => Expr::select(tidy(c, ranges), tidy(a, ranges), tidy(b, ranges)),
        Expr::Table(n, i) => Expr::Table(n.clone(), Arc::new(tidy(i, ranges))),
    }
}

/// Returns the outcome of a comparison if the ranges of its sides decide it. Sides that may have no
/// value stay.
fn decided(op: BinOp, a: &Expr, b: &Expr, ranges: &Ranges) -> Option<Expr> {
    if !matches!(op, BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::Eq | BinOp::Ne) {
        return None;
    }
    let (a, b) = (ranges.fact(a, &[]), ranges.fact(b, &[]));
    let known = interval::binary(op, a.within, b.within).within.constant();
    known.filter(|_| a.total && b.total).map(Expr::Int)
}

fn form(peer: &Expr, own: &Expr, wrap: Option<i64>, ranges: &Ranges) -> Form {
    if peer == own {
        return Form::Same;
    }
    if let Some(d) = shift(peer, own, wrap, ranges) {
        return if d.as_int() == Some(0) { Form::Same } else { Form::Shift(d) };
    }
    if let Expr::Bin(BinOp::Xor, a, m) = peer {
        if **a == *own && ranges.uniform(m) {
            return Form::Xor((**m).clone());
        }
        if **m == *own && ranges.uniform(a) {
            return Form::Xor((**a).clone());
        }
    }
    Form::Other
}

/// Returns `d` with `e == own + d` (modulo the size if the axis wraps), if `d` is the same on every
/// rank.
pub(in crate::expand) fn shift(e: &Expr, own: &Expr, wrap: Option<i64>, ranges: &Ranges) -> Option<Expr> {
    if e == own {
        return Some(Expr::Int(0));
    }
    let direct = match e {
        Expr::Bin(BinOp::Add, a, b) if ranges.uniform(b) => {
            shift(a, own, wrap, ranges).map(|d| d + (**b).clone())
        }
        Expr::Bin(BinOp::Add, a, b) if ranges.uniform(a) => {
            shift(b, own, wrap, ranges).map(|d| (**a).clone() + d)
        }
        Expr::Bin(BinOp::Sub, a, b) if ranges.uniform(b) => {
            shift(a, own, wrap, ranges).map(|d| d - (**b).clone())
        }
        Expr::Bin(BinOp::Mod, a, k) if wrap.is_some() && k.as_int() == wrap => shift(a, own, wrap, ranges),
        _ => None,
    };
    direct.or_else(|| {
        // Both are the same coordinate plus an expression that is the same on every rank.
        ranges.coords().iter().find_map(|c| {
            let ((1, x), (1, y)) = (e.linear_in(c)?, own.linear_in(c)?) else { return None };
            (ranges.uniform(&x) && ranges.uniform(&y)).then(|| x - y)
        })
    })
}
