//! Showing that a digit of the rank moves everything alike: the proof for one digit.
//!
//! A representative is walked with typed expressions ([`super::typing`]): peers must move exactly with the rank; chunks
//! must stay or move by one digit, the same way wherever a buffer is used; everything else (guards, bounds, slots,
//! counters, values of waits) must stay, and so must the promise. Owns these rules.

use super::group::{Digit, FRACTION, Group, Move};
use super::symmetry::{Reason, as_digit, axis_digits, coord_strides, disjoint};
use super::typing::{Env, Ty, Val, divided, log2, lowered, modulo, xor};
use crate::expr::Expr;
use crate::promise::{Cell, Clause};
use crate::schedule::*;
use crate::walk::Program;
use std::collections::{BTreeMap, BTreeSet};

/// More operations than this are not typed.
const MOST_TYPED: u64 = 1 << 24;

/// What an address says about how its buffer moves.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Use {
    /// Of `of` parts, in runs of `n`, part i goes to i + c t.
    Shift { of: u64, n: u64, c: u64 },
    /// The binary fraction is xored; the run is `cnt / den` of the line long.
    Xor { sh: i32, mask: u64, cnt: u64, den: u64 },
    /// A run that stays: `num / den`, `cnt / den` long (`num` 1 where any).
    Stay { num: u64, cnt: u64, den: u64 },
}

/// The proof for one digit of those that are to move together.
pub(super) struct Prover<'a> {
    program: &'a Program<'a>,
    calls: u64,
    /// Digits that are to move together.
    digits: Vec<Digit>,
    /// The one that is being shown.
    k: usize,
    /// Only peers, counters, control and how long things are must move alike; what is in them need not.
    shape: bool,
    uses: BTreeSet<(u32, Use)>,
    /// Shortest and longest of the runs of `cnt` chunks of `den`, by region and operand.
    lengths: BTreeMap<(u32, u32, u64, u64), (u64, u64)>,
    typed: u64,
}

/// A chunk as an operation names it on the walked rank.
#[derive(Clone, PartialEq)]
struct Chunk {
    operand: u32,
    num: u64,
    cnt: u64,
    den: u64,
    /// Types of its digits where it is another chunk on other ranks.
    varies: Option<Vec<Ty>>,
}

impl<'a> Prover<'a> {
    /// For digit number `k` of `digits`.
    pub(super) fn new(program: &'a Program<'a>, calls: u64, digits: Vec<Digit>, k: usize) -> Prover<'a> {
        let (uses, lengths) = (BTreeSet::new(), BTreeMap::new());
        Prover { program, calls, digits, k, shape: false, uses, lengths, typed: 0 }
    }

    /// For the shape alone: who sends how much to whom and waits for what, not what the bytes mean.
    pub(super) fn shape(self) -> Prover<'a> {
        Prover { shape: true, ..self }
    }

    fn digit(&self) -> &Digit {
        &self.digits[self.k]
    }

    /// A coordinate that is a digit of the rank (or none), as a value.
    fn coordinate(&self, at: Option<(u64, u64)>, v: i64) -> Val {
        let Some(c) = at else { return Val { v, ty: Ty::Any, fixed: false } };
        let fixed = self.digits.iter().all(|d| disjoint((d.stride, d.size), c));
        let d = self.digit();
        let (st, m) = (d.stride, d.size);
        let ty = if disjoint((st, m), c) {
            Ty::Same
        } else if c.0 <= st && st * m <= c.0 * c.1 && st.is_multiple_of(c.0) {
            let q = (st / c.0) as i64;
            if d.xor {
                match log2(q) {
                    Some(l) => xor(-(l as i32), (m as i64 - 1) << l),
                    None => Ty::Any,
                }
            } else {
                let top = st * m == c.0 * c.1;
                Ty::Shift { c: q, m: if top { c.1 as i64 } else { q * m as i64 }, canon: top }
            }
        } else if st <= c.0 && c.0 * c.1 <= st * m && c.0.is_multiple_of(st) {
            let q = (c.0 / st) as i64;
            if d.xor {
                match (log2(q), log2(c.1 as i64)) {
                    (Some(l), Some(n)) => match lowered(0, m as i64 - 1, l) {
                        Ty::Xor { sh, mask } => xor(sh, mask & ((1 << n) - 1)),
                        t => t,
                    },
                    _ => Ty::Any,
                }
            } else {
                match divided(1, m as i64, true, q) {
                    Some(Ty::Shift { c: step, m, canon }) => {
                        modulo(step, m, canon, c.1 as i64).unwrap_or(Ty::Any)
                    }
                    _ => Ty::Any,
                }
            }
        } else {
            Ty::Any
        };
        Val { v, ty, fixed }
    }

    /// Types all that one rank does.
    pub(super) fn rank(&mut self, rank: u64) -> Result<(), Reason> {
        let s = self.program.schedule;
        let axes = axis_digits(s);
        let coords = s.mesh.coords(rank);
        for call in 0..self.calls {
            let mut vars = vec![(CALL.into(), Val::fixed(call as i64))];
            for (i, a) in s.mesh.axes.iter().enumerate() {
                vars.push((a.name.clone(), self.coordinate(Some(axes[i]), coords[i])));
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
    ) -> Result<(), Reason> {
        let index = self.program.group_index(id, rank);
        let mut own = vec![];
        for ((name, size), (stride, _)) in r.coords.iter().zip(coord_strides(r)) {
            let v =
                self.coordinate(as_digit(self.program, id, stride, *size), (index / stride % size) as i64);
            own.push(v.ty);
            env.vars.push((name.clone(), v));
        }
        if first && !self.shape {
            self.promise(id, r)?;
        }
        for role in &r.roles {
            let mine = match &role.ranks {
                RankSet::All => true,
                RankSet::Where(e) => {
                    self.same(env, e, || format!("role {} of region {}", role.name, r.name))? != 0
                }
                RankSet::List(l) => {
                    if let Some(reason) = self.closed(id, r, l, rank) {
                        return Err(reason);
                    }
                    l.contains(&index)
                }
            };
            if mine {
                for st in &role.streams {
                    self.body(env, id, r, &own, &st.body)?;
                }
                break;
            }
        }
        Ok(())
    }

    /// A list of ranks must be moved onto itself.
    fn closed(&self, id: RegionId, r: &Region, list: &[u64], rank: u64) -> Option<Reason> {
        let d = self.digit();
        let one = Group::new(self.program.ranks(), vec![d.clone()]);
        let steps: Vec<u64> = if d.xor { (0..d.size.ilog2()).map(|b| 1 << b).collect() } else { vec![1] };
        let stays = list.iter().all(|i| {
            let q = self.program.group_rank(id, rank, *i);
            steps.iter().all(|t| list.contains(&self.program.group_index(id, one.act(t * d.stride, q))))
        });
        (!stays).then(|| format!("a role of region {} is for some ranks only", r.name))
    }

    fn same(&self, env: &Env, e: &Expr, what: impl Fn() -> String) -> Result<i64, Reason> {
        match env.eval(e) {
            Some(v) if v.ty == Ty::Same => Ok(v.v),
            Some(_) => Err(format!("`{e}` ({}) is not the same when the rank moves", what())),
            None => Err(format!("`{e}` ({}) has no value", what())),
        }
    }

    fn body(
        &mut self,
        env: &mut Env,
        id: RegionId,
        r: &Region,
        own: &[Ty],
        list: &[SStmt],
    ) -> Result<(), Reason> {
        for s in list {
            match s {
                SStmt::For { var, lo, hi, body } => {
                    let what = || format!("a bound in region {}", r.name);
                    let (a, b) = (self.same(env, lo, what)?, self.same(env, hi, what)?);
                    let fixed = [lo, hi].iter().all(|e| env.eval(e).is_some_and(|v| v.fixed));
                    let depth = env.vars.len();
                    env.vars.push((var.clone(), Val::fixed(0)));
                    for v in a..b {
                        env.vars.truncate(depth + 1);
                        env.vars[depth].1 = Val { v, ty: Ty::Same, fixed };
                        self.body(env, id, r, own, body)?;
                    }
                    env.vars.truncate(depth);
                }
                SStmt::If { cond, then, other } => {
                    let taken = self.same(env, cond, || format!("a guard in region {}", r.name))? != 0;
                    self.body(env, id, r, own, if taken { then } else { other })?;
                }
                SStmt::Op(op, _) => self.op(env, id, r, own, op)?,
            }
        }
        Ok(())
    }

    fn op(&mut self, env: &Env, id: RegionId, r: &Region, own: &[Ty], op: &SOp) -> Result<(), Reason> {
        self.typed += 1;
        if self.typed > MOST_TYPED {
            return Err(format!("more than {MOST_TYPED} operations would have to be typed"));
        }
        match op {
            SOp::Copy { dst, src } | SOp::Reduce { dst, src, .. } => self.sides(env, id, r, src, dst),
            SOp::Put { src, peer, dst } | SOp::Get { dst, peer, src } => {
                self.peer(env, r, own, peer)?;
                self.sides(env, id, r, src, dst)
            }
            SOp::Notify { peer, index, .. } => {
                self.peer(env, r, own, peer)?;
                self.same(env, index, || "a counter".into()).map(drop)
            }
            SOp::Wait { index, value, .. } => {
                self.same(env, index, || "a counter".into())?;
                self.same(env, value, || "the value of a wait".into()).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn peer(&self, env: &Env, r: &Region, own: &[Ty], peer: &[Expr]) -> Result<(), Reason> {
        for ((e, coordinate), (name, _)) in peer.iter().zip(own).zip(&r.coords) {
            let movable = matches!(coordinate, Ty::Same | Ty::Shift { canon: true, .. } | Ty::Xor { .. });
            if !movable || env.eval(e).is_none_or(|v| v.ty != *coordinate) {
                return Err(format!("the peer `{e}` does not move with `{name}` in region {}", r.name));
            }
        }
        Ok(())
    }

    /// Both sides of a transfer; where chunks are not all of one length, what fits here must fit everywhere.
    fn sides(&mut self, env: &Env, id: RegionId, r: &Region, src: &Ref, dst: &Ref) -> Result<(), Reason> {
        let (a, b) = (self.reference(env, r, src)?, self.reference(env, r, dst)?);
        if self.shape {
            for c in [&a, &b].into_iter().flatten().filter(|c| c.varies.is_some()) {
                let (least, most) = self.lengths(id, c)?;
                if least != most {
                    let name = &r.operands[c.operand as usize].name;
                    return Err(format!("chunks of {name} in region {} differ in length", r.name));
                }
            }
            return Ok(());
        }
        let refuse = |o: u32| {
            let name = &r.operands[o as usize].name;
            Err(format!("chunks of {name} in region {} differ in length, and not all may fit", r.name))
        };
        match (&a, &b) {
            (Some(a), Some(b)) => {
                if a == b || (a.varies.is_none() && b.varies.is_none()) {
                    return Ok(());
                }
                for c in [a, b] {
                    let (least, most) = self.lengths(id, c)?;
                    if least != most {
                        return refuse(c.operand);
                    }
                }
            }
            (Some(c), None) | (None, Some(c)) if c.varies.is_some() => {
                let capacity = [src, dst].into_iter().filter_map(|x| match x {
                    Ref::Slot { window, .. } => Some(self.program.schedule.window(*window).capacity),
                    Ref::Chunk { .. } => None,
                });
                let capacity = capacity.min().unwrap_or(0);
                if self.lengths(id, c)?.1 > capacity {
                    return refuse(c.operand);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn lengths(&mut self, id: RegionId, c: &Chunk) -> Result<(u64, u64), Reason> {
        let key = (id.0, c.operand, c.cnt, c.den);
        if let Some(found) = self.lengths.get(&key) {
            return Ok(*found);
        }
        let start = |i: u64| {
            let start = self.program.chunk_start(id, OperandId(c.operand), 0, i as i64, c.den as i64);
            start.map_err(|f| f.text)
        };
        let (mut least, mut most) = (u64::MAX, 0);
        for i in 0..=c.den.saturating_sub(c.cnt) {
            let n = start(i + c.cnt)?.saturating_sub(start(i)?);
            (least, most) = (least.min(n), most.max(n));
        }
        self.lengths.insert(key, (least, most));
        Ok((least, most))
    }

    fn reference(&mut self, env: &Env, r: &Region, x: &Ref) -> Result<Option<Chunk>, Reason> {
        let (operand, path) = match x {
            Ref::Slot { slot, .. } => return self.same(env, slot, || "a slot".into()).map(|_| None),
            Ref::Chunk { operand, path } => (operand, path),
        };
        let o = &r.operands[operand.0 as usize];
        let (mut num, mut cnt, mut den) = (0u64, 1u64, 1u64);
        let mut moving: Option<Use> = None;
        let mut any = false;
        let mut types = vec![];
        for p in path {
            let unknown = || format!("a chunk of {} has no value", o.name);
            let (i, len, of) = (env.eval(&p.index), env.eval(&p.len), env.eval(&p.of));
            let (Some(i), Some(len), Some(of)) = (i, len, of) else { return Err(unknown()) };
            if !len.fixed || !of.fixed || len.ty != Ty::Same || of.ty != Ty::Same || of.v < 1 || len.v < 0 {
                return Err(format!("how {} is cut in region {} depends on the rank", o.name, r.name));
            }
            den = den.checked_mul(of.v as u64).ok_or_else(unknown)?;
            num = num.wrapping_mul(of.v as u64).wrapping_add(i.v.max(0) as u64);
            cnt = len.v as u64;
            let stuck = || {
                format!("chunk `{}` of {} in region {} does not move with the rank", p.index, o.name, r.name)
            };
            types.push(i.ty);
            if i.ty == Ty::Same {
                any |= !i.fixed;
                continue;
            }
            if moving.is_some() || len.v != 1 {
                return Err(stuck());
            }
            moving = Some(match i.ty {
                Ty::Shift { c, m, canon: true } if m == of.v => {
                    Use::Shift { of: den, n: m as u64, c: c as u64 }
                }
                Ty::Xor { sh, mask } if den.is_power_of_two() && (0..of.v).contains(&mask) => {
                    let up = FRACTION.checked_sub(den.ilog2()).ok_or_else(stuck)?;
                    Use::Xor { sh: sh - up as i32, mask: (mask as u64) << up, cnt: 1, den }
                }
                _ => return Err(stuck()),
            });
        }
        let varies = (moving.is_some() || any).then_some(types);
        let chunk = Chunk { operand: operand.0, num, cnt, den, varies };
        let used = match moving {
            Some(Use::Xor { sh, mask, .. }) => Use::Xor { sh, mask, cnt, den },
            Some(shift) => shift,
            None => {
                Use::Stay { num: if any { 1 } else { num }, cnt: if any { 1.min(cnt) } else { cnt }, den }
            }
        };
        if self.shape {
            return Ok(Some(chunk));
        }
        let entry = (o.buffer.0, used);
        if !self.uses.contains(&entry) {
            if o.scratch && !matches!(entry.1, Use::Stay { .. }) {
                return Err(format!("scratch {} of region {} moves with the rank", o.name, r.name));
            }
            self.uses.insert(entry);
        }
        Ok(Some(chunk))
    }

    /// The clauses must be about ranks and blocks that move alike: the rank itself, or all of them.
    fn promise(&mut self, id: RegionId, r: &Region) -> Result<(), Reason> {
        let Some(p) = &r.promise else { return Ok(()) };
        let d = self.digit().clone();
        let size = self.program.schedule.group_size(r);
        let stride = self.program.group_index(id, d.stride);
        if (0..d.size).any(|t| self.program.group_index(id, t * d.stride) != t * stride) {
            return Err(format!("the groups of region {} do not move as a coordinate of theirs", r.name));
        }
        let inside = stride > 0 && size > 1;
        let buffer = |cell: &Cell| r.operands.iter().find(|o| o.name == cell.buffer).map(|o| o.buffer.0);
        let refuse = || Err(format!("the promise of region {} is not the same for every rank", r.name));
        for b in p.buffers.iter().filter(|b| b.blocks) {
            let Some(o) = r.operands.iter().find(|o| o.name == b.name) else { continue };
            let used = if !inside {
                Use::Stay { num: 1, cnt: 1, den: size }
            } else if d.xor {
                let parts = size / stride;
                if !parts.is_power_of_two() || !size.is_power_of_two() {
                    return refuse();
                }
                let up = FRACTION.saturating_sub(parts.ilog2());
                Use::Xor { sh: -(up as i32), mask: (d.size - 1) << up, cnt: 1, den: size }
            } else {
                Use::Shift { of: size / stride, n: d.size, c: 1 }
            };
            self.uses.insert((o.buffer.0, used));
        }
        if !inside {
            return Ok(());
        }
        for clause in &p.clauses {
            let (cell, cond) = match clause {
                Clause::Start { cell, cond } | Clause::End { cell, cond, .. } => (cell, cond),
            };
            // A name that is not bound ranges over all; `rank` moves.
            let plain = |c: &Cell| c.index.iter().all(|e| matches!(e, Expr::Var(n) if *n != p.size));
            let mut fine = cond.is_none() && plain(cell);
            if let Clause::End { from, at, sum, .. } = clause {
                let all = sum.as_ref().is_none_or(|s| {
                    s.lo == Expr::Int(0) && s.hi == Expr::Var(p.size.clone()) && s.cond.is_none()
                });
                let bound = |n: &crate::name::Name| {
                    *n == p.rank
                        || sum.as_ref().is_some_and(|s| s.var == *n)
                        || cell.index.contains(&Expr::Var(n.clone()))
                };
                fine &= plain(from) && all && matches!(at, Expr::Var(n) if bound(n));
                // Contributions to one operand that end in another: both must move alike, which blocks do.
                let blocks = |c: &Cell| p.buffers.iter().any(|b| b.name == c.buffer && b.blocks);
                fine &= buffer(cell) == buffer(from) || (blocks(cell) && blocks(from));
            }
            if !fine {
                return refuse();
            }
        }
        Ok(())
    }

    /// One way of moving for each buffer.
    pub(super) fn conclude(self) -> Result<Vec<(u32, Move)>, Reason> {
        let s = self.program.schedule;
        let digit = self.k;
        let mut out = vec![];
        for (b, buffer) in s.buffers.iter().enumerate() {
            let uses: Vec<&Use> = self.uses.iter().filter(|u| u.0 == b as u32).map(|u| &u.1).collect();
            let conflict = || format!("%{} is used in ways that do not move alike", buffer.name);
            let m = if self.digit().xor {
                one_xor(&uses, digit)
            } else {
                one_shift(&uses, digit, self.digit().size)
            };
            if let Some(m) = m.ok_or_else(conflict)? {
                out.push((b as u32, m));
            }
        }
        Ok(out)
    }
}

/// The one shift that all uses of a buffer agree on; none within if it stays, none at all if they do not agree.
fn one_shift(uses: &[&Use], digit: usize, size: u64) -> Option<Option<Move>> {
    let mut found: Option<(u64, u64, u64)> = None;
    for u in uses {
        if let Use::Shift { of, n, c } = **u {
            match found {
                None => found = Some((of, n, c)),
                Some(f) if f == (of, n, c) => {}
                Some(_) => return None,
            }
        }
    }
    let Some((of, n, c)) = found else { return Some(None) };
    if !(c as u128 * size as u128).is_multiple_of(n as u128) {
        return None;
    }
    let whole = |x: u64, den: u64| (x as u128 * of as u128).is_multiple_of(den as u128 * n as u128);
    let stays = uses.iter().all(|u| match **u {
        Use::Stay { num, cnt, den } => cnt == 0 || (whole(num, den) && whole(cnt, den)),
        _ => true,
    });
    stays.then_some(Some(Move::Shift { digit, of, n, c }))
}

/// The one xor that all uses of a buffer agree on, each seeing the bits above its own length.
fn one_xor(uses: &[&Use], digit: usize) -> Option<Option<Move>> {
    let (mut full, mut at) = (0u64, None);
    for u in uses {
        if let Use::Xor { sh, mask, .. } = **u {
            full |= mask;
            if *at.get_or_insert(sh) != sh {
                return None;
            }
        }
    }
    let Some(sh) = at else { return Some(None) };
    let length = |cnt: u64, den: u64| {
        let scaled = (cnt as u128) << FRACTION;
        scaled.is_multiple_of(den as u128).then(|| (scaled / den as u128) as u64)
    };
    let fine = uses.iter().all(|u| match **u {
        Use::Shift { .. } => false,
        Use::Xor { mask, cnt, den, .. } => {
            // Nothing below the bits it sees may move, unless the run covers it.
            let below = full & !mask;
            below == 0 || length(cnt, den).is_some_and(|l| l.is_power_of_two() && mask == full & !(l - 1))
        }
        Use::Stay { num, cnt, den } => {
            cnt == 0
                || (length(cnt, den).is_some_and(|l| {
                    let span =
                        full.checked_next_power_of_two().map_or(0, |p| if p == full { p * 2 } else { p });
                    let lo = length(num, den);
                    span > 0 && l.is_multiple_of(span) && lo.is_some_and(|lo| lo.is_multiple_of(span))
                }))
        }
    });
    fine.then_some(Some(Move::Xor { digit, sh, mask: full }))
}
