//! Double buffering: loops over tiles take turns between two copies of their tiles, so that a
//! transfer runs while the previous tile is computed and stored.
//!
//! A loop over tiles of a vector core may take turns under these conditions: its body consists of
//! operations and loops of operations, it begins with a load and ends with a store, and no value in
//! its tiles is carried into an iteration or used after it. Pass `flags` inserts the
//! synchronisation of the copies. Tiles of matmuls already have their copies; they become smaller
//! where no matmul fills them.

use crate::profile::Profile;
use kbc_diag::Diagnostics;
use kbc_tiles::lower;
use kbc_tiles::tile::hazard::Touched;
use kbc_tiles::tile::{Core, Kernel, Op, Space, Stmt, TileId, tasks};
use std::collections::BTreeSet;

/// Marks the loops and gives their tiles a second copy. Tiles become shorter if the memory requires
/// it.
pub fn run(kernel: &mut Kernel, profile: &Profile) -> Result<(), Diagnostics> {
    let mut turned = BTreeSet::new();
    tasks::each(kernel, |k| {
        if k.core == Core::Vector {
            let carried = live_across_blocks(k);
            let ub = |t: &TileId| k.tile(*t).space == Space::Vector;
            let ub: BTreeSet<TileId> = (0..k.tiles.len() as u32).map(TileId).filter(ub).collect();
            mark(&mut k.body, &|t| ub.contains(t) && !carried.contains(t), &mut turned);
        }
        Ok::<(), Diagnostics>(())
    })?;
    for t in turned {
        kernel.tiles[t.0 as usize].copies = 2;
    }
    lower::fit_tiles(kernel, profile);
    lower::fit_blocks(kernel, profile);
    Ok(())
}

/// Returns the tiles of an operation, each with whether the first access to it is a write.
fn first_uses(op: &Op) -> Vec<(TileId, bool)> {
    let mut out: Vec<(TileId, bool)> = vec![];
    for a in op.accesses() {
        if let Touched::Tile(t, _) = a.touched
            && out.iter().all(|(u, _)| *u != t)
        {
            out.push((t, a.write));
        }
    }
    out
}

/// Returns the tiles whose values outlive a block: those that a block reads without having written
/// them. A loop inside an iteration over tiles, for instance over messages, may read what the
/// iteration wrote before it.
fn live_across_blocks(kernel: &Kernel) -> BTreeSet<TileId> {
    fn look(list: &[Stmt], mut written: BTreeSet<TileId>, inside: bool, out: &mut BTreeSet<TileId>) {
        for s in list {
            let known = |tiles: bool| if inside && !tiles { written.clone() } else { BTreeSet::new() };
            match s {
                Stmt::Op(op) => {
                    for (t, write) in first_uses(op) {
                        if write {
                            written.insert(t);
                        } else if !written.contains(&t) {
                            out.insert(t);
                        }
                    }
                }
                Stmt::Tiles { body, .. } => look(body, known(true), true, out),
                other => other.blocks().for_each(|block| look(block, known(false), inside, out)),
            }
        }
    }
    let mut out = BTreeSet::new();
    look(&kernel.body, BTreeSet::new(), false, &mut out);
    out
}

fn mark(list: &mut [Stmt], free: &impl Fn(&TileId) -> bool, turned: &mut BTreeSet<TileId>) {
    for s in list {
        match s {
            Stmt::Tiles { twice, body, .. } if may(body, free) => {
                *twice = true;
                operations(body, &mut |op| turned.extend(first_uses(op).into_iter().map(|(t, _)| t)));
            }
            other => other.blocks_mut().for_each(|block| mark(block, free, turned)),
        }
    }
}

/// Calls `f` with every operation. Returns false if the body has a statement that is not allowed in
/// a loop whose tiles take turns.
fn operations(body: &[Stmt], f: &mut impl FnMut(&Op)) -> bool {
    let mut all = true;
    for s in body {
        all &= match s {
            Stmt::Op(op) => {
                f(op);
                true
            }
            Stmt::For { body, .. } => operations(body, f),
            Stmt::Let { .. } | Stmt::Note { .. } => true,
            Stmt::Tiles { .. } | Stmt::Turn { .. } | Stmt::If { .. } | Stmt::Task { .. } => false,
        };
    }
    all
}

fn may(body: &[Stmt], free: &impl Fn(&TileId) -> bool) -> bool {
    let mut own = true;
    let plain = operations(body, &mut |op| own &= first_uses(op).iter().all(|(t, _)| free(t)));
    let loads = matches!(body.first(), Some(Stmt::Op(Op::Load { .. } | Op::LoadRows { .. })));
    plain && own && loads && stores(body)
}

/// Checks whether the last operation is a store.
fn stores(body: &[Stmt]) -> bool {
    match body.last() {
        Some(Stmt::Op(op)) => matches!(op, Op::Store { .. } | Op::StoreRows { .. }),
        Some(Stmt::For { body, .. }) => stores(body),
        _ => false,
    }
}
