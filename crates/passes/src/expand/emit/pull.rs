//! Pulled messages (`transfer: pull`): the slots belong to the sender, and receivers fetch from
//! them.
//!
//! The sender copies into a slot of its own window and publishes. The receiver waits, gets, and
//! frees the slot. So the four points of a message are those of a put, and everything that follows
//! from them (credits, alternate slots, signals) is derived in the same way. Data that only
//! replaces is fetched to its destination, all of a round before one `fence.complete`. Data that is
//! added, or that goes to several places, is fetched into scratch, message by message, and used
//! from there. With `transfer: rendezvous`, the sender waits at the end of its stream until its
//! slots are free, and not before it writes to them again. With `transfer: switch`, data of several
//! senders that one receiver adds is fetched at once, each combined into the same scratch
//! (`get.combine`), so that switches can add it. This module also decides which slots of a sender
//! its messages use: data that is evidently the same for several receivers is stored once.

use super::emitter::{Emitter, Ends, WindowDraft, around, guarded};
use crate::expand::interpret::{Gen, Mover, Res, Transfer};
use crate::expand::messages::{Candidates, End, Landing, Message, Numbers, at_owner};
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_ir::schedule::{Mark, Peer, Point, Ref, SOp, SStmt, WindowId};

impl Emitter<'_, '_> {
    /// Emits a message of a round as a fetch. `alone` states that it is the only message of the
    /// round.
    pub(in crate::expand) fn pulled(&mut self, m: &Message, loops: &[Gen], alone: bool) -> Res<Ends> {
        let t = &m.like;
        let mut owner = t.owner_end(self.b)?;
        let among = self.b.candidates(t, &m.forms, loops)?;
        let mut other = t.other_end(&m.forms, &among, self.b)?;
        let numbers = self.b.numbers(m, &among, loops)?;
        let fits = (t.src.operand, self.b.largest(&t.src, loops, &t.each));
        let shared = if self.marks.slots.is_none() { self.shared(m, &among, &owner, &other) } else { vec![] };
        let (at, Numbers { message, slot, .. }) = match self.marks.slots {
            Some(k) => self.rotation(t, k, numbers, (fits, loops), &owner.peer)?,
            None => {
                let numbers = self.at_sender(m, &among, loops, (numbers, &shared))?;
                let slots = numbers.slots;
                self.windows.push(WindowDraft { slots, fits, span: t.span, round: None });
                (self.windows.len() - 1, numbers)
            }
        };
        let window = WindowId(self.first_window + at as u32);
        if !t.get && m.dsts.iter().any(|d| d.adds) {
            self.reverse_if_needed(t, &m.forms, loops, &mut other)?;
        }
        // Data that is added comes in the order of additions. Other data is fetched from the peers
        // in turn.
        let straight = matches!(&m.dsts[..], [d] if !d.adds && d.cond.is_true());
        if straight {
            let receiver = if t.get { &mut owner } else { &mut other };
            self.take_turns(t, receiver);
        }
        let (sender, receiver) = if t.get { (&other, &owner) } else { (&owner, &other) };
        let mark = |me: &Self, point, end: &End| {
            let slot = at_owner(&message, &end.owner, me.b);
            SStmt::Op(SOp::Mark(Mark { point, peer: end.peer.clone().into(), window, slot }), t.span)
        };
        let place = |me: &Self, end: &End| Ref::Slot { window, slot: at_owner(&slot, &end.owner, me.b) };
        let rendezvous = self.marks.transfer == Mover::Rendezvous;
        let reserve = (self.marks.reuse && !rendezvous).then(|| mark(self, Point::Reserve, sender));
        if self.marks.reuse && rendezvous {
            let settle = around(sender, vec![mark(self, Point::Settle, sender)]);
            let inside = loops.iter().rev().fold(settle, |body, g| {
                vec![SStmt::For { var: g.var.clone(), lo: g.lo.clone(), hi: g.hi.clone(), body }]
            });
            self.settles.extend(inside);
        }
        let free = self.marks.reuse.then(|| mark(self, Point::Free, receiver));
        let publish = mark(self, Point::Publish, sender);
        let copy = SOp::Copy { dst: place(self, sender), src: self.chunk(&t.src, sender) };
        let copy = self.pieces(&t.src, sender, vec![SStmt::Op(copy, t.span)]);
        let sends = if shared.is_empty() {
            around(sender, reserve.into_iter().chain(copy).chain([publish]).collect())
        } else {
            let once = End {
                loops: sender.loops.iter().filter(|g| !shared.contains(&g.var)).cloned().collect(),
                outer: sender.outer.clone(),
                guard: sender.guard.clone(),
                peer: sender.peer.clone(),
                owner: sender.owner.clone(),
                turn: None,
            };
            let mut sends = reserve.map_or_else(Vec::new, |r| around(sender, vec![r]));
            sends.extend(around(&once, copy));
            sends.extend(around(sender, vec![publish]));
            sends
        };
        let expect = mark(self, Point::Expect, receiver);
        let get =
            |me: &Self, dst| SOp::Get { dst, peer: receiver.peer.clone().into(), src: place(me, receiver) };
        let complete = || SStmt::Op(SOp::FenceComplete, t.span);
        if self.marks.transfer == Mover::Switch
            && let Some((source, d)) = self.added_by_switches(m, receiver, loops)
        {
            let ends = self.sum(d, receiver, source, (expect, place(self, receiver)), free);
            return Ok(Ends { publishes: sends, ..ends });
        }
        let mut receive = vec![expect];
        let first = &m.dsts[0];
        if straight {
            let d = first;
            let get = get(self, self.chunk(&d.to, receiver));
            receive.extend(self.pieces(&d.to, receiver, vec![SStmt::Op(get, d.span)]));
            if alone && receiver.loops.is_empty() {
                receive.push(complete());
                receive.extend(free);
                return Ok(Ends { sends, receives: around(receiver, receive), ..Ends::default() });
            }
            let frees = free.map_or_else(Vec::new, |f| around(receiver, vec![f]));
            return Ok(Ends { sends, fetches: around(receiver, receive), frees, ..Ends::default() });
        }
        let mut fetched = first.to.clone();
        fetched.operand = self.fetched(first.to.operand);
        let get = get(self, self.chunk(&fetched, receiver));
        receive.extend(self.pieces(&fetched, receiver, vec![SStmt::Op(get, t.span)]));
        receive.push(complete());
        for d in &m.dsts {
            let (dst, src) = (self.chunk(&d.to, receiver), self.chunk(&fetched, receiver));
            let op = match d.adds {
                true => SOp::Reduce { op: self.red, dst, src },
                false => SOp::Copy { dst, src },
            };
            let done = self.pieces(&d.to, receiver, vec![SStmt::Op(op, d.span)]);
            receive.extend(guarded(&at_owner(&d.cond, &receiver.owner, self.b), done));
        }
        // The sender waits for it at the end only.
        let frees = free.as_ref().filter(|_| rendezvous);
        let frees = frees.map_or_else(Vec::new, |f| around(receiver, vec![f.clone()]));
        receive.extend(free.filter(|_| !rendezvous));
        Ok(Ends { sends, receives: around(receiver, receive), frees, ..Ends::default() })
    }

    /// Returns the generator of the senders, and the destination, if a receiver adds data of
    /// several senders to one place, so that switches can add it.
    fn added_by_switches<'m>(
        &self,
        m: &'m Message,
        receiver: &End,
        loops: &[Gen],
    ) -> Option<(Gen, &'m Landing)> {
        let ([d], [source]) = (&m.dsts[..], &receiver.loops[..]) else { return None };
        // On two ranks there is one sender.
        let least = if self.b.world.ranks() == 2 { 1 } else { 2 };
        let several =
            matches!((source.lo.as_int(), source.hi.as_int()), (Some(lo), Some(hi)) if hi - lo >= least);
        let mut dst = self.chunk(&d.to, receiver);
        let mut one_place = true;
        dst.each_expr_mut(&mut |e| one_place &= !e.mentions(&source.var));
        let whole = m.like.src.gens.is_empty() && d.to.gens.is_empty();
        // The sources that a condition leaves out may be none of those that there are.
        let like = Transfer { each: vec![], ..m.like.clone() };
        let around_it: Vec<Gen> = loops.iter().chain(&receiver.loops).cloned().collect();
        let all = !self.b.possible_where(&receiver.outer, &receiver.guard, &like, &around_it).1;
        let adds = several && one_place && whole && all && d.adds && d.cond.is_true();
        adds.then(|| (source.clone(), d))
    }

    /// Emits the receiver's end of messages from several senders whose data is added to one place:
    /// it waits for all of them, fetches their sum from their slots, and adds that.
    fn sum(
        &mut self,
        d: &Landing,
        receiver: &End,
        source: Gen,
        (expect, slot): (SStmt, Ref),
        free: Option<SStmt>,
    ) -> Ends {
        self.sums = true;
        let mut fetched = d.to.clone();
        fetched.operand = self.fetched(d.to.operand);
        let (dst, src) = (self.chunk(&d.to, receiver), self.chunk(&fetched, receiver));
        let peer = Peer::from(receiver.peer.clone());
        let get = SOp::Get { dst: src.clone(), peer: peer.clone(), src: slot.clone() };
        let more = SOp::GetCombine { op: self.red, dst: src.clone(), peer, src: slot };
        let cond = Expr::var(source.var).equals(source.lo);
        let one = |op| vec![SStmt::Op(op, d.span)];
        let all = End { turn: None, guard: Expr::Int(1), ..receiver.clone() };
        let once = End { loops: vec![], ..all.clone() };
        let mut asks = around(&all, vec![expect]);
        asks.extend(around(&all, vec![SStmt::If { cond, then: one(get), other: one(more) }]));
        let sum = SStmt::Op(SOp::Reduce { op: self.red, dst, src }, d.span);
        let sums = around(&once, vec![sum]);
        let frees = free.map_or_else(Vec::new, |f| around(&all, vec![f]));
        Ends { asks, sums, frees, ..Ends::default() }
    }

    /// Returns the generators for all of whose values the sender sends the same data. That data is
    /// stored in one slot and copied there once.
    ///
    /// Returns none if some values send nothing: the copy would then read data that nobody needs
    /// and that may be undefined.
    fn shared(&self, m: &Message, among: &Candidates, owner: &End, other: &End) -> Vec<Name> {
        let t = &m.like;
        if !matches!(among, Candidates::Closed) {
            return vec![];
        }
        let sender = if t.get { other } else { owner };
        let see = |e: &Expr| at_owner(e, &sender.owner, self.b);
        let region = &t.src;
        let path = region.path.iter().flat_map(|p| [&p.index, &p.len, &p.of]);
        let bounds = region.gens.iter().flat_map(|g| [&g.lo, &g.hi]);
        let seen: Vec<Expr> = path.chain(bounds).chain(&region.guard).map(see).collect();
        let same = |g: &&Gen| {
            let certain = matches!((g.lo.as_int(), g.hi.as_int()), (Some(lo), Some(hi)) if lo < hi);
            let apart = |e: &Expr| !e.mentions(&g.var);
            let others = sender.loops.iter().all(|o| apart(&o.lo) && apart(&o.hi));
            certain && others && apart(&sender.guard) && apart(&sender.outer) && seen.iter().all(apart)
        };
        sender.loops.iter().filter(same).map(|g| g.var.clone()).collect()
    }

    /// Returns the numbers with slots counted among those of the sender. Message numbers are those
    /// that the receiver knows.
    fn at_sender(
        &mut self,
        m: &Message,
        among: &Candidates,
        loops: &[Gen],
        (numbers, shared): (Numbers, &[Name]),
    ) -> Res<Numbers> {
        let t = &m.like;
        if !t.get && shared.is_empty() {
            // Two messages of one sender have different numbers as well.
            return Ok(numbers);
        }
        let (step, steps) = match &t.step {
            Some(step) => step.clone(),
            None => self.b.numbered(loops, t.span)?,
        };
        let each: Vec<Gen> = t.each.iter().filter(|g| !shared.contains(&g.var)).cloned().collect();
        let ((which, those), (piece, per)) =
            (self.b.numbered(&each, t.span)?, self.b.numbered(&t.src.gens, t.span)?);
        let (mut slot, mut slots) = (step * Expr::Int(those) + which, steps * those);
        if t.get && !matches!(among, Candidates::Closed) {
            // Several ranks may fetch in one step.
            let world = self.b.world.clone();
            slot = slot * Expr::Int(world.ranks()) + world.linear(&world.own());
            slots *= world.ranks();
        }
        Ok(Numbers {
            slot: (slot * Expr::Int(per) + piece).simplify(),
            slots: slots * per,
            message: numbers.message,
        })
    }

    /// Returns the scratch operand for data fetched for an operand and not used yet. There is one
    /// for the whole region.
    fn fetched(&mut self, operand: u32) -> u32 {
        match self.fetched.iter().find(|f| f.0 == operand) {
            Some((_, scratch)) => *scratch,
            None => {
                let scratch = self.b.stage(operand);
                self.fetched.push((operand, scratch));
                scratch
            }
        }
    }
}
