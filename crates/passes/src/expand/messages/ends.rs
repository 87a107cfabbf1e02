//! The two ends of a message, in closed form where possible.
//!
//! The rank that writes a transfer statement is its *owner*. The other end has to find its owners.
//! If the peer is a shift or an exclusive or of the owner's coordinates, the inverse is an
//! expression. Otherwise the other end tries candidates ([`super::inverse`]) in the order in which
//! reductions add, so that the schedule's text does not depend on the number of candidates.

use super::forms::{Form, conjuncts, in_range, tidy};
use super::inverse::Candidates;
use super::legal::may_fail;
use crate::expand::interpret::{Builder, Gen, Res, Transfer};
use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr};

/// One end of a message.
#[derive(Clone)]
pub(in crate::expand) struct End {
    /// Loops around it, besides those of the round.
    pub(in crate::expand) loops: Vec<Gen>,
    /// A condition outside those loops.
    pub(in crate::expand) outer: Expr,
    /// A condition inside those loops.
    pub(in crate::expand) guard: Expr,
    /// The other end, in region coordinates.
    pub(in crate::expand) peer: Vec<Expr>,
    /// The owner's region coordinates, to be substituted in the transfer's expressions.
    pub(in crate::expand) owner: Vec<Expr>,
    /// A substitution of a generator that changes its order: its name and the expression that
    /// replaces it.
    pub(in crate::expand) turn: Option<(Name, Expr)>,
}

impl Transfer {
    /// Returns the owner's end.
    pub(in crate::expand) fn owner_end(&self, b: &Builder<'_>) -> Res<End> {
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
    pub(in crate::expand) fn other_end(
        &self,
        forms: &[Form],
        among: &Candidates,
        b: &mut Builder<'_>,
    ) -> Res<End> {
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
        if !may_fail(is_there, &b.cx.ranges, &b.tables) {
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
pub(in crate::expand) fn at_owner(e: &Expr, owner: &[Expr], b: &Builder<'_>) -> Expr {
    tidy(&e.subst(&|n| owner_coord(n, owner, b)), &b.cx.ranges)
}
