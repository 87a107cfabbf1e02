//! Ranges of resolved expressions: the values that an expression can have on any rank and in any
//! step.
//!
//! An expression has a range only if every part of it has a value for all values of its slots. An
//! expression with a range can therefore be computed earlier, in another order, or not at all,
//! without missing a fault of [`super::Cursor`].

use crate::interval::{self, Fact, Interval};
use crate::resolved::Resolved;
use crate::schedule::Table;

/// Least and greatest value.
pub(super) type Range = (i64, i64);

/// Returns the range of an expression, given the ranges of the slots. Returns `None` if the
/// expression might have no value.
pub(super) fn range(e: &Resolved, slots: &[Option<Range>], tables: &[Table]) -> Option<Range> {
    let slot = |s: &u32| {
        let known = slots.get(*s as usize).copied().flatten();
        known.map_or(Fact::NOTHING, |(lo, hi)| Interval::of(lo, hi).into())
    };
    interval::of(e, &slot, &|t| Some(&tables.get(*t as usize)?.values[..])).sure()
}

/// Returns the values of a variable that counts from a value of one range to one below a value of
/// another.
pub(super) fn counted(lo: Range, hi: Range) -> Option<Range> {
    Interval::counted(Interval::of(lo.0, lo.1), Interval::of(hi.0, hi.1)).closed()
}
