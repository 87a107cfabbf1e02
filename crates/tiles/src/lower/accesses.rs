//! What operations of a region touch, and the names of a region with their values on a rank.

use kbc_ir::name::Name;
use kbc_ir::op::OpPart;
use kbc_ir::schedule::{BufferId, LocalOp, Ref, Region, RegionId, SOp, Schedule};
use kbc_ir::walk::Program;

/// An operation that touches a buffer, by its address if it is a local one.
pub(super) type BufferUser = Option<*const LocalOp>;

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
    let mut out = Touched { reads: vec![], writes: vec![], remote: vec![] };
    op.parts(&mut |part| match part {
        OpPart::Near(side, r) => {
            if side.reads() {
                out.reads.extend(of(r));
            }
            if side.writes() {
                out.writes.extend(of(r));
            }
        }
        OpPart::Far(_, r) => out.remote.extend(of(r)),
        OpPart::Local(l) => {
            out.reads.extend(l.srcs());
            out.writes.push(l.dst());
        }
        OpPart::Combiner(_)
        | OpPart::Peer(_)
        | OpPart::Counter(_)
        | OpPart::Value(_)
        | OpPart::Queue(_)
        | OpPart::Event(_)
        | OpPart::Mark(_)
        | OpPart::Buffer(..)
        | OpPart::Host(_) => {}
    });
    out
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
