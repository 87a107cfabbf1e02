//! Addresses as machine code: the peers, chunks, slots and counters of operations.
//!
//! The module owns the closed forms of `kbc_ir::walk` (`Cursor::peer`, `chunk`, `pair`, `counter`),
//! with the same checks; a failed check is a fault. Chunks are cut by the rules of [`kbc_ir::cut`].
//! [`super::number`] emits the numbers.

use super::number::{Emit, Num};
use super::tables::Entry;
use kbc_ir::algebra::Algebra;
use kbc_ir::cut::{Chunks, Sized};
use kbc_ir::expr::BinOp;
use kbc_ir::parts::Parts;
use kbc_ir::resolved::Resolved;
use kbc_ir::schedule::{OperandId, Part, QueueId, Ref, SignalId};
use kbc_ir::types::CutRule;
use kbc_ir::walk::code::{CPart, CRef};

/// Elements of a memory in emitted code. Memories are numbered: buffers first, then windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryRange {
    pub(super) mem: u32,
    pub(super) start: Num,
    pub(super) len: Num,
}

/// Numbers in emitted code as an algebra of the rules of cuts. They are not negative.
struct Cuts<'e, 'a, 'f, 'p> {
    emit: &'e mut Emit<'a, 'f, 'p>,
    /// For given lengths: a table of all boundaries on all ranks, and the index of this rank's
    /// first boundary.
    listed: Option<(Entry, Num)>,
}

impl Algebra for Cuts<'_, '_, '_, '_> {
    type Num = Num;

    fn int(&mut self, v: u64) -> Num {
        Num::int(i64::try_from(v).unwrap_or(i64::MAX))
    }

    fn add(&mut self, a: &Num, b: &Num) -> Num {
        self.emit.binary(BinOp::Add, *a, *b)
    }

    fn sub(&mut self, a: &Num, b: &Num) -> Num {
        self.emit.binary(BinOp::Sub, *a, *b).within(0, i64::MAX)
    }

    fn mul(&mut self, a: &Num, b: &Num) -> Num {
        self.emit.binary(BinOp::Mul, *a, *b)
    }

    fn div(&mut self, a: &Num, b: &Num) -> Num {
        self.emit.binary(BinOp::Div, *a, *b)
    }

    fn rem(&mut self, a: &Num, b: &Num) -> Num {
        self.emit.binary(BinOp::Mod, *a, *b)
    }

    fn min(&mut self, a: &Num, b: &Num) -> Num {
        self.emit.binary(BinOp::Min, *a, *b)
    }

    fn known(&self, a: &Num) -> Option<u64> {
        a.constant().and_then(|v| u64::try_from(v).ok())
    }

    fn line(&mut self, unit: u64) -> Num {
        // Beyond 32 bits the bounds of the operation reject it, as they do every size.
        self.int(unit.clamp(1, u64::from(u32::MAX)))
    }

    fn listed(&mut self, _: &Parts, _: &Num, n: &Num, i: &Num) -> Num {
        // The boundaries of all rows are those of this line.
        let Some((bounds, first)) = self.listed else { return *n };
        let at = self.emit.binary(BinOp::Add, first, *i);
        self.emit.entry(bounds.table, at, bounds.range).within(0, i64::MAX)
    }
}

impl Emit<'_, '_, '_> {
    /// Emits the linear number of a peer.
    pub(super) fn peer(&mut self, region: usize, coords: &[Resolved], base: usize) -> Num {
        let sizes = &self.program.schedule.regions[region].coords;
        if coords.len() != sizes.len() {
            self.refuse_always();
            return Num::int(0);
        }
        let mut index = Num::int(0);
        for (c, (_, size)) in coords.iter().zip(sizes) {
            let v = self.expr(c);
            let v = self.bounded(v, 0, *size as i64 - 1);
            let scaled = self.binary(BinOp::Mul, index, Num::int(*size as i64));
            index = self.binary(BinOp::Add, scaled, v);
        }
        let mut out = self.slot(base);
        for (size, stride, g) in self.program.regions[region].axes.clone() {
            let digit = self.binary(BinOp::Div, index, Num::int(g as i64));
            let digit = self.binary(BinOp::Mod, digit, Num::int(size as i64));
            let moved = self.binary(BinOp::Mul, digit, Num::int(stride as i64));
            out = self.binary(BinOp::Add, out, moved);
        }
        out.within(0, self.program.ranks() as i64 - 1)
    }

    /// Emits a chunk of an operand as rank `on` sees it.
    fn chunk(&mut self, region: usize, operand: OperandId, path: &[CPart], on: Num) -> MemoryRange {
        let (program, operand) = (self.program, operand.0);
        let (buffer, line) = &program.regions[region].operands[operand as usize];
        let listed = matches!(line.rule, CutRule::Lengths(_)).then(|| {
            let bounds = self.tables.bounds(region, operand, line, program);
            let first = self.binary(BinOp::Mul, on, Num::int(line.parts as i64 + 1));
            if !bounds.range.nonnegative() {
                // Every boundary of a rank is missing if one is.
                let at = self.entry(bounds.table, first, bounds.range);
                self.bounded(at, 0, i64::MAX);
            }
            (bounds, first)
        });
        let mut cuts = Cuts { emit: self, listed };
        let mut at = Chunks::whole(&mut cuts);
        for (i, Part { index, len, of }) in path.iter().enumerate() {
            let e = &mut *cuts.emit;
            let (index, len, of) = (e.expr(index), e.expr(len), e.expr(of));
            let of = e.bounded(of, 1, i64::MAX);
            let index = e.bounded(index, 0, i64::MAX);
            let len = if i + 1 == path.len() { e.bounded(len, 0, i64::MAX) } else { e.bounded(len, 1, 1) };
            let end = e.binary(BinOp::Add, index, len);
            e.at_most(end, of);
            let most = of.within.limits().1;
            at = at.part(&mut cuts, (&index.within(0, most), &len.within(0, most), &of));
        }
        let e = &mut *cuts.emit;
        let extent = e.tables.extent(region, operand, line, program);
        let unit = e.tables.unit(region, operand, line, program);
        let have = e.tables.elements(*buffer, program);
        let extent = e.entry(extent.table, on, extent.range);
        let extent = e.bounded(extent, 0, i64::MAX);
        let unit = e.entry(unit.table, on, unit.range);
        let unit = e.bounded(unit, 0, i64::MAX);
        let line = Sized { parts: line.parts, rule: &line.rule, extent, unit, row: Num::int(0) };
        let start = line.address(&mut cuts, &at.num, &at.den);
        let after = at.end(&mut cuts);
        let end = line.address(&mut cuts, &after, &at.den);
        let e = &mut *cuts.emit;
        let have = e.entry(have.table, on, have.range);
        e.at_most(end, have);
        let len = cuts.sub(&end, &start);
        MemoryRange { mem: *buffer, start, len }
    }

    /// Emits two sides of one transfer, `a` on one rank and `b` on another. A slot takes its length
    /// from the other side.
    pub(super) fn pair(
        &mut self,
        region: usize,
        a: (&CRef, Num),
        b: (&CRef, Num),
    ) -> (MemoryRange, MemoryRange) {
        let mut side = |(r, on): (&CRef, Num)| match r {
            Ref::Chunk { operand, path } => Some(self.chunk(region, *operand, path, on)),
            Ref::Slot { .. } => None,
        };
        let (ca, cb) = (side(a), side(b));
        let Some(model) = ca.or(cb) else {
            self.refuse_always();
            let nothing = MemoryRange { mem: 0, start: Num::int(0), len: Num::int(0) };
            return (nothing, nothing);
        };
        let mut slot = |r: &CRef| match r {
            Ref::Chunk { .. } => model,
            Ref::Slot { window, slot } => {
                let w = self.program.schedule.window(*window);
                let s = self.expr(slot);
                let s = self.bounded(s, 0, w.slots as i64 - 1);
                let len = self.bounded(model.len, 0, w.capacity as i64);
                let start = self.binary(BinOp::Mul, s, Num::int(w.capacity as i64));
                MemoryRange { mem: self.program.schedule.buffers.len() as u32 + window.0, start, len }
            }
        };
        let a = ca.unwrap_or_else(|| slot(a.0));
        let b = cb.unwrap_or_else(|| slot(b.0));
        if ca.is_some() && cb.is_some() {
            self.at_most(a.len, b.len);
            self.at_most(b.len, a.len);
        }
        (a, b)
    }

    /// Emits the side of a `send` or `recv` that is memory. Returns None for a slot, which has no
    /// size of its own.
    pub(super) fn message(
        &mut self,
        region: usize,
        side: &CRef,
        queue: QueueId,
        me: Num,
    ) -> Option<MemoryRange> {
        let Ref::Chunk { operand, path } = side else { return None };
        let place = self.chunk(region, *operand, path, me);
        let capacity = self.program.schedule.queue(queue).capacity;
        let len = self.bounded(place.len, 0, i64::try_from(capacity).unwrap_or(i64::MAX));
        Some(MemoryRange { len, ..place })
    }

    /// Emits the number of a queue.
    pub(super) fn queue(&mut self, queue: QueueId, index: &Resolved) -> Num {
        let count = self.program.schedule.queue(queue).count as i64;
        let i = self.expr(index);
        let i = self.bounded(i, 0, count - 1);
        self.binary(BinOp::Add, i, Num::int(i64::from(self.program.queue_base[queue.0 as usize])))
    }

    /// Emits the number of a counter.
    pub(super) fn counter(&mut self, signal: SignalId, index: &Resolved) -> Num {
        let count = self.program.schedule.signal(signal).count as i64;
        let i = self.expr(index);
        let i = self.bounded(i, 0, count - 1);
        self.binary(BinOp::Add, i, Num::int(i64::from(self.program.counter_base[signal.0 as usize])))
    }
}
