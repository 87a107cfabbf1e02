//! Schedule level: regions, roles, streams and structured bodies, with windows, signals and fences
//! as operations.
//!
//! A schedule states what every rank does, with expressions in the rank's coordinates and in the
//! steps of loops. Steps are not unrolled and ranks are not expanded unless that is necessary.
//! `docs/reference/ir.md` defines the meaning of the operations, [`crate::verify`] decides which
//! schedules are well-formed, and [`crate::walk`] yields what one concrete rank does.

use crate::contract::Contract;
use crate::expr::Expr;
use crate::name::Name;
use crate::types::{CutRule, DType, MemKind, Mesh, TensorType};
use kbc_diag::Span;

pub use crate::form::Form;
pub use crate::local_op::{Filling, LineBlock, LocalKind, LocalOp};
pub use crate::op::{HostCommand, Mark, Op, Point, SOp};
pub use crate::refs::{
    BufferId, Channel, Counter, OperandId, Part, Peer, QueueId, Ref, RefUse, RegionId, SignalId, Via,
    WindowId,
};

/// Name of the variable that counts the calls of the schedule, from 0.
pub const CALL: &str = "call";

/// Calls of the schedule that are claimed to be safe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Calls {
    /// None: signals are not in place yet.
    None,
    /// One call on a freshly allocated domain.
    First,
    /// Call after call, with any skew between ranks.
    Any,
}

/// Role of a buffer in the interface of the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferRole {
    /// Filled before each call with the rank's part of the program input with this number.
    Input(u32),
    /// Read after each call as the rank's part of the program result with this number.
    Output(u32),
    /// Neither an input nor an output; it holds nothing at the start of a call.
    Temp,
}

/// Memory of one rank. Peers access it only where an operation names it directly (direct
/// placement).
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
    /// Whether the host fills the buffer with zeros before each call. If not, it holds nothing at
    /// the start of a call.
    pub zero: bool,
    /// Role in the interface of the schedule.
    pub role: BufferRole,
    /// For inputs and outputs: the global tensor that the buffer is a part of.
    pub global: Option<TensorType>,
    /// Source location.
    pub span: Span,
}

/// Symmetric memory that peers can access: `slots` slots of `capacity` elements on every rank.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Number of slots.
    pub slots: u64,
    /// Elements that a slot can hold.
    pub capacity: u64,
    /// Memory kind.
    pub memory: MemKind,
    /// Whether the window holds zeros when the domain is allocated. If not, it holds nothing then.
    pub zero: bool,
    /// Byte offset in the rank's window domain, once allocated.
    pub offset: Option<u64>,
    /// Source location.
    pub span: Span,
}

/// Purpose of a signal. It is documentation only; the checker does not rely on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SignalUse {
    /// Reports that data has arrived.
    Arrival,
    /// Reports that a slot may be written again.
    Credit,
    /// Belongs to a barrier.
    Barrier,
}

/// An array of 32-bit counters on every rank. A notify adds 1 to a counter.
#[derive(Clone, PartialEq, Debug)]
pub struct Signal {
    /// Name.
    pub name: Name,
    /// Number of counters.
    pub count: u64,
    /// Purpose.
    pub usage: SignalUse,
    /// Form of the counters: what a wait asks for, and how many ranks may notify a counter.
    pub form: Form,
    /// Byte offset in the rank's signal area, once allocated. Each counter takes 64 bytes.
    pub offset: Option<u64>,
    /// Source location.
    pub span: Span,
}

/// An array of `count` first-in, first-out queues from every rank to every rank.
///
/// Each queue has `depth` slots of `capacity` elements, one sending stream and one receiving
/// stream. Credits are implicit: a `recv` returns its slot to the sender. Slots have no address, so
/// only `send` and `recv` access them.
#[derive(Clone, PartialEq, Debug)]
pub struct Queue {
    /// Name.
    pub name: Name,
    /// Number of queues between each pair of ranks, in each direction.
    pub count: u64,
    /// Element type.
    pub dtype: DType,
    /// Number of slots of a queue.
    pub depth: u64,
    /// Elements that a slot can hold.
    pub capacity: u64,
    /// Memory kind of the slots.
    pub memory: MemKind,
    /// Source location.
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

/// View of a buffer by a region: a line of elements that is cut into blocks and chunks.
///
/// The line has `parts` blocks. Block b covers the elements from `unit * cut(extent, b)` up to
/// `unit * cut(extent, b + 1)`, where `cut` follows `rule`. Inside a block, chunks are cut evenly
/// by elements.
#[derive(Clone, PartialEq, Debug)]
pub struct Line<E = Expr> {
    /// Number of blocks; 1 for a plain vector.
    pub parts: u64,
    /// Number of elements along the dimension that the blocks cut: an expression in mesh
    /// coordinates.
    pub extent: E,
    /// Elements of the line per element of `extent`: an expression in mesh coordinates.
    pub unit: E,
    /// Rule by which `extent` is cut into blocks.
    pub rule: CutRule,
    /// Row of the rule's lengths that applies to this rank: an expression in mesh coordinates. It
    /// is 0 if the rule has only one row.
    pub row: E,
}

impl Line {
    /// Creates a plain vector of `extent` elements.
    pub fn vector(extent: Expr) -> Line {
        Line { parts: 1, extent, unit: Expr::Int(1), rule: CutRule::Even, row: Expr::Int(0) }
    }
}

/// A buffer on which a collective region works.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand {
    /// Name in the region (`v`, `src`, `dst`, or a scratch name).
    pub name: Name,
    /// The buffer.
    pub buffer: BufferId,
    /// The line that the region sees.
    pub line: Line,
    /// Whether the operand is scratch: it holds nothing at the start, and the contract does not
    /// cover it.
    pub scratch: bool,
}

/// A statement of a body.
#[derive(Clone, PartialEq, Debug)]
pub enum SStmt {
    /// `for v in lo..hi`. The bounds depend on outer steps and constants, not on the rank.
    For {
        /// Step variable.
        var: Name,
        /// First value.
        lo: Expr,
        /// One past the last value.
        hi: Expr,
        /// Repeated statements.
        body: Vec<SStmt>,
    },
    /// `if cond`, with an optional `else`.
    If {
        /// Condition.
        cond: Expr,
        /// Statements if the condition holds.
        then: Vec<SStmt>,
        /// Statements if it does not.
        other: Vec<SStmt>,
    },
    /// An operation and its source location.
    Op(SOp, Span),
}

/// Set of ranks, within a group, that take a role.
#[derive(Clone, PartialEq, Debug)]
pub enum RankSet {
    /// All ranks.
    All,
    /// Ranks whose coordinates satisfy the condition.
    Where(Expr),
    /// These ranks, by linear index in the group.
    List(Vec<u64>),
}

impl RankSet {
    /// Returns the condition on coordinates if the set is given by one.
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
    /// Name. Streams of one name on one rank form one process through all regions.
    pub name: Name,
    /// Statements of the stream.
    pub body: Vec<SStmt>,
}

/// The stream that everything runs on unless a stream is named.
pub const MAIN: &str = "main";

/// The stream on which matmuls run in a schedule for a device with matrix cores. A schedule in
/// which nothing can run beside a matmul does not have it.
pub const MATRIX: &str = "matrix";

/// A set of ranks with their program in a region.
#[derive(Clone, PartialEq, Debug)]
pub struct Role {
    /// Name.
    pub name: Name,
    /// Ranks that take the role.
    pub ranks: RankSet,
    /// Streams of each rank.
    pub streams: Vec<Stream>,
}

/// One collective, or the local computation between two collectives.
#[derive(Clone, PartialEq, Debug)]
pub struct Region {
    /// Name.
    pub name: Name,
    /// Mesh axes over which its groups run, in group order; empty for a local region, which covers
    /// all ranks with the coordinates of the mesh.
    pub over: Vec<Name>,
    /// Coordinate system of a group: names and sizes, slowest first. The product of the sizes is
    /// the size of the group.
    pub coords: Vec<(Name, u64)>,
    /// Buffers on which the region works.
    pub operands: Vec<Operand>,
    /// Contract of the region about its operands.
    pub contract: Option<Contract>,
    /// Algorithm and options, for reports.
    pub label: Option<String>,
    /// Regions that must be over on a rank before this one starts there.
    pub after: Vec<RegionId>,
    /// Roles. A rank has at most one.
    pub roles: Vec<Role>,
    /// Source location.
    pub span: Span,
}

impl Region {
    /// Creates a local region, in which every rank of the mesh runs `body` on its main stream.
    pub fn local(mesh: &Mesh, name: Name, body: Vec<SStmt>, after: Vec<RegionId>, span: Span) -> Region {
        Region {
            name,
            over: vec![],
            coords: mesh.axes.iter().map(|a| (a.name.clone(), a.size)).collect(),
            operands: vec![],
            contract: None,
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

/// Program of every rank's host in each call: `host.launch`, `host.wait`, `host.read`,
/// `host.write`, `host.drain`, and `if` on the rank.
#[derive(Clone, PartialEq, Debug)]
pub struct Host {
    /// Statements.
    pub body: Vec<SStmt>,
    /// Source location.
    pub span: Span,
}

/// A schedule.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    /// Name.
    pub name: Name,
    /// Mesh of ranks.
    pub mesh: Mesh,
    /// Calls for which the schedule is claimed to be safe.
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
    /// Regions. On one stream they run in this order.
    pub regions: Vec<Region>,
    /// Program of each rank's host in a call. Without one, all regions run, and then all results
    /// are read.
    pub host: Option<Host>,
}

impl Schedule {
    /// Creates an empty schedule on a mesh.
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

    /// Returns the buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// Returns the window.
    pub fn window(&self, id: WindowId) -> &Window {
        &self.windows[id.0 as usize]
    }

    /// Returns the signal array.
    pub fn signal(&self, id: SignalId) -> &Signal {
        &self.signals[id.0 as usize]
    }

    /// Returns the queue array.
    pub fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.0 as usize]
    }

    /// Returns the number of operations in the text, without those of the host.
    pub fn operation_count(&self) -> usize {
        let mut n = 0;
        for stream in self.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams) {
            each_op(&stream.body, &mut |_, _| n += 1);
        }
        n
    }

    /// Returns the number of ranks of a region's group (of the mesh for a local region).
    pub fn group_size(&self, region: &Region) -> u64 {
        region.coords.iter().map(|c| c.1).product()
    }
}

/// Calls `f` with every operation of a list of statements and its source location, in the order of
/// the text.
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

/// Changes every operation of a list of statements, in text order.
pub fn each_op_mut(list: &mut [SStmt], f: &mut impl FnMut(&mut SOp, Span)) {
    for s in list {
        match s {
            SStmt::For { body, var: _, lo: _, hi: _ } => each_op_mut(body, f),
            SStmt::If { then, other, cond: _ } => {
                each_op_mut(then, f);
                each_op_mut(other, f);
            }
            SStmt::Op(op, span) => f(op, *span),
        }
    }
}
