//! Sizes of the blocks of matmuls, and of the panels of their operands.
//!
//! A block of a result is summed over slices of terms. Several slices of an operand are a panel,
//! which is loaded at once. All matmuls of a program use the same tiles, one set for each element
//! type, so the sizes follow from the memories of the device and from the element types of the
//! program alone, and kernels of different sizes are alike. Once the sizes that a kernel serves are
//! known, [`fit_blocks`] makes tiles smaller that none of its matmuls fills.

use crate::device::Device;
use crate::tile::visit::each_op;
use crate::tile::{Core, Kernel, Op, Space, Stmt, TileId};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::schedule::{LocalOp, SOp, SStmt, Schedule};
use kbc_ir::types::DType;
use std::collections::{BTreeMap, BTreeSet};

/// Most element types whose operands take turns: every type needs events of its own.
const MOST_TYPES_WITH_TURNS: u32 = 2;

/// Sizes of the tiles of matmuls.
pub(super) struct BlockSizes {
    /// Rows and columns of a block of a result.
    pub block: [u32; 2],
    /// Number of copies of the tiles of operands.
    pub copies: u32,
    /// Number that rows, columns and terms are multiples of.
    side: u32,
    /// Number of element types that share the memories.
    types: u32,
    /// Bytes of the memories of left operands, of right operands, and of the stage.
    bytes: [u32; 3],
}

impl BlockSizes {
    /// Returns the sizes for the matmuls of a schedule.
    pub(super) fn of(schedule: &Schedule, device: &dyn Device) -> BlockSizes {
        let mut types = BTreeSet::new();
        for role in schedule.regions.iter().flat_map(|r| &r.roles) {
            role.streams.iter().for_each(|s| multiplied(schedule, &s.body, &mut types));
        }
        let (limits, types) = (device.limits(), types.len().max(1) as u32);
        let [rows, mut cols] = limits.block;
        let side = limits.box_side.max(1);
        while cols > side && u64::from(rows) * u64::from(cols) * 4 > u64::from(device.bytes(Space::Sums)) {
            cols /= 2;
        }
        BlockSizes {
            block: [rows, cols],
            copies: if device.in_order() || types > MOST_TYPES_WITH_TURNS { 1 } else { 2 },
            side,
            types,
            bytes: [Space::Left, Space::Right, Space::Stage].map(|s| device.bytes(s)),
        }
    }

    /// Returns the number of terms of a slice and of a panel of operands of a type.
    pub(super) fn terms(&self, dtype: DType) -> [u32; 2] {
        let [rows, cols] = self.block.map(u64::from);
        let each = dtype.bytes() * u64::from(self.copies) * u64::from(self.types);
        // The largest power of two of boxes that fits.
        let fit = |bytes: u32, lines: u64| {
            let most = u64::from(bytes) / (each * lines.max(1));
            let mut n = u64::from(self.side);
            while 2 * n <= most {
                n *= 2;
            }
            n as u32
        };
        let slice = fit(self.bytes[0], rows).min(fit(self.bytes[1], cols));
        [slice, fit(self.bytes[2], rows + cols).max(slice)]
    }
}

/// Collects the element types of the operands of matmuls.
fn multiplied(schedule: &Schedule, list: &[SStmt], out: &mut BTreeSet<DType>) {
    for s in list {
        match s {
            SStmt::For { body, .. } => multiplied(schedule, body, out),
            SStmt::If { then, other, .. } => {
                multiplied(schedule, then, out);
                multiplied(schedule, other, out);
            }
            SStmt::Op(SOp::Local(LocalOp::Matmul { a: x, .. } | LocalOp::Grouped { x, .. }), _) => {
                out.insert(schedule.buffer(*x).dtype);
            }
            SStmt::Op(..) => {}
        }
    }
}

/// Makes the tiles of matmuls smaller where no matmul of the kernel fills them: to the rows,
/// columns and terms that are used at most, in whole boxes. Where a number depends on the size of a
/// launch, the tile stays as it is.
pub fn fit_blocks(kernel: &mut Kernel, device: &dyn Device) {
    let side = device.limits().box_side.max(1);
    let mut used = Used::default();
    each_matrix_body(kernel, &mut |body| used.list(body, &mut vec![]));
    let tiles = &kernel.tiles;
    let to_left = used.moves.iter().filter(|(dst, _)| tiles[dst.0 as usize].space == Space::Left);
    // Tiles of the stage from which left operands are moved.
    let left: BTreeSet<TileId> = to_left.map(|(_, src)| *src).collect();
    let up = |n: u32, to: u32| n.div_ceil(to).saturating_mul(to);
    let most = |space: Space, of: fn(&[u32; 2]) -> u32| -> u32 {
        let all = used.tiles.iter().filter(|(t, _)| kernel.tiles[t.0 as usize].space == space);
        all.map(|(_, n)| of(n)).max().unwrap_or(1)
    };
    let (rows, cols) = (up(most(Space::Sums, |n| n[0]), side), up(most(Space::Sums, |n| n[1]), side));
    // Terms of a slice and of a panel, by element type.
    let mut terms: BTreeMap<DType, [u32; 2]> = BTreeMap::new();
    for (t, [_, n]) in &used.tiles {
        let tile = &kernel.tiles[t.0 as usize];
        let entry = terms.entry(tile.dtype).or_insert([1, 1]);
        match tile.space {
            Space::Left => entry[0] = up(*n, side),
            Space::Stage if left.contains(t) => entry[1] = *n,
            _ => {}
        }
    }
    terms.values_mut().for_each(|[slice, panel]| *panel = up(*panel, (*slice).max(side)));
    for (i, tile) in kernel.tiles.iter_mut().enumerate() {
        let id = TileId(i as u32);
        let (true, [slice, panel]) =
            (used.tiles.contains_key(&id), terms.get(&tile.dtype).copied().unwrap_or([1, 1]))
        else {
            continue;
        };
        let size = match tile.space {
            Space::Vector => continue,
            Space::Stage if left.contains(&id) => [rows, panel],
            Space::Stage => [panel, cols],
            Space::Left => [rows, slice],
            Space::Right => [slice, cols],
            Space::Sums => [rows, cols],
        };
        (tile.rows, tile.elements) = (size[0].min(tile.rows), size[1].min(tile.elements));
    }
    let tiles: Vec<[u32; 2]> = kernel.tiles.iter().map(|t| [t.rows, t.elements]).collect();
    each_matrix_body(kernel, &mut |body| shorten(body, &|t| tiles[t.0 as usize]));
}

/// Calls `f` with every block of a kernel that a matrix core executes.
fn each_matrix_body(kernel: &mut Kernel, f: &mut impl FnMut(&mut Vec<Stmt>)) {
    if kernel.core == Core::Matrix {
        return f(&mut kernel.body);
    }
    for s in &mut kernel.body {
        if let Stmt::Task { core: Core::Matrix, body, .. } = s {
            f(body);
        }
    }
}

/// What the operations of matmuls use of their tiles.
#[derive(Default)]
struct Used {
    /// Most rows and columns.
    tiles: BTreeMap<TileId, [u32; 2]>,
    /// Destinations and sources of moves.
    moves: BTreeSet<(TileId, TileId)>,
}

impl Used {
    /// Notes what a list uses. `lengths`: the largest values of the lengths around it.
    fn list(&mut self, list: &[Stmt], lengths: &mut Vec<(Name, u32)>) {
        for s in list {
            match s {
                Stmt::Tiles { len, total, step, body, .. } => {
                    let most = largest(total, lengths).map_or(*step, |n| n.clamp(1, *step));
                    lengths.push((len.clone(), most));
                    self.list(body, lengths);
                    lengths.pop();
                }
                Stmt::Op(op) => {
                    for (t, size) in sizes(op) {
                        let most = self.tiles.entry(t).or_insert([1, 1]);
                        for (n, e) in most.iter_mut().zip(size) {
                            *n = largest(e, lengths).unwrap_or(u32::MAX).max(*n);
                        }
                    }
                    if let Op::Move { dst, src, .. } = op {
                        self.moves.insert((*dst, *src));
                    }
                }
                other => other.blocks().for_each(|block| self.list(block, lengths)),
            }
        }
    }
}

/// Returns the tiles of an operation of a matmul with the numbers of their rows and columns.
fn sizes(op: &Op) -> Vec<(TileId, [&Expr; 2])> {
    match op {
        Op::LoadBlock { tile, rows, cols, .. } | Op::StoreBlock { tile, rows, cols, .. } => {
            vec![(*tile, [rows, cols])]
        }
        Op::Move { dst, rows, cols, .. } => vec![(*dst, [rows, cols])],
        Op::Matmul { dst, left, right, m, n, k, .. } => {
            vec![(*dst, [m, n]), (*left, [m, k]), (*right, [k, n])]
        }
        _ => vec![],
    }
}

/// Returns the largest value of an expression that is a number or the length of a tile.
fn largest(e: &Expr, lengths: &[(Name, u32)]) -> Option<u32> {
    match e {
        Expr::Int(n) => u32::try_from((*n).max(0)).ok(),
        Expr::Var(n) => lengths.iter().rev().find(|(l, _)| l == n).map(|(_, most)| *most),
        _ => None,
    }
}

/// Shortens loops over tiles to the sizes of the tiles whose operations have their lengths.
fn shorten(list: &mut [Stmt], size: &impl Fn(&TileId) -> [u32; 2]) {
    for s in list {
        match s {
            Stmt::Tiles { len, step, body, .. } => {
                let length = Expr::Var(len.clone());
                each_op(body, &mut |op| {
                    for (t, dims) in sizes(op) {
                        for (e, most) in dims.into_iter().zip(size(&t)) {
                            *step = if *e == length { most.min(*step) } else { *step };
                        }
                    }
                });
                shorten(body, size);
            }
            other => other.blocks_mut().for_each(|block| shorten(block, size)),
        }
    }
}
