//! Algebras of numbers: kinds of numbers in which the rules of [`crate::cut`] can be computed.
//!
//! A rule is written once for every [`Algebra`]. [`IntegerAlgebra`] computes integers and notices
//! overflow, and [`ExprAlgebra`] builds expressions. The compilers of schedules have algebras whose
//! numbers are values of emitted code.

use crate::expr::{BinOp, Tree};
use crate::name::Name;
use crate::parts::Parts;

/// Arithmetic on numbers that are not negative.
pub trait Algebra {
    /// A number.
    type Num: Clone;

    /// Returns a constant.
    fn int(&mut self, v: u64) -> Self::Num;
    /// Returns `a + b`.
    fn add(&mut self, a: &Self::Num, b: &Self::Num) -> Self::Num;
    /// Returns `a - b`, for a `b` that is not larger than `a`.
    fn sub(&mut self, a: &Self::Num, b: &Self::Num) -> Self::Num;
    /// Returns `a * b`.
    fn mul(&mut self, a: &Self::Num, b: &Self::Num) -> Self::Num;
    /// Returns `a / b`, rounded down, for a `b` other than 0.
    fn div(&mut self, a: &Self::Num, b: &Self::Num) -> Self::Num;
    /// Returns the remainder of `a / b`, for a `b` other than 0.
    fn rem(&mut self, a: &Self::Num, b: &Self::Num) -> Self::Num;
    /// Returns the smaller number.
    fn min(&mut self, a: &Self::Num, b: &Self::Num) -> Self::Num;

    /// Returns `a / b`, rounded up, for a `b` other than 0.
    fn div_up(&mut self, a: &Self::Num, b: &Self::Num) -> Self::Num {
        let one = self.int(1);
        let less = self.sub(b, &one);
        let up = self.add(a, &less);
        self.div(&up, b)
    }

    /// Returns the value of a number, if it is known.
    fn known(&self, a: &Self::Num) -> Option<u64>;
    /// Checks whether two numbers are known to be equal.
    fn same(&self, a: &Self::Num, b: &Self::Num) -> bool {
        self.known(a).is_some() && self.known(a) == self.known(b)
    }

    /// Returns the number of elements of a line of memory in [`crate::types::CutRule::Lines`].
    fn line(&mut self, unit: u64) -> Self::Num {
        self.int(unit.max(1))
    }

    /// Returns boundary `i` of a row of given lengths of `n` elements.
    fn listed(&mut self, parts: &Parts, row: &Self::Num, n: &Self::Num, i: &Self::Num) -> Self::Num;

    /// Returns the length of part `i` of a row of given lengths of `n` elements.
    fn listed_length(&mut self, parts: &Parts, row: &Self::Num, n: &Self::Num, i: &Self::Num) -> Self::Num {
        let one = self.int(1);
        let next = self.add(i, &one);
        let (lo, hi) = (self.listed(parts, row, n, i), self.listed(parts, row, n, &next));
        self.sub(&hi, &lo)
    }
}

/// Integers. A result that does not fit, or that would be negative, is noticed.
#[derive(Default, Debug)]
pub struct IntegerAlgebra {
    failed: bool,
}

impl IntegerAlgebra {
    /// Returns a number that was computed, or `None` if it or a number before it does not fit.
    pub fn result(&self, v: u128) -> Option<u64> {
        u64::try_from(v).ok().filter(|_| !self.failed)
    }

    fn noted(&mut self, v: Option<u128>) -> u128 {
        self.failed |= v.is_none();
        v.unwrap_or(0)
    }
}

impl Algebra for IntegerAlgebra {
    type Num = u128;

    fn int(&mut self, v: u64) -> u128 {
        v.into()
    }

    fn add(&mut self, a: &u128, b: &u128) -> u128 {
        self.noted(a.checked_add(*b))
    }

    fn sub(&mut self, a: &u128, b: &u128) -> u128 {
        self.noted(a.checked_sub(*b))
    }

    fn mul(&mut self, a: &u128, b: &u128) -> u128 {
        self.noted(a.checked_mul(*b))
    }

    fn div(&mut self, a: &u128, b: &u128) -> u128 {
        match (u64::try_from(*a), u64::try_from(*b)) {
            // Most numbers are small, and machines divide them faster.
            (Ok(a), Ok(b)) => (a / b).into(),
            _ => a / b,
        }
    }

    fn rem(&mut self, a: &u128, b: &u128) -> u128 {
        match (u64::try_from(*a), u64::try_from(*b)) {
            (Ok(a), Ok(b)) => (a % b).into(),
            _ => a % b,
        }
    }

    fn min(&mut self, a: &u128, b: &u128) -> u128 {
        *a.min(b)
    }

    fn div_up(&mut self, a: &u128, b: &u128) -> u128 {
        match (u64::try_from(*a), u64::try_from(*b)) {
            (Ok(a), Ok(b)) => a.div_ceil(b).into(),
            _ => a.div_ceil(*b),
        }
    }

    fn known(&self, a: &u128) -> Option<u64> {
        u64::try_from(*a).ok()
    }

    fn same(&self, a: &u128, b: &u128) -> bool {
        a == b
    }

    fn listed(&mut self, parts: &Parts, row: &u128, n: &u128, i: &u128) -> u128 {
        match (u64::try_from(*row), u64::try_from(*i)) {
            (Ok(row), Ok(i)) if i < parts.of() => u128::from(parts.boundary(row, i)).min(*n),
            _ => *n,
        }
    }
}

/// Boundary `i` of a row of given lengths of `n` elements, as an expression: `(parts, row, n, i)`.
pub type ListedBoundary<V> = fn(&Parts, &Tree<V>, &Tree<V>, &Tree<V>) -> Tree<V>;

/// Expressions. How given lengths are written is up to the reader, which may or may not have
/// tables.
#[derive(Debug)]
pub struct ExprAlgebra<V = Name> {
    simplify: bool,
    start: ListedBoundary<V>,
    length: Option<ListedBoundary<V>>,
}

impl<V: Clone + PartialEq> ExprAlgebra<V> {
    /// Returns expressions in which constants are folded. `start` and `length` write the first
    /// element and the length of a part of given length.
    pub fn folded(start: ListedBoundary<V>, length: ListedBoundary<V>) -> ExprAlgebra<V> {
        ExprAlgebra { simplify: false, start, length: Some(length) }
    }

    /// Returns expressions in simplified form. `start` writes the first element of a part of given
    /// length.
    pub fn simplified(start: ListedBoundary<V>) -> ExprAlgebra<V> {
        ExprAlgebra { simplify: true, start, length: None }
    }

    fn bin(&self, op: BinOp, a: &Tree<V>, b: &Tree<V>) -> Tree<V> {
        let e = Tree::bin(op, a.clone(), b.clone());
        if self.simplify { e.simplify() } else { e }
    }
}

impl<V: Clone + PartialEq> Algebra for ExprAlgebra<V> {
    type Num = Tree<V>;

    fn int(&mut self, v: u64) -> Tree<V> {
        Tree::Int(i64::try_from(v).unwrap_or(i64::MAX))
    }

    fn add(&mut self, a: &Tree<V>, b: &Tree<V>) -> Tree<V> {
        self.bin(BinOp::Add, a, b)
    }

    fn sub(&mut self, a: &Tree<V>, b: &Tree<V>) -> Tree<V> {
        self.bin(BinOp::Sub, a, b)
    }

    fn mul(&mut self, a: &Tree<V>, b: &Tree<V>) -> Tree<V> {
        self.bin(BinOp::Mul, a, b)
    }

    fn div(&mut self, a: &Tree<V>, b: &Tree<V>) -> Tree<V> {
        self.bin(BinOp::Div, a, b)
    }

    fn rem(&mut self, a: &Tree<V>, b: &Tree<V>) -> Tree<V> {
        self.bin(BinOp::Mod, a, b)
    }

    fn min(&mut self, a: &Tree<V>, b: &Tree<V>) -> Tree<V> {
        self.bin(BinOp::Min, a, b)
    }

    fn known(&self, a: &Tree<V>) -> Option<u64> {
        a.as_int().and_then(|v| u64::try_from(v).ok())
    }

    fn same(&self, a: &Tree<V>, b: &Tree<V>) -> bool {
        a == b
    }

    fn listed(&mut self, parts: &Parts, row: &Tree<V>, n: &Tree<V>, i: &Tree<V>) -> Tree<V> {
        (self.start)(parts, row, n, i)
    }

    fn listed_length(&mut self, parts: &Parts, row: &Tree<V>, n: &Tree<V>, i: &Tree<V>) -> Tree<V> {
        if let Some(length) = self.length {
            return length(parts, row, n, i);
        }
        let next = self.add(i, &Tree::Int(1));
        let (lo, hi) = (self.listed(parts, row, n, i), self.listed(parts, row, n, &next));
        self.sub(&hi, &lo)
    }
}
