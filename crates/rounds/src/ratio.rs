//! Exact non-negative fractions, for sizes in units of a vector.

use std::fmt;

/// A fraction in lowest terms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ratio {
    num: u64,
    den: u64,
}

/// Returns the greatest common divisor; `gcd(0, n) = n`.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Ratio {
    /// Makes `num / den` in lowest terms. A denominator of zero gives 0.
    pub fn new(num: u64, den: u64) -> Ratio {
        if den == 0 {
            return Ratio { num: 0, den: 1 };
        }
        let g = gcd(num, den).max(1);
        Ratio { num: num / g, den: den / g }
    }

    /// Returns the numerator in lowest terms.
    pub fn num(self) -> u64 {
        self.num
    }

    /// Returns the denominator in lowest terms, at least 1.
    pub fn den(self) -> u64 {
        self.den
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let left = u128::from(self.num) * u128::from(other.den);
        left.cmp(&(u128::from(other.num) * u128::from(self.den)))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.den == 1 { write!(f, "{}", self.num) } else { write!(f, "{}/{}", self.num, self.den) }
    }
}
