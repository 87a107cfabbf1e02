//! Symmetry proof: shows that moving certain digits of the rank moves everything in a schedule
//! alike.
//!
//! A representative is walked with typed expressions ([`super::typing`]). Peers must move exactly
//! with the rank. Chunks must stay or move by one digit, in the same way wherever a buffer, or a
//! piece of it, is used ([`super::moves`]). Everything else (guards, bounds, slots, counters,
//! values of waits) must stay, and so must the contract. The module owns these rules.

mod operations;

use super::digits::{Reason, as_digit, axis_digits, coord_strides, disjoint};
use super::grid::twin;
use super::group::{Digit, FRACTION, Group, LinePart, Move};
use super::moves::{Constraint, moves};
use super::typing::{Env, MAX_DIGITS, SAME, Ty, Tys, Val, divided, log2, lowered, modulo, xor};
use kbc_ir::congruence::Congruence;
use kbc_ir::contract::{Cell, Clause, Contract};
use kbc_ir::cut::Chunks;
use kbc_ir::expr::Expr;
use kbc_ir::interval::Interval;
use kbc_ir::name::Name;
use kbc_ir::schedule::*;
use kbc_ir::visit::{op_exprs, ref_exprs};
use kbc_ir::walk::Program;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of operations that are typed.
const MAX_TYPED: u64 = 1 << 24;

/// A failed proof: the number of the digit that does not move with the others, and the reason.
pub(super) type Failed = (usize, Reason);

/// The proof for digits that are to move together.
pub(super) struct Prover<'a> {
    program: &'a Program<'a>,
    calls: u64,
    digits: Vec<Digit>,
    /// Whether only the shape is proven: peers, counters, control and sizes must move alike,
    /// contents need not.
    shape: bool,
    /// By digit: buffers and their uses.
    uses: Vec<BTreeSet<(u32, Constraint)>>,
    /// The shortest and longest runs of `cnt` chunks of `den`, by region and operand.
    lengths: BTreeMap<(u32, u32, u64, u64), (u64, u64)>,
    typed: u64,
    /// Local operations, by address, whose blocks have been checked.
    cut: BTreeSet<usize>,
    /// For each buffer, the elements at which the blocks begin that local operations pack or
    /// unpack.
    partitions: BTreeMap<u32, Vec<u64>>,
}

/// A chunk as an operation names it on the walked rank.
#[derive(Clone, PartialEq)]
struct Chunk {
    operand: u32,
    num: u64,
    cnt: u64,
    den: u64,
    /// The types of its digits, if it is another chunk on other ranks.
    varies: Option<Vec<Tys>>,
}

impl<'a> Prover<'a> {
    /// Creates the proof for digits of a group, at most [`MAX_DIGITS`].
    pub(super) fn new(program: &'a Program<'a>, calls: u64, digits: Vec<Digit>, shape: bool) -> Prover<'a> {
        debug_assert!(digits.len() <= MAX_DIGITS);
        let (uses, lengths) = (vec![BTreeSet::new(); digits.len()], BTreeMap::new());
        let (cut, partitions) = (BTreeSet::new(), BTreeMap::new());
        Prover { program, calls, digits, shape, uses, lengths, typed: 0, cut, partitions }
    }

    /// Returns the value of a coordinate that is a digit of the rank (or no digit).
    fn coordinate(&self, at: Option<(u64, u64)>, v: i64, size: u64) -> Val {
        let mut tys = SAME;
        for (ty, d) in tys.iter_mut().zip(&self.digits) {
            *ty = at.map_or(Ty::Any, |at| coordinate(d, at));
        }
        Val::new(v, tys, Interval::of(0, size as i64 - 1), Congruence::ANY)
    }

    /// Types everything that one rank does.
    pub(super) fn rank(&mut self, rank: u64) -> Result<(), Failed> {
        let s = self.program.schedule;
        let axes = axis_digits(s);
        let coords = s.mesh.coords(rank);
        for call in 0..self.calls {
            let mut vars = vec![(CALL.into(), Val::fixed(call as i64))];
            for (i, a) in s.mesh.axes.iter().enumerate() {
                vars.push((a.name.clone(), self.coordinate(Some(axes[i]), coords[i], a.size)));
            }
            let depth = vars.len();
            let mut env = Env { vars, tables: &s.tables };
            for (i, r) in s.regions.iter().enumerate() {
                env.vars.truncate(depth);
                self.region(&mut env, RegionId(i as u32), r, rank, call == 0)?;
            }
        }
        Ok(())
    }

    fn region(
        &mut self,
        env: &mut Env,
        id: RegionId,
        r: &Region,
        rank: u64,
        first: bool,
    ) -> Result<(), Failed> {
        let index = self.program.group_index(id, rank);
        let mut own = vec![];
        for ((name, size), (stride, _)) in r.coords.iter().zip(coord_strides(r)) {
            let at = as_digit(self.program, id, stride, *size);
            let v = self.coordinate(at, (index / stride % size) as i64, *size);
            own.push(v.tys);
            env.vars.push((name.clone(), v));
        }
        if first && !self.shape {
            self.contract(id, r)?;
        }
        let mut fresh = first;
        for role in &r.roles {
            let mine = match &role.ranks {
                RankSet::All => true,
                RankSet::Where(e) => {
                    fresh |= by_call(e);
                    self.same(env, e, || format!("role {} of region {}", role.name, r.name))?.v != 0
                }
                RankSet::List(l) => {
                    if let Some(failed) = self.closed(id, r, l, rank) {
                        return Err(failed);
                    }
                    l.contains(&index)
                }
            };
            if mine {
                for st in &role.streams {
                    self.body(env, id, r, &own, &st.body, fresh)?;
                }
                break;
            }
        }
        Ok(())
    }

    /// Checks that the digits map a list of ranks onto itself.
    fn closed(&self, id: RegionId, r: &Region, list: &[u64], rank: u64) -> Option<Failed> {
        let moved = |d: &Digit| {
            let one = Group::new(self.program.ranks(), vec![d.clone()]);
            let steps: Vec<u64> = if d.xor { (0..d.size.ilog2()).map(|b| 1 << b).collect() } else { vec![1] };
            list.iter().any(|i| {
                let q = self.program.group_rank(id, rank, *i);
                let to = |t: &u64| self.program.group_index(id, one.act(t * d.stride, q));
                steps.iter().any(|t| !list.contains(&to(t)))
            })
        };
        let k = self.digits.iter().position(moved)?;
        Some((k, format!("a role of region {} applies only to some ranks", r.name)))
    }

    /// Returns the value of an expression that must be the same when any digit moves.
    fn same(&self, env: &Env, e: &Expr, what: impl Fn() -> String) -> Result<Val, Failed> {
        let v = env.eval(e).ok_or_else(|| (0, format!("`{e}` ({}) has no value", what())))?;
        match v.tys.iter().position(|t| *t != Ty::Same) {
            None => Ok(v),
            Some(k) => Err((k, format!("`{e}` ({}) is not the same on every rank", what()))),
        }
    }

    /// Types statements. If they are `fresh`, all are typed. Otherwise they were typed in an
    /// earlier call, and only what depends on the number of the call is typed again.
    fn body(
        &mut self,
        env: &mut Env,
        id: RegionId,
        r: &Region,
        own: &[Tys],
        list: &[SStmt],
        fresh: bool,
    ) -> Result<(), Failed> {
        for s in list.iter().filter(|s| fresh || stmt_by_call(s)) {
            match s {
                SStmt::For { var, lo, hi, body } => {
                    let fresh = fresh || by_call(lo) || by_call(hi);
                    let what = || format!("a bound in region {}", r.name);
                    let (a, b) = (self.same(env, lo, what)?, self.same(env, hi, what)?);
                    let depth = env.vars.len();
                    env.vars.push((var.clone(), a));
                    for v in a.v..b.v {
                        self.step()?;
                        env.vars.truncate(depth + 1);
                        env.vars[depth].1 = Val::fixed(v);
                        self.body(env, id, r, own, body, fresh)?;
                    }
                    env.vars.truncate(depth);
                }
                SStmt::If { cond, then, other } => {
                    let taken = self.same(env, cond, || format!("a guard in region {}", r.name))?.v != 0;
                    let fresh = fresh || by_call(cond);
                    self.body(env, id, r, own, if taken { then } else { other }, fresh)?;
                }
                SStmt::Op(op, _) => self.op(env, id, r, own, op, fresh)?,
            }
        }
        Ok(())
    }

    /// Counts an operation or an iteration of a loop.
    fn step(&mut self) -> Result<(), Failed> {
        self.typed += 1;
        if self.typed > MAX_TYPED {
            return Err((
                0,
                format!("the check of symmetry exceeds its limit of {MAX_TYPED} operations and iterations"),
            ));
        }
        Ok(())
    }

    /// Types a local operation. It touches the same memory on every rank, moved as the buffer is:
    /// all of it, or one block of a line. The elements that it computes contribute to no contract,
    /// so its other expressions need not move. Its sizes and parts are checked on every rank when
    /// it is executed.
    fn local(&mut self, env: &Env, r: &Region, l: &LocalOp) -> Result<(), Failed> {
        let Some(LineBlock { line, tensor: _, dim: _, parts, rule: _, at }) = l.line_block() else {
            return Ok(());
        };
        if self.shape {
            return Ok(());
        }
        self.blocks(l)?;
        // Local operations see only the axes of the mesh.
        let axes = 1 + self.program.schedule.mesh.axes.len();
        let outer = Env { vars: env.vars[..axes].to_vec(), tables: env.tables };
        let part = Part { index: at.clone(), len: Expr::Int(1), of: Expr::Int(parts as i64) };
        let name = &self.program.schedule.buffer(line).name;
        self.path(&outer, r, (name, line), None, &[part]).map(drop)
    }

    /// Checks the blocks that local operations pack and unpack. They must be the blocks into which
    /// chunks are cut, and the same for all local operations: what is filled or read here then
    /// represents the moved block on every other rank.
    fn blocks(&mut self, l: &LocalOp) -> Result<(), Failed> {
        let Some(LineBlock { line, tensor, dim, parts, rule, at: _ }) = l.line_block() else {
            return Ok(());
        };
        if !self.cut.insert(std::ptr::from_ref(l) as usize) {
            return Ok(());
        }
        let s = self.program.schedule;
        let name = &s.buffer(line).name;
        let fixed = |e: &Expr| e.as_int().is_some();
        let other = s.buffer(tensor).dims.iter().enumerate().filter(|(d, _)| *d != dim as usize);
        if !s.buffer(line).dims.iter().all(fixed) || !other.clone().all(|(_, e)| fixed(e)) {
            return Err((0, format!("the blocks of %{name} have different sizes on different ranks")));
        }
        let unit: u64 = other.filter_map(|(_, e)| e.as_int()).map(|n| n as u64).product();
        let all = self.program.elements(line, 0).map_err(|f| (0, f.text))?;
        let Some(n) = all.checked_div(unit) else { return Ok(()) };
        let cuts: Vec<u64> = (0..=parts).map(|i| rule.boundary(n, i, parts) * unit).collect();
        let chunks = self.chunks(line, parts).unwrap_or_else(|| cuts.clone());
        if *self.partitions.entry(line.0).or_insert(chunks) != cuts {
            return Err((0, format!("the blocks of %{name} do not match its chunks")));
        }
        Ok(())
    }

    /// Returns the elements at which the chunks of a buffer begin if it is cut into `of` chunks,
    /// and the end of the last. Returns None if the buffer is not an operand.
    fn chunks(&self, b: BufferId, of: u64) -> Option<Vec<u64>> {
        // Any operand represents all: a buffer has one line.
        let regions = self.program.schedule.regions.iter().enumerate();
        let (region, operand) = regions
            .filter_map(|(i, r)| Some((i, r.operands.iter().position(|o| o.buffer == b)?)))
            .map(|(i, o)| (RegionId(i as u32), OperandId(o as u32)))
            .next()?;
        (0..=of).map(|k| self.program.chunk_start(region, operand, 0, k as i64, of as i64).ok()).collect()
    }

    /// Checks that source and destination on one rank are the same chunk or disjoint, on every
    /// rank. The walk sees that only on the walked rank.
    fn check_same_or_disjoint(&self, env: &Env, r: &Region, (src, dst): (&Ref, &Ref)) -> Result<(), Failed> {
        let (Ref::Chunk { operand: a, path: p }, Ref::Chunk { operand: b, path: q }) = (src, dst) else {
            return Ok(());
        };
        let buffer = |o: &OperandId| r.operands[o.0 as usize].buffer;
        if buffer(a) != buffer(b) {
            return Ok(());
        }
        let fixed = |e: &Expr| env.eval(e).is_some_and(|v| v.is_fixed());
        let whole = |path: &[Part]| path.iter().all(|p| p.len == Expr::Int(1));
        let cuts = |path: &[Part]| path.iter().map(|p| p.of.clone()).collect::<Vec<_>>();
        let same_grain = whole(p) && whole(q) && cuts(p) == cuts(q);
        if same_grain || p.iter().chain(q).all(|p| fixed(&p.index)) {
            return Ok(());
        }
        Err((0, format!("chunks of one buffer in region {} may overlap on other ranks", r.name)))
    }

    fn peer(&self, env: &Env, r: &Region, own: &[Tys], peer: &[Expr]) -> Result<(), Failed> {
        for ((e, coordinate), (name, _)) in peer.iter().zip(own).zip(&r.coords) {
            let found = env.eval(e).map_or([Ty::Any; MAX_DIGITS], |v| v.tys);
            let moves = |k: &usize| {
                let movable =
                    matches!(coordinate[*k], Ty::Same | Ty::Shift { whole: true, .. } | Ty::Xor { .. });
                !movable || found[*k] != coordinate[*k]
            };
            if let Some(k) = (0..self.digits.len()).find(moves) {
                let why = format!("the peer `{e}` does not shift with `{name}` in region {}", r.name);
                return Err((k, why));
            }
        }
        Ok(())
    }

    /// Types both sides of a transfer. If chunks differ in length, a transfer that fits on this
    /// rank must fit on every rank.
    fn sides(
        &mut self,
        env: &Env,
        id: RegionId,
        r: &Region,
        (src, dst): (&Ref, &Ref),
        fresh: bool,
    ) -> Result<(), Failed> {
        let chunk = |x: &&Ref| matches!(x, Ref::Chunk { operand: _, path: _ });
        if !fresh && ![src, dst].into_iter().filter(chunk).any(ref_by_call) {
            for x in [src, dst] {
                if let Ref::Slot { slot, window: _ } = x {
                    self.same(env, slot, || "a slot".into())?;
                }
            }
            return Ok(());
        }
        let (a, b) = (self.reference(env, r, src)?, self.reference(env, r, dst)?);
        if self.shape {
            for c in [&a, &b].into_iter().flatten().filter(|c| c.varies.is_some()) {
                let (least, most) = self.lengths(id, c)?;
                if least != most {
                    let name = &r.operands[c.operand as usize].name;
                    let why = format!("chunks of {name} in region {} differ in length", r.name);
                    return Err((self.mover(c), why));
                }
            }
            return Ok(());
        }
        let refuse = |this: &Self, c: &Chunk| {
            let name = &r.operands[c.operand as usize].name;
            let why = format!("chunks of {name} in region {} differ in length, and not all may fit", r.name);
            Err((this.mover(c), why))
        };
        match (&a, &b) {
            (Some(a), Some(b)) => {
                if a == b || (a.varies.is_none() && b.varies.is_none()) {
                    return Ok(());
                }
                for c in [a, b] {
                    let (least, most) = self.lengths(id, c)?;
                    if least != most {
                        return refuse(self, c);
                    }
                }
            }
            (Some(c), None) | (None, Some(c)) if c.varies.is_some() => {
                let capacity = [src, dst].into_iter().filter_map(|x| match x {
                    Ref::Slot { window, slot: _ } => Some(self.program.schedule.window(*window).capacity),
                    Ref::Chunk { operand: _, path: _ } => None,
                });
                let capacity = capacity.min().unwrap_or(0);
                let (least, most) = self.lengths(id, c)?;
                // Without a contract, the filled part of a slot is not tracked.
                if most > capacity || r.contract.is_none() && least != most {
                    return refuse(self, c);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns a digit that moves a chunk.
    fn mover(&self, c: &Chunk) -> usize {
        let moves = |k: &usize| c.varies.iter().flatten().any(|tys| tys[*k] != Ty::Same);
        (0..self.digits.len()).find(moves).unwrap_or(0)
    }

    fn lengths(&mut self, id: RegionId, c: &Chunk) -> Result<(u64, u64), Failed> {
        let key = (id.0, c.operand, c.cnt, c.den);
        if let Some(found) = self.lengths.get(&key) {
            return Ok(*found);
        }
        let start = |i: u64| {
            let start = self.program.chunk_start(id, OperandId(c.operand), 0, i as i64, c.den as i64);
            start.map_err(|f| (0, f.text))
        };
        let (mut least, mut most) = (u64::MAX, 0);
        for i in 0..=c.den.saturating_sub(c.cnt) {
            let n = start(i + c.cnt)?.saturating_sub(start(i)?);
            (least, most) = (least.min(n), most.max(n));
        }
        self.lengths.insert(key, (least, most));
        Ok((least, most))
    }

    fn reference(&mut self, env: &Env, r: &Region, x: &Ref) -> Result<Option<Chunk>, Failed> {
        let (operand, path) = match x {
            Ref::Slot { window: _, slot } => return self.same(env, slot, || "a slot".into()).map(|_| None),
            Ref::Chunk { operand, path } => (operand, path),
        };
        let o = &r.operands[operand.0 as usize];
        let mut chunk = self.path(env, r, (&o.name, o.buffer), Some(o), path)?;
        chunk.operand = operand.0;
        Ok(Some(chunk))
    }

    /// Types a chunk of a buffer, which is an operand or a whole buffer, and records how it moves.
    fn path(
        &mut self,
        env: &Env,
        r: &Region,
        (name, buffer): (&Name, BufferId),
        operand: Option<&Operand>,
        path: &[Part],
    ) -> Result<Chunk, Failed> {
        let mut chunks = Chunks::WHOLE;
        let mut moving: Vec<Option<Constraint>> = vec![None; self.digits.len()];
        let mut piece = LinePart::WHOLE;
        let mut types = vec![];
        for p in path {
            let unknown = || (0, format!("a chunk of {name} has no value"));
            let (i, len, of) = (env.eval(&p.index), env.eval(&p.len), env.eval(&p.of));
            let (Some(i), Some(len), Some(of)) = (i, len, of) else { return Err(unknown()) };
            if let Some(k) =
                (0..self.digits.len()).find(|k| len.tys[*k] != Ty::Same || of.tys[*k] != Ty::Same)
            {
                let why =
                    format!("the division of {} into chunks in region {} depends on the rank", name, r.name);
                return Err((k, why));
            }
            chunks = chunks.cut([i.v, len.v, of.v]).map_err(|_| unknown())?;
            let Chunks { num, den, .. } = chunks;
            if types.is_empty() && i.is_fixed() && len.v == 1 {
                piece = LinePart { at: num, of: den };
            }
            types.push(i.tys);
            for (k, moved) in moving.iter_mut().enumerate() {
                let ty = i.tys[k];
                if ty == Ty::Same {
                    continue;
                }
                let stuck = || {
                    let why = format!(
                        "chunk `{}` of {} in region {} does not shift with the rank",
                        p.index, name, r.name
                    );
                    (k, why)
                };
                if len.v != 1 {
                    return Err(stuck());
                }
                *moved = Some(match (ty, &*moved) {
                    (Ty::Shift { c, m, whole: true }, None) if of.v % m == 0 => {
                        Constraint::shift(den, m as u64, c as u64)
                    }
                    (Ty::Xor { sh, mask }, before) if den.is_power_of_two() && (0..of.v).contains(&mask) => {
                        let up = FRACTION.checked_sub(den.ilog2()).ok_or_else(stuck)?;
                        let (sh, mut mask) = (sh - up as i32, (mask as u64) << up);
                        match before {
                            None => {}
                            // Further bits of the same number.
                            Some(Constraint::Xor { sh: coarse, mask: above, .. }) if *coarse == sh => {
                                mask |= above
                            }
                            Some(_) => return Err(stuck()),
                        }
                        Constraint::Xor { sh, mask, cnt: 1, den }
                    }
                    _ => return Err(stuck()),
                });
            }
        }
        let Chunks { num, cnt, den } = chunks;
        let any = types.iter().any(|tys| *tys != SAME);
        let chunk = Chunk { operand: u32::MAX, num, cnt, den, varies: any.then_some(types) };
        if self.shape {
            return Ok(chunk);
        }
        for (k, moved) in moving.into_iter().enumerate() {
            let used = match moved {
                Some(Constraint::Xor { sh, mask, .. }) => Constraint::Xor { sh, mask, cnt, den },
                Some(shift) => shift.within(piece),
                // If another digit moves the chunk, it may be any chunk of that size.
                None if any => Constraint::Stay { num: 1, cnt: cnt.min(1), den, piece },
                None => Constraint::Stay { num, cnt, den, piece: LinePart::WHOLE },
            };
            let entry = (buffer.0, used);
            if !self.uses[k].contains(&entry) {
                if let Some(o) = operand.filter(|o| o.scratch)
                    && !matches!(entry.1, Constraint::Stay { .. })
                    && twin(r, o).is_none()
                {
                    return Err((k, format!("scratch {name} of region {} shifts with the rank", r.name)));
                }
                self.uses[k].insert(entry);
            }
        }
        Ok(chunk)
    }

    /// Checks that the clauses of a contract are about ranks and blocks that move alike: the rank
    /// itself, or all of them.
    fn contract(&mut self, id: RegionId, r: &Region) -> Result<(), Failed> {
        let Some(p) = &r.contract else { return Ok(()) };
        for k in 0..self.digits.len() {
            self.contract_under_digit(k, id, r, p).map_err(|why| (k, why))?;
        }
        Ok(())
    }

    fn contract_under_digit(
        &mut self,
        k: usize,
        id: RegionId,
        r: &Region,
        p: &Contract,
    ) -> Result<(), Reason> {
        let d = self.digits[k].clone();
        let size = self.program.schedule.group_size(r);
        let stride = self.program.group_index(id, d.stride);
        if (0..d.size).any(|t| self.program.group_index(id, t * d.stride) != t * stride) {
            return Err(format!("the groups of region {} do not shift with a coordinate", r.name));
        }
        let inside = stride > 0 && size > 1;
        let buffer = |cell: &Cell| r.operands.iter().find(|o| o.name == cell.buffer).map(|o| o.buffer.0);
        let refuse = || Err(format!("the contract of region {} is not the same for every rank", r.name));
        for b in p.buffers.iter().filter(|b| b.blocks) {
            let Some(o) = r.operands.iter().find(|o| o.name == b.name) else { continue };
            let used = if !inside {
                Constraint::Stay { num: 1, cnt: 1, den: size, piece: LinePart::WHOLE }
            } else if !size.is_multiple_of(stride) {
                return refuse();
            } else if d.xor {
                let parts = size / stride;
                if !parts.is_power_of_two() || !size.is_power_of_two() {
                    return refuse();
                }
                let up = FRACTION.saturating_sub(parts.ilog2());
                Constraint::Xor { sh: -(up as i32), mask: (d.size - 1) << up, cnt: 1, den: size }
            } else {
                Constraint::shift(size / stride, d.size, 1)
            };
            self.uses[k].insert((o.buffer.0, used));
        }
        if !inside {
            return Ok(());
        }
        for clause in &p.clauses {
            let (cell, cond) = match clause {
                Clause::Start { cell, cond } | Clause::End { cell, cond, from: _, at: _, sum: _ } => {
                    (cell, cond)
                }
            };
            // A name that is not bound ranges over everything; `rank` moves.
            let plain = |c: &Cell| c.index.iter().all(|e| matches!(e, Expr::Var(n) if *n != p.size));
            let mut fine = cond.is_none() && plain(cell);
            if let Clause::End { from, at, sum, cell: _, cond: _ } = clause {
                let all = sum.as_ref().is_none_or(|s| {
                    s.lo == Expr::Int(0) && s.hi == Expr::Var(p.size.clone()) && s.cond.is_none()
                });
                let bound = |n: &kbc_ir::name::Name| {
                    *n == p.rank
                        || sum.as_ref().is_some_and(|s| s.var == *n)
                        || cell.index.contains(&Expr::Var(n.clone()))
                };
                fine &= plain(from) && all && matches!(at, Expr::Var(n) if bound(n));
                // For contributions to one operand that end in another, both operands must move
                // alike. Blocks do.
                let blocks = |c: &Cell| p.buffers.iter().any(|b| b.name == c.buffer && b.blocks);
                fine &= buffer(cell) == buffer(from) || (blocks(cell) && blocks(from));
            }
            if !fine {
                return refuse();
            }
        }
        Ok(())
    }

    /// Returns the moves of each buffer.
    pub(super) fn conclude(self) -> Result<Vec<(u32, Move)>, Failed> {
        let s = self.program.schedule;
        let mut out = vec![];
        for (k, digit) in self.digits.iter().enumerate() {
            for (b, buffer) in s.buffers.iter().enumerate() {
                let uses: Vec<&Constraint> =
                    self.uses[k].iter().filter(|u| u.0 == b as u32).map(|u| &u.1).collect();
                let found = moves(&uses, k, digit)
                    .ok_or_else(|| (k, format!("the uses of %{} shift in different ways", buffer.name)))?;
                out.extend(found.into_iter().map(|m| (b as u32, m)));
            }
        }
        Ok(out)
    }
}

/// Whether an expression depends on the number of the call.
fn by_call(e: &Expr) -> bool {
    e.mentions(CALL)
}

fn ref_by_call(x: &Ref) -> bool {
    ref_exprs(x).into_iter().any(|(_, e)| by_call(e))
}

/// Whether any typed expression of a statement depends on the number of the call.
fn stmt_by_call(s: &SStmt) -> bool {
    match s {
        SStmt::For { var: _, lo, hi, body } => by_call(lo) || by_call(hi) || body.iter().any(stmt_by_call),
        SStmt::If { cond, then, other } => by_call(cond) || then.iter().chain(other).any(stmt_by_call),
        SStmt::Op(op, _) => op_exprs(op).into_iter().any(|(_, e)| by_call(e)),
    }
}

/// Returns the type of a coordinate that is the digit `c` of the rank (stride and size) when digit
/// `d` moves.
fn coordinate(d: &Digit, c: (u64, u64)) -> Ty {
    let (st, m) = (d.stride, d.size);
    if disjoint((st, m), c) {
        return Ty::Same;
    }
    if c.0 <= st && (c.0 * c.1).is_multiple_of(st * m) && st.is_multiple_of(c.0) {
        let q = (st / c.0) as i64;
        return match d.xor {
            true => log2(q).map_or(Ty::Any, |l| xor(-(l as i32), (m as i64 - 1) << l)),
            false => Ty::Shift { c: q, m: q * m as i64, whole: true },
        };
    }
    if st <= c.0 && (st * m).is_multiple_of(c.0 * c.1) && c.0.is_multiple_of(st) {
        let q = (c.0 / st) as i64;
        if d.xor {
            return match (log2(q), log2(c.1 as i64)) {
                (Some(l), Some(n)) => match lowered(0, m as i64 - 1, l) {
                    Ty::Xor { sh, mask } => xor(sh, mask & ((1 << n) - 1)),
                    t @ Ty::Same | t @ Ty::Shift { .. } | t @ Ty::Any => t,
                },
                _ => Ty::Any,
            };
        }
        if let Some(Ty::Shift { c: step, m, whole }) = divided(1, m as i64, true, q) {
            return modulo(step, m, whole, c.1 as i64).unwrap_or(Ty::Any);
        }
    }
    Ty::Any
}
