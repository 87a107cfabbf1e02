//! Expressions and names in Python.

use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_tiles::package::python::{expr, identifier, quoted, tuple};

#[test]
fn values_stay_what_they_are() {
    let v = |n: &str| Expr::var(n);
    let e = (v("count") * v("rank")).ceil_div(4).modulo(v("nranks"));
    assert_eq!(expr(&e), "(count * rank + 3) // 4 % nranks");
    let less = |a: Expr, b: Expr| Expr::bin(BinOp::Lt, a, b);
    assert_eq!(expr(&less(less(v("a"), v("b")), v("c"))), "(a < b) < c");
    assert_eq!(expr(&less(v("a"), v("b")).and(v("c"))), "int((a < b) != 0 and c != 0)");
    assert_eq!(expr(&(v("a") * Expr::un(UnOp::Log2, v("b")))), "a * ((b).bit_length() - 1)");
    assert_eq!(expr(&Expr::select(v("c"), v("a") - Expr::Int(-1), Expr::Int(-2))), "(a + 1 if c else (-2))");
    assert_eq!(expr(&Expr::bin(BinOp::Xor, v("a"), v("b"))), "a ^ b");
    assert_eq!(quoted("a\"b\\\n"), r#""a\"b\\\n""#);
    assert_eq!(tuple([1]) + &tuple([1, 2]), "(1,)(1, 2)");
}

#[test]
fn words_of_python_are_no_names() {
    assert!(identifier("x_1") && !identifier("lambda") && !identifier("1x") && !identifier("x#1"));
}
