//! Plan of a run: all events of some calls of a schedule, each with its predecessors.
//!
//! Control never depends on data, so every stream's operations are known in advance. The module
//! owns the events, their order within a stream, and what each one touches. [`super::explore`] and
//! [`super::random`] choose an order; [`super::machine`] executes.

mod control;
mod queues;

use super::memory::poison;
use kbc_backend_sim::effect::{Effect, Run, mem_dtype, same_type};
use kbc_backend_sim::flow::Queue;
use kbc_backend_sim::host::Host;
use kbc_backend_sim::interp::{MAX_BYTES, RunResult, zeros};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::form::Form;
use kbc_ir::schedule::{BufferId, BufferRole};
use kbc_ir::types::ReduceOp;
use kbc_ir::walk::{Act, Cursor, Mem, Program, Step};
use kbc_numerics::tensor::Data;
use std::collections::BTreeMap;

/// The number that stands for no event.
pub(super) const NONE: u32 = u32::MAX;

/// A read or write of some elements of a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub(super) place: u32,
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) write: bool,
    /// The call whose beginning forgets the elements; None for a write of values.
    pub(super) forgets: Option<i64>,
}

impl Touch {
    /// Whether both touch a common element.
    pub(super) fn overlaps(&self, o: &Touch) -> bool {
        self.place == o.place && self.start < o.start + o.len && o.start < self.start + self.len
    }
}

/// The action of an event.
pub(super) enum Action<'p> {
    /// Passes when the counter meets its form's condition; hears the notifies that it means.
    Wait {
        counter: u32,
        value: i64,
    },
    Acquire,
    Release,
    Record,
    /// Passes after that event.
    Await(u32),
    /// Executes a copy, a reduction or a local operation.
    Exec(Box<Effect<'p>>),
    /// A transfer reads its source.
    Read {
        flight: u32,
    },
    /// A transfer lands: it replaces its destination, or is combined into it.
    Land {
        flight: u32,
        combiner: Option<ReduceOp>,
    },
    /// A notify lands, and reports releases up to this number.
    Note {
        counter: u32,
        release: u32,
    },
    /// A message of a queue is read from its source.
    Send {
        flight: u32,
    },
    /// The message is written where it is received.
    Recv {
        flight: u32,
    },
    /// A queue's message or credit arrives, or room is found: only its predecessors matter.
    Pass,
    /// The host reads a buffer: its number among the reads of the call.
    HostRead {
        nth: usize,
    },
    /// The host ends a call and begins the next.
    CallOver,
}

/// One event.
pub(super) struct Event<'p> {
    pub(super) what: Action<'p>,
    pub(super) thread: u32,
    pub(super) rank: u32,
    pub(super) call: i64,
    /// The acquire whose knowledge its reads have: the stream's last one before it was issued.
    pub(super) knows: u32,
    /// The number of the release that covers its write.
    pub(super) release: u32,
    pub(super) touches: Vec<Touch>,
}

impl Event<'_> {
    /// Whether it is a step of the stream itself.
    pub(super) fn of_thread(&self) -> bool {
        !matches!(
            self.what,
            Action::Exec(_) | Action::Read { .. } | Action::Land { .. } | Action::Note { .. } | Action::Pass
        )
    }

    /// Returns the rank on which it acts.
    pub(super) fn on(&self, plan: &Plan<'_>) -> u32 {
        match self.what {
            Action::Land { .. } | Action::Read { .. } => {
                self.touches.first().map_or(self.rank, |t| plan.places[t.place as usize].rank)
            }
            Action::Note { counter, .. } => counter / plan.counters.max(1),
            _ => self.rank,
        }
    }
}

/// Facts about a memory of a rank.
pub(super) struct PlaceInfo {
    pub(super) rank: u32,
    /// Its contents before the first call begins.
    pub(super) data: Data,
    /// Whether peers `get` from it.
    pub(super) remote_readers: bool,
    /// Whether it is forgotten between calls.
    pub(super) buffer: bool,
}

/// A place that the host fills or forgets when a call begins.
pub(super) struct Fill {
    pub(super) place: u32,
    pub(super) data: Option<Data>,
}

/// The waits for a counter that is not an epoch.
#[derive(Default)]
pub(super) struct Waits {
    by: u32,
    /// Whether several streams wait, so that it is open which wait takes which notify.
    pub(super) shared: bool,
    /// Number of notifies that each wait and those before it mean.
    pub(super) upto: Vec<u64>,
}

impl Waits {
    /// Returns the wait that notify number `number` (from 0) is for; the number of waits if none.
    pub(super) fn of(&self, number: usize) -> usize {
        self.upto.partition_point(|upto| *upto <= number as u64)
    }
}

/// A result of a rank in a call.
pub(super) struct RequiredResult {
    pub(super) place: u32,
    pub(super) data: Data,
}

/// All events of some calls.
pub(super) struct Plan<'p> {
    pub(super) events: Vec<Event<'p>>,
    preds: Vec<u32>,
    pred_at: Vec<u32>,
    succs: Vec<u32>,
    succ_at: Vec<u32>,
    pub(super) places: Vec<PlaceInfo>,
    pub(super) flights: u32,
    pub(super) threads: u32,
    /// Number of streams per rank.
    pub(super) streams: u32,
    pub(super) ranks: u32,
    /// Number of counters per rank; counter c of rank r is `r * counters + c`.
    pub(super) counters: u32,
    /// Forms of a rank's counters; empty if all are epochs.
    forms: Vec<Form>,
    /// Waits by counter.
    pub(super) waits: BTreeMap<u32, Waits>,
    /// Fills by call and rank.
    pub(super) fills: Vec<Vec<Vec<Fill>>>,
    pub(super) results: Vec<Vec<Vec<RequiredResult>>>,
    pub(super) reads: Vec<Vec<Vec<RequiredResult>>>,
}

/// The reason why there is no plan.
pub(super) enum Unplanned {
    /// The schedule has no meaning on some rank.
    Wrong(Box<Diagnostic>),
    /// There would be more events than the limit.
    TooLong,
}

impl From<Diagnostic> for Unplanned {
    fn from(d: Diagnostic) -> Self {
        Unplanned::Wrong(Box::new(d))
    }
}

impl From<Diagnostics> for Unplanned {
    fn from(d: Diagnostics) -> Self {
        let bug = || Diagnostic::error("E991", "refused without a reason");
        Unplanned::Wrong(Box::new(d.list.into_iter().next().unwrap_or_else(bug)))
    }
}

impl<'p> Plan<'p> {
    /// Returns the form of a counter of any rank.
    pub(super) fn form(&self, counter: u32) -> Form {
        self.forms.get((counter % self.counters.max(1)) as usize).copied().unwrap_or(Form::Epoch)
    }

    /// Returns the predecessors of an event.
    pub(super) fn preds(&self, e: u32) -> &[u32] {
        &self.preds[self.pred_at[e as usize] as usize..self.pred_at[e as usize + 1] as usize]
    }

    /// Returns the successors of an event.
    pub(super) fn succs(&self, e: u32) -> &[u32] {
        &self.succs[self.succ_at[e as usize] as usize..self.succ_at[e as usize + 1] as usize]
    }

    /// Makes the plan of so many calls, with at most `most` events.
    pub(super) fn new(
        program: &'p Program<'p>,
        host: &Host<'_>,
        expected: &RunResult,
        calls: i64,
        most: usize,
    ) -> Result<Plan<'p>, Unplanned> {
        let mut b = Builder {
            program,
            calls,
            most,
            events: vec![],
            preds: vec![],
            places: vec![],
            place_of: BTreeMap::new(),
            flights: 0,
            records: BTreeMap::new(),
            awaited: vec![],
            queues: BTreeMap::new(),
            waits: BTreeMap::new(),
        };
        let mut remote = vec![];
        let streams = program.streams.len() as u32;
        for rank in 0..program.ranks() {
            for stream in 0..streams {
                b.stream(rank, stream, &mut remote)?;
            }
        }
        for p in remote {
            b.places[p as usize].remote_readers = true;
        }
        // An awaited event may be recorded by a stream that was walked later.
        for e in 0..b.events.len() {
            let Event { what: Action::Await(event), rank, call, .. } = b.events[e] else { continue };
            let of = b.records.get(&(rank, event, call)).map_or(NONE, |(record, _)| *record);
            b.events[e].what = Action::Await(of);
            // An event that is never recorded is its own predecessor, so it is awaited forever.
            b.preds[e].push(if of == NONE { e as u32 } else { of });
        }
        for (e, key) in std::mem::take(&mut b.awaited) {
            b.preds[e as usize].extend(b.records.get(&key).map(|(_, settled)| *settled));
        }
        b.bind_queues()?;
        let (fills, results, reads) = b.host(host, expected)?;
        let n = b.events.len();
        let (mut preds, mut pred_at) = (vec![], vec![0]);
        let mut degree = vec![0u32; n + 1];
        for list in &mut b.preds {
            list.sort_unstable();
            list.dedup();
            preds.extend_from_slice(list);
            pred_at.push(preds.len() as u32);
            list.iter().for_each(|p| degree[*p as usize + 1] += 1);
        }
        for i in 0..n {
            degree[i + 1] += degree[i];
        }
        let mut at = degree.clone();
        let mut succs = vec![0; preds.len()];
        for (e, list) in b.preds.iter().enumerate() {
            for p in list {
                succs[at[*p as usize] as usize] = e as u32;
                at[*p as usize] += 1;
            }
        }
        Ok(Plan {
            events: b.events,
            preds,
            pred_at,
            succs,
            succ_at: degree,
            places: b.places,
            flights: b.flights,
            threads: program.ranks() as u32 * streams,
            streams,
            ranks: program.ranks() as u32,
            counters: program.counters(),
            forms: if program.has_forms() {
                (0..program.counters()).map(|c| program.form(c)).collect()
            } else {
                vec![]
            },
            waits: b.waits,
            fills,
            results,
            reads,
        })
    }
}

/// A transfer whose end is not determined yet.
struct Pending {
    land: u32,
    get: bool,
    complete: bool,
    src: (u64, Run),
    dst: Run,
}

/// The state of a stream during the walk.
#[derive(Default)]
struct StreamState {
    prev: Option<u32>,
    knows: Option<u32>,
    releases: u32,
    last_exec: Option<u32>,
    /// What other streams of the rank had executed at the records awaited since the last release:
    /// local work comes after it, notifies need not.
    awaited: Vec<u32>,
    pending: Vec<Pending>,
    /// Local operations since all were executed.
    locals: Vec<(u32, Vec<Run>, Run)>,
    /// Last notify to a counter.
    channels: BTreeMap<u32, u32>,
    host_reads: usize,
}

impl StreamState {
    /// Returns the events that an operation with these accesses must follow.
    fn settle(&self, rank: u64, reads: &[Run], write: Option<&Run>) -> Vec<u32> {
        let depends = |l: &&(u32, Vec<Run>, Run)| {
            reads.iter().any(|r| r.overlaps(&l.2))
                || write.is_some_and(|w| w.overlaps(&l.2) || l.1.iter().any(|r| r.overlaps(w)))
        };
        let mut out: Vec<u32> = self.locals.iter().rev().find(depends).map(|l| l.0).into_iter().collect();
        out.extend(self.pending.iter().filter(|f| f.complete).filter_map(|f| {
            let its_result = reads.iter().chain(write).any(|r| r.overlaps(&f.dst));
            let its_source = f.src.0 == rank && write.is_some_and(|w| w.overlaps(&f.src.1));
            (its_result || its_source).then_some(f.land)
        }));
        out
    }

    fn base(&self) -> Vec<u32> {
        self.prev.into_iter().collect()
    }

    /// Returns the predecessors of an event that needs all earlier or awaited work to be executed.
    fn done(&self) -> Vec<u32> {
        let mut after = self.base();
        after.extend(self.last_exec);
        after.extend(&self.awaited);
        after.extend(self.pending.iter().filter(|f| f.complete).map(|f| f.land));
        after
    }
}

/// The way in which a stream moves data.
#[derive(Clone, Copy)]
enum TransferKind {
    Put,
    /// The data is combined into its destination if there is a combiner.
    Get(Option<ReduceOp>),
}

type ByCall<T> = Vec<Vec<Vec<T>>>;

struct Builder<'p> {
    program: &'p Program<'p>,
    calls: i64,
    most: usize,
    events: Vec<Event<'p>>,
    preds: Vec<Vec<u32>>,
    places: Vec<PlaceInfo>,
    place_of: BTreeMap<(u32, Mem), u32>,
    flights: u32,
    /// By rank, event and call: the `record`, and the event after which earlier work is executed.
    records: BTreeMap<(u32, u32, i64), (u32, u32)>,
    /// Events that follow the work that a record reports as executed.
    awaited: Vec<(u32, (u32, u32, i64))>,
    queues: BTreeMap<Queue, queues::Messages>,
    waits: BTreeMap<u32, Waits>,
}

impl<'p> Builder<'p> {
    fn place(&mut self, rank: u64, mem: Mem) -> Result<u32, Unplanned> {
        let key = (rank as u32, mem);
        if let Some(p) = self.place_of.get(&key) {
            return Ok(*p);
        }
        let s = self.program.schedule;
        let show = |r| s.mesh.show(r);
        let n = match mem {
            Mem::Buffer(b) => self.program.elements(BufferId(b), rank).map_err(|f| f.diagnostic(show))?,
            Mem::Slot(w, _) => s.windows[w as usize].capacity,
        };
        let dtype = mem_dtype(s, mem);
        if n.saturating_mul(dtype.bytes()) > MAX_BYTES >> 10 {
            return Err(Unplanned::TooLong);
        }
        let data =
            if zeros(s, mem).is_some() { Data::zeros(dtype, n as usize) } else { poison(dtype, n as usize) };
        let id = self.places.len() as u32;
        let buffer = matches!(mem, Mem::Buffer(_));
        self.places.push(PlaceInfo { rank: rank as u32, data, remote_readers: false, buffer });
        self.place_of.insert(key, id);
        Ok(id)
    }

    fn touch(&mut self, rank: u64, run: &Run, write: bool) -> Result<Touch, Unplanned> {
        let place = self.place(rank, run.mem)?;
        Ok(Touch { place, start: run.start as u32, len: run.len as u32, write, forgets: None })
    }

    fn push(
        &mut self,
        at: &StreamState,
        id: (u64, u32, i64),
        what: Action<'p>,
        preds: Vec<u32>,
        touches: Vec<Touch>,
    ) -> u32 {
        let (rank, thread, call) = id;
        let e = self.events.len() as u32;
        self.events.push(Event {
            what,
            thread,
            rank: rank as u32,
            call,
            knows: at.knows.unwrap_or(NONE),
            release: at.releases + 1,
            touches,
        });
        self.preds.push(preds);
        e
    }

    fn stream(&mut self, rank: u64, stream: u32, remote: &mut Vec<u32>) -> Result<(), Unplanned> {
        let s = self.program.schedule;
        let show = |r| s.mesh.show(r);
        let thread = rank as u32 * self.program.streams.len() as u32 + stream;
        let mut at = StreamState::default();
        for call in 0..self.calls {
            let mut cursor = Cursor::new(self.program, rank, stream, call);
            at.host_reads = 0;
            while let Some(step) = cursor.next_step().map_err(|f| f.diagnostic(show))? {
                if self.events.len() > self.most {
                    return Err(Unplanned::TooLong);
                }
                let Step::Act(act, span, _) = step else { continue };
                let id = (rank, thread, call);
                match &act {
                    Act::Copy { .. } | Act::Reduce { .. } | Act::Local(_) => {
                        let Some(effect) = Effect::of(self.program, rank, &act, span)? else { continue };
                        self.local(&mut at, id, effect)?;
                    }
                    Act::Put { src, peer, dst } => {
                        let (src, dst) = (Run::of(src), Run::of(dst));
                        same_type(s, src.mem, dst.mem, span)?;
                        let after = at.settle(rank, &[src], (*peer == rank).then_some(&dst));
                        self.transfer(&mut at, id, TransferKind::Put, (rank, src), (*peer, dst), after)?;
                    }
                    Act::Get { dst, peer, src } | Act::GetCombine { op: _, dst, peer, src } => {
                        let (src, dst) = (Run::of(src), Run::of(dst));
                        same_type(s, src.mem, dst.mem, span)?;
                        let combiner = match &act {
                            Act::GetCombine { op, .. } => {
                                self.complete_gets(&mut at);
                                Some(*op)
                            }
                            _ => None,
                        };
                        let mut own = if *peer == rank { vec![src] } else { vec![] };
                        own.extend(combiner.map(|_| dst));
                        let after = at.settle(rank, &own, Some(&dst));
                        remote.push(self.place(*peer, src.mem)?);
                        let kind = TransferKind::Get(combiner);
                        self.transfer(&mut at, id, kind, (*peer, src), (rank, dst), after)?;
                    }
                    Act::FenceComplete => self.complete_gets(&mut at),
                    Act::Send { .. } | Act::Recv { .. } | Act::Room { .. } => {
                        self.queue(&mut at, id, &act, span)?;
                    }
                    Act::Notify { .. }
                    | Act::Wait { .. }
                    | Act::FenceAcquire
                    | Act::FenceRelease
                    | Act::Record(_)
                    | Act::Await(_)
                    | Act::HostRead(_) => self.control(&mut at, id, &act)?,
                    Act::Mark(()) => {}
                    Act::Host(host) => match *host {},
                }
            }
            if stream == self.program.host {
                let touches = self.call_over(rank, call)?;
                let after = at.done();
                let e = self.push(&at, (rank, thread, call), Action::CallOver, after, touches);
                at.locals.clear();
                at.awaited.clear();
                at.pending.retain(|f| !f.complete);
                at.prev = Some(e);
            }
        }
        Ok(())
    }

    fn local(
        &mut self,
        at: &mut StreamState,
        id: (u64, u32, i64),
        effect: Effect<'p>,
    ) -> Result<(), Unplanned> {
        let mut after = at.settle(id.0, &effect.reads, Some(&effect.write));
        after.extend(at.prev);
        after.extend(at.last_exec);
        after.extend(&at.awaited);
        if effect.bytes(self.program.schedule) > MAX_BYTES >> 10 {
            return Err(Unplanned::TooLong);
        }
        let mut touches = vec![];
        for r in &effect.reads {
            touches.push(self.touch(id.0, r, false)?);
        }
        touches.push(self.touch(id.0, &effect.write, true)?);
        let (reads, write) = (effect.reads.clone(), effect.write);
        let e = self.push(at, id, Action::Exec(Box::new(effect)), after, touches);
        at.locals.push((e, reads, write));
        at.last_exec = Some(e);
        Ok(())
    }

    /// Completes the gets of a stream.
    fn complete_gets(&mut self, at: &mut StreamState) {
        for f in at.pending.iter_mut().filter(|f| f.get && !f.complete) {
            f.complete = true;
            self.events[f.land as usize].release = at.releases + 1;
        }
    }

    fn transfer(
        &mut self,
        at: &mut StreamState,
        id: (u64, u32, i64),
        kind: TransferKind,
        src: (u64, Run),
        dst: (u64, Run),
        mut after: Vec<u32>,
    ) -> Result<(), Unplanned> {
        if src.1.len == 0 {
            return Ok(());
        }
        after.extend(at.prev);
        after.extend(&at.awaited);
        let flight = self.flights;
        self.flights += 1;
        let from = self.touch(src.0, &src.1, false)?;
        let (get, combiner) = match kind {
            TransferKind::Put => (false, None),
            TransferKind::Get(combiner) => (true, combiner),
        };
        let mut to = vec![];
        if combiner.is_some() {
            to.push(self.touch(dst.0, &dst.1, false)?);
        }
        to.push(self.touch(dst.0, &dst.1, true)?);
        let read = self.push(at, id, Action::Read { flight }, after, vec![from]);
        let land = self.push(at, id, Action::Land { flight, combiner }, vec![read], to);
        if get {
            // Covered by the release after its completion, if there is one.
            self.events[land as usize].release = NONE;
        }
        at.pending.push(Pending { land, get, complete: false, src, dst: dst.1 });
        Ok(())
    }

    /// Returns what the host touches when a call ends and the next one begins.
    fn call_over(&mut self, rank: u64, call: i64) -> Result<Vec<Touch>, Unplanned> {
        let s = self.program.schedule;
        let mut touches = vec![];
        for (i, b) in s.buffers.iter().enumerate() {
            let mem = Mem::Buffer(i as u32);
            let place = self.place(rank, mem)?;
            let whole = Touch {
                place,
                start: 0,
                len: self.places[place as usize].data.len() as u32,
                write: false,
                forgets: None,
            };
            if matches!(b.role, BufferRole::Output(_)) && s.host.is_none() {
                touches.push(whole);
            }
            if call + 1 < self.calls {
                let filled = b.zero || matches!(b.role, BufferRole::Input(_));
                touches.push(Touch { write: true, forgets: (!filled).then_some(call + 1), ..whole });
            }
        }
        Ok(touches)
    }

    /// Adds what the host fills and the results that it must find.
    #[expect(clippy::type_complexity, reason = "three lists by call and rank")]
    fn host(
        &mut self,
        host: &Host<'_>,
        expected: &RunResult,
    ) -> Result<(ByCall<Fill>, ByCall<RequiredResult>, ByCall<RequiredResult>), Unplanned> {
        let s = self.program.schedule;
        let (mut fills, mut results, mut reads) = (vec![], vec![], vec![]);
        for call in 0..self.calls {
            let (mut fill_ranks, mut result_ranks, mut read_ranks) = (vec![], vec![], vec![]);
            for rank in 0..self.program.ranks() {
                let mut list = vec![];
                for (i, b) in s.buffers.iter().enumerate() {
                    let place = self.place(rank, Mem::Buffer(i as u32))?;
                    let id = BufferId(i as u32);
                    let data = match b.role {
                        BufferRole::Input(n) => Some(host.fill(id, n, rank, call)?),
                        _ if b.zero => Some(host.zeros(id, rank, MAX_BYTES)?),
                        BufferRole::Output(_) | BufferRole::Temp => None,
                    };
                    list.push(Fill { place, data });
                }
                fill_ranks.push(list);
                let missing = || Diagnostic::error("E360", format!("no expected results for call {call}"));
                let mut list = vec![];
                if s.host.is_none() {
                    for (k, (b, _, _)) in host.results(rank)?.into_iter().enumerate() {
                        let want = expected.outputs.get(call as usize);
                        let want = want.and_then(|c| c.get(rank as usize)?.get(k)).ok_or_else(missing)?;
                        let place = self.place(rank, Mem::Buffer(b.0))?;
                        list.push(RequiredResult { place, data: want.tensor.data().clone() });
                    }
                }
                result_ranks.push(list);
                let mut list = vec![];
                let wanted = expected.reads.get(call as usize).and_then(|c| c.get(rank as usize));
                for r in wanted.into_iter().flatten() {
                    let place = self.place(rank, Mem::Buffer(r.buffer.0))?;
                    list.push(RequiredResult { place, data: r.tensor.data().clone() });
                }
                read_ranks.push(list);
            }
            fills.push(fill_ranks);
            results.push(result_ranks);
            reads.push(read_ranks);
        }
        Ok((fills, results, reads))
    }
}
