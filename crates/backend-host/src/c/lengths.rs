//! Numbers of elements of conversions.
//!
//! A conversion of the tile level converts a whole tile. Here a tile may have few elements of many,
//! so a conversion takes as many as were last written to its source, where that is known.

use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_tiles::tile::{Kernel, Op, Stmt, TileId};
use std::collections::BTreeMap;

/// The known numbers of elements, by the address of the conversion in the kernel.
#[derive(Default)]
pub struct Lengths {
    known: BTreeMap<*const Op, Expr>,
    /// The loops over tiles: by the name of their length that of their number of rows; `None` if
    /// tiles of the name hold no rows.
    rows: BTreeMap<Name, Option<Name>>,
}

impl Lengths {
    /// Returns those of a kernel.
    pub fn of_kernel(kernel: &Kernel) -> Lengths {
        let mut out = Lengths::default();
        out.loops(&kernel.body);
        out.list(&kernel.body, &mut BTreeMap::new());
        out
    }

    fn loops(&mut self, list: &[Stmt]) {
        for s in list {
            if let Stmt::Tiles { len, rows, .. } = s {
                let count = rows.as_ref().map(|r| r.count.clone());
                self.rows.insert(len.clone(), count);
            }
            s.blocks().for_each(|b| self.loops(b));
        }
    }

    /// Returns the tile that an operation writes from its first element on, and how many elements;
    /// of a conversion, nothing.
    fn written(&self, op: &Op) -> Option<(TileId, Option<Expr>)> {
        let (tile, len) = match op {
            Op::Load { tile, len, .. } | Op::LoadRow { tile, len, .. } | Op::LoadRows { tile, len, .. } => {
                (*tile, len.clone())
            }
            Op::Vector { dst, len, .. }
            | Op::Select { dst, len, .. }
            | Op::Expand { dst, len, .. }
            | Op::Spread { dst, len, .. }
            | Op::Index { dst, len, .. } => (*dst, len.clone()),
            // An element of each row.
            Op::Reduce { dst, len: Expr::Var(n), .. } => match self.rows.get(n) {
                Some(Some(count)) => (*dst, Expr::Var(count.clone())),
                _ => (*dst, Expr::Int(1)),
            },
            Op::Reduce { dst, .. } => (*dst, Expr::Int(1)),
            // Blocks have rows, and of a conversion the number follows from its source.
            Op::Convert { dst, .. }
            | Op::LoadBlock { tile: dst, .. }
            | Op::Move { dst, .. }
            | Op::Matmul { dst, .. } => return Some((*dst, None)),
            Op::Store { .. }
            | Op::StoreRows { .. }
            | Op::StoreBlock { .. }
            | Op::Choose { .. }
            | Op::Notify { .. }
            | Op::Wait { .. }
            | Op::Defer { .. }
            | Op::Release
            | Op::Acquire
            | Op::Complete
            | Op::Barrier(_)
            | Op::MemoryBarrier
            | Op::SetFlag { .. }
            | Op::WaitFlag { .. } => return None,
        };
        Some((tile, Some(len)))
    }

    /// Returns the number of elements of a conversion; `None` for all.
    pub fn of(&self, op: &Op) -> Option<&Expr> {
        self.known.get(&std::ptr::from_ref(op))
    }

    fn list(&mut self, list: &[Stmt], known: &mut BTreeMap<TileId, Expr>) {
        for s in list {
            if let Stmt::Op(op) = s {
                let (tile, len) = match op {
                    Op::Convert { dst, src, .. } => {
                        let len = known.get(src).cloned();
                        self.known.extend(len.clone().map(|len| (std::ptr::from_ref(op), len)));
                        (*dst, len)
                    }
                    _ => match self.written(op) {
                        Some(found) => found,
                        None => continue,
                    },
                };
                match len {
                    Some(len) => known.insert(tile, len),
                    None => known.remove(&tile),
                };
                continue;
            }
            // A block may run several times, or not at all.
            let mut inside: BTreeMap<TileId, Option<Expr>> = BTreeMap::new();
            s.blocks().for_each(|b| self.all_written(b, &mut inside));
            for (tile, len) in &inside {
                if known.get(tile).is_some_and(|before| len.as_ref() != Some(before)) {
                    known.remove(tile);
                }
            }
            s.blocks().for_each(|b| self.list(b, &mut known.clone()));
            for (tile, len) in inside {
                // Names of a block mean nothing behind it.
                match len {
                    Some(len @ Expr::Int(_)) => known.insert(tile, len),
                    _ => known.remove(&tile),
                };
            }
        }
    }

    /// Collects the tiles that a list writes, each with the number of elements if it is always the
    /// same.
    fn all_written(&self, list: &[Stmt], out: &mut BTreeMap<TileId, Option<Expr>>) {
        for s in list {
            if let Stmt::Op(op) = s
                && let Some((tile, len)) = self.written(op)
            {
                let same = out.entry(tile).or_insert_with(|| len.clone());
                if *same != len {
                    *same = None;
                }
            }
            s.blocks().for_each(|b| self.all_written(b, out));
        }
    }
}
