//! State of all ranks while compiled code runs: their memories, signals and streams, and the choice
//! of the next stream.
//!
//! The module owns what outlives a function's return. A stream runs until it waits; a notify, a
//! record or a message puts the streams whose waits it satisfies back in the queue. As for the
//! interpreter, [`crate::host`] handles inputs, results and the buffers that are forgotten between
//! calls.

#![allow(
    unsafe_code,
    reason = "compiled functions are called here, and memories are handed to them as pointers"
)]

use super::abi::{AWAITS, Ctx, DONE, EMPTY, FULL, RoleFn, WAITS, YIELDS};
use super::plan::{Plan, Recipe};
use super::queues::Queues;
use crate::effect::{Run, mem_dtype};
use crate::flow::Queue;
use crate::host::{EarlyWrites, Host};
use crate::interp::{HostRead, RunResult};
use crate::store::Ranges;
use kbc_diag::Diagnostic;
use kbc_ir::schedule::{BufferId, BufferRole};
use kbc_ir::types::DType;
use kbc_ir::walk::{Mem, Program};
use kbc_numerics::rng::Rng;
use kbc_numerics::tensor::{Data, Tensor};
use std::collections::{BTreeMap, VecDeque};

/// The function of a stream in a region, and the number of slots of its frame.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) function: RoleFn,
    pub(super) frame: usize,
}

/// The functions to run: for each region and role, the streams that have a body.
pub(super) type Entries = Vec<Vec<Vec<(u32, Entry)>>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockedOn {
    No,
    Counter(u32, u64),
    Event(u32, i64),
    /// Until the queue has a free slot.
    Full(Queue),
    /// Until the queue has a message.
    Empty(Queue),
}

struct Thread {
    rank: u64,
    stream: u32,
    call: i64,
    region: usize,
    state: i64,
    held: BlockedOn,
    queued: bool,
    env: Vec<i64>,
}

/// All ranks.
pub(super) struct World<'p> {
    pub(super) program: &'p Program<'p>,
    recipes: &'p BTreeMap<u32, Recipe>,
    entries: &'p Entries,
    /// The role of each rank in each region.
    roles: Vec<Vec<Option<usize>>>,
    host: Host<'p>,
    mems: usize,
    /// Element size of each memory.
    sizes: Vec<usize>,
    dtypes: Vec<DType>,
    /// One piece of storage per rank, and the start of each memory of each rank.
    _storage: Vec<Vec<u64>>,
    bases: Vec<*mut u8>,
    init: Vec<Ranges>,
    early: Vec<EarlyWrites>,
    counters: Vec<u64>,
    recorded: Vec<i64>,
    queues: Queues,
    threads: Vec<Thread>,
    queue: VecDeque<usize>,
    calls: i64,
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
    /// The host rejected data.
    Host(Diagnostic),
}

fn padded(bytes: u64) -> u64 {
    bytes.div_ceil(64) * 64
}

impl<'p> World<'p> {
    /// Creates the state before call 0.
    pub(super) fn new(
        program: &'p Program<'p>,
        recipes: &'p BTreeMap<u32, Recipe>,
        entries: &'p Entries,
        host: Host<'p>,
        calls: u32,
        max_bytes: u64,
    ) -> Result<Self, Stop> {
        let s = program.schedule;
        let ranks = program.ranks();
        let buffers = s.buffers.len();
        let mems = buffers + s.windows.len();
        let dtypes: Vec<DType> =
            s.buffers.iter().map(|b| b.dtype).chain(s.windows.iter().map(|w| w.dtype)).collect();
        let sizes: Vec<usize> = dtypes.iter().map(|t| t.bytes() as usize).collect();
        let windows: u64 = s
            .windows
            .iter()
            .map(|w| padded(w.slots.saturating_mul(w.capacity).saturating_mul(w.dtype.bytes())))
            .fold(0, u64::saturating_add);
        let of_rank = |r: u64| {
            let one = |b: usize| {
                program.elements(BufferId(b as u32), r).unwrap_or(0).saturating_mul(sizes[b] as u64)
            };
            (0..buffers).map(|b| padded(one(b))).fold(windows, u64::saturating_add)
        };
        if (0..ranks).map(of_rank).fold(0, u64::saturating_add) > max_bytes {
            return Err(Stop::TooLarge);
        }
        let mut storage: Vec<Vec<u64>> = vec![];
        let mut bases = vec![];
        for r in 0..ranks {
            // Eight more words, so that the first memory can begin on a cache line.
            storage.push(vec![0u64; of_rank(r) as usize / 8 + 8]);
            let start = storage.last_mut().map_or(std::ptr::null_mut(), |v| v.as_mut_ptr().cast::<u8>());
            let mut at = start.align_offset(64);
            for (m, size) in sizes.iter().enumerate() {
                bases.push(start.wrapping_add(at));
                let elements = match m.checked_sub(buffers) {
                    None => program.elements(BufferId(m as u32), r).unwrap_or(0),
                    Some(w) => s.windows[w].slots * s.windows[w].capacity,
                };
                at += padded(elements * *size as u64) as usize;
            }
        }
        let mut roles = vec![];
        for region in 0..s.regions.len() {
            let id = kbc_ir::schedule::RegionId(region as u32);
            let of: Result<Vec<_>, _> = (0..ranks).map(|r| program.role_of(id, r)).collect();
            roles.push(of.map_err(|_| Stop::Fault)?);
        }
        let frame = entries
            .iter()
            .flatten()
            .flatten()
            .map(|(_, e)| e.frame)
            .max()
            .unwrap_or(0)
            .max(program.env_len + 1);
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
        let mut init = vec![Ranges::default(); ranks * mems];
        for (w, window) in s.windows.iter().enumerate().filter(|(_, w)| w.zero) {
            // The storage is zero at first.
            let all = window.slots * window.capacity;
            (0..ranks).for_each(|r| init[r * mems + buffers + w].add(0, all));
        }
        Ok(World {
            program,
            recipes,
            entries,
            roles,
            host,
            mems,
            sizes,
            dtypes,
            _storage: storage,
            bases,
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

    /// Runs everything. Returns the results, unless a rank met a fault or waits forever.
    pub(super) fn run(
        mut self,
        tables: &[*const i64],
        room: usize,
        seed: Option<u64>,
    ) -> Result<RunResult, Stop> {
        if self.calls > 0 {
            for rank in 0..self.program.ranks() {
                self.begin_call(rank, 0)?;
            }
        }
        let mut scratch = vec![0f32; room];
        let mut rng = seed.map(Rng::new);
        while !self.queue.is_empty() && self.calls > 0 {
            let at = rng.as_mut().map_or(0, |r| r.below(self.queue.len()));
            let Some(thread) = self.queue.swap_remove_front(at) else { break };
            self.threads[thread].queued = false;
            self.threads[thread].held = BlockedOn::No;
            let budget = rng.as_mut().map_or(-1, |r| 1 + r.below(6) as i64);
            self.go(thread, tables, scratch.as_mut_ptr(), budget)?;
        }
        if self.threads.iter().all(|t| t.call >= self.calls) { Ok(self.result) } else { Err(Stop::Fault) }
    }

    /// Advances one stream until it waits, yields or ends.
    fn go(
        &mut self,
        thread: usize,
        tables: &[*const i64],
        scratch: *mut f32,
        budget: i64,
    ) -> Result<(), Stop> {
        let (rank, stream) = (self.threads[thread].rank, self.threads[thread].stream);
        let mut env = std::mem::take(&mut self.threads[thread].env);
        let (counters, events) = (self.program.counters() as usize, self.program.events.len());
        let mut ctx = Ctx {
            world: std::ptr::null_mut(),
            counters: std::ptr::null_mut(),
            recorded: std::ptr::null(),
            tables: tables.as_ptr(),
            env: std::ptr::null_mut(),
            budget,
            state: 0,
            want: 0,
            value: 0,
            rank: rank as i64,
            dst: std::ptr::null_mut(),
            src: std::ptr::null(),
            scratch,
        };
        let status = loop {
            let t = &mut self.threads[thread];
            if t.call >= self.calls {
                break DONE;
            }
            if t.region >= self.entries.len() {
                let call = t.call;
                (t.call, t.region) = (call + 1, 0);
                self.call_over(rank, stream, call)?;
                continue;
            }
            let (region, role) = (t.region, self.roles[t.region][rank as usize]);
            let entry = role.and_then(|r| self.entries[region][r].iter().find(|(s, _)| *s == stream));
            let Some((_, entry)) = entry.copied() else {
                self.threads[thread].region += 1;
                continue;
            };
            if t.state == 0 {
                enter(self.program, region, rank, t.call, &mut env);
            }
            ctx.state = t.state;
            ctx.env = env.as_mut_ptr();
            ctx.counters = self.counters[rank as usize * counters..].as_mut_ptr();
            ctx.recorded = self.recorded[rank as usize * events..].as_ptr();
            ctx.world = (&raw mut *self).cast();
            // SAFETY: the function was compiled for this program, and the context is what it
            // expects: tables and frame are as large as it was compiled for, and counters and
            // events begin with those of this rank. While it runs, this function touches neither
            // the context nor itself.
            let status = unsafe { (entry.function)(&raw mut ctx) };
            let t = &mut self.threads[thread];
            match status {
                DONE => (t.region, t.state) = (t.region + 1, 0),
                WAITS | AWAITS | FULL | EMPTY | YIELDS => {
                    t.state = ctx.state;
                    t.held = match status {
                        WAITS => BlockedOn::Counter(ctx.want as u32, ctx.value.max(0) as u64),
                        AWAITS => BlockedOn::Event(ctx.want as u32, ctx.value),
                        FULL => BlockedOn::Full((rank, ctx.value as u64, ctx.want as u32)),
                        EMPTY => BlockedOn::Empty((ctx.value as u64, rank, ctx.want as u32)),
                        _ => BlockedOn::No,
                    };
                    break status;
                }
                _ => return Err(Stop::Fault),
            }
        };
        self.threads[thread].env = env;
        if status == YIELDS {
            self.threads[thread].queued = true;
            self.queue.push_back(thread);
        }
        Ok(())
    }

    fn begin_call(&mut self, rank: u64, call: i64) -> Result<(), Stop> {
        for (i, b) in self.program.schedule.buffers.iter().enumerate() {
            let at = rank as usize * self.mems + i;
            match b.role {
                BufferRole::Input(n) => {
                    let data = self.host.fill(BufferId(i as u32), n, rank, call).map_err(Stop::Host)?;
                    // SAFETY: the host has checked that the data has as many elements as the
                    // buffer.
                    unsafe { store(&data, self.bases[at]) };
                    self.init[at].add(0, data.len() as u64);
                }
                _ if b.zero => {
                    let n = self.program.elements(BufferId(i as u32), rank).unwrap_or(0);
                    // SAFETY: the buffer has `n` elements, and zeros are elements of every type.
                    unsafe { std::ptr::write_bytes(self.bases[at], 0, n as usize * self.sizes[i]) };
                    self.init[at].add(0, n);
                }
                BufferRole::Output(_) | BufferRole::Temp => self.init[at] = self.early[at].begin(call),
            }
        }
        Ok(())
    }

    fn call_over(&mut self, rank: u64, stream: u32, call: i64) -> Result<(), Stop> {
        if stream != self.program.host {
            return Ok(());
        }
        let mut parts = vec![];
        for (b, bounds, n) in self.host.results(rank).map_err(Stop::Host)? {
            if let Some(read) = self.result.taken(call, rank, b) {
                parts.push(self.host.part(b, bounds, read.clone()).map_err(Stop::Host)?);
                continue;
            }
            let at = rank as usize * self.mems + b.0 as usize;
            if self.init[at].first_gap(0, n).is_some() {
                return Err(Stop::Fault);
            }
            // SAFETY: the host has checked that the result has as many elements as the buffer.
            let data = unsafe { fetch(self.dtypes[b.0 as usize], self.bases[at], n as usize) };
            parts.push(self.host.part(b, bounds, data).map_err(Stop::Host)?);
        }
        self.result.outputs[call as usize][rank as usize] = parts;
        if call + 1 < self.calls { self.begin_call(rank, call + 1) } else { Ok(()) }
    }

    /// Keeps what the host reads of a buffer in a call. Returns None if some element holds nothing.
    pub(super) fn host_read(&mut self, rank: u64, call: i64, buffer: BufferId) -> Option<()> {
        let dims = self.program.dims(buffer, rank).ok()?;
        let (n, at) = (dims.iter().product(), rank as usize * self.mems + buffer.0 as usize);
        if self.init[at].first_gap(0, n).is_some() {
            return None;
        }
        // SAFETY: these are the sizes of the buffer.
        let data = unsafe { fetch(self.dtypes[buffer.0 as usize], self.bases[at], n as usize) };
        let tensor = Tensor::new(dims, data)?;
        self.result.reads[call as usize][rank as usize].push(HostRead { buffer, tensor });
        Some(())
    }

    /// Returns the number of a memory of a rank.
    pub(super) fn place(&self, rank: i64, mem: i64) -> usize {
        rank as usize * self.mems + mem as usize
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
        let rank = place / self.mems;
        if let Some(call) = by_call
            && call > self.threads[rank * self.program.streams.len() + self.program.host as usize].call
        {
            self.early[place].note(start, len, call);
        }
        self.init[place].add(start, len);
    }

    /// Returns the address of an element.
    pub(super) fn at(&self, place: usize, start: i64) -> *mut u8 {
        self.bases[place].wrapping_add(start as usize * self.sizes[place % self.mems])
    }

    /// Returns the number of bytes of `len` elements.
    pub(super) fn bytes(&self, place: usize, len: i64) -> usize {
        len as usize * self.sizes[place % self.mems]
    }

    /// Makes a copy that lives until the next one.
    pub(super) fn aside(&mut self, src: *const u8, bytes: usize) -> *const u8 {
        // SAFETY: the caller names elements of one of this world's memories.
        self.aside = unsafe { std::slice::from_raw_parts(src, bytes) }.to_vec();
        self.aside.as_ptr()
    }

    /// Returns the address of a buffer of a rank.
    pub(super) fn pointer(&self, rank: u64, b: BufferId) -> i64 {
        self.bases[rank as usize * self.mems + b.0 as usize] as i64
    }

    /// Returns the element type of a buffer.
    pub(super) fn dtype(&self, b: BufferId) -> DType {
        mem_dtype(self.program.schedule, Mem::Buffer(b.0))
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
        let message = unsafe { std::slice::from_raw_parts(self.at(place, start), self.bytes(place, len)) };
        self.queues.push(queue, message);
        self.wake(queue.1, |held| held == BlockedOn::Empty(queue));
        Some(())
    }

    /// Takes the oldest message of a queue, and wakes the streams that wait for a slot of it.
    /// Returns None if it has another size.
    pub(super) fn recv(&mut self, queue: Queue, place: usize, start: i64, len: i64) -> Option<()> {
        let message = self.queues.pop(queue).filter(|m| m.len() == self.bytes(place, len))?;
        // SAFETY: as many elements lie inside a buffer (compiled code has checked that), and a
        // message is separate memory.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), self.at(place, start), message.len()) };
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
            let plan = self.recipes.get(&number).and_then(|r| Plan::of(self, r, rank));
            self.plans.insert((rank, number), plan);
        }
        let Some(Some(plan)) = self.plans.get(&(rank, number)) else { return std::ptr::null() };
        let index = |r: &Run| match r.mem {
            Mem::Buffer(b) => rank as usize * self.mems + b as usize,
            Mem::Slot(w, _) => rank as usize * self.mems + self.program.schedule.buffers.len() + w as usize,
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

/// Sets the environment for a region: call, coordinates of the group, and the rank whose
/// coordinates are all 0.
fn enter(p: &Program<'_>, region: usize, rank: u64, call: i64, env: &mut [i64]) {
    let id = kbc_ir::schedule::RegionId(region as u32);
    env[0] = call;
    let mut index = p.group_index(id, rank);
    for (slot, size) in p.regions[region].coords.iter().rev() {
        env[*slot as usize] = (index % size) as i64;
        index /= size;
    }
    env[p.env_len] = p.group_rank(id, rank, 0) as i64;
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
/// As many elements as `data` has fit at `to`.
unsafe fn store(data: &Data, to: *mut u8) {
    // SAFETY: the caller guarantees that the elements fit; the two do not overlap.
    each!(data, v => unsafe { std::ptr::copy_nonoverlapping(v.as_ptr(), to.cast(), v.len()) });
}

/// # Safety
/// `n` elements of that type are at `from`.
unsafe fn fetch(dtype: DType, from: *const u8, n: usize) -> Data {
    let mut data = Data::zeros(dtype, n);
    // SAFETY: the caller guarantees that the elements exist; the two do not overlap.
    each!(&mut data, v => unsafe { std::ptr::copy_nonoverlapping(from.cast(), v.as_mut_ptr(), n) });
    data
}
