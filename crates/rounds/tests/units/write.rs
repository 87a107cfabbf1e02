//! The text of expressions.

use kbc_diag::Span;
use kbc_rounds::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use kbc_rounds::write::expr;

fn at(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::NONE }
}

fn two(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    at(ExprKind::Binary(op, Box::new(a), Box::new(b)))
}

#[test]
fn brackets_where_they_are_needed() {
    let n = |s: &str| at(ExprKind::Name(s.into()));
    let one = || at(ExprKind::Int(1));
    let minus = |a, b| two(BinaryOp::Sub, a, b);
    assert_eq!(expr(&minus(minus(n("r"), n("s")), one())), "r - s - 1");
    assert_eq!(expr(&minus(n("r"), minus(n("s"), one()))), "r - (s - 1)");
    assert_eq!(expr(&two(BinaryOp::Mul, minus(n("r"), one()), n("w"))), "(r - 1) * w");
    let shift = two(BinaryOp::Shl, one(), minus(n("k"), one()));
    assert_eq!(expr(&two(BinaryOp::BitXor, n("r"), shift)), "r ^ (1 << (k - 1))");
    assert_eq!(expr(&at(ExprKind::Unary(UnaryOp::Neg, Box::new(minus(n("r"), one()))))), "-(r - 1)");
}
