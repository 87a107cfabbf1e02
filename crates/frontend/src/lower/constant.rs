//! Constant expressions of the program half: integers, numbers with a fraction, and conditions.
//!
//! Integer arithmetic is that of the algorithm half. Numbers with a fraction have `+ - * /` and
//! comparisons. They may stand in every form of expression except in calls and over ranges.

use super::locals::Constant;
use super::values::ParamValue;
use kbc_diag::{Diagnostic, Span};
use kbc_rounds::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use kbc_rounds::eval::{ConcreteEvaluator, Fault, Scope, Value, unknown};

/// A scope whose names may also have values with a fraction.
pub(super) trait Constants: Scope {
    fn float(&self, name: &str) -> Option<f64>;
}

/// A scope without names.
pub(super) struct Empty;

impl Scope for Empty {
    fn lookup(&self, _: &str) -> Option<Value> {
        None
    }
    fn names(&self) -> Vec<String> {
        vec![]
    }
}

impl Constants for Empty {
    fn float(&self, _: &str) -> Option<f64> {
        None
    }
}

/// A name that a `let` declares, over the names around it.
struct With<'a> {
    name: &'a str,
    value: Constant,
    outer: &'a dyn Constants,
}

impl Scope for With<'_> {
    fn lookup(&self, name: &str) -> Option<Value> {
        match self.value {
            _ if name != self.name => self.outer.lookup(name),
            Constant::Number(ParamValue::Int(i)) => Some(Value::Int(i)),
            Constant::Flag(b) => Some(Value::Bool(b)),
            Constant::Number(ParamValue::Float(_) | ParamValue::Type(_)) => None,
        }
    }
    fn names(&self) -> Vec<String> {
        self.outer.names().into_iter().chain([self.name.to_owned()]).collect()
    }
}

impl Constants for With<'_> {
    fn float(&self, name: &str) -> Option<f64> {
        match self.value {
            _ if name != self.name => self.outer.float(name),
            Constant::Number(ParamValue::Float(x)) => Some(x),
            Constant::Number(ParamValue::Int(_) | ParamValue::Type(_)) | Constant::Flag(_) => None,
        }
    }
}

/// Returns whether a number with a fraction occurs in an expression.
fn fractional(e: &Expr, scope: &dyn Constants) -> bool {
    fn literal(e: &Expr) -> bool {
        matches!(e.kind, ExprKind::Float(_)) || e.parts().into_iter().any(literal)
    }
    let mut found = literal(e);
    e.free_names(&mut |name, _| found |= scope.float(name).is_some());
    found
}

fn fault(title: &str, span: Span, label: impl Into<String>) -> Fault {
    Box::new(Diagnostic::error("E010", title).primary(span, label))
}

/// Evaluates an expression that must be a number.
///
/// # Errors
/// Returns E005 for an unknown name, E006 for the arguments of a function, and E010 for arithmetic
/// and for a truth value.
pub(super) fn number(
    e: &Expr,
    evaluator: &ConcreteEvaluator<'_>,
    scope: &dyn Constants,
) -> Result<ParamValue, Fault> {
    match value(e, evaluator, scope)? {
        Constant::Number(n) => Ok(n),
        Constant::Flag(b) => Err(fault(&format!("expected a number, found {b}"), e.span, "here")),
    }
}

/// Evaluates an expression that is a number or a truth value.
///
/// # Errors
/// Fails as [`number`] does, except that a truth value is no error.
pub(super) fn value(
    e: &Expr,
    evaluator: &ConcreteEvaluator<'_>,
    scope: &dyn Constants,
) -> Result<Constant, Fault> {
    if !fractional(e, scope) {
        return match evaluator.eval(e, scope)? {
            Value::Int(i) => Ok(Constant::Number(ParamValue::Int(i))),
            Value::Bool(b) => Ok(Constant::Flag(b)),
            other => Err(fault(&format!("expected a number, found {other}"), e.span, "here")),
        };
    }
    let operand = |e: &Expr| number(e, evaluator, scope).map(ParamValue::as_f64);
    let value = match &e.kind {
        ExprKind::Float(x) => *x,
        ExprKind::Name(n) => match scope.float(n) {
            Some(x) => x,
            None => return Err(unknown("E005", "name", n, e.span, &scope.names())),
        },
        ExprKind::Unary(UnaryOp::Neg, a) => -operand(a)?,
        ExprKind::Binary(op, a, b) => {
            let (x, y) = (operand(a)?, operand(b)?);
            match op {
                BinaryOp::Add => x + y,
                BinaryOp::Sub => x - y,
                BinaryOp::Mul => x * y,
                BinaryOp::Div => x / y,
                BinaryOp::Eq => return Ok(Constant::Flag(x == y)),
                BinaryOp::Ne => return Ok(Constant::Flag(x != y)),
                BinaryOp::Lt => return Ok(Constant::Flag(x < y)),
                BinaryOp::Le => return Ok(Constant::Flag(x <= y)),
                BinaryOp::Gt => return Ok(Constant::Flag(x > y)),
                BinaryOp::Ge => return Ok(Constant::Flag(x >= y)),
                BinaryOp::Or
                | BinaryOp::And
                | BinaryOp::BitOr
                | BinaryOp::BitXor
                | BinaryOp::BitAnd
                | BinaryOp::Shl
                | BinaryOp::Shr
                | BinaryOp::Rem => return Err(unsupported(e)),
            }
        }
        ExprKind::If(c, a, b) => {
            let chosen = match value(c, evaluator, scope)? {
                Constant::Flag(true) => a,
                Constant::Flag(false) => b,
                Constant::Number(n) => {
                    return Err(fault(&format!("expected a truth value, found {n}"), c.span, "here"));
                }
            };
            return value(chosen, evaluator, scope);
        }
        ExprKind::Let(lets, body) => match lets.split_first() {
            None => return value(body, evaluator, scope),
            Some(((name, first), rest)) => {
                let first = value(first, evaluator, scope)?;
                let scope = With { name: &name.node, value: first, outer: scope };
                let rest = Expr { kind: ExprKind::Let(rest.to_vec(), body.clone()), span: e.span };
                return value(&rest, evaluator, &scope);
            }
        },
        ExprKind::Int(_)
        | ExprKind::Bool(_)
        | ExprKind::Call(..)
        | ExprKind::Tuple(_)
        | ExprKind::Unary(UnaryOp::Not, _)
        | ExprKind::Fold(..)
        | ExprKind::Error => return Err(unsupported(e)),
    };
    if value.is_finite() {
        Ok(Constant::Number(ParamValue::Float(value)))
    } else {
        Err(fault("a number is out of range", e.span, format!("this is {value}")))
    }
}

fn unsupported(e: &Expr) -> Fault {
    fault(
        "floating-point numbers support only + - * / and comparisons",
        e.span,
        "an operand is a floating-point number",
    )
}
