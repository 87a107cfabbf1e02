//! The two ends of a message, in closed form where possible.
//!
//! The rank that writes a transfer statement is its *owner*. The other end has to find its owners.
//! If the peer is a shift or an exclusive or of the owner's coordinates, the inverse is an
//! expression. Otherwise the other end tries candidates ([`super::inverse`]) in the order in which
//! reductions add, so that the schedule's text does not depend on the number of candidates.

use super::body::{Builder, Transfer};
use super::emit::conjuncts;
use super::inverse::Candidates;
use super::legal::may_fail;
use super::region::Gen;
use super::sym::{Ranges, Res, linear, strip};
use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr};

/// The relation between own coordinate and peer coordinate on one axis.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Form {
    Same,
    Shift(Expr),
    Xor(Expr),
    Other,
}

/// One end of a message.
pub(super) struct End {
    /// Loops around it, besides those of the round.
    pub(super) loops: Vec<Gen>,
    /// A condition outside those loops.
    pub(super) outer: Expr,
    /// A condition inside those loops.
    pub(super) guard: Expr,
    /// The other end, in region coordinates.
    pub(super) peer: Vec<Expr>,
    /// The owner's region coordinates, to be substituted in the transfer's expressions.
    pub(super) owner: Vec<Expr>,
    /// A substitution of a generator that changes its order: its name and the expression that
    /// replaces it.
    pub(super) turn: Option<(Name, Expr)>,
}

impl Transfer {
    pub(super) fn forms(&self, ranges: &Ranges) -> Vec<Form> {
        self.peer
            .iter()
            .zip(&self.group.own)
            .zip(self.group.sizes.iter().zip(&self.group.wraps))
            .map(|((peer, own), (size, wraps))| form(peer, own, wraps.then_some(*size), ranges))
            .collect()
    }

    /// Returns the peer's group coordinates, wrapped if the axis wraps.
    pub(super) fn wrapped_peer(&self, ranges: &Ranges) -> Vec<Expr> {
        self.peer
            .iter()
            .zip(self.group.sizes.iter().zip(&self.group.wraps))
            .map(|(e, (size, wraps))| if *wraps { ranges.wrap(e, &Expr::Int(*size)) } else { e.clone() })
            .collect()
    }

    /// Returns the condition that the peer is this rank itself.
    pub(super) fn is_self(&self, forms: &[Form], ranges: &Ranges) -> Expr {
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

    /// Returns the owner's end.
    pub(super) fn owner_end(&self, b: &Builder<'_>) -> Res<End> {
        Ok(End {
            loops: self.each.clone(),
            outer: Expr::Int(1),
            guard: tidy(&self.guard, &b.cx.ranges),
            peer: self
                .group
                .region_coords(&self.wrapped_peer(&b.cx.ranges))?
                .iter()
                .map(|e| tidy(e, &b.cx.ranges))
                .collect(),
            owner: b.world.own(),
            turn: None,
        })
    }

    /// Returns the other end. It searches among the candidates if there is no closed form.
    pub(super) fn other_end(&self, forms: &[Form], among: &Candidates, b: &mut Builder<'_>) -> Res<End> {
        let member = self.group.member.clone().unwrap_or(Expr::Int(1));
        if !matches!(among, Candidates::Closed) {
            return self.search_end(member, among, b);
        }
        let mut guard = member;
        let mut source = vec![];
        for (i, f) in forms.iter().enumerate() {
            let (own, size) = (self.group.own[i].clone(), self.group.sizes[i]);
            source.push(match f {
                Form::Same | Form::Other => own,
                Form::Shift(d) if self.group.wraps[i] => {
                    b.cx.ranges.wrap(&(own - d.clone()), &Expr::Int(size))
                }
                Form::Shift(d) => {
                    let at = own - d.clone();
                    guard = guard.and(in_range(&at, size, &b.cx.ranges));
                    at
                }
                Form::Xor(m) => {
                    let at = Expr::bin(BinOp::Xor, own, m.clone());
                    if size & (size - 1) != 0 {
                        guard = guard.and(Expr::bin(BinOp::Lt, at.clone(), Expr::Int(size)));
                    }
                    at
                }
            });
        }
        let owner = self.coords_at(&source, b)?;
        let (first, rest) = self.before(&guard, b);
        let guard = tidy(&first.and(guard).and(at_owner(&rest, &owner, b)), &b.cx.ranges);
        Ok(End {
            loops: self.each.clone(),
            outer: Expr::Int(1),
            guard,
            peer: owner.clone(),
            owner,
            turn: None,
        })
    }

    /// Splits the guard. The first part must be tested before `is_there`, the condition that an
    /// owner exists, because that condition may have no value without it (a distance `1 << t - 1`
    /// has none before step 1). Every rank evaluates the first part alike. The second part is the
    /// rest.
    fn before(&self, is_there: &Expr, b: &Builder<'_>) -> (Expr, Expr) {
        if !may_fail(is_there, &b.cx.ranges) {
            return (Expr::Int(1), self.guard.clone());
        }
        let mut parts = conjuncts(&self.guard);
        let own = |e: &Expr| b.world.coords.iter().any(|(n, _)| e.mentions(n));
        let rest = parts.split_off(parts.iter().position(own).unwrap_or(parts.len()));
        let all = |list: Vec<Expr>| list.into_iter().fold(Expr::Int(1), Expr::and);
        (all(parts), all(rest))
    }

    /// Returns the region coordinates of a rank of the group, simplified.
    fn coords_at(&self, own: &[Expr], b: &Builder<'_>) -> Res<Vec<Expr>> {
        Ok(self.group.region_coords(own)?.iter().map(|e| tidy(e, &b.cx.ranges)).collect())
    }

    /// Returns the other end by trying candidates, the nearest in (owner - receiver) mod p first.
    fn search_end(&self, member: Expr, among: &Candidates, b: &mut Builder<'_>) -> Res<End> {
        let tried = among.tried(self, b);
        let owner = self.coords_at(&tried.own, b)?;
        let (first, rest) = self.before(&tried.guard, b);
        let (mut outer, mut guard) = (member, at_owner(&rest, &owner, b));
        let each: Vec<Name> = self.each.iter().map(|g| g.var.clone()).collect();
        for (peer, own) in self.wrapped_peer(&b.cx.ranges).iter().zip(&self.group.own) {
            if tried.sure {
                break;
            }
            let fixed = b.cx.ranges.uniform(peer) && !each.iter().any(|v| peer.mentions(v));
            let here = if fixed { peer.clone() } else { at_owner(peer, &owner, b) };
            let hit = here.equals(own.clone());
            if fixed {
                outer = outer.and(hit);
            } else {
                guard = guard.and(hit);
            }
        }
        let guard = first.and(tried.guard).and(guard);
        let mut loops = vec![tried.each];
        loops.extend(self.each.iter().map(|g| g.subst(&|n| owner_coord(n, &owner, b))));
        Ok(End { loops, outer, guard, peer: owner.clone(), owner, turn: None })
    }
}

fn owner_coord(n: &Name, owner: &[Expr], b: &Builder<'_>) -> Option<Expr> {
    b.world.coords.iter().position(|(m, _)| m == n).map(|i| owner[i].clone())
}

/// Returns an expression of the owner as seen from the other end.
pub(super) fn at_owner(e: &Expr, owner: &[Expr], b: &Builder<'_>) -> Expr {
    tidy(&e.subst(&|n| owner_coord(n, owner, b)), &b.cx.ranges)
}

pub(super) fn in_range(e: &Expr, size: i64, ranges: &Ranges) -> Expr {
    let (lo, hi) = ranges.interval(e).unwrap_or((i64::MIN, i64::MAX));
    let low = if lo >= 0 { Expr::Int(1) } else { Expr::bin(BinOp::Ge, e.clone(), Expr::Int(0)) };
    let high = if hi < size { Expr::Int(1) } else { Expr::bin(BinOp::Lt, e.clone(), Expr::Int(size)) };
    low.and(high)
}

/// Simplifies an expression: joins sums, drops redundant `mod`s, and decides comparisons that
/// follow from ranges.
pub(super) fn tidy(e: &Expr, ranges: &Ranges) -> Expr {
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
        Expr::Table(n, i) => Expr::Table(n.clone(), Box::new(tidy(i, ranges))),
    }
}

/// Returns the outcome of a comparison if the ranges of its sides decide it.
fn decided(op: BinOp, a: &Expr, b: &Expr, ranges: &Ranges) -> Option<Expr> {
    let ((a_lo, a_hi), (b_lo, b_hi)) = (ranges.interval(a)?, ranges.interval(b)?);
    let known = match op {
        BinOp::Lt if a_hi < b_lo => true,
        BinOp::Lt if a_lo >= b_hi => false,
        BinOp::Le if a_hi <= b_lo => true,
        BinOp::Le if a_lo > b_hi => false,
        BinOp::Gt if a_lo > b_hi => true,
        BinOp::Gt if a_hi <= b_lo => false,
        BinOp::Ge if a_lo >= b_hi => true,
        BinOp::Ge if a_hi < b_lo => false,
        BinOp::Eq if a_hi < b_lo || b_hi < a_lo => false,
        BinOp::Ne if a_hi < b_lo || b_hi < a_lo => true,
        _ => return None,
    };
    Some(Expr::Int(known as i64))
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
pub(super) fn shift(e: &Expr, own: &Expr, wrap: Option<i64>, ranges: &Ranges) -> Option<Expr> {
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
            let ((1, x), (1, y)) = (linear(e, c)?, linear(own, c)?) else { return None };
            (ranges.uniform(&x) && ranges.uniform(&y)).then(|| x - y)
        })
    })
}
