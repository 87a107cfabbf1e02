//! What a trace is made of: operations with their numbers.

use super::super::text::print_op;
use super::super::*;
use kbc_ir::scalar::CompareOp;

/// A place outside UB.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// Which memory.
    pub object: Object,
    /// Slot of an area.
    pub slot: i64,
    /// Element in it.
    pub offset: i64,
    /// Whose.
    pub peer: Option<i64>,
}

/// An operation with its numbers.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// With [`Loops::Ends`]: a loop over tiles begins, of which the first and last ones follow.
    Tiles {
        /// All elements.
        total: i64,
        /// Elements of a full tile.
        step: u32,
    },
    /// Elements into a tile.
    Load {
        /// Written.
        tile: TileId,
        /// Elements.
        len: i64,
        /// Read.
        from: Place,
    },
    /// Elements out of a tile.
    Store {
        /// Written.
        to: Place,
        /// Read.
        tile: TileId,
        /// Elements.
        len: i64,
    },
    /// A vector instruction.
    Vector {
        /// Which.
        op: VecOp,
        /// Written.
        dst: TileId,
        /// Read.
        args: Vec<VArg>,
        /// Elements.
        len: i64,
    },
    /// A choice by a comparison.
    Select {
        /// Comparison.
        cmp: CompareOp,
        /// Destination, sides of the comparison, values to choose from, mask.
        tiles: [TileId; 6],
        /// Elements.
        len: i64,
    },
    /// A conversion of a whole tile.
    Convert {
        /// Written.
        dst: TileId,
        /// Read.
        src: TileId,
        /// Rounding.
        rounding: Rounding,
    },
    /// A combination of a row.
    Reduce {
        /// Which.
        op: VecOp,
        /// Written, read, worked in.
        tiles: [TileId; 3],
        /// Elements.
        len: i64,
    },
    /// One element everywhere.
    Spread {
        /// Written.
        dst: TileId,
        /// Read.
        src: TileId,
        /// Elements.
        len: i64,
    },
    /// An integer everywhere.
    Index {
        /// Written.
        dst: TileId,
        /// The integer.
        value: i64,
        /// Elements.
        len: i64,
    },
    /// The row that is loaded next.
    Choose {
        /// Read.
        ids: TileId,
        /// Which element.
        index: i64,
        /// The number of row 0.
        first: i64,
    },
    /// Elements of that row into a tile.
    LoadRow {
        /// Written, if there is such a row.
        tile: TileId,
        /// Elements.
        len: i64,
        /// Read: where they are in row 0.
        from: Place,
        /// Elements from row to row, and rows.
        table: [i64; 2],
    },
    /// A block of a matrix into a tile.
    LoadBlock {
        /// Written.
        tile: TileId,
        /// Rows and columns.
        size: [i64; 2],
        /// Read.
        from: Place,
        /// Elements from row to row.
        pitch: i64,
    },
    /// A block from tile to tile.
    Move {
        /// Written.
        dst: TileId,
        /// Read.
        src: TileId,
        /// Rows and columns.
        size: [i64; 2],
    },
    /// A product of tiles.
    Multiply {
        /// Sums, left and right operand.
        tiles: [TileId; 3],
        /// Rows, columns, and elements added for one.
        size: [i64; 3],
        /// Whether it is added.
        add: bool,
    },
    /// A block of sums into a matrix.
    StoreBlock {
        /// Written.
        to: Place,
        /// Elements from row to row.
        pitch: i64,
        /// Read.
        tile: TileId,
        /// Rows and columns.
        size: [i64; 2],
    },
    /// Adds 1 to a counter.
    Notify {
        /// Whose.
        peer: i64,
        /// The array.
        signals: SignalsId,
        /// Which counter.
        index: i64,
    },
    /// Until a counter has a value.
    Wait {
        /// The array.
        signals: SignalsId,
        /// Which counter.
        index: i64,
        /// The value.
        value: i64,
    },
    /// Fences, barriers, flags.
    Order(Op),
}

impl Event {
    /// The event as an operation whose numbers are constants; none for the begin of a loop.
    pub fn op(&self) -> Option<Op> {
        let int = |v: &i64| Expr::Int(*v);
        let gm = |p: &Place| Gm {
            object: p.object,
            slot: Expr::Int(p.slot),
            offset: Expr::Int(p.offset),
            peer: p.peer.map(Expr::Int),
        };
        Some(match self {
            Event::Tiles { .. } => return None,
            Event::Load { tile, len, from } => Op::Load { tile: *tile, len: int(len), from: gm(from) },
            Event::Store { to, tile, len } => Op::Store { to: gm(to), tile: *tile, len: int(len) },
            Event::Vector { op, dst, args, len } => {
                Op::Vector { op: *op, dst: *dst, args: args.clone(), len: int(len) }
            }
            Event::Select { cmp, tiles: [dst, a, b, x, y, mask], len } => {
                let (dst, a, b, x, y, mask) = (*dst, *a, *b, *x, *y, *mask);
                Op::Select { cmp: *cmp, dst, a, b, x, y, mask, len: int(len) }
            }
            Event::Convert { dst, src, rounding } => {
                Op::Convert { dst: *dst, src: *src, rounding: *rounding }
            }
            Event::Reduce { op, tiles: [dst, src, work], len } => {
                Op::Reduce { op: *op, dst: *dst, src: *src, work: *work, len: int(len) }
            }
            Event::Spread { dst, src, len } => Op::Spread { dst: *dst, src: *src, len: int(len) },
            Event::Index { dst, value, len } => Op::Index { dst: *dst, value: int(value), len: int(len) },
            Event::Choose { ids, index, first } => {
                Op::Choose { ids: *ids, index: int(index), first: int(first) }
            }
            Event::LoadRow { tile, len, from, table: [pitch, rows] } => {
                Op::LoadRow { tile: *tile, len: int(len), from: gm(from), pitch: int(pitch), rows: int(rows) }
            }
            Event::LoadBlock { tile, size: [rows, cols], from, pitch } => Op::LoadBlock {
                tile: *tile,
                rows: int(rows),
                cols: int(cols),
                from: gm(from),
                pitch: int(pitch),
            },
            Event::Move { dst, src, size: [rows, cols] } => {
                Op::Move { dst: *dst, src: *src, rows: int(rows), cols: int(cols) }
            }
            Event::Multiply { tiles: [dst, left, right], size: [m, n, k], add } => Op::Multiply {
                dst: *dst,
                left: *left,
                right: *right,
                m: int(m),
                n: int(n),
                k: int(k),
                add: *add,
            },
            Event::StoreBlock { to, pitch, tile, size: [rows, cols] } => Op::StoreBlock {
                to: gm(to),
                pitch: int(pitch),
                tile: *tile,
                rows: int(rows),
                cols: int(cols),
            },
            Event::Notify { peer, signals, index } => {
                Op::Notify { peer: int(peer), signals: *signals, index: int(index) }
            }
            Event::Wait { signals, index, value } => {
                Op::Wait { signals: *signals, index: int(index), value: int(value) }
            }
            Event::Order(op) => op.clone(),
        })
    }

    /// The event as a line of the kernel's text.
    pub fn print(&self, kernel: &Kernel) -> String {
        match (self, self.op()) {
            (Event::Tiles { total, step }, _) => format!("tiles in {total} by {step}"),
            (_, Some(op)) => print_op(kernel, &op),
            (_, None) => String::new(),
        }
    }
}
