//! Index expressions as machine code, with the faults of the walk.
//!
//! The module owns 64-bit integers with what [`kbc_ir::interval`] knows about them. A check that
//! the intervals make superfluous is not emitted. The remaining checks branch to the fault exit of
//! the function; the interpreter then explains what is wrong. [`super::address`] emits chunks and
//! peers.

use super::abi::{self, Frame};
use super::tables::Tables;
use cranelift::frontend::FuncInstBuilder;
use cranelift::prelude::*;
use kbc_ir::expr::{BinOp, UnOp};
use kbc_ir::interval::{Interval, binary, unary};
use kbc_ir::resolved::Resolved;
use kbc_ir::walk::Program;

/// A number in emitted code: a constant, or a value within an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Num {
    value: Option<Value>,
    pub(super) within: Interval,
}

impl Num {
    pub(super) fn int(v: i64) -> Num {
        Num { value: None, within: Interval::only(v) }
    }

    pub(super) fn of(value: Value, within: Interval) -> Num {
        Num { value: Some(value), within }
    }

    /// Returns its value, if it is a constant.
    pub(super) fn constant(self) -> Option<i64> {
        self.within.constant()
    }

    /// Returns the same value, known to lie within narrower limits.
    pub(super) fn within(self, lo: i64, hi: i64) -> Num {
        // Without a value in these limits, the code that follows is not reached. A constant stays
        // one, because it has no SSA value.
        let unreached = match self.value {
            Some(_) => Interval::of(lo, hi.max(lo)),
            None => Interval::only(lo),
        };
        Num { within: self.within.meet(lo, hi).unwrap_or(unreached), ..self }
    }

    /// Returns the number as an SSA value.
    pub(super) fn ssa(self, b: &mut FunctionBuilder<'_>) -> Value {
        match (self.constant(), self.value) {
            (None, Some(v)) => v,
            (Some(c), _) => b.ins().iconst(types::I64, c),
            (None, None) => unreachable!("a number without a value is a constant"),
        }
    }
}

/// Emits code into one function of a role.
pub(super) struct Emit<'a, 'f, 'p> {
    pub(super) program: &'a Program<'p>,
    pub(super) tables: &'a mut Tables,
    pub(super) b: FunctionBuilder<'f>,
    /// Parameter: the [`abi::Ctx`].
    pub(super) ctx: Value,
    /// The frame of the stream: environment, base of the group, ends of loops.
    pub(super) env: Value,
    /// The block to which faults branch.
    pub(super) fault: Block,
    /// The values that each slot of the frame can have.
    pub(super) ranges: Vec<Interval>,
}

impl Emit<'_, '_, '_> {
    /// Returns the number as an SSA value.
    pub(super) fn ssa(&mut self, n: Num) -> Value {
        n.ssa(&mut self.b)
    }

    /// Branches to the fault exit if `wrong` (an `I8`) is not 0.
    pub(super) fn refuse(&mut self, wrong: Value) {
        let next = self.b.create_block();
        self.b.ins().brif(wrong, self.fault, &[], next, &[]);
        self.b.switch_to_block(next);
    }

    /// Always jumps to the fault exit; the code after it is unreachable.
    pub(super) fn refuse_always(&mut self) {
        self.b.ins().jump(self.fault, &[]);
        let dead = self.b.create_block();
        self.b.switch_to_block(dead);
    }

    fn refuse_if(&mut self, cc: IntCC, a: Num, b: i64) {
        let v = self.ssa(a);
        let wrong = self.b.ins().icmp_imm_s(cc, v, b);
        self.refuse(wrong);
    }

    /// Checks that `lo <= n <= hi`.
    pub(super) fn bounded(&mut self, n: Num, lo: i64, hi: i64) -> Num {
        let (least, most) = n.within.limits();
        if least < lo {
            self.refuse_if(IntCC::SignedLessThan, n, lo);
        }
        if most > hi {
            self.refuse_if(IntCC::SignedGreaterThan, n, hi);
        }
        n.within(lo, hi)
    }

    /// Checks that `a <= b`.
    pub(super) fn at_most(&mut self, a: Num, b: Num) {
        if binary(BinOp::Le, a.within, b.within).within.constant() != Some(1) {
            let (x, y) = (self.ssa(a), self.ssa(b));
            let wrong = self.b.ins().icmp(IntCC::SignedGreaterThan, x, y);
            self.refuse(wrong);
        }
    }

    /// Loads a slot of the frame.
    pub(super) fn slot(&mut self, slot: usize) -> Num {
        let v = self.b.ins().load(types::I64, abi::trusted(), self.env, Frame::offset(slot));
        Num::of(v, self.ranges[slot])
    }

    pub(super) fn set_slot(&mut self, slot: usize, n: Num) {
        let v = self.ssa(n);
        self.b.ins().store(abi::trusted(), v, self.env, Frame::offset(slot));
    }

    /// Loads entry `index` of a table of the compiled schedule. The index is known to be inside.
    pub(super) fn entry(&mut self, table: usize, index: Num, within: Interval) -> Num {
        if let Some(v) = within.constant() {
            return Num::int(v);
        }
        let all = self.b.ins().load(types::I64, abi::trusted(), self.ctx, abi::TABLES);
        let base = self.b.ins().load(types::I64, abi::trusted(), all, 8 * table as i32);
        let at = self.ssa(index);
        let offset = self.b.ins().ishl_imm_s(at, 3);
        let place = self.b.ins().iadd(base, offset);
        let v = self.b.ins().load(types::I64, abi::trusted(), place, 0);
        Num::of(v, within)
    }

    /// Emits `a op b`. What has no value is a fault; a check that the intervals of the operands
    /// make superfluous is not emitted.
    pub(super) fn binary(&mut self, op: BinOp, a: Num, b: Num) -> Num {
        let fact = binary(op, a.within, b.within);
        if let Some(v) = fact.within.constant().filter(|_| fact.total) {
            return Num::int(v);
        }
        // Operations whose result is one of their operands.
        match (op, a.constant(), b.constant()) {
            (BinOp::Add | BinOp::Sub, None, Some(0)) | (BinOp::Mul, None, Some(1)) => return a,
            (BinOp::Add, Some(0), None) | (BinOp::Mul, Some(1), None) => return b,
            _ => {}
        }
        let ((a_least, a_most), (b_least, b_most)) = (a.within.limits(), b.within.limits());
        match op {
            BinOp::Min if a_most <= b_least => return a,
            BinOp::Min if b_most <= a_least => return b,
            BinOp::Max if a_least >= b_most => return a,
            BinOp::Max if b_least >= a_most => return b,
            BinOp::Mod if a_least >= 0 && a_most < b_least => return a,
            _ => {}
        }
        let value = match op {
            BinOp::Add | BinOp::Sub | BinOp::Mul => self.arith(op, a, b, fact.total),
            BinOp::Div | BinOp::Mod => self.divide(op, a, b),
            BinOp::Shl | BinOp::Shr => self.shift(op, a, b),
            BinOp::Min => self.plain(a, b, |ins, x, y| ins.smin(x, y)),
            BinOp::Max => self.plain(a, b, |ins, x, y| ins.smax(x, y)),
            BinOp::BitAnd => self.plain(a, b, |ins, x, y| ins.band(x, y)),
            BinOp::BitOr => self.plain(a, b, |ins, x, y| ins.bor(x, y)),
            BinOp::Xor => self.plain(a, b, |ins, x, y| ins.bxor(x, y)),
            BinOp::Eq => self.compare(IntCC::Equal, a, b),
            BinOp::Ne => self.compare(IntCC::NotEqual, a, b),
            BinOp::Lt => self.compare(IntCC::SignedLessThan, a, b),
            BinOp::Le => self.compare(IntCC::SignedLessThanOrEqual, a, b),
            BinOp::Gt => self.compare(IntCC::SignedGreaterThan, a, b),
            BinOp::Ge => self.compare(IntCC::SignedGreaterThanOrEqual, a, b),
            BinOp::And | BinOp::Or => {
                let (x, y) = (self.truth(a), self.truth(b));
                let (x, y) = (self.ssa(x), self.ssa(y));
                if op == BinOp::And { self.b.ins().band(x, y) } else { self.b.ins().bor(x, y) }
            }
        };
        Num::of(value, fact.within)
    }

    fn plain(
        &mut self,
        a: Num,
        b: Num,
        emit: impl FnOnce(FuncInstBuilder<'_, '_>, Value, Value) -> Value,
    ) -> Value {
        let (x, y) = (self.ssa(a), self.ssa(b));
        emit(self.b.ins(), x, y)
    }

    fn compare(&mut self, cc: IntCC, a: Num, b: Num) -> Value {
        let (x, y) = (self.ssa(a), self.ssa(b));
        let flag = self.b.ins().icmp(cc, x, y);
        self.flag(flag)
    }

    /// Emits an addition, subtraction or multiplication. Overflow is a fault, unless it is known
    /// that there is none.
    fn arith(&mut self, op: BinOp, a: Num, b: Num, total: bool) -> Value {
        let (x, y) = (self.ssa(a), self.ssa(b));
        let ins = self.b.ins();
        if total {
            return match op {
                BinOp::Add => ins.iadd(x, y),
                BinOp::Sub => ins.isub(x, y),
                _ => ins.imul(x, y),
            };
        }
        let (v, over) = match op {
            BinOp::Add => ins.sadd_overflow(x, y),
            BinOp::Sub => ins.ssub_overflow(x, y),
            _ => ins.smul_overflow(x, y),
        };
        self.refuse(over);
        v
    }

    /// Emits a quotient or a remainder, rounded down. A zero divisor and overflow are faults.
    fn divide(&mut self, op: BinOp, a: Num, b: Num) -> Value {
        let remainder = op == BinOp::Mod;
        if b.within.contains(0) {
            self.refuse_if(IntCC::Equal, b, 0);
        }
        let (x, y) = (self.ssa(a), self.ssa(b));
        if a.within.contains(i64::MIN) && b.within.contains(-1) {
            let least = self.b.ins().icmp_imm_s(IntCC::Equal, x, i64::MIN);
            let minus = self.b.ins().icmp_imm_s(IntCC::Equal, y, -1);
            let both = self.b.ins().band(least, minus);
            self.refuse(both);
        }
        if a.within.nonnegative() && b.within.nonnegative() {
            return if remainder { self.b.ins().urem(x, y) } else { self.b.ins().udiv(x, y) };
        }
        let r = self.b.ins().srem(x, y);
        let nonzero = self.b.ins().icmp_imm_s(IntCC::NotEqual, r, 0);
        let signs = self.b.ins().bxor(r, y);
        let differ = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, signs, 0);
        let down = self.b.ins().band(nonzero, differ);
        if remainder {
            let up = self.b.ins().iadd(r, y);
            return self.b.ins().select(down, up, r);
        }
        let q = self.b.ins().sdiv(x, y);
        let less = self.b.ins().iadd_imm_s(q, -1);
        self.b.ins().select(down, less, q)
    }

    /// Emits a shift. An amount that is out of range and lost bits are faults.
    fn shift(&mut self, op: BinOp, a: Num, by: Num) -> Value {
        let by = self.bounded(by, 0, 62);
        let (x, y) = (self.ssa(a), self.ssa(by));
        if op == BinOp::Shr {
            return self.b.ins().sshr(x, y);
        }
        let shifted = self.b.ins().ishl(x, y);
        if !binary(op, a.within, by.within).total {
            let back = self.b.ins().sshr(shifted, y);
            let lost = self.b.ins().icmp(IntCC::NotEqual, back, x);
            self.refuse(lost);
        }
        shifted
    }

    fn flag(&mut self, flag: Value) -> Value {
        self.b.ins().uextend(types::I64, flag)
    }

    fn truth(&mut self, n: Num) -> Num {
        match n.within.truth() {
            Some(v) => Num::int(i64::from(v)),
            None => {
                let v = self.ssa(n);
                let flag = self.b.ins().icmp_imm_s(IntCC::NotEqual, v, 0);
                Num::of(self.flag(flag), Interval::TRUTH)
            }
        }
    }

    fn unary(&mut self, op: UnOp, a: Num) -> Num {
        let fact = unary(op, a.within);
        if let Some(v) = fact.within.constant().filter(|_| fact.total) {
            return Num::int(v);
        }
        let value = match op {
            UnOp::Neg => self.arith(BinOp::Sub, Num::int(0), a, fact.total),
            UnOp::Not => {
                let v = self.ssa(a);
                let flag = self.b.ins().icmp_imm_s(IntCC::Equal, v, 0);
                self.flag(flag)
            }
            UnOp::Log2 | UnOp::CeilLog2 => {
                let a = self.bounded(a, 1, i64::MAX);
                let up = op == UnOp::CeilLog2;
                let v = self.ssa(a);
                let v = if up { self.b.ins().iadd_imm_s(v, -1) } else { v };
                let zeros = self.b.ins().clz(v);
                let from = self.b.ins().iconst(types::I64, if up { 64 } else { 63 });
                self.b.ins().isub(from, zeros)
            }
            UnOp::Popcount => {
                let v = self.ssa(a);
                self.b.ins().popcnt(v)
            }
            UnOp::Abs => {
                if !fact.total {
                    self.refuse_if(IntCC::Equal, a, i64::MIN);
                }
                let v = self.ssa(a);
                self.b.ins().iabs(v)
            }
            UnOp::Sign => {
                let (v, one) = (self.ssa(a), self.b.ins().iconst(types::I64, 1));
                let minus = self.b.ins().iconst(types::I64, -1);
                let low = self.b.ins().smax(v, minus);
                self.b.ins().smin(low, one)
            }
        };
        Num::of(value, fact.within)
    }

    /// Emits the value of an expression.
    pub(super) fn expr(&mut self, e: &Resolved) -> Num {
        match e {
            Resolved::Int(v) => Num::int(*v),
            Resolved::Var(s) => self.slot(*s as usize),
            Resolved::Un(op, a) => {
                let a = self.expr(a);
                self.unary(*op, a)
            }
            Resolved::Bin(op @ (BinOp::And | BinOp::Or), a, b) => {
                let a = self.expr(a);
                let a = self.truth(a);
                let stop = i64::from(*op == BinOp::Or);
                match a.constant() {
                    Some(c) if c == stop => a,
                    Some(_) => {
                        let b = self.expr(b);
                        self.truth(b)
                    }
                    None => self.either(
                        a,
                        |m| if stop == 1 { Num::int(1) } else { m.expr_truth(b) },
                        |m| if stop == 1 { m.expr_truth(b) } else { Num::int(0) },
                    ),
                }
            }
            Resolved::Bin(op, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                self.binary(*op, a, b)
            }
            Resolved::Select(c, a, b) => {
                let c = self.expr(c);
                match c.constant() {
                    Some(0) => self.expr(b),
                    Some(_) => self.expr(a),
                    None => self.either(c, |m| m.expr(a), |m| m.expr(b)),
                }
            }
            Resolved::Table(t, i) => {
                let values = &self.program.schedule.tables[*t as usize].values;
                let n = values.len() as i64;
                let i = self.expr(i);
                if let Some(v) =
                    i.constant().and_then(|i| usize::try_from(i).ok()).and_then(|i| values.get(i))
                {
                    return Num::int(*v);
                }
                let Some(within) = Interval::hull(values) else {
                    self.refuse_always();
                    return Num::int(0);
                };
                let i = self.bounded(i, 0, n - 1);
                let table = self.tables.constant(*t, self.program);
                self.entry(table, i, within)
            }
        }
    }

    fn expr_truth(&mut self, e: &Resolved) -> Num {
        let v = self.expr(e);
        self.truth(v)
    }

    /// Emits a choice of two values; only the chosen one is computed.
    fn either(
        &mut self,
        c: Num,
        yes: impl FnOnce(&mut Self) -> Num,
        no: impl FnOnce(&mut Self) -> Num,
    ) -> Num {
        let c = self.ssa(c);
        let (then, other, join) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let out = self.b.append_block_param(join, types::I64);
        self.b.ins().brif(c, then, &[], other, &[]);
        self.b.switch_to_block(then);
        let x = yes(self);
        let v = self.ssa(x);
        self.b.ins().jump(join, &[v.into()]);
        self.b.switch_to_block(other);
        let y = no(self);
        let v = self.ssa(y);
        self.b.ins().jump(join, &[v.into()]);
        self.b.switch_to_block(join);
        Num::of(out, x.within.join(y.within))
    }
}
