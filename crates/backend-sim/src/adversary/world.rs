//! Machine of the adversarial executor: transfers in transit, notifies in transit, postponed
//! operations, and what each stream has heard and acquired.

mod host;

use super::Trouble;
use super::policy::{Candidate, Chooser, Move, Policy};
use super::view::{RankMemory, Writer};
use crate::effect::{Effect, Run, mem_dtype, same_type};
use crate::flow::{Advance, Flow, Queue};
use crate::host::{Host, too_large};
use crate::interp::{MAX_BYTES, RunResult, message, nothing_there, queue_type, zeros};
use crate::stall;
use crate::store::Cells;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::form::Form;
use kbc_ir::schedule::{Ref, SOp, SStmt, Schedule};
use kbc_ir::types::ReduceOp;
use kbc_ir::walk::{Act, Mem, Program};
use kbc_numerics::numbers::{self, Refusal};
use kbc_numerics::rng::Rng;
use kbc_numerics::tensor::Data;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// For each thread, the last of its releases whose writes are known to have landed.
#[derive(Clone, Default)]
struct LandedReleases(BTreeMap<usize, u64>);

impl LandedReleases {
    fn learn(&mut self, thread: usize, release: u64) {
        let v = self.0.entry(thread).or_default();
        *v = release.max(*v);
    }

    fn join(&mut self, other: &LandedReleases) {
        other.0.iter().for_each(|(t, r)| self.learn(*t, *r));
    }

    fn has(&self, w: &Writer) -> bool {
        self.0.get(&w.thread).is_some_and(|r| *r >= w.release)
    }
}

/// A stream's knowledge of the writes of others.
#[derive(Clone, Default)]
struct Knowledge {
    /// Reported by notifies for which it waited; visible after its next acquire.
    heard: LandedReleases,
    /// Visible writes.
    acquired: LandedReleases,
}

/// A put or get in transit.
struct Flight {
    get: bool,
    /// The combiner of its data and its destination. None if it replaces the destination.
    combiner: Option<ReduceOp>,
    /// Whether it is a get after its `fence.complete`, which ends as soon as anything depends on
    /// it.
    complete: bool,
    thread: usize,
    src: (u64, Run),
    dst: (u64, Run),
    data: Option<Data>,
    release: u64,
    call: i64,
    span: Span,
    born: u64,
}

/// The way in which a stream moves data.
#[derive(Clone, Copy)]
enum TransferKind {
    Put,
    /// The data is combined into its destination if there is a combiner.
    Get(Option<ReduceOp>),
}

/// A kind of notification in transit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoticeKind {
    /// A notify of a counter.
    Counter(u32),
    /// A message of a queue arrives.
    Message(Queue),
    /// A slot of the queue is free again.
    Credit(Queue),
}

/// Work that must be executed first: operations of a thread of the rank up to a number, and its
/// completed gets up to a time.
#[derive(Clone, Copy)]
struct Prerequisite {
    thread: usize,
    issued: u64,
    clock: u64,
}

/// A notify, a message of a queue or a credit in transit.
struct Notice {
    thread: usize,
    to: u64,
    kind: NoticeKind,
    release: u64,
    born: u64,
}

/// A local operation that its stream has issued and that has not been executed yet.
struct Postponed<'p> {
    effect: Effect<'p>,
    /// When it was issued.
    born: u64,
    /// The call to which it belongs.
    call: i64,
}

/// One run.
pub(super) struct World<'p> {
    program: &'p Program<'p>,
    host: &'p Host<'p>,
    expected: &'p RunResult,
    flow: Flow<'p>,
    memory: Vec<BTreeMap<Mem, RankMemory>>,
    /// Buffers and windows from which peers `get`.
    got_from: BTreeSet<(bool, u32)>,
    flights: Vec<Flight>,
    notes: Vec<Notice>,
    /// Messages of queues that have not been received.
    queues: BTreeMap<Queue, VecDeque<Data>>,
    postponed: Vec<VecDeque<Postponed<'p>>>,
    released: Vec<u64>,
    knowledge: Vec<Knowledge>,
    /// For each rank and counter, the knowledge that the notifies landed there transfer, in order.
    notified_by: BTreeMap<(u64, u32), Vec<(usize, u64)>>,
    /// For each `record` of a rank, by event and call: the knowledge that it transfers, and the
    /// work that its stream had yet to execute then.
    recorded: BTreeMap<(u64, u32, i64), (Knowledge, Vec<Prerequisite>)>,
    /// For each thread, the work that it has awaited. It is executed before the thread's own local
    /// work or next release, but not necessarily before it notifies, because an event is no fence.
    debts: Vec<Vec<Prerequisite>>,
    /// Number of postponed operations of each thread that were issued, and that were executed.
    issued: Vec<u64>,
    carried: Vec<u64>,
    ready: Vec<usize>,
    /// When each thread last advanced.
    moved: Vec<u64>,
    clock: u64,
    rng: Rng,
    chooser: Chooser,
    compared: u64,
    /// Number of host reads of each rank in its current call.
    reads: Vec<usize>,
}

impl<'p> World<'p> {
    pub(super) fn new(
        program: &'p Program<'p>,
        host: &'p Host<'p>,
        expected: &'p RunResult,
        calls: i64,
        policy: Policy,
        seed: u64,
    ) -> World<'p> {
        let mut rng = Rng::new(seed);
        let flow = Flow::new(program, calls);
        let threads = flow.threads.len();
        World {
            chooser: Chooser::new(policy, program.ranks(), &mut rng),
            program,
            host,
            expected,
            flow,
            memory: (0..program.ranks()).map(|_| BTreeMap::new()).collect(),
            got_from: got_from(program.schedule),
            flights: vec![],
            notes: vec![],
            queues: BTreeMap::new(),
            postponed: (0..threads).map(|_| VecDeque::new()).collect(),
            released: vec![0; threads],
            knowledge: vec![Knowledge::default(); threads],
            notified_by: BTreeMap::new(),
            recorded: BTreeMap::new(),
            debts: vec![vec![]; threads],
            issued: vec![0; threads],
            carried: vec![0; threads],
            ready: (0..threads).collect(),
            moved: vec![0; threads],
            clock: 0,
            rng,
            compared: 0,
            reads: vec![0; program.ranks() as usize],
        }
    }

    /// Runs all calls. Returns the number of elements compared.
    pub(super) fn run(mut self) -> Result<u64, Trouble> {
        if self.flow.calls > 0 {
            for rank in 0..self.program.ranks() {
                self.begin_call(rank, 0)?;
            }
        } else {
            self.ready.clear();
        }
        let mut moves = vec![];
        loop {
            self.candidates(&mut moves);
            // Transfers for which no stream waits need not end.
            if moves.is_empty() || self.flow.threads.iter().all(|t| t.call >= self.flow.calls) {
                break;
            }
            match moves[self.chooser.choose(&moves, &mut self.rng)].what {
                Move::Thread(at) => self.thread(at)?,
                Move::Flight(at) => self.flight(at)?,
                Move::Note(at) => self.note(at),
                Move::Postponed(thread) => self.carry_out(thread, 1)?,
            }
        }
        match stall::explain(&mut self.flow).deadlock {
            Some(d) => Err(d.into()),
            None => Ok(self.compared),
        }
    }

    fn candidates(&self, out: &mut Vec<Candidate>) {
        out.clear();
        for (i, t) in self.ready.iter().enumerate() {
            let rank = self.flow.threads[*t].rank;
            out.push(Candidate { what: Move::Thread(i), born: self.moved[*t], from: rank, to: rank });
        }
        for (i, f) in self.flights.iter().enumerate() {
            out.push(Candidate { what: Move::Flight(i), born: f.born, from: f.src.0, to: f.dst.0 });
        }
        for (i, n) in self.notes.iter().enumerate() {
            let from = self.flow.threads[n.thread].rank;
            out.push(Candidate { what: Move::Note(i), born: n.born, from, to: n.to });
        }
        for (t, list) in self.postponed.iter().enumerate() {
            if let Some(first) = list.front() {
                let rank = self.flow.threads[t].rank;
                out.push(Candidate { what: Move::Postponed(t), born: first.born, from: rank, to: rank });
            }
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Wakes the waiting streams of a rank, which may be able to continue.
    fn wake(&mut self, rank: u64) {
        for t in self.flow.of_rank(rank) {
            if !self.ready.contains(&t) && self.flow.ready(t) {
                self.ready.push(t);
                self.moved[t] = self.tick();
            }
        }
    }

    fn thread(&mut self, at: usize) -> Result<(), Trouble> {
        let t = self.ready[at];
        self.moved[t] = self.tick();
        let show = |r| self.program.schedule.mesh.show(r);
        match self.flow.advance(t).map_err(|f| f.diagnostic(show))? {
            Advance::Blocked | Advance::Done => {
                self.ready.swap_remove(at);
                Ok(())
            }
            Advance::CallOver(call) => self.call_over(t, call),
            Advance::Act(Act::HostRead(b), span) => {
                self.pay(t)?;
                let rank = self.flow.threads[t].rank;
                let len = self.program.elements(b, rank).unwrap_or(0);
                self.settle(t, &[Run { mem: Mem::Buffer(b.0), start: 0, len }], None)?;
                self.host_read(t, b, span)
            }
            Advance::Act(act, span) => Ok(self.act(t, act, span)?),
        }
    }

    fn act(&mut self, t: usize, act: Act<'p>, span: Span) -> Result<(), Diagnostic> {
        let rank = self.flow.threads[t].rank;
        match act {
            Act::Notify { .. }
            | Act::Wait { .. }
            | Act::FenceAcquire
            | Act::FenceComplete
            | Act::Room { .. }
            | Act::Record(_)
            | Act::Await(_)
            | Act::Mark(()) => {}
            Act::Copy { .. }
            | Act::Reduce { .. }
            | Act::Local(_)
            | Act::Put { .. }
            | Act::Get { .. }
            | Act::GetCombine { .. }
            | Act::Send { .. }
            | Act::Recv { .. }
            | Act::FenceRelease
            | Act::HostRead(_) => self.pay(t)?,
        }
        match act {
            Act::Copy { .. } | Act::Reduce { .. } | Act::Local(_) => {
                if let Some(effect) = Effect::of(self.program, rank, &act, span)? {
                    self.carry_out_before(t, &effect.reads, Some(&effect.write))?;
                    let born = self.tick();
                    self.issued[t] += 1;
                    let call = self.flow.threads[t].call;
                    self.postponed[t].push_back(Postponed { effect, born, call });
                }
            }
            Act::Put { src, peer, dst } => {
                let (src, dst) = (Run::of(&src), Run::of(&dst));
                self.settle(t, &[src], (peer == rank).then_some(&dst))?;
                self.issue(t, TransferKind::Put, (rank, src), (peer, dst), span)?;
            }
            Act::Get { dst, peer, src } | Act::GetCombine { op: _, dst, peer, src } => {
                let (src, dst) = (Run::of(&src), Run::of(&dst));
                let combiner = match act {
                    Act::GetCombine { op, .. } => {
                        self.complete_gets(t);
                        Some(op)
                    }
                    _ => None,
                };
                let mut reads = if peer == rank { vec![src] } else { vec![] };
                reads.extend(combiner.map(|_| dst));
                self.settle(t, &reads, Some(&dst))?;
                self.issue(t, TransferKind::Get(combiner), (peer, src), (rank, dst), span)?;
            }
            Act::Notify { peer, counter } => self.send_notice(t, peer, NoticeKind::Counter(counter)),
            Act::Send { src, peer, queue } => {
                queue_type(self.program, queue, src.mem, span)?;
                // A send reports everything that the stream has done.
                self.carry_out(t, usize::MAX)?;
                self.finish(t, |f| f.complete)?;
                let data = self.read(t, rank, Run::of(&src), span)?;
                let which = (rank, peer, queue);
                self.queues.entry(which).or_default().push_back(data);
                self.flow.sent(which);
                self.send_notice(t, peer, NoticeKind::Message(which));
            }
            Act::Recv { dst, peer, queue } => {
                queue_type(self.program, queue, dst.mem, span)?;
                let which = (peer, rank, queue);
                let run = Run::of(&dst);
                self.settle(t, &[], Some(&run))?;
                let data = self.queues.entry(which).or_default().pop_front();
                let data = message(data, run.len, span)?;
                let call = self.flow.threads[t].call;
                self.write(t, (rank, run), &data, call);
                self.flow.received(which);
                self.send_notice(t, peer, NoticeKind::Credit(which));
            }
            Act::Room { .. } => {}
            Act::Wait { counter, value } => {
                let before = self.flow.spent(rank, counter);
                self.flow.spend(t, counter, value, span)?;
                let upto = match self.program.form(counter) {
                    Form::Epoch => u64::try_from(value).unwrap_or(0),
                    Form::Sense { .. } | Form::Clearing { .. } => self.flow.spent(rank, counter),
                };
                let notified_by = self.notified_by.get(&(rank, counter)).map_or(&[][..], |v| &v[..]);
                let heard = notified_by.iter().take(upto as usize).skip(before as usize);
                heard.for_each(|(by, release)| self.knowledge[t].heard.learn(*by, *release));
            }
            Act::FenceRelease => {
                self.carry_out(t, usize::MAX)?;
                self.finish(t, |f| f.complete || !f.get)?;
                self.released[t] += 1;
            }
            Act::FenceComplete => self.complete_gets(t),
            Act::FenceAcquire => self.acquire(t),
            Act::Record(event) => {
                let mut debts = self.debts[t].clone();
                debts.push(Prerequisite { thread: t, issued: self.issued[t], clock: self.clock });
                let k = self.knowledge[t].clone();
                self.recorded.insert((rank, event, self.flow.threads[t].call), (k, debts));
                self.flow.record(t, event);
                self.wake(rank);
            }
            Act::Await(event) => {
                if let Some((k, debts)) = self.recorded.get(&(rank, event, self.flow.threads[t].call)) {
                    self.debts[t].extend(debts.iter().filter(|d| d.thread != t));
                    // This includes what that stream had acquired, because a stream acquires for
                    // itself.
                    let heard = &mut self.knowledge[t].heard;
                    heard.join(&k.heard);
                    heard.join(&k.acquired);
                }
            }
            Act::HostRead(_) | Act::Mark(()) => {}
        }
        Ok(())
    }

    /// Completes the gets of a stream.
    fn complete_gets(&mut self, t: usize) {
        self.flights.iter_mut().filter(|f| f.thread == t && f.get).for_each(|f| f.complete = true);
    }

    /// Executes what other streams of the rank had done when they recorded the events that this
    /// stream has awaited.
    fn pay(&mut self, t: usize) -> Result<(), Diagnostic> {
        for d in std::mem::take(&mut self.debts[t]) {
            let left = d.issued.saturating_sub(self.carried[d.thread]);
            self.carry_out(d.thread, usize::try_from(left).unwrap_or(usize::MAX))?;
            self.finish(d.thread, |f| f.complete && f.born <= d.clock)?;
        }
        Ok(())
    }

    fn send_notice(&mut self, t: usize, to: u64, kind: NoticeKind) {
        let born = self.tick();
        self.notes.push(Notice { thread: t, to, kind, release: self.released[t], born });
    }

    /// Executes the postponed operations and completed gets of a stream on which an operation with
    /// these accesses depends.
    fn settle(&mut self, t: usize, reads: &[Run], write: Option<&Run>) -> Result<(), Diagnostic> {
        self.carry_out_before(t, reads, write)?;
        self.land_before(t, reads, write)
    }

    /// Executes the postponed operations of a stream on which an operation with these accesses
    /// depends, and those before them.
    fn carry_out_before(&mut self, t: usize, reads: &[Run], write: Option<&Run>) -> Result<(), Diagnostic> {
        let depends = |e: &Effect<'_>| {
            reads.iter().any(|r| r.overlaps(&e.write))
                || write.is_some_and(|w| w.overlaps(&e.write) || e.reads.iter().any(|r| r.overlaps(w)))
        };
        let upto = self.postponed[t].iter().rposition(|p| depends(&p.effect)).map_or(0, |i| i + 1);
        self.carry_out(t, upto)
    }

    /// Executes the completed gets of a stream on which an operation with these accesses depends.
    fn land_before(&mut self, t: usize, reads: &[Run], write: Option<&Run>) -> Result<(), Diagnostic> {
        let rank = self.flow.threads[t].rank;
        self.finish(t, |f| {
            let its_result = reads.iter().chain(write).any(|r| r.overlaps(&f.dst.1));
            let its_source = f.src.0 == rank && write.is_some_and(|w| w.overlaps(&f.src.1));
            f.complete && (its_result || its_source)
        })
    }

    /// Executes the first `upto` postponed operations of a stream.
    fn carry_out(&mut self, t: usize, upto: usize) -> Result<(), Diagnostic> {
        for _ in 0..upto {
            let Some(Postponed { effect, born: _, call }) = self.postponed[t].pop_front() else { break };
            self.carried[t] += 1;
            if effect.bytes(self.program.schedule) > MAX_BYTES {
                return Err(
                    too_large(MAX_BYTES).primary(effect.span, "the result of this operation is too large")
                );
            }
            // The gets that it needs may have been as late as it is.
            self.land_before(t, &effect.reads, Some(&effect.write))?;
            let rank = self.flow.threads[t].rank;
            let mut data = vec![];
            for r in &effect.reads {
                data.push(self.read(t, rank, *r, effect.span)?);
            }
            let out = effect.compute(data)?;
            self.write(t, (rank, effect.write), &out, call);
        }
        Ok(())
    }

    /// Writes elements of a stream's own rank, in a call that the rank's host may not have begun.
    fn write(&mut self, t: usize, (rank, run): (u64, Run), data: &Data, call: i64) {
        let writer = self.writer(t);
        let ahead = call > self.flow.host_call(rank);
        let place = self.place(rank, run.mem);
        if ahead {
            place.early.note(run.start, run.len, call);
        }
        place.write(run.start, data, writer);
    }

    /// Returns the writer at this moment: its next release covers the write.
    fn writer(&self, t: usize) -> Writer {
        Writer { rank: self.flow.threads[t].rank, thread: t, release: self.released[t] + 1 }
    }

    fn place(&mut self, rank: u64, mem: Mem) -> &mut RankMemory {
        let s = self.program.schedule;
        let got_from = self.got_from.contains(&match mem {
            Mem::Buffer(b) => (false, b),
            Mem::Slot(w, _) => (true, w),
        });
        let new = || RankMemory::new(Cells::blank(mem_dtype(s, mem), zeros(s, mem)), got_from);
        self.memory[rank as usize].entry(mem).or_insert_with(new)
    }

    /// Returns what a stream sees of a memory of a rank.
    fn read(&mut self, t: usize, rank: u64, run: Run, span: Span) -> Result<Data, Diagnostic> {
        self.look(t, rank, run).map_err(|i| {
            nothing_there(self.program.schedule, rank, run.mem, i)
                .primary(span, format!("read by {}, which may still see the old data", self.flow.place(t)))
        })
    }

    fn look(&mut self, t: usize, rank: u64, run: Run) -> Result<Data, u64> {
        let own = self.flow.threads[t].rank;
        let k = &self.knowledge[t];
        let fresh = |w: &Writer| w.rank == own || k.acquired.has(w);
        match self.memory[rank as usize].get(&run.mem) {
            Some(place) => place.read(run.start, run.len, fresh, &mut self.rng),
            None if run.len == 0 || zeros(self.program.schedule, run.mem).is_some() => {
                Ok(Data::zeros(mem_dtype(self.program.schedule, run.mem), run.len as usize))
            }
            None => Err(run.start),
        }
    }

    /// Puts a transfer in transit, occasionally in two halves.
    fn issue(
        &mut self,
        t: usize,
        kind: TransferKind,
        src: (u64, Run),
        dst: (u64, Run),
        span: Span,
    ) -> Result<(), Diagnostic> {
        let (get, combiner) = match kind {
            TransferKind::Put => (false, None),
            TransferKind::Get(combiner) => (true, combiner),
        };
        same_type(self.program.schedule, src.1.mem, dst.1.mem, span)?;
        let len = src.1.len;
        let cut =
            if len > 1 && self.rng.one_in(4) { 1 + self.rng.below(len as usize - 1) as u64 } else { len };
        for (at, n) in [(0, cut), (cut, len - cut)] {
            if n == 0 {
                continue;
            }
            let part = |(rank, run): (u64, Run)| (rank, Run { start: run.start + at, len: n, ..run });
            let (release, born) = (self.released[t] + 1, self.tick());
            let call = self.flow.threads[t].call;
            let flight = Flight {
                get,
                combiner,
                complete: false,
                thread: t,
                src: part(src),
                dst: part(dst),
                data: None,
                release,
                call,
                span,
                born,
            };
            self.flights.push(flight);
        }
        Ok(())
    }

    /// Lets a transfer read its source, or land.
    fn flight(&mut self, at: usize) -> Result<(), Diagnostic> {
        let f = &self.flights[at];
        let (t, span, (rank, run)) = (f.thread, f.span, f.src);
        if f.data.is_none() {
            let data = self.read(t, rank, run, span)?;
            self.flights[at].data = Some(data);
            return Ok(());
        }
        let mut f = self.flights.swap_remove(at);
        let (rank, run) = f.dst;
        if let (Some(op), Some(data)) = (f.combiner, &f.data) {
            let mut sum = self.read(t, rank, run, span)?;
            let wrong = |r: Refusal| Diagnostic::error("E363", r.text).primary(span, "in this operation");
            numbers::combine(op, &mut sum, data).map_err(wrong)?;
            f.data = Some(sum);
        }
        // A get is complete, and belongs to a later release, whenever it lands.
        let writer = if f.get { self.writer(t) } else { Writer { release: f.release, ..self.writer(t) } };
        let ahead = f.call > self.flow.host_call(rank);
        let place = self.place(rank, run.mem);
        if ahead {
            place.early.note(run.start, run.len, f.call);
        }
        if let Some(data) = &f.data {
            if rank == writer.rank {
                place.write(run.start, data, writer);
            } else {
                place.land(run.start, data, writer);
            }
        }
        Ok(())
    }

    /// Ends the selected transfers of a stream, in any order.
    fn finish(&mut self, t: usize, which: impl Fn(&Flight) -> bool) -> Result<(), Diagnostic> {
        loop {
            let of: Vec<usize> = (0..self.flights.len())
                .filter(|i| self.flights[*i].thread == t && which(&self.flights[*i]))
                .collect();
            if of.is_empty() {
                return Ok(());
            }
            let at = of[self.rng.below(of.len())];
            self.flight(at)?;
        }
    }

    /// Lets a notify, message or credit land. Those of one stream to one counter or queue keep
    /// their order.
    fn note(&mut self, at: usize) {
        let key = |n: &Notice| (n.thread, n.to, n.kind);
        let chosen = key(&self.notes[at]);
        let first = self.notes.iter().position(|n| key(n) == chosen).unwrap_or(at);
        let n = self.notes.remove(first);
        match n.kind {
            NoticeKind::Counter(counter) => {
                self.notified_by.entry((n.to, counter)).or_default().push((n.thread, n.release));
                self.flow.add(n.to, counter);
            }
            NoticeKind::Message(queue) => self.flow.arrived(queue),
            NoticeKind::Credit(queue) => self.flow.credited(queue),
        }
        self.wake(n.to);
    }

    fn acquire(&mut self, t: usize) {
        let heard = std::mem::take(&mut self.knowledge[t].heard);
        self.knowledge[t].acquired.join(&heard);
        let rank = self.flow.threads[t].rank;
        let streams: Vec<&LandedReleases> =
            self.flow.of_rank(rank).map(|t| &self.knowledge[t].acquired).collect();
        for place in self.memory[rank as usize].values_mut().filter(|p| !p.is_clear()) {
            place.acquired(|w| streams.iter().all(|k| k.has(w)));
        }
    }

    fn show(&self, rank: u64) -> String {
        self.program.schedule.mesh.show(rank)
    }
}

/// Returns the buffers (false, number) and windows (true, number) that some `get` reads on a peer.
fn got_from(s: &Schedule) -> BTreeSet<(bool, u32)> {
    fn visit(list: &[SStmt], operands: &[kbc_ir::schedule::Operand], out: &mut BTreeSet<(bool, u32)>) {
        for st in list {
            match st {
                SStmt::For { body, .. } => visit(body, operands, out),
                SStmt::If { then, other, .. } => {
                    visit(then, operands, out);
                    visit(other, operands, out);
                }
                SStmt::Op(
                    SOp::Get { src: Ref::Chunk { operand, .. }, .. }
                    | SOp::GetCombine { src: Ref::Chunk { operand, .. }, .. },
                    _,
                ) => {
                    out.extend(operands.get(operand.0 as usize).map(|o| (false, o.buffer.0)));
                }
                SStmt::Op(
                    SOp::Get { src: Ref::Slot { window, .. }, .. }
                    | SOp::GetCombine { src: Ref::Slot { window, .. }, .. },
                    _,
                ) => {
                    out.insert((true, window.0));
                }
                SStmt::Op(..) => {}
            }
        }
    }
    let mut out = BTreeSet::new();
    for r in &s.regions {
        for stream in r.roles.iter().flat_map(|role| &role.streams) {
            visit(&stream.body, &r.operands, &mut out);
        }
    }
    out
}
