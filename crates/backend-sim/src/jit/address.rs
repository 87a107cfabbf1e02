//! Addresses as machine code: the peers, chunks, slots and counters of operations.
//!
//! The module owns the closed forms of `kbc_ir::walk` (`Cursor::peer`, `chunk`, `pair`, `counter`,
//! `Program::boundary`), with the same checks; a failed check is a fault. [`super::number`] emits
//! the numbers.

use super::number::{Emit, Num};
use super::tables::Entry;
use kbc_ir::resolved::Resolved;
use kbc_ir::schedule::{OperandId, Part, QueueId, Ref, SignalId};
use kbc_ir::types::CutRule;
use kbc_ir::walk::code::{CPart, CRef};

/// Elements of a memory in emitted code. Memories are numbered: buffers first, then windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) mem: u32,
    pub(super) start: Num,
    pub(super) len: Num,
}

/// How a line is cut on a rank; corresponds to [`CutRule`].
enum Blocks {
    Even,
    Ceil,
    /// At multiples of this number of elements.
    Lines(i64),
    /// A table of all boundaries on all ranks, and the index of this rank's first boundary.
    Listed(Entry, Num),
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
            let scaled = self.mul(index, Num::int(*size as i64));
            index = self.add(scaled, v);
        }
        let mut out = self.slot(base);
        for (size, stride, g) in self.program.regions[region].axes.clone() {
            let digit = self.div(index, Num::int(g as i64));
            let digit = self.rem(digit, Num::int(size as i64));
            let moved = self.mul(digit, Num::int(stride as i64));
            out = self.add(out, moved);
        }
        out.within(0, self.program.ranks() as i64 - 1)
    }

    /// Emits the first element of chunk `num` of `den` of `n` elements in `parts` blocks, as
    /// `Program::boundary` computes it.
    fn boundary(&mut self, (parts, rule): (u64, &Blocks), size: (Num, Num), num: Num, den: Num) -> Num {
        let (extent, unit) = size;
        let parts_n = Num::int(parts as i64);
        if parts == 1 {
            let whole = self.mul(unit, extent);
            let scaled = self.mul(whole, num);
            return self.div_up(scaled, den);
        }
        let scaled = self.mul(num, parts_n);
        let (block, rest) = (self.div(scaled, den), self.rem(scaled, den));
        let low = self.min(block, parts_n);
        let start = self.cut(rule, extent, low, parts);
        let start = self.mul(start, unit);
        let next = self.add(block, Num::int(1));
        let next = self.min(next, parts_n);
        let end = self.cut(rule, extent, next, parts);
        let end = self.mul(end, unit);
        // If the remainder is 0, this adds nothing.
        let length = self.sub(end, start).within(0, i64::MAX);
        let inside = self.mul(length, rest);
        let inside = self.div_up(inside, den);
        self.add(start, inside)
    }

    fn div_up(&mut self, a: Num, b: Num) -> Num {
        let less = self.sub(b, Num::int(1));
        let up = self.add(a, less);
        self.div(up, b)
    }

    /// Emits boundary i of n elements in k parts, as `CutRule::boundary` computes it.
    fn cut(&mut self, rule: &Blocks, n: Num, i: Num, k: u64) -> Num {
        let k = Num::int(k as i64);
        match rule {
            Blocks::Even => {
                let scaled = self.mul(n, i);
                self.div_up(scaled, k)
            }
            Blocks::Ceil => {
                let each = self.div_up(n, k);
                let at = self.mul(each, i);
                self.min(at, n)
            }
            Blocks::Lines(unit) => {
                let unit = Num::int(*unit);
                let (scaled, lines) = (self.mul(n, i), self.mul(k, unit));
                let at = self.div_up(scaled, lines);
                let at = self.mul(at, unit);
                self.min(at, n)
            }
            Blocks::Listed(bounds, first) => {
                let at = self.add(*first, i);
                let at = self.entry(bounds.table, at, bounds.range);
                self.bounded(at, 0, i64::MAX)
            }
        }
    }

    /// Emits a chunk of an operand as rank `on` sees it.
    fn chunk(&mut self, region: usize, operand: OperandId, path: &[CPart], on: Num) -> Place {
        let (mut num, mut cnt, mut den) = (Num::int(0), Num::int(1), Num::int(1));
        for (i, Part { index, len, of }) in path.iter().enumerate() {
            let (index, len, of) = (self.expr(index), self.expr(len), self.expr(of));
            let of = self.bounded(of, 1, i64::MAX);
            let index = self.bounded(index, 0, i64::MAX);
            let len =
                if i + 1 == path.len() { self.bounded(len, 0, i64::MAX) } else { self.bounded(len, 1, 1) };
            let end = self.add(index, len);
            self.at_most(end, of);
            den = self.mul(den, of);
            num = self.mul(num, of);
            num = self.add(num, index.within(0, of.hi));
            cnt = len.within(0, of.hi);
        }
        let (program, operand) = (self.program, operand.0);
        let (buffer, line) = &program.regions[region].operands[operand as usize];
        let extent = self.tables.extent(region, operand, line, program);
        let unit = self.tables.unit(region, operand, line, program);
        let have = self.tables.elements(*buffer, program);
        let extent = self.entry(extent.table, on, extent.range);
        let extent = self.bounded(extent, 0, i64::MAX);
        let unit = self.entry(unit.table, on, unit.range);
        let unit = self.bounded(unit, 0, i64::MAX);
        let blocks = match line.rule {
            CutRule::Even => Blocks::Even,
            CutRule::Ceil => Blocks::Ceil,
            // Beyond 32 bits the bounds of the operation reject it, as they do every size.
            CutRule::Lines(unit) => Blocks::Lines(unit.clamp(1, u64::from(u32::MAX)) as i64),
            CutRule::Lengths(_) => {
                let bounds = self.tables.bounds(region, operand, line, program);
                Blocks::Listed(bounds, self.mul(on, Num::int(line.parts as i64 + 1)))
            }
        };
        let kind = (line.parts, &blocks);
        let lo = self.boundary(kind, (extent, unit), num, den);
        let after = self.add(num, cnt);
        let hi = self.boundary(kind, (extent, unit), after, den);
        let have = self.entry(have.table, on, have.range);
        self.at_most(hi, have);
        let len = self.sub(hi, lo).within(0, i64::MAX);
        Place { mem: *buffer, start: lo, len }
    }

    /// Emits two sides of one transfer, `a` on one rank and `b` on another. A slot takes its length
    /// from the other side.
    pub(super) fn pair(&mut self, region: usize, a: (&CRef, Num), b: (&CRef, Num)) -> (Place, Place) {
        let mut side = |(r, on): (&CRef, Num)| match r {
            Ref::Chunk { operand, path } => Some(self.chunk(region, *operand, path, on)),
            Ref::Slot { .. } => None,
        };
        let (ca, cb) = (side(a), side(b));
        let Some(model) = ca.or(cb) else {
            self.refuse_always();
            let nothing = Place { mem: 0, start: Num::int(0), len: Num::int(0) };
            return (nothing, nothing);
        };
        let mut slot = |r: &CRef| match r {
            Ref::Chunk { .. } => model,
            Ref::Slot { window, slot } => {
                let w = self.program.schedule.window(*window);
                let s = self.expr(slot);
                let s = self.bounded(s, 0, w.slots as i64 - 1);
                let len = self.bounded(model.len, 0, w.capacity as i64);
                let start = self.mul(s, Num::int(w.capacity as i64));
                Place { mem: self.program.schedule.buffers.len() as u32 + window.0, start, len }
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
    pub(super) fn message(&mut self, region: usize, side: &CRef, queue: QueueId, me: Num) -> Option<Place> {
        let Ref::Chunk { operand, path } = side else { return None };
        let place = self.chunk(region, *operand, path, me);
        let capacity = self.program.schedule.queue(queue).capacity;
        let len = self.bounded(place.len, 0, i64::try_from(capacity).unwrap_or(i64::MAX));
        Some(Place { len, ..place })
    }

    /// Emits the number of a queue.
    pub(super) fn queue(&mut self, queue: QueueId, index: &Resolved) -> Num {
        let count = self.program.schedule.queue(queue).count as i64;
        let i = self.expr(index);
        let i = self.bounded(i, 0, count - 1);
        self.add(i, Num::int(i64::from(self.program.queue_base[queue.0 as usize])))
    }

    /// Emits the number of a counter.
    pub(super) fn counter(&mut self, signal: SignalId, index: &Resolved) -> Num {
        let count = self.program.schedule.signal(signal).count as i64;
        let i = self.expr(index);
        let i = self.bounded(i, 0, count - 1);
        self.add(i, Num::int(i64::from(self.program.counter_base[signal.0 as usize])))
    }
}
