//! Events of a trace: operations with concrete numbers.

use super::super::text::print_op;
use super::super::*;
use kbc_ir::expr::Expr;
use kbc_ir::scalar::CompareOp;

/// A concrete place outside the core.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemoryPlace {
    /// The memory.
    pub object: Object,
    /// Slot of an area.
    pub slot: i64,
    /// Number of the element in the slot or tensor.
    pub offset: i64,
    /// Rank whose window is meant; `None` means this rank's own memory.
    pub peer: Option<i64>,
}

/// An operation of a kernel with concrete numbers. Lists of operands are borrowed from it.
#[derive(Clone, PartialEq, Debug)]
pub enum TraceEvent<'k> {
    /// With [`Loops::Ends`](super::Loops::Ends): the start of a loop over tiles, of which the first
    /// and last tiles follow.
    Tiles {
        /// Number of all elements.
        total: i64,
        /// Elements of a full tile.
        step: u32,
    },
    /// The start of a loop whose tiles hold whole rows.
    Rows {
        /// Elements of a row.
        elements: u32,
    },
    /// The start of a block in which some tiles are one of their two copies.
    Turn {
        /// Whether it is the second one.
        second: bool,
    },
    /// Load into a tile.
    Load {
        /// Destination.
        tile: TileId,
        /// Number of elements.
        len: i64,
        /// Source.
        from: MemoryPlace,
    },
    /// Store of a tile.
    Store {
        /// Destination.
        to: MemoryPlace,
        /// Source.
        tile: TileId,
        /// Number of elements.
        len: i64,
    },
    /// Vector instruction.
    Vector {
        /// The instruction.
        op: VecOp,
        /// Destination.
        dst: TileId,
        /// Operands.
        args: &'k [VArg],
        /// Number of elements.
        len: i64,
    },
    /// Selection by a comparison.
    Select {
        /// The comparison.
        cmp: CompareOp,
        /// Destination, left and right side of the comparison, the two operands to select from,
        /// mask.
        tiles: [TileId; 6],
        /// Number of elements.
        len: i64,
    },
    /// Conversion of a whole tile.
    Convert {
        /// Destination.
        dst: TileId,
        /// Source.
        src: TileId,
        /// Rounding.
        rounding: Rounding,
    },
    /// Reduction of a row.
    Reduce {
        /// The reduction.
        op: VecOp,
        /// Destination, source, working space.
        tiles: [TileId; 3],
        /// Number of elements.
        len: i64,
    },
    /// Expansion of one element over a tile.
    Expand {
        /// Destination.
        dst: TileId,
        /// Source.
        src: TileId,
        /// Number of elements.
        len: i64,
    },
    /// Load of rows that are apart in memory.
    LoadRows {
        /// Destination.
        tile: TileId,
        /// Number of elements of all rows.
        len: i64,
        /// Source.
        from: MemoryPlace,
        /// Distance between consecutive rows in elements.
        pitch: i64,
    },
    /// Store of rows that are apart in memory.
    StoreRows {
        /// Destination.
        to: MemoryPlace,
        /// Distance between consecutive rows in elements.
        pitch: i64,
        /// Source.
        tile: TileId,
        /// Number of elements of all rows.
        len: i64,
    },
    /// Copy of one row into every row of a tile.
    Spread {
        /// Destination.
        dst: TileId,
        /// Source.
        src: TileId,
        /// Number of elements of all rows.
        len: i64,
    },
    /// Filling of a tile with an integer.
    Index {
        /// Destination.
        dst: TileId,
        /// The integer.
        value: i64,
        /// Number of elements.
        len: i64,
    },
    /// Choice of the row that is loaded next.
    Choose {
        /// Tile of row indices.
        ids: TileId,
        /// Number of the element in the tile.
        index: i64,
        /// Index of the first row of the table.
        first: i64,
    },
    /// Load of elements of the chosen row.
    LoadRow {
        /// Destination, written if the table has this row.
        tile: TileId,
        /// Number of elements.
        len: i64,
        /// Place of the elements in row 0.
        from: MemoryPlace,
        /// Distance between consecutive rows in elements, and number of rows.
        table: [i64; 2],
    },
    /// Load of a block of a matrix.
    LoadBlock {
        /// Destination.
        tile: TileId,
        /// Numbers of rows and columns.
        size: [i64; 2],
        /// Source.
        from: MemoryPlace,
        /// Distance between consecutive rows in elements.
        pitch: i64,
    },
    /// Move of a block from tile to tile.
    Move {
        /// Destination.
        dst: TileId,
        /// Source.
        src: TileId,
        /// First row and column in the source.
        from: [i64; 2],
        /// Numbers of rows and columns.
        size: [i64; 2],
    },
    /// Matmul of tiles.
    Matmul {
        /// Sums, left operand, right operand.
        tiles: [TileId; 3],
        /// Numbers of rows, columns and terms of a sum.
        size: [i64; 3],
        /// Whether the products are added to existing sums.
        add: bool,
    },
    /// Store of a block of sums to a matrix.
    StoreBlock {
        /// Destination.
        to: MemoryPlace,
        /// Distance between consecutive rows in elements.
        pitch: i64,
        /// Source.
        tile: TileId,
        /// Numbers of rows and columns.
        size: [i64; 2],
    },
    /// Addition of 1 to a counter.
    Notify {
        /// The rank of the counter.
        peer: i64,
        /// The array of counters.
        signals: SignalsId,
        /// Number of the counter in the array.
        index: i64,
    },
    /// Wait until a counter has a value.
    Wait {
        /// The array of counters.
        signals: SignalsId,
        /// Number of the counter in the array.
        index: i64,
        /// The value to wait for.
        value: i64,
        /// Whether the runtime waits and not the core.
        deferred: bool,
    },
    /// Fence, barrier or flag.
    Order(&'k Op),
}

impl TraceEvent<'_> {
    /// Returns the event as an operation with constant numbers; `None` for the start of a loop or a
    /// turn.
    pub fn op(&self) -> Option<Op> {
        let int = |v: &i64| Expr::Int(*v);
        let gm = |p: &MemoryPlace| Gm {
            object: p.object,
            slot: Expr::Int(p.slot),
            offset: Expr::Int(p.offset),
            peer: p.peer.map(Expr::Int),
        };
        Some(match self {
            TraceEvent::Tiles { .. } | TraceEvent::Rows { .. } | TraceEvent::Turn { .. } => return None,
            TraceEvent::Load { tile, len, from } => Op::Load { tile: *tile, len: int(len), from: gm(from) },
            TraceEvent::Store { to, tile, len } => Op::Store { to: gm(to), tile: *tile, len: int(len) },
            TraceEvent::Vector { op, dst, args, len } => {
                Op::Vector { op: *op, dst: *dst, args: args.to_vec(), len: int(len) }
            }
            TraceEvent::Select { cmp, tiles: [dst, a, b, x, y, mask], len } => {
                let (dst, a, b, x, y, mask) = (*dst, *a, *b, *x, *y, *mask);
                Op::Select { cmp: *cmp, dst, a, b, x, y, mask, len: int(len) }
            }
            TraceEvent::Convert { dst, src, rounding } => {
                Op::Convert { dst: *dst, src: *src, rounding: *rounding }
            }
            TraceEvent::Reduce { op, tiles: [dst, src, work], len } => {
                Op::Reduce { op: *op, dst: *dst, src: *src, work: *work, len: int(len) }
            }
            TraceEvent::Expand { dst, src, len } => Op::Expand { dst: *dst, src: *src, len: int(len) },
            TraceEvent::LoadRows { tile, len, from, pitch } => {
                Op::LoadRows { tile: *tile, len: int(len), from: gm(from), pitch: int(pitch) }
            }
            TraceEvent::StoreRows { to, pitch, tile, len } => {
                Op::StoreRows { to: gm(to), pitch: int(pitch), tile: *tile, len: int(len) }
            }
            TraceEvent::Spread { dst, src, len } => Op::Spread { dst: *dst, src: *src, len: int(len) },
            TraceEvent::Index { dst, value, len } => {
                Op::Index { dst: *dst, value: int(value), len: int(len) }
            }
            TraceEvent::Choose { ids, index, first } => {
                Op::Choose { ids: *ids, index: int(index), first: int(first) }
            }
            TraceEvent::LoadRow { tile, len, from, table: [pitch, rows] } => {
                Op::LoadRow { tile: *tile, len: int(len), from: gm(from), pitch: int(pitch), rows: int(rows) }
            }
            TraceEvent::LoadBlock { tile, size: [rows, cols], from, pitch } => Op::LoadBlock {
                tile: *tile,
                rows: int(rows),
                cols: int(cols),
                from: gm(from),
                pitch: int(pitch),
            },
            TraceEvent::Move { dst, src, from: [row, col], size: [rows, cols] } => Op::Move {
                dst: *dst,
                src: *src,
                from: [int(row), int(col)],
                rows: int(rows),
                cols: int(cols),
            },
            TraceEvent::Matmul { tiles: [dst, left, right], size: [m, n, k], add } => Op::Matmul {
                dst: *dst,
                left: *left,
                right: *right,
                m: int(m),
                n: int(n),
                k: int(k),
                add: *add,
            },
            TraceEvent::StoreBlock { to, pitch, tile, size: [rows, cols] } => Op::StoreBlock {
                to: gm(to),
                pitch: int(pitch),
                tile: *tile,
                rows: int(rows),
                cols: int(cols),
            },
            TraceEvent::Notify { peer, signals, index } => {
                Op::Notify { peer: int(peer), signals: *signals, index: int(index) }
            }
            TraceEvent::Wait { signals, index, value, deferred } => {
                let (signals, index, value) = (*signals, int(index), int(value));
                match deferred {
                    true => Op::Defer { signals, index, value },
                    false => Op::Wait { signals, index, value },
                }
            }
            TraceEvent::Order(op) => (*op).clone(),
        })
    }

    /// Prints the event as a line of the kernel's text.
    pub fn print(&self, kernel: &Kernel) -> String {
        match (self, self.op()) {
            (TraceEvent::Tiles { total, step }, _) => format!("tiles in {total} by {step}"),
            (TraceEvent::Rows { elements }, _) => format!("rows of {elements}"),
            (TraceEvent::Turn { second }, _) => format!("turn by {}", u8::from(*second)),
            (_, Some(op)) => print_op(kernel, &op),
            (_, None) => String::new(),
        }
    }
}
