//! Outline: writes the flat code of bodies for the timed walk ([`super::timed`]), in which values
//! that depend only on the rank are computed once.
//!
//! The module translates resolved bodies into this code. It uses the brief form of an operation
//! only if interval analysis ([`super::range`]) shows that what the form leaves out cannot cause a
//! fault: chunks and slots exist, and sizes agree. It keeps every other operation whole, to be
//! resolved as by [`super::Cursor`].

use super::brief_code::{
    Body, CutSize, Fixed, Indexed, Ins, Outline, OutlinePeer, Outlined, Outlines, Size, Sum, Value, Whole,
};
use super::compiled::{COp, CRef, CRegion, CStmt, Compiled, LocalNumber, Program};
use super::range::{Range, counted, range};
use super::steady;
use crate::algebra::{Algebra, ExprAlgebra};
use crate::cut::{Chunks, Sized};
use crate::expr::BinOp;
use crate::op::{Op, Translate};
use crate::resolved::Resolved;
use crate::schedule::{BufferId, Channel, Counter, LocalOp, Part, Ref, RefUse};
use crate::types::CutRule;
use kbc_diag::Span;
use std::convert::Infallible;
use std::sync::Arc;

/// Most registers of one body for values that do not change within it. Further values are computed
/// each time.
const MAX_FIXED: usize = 64;

impl<'p> Outline<'p> {
    /// Translates a schedule for calls 0 to `calls - 1`.
    pub fn new(program: &'p Program<'p>, calls: i64) -> Outline<'p> {
        let mut slots = vec![None; program.env_len];
        slots[0] = Some((0, (calls - 1).max(0)));
        for (i, a) in program.schedule.mesh.axes.iter().enumerate() {
            slots[i + 1] = i64::try_from(a.size).ok().map(|n| (0, (n - 1).max(0)));
        }
        let depth = program.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams);
        let depth = depth.map(|(_, list)| nesting(list)).max().unwrap_or(0);
        let first = program.env_len + depth;
        let mut out = Outline {
            program,
            code: Vec::with_capacity(program.ops as usize + 64),
            bodies: vec![],
            width: first,
            plain: vec![],
        };
        for (number, region) in program.regions.iter().enumerate() {
            let mut loops = program.mesh_slots;
            for (slot, size) in &region.coords {
                slots[*slot as usize] = i64::try_from(*size).ok().map(|n| (0, (n - 1).max(0)));
                loops = loops.max(*slot as usize + 1);
            }
            let roles = region.roles.iter().map(|role| {
                let streams = role.streams.iter().map(|(stream, list)| {
                    let start = out.code.len() as u32;
                    let mut w = Writer {
                        program,
                        region: number,
                        loops: loops as u32,
                        slots: slots.clone(),
                        code: &mut out.code,
                        ends: program.env_len as u32,
                        first: first as u32,
                        fixed: vec![],
                        known: vec![],
                        no_put: false,
                    };
                    w.list(list);
                    w.code.push(Ins::Leave);
                    let fixed = w.fixed;
                    out.width = out.width.max(first + fixed.len());
                    (*stream, Body { start, fixed })
                });
                streams.collect()
            });
            let roles = roles.collect();
            out.bodies.push(roles);
            let whole: u64 = region.axes.iter().map(|a| a.0).product();
            out.plain.push(whole == program.ranks() && region.axes.iter().all(|a| a.1 == a.2));
        }
        out
    }
}

/// Returns the nesting depth of loops.
fn nesting(list: &[CStmt<'_>]) -> usize {
    let each = |s: &CStmt| match s {
        CStmt::For { body, .. } => 1 + nesting(body),
        CStmt::If { then, other, .. } => nesting(then).max(nesting(other)),
        CStmt::Op(..) | CStmt::Written(_) => 0,
    };
    list.iter().map(each).max().unwrap_or(0)
}

/// A run of elements whose length is constant or follows from the number of its first chunk.
struct Run {
    num: Resolved,
    cnt: u64,
    den: u64,
    length: u64,
    /// Bytes per element.
    unit: u64,
    /// Number of elements, if it is the same for every number of the chunk.
    same: Option<u64>,
}

impl Run {
    fn most(&self) -> u64 {
        self.same.unwrap_or_else(|| {
            let line = Sized { parts: 1, rule: &CutRule::Even, extent: self.length, unit: 1, row: 0 };
            line.longest(self.cnt, self.den)
        })
    }

    /// Checks whether both runs are equally long for all values of the slots.
    fn agrees(&self, other: &Run) -> bool {
        match (self.same, other.same) {
            (Some(a), Some(b)) => a == b,
            (None, None) => {
                (self.cnt, self.den, self.length) == (other.cnt, other.den, other.length)
                    && self.num == other.num
            }
            _ => false,
        }
    }
}

/// Translator of one body.
struct Writer<'a, 'p> {
    program: &'p Program<'p>,
    region: usize,
    /// First slot that changes within the body.
    loops: u32,
    slots: Vec<Option<Range>>,
    code: &'a mut Vec<Ins<'p>>,
    /// Register for the end of the next loop.
    ends: u32,
    /// First register for values that are fixed within the body.
    first: u32,
    fixed: Vec<(u32, Fixed)>,
    /// Expressions that the registers of kind [`Fixed::Value`] hold, in their order.
    known: Vec<Resolved>,
    /// Whether no put can be right before what comes next, apart from fences and marks.
    no_put: bool,
}

impl<'p> Writer<'_, 'p> {
    fn list(&mut self, list: &'p [CStmt<'p>]) {
        for s in list {
            match s {
                CStmt::For { slot, lo, hi, body } => {
                    let tables = &self.program.schedule.tables;
                    let bounds = range(lo, &self.slots, tables).zip(range(hi, &self.slots, tables));
                    let old = self.slots[*slot as usize];
                    self.slots[*slot as usize] = bounds.and_then(|(lo, hi)| counted(lo, hi));
                    let (at, end) = (self.code.len(), self.ends);
                    self.ends += 1;
                    self.code.push(Ins::Leave);
                    self.no_put = false;
                    self.list(body);
                    self.no_put = false;
                    let steady = steady::period(self.program, &self.code[at + 1..], *slot);
                    self.code.push(Ins::Next { slot: *slot, end, body: at as u32 + 1, steady });
                    self.ends -= 1;
                    self.slots[*slot as usize] = old;
                    self.code[at] = Ins::For { slot: *slot, end, lo, hi, past: self.code.len() as u32 };
                }
                CStmt::If { cond, then, other } => {
                    let (at, no_put) = (self.code.len(), self.no_put);
                    self.code.push(Ins::Leave);
                    self.list(then);
                    let past = self.code.len();
                    if other.is_empty() {
                        self.code[at] = Ins::Unless { cond, past: past as u32 };
                        self.no_put = false;
                        continue;
                    }
                    self.code.push(Ins::Leave);
                    self.code[at] = Ins::Unless { cond, past: past as u32 + 1 };
                    self.no_put = no_put;
                    self.list(other);
                    self.no_put = false;
                    self.code[past] = Ins::Go(self.code.len() as u32);
                }
                CStmt::Op(op, span, number) => self.op(op, Whole::Resolved(op), *span, *number),
                CStmt::Written(run) => {
                    for (op, span, number) in *run {
                        let resolved = self.program.resolved(self.region, op);
                        self.op(&resolved, Whole::Written(op), span, number);
                    }
                }
            }
        }
    }

    fn op(&mut self, op: &COp, whole: Whole<'p>, span: Span, number: u32) {
        let quick = op.translate(self).ok();
        let behind_no_put = self.no_put;
        match op {
            Op::Put { .. } => self.no_put = false,
            Op::FenceRelease | Op::FenceAcquire | Op::FenceComplete | Op::Mark(_) => {}
            _ => self.no_put = true,
        }
        self.code.push(Ins::Op(Outlines { quick, whole, span, number, behind_no_put }));
    }

    fn range(&self, e: &Resolved) -> Option<Range> {
        range(e, &self.slots, &self.program.schedule.tables)
    }

    /// Returns a register that holds an expression which does not change within the body.
    fn fix(&mut self, c: Resolved) -> Option<u32> {
        if let Some(i) = self.known.iter().position(|k| *k == c) {
            return Some(self.fixed.iter().filter(|f| matches!(f.1, Fixed::Value(_))).nth(i)?.0);
        }
        let register = self.register()?;
        self.known.push(c.clone());
        self.fixed.push((register, Fixed::Value(c)));
        Some(register)
    }

    /// Returns the next free register.
    fn register(&self) -> Option<u32> {
        (self.fixed.len() < MAX_FIXED).then_some(())?;
        self.first.checked_add(self.fixed.len() as u32)
    }

    fn value(&mut self, e: &Resolved) -> Value {
        match e {
            Resolved::Int(v) => return Value::Int(*v),
            Resolved::Var(s) => return Value::Register(*s),
            _ => {}
        }
        if self.range(e).is_none() {
            return Value::Tree(e.clone().into());
        }
        if !e.reads(&|s| s >= self.loops) {
            return self.fix(e.clone()).map_or_else(|| Value::Tree(e.clone().into()), Value::Register);
        }
        if let Some(sum) = self.sum(e) {
            return Value::Sum(sum.into());
        }
        if let Resolved::Bin(BinOp::Mod, a, of) = e
            && let Resolved::Int(of @ 1..=0x3fff_ffff) = **of
            && let Some(sum) = self.sum(a)
        {
            return Value::Wrapped((sum, of).into());
        }
        Value::Tree(self.rewritten(e).into())
    }

    /// Returns an expression that has a range, with registers for the parts that do not change.
    fn rewritten(&mut self, e: &Resolved) -> Resolved {
        if matches!(e, Resolved::Int(_) | Resolved::Var(_)) {
            return e.clone();
        }
        if !e.reads(&|s| s >= self.loops)
            && let Some(register) = self.fix(e.clone())
        {
            return Resolved::Var(register);
        }
        match e {
            Resolved::Int(_) | Resolved::Var(_) => e.clone(),
            Resolved::Un(op, a) => Resolved::Un(*op, Arc::new(self.rewritten(a))),
            Resolved::Bin(op, a, b) => {
                Resolved::Bin(*op, Arc::new(self.rewritten(a)), Arc::new(self.rewritten(b)))
            }
            Resolved::Select(c, a, b) => Resolved::Select(
                Arc::new(self.rewritten(c)),
                Arc::new(self.rewritten(a)),
                Arc::new(self.rewritten(b)),
            ),
            Resolved::Table(t, i) => Resolved::Table(*t, Arc::new(self.rewritten(i))),
        }
    }

    /// Returns an expression that has a range as a sum with one changing slot.
    fn sum(&mut self, e: &Resolved) -> Option<Sum> {
        let mut parts = Parts { base: None, slot: None, plus: 0 };
        parts.add(e, 1, self.loops)?;
        let (slot, times) = parts.slot?;
        let base = match parts.base {
            None => None,
            Some(Resolved::Var(s)) => Some(s),
            Some(base) => {
                // The terms are in a new order, so the range must be checked again.
                self.range(&base)?;
                Some(self.fix(base)?)
            }
        };
        Some(Sum { base, slot, times, plus: parts.plus })
    }

    fn who(&mut self, peer: &[Resolved]) -> Option<OutlinePeer> {
        let region: &CRegion = &self.program.regions[self.region];
        if peer.len() != region.coords.len() {
            return None;
        }
        if peer.iter().any(|e| e.reads(&|s| s >= self.loops)) {
            return Some(self.each(peer));
        }
        let there = self.fixed.iter().find(|(_, f)| match f {
            Fixed::Peer(p) => p[..] == *peer,
            Fixed::Value(_) => false,
        });
        if let Some((register, _)) = there {
            return Some(OutlinePeer::Register(*register));
        }
        let Some(register) = self.register() else { return Some(self.each(peer)) };
        self.fixed.push((register, Fixed::Peer(peer.to_vec())));
        Some(OutlinePeer::Register(register))
    }

    fn each(&mut self, peer: &[Resolved]) -> OutlinePeer {
        OutlinePeer::Each(peer.iter().map(|e| self.value(e)).collect())
    }

    /// Returns the bytes of both sides of a transfer, if the runs are known to exist and to match.
    fn pair(&mut self, a: &CRef, b: &CRef) -> Option<(Size, Size)> {
        let (ra, rb) = (self.run(a)?, self.run(b)?);
        let s = self.program.schedule;
        let fits = |r: &CRef, run: &Run| {
            let Ref::Slot { window, slot } = r else { return Some(None) };
            let w = s.window(*window);
            let (lo, hi) = self.range(slot)?;
            let there = lo >= 0 && (hi as u64) < w.slots && run.most() <= w.capacity;
            there.then_some(Some(w.dtype.bytes()))
        };
        match (ra, rb) {
            (Some(ra), Some(rb)) => {
                // Runs of one buffer must not overlap in part; the cursor checks that.
                (ra.agrees(&rb) && self.buffer(a) != self.buffer(b)).then_some(())?;
                Some((self.size(&ra, ra.unit), self.size(&rb, rb.unit)))
            }
            (Some(run), None) => {
                let unit = fits(b, &run)??;
                Some((self.size(&run, run.unit), self.size(&run, unit)))
            }
            (None, Some(run)) => {
                let unit = fits(a, &run)??;
                Some((self.size(&run, unit), self.size(&run, run.unit)))
            }
            (None, None) => None,
        }
    }

    /// Returns the buffer of a chunk.
    fn buffer(&self, r: &CRef) -> Option<u32> {
        let Ref::Chunk { operand, .. } = r else { return None };
        Some(self.program.regions[self.region].operands[operand.0 as usize].0)
    }

    fn size(&mut self, run: &Run, unit: u64) -> Size {
        match run.same {
            Some(n) => Size::Fixed(n.saturating_mul(unit)),
            None => {
                let Run { cnt, den, length, .. } = *run;
                Size::Cut(CutSize { num: self.value(&run.num), cnt, den, length, unit }.into())
            }
        }
    }

    /// Returns the run of a chunk that exists on every rank, of a line that is the same on every
    /// rank; `Some(None)` for a slot.
    fn run(&self, r: &CRef) -> Option<Option<Run>> {
        let Ref::Chunk { operand, path } = r else { return Some(None) };
        let (buffer, line) = &self.program.regions[self.region].operands[operand.0 as usize];
        let (Resolved::Int(extent), Resolved::Int(unit)) = (&line.extent, &line.unit) else { return None };
        if matches!(line.rule, CutRule::Lengths(_)) {
            return None;
        }
        let length = u64::try_from(*extent).ok()?.checked_mul(u64::try_from(*unit).ok()?)?;
        let buffer = self.program.schedule.buffer(BufferId(*buffer));
        let have = buffer.dims.iter().try_fold(1u64, |n, d| n.checked_mul(u64::try_from(d.as_int()?).ok()?));
        if length > have? || length >> 62 != 0 {
            return None;
        }
        // Lines of given lengths are excluded above.
        let mut alg = ExprAlgebra::folded(|_, _, n, _| n.clone(), |_, _, n, _| n.clone());
        let mut at = Chunks::whole(&mut alg);
        for (i, Part { index, len, of }) in path.iter().enumerate() {
            let (length, parts) = (len.as_int()?, of.as_int()?);
            let (lo, hi) = self.range(index)?;
            let last = i + 1 == path.len();
            if parts < 1 || lo < 0 || length < 0 || hi.checked_add(length)? > parts || (!last && length != 1)
            {
                return None;
            }
            at = at.part(&mut alg, (index, len, of));
            at.den.as_int().filter(|d| *d < 1 << 31)?;
        }
        let (cnt, den) = (alg.known(&at.cnt)?, alg.known(&at.den)?);
        let num = at.num;
        let parts = line.parts;
        let even = |n: u64| n > 0 && length.is_multiple_of(n);
        let same = if cnt == 0 {
            Some(0)
        } else if cnt == den {
            Some(length)
        } else if even(den)
            && (parts == 1 || (even(parts) && line.rule.equal_parts(extent.unsigned_abs(), parts)))
        {
            Some(length / den * cnt)
        } else if parts == 1 {
            None
        } else {
            return None;
        };
        Some(Some(Run { num, cnt, den, length, unit: buffer.dtype.bytes(), same }))
    }
}

/// The brief form cannot represent an operation without risking that a fault is missed.
struct KeptWhole;

impl Writer<'_, '_> {
    fn counter(&mut self, c: &Counter<Resolved>) -> Indexed {
        let base = self.program.counter_base[c.signal.0 as usize];
        Indexed { index: self.value(&c.index), count: self.program.schedule.signal(c.signal).count, base }
    }
}

impl<'p> Translate<'_, Compiled, Outlined<'p>> for Writer<'_, 'p> {
    type Error = KeptWhole;

    fn both(&mut self, dst: &CRef, src: &CRef) -> Result<(Size, Size), KeptWhole> {
        self.pair(dst, src).ok_or(KeptWhole)
    }

    fn transfer(
        &mut self,
        _: RefUse,
        near: &CRef,
        peer: &Vec<Resolved>,
        far: &CRef,
    ) -> Result<(Size, OutlinePeer, ()), KeptWhole> {
        let (near, _) = self.pair(near, far).ok_or(KeptWhole)?;
        Ok((near, self.who(peer).ok_or(KeptWhole)?, ()))
    }

    fn message(
        &mut self,
        _: RefUse,
        _: &CRef,
        _: &Vec<Resolved>,
        _: &Channel<Resolved>,
    ) -> Result<(Size, OutlinePeer, Infallible), KeptWhole> {
        Err(KeptWhole)
    }

    fn room(
        &mut self,
        _: &Vec<Resolved>,
        _: &Channel<Resolved>,
    ) -> Result<(OutlinePeer, Infallible), KeptWhole> {
        Err(KeptWhole)
    }

    fn notify(
        &mut self,
        peer: &Vec<Resolved>,
        counter: &Counter<Resolved>,
    ) -> Result<(OutlinePeer, Indexed), KeptWhole> {
        Ok((self.who(peer).ok_or(KeptWhole)?, self.counter(counter)))
    }

    fn wait(&mut self, counter: &Counter<Resolved>, value: &Resolved) -> Result<(Indexed, Value), KeptWhole> {
        Ok((self.counter(counter), self.value(value)))
    }

    fn event(&mut self, event: &u32) -> Result<u32, KeptWhole> {
        Ok(*event)
    }

    fn local(&mut self, local: &LocalNumber) -> Result<&'p LocalOp, KeptWhole> {
        Ok(self.program.local(*local))
    }

    fn mark(&mut self, (): &()) -> Result<(), KeptWhole> {
        Ok(())
    }

    fn host(&mut self, host: &Infallible) -> Result<Infallible, KeptWhole> {
        Ok(*host)
    }
}

/// Terms of a sum.
struct Parts {
    base: Option<Resolved>,
    slot: Option<(u32, i64)>,
    plus: i64,
}

impl Parts {
    fn add(&mut self, e: &Resolved, sign: i64, loops: u32) -> Option<()> {
        match e {
            Resolved::Int(v) => self.plus = self.plus.checked_add(v.checked_mul(sign)?)?,
            Resolved::Bin(BinOp::Add, a, b) if e.reads(&|s| s >= loops) => {
                self.add(a, sign, loops)?;
                self.add(b, sign, loops)?;
            }
            Resolved::Bin(BinOp::Sub, a, b) if e.reads(&|s| s >= loops) => {
                self.add(a, sign, loops)?;
                self.add(b, -sign, loops)?;
            }
            Resolved::Var(s) if *s >= loops => self.step(*s, sign)?,
            Resolved::Bin(BinOp::Mul, a, b) if e.reads(&|s| s >= loops) => match (&**a, &**b) {
                (Resolved::Var(s), Resolved::Int(k)) | (Resolved::Int(k), Resolved::Var(s)) => {
                    self.step(*s, sign.checked_mul(*k)?)?
                }
                _ => return None,
            },
            e if e.reads(&|s| s >= loops) => return None,
            e => {
                self.base = Some(match (self.base.take(), sign) {
                    (None, 1) => e.clone(),
                    (None, _) => Resolved::Bin(BinOp::Sub, Arc::new(Resolved::Int(0)), Arc::new(e.clone())),
                    (Some(b), 1) => Resolved::Bin(BinOp::Add, Arc::new(b), Arc::new(e.clone())),
                    (Some(b), _) => Resolved::Bin(BinOp::Sub, Arc::new(b), Arc::new(e.clone())),
                });
            }
        }
        Some(())
    }

    fn step(&mut self, slot: u32, times: i64) -> Option<()> {
        match &mut self.slot {
            None => self.slot = Some((slot, times)),
            Some((s, t)) if *s == slot => *t = t.checked_add(times)?,
            Some(_) => return None,
        }
        Some(())
    }
}
