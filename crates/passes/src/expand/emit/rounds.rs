//! Emission of operations: rounds as operations of a role, in program order.
//!
//! In each round a rank performs its sends, then its local moves, then its receives. Every message
//! lands in a slot of its own, and its four points remain marks until `synchronize`. This module
//! numbers slots and determines the order in which reductions add.

use super::emitter::{CORE, Emitter, Ends, Fits, Rotation, WindowDraft, around, guarded};
use crate::expand::interpret::{Gen, IntoStop, Node, Region, Res, Transfer, not_symbolic, refused};
use crate::expand::messages::{End, Form, Landing, Message, Numbers, at_owner, tidy};
use kbc_diag::Span;
use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::schedule::{Mark, OperandId, Part, Point, Ref, SOp, SStmt, WindowId};

/// The operations of a round.
struct EmittedRound {
    ends: Ends,
    /// Local moves.
    moves: Vec<SStmt>,
    span: Span,
}

impl EmittedRound {
    /// Returns the operations in program order.
    fn statements(self) -> Vec<SStmt> {
        let Ends { publishes, sends, asks, receives, fetches, sums, frees } = self.ends;
        let fetched = !(asks.is_empty() && fetches.is_empty());
        let mut out = publishes;
        out.extend(sends);
        out.extend(self.moves);
        out.extend(asks);
        out.extend(receives);
        out.extend(fetches);
        if fetched {
            out.push(SStmt::Op(SOp::FenceComplete, self.span));
        }
        out.extend(sums);
        out.extend(frees);
        out
    }
}

/// Checks whether two regions evidently have no element in common: they are different parts of one
/// cut, as those of two lanes are.
fn apart(a: &Region, b: &Region) -> bool {
    if a.operand != b.operand {
        return true;
    }
    for (p, q) in a.path.iter().zip(&b.path) {
        let one = |part: &Part| match (part.index.as_int(), part.len.as_int(), part.of.as_int()) {
            (Some(index), Some(1), Some(of)) => Some((index, of)),
            _ => None,
        };
        match (one(p), one(q)) {
            (Some((i, n)), Some((j, m))) if n == m && i != j => return true,
            (Some(p), Some(q)) if p == q => {}
            _ => return false,
        }
    }
    false
}

impl Emitter<'_, '_> {
    /// Emits everything that a stream does.
    pub(in crate::expand) fn whole_stream(
        &mut self,
        nodes: &[Node],
        loops: &mut Vec<Gen>,
    ) -> Res<Vec<SStmt>> {
        let outer = std::mem::take(&mut self.settles);
        let mut out = self.nodes(nodes, loops)?;
        out.append(&mut self.settles);
        self.settles = outer;
        Ok(out)
    }

    fn nodes(&mut self, nodes: &[Node], loops: &mut Vec<Gen>) -> Res<Vec<SStmt>> {
        let mut out = vec![];
        // The last round, which the next one may add to.
        let mut last: Option<(EmittedRound, &[Transfer])> = None;
        for n in nodes {
            let before = last.take();
            if let Node::Round(list) = n {
                let mut round = self.round(list, loops)?;
                if let Some((mut before, written)) = before {
                    // What is added is published, and may be so as soon as it is there.
                    let mut added = list.iter().filter(|t| t.reduce);
                    if added.all(|t| written.iter().all(|w| apart(&t.src, &w.dst))) {
                        before.ends.publishes.append(&mut round.ends.publishes);
                    }
                    out.extend(before.statements());
                }
                last = Some((round, list));
                continue;
            }
            out.extend(before.map_or_else(Vec::new, |b| b.0.statements()));
            match n {
                Node::Round(_) => {}
                Node::Loop(g, body) => {
                    loops.push(g.clone());
                    let inner = self.nodes(body, loops)?;
                    loops.pop();
                    out.push(SStmt::For {
                        var: g.var.clone(),
                        lo: g.lo.clone(),
                        hi: g.hi.clone(),
                        body: inner,
                    });
                }
                Node::Lanes(parts) => {
                    if !loops.is_empty() {
                        return not_symbolic("lanes inside a loop", Span::NONE);
                    }
                    out.extend(self.fork(parts, loops)?);
                }
            }
        }
        out.extend(last.take().map_or_else(Vec::new, |l| l.0.statements()));
        Ok(out)
    }

    /// Emits lanes as streams. The first lane continues on the current stream; the others start
    /// after an event and end with one.
    fn fork(&mut self, parts: &[Vec<Node>], loops: &mut Vec<Gen>) -> Res<Vec<SStmt>> {
        let op = |o: SOp| SStmt::Op(o, Span::NONE);
        let id = self.lanes.len();
        let go: Name = format!("{}_go{id}", self.region).into();
        let mut out = vec![op(SOp::Record(go.clone()))];
        let mut done = vec![];
        // The outermost lanes belong to the cores.
        let outermost = self.lane == CORE && self.core.is_none();
        for (i, part) in parts.iter().enumerate().skip(1) {
            self.core = if outermost { Some(i as i64) } else { self.core };
            let mut body = vec![op(SOp::Await(go.clone()))];
            let at = self.lanes.len();
            // The lane is added before its body is emitted, because the body may fork again.
            self.lanes.push((format!("{}{}", self.lane, at + 1).into(), vec![]));
            let outer = std::mem::replace(&mut self.stream, at + 1);
            body.extend(self.whole_stream(part, loops)?);
            self.stream = outer;
            let end: Name = format!("{}_done{id}_{i}", self.region).into();
            body.push(op(SOp::Record(end.clone())));
            done.push(end);
            self.lanes[at].1 = body;
        }
        if let Some(first) = parts.first() {
            self.core = if outermost { Some(0) } else { self.core };
            out.extend(self.nodes(first, loops)?);
        }
        self.core = if outermost { None } else { self.core };
        out.extend(done.into_iter().map(|e| op(SOp::Await(e))));
        Ok(out)
    }

    fn round(&mut self, list: &[Transfer], loops: &[Gen]) -> Res<EmittedRound> {
        let mut messages: Vec<Message> = vec![];
        let mut locals: Vec<(Transfer, Expr)> = vec![];
        for t in list {
            let t = &self.unless_empty(t, loops);
            let forms = t.forms(&self.b.cx.ranges);
            let own = t.is_self(&forms, &self.b.cx.ranges);
            let may = self.b.possible_where(&t.guard, &own, t, loops);
            if may.0 {
                locals.push((t.clone(), if may.1 { own.clone() } else { Expr::Int(1) }));
            }
            if !may.1 {
                continue;
            }
            let mut t = t.clone();
            if may.0 {
                t.guard = t.guard.and(negated(own));
            }
            if !messages.iter_mut().any(|m| m.join(&t)) {
                let first = Landing { to: t.dst.clone(), adds: t.reduce, cond: Expr::Int(1), span: t.span };
                messages.push(Message { forms, dsts: vec![first], like: t });
            }
        }
        let span = list.first().map_or(Span::NONE, |t| t.span);
        let mut all = Ends::default();
        let alone = messages.len() == 1;
        let adds = |m: &Message| m.dsts.iter().any(|d| d.adds);
        let sums = messages.iter().filter(|m| adds(m)).count();
        for m in self.ordered(messages, loops)? {
            let mut ends = match self.marks.transfer.pulls(adds(&m)) {
                true => self.pulled(&m, loops, alone)?,
                false => self.message(&m, loops)?,
            };
            if sums > 1 && !ends.asks.is_empty() {
                // Several sums may need the same scratch, so each is added before the next one.
                ends.receives.append(&mut ends.asks);
                ends.receives.push(SStmt::Op(SOp::FenceComplete, span));
                ends.receives.append(&mut ends.sums);
            }
            all.append(ends);
        }
        Ok(EmittedRound { ends: all, moves: self.local_moves(&locals)?, span })
    }

    /// Adds to the guard that the lists of the transfer are not empty, because a transfer of no
    /// chunks does not take place. (Chunks without elements are transferred: schedules do not
    /// depend on the number of elements.)
    fn unless_empty(&self, t: &Transfer, loops: &[Gen]) -> Transfer {
        let mut t = t.clone();
        for g in &t.src.gens {
            let some = Expr::bin(BinOp::Lt, g.lo.clone(), g.hi.clone());
            let inner = t.src.gens.iter().any(|h| some.mentions(&h.var));
            if inner || tidy(&some, &self.b.cx.ranges).is_true() {
                continue;
            }
            let none = t.guard.clone().and(negated(some.clone()));
            if self.b.possible(&none, &t, loops).0 {
                t.guard = t.guard.clone().and(some);
            }
        }
        t
    }

    /// Sorts messages in the order in which their reductions add: by (source - receiver) mod p.
    fn ordered(&self, mut messages: Vec<Message>, loops: &[Gen]) -> Res<Vec<Message>> {
        let adding: Vec<usize> =
            (0..messages.len()).filter(|&i| messages[i].dsts.iter().any(|d| d.adds)).collect();
        let clash = adding.iter().any(|&i| {
            adding.iter().any(|&j| {
                i < j
                    && !messages[i]
                        .dsts
                        .iter()
                        .all(|a| messages[j].dsts.iter().all(|b| certainly_disjoint(&a.to, &b.to)))
            })
        });
        if !clash {
            return Ok(messages);
        }
        let mut keys = vec![];
        for m in &messages {
            let t = &m.like;
            let ([Form::Shift(d)], [size], true) = (&m.forms[..], &t.group.sizes[..], t.each.is_empty())
            else {
                return not_symbolic("several messages of a round that add to one chunk", t.span);
            };
            let signed = if t.get { d.clone() } else { Expr::un(UnOp::Neg, d.clone()) };
            keys.push(signed.modulo(*size));
        }
        let mut order: Option<Vec<usize>> = None;
        let mut steady = true;
        let choices = self.b.choices(loops, false, &[]);
        let keys: Vec<_> = keys.iter().map(|k| choices.ready(k)).collect();
        let whole = choices.each(&mut |at| {
            let values: Option<Vec<i64>> = keys.iter().map(|k| choices.value(k, at).ok()).collect();
            let Some(values) = values else {
                steady = false;
                return false;
            };
            let mut now: Vec<usize> = (0..values.len()).collect();
            now.sort_by_key(|&i| (values[i], i));
            steady &= order.as_ref().is_none_or(|o| *o == now);
            order = Some(now);
            steady
        });
        if !whole || !steady {
            return not_symbolic(
                "an order of additions that changes from step to step",
                messages[0].like.span,
            );
        }
        let order = order.unwrap_or_else(|| (0..messages.len()).collect());
        let mut slots: Vec<Option<Message>> = messages.drain(..).map(Some).collect();
        Ok(order.into_iter().filter_map(|i| slots[i].take()).collect())
    }

    fn message(&mut self, m: &Message, loops: &[Gen]) -> Res<Ends> {
        let t = &m.like;
        let mut owner = t.owner_end(self.b)?;
        let among = self.b.candidates(t, &m.forms, loops)?;
        let mut other = t.other_end(&m.forms, &among, self.b)?;
        let numbers = self.b.numbers(m, &among, loops)?;
        let fits = (t.src.operand, self.b.largest(&t.src, loops, &t.each));
        let (at, Numbers { message, slot, .. }) = match self.marks.slots {
            Some(k) => self.rotation(t, k, numbers, (fits, loops), &owner.peer)?,
            None => {
                let slots = numbers.slots;
                self.windows.push(WindowDraft { slots, fits, span: t.span, round: None });
                (self.windows.len() - 1, numbers)
            }
        };
        let window = WindowId(self.first_window + at as u32);
        if !t.get && m.dsts.iter().any(|d| d.adds) {
            self.reverse_if_needed(t, &m.forms, loops, &mut other)?;
        }
        let (sender, receiver) = if t.get { (&mut other, &owner) } else { (&mut owner, &other) };
        self.take_turns(t, sender);
        let (sender, receiver) = (&*sender, receiver);
        let see = |e: &Expr, end: &End| at_owner(e, &end.owner, self.b);
        let mark = |point, end: &End| {
            let slot = see(&message, end);
            SStmt::Op(SOp::Mark(Mark { point, peer: end.peer.clone().into(), window, slot }), t.span)
        };
        let mut send = vec![];
        if self.marks.reuse {
            send.push(mark(Point::Reserve, sender));
        }
        let put = SOp::Put {
            src: self.chunk(&t.src, sender),
            peer: sender.peer.clone().into(),
            dst: Ref::Slot { window, slot: see(&slot, sender) },
        };
        send.extend(self.pieces(&t.src, sender, vec![SStmt::Op(put, t.span)]));
        send.push(mark(Point::Publish, sender));
        let mut receive = vec![mark(Point::Expect, receiver)];
        for d in &m.dsts {
            let src = Ref::Slot { window, slot: see(&slot, receiver) };
            let dst = self.chunk(&d.to, receiver);
            let op = match d.adds {
                true => SOp::Reduce { op: self.red, dst, src },
                false => SOp::Copy { dst, src },
            };
            let done = self.pieces(&d.to, receiver, vec![SStmt::Op(op, d.span)]);
            receive.extend(guarded(&see(&d.cond, receiver), done));
        }
        if self.marks.reuse {
            receive.push(mark(Point::Free, receiver));
        }
        Ok(Ends { sends: around(sender, send), receives: around(receiver, receive), ..Ends::default() })
    }

    /// Returns the window of the messages to a neighbour, and the numbers of one more transfer to
    /// it.
    pub(in crate::expand) fn rotation(
        &mut self,
        t: &Transfer,
        k: i64,
        numbers: Numbers,
        (fits, loops): (Fits, &[Gen]),
        peer: &[Expr],
    ) -> Res<(usize, Numbers)> {
        let no = |why: &str| Err(refused("slots", t.span, why).into_stop());
        let fixed = !peer.iter().any(|e| loops.iter().any(|l| e.mentions(&l.var)));
        if !(t.guard.is_true() && t.each.is_empty() && fixed) {
            return no("slots can be reused only if every rank always sends to the same neighbour");
        }
        if !t.src.gens.is_empty() {
            return no("a message of several pieces needs a slot for each of them");
        }
        let stream = self.stream;
        let same = |w: &WindowDraft| {
            w.fits.0 == fits.0 && w.round.as_ref().is_some_and(|r| r.peer == peer && r.stream == stream)
        };
        let at = match self.windows.iter().position(same) {
            Some(at) => at,
            None => {
                let name = format!("{} messages {}", self.region, self.windows.len()).into();
                let round = Rotation { peer: peer.to_vec(), stream, messages: 0, name, loops: vec![] };
                let fits = (fits.0, vec![]);
                self.windows.push(WindowDraft { slots: k, fits, span: t.span, round: Some(round) });
                self.windows.len() - 1
            }
        };
        let w = &mut self.windows[at];
        w.fits.1.extend(fits.1.iter().filter(|f| !w.fits.1.contains(f)).copied().collect::<Vec<_>>());
        let Some(round) = &mut w.round else { return no("its window is shared with another message") };
        if loops.first().is_some_and(|l| round.loops.contains(&l.var)) {
            return no("two messages go to one neighbour in each step of a loop");
        }
        round.loops.extend(loops.first().map(|l| l.var.clone()));
        let message = Expr::Int(round.messages) + numbers.message;
        round.messages += numbers.slots;
        let count = Expr::var(kbc_ir::schedule::CALL) * Expr::Var(round.name.clone()) + message.clone();
        let slot = if k == 1 { Expr::Var(round.only()) } else { count.modulo(k) };
        Ok((at, Numbers { slot, message: message.simplify(), slots: k }))
    }

    pub(in crate::expand) fn chunk(&self, r: &Region, end: &End) -> Ref {
        let see = |e: &Expr| at_owner(e, &end.owner, self.b);
        let path = r
            .path
            .iter()
            .map(|p| kbc_ir::schedule::Part { index: see(&p.index), len: see(&p.len), of: see(&p.of) })
            .collect();
        Ref::Chunk { operand: OperandId(r.operand), path }
    }

    /// Wraps operations in the loops over the runs of a region.
    pub(in crate::expand) fn pieces(&self, r: &Region, end: &End, inner: Vec<SStmt>) -> Vec<SStmt> {
        let see = |e: &Expr| at_owner(e, &end.owner, self.b);
        let mut out = match &r.guard {
            Some(g) => vec![SStmt::If { cond: see(g), then: inner, other: vec![] }],
            None => inner,
        };
        for g in r.gens.iter().rev() {
            out = vec![SStmt::For { var: g.var.clone(), lo: see(&g.lo), hi: see(&g.hi), body: out }];
        }
        out
    }

    /// Reverses the generator of an end if it is descending. Receives from several sources must
    /// come in the order of (source - receiver) mod p.
    pub(in crate::expand) fn reverse_if_needed(
        &mut self,
        t: &Transfer,
        forms: &[Form],
        loops: &[Gen],
        end: &mut End,
    ) -> Res<()> {
        if t.each.is_empty() || forms.contains(&Form::Other) && t.each.is_empty() {
            return Ok(());
        }
        let ([Form::Shift(d)], [size], [g]) = (forms, &t.group.sizes[..], &t.each[..]) else {
            return not_symbolic("sources of one reduction that are not simple shifts", t.span);
        };
        let key = Expr::un(UnOp::Neg, d.clone()).modulo(*size);
        let mut outer: Vec<Gen> = loops.to_vec();
        outer.push(g.clone());
        let (mut up, mut down) = (true, true);
        let mut last: Option<(Vec<i64>, i64)> = None;
        let choices = self.b.choices(&outer, false, &[]);
        let key = choices.ready(&key);
        let whole = choices.each(&mut |at| {
            let steps = at[..loops.len()].to_vec();
            let Ok(k) = choices.value(&key, at) else {
                (up, down) = (false, false);
                return false;
            };
            if let Some((s, before)) = &last
                && *s == steps
            {
                up &= *before < k;
                down &= *before > k;
            }
            last = Some((steps, k));
            up || down
        });
        if !whole || !(up || down) {
            return not_symbolic("sources of one reduction in an irregular order", t.span);
        }
        if !up {
            let turned = g.lo.clone() + g.hi.clone() - Expr::Int(1) - Expr::Var(g.var.clone());
            end.turn = Some((g.var.clone(), turned));
        }
        Ok(())
    }

    /// Lets core j begin with the j-th of the peers that an `each` names, so that the cores of a
    /// rank do not all move data over one link at a time. The starting point is linear in j, and
    /// the form is the same for every core.
    pub(in crate::expand) fn take_turns(&self, t: &Transfer, end: &mut End) {
        let (Some(core), [g]) = (self.core, &t.each[..]) else { return };
        let (Some(lo), Some(hi), None) = (g.lo.as_int(), g.hi.as_int(), &end.turn) else { return };
        if hi - lo > 1 {
            let past = Expr::Var(g.var.clone()) + Expr::Int(hi - 2 * lo + core);
            end.turn = Some((g.var.clone(), past.modulo(hi - lo) + Expr::Int(lo)));
        }
    }

    fn local_moves(&mut self, list: &[(Transfer, Expr)]) -> Res<Vec<SStmt>> {
        let own = self.b.world.own();
        let end = |guard: Expr, loops: Vec<Gen>| End {
            loops,
            outer: Expr::Int(1),
            guard,
            peer: own.clone(),
            owner: own.clone(),
            turn: None,
        };
        // All local moves of a round read before any of them writes. If one writes what another
        // reads, all go through scratch.
        let staged = list.iter().any(|(a, _)| list.iter().any(|(b, _)| a.dst.operand == b.src.operand));
        let (mut reads, mut writes) = (vec![], vec![]);
        for (t, cond) in list {
            let end = end(t.guard.clone().and(cond.clone()), t.each.clone());
            let mut src = t.src.clone();
            if staged {
                let mut tmp = t.src.clone();
                tmp.operand = self.b.stage(t.src.operand);
                let copy = SOp::Copy { dst: self.chunk(&tmp, &end), src: self.chunk(&src, &end) };
                reads.extend(around(&end, self.pieces(&t.src, &end, vec![SStmt::Op(copy, t.span)])));
                src = tmp;
            }
            let (d, s) = (self.chunk(&t.dst, &end), self.chunk(&src, &end));
            let op = match t.reduce {
                true => SOp::Reduce { op: self.red, dst: d, src: s },
                false => SOp::Copy { dst: d, src: s },
            };
            writes.extend(around(&end, self.pieces(&t.dst, &end, vec![SStmt::Op(op, t.span)])));
        }
        reads.extend(writes);
        Ok(reads)
    }
}

/// Returns `!e`. An equality becomes the opposite comparison.
fn negated(e: Expr) -> Expr {
    match e {
        Expr::Bin(BinOp::Eq, a, b) => Expr::Bin(BinOp::Ne, a, b),
        e => Expr::un(UnOp::Not, e),
    }
}

/// Checks whether two regions certainly share no chunk, because a constant digit differs.
fn certainly_disjoint(a: &Region, b: &Region) -> bool {
    a.operand != b.operand
        || a.path
            .iter()
            .zip(&b.path)
            .take_while(|(x, y)| x.of == y.of && x.len.as_int() == Some(1) && y.len.as_int() == Some(1))
            .any(|(x, y)| matches!((x.index.as_int(), y.index.as_int()), (Some(i), Some(j)) if i != j))
}
