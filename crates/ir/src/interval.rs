//! Interval analysis: bounds of the values of integer expressions, computed without evaluating
//! them.
//!
//! This is the only interval analysis over index expressions. It answers two questions: between
//! which bounds a value lies if it exists, and whether it certainly exists. Every operator is
//! handled; the matches have no default arm, so that a new operator does not compile until its
//! bounds are stated here.

use crate::expr::{BinOp, Tree, UnOp, apply_un};

/// The integers between two inclusive bounds. A bound is open if it does not exist or is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    lo: Option<i64>,
    hi: Option<i64>,
}

/// What is known about the value of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fact {
    /// Contains the value, if the expression has one.
    pub within: Interval,
    /// The expression has a value for all values of its variables: no division by zero, no
    /// overflow, no missing entry of a table.
    pub total: bool,
}

impl Fact {
    /// Nothing is known, not even that there is a value.
    pub const NOTHING: Fact = Fact { within: Interval::ANY, total: false };

    /// Returns the interval if the value certainly exists and both bounds are known.
    pub fn sure(self) -> Option<(i64, i64)> {
        self.within.closed().filter(|_| self.total)
    }
}

/// A value that exists and lies in the interval.
impl From<Interval> for Fact {
    fn from(within: Interval) -> Fact {
        Fact { within, total: true }
    }
}

impl Interval {
    /// All integers.
    pub const ANY: Interval = Interval { lo: None, hi: None };
    /// A truth value.
    pub const TRUTH: Interval = Interval { lo: Some(0), hi: Some(1) };

    /// Returns the interval that contains both bounds.
    pub const fn of(lo: i64, hi: i64) -> Interval {
        if lo <= hi {
            Interval { lo: Some(lo), hi: Some(hi) }
        } else {
            Interval { lo: Some(hi), hi: Some(lo) }
        }
    }

    /// Returns the interval of one integer.
    pub const fn only(v: i64) -> Interval {
        Interval::of(v, v)
    }

    /// Returns the interval of all integers from `lo` on.
    pub const fn from(lo: i64) -> Interval {
        Interval { lo: Some(lo), hi: None }
    }

    /// Returns the interval of all integers up to `hi`.
    pub const fn up_to(hi: i64) -> Interval {
        Interval { lo: None, hi: Some(hi) }
    }

    /// Returns the values of a variable that counts from a value in `lo` to one below a value in
    /// `hi`.
    pub fn counted(lo: Interval, hi: Interval) -> Interval {
        let last = hi.hi.map(|h| h.saturating_sub(1));
        match (lo.lo, last) {
            // Without a value, any interval will do.
            (Some(lo), Some(hi)) => Interval::of(lo, hi.max(lo)),
            (lo, hi) => Interval { lo, hi },
        }
    }

    /// Returns the lower bound, if it is known.
    pub fn lo(self) -> Option<i64> {
        self.lo
    }

    /// Returns the upper bound, if it is known.
    pub fn hi(self) -> Option<i64> {
        self.hi
    }

    /// Returns both bounds, if both are known.
    pub fn closed(self) -> Option<(i64, i64)> {
        self.lo.zip(self.hi)
    }

    /// Returns the least and the greatest value that fits in 64 bits.
    pub fn limits(self) -> (i64, i64) {
        (self.lo.unwrap_or(i64::MIN), self.hi.unwrap_or(i64::MAX))
    }

    /// Returns the integer if there is only one.
    pub fn constant(self) -> Option<i64> {
        self.lo.filter(|_| self.lo == self.hi)
    }

    /// Checks whether no value is negative.
    pub fn nonnegative(self) -> bool {
        self.lo.is_some_and(|v| v >= 0)
    }

    /// Checks whether all values are positive.
    pub fn positive(self) -> bool {
        self.lo.is_some_and(|v| v > 0)
    }

    /// Checks whether the interval contains a value.
    pub fn contains(self, v: i64) -> bool {
        let (lo, hi) = self.limits();
        (lo..=hi).contains(&v)
    }

    /// Returns the smallest interval that contains both.
    pub fn join(self, other: Interval) -> Interval {
        let both = |a: Option<i64>, b: Option<i64>, f: fn(i64, i64) -> i64| Some(f(a?, b?));
        Interval { lo: both(self.lo, other.lo, i64::min), hi: both(self.hi, other.hi, i64::max) }
    }

    /// Returns the smallest interval that contains all values; `None` if there are no values.
    pub fn hull(values: &[i64]) -> Option<Interval> {
        Some(Interval::of(*values.iter().min()?, *values.iter().max()?))
    }

    /// Returns the values that lie between these limits too; `None` if there are none.
    pub fn meet(self, lo: i64, hi: i64) -> Option<Interval> {
        let (a, b) = self.limits();
        let (lo, hi) = (a.max(lo), b.min(hi));
        (lo <= hi).then_some(Interval { lo: Some(lo), hi: Some(hi) })
    }

    /// Returns the truth value of all values, if it is the same.
    pub fn truth(self) -> Option<bool> {
        match self.constant() {
            Some(v) => Some(v != 0),
            None => (!self.contains(0)).then_some(true),
        }
    }

    fn ends(self) -> (Wide, Wide) {
        (self.lo.map_or(-INFINITE, Wide::from), self.hi.map_or(INFINITE, Wide::from))
    }
}

/// A bound that is wide enough for every product of two values, and the infinite ones.
type Wide = i128;
const INFINITE: Wide = Wide::MAX;

/// Returns the interval between two bounds; one that does not fit in 64 bits is open.
fn between(lo: Wide, hi: Wide) -> Interval {
    let fit = |v: Wide| i64::try_from(v).ok();
    if lo > Wide::from(i64::MAX) || hi < Wide::from(i64::MIN) {
        // Every value overflows, so there is none.
        return Interval::ANY;
    }
    Interval { lo: fit(lo), hi: fit(hi) }
}

fn fits(v: Wide) -> bool {
    i64::try_from(v).is_ok()
}

/// Returns the bounds of an operation whose extremes are at the extremes of its operands. `f` is
/// exact for finite operands and takes limits for infinite ones.
fn corners(a: Interval, b: Interval, f: impl Fn(Wide, Wide) -> Wide) -> Fact {
    let extremes = |(a0, a1): (Wide, Wide), (b0, b1): (Wide, Wide)| {
        let all = [f(a0, b0), f(a0, b1), f(a1, b0), f(a1, b1)];
        (all.into_iter().fold(INFINITE, Wide::min), all.into_iter().fold(-INFINITE, Wide::max))
    };
    let closed = |i: Interval| {
        let (lo, hi) = i.limits();
        (Wide::from(lo), Wide::from(hi))
    };
    let (lo, hi) = extremes(a.ends(), b.ends());
    let (least, most) = extremes(closed(a), closed(b));
    Fact { within: between(lo, hi), total: fits(least) && fits(most) }
}

fn add(a: Wide, b: Wide) -> Wide {
    match (a.abs() == INFINITE, b.abs() == INFINITE) {
        (true, _) => a,
        (_, true) => b,
        _ => a + b,
    }
}

fn mul(a: Wide, b: Wide) -> Wide {
    if a == 0 || b == 0 {
        0
    } else if a.abs() == INFINITE || b.abs() == INFINITE {
        a.signum() * b.signum() * INFINITE
    } else {
        a * b
    }
}

/// Rounds down; `b` is not 0.
fn div(a: Wide, b: Wide) -> Wide {
    let sign = a.signum() * b.signum();
    if b.abs() == INFINITE {
        // The quotient approaches 0 from above or stays at -1.
        if sign < 0 { -1 } else { 0 }
    } else if a.abs() == INFINITE {
        sign * INFINITE
    } else {
        let (q, r) = (a / b, a % b);
        if r != 0 && ((r < 0) != (b < 0)) { q - 1 } else { q }
    }
}

/// Returns what is known about `op a`, for an `a` that exists.
pub fn unary(op: UnOp, a: Interval) -> Fact {
    let (lo, hi) = a.ends();
    let (least, most) = a.limits();
    let total = |within| Fact { within, total: true };
    match op {
        UnOp::Neg => Fact { within: between(-hi, -lo), total: least > i64::MIN },
        UnOp::Not => total(a.truth().map_or(Interval::TRUTH, |v| Interval::only(i64::from(!v)))),
        UnOp::Log2 | UnOp::CeilLog2 => match a.meet(1, i64::MAX).map(Interval::limits) {
            Some((lo, hi)) => {
                let at = |v| apply_un(op, v).unwrap_or(0);
                Fact { within: Interval::of(at(lo), at(hi)), total: least >= 1 }
            }
            None => Fact::NOTHING,
        },
        UnOp::Popcount => total(parts(a).map(ones).reduce(Interval::join).unwrap_or(Interval::ANY)),
        UnOp::Abs => {
            let low = if least <= 0 && most >= 0 { 0 } else { lo.abs().min(hi.abs()) };
            Fact { within: between(low, lo.abs().max(hi.abs())), total: least > i64::MIN }
        }
        UnOp::Sign => total(Interval::of(least.signum(), most.signum())),
    }
}

/// Returns what is known about `a op b`, for an `a` and a `b` that exist.
pub fn binary(op: BinOp, a: Interval, b: Interval) -> Fact {
    let ((a0, a1), (b0, b1)) = (a.ends(), b.ends());
    let total = |within| Fact { within, total: true };
    let decided = |v: Option<bool>| total(v.map_or(Interval::TRUTH, |v| Interval::only(i64::from(v))));
    let (x, y) = (a.limits(), b.limits());
    let less = |x: (i64, i64), y: (i64, i64)| {
        if x.1 < y.0 { Some(true) } else { (x.0 >= y.1).then_some(false) }
    };
    let equal = match (a.constant(), b.constant()) {
        (Some(a), Some(b)) => Some(a == b),
        _ => (x.1 < y.0 || y.1 < x.0).then_some(false),
    };
    match op {
        BinOp::Add => corners(a, b, add),
        BinOp::Sub => corners(a, b, |x, y| add(x, -y)),
        BinOp::Mul => corners(a, b, mul),
        BinOp::Div => by_sign(a, b, |b| corners(a, b, div)),
        BinOp::Mod => by_sign(a, b, |b| remainder(a, b)),
        BinOp::Min => total(between(a0.min(b0), a1.min(b1))),
        BinOp::Max => total(between(a0.max(b0), a1.max(b1))),
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
        BinOp::BitAnd | BinOp::BitOr | BinOp::Xor => total(bitwise(op, a, b)),
        BinOp::Shl | BinOp::Shr => match b.meet(0, 62) {
            Some(by) => {
                let inside = y.0 >= 0 && y.1 <= 62;
                let f = corners(a, by, |x, n| match op {
                    BinOp::Shl => mul(x, 1 << n),
                    _ => div(x, 1 << n),
                });
                Fact { total: f.total && inside, ..f }
            }
            None => Fact::NOTHING,
        },
        BinOp::Eq => decided(equal),
        BinOp::Ne => decided(equal.map(|v| !v)),
        BinOp::Lt => decided(less(x, y)),
        BinOp::Le => decided(less(y, x).map(|v| !v)),
        BinOp::Gt => decided(less(y, x)),
        BinOp::Ge => decided(less(x, y).map(|v| !v)),
    }
}

/// Returns what is known about a division, from what `f` knows for divisors of one sign.
fn by_sign(a: Interval, b: Interval, f: impl Fn(Interval) -> Fact) -> Fact {
    let keep = |part: Option<Interval>| {
        // A bound that was open stays open.
        part.map(|p| Interval { lo: p.lo.filter(|v| *v > i64::MIN || b.lo.is_some()), ..p })
            .map(|p| Interval { hi: p.hi.filter(|v| *v < i64::MAX || b.hi.is_some()), ..p })
    };
    let sides = [keep(b.meet(1, i64::MAX)), keep(b.meet(i64::MIN, -1))];
    let found = sides
        .into_iter()
        .flatten()
        .map(f)
        .reduce(|x, y| Fact { within: x.within.join(y.within), total: x.total && y.total });
    let overflow = a.contains(i64::MIN) && b.contains(-1);
    found.map_or(Fact::NOTHING, |f| Fact { total: f.total && !b.contains(0) && !overflow, ..f })
}

/// Returns the bounds of `a mod b` for a `b` of one sign.
fn remainder(a: Interval, b: Interval) -> Fact {
    let up = b.positive();
    let ((a0, a1), (b0, b1)) = (a.ends(), b.ends());
    // The result of a dividend that is smaller than the divisor and has its sign is the dividend.
    let small = if up { a0 >= 0 && a1 < b0 } else { a1 <= 0 && a0 > b1 };
    let within = match b.constant().map(Wide::from) {
        _ if small => a,
        Some(k) if a.closed().is_some() && div(a0, k) == div(a1, k) => {
            let rest = |v: Wide| v - div(v, k) * k;
            between(rest(a0).min(rest(a1)), rest(a0).max(rest(a1)))
        }
        _ if up => between(0, if a0 >= 0 { a1.min(add(b1, -1)) } else { add(b1, -1) }),
        _ => between(if a1 <= 0 { a0.max(add(b0, 1)) } else { add(b0, 1) }, 0),
    };
    Fact { within, total: true }
}

/// Returns the negative and the other values of an interval as ranges of bit patterns.
fn parts(a: Interval) -> impl Iterator<Item = (u64, u64)> + Clone {
    let sides = [a.meet(i64::MIN, -1), a.meet(0, i64::MAX)];
    sides.into_iter().flatten().map(|i| {
        let (lo, hi) = i.limits();
        (lo as u64, hi as u64)
    })
}

/// Returns the least and the greatest number of one bits in `lo..=hi`.
fn ones((lo, hi): (u64, u64)) -> Interval {
    let bits = || (0..64).map(|i| 1u64 << i);
    // The fewest bits: `lo`, or `lo` up to a bit that becomes one, with zeros below.
    let fewer = bits().filter(|b| lo & b == 0).map(|b| (lo | b) & !(b - 1)).filter(|v| *v <= hi);
    // The most bits: `hi`, or `hi` up to a bit that becomes zero, with ones below.
    let more = bits().filter(|b| hi & b != 0).map(|b| (hi & !b) | (b - 1)).filter(|v| *v >= lo);
    let count = |v: u64| i64::from(v.count_ones());
    let least = fewer.map(count).fold(count(lo), i64::min);
    Interval::of(least, more.map(count).fold(count(hi), i64::max))
}

/// Returns the bounds of a bitwise operation.
fn bitwise(op: BinOp, a: Interval, b: Interval) -> Interval {
    let exact = |a: Interval, b: Interval| {
        let pairs = parts(a).flat_map(|x| parts(b).map(move |y| (x, y)));
        let all = pairs.map(|(x, y)| {
            let (lo, hi) = match op {
                BinOp::BitAnd => (!most_or(not(x), not(y)), !least_or(not(x), not(y))),
                BinOp::BitOr => (least_or(x, y), most_or(x, y)),
                _ => (least_xor(x, y), most_xor(x, y)),
            };
            Interval::of(lo as i64, hi as i64)
        });
        all.reduce(Interval::join).unwrap_or(Interval::ANY)
    };
    let found = exact(a, b);
    // A bound that moves with a bound that is not known is not known.
    let nearer = |i: Interval| {
        let (lo, hi) = i.limits();
        let lo = if i.lo.is_some() { lo } else { (i64::MIN / 2).min(hi) };
        Interval::of(lo, if i.hi.is_some() { hi } else { (i64::MAX / 2).max(lo) })
    };
    let near = exact(nearer(a), nearer(b));
    Interval { lo: found.lo.filter(|_| found.lo == near.lo), hi: found.hi.filter(|_| found.hi == near.hi) }
}

type Bits = (u64, u64);

fn not((lo, hi): Bits) -> Bits {
    (!hi, !lo)
}

fn bits_down() -> impl Iterator<Item = u64> {
    (0..64).rev().map(|i| 1u64 << i)
}

// The extremes of bitwise operations over ranges: H. S. Warren, Hacker's Delight, section 4-3.

fn least_or((mut a, b): Bits, (mut c, d): Bits) -> u64 {
    for m in bits_down() {
        if !a & c & m != 0 {
            let raised = (a | m) & m.wrapping_neg();
            if raised <= b {
                a = raised;
                break;
            }
        } else if a & !c & m != 0 {
            let raised = (c | m) & m.wrapping_neg();
            if raised <= d {
                c = raised;
                break;
            }
        }
    }
    a | c
}

fn most_or((a, mut b): Bits, (c, mut d): Bits) -> u64 {
    for m in bits_down().filter(|m| b & d & m != 0) {
        let lowered = (b - m) | (m - 1);
        if lowered >= a {
            b = lowered;
            break;
        }
        let lowered = (d - m) | (m - 1);
        if lowered >= c {
            d = lowered;
            break;
        }
    }
    b | d
}

fn least_xor((mut a, b): Bits, (mut c, d): Bits) -> u64 {
    for m in bits_down() {
        if !a & c & m != 0 {
            let raised = (a | m) & m.wrapping_neg();
            if raised <= b {
                a = raised;
            }
        } else if a & !c & m != 0 {
            let raised = (c | m) & m.wrapping_neg();
            if raised <= d {
                c = raised;
            }
        }
    }
    a ^ c
}

fn most_xor((a, mut b): Bits, (c, mut d): Bits) -> u64 {
    for m in bits_down() {
        if b & d & m == 0 {
            continue;
        }
        let lowered = (b - m) | (m - 1);
        if lowered >= a {
            b = lowered;
            continue;
        }
        let lowered = (d - m) | (m - 1);
        if lowered >= c {
            d = lowered;
        }
    }
    b ^ d
}

/// Returns what is known about an expression. `var` says what is known about a variable, and
/// `table` returns the entries of a table, if they are known.
pub fn of<'t, V>(e: &Tree<V>, var: &impl Fn(&V) -> Fact, table: &impl Fn(&V) -> Option<&'t [i64]>) -> Fact {
    match e {
        Tree::Int(v) => Interval::only(*v).into(),
        Tree::Var(v) => var(v),
        Tree::Un(op, a) => {
            let a = of(a, var, table);
            let f = unary(*op, a.within);
            Fact { total: f.total && a.total, ..f }
        }
        Tree::Bin(op, a, b) => {
            let (a, b) = (of(a, var, table), of(b, var, table));
            let f = binary(*op, a.within, b.within);
            Fact { total: f.total && a.total && b.total, ..f }
        }
        Tree::Select(c, a, b) => {
            let (c, a, b) = (of(c, var, table), of(a, var, table), of(b, var, table));
            let within = match c.within.truth() {
                Some(true) => a.within,
                Some(false) => b.within,
                None => a.within.join(b.within),
            };
            Fact { within, total: c.total && a.total && b.total }
        }
        Tree::Table(t, i) => {
            let i = of(i, var, table);
            let f = entry(i.within, table(t).unwrap_or_default());
            Fact { total: f.total && i.total, ..f }
        }
    }
}

/// Returns what is known about the entry of a table at an index that exists.
pub fn entry(index: Interval, values: &[i64]) -> Fact {
    let last = i64::try_from(values.len()).unwrap_or(i64::MAX).saturating_sub(1);
    let Some((lo, hi)) = index.meet(0, last).and_then(Interval::closed) else {
        return Fact::NOTHING;
    };
    let total = index.closed() == Some((lo, hi));
    Interval::hull(&values[lo as usize..=hi as usize]).map_or(Fact::NOTHING, |within| Fact { within, total })
}
