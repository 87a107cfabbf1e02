//! Shares: the parts of a matmul's result that the matrix cores of a rank compute, each without
//! waiting for another.
//!
//! The module owns how many parts each dimension of a result is cut in. [`super::matrix_cores`]
//! owns where the parts begin. Matrices of a batch are divided first, then rows, then columns, each
//! in at most as many parts as it has blocks. Sums are never divided, so every element is the same
//! sum in the same order on any number of cores.

use kbc_ir::schedule::BufferId;
use std::collections::BTreeMap;

/// How the matmuls of a program are divided, by the buffer that a matmul writes. The first kernel
/// of a program chooses, by its sizes; kernels at other sizes are divided in the same way, so that
/// they can be one kernel.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Shares {
    pub(super) parts: BTreeMap<BufferId, Vec<u32>>,
}

impl Shares {
    /// Returns in how many parts each dimension of a matmul's result is cut: dimensions of a batch,
    /// rows, columns.
    pub(super) fn parts(&self, dst: BufferId) -> &[u32] {
        self.parts.get(&dst).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of cores that compute a result.
    pub(super) fn cores(&self, dst: BufferId) -> u32 {
        self.parts(dst).iter().product()
    }
}

/// A dimension of a result that can be cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Its size.
    pub size: u64,
    /// The number of which the first elements of parts are multiples.
    pub unit: u64,
    /// Most parts.
    pub parts: u64,
}

/// Returns in how many parts each dimension is cut for at most `cores` cores: such that the largest
/// part of the work is as small as possible, with as few cores as that takes, and with the parts in
/// the first dimensions.
pub(super) fn divide(extents: &[Extent], cores: u64) -> Vec<u32> {
    fn search(
        rest: &[Extent],
        cores: u64,
        largest: u128,
        at: &mut Vec<u32>,
        best: &mut (u128, u64, Vec<u32>),
    ) {
        let Some((e, rest)) = rest.split_first() else {
            let used = at.iter().map(|n| u64::from(*n)).product();
            // Divisions come with the most parts in the first dimensions last.
            if (largest, used) <= (best.0, best.1) {
                *best = (largest, used, at.clone());
            }
            return;
        };
        for n in 1..=e.parts.clamp(1, cores.max(1)) {
            at.push(n as u32);
            let part = u128::from(e.size.div_ceil(e.unit.max(1)).div_ceil(n).max(1));
            search(rest, cores / n, largest.saturating_mul(part), at, best);
            at.pop();
        }
    }
    let mut best = (u128::MAX, u64::MAX, vec![]);
    search(extents, cores, 1, &mut vec![], &mut best);
    best.2
}
