//! Symbolic run: executes one call of a schedule on all ranks, with trees in place of numbers.
//!
//! Every operation takes effect at once, in an order that waits and events allow, as in
//! [`kbc_backend_sim::interp`]. Without a seed, streams run in the order of their ranks, each until
//! it waits; with a seed, the stream that runs and the length of its turn are drawn. The module
//! owns the memories and the values that are read: results, what a host reads, and operands of
//! computations that have additions.

use crate::local::{Definitions, LocalMeaning, meaning};
use crate::pieces::{Piece, Pieces, overlay};
use crate::trees::{Forest, Source, SourceId};
use crate::{MAX_ELEMENTS, MAX_PIECES, MAX_TREES, OrderOptions};
use kbc_backend_sim::effect::{Effect, Run, mem_dtype, mem_name, same_type};
use kbc_backend_sim::failure;
use kbc_backend_sim::flow::{Advance, Flow, Queue};
use kbc_backend_sim::interp::{nothing_there, queue_type, zeros};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::schedule::{BufferId, BufferRole, LocalOp, Schedule};
use kbc_ir::types::ReduceOp;
use kbc_ir::walk::{Act, Mem, Program};
use kbc_numerics::rng::Rng;
use kbc_numerics::shard::HeldBox;
use std::collections::{BTreeMap, VecDeque};

/// Key of a value that is read. The order of the keys is that of reports.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ValueKey {
    /// A buffer that computations of a region read, by the number of the region and the name of the
    /// buffer. Ranks with programs of their own have buffers of one name for one value.
    Operand(u32, String),
    /// A buffer that hosts read.
    HostRead(u32),
    /// A result, by its number and its buffer.
    Result(u32, u32),
}

/// What one rank read of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReadOfRank {
    /// The rank.
    pub rank: u64,
    /// The elements.
    pub pieces: Vec<Piece>,
}

/// Everything that a run leaves.
pub(crate) struct Outcome {
    pub forest: Forest,
    pub values: BTreeMap<ValueKey, Vec<ReadOfRank>>,
}

struct Machine<'p> {
    program: &'p Program<'p>,
    flow: Flow<'p>,
    forest: Forest,
    definitions: Definitions,
    memories: Vec<BTreeMap<Mem, Pieces>>,
    queues: BTreeMap<Queue, VecDeque<Vec<Piece>>>,
    /// What the host of each rank read last of each buffer.
    taken: BTreeMap<(u64, u32), Vec<Piece>>,
    values: BTreeMap<ValueKey, Vec<ReadOfRank>>,
    /// Number of runs in all memories and values.
    pieces: usize,
}

fn too_many(what: &str, limit: usize, span: Span) -> Diagnostic {
    Diagnostic::error("E354", format!("the order of additions needs more than {limit} {what}"))
        .primary(span, "the limit is exceeded here")
        .help("ask about fewer ranks or fewer pieces; the order does not depend on the lengths of blocks")
}

/// Returns, for each rank, the first rank that has the same part of an input.
fn holders(s: &Schedule, b: BufferId) -> Vec<u32> {
    let ranks = s.mesh.ranks();
    let Some(ty) = &s.buffer(b).global else { return (0..ranks as u32).collect() };
    let mut first: BTreeMap<Vec<(u64, u64)>, u32> = BTreeMap::new();
    (0..ranks).map(|r| *first.entry(HeldBox::of(ty, &s.mesh, r).range).or_insert(r as u32)).collect()
}

/// Runs one call of a program.
///
/// # Errors
/// Returns the errors of the interpreter, and E354 if there are too many trees or pieces.
pub(crate) fn run(program: &Program<'_>, options: &OrderOptions) -> Result<Outcome, Diagnostics> {
    let s = program.schedule;
    let inputs = s.buffers.iter().enumerate().filter(|(_, b)| matches!(b.role, BufferRole::Input(_)));
    let held = inputs.map(|(i, _)| (i as u32, holders(s, BufferId(i as u32)))).collect();
    let mut m = Machine {
        program,
        flow: Flow::new(program, 1),
        forest: Forest::new(held, MAX_TREES),
        definitions: Definitions::default(),
        memories: (0..program.ranks()).map(|_| BTreeMap::new()).collect(),
        queues: BTreeMap::new(),
        taken: BTreeMap::new(),
        values: BTreeMap::new(),
        pieces: 0,
    };
    for rank in 0..program.ranks() {
        m.begin(rank)?;
    }
    let mut met = vec![];
    m.go(options.seed.map(Rng::new), &mut met);
    match failure::of(&mut m.flow, met) {
        Some(f) => Err(f.diagnostics),
        None => {
            // Ranks read in the order in which they got there.
            m.values.values_mut().for_each(|reads| reads.sort_by_key(|r| r.rank));
            Ok(Outcome { forest: m.forest, values: m.values })
        }
    }
}

impl<'p> Machine<'p> {
    /// Fills inputs, and buffers that hold zeros.
    fn begin(&mut self, rank: u64) -> Result<(), Diagnostic> {
        for (i, b) in self.program.schedule.buffers.iter().enumerate() {
            let source = match b.role {
                BufferRole::Input(_) => Source::Input(i as u32),
                BufferRole::Output(_) | BufferRole::Temp if b.zero => Source::Number(0f64.to_bits()),
                BufferRole::Output(_) | BufferRole::Temp => continue,
            };
            let len = self.held(BufferId(i as u32), rank)?;
            let source = self.forest.source(source, || b.name.to_string());
            let piece = self.whole(source, rank, len, b.span)?;
            self.write(rank, Run { mem: Mem::Buffer(i as u32), start: 0, len }, &[piece], b.span)?;
        }
        Ok(())
    }

    /// Returns the number of elements of a buffer on a rank; 0 if it is part of a tensor of which
    /// the rank has nothing.
    fn held(&self, b: BufferId, rank: u64) -> Result<u64, Diagnostic> {
        let s = self.program.schedule;
        let nothing = s.buffer(b).global.as_ref().is_some_and(|ty| {
            ty.local_box(&s.mesh, &s.mesh.coords(rank)).iter().any(|(start, end)| start == end)
        });
        if nothing {
            return Ok(0);
        }
        self.program.elements(b, rank).map_err(|f| f.diagnostic(|r| s.mesh.show(r)))
    }

    /// Returns elements `0 .. len` of a source on a rank.
    fn whole(&mut self, source: SourceId, rank: u64, len: u64, span: Span) -> Result<Piece, Diagnostic> {
        if len > MAX_ELEMENTS {
            let text = format!("a memory of {len} elements has too many to count their distances");
            return Err(Diagnostic::error("E354", text).primary(span, "here"));
        }
        let leaf = self.forest.leaf(source, rank).ok_or_else(|| too_many("trees", MAX_TREES, span))?;
        Ok(Piece::new(&self.forest, (0, len), leaf, 0))
    }

    /// Advances streams until none can advance.
    fn go(&mut self, mut rng: Option<Rng>, met: &mut Vec<(u64, Diagnostic)>) {
        let mut queue: VecDeque<usize> = (0..self.flow.threads.len()).collect();
        let mut queued = vec![true; queue.len()];
        while !queue.is_empty() {
            let at = rng.as_mut().map_or(0, |r| r.below(queue.len()));
            let Some(thread) = queue.swap_remove_front(at) else { break };
            let mut steps = rng.as_mut().map(|r| 1 + r.below(6));
            queued[thread] = false;
            while !self.flow.threads[thread].stopped {
                if steps == Some(0) {
                    queue.push_back(thread);
                    queued[thread] = true;
                    break;
                }
                steps = steps.map(|s| s - 1);
                let rank = self.flow.threads[thread].rank;
                let step = match self.flow.advance(thread) {
                    Ok(Advance::Blocked | Advance::Done) => break,
                    Ok(Advance::CallOver(_)) => self.call_over(thread).map(|()| None),
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
                    Err(d) => {
                        met.push((rank, d));
                        for t in self.flow.of_rank(rank) {
                            self.flow.threads[t].stopped = true;
                            self.flow.threads[t].held = None;
                        }
                    }
                }
            }
        }
    }

    /// Executes one operation. Returns the rank on which something may have become possible.
    fn act(&mut self, thread: usize, act: &Act<'p>, span: Span) -> Result<Option<u64>, Diagnostic> {
        let rank = self.flow.threads[thread].rank;
        match act {
            Act::Copy { dst, src } => {
                self.moved((rank, src.mem, src.start), (rank, Run::of(dst)), thread, span)?
            }
            Act::Reduce { op, dst, src } => {
                same_type(self.program.schedule, src.mem, dst.mem, span)?;
                let a = self.read(rank, Run::of(dst), thread, span)?;
                let b = self.read(rank, Run::of(src), thread, span)?;
                let out = self.combined(*op, dst.mem, &a, &b, span)?;
                self.write(rank, Run::of(dst), &out, span)?;
            }
            Act::GetCombine { op, dst, peer, src } => {
                same_type(self.program.schedule, src.mem, dst.mem, span)?;
                let a = self.read(rank, Run::of(dst), thread, span)?;
                let b = self.read(*peer, Run::of(src), thread, span)?;
                let out = self.combined(*op, dst.mem, &a, &b, span)?;
                self.write(rank, Run::of(dst), &out, span)?;
            }
            Act::Put { src, peer, dst } => {
                self.moved((rank, src.mem, src.start), (*peer, Run::of(dst)), thread, span)?;
            }
            Act::Get { dst, peer, src } => {
                self.moved((*peer, src.mem, src.start), (rank, Run::of(dst)), thread, span)?;
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
                let data = self.queues.entry(which).or_default().pop_front().unwrap_or_default();
                self.flow.received(which);
                self.flow.credited(which);
                let len: u64 = data.iter().map(|p| p.len).sum();
                if len != dst.len {
                    let text = format!("a message of {len} elements is received as {}", dst.len);
                    return Err(Diagnostic::error("E356", text).primary(span, "received here"));
                }
                self.write(rank, Run::of(dst), &data, span)?;
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
            Act::Wait { counter, value } => self.flow.spend(thread, *counter, *value, span)?,
            Act::Local(op) => self.local(thread, op, act, span)?,
            Act::HostRead(b) => {
                let len = self.held(*b, rank)?;
                let data = self.read(rank, Run { mem: Mem::Buffer(b.0), start: 0, len }, thread, span)?;
                self.taken.insert((rank, b.0), data.clone());
                self.note(ValueKey::HostRead(b.0), rank, data, span)?;
            }
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

    /// Copies a run of elements, of this rank or of two ranks.
    fn moved(
        &mut self,
        (from, mem, start): (u64, Mem, u64),
        (to, dst): (u64, Run),
        thread: usize,
        span: Span,
    ) -> Result<(), Diagnostic> {
        same_type(self.program.schedule, mem, dst.mem, span)?;
        let data = self.read(from, Run { mem, start, len: dst.len }, thread, span)?;
        self.write(to, dst, &data, span)
    }

    /// Returns `dst OP src`, element by element.
    fn combined(
        &mut self,
        op: ReduceOp,
        mem: Mem,
        dst: &[Piece],
        src: &[Piece],
        span: Span,
    ) -> Result<Vec<Piece>, Diagnostic> {
        let dtype = mem_dtype(self.program.schedule, mem);
        let (forest, mut out, mut full) = (&mut self.forest, vec![], false);
        overlay(dst, src, &mut |d, s| match forest.add(op, dtype, (d.tree, s.tree), s.base - d.base) {
            Some(tree) => {
                let base = if d.placed { d.base } else { s.base };
                out.push(Piece::new(forest, (d.start, d.len), tree, base));
            }
            None => full = true,
        });
        if full { Err(too_many("trees", MAX_TREES, span)) } else { Ok(out) }
    }

    /// Executes an operation on whole local buffers.
    fn local(&mut self, thread: usize, op: &'p LocalOp, act: &Act<'p>, span: Span) -> Result<(), Diagnostic> {
        let rank = self.flow.threads[thread].rank;
        let Some(effect) = Effect::of(self.program, rank, act, span)? else { return Ok(()) };
        let source = match meaning(self.program, rank, op, span)? {
            LocalMeaning::Moves { skip } => {
                let Some(read) = effect.reads.first() else { return Ok(()) };
                let run = Run { start: read.start + skip, len: effect.write.len, ..*read };
                let data = self.read(rank, run, thread, span)?;
                return self.write(rank, effect.write, &data, span);
            }
            LocalMeaning::Number(n) => Source::Number(n.to_bits()),
            LocalMeaning::Computes(what) => {
                let region = self.flow.threads[thread].region.map_or(0, |r| r.0);
                let mut contents = vec![];
                for (buffer, run) in op.srcs().into_iter().zip(&effect.reads) {
                    let data = self.read(rank, *run, thread, span)?;
                    contents.push(self.content(&data));
                    if data.iter().any(|p| self.forest.adds(p.tree)) {
                        let name = self.program.schedule.buffer(buffer).name.to_string();
                        self.note(ValueKey::Operand(region, name), rank, data, span)?;
                    }
                }
                Source::Computed { definition: self.definitions.number(what), contents }
            }
        };
        let name = || format!("{} %{}", op.word(), self.program.schedule.buffer(op.dst()).name);
        let source = self.forest.source(source, name);
        let piece = self.whole(source, rank, effect.write.len, span)?;
        self.write(rank, effect.write, &[piece], span)
    }

    fn content(&mut self, data: &[Piece]) -> u32 {
        let mut runs: Vec<(u64, _, i64)> = Vec::with_capacity(data.len());
        for p in data {
            let (bits, at) = self.forest.bits(p.tree, p.base);
            // Runs that differ only in what does not change bits are one run.
            match runs.last_mut() {
                Some((len, b, base))
                    if *b == bits && at == *base + if p.placed { *len as i64 } else { 0 } =>
                {
                    *len += p.len;
                }
                _ => runs.push((p.len, bits, at)),
            }
        }
        self.forest.content(runs)
    }

    /// Keeps what a rank read.
    fn note(&mut self, key: ValueKey, rank: u64, pieces: Vec<Piece>, span: Span) -> Result<(), Diagnostic> {
        let of = self.values.entry(key).or_default();
        let new = ReadOfRank { rank, pieces };
        if of.iter().rev().take_while(|r| r.rank == rank).any(|r| *r == new) {
            return Ok(());
        }
        self.pieces += new.pieces.len();
        of.push(new);
        if self.pieces > MAX_PIECES { Err(too_many("pieces", MAX_PIECES, span)) } else { Ok(()) }
    }

    fn read(&mut self, rank: u64, run: Run, thread: usize, span: Span) -> Result<Vec<Piece>, Diagnostic> {
        if run.len == 0 {
            return Ok(vec![]);
        }
        self.allocate(rank, run.mem, span)?;
        let s = self.program.schedule;
        let found = match self.memories[rank as usize].get(&run.mem) {
            Some(pieces) => pieces.read(run.start, run.len),
            None => Err(run.start),
        };
        found.map_err(|i| {
            nothing_there(s, rank, run.mem, i).primary(span, format!("read by {}", self.flow.place(thread)))
        })
    }

    /// Fills a slot that holds zeros when its window is allocated, before its first use.
    fn allocate(&mut self, rank: u64, mem: Mem, span: Span) -> Result<(), Diagnostic> {
        let Some(len) = zeros(self.program.schedule, mem) else { return Ok(()) };
        if !self.memories[rank as usize].contains_key(&mem) {
            let zero = self.forest.source(Source::Number(0f64.to_bits()), || "0".into());
            let piece = self.whole(zero, rank, len, span)?;
            self.memories[rank as usize].entry(mem).or_default().write(0, &[piece]);
            self.pieces += 1;
        }
        Ok(())
    }

    fn write(&mut self, rank: u64, run: Run, data: &[Piece], span: Span) -> Result<(), Diagnostic> {
        if run.len == 0 {
            return Ok(());
        }
        self.allocate(rank, run.mem, span)?;
        let memory = self.memories[rank as usize].entry(run.mem).or_default();
        let before = memory.count();
        memory.write(run.start, data);
        self.pieces = self.pieces + memory.count() - before;
        if self.pieces > MAX_PIECES { Err(too_many("pieces", MAX_PIECES, span)) } else { Ok(()) }
    }

    /// Reads the results of a rank when its host ends the call.
    fn call_over(&mut self, thread: usize) -> Result<(), Diagnostic> {
        if self.flow.threads[thread].stream != self.program.host {
            return Ok(());
        }
        let rank = self.flow.threads[thread].rank;
        let s = self.program.schedule;
        for (i, b) in s.buffers.iter().enumerate() {
            let BufferRole::Output(n) = b.role else { continue };
            let key = ValueKey::Result(n, i as u32);
            if let Some(read) = self.taken.get(&(rank, i as u32)) {
                let read = read.clone();
                self.note(key, rank, read, b.span)?;
                continue;
            }
            let mem = Mem::Buffer(i as u32);
            let len = self.held(BufferId(i as u32), rank)?;
            let read = match self.memories[rank as usize].get(&mem) {
                Some(pieces) => pieces.read(0, len),
                None if len == 0 => Ok(vec![]),
                None => Err(0),
            };
            let read = read.map_err(|at| {
                let text = format!(
                    "element {at} of {} was never written on {}",
                    mem_name(s, mem),
                    s.mesh.show(rank)
                );
                Diagnostic::error("E365", text)
                    .primary(b.span, "this result")
                    .help("every element of a result must be written in every call")
            })?;
            self.note(key, rank, read, b.span)?;
        }
        Ok(())
    }
}
