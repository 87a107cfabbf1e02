//! Uses of buffers: which buffers operations read and write.

use crate::op::OpPart;
use crate::schedule::{BufferId, HostCommand, Ref, RefUse, Region, SOp, SStmt, Schedule};

/// Checks whether operations of a region write a buffer on some rank: their own rank's, or a
/// peer's.
pub fn writes(r: &Region, b: BufferId) -> bool {
    any(r, b, |_, write| write)
}

/// Checks whether operations of a region read or write a buffer on some rank.
pub fn touches(r: &Region, b: BufferId) -> bool {
    any(r, b, |read, write| read || write)
}

/// Returns, for each buffer of a schedule, whether some operation writes it on some rank.
pub fn written(s: &Schedule) -> Vec<bool> {
    let mut out = vec![false; s.buffers.len()];
    for r in &s.regions {
        any_op(r, &mut |op| {
            uses(r, op, &mut |b, side| {
                if let Some(written) = out.get_mut(b.0 as usize) {
                    *written |= side.writes();
                }
            });
            false
        });
    }
    out
}

/// Checks whether `asked` holds for some operation of a region. Its arguments are whether the
/// operation reads, and whether it writes, the buffer.
fn any(r: &Region, b: BufferId, asked: impl Fn(bool, bool) -> bool) -> bool {
    any_op(r, &mut |op| {
        let (mut read, mut write) = (false, false);
        uses(r, op, &mut |used, side| {
            read |= used == b && side.reads();
            write |= used == b && side.writes();
        });
        asked(read, write)
    })
}

/// Passes on every buffer that an operation of a region uses, on its own rank or at a peer.
pub fn uses(r: &Region, op: &SOp, f: &mut dyn FnMut(BufferId, RefUse)) {
    let of = |x: &Ref| match x {
        Ref::Chunk { operand, .. } => r.operands.get(operand.0 as usize).map(|o| o.buffer),
        Ref::Slot { .. } => None,
    };
    op.parts(&mut |part| match part {
        OpPart::Near(side, x) | OpPart::Far(side, x) => of(x).into_iter().for_each(|b| f(b, side)),
        OpPart::Buffer(side, x) => f(*x, side),
        OpPart::Host(HostCommand::Write { dst, src }) => {
            f(*dst, RefUse::Write);
            f(*src, RefUse::Read);
        }
        OpPart::Local(l) => {
            f(l.dst(), RefUse::Write);
            l.srcs().into_iter().for_each(|b| f(b, RefUse::Read));
        }
        OpPart::Combiner(_)
        | OpPart::Peer(_)
        | OpPart::Counter(_)
        | OpPart::Value(_)
        | OpPart::Queue(_)
        | OpPart::Event(_)
        | OpPart::Mark(_)
        | OpPart::Host(HostCommand::Launch(_) | HostCommand::Wait(_) | HostCommand::Drain) => {}
    });
}

/// Checks whether `f` holds for some operation of a region.
fn any_op(r: &Region, f: &mut dyn FnMut(&SOp) -> bool) -> bool {
    fn list(all: &[SStmt], f: &mut dyn FnMut(&SOp) -> bool) -> bool {
        all.iter().any(|st| match st {
            SStmt::For { body, .. } => list(body, f),
            SStmt::If { then, other, .. } => list(then, f) || list(other, f),
            SStmt::Op(op, _) => f(op),
        })
    }
    r.roles.iter().flat_map(|x| &x.streams).any(|st| list(&st.body, f))
}
