//! Ranges of integer expressions: what can be said of a value without running anything.
//!
//! Owns lower and upper bounds of the values kernels know, and how operations carry them along. Printers ask it where
//! `/` and `%` of C++ are the same as those of the IR, which round down.

use crate::profile::{MAX_CORES, MAX_RANKS};
use crate::tile::{CALL, CORE, COUNT, NRANKS, RANK};
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::name::Name;

/// Bounds, both included; none where there is none or it is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Not less than this.
    pub lo: Option<i64>,
    /// Not more than this.
    pub hi: Option<i64>,
}

impl Range {
    /// Nothing is known.
    pub const ANY: Range = Range { lo: None, hi: None };

    /// From `lo` up.
    pub const fn from(lo: i64) -> Range {
        Range { lo: Some(lo), hi: None }
    }

    /// Both bounds.
    pub const fn of(lo: i64, hi: i64) -> Range {
        Range { lo: Some(lo), hi: Some(hi) }
    }

    /// Whether no value is negative.
    pub fn nonnegative(self) -> bool {
        self.lo.is_some_and(|v| v >= 0)
    }

    /// Whether every value is positive.
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

/// What is known of a value that every kernel has by name.
pub fn known(name: &str) -> Range {
    match name {
        RANK => Range::of(0, i64::from(MAX_RANKS) - 1),
        NRANKS => Range::of(1, i64::from(MAX_RANKS)),
        CORE => Range::of(0, i64::from(MAX_CORES) - 1),
        COUNT | CALL => Range::from(0),
        _ => Range::ANY,
    }
}

/// Bounds of an expression; `var` knows those of its variables.
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

/// The smaller of those that are known.
fn least(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    both(a, b, i64::min).or(a).or(b)
}

/// The larger of those that are known.
fn most(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    both(a, b, i64::max).or(a).or(b)
}
