//! Remainders against brute force.

use kbc_ir::congruence::{Congruence, binary, unary};
use kbc_ir::expr::{BinOp, UnOp, apply_bin, apply_un, gcd};
use kbc_ir::testing::class;

fn all() -> impl Iterator<Item = Congruence> {
    let classes = (1..=8).flat_map(|m| (0..m).map(move |r| class(m, r)));
    classes.chain((-9..=9).map(Congruence::only))
}

/// The values of a congruence near 0: enough periods for each divisor.
fn values(c: Congruence) -> impl Iterator<Item = i64> {
    (-17..=24).filter(move |v| c.contains(*v))
}

/// Compares a result with the smallest congruence that contains all values.
fn agree(what: &str, found: Congruence, results: impl Iterator<Item = i64>, tight: bool) {
    let results: Vec<i64> = results.collect();
    for v in &results {
        assert!(found.contains(*v), "{what}: {v} is not in {found:?}");
    }
    let hull = results.iter().map(|v| Congruence::only(*v)).reduce(Congruence::join);
    if let Some(hull) = hull.filter(|_| tight) {
        assert_eq!(found, hull, "{what}");
    }
}

#[test]
fn every_operator_has_the_remainders_of_brute_force() {
    for a in all() {
        for op in UnOp::ALL {
            let exact = matches!(op, UnOp::Neg | UnOp::Not | UnOp::Abs);
            let results = values(a).filter_map(|v| apply_un(op, v).ok());
            agree(&format!("{op:?} {a:?}"), unary(op, a), results, exact);
        }
    }
    for (a, b) in all().flat_map(|a| all().map(move |b| (a, b))) {
        for op in BinOp::ALL {
            let fixed = b.constant();
            let exact = match op {
                BinOp::Add | BinOp::Sub | BinOp::Mul => true,
                BinOp::Mod => fixed.is_some_and(|k| k != 0 && k.abs() <= 4),
                BinOp::Div => fixed.is_some_and(|d| d != 0 && a.modulus().is_multiple_of(d.unsigned_abs())),
                BinOp::BitAnd | BinOp::BitOr | BinOp::Xor => {
                    [a, b].iter().all(|c| c.modulus().is_power_of_two())
                }
                BinOp::And | BinOp::Or => true,
                // With larger moduli, equal values are far from 0.
                BinOp::Eq | BinOp::Ne => a.modulus() <= 4 && b.modulus() <= 4,
                BinOp::Min | BinOp::Max => a.modulus() != 0 && b.modulus() != 0,
                BinOp::Shl | BinOp::Shr | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => false,
            };
            let pairs = values(a).flat_map(|x| values(b).map(move |y| (x, y)));
            let results = pairs.filter_map(|(x, y)| apply_bin(op, x, y).ok());
            agree(&format!("{a:?} {} {b:?}", op.symbol()), binary(op, a, b), results, exact);
        }
    }
}

#[test]
fn divisors_are_those_of_all_values() {
    for c in all() {
        let found = values(c).fold(0, |d, v| gcd(d, v.unsigned_abs()));
        assert_eq!(c.divisor(), found, "{c:?}");
        assert!((1..9).all(|m| c.multiple_of(m) == values(c).all(|v| v % m as i64 == 0)), "{c:?}");
    }
}

#[test]
fn remainders_hold_at_the_ends_of_64_bits() {
    let ends = [i64::MIN, i64::MIN + 1, -(1 << 62), -1, 0, 1, 3, 1 << 61, 1 << 62, i64::MAX - 1, i64::MAX];
    let around = |v: i64| [1u64, 3, 1 << 61, 1 << 62].map(move |m| class(m.into(), v.into()));
    for (x, y) in ends.into_iter().flat_map(|x| ends.map(move |y| (x, y))) {
        for (a, b) in around(x)
            .into_iter()
            .chain([Congruence::only(x)])
            .flat_map(|a| around(y).into_iter().chain([Congruence::only(y)]).map(move |b| (a, b)))
        {
            for op in BinOp::ALL {
                if let Ok(v) = apply_bin(op, x, y) {
                    let found = binary(op, a, b);
                    assert!(found.contains(v), "{a:?} {} {b:?} is {found:?}, not {v}", op.symbol());
                }
            }
            for op in UnOp::ALL {
                if let Ok(v) = apply_un(op, x) {
                    assert!(unary(op, a).contains(v), "{op:?} {a:?} at {x}");
                }
            }
        }
    }
}
