//! Schedule level: regions, roles, streams, structured bodies; windows, signals and fences as operations.
//!
//! A schedule says what every rank does, with expressions in its coordinates and steps. Nothing is unrolled over
//! steps or expanded over ranks without need. What the operations mean is `docs/ir.md`; which schedules are
//! well-formed is [`crate::verify`]; what a concrete rank does is [`crate::walk`].

use crate::expr::Expr;
use crate::host::Host;
use crate::name::Name;
use crate::promise::Promise;
use crate::types::{CutRule, DType, MemKind, Mesh, ReduceOp, TensorType};
use kbc_diag::Span;

pub use crate::local_op::{Filling, LocalOp};

pub use crate::form::Form;
pub use crate::rewrite::{map_exprs, replace_ops, subst_stmts};

/// Index of a buffer of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub u32);
/// Index of a window of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WindowId(pub u32);
/// Index of a signal array of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SignalId(pub u32);
/// Index of a queue array of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId(pub u32);
/// Index of an operand of a region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperandId(pub u32);
/// Index of a region of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegionId(pub u32);

/// Name of the variable that counts calls of the whole schedule, from 0.
pub const CALL: &str = "call";

/// Which calls of the schedule are meant to be safe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Calls {
    /// Signals are not in place yet: nothing is claimed.
    None,
    /// One call on a freshly allocated domain.
    First,
    /// Call after call, at any skew between ranks.
    Any,
}

/// What a buffer is to the outside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferRole {
    /// Filled before each call with the rank's part of that program input.
    Input(u32),
    /// Read after each call as the rank's part of that program result.
    Output(u32),
    /// Neither; holds nothing at the start of a call.
    Temp,
}

/// Memory of a rank that peers reach only where an operation names it directly (direct placement).
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Local sizes, row-major: expressions in the coordinates of the mesh axes (by axis name).
    pub dims: Vec<Expr>,
    /// Memory kind.
    pub memory: MemKind,
    /// Whether the host fills it with zeros before each call; otherwise it holds nothing then.
    pub zero: bool,
    /// What it is to the outside.
    pub role: BufferRole,
    /// For inputs and outputs: the global tensor it is a part of.
    pub global: Option<TensorType>,
    /// Where it comes from.
    pub span: Span,
}

/// Peer-visible symmetric memory: `slots` slots of `capacity` elements on every rank.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Slots.
    pub slots: u64,
    /// Elements a slot can hold.
    pub capacity: u64,
    /// Memory kind.
    pub memory: MemKind,
    /// Whether it holds zeros when the domain is allocated; otherwise it holds nothing then.
    pub zero: bool,
    /// Byte offset in the rank's window domain, once allocated.
    pub offset: Option<u64>,
    /// Where it comes from.
    pub span: Span,
}

/// What a signal is for; only documentation, the checker does not believe it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SignalUse {
    /// Data has arrived.
    Arrival,
    /// A slot may be written again.
    Credit,
    /// Part of a barrier.
    Barrier,
}

/// An array of 32-bit counters on every rank, which a notify adds 1 to.
#[derive(Clone, PartialEq, Debug)]
pub struct Signal {
    /// Name.
    pub name: Name,
    /// Counters.
    pub count: u64,
    /// What for.
    pub usage: SignalUse,
    /// What waits ask for, and how many may count it up.
    pub form: Form,
    /// Byte offset in the rank's signal area, once allocated (64 bytes a counter).
    pub offset: Option<u64>,
    /// Where it comes from.
    pub span: Span,
}

/// `count` FIFO queues from every rank to every rank: each has `depth` slots of `capacity` elements, one sending and
/// one receiving stream. Credits are implied: a `recv` gives its slot back to the sender. Slots have no address, so
/// nothing but `send` and `recv` reaches them.
#[derive(Clone, PartialEq, Debug)]
pub struct Queue {
    /// Name.
    pub name: Name,
    /// Queues between each pair of ranks, in each direction.
    pub count: u64,
    /// Element type.
    pub dtype: DType,
    /// Slots of a queue.
    pub depth: u64,
    /// Elements a slot can hold.
    pub capacity: u64,
    /// Memory kind of the slots.
    pub memory: MemKind,
    /// Where it comes from.
    pub span: Span,
}

/// A constant table.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Name.
    pub name: Name,
    /// Entries.
    pub values: Vec<i64>,
}

/// How a region sees a buffer: as a line of elements cut into chunks.
///
/// The line has `parts` equal-ruled blocks: block b covers `unit * cut(extent, b)` .. `unit * cut(extent, b + 1)`,
/// inside a block (and with `parts` 1 in the whole) chunks are cut evenly by elements.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Blocks; 1 for a plain vector.
    pub parts: u64,
    /// Elements along the dimension that the blocks cut: an expression in mesh coordinates.
    pub extent: Expr,
    /// Elements for one element of `extent`: an expression in mesh coordinates.
    pub unit: Expr,
    /// How `extent` is cut into blocks.
    pub rule: CutRule,
    /// Which row of the rule's lengths is this rank's: an expression in mesh coordinates; 0 unless there are several.
    pub row: Expr,
}

impl Line {
    /// A plain vector of that many elements.
    pub fn vector(extent: Expr) -> Line {
        Line { parts: 1, extent, unit: Expr::Int(1), rule: CutRule::Even, row: Expr::Int(0) }
    }
}

/// A buffer a collective region works on.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand {
    /// Name in the region (`v`, `src`, `dst`, or a scratch name).
    pub name: Name,
    /// The buffer.
    pub buffer: BufferId,
    /// How it is cut.
    pub line: Line,
    /// Scratch holds nothing at first and nothing is promised about it.
    pub scratch: bool,
}

/// One digit of a chunk's address: chunks `index .. index + len` of `of`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// First chunk.
    pub index: Expr,
    /// How many; 1 but in the last digit.
    pub len: Expr,
    /// Chunks of the space.
    pub of: Expr,
}

/// A run of elements that an operation reads or writes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Ref {
    /// `v[i of n][j; k of m]`: part of an operand; no parts is the whole line.
    Chunk {
        /// The operand.
        operand: OperandId,
        /// Digits, outermost first.
        path: Vec<Part>,
    },
    /// `w.slot`: the first elements of a slot, as many as the other side of the operation has.
    Slot {
        /// The window.
        window: WindowId,
        /// Slot number.
        slot: Expr,
    },
}

/// A peer by its coordinates in the region's coordinate system; out of range is an error, wrapping is spelt `mod`.
pub type Peer = Vec<Expr>;

/// An operation of a role.
#[derive(Clone, PartialEq, Debug)]
pub enum SOp {
    /// `copy dst = src`
    Copy {
        /// Written.
        dst: Ref,
        /// Read.
        src: Ref,
    },
    /// `reduce dst = OP dst, src`: `dst[i] = dst[i] OP src[i]`.
    Reduce {
        /// Combiner.
        op: ReduceOp,
        /// Read and written.
        dst: Ref,
        /// Read.
        src: Ref,
    },
    /// `put src -> peer : dst`; asynchronous (reads `src`, writes `dst` until the next `fence.release`).
    Put {
        /// Here.
        src: Ref,
        /// Whose memory.
        peer: Peer,
        /// There.
        dst: Ref,
    },
    /// `get dst <- peer : src`; asynchronous until the next `fence.complete`.
    Get {
        /// Here.
        dst: Ref,
        /// Whose memory.
        peer: Peer,
        /// There.
        src: Ref,
    },
    /// `send src -> peer : queue[index]`: blocks until the queue to the peer has a free slot, then puts `src` there; done
    /// when the next operation of the stream starts.
    Send {
        /// Here.
        src: Ref,
        /// To whom.
        peer: Peer,
        /// The array.
        queue: QueueId,
        /// Which of its queues.
        index: Expr,
    },
    /// `recv dst <- peer : queue[index]`: blocks until the queue from the peer holds something, then takes the oldest
    /// message; its slot is free again.
    Recv {
        /// Here; as long as the message.
        dst: Ref,
        /// From whom.
        peer: Peer,
        /// The array.
        queue: QueueId,
        /// Which of its queues.
        index: Expr,
    },
    /// `room peer : queue[index]`: blocks until the queue to the peer has a free slot. As only this stream sends there,
    /// the slot stays free until it does.
    Room {
        /// To whom.
        peer: Peer,
        /// The array.
        queue: QueueId,
        /// Which of its queues.
        index: Expr,
    },
    /// `notify peer : signal[index]`: adds 1 to a counter of the peer.
    Notify {
        /// Whose counter.
        peer: Peer,
        /// The array.
        signal: SignalId,
        /// Which counter.
        index: Expr,
    },
    /// `wait signal[index] >= value` (or `& 1 ==`, or `-=`, as its form asks): until a counter of this rank has what the
    /// form asks for.
    Wait {
        /// The array.
        signal: SignalId,
        /// Which counter.
        index: Expr,
        /// What to wait for: counted from the allocation of the domain, or a sense, or what is taken.
        value: Expr,
    },
    /// Completes this rank's puts and all its earlier reads; what a later notify publishes.
    FenceRelease,
    /// Makes data visible whose notify was waited for.
    FenceAcquire,
    /// Completes this rank's gets.
    FenceComplete,
    /// `record e`: an event of this rank, for `await` in another stream.
    Record(Name),
    /// `await e`: until this call's `record e` has happened.
    Await(Name),
    /// A local operation on whole buffers.
    Local(LocalOp),
    /// `reserve | publish | expect | free PEER : window[slot]`: one of the four points of a message, from `expand`
    /// until `synchronize` turns it into signals and fences. `slot` numbers the messages of the window within a call.
    Mark {
        /// Which point.
        point: Point,
        /// The other end of the message.
        peer: Peer,
        /// The window it lands in (at the receiver).
        window: WindowId,
        /// Its number among the window's messages to that receiver.
        slot: Expr,
    },
    /// `launch @region`, in the host's program: its streams may enter the region, in this call.
    Launch(RegionId),
    /// `host.wait @region`, in the host's program: until this rank's streams have left the region.
    HostWait(RegionId),
    /// `host.read %buffer`, in the host's program: once what was launched before and writes the buffer is over on this
    /// rank, the host takes the elements as they are.
    HostRead(BufferId),
    /// `host.write %dst = %src`, in the host's program: once what was launched before and reads or writes `dst`, or writes
    /// `src`, is over on this rank, the host takes the elements of `src` as they are and stores them in `dst`.
    HostWrite {
        /// Written.
        dst: BufferId,
        /// Read; of the same type and local sizes.
        src: BufferId,
    },
    /// `drain`, in the host's program: until this rank's streams have left every region launched so far.
    Drain,
}

/// The points of a message that need ordering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Point {
    /// At the sender, before its puts: the slot may be written.
    Reserve,
    /// At the sender, after its puts: the data may be read.
    Publish,
    /// At the receiver, before its reads: the data is there.
    Expect,
    /// At the receiver, after its reads: the slot may be written again.
    Free,
}

impl Point {
    /// All of them.
    pub const ALL: [Point; 4] = [Point::Reserve, Point::Publish, Point::Expect, Point::Free];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Point::Reserve => "reserve",
            Point::Publish => "publish",
            Point::Expect => "expect",
            Point::Free => "free",
        }
    }
}

/// A statement of a body.
#[derive(Clone, PartialEq, Debug)]
pub enum SStmt {
    /// `for v in lo..hi`: bounds depend on outer steps and constants, not on the rank.
    For {
        /// The step.
        var: Name,
        /// First value.
        lo: Expr,
        /// One past the last.
        hi: Expr,
        /// What is repeated.
        body: Vec<SStmt>,
    },
    /// `if cond`, with `else`.
    If {
        /// The predicate.
        cond: Expr,
        /// Where it holds.
        then: Vec<SStmt>,
        /// Where not.
        other: Vec<SStmt>,
    },
    /// An operation and where it comes from.
    Op(SOp, Span),
}

/// Which ranks of the group a role is for.
#[derive(Clone, PartialEq, Debug)]
pub enum RankSet {
    /// Every one.
    All,
    /// Those whose coordinates make this true.
    Where(Expr),
    /// These, by linear index in the group.
    List(Vec<u64>),
}

impl RankSet {
    /// The condition on coordinates, if it is one.
    pub fn predicate(&self) -> Option<&Expr> {
        match self {
            RankSet::Where(e) => Some(e),
            RankSet::All | RankSet::List(_) => None,
        }
    }
}

/// A sequential process on each rank of a role.
#[derive(Clone, PartialEq, Debug)]
pub struct Stream {
    /// Name; streams of one name on one rank are one process through all regions.
    pub name: Name,
    /// What it does.
    pub body: Vec<SStmt>,
}

/// The stream that everything runs on unless said otherwise.
pub const MAIN: &str = "main";

/// A set of ranks and what they do.
#[derive(Clone, PartialEq, Debug)]
pub struct Role {
    /// Name.
    pub name: Name,
    /// Who.
    pub ranks: RankSet,
    /// What, one body a stream.
    pub streams: Vec<Stream>,
}

/// One collective, or the local computation between two.
#[derive(Clone, PartialEq, Debug)]
pub struct Region {
    /// Name.
    pub name: Name,
    /// Mesh axes its groups run over, in group order; empty for a local region (all ranks, coordinates of the mesh).
    pub over: Vec<Name>,
    /// Coordinate system of a group: names and sizes, first slowest; the product is the size of the group.
    pub coords: Vec<(Name, u64)>,
    /// Buffers it works on.
    pub operands: Vec<Operand>,
    /// What it promises about them.
    pub promise: Option<Promise>,
    /// Algorithm and options, for reports.
    pub label: Option<String>,
    /// Regions that must be over on a rank before this one starts there.
    pub after: Vec<RegionId>,
    /// Roles; a rank has at most one.
    pub roles: Vec<Role>,
    /// Where it comes from.
    pub span: Span,
}

impl Region {
    /// What every rank of a mesh does alone, on its main stream.
    pub fn local(mesh: &Mesh, name: Name, body: Vec<SStmt>, after: Vec<RegionId>, span: Span) -> Region {
        Region {
            name,
            over: vec![],
            coords: mesh.axes.iter().map(|a| (a.name.clone(), a.size)).collect(),
            operands: vec![],
            promise: None,
            label: None,
            after,
            roles: vec![Role {
                name: "all".into(),
                ranks: RankSet::All,
                streams: vec![Stream { name: MAIN.into(), body }],
            }],
            span,
        }
    }
}

/// A schedule.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    /// Name.
    pub name: Name,
    /// The mesh.
    pub mesh: Mesh,
    /// Which calls it is meant to be safe for.
    pub calls: Calls,
    /// Tables.
    pub tables: Vec<Table>,
    /// Buffers.
    pub buffers: Vec<Buffer>,
    /// Windows.
    pub windows: Vec<Window>,
    /// Signals.
    pub signals: Vec<Signal>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// Regions; on one stream they run in this order.
    pub regions: Vec<Region>,
    /// What the host of each rank does in a call; without it all regions run, and then all results are read.
    pub host: Option<Host>,
}

impl Schedule {
    /// An empty schedule on a mesh.
    pub fn new(name: impl Into<Name>, mesh: Mesh) -> Self {
        Schedule {
            name: name.into(),
            mesh,
            calls: Calls::None,
            tables: vec![],
            buffers: vec![],
            windows: vec![],
            signals: vec![],
            queues: vec![],
            regions: vec![],
            host: None,
        }
    }

    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// A window.
    pub fn window(&self, id: WindowId) -> &Window {
        &self.windows[id.0 as usize]
    }

    /// A signal array.
    pub fn signal(&self, id: SignalId) -> &Signal {
        &self.signals[id.0 as usize]
    }

    /// A queue array.
    pub fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.0 as usize]
    }

    /// Ranks of a region's group, for the region's axes (all ranks for a local region).
    pub fn group_size(&self, region: &Region) -> u64 {
        region.coords.iter().map(|c| c.1).product()
    }
}

/// Calls `f` with every operation of a list of statements and its place, in the order of the text.
pub fn each_op<'s>(list: &'s [SStmt], f: &mut impl FnMut(&'s SOp, Span)) {
    for s in list {
        match s {
            SStmt::For { body, var: _, lo: _, hi: _ } => each_op(body, f),
            SStmt::If { then, other, cond: _ } => {
                each_op(then, f);
                each_op(other, f);
            }
            SStmt::Op(op, span) => f(op, *span),
        }
    }
}
