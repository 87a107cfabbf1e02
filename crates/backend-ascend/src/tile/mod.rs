//! Tile level: a kernel for one AIV core as structured text.
//!
//! Owns what a kernel is: run-time scalars, tensors, areas of the window, signals, tiles in the unified buffer (UB), and
//! statements over them. A kernel is lowered from a schedule, completed by the passes of this level (layout, buffers,
//! flags, fences), verified, and printed as C++ by a printer that decides nothing. All numbers
//! are expressions in the run-time scalars, `rank`, `call` and the variables in scope, so one kernel serves many sizes.

pub mod hazard;
pub mod order;
pub mod parse;
pub mod path;
pub mod text;
pub mod trace;
pub mod verify;

use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use std::collections::BTreeMap;

/// Index of a tensor of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TensorId(pub u32);
/// Index of an area of the window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AreaId(pub u32);
/// Index of an array of signals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SignalsId(pub u32);
/// Index of a tile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TileId(pub u32);

/// This rank's number in the domain, known to every kernel.
pub const RANK: &str = "rank";
/// The number of the launch on this domain, from 0, known to every kernel.
pub const CALL: &str = "call";
/// Run-time scalar: ranks of the domain.
pub const NRANKS: &str = "nranks";
/// Run-time scalar: elements of the program's variable size.
pub const COUNT: &str = "count";

/// A kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Name.
    pub name: Name,
    /// Run-time scalars, in the order of arguments; `call` is always one of them, `rank` never (it is the domain's).
    pub scalars: Vec<Name>,
    /// Tensors, in the order of arguments.
    pub tensors: Vec<Tensor>,
    /// Tables; all of them are one `int32` tensor behind the others, one table after another.
    pub tables: Vec<Table>,
    /// Arrays of counters in the window.
    pub signals: Vec<Signals>,
    /// Areas of the window.
    pub areas: Vec<Area>,
    /// Tiles in UB.
    pub tiles: Vec<Tile>,
    /// What it does.
    pub body: Vec<Stmt>,
}

/// How the kernel uses a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Only read.
    In,
    /// Every element is written before it is read.
    Out,
}

/// An argument in device memory that peers cannot reach.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Elements on a rank: an expression in scalars and `rank`.
    pub len: Expr,
    /// How it is used.
    pub access: Access,
    /// Number of the program's input or result that it is.
    pub index: u32,
}

/// A constant table; its entries may depend on the rank count.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Name.
    pub name: Name,
    /// Entries for a rank count; a kernel that is for one rank count alone has that one.
    pub values: BTreeMap<u64, Vec<i64>>,
}

/// An array of 32-bit add-only counters, a 64-byte line each, zero when the domain is allocated.
#[derive(Clone, PartialEq, Debug)]
pub struct Signals {
    /// Name.
    pub name: Name,
    /// Counters.
    pub count: Expr,
    /// Most that one call adds to one of them.
    pub per_call: Expr,
    /// Byte offset in the window, once laid out.
    pub at: Option<Expr>,
}

/// Who reaches an area.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reach {
    /// Peers and this rank.
    Peers,
    /// This rank alone: temporary memory.
    Own,
}

/// A part of every rank's window: `slots` slots of `capacity` elements, each slot starting on a line of 64 bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Area {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Slots.
    pub slots: Expr,
    /// Elements a slot holds.
    pub capacity: Expr,
    /// Who reaches it.
    pub reach: Reach,
    /// Areas of one arena share their memory: the schedule has shown that they are never in use together.
    pub arena: u32,
    /// Byte offset in the window, once laid out.
    pub at: Option<Expr>,
}

/// A tile of one row in UB.
#[derive(Clone, PartialEq, Debug)]
pub struct Tile {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Elements.
    pub elements: u32,
    /// Byte address in UB, once assigned.
    pub at: Option<u32>,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// `let name = value`: an integer for the rest of this block.
    Let {
        /// Name.
        name: Name,
        /// Value.
        value: Expr,
    },
    /// `for var in lo..hi`
    For {
        /// The step.
        var: Name,
        /// First value.
        lo: Expr,
        /// One past the last.
        hi: Expr,
        /// What is repeated.
        body: Vec<Stmt>,
    },
    /// `if cond`, with `else`.
    If {
        /// The predicate; truth is not 0.
        cond: Expr,
        /// Where it holds.
        then: Vec<Stmt>,
        /// Where not.
        other: Vec<Stmt>,
    },
    /// `tiles pos, len in total by step`: pos = 0, step, 2 step .. below total, len = min(step, total - pos).
    Tiles {
        /// First element of the tile.
        pos: Name,
        /// Elements of the tile.
        len: Name,
        /// All elements; nothing happens for 0.
        total: Expr,
        /// Elements of a full tile.
        step: u32,
        /// What is done with a tile.
        body: Vec<Stmt>,
    },
    /// Where what follows comes from: a line of the program or algorithm, and the schedule's operation.
    Note {
        /// `file:line`, empty where there is none.
        place: String,
        /// The operation, as in `.kir`.
        text: String,
    },
    /// An operation.
    Op(Op),
}

/// Memory outside UB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Object {
    /// An argument.
    Tensor(TensorId),
    /// An area of a window.
    Area(AreaId),
}

/// The first element of a run outside UB.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Gm {
    /// Which memory.
    pub object: Object,
    /// Slot of an area; 0 for a tensor.
    pub slot: Expr,
    /// Element in it.
    pub offset: Expr,
    /// Whose window, by rank in the domain; this rank's own memory if none.
    pub peer: Option<Expr>,
}

/// The pipes of an AIV core that kernels use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pipe {
    /// Scalar.
    S,
    /// Vector.
    V,
    /// Global memory to UB.
    Mte2,
    /// UB to global memory.
    Mte3,
}

/// What a barrier waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Barrier {
    /// One pipe: what it was given later starts after what it was given before.
    Pipe(Pipe),
    /// All pipes.
    All,
}

/// Vector instructions over tiles of one dtype.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VecOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`
    Div,
    /// The larger.
    Max,
    /// The smaller.
    Min,
    /// |a|
    Abs,
    /// e^a
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// 1 / square root.
    Rsqrt,
    /// All elements the number (no tile is read).
    Fill,
}

/// An operand of a vector instruction.
#[derive(Clone, PartialEq, Debug)]
pub enum VArg {
    /// A tile.
    Tile(TileId),
    /// A number of the tile's dtype; at most one, and the last.
    Num(f64),
}

/// Rounding of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rounding {
    /// Every value of the source is one of the destination.
    Exact,
    /// To nearest, ties to even.
    Nearest,
    /// Towards zero.
    Zero,
}

/// An operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// `len` elements into a tile (MTE2).
    Load {
        /// Written from its first element.
        tile: TileId,
        /// Elements.
        len: Expr,
        /// Read.
        from: Gm,
    },
    /// `len` elements out of a tile (MTE3).
    Store {
        /// Written.
        to: Gm,
        /// Read from its first element.
        tile: TileId,
        /// Elements.
        len: Expr,
    },
    /// `dst = op(args)` on the first `len` elements (V).
    Vector {
        /// Which.
        op: VecOp,
        /// Written.
        dst: TileId,
        /// Read.
        args: Vec<VArg>,
        /// Elements.
        len: Expr,
    },
    /// `dst = select(a cmp b, x, y)` on the first `len` elements (V), through a mask tile.
    Select {
        /// Comparison.
        cmp: kbc_ir::scalar::CompareOp,
        /// Written.
        dst: TileId,
        /// Left side of the comparison.
        a: TileId,
        /// Right side of the comparison.
        b: TileId,
        /// Taken where it holds.
        x: TileId,
        /// Taken where not.
        y: TileId,
        /// Holds the bits of the comparison (u8).
        mask: TileId,
        /// Elements.
        len: Expr,
    },
    /// Conversion of a whole tile (V): conversions with a run-time length are not trusted on the device.
    Convert {
        /// Written.
        dst: TileId,
        /// Read.
        src: TileId,
        /// Rounding.
        rounding: Rounding,
    },
    /// Adds 1 to a counter of a rank (S).
    Notify {
        /// Whose.
        peer: Expr,
        /// The array.
        signals: SignalsId,
        /// Which counter.
        index: Expr,
    },
    /// Until a counter of this rank has at least this value (S).
    Wait {
        /// The array.
        signals: SignalsId,
        /// Which counter.
        index: Expr,
        /// The value.
        value: Expr,
    },
    /// The schedule's `fence.release`; pass `fences` replaces it.
    Release,
    /// The schedule's `fence.acquire`; pass `fences` replaces it.
    Acquire,
    /// The schedule's `fence.complete`; pass `fences` replaces it.
    Complete,
    /// Everything given to the pipes before is over before anything given to them later starts.
    Barrier(Barrier),
    /// Earlier writes are in memory where peers see them.
    Dsb,
    /// `from` signals an event to `to` once everything given to it before is over.
    SetFlag {
        /// The pipe that signals.
        from: Pipe,
        /// The pipe that will wait.
        to: Pipe,
        /// Event of that pair of pipes.
        event: u8,
    },
    /// `to` waits for the event before it starts anything given to it later.
    WaitFlag {
        /// The pipe that signals.
        from: Pipe,
        /// The pipe that waits.
        to: Pipe,
        /// Event of that pair of pipes.
        event: u8,
    },
}

impl Kernel {
    /// A tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// An area of the window.
    pub fn area(&self, id: AreaId) -> &Area {
        &self.areas[id.0 as usize]
    }

    /// An array of signals.
    pub fn signals(&self, id: SignalsId) -> &Signals {
        &self.signals[id.0 as usize]
    }

    /// A tile.
    pub fn tile(&self, id: TileId) -> &Tile {
        &self.tiles[id.0 as usize]
    }

    /// Element type of a memory.
    pub fn dtype(&self, object: Object) -> DType {
        match object {
            Object::Tensor(t) => self.tensor(t).dtype,
            Object::Area(a) => self.area(a).dtype,
        }
    }
}

impl Area {
    /// Elements from the start of a slot to the start of the next: the capacity up to the next line of 64 bytes.
    pub fn stride(&self) -> Expr {
        let line = (64 / self.dtype.bytes()) as i64;
        let up = Expr::bin(kbc_ir::expr::BinOp::Add, self.capacity.clone(), Expr::Int(line - 1));
        let lines = Expr::bin(kbc_ir::expr::BinOp::Div, up, Expr::Int(line));
        Expr::bin(kbc_ir::expr::BinOp::Mul, lines, Expr::Int(line)).simplify()
    }
}

impl Pipe {
    /// All of them.
    pub const ALL: [Pipe; 4] = [Pipe::S, Pipe::V, Pipe::Mte2, Pipe::Mte3];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Pipe::S => "S",
            Pipe::V => "V",
            Pipe::Mte2 => "MTE2",
            Pipe::Mte3 => "MTE3",
        }
    }
}

impl VecOp {
    /// All of them.
    pub const ALL: [VecOp; 12] = [
        VecOp::Add,
        VecOp::Sub,
        VecOp::Mul,
        VecOp::Div,
        VecOp::Max,
        VecOp::Min,
        VecOp::Abs,
        VecOp::Exp,
        VecOp::Log,
        VecOp::Sqrt,
        VecOp::Rsqrt,
        VecOp::Fill,
    ];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            VecOp::Add => "add",
            VecOp::Sub => "sub",
            VecOp::Mul => "mul",
            VecOp::Div => "div",
            VecOp::Max => "max",
            VecOp::Min => "min",
            VecOp::Abs => "abs",
            VecOp::Exp => "exp",
            VecOp::Log => "log",
            VecOp::Sqrt => "sqrt",
            VecOp::Rsqrt => "rsqrt",
            VecOp::Fill => "fill",
        }
    }

    /// Operands.
    pub fn arity(self) -> usize {
        match self {
            VecOp::Add | VecOp::Sub | VecOp::Mul | VecOp::Div | VecOp::Max | VecOp::Min => 2,
            _ => 1,
        }
    }
}

impl Op {
    /// The pipe that executes it; none for flags, barriers and fences, which order pipes.
    pub fn pipe(&self) -> Option<Pipe> {
        match self {
            Op::Load { .. } => Some(Pipe::Mte2),
            Op::Store { .. } => Some(Pipe::Mte3),
            Op::Vector { .. } | Op::Select { .. } | Op::Convert { .. } => Some(Pipe::V),
            Op::Notify { .. } | Op::Wait { .. } => Some(Pipe::S),
            _ => None,
        }
    }
}
