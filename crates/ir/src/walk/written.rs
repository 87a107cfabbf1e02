//! Written operations: operations that a cursor evaluates as they are written in the schedule, with
//! names in their expressions.
//!
//! A schedule with a role for every rank has millions of operations, each of which one rank
//! executes once per call. Their resolved form would take as much memory as the schedule itself,
//! and as much time as their evaluation. [`super::compile`] decides which operations are read like
//! this, and checks that their names exist. [`super::act`] evaluates them.

use crate::op::{Op, SOp};
use crate::schedule::SStmt;
use kbc_diag::Span;

/// A run of operations that few ranks execute, once per call. A schedule with a role for every rank
/// has millions of them, so their resolved form is not kept: a cursor evaluates them as they are
/// written, and [`super::Program::resolved`] resolves them for other readers. Their names have been
/// resolved before, so that they are known to exist.
#[derive(Clone, Copy, Default, Debug)]
pub struct Written<'s> {
    list: &'s [SStmt],
    /// Number of the first operation.
    first: u32,
}

impl<'s> Written<'s> {
    /// Creates a run of operations, of which `first` is the number of the first.
    pub(super) fn new(list: &'s [SStmt], first: u32) -> Written<'s> {
        Written { list, first }
    }
}

impl<'s> Iterator for Written<'s> {
    /// An operation, its source location, and its number in the schedule.
    type Item = (&'s SOp, Span, u32);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let [SStmt::Op(op, span), rest @ ..] = self.list else { return None };
        let number = self.first;
        *self = Written { list: rest, first: number + 1 };
        Some((op, *span, number))
    }
}

/// Checks whether an operation may be resolved when a stream comes to it: it names neither an
/// event, which is numbered, nor whole buffers, whose uses are looked up for all operations.
pub(super) fn may_wait(s: &SStmt) -> bool {
    let SStmt::Op(op, _) = s else { return false };
    match op {
        Op::Copy { .. }
        | Op::Reduce { .. }
        | Op::Put { .. }
        | Op::Get { .. }
        | Op::GetCombine { .. }
        | Op::Send { .. }
        | Op::Recv { .. }
        | Op::Room { .. }
        | Op::Notify { .. }
        | Op::Wait { .. }
        | Op::FenceRelease
        | Op::FenceAcquire
        | Op::FenceComplete => true,
        Op::Record(_) | Op::Await(_) | Op::Local(_) | Op::Mark(_) | Op::HostRead(_) | Op::Host(_) => false,
    }
}
