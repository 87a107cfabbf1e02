//! Elementwise expressions as machine code, on one element or on four.
//!
//! The module owns the translation of [`Scalar`] under the rules of [`kbc_numerics::numbers`]: f32
//! for floating-point types, wrapping i32, minima and maxima that propagate NaN and order zeros,
//! functions of one argument by the shared routines.

use super::loops::Kernel;
use super::module::Helper;
use cranelift::prelude::*;
use kbc_ir::scalar::{CompareOp, Scalar, ScalarBin, ScalarUn};
use kbc_ir::types::{DType, ReduceOp};
use kbc_numerics::numbers::round_to;

/// Whether an expression can be computed on four elements at once.
pub(super) fn vectorises(e: &Scalar, dtype: DType) -> bool {
    let go = |e: &Scalar| vectorises(e, dtype);
    match e {
        Scalar::Num(v) => exists(*v, dtype),
        Scalar::Arg(_) => true,
        Scalar::Un(op, a) => {
            let roots = dtype != DType::I32 && matches!(op, ScalarUn::Sqrt | ScalarUn::Rsqrt);
            (roots || matches!(op, ScalarUn::Neg | ScalarUn::Abs)) && go(a)
        }
        Scalar::Bin(op, a, b) => (dtype != DType::I32 || *op != ScalarBin::Div) && go(a) && go(b),
        Scalar::Pow(a, _) => go(a),
        Scalar::If(c, a, b) => go(&c.a) && go(&c.b) && go(a) && go(b),
    }
}

/// Whether a type has a number. A fraction is not an i32.
fn exists(v: f64, dtype: DType) -> bool {
    dtype != DType::I32 || f64::from(v as i32) == v
}

/// Returns the Cranelift type of one element, or of four, in which `dtype` is computed.
pub(super) fn lanes(dtype: DType, four: bool) -> Type {
    match (dtype == DType::I32, four) {
        (true, true) => types::I32X4,
        (true, false) => types::I32,
        (false, true) => types::F32X4,
        (false, false) => types::F32,
    }
}

fn float_cc(op: CompareOp) -> FloatCC {
    match op {
        CompareOp::Eq => FloatCC::Equal,
        CompareOp::Ne => FloatCC::NotEqual,
        CompareOp::Lt => FloatCC::LessThan,
        CompareOp::Le => FloatCC::LessThanOrEqual,
        CompareOp::Gt => FloatCC::GreaterThan,
        CompareOp::Ge => FloatCC::GreaterThanOrEqual,
    }
}

fn int_cc(op: CompareOp) -> IntCC {
    match op {
        CompareOp::Eq => IntCC::Equal,
        CompareOp::Ne => IntCC::NotEqual,
        CompareOp::Lt => IntCC::SignedLessThan,
        CompareOp::Le => IntCC::SignedLessThanOrEqual,
        CompareOp::Gt => IntCC::SignedGreaterThan,
        CompareOp::Ge => IntCC::SignedGreaterThanOrEqual,
    }
}

impl Kernel<'_, '_> {
    /// Emits a number of the type in which `dtype` is computed, rounded to `dtype` first.
    pub(super) fn number(&mut self, v: f64, dtype: DType, four: bool) -> Value {
        let one = match dtype {
            DType::I32 => self.b.ins().iconst(types::I32, i64::from(v as i32)),
            _ => self.b.ins().f32const(round_to(v, dtype) as f32),
        };
        self.spread(one, dtype, four)
    }

    /// Emits one element, or four copies of it.
    pub(super) fn spread(&mut self, one: Value, dtype: DType, four: bool) -> Value {
        if four { self.b.ins().splat(lanes(dtype, true), one) } else { one }
    }

    /// Emits `a OP b` of a reduction.
    pub(super) fn combined(&mut self, op: ReduceOp, dtype: DType, a: Value, b: Value) -> Value {
        let ins = self.b.ins();
        match (op, dtype == DType::I32) {
            (ReduceOp::Sum, true) => ins.iadd(a, b),
            (ReduceOp::Prod, true) => ins.imul(a, b),
            (ReduceOp::Min, true) => ins.smin(a, b),
            (ReduceOp::Max, true) => ins.smax(a, b),
            (ReduceOp::Sum, false) => ins.fadd(a, b),
            (ReduceOp::Prod, false) => ins.fmul(a, b),
            (ReduceOp::Min, false) => ins.fmin(a, b),
            (ReduceOp::Max, false) => ins.fmax(a, b),
        }
    }

    fn un(&mut self, op: ScalarUn, dtype: DType, four: bool, x: Value) -> Value {
        let helper = match op {
            ScalarUn::Neg if dtype == DType::I32 => return self.b.ins().ineg(x),
            ScalarUn::Abs if dtype == DType::I32 => return self.b.ins().iabs(x),
            ScalarUn::Neg => return self.b.ins().fneg(x),
            ScalarUn::Abs => return self.b.ins().fabs(x),
            ScalarUn::Sqrt => return self.b.ins().sqrt(x),
            ScalarUn::Rsqrt => {
                let one = self.number(1.0, DType::F32, four);
                let root = self.b.ins().sqrt(x);
                return self.b.ins().fdiv(one, root);
            }
            // The shared routine is right for every function; those above have instructions.
            other => Helper::Function(other),
        };
        self.call(helper, &[x]).expect("scalar functions give a value")
    }

    fn bin(&mut self, op: ScalarBin, dtype: DType, a: Value, b: Value) -> Value {
        match op {
            ScalarBin::Add => self.combined(ReduceOp::Sum, dtype, a, b),
            ScalarBin::Mul => self.combined(ReduceOp::Prod, dtype, a, b),
            ScalarBin::Min => self.combined(ReduceOp::Min, dtype, a, b),
            ScalarBin::Max => self.combined(ReduceOp::Max, dtype, a, b),
            ScalarBin::Sub if dtype == DType::I32 => self.b.ins().isub(a, b),
            ScalarBin::Sub => self.b.ins().fsub(a, b),
            ScalarBin::Div if dtype == DType::I32 => self.divided(a, b),
            ScalarBin::Div => self.b.ins().fdiv(a, b),
        }
    }

    /// Emits `a / b` in i32, toward zero, wrapping. The kernel ends with a fault if b is 0.
    fn divided(&mut self, a: Value, b: Value) -> Value {
        let (stop, go) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(b, go, &[], stop, &[]);
        self.b.switch_to_block(stop);
        self.leave(1);
        self.b.switch_to_block(go);
        let minus = self.b.ins().icmp_imm_s(IntCC::Equal, b, -1);
        let one = self.b.ins().iconst(types::I32, 1);
        let safe = self.b.ins().select(minus, one, b);
        let (q, negative) = (self.b.ins().sdiv(a, safe), self.b.ins().ineg(a));
        self.b.ins().select(minus, negative, q)
    }

    /// Ends the kernel with a fault if control arrives here. The value returned is arbitrary.
    fn refused(&mut self) -> Value {
        let (stop, go) = (self.b.create_block(), self.b.create_block());
        let never = self.b.ins().iconst(types::I32, 0);
        self.b.ins().brif(never, go, &[], stop, &[]);
        self.b.switch_to_block(stop);
        self.leave(1);
        self.b.switch_to_block(go);
        never
    }

    /// Emits the value of an expression on one element of each operand, or on four.
    pub(super) fn value(&mut self, e: &Scalar, args: &[Value], dtype: DType, four: bool) -> Value {
        match e {
            Scalar::Num(v) if !exists(*v, dtype) => self.refused(),
            Scalar::Num(v) => self.number(*v, dtype, four),
            Scalar::Arg(i) => args[*i],
            Scalar::Un(op, a) => {
                let x = self.value(a, args, dtype, four);
                if dtype == DType::I32 && !op.has_integers() {
                    return self.refused();
                }
                self.un(*op, dtype, four, x)
            }
            Scalar::Bin(op, a, b) => {
                let (x, y) = (self.value(a, args, dtype, four), self.value(b, args, dtype, four));
                self.bin(*op, dtype, x, y)
            }
            Scalar::Pow(a, 0) => {
                // The operand of `x^0` is computed although the result is 1, because it may divide
                // by zero.
                self.value(a, args, dtype, four);
                self.number(1.0, dtype, four)
            }
            Scalar::Pow(a, n) => {
                let x = self.value(a, args, dtype, four);
                (1..*n).fold(x, |acc, _| self.bin(ScalarBin::Mul, dtype, acc, x))
            }
            Scalar::If(c, a, b) => {
                let (x, y) = (self.value(&c.a, args, dtype, four), self.value(&c.b, args, dtype, four));
                let holds = match dtype {
                    DType::I32 => self.b.ins().icmp(int_cc(c.op), x, y),
                    _ => self.b.ins().fcmp(float_cc(c.op), x, y),
                };
                if four {
                    let (x, y) = (self.value(a, args, dtype, true), self.value(b, args, dtype, true));
                    let mask = self.b.ins().bitcast(lanes(dtype, true), little(), holds);
                    return self.b.ins().bitselect(mask, x, y);
                }
                // The side that is not taken is not evaluated, because it may divide by zero.
                let (yes, no, join) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
                let out = self.b.append_block_param(join, lanes(dtype, false));
                self.b.ins().brif(holds, yes, &[], no, &[]);
                for (block, side) in [(yes, a), (no, b)] {
                    self.b.switch_to_block(block);
                    let v = self.value(side, args, dtype, false);
                    self.b.ins().jump(join, &[v.into()]);
                }
                self.b.switch_to_block(join);
                out
            }
        }
    }
}

/// Lanes in memory order, which a cast between vectors has to name.
fn little() -> MemFlagsData {
    MemFlagsData::new().with_endianness(cranelift::codegen::ir::Endianness::Little)
}
