//! Operations of the tile level, their operands, and the pipe that executes each of them.

use super::ids::{AreaId, SignalsId, TensorId, TileId};
use super::roles::{Barrier, Pipe};
use kbc_ir::expr::Expr;

/// A memory outside the core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Object {
    /// A tensor argument.
    Tensor(TensorId),
    /// An area of a window.
    Area(AreaId),
}

/// The place of the first element of a contiguous run outside the core.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Gm {
    /// The memory.
    pub object: Object,
    /// Slot of an area; 0 for a tensor.
    pub slot: Expr,
    /// Number of the element in the slot or tensor.
    pub offset: Expr,
    /// Rank in the domain whose window is meant; `None` means this rank's own memory.
    pub peer: Option<Expr>,
}

/// Vector instructions; all tiles of an instruction have one element type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VecOp {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// Maximum of `a` and `b`.
    Max,
    /// Minimum of `a` and `b`.
    Min,
    /// Absolute value.
    Abs,
    /// Exponential, e^a.
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// Reciprocal of the square root.
    Rsqrt,
    /// Sets every element to the number; reads no tile.
    Fill,
}

/// An operand of a vector instruction.
#[derive(Clone, PartialEq, Debug)]
pub enum VArg {
    /// A tile.
    Tile(TileId),
    /// A number of the tile's element type. An instruction has at most one, as its last operand.
    Num(f64),
}

/// Rounding of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rounding {
    /// Every value of the source type is a value of the destination type.
    Exact,
    /// To nearest, ties to even.
    Nearest,
    /// Towards zero.
    Zero,
}

/// An operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// Loads `len` elements into a tile.
    Load {
        /// Destination, written from its first element.
        tile: TileId,
        /// Number of elements.
        len: Expr,
        /// Source.
        from: Gm,
    },
    /// Stores `len` elements of a tile.
    Store {
        /// Destination.
        to: Gm,
        /// Source, read from its first element.
        tile: TileId,
        /// Number of elements.
        len: Expr,
    },
    /// Computes `dst = op(args)` on the first `len` elements.
    Vector {
        /// The instruction.
        op: VecOp,
        /// Destination.
        dst: TileId,
        /// Operands.
        args: Vec<VArg>,
        /// Number of elements.
        len: Expr,
    },
    /// Computes `dst = select(a cmp b, x, y)` on the first `len` elements, with a mask tile.
    Select {
        /// Comparison.
        cmp: kbc_ir::scalar::CompareOp,
        /// Destination.
        dst: TileId,
        /// Left side of the comparison.
        a: TileId,
        /// Right side of the comparison.
        b: TileId,
        /// Operand whose elements are taken where the comparison holds.
        x: TileId,
        /// Operand whose elements are taken where it does not hold.
        y: TileId,
        /// Tile of u8 for the bits of the comparison.
        mask: TileId,
        /// Number of elements.
        len: Expr,
    },
    /// Converts a whole tile. There is no run-time length, because conversions with one are not
    /// trusted on the device.
    Convert {
        /// Destination.
        dst: TileId,
        /// Source.
        src: TileId,
        /// Rounding.
        rounding: Rounding,
    },
    /// Reduces the first `len` elements of `src` to `dst[0]`.
    Reduce {
        /// The reduction: [`VecOp::Add`], [`VecOp::Max`] or [`VecOp::Min`].
        op: VecOp,
        /// Destination; its first element is written.
        dst: TileId,
        /// Source.
        src: TileId,
        /// Working space of the instruction.
        work: TileId,
        /// Number of elements.
        len: Expr,
    },
    /// Sets the first `len` elements of `dst` to `src[0]`.
    Expand {
        /// Destination.
        dst: TileId,
        /// Source; its first element is read.
        src: TileId,
        /// Number of elements.
        len: Expr,
    },
    /// Loads rows that are `pitch` elements apart in memory. It stands in a loop whose tiles hold
    /// rows.
    LoadRows {
        /// Destination.
        tile: TileId,
        /// Number of elements of all rows.
        len: Expr,
        /// Place of the first element of the first row.
        from: Gm,
        /// Distance between the starts of consecutive rows, in elements.
        pitch: Expr,
    },
    /// Stores rows that are `pitch` elements apart in memory. It stands in a loop whose tiles hold
    /// rows.
    StoreRows {
        /// Place of the first element of the first row.
        to: Gm,
        /// Distance between the starts of consecutive rows, in elements.
        pitch: Expr,
        /// Source.
        tile: TileId,
        /// Number of elements of all rows.
        len: Expr,
    },
    /// Sets every row of `dst`, of `len` elements in all, to the elements of `src`. It stands in a
    /// loop whose tiles hold rows.
    Spread {
        /// Destination.
        dst: TileId,
        /// Source; as many elements are read as a row has.
        src: TileId,
        /// Number of elements of all rows.
        len: Expr,
    },
    /// Sets the first `len` elements of `dst` to an integer that is known when the kernel runs, as
    /// a value of the tile's type.
    Index {
        /// Destination.
        dst: TileId,
        /// The integer.
        value: Expr,
        /// Number of elements.
        len: Expr,
    },
    /// Chooses the row that the following [`Op::LoadRow`]s load: an element of a tile minus
    /// `first`.
    Choose {
        /// Tile of row indices, i32 or i64.
        ids: TileId,
        /// Number of the element in the tile.
        index: Expr,
        /// Index of the first row of the table, which is subtracted.
        first: Expr,
    },
    /// Loads `len` elements of the chosen row of a table into a tile. If the table has no
    /// such row, the tile keeps its contents.
    LoadRow {
        /// Destination, written from its first element or not at all.
        tile: TileId,
        /// Number of elements.
        len: Expr,
        /// Place of the elements in row 0.
        from: Gm,
        /// Distance between the starts of consecutive rows, in elements.
        pitch: Expr,
        /// Number of rows of the table.
        rows: Expr,
    },
    /// Loads a block of a matrix into a tile of the stage: `rows` runs of `cols` elements, the
    /// starts of which are `pitch` elements apart.
    LoadBlock {
        /// Destination, written from its first row and column.
        tile: TileId,
        /// Number of rows.
        rows: Expr,
        /// Number of columns.
        cols: Expr,
        /// Place of the block's first element.
        from: Gm,
        /// Distance between the starts of consecutive rows, in elements.
        pitch: Expr,
    },
    /// Moves a block from the stage to the operands of the matrix unit.
    Move {
        /// Destination, written from its first row and column.
        dst: TileId,
        /// Source.
        src: TileId,
        /// First row and first column of the block in the source.
        from: [Expr; 2],
        /// Number of rows.
        rows: Expr,
        /// Number of columns.
        cols: Expr,
    },
    /// Computes `dst = left * right` or `dst += left * right`, a matmul of blocks.
    Matmul {
        /// Destination among the sums, m by n.
        dst: TileId,
        /// Left operand, m by k.
        left: TileId,
        /// Right operand, k by n.
        right: TileId,
        /// Number of rows of the result.
        m: Expr,
        /// Number of columns of the result.
        n: Expr,
        /// Number of terms of each sum.
        k: Expr,
        /// Whether the products are added to the sums in `dst`.
        add: bool,
    },
    /// Stores a block of sums to a matrix, rounded to its type, to nearest even.
    StoreBlock {
        /// Place of the block's first element.
        to: Gm,
        /// Distance between the starts of consecutive rows, in elements.
        pitch: Expr,
        /// Source.
        tile: TileId,
        /// Number of rows.
        rows: Expr,
        /// Number of columns.
        cols: Expr,
    },
    /// Adds 1 to a counter of a rank.
    Notify {
        /// The rank.
        peer: Expr,
        /// The array of counters.
        signals: SignalsId,
        /// Number of the counter in the array.
        index: Expr,
    },
    /// Waits until a counter of this rank is at least `value`.
    Wait {
        /// The array of counters.
        signals: SignalsId,
        /// Number of the counter in the array.
        index: Expr,
        /// The value to wait for.
        value: Expr,
    },
    /// Lets the task complete only once a counter of this rank is at least `value`. The core does
    /// not wait: nothing of the task comes after it but more of its kind.
    Defer {
        /// The array of counters.
        signals: SignalsId,
        /// Number of the counter in the array.
        index: Expr,
        /// The value to wait for.
        value: Expr,
    },
    /// The schedule's `fence.release`; pass `fences` replaces it.
    Release,
    /// The schedule's `fence.acquire`; pass `fences` replaces it.
    Acquire,
    /// The schedule's `fence.complete`; pass `fences` replaces it.
    Complete,
    /// Everything issued to the pipes before has completed before anything issued to them later
    /// starts.
    Barrier(Barrier),
    /// Earlier writes are in memory, where peers see them.
    MemoryBarrier,
    /// Sets an event from pipe `from` to pipe `to` once everything issued to `from` before has
    /// completed.
    SetFlag {
        /// The pipe that sets the event.
        from: Pipe,
        /// The pipe that will wait for it.
        to: Pipe,
        /// Number of the event among those of this pair of pipes.
        event: u8,
    },
    /// Makes `to` wait for the event before it starts anything issued to it later.
    WaitFlag {
        /// The pipe that sets the event.
        from: Pipe,
        /// The pipe that waits.
        to: Pipe,
        /// Number of the event among those of this pair of pipes.
        event: u8,
    },
}

impl VecOp {
    /// All instructions.
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

    /// Returns the name in `.tile` text.
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

    /// Returns the number of operands.
    pub fn arity(self) -> usize {
        match self {
            VecOp::Add | VecOp::Sub | VecOp::Mul | VecOp::Div | VecOp::Max | VecOp::Min => 2,
            VecOp::Abs | VecOp::Exp | VecOp::Log | VecOp::Sqrt | VecOp::Rsqrt | VecOp::Fill => 1,
        }
    }
}

/// The place that an operation accesses and whether it writes there, by reference as the operation
/// is. Every operation is named, so that a new one cannot be forgotten.
macro_rules! place {
    ($op:expr) => {
        match $op {
            Op::Load { from, .. }
            | Op::LoadRow { from, .. }
            | Op::LoadRows { from, .. }
            | Op::LoadBlock { from, .. } => Some((from, false)),
            Op::Store { to, .. } | Op::StoreRows { to, .. } | Op::StoreBlock { to, .. } => Some((to, true)),
            Op::Vector { .. }
            | Op::Select { .. }
            | Op::Convert { .. }
            | Op::Reduce { .. }
            | Op::Expand { .. }
            | Op::Spread { .. }
            | Op::Index { .. }
            | Op::Choose { .. }
            | Op::Move { .. }
            | Op::Matmul { .. }
            | Op::Notify { .. }
            | Op::Wait { .. }
            | Op::Defer { .. }
            | Op::Release
            | Op::Acquire
            | Op::Complete
            | Op::Barrier(_)
            | Op::MemoryBarrier
            | Op::SetFlag { .. }
            | Op::WaitFlag { .. } => None,
        }
    };
}

impl Op {
    /// Returns the pipe that executes the operation; `None` for flags, barriers and fences, which
    /// order pipes.
    pub fn pipe(&self) -> Option<Pipe> {
        match self {
            Op::Load { .. } | Op::LoadRow { .. } | Op::LoadRows { .. } | Op::LoadBlock { .. } => {
                Some(Pipe::Load)
            }
            Op::Store { .. } | Op::StoreRows { .. } => Some(Pipe::Store),
            Op::Vector { .. }
            | Op::Select { .. }
            | Op::Convert { .. }
            | Op::Reduce { .. }
            | Op::Expand { .. }
            | Op::Spread { .. }
            | Op::Index { .. } => Some(Pipe::Vector),
            Op::Move { .. } => Some(Pipe::Move),
            Op::Matmul { .. } => Some(Pipe::Matmul),
            Op::StoreBlock { .. } => Some(Pipe::StoreSums),
            Op::Choose { .. } | Op::Notify { .. } | Op::Wait { .. } | Op::Defer { .. } => Some(Pipe::Scalar),
            Op::Release
            | Op::Acquire
            | Op::Complete
            | Op::Barrier(_)
            | Op::MemoryBarrier
            | Op::SetFlag { .. }
            | Op::WaitFlag { .. } => None,
        }
    }

    /// Returns the place in device memory that the operation accesses, and whether it writes there.
    pub fn place(&self) -> Option<(&Gm, bool)> {
        place!(self)
    }

    /// Returns the place of [`Op::place`], to change it.
    pub fn place_mut(&mut self) -> Option<&mut Gm> {
        place!(self).map(|(gm, _)| gm)
    }
}
