//! Linearity of elementwise functions: decides which functions commute with a pending reduction,
//! and which functions exist only for floating-point types.
//!
//! A value that is `partial(sum@tp)` may pass through a function without being reduced first if the
//! function of the sum is the sum of the functions. Examples are adding two such values, and
//! scaling by a factor that is the same on all ranks. Adding a bias is a counterexample, because
//! the bias would be counted once per rank.

use crate::scalar::{Scalar, ScalarBin, ScalarUn};
use crate::types::{DType, ReduceOp};

/// Dependence of an expression on the partial arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dependence {
    /// It does not depend on them.
    Free,
    /// It does not depend on them, and is the constant 0.
    Zero,
    /// It depends on them and commutes with the combiner.
    Through,
    /// It depends on them and is not known to commute with the combiner.
    Neither,
}

/// Checks whether `body` commutes with combining its partial arguments with `op`.
pub fn commutes(body: &Scalar, partial: &[bool], op: ReduceOp, dtype: DType) -> bool {
    kind(body, partial, op, dtype) == Dependence::Through
}

fn kind(e: &Scalar, partial: &[bool], op: ReduceOp, dtype: DType) -> Dependence {
    let of = |e: &Scalar| kind(e, partial, op, dtype);
    let free = |k: Dependence| matches!(k, Dependence::Free | Dependence::Zero);
    match e {
        Scalar::Num(v) if *v == 0.0 => Dependence::Zero,
        Scalar::Num(_) => Dependence::Free,
        Scalar::Arg(i) if partial.get(*i).copied().unwrap_or(false) => Dependence::Through,
        Scalar::Arg(_) => Dependence::Free,
        Scalar::Un(f, a) => match of(a) {
            k if free(k) => Dependence::Free,
            Dependence::Through if *f == ScalarUn::Neg && op == ReduceOp::Sum => Dependence::Through,
            _ => Dependence::Neither,
        },
        Scalar::Bin(f, a, b) => {
            let (x, y) = (of(a), of(b));
            if free(x) && free(y) {
                return Dependence::Free;
            }
            let both = x == Dependence::Through && y == Dependence::Through;
            let one = x == Dependence::Through && free(y) || free(x) && y == Dependence::Through;
            let with_zero = x == Dependence::Zero || y == Dependence::Zero;
            let through = match (op, f) {
                (ReduceOp::Sum, ScalarBin::Add | ScalarBin::Sub) => both || one && with_zero,
                (ReduceOp::Sum, ScalarBin::Mul) => one,
                // Integer division rounds, so only a floating-point quotient is linear.
                (ReduceOp::Sum, ScalarBin::Div) => x == Dependence::Through && free(y) && dtype.is_float(),
                (ReduceOp::Prod, ScalarBin::Mul) => both,
                (ReduceOp::Min, ScalarBin::Min) | (ReduceOp::Max, ScalarBin::Max) => both || one,
                _ => false,
            };
            if through { Dependence::Through } else { Dependence::Neither }
        }
        Scalar::Pow(a, n) => match of(a) {
            k if free(k) => Dependence::Free,
            Dependence::Through if *n == 1 => Dependence::Through,
            _ => Dependence::Neither,
        },
        Scalar::If(c, a, b) => {
            if !free(of(&c.a)) || !free(of(&c.b)) {
                return Dependence::Neither;
            }
            match (of(a), of(b)) {
                (x, y) if free(x) && free(y) => Dependence::Free,
                (Dependence::Through, Dependence::Through) => Dependence::Through,
                (Dependence::Through, Dependence::Zero) | (Dependence::Zero, Dependence::Through)
                    if op == ReduceOp::Sum =>
                {
                    Dependence::Through
                }
                _ => Dependence::Neither,
            }
        }
    }
}

/// Returns the first function in an expression that exists only for floating-point types.
pub fn float_function(e: &Scalar) -> Option<ScalarUn> {
    match e {
        Scalar::Num(_) | Scalar::Arg(_) => None,
        Scalar::Un(f, a) if f.has_integers() => float_function(a),
        Scalar::Un(f, _) => Some(*f),
        Scalar::Bin(_, a, b) => float_function(a).or_else(|| float_function(b)),
        Scalar::Pow(a, _) => float_function(a),
        Scalar::If(c, a, b) => [&c.a, &c.b, &**a, &**b].into_iter().find_map(float_function),
    }
}
