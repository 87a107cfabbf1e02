//! Interval analysis: the range of values that an expression can have on any rank and in any step.
//!
//! An expression has a range only if every part of it has a value for all values of its slots. An
//! expression with a range can therefore be computed earlier, in another order, or not at all,
//! without missing a fault of [`super::Cursor`].

use super::compile::C;
use crate::expr::{BinOp, UnOp};
use crate::schedule::Table;

/// Least and greatest value.
pub(super) type Range = (i64, i64);

fn fit(lo: i128, hi: i128) -> Option<Range> {
    Some((i64::try_from(lo).ok()?, i64::try_from(hi).ok()?))
}

fn corners(a: Range, b: Range, f: impl Fn(i128, i128) -> i128) -> Option<Range> {
    let all = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)].map(|(x, y)| f(x.into(), y.into()));
    fit(all.into_iter().min()?, all.into_iter().max()?)
}

/// Returns the range of an expression, given the ranges of the slots. Returns `None` if the
/// expression might have no value.
pub(super) fn range(e: &C, slots: &[Option<Range>], tables: &[Table]) -> Option<Range> {
    Some(match e {
        C::Int(v) => (*v, *v),
        C::Slot(s) => (*slots.get(*s as usize)?)?,
        C::Un(op, a) => {
            let a = range(a, slots, tables)?;
            match op {
                UnOp::Neg => fit(-i128::from(a.1), -i128::from(a.0))?,
                UnOp::Not => (0, 1),
                UnOp::Log2 if a.0 >= 1 => (a.0.ilog2().into(), a.1.ilog2().into()),
                UnOp::CeilLog2 if a.0 >= 1 => (0, 63),
                UnOp::Popcount => (0, 64),
                UnOp::Sign => (a.0.signum(), a.1.signum()),
                _ => return None,
            }
        }
        C::Bin(op, a, b) => {
            let (a, b) = (range(a, slots, tables)?, range(b, slots, tables)?);
            match op {
                BinOp::Add => fit(i128::from(a.0) + i128::from(b.0), i128::from(a.1) + i128::from(b.1))?,
                BinOp::Sub => fit(i128::from(a.0) - i128::from(b.1), i128::from(a.1) - i128::from(b.0))?,
                BinOp::Mul => corners(a, b, |x, y| x * y)?,
                BinOp::Mod if b.0 > 0 && a.0 >= 0 && a.1 < b.0 => a,
                BinOp::Mod if b.0 > 0 => (0, b.1 - 1),
                BinOp::Div if b.0 > 0 => corners(a, b, |x, y| x.div_euclid(y))?,
                BinOp::Xor if a.0 >= 0 && b.0 >= 0 => {
                    let bits = 64 - (a.1 | b.1).leading_zeros();
                    (0, if bits >= 63 { i64::MAX } else { (1 << bits) - 1 })
                }
                BinOp::BitAnd if a.0 >= 0 && b.0 >= 0 => (0, a.1.min(b.1)),
                BinOp::Shl if b.0 >= 0 && b.1 <= 62 => corners(a, b, |x, y| x << y)?,
                BinOp::Shr if b.0 >= 0 && b.1 <= 62 => corners(a, b, |x, y| x >> y)?,
                BinOp::Min => (a.0.min(b.0), a.1.min(b.1)),
                BinOp::Max => (a.0.max(b.0), a.1.max(b.1)),
                BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => (0, 1),
                BinOp::And | BinOp::Or => (0, 1),
                _ => return None,
            }
        }
        C::Select(c, a, b) => {
            range(c, slots, tables)?;
            let (a, b) = (range(a, slots, tables)?, range(b, slots, tables)?);
            (a.0.min(b.0), a.1.max(b.1))
        }
        C::Table(t, i) => {
            let i = range(i, slots, tables)?;
            let values = &tables.get(*t as usize)?.values;
            let part = values.get(usize::try_from(i.0).ok()?..=usize::try_from(i.1).ok()?)?;
            (*part.iter().min()?, *part.iter().max()?)
        }
    })
}

/// Checks whether an expression reads a slot with number `first` or above.
pub(super) fn reads(e: &C, first: u16) -> bool {
    match e {
        C::Int(_) => false,
        C::Slot(s) => *s >= first,
        C::Un(_, a) | C::Table(_, a) => reads(a, first),
        C::Bin(_, a, b) => reads(a, first) || reads(b, first),
        C::Select(c, a, b) => reads(c, first) || reads(a, first) || reads(b, first),
    }
}
