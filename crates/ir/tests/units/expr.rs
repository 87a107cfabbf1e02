//! Values and texts of expressions.

use kbc_ir::expr::{BinOp, EvalError, Expr, UnOp, apply_bin};
use kbc_ir::resolved::Resolved;
use std::sync::Arc;

#[test]
fn division_and_mod_follow_the_divisor() {
    for a in -9..10 {
        for b in [-4, -3, -1, 1, 2, 5] {
            let q = apply_bin(BinOp::Div, a, b).unwrap();
            let m = apply_bin(BinOp::Mod, a, b).unwrap();
            assert_eq!(q * b + m, a);
            assert!(m == 0 || (m < 0) == (b < 0));
            assert!(m.abs() < b.abs());
        }
    }
}

#[test]
fn sums_join_like_terms() {
    let v = |n: &str| Expr::var(n);
    let e = v("call") * Expr::Int(3) + (v("s") - Expr::Int(1)) + Expr::Int(1);
    assert_eq!(e.simplify().to_string(), "call * 3 + s");
    let e = (v("r") - (Expr::Int(4) - v("k")) + (Expr::Int(4) - v("k"))).modulo(4);
    assert_eq!(e.simplify().to_string(), "r % 4");
    assert_eq!((Expr::Int(4) - v("k") - Expr::Int(1)).simplify().to_string(), "3 - k");
}

#[test]
fn constants_fold_and_text_keeps_structure() {
    let r = || Expr::var("r");
    assert_eq!((r() + Expr::Int(3) - Expr::Int(5)).to_string(), "r - 2");
    assert_eq!((r() - (r() - Expr::var("s"))).to_string(), "r - (r - s)");
    assert_eq!(((r() + Expr::Int(1)) * Expr::Int(2)).modulo(4).to_string(), "(r + 1) * 2 % 4");
    assert_eq!(Expr::bin(BinOp::Shl, Expr::Int(1), Expr::var("k")).to_string(), "1 << k");
}

/// The quick form of resolved expressions gives the values and the errors of the plain evaluation,
/// for every operation and also where one side decides or a table is read.
#[test]
fn resolved_expressions_have_the_values_of_the_plain_evaluation() {
    type E = Resolved;
    let numbers = [i64::MIN, -64, -3, -1, 0, 1, 2, 5, 62, 63, 64, i64::MAX];
    let table = |_: &u32, i: i64| (i >= 0).then_some(i / 2).ok_or(EvalError::Arithmetic("below".into()));
    let boxed = |e: E| Arc::new(e);
    for a in numbers {
        for b in numbers {
            let slots = [a, b];
            let (x, y) = (|| E::Var(0), || E::Var(1));
            let mut all = vec![
                E::Select(boxed(x()), boxed(y()), boxed(E::Table(0, boxed(y())))),
                E::Bin(BinOp::And, boxed(x()), boxed(E::Table(0, boxed(y())))),
                E::Bin(BinOp::Or, boxed(x()), boxed(E::Bin(BinOp::Div, boxed(y()), boxed(x())))),
            ];
            all.extend(BinOp::ALL.map(|op| E::Bin(op, boxed(x()), boxed(y()))));
            all.extend(UnOp::ALL.map(|op| E::Un(op, boxed(x()))));
            for e in all {
                let plain = e.evaluate(&|s| Ok(slots[*s as usize]), &table);
                assert_eq!(e.value(&slots, &|t, i| table(&t, i)), plain, "{e:?} of {a} and {b}");
            }
        }
    }
}
