//! Counts of the synchronisation in a kernel's text, for reports.

use super::kernel::{Kernel, Stmt};
use super::op::Op;
use super::roles::Barrier;

/// Numbers of synchronisation operations in a kernel's text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SyncCounts {
    /// Barriers of all pipes.
    pub all: usize,
    /// Barriers of all pipes inside loops over tiles, which are executed for every tile.
    pub all_in_tiles: usize,
    /// Barriers of one pipe.
    pub pipe: usize,
    /// Pairs of flag set and wait.
    pub flags: usize,
    /// Memory barriers (`dsb`).
    pub dsb: usize,
}

/// Counts the barriers and flags of a kernel.
pub fn counts(kernel: &Kernel) -> SyncCounts {
    let mut out = SyncCounts::default();
    count(&kernel.body, false, &mut out);
    out
}

fn count(list: &[Stmt], tiles: bool, out: &mut SyncCounts) {
    for s in list {
        match s {
            Stmt::Tiles { body, .. } => count(body, true, out),
            Stmt::Op(Op::Barrier(Barrier::All)) => {
                out.all += 1;
                out.all_in_tiles += usize::from(tiles);
            }
            Stmt::Op(Op::Barrier(Barrier::Pipe(_))) => out.pipe += 1,
            Stmt::Op(Op::WaitFlag { .. }) => out.flags += 1,
            Stmt::Op(Op::MemoryBarrier) => out.dsb += 1,
            other => other.blocks().for_each(|block| count(block, tiles, out)),
        }
    }
}
