//! Fetches without scratch: data that is fetched and used at once is not stored.
//!
//! A schedule fetches what is added into scratch (`get`, `fence.complete`, `combine`), because
//! simulators and machine code need that. A core instead loads a tile of the peer's memory where it
//! would have loaded one of the scratch, and adds in the core. The module decides for which scratch
//! buffers this holds: those that are touched only by such sequences of adjacent operations.

use kbc_ir::schedule::{BufferId, BufferRole, Ref, Region, SOp, SStmt, Schedule};
use kbc_ir::uses::uses;
use std::collections::BTreeSet;

/// Returns the buffers of a schedule that its kernel does not have, because their contents are used
/// while they are fetched.
pub fn fetched(schedule: &Schedule) -> BTreeSet<BufferId> {
    let mut found = FetchedBuffers::default();
    for region in &schedule.regions {
        for stream in region.roles.iter().flat_map(|r| &r.streams) {
            found.list(region, &stream.body);
        }
    }
    let temporary = |b: &BufferId| {
        let buffer = schedule.buffer(*b);
        buffer.role == BufferRole::Temp && !buffer.zero
    };
    found.fetched.difference(&found.kept).copied().filter(temporary).collect()
}

/// Returns the buffer of a place.
pub(super) fn buffer_of(region: &Region, r: &Ref) -> Option<BufferId> {
    match r {
        Ref::Chunk { operand, .. } => Some(region.operands[operand.0 as usize].buffer),
        Ref::Slot { .. } => None,
    }
}

#[derive(Default)]
struct FetchedBuffers {
    /// Buffers that are fetched and used at once somewhere.
    fetched: BTreeSet<BufferId>,
    /// Buffers that are touched in another way somewhere.
    kept: BTreeSet<BufferId>,
}

impl FetchedBuffers {
    fn list(&mut self, region: &Region, list: &[SStmt]) {
        let mut at = 0;
        while at < list.len() {
            if let Some((buffer, length)) = used_at_once(region, &list[at..]) {
                self.fetched.insert(buffer);
                at += length;
                continue;
            }
            match &list[at] {
                SStmt::For { body, .. } => self.list(region, body),
                SStmt::If { then, other, .. } => {
                    self.list(region, then);
                    self.list(region, other);
                }
                SStmt::Op(op, _) => uses(region, op, &mut |b, _| _ = self.kept.insert(b)),
            }
            at += 1;
        }
    }
}

/// Checks whether a list begins with a get, its completion, and a reduction that adds only what was
/// fetched; this reduction may be the first one that writes the sum. Returns the scratch buffer and
/// the number of these statements.
fn used_at_once(region: &Region, list: &[SStmt]) -> Option<(BufferId, usize)> {
    let op = |i: usize| match list.get(i) {
        Some(SStmt::Op(op, _)) => Some(op),
        _ => None,
    };
    let (Some(SOp::Get { dst: waits, .. }), Some(SOp::FenceComplete)) = (op(0), op(1)) else { return None };
    let buffer = buffer_of(region, waits)?;
    let reduced = |at: usize| match op(at) {
        Some(SOp::Reduce { dst, src, .. }) => {
            (src == waits && buffer_of(region, dst) != Some(buffer)).then_some(dst)
        }
        _ => None,
    };
    if reduced(2).is_some() {
        return Some((buffer, 3));
    }
    let first = fused(list.get(2)?, list.get(3));
    let own = first.filter(|own| buffer_of(region, own) != Some(buffer));
    (own.is_some() && reduced(3).is_some()).then_some((buffer, 4))
}

/// Returns the source of a copy to a place into which the next operation reduces. The two become
/// one loop, in which the place is written once.
pub(super) fn fused<'s>(stmt: &'s SStmt, next: Option<&SStmt>) -> Option<&'s Ref> {
    match (stmt, next) {
        (
            SStmt::Op(SOp::Copy { dst, src }, _),
            Some(SStmt::Op(SOp::Reduce { dst: to, src: other, .. }, _)),
        ) if dst == to && matches!(src, Ref::Chunk { .. }) && other != to => Some(src),
        _ => None,
    }
}
