//! Elementwise expressions: their value in f32, i32 and f64, for single numbers and for whole
//! vectors.
//!
//! [`crate::functions`] has the functions of one operand, which interpreter, compiled code and
//! reference evaluator share; the rules are those of [`crate::numbers`].
//! [`crate::local`] implements broadcasting.

use crate::functions::function;
use crate::numbers::{Refusal, max_f32, min_f32, narrow, round_to, widen};
use crate::tensor::Data;
use kbc_ir::scalar::{CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::DType;

/// Evaluates a function of one operand in f32.
pub fn un_f32(op: ScalarUn, x: f32) -> f32 {
    (function(op).f32)(x)
}

/// Evaluates a function of two operands in f32.
pub fn bin_f32(op: ScalarBin, a: f32, b: f32) -> f32 {
    match op {
        ScalarBin::Add => a + b,
        ScalarBin::Sub => a - b,
        ScalarBin::Mul => a * b,
        ScalarBin::Div => a / b,
        ScalarBin::Min => min_f32(a, b),
        ScalarBin::Max => max_f32(a, b),
    }
}

/// Evaluates a function of one operand in f64.
pub fn un_f64(op: ScalarUn, x: f64) -> f64 {
    (function(op).f64)(x)
}

/// Evaluates a function of two operands in f64.
pub fn bin_f64(op: ScalarBin, a: f64, b: f64) -> f64 {
    use kbc_ir::types::ReduceOp;
    match op {
        ScalarBin::Add => a + b,
        ScalarBin::Sub => a - b,
        ScalarBin::Mul => a * b,
        ScalarBin::Div => a / b,
        ScalarBin::Min => crate::numbers::combine_f64(ReduceOp::Min, a, b),
        ScalarBin::Max => crate::numbers::combine_f64(ReduceOp::Max, a, b),
    }
}

/// Evaluates a function of one operand in i32, wrapping. Few functions exist there.
pub fn un_i32(op: ScalarUn, x: i32) -> Result<i32, Refusal> {
    match function(op).i32 {
        Some(f) => Ok(f(x)),
        None => Err(Refusal::new(format!("{} is not defined for i32", op.name()), "cast to f32 first")),
    }
}

/// Evaluates a function of two operands in i32, wrapping. Fails for a division by zero.
pub fn bin_i32(op: ScalarBin, a: i32, b: i32) -> Result<i32, Refusal> {
    match op {
        ScalarBin::Add => Ok(a.wrapping_add(b)),
        ScalarBin::Sub => Ok(a.wrapping_sub(b)),
        ScalarBin::Mul => Ok(a.wrapping_mul(b)),
        ScalarBin::Div if b == 0 => {
            Err(Refusal::new(format!("division of {a} by zero"), "i32 has no infinity: guard the divisor"))
        }
        ScalarBin::Div => Ok(a.wrapping_div(b)),
        ScalarBin::Min => Ok(a.min(b)),
        ScalarBin::Max => Ok(a.max(b)),
    }
}

/// Evaluates a comparison. With NaN only `!=` holds.
pub fn holds<T: PartialOrd>(op: CompareOp, a: T, b: T) -> bool {
    match op {
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
    }
}

/// Evaluates an expression in f64, with its constants rounded to `dtype` as in an execution in that
/// type. A parameter without an argument is NaN.
pub fn eval_f64(e: &Scalar, args: &[f64], dtype: DType) -> f64 {
    let go = |e| eval_f64(e, args, dtype);
    match e {
        Scalar::Num(v) => round_to(*v, dtype),
        Scalar::Arg(i) => args.get(*i).copied().unwrap_or(f64::NAN),
        Scalar::Un(op, a) => un_f64(*op, go(a)),
        Scalar::Bin(op, a, b) => bin_f64(*op, go(a), go(b)),
        Scalar::Pow(a, n) => power(go(a), *n, 1.0, |x, y| x * y),
        Scalar::If(c, a, b) => go(if holds(c.op, go(&c.a), go(&c.b)) { a } else { b }),
    }
}

/// Evaluates an expression in f32, with its constants rounded to `dtype` (f32, f16 or bf16); the
/// caller rounds the result. A parameter without an argument is NaN.
pub fn eval_f32(e: &Scalar, args: &[f32], dtype: DType) -> f32 {
    let go = |e| eval_f32(e, args, dtype);
    match e {
        Scalar::Num(v) => round_to(*v, dtype) as f32,
        Scalar::Arg(i) => args.get(*i).copied().unwrap_or(f32::NAN),
        Scalar::Un(op, a) => un_f32(*op, go(a)),
        Scalar::Bin(op, a, b) => bin_f32(*op, go(a), go(b)),
        Scalar::Pow(a, n) => power(go(a), *n, 1.0, |x, y| x * y),
        Scalar::If(c, a, b) => go(if holds(c.op, go(&c.a), go(&c.b)) { a } else { b }),
    }
}

/// Evaluates an expression in i32.
pub fn eval_i32(e: &Scalar, args: &[i32]) -> Result<i32, Refusal> {
    let go = |e| eval_i32(e, args);
    match e {
        Scalar::Num(v) => {
            let whole = *v as i32;
            if f64::from(whole) == *v {
                Ok(whole)
            } else {
                Err(Refusal::new(
                    format!("{v:?} is not an i32"),
                    "write an integer in range, or cast the operands",
                ))
            }
        }
        Scalar::Arg(i) => args.get(*i).copied().ok_or_else(|| missing(*i)),
        Scalar::Un(op, a) => un_i32(*op, go(a)?),
        Scalar::Bin(op, a, b) => bin_i32(*op, go(a)?, go(b)?),
        Scalar::Pow(a, n) => Ok(power(go(a)?, *n, 1, i32::wrapping_mul)),
        Scalar::If(c, a, b) => go(if holds(c.op, go(&c.a)?, go(&c.b)?) { a } else { b }),
    }
}

fn missing(arg: usize) -> Refusal {
    Refusal::new(format!("parameter {arg} has no operand"), "give one operand per parameter of the function")
}

fn power<T: Copy>(x: T, n: u32, one: T, mul: impl Fn(T, T) -> T) -> T {
    if n == 0 { one } else { (1..n).fold(x, |acc, _| mul(acc, x)) }
}

/// Number of elements that are evaluated together, with one traversal of the expression.
const BLOCK: usize = 64;
type Block = [f32; BLOCK];

/// Evaluates an expression on `n <= BLOCK` elements from `at` on. Both sides of a condition are
/// evaluated, which makes no difference because no operation of f32 can fail.
fn block(e: &Scalar, args: &[&[f32]], at: usize, n: usize, dtype: DType) -> Block {
    let go = |e| block(e, args, at, n, dtype);
    let zip = |a: Block, b: &Block, f: &dyn Fn(f32, f32) -> f32| {
        let mut out = a;
        out[..n].iter_mut().zip(&b[..n]).for_each(|(x, y)| *x = f(*x, *y));
        out
    };
    match e {
        Scalar::Num(v) => [round_to(*v, dtype) as f32; BLOCK],
        Scalar::Arg(i) => {
            let mut out = [f32::NAN; BLOCK];
            if let Some(v) = args.get(*i).and_then(|a| a.get(at..at + n)) {
                out[..n].copy_from_slice(v);
            }
            out
        }
        Scalar::Un(op, a) => {
            let (mut out, f) = (go(a), function(*op).f32);
            out[..n].iter_mut().for_each(|x| *x = f(*x));
            out
        }
        Scalar::Bin(op, a, b) => zip(go(a), &go(b), &|x, y| bin_f32(*op, x, y)),
        Scalar::Pow(a, k) => {
            let mut out = go(a);
            out[..n].iter_mut().for_each(|x| *x = power(*x, *k, 1.0, |x, y| x * y));
            out
        }
        Scalar::If(c, a, b) => {
            let (x, y) = (go(&c.a), go(&c.b));
            let (mut out, other) = (go(a), go(b));
            for i in 0..n {
                if !holds(c.op, x[i], y[i]) {
                    out[i] = other[i];
                }
            }
            out
        }
    }
}

/// Applies a function to operands of one type and one length, element by element.
pub fn map(func: &ScalarFn, args: &[&Data], len: usize, dtype: DType) -> Result<Data, Refusal> {
    if args.len() < func.params.len() {
        return Err(missing(args.len()));
    }
    if let Some(a) = args.iter().find(|a| a.dtype() != dtype || a.len() != len) {
        return Err(Refusal::new(
            format!("{} of {len} {dtype} elements has an operand of {} {}", func.name, a.len(), a.dtype()),
            "the operands and the result of an elementwise function need the same element type: cast first",
        ));
    }
    if dtype == DType::I32 {
        let ints: Vec<&[i32]> =
            args.iter().map(|a| if let Data::I32(v) = a { &v[..] } else { &[] }).collect();
        let mut row = vec![0; args.len()];
        let mut out = Vec::with_capacity(len);
        for i in 0..len {
            row.iter_mut().zip(&ints).for_each(|(r, v)| *r = v[i]);
            out.push(
                eval_i32(&func.body, &row)
                    .map_err(|r| Refusal::new(format!("{} at element {i}", r.text), r.help))?,
            );
        }
        return Ok(Data::I32(out));
    }
    let wide = args.iter().map(|a| widen(a)).collect::<Result<Vec<_>, _>>()?;
    let wide: Vec<&[f32]> = wide.iter().map(|w| &w[..]).collect();
    let mut out = vec![0f32; len];
    for (k, piece) in out.chunks_mut(BLOCK).enumerate() {
        let n = piece.len();
        piece.copy_from_slice(&block(&func.body, &wide, k * BLOCK, n, dtype)[..n]);
    }
    narrow(out, dtype)
}
