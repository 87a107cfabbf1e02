//! Words of plans: where a kernel finds the pointers, sizes and strides of its operands.
//!
//! The module owns the layout. [`super::plan`] fills the words, and kernels and [`super::calls`]
//! read them.

use kbc_ir::tiles::TileKernel;

/// Words of a matmul's plan.
pub(super) mod product {
    pub(in super::super) const A: usize = 0;
    pub(in super::super) const B: usize = 1;
    pub(in super::super) const C: usize = 2;
    pub(in super::super) const M: usize = 3;
    pub(in super::super) const K: usize = 4;
    pub(in super::super) const N: usize = 5;
    pub(in super::super) const BATCHES: usize = 6;
    /// Whether the elements are i32.
    pub(in super::super) const INTEGER: usize = 7;
    /// Addresses from which halves are widened and to which they are narrowed, and their number.
    pub(in super::super) const HALVES: [(usize, usize); 3] = [(8, 9), (10, 11), (12, 13)];
    /// For each batch, the numbers of its left and of its right matrix.
    pub(in super::super) const PAIRS: usize = 14;
}

/// Words of the other kernels: source, destination, then those that their kind needs.
pub(super) const SRC: usize = 0;
pub(super) const DST: usize = 1;
/// Number of elements, or of outer blocks.
pub(super) const OUTER: usize = 2;
/// Size of the dimension that is cut or reduced.
pub(super) const SIZE: usize = 3;
/// Elements (or bytes, if elements only move) per element of that dimension.
pub(super) const INNER: usize = 4;
/// First element and number of elements of that dimension that are taken (slice).
pub(super) const FIRST: usize = 5;
pub(super) const TAKEN: usize = 6;
/// Numbers of rows, and a row of zeros (embedding).
pub(super) const IDS: usize = 6;
pub(super) const ZEROS: usize = 7;
/// Scratch memory of a reduction of halves: the source and the result in f32.
pub(super) const ROOM_SRC: usize = 5;
pub(super) const ROOM_DST: usize = 6;

/// Returns the words of a kernel of tiles: pointers of its operands and its result, number of
/// elements of each variable, then for each side the byte stride of each dimension.
pub(super) fn of_tiles(
    kernel: &TileKernel,
    pointers: &[i64],
    extents: &[u64],
    shapes: &[&[u64]],
) -> Vec<i64> {
    let mut out = pointers.to_vec();
    out.extend(extents.iter().map(|n| *n as i64));
    for (side, shape) in kernel.params.iter().chain([&kernel.result]).zip(shapes) {
        for d in 0..shape.len() {
            out.push((shape[d + 1..].iter().product::<u64>() * side.dtype.bytes()) as i64);
        }
    }
    out
}

/// Returns the number of dimensions before the run that the operand and its transpose have in
/// common.
pub(super) fn moving(perm: &[u32]) -> usize {
    let kept = perm.iter().enumerate().rev().take_while(|(i, d)| *i == **d as usize).count();
    perm.len() - kept
}
