//! Index expressions as machine code, with the faults of the walk.
//!
//! The module owns 64-bit integers with a known range. A check that the range makes superfluous is
//! not emitted. The remaining checks branch to the fault exit of the function; the interpreter then
//! explains what is wrong. [`super::address`] emits chunks and peers.

use super::abi::{self, Frame};
use super::tables::Tables;
use cranelift::prelude::*;
use kbc_ir::expr::{BinOp, UnOp, apply_bin, apply_un};
use kbc_ir::resolved::Resolved;
use kbc_ir::walk::Program;

/// A number in emitted code: a constant (`lo == hi`) or a value within a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Num {
    value: Option<Value>,
    pub(super) lo: i64,
    pub(super) hi: i64,
}

impl Num {
    pub(super) fn int(v: i64) -> Num {
        Num { value: None, lo: v, hi: v }
    }

    pub(super) fn of(value: Value, lo: i64, hi: i64) -> Num {
        Num { value: Some(value), lo, hi }
    }

    pub(super) fn any(value: Value) -> Num {
        Num::of(value, i64::MIN, i64::MAX)
    }

    /// Returns its value, if it is a constant.
    pub(super) fn constant(self) -> Option<i64> {
        (self.lo == self.hi).then_some(self.lo)
    }

    /// Returns the same value, known to lie within narrower limits.
    pub(super) fn within(self, lo: i64, hi: i64) -> Num {
        Num { lo: self.lo.max(lo), hi: self.hi.min(hi).max(self.lo.max(lo)), ..self }
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
    /// The known range of each slot of the frame.
    pub(super) ranges: Vec<(i64, i64)>,
}

fn clamp(v: i128) -> i64 {
    v.clamp(i64::MIN as i128, i64::MAX as i128) as i64
}

fn fits(lo: i128, hi: i128) -> bool {
    lo >= i64::MIN as i128 && hi <= i64::MAX as i128
}

impl Emit<'_, '_, '_> {
    /// Returns the number as an SSA value.
    pub(super) fn ssa(&mut self, n: Num) -> Value {
        match (n.constant(), n.value) {
            (None, Some(v)) => v,
            (Some(c), _) => self.b.ins().iconst(types::I64, c),
            (None, None) => unreachable!("a number without a value is a constant"),
        }
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
        if n.lo < lo {
            self.refuse_if(IntCC::SignedLessThan, n, lo);
        }
        if n.hi > hi {
            self.refuse_if(IntCC::SignedGreaterThan, n, hi);
        }
        n.within(lo, hi)
    }

    /// Checks that `a <= b`.
    pub(super) fn at_most(&mut self, a: Num, b: Num) {
        if a.hi > b.lo {
            let (x, y) = (self.ssa(a), self.ssa(b));
            let wrong = self.b.ins().icmp(IntCC::SignedGreaterThan, x, y);
            self.refuse(wrong);
        }
    }

    /// Loads a slot of the frame.
    pub(super) fn slot(&mut self, slot: usize) -> Num {
        let (lo, hi) = self.ranges[slot];
        let v = self.b.ins().load(types::I64, abi::trusted(), self.env, Frame::offset(slot));
        Num::of(v, lo, hi)
    }

    pub(super) fn set_slot(&mut self, slot: usize, n: Num) {
        let v = self.ssa(n);
        self.b.ins().store(abi::trusted(), v, self.env, Frame::offset(slot));
    }

    /// Loads entry `index` of a table of the compiled schedule. The index is known to be inside.
    pub(super) fn entry(&mut self, table: usize, index: Num, (lo, hi): (i64, i64)) -> Num {
        if lo == hi {
            return Num::int(lo);
        }
        let all = self.b.ins().load(types::I64, abi::trusted(), self.ctx, abi::TABLES);
        let base = self.b.ins().load(types::I64, abi::trusted(), all, 8 * table as i32);
        let at = self.ssa(index);
        let offset = self.b.ins().ishl_imm_s(at, 3);
        let place = self.b.ins().iadd(base, offset);
        let v = self.b.ins().load(types::I64, abi::trusted(), place, 0);
        Num::of(v, lo, hi)
    }

    pub(super) fn add(&mut self, a: Num, b: Num) -> Num {
        self.arith(BinOp::Add, a, b)
    }

    pub(super) fn sub(&mut self, a: Num, b: Num) -> Num {
        self.arith(BinOp::Sub, a, b)
    }

    pub(super) fn mul(&mut self, a: Num, b: Num) -> Num {
        self.arith(BinOp::Mul, a, b)
    }

    /// Emits an addition, subtraction or multiplication. Overflow is a fault.
    fn arith(&mut self, op: BinOp, a: Num, b: Num) -> Num {
        match (op, a.constant(), b.constant()) {
            (_, Some(x), Some(y)) => {
                if let Ok(v) = apply_bin(op, x, y) {
                    return Num::int(v);
                }
            }
            (BinOp::Add | BinOp::Sub, None, Some(0)) | (BinOp::Mul, None, Some(1)) => return a,
            (BinOp::Add, Some(0), None) | (BinOp::Mul, Some(1), None) => return b,
            (BinOp::Mul, None, Some(0)) | (BinOp::Mul, Some(0), None) => return Num::int(0),
            _ => {}
        }
        let wide = |n: Num| (n.lo as i128, n.hi as i128);
        let ((al, ah), (bl, bh)) = (wide(a), wide(b));
        let (lo, hi) = match op {
            BinOp::Add => (al + bl, ah + bh),
            BinOp::Sub => (al - bh, ah - bl),
            _ => {
                let p = [al * bl, al * bh, ah * bl, ah * bh];
                (p.into_iter().fold(i128::MAX, i128::min), p.into_iter().fold(i128::MIN, i128::max))
            }
        };
        let (x, y) = (self.ssa(a), self.ssa(b));
        let ins = self.b.ins();
        let value = if fits(lo, hi) {
            match op {
                BinOp::Add => ins.iadd(x, y),
                BinOp::Sub => ins.isub(x, y),
                _ => ins.imul(x, y),
            }
        } else {
            let (v, over) = match op {
                BinOp::Add => ins.sadd_overflow(x, y),
                BinOp::Sub => ins.ssub_overflow(x, y),
                _ => ins.smul_overflow(x, y),
            };
            self.refuse(over);
            v
        };
        // If the range is constant although the value is computed, the computed value is kept,
        // which is correct.
        Num { value: Some(value), lo: clamp(lo), hi: clamp(hi) }
    }

    /// Emits quotient and remainder, rounded down. A zero divisor and overflow are faults.
    fn divide(&mut self, a: Num, b: Num, remainder: bool) -> Num {
        if b.lo <= 0 && b.hi >= 0 {
            self.refuse_if(IntCC::Equal, b, 0);
        }
        if b.lo <= -1 && b.hi >= -1 && a.lo == i64::MIN {
            let (x, y) = (self.ssa(a), self.ssa(b));
            let least = self.b.ins().icmp_imm_s(IntCC::Equal, x, i64::MIN);
            let minus = self.b.ins().icmp_imm_s(IntCC::Equal, y, -1);
            let both = self.b.ins().band(least, minus);
            self.refuse(both);
        }
        if remainder && b.lo > 0 && a.lo >= 0 && a.hi < b.lo {
            return a;
        }
        let (x, y) = (self.ssa(a), self.ssa(b));
        if a.lo >= 0 && b.lo > 0 {
            return if remainder {
                Num::of(self.b.ins().urem(x, y), 0, a.hi.min(b.hi - 1))
            } else {
                Num::of(self.b.ins().udiv(x, y), a.lo / b.hi, a.hi / b.lo)
            };
        }
        let r = self.b.ins().srem(x, y);
        let nonzero = self.b.ins().icmp_imm_s(IntCC::NotEqual, r, 0);
        let signs = self.b.ins().bxor(r, y);
        let differ = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, signs, 0);
        let down = self.b.ins().band(nonzero, differ);
        if remainder {
            let up = self.b.ins().iadd(r, y);
            let v = self.b.ins().select(down, up, r);
            return if b.lo > 0 { Num::of(v, 0, b.hi - 1) } else { Num::any(v) };
        }
        let q = self.b.ins().sdiv(x, y);
        let less = self.b.ins().iadd_imm_s(q, -1);
        let v = self.b.ins().select(down, less, q);
        if b.lo > 0 { Num::of(v, a.lo.min(-1), a.hi.max(0)) } else { Num::any(v) }
    }

    pub(super) fn div(&mut self, a: Num, b: Num) -> Num {
        self.binary(BinOp::Div, a, b)
    }

    pub(super) fn rem(&mut self, a: Num, b: Num) -> Num {
        self.binary(BinOp::Mod, a, b)
    }

    pub(super) fn min(&mut self, a: Num, b: Num) -> Num {
        self.binary(BinOp::Min, a, b)
    }

    fn binary(&mut self, op: BinOp, a: Num, b: Num) -> Num {
        if let (Some(x), Some(y)) = (a.constant(), b.constant())
            && let Ok(v) = apply_bin(op, x, y)
        {
            return Num::int(v);
        }
        match op {
            BinOp::Add | BinOp::Sub | BinOp::Mul => return self.arith(op, a, b),
            BinOp::Div => return self.divide(a, b, false),
            BinOp::Mod => return self.divide(a, b, true),
            BinOp::Min if a.hi <= b.lo => return a,
            BinOp::Min if b.hi <= a.lo => return b,
            BinOp::Max if a.lo >= b.hi => return a,
            BinOp::Max if b.lo >= a.hi => return b,
            _ => {}
        }
        if matches!(op, BinOp::Shl | BinOp::Shr) {
            let by = self.bounded(b, 0, 62);
            let (x, y) = (self.ssa(a), self.ssa(by));
            let shifted = if op == BinOp::Shl { self.b.ins().ishl(x, y) } else { self.b.ins().sshr(x, y) };
            if op == BinOp::Shl {
                let back = self.b.ins().sshr(shifted, y);
                let lost = self.b.ins().icmp(IntCC::NotEqual, back, x);
                self.refuse(lost);
                return if a.lo >= 0 { Num::of(shifted, 0, i64::MAX) } else { Num::any(shifted) };
            }
            return Num::of(shifted, a.lo.min(0), a.hi.max(0));
        }
        let (x, y) = (self.ssa(a), self.ssa(b));
        let ins = self.b.ins();
        let both = a.lo >= 0 && b.lo >= 0;
        let bits = |n: i64| if n <= 0 { 0 } else { i64::MAX >> (n.leading_zeros() - 1) };
        match op {
            BinOp::Min => Num::of(ins.smin(x, y), a.lo.min(b.lo), a.hi.min(b.hi)),
            BinOp::Max => Num::of(ins.smax(x, y), a.lo.max(b.lo), a.hi.max(b.hi)),
            BinOp::BitAnd => bitwise(ins.band(x, y), both, a.hi.min(b.hi)),
            BinOp::BitOr => bitwise(ins.bor(x, y), both, bits(a.hi.max(b.hi))),
            BinOp::Xor => bitwise(ins.bxor(x, y), both, bits(a.hi.max(b.hi))),
            _ => {
                let cc = match op {
                    BinOp::Eq => IntCC::Equal,
                    BinOp::Ne => IntCC::NotEqual,
                    BinOp::Lt => IntCC::SignedLessThan,
                    BinOp::Le => IntCC::SignedLessThanOrEqual,
                    BinOp::Gt => IntCC::SignedGreaterThan,
                    _ => IntCC::SignedGreaterThanOrEqual,
                };
                let flag = ins.icmp(cc, x, y);
                self.flag(flag)
            }
        }
    }

    fn flag(&mut self, flag: Value) -> Num {
        Num::of(self.b.ins().uextend(types::I64, flag), 0, 1)
    }

    fn truth(&mut self, n: Num) -> Num {
        match n.constant() {
            Some(c) => Num::int(i64::from(c != 0)),
            None => {
                let v = self.ssa(n);
                let flag = self.b.ins().icmp_imm_s(IntCC::NotEqual, v, 0);
                self.flag(flag)
            }
        }
    }

    fn unary(&mut self, op: UnOp, a: Num) -> Num {
        if let Some(x) = a.constant()
            && let Ok(v) = apply_un(op, x)
        {
            return Num::int(v);
        }
        match op {
            UnOp::Neg => self.arith(BinOp::Sub, Num::int(0), a),
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
                Num::of(self.b.ins().isub(from, zeros), 0, 64)
            }
            UnOp::Popcount => {
                let v = self.ssa(a);
                Num::of(self.b.ins().popcnt(v), 0, 64)
            }
            UnOp::Abs => {
                if a.lo == i64::MIN {
                    self.refuse_if(IntCC::Equal, a, i64::MIN);
                }
                let v = self.ssa(a);
                Num::of(self.b.ins().iabs(v), 0, i64::MAX)
            }
            UnOp::Sign => {
                let (v, one) = (self.ssa(a), self.b.ins().iconst(types::I64, 1));
                let minus = self.b.ins().iconst(types::I64, -1);
                let low = self.b.ins().smax(v, minus);
                Num::of(self.b.ins().smin(low, one), -1, 1)
            }
        }
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
                let (lo, hi) =
                    (values.iter().min().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(0));
                let n = values.len() as i64;
                let i = self.expr(i);
                if let Some(v) =
                    i.constant().and_then(|i| usize::try_from(i).ok()).and_then(|i| values.get(i))
                {
                    return Num::int(*v);
                }
                if n == 0 {
                    self.refuse_always();
                    return Num::int(0);
                }
                let i = self.bounded(i, 0, n - 1);
                let table = self.tables.constant(*t, self.program);
                self.entry(table, i, (lo, hi))
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
        Num { value: Some(out), lo: x.lo.min(y.lo), hi: x.hi.max(y.hi) }
    }
}

fn bitwise(value: Value, both: bool, hi: i64) -> Num {
    if both { Num::of(value, 0, hi) } else { Num::any(value) }
}
