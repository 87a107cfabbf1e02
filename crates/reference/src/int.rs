//! Elementwise functions of i32: exact and wrapping, with interval arithmetic if an operand has a
//! bound.

use super::{RefTensor, Step, Value};
use kbc_diag::Diagnostic;
use kbc_ir::scalar::{Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::DType;
use kbc_numerics::scalar_eval::holds;

/// Applies the function to every element. `at` returns the element of operand k that belongs to
/// element i of the result.
pub(super) fn map(
    step: &Step<'_>,
    f: &ScalarFn,
    shape: Vec<u64>,
    n: usize,
    at: impl Fn(usize, usize) -> usize,
) -> Result<Value, Diagnostic> {
    if step.operands.iter().any(|o| o.t.dtype != DType::I32) {
        return Err(step.broken("kbc can move this type but not compute with it"));
    }
    let ints: Vec<&[i64]> = step.operands.iter().map(|o| o.t.exact.as_deref().unwrap_or(&[])).collect();
    let (mut exact, mut bound) = (Vec::with_capacity(n), Vec::with_capacity(n));
    let mut row = vec![0i32; ints.len()];
    let mut ranges = vec![Range { lo: 0.0, hi: 0.0 }; ints.len()];
    for i in 0..n {
        let mut uncertain = false;
        for (k, o) in step.operands.iter().enumerate() {
            let j = at(k, i);
            let (v, e) = (ints[k][j] as f64, o.t.bound[j]);
            row[k] = ints[k][j] as i32;
            ranges[k] = Range { lo: v - e, hi: v + e };
            uncertain |= e != 0.0;
        }
        let v = value(&f.body, &row).map_err(|trouble| match trouble {
            NoValue::ByZero => Diagnostic::error("E407", format!("i32 division by zero in `{}`", f.name))
                .primary(step.op.span, format!("at element {i} of the result"))
                .help("i32 has no infinity: guard the divisor, as in `if b == 0 { 0 } else { a / b }`"),
            NoValue::NotInteger => step.broken("its function is not defined for i32"),
        })?;
        exact.push(i64::from(v));
        bound.push(if !uncertain {
            0.0
        } else {
            let v = f64::from(v);
            // Each rank may round its part of a sum to integers differently.
            let range = if step.partial().is_some() { None } else { interval(&f.body, &ranges) };
            range.map_or(f64::INFINITY, |r| (r.hi - v).max(v - r.lo))
        });
    }
    Ok(Value::whole(RefTensor::integers(DType::I32, shape, exact, bound)))
}

/// The reason why an expression has no value.
enum NoValue {
    ByZero,
    NotInteger,
}

fn value(e: &Scalar, args: &[i32]) -> Result<i32, NoValue> {
    Ok(match e {
        Scalar::Num(v) => {
            let whole = *v as i32;
            if f64::from(whole) != *v {
                return Err(NoValue::NotInteger);
            }
            whole
        }
        Scalar::Arg(i) => *args.get(*i).ok_or(NoValue::NotInteger)?,
        Scalar::Un(ScalarUn::Neg, a) => value(a, args)?.wrapping_neg(),
        Scalar::Un(ScalarUn::Abs, a) => value(a, args)?.wrapping_abs(),
        Scalar::Un(..) => return Err(NoValue::NotInteger),
        Scalar::Bin(op, a, b) => {
            let (a, b) = (value(a, args)?, value(b, args)?);
            match op {
                ScalarBin::Add => a.wrapping_add(b),
                ScalarBin::Sub => a.wrapping_sub(b),
                ScalarBin::Mul => a.wrapping_mul(b),
                ScalarBin::Div if b == 0 => return Err(NoValue::ByZero),
                ScalarBin::Div => a.wrapping_div(b),
                ScalarBin::Min => a.min(b),
                ScalarBin::Max => a.max(b),
            }
        }
        Scalar::Pow(a, n) => value(a, args)?.wrapping_pow(*n),
        Scalar::If(c, a, b) => {
            let taken = holds(c.op, value(&c.a, args)?, value(&c.b, args)?);
            value(if taken { a } else { b }, args)?
        }
    })
}

/// The interval of values that an operand may have.
#[derive(Clone, Copy)]
struct Range {
    lo: f64,
    hi: f64,
}

impl Range {
    /// Returns None if the interval leaves i32, because a value that wraps may become anything.
    fn of(values: &[f64]) -> Option<Range> {
        let lo = values.iter().copied().fold(f64::INFINITY, f64::min);
        let hi = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (lo >= f64::from(i32::MIN) && hi <= f64::from(i32::MAX)).then_some(Range { lo, hi })
    }
}

/// Returns the interval of values that the expression may have, or None if it may wrap or divide by
/// zero.
fn interval(e: &Scalar, args: &[Range]) -> Option<Range> {
    match e {
        Scalar::Num(v) => Range::of(&[*v]),
        Scalar::Arg(i) => args.get(*i).and_then(|r| Range::of(&[r.lo, r.hi])),
        Scalar::Un(ScalarUn::Neg, a) => {
            let a = interval(a, args)?;
            Range::of(&[-a.lo, -a.hi])
        }
        Scalar::Un(ScalarUn::Abs, a) => {
            let a = interval(a, args)?;
            let near = if a.lo <= 0.0 && a.hi >= 0.0 { 0.0 } else { a.lo.abs().min(a.hi.abs()) };
            Range::of(&[near, a.lo.abs(), a.hi.abs()])
        }
        Scalar::Un(..) => None,
        Scalar::Bin(op, a, b) => {
            let (a, b) = (interval(a, args)?, interval(b, args)?);
            let corners = |f: &dyn Fn(f64, f64) -> f64| {
                Range::of(&[f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)])
            };
            match op {
                ScalarBin::Add => corners(&|x, y| x + y),
                ScalarBin::Sub => corners(&|x, y| x - y),
                // Products beyond 2^53 are rounded, but they are out of range anyway.
                ScalarBin::Mul => corners(&|x, y| x * y),
                ScalarBin::Div if b.lo <= 0.0 && b.hi >= 0.0 => None,
                ScalarBin::Div => {
                    let r = corners(&|x, y| (x / y).trunc())?;
                    if a.lo <= 0.0 && a.hi >= 0.0 { Range::of(&[r.lo, r.hi, 0.0]) } else { Some(r) }
                }
                ScalarBin::Min => corners(&f64::min),
                ScalarBin::Max => corners(&f64::max),
            }
        }
        Scalar::Pow(a, n) => {
            let a = interval(a, args)?;
            let mut r = Range { lo: 1.0, hi: 1.0 };
            // Values of at most 1 never leave the range; others do so within 32 products.
            for _ in 0..(*n).min(64) {
                r = Range::of(&[r.lo * a.lo, r.lo * a.hi, r.hi * a.lo, r.hi * a.hi])?;
            }
            Some(r)
        }
        Scalar::If(c, a, b) => {
            let (x, y) = (interval(&c.a, args)?, interval(&c.b, args)?);
            if x.hi < y.lo || y.hi < x.lo || (x.lo == x.hi && y.lo == y.hi) {
                return interval(if holds(c.op, x.lo, y.lo) { a } else { b }, args);
            }
            let (a, b) = (interval(a, args)?, interval(b, args)?);
            Range::of(&[a.lo, a.hi, b.lo, b.hi])
        }
    }
}
