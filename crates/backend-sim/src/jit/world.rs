//! State of all ranks while compiled code runs: what their memories hold, their signals and their
//! streams.
//!
//! The module owns what outlives a function's return. A notify, a record or a message puts the
//! streams whose waits it satisfies back in the queue, from which [`super::run`] takes the next
//! one. As for the interpreter, [`crate::host`] handles inputs, results and the buffers that are
//! forgotten between calls.

#![allow(unsafe_code, reason = "elements of memories are read and written as pointers here")]

use super::deferred::Piece;
use super::memories::{Memories, Refused};
use super::plan::Plan;
use super::queues::Queues;
use super::recipe::Recipe;
use crate::effect::Run;
use crate::flow::Queue;
use crate::host::{EarlyWrites, Host};
use crate::interp::{HostRead, RunResult};
use crate::lifetimes::Lifetimes;
use crate::store::Ranges;
use kbc_diag::Diagnostic;
use kbc_ir::schedule::{BufferId, BufferRole};
use kbc_ir::walk::{Mem, Program};
use kbc_numerics::tensor::Tensor;
use std::collections::{BTreeMap, VecDeque};

/// What a stream waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockedOn {
    No,
    Counter(u32, u64),
    Event(u32, i64),
    /// Until the queue has a free slot.
    Full(Queue),
    /// Until the queue has a message.
    Empty(Queue),
}

/// A stream of a rank, and how far it has come.
pub(super) struct Thread {
    pub(super) rank: u64,
    pub(super) stream: u32,
    pub(super) call: i64,
    pub(super) region: usize,
    pub(super) state: i64,
    pub(super) held: BlockedOn,
    pub(super) queued: bool,
    pub(super) env: Vec<i64>,
}

/// All ranks.
pub(super) struct World<'p> {
    pub(super) program: &'p Program<'p>,
    recipes: &'p BTreeMap<u32, Recipe>,
    lifetimes: &'p Lifetimes,
    /// The role of each rank in each region.
    pub(super) roles: Vec<Vec<Option<usize>>>,
    host: Host<'p>,
    pub(super) memories: Memories<'p>,
    /// For each buffer, whether no operation writes it.
    read_only: Vec<bool>,
    init: Vec<Ranges>,
    early: Vec<EarlyWrites>,
    /// For each rank, whether it gave storage away in this call.
    gave: Vec<bool>,
    pub(super) counters: Vec<u64>,
    pub(super) recorded: Vec<i64>,
    queues: Queues,
    pub(super) threads: Vec<Thread>,
    pub(super) queue: VecDeque<usize>,
    pub(super) calls: i64,
    plans: BTreeMap<(u64, u32), Option<Plan>>,
    aside: Vec<u8>,
    result: RunResult,
}

/// The reason why a run ended early.
pub(super) enum Stop {
    /// A fault, which the interpreter explains.
    Fault,
    /// Too much memory.
    TooLarge,
    /// A slot was read again, and has not kept its elements.
    Lost,
    /// The host rejected data.
    Host(Diagnostic),
}

impl From<Refused> for Stop {
    fn from(why: Refused) -> Stop {
        match why {
            Refused::TooLarge => Stop::TooLarge,
            Refused::Lost => Stop::Lost,
        }
    }
}

impl<'p> World<'p> {
    /// Creates the state before call 0. The frame of each stream has `frame` slots.
    pub(super) fn new(
        program: &'p Program<'p>,
        (recipes, lifetimes, frame): (&'p BTreeMap<u32, Recipe>, &'p Lifetimes, usize),
        host: Host<'p>,
        calls: u32,
        memories: Memories<'p>,
    ) -> Result<Self, Stop> {
        let s = program.schedule;
        let ranks = program.ranks();
        let buffers = s.buffers.len();
        let read_only = kbc_ir::uses::written(s).into_iter().map(|written| !written).collect();
        let mut roles = vec![];
        for region in 0..s.regions.len() {
            let id = kbc_ir::schedule::RegionId(region as u32);
            let of: Result<Vec<_>, _> = (0..ranks).map(|r| program.role_of(id, r)).collect();
            roles.push(of.map_err(|_| Stop::Fault)?);
        }
        let streams = program.streams.len() as u32;
        let threads = (0..ranks)
            .flat_map(|rank| (0..streams).map(move |stream| (rank, stream)))
            .map(|(rank, stream)| {
                let mut env = program.mesh_env(rank);
                env.resize(frame, 0);
                Thread { rank, stream, call: 0, region: 0, state: 0, held: BlockedOn::No, queued: true, env }
            })
            .collect::<Vec<_>>();
        let ranks = ranks as usize;
        let mems = memories.per_rank;
        let mut init = vec![Ranges::default(); ranks * mems];
        for (w, window) in s.windows.iter().enumerate().filter(|(_, w)| w.zero) {
            // The storage is zero at first.
            let all = window.slots * window.capacity;
            (0..ranks).for_each(|r| init[r * mems + buffers + w].add(0, all));
        }
        Ok(World {
            program,
            recipes,
            lifetimes,
            roles,
            host,
            memories,
            read_only,
            init,
            early: (0..ranks * mems).map(|_| EarlyWrites::default()).collect(),
            gave: vec![false; ranks],
            counters: vec![0; ranks * program.counters() as usize],
            recorded: vec![0; ranks * program.events.len()],
            queues: Queues::default(),
            queue: (0..threads.len()).collect(),
            threads,
            calls: i64::from(calls),
            plans: BTreeMap::new(),
            aside: vec![],
            result: RunResult::empty(calls, ranks),
        })
    }

    /// Returns why the last operation failed.
    pub(super) fn stop(&self) -> Stop {
        self.memories.refused.map_or(Stop::Fault, Stop::from)
    }

    /// Sets the buffers of a rank to what they hold when a call begins.
    pub(super) fn begin_call(&mut self, rank: u64, call: i64) -> Result<(), Stop> {
        // What is forgotten first needs no copy of what is overwritten afterwards; later buffers
        // usually have copies of earlier ones.
        for (i, b) in self.program.schedule.buffers.iter().enumerate().rev() {
            let place = rank as usize * self.memories.per_rank + i;
            if !b.zero && !matches!(b.role, BufferRole::Input(_)) {
                self.init[place] = self.early[place].begin(call);
                if self.init[place] == Ranges::default() {
                    self.memories.cleared(place).ok_or_else(|| self.stop())?;
                }
            }
        }
        for (i, b) in self.program.schedule.buffers.iter().enumerate() {
            let place = rank as usize * self.memories.per_rank + i;
            match b.role {
                BufferRole::Input(n) => {
                    let source = self.host.source(BufferId(i as u32), n, rank, call);
                    let (tensor, held) = source.map_err(Stop::Host)?;
                    let loaded = self.memories.load(place, tensor, &held.range, self.read_only[i]);
                    if loaded.ok_or_else(|| self.stop())? {
                        // Plans contain addresses.
                        self.plans.retain(|(r, _), _| *r != rank);
                    }
                    self.init[place].add(0, held.shape().iter().product());
                }
                _ if b.zero => {
                    let len = self.program.elements(BufferId(i as u32), rank).unwrap_or(0);
                    let all = Piece { place, start: 0, len };
                    let to = self.memories.replaced(all).ok_or_else(|| self.stop())?;
                    // SAFETY: the buffer has that many elements, and zeros are elements of every
                    // type.
                    unsafe { std::ptr::write_bytes(to, 0, self.memories.bytes(place, len as i64)) };
                    self.init[place].add(0, len);
                }
                BufferRole::Output(_) | BufferRole::Temp => {}
            }
        }
        Ok(())
    }

    /// Gives the storage of what a stream needs no more after a region to other buffers.
    pub(super) fn region_over(&mut self, rank: u64, stream: u32, region: usize) -> Result<(), Stop> {
        for buffer in self.lifetimes.ended(region, stream) {
            let place = rank as usize * self.memories.per_rank + buffer as usize;
            if self.memories.ended(place).ok_or_else(|| self.stop())? {
                self.init[place] = Ranges::default();
                self.gave[rank as usize] = true;
            }
        }
        Ok(())
    }

    /// Keeps the results of a rank if the stream that has come to the end of a call is that of the
    /// host, and begins the next call.
    pub(super) fn call_over(&mut self, rank: u64, stream: u32, call: i64) -> Result<(), Stop> {
        if stream != self.program.host {
            return Ok(());
        }
        let last = call + 1 == self.calls;
        let mut parts = vec![];
        for (b, bounds, n) in self.host.results(rank).map_err(Stop::Host)? {
            let place = rank as usize * self.memories.per_rank + b.0 as usize;
            let data = match self.result.taken(call, rank, b) {
                Some(read) => read.clone(),
                None if self.init[place].first_gap(0, n).is_some() => return Err(Stop::Fault),
                None if last => {
                    self.memories.ends_as_result(place);
                    continue;
                }
                None => self.memories.fetch(Piece { place, start: 0, len: n }).ok_or_else(|| self.stop())?,
            };
            parts.push(self.host.part(b, bounds, data).map_err(Stop::Host)?);
        }
        self.result.outputs[call as usize][rank as usize] = parts;
        if std::mem::take(&mut self.gave[rank as usize]) {
            // Plans contain addresses, and the buffers get another storage.
            let own: Vec<_> = self.plans.range((rank, 0)..=(rank, u32::MAX)).map(|p| *p.0).collect();
            own.iter().for_each(|at| drop(self.plans.remove(at)));
        }
        if last { Ok(()) } else { self.begin_call(rank, call + 1) }
    }

    /// Returns the results when all ranks have ended.
    pub(super) fn finish(mut self) -> Result<RunResult, Stop> {
        let per_rank = self.memories.per_rank;
        let mut held = self.memories.into_results()?;
        for (rank, outputs) in self.result.outputs.last_mut().into_iter().flatten().enumerate() {
            let mut read = std::mem::take(outputs).into_iter();
            for (b, bounds, _) in self.host.results(rank as u64).map_err(Stop::Host)? {
                let part = match held.remove(&(rank * per_rank + b.0 as usize)) {
                    Some(data) => Some(self.host.part(b, bounds, data).map_err(Stop::Host)?),
                    None => read.next(),
                };
                outputs.extend(part);
            }
        }
        Ok(self.result)
    }

    /// Keeps what the host reads of a buffer in a call. Returns None if some element holds nothing.
    pub(super) fn host_read(&mut self, rank: u64, call: i64, buffer: BufferId) -> Option<()> {
        let dims = self.program.dims(buffer, rank).ok()?;
        let (n, place) = (dims.iter().product(), rank as usize * self.memories.per_rank + buffer.0 as usize);
        if self.init[place].first_gap(0, n).is_some() {
            return None;
        }
        let data = self.memories.fetch(Piece { place, start: 0, len: n })?;
        let tensor = Tensor::new(dims, data)?;
        self.result.reads[call as usize][rank as usize].push(HostRead { buffer, tensor });
        Some(())
    }

    /// Whether every one of these elements holds something.
    pub(super) fn holds(&self, place: usize, start: i64, len: i64) -> bool {
        self.init[place].first_gap(start as u64, len as u64).is_none()
    }

    /// Records that elements were written, by a peer in a call or by the rank itself.
    pub(super) fn written(&mut self, place: usize, start: i64, len: i64, by_call: Option<i64>) {
        let (start, len) = (start as u64, len as u64);
        if len == 0 {
            return;
        }
        let rank = place / self.memories.per_rank;
        if let Some(call) = by_call
            && call > self.threads[rank * self.program.streams.len() + self.program.host as usize].call
        {
            self.early[place].note(start, len, call);
        }
        self.init[place].add(start, len);
    }

    /// Copies elements, on one rank or by a transfer in a call. Returns None if some of them hold
    /// nothing.
    pub(super) fn transfer(&mut self, from: Piece, to: Piece, by_call: Option<i64>) -> Option<()> {
        if !self.holds(from.place, from.start as i64, from.len as i64) {
            return None;
        }
        self.written(to.place, to.start as i64, to.len as i64, by_call);
        self.memories.copy(from, to)
    }

    /// Makes a copy that lives until the next one.
    pub(super) fn aside(&mut self, src: *const u8, bytes: usize) -> *const u8 {
        // SAFETY: the caller names elements of one of this world's memories.
        self.aside = unsafe { std::slice::from_raw_parts(src, bytes) }.to_vec();
        self.aside.as_ptr()
    }

    /// Adds one to a counter, and wakes the streams whose wait that satisfies.
    pub(super) fn notify(&mut self, rank: u64, counter: u32) {
        let n = self.program.counters() as usize;
        let at = &mut self.counters[rank as usize * n + counter as usize];
        *at += 1;
        // What a wait has taken is already subtracted.
        let (have, form) = (*at, self.program.form(counter));
        self.wake(
            rank,
            |held| matches!(held, BlockedOn::Counter(c, v) if c == counter && form.passes(have, 0, v as i64)),
        );
    }

    /// Records an event of a call, and wakes the streams that await it.
    pub(super) fn record(&mut self, rank: u64, event: u32, call: i64) {
        let n = self.program.events.len();
        let at = &mut self.recorded[rank as usize * n + event as usize];
        *at = (*at).max(call + 1);
        let calls = *at;
        self.wake(rank, |held| matches!(held, BlockedOn::Event(e, c) if e == event && calls > c));
    }

    /// Whether a queue has a free slot.
    pub(super) fn has_room(&self, queue: Queue) -> bool {
        (self.queues.len(queue) as u64) < self.program.depth(queue.2)
    }

    /// Whether a queue has a message.
    pub(super) fn has_message(&self, queue: Queue) -> bool {
        self.queues.len(queue) > 0
    }

    /// Puts elements into a queue, and wakes the streams that wait for a message of it. Returns
    /// None if some element holds nothing.
    pub(super) fn send(&mut self, queue: Queue, place: usize, start: i64, len: i64) -> Option<()> {
        if !self.holds(place, start, len) {
            return None;
        }
        let from = self.memories.read(Piece { place, start: start as u64, len: len as u64 })?;
        // SAFETY: these elements lie inside a buffer (compiled code has checked that).
        let message = unsafe { std::slice::from_raw_parts(from, self.memories.bytes(place, len)) };
        self.queues.push(queue, message);
        self.wake(queue.1, |held| held == BlockedOn::Empty(queue));
        Some(())
    }

    /// Takes the oldest message of a queue, and wakes the streams that wait for a slot of it.
    /// Returns None if it has another size.
    pub(super) fn recv(&mut self, queue: Queue, place: usize, start: i64, len: i64) -> Option<()> {
        let message = self.queues.pop(queue).filter(|m| m.len() == self.memories.bytes(place, len))?;
        let to = self.memories.replaced(Piece { place, start: start as u64, len: len as u64 })?;
        // SAFETY: as many elements lie inside a buffer (compiled code has checked that), and a
        // message is separate memory.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), to, message.len()) };
        self.queues.done_with(message);
        self.written(place, start, len, None);
        self.wake(queue.0, |held| held == BlockedOn::Full(queue));
        Some(())
    }

    fn wake(&mut self, rank: u64, goes: impl Fn(BlockedOn) -> bool) {
        let n = self.program.streams.len();
        for t in rank as usize * n..(rank as usize + 1) * n {
            let thread = &mut self.threads[t];
            if !thread.queued && goes(thread.held) {
                (thread.queued, thread.held) = (true, BlockedOn::No);
                self.queue.push_back(t);
            }
        }
    }

    /// Returns the plan of an operation on a rank, after checking what it reads and recording what
    /// it writes, or null if the operation cannot be executed.
    pub(super) fn plan(&mut self, rank: u64, number: u32) -> *const i64 {
        if !self.plans.contains_key(&(rank, number)) {
            let plan = self.recipes.get(&number).and_then(|r| Plan::of(&mut self.memories, r, rank));
            self.plans.insert((rank, number), plan);
        }
        self.carried_out(rank, number).unwrap_or(std::ptr::null())
    }

    /// Does for a plan what precedes its kernel. Returns its words.
    fn carried_out(&mut self, rank: u64, number: u32) -> Option<*const i64> {
        let plan = self.plans.get(&(rank, number))?.as_ref()?;
        let (per_rank, buffers) = (self.memories.per_rank, self.program.schedule.buffers.len());
        let piece = |r: &Run| {
            let mem = match r.mem {
                Mem::Buffer(b) => b as usize,
                Mem::Slot(w, _) => buffers + w as usize,
            };
            Piece { place: rank as usize * per_rank + mem, start: r.start, len: r.len }
        };
        for r in plan.reads.iter().map(piece) {
            if self.init[r.place].first_gap(r.start, r.len).is_some() {
                return None;
            }
        }
        if let (true, [from], [to]) = (plan.copies, &plan.reads[..], &plan.writes[..]) {
            self.memories.copy(piece(from), piece(to))?;
        } else {
            for r in plan.reads.iter().map(piece) {
                self.memories.settle(r)?;
            }
            for w in plan.writes.iter().map(piece) {
                // What a chain does not store has no storage.
                if self.memories.exists(w.place) {
                    self.memories.replaced(w)?;
                }
            }
        }
        for w in plan.writes.iter().map(piece) {
            self.init[w.place].add(w.start, w.len);
        }
        Some(plan.words.as_ptr())
    }
}
