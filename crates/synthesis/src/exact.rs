//! Exact fractions of unsigned integers.

use std::cmp::Ordering;
use std::fmt;

/// A fraction in lowest terms. The denominator is not 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExactRatio {
    num: u128,
    den: u128,
}

impl ExactRatio {
    /// Returns `num / den` in lowest terms, or `None` if `den` is 0.
    pub fn new(num: u128, den: u128) -> Option<ExactRatio> {
        let g = common_divisor(num, den);
        (den != 0).then(|| ExactRatio { num: num / g, den: den / g })
    }

    /// Returns the numerator.
    pub fn numerator(self) -> u128 {
        self.num
    }

    /// Returns the denominator.
    pub fn denominator(self) -> u128 {
        self.den
    }

    /// Returns 1 divided by the fraction, or `None` if the fraction is 0.
    pub fn inverse(self) -> Option<ExactRatio> {
        ExactRatio::new(self.den, self.num)
    }

    /// Returns the nearest floating-point number, for printing.
    pub fn to_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }
}

/// Fractions are compared by their continued fractions, so no product can overflow.
impl Ord for ExactRatio {
    fn cmp(&self, other: &ExactRatio) -> Ordering {
        let (mut a, mut b, mut c, mut d) = (self.num, self.den, other.num, other.den);
        loop {
            match (a / b).cmp(&(c / d)) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
            match (a % b, c % d) {
                (0, 0) => return Ordering::Equal,
                (0, _) => return Ordering::Less,
                (_, 0) => return Ordering::Greater,
                // a/b < c/d exactly if b/a > d/c.
                (r, s) => (a, b, c, d) = (d, s, b, r),
            }
        }
    }
}

impl PartialOrd for ExactRatio {
    fn partial_cmp(&self, other: &ExactRatio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ExactRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.den == 1 { write!(f, "{}", self.num) } else { write!(f, "{}/{}", self.num, self.den) }
    }
}

/// Returns the greatest common divisor. That of 0 and n is n.
pub(crate) fn common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
