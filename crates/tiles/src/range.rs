//! Bounds of the names that every kernel has, and of expressions over them.
//!
//! Printers of C++ query them to find out where `/` and `%` of C++, which truncate, equal those of
//! the IR, which round down. The analysis is that of [`kbc_ir::interval`].

use crate::tile::{CALL, CORE, COUNT, NRANKS, RANK};
use kbc_ir::expr::Expr;
use kbc_ir::interval::{self, Interval};
use kbc_ir::name::Name;

/// Returns the bounds of a name that every kernel has; [`Interval::ANY`] for any other name.
/// `ranks` and `cores` are the most that a target has.
pub fn known(name: &str, ranks: u32, cores: u32) -> Interval {
    match name {
        RANK => Interval::of(0, i64::from(ranks) - 1),
        NRANKS => Interval::of(1, i64::from(ranks)),
        CORE => Interval::of(0, i64::from(cores) - 1),
        COUNT | CALL => Interval::from(0),
        _ => Interval::ANY,
    }
}

/// Returns the bounds of the value of an expression; `var` gives those of its variables. Tables are
/// those of a launch, so nothing is known about their entries.
pub fn range(e: &Expr, var: &impl Fn(&Name) -> Interval) -> Interval {
    interval::of(e, &|n: &Name| var(n).into(), &|_| None).within
}
