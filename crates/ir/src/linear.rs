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
enum Kind {
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
    kind(body, partial, op, dtype) == Kind::Through
}

fn kind(e: &Scalar, partial: &[bool], op: ReduceOp, dtype: DType) -> Kind {
    let of = |e: &Scalar| kind(e, partial, op, dtype);
    let free = |k: Kind| matches!(k, Kind::Free | Kind::Zero);
    match e {
        Scalar::Num(v) if *v == 0.0 => Kind::Zero,
        Scalar::Num(_) => Kind::Free,
        Scalar::Arg(i) if partial.get(*i).copied().unwrap_or(false) => Kind::Through,
        Scalar::Arg(_) => Kind::Free,
        Scalar::Un(f, a) => match of(a) {
            k if free(k) => Kind::Free,
            Kind::Through if *f == ScalarUn::Neg && op == ReduceOp::Sum => Kind::Through,
            _ => Kind::Neither,
        },
        Scalar::Bin(f, a, b) => {
            let (x, y) = (of(a), of(b));
            if free(x) && free(y) {
                return Kind::Free;
            }
            let both = x == Kind::Through && y == Kind::Through;
            let one = x == Kind::Through && free(y) || free(x) && y == Kind::Through;
            let with_zero = x == Kind::Zero || y == Kind::Zero;
            let through = match (op, f) {
                (ReduceOp::Sum, ScalarBin::Add | ScalarBin::Sub) => both || one && with_zero,
                (ReduceOp::Sum, ScalarBin::Mul) => one,
                // Integer division rounds, so only a floating-point quotient is linear.
                (ReduceOp::Sum, ScalarBin::Div) => x == Kind::Through && free(y) && dtype.is_float(),
                (ReduceOp::Prod, ScalarBin::Mul) => both,
                (ReduceOp::Min, ScalarBin::Min) | (ReduceOp::Max, ScalarBin::Max) => both || one,
                _ => false,
            };
            if through { Kind::Through } else { Kind::Neither }
        }
        Scalar::Pow(a, n) => match of(a) {
            k if free(k) => Kind::Free,
            Kind::Through if *n == 1 => Kind::Through,
            _ => Kind::Neither,
        },
        Scalar::If(c, a, b) => {
            if !free(of(&c.a)) || !free(of(&c.b)) {
                return Kind::Neither;
            }
            match (of(a), of(b)) {
                (x, y) if free(x) && free(y) => Kind::Free,
                (Kind::Through, Kind::Through) => Kind::Through,
                (Kind::Through, Kind::Zero) | (Kind::Zero, Kind::Through) if op == ReduceOp::Sum => {
                    Kind::Through
                }
                _ => Kind::Neither,
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
