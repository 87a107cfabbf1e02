//! Memory of a run: which elements an operation may read, which it fills, and whose contract it
//! disturbs.
//!
//! Every read must find elements that were filled in this call or, in a window, in any call.
//! Elements that a region with a contract wrote to its operands count as filled for other regions
//! only where its `end` clauses name them. This module owns these rules. [`super::super::filled`]
//! owns runs of elements, [`super::Meaning`] contributions.

use super::Engine;
use crate::contents::Contents;
use crate::filled::{HOST, Writer};
use crate::meaning::AccessSite;
use crate::order::{AccessRecord, Accessor};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::contract::Clause;
use kbc_ir::cut::Chunks;
use kbc_ir::host::has_host_region;
use kbc_ir::schedule::{BufferId, LineBlock, LocalOp};
use kbc_ir::walk::{Access, Cursor, Mem};
use std::ops::Range;

/// A run of elements: the first, and one past the last.
pub(crate) type Run = (u64, u64);

/// The reason why elements may not be read.
enum Unreadable {
    /// Nothing wrote them: for a slot, in any call; for a buffer, in this call.
    Nothing,
    /// Their rank has begun a later call.
    Forgotten,
    /// They were written by a region whose contract does not name them.
    Left(u32),
    /// A region is still working on them.
    Unfinished(u32),
    /// They were written by a region that stands later in the text.
    Later(u32),
}

impl<'p, C: Contents> Engine<'p, C> {
    /// Returns the region that a stream is in, or the host.
    pub(crate) fn region_of(&self, si: usize) -> u32 {
        self.streams[si].cursor.as_ref().and_then(Cursor::region).map_or(HOST, |r| r.0)
    }

    fn has_contract(&self, region: u32) -> bool {
        region != HOST && self.setup.regions[region as usize].has_contract
    }

    /// Whether a stream is in a region without a contract, or in the host program.
    pub(super) fn strict(&self, si: usize) -> bool {
        !self.has_contract(self.region_of(si))
    }

    /// Returns the elements of an access on a walked rank. With `by`, the access is made by an
    /// image of the walked rank, which that group element takes to the walked rank.
    pub(crate) fn runs(&self, rep: usize, region: u32, a: &Access, by: u64) -> Vec<Run> {
        let setup = self.setup;
        let plain = || vec![(a.start, a.start + a.len)];
        let Mem::Buffer(b) = a.mem else {
            // Where a contract follows the contents of a region, chunks of other ranks may be one
            // element longer or shorter; other regions then cannot know how many elements a slot
            // holds.
            let known =
                by == 0 || !self.has_contract(region) || setup.even[region as usize].iter().all(|e| *e);
            return if known { vec![(0, a.len)] } else { vec![] };
        };
        let action = &setup.actions[b as usize];
        if by == 0 || action.moves.is_empty() || a.operand == u32::MAX {
            return plain();
        }
        let (_, atoms) = setup.operand(region, a.operand);
        if atoms == 0 {
            return plain();
        }
        // Atoms are such that every chunk consists of whole ones.
        let Some(Chunks { num, cnt, .. }) = a.chunks().among(atoms) else { return plain() };
        let mut parts: Vec<u64> =
            (num..num + cnt).map(|x| action.apply(&setup.group, by, x, atoms)).collect();
        parts.sort_unstable();
        let mut out: Vec<Run> = vec![];
        for x in parts {
            let run = setup.elements((region, a.operand), rep, (x, 1), atoms);
            match out.last_mut() {
                Some(last) if last.1 == run.0 => last.1 = run.1,
                _ => out.push(run),
            }
        }
        out
    }

    /// Returns all elements of a buffer on a walked rank.
    pub(super) fn all(&self, rep: usize, buffer: BufferId) -> Run {
        let rank = self.setup.group.reps[rep];
        (0, self.setup.program.elements(buffer, rank).unwrap_or(0))
    }

    /// Empties a buffer because the host of a rank begins a call: from then on, buffers that the
    /// host does not fill hold nothing.
    pub(super) fn forget(&mut self, si: usize, buffer: BufferId) {
        let rep = self.streams[si].rep;
        let who = Accessor { si, back: 0, stream: self.own(si) };
        let span = self.setup.schedule.buffer(buffer).span;
        for place in self.setup.grids.whole(buffer, rep) {
            if let Some(c) = self.order.forget(who, rep * self.setup.grids.places + place) {
                self.conflict(c, who, rep, place, span, true);
            }
        }
    }

    /// Checks that elements that are read hold something. Returns whether they do.
    pub(crate) fn expect(
        &mut self,
        (region, call): (u32, u64),
        rep: usize,
        mem: Mem,
        runs: &[Run],
        span: Span,
    ) -> bool {
        for run in runs {
            for (lo, hi, by) in self.filled.of(rep, mem, *run) {
                if let Some(why) = self.blank((region, call), rep, mem, (lo, hi), by) {
                    self.unreadable(why, (rep, mem), (lo, hi), call, span);
                    return false;
                }
            }
        }
        true
    }

    /// Checks a local operation that reads a buffer inside a region. An operand of the region's
    /// contract holds what the contract states once the region is over; before that, nothing is
    /// known of it.
    pub(super) fn beside(
        &mut self,
        (region, call): (u32, u64),
        rep: usize,
        buffer: BufferId,
        run: Run,
        span: Span,
    ) {
        let operands = &self.setup.schedule.regions[region as usize].operands;
        if self.has_contract(region) && run.0 < run.1 && operands.iter().any(|o| o.buffer == buffer) {
            self.unreadable(Unreadable::Unfinished(region), (rep, Mem::Buffer(buffer.0)), run, call, span);
        }
    }

    fn blank(
        &mut self,
        (region, call): (u32, u64),
        rep: usize,
        mem: Mem,
        run: Run,
        by: Option<Writer>,
    ) -> Option<Unreadable> {
        let Mem::Buffer(b) = mem else {
            let zero = matches!(mem, Mem::Slot(w, _) if self.setup.schedule.windows[w as usize].zero);
            return (by.is_none() && !zero).then_some(Unreadable::Nothing);
        };
        if self.begun[rep] > call {
            return Some(Unreadable::Forgotten);
        }
        let Some(by) = by.filter(|by| by.call() >= call) else { return Some(Unreadable::Nothing) };
        if by.call() == call && !by.up_to(region) {
            return Some(Unreadable::Later(by.region));
        }
        if by.region == region || !self.has_contract(by.region) {
            return None;
        }
        let operands = &self.setup.schedule.regions[by.region as usize].operands;
        let operand = operands.iter().position(|o| o.buffer.0 == b)? as u32;
        let required_ranges = self.required_ranges(by.region, rep);
        let mut at = run.0;
        for &(o, lo, hi) in required_ranges.iter().filter(|d| d.0 == operand) {
            debug_assert!(o == operand);
            if lo <= at && at < hi {
                at = hi;
            }
        }
        if at < run.1 {
            return Some(Unreadable::Left(by.region));
        }
        let instance = AccessSite { rep, region: by.region, call: by.call() };
        (!self.meaning.settled(instance, operand, run)).then_some(Unreadable::Unfinished(by.region))
    }

    /// Returns the elements that the `end` clauses of a region name on a walked rank: (operand,
    /// first, one past the last), in order, joined where they touch.
    fn required_ranges(&mut self, region: u32, rep: usize) -> std::rc::Rc<Vec<(u32, u64, u64)>> {
        let setup = self.setup;
        let list = self.required_ranges.entry((region, rep)).or_insert_with(|| {
            let mut out: Vec<(u32, u64, u64)> = vec![];
            for p in &setup.regions[region as usize].expected[rep].end {
                let (_, atoms) = setup.operand(region, p.operand);
                let (lo, hi) = setup.elements((region, p.operand), rep, (p.lo, p.n), atoms);
                out.push((p.operand, lo, hi));
            }
            out.sort_unstable();
            let mut joined: Vec<(u32, u64, u64)> = vec![];
            for (o, lo, hi) in out {
                match joined.last_mut() {
                    Some(last) if last.0 == o && last.2 >= lo => last.2 = last.2.max(hi),
                    _ => joined.push((o, lo, hi)),
                }
            }
            std::rc::Rc::new(joined)
        });
        list.clone()
    }

    fn unreadable(&mut self, why: Unreadable, (rep, mem): (usize, Mem), run: Run, call: u64, span: Span) {
        let setup = self.setup;
        let (name, declared, whole) = match mem {
            Mem::Buffer(b) => {
                let buffer = setup.schedule.buffer(BufferId(b));
                (format!("%{}", buffer.name), buffer.span, self.all(rep, BufferId(b)))
            }
            Mem::Slot(w, slot) => {
                let w = &setup.schedule.windows[w as usize];
                (format!("@{}[{slot}]", w.name), w.span, (0, w.capacity))
            }
        };
        let some = if run == whole { String::new() } else { format!("elements {}..{} of ", run.0, run.1) };
        let place = format!("{some}{name} of rank {}", setup.rank(setup.group.reps[rep]));
        let region = |r: u32| &setup.schedule.regions[r as usize];
        let code = if matches!(why, Unreadable::Forgotten) { "E349" } else { "E344" };
        self.report.push(code, span, declared, || match why {
            Unreadable::Forgotten => Diagnostic::error(
                "E349",
                format!("{place} is read in call {call} while its rank may already be in the next call"),
            )
            .primary(span, format!("read here, in call {call}"))
            .secondary(declared, "this is empty at the start of every call")
            .help("let the rank wait before the end of its call until all ranks have read it"),
            Unreadable::Nothing if matches!(mem, Mem::Slot(..)) => {
                Diagnostic::error("E344", format!("{place} is empty"))
                    .primary(span, "read here, and no operation has written it before")
                    .help("write the slot first, or declare the window `zero`")
            }
            Unreadable::Nothing => Diagnostic::error("E344", format!("{place} is empty in call {call}"))
                .primary(span, "read here, and no operation of this call has written it before")
                .help("at the start of a call all buffers except inputs are empty"),
            Unreadable::Left(r) => Diagnostic::error(
                "E344",
                format!("{place} is not covered by the contract of the region that last wrote it"),
            )
            .primary(span, format!("read here, in call {call}"))
            .secondary(region(r).span, format!("region {} wrote it", region(r).name))
            .note("after a region, only elements that its `end` clauses name have a known value")
            .help("read only elements that the contract names, or add an `end` clause for these elements"),
            Unreadable::Unfinished(r) => Diagnostic::error(
                "E344",
                format!("{place} is read before the region that writes it has ended"),
            )
            .primary(span, format!("read here, in call {call}"))
            .secondary(region(r).span, format!("region {} is still running", region(r).name))
            .help("read it after the region has ended on this rank"),
            Unreadable::Later(r) => {
                let name = &region(r).name;
                Diagnostic::error(
                    "E344",
                    format!("{place} is written by region {name}, which comes later in the schedule"),
                )
                .primary(span, format!("read here, in call {call}"))
                .secondary(
                    region(r).span,
                    "a region can read only data that the host or earlier regions write",
                )
                .help("move the region that writes before the region that reads")
            }
        });
    }

    /// Marks elements as written: they hold something now, and a contract that another region is
    /// keeping there is broken.
    pub(crate) fn fill(
        &mut self,
        (region, call): (u32, u64),
        rep: usize,
        mem: Mem,
        runs: &[Run],
        span: Span,
    ) {
        // The host's program is the last region in the text, but the regions that it launches
        // afterwards see what it writes.
        let regions = &self.setup.schedule.regions;
        let spelled = has_host_region(self.setup.schedule) && region as usize + 1 == regions.len();
        let by = Writer::new(call, if spelled { HOST } else { region });
        for run in runs {
            self.filled.write(rep, mem, *run, by);
        }
        match mem {
            Mem::Slot(w, s) => {
                for (window, slot) in self.setup.grids.sharing(self.setup.schedule, w, s) {
                    self.filled.clear_aliased(rep, Mem::Slot(window, slot));
                    self.meaning.forget(rep, Mem::Slot(window, slot));
                }
            }
            Mem::Buffer(b) => {
                for &(other, operand) in &self.setup.users[b as usize] {
                    if other == region || !self.has_contract(other) {
                        continue;
                    }
                    for run in runs {
                        if self.meaning.disturbed(rep, other, operand, *run) {
                            self.intruded(rep, (other, operand), Some(region), call, span);
                        }
                    }
                }
            }
        }
    }

    /// Reports E336.
    fn intruded(
        &mut self,
        rep: usize,
        (other, operand): (u32, u32),
        region: Option<u32>,
        call: u64,
        span: Span,
    ) {
        let setup = self.setup;
        let r = &setup.schedule.regions[other as usize];
        let rank = setup.rank(setup.group.reps[rep]);
        let by = match region {
            None => "another region".to_string(),
            Some(HOST) => "the host".to_string(),
            Some(region) => format!("region {}", setup.schedule.regions[region as usize].name),
        };
        self.report.push("E336", span, r.span, || {
            let name = &r.operands[operand as usize].name;
            let text = format!("{by} writes {name} of rank {rank} while region {} uses it", r.name);
            Diagnostic::error("E336", text)
                .primary(span, format!("written here, in call {call}"))
                .secondary(r.span, "the contract of this region describes this data")
                .help("write it before the region begins on that rank or after the region has ended there")
        });
    }

    /// Returns the last write to an atom of an operand.
    pub(super) fn last_write(
        &self,
        at: AccessSite,
        (operand, atom, atoms): (u32, u64, u64),
    ) -> Option<AccessRecord> {
        let buffer = self.setup.schedule.regions[at.region as usize].operands[operand as usize].buffer;
        let places = self.setup.grids.whole(buffer, at.rep);
        let place = places.start + places.len() * atom as usize / atoms.max(1) as usize;
        if places.is_empty() { None } else { self.order.last_write(at.rep * self.setup.grids.places + place) }
    }

    /// Reports E336 when a stream leaves a region with a contract and knows that another region has
    /// overwritten parts that this region had finished: the operand then does not end with the
    /// contents that the contract requires.
    pub(super) fn overwritten(&mut self, si: usize, at: AccessSite) {
        let me = Accessor { si, back: 0, stream: self.own(si) };
        for part in self.meaning.overwritten(at) {
            let Some(w) = self.last_write(at, part) else { continue };
            if self.order.is_before(me, &w) {
                let span = self.setup.span(w.op);
                self.intruded(at.rep, (at.region, part.0), None, at.call, span);
            }
        }
    }

    /// Handles a rank that is done with a region with a contract: the elements that the contract
    /// names must hold something, even where the region itself wrote nothing.
    pub(super) fn delivered(&mut self, at: AccessSite) {
        let span = self.setup.schedule.regions[at.region as usize].span;
        let required_ranges = self.required_ranges(at.region, at.rep);
        for &(operand, lo, hi) in required_ranges.iter() {
            let mem = Mem::Buffer(self.setup.operand(at.region, operand).0 as u32);
            // A stream may already be in a later region and have written there again.
            let there = |by: Writer| by.call() > at.call || by.call() == at.call && by.up_to(at.region);
            for (lo, hi, first) in self.filled.first(at.rep, mem, (lo, hi)) {
                if !first.is_some_and(there) {
                    self.unreadable(Unreadable::Nothing, (at.rep, mem), (lo, hi), at.call, span);
                    return;
                }
            }
            for (lo, hi, last) in self.filled.of(at.rep, mem, (lo, hi)) {
                // A host that is in the next call has already read the elements.
                if self.begun[at.rep] <= at.call
                    && last.is_some_and(|by| by.call() == at.call && by.up_to(at.region))
                    && !self.expect((at.region, at.call), at.rep, mem, &[(lo, hi)], span)
                {
                    return;
                }
            }
        }
        self.unnamed(at, &required_ranges);
    }

    /// Clears the places that no `end` clause names on this rank, in operands that some `end`
    /// clause names. Other operands keep their contents.
    fn unnamed(&mut self, at: AccessSite, required_ranges: &[(u32, u64, u64)]) {
        let setup = self.setup;
        let region = &setup.schedule.regions[at.region as usize];
        let Some(contract) = &region.contract else { return };
        let named = |o: &kbc_ir::schedule::Operand| {
            contract.clauses.iter().any(|c| match c {
                Clause::Start { cell: _, cond: _ } => false,
                Clause::End { cell, cond: _, from: _, at: _, sum: _ } => cell.buffer == o.name,
            })
        };
        for (number, operand) in region.operands.iter().enumerate().filter(|(_, o)| named(o)) {
            let number = number as u32;
            let mem = Mem::Buffer(operand.buffer.0);
            let (mut from, end) = setup.elements((at.region, number), at.rep, (0, 1), 1);
            let ends =
                required_ranges.iter().filter(|d| d.0 == number).map(|d| (d.1, d.2)).chain([(end, end)]);
            for (lo, hi) in ends {
                for (lo, hi, last) in self.filled.of(at.rep, mem, (from, lo)) {
                    // Elements that the region itself wrote are distinguished when they are read.
                    let before =
                        |by: Writer| by.call() <= at.call && by.up_to(at.region) && by.region != at.region;
                    if last.is_some_and(before) {
                        self.filled.clear(at.rep, mem, (lo, hi));
                    }
                }
                from = hi;
            }
        }
    }

    /// Whether memory still holds only its initial zeros.
    pub(super) fn zeros(&self, si: usize, rep: usize, a: &Access) -> bool {
        let (setup, call) = (self.setup, self.streams[si].call as usize);
        let zero = match a.mem {
            Mem::Buffer(b) => setup.schedule.buffers[b as usize].zero,
            Mem::Slot(w, _) => setup.schedule.windows[w as usize].zero,
        };
        if !zero || a.len == 0 {
            return false;
        }
        let untouched = |last: Option<AccessRecord>| match (a.mem, last) {
            (Mem::Slot(..), last) => last.is_none(),
            (Mem::Buffer(_), None) => false,
            (Mem::Buffer(b), Some(w)) => {
                setup.host(w.op) == Some((b as usize, true)) && self.order.call_of(&w) == call
            }
        };
        setup.grids.of(a, rep).all(|p| untouched(self.order.last_write(rep * setup.grids.places + p)))
    }

    /// Returns the block of a line that packing or unpacking one part of a tensor touches: the
    /// line's buffer, the places and the elements. Returns None for an operation on whole buffers,
    /// or if the block cannot be determined.
    pub(super) fn block(&self, rep: usize, l: &LocalOp) -> Option<(BufferId, Range<usize>, Run)> {
        let setup = self.setup;
        let (program, rank) = (&setup.program, setup.group.reps[rep]);
        let LineBlock { line, tensor, dim, parts, rule, at } = l.line_block()?;
        let index = u64::try_from(program.local_value(at, rank).ok()?).ok().filter(|i| *i < parts)?;
        let dims = program.dims(tensor, rank).ok()?;
        let unit: u64 = dims.iter().enumerate().filter(|(d, _)| *d != dim as usize).map(|(_, n)| n).product();
        let elements = program.elements(line, rank).ok().filter(|_| unit > 0)?;
        let block = rule.block(elements, unit, index, parts);
        let (run, start, len) = ((block.start, block.end), block.start, block.end - block.start);
        let (num, den) = (index as i64, parts as i64);
        let a = Access { mem: Mem::Buffer(line.0), start, len, num, cnt: 1, den, operand: u32::MAX };
        // Places are parts of the line as regions cut it. If this operation cuts the line
        // differently, it may touch any place.
        let alike = match setup.grids.parts(line.0) {
            None => true,
            Some((_, n)) => {
                n.is_multiple_of(parts)
                    && setup.users[line.0 as usize].iter().all(|&(region, operand)| {
                        setup.elements((region, operand), rep, (index, 1), parts) == run
                    })
            }
        };
        let places = if alike { setup.grids.of(&a, rep) } else { setup.grids.whole(line, rep) };
        Some((line, places, run))
    }

    /// Checks that a local operation has a result on this rank and on all ranks that it represents.
    pub(super) fn legal(&mut self, rep: usize, l: &LocalOp, op: u32, span: Span) {
        if !self.tried.insert((op, rep)) {
            return;
        }
        let setup = self.setup;
        let fixed = l.part().is_none_or(|e| e.as_int().is_some())
            && std::iter::once(l.dst())
                .chain(l.srcs())
                .all(|b| setup.schedule.buffer(b).dims.iter().all(|d| d.as_int().is_some()));
        let own = setup.group.reps[rep];
        let ranks = if fixed || setup.group.trivial() { own..own + 1 } else { 0..setup.group.ranks };
        for rank in ranks {
            if rank != own && setup.group.split(rank).0 != rep {
                continue;
            }
            let Err(why) = kbc_ir::verify::legal_on(setup.program, l, rank) else { continue };
            self.report.push("E363", span, Span::NONE, || {
                Diagnostic::error("E363", why)
                    .primary(span, format!("on rank {}", setup.rank(rank)))
                    .help("parts are numbered from 0, and the sizes of both sides must agree on every rank")
            });
            return;
        }
    }
}
