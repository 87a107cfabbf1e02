//! Places of a schedule, compared: whether two references name the same elements, or elements apart
//! from each other, on every rank.
//!
//! The answer follows from the difference of two indices. An index of a part is below the number of
//! parts, so two indices are equal if they have the same remainder: those of `(r - s - 1) % 8` and
//! `r - (s + 1)` in 8 parts are equal. `false` may mean that nothing is known.

use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::schedule::{Part, Ref, Region};

/// Checks whether two references name the same elements.
pub(super) fn same(a: &Ref, b: &Ref) -> bool {
    match (a, b) {
        (Ref::Chunk { operand: x, path: p }, Ref::Chunk { operand: y, path: q }) => {
            x == y
                && p.len() == q.len()
                && p.iter().zip(q).all(|(p, q)| {
                    p.of == q.of && difference(&p.len, &q.len, None) == Some(0) && indices(p, q) == Some(0)
                })
        }
        _ => a == b,
    }
}

/// Checks whether two references name no common element.
pub(super) fn apart(region: &Region, a: &Ref, b: &Ref) -> bool {
    match (a, b) {
        (Ref::Slot { .. }, Ref::Chunk { .. }) | (Ref::Chunk { .. }, Ref::Slot { .. }) => true,
        (Ref::Slot { window: x, slot: i }, Ref::Slot { window: y, slot: j }) => {
            x != y || difference(i, j, None).is_some_and(|d| d != 0)
        }
        (Ref::Chunk { operand: x, path: p }, Ref::Chunk { operand: y, path: q }) => {
            let buffer = |o: &kbc_ir::schedule::OperandId| region.operands[o.0 as usize].buffer;
            buffer(x) != buffer(y) || x == y && parts_apart(p, q)
        }
    }
}

fn parts_apart(p: &[Part], q: &[Part]) -> bool {
    for (p, q) in p.iter().zip(q) {
        let one = Expr::Int(1);
        if p.of != q.of || p.len != one || q.len != one {
            return false;
        }
        match indices(p, q) {
            Some(0) => {}
            found => return found.is_some(),
        }
    }
    false
}

/// Returns the difference of the indices of two parts of equally many, if it is a number.
fn indices(p: &Part, q: &Part) -> Option<i64> {
    let of = p.of.as_int().filter(|n| *n > 0)?;
    difference(&p.index, &q.index, Some(of)).map(|d| d.rem_euclid(of))
}

/// Returns `a - b`, if it is a number; with `of`, a number with the same remainder by `of`.
fn difference(a: &Expr, b: &Expr, of: Option<i64>) -> Option<i64> {
    let mut terms = Terms { list: vec![], number: 0, of };
    terms.add(a, 1)?;
    terms.add(b, -1)?;
    let none = |n: i64| of.map_or(n, |of| n % of) == 0;
    terms.list.iter().all(|(_, n)| none(*n)).then_some(terms.number)
}

/// A sum of multiples of expressions, and a number.
struct Terms {
    list: Vec<(Expr, i64)>,
    number: i64,
    /// The divisor, if only the remainder of the sum counts.
    of: Option<i64>,
}

impl Terms {
    fn add(&mut self, e: &Expr, times: i64) -> Option<()> {
        match e {
            Expr::Int(n) => self.number = self.number.checked_add(n.checked_mul(times)?)?,
            Expr::Un(UnOp::Neg, a) => self.add(a, times.checked_neg()?)?,
            Expr::Bin(BinOp::Add, a, b) => {
                self.add(a, times)?;
                self.add(b, times)?;
            }
            Expr::Bin(BinOp::Sub, a, b) => {
                self.add(a, times)?;
                self.add(b, times.checked_neg()?)?;
            }
            Expr::Bin(BinOp::Mul, a, b) => match (a.as_int(), b.as_int()) {
                (Some(n), _) => self.add(b, times.checked_mul(n)?)?,
                (_, Some(n)) => self.add(a, times.checked_mul(n)?)?,
                _ => self.term(e, times)?,
            },
            Expr::Bin(BinOp::Mod, a, n)
                if self.of.zip(n.as_int()).is_some_and(|(of, n)| n > 0 && n % of == 0) =>
            {
                self.add(a, times)?;
            }
            _ => self.term(e, times)?,
        }
        Some(())
    }

    fn term(&mut self, e: &Expr, times: i64) -> Option<()> {
        match self.list.iter_mut().find(|(of, _)| of == e) {
            Some((_, n)) => *n = n.checked_add(times)?,
            None => self.list.push((e.clone(), times)),
        }
        Some(())
    }
}
