//! Types of expressions under the digits of the group: how a value changes when the rank moves.
//!
//! An expression is evaluated with the representative's values. For each digit, its type states its
//! value on the translated rank: the same, moved by a constant modulo something, xored, or unknown.
//! A type that moves states that the value exists on the translated rank too. In addition to its
//! types a value has an interval and a congruence that hold on all ranks of the orbit; they show
//! that recombined digits do not carry. The module owns the rules of types and nothing else.

use kbc_ir::congruence::{self, Congruence};
use kbc_ir::expr::{self, BinOp, Expr, UnOp, apply_bin, apply_un};
use kbc_ir::interval::{self, Fact, Interval};
use kbc_ir::name::Name;
use kbc_ir::schedule::Table;

/// Maximum number of digits that move together.
pub const MAX_DIGITS: usize = 3;

/// The value on a translated rank, where `t` is the distance by which the digit moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ty {
    /// The same value.
    Same,
    /// `value + c t` modulo `m`.
    Shift {
        /// The distance by which the value moves for each step of the digit.
        c: i64,
        /// The modulus.
        m: i64,
        /// Whether the quotient by `m` is the same.
        whole: bool,
    },
    /// `value ^ (shift(t, sh) & mask)`.
    Xor {
        /// The bits by which `t` is shifted to the right; to the left if negative.
        sh: i32,
        /// The bits that change.
        mask: i64,
    },
    /// Unknown.
    Any,
}

/// The type under each digit; [`Ty::Same`] beyond the last one.
pub type Tys = [Ty; MAX_DIGITS];

/// The types of a value that is the same on all ranks of an orbit.
pub(super) const SAME: Tys = [Ty::Same; MAX_DIGITS];

/// A value, its types, and facts that hold on every rank of the orbit.
#[derive(Clone, Copy, Debug)]
pub struct Val {
    /// Its value on the walked rank.
    pub v: i64,
    /// Its type under each digit.
    pub tys: Tys,
    /// Contains the value.
    pub range: Interval,
    /// Contains the value.
    pub class: Congruence,
}

impl Val {
    /// Returns a value that is the same on all ranks of an orbit.
    pub(super) fn fixed(v: i64) -> Val {
        Val { v, tys: SAME, range: Interval::only(v), class: Congruence::only(v) }
    }

    /// Returns a value of these types in an interval and a congruence.
    pub fn new(v: i64, tys: Tys, range: Interval, class: Congruence) -> Val {
        if tys == SAME {
            return Val::fixed(v);
        }
        let mut val = Val { v, tys, range, class };
        if let Some((lo, hi)) = range.closed() {
            for ty in &mut val.tys {
                // If only one quotient is possible, it stays.
                if let Ty::Shift { c, m, whole: false } = *ty
                    && lo.div_euclid(m) == hi.div_euclid(m)
                {
                    *ty = shift(c, m, true);
                }
            }
        }
        if val.tys == SAME { Val::fixed(v) } else { val }
    }

    /// Returns a value of which nothing is known on other ranks, not even that there is one.
    fn unknown(v: i64) -> Val {
        Val { v, tys: [Ty::Any; MAX_DIGITS], range: Interval::ANY, class: Congruence::ANY }
    }

    /// Whether it is the same value on every rank of the orbit, so that rules may use it.
    pub fn is_fixed(&self) -> bool {
        self.tys == SAME
    }

    fn known(&self) -> Option<i64> {
        self.is_fixed().then_some(self.v)
    }

    /// Whether it lies in `0..n` on every rank.
    fn below(&self, n: i64) -> bool {
        self.range.nonnegative() && self.range.hi().is_some_and(|hi| hi < n)
    }

    /// Whether it is a multiple of `m`, which is positive, on every rank.
    fn multiple_of(&self, m: i64) -> bool {
        self.class.multiple_of(m.unsigned_abs())
    }

    /// Returns the largest power of two known to divide it.
    fn even(&self) -> i64 {
        1 << self.class.divisor().trailing_zeros().min(62)
    }
}

/// Names with values, innermost last.
pub struct Env<'a> {
    /// The names with their values.
    pub vars: Vec<(Name, Val)>,
    /// The tables that expressions may read.
    pub tables: &'a [Table],
}

/// Returns the greatest common divisor, or 1 if it does not fit.
fn gcd(a: i64, b: i64) -> i64 {
    i64::try_from(expr::gcd(a.unsigned_abs(), b.unsigned_abs())).unwrap_or(1)
}

/// Returns the type of `c t mod m`, and recognises zero.
pub(super) fn shift(c: i64, m: i64, whole: bool) -> Ty {
    let c = c.rem_euclid(m);
    if whole && c == 0 { Ty::Same } else { Ty::Shift { c, m, whole } }
}

pub(super) fn xor(sh: i32, mask: i64) -> Ty {
    if mask == 0 { Ty::Same } else { Ty::Xor { sh, mask } }
}

pub(super) fn log2(v: i64) -> Option<u32> {
    (v > 0 && v & (v - 1) == 0).then(|| v.trailing_zeros())
}

/// Returns the type under each digit by a rule that may return None for unknown.
fn each(rule: impl Fn(usize) -> Option<Ty>) -> Tys {
    std::array::from_fn(|k| rule(k).unwrap_or(Ty::Any))
}

impl Env<'_> {
    /// Evaluates an expression to its value and types. Returns None if it has no value; the walk
    /// reports that.
    pub fn eval(&self, e: &Expr) -> Option<Val> {
        Some(match e {
            Expr::Int(v) => Val::fixed(*v),
            Expr::Var(n) => self.vars.iter().rev().find(|(m, _)| m == n)?.1,
            Expr::Un(op, a) => {
                let a = self.eval(a)?;
                let v = apply_un(*op, a.v).ok()?;
                if a.is_fixed() {
                    return Some(Val::fixed(v));
                }
                let (fact, class) = (interval::unary(*op, a.range), congruence::unary(*op, a.class));
                let tys = exist(fact, class, &[&a], |k| match (op, a.tys[k]) {
                    (_, Ty::Same) => Some(Ty::Same),
                    (UnOp::Neg, Ty::Shift { c, m, .. }) => Some(shift(-c, m, false)),
                    _ => None,
                });
                Val::new(v, tys, fact.within, class)
            }
            Expr::Bin(op @ (BinOp::And | BinOp::Or), a, b) => {
                let a = self.eval(a)?;
                // The right side need not have a value if the left side decides.
                if a.known().is_some_and(|v| (v != 0) == (*op == BinOp::Or)) {
                    return Some(Val::fixed((a.v != 0) as i64));
                }
                let decided = (a.v != 0) == (*op == BinOp::Or);
                let b = match self.eval(b) {
                    None if decided => Val::unknown(0),
                    b => b?,
                };
                let tys = each(|k| (a.tys[k] == Ty::Same && b.tys[k] == Ty::Same).then_some(Ty::Same));
                let range = interval::binary(*op, a.range, b.range).within;
                Val::new(apply_bin(*op, a.v, b.v).ok()?, tys, range, Congruence::ANY)
            }
            Expr::Bin(op, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                let v = apply_bin(*op, a.v, b.v).ok()?;
                if a.is_fixed() && b.is_fixed() {
                    return Some(Val::fixed(v));
                }
                let fact = interval::binary(*op, a.range, b.range);
                let class = congruence::binary(*op, a.class, b.class);
                let tys = exist(fact, class, &[&a, &b], |k| binary(*op, &a, &b, k));
                Val::new(v, tys, fact.within, class)
            }
            Expr::Select(c, a, b) => {
                let c = self.eval(c)?;
                let (chosen, other) = if c.v != 0 { (a, b) } else { (b, a) };
                let chosen = self.eval(chosen)?;
                if c.is_fixed() {
                    return Some(chosen);
                }
                // Other ranks of the orbit may take the other branch.
                match self.eval(other) {
                    Some(other) => {
                        let tys = each(|k| {
                            (c.tys[k] == Ty::Same && chosen.tys[k] == other.tys[k]).then_some(chosen.tys[k])
                        });
                        let (range, class) = (chosen.range.join(other.range), chosen.class.join(other.class));
                        Val::new(chosen.v, tys, range, class)
                    }
                    None => Val::unknown(chosen.v),
                }
            }
            Expr::Table(n, i) => {
                let i = self.eval(i)?;
                let table = self.tables.iter().find(|t| t.name == *n)?;
                let v = *table.values.get(usize::try_from(i.v).ok()?)?;
                let fact = interval::entry(i.range, &table.values);
                let rule = |k: usize| (i.tys[k] == Ty::Same).then_some(Ty::Same);
                let tys = exist(fact, Congruence::ANY, &[&i], rule);
                Val::new(v, tys, fact.within, Congruence::ANY)
            }
        })
    }
}

/// Returns the types of a result in an interval and a congruence, by a rule that may return None
/// for unknown. Under a digit that moves an operand, a result that may have no value on another
/// rank has an unknown type, and a result that can have one value only is the same.
fn exist(fact: Fact, class: Congruence, operands: &[&Val], rule: impl Fn(usize) -> Option<Ty>) -> Tys {
    let all = |k: usize, f: fn(Ty) -> bool| operands.iter().all(|o| f(o.tys[k]));
    let single = fact.total && (fact.within.constant().is_some() || class.constant().is_some());
    each(|k| match () {
        () if single && all(k, |ty| ty != Ty::Any) => Some(Ty::Same),
        () => rule(k).filter(|_| fact.total || all(k, |ty| ty == Ty::Same)),
    })
}

/// Returns the type of `a op b` under digit `k`, or None if nothing is known.
fn binary(op: BinOp, a: &Val, b: &Val, k: usize) -> Option<Ty> {
    use BinOp::*;
    use Ty::{Any, Same, Shift, Xor};
    let power = |v: i64| 1i64.checked_shl(v.try_into().ok()?).filter(|p| *p > 0);
    Some(match (op, a.tys[k], b.tys[k]) {
        (_, Any, _) | (_, _, Any) => return None,
        (_, Same, Same) => Same,
        (Add, Shift { c, m, whole }, Same) => shift(c, m, whole && carries_not(a, m, b)),
        (Add, Same, Shift { c, m, whole }) => shift(c, m, whole && carries_not(b, m, a)),
        (Sub, Shift { c, m, whole }, Same) => shift(c, m, whole && b.multiple_of(m)),
        (Sub, Same, Shift { c, m, .. }) => shift(-c, m, false),
        (Add, Shift { c, m, .. }, Shift { c: d, m: n, .. }) => shift(c.checked_add(d)?, gcd(m, n), false),
        (Sub, Shift { c, m, .. }, Shift { c: d, m: n, .. }) => shift(c.checked_sub(d)?, gcd(m, n), false),
        (Mul, Shift { c, m, whole }, Same) => times(c, m, whole, b.known()?)?,
        (Mul, Same, Shift { c, m, whole }) => times(c, m, whole, a.known()?)?,
        (Shl, Shift { c, m, whole }, Same) => times(c, m, whole, power(b.known()?)?)?,
        (Div, Shift { c, m, whole }, Same) => divided(c, m, whole, b.known()?)?,
        (Shr, Shift { c, m, whole }, Same) => divided(c, m, whole, power(b.known()?)?)?,
        (Mod, ty, Same) if a.below(b.known()?) => ty,
        (Mod, Shift { c, m, whole }, Same) => modulo(c, m, whole, b.known()?)?,
        (BitAnd, Shift { c, m, whole }, Same) => {
            let n = b.known()?.checked_add(1)?;
            log2(n)?;
            modulo(c, m, whole, n)?
        }
        (Eq | Ne, Shift { whole: true, .. }, Shift { whole: true, .. }) if a.tys[k] == b.tys[k] => Same,
        (Eq | Ne, Xor { .. }, Xor { .. }) if a.tys[k] == b.tys[k] => Same,
        (BinOp::Xor, x @ Xor { .. }, Same) | (BinOp::Xor, Same, x @ Xor { .. }) => x,
        (BinOp::Xor, Xor { sh, mask }, Xor { sh: sh2, mask: mask2 }) if sh == sh2 => xor(sh, mask ^ mask2),
        (Div, Xor { sh, mask }, Same) => lowered(sh, mask, log2(b.known()?)?),
        (Shr, Xor { sh, mask }, Same) => lowered(sh, mask, log2(power(b.known()?)?)?),
        (Mul, Xor { sh, mask }, Same) => raised(sh, mask, log2(b.known()?)?)?,
        (Mul, Same, Xor { sh, mask }) => raised(sh, mask, log2(a.known()?)?)?,
        (Shl, Xor { sh, mask }, Same) => raised(sh, mask, b.known()?.try_into().ok()?)?,
        (Mod, Xor { sh, mask }, Same) => xor(sh, mask & ((1i64 << log2(b.known()?)?) - 1)),
        (BitAnd, Xor { sh, mask }, Same) => xor(sh, mask & b.known()?),
        (BitAnd, Same, Xor { sh, mask }) => xor(sh, mask & a.known()?),
        (BitOr, Xor { sh, mask }, Same) => xor(sh, mask & !b.known()?),
        // Bits that do not overlap are combined.
        (Add, Xor { sh, mask }, Same) if bits_disjoint(a, mask, b, 0) || bits_disjoint(b, 0, a, mask) => {
            xor(sh, mask)
        }
        (Add, Same, Xor { sh, mask }) if bits_disjoint(a, 0, b, mask) || bits_disjoint(b, mask, a, 0) => {
            xor(sh, mask)
        }
        (Add, Xor { sh, mask: x }, Xor { sh: sh2, mask: y })
            if sh == sh2 && (bits_disjoint(a, x, b, y) || bits_disjoint(b, y, a, x)) =>
        {
            xor(sh, x | y)
        }
        (Sub, x @ Xor { .. }, Same) if b.known() == Some(0) => x,
        // `2^k - 1 - v` flips all bits of a v below 2^k, and xors within these bits keep it below.
        (Sub, Same, x @ Xor { mask, .. })
            if a.known()
                .is_some_and(|a| log2(a.saturating_add(1)).is_some() && mask <= a && b.below(a + 1)) =>
        {
            x
        }
        _ => return None,
    })
}

/// Whether adding `b` leaves the quotient of `a` by `m` unchanged: `b` is a multiple of `m`, or
/// smaller than a common divisor of `a` and `m`.
fn carries_not(a: &Val, m: i64, b: &Val) -> bool {
    b.multiple_of(m)
        || i64::try_from(expr::gcd(a.class.divisor(), m.unsigned_abs())).is_ok_and(|unit| b.below(unit))
}

/// Whether all bits of `a` are above those of `b`, even if the bits in the masks are flipped.
fn bits_disjoint(a: &Val, a_mask: i64, b: &Val, b_mask: i64) -> bool {
    let unit = a.even();
    a_mask & (unit - 1) == 0 && b.below(unit) && (0..unit).contains(&b_mask)
}

fn times(c: i64, m: i64, whole: bool, k: i64) -> Option<Ty> {
    if k == 0 {
        return Some(Ty::Same);
    }
    Some(shift(c.checked_mul(k)?, m.checked_mul(k.checked_abs()?)?, whole && k > 0))
}

pub(super) fn divided(c: i64, m: i64, whole: bool, d: i64) -> Option<Ty> {
    if d > 0 && whole && d % m == 0 {
        return Some(Ty::Same);
    }
    (d > 0 && c % d == 0 && m % d == 0).then(|| shift(c / d, m / d, whole))
}

pub(super) fn modulo(c: i64, m: i64, whole: bool, n: i64) -> Option<Ty> {
    if n <= 0 {
        return None;
    }
    if m % n == 0 {
        return Some(shift(c, n, true));
    }
    (whole && n % m == 0).then(|| shift(c, m, true))
}

pub(super) fn lowered(sh: i32, mask: i64, by: u32) -> Ty {
    xor(sh + by as i32, mask >> by)
}

fn raised(sh: i32, mask: i64, by: u32) -> Option<Ty> {
    Some(xor(sh - by as i32, mask.checked_mul(1i64.checked_shl(by)?)?))
}
