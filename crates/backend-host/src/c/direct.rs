//! Loops over tiles whose elements need no tile: copies and combinations from memory to memory.
//!
//! A tile is a copy of a run of elements in the cache. Where a loop only loads, combines and
//! stores, the printed statements read and write the memory itself. The tile stays where an element
//! could be read after it was overwritten, where a peer's window is read for a combination, and
//! where a later statement reads the tile.

use kbc_ir::expr::Expr;
use kbc_tiles::tile::{Gm, Kernel, Op, Stmt, TileId, VArg, VecOp};
use std::collections::BTreeSet;

/// The tiles that some statements read before they write them: elements of earlier statements.
pub struct Carried(BTreeSet<u32>);

impl Carried {
    /// Returns those of a kernel.
    pub fn of(kernel: &Kernel) -> Carried {
        let mut out = Carried(BTreeSet::new());
        out.list(&kernel.body);
        out
    }

    fn list(&mut self, list: &[Stmt]) {
        let mut written: BTreeSet<u32> = BTreeSet::new();
        for stmt in list {
            if let Stmt::Op(op) = stmt {
                let (read, write) = tiles(op);
                self.0.extend(read.iter().map(|t| t.0).filter(|t| !written.contains(t)));
                written.extend(write.map(|t| t.0));
            }
            stmt.blocks().for_each(|block| self.list(block));
            // What a block wrote may be read after it.
            stmt.blocks().for_each(|block| forget(block, &mut written));
        }
    }

    /// Checks whether elements of a tile may be read that earlier statements wrote.
    pub(super) fn has(&self, tile: TileId) -> bool {
        self.0.contains(&tile.0)
    }
}

/// Removes the tiles that a block writes.
fn forget(list: &[Stmt], written: &mut BTreeSet<u32>) {
    for stmt in list {
        if let Stmt::Op(op) = stmt
            && let (_, Some(tile)) = tiles(op)
        {
            written.remove(&tile.0);
        }
        stmt.blocks().for_each(|block| forget(block, written));
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
pub fn direct<'k>(body: &'k [Stmt], carried: &Carried) -> Option<Direct<'k>> {
    let ops: Vec<&Op> = body
        .iter()
        .map(|s| match s {
            Stmt::Op(op) => Some(op),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let free = |t: &TileId| !carried.0.contains(&t.0);
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
