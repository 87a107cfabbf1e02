//! Inverse of a transfer: which ranks may own it, as seen from its other end, if the peer is
//! neither a shift nor an exclusive or.
//!
//! The other end tries *candidates* in the order in which reductions add, by (owner - receiver) mod
//! p. If the peer is `(v + b) / d + c` (a tree's parent), the d ranks with the same quotient are
//! the candidates. Otherwise, on many ranks, a table lists the distances that occur in a step, if
//! they are few (an in-order tree has two per step). Otherwise all ranks of the group are tried; on
//! a few ranks that is cheap and needs no tables.

use super::enumerate::{ChoiceExpr, MAX_STEPS};
use super::forms::{Form, in_range, shift, tidy};
use crate::expand::interpret::{Builder, Gen, Ranges, Res, Transfer};
use kbc_ir::expr::{BinOp, Expr};
use std::collections::BTreeSet;

/// Largest group in which all ranks are tried.
const SEARCHED: i64 = 64;

/// The candidates of a transfer.
pub(in crate::expand) enum Candidates {
    /// None are needed: the inverse is one expression.
    Closed,
    /// All ranks of the group.
    All,
    /// The ranks with the same quotient.
    Quotient(Quotient),
    /// Ranks at these distances: `table[step * most + u]`, with 0 where a step has fewer than
    /// `most`. The step number is 0 if all steps have the same distances.
    Distances { values: Vec<i64>, most: i64, step: Expr },
}

/// A peer `(v + b) / d + c`, where `v = own + s`, modulo the size if the program text has the
/// `mod`.
pub(in crate::expand) struct Quotient {
    s: Expr,
    b: i64,
    pub(in crate::expand) d: i64,
    c: Expr,
    /// Whether `v` is reduced modulo the size.
    turned: bool,
    /// The lowest quotient that occurs.
    lowest: i64,
}

/// Returns `(rest, constant)` with `e == rest + constant`.
fn constant(e: &Expr) -> (Expr, i64) {
    match e {
        Expr::Bin(BinOp::Add, a, b) => match (a.as_int(), b.as_int()) {
            (_, Some(k)) => ((**a).clone(), k),
            (Some(k), _) => ((**b).clone(), k),
            _ => (e.clone(), 0),
        },
        Expr::Bin(BinOp::Sub, a, b) => match b.as_int() {
            Some(k) => ((**a).clone(), -k),
            None => (e.clone(), 0),
        },
        _ => (e.clone(), 0),
    }
}

impl Quotient {
    /// Recognises this form in a peer on one axis of `size` ranks. With `b <= 0 < d` a candidate is
    /// never nearer than its quotient, so candidates sorted by remainder are sorted by (owner -
    /// receiver) mod p.
    fn of(peer: &Expr, own: &Expr, size: i64, ranges: &Ranges) -> Option<Quotient> {
        let (quotient, c) = match peer {
            Expr::Bin(BinOp::Add, a, b) if ranges.uniform(b) => (&**a, (**b).clone()),
            Expr::Bin(BinOp::Add, a, b) if ranges.uniform(a) => (&**b, (**a).clone()),
            Expr::Bin(BinOp::Sub, a, b) if ranges.uniform(b) => (&**a, Expr::Int(0) - (**b).clone()),
            e => (e, Expr::Int(0)),
        };
        let Expr::Bin(BinOp::Div, above, d) = quotient else { return None };
        let d = d.as_int().filter(|d| *d > 1)?;
        let (v, b) = constant(above);
        let (s, turned) = match &v {
            v if v == own => (Expr::Int(0), false),
            Expr::Bin(BinOp::Mod, x, k) if k.as_int() == Some(size) => {
                (shift(x, own, Some(size), ranges)?, true)
            }
            _ => return None,
        };
        (b <= 0).then(|| Quotient { s, b, d, c, turned, lowest: b.div_euclid(d) })
    }

    /// Returns `v` of an owner.
    fn value(&self, own: &Expr, size: i64) -> Expr {
        match self.turned {
            true => (own.clone() + self.s.clone()).modulo(size),
            false => own.clone(),
        }
    }

    /// Returns `v` of candidate number `u` of a receiver.
    fn at(&self, receiver: &Expr, u: &Expr, size: i64, wraps: bool, ranges: &Ranges) -> Expr {
        let target = receiver.clone() - self.c.clone();
        // Quotients range upwards from the lowest, over fewer than `size` values.
        let lowest = || Expr::Int(self.lowest);
        let target = match wraps {
            true => ranges.wrap(&(target - lowest()).simplify(), &Expr::Int(size)) + lowest(),
            false => target,
        };
        (target * Expr::Int(self.d) - Expr::Int(self.b) + u.clone()).simplify()
    }

    /// Returns the number of an owner among the candidates of its peer.
    pub(in crate::expand) fn number(&self, own: &Expr, size: i64) -> Expr {
        (self.value(own, size) + Expr::Int(self.b)).modulo(self.d).simplify()
    }
}

/// A candidate: the generator of its number, its group coordinates, and the condition that it is
/// one.
pub(in crate::expand) struct Tried {
    pub(in crate::expand) each: Gen,
    pub(in crate::expand) own: Vec<Expr>,
    pub(in crate::expand) guard: Expr,
    /// Whether the candidate's peer is the receiver by construction.
    pub(in crate::expand) sure: bool,
}

impl Candidates {
    /// Returns the candidates of a receiver, as a loop.
    pub(in crate::expand) fn tried(&self, t: &Transfer, b: &mut Builder<'_>) -> Tried {
        let ranks: i64 = t.group.sizes.iter().product();
        let var = b.cx.fresh.name("u");
        let u = Expr::Var(var.clone());
        let (lo, hi) = match self {
            Candidates::Closed | Candidates::All => (1, ranks),
            Candidates::Quotient(q) => (0, q.d),
            Candidates::Distances { most, .. } => (0, *most),
        };
        let (lo, hi) = (Expr::Int(lo), Expr::Int(hi));
        b.cx.ranges.bind(&var, &lo, &hi);
        let me = t.group.linear(&t.group.own);
        let (own, guard, sure) = match self {
            Candidates::Closed | Candidates::All => {
                (t.group.digits(&(me + u).modulo(ranks)), Expr::Int(1), false)
            }
            Candidates::Quotient(q) => {
                let v = tidy(&q.at(&me, &u, ranks, t.group.wraps[0], &b.cx.ranges), &b.cx.ranges);
                let guard = in_range(&v, ranks, &b.cx.ranges);
                let at = match q.turned {
                    true => (v - q.s.clone()).modulo(ranks),
                    false => v,
                };
                (vec![at], guard, true)
            }
            Candidates::Distances { values, most, step } => {
                let index = (step.clone() * Expr::Int(*most) + u).simplify();
                let distance = b.table_at("from", values.clone(), index);
                let guard = match values.contains(&0) {
                    true => Expr::bin(BinOp::Gt, distance.clone(), Expr::Int(0)),
                    false => Expr::Int(1),
                };
                (t.group.digits(&(me + distance).modulo(ranks)), guard, false)
            }
        };
        Tried { each: Gen { var, lo, hi }, own, guard, sure }
    }
}

impl Builder<'_> {
    /// Returns the candidates of a transfer inside these loops.
    pub(in crate::expand) fn candidates(
        &self,
        t: &Transfer,
        forms: &[Form],
        loops: &[Gen],
    ) -> Res<Candidates> {
        if !forms.contains(&Form::Other) {
            return Ok(Candidates::Closed);
        }
        let ranges = &self.cx.ranges;
        if let ([peer], [own], [size]) = (&t.peer[..], &t.group.own[..], &t.group.sizes[..])
            && let Some(mut q) = Quotient::of(peer, own, *size, ranges)
            && q.d < *size
        {
            let below = Expr::bin(BinOp::Lt, q.value(own, *size) + Expr::Int(q.b), Expr::Int(0));
            if !self.possible(&t.guard.clone().and(below), t, loops).0 {
                q.lowest = 0;
            }
            return Ok(Candidates::Quotient(q));
        }
        let ranks: i64 = t.group.sizes.iter().product();
        if ranks <= SEARCHED {
            return Ok(Candidates::All);
        }
        Ok(self.distances(t, loops, ranks)?.unwrap_or(Candidates::All))
    }

    /// Returns the distances that occur in each step, if they are few and can be enumerated.
    fn distances(&self, t: &Transfer, loops: &[Gen], ranks: i64) -> Res<Option<Candidates>> {
        let (step, steps) = self.numbered(loops, t.span)?;
        let Some(steps) = usize::try_from(steps).ok().filter(|s| *s <= MAX_STEPS) else {
            return Ok(None);
        };
        let mut gens = loops.to_vec();
        gens.extend(t.each.iter().cloned());
        let me = t.group.linear(&t.group.own);
        let peer = t.group.linear(&t.wrapped_peer(&self.cx.ranges));
        let mut found: Vec<BTreeSet<i64>> = vec![BTreeSet::new(); steps];
        let few = ranks as usize / 8;
        let choices = self.choices(&gens, true, &self.tables);
        let guard = choices.ready(&t.guard);
        let (me, peer, number) = (choices.ready(&me), choices.ready(&peer), choices.ready(&step));
        let value = |e: &ChoiceExpr, at: &[i64]| choices.value(e, at);
        let whole = choices.each(&mut |at| {
            if choices.holds(&guard, at)
                && let (Ok(me), Ok(peer), Ok(at)) = (value(&me, at), value(&peer, at), value(&number, at))
                && let Some(set) = usize::try_from(at).ok().and_then(|at| found.get_mut(at))
            {
                set.insert((me - peer).rem_euclid(ranks));
                return set.len() <= few;
            }
            true
        });
        for set in &mut found {
            set.remove(&0);
        }
        let most = found.iter().map(BTreeSet::len).max().unwrap_or(0).max(1);
        if !whole || most > few {
            return Ok(None);
        }
        let same = found.windows(2).all(|w| w[0] == w[1]);
        let kept = if same { &found[..found.len().min(1)] } else { &found[..] };
        let padded = kept.iter().flat_map(|set| {
            set.iter().copied().chain(std::iter::repeat_n(0, most - set.len())).collect::<Vec<_>>()
        });
        let step = if same { Expr::Int(0) } else { step };
        Ok(Some(Candidates::Distances { values: padded.collect(), most: most as i64, step }))
    }
}
