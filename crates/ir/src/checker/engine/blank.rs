//! Memory that holds nothing, or the zeros it was filled with.
//!
//! Owns the account of what was written before it is read; contents that a promise speaks of are [`super::Meaning`]'s.

use super::Engine;
use crate::checker::contents::Contents;
use crate::checker::order::Acc;
use crate::expr::Expr;
use crate::schedule::BufferId;
use crate::types::CutRule;
use crate::walk::{Access, Cursor, Mem};
use kbc_diag::{Diagnostic, Span};
use std::ops::Range;

impl<C: Contents> Engine<'_, C> {
    pub(super) fn unwritten(&mut self, rank: u64, buffer: u32, call: u64, span: Span) {
        let setup = self.setup;
        let b = setup.schedule.buffer(BufferId(buffer));
        self.report.push("E344", span, b.span, || {
            Diagnostic::error(
                "E344",
                format!("%{} of rank {} holds nothing in call {call}", b.name, setup.rank(rank)),
            )
            .primary(span, "read here, and not written before in this call")
            .help("buffers but inputs hold nothing at the start of a call")
        });
    }

    /// Whether a stream is where no promise says what places hold, so that each must have been written.
    pub(super) fn strict(&self, si: usize) -> bool {
        let region = self.streams[si].cursor.as_ref().and_then(Cursor::region);
        region.is_none_or(|r| !self.setup.regions[r.0 as usize].promised)
    }

    /// A place that is read was written: a buffer's in this call, a slot's in any.
    pub(super) fn holds(&mut self, si: usize, rep: usize, place: usize, mem: Mem, span: Span) {
        let (setup, call) = (self.setup, self.streams[si].call);
        let rank = setup.group.reps[rep];
        let last = self.order.last_write(rep * setup.grids.places + place);
        match mem {
            // A rank that has no part of a tensor holds all there is of it.
            Mem::Buffer(b) if setup.program.elements(BufferId(b), rank).is_ok_and(|n| n == 0) => {}
            Mem::Buffer(b) => {
                if last.is_none_or(|w| (self.order.call_of(&w) as u64) < call) {
                    self.unwritten(rank, b, call, span);
                }
            }
            Mem::Slot(w, slot) => {
                let w = &setup.schedule.windows[w as usize];
                if last.is_none() && !w.zero {
                    self.report.push("E344", span, w.span, || {
                        let text = format!("@{}[{slot}] of rank {} holds nothing", w.name, setup.rank(rank));
                        Diagnostic::error("E344", text)
                            .primary(span, "read here, and never written before")
                            .help("fill the slot first, or declare the window `zero`")
                    });
                }
            }
        }
    }

    /// Whether memory holds the zeros it was filled with, and nothing else yet.
    pub(super) fn zeros(&self, si: usize, rep: usize, a: &Access) -> bool {
        let (setup, call) = (self.setup, self.streams[si].call as usize);
        let zero = match a.mem {
            Mem::Buffer(b) => setup.schedule.buffers[b as usize].zero,
            Mem::Slot(w, _) => setup.schedule.windows[w as usize].zero,
        };
        if !zero || a.len == 0 {
            return false;
        }
        let untouched = |last: Option<Acc>| match (a.mem, last) {
            (Mem::Slot(..), last) => last.is_none(),
            (Mem::Buffer(_), None) => false,
            (Mem::Buffer(b), Some(w)) => {
                setup.host(w.op) == Some((b as usize, true)) && self.order.call_of(&w) == call
            }
        };
        setup.grids.of(a, rep).all(|p| untouched(self.order.last_write(rep * setup.grids.places + p)))
    }

    /// The block of a line that is one part of a tensor: the places that packing or unpacking the part `at` touches.
    /// All of the line where the block cannot be told.
    pub(super) fn block(
        &self,
        rep: usize,
        line: BufferId,
        (part, dim): (BufferId, u32),
        (parts, rule): (u64, &CutRule),
        at: &Expr,
    ) -> Range<usize> {
        let setup = self.setup;
        let (program, rank) = (&setup.program, setup.group.reps[rep]);
        let block = || {
            if setup.grids.parts(line.0).is_some_and(|(_, n)| n % parts != 0) {
                return None;
            }
            let index = u64::try_from(program.local_value(at, rank).ok()?).ok().filter(|i| *i < parts)?;
            let dims = program.dims(part, rank).ok()?;
            let unit: u64 =
                dims.iter().enumerate().filter(|(d, _)| *d != dim as usize).map(|(_, n)| n).product();
            let n = program.elements(line, rank).ok()?.checked_div(unit)?;
            let (lo, hi) = (rule.boundary(n, index, parts), rule.boundary(n, index + 1, parts));
            let (num, den) = (index as i64, parts as i64);
            let (start, len) = (lo * unit, (hi - lo) * unit);
            Some(Access { mem: Mem::Buffer(line.0), start, len, num, cnt: 1, den, operand: u32::MAX })
        };
        block().map_or_else(|| setup.grids.whole(line, rep), |a| setup.grids.of(&a, rep))
    }

    pub(super) fn check_written(&mut self, rep: usize, buffer: u32, call: u64, span: Span) {
        if self.written[rep * self.setup.schedule.buffers.len() + buffer as usize] <= call {
            self.unwritten(self.setup.group.reps[rep], buffer, call, span);
        }
    }
}
