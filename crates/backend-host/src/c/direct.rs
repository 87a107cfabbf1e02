//! Loops over tiles whose elements need no tile: copies and combinations from memory to memory.
//!
//! A tile is a copy of a run of elements in the cache. Where a loop only loads, combines and
//! stores, the printed statements read and write the memory itself. The tile stays where an element
//! could be read after it was overwritten, where a peer's window is read for a combination, and
//! where a later statement reads the tile.

use kbc_ir::expr::Expr;
use kbc_tiles::tile::{Gm, Kernel, Op, Stmt, TileId, VArg, VecOp};
use std::collections::{BTreeMap, BTreeSet};

/// Which tiles later statements may read, after every statement of a kernel.
pub struct Live {
    after: BTreeMap<*const Stmt, BTreeSet<u32>>,
    /// Tiles of which some list writes or reads different numbers of elements: what is written may
    /// then be a part of what is read, so it is never taken for overwritten.
    mixed: BTreeSet<u32>,
}

impl Live {
    /// Returns those of a kernel.
    pub fn of(kernel: &Kernel) -> Live {
        let mut out = Live { after: BTreeMap::new(), mixed: BTreeSet::new() };
        out.lengths(&kernel.body);
        out.before(&kernel.body, BTreeSet::new());
        out
    }

    /// Checks whether a statement behind this one, also in a later iteration, may read a tile that
    /// this one or one before it wrote.
    pub(super) fn after(&self, stmt: &Stmt, tile: TileId) -> bool {
        let known = self.after.get(&std::ptr::from_ref(stmt));
        self.mixed.contains(&tile.0) || known.is_none_or(|live| live.contains(&tile.0))
    }

    /// Returns what is read before it is written from the beginning of a list on. `live` is what is
    /// read behind it.
    fn before(&mut self, list: &[Stmt], mut live: BTreeSet<u32>) -> BTreeSet<u32> {
        for stmt in list.iter().rev() {
            self.after.entry(std::ptr::from_ref(stmt)).or_default().extend(&live);
            if let Stmt::Op(op) = stmt {
                self.pass(op, &mut live);
                continue;
            }
            let behind = live.clone();
            let repeats = matches!(stmt, Stmt::For { .. } | Stmt::Tiles { .. });
            for block in stmt.blocks() {
                let mut inside = behind.clone();
                if repeats {
                    // What an iteration reads before it writes it is read behind the one before it.
                    inside.extend(self.first_reads(block));
                }
                live.extend(self.before(block, inside));
            }
        }
        live
    }

    /// Returns what a list may read before it writes it.
    fn first_reads(&self, list: &[Stmt]) -> BTreeSet<u32> {
        let mut live = BTreeSet::new();
        for stmt in list.iter().rev() {
            match stmt {
                Stmt::Op(op) => self.pass(op, &mut live),
                other => other.blocks().for_each(|block| live.extend(self.first_reads(block))),
            }
        }
        live
    }

    /// Changes what is read behind an operation to what is read from it on.
    fn pass(&self, op: &Op, live: &mut BTreeSet<u32>) {
        let (read, written) = tiles(op);
        if let Some(tile) = written.filter(|t| length(op).is_some() && !self.mixed.contains(&t.0)) {
            live.remove(&tile.0);
        }
        live.extend(read.iter().map(|t| t.0));
    }

    fn lengths(&mut self, list: &[Stmt]) {
        let mut known: BTreeMap<u32, &Expr> = BTreeMap::new();
        for stmt in list {
            if let Stmt::Op(op) = stmt
                && let Some(len) = length(op)
            {
                let (read, written) = tiles(op);
                for tile in read.into_iter().chain(written) {
                    if known.insert(tile.0, len).is_some_and(|before| before != len) {
                        self.mixed.insert(tile.0);
                    }
                }
            }
            stmt.blocks().for_each(|block| self.lengths(block));
        }
    }
}

/// Returns how many elements an operation reads and writes, from the first one of each of its tiles
/// on; nothing for an operation of another kind.
fn length(op: &Op) -> Option<&Expr> {
    match op {
        Op::Load { len, .. }
        | Op::Store { len, .. }
        | Op::Vector { len, .. }
        | Op::Select { len, .. }
        | Op::LoadRows { len, .. }
        | Op::StoreRows { len, .. } => Some(len),
        _ => None,
    }
}

/// Returns the tiles that an operation reads, and the one that it writes.
pub(super) fn tiles(op: &Op) -> (Vec<TileId>, Option<TileId>) {
    match op {
        Op::Load { tile, .. } | Op::LoadRows { tile, .. } | Op::LoadBlock { tile, .. } => {
            (vec![], Some(*tile))
        }
        Op::Store { tile, .. } | Op::StoreRows { tile, .. } | Op::StoreBlock { tile, .. } => {
            (vec![*tile], None)
        }
        Op::Vector { dst, args, .. } => {
            let read = args.iter().filter_map(|a| if let VArg::Tile(t) = a { Some(*t) } else { None });
            (read.collect(), Some(*dst))
        }
        Op::Select { dst, a, b, x, y, .. } => (vec![*a, *b, *x, *y], Some(*dst)),
        Op::Convert { dst, src, .. }
        | Op::Reduce { dst, src, .. }
        | Op::Expand { dst, src, .. }
        | Op::Spread { dst, src, .. }
        | Op::Move { dst, src, .. } => (vec![*src], Some(*dst)),
        Op::Index { dst, .. } => (vec![], Some(*dst)),
        Op::Choose { ids, .. } => (vec![*ids], None),
        // If there is no such row, the tile keeps what it has.
        Op::LoadRow { tile, .. } => (vec![*tile], None),
        Op::Matmul { dst, left, right, .. } => (vec![*left, *right, *dst], Some(*dst)),
        Op::Notify { .. }
        | Op::Wait { .. }
        | Op::Defer { .. }
        | Op::Release
        | Op::Acquire
        | Op::Complete
        | Op::Barrier(_)
        | Op::MemoryBarrier
        | Op::SetFlag { .. }
        | Op::WaitFlag { .. } => (vec![], None),
    }
}

/// What the body of a loop does without tiles.
pub enum Direct<'k> {
    /// Copies a run.
    Copy {
        /// From where.
        from: &'k Gm,
        /// To where.
        to: &'k Gm,
        /// How many elements.
        len: &'k Expr,
    },
    /// Combines two runs.
    Combine {
        /// How.
        op: VecOp,
        /// The operands, in their order.
        args: [&'k Gm; 2],
        /// The result, in memory of this rank.
        to: &'k Gm,
        /// How many elements.
        len: &'k Expr,
    },
}

/// Returns what the body of a loop does without tiles, if it needs none.
pub fn direct<'k>(body: &'k [Stmt], live: &Live) -> Option<Direct<'k>> {
    let ops: Vec<&Op> = body
        .iter()
        .map(|s| match s {
            Stmt::Op(op) => Some(op),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let last = body.last()?;
    let free = |t: &TileId| !live.after(last, *t);
    match &ops[..] {
        [Op::Load { tile, len, from }, Op::Store { to, tile: stored, len: n }] => {
            let apart = from.object != to.object && (from.peer.is_none() || to.peer.is_none());
            (tile == stored && len == n && free(tile) && apart).then_some(Direct::Copy { from, to, len })
        }
        [
            Op::Load { tile: a, len: first, from: x },
            Op::Load { tile: b, len: second, from: y },
            Op::Vector { op: op @ (VecOp::Add | VecOp::Mul | VecOp::Max | VecOp::Min), dst, args, len },
            Op::Store { to, tile: stored, len: n },
        ] => {
            let args = match &args[..] {
                [VArg::Tile(l), VArg::Tile(r)] if (l, r) == (a, b) => [x, y],
                [VArg::Tile(l), VArg::Tile(r)] if (l, r) == (b, a) => [y, x],
                _ => return None,
            };
            let alike = [first, second, n].iter().all(|l| *l == len);
            let own = [x, y, to].iter().all(|g| g.peer.is_none());
            // An element of the result is at the place of the operand's, or in other memory.
            let apart = args.iter().all(|g| g.object != to.object || *g == to);
            let tiles = a != b && dst == stored && [a, b, dst].iter().all(|t| free(t));
            (alike && own && apart && tiles).then_some(Direct::Combine { op: *op, args, to, len })
        }
        _ => None,
    }
}

/// Returns the run of this rank's memory that the body of a loop loads into a tile, if all else
/// that it does is to store that tile: then the memory can be read in the place of the tile.
pub fn passed_on<'k>(body: &'k [Stmt], live: &Live) -> Option<(TileId, &'k Gm)> {
    let [Stmt::Op(Op::Load { tile, len, from }), rest @ ..] = body else { return None };
    let free = from.peer.is_none() && !rest.is_empty() && !live.after(body.last()?, *tile);
    (free && only_stores(rest, (*tile, len, from))).then_some((*tile, from))
}

/// Checks that statements only store a tile, to other memory than it was loaded from.
fn only_stores(list: &[Stmt], loaded: (TileId, &Expr, &Gm)) -> bool {
    let (tile, len, from) = loaded;
    list.iter().all(|s| match s {
        Stmt::Op(Op::Store { to, tile: stored, len: n }) => {
            *stored == tile && n == len && (to.peer.is_some() || to.object != from.object)
        }
        Stmt::Op(_) | Stmt::Tiles { .. } | Stmt::Turn { .. } | Stmt::Task { .. } => false,
        Stmt::For { .. } | Stmt::If { .. } => s.blocks().all(|b| only_stores(b, loaded)),
        Stmt::Let { .. } | Stmt::Note { .. } => true,
    })
}
