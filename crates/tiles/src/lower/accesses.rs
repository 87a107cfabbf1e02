//! What operations of a region touch, and the names of a region with their values on a rank.

use kbc_ir::name::Name;
use kbc_ir::schedule::{BufferId, Ref, Region, RegionId, SOp, Schedule};
use kbc_ir::walk::Program;

/// Buffers that an operation reads and writes: on this rank, and at a peer.
pub(super) struct Touched {
    pub(super) reads: Vec<BufferId>,
    pub(super) writes: Vec<BufferId>,
    pub(super) remote: Vec<BufferId>,
}

pub(super) fn touched(region: &Region, op: &SOp) -> Touched {
    let of = |r: &Ref| match r {
        Ref::Chunk { operand, .. } => vec![region.operands[operand.0 as usize].buffer],
        Ref::Slot { .. } => vec![],
    };
    let (reads, writes, remote) = match op {
        SOp::Copy { dst, src } => (of(src), of(dst), vec![]),
        SOp::Reduce { dst, src, .. } => ([of(dst), of(src)].concat(), of(dst), vec![]),
        SOp::Put { src, dst, .. } => (of(src), vec![], of(dst)),
        SOp::Get { dst, src, .. } => (vec![], of(dst), of(src)),
        SOp::Local(l) => (l.srcs(), vec![l.dst()], vec![]),
        _ => (vec![], vec![], vec![]),
    };
    Touched { reads, writes, remote }
}

/// Returns the values of names on a rank in a region.
pub(super) fn names(s: &Schedule, program: &Program<'_>, id: RegionId, rank: u64) -> Vec<(Name, i64)> {
    // An expression that depends on the number of the call has no value here, so its copy stays.
    let mut out: Vec<(Name, i64)> = vec![];
    out.extend(s.mesh.axes.iter().map(|a| a.name.clone()).zip(s.mesh.coords(rank)));
    let coords = &s.regions[id.0 as usize].coords;
    let index = program.group_index(id, rank);
    let mut below: u64 = coords.iter().map(|c| c.1).product();
    for (name, size) in coords {
        below /= (*size).max(1);
        out.push((name.clone(), (index / below.max(1) % size) as i64));
    }
    out
}
