//! Range analysis: lower and upper bounds of integer expressions, computed without evaluating them.
//!
//! The module owns the bounds of the values that every kernel has by name, and how operators
//! propagate bounds. The C++ printer queries it to find out where `/` and `%` of C++, which
//! truncate, equal those of the IR, which round down.

use crate::tile::{CALL, CORE, COUNT, NRANKS, RANK};
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::name::Name;

/// An interval of integers with inclusive bounds. A bound is `None` if it does not exist or is not
/// known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Lower bound.
    pub lo: Option<i64>,
    /// Upper bound.
    pub hi: Option<i64>,
}

impl Range {
    /// The range of a value about which nothing is known.
    pub const ANY: Range = Range { lo: None, hi: None };

    /// Returns the range of all values that are at least `lo`.
    pub const fn from(lo: i64) -> Range {
        Range { lo: Some(lo), hi: None }
    }

    /// Returns the range from `lo` to `hi`, both included.
    pub const fn of(lo: i64, hi: i64) -> Range {
        Range { lo: Some(lo), hi: Some(hi) }
    }

    /// Checks that no value of the range is negative.
    pub fn nonnegative(self) -> bool {
        self.lo.is_some_and(|v| v >= 0)
    }

    /// Checks that every value of the range is positive.
    pub fn positive(self) -> bool {
        self.lo.is_some_and(|v| v > 0)
    }

    fn join(self, other: Range) -> Range {
        Range { lo: both(self.lo, other.lo, i64::min), hi: both(self.hi, other.hi, i64::max) }
    }
}

fn both(a: Option<i64>, b: Option<i64>, f: impl Fn(i64, i64) -> i64) -> Option<i64> {
    Some(f(a?, b?))
}

/// Returns the range of a name that every kernel has; [`Range::ANY`] for any other name. `ranks`
/// and `cores` are the most that a target has.
pub fn known(name: &str, ranks: u32, cores: u32) -> Range {
    match name {
        RANK => Range::of(0, i64::from(ranks) - 1),
        NRANKS => Range::of(1, i64::from(ranks)),
        CORE => Range::of(0, i64::from(cores) - 1),
        COUNT | CALL => Range::from(0),
        _ => Range::ANY,
    }
}

/// Returns the bounds of an expression; `var` gives those of its variables.
pub fn range(e: &Expr, var: &impl Fn(&Name) -> Range) -> Range {
    match e {
        Expr::Int(v) => Range::of(*v, *v),
        Expr::Var(n) => var(n),
        Expr::Table(..) => Range::ANY,
        Expr::Select(_, a, b) => range(a, var).join(range(b, var)),
        Expr::Un(op, a) => unary(*op, range(a, var)),
        Expr::Bin(op, a, b) => binary(*op, range(a, var), range(b, var)),
    }
}

fn unary(op: UnOp, a: Range) -> Range {
    match op {
        UnOp::Neg => Range { lo: a.hi.and_then(i64::checked_neg), hi: a.lo.and_then(i64::checked_neg) },
        UnOp::Not => Range::of(0, 1),
        UnOp::Log2 | UnOp::CeilLog2 | UnOp::Popcount => Range::of(0, 64),
        UnOp::Abs if a.nonnegative() => a,
        UnOp::Abs => Range::from(0),
        UnOp::Sign => Range::of(-1, 1),
    }
}

fn binary(op: BinOp, a: Range, b: Range) -> Range {
    let add = |x: Option<i64>, y: Option<i64>| x?.checked_add(y?);
    let sub = |x: Option<i64>, y: Option<i64>| x?.checked_sub(y?);
    let mul = |x: Option<i64>, y: Option<i64>| x?.checked_mul(y?);
    match op {
        BinOp::Add => Range { lo: add(a.lo, b.lo), hi: add(a.hi, b.hi) },
        BinOp::Sub => Range { lo: sub(a.lo, b.hi), hi: sub(a.hi, b.lo) },
        BinOp::Mul if a.nonnegative() && b.nonnegative() => {
            Range { lo: mul(a.lo, b.lo).or(Some(0)), hi: mul(a.hi, b.hi) }
        }
        BinOp::Div if a.nonnegative() && b.positive() => {
            let lo = both(a.lo, b.hi, |x, y| x / y).or(Some(0));
            Range { lo, hi: both(a.hi, b.lo, |x, y| x / y) }
        }
        BinOp::Mod if b.positive() => {
            let below = b.hi.map(|h| h - 1);
            let hi = if a.nonnegative() { least(a.hi, below) } else { below };
            Range { lo: Some(0), hi }
        }
        BinOp::Min => Range { lo: both(a.lo, b.lo, i64::min), hi: least(a.hi, b.hi) },
        BinOp::Max => Range { lo: most(a.lo, b.lo), hi: both(a.hi, b.hi, i64::max) },
        BinOp::BitAnd if a.nonnegative() || b.nonnegative() => {
            let bound = |r: Range| if r.nonnegative() { r.hi } else { None };
            Range { lo: Some(0), hi: least(bound(a), bound(b)) }
        }
        BinOp::BitOr | BinOp::Xor if a.nonnegative() && b.nonnegative() => Range::from(0),
        BinOp::Shl | BinOp::Shr if a.nonnegative() => {
            Range { lo: Some(0), hi: if op == BinOp::Shr { a.hi } else { None } }
        }
        BinOp::And | BinOp::Or | BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => {
            Range::of(0, 1)
        }
        _ => Range::ANY,
    }
}

/// Returns the smaller of the known bounds; `None` if neither is known.
fn least(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    both(a, b, i64::min).or(a).or(b)
}

/// Returns the larger of the known bounds; `None` if neither is known.
fn most(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    both(a, b, i64::max).or(a).or(b)
}
