//! Interpreter: executes a schedule with real numbers on every rank, and thereby defines its
//! meaning.
//!
//! Every operation takes effect at once, in any interleaving that waits and events allow. Reading
//! memory that nothing has written is an error. The module owns the run and its results.
//! [`crate::adversary`] implements weaker memory; time is not modelled here.
//!
//! **Order.** Without a seed, streams run in the order of their ranks, each until it waits. With a
//! seed, the stream that runs and the length of its turn are drawn. A schedule that the checker
//! accepts gives the same results either way.
//!
//! **Calls.** The host acts on stream `main`. Before a call it fills inputs and forgets the
//! contents of other buffers, except for what peers that are ahead have put there for this call.
//! After a call it reads results. Windows keep their contents. Ranks may be in different calls.

use crate::data_path::entered;
use crate::effect::{Effect, Run, mem_dtype, mem_name, same_type};
use crate::failure::{self, RunFailure};
use crate::flow::{Advance, Flow, Queue};
use crate::host::{EarlyWrites, Host, too_large};
use crate::inside::Shared;
use crate::lifetimes::Lifetimes;
use crate::store::Cells;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{BufferId, BufferRole, LocalOp, RegionId, Schedule, WindowId};
use kbc_ir::types::DType;
use kbc_ir::walk::{Act, Mem, Program};
use kbc_machine::share;
use kbc_machine::topology::Topology;
use kbc_numerics::numbers::{self, Refusal};
use kbc_numerics::rng::Rng;
use kbc_numerics::shard::Part;
use kbc_numerics::tensor::{Data, Tensor};
use std::collections::{BTreeMap, VecDeque};

/// Options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Number of consecutive calls.
    pub calls: u32,
    /// Seed of the interleaving; None is the deterministic order.
    pub seed: Option<u64>,
    /// Number of bytes that all ranks together may hold. A run that needs more is refused (E368).
    pub max_bytes: u64,
}

/// Maximum product of elements and PEs of an operation that [`run_inside`] shares.
const MAX_SHARED: u64 = 1 << 25;

/// Default limit on the bytes that all ranks together may hold.
pub const MAX_BYTES: u64 = 8 << 30;

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions { calls: 1, seed: None, max_bytes: MAX_BYTES }
    }
}

/// Results of a run: `outputs[call][rank][result]`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunResult {
    /// Each rank's part of each result after each call.
    pub outputs: Vec<Vec<Vec<Part>>>,
    /// The values of each `host.read`: `reads[call][rank]`, in order; empty if the host has no
    /// program.
    pub reads: Vec<Vec<Vec<HostRead>>>,
}

impl RunResult {
    /// Returns the result of a run that has not begun.
    pub fn empty(calls: u32, ranks: usize) -> RunResult {
        RunResult {
            outputs: vec![vec![vec![]; ranks]; calls as usize],
            reads: vec![vec![vec![]; ranks]; calls as usize],
        }
    }

    /// Returns what the last `host.read` of a buffer read in a call.
    pub fn taken(&self, call: i64, rank: u64, buffer: BufferId) -> Option<&Data> {
        let reads = self.reads.get(call as usize)?.get(rank as usize)?;
        Some(reads.iter().rev().find(|r| r.buffer == buffer)?.tensor.data())
    }
}

/// Elements that a host read.
#[derive(Clone, PartialEq, Debug)]
pub struct HostRead {
    /// The buffer.
    pub buffer: BufferId,
    /// Its contents, with its local sizes.
    pub tensor: Tensor,
}

/// The memories of one rank.
#[derive(Default)]
struct Memory {
    cells: BTreeMap<Mem, Cells>,
    early: BTreeMap<Mem, EarlyWrites>,
}

struct Machine<'p> {
    program: &'p Program<'p>,
    host: Host<'p>,
    flow: Flow<'p>,
    lifetimes: Lifetimes,
    ranks: Vec<Memory>,
    /// Messages that have not been received.
    queues: BTreeMap<Queue, VecDeque<Data>>,
    bytes: u64,
    max_bytes: u64,
    /// The machine whose PEs share local work.
    machine: Option<&'p Topology>,
    /// Number of operations that were shared, and number of those too large for that.
    shared: [u64; 2],
    result: RunResult,
}

/// Runs a schedule on all ranks. `inputs[c mod len][i]` is global input i in call c (see
/// [`kbc_numerics::shard`]).
///
/// Errors: E360 inputs that do not fit, E361 deadlock, E362 a read of unwritten memory, E363 a
/// local operation that does not fit its operands, E364 two types in one transfer, E365 a result
/// that was not written, E368 too much memory; E301 to E305 from walking the schedule. Causes come
/// first; ranks that only waited for them are named in a note.
pub fn run(
    schedule: &Schedule,
    inputs: &[Vec<Tensor>],
    options: &RunOptions,
) -> Result<RunResult, Diagnostics> {
    attempt(schedule, inputs, options).map_err(|f| f.diagnostics)
}

/// Does the same as [`run`], and reports for each rank that did not reach its end the reason.
///
/// # Errors
/// Returns the errors of [`run`].
pub fn attempt(
    schedule: &Schedule,
    inputs: &[Vec<Tensor>],
    options: &RunOptions,
) -> Result<RunResult, Box<RunFailure>> {
    attempt_inside(schedule, inputs, options, None).map(|(result, _)| result)
}

/// Does the same as [`run`] on a machine whose PEs share the work of their devices: each computes
/// its part of a local operation from what it holds and what is sent to it ([`crate::inside`]).
/// Also returns the number of operations that were shared, and the number of those that were too
/// large for that and were executed as on one PE.
///
/// # Errors
/// Returns the errors of [`run`], and E990 for an operation whose bits differ from those on one PE,
/// or in which a PE lacks data.
pub fn run_inside(
    schedule: &Schedule,
    inputs: &[Vec<Tensor>],
    options: &RunOptions,
    machine: &Topology,
) -> Result<(RunResult, [u64; 2]), Diagnostics> {
    attempt_inside(schedule, inputs, options, Some(machine)).map_err(|f| f.diagnostics)
}

fn attempt_inside(
    schedule: &Schedule,
    inputs: &[Vec<Tensor>],
    options: &RunOptions,
    machine: Option<&Topology>,
) -> Result<(RunResult, [u64; 2]), Box<RunFailure>> {
    entered();
    let spelled = with_host_region(schedule);
    let program = Program::compile(&spelled)?;
    let host = Host::new(&program, inputs)?;
    if Flow::bytes(&program) > options.max_bytes {
        return Err(too_large(options.max_bytes).into());
    }
    let calls = i64::from(options.calls);
    let ranks = program.ranks() as usize;
    let mut m = Machine {
        program: &program,
        host,
        flow: Flow::new(&program, calls),
        lifetimes: Lifetimes::of(&program),
        ranks: (0..ranks).map(|_| Memory::default()).collect(),
        queues: BTreeMap::new(),
        bytes: 0,
        max_bytes: options.max_bytes,
        machine: machine.filter(|m| m.shares_work()),
        shared: [0; 2],
        result: RunResult::empty(options.calls, ranks),
    };
    let mut met = vec![];
    if calls > 0 {
        for rank in 0..ranks {
            m.begin_call(rank as u64, 0)?;
        }
        m.go(options.seed.map(Rng::new), &mut met);
    }
    match failure::of(&mut m.flow, met) {
        Some(f) => Err(Box::new(f)),
        None => Ok((m.result, m.shared)),
    }
}

impl<'p> Machine<'p> {
    /// Advances streams until none can advance.
    fn go(&mut self, mut rng: Option<Rng>, faults: &mut Vec<(u64, Diagnostic)>) {
        let mut queue: VecDeque<usize> = (0..self.flow.threads.len()).collect();
        let mut queued = vec![true; queue.len()];
        while !queue.is_empty() {
            let at = rng.as_mut().map_or(0, |r| r.below(queue.len()));
            let Some(thread) = queue.swap_remove_front(at) else { break };
            let mut steps = rng.as_mut().map(|r| 1 + r.below(6));
            queued[thread] = false;
            if self.flow.threads[thread].stopped {
                continue;
            }
            loop {
                if steps == Some(0) {
                    queue.push_back(thread);
                    queued[thread] = true;
                    break;
                }
                steps = steps.map(|s| s - 1);
                let (rank, region) = (self.flow.threads[thread].rank, self.flow.threads[thread].region);
                let advance = self.flow.advance(thread);
                let over = matches!(advance, Ok(Advance::CallOver(_)));
                if let Some(region) = region.filter(|r| over || self.flow.threads[thread].region != Some(*r))
                {
                    self.region_over(thread, region);
                }
                let step = match advance {
                    Ok(Advance::Blocked | Advance::Done) => break,
                    Ok(Advance::CallOver(call)) => self.call_over(thread, call).map(|()| None),
                    Ok(Advance::Act(act, span)) => self.act(thread, &act, span),
                    Err(fault) => Err(fault.diagnostic(|r| self.program.schedule.mesh.show(r))),
                };
                match step {
                    Ok(None) => {}
                    // Streams of that rank may be able to continue.
                    Ok(Some(woken)) => {
                        for t in self.flow.of_rank(woken) {
                            if !queued[t] && t != thread && self.flow.ready(t) {
                                queued[t] = true;
                                queue.push_back(t);
                            }
                        }
                    }
                    // The rank stops. The others continue as far as they can, which shows the ranks
                    // that merely wait for it.
                    Err(d) => {
                        faults.push((rank, d));
                        for t in self.flow.of_rank(rank) {
                            self.flow.threads[t].stopped = true;
                            self.flow.threads[t].held = None;
                        }
                        break;
                    }
                }
                if self.flow.threads[thread].stopped {
                    break;
                }
            }
        }
    }

    /// Executes one operation. Returns the rank on which something may have become possible.
    fn act(&mut self, thread: usize, act: &Act<'p>, span: Span) -> Result<Option<u64>, Diagnostic> {
        let rank = self.flow.threads[thread].rank;
        match act {
            Act::Copy { .. } | Act::Reduce { .. } | Act::Local(_) => {
                if let Some(effect) = Effect::of(self.program, rank, act, span)? {
                    if effect.bytes(self.program.schedule) > self.max_bytes {
                        return Err(too_large(self.max_bytes)
                            .primary(span, "the result of this operation is too large"));
                    }
                    let mut data = vec![];
                    for r in &effect.reads {
                        data.push(self.read(rank, *r, thread, span)?);
                    }
                    let out = match (act, self.machine) {
                        (Act::Local(op), Some(machine)) => {
                            self.share(rank, (op, span), &effect, data, machine)?
                        }
                        _ => effect.compute(data)?,
                    };
                    let call = Some(self.flow.threads[thread].call);
                    self.write(rank, effect.write, out, call, span)?;
                }
            }
            Act::Put { src, peer, dst } => {
                self.transfer((rank, Run::of(src)), (*peer, Run::of(dst)), thread, span)?;
            }
            Act::Get { dst, peer, src } => {
                self.transfer((*peer, Run::of(src)), (rank, Run::of(dst)), thread, span)?;
            }
            Act::GetCombine { op, dst, peer, src } => {
                same_type(self.program.schedule, src.mem, dst.mem, span)?;
                let mut sum = self.read(rank, Run::of(dst), thread, span)?;
                let data = self.read(*peer, Run::of(src), thread, span)?;
                let wrong = |r: Refusal| {
                    Diagnostic::error("E363", r.text).primary(span, "in this operation").help(r.help)
                };
                numbers::combine(*op, &mut sum, &data).map_err(wrong)?;
                let call = Some(self.flow.threads[thread].call);
                self.write(rank, Run::of(dst), sum, call, span)?;
            }
            Act::Send { src, peer, queue } => {
                let which = (rank, *peer, *queue);
                queue_type(self.program, *queue, src.mem, span)?;
                let data = self.read(rank, Run::of(src), thread, span)?;
                self.queues.entry(which).or_default().push_back(data);
                self.flow.sent(which);
                self.flow.arrived(which);
                return Ok(Some(*peer));
            }
            Act::Recv { dst, peer, queue } => {
                let which = (*peer, rank, *queue);
                queue_type(self.program, *queue, dst.mem, span)?;
                let data = self.queues.entry(which).or_default().pop_front();
                self.flow.received(which);
                self.flow.credited(which);
                let data = message(data, dst.len, span)?;
                let call = Some(self.flow.threads[thread].call);
                self.write(rank, Run::of(dst), data, call, span)?;
                return Ok(Some(*peer));
            }
            Act::Notify { peer, counter } => {
                self.flow.add(*peer, *counter);
                return Ok(Some(*peer));
            }
            Act::Record(event) => {
                self.flow.record(thread, *event);
                return Ok(Some(rank));
            }
            Act::HostRead(b) => {
                let dims = self.program.dims(*b, rank).map_err(|f| f.diagnostic(|r| self.show(r)))?;
                let run = Run { mem: Mem::Buffer(b.0), start: 0, len: dims.iter().product() };
                let data = self.read(rank, run, thread, span)?;
                let read = HostRead { buffer: *b, tensor: self.host.read(*b, dims, data)? };
                let call = self.flow.threads[thread].call as usize;
                self.result.reads[call][rank as usize].push(read);
            }
            Act::Wait { counter, value } => self.flow.spend(thread, *counter, *value, span)?,
            // The wait has passed already, and everything is complete and visible at once.
            Act::Room { .. }
            | Act::Await(_)
            | Act::FenceRelease
            | Act::FenceAcquire
            | Act::FenceComplete
            | Act::Mark(()) => {}
            Act::Host(host) => match *host {},
        }
        Ok(None)
    }

    /// Executes a local operation PE by PE. Its bits must equal those on one PE, or it is rejected.
    fn share(
        &mut self,
        rank: u64,
        (op, span): (&LocalOp, Span),
        effect: &Effect<'p>,
        data: Vec<Data>,
        machine: &Topology,
    ) -> Result<Data, Diagnostic> {
        let program = self.program;
        let placed = |b| share::placed(program, b, rank, machine).map_err(|f| f.diagnostic(|r| self.show(r)));
        let dst = placed(op.dst())?;
        let (mut srcs, mut elements) = (vec![], 0u64);
        for (b, (run, data)) in op.srcs().into_iter().zip(effect.reads.iter().zip(&data)) {
            let placed = placed(b)?;
            let n: u64 = placed.sizes.iter().product();
            elements = elements.saturating_add(n);
            // Of some operands only a part is read; it is put at its position.
            let mut all = Data::zeros(data.dtype(), n as usize);
            let whole = all.copy_from(run.start as usize, data, 0, data.len());
            let tensor = Tensor::new(placed.sizes.clone(), all).filter(|_| whole);
            srcs.extend(tensor.map(|t| (placed, t)));
        }
        elements = elements.saturating_add(dst.sizes.iter().product());
        let out = effect.compute(data)?;
        let pes = u64::from(kbc_machine::placement::Interior::of(machine).count());
        if elements.saturating_mul(pes) > MAX_SHARED {
            self.shared[1] += 1;
            return Ok(out);
        }
        let part = op.part().map(|e| program.local_value(e, rank)).transpose();
        let part = part.map_err(|e| Diagnostic::error("E302", e.to_string()).primary(span, "here"))?;
        let dtype = mem_dtype(program.schedule, Mem::Buffer(op.dst().0));
        let wrong = |why: String| {
            Diagnostic::error("E990", format!("on rank {}, inside its device: {why}", self.show(rank)))
                .primary(span, "in this operation")
                .help("please report it with the program")
        };
        let own = Shared { op, dst: (dst, dtype), srcs, part }.apply(machine).map_err(|r| wrong(r.text))?;
        if let Some(i) = own.first_difference(&out) {
            return Err(wrong(format!("element {i} differs from the result of a single PE")));
        }
        self.shared[0] += 1;
        Ok(own)
    }

    fn show(&self, rank: u64) -> String {
        self.program.schedule.mesh.show(rank)
    }

    fn transfer(
        &mut self,
        src: (u64, Run),
        dst: (u64, Run),
        thread: usize,
        span: Span,
    ) -> Result<(), Diagnostic> {
        same_type(self.program.schedule, src.1.mem, dst.1.mem, span)?;
        let data = self.read(src.0, src.1, thread, span)?;
        self.write(dst.0, dst.1, data, Some(self.flow.threads[thread].call), span)
    }

    fn read(&self, rank: u64, run: Run, thread: usize, span: Span) -> Result<Data, Diagnostic> {
        let s = self.program.schedule;
        let found = match self.ranks[rank as usize].cells.get(&run.mem) {
            Some(cells) => cells.read(run.start, run.len),
            None if run.len == 0 || zeros(s, run.mem).is_some() => {
                Ok(Data::zeros(mem_dtype(s, run.mem), run.len as usize))
            }
            None => Err(run.start),
        };
        found.map_err(|i| {
            nothing_there(s, rank, run.mem, i).primary(span, format!("read by {}", self.flow.place(thread)))
        })
    }

    /// Writes elements. `by_call` is the call of the stream that writes, and None for the host.
    fn write(
        &mut self,
        rank: u64,
        run: Run,
        data: Data,
        by_call: Option<i64>,
        span: Span,
    ) -> Result<(), Diagnostic> {
        if run.len == 0 {
            return Ok(());
        }
        let memory = &mut self.ranks[rank as usize];
        if let Some(call) = by_call
            && call > self.flow.host_call(rank)
        {
            memory.early.entry(run.mem).or_default().note(run.start, run.len, call);
        }
        let dtype = mem_dtype(self.program.schedule, run.mem);
        let zeros = zeros(self.program.schedule, run.mem);
        let before = memory.cells.get(&run.mem).map_or(0, Cells::bytes);
        let grown = (run.start + run.len).max(zeros.unwrap_or(0)).saturating_mul(dtype.bytes());
        if self.bytes + grown.saturating_sub(before) > self.max_bytes {
            return Err(too_large(self.max_bytes).primary(span, "the limit is exceeded by this write"));
        }
        let cells = memory.cells.entry(run.mem).or_insert_with(|| Cells::blank(dtype, zeros));
        let written = cells.take(run.start, data);
        debug_assert!(written, "types were compared before");
        self.bytes += cells.bytes() - before;
        Ok(())
    }

    /// Forgets the buffers that a stream needs no more after a region.
    fn region_over(&mut self, thread: usize, region: RegionId) {
        let (rank, stream) = (self.flow.threads[thread].rank, self.flow.threads[thread].stream);
        for buffer in self.lifetimes.ended(region.0 as usize, stream) {
            let memory = &mut self.ranks[rank as usize];
            self.bytes -= memory.cells.remove(&Mem::Buffer(buffer)).map_or(0, |cells| cells.bytes());
        }
    }

    fn begin_call(&mut self, rank: u64, call: i64) -> Result<(), Diagnostic> {
        for (i, b) in self.program.schedule.buffers.iter().enumerate() {
            let mem = Mem::Buffer(i as u32);
            match b.role {
                BufferRole::Input(n) => {
                    let data = self.host.fill(BufferId(i as u32), n, rank, call)?;
                    let run = Run { mem, start: 0, len: data.len() as u64 };
                    self.write(rank, run, data, None, b.span)?;
                }
                _ if b.zero => {
                    let data = self.host.zeros(BufferId(i as u32), rank, self.max_bytes)?;
                    let run = Run { mem, start: 0, len: data.len() as u64 };
                    self.write(rank, run, data, None, b.span)?;
                }
                BufferRole::Output(_) | BufferRole::Temp => {
                    let memory = &mut self.ranks[rank as usize];
                    let kept = memory.early.entry(mem).or_default().begin(call);
                    if let Some(cells) = memory.cells.get_mut(&mem) {
                        cells.keep_only(kept);
                    }
                }
            }
        }
        Ok(())
    }

    fn call_over(&mut self, thread: usize, call: i64) -> Result<(), Diagnostic> {
        if self.flow.threads[thread].stream != self.program.host {
            return Ok(());
        }
        let rank = self.flow.threads[thread].rank;
        let mut parts = vec![];
        for (b, bounds, n) in self.host.results(rank)? {
            let mem = Mem::Buffer(b.0);
            if let Some(read) = self.result.taken(call, rank, b) {
                parts.push(self.host.part(b, bounds, read.clone())?);
                continue;
            }
            let found = match self.ranks[rank as usize].cells.get(&mem) {
                Some(cells) => cells.read(0, n),
                None if n == 0 => Ok(Data::zeros(mem_dtype(self.program.schedule, mem), 0)),
                None => Err(0),
            };
            let data = found.map_err(|i| self.host.unwritten(b, &bounds, i, rank, call))?;
            parts.push(self.host.part(b, bounds, data)?);
        }
        self.result.outputs[call as usize][rank as usize] = parts;
        if call + 1 < self.flow.calls {
            self.begin_call(rank, call + 1)?;
        }
        Ok(())
    }
}

/// Returns a message as its receiver takes it. Fails with E356 if it has another size.
pub fn message(data: Option<Data>, len: u64, span: Span) -> Result<Data, Diagnostic> {
    let data = data.unwrap_or_else(|| Data::zeros(DType::F32, 0));
    if data.len() as u64 == len {
        return Ok(data);
    }
    let text = format!("a message of {} elements is received as {len}", data.len());
    Err(Diagnostic::error("E356", text)
        .primary(span, "received here")
        .help("both ends of a queue must use the same sizes in the same order"))
}

/// Checks that a queue carries the element type of a memory. Fails with E364.
pub fn queue_type(p: &Program<'_>, queue: u32, mem: Mem, span: Span) -> Result<(), Diagnostic> {
    let (s, q) = (p.schedule, p.schedule.queue(p.queue_name(queue).0));
    let dtype = mem_dtype(s, mem);
    if dtype == q.dtype {
        return Ok(());
    }
    let text = format!(
        "the element types differ: {} is {dtype} and queue {} carries {}",
        mem_name(s, mem),
        q.name,
        q.dtype
    );
    Err(Diagnostic::error("E364", text)
        .primary(span, "a transfer does not convert")
        .help("add a `cast` before it"))
}

/// Returns the error E362 for a read of an element that nothing has written.
pub fn nothing_there(s: &Schedule, rank: u64, mem: Mem, element: u64) -> Diagnostic {
    Diagnostic::error(
        "E362",
        format!("element {element} of {} on {} is empty", mem_name(s, mem), s.mesh.show(rank)),
    )
    .help("write the element first; a buffer must be written in the same call")
}

/// Returns the number of elements of a slot that holds zeros when its window is allocated.
pub fn zeros(s: &Schedule, mem: Mem) -> Option<u64> {
    match mem {
        Mem::Slot(w, _) => {
            let w = s.window(WindowId(w));
            w.zero.then_some(w.capacity)
        }
        Mem::Buffer(_) => None,
    }
}
