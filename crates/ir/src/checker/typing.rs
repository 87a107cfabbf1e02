//! Types of expressions under one digit of the group: what happens to a value when the rank moves.
//!
//! An expression is walked with the representative's values; its type says what its value is on the translated rank:
//! the same, moved by a constant modulo something, xored, or unknown. Owns these rules and nothing else.

use crate::expr::{BinOp, Expr, UnOp, apply_bin, apply_un};
use crate::name::Name;
use crate::schedule::Table;

/// What a value is on a translated rank, `t` being how far the digit moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ty {
    /// The same.
    Same,
    /// `value + c t` modulo `m`; `canon` if both are in `0..m`.
    Shift { c: i64, m: i64, canon: bool },
    /// `value ^ (shift(t, sh) & mask)`.
    Xor { sh: i32, mask: i64 },
    /// Not known.
    Any,
}

/// A value and its type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Val {
    /// Its value on the walked rank.
    pub v: i64,
    pub ty: Ty,
    /// The value is this one on every rank of the orbit, so that rules may use it; values that are the same under one
    /// digit but depend on another one that moves are not.
    pub fixed: bool,
}

impl Val {
    /// The same on all ranks of an orbit.
    pub(super) fn fixed(v: i64) -> Val {
        Val { v, ty: Ty::Same, fixed: true }
    }

    fn known(self) -> Option<i64> {
        (self.fixed && self.ty == Ty::Same).then_some(self.v)
    }
}

/// Names with values, innermost last.
pub(super) struct Env<'a> {
    pub vars: Vec<(Name, Val)>,
    pub tables: &'a [Table],
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

/// `c t mod m` with what is zero recognised.
fn shift(c: i64, m: i64, canon: bool) -> Ty {
    let c = c.rem_euclid(m);
    match (c, canon) {
        (0, true) => Ty::Same,
        _ if m == 1 && canon => Ty::Same,
        _ => Ty::Shift { c, m, canon },
    }
}

pub(super) fn xor(sh: i32, mask: i64) -> Ty {
    if mask == 0 { Ty::Same } else { Ty::Xor { sh, mask } }
}

pub(super) fn log2(v: i64) -> Option<u32> {
    (v > 0 && v & (v - 1) == 0).then(|| v.trailing_zeros())
}

impl Env<'_> {
    /// Value and type of an expression; none where it has no value (the walk reports that).
    pub(super) fn eval(&self, e: &Expr) -> Option<Val> {
        Some(match e {
            Expr::Int(v) => Val::fixed(*v),
            Expr::Var(n) => self.vars.iter().rev().find(|(m, _)| m == n)?.1,
            Expr::Un(op, a) => {
                let a = self.eval(a)?;
                let ty = match (op, a.ty) {
                    (_, Ty::Same) => Ty::Same,
                    (UnOp::Neg, Ty::Shift { c, m, .. }) => shift(-c, m, false),
                    _ => Ty::Any,
                };
                Val { v: apply_un(*op, a.v).ok()?, ty, fixed: a.fixed }
            }
            Expr::Bin(op @ (BinOp::And | BinOp::Or), a, b) => {
                let a = self.eval(a)?;
                // The right side need not have a value where the left decides.
                if a.known().is_some_and(|v| (v != 0) == (*op == BinOp::Or)) {
                    return Some(Val::fixed((a.v != 0) as i64));
                }
                let decided = (a.v != 0) == (*op == BinOp::Or);
                let b = match self.eval(b) {
                    None if decided => Val { v: 0, ty: Ty::Any, fixed: false },
                    b => b?,
                };
                let same = a.ty == Ty::Same && b.ty == Ty::Same;
                let v = apply_bin(*op, a.v, b.v).ok()?;
                Val { v, ty: if same { Ty::Same } else { Ty::Any }, fixed: same && a.fixed && b.fixed }
            }
            Expr::Bin(op, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                let ty = binary(*op, a, b).unwrap_or(Ty::Any);
                Val {
                    v: apply_bin(*op, a.v, b.v).ok()?,
                    ty,
                    fixed: a.known().is_some() && b.known().is_some(),
                }
            }
            Expr::Select(c, a, b) => {
                let c = self.eval(c)?;
                let chosen = self.eval(if c.v != 0 { a } else { b })?;
                match c.known() {
                    Some(_) => chosen,
                    None => Val { ty: Ty::Any, fixed: false, ..chosen },
                }
            }
            Expr::Table(n, i) => {
                let i = self.eval(i)?;
                let table = self.tables.iter().find(|t| t.name == *n)?;
                let v = *table.values.get(usize::try_from(i.v).ok()?)?;
                Val { v, ty: if i.ty == Ty::Same { Ty::Same } else { Ty::Any }, fixed: i.known().is_some() }
            }
        })
    }
}

/// The type of `a op b`; none where nothing is known.
fn binary(op: BinOp, a: Val, b: Val) -> Option<Ty> {
    use BinOp::*;
    use Ty::{Any, Same, Shift, Xor};
    let power = |v: i64| 1i64.checked_shl(v.try_into().ok()?).filter(|p| *p > 0);
    Some(match (op, a.ty, b.ty) {
        (_, Any, _) | (_, _, Any) => return None,
        (_, Same, Same) => Same,
        (Add | Sub, Shift { c, m, canon }, Same) => shift(c, m, canon && b.known() == Some(0)),
        (Add, Same, Shift { c, m, canon }) => shift(c, m, canon && a.known() == Some(0)),
        (Sub, Same, Shift { c, m, .. }) => shift(-c, m, false),
        (Add, Shift { c, m, .. }, Shift { c: d, m: n, .. }) => shift(c.checked_add(d)?, gcd(m, n), false),
        (Sub, Shift { c, m, .. }, Shift { c: d, m: n, .. }) => shift(c.checked_sub(d)?, gcd(m, n), false),
        (Mul, Shift { c, m, canon }, Same) => times(c, m, canon, b.known()?)?,
        (Mul, Same, Shift { c, m, canon }) => times(c, m, canon, a.known()?)?,
        (Shl, Shift { c, m, canon }, Same) => times(c, m, canon, power(b.known()?)?)?,
        (Div, Shift { c, m, canon }, Same) => divided(c, m, canon, b.known()?)?,
        (Shr, Shift { c, m, canon }, Same) => divided(c, m, canon, power(b.known()?)?)?,
        (Mod, Shift { c, m, canon }, Same) => modulo(c, m, canon, b.known()?)?,
        (BitAnd, Shift { c, m, canon }, Same) if log2(b.known()?.checked_add(1)?).is_some() => {
            modulo(c, m, canon, b.v + 1)?
        }
        (Eq | Ne, Shift { canon: true, .. }, Shift { canon: true, .. }) if a.ty == b.ty => Same,
        (Eq | Ne, Xor { .. }, Xor { .. }) if a.ty == b.ty => Same,
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
        (Add | Sub, x @ Xor { .. }, Same) if b.known() == Some(0) => x,
        // `2^k - 1 - v` turns all bits of a v below 2^k, and xors within these bits keep it below.
        (Sub, Same, x @ Xor { mask, .. })
            if a.known().is_some_and(|a| {
                log2(a.saturating_add(1)).is_some() && mask <= a && (0..=a).contains(&b.v)
            }) =>
        {
            x
        }
        _ => return None,
    })
}

fn times(c: i64, m: i64, canon: bool, k: i64) -> Option<Ty> {
    if k == 0 {
        return Some(Ty::Same);
    }
    Some(shift(c.checked_mul(k)?, m.checked_mul(k.checked_abs()?)?, canon && k == 1))
}

pub(super) fn divided(c: i64, m: i64, canon: bool, d: i64) -> Option<Ty> {
    (d > 0 && c % d == 0 && m % d == 0).then(|| shift(c / d, m / d, canon))
}

pub(super) fn modulo(c: i64, m: i64, canon: bool, n: i64) -> Option<Ty> {
    if n <= 0 {
        return None;
    }
    if m % n == 0 {
        return Some(shift(c, n, true));
    }
    (canon && m <= n).then(|| shift(c, m, canon))
}

pub(super) fn lowered(sh: i32, mask: i64, by: u32) -> Ty {
    xor(sh + by as i32, mask >> by)
}

fn raised(sh: i32, mask: i64, by: u32) -> Option<Ty> {
    Some(xor(sh - by as i32, mask.checked_mul(1i64.checked_shl(by)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of small numbers; the same ones every time.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % n
        }

        fn expr(&mut self, depth: u32) -> Expr {
            const OPS: [BinOp; 14] = [
                BinOp::Add,
                BinOp::Sub,
                BinOp::Mul,
                BinOp::Div,
                BinOp::Mod,
                BinOp::Xor,
                BinOp::Shl,
                BinOp::Shr,
                BinOp::BitAnd,
                BinOp::BitOr,
                BinOp::Eq,
                BinOp::Lt,
                BinOp::And,
                BinOp::Or,
            ];
            if depth == 0 || self.roll(6) == 0 {
                return match self.roll(5) {
                    0 | 1 => Expr::var("x"),
                    2 => Expr::var("y"),
                    _ => Expr::Int(self.roll(9) as i64),
                };
            }
            match self.roll(8) {
                0 => Expr::Select(
                    Box::new(self.expr(depth - 1)),
                    Box::new(self.expr(depth - 1)),
                    Box::new(self.expr(depth - 1)),
                ),
                1 => Expr::Un(UnOp::Neg, Box::new(self.expr(depth - 1))),
                n => {
                    let op = OPS[self.roll(OPS.len() as u64) as usize];
                    // Constants on the right are where the rules are.
                    let right = if n < 6 { Expr::Int(self.roll(9) as i64) } else { self.expr(depth - 1) };
                    Expr::Bin(op, Box::new(self.expr(depth - 1)), Box::new(right))
                }
            }
        }
    }

    /// Checks the type of `e` for a digit `x` of size `m`, beside another digit `y` of 3, against all values.
    fn holds(e: &Expr, m: i64, xors: bool) -> bool {
        let ty = if xors { Ty::Xor { sh: 0, mask: m - 1 } } else { Ty::Shift { c: 1, m, canon: true } };
        let x = ("x".into(), Val { v: 0, ty, fixed: false });
        let y = ("y".into(), Val { v: 0, ty: Ty::Same, fixed: false });
        let env = Env { vars: vec![x, y], tables: &[] };
        let Some(found) = env.eval(e) else { return false };
        let value = |x: i64, y: i64| {
            let get = |n: &Name| Some(if *n == "x" { x } else { y });
            e.eval(&get).ok()
        };
        // What is the same under both digits is claimed for all ranks; else for those that differ in x alone.
        for y in 0..3 {
            for a in 0..m {
                for t in 0..m {
                    let b = if xors { a ^ t } else { (a + t) % m };
                    let (Some(u), Some(v)) = (value(a, y), value(b, y)) else { continue };
                    let fine = match found.ty {
                        Ty::Any => true,
                        Ty::Same => u == v && (!found.fixed || u == found.v),
                        Ty::Shift { c, m, canon } => {
                            (v - u - c * t).rem_euclid(m) == 0
                                && (!canon || ((0..m).contains(&u) && (0..m).contains(&v)))
                        }
                        Ty::Xor { sh, mask } => v == u ^ (if sh >= 0 { t >> sh } else { t << -sh }) & mask,
                    };
                    assert!(fine, "`{e}` is {found:?}, but {u} at x = {a} and {v} at {b} (y = {y})");
                }
            }
        }
        found.ty != Ty::Any
    }

    #[test]
    fn types_are_true_of_all_values() {
        let mut dice = Dice(7);
        let mut known = [0; 2];
        for _ in 0..20_000 {
            let e = dice.expr(4);
            let m = [2, 4, 6, 8][dice.roll(4) as usize];
            known[0] += holds(&e, m, false) as usize;
            if m != 6 {
                known[1] += holds(&e, m, true) as usize;
            }
        }
        assert!(known.iter().all(|k| *k > 2000), "{known:?} expressions have a type");
    }
}
