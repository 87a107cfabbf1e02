//! Arrivals: consecutive messages that are added to one place become one loop, which keeps the sum
//! in the core until the last message has been added.
//!
//! A schedule adds message by message, `v[c] = v[c] + w[k]`, and between two additions the sum is
//! in memory. The kernel waits for all consecutive messages first. Then it has one loop over tiles,
//! which loads what is there, adds each message in the order of the schedule, and stores once. If
//! the schedule directly copies the sum into a slot or puts it to peers, these are further stores
//! from the core. What arrives and is sent on is loaded once, and so is data that is put to several
//! peers. Waits, acquires, releases and notifies are in front of these operations and behind them
//! (`batches`).
//!
//! This is legal because no peer is notified between the first wait and the last addition. Peers
//! learn about this rank only through notifies, so none can depend on how far this rank is between
//! the two, and no slot of these messages is written again before the additions are over. Partial
//! sums are rounded as if they were stored.

use super::errors::refuse;
use super::fetched;
use super::ops::Run;
use super::state::Lower;
use crate::tile::{Op, Stmt, TileId, VArg, VecOp};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::schedule::{Peer, Ref, SOp, SStmt};
use kbc_ir::types::{DType, ReduceOp};

/// A loop around statements: variable, first value, end.
type Around<'s> = (&'s Name, &'s Expr, &'s Expr);

/// A part of the additions, in order: one message, or a loop.
enum Part<'s> {
    One(Message<'s>),
    Each(Around<'s>, Vec<Part<'s>>),
}

/// A message: its waits, and its place.
pub(super) struct Message<'s> {
    waits: Vec<(&'s SOp, Span)>,
    /// The peer whose memory it is in; `None` for this rank's memory.
    peer: Option<&'s Peer>,
    pub(super) at: &'s Ref,
    /// The scratch to which it would be fetched, for one that is fetched.
    scratch: Option<&'s Ref>,
}

/// The place to which all messages are added.
#[derive(Clone, Copy)]
pub(super) struct Sum<'s> {
    op: ReduceOp,
    dst: &'s Ref,
    /// The place of the value to which the first message is added.
    pub(super) own: &'s Ref,
    span: Span,
}

/// A further destination of a place.
struct Tail<'s> {
    around: Option<Around<'s>>,
    peer: Option<&'s Peer>,
    to: &'s Ref,
    span: Span,
}

/// Consecutive additions to one place.
pub(super) struct Additions<'s> {
    pub(super) sum: Sum<'s>,
    parts: Vec<Part<'s>>,
    tails: Vec<Tail<'s>>,
    /// Number of statements that they consist of.
    pub(super) used: usize,
}

impl<'s> Additions<'s> {
    /// Returns all messages.
    pub(super) fn messages(&self) -> Vec<&Message<'s>> {
        fn gather<'p, 's>(parts: &'p [Part<'s>], out: &mut Vec<&'p Message<'s>>) {
            for p in parts {
                match p {
                    Part::One(m) => out.push(m),
                    Part::Each(_, parts) => gather(parts, out),
                }
            }
        }
        let mut out = vec![];
        gather(&self.parts, &mut out);
        out
    }
}

/// The tiles of an operand of a reduction: the one that is loaded and stored, if it has another
/// type, and the one that is computed with.
#[derive(Clone, Copy)]
struct OperandTiles {
    narrow: Option<TileId>,
    wide: TileId,
}

fn mentions(r: &Ref, name: &Name) -> bool {
    let mut found = false;
    let mut look = |e: &Expr| e.vars(&mut |n| found |= n == name);
    match r {
        Ref::Slot { slot, .. } => look(slot),
        Ref::Chunk { path, .. } => {
            for p in path {
                [&p.index, &p.len, &p.of].into_iter().for_each(&mut look);
            }
        }
    }
    found
}

impl Lower<'_, '_> {
    /// Lowers the additions to one place with which a list begins, and returns their number of
    /// statements; 0 if it begins otherwise.
    pub(super) fn arrivals(&mut self, region: usize, list: &[&SStmt]) -> Result<usize, Diagnostics> {
        let Some(Additions { sum, parts, tails, used }) = self.additions(region, list) else {
            return self.moved(region, list);
        };
        self.waits(region, &parts)?;
        if parts.iter().any(acquired) {
            self.build.push(Stmt::Op(Op::Acquire));
        }
        self.sum(region, &sum, &parts, &tails)?;
        Ok(used)
    }

    /// Returns the additions to one place with which a list begins.
    pub(super) fn additions<'s>(&self, region: usize, list: &[&'s SStmt]) -> Option<Additions<'s>> {
        let mut sum = None;
        let (mut parts, mut used) = (vec![], 0);
        while let Some((part, length)) = self.part(region, &list[used..], &mut sum) {
            parts.push(part);
            used += length;
        }
        let sum = sum?;
        let tails = tails(&list[used..], sum.dst);
        used += tails.len();
        Some(Additions { sum, parts, tails, used })
    }

    /// Lowers a place that is stored and then sent, or sent several times: every tile of it is
    /// loaded once. Returns the number of statements with which the list begins in this way, or 0.
    fn moved(&mut self, region: usize, list: &[&SStmt]) -> Result<usize, Diagnostics> {
        let (src, from, stored, span) = match list.first() {
            Some(SStmt::Op(SOp::Copy { dst: dst @ Ref::Chunk { .. }, src }, span)) => {
                (src, None, Some(dst), *span)
            }
            Some(SStmt::Op(SOp::Get { dst: dst @ Ref::Chunk { .. }, peer, src }, span)) => {
                (src, Some(peer), Some(dst), *span)
            }
            Some(SStmt::Op(SOp::Put { src, .. } | SOp::Copy { src, .. }, span)) => (src, None, None, *span),
            Some(SStmt::For { body, .. }) => match body.as_slice() {
                [SStmt::Op(SOp::Put { src, .. } | SOp::Copy { src, .. }, span)] => (src, None, None, *span),
                _ => return Ok(0),
            },
            _ => return Ok(0),
        };
        let place = stored.unwrap_or(src);
        let dtype = self.dtype(region, place);
        let first = usize::from(stored.is_some());
        // A fetch is complete before what follows notifies anybody.
        let completes = matches!(list.get(first), Some(SStmt::Op(SOp::FenceComplete, _))) && from.is_some();
        let first = first + usize::from(completes);
        let tails = tails(&list[first..], place);
        let looped = tails.iter().any(|t| t.around.is_some());
        let alike =
            self.dtype(region, src) == dtype && tails.iter().all(|t| self.dtype(region, t.to) == dtype);
        let chunk = matches!(place, Ref::Chunk { .. });
        if tails.len() + first < 2 && !looped || tails.is_empty() || !alike || !chunk {
            return Ok(0);
        }
        if let Some(stored) = stored
            && (self.consumer(region, stored).is_some() || self.waits_for(region, stored))
        {
            return Ok(0);
        }
        let words = match (stored, from) {
            (None, _) => "put",
            (Some(_), None) => "copy",
            (Some(_), Some(_)) => "get",
        };
        self.note(words, span);
        let peer = from.map(|p| self.peer(region, p));
        let (own, other) = self.pair(region, (place, None), (src, peer.as_ref()), span)?;
        let tile = self.tile(dtype, 0);
        let mut failed = None;
        self.tiles_loop(&own.len.clone(), |this, pos, len| {
            this.load(tile, len, &other.at, pos);
            let sent = Sent { region, place, tile, pos, len };
            failed = this.tails(&sent, &tails).err();
            if stored.is_some() {
                this.store(&own.at, pos, tile, len);
            }
        });
        if let Some(d) = failed {
            return Err(d.into());
        }
        if completes {
            self.build.push(Stmt::Op(Op::Complete));
        }
        Ok(first + tails.len())
    }

    /// Returns the part with which a list begins, and its number of statements. `sum` is the place
    /// to which the preceding parts add.
    fn part<'s>(
        &self,
        region: usize,
        list: &[&'s SStmt],
        sum: &mut Option<Sum<'s>>,
    ) -> Option<(Part<'s>, usize)> {
        if let SStmt::For { var, lo, hi, body } = list.first()? {
            // The loop must consist of messages only.
            let (mut inside, mut at, mut parts) = (*sum, 0, vec![]);
            let body: Vec<&SStmt> = body.iter().collect();
            while let Some((part, length)) = self.part(region, &body[at..], &mut inside) {
                parts.push(part);
                at += length;
            }
            let one = inside.filter(|s| s.own == s.dst || sum.is_some())?;
            let chunk = matches!(one.dst, Ref::Chunk { .. });
            if at < body.len() || !chunk || mentions(one.dst, var) {
                return None;
            }
            *sum = inside;
            return Some((Part::Each((var, lo, hi), parts), 1));
        }
        let op = |i: usize| match list.get(i) {
            Some(SStmt::Op(op, _)) => Some(op),
            _ => None,
        };
        let mut at = 0;
        let mut waits = vec![];
        while let Some(SStmt::Op(wait @ (SOp::Wait { .. } | SOp::FenceAcquire), span)) = list.get(at) {
            waits.push((wait, *span));
            at += 1;
        }
        let mut fetched = None;
        if let (Some(SOp::Get { dst, peer, src }), Some(SOp::FenceComplete)) = (op(at), op(at + 1))
            && self.waits_for(region, dst)
        {
            fetched = Some((peer, src, dst));
            at += 2;
        }
        let own = fetched::fused(*list.get(at)?, list.get(at + 1).copied());
        at += usize::from(own.is_some());
        let SStmt::Op(SOp::Reduce { op: combine, dst, src }, span) = *list.get(at)? else { return None };
        let (peer, from, scratch) =
            fetched.map_or((None, src, None), |(peer, from, scratch)| (Some(peer), from, Some(scratch)));
        let buffer = |r: &Ref| fetched::buffer_of(&self.schedule.regions[region], r);
        match sum {
            Some(s) => {
                let chunk = matches!(dst, Ref::Chunk { .. });
                let apart = peer.is_some() || buffer(from) != buffer(dst);
                if s.op != *combine
                    || s.dst != dst
                    || own.is_some()
                    || !(chunk && apart)
                    || !self.alike(region, s, from)
                {
                    return None;
                }
            }
            None => *sum = Some(Sum { op: *combine, dst, own: own.unwrap_or(dst), span: *span }),
        }
        Some((Part::One(Message { waits, peer, at: from, scratch }), at + 1))
    }

    /// Checks whether a message has the element type of the place, so that it can be added in the
    /// same loop.
    fn alike(&self, region: usize, sum: &Sum<'_>, from: &Ref) -> bool {
        self.dtype(region, from) == self.dtype(region, sum.dst)
    }

    pub(super) fn dtype(&self, region: usize, r: &Ref) -> DType {
        match r {
            Ref::Slot { window, .. } => self.schedule.window(*window).dtype,
            Ref::Chunk { operand, .. } => {
                let o = &self.schedule.regions[region].operands[operand.0 as usize];
                self.schedule.buffer(o.buffer).dtype
            }
        }
    }

    /// Checks whether a place is scratch that the kernel does not have, because what is fetched
    /// into it is used at once.
    fn waits_for(&self, region: usize, place: &Ref) -> bool {
        let buffer = fetched::buffer_of(&self.schedule.regions[region], place);
        buffer.is_some_and(|b| self.fetched.contains(&b))
    }

    /// Adds the waits for all messages, in order.
    fn waits(&mut self, region: usize, parts: &[Part<'_>]) -> Result<(), Diagnostics> {
        for part in parts {
            match part {
                Part::One(m) => {
                    for (op, span) in m.waits.iter().filter(|(op, _)| matches!(op, SOp::Wait { .. })) {
                        self.op(region, op, *span)?;
                    }
                }
                Part::Each(around, parts) => {
                    if parts.iter().any(acquired) {
                        self.looped(*around, |this| this.waits(region, parts))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a loop of the schedule around what `f` adds.
    fn looped<E>(
        &mut self,
        (var, lo, hi): Around<'_>,
        f: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let (lo, hi) = (self.expr(lo), self.expr(hi));
        self.build.open();
        let name = self.build.fresh(var.as_str());
        self.names.push((var.clone(), Expr::var(name.clone())));
        let done = f(self);
        self.names.pop();
        let body = self.build.close();
        self.build.push(Stmt::For { var: name, lo, hi, body });
        done
    }

    fn sum(
        &mut self,
        region: usize,
        sum: &Sum<'_>,
        parts: &[Part<'_>],
        tails: &[Tail<'_>],
    ) -> Result<(), Diagnostics> {
        self.note("reduce", sum.span);
        let Some(first) = first(parts) else { return Ok(()) };
        let op = match sum.op {
            ReduceOp::Sum => VecOp::Add,
            ReduceOp::Prod => VecOp::Mul,
            ReduceOp::Max => VecOp::Max,
            ReduceOp::Min => VecOp::Min,
        };
        let types = [sum.dst, first.at].map(|r| self.dtype(region, r));
        if let Some(dtype) = types.into_iter().find(|t| !t.reduces()) {
            return Err(refuse(
                sum.span,
                format!("a reduction of {dtype}"),
                "the vector unit adds f32, f16 and i32; convert bf16 to f32",
            )
            .into());
        }
        // Compute in f32 if the types differ or the vector unit does not have the type. Each sum is
        // rounded once.
        let same = types[0] == types[1] && types[0] != DType::BF16;
        let wide = if same { types[0] } else { DType::F32 };
        let mut used = 0;
        let [own, other] = types.map(|dtype| {
            let narrow = (dtype != wide).then(|| self.tile(dtype, usize::from(used > 0)));
            used += 1;
            OperandTiles { narrow, wide: self.tile(wide, used - 1) }
        });
        // The names of the place, and of the first message if it is not in a loop, are defined in
        // the block around the loop over tiles.
        let place = match parts.first() {
            Some(Part::Each(..)) => self.chunk(region, (sum.dst, None)),
            _ => None,
        };
        let to = place.map_or_else(|| self.message(region, sum, first).map(|m| m.0), Ok)?;
        let from = match sum.own == sum.dst {
            true => to.clone(),
            false => self.pair(region, (sum.own, None), (sum.dst, None), sum.span)?.0,
        };
        if let (Some(Part::Each((var, ..), _)), Some(scratch), Ref::Slot { window, .. }) =
            (parts.first(), first.scratch, first.at)
            && !mentions(scratch, var)
        {
            self.place_in_window(region, *window, (scratch, None));
        }
        let consumer = self.consumer(region, sum.dst);
        if let Some(c) = &consumer {
            self.note_functions(c);
        }
        let mut failed = None;
        self.tiles_loop(&to.len.clone(), |this, pos, len| {
            let tile = own.narrow.unwrap_or(own.wide);
            this.load(tile, len, &from.at, pos);
            let add = Addition { region, sum, op, own, other, pos, len };
            let sent = Sent { region, place: sum.dst, tile, pos, len };
            failed = this.add_all(&add, parts).and_then(|()| this.tails(&sent, tails)).err();
            match &consumer {
                Some(c) => this.consume(c, tile, &to.at, pos, len),
                None => this.store(&to.at, pos, tile, len),
            }
        });
        failed.map_or(Ok(()), |d| Err(d.into()))
    }

    /// Returns the place of a sum, and that of a message that is added to it.
    fn message(&mut self, region: usize, sum: &Sum<'_>, m: &Message<'_>) -> Result<(Run, Run), Diagnostic> {
        let peer = m.peer.map(|p| self.peer(region, p));
        let (to, mut from) = self.pair(region, (sum.dst, None), (m.at, peer.as_ref()), sum.span)?;
        if let (Some(scratch), Ref::Slot { window, .. }) = (m.scratch, m.at) {
            from.at.offset = self.place_in_window(region, *window, (scratch, None));
        }
        Ok((to, from))
    }

    /// Adds the load and the addition of a tile of every message.
    fn add(&mut self, a: &Addition<'_>, parts: &[Part<'_>]) -> Result<(), Diagnostic> {
        for part in parts {
            match part {
                Part::One(m) => {
                    let (_, src) = self.message(a.region, a.sum, m)?;
                    self.load(a.other.narrow.unwrap_or(a.other.wide), a.len, &src.at, a.pos);
                    for side in [a.own, a.other] {
                        if let Some(narrow) = side.narrow {
                            self.convert(side.wide, narrow);
                        }
                    }
                    let args = vec![VArg::Tile(a.own.wide), VArg::Tile(a.other.wide)];
                    let (dst, len) = (a.own.wide, a.len.clone());
                    self.build.push(Stmt::Op(Op::Vector { op: a.op, dst, args, len }));
                    if let Some(narrow) = a.own.narrow {
                        self.convert(narrow, a.own.wide);
                    }
                }
                Part::Each(around, parts) => self.looped(*around, |this| this.add(a, parts))?,
            }
        }
        Ok(())
    }

    /// Like [`Lower::add`], with the first message in front of its loop if the loop certainly runs.
    /// A loop may run no iteration, and order that depends on it would have to be established
    /// twice.
    fn add_all(&mut self, a: &Addition<'_>, parts: &[Part<'_>]) -> Result<(), Diagnostic> {
        let Some((Part::Each((var, lo, hi), inside), rest)) = parts.split_first() else {
            return self.add(a, parts);
        };
        let bounds = [lo, hi].map(|e| self.expr(e).as_int());
        let [Some(first), Some(end)] = bounds else { return self.add(a, parts) };
        if first < end {
            self.names.push(((*var).clone(), Expr::Int(first)));
            let done = self.add(a, inside);
            self.names.pop();
            done?;
            self.looped((var, &Expr::Int(first + 1), hi), |this| this.add(a, inside))?;
        }
        self.add(a, rest)
    }

    /// Adds the stores of a tile to the further destinations of its place.
    fn tails(&mut self, sent: &Sent<'_>, tails: &[Tail<'_>]) -> Result<(), Diagnostic> {
        for t in tails {
            let store = |this: &mut Self| -> Result<(), Diagnostic> {
                let peer = t.peer.map(|p| this.peer(sent.region, p));
                let (_, to) = this.pair(sent.region, (sent.place, None), (t.to, peer.as_ref()), t.span)?;
                this.store(&to.at, sent.pos, sent.tile, sent.len);
                Ok(())
            };
            match t.around {
                Some(around) => self.looped(around, store)?,
                None => store(self)?,
            }
        }
        Ok(())
    }
}

/// A tile of a place that goes to further destinations.
struct Sent<'a> {
    region: usize,
    place: &'a Ref,
    tile: TileId,
    pos: &'a Expr,
    len: &'a Expr,
}

/// Common parameters of all additions in a loop over tiles.
struct Addition<'a> {
    region: usize,
    sum: &'a Sum<'a>,
    op: VecOp,
    own: OperandTiles,
    other: OperandTiles,
    pos: &'a Expr,
    len: &'a Expr,
}

/// Checks whether a part waits for something.
fn acquired(part: &Part<'_>) -> bool {
    match part {
        Part::One(m) => !m.waits.is_empty(),
        Part::Each(_, parts) => parts.iter().any(acquired),
    }
}

fn first<'p, 's>(parts: &'p [Part<'s>]) -> Option<&'p Message<'s>> {
    match parts.first()? {
        Part::One(m) => Some(m),
        Part::Each(_, parts) => first(parts),
    }
}

/// Returns the further destinations of a place with which a list begins, each one statement: a copy
/// into a slot, a put, or a loop of one of these.
fn tails<'s>(list: &[&'s SStmt], place: &Ref) -> Vec<Tail<'s>> {
    let store = |s: &'s SStmt| match s {
        SStmt::Op(SOp::Copy { dst: to @ Ref::Slot { .. }, src }, span) if src == place => {
            Some(Tail { around: None, peer: None, to, span: *span })
        }
        SStmt::Op(SOp::Put { src, peer, dst: to @ Ref::Slot { .. } }, span) if src == place => {
            Some(Tail { around: None, peer: Some(peer), to, span: *span })
        }
        _ => None,
    };
    let tail = |s: &'s SStmt| match s {
        SStmt::For { var, lo, hi, body } => {
            let [stmt] = body.as_slice() else { return None };
            let tail = store(stmt).filter(|_| !mentions(place, var))?;
            Some(Tail { around: Some((var, lo, hi)), ..tail })
        }
        stmt => store(stmt),
    };
    list.iter().map_while(|s| tail(s)).collect()
}
