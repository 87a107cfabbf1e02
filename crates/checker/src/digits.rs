//! Digits of a rank's linear index: those of the mesh's axes and of the regions' coordinates.
//!
//! The module owns their strides and sizes. [`super::symmetry`] proposes digits that might move,
//! and [`super::proof`] proves that they do.

use kbc_ir::schedule::{Region, RegionId, Schedule};
use kbc_ir::walk::Program;

/// The reason why a digit does not move.
pub(super) type Reason = String;

/// The reason why schedules with queues are not symmetric.
pub(super) const QUEUES: &str = "queues are checked on every rank";

/// Returns a coordinate of a region as (stride, size) in the rank, if it is a digit of the rank.
pub(super) fn as_digit(program: &Program, region: RegionId, stride: u64, size: u64) -> Option<(u64, u64)> {
    let offset = |v: u64| program.group_rank(region, 0, v * stride);
    let unit = if size > 1 { offset(1) } else { return Some((1, 1)) };
    (0..size).all(|v| offset(v) == v * unit).then_some((unit, size))
}

/// Returns (stride, size) of digits of these sizes, the slowest first.
fn strides(sizes: impl DoubleEndedIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut next = 1;
    let mut out = vec![];
    for size in sizes.rev() {
        out.push((next, size));
        next *= size;
    }
    out.reverse();
    out
}

/// Returns the strides and sizes of a region's coordinates in its group.
pub(super) fn coord_strides(r: &Region) -> Vec<(u64, u64)> {
    strides(r.coords.iter().map(|c| c.1))
}

/// Returns the strides and sizes of the axes of the mesh.
pub(super) fn axis_digits(s: &Schedule) -> Vec<(u64, u64)> {
    strides(s.mesh.axes.iter().map(|a| a.size))
}

/// Whether two digits occupy disjoint ranges of the rank.
pub(super) fn disjoint(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 * a.1 <= b.0 || b.0 * b.1 <= a.0
}
