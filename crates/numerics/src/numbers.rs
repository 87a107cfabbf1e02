//! Rules of arithmetic: for each operation the type in which it is computed, the order, and where
//! it is rounded.
//!
//! The module owns [`RULES`] (printed in `docs/reference/numbers.md`), rounding to a dtype,
//! conversions and the combiners of reductions. [`crate::scalar_eval`] implements elementwise
//! expressions, [`crate::local`] whole local operations. Interpreter, reference evaluator and
//! compiled code must agree on everything here.

use crate::element::Value;
use crate::functions;
use crate::tensor::Data;
use half::slice::HalfFloatSliceExt;
use half::vec::HalfFloatVecExt;
use half::{bf16, f16};
use kbc_ir::types::{DType, ReduceOp};
use std::borrow::Cow;
use std::fmt::Write;

/// The reason why an operation has no value, and a remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What is wrong.
    pub text: String,
    /// What to do about it.
    pub help: String,
}

impl Refusal {
    /// Creates a refusal from both texts.
    pub fn new(text: impl Into<String>, help: impl Into<String>) -> Refusal {
        Refusal { text: text.into(), help: help.into() }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The operation.
    pub operation: &'static str,
    /// The type in which it is computed.
    pub computed: &'static str,
    /// Order of the additions, and special values.
    pub order: &'static str,
    /// Where it is rounded.
    pub rounded: &'static str,
}

const fn rule(
    operation: &'static str,
    computed: &'static str,
    order: &'static str,
    rounded: &'static str,
) -> Rule {
    Rule { operation, computed, order, rounded }
}

/// The operation after which the table has the functions of [`crate::functions`].
const ROOT: &str = "rsqrt(x)";

/// The table, without the functions of [`crate::functions`].
pub const RULES: &[Rule] = &[
    rule("elementwise expression, f32", "f32", "as written; no fused multiply-add", "after every operation"),
    rule(
        "elementwise expression, f16 and bf16",
        "f32",
        "as written; no fused multiply-add",
        "operands exact, every operation to f32, the stored result once to the dtype",
    ),
    rule(
        "elementwise expression, i32",
        "i32",
        "as written; + - * neg abs wrap; / rounds toward zero, i32::MIN / -1 wraps, / 0 is an error",
        "exact",
    ),
    rule(
        "a number in an expression",
        "f64",
        "-",
        "once to the dtype of the other operand; for i32 it must be an integer in range",
    ),
    rule("min, max", "as the expression", "NaN if one side is NaN; -0 is less than +0", "exact"),
    rule("neg, abs", "as the expression", "only the sign bit changes, also for NaN", "exact"),
    rule("sqrt", "f32", "-", "correctly"),
    rule(ROOT, "f32", "1 / sqrt(x)", "twice: the root, the quotient"),
    rule(
        "pow_int(x, n)",
        "as the expression",
        "1 for n = 0, otherwise ((x * x) * x) ...",
        "after every product",
    ),
    rule(
        "comparison, select",
        "as the expression",
        "false with NaN, except that != is true; -0 equals +0; only the chosen side is evaluated",
        "-",
    ),
    rule(
        "combine (dst = dst OP src)",
        "f32 for floats, i32 for i32",
        "dst first, then src",
        "once to the dtype, for every reduce",
    ),
    rule(
        "sum, prod, min, max of a dimension",
        "f32 for floats, i32 for i32",
        "by index, from the first element; without elements 0, 1, the largest, the smallest value (infinite for floats)",
        "once to the dtype, at the end",
    ),
    rule(
        "mean of a dimension",
        "f32",
        "the sum, then one division by the global count",
        "once to the dtype, after the division",
    ),
    rule(
        "matmul, f32, f16, bf16",
        "f32",
        "by index in blocks of equal length, at most 256 terms each, multiply and add fused where the processor can; then the sums of the blocks. It does not depend on the number of rows and columns",
        "once to the dtype of the result",
    ),
    rule("matmul, i32", "i32, wrapping", "by index", "exact"),
    rule(
        "`dot` of a tile kernel, floats",
        "f32",
        "one product after the other by ascending k, starting with the accumulator; not fused",
        "after every product and every addition",
    ),
    rule("`+=` of a tile kernel, i32", "i32, wrapping", "as written", "exact"),
    rule(
        "cast to a floating-point type",
        "-",
        "overflow is infinite; in f8e4m3fn, which has no infinity, it is the largest number",
        "once, nearest even",
    ),
    rule(
        "cast from a floating-point to an integer type",
        "-",
        "NaN is 0, out of range is the nearest limit",
        "once, nearest even",
    ),
    rule("cast between integer types", "-", "the low bits", "exact"),
    rule("copy, put, get, pack, unpack, slice", "-", "any dtype", "exact, bit for bit"),
];

/// Returns the table as markdown, as it is in `docs/reference/numbers.md`.
pub fn table() -> String {
    let mut out =
        String::from("| operation | computed in | order, special values | rounded |\n|---|---|---|---|\n");
    for r in RULES {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "| {} | {} | {} | {} |", r.operation, r.computed, r.order, r.rounded);
        if r.operation != ROOT {
            continue;
        }
        for (names, ulps) in functions::accuracies() {
            let several = if names.len() > 1 { "functions" } else { "function" };
            let names = names.join(", ");
            let _ = writeln!(out, "| {names} | f32 | the libm crate's f32 {several} | within {ulps} ulp |");
        }
    }
    out
}

/// Returns the smaller number; NaN if one is NaN, and -0 is less than +0.
pub fn min_f32(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// Returns the larger number; NaN if one is NaN, and -0 is less than +0.
pub fn max_f32(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

/// Returns `a OP b` in f32.
pub fn combine_f32(op: ReduceOp, a: f32, b: f32) -> f32 {
    match op {
        ReduceOp::Sum => a + b,
        ReduceOp::Prod => a * b,
        ReduceOp::Min => min_f32(a, b),
        ReduceOp::Max => max_f32(a, b),
    }
}

/// Returns `a OP b` in f64, with the same special values as [`combine_f32`].
pub fn combine_f64(op: ReduceOp, a: f64, b: f64) -> f64 {
    match op {
        ReduceOp::Sum => a + b,
        ReduceOp::Prod => a * b,
        ReduceOp::Min | ReduceOp::Max if a.is_nan() || b.is_nan() => f64::NAN,
        ReduceOp::Min if a < b || (a == b && a.is_sign_negative()) => a,
        ReduceOp::Max if a > b || (a == b && a.is_sign_positive()) => a,
        ReduceOp::Min | ReduceOp::Max => b,
    }
}

/// Returns `a OP b` in i32, wrapping.
pub fn combine_i32(op: ReduceOp, a: i32, b: i32) -> i32 {
    match op {
        ReduceOp::Sum => a.wrapping_add(b),
        ReduceOp::Prod => a.wrapping_mul(b),
        ReduceOp::Min => a.min(b),
        ReduceOp::Max => a.max(b),
    }
}

/// Returns the value of an empty reduction: 0, 1, +inf, -inf.
pub fn identity_f32(op: ReduceOp) -> f32 {
    match op {
        ReduceOp::Sum => 0.0,
        ReduceOp::Prod => 1.0,
        ReduceOp::Min => f32::INFINITY,
        ReduceOp::Max => f32::NEG_INFINITY,
    }
}

/// Returns the value of an empty reduction: 0, 1, the largest value, the smallest value.
pub fn identity_i32(op: ReduceOp) -> i32 {
    match op {
        ReduceOp::Sum => 0,
        ReduceOp::Prod => 1,
        ReduceOp::Min => i32::MAX,
        ReduceOp::Max => i32::MIN,
    }
}

fn no_arithmetic(dtype: DType) -> Refusal {
    Refusal::new(
        format!("kbc can move {dtype} but not compute with it"),
        format!("cast to {} first", DType::computing()),
    )
}

/// Computes `dst[i] = dst[i] OP src[i]`, with each result rounded once to the dtype. Fails for
/// types without arithmetic, and if types or lengths differ.
pub fn combine(op: ReduceOp, dst: &mut Data, src: &Data) -> Result<(), Refusal> {
    if dst.dtype() != src.dtype() || dst.len() != src.len() {
        return Err(Refusal::new(
            format!(
                "{} {} elements cannot be reduced into {} {}",
                src.len(),
                src.dtype(),
                dst.len(),
                dst.dtype()
            ),
            "both sides of a reduce need the same element type and size".to_string(),
        ));
    }
    match (dst, src) {
        (Data::F32(d), Data::F32(s)) => d.iter_mut().zip(s).for_each(|(d, s)| *d = combine_f32(op, *d, *s)),
        (Data::F16(d), Data::F16(s)) => {
            d.iter_mut().zip(s).for_each(|(d, s)| *d = f16::from_f32(combine_f32(op, d.to_f32(), s.to_f32())))
        }
        (Data::BF16(d), Data::BF16(s)) => d
            .iter_mut()
            .zip(s)
            .for_each(|(d, s)| *d = bf16::from_f32(combine_f32(op, d.to_f32(), s.to_f32()))),
        (Data::I32(d), Data::I32(s)) => d.iter_mut().zip(s).for_each(|(d, s)| *d = combine_i32(op, *d, *s)),
        (d, _) => return Err(no_arithmetic(d.dtype())),
    }
    Ok(())
}

/// Returns the elements in f32, exactly. Fails for integers.
pub fn widen(data: &Data) -> Result<Cow<'_, [f32]>, Refusal> {
    match data {
        Data::F32(v) => Ok(Cow::Borrowed(v)),
        Data::F16(v) => Ok(Cow::Owned(v.to_f32_vec())),
        Data::BF16(v) => Ok(Cow::Owned(v.to_f32_vec())),
        other => Err(no_arithmetic(other.dtype())),
    }
}

/// Rounds results computed in f32 once to a floating-point type. Fails for integers.
pub fn narrow(values: Vec<f32>, dtype: DType) -> Result<Data, Refusal> {
    match dtype {
        DType::F32 => Ok(Data::F32(values)),
        DType::F16 => Ok(Data::F16(Vec::from_f32_slice(&values))),
        DType::BF16 => Ok(Data::BF16(Vec::from_f32_slice(&values))),
        other => Err(no_arithmetic(other)),
    }
}

/// Returns a number rounded once, to nearest even, to a floating-point type, as f64 (exact). For
/// integer types, returns the nearest integer in range.
pub fn round_to(v: f64, dtype: DType) -> f64 {
    Value::rounded(v, dtype).as_f64()
}

/// Converts numbers to elements of a type, each rounded once (for integer types, to the nearest
/// integer in range).
pub fn from_f64(dtype: DType, values: &[f64]) -> Data {
    Data::of_f64(dtype, values)
}

/// Converts integers to elements of a type: to nearest even for floating-point types, the low bits
/// for integer types.
pub fn from_i64(dtype: DType, values: &[i64]) -> Data {
    Data::of_i64(dtype, values)
}

/// Converts elements to another type, by the rows "cast" of the table.
pub fn cast(data: &Data, dtype: DType) -> Data {
    if data.dtype() == dtype {
        return data.clone();
    }
    match data.to_i64() {
        Some(ints) => from_i64(dtype, &ints),
        // All floating-point types are exact in f64, so this rounds once.
        None => from_f64(dtype, &data.to_f64()),
    }
}
