//! Equivalence classes of coordinates: values that conditions cannot distinguish, so that a rule
//! about all ranks needs to examine only a few of them.
//!
//! A condition depends on one coordinate only through its largest subexpressions that contain no
//! other coordinate. In `(r % 4 == 0) && q < r`, these are `r % 4 == 0` and `r` for r, and `q`
//! for q. If all these subexpressions agree on two values of a coordinate, the condition cannot
//! distinguish the two, whatever the other coordinates are; one of them represents both. If the
//! subexpressions compare sums of the coordinate and constants, the values at which a comparison
//! changes are computed. Otherwise every value is tried.

use super::point::Point;
use crate::expr::{BinOp, Expr, UnOp};
use crate::name::Name;
use crate::schedule::Table;
use std::collections::BTreeMap;

/// Most values of one coordinate that are tried.
const MAX_VALUES: u64 = 1 << 22;

/// Returns, for each coordinate, values that represent all others. Returns `None` if there are too
/// many values to try.
pub fn representatives(
    predicates: &[&Expr],
    coordinates: &[(Name, u64)],
    tables: &[Table],
) -> Option<Vec<Vec<i64>>> {
    coordinates
        .iter()
        .map(|(name, size)| {
            let mut parts = vec![];
            predicates.iter().for_each(|e| subexpressions_of(e, name, &mut parts));
            let last = i64::try_from(*size).ok()?.checked_sub(1)?;
            if parts.is_empty() {
                return Some(vec![0]);
            }
            let mut marks = vec![0, last];
            let candidates: Box<dyn Iterator<Item = i64>> =
                if parts.iter().all(|p| changes(p, last, &mut marks)) {
                    marks.retain(|v| (0..=last).contains(v));
                    marks.sort_unstable();
                    marks.dedup();
                    Box::new(marks.into_iter())
                } else if *size <= MAX_VALUES {
                    Box::new(0..=last)
                } else {
                    return None;
                };
            let mut classes: BTreeMap<Vec<Option<i64>>, i64> = BTreeMap::new();
            for v in candidates {
                let env = Point { names: vec![(name, v)], tables };
                classes.entry(parts.iter().map(|p| p.eval(&env).ok()).collect()).or_insert(v);
            }
            let mut out: Vec<i64> = classes.into_values().collect();
            out.sort_unstable();
            Some(out)
        })
        .collect()
}

/// Collects the largest subexpressions that contain `name` and no other variable.
fn subexpressions_of<'e>(e: &'e Expr, name: &Name, out: &mut Vec<&'e Expr>) {
    let (mut own, mut others) = (false, false);
    e.vars(&mut |n| if n == name { own = true } else { others = true });
    if !own {
        return;
    }
    if !others {
        out.push(e);
        return;
    }
    match e {
        Expr::Int(_) | Expr::Var(_) => {}
        Expr::Un(_, a) | Expr::Table(_, a) => subexpressions_of(a, name, out),
        Expr::Bin(_, a, b) => {
            subexpressions_of(a, name, out);
            subexpressions_of(b, name, out);
        }
        Expr::Select(c, a, b) => {
            subexpressions_of(c, name, out);
            subexpressions_of(a, name, out);
            subexpressions_of(b, name, out);
        }
    }
}

/// Adds the values of the only variable near which a condition may change. Returns false if they
/// cannot be computed.
fn changes(e: &Expr, last: i64, marks: &mut Vec<i64>) -> bool {
    match e {
        Expr::Int(_) => true,
        Expr::Un(UnOp::Not, a) => changes(a, last, marks),
        Expr::Bin(BinOp::And | BinOp::Or, a, b) => changes(a, last, marks) && changes(b, last, marks),
        Expr::Bin(BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge, a, b) => {
            let (Some(a), Some(b)) = (affine(a, last), affine(b, last)) else { return false };
            let (factor, constant) = (a.0 - b.0, a.1 - b.1);
            if factor != 0 {
                let zero = (-constant).div_euclid(factor);
                marks.extend((zero - 1..=zero + 2).filter_map(|v| i64::try_from(v).ok()));
            }
            true
        }
        Expr::Var(_) | Expr::Un(..) | Expr::Bin(..) | Expr::Select(..) | Expr::Table(..) => false,
    }
}

/// Returns `factor` and `constant` if the expression is `factor * v + constant` and does not
/// overflow for any value.
fn affine(e: &Expr, last: i64) -> Option<(i128, i128)> {
    let (factor, constant) = match e {
        Expr::Int(c) => (0, i128::from(*c)),
        Expr::Var(_) => (1, 0),
        Expr::Un(UnOp::Neg, a) => {
            let (f, c) = affine(a, last)?;
            (-f, -c)
        }
        Expr::Bin(op @ (BinOp::Add | BinOp::Sub), a, b) => {
            let ((f, c), (g, d)) = (affine(a, last)?, affine(b, last)?);
            if *op == BinOp::Add { (f + g, c + d) } else { (f - g, c - d) }
        }
        Expr::Bin(BinOp::Mul, a, b) => match (affine(a, last)?, affine(b, last)?) {
            ((0, k), (f, c)) | ((f, c), (0, k)) => (f.checked_mul(k)?, c.checked_mul(k)?),
            _ => return None,
        },
        Expr::Un(..) | Expr::Bin(..) | Expr::Select(..) | Expr::Table(..) => return None,
    };
    let most = factor.checked_abs()?.checked_mul(i128::from(last))?.checked_add(constant.checked_abs()?)?;
    (most < 1 << 62).then_some((factor, constant))
}
