//! Values of the built-in functions.

use kbc_diag::Span;
use kbc_rounds::ast::{Expr, ExprKind, Ident};
use kbc_rounds::eval::{BUILTINS, ListScope, Value, eval};
use kbc_rounds::library::Library;

fn call(name: &str, args: &[i64]) -> Value {
    let int = |i: &i64| Expr { kind: ExprKind::Int(*i), span: Span::NONE };
    let name = Ident::new(name.to_owned(), Span::NONE);
    let kind = ExprKind::Call(name, args.iter().map(int).collect());
    let expr = Expr { kind, span: Span::NONE };
    eval(&expr, &ListScope(vec![]), &Library::new()).expect("a value")
}

#[test]
fn every_built_in_function_has_a_meaning() {
    let values = BUILTINS.map(|(name, least, _)| (name, call(name, &[8, 3][..least])));
    let wanted = [
        ("log2", Value::Int(3)),
        ("ceil_log2", Value::Int(3)),
        ("is_pow2", Value::Bool(true)),
        ("min", Value::Int(3)),
        ("max", Value::Int(8)),
        ("abs", Value::Int(8)),
        ("sign", Value::Int(1)),
        ("pow", Value::Int(512)),
        ("popcount", Value::Int(1)),
        ("ceil_div", Value::Int(3)),
    ];
    assert_eq!(values, wanted);
}
