//! Values of coordinates that stand for all others.

use kbc_ir::Name;
use kbc_ir::expr::{BinOp, Env, Expr, UnOp};
use kbc_ir::testing::representatives;
use std::collections::BTreeMap;

fn v(name: &str) -> Expr {
    Expr::var(name)
}

/// At every point, a condition has the same value as at the point whose coordinates are the
/// representatives.
#[test]
fn representatives_stand_for_all() {
    let n = 40;
    let of = |op, a: Expr, b: Expr| Expr::bin(op, a, b);
    let predicates = [
        of(BinOp::Lt, v("r"), 7.into()),
        of(BinOp::And, of(BinOp::Ge, v("r") * 3.into(), 20.into()), of(BinOp::Ne, v("q"), 11.into())),
        of(BinOp::Eq, v("r").modulo(4), v("q").modulo(4)),
        of(BinOp::Or, Expr::un(UnOp::Not, of(BinOp::Le, Expr::un(UnOp::Neg, v("q")), (-9).into())), v("r")),
        of(BinOp::Eq, of(BinOp::Div, 12.into(), v("r") - 5.into()), v("q")),
    ];
    let coordinates = [(Name::from("r"), n), (Name::from("q"), n)];
    for count in 1..=predicates.len() {
        let list: Vec<&Expr> = predicates[..count].iter().collect();
        let found = representatives(&list, &coordinates, &[]).expect("few values");
        let mut seen: BTreeMap<Vec<Option<i64>>, bool> = BTreeMap::new();
        let values = |r: i64, q: i64| -> Vec<Option<i64>> {
            let env = |n: &Name| Some(if *n == "r" { r } else { q });
            assert!(env.var(&Name::from("r")).is_some());
            list.iter().map(|e| e.eval(&env).ok()).collect()
        };
        for r in &found[0] {
            for q in &found[1] {
                seen.insert(values(*r, *q), true);
            }
        }
        for r in 0..n as i64 {
            for q in 0..n as i64 {
                assert!(seen.contains_key(&values(r, q)), "{count}: {r}, {q}");
            }
        }
    }
    let large = [(Name::from("r"), u64::from(u32::MAX))];
    let ends = of(BinOp::Or, v("r").equals(0.into()), of(BinOp::Gt, v("r"), 4_000_000_000i64.into()));
    let found = representatives(&[&ends], &large, &[]).expect("solved");
    assert!(found[0].len() <= 4, "{found:?}");
    assert_eq!(representatives(&[&v("r").modulo(2)], &large, &[]), None);
}
