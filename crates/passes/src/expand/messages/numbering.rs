//! Numbering of messages and slots.
//!
//! A message has a number among those of its window that reach its receiver in a call, and its
//! pieces are in slots of their own, one after another. Numbers are expressions wherever possible.
//! If only ranks and steps together determine who sends what, numbers are entries of a table.

use super::enumerate::{ChoiceExpr, MAX_STEPS};
use super::forms::Form;
use super::inverse::Candidates;
use super::message::Message;
use crate::expand::interpret::{Builder, Gen, Res, Transfer};
use kbc_ir::expr::Expr;

/// The numbers of a message.
pub(in crate::expand) struct Numbers {
    /// Number of the message among those of its window to that receiver in a call.
    pub(in crate::expand) message: Expr,
    /// Slot of a piece: an expression in the generators of the pieces.
    pub(in crate::expand) slot: Expr,
    /// Number of slots of the window.
    pub(in crate::expand) slots: i64,
}

/// A message found by enumeration.
struct Sent {
    to: i64,
    step: i64,
    owner: i64,
    /// (owner - receiver) mod p.
    distance: i64,
}

impl Builder<'_> {
    /// Returns the numbers of a message, as expressions of the owner.
    pub(in crate::expand) fn numbers(
        &mut self,
        m: &Message,
        among: &Candidates,
        loops: &[Gen],
    ) -> Res<Numbers> {
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
                let slot = me.table_at("first", first, step.clone()) + piece.clone();
                Numbers { message: step.clone(), slot, slots: slots.max(1) }
            }
        };
        let search = m.forms.contains(&Form::Other);
        if !search && self.cx.ranges.uniform(&t.guard) {
            return Ok(by_step(self));
        }
        // Finds who sends what to whom, so that no slots are kept for messages that never come.
        let world = self.world.clone();
        let owner = world.linear(&world.own());
        let peer = world.linear(&t.group.region_coords(&t.wrapped_peer(&self.cx.ranges))?);
        let mut list: Vec<Sent> = vec![];
        let choices = self.choices(&gens, true, &self.tables);
        let guard = choices.ready(&t.guard);
        let [own, to, number] = [&owner, &peer, &step].map(|e| choices.ready(e));
        let value = |e: &ChoiceExpr, at: &[i64]| choices.value(e, at);
        let whole = choices.each(&mut |at| {
            if choices.holds(&guard, at)
                && let (Ok(owner), Ok(peer), Ok(step)) = (value(&own, at), value(&to, at), value(&number, at))
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
        let ranks = self.world.ranks() as usize;
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
            message: self.table_at("order", order, owner.clone()),
            slot: if sizes.is_none() && per == 1 {
                self.table_at("order", first, owner)
            } else {
                self.table_at("first", first, owner) + piece
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
        let (lo, _) = self.cx.ranges.interval(&list.lo)?;
        let mut out = vec![0; usize::try_from(steps).ok().filter(|s| *s <= MAX_STEPS)?];
        let choices = self.choices(gens, false, &[]);
        let (step, last) = (choices.ready(step), choices.ready(&list.hi));
        let whole = choices.each(&mut |at| {
            let (Ok(at), Ok(hi)) = (choices.value(&step, at), choices.value(&last, at)) else { return false };
            let Some(size) = usize::try_from(at).ok().and_then(|at| out.get_mut(at)) else { return false };
            *size = (hi - lo).max(0);
            true
        });
        let visited = whole && out.iter().sum::<i64>() > 0;
        visited.then_some(out)
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
