//! Fused functions: elementwise functions of a collective's result, computed while the result is in
//! the core.
//!
//! The module decides which functions these are. Every element of the result must be stored once in
//! a call, as a sum or as it arrived. Only the function may read it, and the function's other
//! operands must be there when the collective begins. Then neither the result nor the values
//! between consecutive functions are in memory: a tile goes through all functions, and is stored
//! where the result of the last one belongs.

use super::accesses::touched;
use super::address::{add, sub};
use super::consumer::{Consumer, Function};
use super::fetched;
use super::state::Lower;
use crate::tile::{Gm, Stmt, TileId};
use kbc_diag::Span;
use kbc_ir::expr::Expr;
use kbc_ir::schedule::{BufferId, BufferRole, LocalOp, Ref, SOp, SStmt, each_op};
use kbc_ir::types::DType;
use kbc_ir::walk::{Access, Act, Cursor, Mem, Step};
use std::collections::BTreeMap;

/// An operation of the schedule: region, whether the region is local, the operation, and its span.
type ScheduleOp<'s> = (usize, bool, &'s SOp, Span);

impl Lower<'_, '_> {
    /// Returns by region the functions that are computed of its result while it is in the core.
    pub(super) fn consumers(&self) -> BTreeMap<usize, Consumer> {
        let mut out = BTreeMap::new();
        if self.cores > 1 {
            // Lanes and loops over tiles may divide a tensor in different ways.
            return out;
        }
        for (i, region) in self.schedule.regions.iter().enumerate().filter(|(_, r)| !r.over.is_empty()) {
            for o in &region.operands {
                if let Some(steps) = self.functions(i, o.buffer)
                    && self.stored_once(i, o.buffer)
                {
                    out.insert(i, Consumer { of: o.buffer, steps });
                    break;
                }
            }
        }
        out
    }

    /// Checks whether the function that makes a buffer is computed in the loop of a collective.
    pub(super) fn computed(&self, dst: BufferId) -> bool {
        self.consumers.values().flat_map(|c| &c.steps).any(|f| f.dst == dst)
    }

    /// Returns the operations that touch a buffer.
    fn users(&self, buffer: BufferId) -> Vec<ScheduleOp<'_>> {
        let mut out = vec![];
        for (i, r) in self.schedule.regions.iter().enumerate() {
            let local = super::lanes::local(r);
            for stmt in r.roles.iter().flat_map(|r| &r.streams).flat_map(|s| &s.body) {
                let span = if let SStmt::Op(_, span) = stmt { *span } else { Span::NONE };
                each_op(std::slice::from_ref(stmt), &mut |op, _| {
                    let t = touched(r, op);
                    if [t.reads, t.writes, t.remote].concat().contains(&buffer) {
                        out.push((i, local, op, span));
                    }
                });
            }
        }
        out
    }

    /// Returns the functions of what region `number` leaves in `of`: the first one of the buffer,
    /// each further one of the previous function's result.
    fn functions(&self, number: usize, of: BufferId) -> Option<Vec<Function>> {
        let like = |b: BufferId| self.schedule.buffer(b);
        let mut steps: Vec<Function> = vec![];
        let mut at = of;
        while like(at).role == BufferRole::Temp && !like(at).zero {
            let made = |p: &&ScheduleOp<'_>| match steps.last() {
                None => p.0 == number,
                Some(f) => matches!(p.2, SOp::Local(l) if l.dst() == f.dst),
            };
            let users = self.users(at);
            let others: Vec<_> = users.iter().filter(|p| !made(p)).collect();
            let [(region, true, SOp::Local(LocalOp::Compute { func, dst, args }), span)] = others.as_slice()
            else {
                break;
            };
            let same = |b: BufferId| like(b).dims == like(of).dims;
            let there = |b: BufferId| {
                let writes = |p: &ScheduleOp<'_>| {
                    let t = touched(&self.schedule.regions[p.0], p.2);
                    t.writes.contains(&b) || t.remote.contains(&b)
                };
                b == at || same(b) && !self.users(b).iter().any(|p| p.0 >= number && writes(p))
            };
            // Nothing else writes the function's result, and nothing has read that buffer before.
            let result = self.users(*dst);
            let first = matches!(result.first(), Some((_, _, SOp::Local(l), _)) if l.dst() == *dst);
            let rest = result.iter().skip(1).all(|p| {
                let t = touched(&self.schedule.regions[p.0], p.2);
                !t.writes.contains(dst) && !t.remote.contains(dst)
            });
            let once = args.iter().filter(|a| **a == at).count() == 1;
            let fits =
                *region > number && like(*dst).dtype == like(of).dtype && same(*dst) && !like(*dst).zero;
            let chain = self.device.chain(func, like(*dst).dtype).ok();
            let (true, Some(chain), Some(place)) = (
                fits && first && rest && once && args.iter().all(|a| there(*a)),
                chain,
                args.iter().position(|a| *a == at),
            ) else {
                break;
            };
            steps.push(Function { chain, dst: *dst, args: args.clone(), at: place, span: *span });
            at = *dst;
        }
        (!steps.is_empty()).then_some(steps)
    }

    /// Checks whether a region stores every element of a buffer exactly once on every rank, and
    /// reads none.
    fn stored_once(&self, number: usize, buffer: BufferId) -> bool {
        let region = &self.schedule.regions[number];
        let [role] = region.roles.as_slice() else { return false };
        let [stream] = role.streams.as_slice() else { return false };
        if !self.only_stores(number, &stream.body, buffer) {
            return false;
        }
        (0..self.program.ranks()).all(|rank| {
            let mut ranges: Vec<(u64, u64)> = vec![];
            for s in 0..self.program.streams.len() as u32 {
                let mut cursor = Cursor::new(self.program, rank, s, 0);
                while let Ok(Some(step)) = cursor.next_step() {
                    let Step::Act(act, ..) = step else { continue };
                    if cursor.region().map(|r| r.0 as usize) != Some(number) {
                        continue;
                    }
                    let place = |a: &Access| {
                        (a.mem == Mem::Buffer(buffer.0) && a.len > 0).then_some((a.start, a.start + a.len))
                    };
                    match &act {
                        Act::Copy { dst, .. } | Act::Get { dst, .. } => ranges.extend(place(dst)),
                        // An addition to the range that was stored last is in one loop with that
                        // store.
                        Act::Reduce { dst, .. } if ranges.last().copied() == place(dst) => {}
                        Act::Reduce { dst, .. } => ranges.extend(place(dst)),
                        _ => {}
                    }
                }
            }
            ranges.sort_unstable();
            let whole = self.program.elements(buffer, rank).unwrap_or(u64::MAX);
            let end = ranges.iter().try_fold(0, |at, (lo, hi)| (*lo == at).then_some(*hi));
            end == Some(whole)
        })
    }

    /// Checks whether statements name a buffer only to store a sum, or what arrived, in it.
    fn only_stores(&self, region: usize, list: &[SStmt], buffer: BufferId) -> bool {
        let mut flat = vec![];
        self.flatten(list, &mut flat);
        let is = |r: &Ref| fetched::buffer_of(&self.schedule.regions[region], r) == Some(buffer);
        let mut at = 0;
        while at < flat.len() {
            if let Some(found) = self.additions(region, &flat[at..]) {
                if is(found.sum.own) || found.messages().iter().any(|m| is(m.at)) {
                    return false;
                }
                at += found.used;
                continue;
            }
            let fits = match flat[at] {
                SStmt::For { body, .. } => self.only_stores(region, body, buffer),
                SStmt::If { then, other, .. } => {
                    self.only_stores(region, then, buffer) && self.only_stores(region, other, buffer)
                }
                SStmt::Op(SOp::Copy { dst, src } | SOp::Get { dst, src, .. }, _) => {
                    !is(src) && (!is(dst) || self.dtype(region, src) == self.dtype(region, dst))
                }
                SStmt::Op(op, _) => {
                    let t = touched(&self.schedule.regions[region], op);
                    ![t.reads, t.writes, t.remote].concat().contains(&buffer)
                }
            };
            if !fits {
                return false;
            }
            at += 1;
        }
        true
    }

    /// Returns the functions of a tile that a region stores in a place.
    pub(super) fn consumer(&self, region: usize, place: &Ref) -> Option<Consumer> {
        let of = fetched::buffer_of(&self.schedule.regions[region], place)?;
        self.consumers.get(&region).filter(|c| c.of == of).cloned()
    }

    /// Adds a note for each function that a loop computes in addition.
    pub(super) fn note_functions(&mut self, c: &Consumer) {
        for f in &c.steps {
            self.note("computed of it", f.span);
        }
    }

    /// Applies the functions to a tile and stores the last result. `tile` has the type of the
    /// collective's result, and `at` is its first element in the buffer that the kernel does not
    /// have.
    pub(super) fn consume(&mut self, c: &Consumer, tile: TileId, at: &Gm, pos: &Expr, len: &Expr) {
        let mut tile = tile;
        // A buffer may begin anywhere in its memory.
        let within = sub(&at.offset, &self.whole(c.of).offset);
        let dtype = self.tiles[tile.0 as usize].dtype;
        for f in &c.steps {
            let wide = f.chain.compute;
            let mut registers: Vec<TileId> = vec![];
            let mut next = 0;
            let mut another = |this: &mut Self, wide: DType| loop {
                let t = this.tile(wide, next);
                next += 1;
                if t != tile {
                    return t;
                }
            };
            for i in 0..f.chain.registers {
                let own = i == f.at && dtype == wide;
                registers.push(if own { tile } else { another(self, wide) });
            }
            if dtype != wide {
                self.convert(registers[f.at], tile);
            }
            for (i, arg) in f.args.iter().enumerate().filter(|(i, _)| *i != f.at) {
                let whole = self.whole(*arg);
                let place = Gm { offset: add(&whole.offset, &within), ..whole };
                let from = self.schedule.buffer(*arg).dtype;
                self.load_as(registers[i], from, len, &place, pos);
            }
            let mask = f.chain.mask.then(|| self.mask_tile());
            for step in &f.chain.steps {
                let op = super::local::step_op(step, &registers, mask, len);
                self.build.push(Stmt::Op(op));
            }
            let result = registers[f.chain.result];
            if dtype == wide {
                tile = result;
            } else {
                self.convert(tile, result);
            }
        }
        if let Some(last) = c.steps.last() {
            let whole = self.whole(last.dst);
            let to = Gm { offset: add(&whole.offset, &within), ..whole };
            self.store(&to, pos, tile, len);
        }
    }
}
