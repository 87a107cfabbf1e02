//! Abstract execution: runs every walked stream once, through all calls.
//!
//! Counters only grow, so the set of streams that get stuck does not depend on the order in which
//! streams run (a Kahn network). One run therefore decides progress, and the clocks kept beside it
//! decide order for any relative speed of the ranks. The module owns the run loop and the accesses
//! of each operation. [`super::order`] owns the clocks, [`super::meaning`] the contents.

pub(crate) mod gets;
mod memory;
mod queues;
mod signals;

use super::Setup;
use super::contents::Contents;
use super::counters::{self, Counters, Event, Limits};
use super::deadlock::{self, Blocked, BlockedOn};
use super::filled::{Filled, HOST};
use super::meaning::{self, AccessSite, Asymmetric, Meaning, NoMeaning};
use super::order::{Accessor, Completion, Conflict, EventSnapshot, Order};
use super::queues::QueueKey;
use super::report::{FILL, NamedAccess, Report, TAKE};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::schedule::{BufferId, BufferRole, LocalOp};
use kbc_ir::types::ReduceOp;
use kbc_ir::walk::{Access, Act, Cursor, Mem, Step, TakenGuards};
use queues::Queues;
use rustc_hash::FxBuildHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Counter(u32),
    Event(u32),
    /// Waits for a free slot of a queue.
    Full(QueueKey),
    /// Waits for a message of a queue.
    Empty(QueueKey),
    Done,
    Failed,
}

pub(super) struct Stream<'p> {
    rank: u64,
    pub(super) rep: usize,
    number: u32,
    pub(super) call: u64,
    pub(super) cursor: Option<Cursor<'p>>,
    /// What guards decided in the call before.
    guards: TakenGuards,
    pub(super) retry: Option<(Act<'p>, Span, u32)>,
    pub(super) state: State,
}

/// Elements of an operand: number of the operand, first element, one past the last element.
type OperandRange = (u32, u64, u64);

/// One side of a transfer: walked rank, access, and the group element that takes the accessing rank
/// to the walked rank.
type TransferEnd<'a> = (usize, &'a Access, u64);

/// A transfer of contents.
#[derive(Clone, Copy)]
struct Transfer<'a> {
    region: u32,
    call: u64,
    /// The rank and the source position of the operation, for messages.
    rank: u64,
    span: Span,
    /// The side that is read.
    from: TransferEnd<'a>,
    /// The side that is written.
    to: TransferEnd<'a>,
    /// The access that is read, as the walked rank itself would name it.
    source: Access,
    /// The group elements that move the contents read, and the place where they are written.
    forth: u64,
    back: u64,
    /// Whether the source and the destination hold initial zeros that nothing has overwritten.
    zero: (bool, bool),
}

impl<'a> Transfer<'a> {
    /// Creates a transfer between two sides, neither of which is moved or holds initial zeros.
    fn new(
        (region, call, rank, span): (u32, u64, u64, Span),
        from: TransferEnd<'a>,
        to: TransferEnd<'a>,
    ) -> Self {
        let zero = (false, false);
        Transfer { region, call, rank, span, from, to, source: *from.1, forth: 0, back: 0, zero }
    }
}

/// The outcome of a run.
pub(super) struct Outcome {
    pub errors: Diagnostics,
    pub acts: u64,
    /// Largest growth of a counter per call.
    pub growth: u64,
}

/// The reason why there is no outcome.
pub(super) enum Stopped {
    /// More operations than allowed.
    TooLong(u64),
    /// The ranks that are not walked would behave differently.
    Asymmetric(Asymmetric),
    /// The chains of notifies decide too little, or something is wrong. Clocks tell what.
    Undecided,
}

impl From<Asymmetric> for Stopped {
    fn from(s: Asymmetric) -> Self {
        Stopped::Asymmetric(s)
    }
}

pub(super) struct Engine<'p, C> {
    pub(super) setup: &'p Setup<'p>,
    pub(super) streams: Vec<Stream<'p>>,
    pub(super) order: Order<'p>,
    pub(super) meaning: Meaning<'p, C>,
    queues: Queues<C>,
    pub(super) counters: Counters,
    events: Vec<Event>,
    pub(super) filled: Filled,
    /// The call that the host of each walked rank has begun.
    pub(super) begun: Vec<u64>,
    /// By region and walked rank: the elements that its `end` clauses name.
    required_ranges: HashMap<(u32, usize), Rc<Vec<OperandRange>>, FxBuildHasher>,
    /// Local operations, by number and walked rank, that are known to have a result.
    tried: HashSet<(u32, usize), FxBuildHasher>,
    pub(super) report: Report<'p>,
    pub(super) ready: VecDeque<usize>,
    acts: u64,
    most_acts: u64,
}

impl<'p, C: Contents> Engine<'p, C> {
    /// Creates the state before the first call. With `chains`, the order of accesses is searched in
    /// chains of notifies, and the run may be undecided.
    pub(super) fn new(setup: &'p Setup<'p>, limits: &Limits, chains: bool) -> Self {
        let (reps, p) = (&setup.group.reps, setup.program);
        let mut streams = vec![];
        for (rep, &rank) in reps.iter().enumerate() {
            for number in 0..setup.width as u32 {
                let (state, guards) = (State::Ready, TakenGuards::default());
                streams.push(Stream { rank, rep, number, call: 0, cursor: None, guards, retry: None, state });
            }
        }
        Engine {
            setup,
            ready: (0..streams.len()).collect(),
            streams,
            order: Order::new(
                &setup.group,
                setup.width,
                reps.len() * setup.grids.places,
                p.has_forms(),
                chains,
            ),
            meaning: Meaning::new(setup),
            queues: Queues::default(),
            counters: Counters::new(setup.calls as usize),
            events: (0..reps.len() * p.events.len()).map(|_| Event::default()).collect(),
            filled: Filled::new(setup.schedule.buffers.len(), &setup.grids, reps.len()),
            begun: vec![0; reps.len()],
            required_ranges: HashMap::default(),
            tried: HashSet::default(),
            report: Report::new(setup, limits.errors, limits.all_kinds),
            acts: 0,
            most_acts: limits.acts,
        }
    }

    /// Runs all streams through all calls.
    pub(super) fn run(mut self, limits: &Limits) -> Result<Outcome, Stopped> {
        for call in 0..self.setup.calls {
            for (region, r) in self.setup.regions.iter().enumerate() {
                if r.has_contract && r.streams.iter().all(|n| *n == 0) {
                    for b in self.meaning.nobody(region as u32, call) {
                        self.report.broken(&b, region as u32, call, None);
                    }
                }
            }
        }
        while let Some(si) = self.ready.pop_front() {
            self.go(si)?;
            if self.order.undecided() {
                return Err(Stopped::Undecided);
            }
            if self.report.full() {
                break;
            }
        }
        let failed = self.streams.iter().any(|s| s.state == State::Failed);
        let waiting = self.streams.iter().any(|s| {
            matches!(s.state, State::Counter(_) | State::Event(_) | State::Full(_) | State::Empty(_))
        });
        if !waiting && !failed && !self.report.full() {
            self.reject_leftovers();
        }
        if self.order.undecided() || self.order.by_chains() && (waiting || failed || !self.report.is_empty())
        {
            // Messages are those of a run with clocks, which also knows what a search cannot find.
            return Err(Stopped::Undecided);
        }
        if waiting && !failed && !self.report.full() {
            self.deadlock();
        } else if !failed {
            counters::ranges(self.setup, &self.counters, limits, &mut self.report);
        }
        let growth = self.counters.growth(self.setup);
        Ok(Outcome { errors: self.report.finish(), acts: self.acts, growth })
    }

    /// Returns the number of a stream over all ranks.
    pub(super) fn own(&self, si: usize) -> u32 {
        let s = &self.streams[si];
        (s.rank as usize * self.setup.width) as u32 + s.number
    }

    /// Runs a stream until it blocks or ends.
    fn go(&mut self, si: usize) -> Result<(), Stopped> {
        self.streams[si].state = State::Ready;
        loop {
            let (act, span, op) = match self.streams[si].retry.take() {
                Some(x) => x,
                None => match self.next(si)? {
                    Some(x) => x,
                    None => return Ok(()),
                },
            };
            if !self.execute(si, &act, span, op)? {
                self.streams[si].retry = Some((act, span, op));
                return Ok(());
            }
            self.acts += 1;
            if self.acts > self.most_acts {
                return Err(Stopped::TooLong(self.acts));
            }
        }
    }

    /// Returns the next operation of a stream, or None if the stream has ended.
    fn next(&mut self, si: usize) -> Result<Option<(Act<'p>, Span, u32)>, Stopped> {
        loop {
            let s = &mut self.streams[si];
            let Some(cursor) = &mut s.cursor else {
                if s.call == self.setup.calls {
                    s.state = State::Done;
                    return Ok(None);
                }
                let guards = std::mem::take(&mut s.guards);
                s.cursor = Some(Cursor::again(self.setup.program, s.rank, s.number, s.call as i64, guards));
                self.order.begin_call(si);
                self.host(si, true);
                continue;
            };
            match cursor.next_step() {
                Ok(Some(Step::Act(act, span, op))) => return Ok(Some((act, span, op))),
                Ok(Some(Step::Enter(_))) => {}
                Ok(Some(Step::Leave(region))) => {
                    if self.setup.regions[region.0 as usize].has_contract {
                        let at = AccessSite { rep: s.rep, region: region.0, call: s.call };
                        self.overwritten(si, at);
                        let (over, broken) = self.meaning.leave(at);
                        for rep in over {
                            self.delivered(AccessSite { rep, ..at });
                        }
                        for b in broken {
                            let last = self
                                .last_write(AccessSite { rep: b.rep, ..at }, (b.operand, b.atom, b.atoms));
                            self.report.broken(&b, at.region, at.call, last);
                        }
                    }
                }
                Ok(None) => {
                    self.host(si, false);
                    let s = &mut self.streams[si];
                    s.guards = s.cursor.take().map(Cursor::into_guards).unwrap_or_default();
                    s.call += 1;
                    // The other streams run first, so that messages are about early calls where
                    // possible.
                    if s.call < self.setup.calls {
                        self.ready.push_back(si);
                        return Ok(None);
                    }
                }
                Err(fault) => {
                    s.state = State::Failed;
                    let setup = self.setup;
                    self.report
                        .push(fault.code, fault.span, Span::NONE, || fault.diagnostic(|r| setup.rank(r)));
                    return Ok(None);
                }
            }
        }
    }

    /// Performs the accesses of the host on its stream: it fills inputs and zeros before a call,
    /// and reads the results after it. If the schedule has a host program, results are read where
    /// that program says.
    fn host(&mut self, si: usize, before: bool) {
        let (number, rep, rank, call) = {
            let s = &self.streams[si];
            (s.number, s.rep, s.rank, s.call)
        };
        if number != self.setup.program.host {
            return;
        }
        let program = self.setup.schedule.host.is_some();
        self.order.tick(si);
        if before {
            self.begun[rep] = call;
        }
        for (b, buffer) in self.setup.schedule.buffers.iter().enumerate() {
            let id = BufferId(b as u32);
            let (op, writes) = match (buffer.role, before) {
                (BufferRole::Input(_), true) => (FILL - 2 * b as u32, true),
                (_, true) if buffer.zero => (FILL - 2 * b as u32, true),
                (BufferRole::Output(_), false) if !program => (TAKE - 2 * b as u32, false),
                (BufferRole::Output(_) | BufferRole::Temp, true) => {
                    self.forget(si, id);
                    continue;
                }
                (BufferRole::Input(_) | BufferRole::Output(_) | BufferRole::Temp, false) => continue,
            };
            if self.setup.program.elements(id, rank).unwrap_or(0) == 0 {
                continue;
            }
            let places = self.setup.grids.whole(id, rep);
            let (mem, all) = (Mem::Buffer(b as u32), [self.all(rep, id)]);
            if !writes {
                self.expect((HOST, call), rep, mem, &all, buffer.span);
            }
            let who = Accessor { si, back: 0, stream: self.own(si) };
            self.touch(who, rep, places, Completion::Local, writes, op, buffer.span, None);
            if writes {
                self.fill((HOST, call), rep, mem, &all, buffer.span);
            }
        }
    }

    /// Reads or writes a run of places of a walked rank. With `moved`, the run belongs to a buffer
    /// whose parts the group moves, and the accessing rank is an image of the walked rank.
    #[expect(clippy::too_many_arguments, reason = "one access has this many facts")]
    fn touch(
        &mut self,
        who: Accessor,
        rep: usize,
        places: Range<usize>,
        kind: Completion,
        writes: bool,
        op: u32,
        span: Span,
        moved: Option<u32>,
    ) {
        let base = rep * self.setup.grids.places;
        let acc = self.order.access(who, kind, op);
        let back = if moved.is_some() { self.setup.group.inverse(who.back) } else { 0 };
        for p in places {
            let place = match moved {
                Some(buffer) => self.setup.moved(buffer, p, back),
                None => p,
            };
            let found = if writes {
                self.order.write(who, base + place, acc)
            } else {
                self.order.read(who, base + place, acc)
            };
            if let Some(c) = found {
                self.conflict(c, who, rep, place, span, writes);
            }
        }
    }

    fn conflict(&mut self, c: Conflict, who: Accessor, rep: usize, place: usize, span: Span, writes: bool) {
        let calls = (self.order.call_of(&c.with), self.streams[who.si].call as usize);
        let rank = who.stream as u64 / self.setup.width as u64;
        let on = self.setup.group.reps[rep];
        self.report.conflict(c, NamedAccess { rank, span, place, on, writes }, calls);
    }

    /// Performs an access of an operation to memory of this rank (`back` is 0) or, moved, of the
    /// peer.
    #[expect(clippy::too_many_arguments, reason = "one access has this many facts")]
    pub(super) fn access(
        &mut self,
        who: Accessor,
        rep: usize,
        a: &Access,
        kind: Completion,
        writes: bool,
        op: u32,
        span: Span,
    ) {
        let places = self.setup.grids.of(a, rep);
        let moved = match a.mem {
            Mem::Buffer(b) if who.back != 0 => Some(b),
            Mem::Buffer(_) | Mem::Slot(..) => None,
        };
        if !writes && self.strict(who.si) {
            let by = self.setup.group.inverse(who.back);
            let (region, call) = (self.region_of(who.si), self.streams[who.si].call);
            let runs = self.runs(rep, region, a, by);
            self.expect((region, call), rep, a.mem, &runs, span);
        }
        self.touch(who, rep, places, kind, writes, op, span, moved);
    }

    /// Moves contents from one side to the other: reads them at `from`, moves them by `back`, and
    /// writes them at `to`, combined by an operator if there is one. The elements read must hold
    /// something, and the elements written hold something afterwards.
    fn carry(&mut self, t: Transfer<'_>, add: Option<(u32, ReduceOp)>) -> Result<(), Stopped> {
        let Transfer { region, call, from, to, .. } = t;
        if !self.setup.regions[region as usize].has_contract {
            self.meaning.forget(to.0, to.1.mem);
        } else if self.readable(&t, add.is_some()) {
            self.combine(&t, add)?;
        }
        let by = self.setup.group.inverse(to.2);
        let runs = self.runs(to.0, region, to.1, by);
        self.fill((region, call), to.0, to.1.mem, &runs, t.span);
        debug_assert!(from.2 == 0 || to.2 == 0, "one side of a transfer is the walked rank's own");
        Ok(())
    }

    /// Checks whether the elements that a transfer reads in a region with a contract were filled.
    /// Slots are checked by their contents.
    fn readable(&mut self, t: &Transfer<'_>, updates: bool) -> bool {
        let sides = [Some(t.from), updates.then_some(t.to)];
        sides.into_iter().flatten().all(|(rep, a, back)| {
            if matches!(a.mem, Mem::Slot(..)) {
                return true;
            }
            let runs = self.runs(rep, t.region, a, self.setup.group.inverse(back));
            self.expect((t.region, t.call), rep, a.mem, &runs, t.span)
        })
    }

    /// Applies a transfer to the contents of a region with a contract.
    fn combine(&mut self, t: &Transfer<'_>, add: Option<(u32, ReduceOp)>) -> Result<(), Stopped> {
        let (rank, call, span) = (t.rank, t.call, t.span);
        let at = |rep| AccessSite { rep, region: t.region, call };
        if let Some((_, op)) = add
            && let Err(trouble) = self.operator(t.region, op)
        {
            // The arriving contents are tracked nevertheless, so that one mistake gives one
            // message.
            self.report.trouble(trouble, rank, call, span);
        }
        let add = match (t.zero, add) {
            // A zero adds nothing to a sum, provided that there is a value to which it can be
            // added.
            ((true, false), Some((_, ReduceOp::Sum))) => {
                if let Err(trouble) = self.meaning.load(at(t.to.0), t.to.1) {
                    self.report.trouble(trouble, rank, call, span);
                }
                return Ok(());
            }
            ((true, true), Some((_, ReduceOp::Sum))) => return Ok(()),
            ((false, true), Some((_, ReduceOp::Sum))) => None,
            ((true, _), _) | ((_, true), Some(_)) => {
                self.report.trouble(meaning::zeros(), rank, call, span);
                return Ok(());
            }
            ((false, _), add) => add.map(|a| a.0),
        };
        if let Err(trouble) = self.meaning.load(at(t.from.0), &t.source) {
            self.report.trouble(trouble, rank, call, span);
            self.meaning.forget(t.to.0, t.to.1.mem);
            if self.setup.queues {
                self.meaning.wipe(at(t.to.0), t.to.1);
            }
            return Ok(());
        }
        self.meaning.translate(t.forth);
        if let Err(trouble) = self.meaning.store(at(t.to.0), t.to.1, t.back, add)? {
            self.report.trouble(trouble, rank, call, span);
            if self.setup.queues {
                self.meaning.wipe(at(t.to.0), t.to.1);
            }
        }
        Ok(())
    }

    /// Checks that a reduction combines with the operator of its region's contract.
    fn operator(&self, region: u32, op: ReduceOp) -> Result<(), NoMeaning> {
        let r = &self.setup.schedule.regions[region as usize];
        let wanted = r.contract.as_ref().and_then(|p| p.red);
        if wanted == Some(op) {
            return Ok(());
        }
        let text = match wanted {
            Some(wanted) => {
                format!("this is `reduce {op}`, and the contract of region {} reduces with {wanted}", r.name)
            }
            None => format!("this is `reduce {op}`, and the contract of region {} has no reduction", r.name),
        };
        Err(NoMeaning { code: "E335", text, help: "reduce with the operator of the contract" })
    }

    /// Executes an operation. Returns false if it has to wait.
    fn execute(&mut self, si: usize, act: &Act<'p>, span: Span, op: u32) -> Result<bool, Stopped> {
        let (rank, rep, call) = {
            let s = &self.streams[si];
            (s.rank, s.rep, s.call)
        };
        let own = self.own(si);
        let me = Accessor { si, back: 0, stream: own };
        let region = self.streams[si].cursor.as_ref().and_then(Cursor::region).map_or(0, |r| r.0);
        let head = (region, call, rank, span);
        match act {
            Act::Copy { dst, src } => {
                let zero = (self.zeros(si, rep, src), false);
                self.order.tick(si);
                self.access(me, rep, src, Completion::Local, false, op, span);
                self.access(me, rep, dst, Completion::Local, true, op, span);
                self.carry(Transfer { zero, ..Transfer::new(head, (rep, src, 0), (rep, dst, 0)) }, None)?;
            }
            Act::Reduce { dst, src, op: red } => {
                let zero = (self.zeros(si, rep, src), self.zeros(si, rep, dst));
                self.order.tick(si);
                self.access(me, rep, src, Completion::Local, false, op, span);
                self.access(me, rep, dst, Completion::Local, false, op, span);
                self.access(me, rep, dst, Completion::Local, true, op, span);
                self.carry(
                    Transfer { zero, ..Transfer::new(head, (rep, src, 0), (rep, dst, 0)) },
                    Some((op, *red)),
                )?;
            }
            Act::Put { src, peer, dst } => {
                self.order.tick(si);
                let (there, back, who) = self.peer(si, *peer);
                let zero = (self.zeros(si, rep, src), false);
                self.access(me, rep, src, Completion::Put, false, op, span);
                self.access(who, there, dst, Completion::Put, true, op, span);
                let t = Transfer::new(head, (rep, src, 0), (there, dst, who.back));
                self.carry(Transfer { zero, forth: back, back, ..t }, None)?;
            }
            Act::Get { dst, peer, src } => self.get(si, (dst, *peer, src), None, op, span)?,
            Act::GetCombine { dst, peer, src, op: red } => {
                self.order.complete(si);
                self.get(si, (dst, *peer, src), Some((op, *red)), op, span)?;
            }
            Act::Send { src, peer, queue } => return Ok(self.send(si, (rank, *peer, *queue), src, span, op)),
            Act::Recv { dst, peer, queue } => return self.recv(si, (*peer, rank, *queue), dst, span, op),
            Act::Room { peer, queue } => return Ok(self.room(si, (rank, *peer, *queue), op)),
            Act::Notify { peer, counter } => self.notify(si, *peer, *counter, span, op),
            Act::Wait { counter, value } => return Ok(self.wait(si, *counter, *value, span, op)),
            Act::FenceRelease => self.order.release(si, own),
            Act::FenceAcquire => self.order.acquire(si),
            Act::FenceComplete => self.order.complete(si),
            Act::Record(e) => {
                let mark = self.order.record(si, own);
                self.record(rep, *e, call, own, op, mark, span);
            }
            Act::Await(e) => {
                let at = rep * self.setup.program.events.len() + *e as usize;
                let event = &mut self.events[at];
                let Some((.., mark)) = event.marks.iter().find(|m| m.0 == call) else {
                    event.waiting.push(si);
                    self.streams[si].state = State::Event(*e);
                    return Ok(false);
                };
                self.order.awaited(si, mark);
            }
            Act::HostRead(b) => {
                self.order.tick(si);
                let places = self.setup.grids.whole(*b, rep);
                let all = [self.all(rep, *b)];
                self.expect((HOST, call), rep, Mem::Buffer(b.0), &all, span);
                self.touch(me, rep, places, Completion::Local, false, op, span, None);
            }
            Act::Mark(()) => {}
            Act::Host(host) => match *host {},
            Act::Local(l) => self.local(me, rep, l, op, span, region, call),
        }
        Ok(true)
    }

    #[expect(clippy::too_many_arguments, reason = "one access has this many facts")]
    fn local(&mut self, me: Accessor, rep: usize, l: &LocalOp, op: u32, span: Span, region: u32, call: u64) {
        self.order.tick(me.si);
        self.legal(rep, l, op, span);
        let block = self.block(rep, l);
        let operands = &self.setup.schedule.regions[region as usize].operands;
        let computed = operands.iter().any(|o| o.buffer == l.dst());
        let touched = |this: &Self, b: BufferId| match &block {
            Some((line, places, run)) if *line == b => (places.clone(), *run),
            Some(_) | None => (this.setup.grids.whole(b, rep), this.all(rep, b)),
        };
        for b in l.srcs() {
            let (places, run) = touched(self, b);
            self.expect((region, call), rep, Mem::Buffer(b.0), &[run], span);
            // A buffer that is also written is reported as E337 below.
            if !computed {
                self.beside((region, call), rep, b, run, span);
            }
            self.touch(me, rep, places, Completion::Local, false, op, span, None);
        }
        let dst = l.dst();
        let (places, run) = touched(self, dst);
        self.touch(me, rep, places, Completion::Local, true, op, span, None);
        self.fill((region, call), rep, Mem::Buffer(dst.0), &[run], span);
        let r = &self.setup.schedule.regions[region as usize];
        if r.contract.is_some()
            && run.0 < run.1
            && let Some(operand) = r.operands.iter().find(|o| o.buffer == dst)
        {
            let text = format!(
                "a local operation writes {}, which is an operand of the contract of region {}",
                operand.name, r.name
            );
            self.report.push("E337", span, r.span, || {
                Diagnostic::error("E337", text)
                    .primary(span, "written here")
                    .secondary(
                        r.span,
                        "the contract of this region describes data that transfers move and combine",
                    )
                    .help("compute in a local region before or after this region")
            });
        }
    }

    /// Returns a peer as (walked rank, group element that takes the peer to it, the accessing
    /// stream as the walked rank sees it).
    pub(super) fn peer(&self, si: usize, peer: u64) -> (usize, u64, Accessor) {
        let group = &self.setup.group;
        let (there, h) = group.split(peer);
        let back = group.inverse(h);
        let s = &self.streams[si];
        let from = group.act(back, s.rank);
        let stream = (from as usize * self.setup.width) as u32 + s.number;
        (there, back, Accessor { si, back: h, stream })
    }

    #[expect(clippy::too_many_arguments, reason = "one event has this many facts")]
    fn record(&mut self, rep: usize, e: u32, call: u64, own: u32, op: u32, mark: EventSnapshot, span: Span) {
        let setup = self.setup;
        let event = &mut self.events[rep * setup.program.events.len() + e as usize];
        if let Some((_, _, first, _)) = event.marks.iter().find(|m| m.1 != own) {
            let first = setup.span(*first);
            self.report.push("E351", span, first, || {
                let name = &setup.program.events[e as usize];
                Diagnostic::error("E351", format!("event {name} is recorded by two streams"))
                    .primary(span, "here")
                    .secondary(first, "and here")
                    .help("use a separate event for each stream")
            });
        }
        if !event.marks.iter().any(|m| m.0 == call) {
            event.marks.push((call, own, op, mark));
        }
        for w in event.waiting.drain(..) {
            self.ready.push_back(w);
        }
    }

    fn deadlock(&mut self) {
        let setup = self.setup;
        let mut blocked = vec![];
        for s in &mut self.streams {
            let on = match s.state {
                State::Counter(counter) => {
                    let form = self.setup.program.form(counter);
                    let seen = self.counters.of(s.rep, counter).seen(form);
                    let value = match &s.retry {
                        Some((Act::Wait { value, .. }, ..)) => *value,
                        _ => 0,
                    };
                    BlockedOn::Counter { counter, value, seen }
                }
                State::Event(e) => BlockedOn::Event(e),
                State::Full(which) => BlockedOn::Full(which, self.setup.program.depth(which.2)),
                State::Empty(which) => BlockedOn::Empty(which),
                State::Ready | State::Done | State::Failed => continue,
            };
            let span = s.retry.as_ref().map_or(Span::NONE, |r| r.1);
            blocked.push(Blocked { rank: s.rank, stream: s.number, on, span, rest: s.cursor.take() });
        }
        let d = deadlock::describe(setup, blocked);
        self.report.push("E340", d.span(), Span::NONE, || d);
    }
}
