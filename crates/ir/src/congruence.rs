//! Congruence analysis: the remainders of the values of integer expressions, computed without
//! evaluating them.
//!
//! [`crate::interval`] knows between which bounds a value lies; this module knows which values
//! between them it cannot have. As there, the matches over operators have no default arm.

use crate::expr::{BinOp, UnOp, apply_bin, apply_un, gcd};

/// The integers `rest + k * modulus` for all integers `k`. A modulus of 0 means one integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Congruence {
    modulus: u64,
    /// Below the modulus, unless that is 0.
    rest: i64,
}

/// Wide enough for every product of two values.
type Wide = i128;

impl Congruence {
    /// All integers.
    pub const ANY: Congruence = Congruence { modulus: 1, rest: 0 };

    /// Returns one integer.
    pub const fn only(v: i64) -> Congruence {
        Congruence { modulus: 0, rest: v }
    }

    /// Returns the multiples of `m`.
    pub fn multiples(m: u64) -> Congruence {
        class(m.into(), 0)
    }

    /// Returns the modulus, which is 0 for one integer.
    pub fn modulus(self) -> u64 {
        self.modulus
    }

    /// Returns the integer if there is only one.
    pub fn constant(self) -> Option<i64> {
        (self.modulus == 0).then_some(self.rest)
    }

    /// Returns the largest integer that divides all values; 0 if the only value is 0.
    pub fn divisor(self) -> u64 {
        gcd(self.modulus, self.rest.unsigned_abs())
    }

    /// Checks whether every value is a multiple of `m`, which is not 0.
    pub fn multiple_of(self, m: u64) -> bool {
        self.divisor().is_multiple_of(m)
    }

    /// Checks whether `v` is one of the integers.
    pub fn contains(self, v: i64) -> bool {
        let apart = Wide::from(v) - Wide::from(self.rest);
        if self.modulus == 0 { apart == 0 } else { apart % Wide::from(self.modulus) == 0 }
    }

    /// Returns the smallest congruence that contains both.
    pub fn join(self, other: Congruence) -> Congruence {
        let ((m, r), (n, s)) = (self.wide(), other.wide());
        class(common(common(m, n), r - s), r)
    }

    fn wide(self) -> (Wide, Wide) {
        (self.modulus.into(), self.rest.into())
    }

    /// Returns the truth value of all values, if it is the same.
    fn truth(self) -> Option<bool> {
        match self.constant() {
            Some(v) => Some(v != 0),
            None => (!self.contains(0)).then_some(true),
        }
    }

    /// Returns how many of the lowest bits are the same in all values.
    fn bits(self) -> u32 {
        if self.modulus == 0 { 64 } else { self.modulus.trailing_zeros() }
    }
}

/// Returns the greatest common divisor, which is not negative.
fn common(mut a: Wide, mut b: Wide) -> Wide {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs()
}

/// Returns the integers that are `rest` modulo `m`.
pub(crate) fn class(m: Wide, rest: Wide) -> Congruence {
    let Ok(modulus) = u64::try_from(m) else {
        // The powers of two in a modulus that is too large.
        return class(common(m, 1 << 62), rest);
    };
    if modulus > 1 << 62 {
        return class(common(m, 1 << 62), rest);
    }
    let rest = if modulus == 0 { rest } else { rest.rem_euclid(m) };
    // One integer that does not fit is the result of an overflow, so there is none.
    i64::try_from(rest).map_or(Congruence::ANY, |rest| Congruence { modulus, rest })
}

fn decided(v: Option<bool>) -> Congruence {
    v.map_or(Congruence::ANY, |v| Congruence::only(i64::from(v)))
}

/// Returns what is known about `op a`, if it has a value.
pub fn unary(op: UnOp, a: Congruence) -> Congruence {
    if let Some(v) = a.constant() {
        return apply_un(op, v).map_or(Congruence::ANY, Congruence::only);
    }
    let (m, r) = a.wide();
    match op {
        UnOp::Neg => class(m, -r),
        UnOp::Not => decided(a.truth().map(|v| !v)),
        UnOp::Abs => a.join(class(m, -r)),
        UnOp::Log2 | UnOp::CeilLog2 | UnOp::Popcount | UnOp::Sign => Congruence::ANY,
    }
}

/// Returns what is known about `a op b`, if it has a value.
pub fn binary(op: BinOp, a: Congruence, b: Congruence) -> Congruence {
    if let (Some(x), Some(y)) = (a.constant(), b.constant()) {
        return apply_bin(op, x, y).map_or(Congruence::ANY, Congruence::only);
    }
    let ((m, r), (n, s)) = (a.wide(), b.wide());
    let equal = || if common(common(m, n), r - s) == common(m, n) { None } else { Some(false) };
    match op {
        BinOp::Add => class(common(m, n), r + s),
        BinOp::Sub => class(common(m, n), r - s),
        BinOp::Mul => times(a, b),
        BinOp::Div => match b.constant() {
            Some(d) => divided(a, d.into()),
            None => of_zero(a),
        },
        BinOp::Mod => match b.constant() {
            // The remainder is the same for all values.
            Some(k) if k != 0 && m % Wide::from(k) == 0 => {
                apply_bin(op, a.rest, k).map_or(Congruence::ANY, Congruence::only)
            }
            // It differs from the value by a multiple of the divisor.
            _ => class(common(m, common(n, s)), r),
        },
        BinOp::Min | BinOp::Max => a.join(b),
        BinOp::And => decided(match (a.truth(), b.truth()) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }),
        BinOp::Or => decided(match (a.truth(), b.truth()) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        }),
        BinOp::BitAnd | BinOp::BitOr | BinOp::Xor => bitwise(op, a, b),
        BinOp::Shl => match b.constant() {
            Some(by @ 0..=62) => times(a, Congruence::only(1 << by)),
            Some(_) => Congruence::ANY,
            None => Congruence::multiples(a.divisor()),
        },
        BinOp::Shr => match b.constant() {
            Some(by @ 0..=62) => divided(a, 1 << by),
            Some(_) => Congruence::ANY,
            None => of_zero(a),
        },
        BinOp::Eq => decided(equal()),
        BinOp::Ne => decided(equal().map(|v| !v)),
        BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => Congruence::ANY,
    }
}

/// Returns the products of two values.
fn times(a: Congruence, b: Congruence) -> Congruence {
    let ((m, r), (n, s)) = (a.wide(), b.wide());
    class(common(common(m * n, r * n), s * m), r * s)
}

/// Returns the quotients of all values by one divisor, rounded down.
fn divided(a: Congruence, d: Wide) -> Congruence {
    let (m, r) = a.wide();
    if d == 0 || m % d != 0 {
        return Congruence::ANY;
    }
    let down = if r % d != 0 && (r < 0) != (d < 0) { r / d - 1 } else { r / d };
    class((m / d).abs(), down)
}

/// Returns 0 if that is the only value, and anything otherwise.
fn of_zero(a: Congruence) -> Congruence {
    if a.constant() == Some(0) { a } else { Congruence::ANY }
}

/// Returns the results of a bitwise operation, from the lowest bits that are the same in all
/// results.
fn bitwise(op: BinOp, a: Congruence, b: Congruence) -> Congruence {
    let known = |bit: u32| {
        let value = |c: Congruence| (bit < c.bits()).then_some(c.rest >> bit & 1);
        match (op, value(a), value(b)) {
            (BinOp::BitAnd, Some(0), _) | (BinOp::BitAnd, _, Some(0)) => Some(0),
            (BinOp::BitOr, Some(1), _) | (BinOp::BitOr, _, Some(1)) => Some(1),
            (_, Some(x), Some(y)) => apply_bin(op, x, y).ok(),
            _ => None,
        }
    };
    let bits: Vec<i64> = (0..64).map_while(known).collect();
    let rest = bits.iter().zip(0..).fold(0i64, |rest, (bit, at)| rest | bit << at);
    match bits.len() {
        64 => Congruence::only(rest),
        n => class(1 << n, rest.into()),
    }
}
