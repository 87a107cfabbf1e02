//! Bounds against counting and brute force.

use kbc_ir::expr::{BinOp, UnOp, apply_bin, apply_un};
use kbc_ir::interval::{self, Fact, Interval, binary, entry, unary};
use std::sync::Arc;

/// Compares a fact with all results of an operation. Only the bounds of `mod` by several divisors
/// may be wider than necessary.
fn agree(what: &str, fact: Fact, results: &[Result<i64, kbc_ir::expr::EvalError>], tight: bool) {
    let values: Vec<i64> = results.iter().flatten().copied().collect();
    for v in &values {
        assert!(fact.within.contains(*v), "{what}: {v} outside {fact:?}");
    }
    assert_eq!(fact.total, values.len() == results.len(), "{what}: {fact:?}");
    if let Some(hull) = Interval::hull(&values).filter(|_| tight) {
        assert_eq!(fact.within, hull, "{what}");
    }
}

#[test]
fn every_operator_has_the_bounds_of_brute_force() {
    let all = || (-9..=9).flat_map(|lo| (lo..=9).map(move |hi| (lo, hi)));
    for (lo, hi) in all() {
        for op in UnOp::ALL {
            let results: Vec<_> = (lo..=hi).map(|v| apply_un(op, v)).collect();
            agree(&format!("{op:?} {lo}..{hi}"), unary(op, Interval::of(lo, hi)), &results, true);
        }
    }
    let some = || all().filter(|(lo, hi)| (lo + 2 * hi) % 3 == 0);
    for ((a0, a1), (b0, b1)) in some().flat_map(|a| some().map(move |b| (a, b))) {
        for op in BinOp::ALL {
            let results: Vec<_> =
                (a0..=a1).flat_map(|a| (b0..=b1).map(move |b| apply_bin(op, a, b))).collect();
            let what = format!("{a0}..{a1} {} {b0}..{b1}", op.symbol());
            let fact = binary(op, Interval::of(a0, a1), Interval::of(b0, b1));
            agree(&what, fact, &results, op != BinOp::Mod);
        }
    }
}

#[test]
fn bounds_hold_at_the_ends_of_64_bits() {
    const ENDS: [i64; 15] = [
        i64::MIN,
        i64::MIN + 1,
        i64::MIN / 2,
        -(1 << 31),
        -64,
        -2,
        -1,
        0,
        1,
        2,
        62,
        63,
        1 << 32,
        i64::MAX / 2 + 1,
        i64::MAX,
    ];
    let open = |i: Interval| match (i.lo().filter(|v| *v > i64::MIN), i.hi().filter(|v| *v < i64::MAX)) {
        (Some(lo), Some(hi)) => Interval::of(lo, hi),
        (Some(lo), None) => Interval::from(lo),
        (None, Some(hi)) => Interval::up_to(hi),
        (None, None) => Interval::ANY,
    };
    let all = || ENDS.iter().enumerate().flat_map(|(i, lo)| ENDS[i..].iter().map(move |hi| (*lo, *hi)));
    let inside = |(lo, hi)| ENDS.iter().copied().filter(move |v| (lo..=hi).contains(v));
    for a in all() {
        let i = Interval::of(a.0, a.1);
        for (op, i) in UnOp::ALL.into_iter().flat_map(|op| [(op, i), (op, open(i))]) {
            let fact = unary(op, i);
            for v in inside(a) {
                let Ok(v) = apply_un(op, v) else {
                    assert!(!fact.total, "{op:?} {a:?}");
                    continue;
                };
                assert!(fact.within.contains(v), "{op:?} {a:?}: {v} outside {fact:?}");
            }
        }
    }
    for (a, b) in all().flat_map(|a| all().map(move |b| (a, b))) {
        for op in BinOp::ALL {
            let (i, j) = (Interval::of(a.0, a.1), Interval::of(b.0, b.1));
            for fact in [binary(op, i, j), binary(op, open(i), open(j))] {
                for (x, y) in inside(a).flat_map(|x| inside(b).map(move |y| (x, y))) {
                    match apply_bin(op, x, y) {
                        Ok(v) => assert!(
                            fact.within.contains(v),
                            "{x} {} {y} = {v} outside {fact:?} of {a:?} and {b:?}",
                            op.symbol()
                        ),
                        Err(_) => assert!(!fact.total, "{a:?} {} {b:?} at {x}, {y}", op.symbol()),
                    }
                }
            }
        }
    }
}

#[test]
fn an_unknown_bound_stays_unknown() {
    let natural = Interval::from(0);
    let with = |op, b| binary(op, natural, Interval::only(b)).within;
    assert_eq!(with(BinOp::Sub, 1), Interval::from(-1));
    assert_eq!(with(BinOp::Add, 3), Interval::from(3));
    assert_eq!(with(BinOp::Mul, 0), Interval::only(0));
    assert_eq!(with(BinOp::Mul, 2), natural);
    assert_eq!(with(BinOp::Div, 2), natural);
    assert_eq!(with(BinOp::Mod, 5), Interval::of(0, 4));
    assert_eq!(with(BinOp::BitAnd, 7), Interval::of(0, 7));
    assert_eq!(with(BinOp::BitAnd, -2), natural);
    assert_eq!(with(BinOp::BitOr, 4), Interval::from(4));
    assert_eq!(with(BinOp::Xor, 1), natural);
    assert_eq!(with(BinOp::Shl, 3), natural);
    assert_eq!(with(BinOp::Min, 6), Interval::of(0, 6));
    assert_eq!(unary(UnOp::Popcount, natural).within, Interval::of(0, 63));
    assert_eq!(unary(UnOp::Popcount, Interval::ANY).within, Interval::of(0, 64));
    assert_eq!(unary(UnOp::Popcount, Interval::of(5, 9)).within, Interval::of(1, 3));
}

#[test]
fn expressions_compose_operators() {
    use kbc_ir::expr::Expr;
    let x = || Expr::var("x");
    let of = |e: &Expr| {
        interval::of(e, &|_| Interval::of(0, 7).into(), &|t| (t == "t").then_some(&[4, 1, 9, 2][..]))
    };
    let at = |e: Expr| Expr::Table("t".into(), Arc::new(e));
    assert_eq!(of(&at(x().modulo(2))).sure(), Some((1, 4)));
    assert_eq!(of(&at(x())), Fact { within: Interval::of(1, 9), total: false });
    assert_eq!(of(&at(x() + Expr::Int(9))), Fact::NOTHING);
    // Nothing is known about the index or about the table.
    assert_eq!(entry(Interval::ANY, &[3, 5]), Fact { within: Interval::of(3, 5), total: false });
    assert_eq!(entry(Interval::ANY, &[]), Fact::NOTHING);
    assert_eq!(of(&Expr::un(UnOp::Popcount, x())).sure(), Some((0, 3)));
    assert_eq!(of(&(Expr::Int(8) / x())), Fact { within: Interval::of(1, 8), total: false });
    let least = Expr::bin(BinOp::Gt, x(), Expr::Int(9));
    assert_eq!(of(&Expr::select(least, Expr::Int(99), x())).sure(), Some((0, 7)));
}
