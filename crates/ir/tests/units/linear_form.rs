//! Expressions that are linear in a name.

use kbc_ir::expr::{BinOp, EvalError, Expr, UnOp};

#[test]
fn a_linear_form_has_the_value_of_the_expression() {
    let (v, r, n) = (|| Expr::var("v"), || Expr::var("r"), |k| Expr::Int(k));
    let forms = [
        (v(), 1),
        (r() * r(), 0),
        (v() * n(3) - (n(2) * v() + r().modulo(3)), 1),
        (Expr::un(UnOp::Neg, (v() - r()) * n(-4)), 4),
        (v() - v(), 0),
    ];
    for (e, coefficient) in forms {
        let (found, rest) = e.linear_in("v").expect("it is linear");
        assert_eq!(found, coefficient, "{e}");
        assert!(!rest.mentions("v"), "{e}: {rest}");
        for (at, rank) in [(0, 0), (5, 2), (-7, 9)] {
            let value = |e: &Expr| -> Result<i64, EvalError> {
                e.eval(&|name: &kbc_ir::Name| Some(if name.as_str() == "v" { at } else { rank }))
            };
            assert_eq!(value(&e).unwrap(), coefficient * at + value(&rest).unwrap(), "{e}");
        }
    }
    for e in [v() * v(), v() * r(), v().modulo(4), Expr::bin(BinOp::Shl, v(), n(1))] {
        assert_eq!(e.linear_in("v"), None, "{e}");
    }
}
