//! State of all ranks while compiled code runs: what their memories hold, their signals and their
//! streams.
//!
//! The module owns what outlives a function's return. A notify, a record or a message puts the
//! streams whose waits it satisfies back in the queue, from which [`super::run`] takes the next
//! one. As for the interpreter, [`crate::host`] handles inputs, results and the buffers that are
//! forgotten between calls.

#![allow(unsafe_code, reason = "elements of memories are read and written as pointers here")]

use super::memories::Memories;
use super::plan::Plan;
use super::queues::Queues;
use super::recipe::Recipe;
use crate::effect::Run;
use crate::flow::Queue;
use crate::host::{EarlyWrites, Host};
use crate::interp::{HostRead, RunResult};
use crate::store::Ranges;
use kbc_diag::Diagnostic;
use kbc_ir::schedule::{BufferId, BufferRole};
use kbc_ir::types::DType;
use kbc_ir::walk::{Mem, Program};
use kbc_numerics::tensor::{Data, Tensor};
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
    /// The role of each rank in each region.
    pub(super) roles: Vec<Vec<Option<usize>>>,
    host: Host<'p>,
    pub(super) memories: Memories<'p>,
    /// For each buffer, whether no operation writes it.
    read_only: Vec<bool>,
    init: Vec<Ranges>,
    early: Vec<EarlyWrites>,
    pub(super) counters: Vec<u64>,
    pub(super) recorded: Vec<i64>,
    queues: Queues,
    pub(super) threads: Vec<Thread>,
    pub(super) queue: VecDeque<usize>,
    pub(super) calls: i64,
    plans: BTreeMap<(u64, u32), Option<Plan>>,
    aside: Vec<u8>,
    pub(super) result: RunResult,
}

/// The reason why a run ended early.
pub(super) enum Stop {
    /// A fault, which the interpreter explains.
    Fault,
    /// Too much memory.
    TooLarge,
    /// The host rejected data.
    Host(Diagnostic),
}

impl<'p> World<'p> {
    /// Creates the state before call 0. The frame of each stream has `frame` slots.
    pub(super) fn new(
        program: &'p Program<'p>,
        recipes: &'p BTreeMap<u32, Recipe>,
        frame: usize,
        host: Host<'p>,
        calls: u32,
        max_bytes: u64,
    ) -> Result<Self, Stop> {
        let s = program.schedule;
        let ranks = program.ranks();
        let buffers = s.buffers.len();
        let read_only = kbc_ir::uses::written(s).into_iter().map(|written| !written).collect();
        let memories = Memories::new(program, max_bytes).ok_or(Stop::TooLarge)?;
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
            roles,
            host,
            memories,
            read_only,
            init,
            early: (0..ranks * mems).map(|_| EarlyWrites::default()).collect(),
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

    /// Sets the buffers of a rank to what they hold when a call begins.
    pub(super) fn begin_call(&mut self, rank: u64, call: i64) -> Result<(), Stop> {
        for (i, b) in self.program.schedule.buffers.iter().enumerate() {
            let at = rank as usize * self.memories.per_rank + i;
            match b.role {
                BufferRole::Input(n) => {
                    let source = self.host.source(BufferId(i as u32), n, rank, call);
                    let (tensor, held) = source.map_err(Stop::Host)?;
                    if self.memories.load(at, tensor, &held.range, self.read_only[i]) {
                        // Plans contain addresses.
                        self.plans.retain(|(r, _), _| *r != rank);
                    }
                    self.init[at].add(0, held.shape().iter().product());
                }
                _ if b.zero => {
                    let n = self.program.elements(BufferId(i as u32), rank).unwrap_or(0);
                    // SAFETY: the buffer has `n` elements, and zeros are elements of every type.
                    unsafe {
                        std::ptr::write_bytes(self.memories.bases[at], 0, n as usize * self.memories.sizes[i])
                    };
                    self.init[at].add(0, n);
                }
                BufferRole::Output(_) | BufferRole::Temp => self.init[at] = self.early[at].begin(call),
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
        let mut parts = vec![];
        for (b, bounds, n) in self.host.results(rank).map_err(Stop::Host)? {
            if let Some(read) = self.result.taken(call, rank, b) {
                parts.push(self.host.part(b, bounds, read.clone()).map_err(Stop::Host)?);
                continue;
            }
            let at = rank as usize * self.memories.per_rank + b.0 as usize;
            if self.init[at].first_gap(0, n).is_some() {
                return Err(Stop::Fault);
            }
            // SAFETY: the host has checked that the result has as many elements as the buffer.
            let data =
                unsafe { fetch(self.memories.dtypes[b.0 as usize], self.memories.bases[at], n as usize) };
            parts.push(self.host.part(b, bounds, data).map_err(Stop::Host)?);
        }
        self.result.outputs[call as usize][rank as usize] = parts;
        if call + 1 < self.calls { self.begin_call(rank, call + 1) } else { Ok(()) }
    }

    /// Keeps what the host reads of a buffer in a call. Returns None if some element holds nothing.
    pub(super) fn host_read(&mut self, rank: u64, call: i64, buffer: BufferId) -> Option<()> {
        let dims = self.program.dims(buffer, rank).ok()?;
        let (n, at) = (dims.iter().product(), rank as usize * self.memories.per_rank + buffer.0 as usize);
        if self.init[at].first_gap(0, n).is_some() {
            return None;
        }
        // SAFETY: these are the sizes of the buffer.
        let data =
            unsafe { fetch(self.memories.dtypes[buffer.0 as usize], self.memories.bases[at], n as usize) };
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
        // SAFETY: these elements lie inside a buffer (compiled code has checked that).
        let message = unsafe {
            std::slice::from_raw_parts(self.memories.at(place, start), self.memories.bytes(place, len))
        };
        self.queues.push(queue, message);
        self.wake(queue.1, |held| held == BlockedOn::Empty(queue));
        Some(())
    }

    /// Takes the oldest message of a queue, and wakes the streams that wait for a slot of it.
    /// Returns None if it has another size.
    pub(super) fn recv(&mut self, queue: Queue, place: usize, start: i64, len: i64) -> Option<()> {
        let message = self.queues.pop(queue).filter(|m| m.len() == self.memories.bytes(place, len))?;
        // SAFETY: as many elements lie inside a buffer (compiled code has checked that), and a
        // message is separate memory.
        unsafe {
            std::ptr::copy_nonoverlapping(message.as_ptr(), self.memories.at(place, start), message.len())
        };
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
            let plan = self.recipes.get(&number).and_then(|r| Plan::of(&self.memories, r, rank));
            self.plans.insert((rank, number), plan);
        }
        let Some(Some(plan)) = self.plans.get(&(rank, number)) else { return std::ptr::null() };
        let index = |r: &Run| match r.mem {
            Mem::Buffer(b) => rank as usize * self.memories.per_rank + b as usize,
            Mem::Slot(w, _) => {
                rank as usize * self.memories.per_rank + self.program.schedule.buffers.len() + w as usize
            }
        };
        if plan.reads.iter().any(|r| self.init[index(r)].first_gap(r.start, r.len).is_some()) {
            return std::ptr::null();
        }
        for w in &plan.writes {
            self.init[index(w)].add(w.start, w.len);
        }
        plan.words.as_ptr()
    }
}

/// Evaluates an expression on the vector inside, whatever its type.
macro_rules! define {
    ([$d:tt] $($name:ident $element:ident,)*) => {
        macro_rules! each {
            ($d data:expr, $d v:ident => $d e:expr) => {
                match $d data { $(Data::$name($d v) => $d e),* }
            };
        }
    };
}
kbc_ir::element_types!(define $);

/// # Safety
/// `n` elements of that type are at `from`.
unsafe fn fetch(dtype: DType, from: *const u8, n: usize) -> Data {
    let mut data = Data::zeros(dtype, n);
    // SAFETY: the caller guarantees that the elements exist; the two do not overlap.
    each!(&mut data, v => unsafe { std::ptr::copy_nonoverlapping(from.cast(), v.as_mut_ptr(), n) });
    data
}
