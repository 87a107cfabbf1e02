//! Translation of an MSCCL file into a schedule: one role per rank, one stream per thread block, an
//! array of queues indexed by channel, and events for dependencies.
//!
//! A step that receives and sends becomes `room`, `recv` into a register of its stream, and `send`.
//! It begins only when its connections allow both, as in the runtime. The registers are chunks of
//! one buffer; every stream has its own, and no other stream touches them.

use super::fifo::MAX_AT_ONCE;
use super::{Algo, Buf, ChunkRun, Dep, Op, Step, Tb, steps};
use kbc_ir::contract::Contract;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::schedule::*;
use kbc_ir::types::{Axis, Cut, CutRule, DType, Dim, MemKind, Mesh, ReduceOp, TensorType};
use kbc_ir::{Body, Module, Props};
use std::collections::BTreeSet;

/// The name of the mesh axis; its coordinate is the rank.
pub const AXIS: &str = "gpu";

/// The parameters of a call that the file does not state.
#[derive(Clone, Debug)]
pub struct Options {
    /// Element type.
    pub dtype: DType,
    /// Combiner of the reductions.
    pub op: ReduceOp,
    /// Root rank of a rooted collective.
    pub root: u64,
    /// Number of elements per chunk.
    pub elements: u64,
    /// Greatest number of chunks that one operation moves. A step of more chunks is issued as
    /// several operations.
    pub at_once: u64,
    /// Number of slots of a queue. If absent, it is that of the protocol.
    pub depth: Option<u64>,
    /// Postcondition that replaces that of the collective.
    pub post: Option<Contract>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dtype: DType::F32,
            op: ReduceOp::Sum,
            root: 0,
            elements: 4,
            at_once: MAX_AT_ONCE,
            depth: None,
            post: None,
        }
    }
}

/// The result of [`build`].
#[derive(Clone, Debug)]
pub struct Built {
    /// The schedule, as a module.
    pub module: Module,
    /// The contract of the schedule; none if the collective has no known postcondition.
    pub contract: Option<Contract>,
    /// The same schedule for execution: the buffer of results starts as zeros if the contract does
    /// not cover it completely.
    pub execute: Schedule,
}

/// Sizes of the buffers in chunks; the same on every rank.
struct Sizes {
    input: u64,
    output: u64,
    scratch: u64,
    /// Number of registers per stream, in chunks.
    registers: u64,
    /// Greatest number of thread blocks on a rank; each has a stream.
    tbs: u64,
    /// Chunks of one rank's block in the larger buffer.
    block: u64,
}

impl Sizes {
    fn new(algo: &Algo) -> Sizes {
        let (k, n) = (algo.chunks, algo.ranks());
        let block = k / n.max(1);
        let all = |f: fn(&Tb) -> u64| algo.gpus.iter().flat_map(|g| &g.tbs).map(f).max().unwrap_or(0);
        let whole = if algo.coll.kind().is_none() { steps::user_chunks(algo) } else { k };
        let sized = |small: bool| if small { block } else { whole };
        Sizes {
            input: sized(algo.coll.small_input()),
            output: if algo.aliased { whole } else { sized(algo.coll.small_output()) },
            scratch: algo.gpus.iter().map(|g| g.chunks[2]).max().unwrap_or(0),
            registers: all(|t| t.steps.iter().filter(|s| register(s)).map(|s| s.cnt).max().unwrap_or(0)),
            tbs: algo.gpus.iter().map(|g| g.tbs.len() as u64).max().unwrap_or(0),
            block,
        }
    }
}

/// Checks whether a step keeps its message in a register.
fn register(s: &Step) -> bool {
    matches!(s.op, Op::Rrc | Op::Rcs | Op::Rrs | Op::Rrcs)
}

fn int(v: u64) -> Expr {
    Expr::Int(i64::try_from(v).unwrap_or(i64::MAX))
}

fn stream_name(tb: usize) -> Name {
    format!("tb{tb}").into()
}

/// Returns the event that records the completion of a step of a thread block.
fn done(tb: usize, step: usize) -> Name {
    format!("tb{tb}.{step}").into()
}

const START: &str = "start";

/// Builds the schedule of a file.
pub fn build(algo: &Algo, options: &Options) -> Built {
    let n = algo.ranks();
    let mesh = Mesh { axes: vec![Axis { name: AXIS.into(), size: n, parts: vec![(AXIS.into(), n)] }] };
    let sizes = Sizes::new(algo);
    let mut s = Schedule::new(name(&algo.name), mesh.clone());
    s.calls = Calls::First;
    let c = options.elements;
    let buffer = |name: &str, chunks: u64, role: BufferRole| {
        let len = chunks * c;
        let cut = Some(Cut { axes: vec![AXIS.into()], rule: CutRule::Even });
        let dims = vec![Dim { size: n, cut }, Dim { size: len, cut: None }];
        let temp = role == BufferRole::Temp;
        Buffer {
            name: name.into(),
            dtype: options.dtype,
            dims: if temp { vec![int(len)] } else { vec![int(1), int(len)] },
            memory: MemKind::Hbm,
            zero: false,
            role,
            global: (!temp).then(|| TensorType { dims, ..TensorType::replicated(options.dtype, &[]) }),
            span: algo.span,
        }
    };
    s.buffers.push(buffer("x", sizes.input, BufferRole::Input(0)));
    s.buffers.push(buffer("y", sizes.output, BufferRole::Output(0)));
    let operand = |name: &str, buffer: u32, chunks: u64, scratch: bool| Operand {
        name: name.into(),
        buffer: BufferId(buffer),
        line: Line::vector(int(chunks * c)),
        scratch,
    };
    let mut operands = match algo.aliased {
        true => vec![operand("v", 1, sizes.output, false)],
        false => vec![operand("src", 0, sizes.input, false), operand("dst", 1, sizes.output, false)],
    };
    let mut extra = |name: &str, letter: &str, chunks: u64| {
        if chunks == 0 {
            return None;
        }
        s.buffers.push(buffer(name, chunks, BufferRole::Temp));
        operands.push(operand(letter, s.buffers.len() as u32 - 1, chunks, true));
        Some((OperandId(operands.len() as u32 - 1), chunks))
    };
    let scratch = extra("scratch", "s", sizes.scratch);
    let registers = extra("registers", "t", sizes.registers * sizes.tbs);
    s.queues.push(Queue {
        name: "chan".into(),
        count: algo.channels,
        dtype: options.dtype,
        depth: options.depth.unwrap_or(algo.proto.depth()),
        capacity: algo.steps().map(|(_, s)| s.cnt.min(options.at_once)).max().unwrap_or(1).max(1) * c,
        memory: MemKind::Hbm,
        span: algo.span,
    });
    if algo.aliased {
        s.regions.push(load(algo, &sizes, c));
    }
    let contract = match &options.post {
        Some(p) => Some(p.clone()),
        None => algo.coll.contract(algo.aliased, options.op, options.root),
    };
    let roles = (0..algo.gpus.len())
        .map(|gpu| Writer { algo, options, sizes: &sizes, gpu, scratch, registers }.role())
        .collect();
    s.regions.push(Region {
        name: algo.coll.name().into(),
        over: vec![AXIS.into()],
        coords: vec![(AXIS.into(), n)],
        operands,
        contract: contract.clone(),
        label: Some(format!("{}, {}", algo.name, algo.proto.name())),
        after: vec![],
        roles,
        span: algo.span,
    });
    if s.queues.iter().all(|_| !algo.steps().any(|(_, s)| s.op.sends() || s.op.receives())) {
        s.queues.clear();
    }
    let mut execute = s.clone();
    let complete = algo.coll.fills() && options.post.is_none();
    execute.buffers[1].zero = !complete;
    let props = Props::EXPANDED.with(Props::ALLOCATED).with(Props::SYNCHRONIZED);
    let module = Module {
        name: s.name.clone(),
        machine: None,
        mesh,
        body: Body::Schedule(s),
        props,
        attributes: Default::default(),
    };
    Built { module, contract, execute }
}

/// Makes a name of the IR from arbitrary text: at most 63 characters, without control characters
/// and back quotes.
fn name(text: &str) -> Name {
    let cut: String = text.chars().filter(|c| !c.is_control() && *c != '`').take(63).collect();
    if cut.trim().is_empty() { "schedule".into() } else { cut.into() }
}

/// Returns the region that copies the input to its place in the single buffer of an in-place call.
fn load(algo: &Algo, sizes: &Sizes, elements: u64) -> Region {
    let operand = |name: &str, buffer: u32, chunks: u64| Operand {
        name: name.into(),
        buffer: BufferId(buffer),
        line: Line::vector(int(chunks * elements)),
        scratch: false,
    };
    let whole = |operand: u32| Ref::Chunk { operand: OperandId(operand), path: vec![] };
    let dst = match algo.coll.small_input() {
        true => Ref::Chunk {
            operand: OperandId(1),
            path: vec![Part { index: Expr::var(AXIS), len: Expr::Int(1), of: int(algo.ranks()) }],
        },
        false => whole(1),
    };
    Region {
        name: "load".into(),
        over: vec![],
        coords: vec![(AXIS.into(), algo.ranks())],
        operands: vec![operand("x", 0, sizes.input), operand("v", 1, sizes.output)],
        contract: None,
        label: None,
        after: vec![],
        roles: vec![Role {
            name: "all".into(),
            ranks: RankSet::All,
            streams: vec![Stream {
                name: MAIN.into(),
                body: vec![SStmt::Op(SOp::Copy { dst, src: whole(0) }, algo.span)],
            }],
        }],
        span: algo.span,
    }
}

/// Builder of the role of one rank.
struct Writer<'a> {
    algo: &'a Algo,
    options: &'a Options,
    sizes: &'a Sizes,
    gpu: usize,
    scratch: Option<(OperandId, u64)>,
    registers: Option<(OperandId, u64)>,
}

impl Writer<'_> {
    fn role(&self) -> Role {
        let tbs = &self.algo.gpus[self.gpu].tbs;
        let span = self.algo.gpus[self.gpu].span;
        let op = |op| SStmt::Op(op, span);
        let mut targets: BTreeSet<(usize, usize)> = BTreeSet::new();
        // Events that nothing records, because the step is never published.
        let mut never: BTreeSet<Name> = BTreeSet::new();
        for (tb, t) in tbs.iter().enumerate() {
            for d in t.steps.iter().enumerate().flat_map(|(i, s)| s.waits.iter().map(move |d| (i, d))) {
                match self.target(tb, d.0, d.1) {
                    Wait::For(tb, step) => drop(targets.insert((tb, step))),
                    Wait::Ever(event) => drop(never.insert(event)),
                    Wait::Not => {}
                }
            }
        }
        let mut main = vec![op(SOp::Record(START.into()))];
        main.extend((0..tbs.len()).map(|tb| op(SOp::Await(end(tb)))));
        if !never.is_empty() {
            let then = never.into_iter().map(|e| op(SOp::Record(e))).collect();
            main.insert(1, SStmt::If { cond: Expr::Int(0), then, other: vec![] });
        }
        let mut streams = vec![Stream { name: MAIN.into(), body: main }];
        for (tb, t) in tbs.iter().enumerate() {
            let mut body = vec![SStmt::Op(SOp::Await(START.into()), t.span)];
            for (i, s) in t.steps.iter().enumerate() {
                for d in &s.waits {
                    match self.target(tb, i, d) {
                        Wait::For(of, step) => body.push(SStmt::Op(SOp::Await(done(of, step)), s.span)),
                        Wait::Ever(event) => body.push(SStmt::Op(SOp::Await(event), s.span)),
                        Wait::Not => {}
                    }
                }
                self.step(tb, t, s, &mut body);
                if targets.contains(&(tb, i)) {
                    body.push(SStmt::Op(SOp::Record(done(tb, i)), s.span));
                }
            }
            body.push(SStmt::Op(SOp::Record(end(tb)), t.span));
            streams.push(Stream { name: stream_name(tb), body });
        }
        Role { name: format!("gpu{}", self.gpu).into(), ranks: RankSet::List(vec![self.gpu as u64]), streams }
    }

    /// Returns what a dependency waits for. It waits forever if neither the named step nor any
    /// later step of that thread block is published.
    fn target(&self, tb: usize, step: usize, d: &Dep) -> Wait {
        let (of, first) = (d.tb as usize, usize::try_from(d.step).unwrap_or(usize::MAX));
        let steps = &self.algo.gpus[self.gpu].tbs[of].steps;
        let published = (first..steps.len()).find(|i| steps[*i].hasdep && steps[*i].op != Op::Nop);
        match published {
            // A thread block that depends on itself: if the step is published earlier, program
            // order is enough; otherwise the thread block waits forever.
            Some(p) if of == tb && p < step => Wait::Not,
            // At run time the wait ends when this step or a later one is published. The dependency
            // orders nothing after step `first`, so the schedule waits for the event of that step.
            Some(_) if of != tb => Wait::For(of, first),
            _ => Wait::Ever(format!("tb{of}.{first}.unpublished").into()),
        }
    }

    fn step(&self, tb: usize, t: &Tb, s: &Step, out: &mut Vec<SStmt>) {
        let m = self.options.at_once.max(1);
        for at in (0..s.cnt).step_by(m as usize) {
            let cnt = m.min(s.cnt - at);
            self.piece(tb, t, s, (at, cnt), out);
        }
    }

    /// Appends one operation of a step: its chunks `at .. at + cnt`.
    fn piece(&self, tb: usize, t: &Tb, s: &Step, (at, cnt): (u64, u64), out: &mut Vec<SStmt>) {
        let (queue, index) = (QueueId(0), int(t.chan));
        let peer = |p: Option<u64>| -> Peer { vec![int(p.unwrap_or(0))].into() };
        let red = self.options.op;
        let (src, dst) = (|| self.place(s.src, at, cnt), || self.place(s.dst, at, cnt));
        let reg = || self.register(tb, cnt);
        let room = || SOp::Room { peer: peer(t.send), queue: Channel { queue, index: index.clone() } };
        let send =
            |src: Ref| SOp::Send { src, peer: peer(t.send), queue: Channel { queue, index: index.clone() } };
        let recv =
            |dst: Ref| SOp::Recv { dst, peer: peer(t.recv), queue: Channel { queue, index: index.clone() } };
        let copy = |dst: Ref, src: Ref| SOp::Copy { dst, src };
        let reduce = |dst: Ref, src: Ref| SOp::Reduce { op: red, dst, src };
        let ops = match s.op {
            Op::Nop => vec![],
            Op::S => vec![send(src())],
            Op::R => vec![recv(dst())],
            Op::Cpy => vec![copy(dst(), src())],
            Op::Re => vec![reduce(dst(), src())],
            Op::Rrc if self.same(s) => vec![recv(reg()), reduce(dst(), reg())],
            Op::Rrc => vec![recv(reg()), reduce(reg(), src()), copy(dst(), reg())],
            Op::Rcs => vec![room(), recv(reg()), copy(dst(), reg()), send(reg())],
            Op::Rrs => vec![room(), recv(reg()), reduce(reg(), src()), send(reg())],
            Op::Rrcs => vec![room(), recv(reg()), reduce(reg(), src()), copy(dst(), reg()), send(reg())],
        };
        out.extend(ops.into_iter().map(|op| SStmt::Op(op, s.span)));
    }

    /// Checks whether a step reads the chunks that it writes.
    fn same(&self, s: &Step) -> bool {
        self.chunk(s.src) == self.chunk(s.dst)
    }

    /// Returns the operand of a place, the first chunk, and the number of chunks of the operand.
    fn chunk(&self, p: ChunkRun) -> (OperandId, i64, u64) {
        if p.buf == Buf::Scratch {
            let (operand, chunks) = self.scratch.unwrap_or((OperandId(0), 1));
            return (operand, p.off, chunks);
        }
        if self.algo.aliased {
            let off = self.algo.coll.in_place(p, self.gpu as u64, self.sizes.block);
            return (OperandId(0), off, self.sizes.output);
        }
        match p.buf {
            Buf::Input => (OperandId(0), p.off, self.sizes.input),
            _ => (OperandId(1), p.off, self.sizes.output),
        }
    }

    fn place(&self, p: ChunkRun, at: u64, cnt: u64) -> Ref {
        let (operand, off, of) = self.chunk(p);
        let path = vec![Part { index: Expr::Int(off.saturating_add(at as i64)), len: int(cnt), of: int(of) }];
        Ref::Chunk { operand, path }
    }

    fn register(&self, tb: usize, cnt: u64) -> Ref {
        let (operand, of) = self.registers.unwrap_or((OperandId(0), 1));
        let path = vec![Part { index: int(tb as u64 * self.sizes.registers), len: int(cnt), of: int(of) }];
        Ref::Chunk { operand, path }
    }
}

fn end(tb: usize) -> Name {
    format!("tb{tb}.end").into()
}

enum Wait {
    For(usize, usize),
    /// Waits for an event that is never recorded.
    Ever(Name),
    Not,
}

impl Built {
    /// Returns the schedule that is checked.
    pub fn schedule(&self) -> Option<&Schedule> {
        self.module.schedule()
    }
}
