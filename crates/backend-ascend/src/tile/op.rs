//! Operations of the tile level: what they name, and on which pipe they run.

use super::{AreaId, SignalsId, TensorId, TileId};
use kbc_ir::expr::Expr;

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

/// The pipes that kernels use.
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
    /// L1 to L0A and L0B.
    Mte1,
    /// The cube unit.
    M,
    /// L0C to global memory.
    Fix,
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
    /// `dst[0]` = the first `len` elements of `src` combined (V).
    Reduce {
        /// The combination: [`VecOp::Add`], [`VecOp::Max`] or [`VecOp::Min`].
        op: VecOp,
        /// Written: its first element.
        dst: TileId,
        /// Read.
        src: TileId,
        /// What the instruction works in.
        work: TileId,
        /// Elements.
        len: Expr,
    },
    /// The first `len` elements of `dst` = `src[0]` (V).
    Spread {
        /// Written.
        dst: TileId,
        /// Read: its first element.
        src: TileId,
        /// Elements.
        len: Expr,
    },
    /// The first `len` elements of `dst` = an integer that is known when the kernel runs, as one of its type (V).
    Index {
        /// Written.
        dst: TileId,
        /// The integer.
        value: Expr,
        /// Elements.
        len: Expr,
    },
    /// The row that the next [`Op::LoadRow`]s take: an element of a tile, minus a number (S).
    Choose {
        /// Read: i32 or i64.
        ids: TileId,
        /// Which element.
        index: Expr,
        /// The number of row 0.
        first: Expr,
    },
    /// `len` elements of the chosen row of a table into a tile (MTE2); the tile stays as it is where the table has no such row.
    LoadRow {
        /// Written from its first element, or not.
        tile: TileId,
        /// Elements.
        len: Expr,
        /// Where they are in row 0.
        from: Gm,
        /// Elements from row to row.
        pitch: Expr,
        /// Rows of the table.
        rows: Expr,
    },
    /// A block of a matrix into a tile of L1 (MTE2): `rows` runs of `cols` elements, `pitch` elements apart.
    LoadBlock {
        /// Written, from its first row and column.
        tile: TileId,
        /// Rows.
        rows: Expr,
        /// Columns.
        cols: Expr,
        /// The first element.
        from: Gm,
        /// Elements from row to row.
        pitch: Expr,
    },
    /// A block from L1 to L0A or L0B (MTE1).
    Move {
        /// Written.
        dst: TileId,
        /// Read.
        src: TileId,
        /// Rows.
        rows: Expr,
        /// Columns.
        cols: Expr,
    },
    /// `dst = left * right`, or `dst += left * right` (M).
    Multiply {
        /// Written, m by n: in L0C.
        dst: TileId,
        /// m by k: in L0A.
        left: TileId,
        /// k by n: in L0B.
        right: TileId,
        /// Rows of the result.
        m: Expr,
        /// Columns of the result.
        n: Expr,
        /// Elements that are multiplied and added for one.
        k: Expr,
        /// Whether it is added to what `dst` has.
        add: bool,
    },
    /// A block of sums into a matrix (FIX), converted to its type, nearest even.
    StoreBlock {
        /// The first element.
        to: Gm,
        /// Elements from row to row.
        pitch: Expr,
        /// Read.
        tile: TileId,
        /// Rows.
        rows: Expr,
        /// Columns.
        cols: Expr,
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

impl Pipe {
    /// All of them.
    pub const ALL: [Pipe; 7] = [Pipe::S, Pipe::V, Pipe::Mte2, Pipe::Mte3, Pipe::Mte1, Pipe::M, Pipe::Fix];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Pipe::S => "S",
            Pipe::V => "V",
            Pipe::Mte2 => "MTE2",
            Pipe::Mte3 => "MTE3",
            Pipe::Mte1 => "MTE1",
            Pipe::M => "M",
            Pipe::Fix => "FIX",
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
            Op::Load { .. } | Op::LoadRow { .. } | Op::LoadBlock { .. } => Some(Pipe::Mte2),
            Op::Store { .. } => Some(Pipe::Mte3),
            Op::Vector { .. }
            | Op::Select { .. }
            | Op::Convert { .. }
            | Op::Reduce { .. }
            | Op::Spread { .. }
            | Op::Index { .. } => Some(Pipe::V),
            Op::Move { .. } => Some(Pipe::Mte1),
            Op::Multiply { .. } => Some(Pipe::M),
            Op::StoreBlock { .. } => Some(Pipe::Fix),
            Op::Choose { .. } | Op::Notify { .. } | Op::Wait { .. } => Some(Pipe::S),
            _ => None,
        }
    }
}
