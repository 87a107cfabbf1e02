//! Parts of buffers in the memory of the whole: which slices of a buffer, and which pieces that
//! become one buffer, need no memory of their own and no copy.
//!
//! A slice of the first dimension is read where it is, if nothing writes the whole after it.
//! Pieces that are put together in a line are written where they end up, if nothing reads the line
//! before the last of them. Both hold only for temporary buffers that no peer reaches.

use super::accesses::touched;
use super::lanes::local;
use kbc_ir::schedule::{BufferId, BufferRole, LocalOp, SOp, SStmt, Schedule, each_op};
use std::collections::{BTreeMap, BTreeSet};

/// The operations that touch a buffer, by their numbers in the text.
#[derive(Clone, Default)]
struct Touches {
    /// Numbers of all of them, in order.
    all: Vec<usize>,
    /// Numbers of those that write it.
    written: Vec<usize>,
    /// Whether peers reach it.
    remote: bool,
}

/// An operation that every rank executes once in a call.
struct Once<'s> {
    number: usize,
    op: &'s LocalOp,
}

/// Returns the parts of other buffers, each with the operation that copies between the part and the
/// whole. The answer does not depend on sizes, so that kernels for several sizes are alike.
pub(super) fn parts(schedule: &Schedule) -> BTreeMap<BufferId, LocalOp> {
    let (touches, ops) = looked(schedule);
    let mut out = BTreeMap::new();
    let mut lines: BTreeMap<BufferId, Vec<&Once<'_>>> = BTreeMap::new();
    for once in &ops {
        match once.op {
            LocalOp::Slice { dst, src, dim: 0, .. }
                if is_read_in_place(schedule, &touches, once.number, *dst, *src) =>
            {
                out.insert(*dst, once.op.clone());
            }
            LocalOp::Pack { dst, at: Some(_), .. } => lines.entry(*dst).or_default().push(once),
            _ => {}
        }
    }
    for packs in lines.values() {
        if are_written_in_place(schedule, &touches, packs) {
            for once in packs {
                out.entry(once.op.srcs()[0]).or_insert_with(|| once.op.clone());
            }
        }
    }
    out
}

/// Returns what touches each buffer, and the local operations that every rank executes once.
fn looked(schedule: &Schedule) -> (Vec<Touches>, Vec<Once<'_>>) {
    let mut touches = vec![Touches::default(); schedule.buffers.len()];
    let mut ops = vec![];
    let mut number = 0;
    for region in &schedule.regions {
        let all = local(region);
        for stmt in region.roles.iter().flat_map(|r| &r.streams).flat_map(|s| &s.body) {
            if let (true, SStmt::Op(SOp::Local(op), _)) = (all, stmt) {
                ops.push(Once { number: number + 1, op });
            }
            each_op(std::slice::from_ref(stmt), &mut |op, _| {
                number += 1;
                let t = touched(region, op);
                for b in t.reads.iter().chain(&t.writes).chain(&t.remote) {
                    let own = &mut touches[b.0 as usize];
                    if own.all.last() != Some(&number) {
                        own.all.push(number);
                    }
                }
                t.writes.iter().for_each(|b| touches[b.0 as usize].written.push(number));
                t.remote.iter().for_each(|b| touches[b.0 as usize].remote = true);
            });
        }
    }
    (touches, ops)
}

/// Checks whether a buffer can be in the memory of another one at all.
fn fits(schedule: &Schedule, touches: &[Touches], part: BufferId, whole: BufferId) -> bool {
    let (p, w) = (schedule.buffer(part), schedule.buffer(whole));
    let remote = |b: BufferId| touches[b.0 as usize].remote;
    p.role == BufferRole::Temp && !p.zero && p.dtype == w.dtype && !remote(part) && !remote(whole)
}

/// Checks whether a slice that operation `number` makes of a buffer can be read in that buffer.
fn is_read_in_place(
    s: &Schedule,
    touches: &[Touches],
    number: usize,
    part: BufferId,
    whole: BufferId,
) -> bool {
    let (p, w) = (&touches[part.0 as usize], &touches[whole.0 as usize]);
    fits(s, touches, part, whole) && p.written == [number] && w.written.last().is_none_or(|n| *n < number)
}

/// Checks whether pieces can be written in the line into which these operations put them, all that
/// do so.
fn are_written_in_place(s: &Schedule, touches: &[Touches], packs: &[&Once<'_>]) -> bool {
    let (mut places, mut pieces) = (BTreeSet::new(), BTreeSet::new());
    let mut form = None;
    for once in packs {
        let LocalOp::Pack { dst, src, dim, parts, rule, at: Some(at) } = once.op else { return false };
        let own = &touches[src.0 as usize];
        let alike = *form.get_or_insert((dim, parts, rule)) == (dim, parts, rule);
        let apart = at.as_int().is_some_and(|at| places.insert(at)) && pieces.insert(*src);
        let last = own.all.last() == Some(&once.number);
        if !alike || !apart || !last || !fits(s, touches, *src, *dst) || s.buffer(*dst).zero {
            return false;
        }
    }
    // Nothing but these operations touches the line before the last of them.
    let line = packs.first().map(|once| &touches[once.op.dst().0 as usize]);
    line.is_some_and(|line| {
        let first = line.all.iter().take(packs.len()).copied();
        first.eq(packs.iter().map(|p| p.number)) && line.written.len() == packs.len()
    })
}
