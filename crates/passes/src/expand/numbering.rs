//! Numbering of messages and slots, and the enumeration of ranks and steps that it needs.
//!
//! A message has a number among those of its window that reach its receiver in a call, and its
//! pieces are in slots of their own, one after another. Numbers are expressions wherever possible.
//! If only ranks and steps together determine who sends what, numbers are entries of a table.

use super::body::Transfer;
use super::emit::{Emitter, Message};
use super::inverse::Candidates;
use super::message::Form;
use super::region::{Gen, Region};
use super::sym::{Res, not_symbolic};
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::expr::Expr;

/// The numbers of a message.
pub(super) struct Numbers {
    /// Number of the message among those of its window to that receiver in a call.
    pub(super) message: Expr,
    /// Slot of a piece: an expression in the generators of the pieces.
    pub(super) slot: Expr,
    /// Number of slots of the window.
    pub(super) slots: i64,
}

/// A message found by enumeration.
struct Sent {
    to: i64,
    step: i64,
    owner: i64,
    /// (owner - receiver) mod p.
    distance: i64,
}

/// The values of variables.
pub(super) type Look<'e> = dyn Fn(&Name) -> Option<i64> + 'e;

/// Limit of evaluations for numbering messages.
const MAX_ENUMERATED: i64 = 1 << 20;

/// Largest number of steps whose messages may have different numbers of slots.
pub(super) const MAX_STEPS: usize = 4096;

impl Emitter<'_, '_> {
    /// Returns whether a condition can be true and whether it can be false, over all ranks, steps
    /// and generators.
    pub(super) fn possible(&self, cond: &Expr, t: &Transfer, loops: &[Gen]) -> (bool, bool) {
        self.possible_where(&Expr::Int(1), cond, t, loops)
    }

    /// Returns the same where a guard holds.
    pub(super) fn possible_where(
        &self,
        guard: &Expr,
        cond: &Expr,
        t: &Transfer,
        loops: &[Gen],
    ) -> (bool, bool) {
        if let Some(v) = cond.as_int() {
            return (v != 0, v == 0);
        }
        let mut gens: Vec<Gen> = loops.to_vec();
        gens.extend(t.each.iter().cloned());
        let over_ranks = !(self.b.cx.ranges.uniform(cond) && self.b.cx.ranges.uniform(guard));
        let (mut yes, mut no) = (false, false);
        let done = self.enumerate(&gens, over_ranks, &mut |env| {
            if guard.eval(&env) == Ok(0) {
                return true;
            }
            match cond.eval(&env) {
                Ok(0) => no = true,
                Ok(_) => yes = true,
                Err(_) => (yes, no) = (true, true),
            }
            !(yes && no)
        });
        if done { (yes, no) } else { (true, true) }
    }

    /// Calls `f` for every value of the generators (and every rank). Returns false if there are too
    /// many.
    pub(super) fn enumerate(&self, gens: &[Gen], ranks: bool, f: &mut dyn FnMut(&Look<'_>) -> bool) -> bool {
        let mut budget = MAX_ENUMERATED;
        let total = if ranks { self.b.world.ranks() } else { 1 };
        for rank in 0..total {
            let at = self.b.world.split(rank);
            let mut env: Vec<(Name, i64)> =
                self.b.world.coords.iter().zip(at).map(|((n, _), v)| (n.clone(), v)).collect();
            if !ranks {
                env.clear();
            }
            match self.turn(gens, &mut env, &mut budget, f) {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
        true
    }

    /// Runs one generator after another. Returns `Some(false)` when `f` asks to stop, and `None`
    /// when the budget is used up.
    fn turn(
        &self,
        gens: &[Gen],
        env: &mut Vec<(Name, i64)>,
        budget: &mut i64,
        f: &mut dyn FnMut(&Look<'_>) -> bool,
    ) -> Option<bool> {
        let Some((g, rest)) = gens.split_first() else {
            *budget -= 1;
            if *budget < 0 {
                return None;
            }
            let look = |n: &Name| env.iter().rev().find(|(m, _)| m == n).map(|e| e.1);
            return Some(f(&look));
        };
        let (lo, hi) = {
            let look = |n: &Name| env.iter().rev().find(|(m, _)| m == n).map(|e| e.1);
            (g.lo.eval(&look).ok()?, g.hi.eval(&look).ok()?)
        };
        for v in lo..hi {
            env.push((g.var.clone(), v));
            let go = self.turn(rest, env, budget, f);
            env.pop();
            if go != Some(true) {
                return go;
            }
        }
        Some(true)
    }

    /// Returns the numbers of a message, as expressions of the owner.
    pub(super) fn numbers(&mut self, m: &Message, among: &Candidates, loops: &[Gen]) -> Res<Numbers> {
        let t = &m.like;
        let mut pieces = (Expr::Int(0), 1);
        self.number(&t.src.gens, &mut pieces, t.span)?;
        let (piece, per) = pieces;
        let mut all = match &t.step {
            Some(step) => step.clone(),
            None => self.numbered(loops, t.span)?,
        };
        self.number(&t.each, &mut all, t.span)?;
        let (step, steps) = all;
        let mut gens = loops.to_vec();
        gens.extend(t.each.iter().cloned());
        let sizes = self.sizes(t, &gens, (&step, steps));
        let plain = |message: Expr, messages: i64| Numbers {
            slot: message.clone() * Expr::Int(per) + piece.clone(),
            slots: messages * per,
            message,
        };
        let by_step = |me: &mut Self| match &sizes {
            None => plain(step.clone(), steps),
            Some(sizes) => {
                let first = sums(sizes.iter().copied());
                let slots = first.last().zip(sizes.last()).map_or(0, |(a, b)| a + b);
                let slot = me.b.table_at("first", first, step.clone()) + piece.clone();
                Numbers { message: step.clone(), slot, slots: slots.max(1) }
            }
        };
        let search = m.forms.contains(&Form::Other);
        if !search && self.b.cx.ranges.uniform(&t.guard) {
            return Ok(by_step(self));
        }
        // Finds who sends what to whom, so that no slots are kept for messages that never come.
        let world = self.b.world.clone();
        let owner = world.linear(&world.own());
        let peer = world.linear(&t.group.region_coords(&t.wrapped_peer(&self.b.cx.ranges))?);
        let mut list: Vec<Sent> = vec![];
        let tables = self.b.tables.clone();
        let whole = self.enumerate(&gens, true, &mut |env| {
            let env = WithTables { env, tables: &tables };
            if t.guard.eval(&env).is_ok_and(|v| v != 0)
                && let (Ok(owner), Ok(peer), Ok(step)) = (owner.eval(&env), peer.eval(&env), step.eval(&env))
            {
                let (to, distance) = if t.get { (owner, 0) } else { (peer, owner - peer) };
                list.push(Sent { to, step, owner, distance: distance.rem_euclid(world.ranks()) });
            }
            true
        });
        let ranks = world.ranks();
        let once = || distinct(list.iter().map(|x| x.owner));
        if let (Candidates::Quotient(q), None) = (among, &sizes) {
            let number = q.number(&t.group.own[0], t.group.sizes[0]);
            // A rank that gets has one source per step.
            let (number, of) = if t.get { (Expr::Int(0), 1) } else { (number, q.d) };
            return Ok(match whole && once() {
                true => plain(number, of),
                false => plain(step * Expr::Int(of) + number, steps * of),
            });
        }
        if !whole {
            return Ok(if search {
                plain(step * Expr::Int(ranks) + owner, steps * ranks)
            } else {
                by_step(self)
            });
        }
        if once() {
            return Ok(self.by_owner(list, &sizes, per, (owner, piece)));
        }
        if distinct(list.iter().map(|x| (x.to, x.step))) {
            return Ok(by_step(self));
        }
        Ok(plain(step * Expr::Int(ranks) + owner, steps * ranks))
    }

    /// Numbers messages if every rank sends once: each receiver numbers its messages in the order
    /// in which they are received.
    fn by_owner(
        &mut self,
        mut list: Vec<Sent>,
        sizes: &Option<Vec<i64>>,
        per: i64,
        (owner, piece): (Expr, Expr),
    ) -> Numbers {
        let ranks = self.b.world.ranks() as usize;
        list.sort_by_key(|x| (x.to, x.step, x.distance));
        let (mut order, mut first) = (vec![0; ranks], vec![0; ranks]);
        let (mut last, mut n, mut at, mut most) = (None, 0, 0, 0);
        for x in &list {
            if last != Some(x.to) {
                (last, n, at) = (Some(x.to), 0, 0);
            }
            (order[x.owner as usize], first[x.owner as usize]) = (n, at);
            n += 1;
            at += sizes.as_ref().and_then(|s| s.get(x.step as usize).copied()).unwrap_or(per);
            most = most.max(at);
        }
        Numbers {
            message: self.b.table_at("order", order, owner.clone()),
            slot: if sizes.is_none() && per == 1 {
                self.b.table_at("order", first, owner)
            } else {
                self.b.table_at("first", first, owner) + piece
            },
            slots: most.max(1),
        }
    }

    /// Returns the number of pieces of the message of each step, if it differs from step to step.
    fn sizes(&self, t: &Transfer, gens: &[Gen], (step, steps): (&Expr, i64)) -> Option<Vec<i64>> {
        let [list] = &t.src.gens[..] else { return None };
        if !gens.iter().any(|g| list.lo.mentions(&g.var) || list.hi.mentions(&g.var)) {
            return None;
        }
        let (lo, _) = self.b.cx.ranges.interval(&list.lo)?;
        let mut out = vec![0; usize::try_from(steps).ok().filter(|s| *s <= MAX_STEPS)?];
        let whole = self.enumerate(gens, false, &mut |env| {
            let (Ok(at), Ok(hi)) = (step.eval(&env), list.hi.eval(&env)) else { return false };
            let Some(size) = usize::try_from(at).ok().and_then(|at| out.get_mut(at)) else { return false };
            *size = (hi - lo).max(0);
            true
        });
        let visited = whole && out.iter().sum::<i64>() > 0;
        visited.then_some(out)
    }

    /// Returns the number of a step of these loops, and the number of steps.
    pub(super) fn numbered(&self, loops: &[Gen], span: Span) -> Res<(Expr, i64)> {
        let mut all = (Expr::Int(0), 1);
        self.number(loops, &mut all, span)?;
        Ok(all)
    }

    /// Returns variables together with the existing tables.
    pub(super) fn with_tables<'e>(&'e self, env: &'e Look<'e>) -> impl kbc_ir::expr::Env + 'e {
        WithTables { env, tables: &self.b.tables }
    }

    /// Appends generator values to a mixed-radix number: (expression, count).
    fn number(&self, gens: &[Gen], to: &mut (Expr, i64), span: Span) -> Res<()> {
        for g in gens {
            let (lo, hi) = (self.b.cx.ranges.interval(&g.lo), self.b.cx.ranges.interval(&g.hi));
            let (Some(lo), Some(hi)) = (lo, hi) else {
                return not_symbolic("a loop whose bounds have no known range", span);
            };
            let extent = (hi.1 - lo.0).max(1);
            to.0 = to.0.clone() * Expr::Int(extent) + (Expr::Var(g.var.clone()) - Expr::Int(lo.0));
            to.1 =
                to.1.checked_mul(extent)
                    .filter(|n| *n < 1 << 31)
                    .map_or_else(|| not_symbolic("more slots than can be numbered", span), Ok)?;
        }
        Ok(())
    }

    /// Returns the largest chunks of a region's runs over all steps, as (chunks, of).
    pub(super) fn largest(&self, r: &Region, loops: &[Gen], each: &[Gen]) -> Vec<(i64, i64)> {
        let den = r.path.iter().fold(Expr::Int(1), |d, p| d * p.of.clone());
        let len = r.path.last().map_or(Expr::Int(1), |p| p.len.clone());
        if let (Some(l), Some(d)) = (len.as_int(), den.as_int()) {
            return vec![(l, d)];
        }
        let mut gens = loops.to_vec();
        gens.extend(each.iter().cloned());
        let ranks = !(self.b.cx.ranges.uniform(&len) && self.b.cx.ranges.uniform(&den));
        let mut out: Vec<(i64, i64)> = vec![];
        let whole = self.enumerate(&gens, ranks, &mut |env| {
            if let (Ok(l), Ok(d)) = (len.eval(&env), den.eval(&env)) {
                let pair = (l, d);
                if !out.contains(&pair) {
                    out.push(pair);
                }
            }
            true
        });
        if whole && !out.is_empty() { out } else { vec![(1, 1)] }
    }
}

fn distinct<K: Ord>(keys: impl Iterator<Item = K>) -> bool {
    let mut keys: Vec<K> = keys.collect();
    keys.sort_unstable();
    keys.windows(2).all(|w| w[0] != w[1])
}

/// Returns for each entry the sum of the entries before it.
fn sums(sizes: impl Iterator<Item = i64>) -> Vec<i64> {
    sizes
        .scan(0, |sum, n| {
            let before = *sum;
            *sum += n;
            Some(before)
        })
        .collect()
}

struct WithTables<'a> {
    env: &'a dyn Fn(&Name) -> Option<i64>,
    tables: &'a [kbc_ir::schedule::Table],
}

impl kbc_ir::expr::Env for WithTables<'_> {
    fn var(&self, name: &Name) -> Option<i64> {
        (self.env)(name)
    }
    fn table(&self, name: &Name, index: i64) -> Option<i64> {
        let t = self.tables.iter().find(|t| t.name == *name)?;
        t.values.get(usize::try_from(index).ok()?).copied()
    }
}
