//! Evaluator: the expressions of the algorithm language, over any domain of values.
//!
//! This module owns the forms of expressions, the order in which their parts are evaluated, the
//! built-in functions and calls of `fn`. A domain ([`Values`]) owns what a value is: integers
//! ([`crate::eval`]), or expressions in rank and step (the pass `expand`).

use std::sync::Arc;

use kbc_diag::{Diagnostic, Span};

use crate::ast::{BinaryOp, Expr, ExprKind, FnBody, FnDecl, Ident, UnaryOp};
use crate::scope::{AlgRef, Fault, Functions, Scope, arguments, unknown};

/// Built-in functions, each with its least and greatest number of arguments. Their meaning is
/// `Evaluator::builtin`.
pub const BUILTINS: [(&str, usize, usize); 10] = [
    ("log2", 1, 1),
    ("ceil_log2", 1, 1),
    ("is_pow2", 1, 1),
    ("min", 2, usize::MAX),
    ("max", 2, usize::MAX),
    ("abs", 1, 1),
    ("sign", 1, 1),
    ("pow", 2, 2),
    ("popcount", 1, 1),
    ("ceil_div", 2, 2),
];

/// Functions of one number that a domain computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unary {
    /// The negative.
    Neg,
    /// The logarithm to base 2, rounded down.
    Log2,
    /// The logarithm to base 2, rounded up.
    CeilLog2,
    /// Whether the number is a power of two.
    IsPow2,
    /// The absolute value.
    Abs,
    /// -1, 0 or 1.
    Sign,
    /// The number of one bits.
    Popcount,
}

/// Functions of two numbers that a domain computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binary {
    /// `a | b`
    BitOr,
    /// `a ^ b`
    BitXor,
    /// `a & b`
    BitAnd,
    /// `a << b`
    Shl,
    /// `a >> b`
    Shr,
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// The quotient, rounded down.
    Div,
    /// The remainder, with the sign of the divisor.
    Rem,
    /// The lesser one.
    Min,
    /// The greater one.
    Max,
    /// `a` to the power of `b`.
    Pow,
}

/// Comparisons of two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
}

/// The place of an operation, for messages.
pub struct Site<'x> {
    /// Its source location.
    pub span: Span,
    /// Prints the operation with its operands: `3 + 4`, `pow(2, 70)`.
    pub text: &'x dyn Fn() -> String,
}

/// A call of a `fn`.
pub struct Called<'x, V> {
    /// The function.
    pub decl: &'x FnDecl,
    /// Its name as called.
    pub name: &'x Ident,
    /// The values of its parameters.
    pub args: Vec<V>,
    /// Source location of the call.
    pub span: Span,
}

/// A domain of values.
///
/// An operation without a value (a division by zero) is an error of the domain, which knows whether
/// anything is certain to execute it.
pub trait Values: Sized {
    /// The value of an expression: a number, a truth value, a rank or an algorithm.
    type Value: Clone;
    /// A number.
    type Number: Clone + std::fmt::Display;
    /// A truth value.
    type Truth;
    /// The reason why an evaluation stopped.
    type Stop: From<Fault>;

    /// Returns the value of an integer.
    fn integer(&self, i: i64) -> Self::Number;
    /// Returns the value of a truth value.
    fn constant(&self, b: bool) -> Self::Value;
    /// Returns a number as a value.
    fn of_number(&self, n: Self::Number) -> Self::Value;
    /// Returns a rank with these coordinates.
    fn rank(&self, coordinates: Vec<Self::Number>) -> Self::Value;
    /// Returns the number that a value is.
    ///
    /// # Errors
    /// Returns E010 for a value of another type.
    fn number(&self, v: Self::Value, span: Span) -> Result<Self::Number, Self::Stop>;
    /// Returns the truth value that a value is.
    ///
    /// # Errors
    /// Returns E010 for a value of another type.
    fn truth(&self, v: Self::Value, span: Span) -> Result<Self::Truth, Self::Stop>;
    /// Checks a value as an operand of `==`, or as an argument of a function.
    ///
    /// # Errors
    /// Stops if the domain has no form for it.
    fn operand(&self, v: Self::Value, span: Span) -> Result<Self::Value, Self::Stop>;

    /// Returns an algorithm as a value.
    fn algorithm(&self, a: Arc<AlgRef>) -> Self::Value;
    /// Returns the algorithm that a value is.
    fn as_algorithm(&self, v: &Self::Value) -> Option<Arc<AlgRef>>;
    /// Returns the truth value that the value of an option is.
    fn flag(&self, v: &Self::Value) -> Option<bool>;
    /// Prints a value.
    fn show(&self, v: &Self::Value) -> String;

    /// Returns the negation of a truth value.
    ///
    /// # Errors
    /// Stops if the result is too large for the domain.
    fn not(&self, a: Self::Truth, span: Span) -> Result<Self::Value, Self::Stop>;
    /// Returns a function of one number.
    ///
    /// # Errors
    /// Returns E010 if the number has no such value.
    fn unary(&self, op: Unary, a: &Self::Number, site: &Site<'_>) -> Result<Self::Value, Self::Stop>;
    /// Returns a function of two numbers.
    ///
    /// # Errors
    /// Returns E010 if the numbers have no such value.
    fn binary(
        &self,
        op: Binary,
        a: &Self::Number,
        b: &Self::Number,
        site: &Site<'_>,
    ) -> Result<Self::Value, Self::Stop>;
    /// Returns the result of a comparison.
    ///
    /// # Errors
    /// Stops if the result is too large for the domain.
    fn compare(
        &self,
        op: Order,
        a: &Self::Number,
        b: &Self::Number,
        span: Span,
    ) -> Result<Self::Value, Self::Stop>;
    /// Returns whether two values are equal, or whether they differ.
    ///
    /// # Errors
    /// Returns E010 for values of different types.
    fn equal(
        &self,
        a: Self::Value,
        b: Self::Value,
        wanted: bool,
        span: Span,
    ) -> Result<Self::Value, Self::Stop>;
    /// Returns `a && b` or, for `or`, `a || b`. The value of `a` did not decide it.
    ///
    /// # Errors
    /// Stops if the result is too large for the domain.
    fn connect(
        &self,
        or: bool,
        a: Self::Truth,
        b: Self::Truth,
        span: Span,
    ) -> Result<Self::Value, Self::Stop>;

    /// Decides a truth value; `None` if its value is not known.
    fn decide(&self, c: &Self::Truth) -> Option<bool>;
    /// Returns the integer that a number is; `None` if its value is not known.
    fn known(&self, n: &Self::Number) -> Option<i64>;
    /// Returns the reason to stop at something whose value must be known, but is not.
    fn undecidable(&self, what: &str, span: Span) -> Self::Stop;
    /// Returns the value of `if c { a } else { b }` for a condition that is not decided.
    ///
    /// # Errors
    /// Stops if the domain has no form for it.
    fn select(
        &self,
        c: Self::Truth,
        a: Self::Value,
        b: Self::Value,
        span: Span,
    ) -> Result<Self::Value, Self::Stop>;
    /// Evaluates something that possibly nothing executes, because a condition is not decided: a
    /// branch of an `if`, a right side, or a term with a condition, at `span`.
    ///
    /// # Errors
    /// Returns the errors of `eval`, except that a fault may be left to a domain that decides.
    fn undecided<T>(&self, span: Span, eval: impl FnOnce() -> Result<T, Self::Stop>)
    -> Result<T, Self::Stop>;

    /// Evaluates one expression inside the others; limits the nesting or the work.
    ///
    /// # Errors
    /// Returns the errors of `eval`, and those of the limit.
    fn nested(
        &self,
        span: Span,
        eval: impl FnOnce() -> Result<Self::Value, Self::Stop>,
    ) -> Result<Self::Value, Self::Stop>;
    /// Counts a term of a sum, minimum or maximum over ranges; limits the work.
    ///
    /// # Errors
    /// Returns the error of the limit.
    fn term(&self, span: Span) -> Result<(), Self::Stop>;
    /// Evaluates the body of a function; limits recursion.
    ///
    /// # Errors
    /// Returns the errors of `body`, and those of the limit.
    fn function(
        &self,
        call: Called<'_, Self::Value>,
        body: impl FnOnce(&[Self::Value]) -> Result<Self::Value, Self::Stop>,
    ) -> Result<Self::Value, Self::Stop>;
}

/// Evaluates expressions with the functions of a library.
pub struct Evaluator<'a, V> {
    functions: &'a dyn Functions,
    /// The domain of values.
    pub values: V,
}

/// The parameters of a `fn` during a call.
struct Arguments<'a, V> {
    names: &'a [Ident],
    values: &'a [V],
}

impl<V: Clone> Scope<V> for Arguments<'_, V> {
    fn lookup(&self, name: &str) -> Option<V> {
        self.names.iter().position(|n| n.node == name).and_then(|i| self.values.get(i).cloned())
    }
    fn names(&self) -> Vec<String> {
        self.names.iter().map(|n| n.node.clone()).collect()
    }
}

/// Names that an expression declares, over the names around it.
pub(crate) struct Inner<'a, V> {
    pub(crate) names: &'a [(&'a str, V)],
    pub(crate) outer: &'a dyn Scope<V>,
}

impl<V: Clone> Scope<V> for Inner<'_, V> {
    fn lookup(&self, name: &str) -> Option<V> {
        let own = self.names.iter().rev().find(|(n, _)| *n == name);
        own.map(|(_, v)| v.clone()).or_else(|| self.outer.lookup(name))
    }
    fn names(&self) -> Vec<String> {
        let own = self.names.iter().map(|(n, _)| (*n).to_owned());
        self.outer.names().into_iter().chain(own).collect()
    }
}

fn fault(span: Span, title: impl Into<String>, label: impl Into<String>) -> Fault {
    Box::new(Diagnostic::error("E010", title).primary(span, label))
}

impl<'a, V: Values + Default> Evaluator<'a, V> {
    /// Makes an evaluator with these functions.
    pub fn new(functions: &'a dyn Functions) -> Self {
        Evaluator { functions, values: V::default() }
    }
}

impl<V: Values> Evaluator<'_, V> {
    /// Returns the value of `expr`.
    ///
    /// # Errors
    /// Returns E005 for an unknown name, E006 for a wrong number of arguments, and E010 for an
    /// arithmetic error.
    pub fn eval(&self, expr: &Expr, scope: &dyn Scope<V::Value>) -> Result<V::Value, V::Stop> {
        self.values.nested(expr.span, || self.kind(expr, scope))
    }

    /// Returns the value of an expression that must be a number.
    ///
    /// # Errors
    /// Returns the errors of [`Evaluator::eval`], and E010 for another type.
    pub fn int(&self, expr: &Expr, scope: &dyn Scope<V::Value>) -> Result<V::Number, V::Stop> {
        self.values.number(self.eval(expr, scope)?, expr.span)
    }

    /// Returns the value of an expression that must be a truth value.
    ///
    /// # Errors
    /// Returns the errors of [`Evaluator::eval`], and E010 for another type.
    pub fn bool(&self, expr: &Expr, scope: &dyn Scope<V::Value>) -> Result<V::Truth, V::Stop> {
        self.values.truth(self.eval(expr, scope)?, expr.span)
    }

    fn kind(&self, expr: &Expr, scope: &dyn Scope<V::Value>) -> Result<V::Value, V::Stop> {
        let d = &self.values;
        let operand = |e: &Expr| d.operand(self.eval(e, scope)?, e.span);
        match &expr.kind {
            ExprKind::Int(i) => Ok(d.of_number(d.integer(*i))),
            ExprKind::Bool(b) => Ok(d.constant(*b)),
            ExprKind::Name(n) => match scope.lookup(n) {
                Some(v) => Ok(v),
                None => match self.functions.parameter(n, expr.span) {
                    Some(value) => Ok(d.of_number(d.integer(value?))),
                    None => {
                        let mut valid = scope.names();
                        valid.extend(self.functions.parameter_names(expr.span.file));
                        Err(unknown("E005", "name", n, expr.span, &valid).into())
                    }
                },
            },
            ExprKind::Call(name, args) => {
                let values: Result<Vec<V::Value>, V::Stop> = args.iter().map(operand).collect();
                self.call(name, args, values?, expr.span)
            }
            ExprKind::Tuple(parts) => {
                let coordinates: Result<Vec<V::Number>, V::Stop> =
                    parts.iter().map(|e| self.int(e, scope)).collect();
                Ok(d.rank(coordinates?))
            }
            ExprKind::Unary(UnaryOp::Neg, e) => {
                let a = self.int(e, scope)?;
                d.unary(Unary::Neg, &a, &Site { span: expr.span, text: &|| format!("-({a})") })
            }
            ExprKind::Unary(UnaryOp::Not, e) => d.not(self.bool(e, scope)?, expr.span),
            ExprKind::Binary(BinaryOp::Eq, a, b) => d.equal(operand(a)?, operand(b)?, true, expr.span),
            ExprKind::Binary(BinaryOp::Ne, a, b) => d.equal(operand(a)?, operand(b)?, false, expr.span),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let or = *op == BinaryOp::Or;
                let a = self.bool(a, scope)?;
                // Short-circuit evaluation also ends recursions.
                let known = d.decide(&a);
                if known == Some(or) {
                    return Ok(d.constant(or));
                }
                let b = match known {
                    Some(_) => self.bool(b, scope),
                    None => d.undecided(b.span, || self.bool(b, scope)),
                };
                d.connect(or, a, b?, expr.span)
            }
            ExprKind::Binary(op, a, b) => {
                let (x, y) = (self.int(a, scope)?, self.int(b, scope)?);
                self.operator(*op, &x, &y, expr.span)
            }
            ExprKind::If(c, a, b) => {
                let c = self.bool(c, scope)?;
                match d.decide(&c) {
                    Some(true) => self.eval(a, scope),
                    Some(false) => self.eval(b, scope),
                    None => {
                        let a = d.undecided(a.span, || self.eval(a, scope))?;
                        let b = d.undecided(b.span, || self.eval(b, scope))?;
                        d.select(c, a, b, expr.span)
                    }
                }
            }
            ExprKind::Let(lets, e) => {
                let mut known: Vec<(&str, V::Value)> = vec![];
                for (name, value) in lets {
                    let value = self.eval(value, &Inner { names: &known, outer: scope })?;
                    known.push((&name.node, value));
                }
                self.eval(e, &Inner { names: &known, outer: scope })
            }
            ExprKind::Fold(op, term, gens) => self.fold(*op, term, gens, expr.span, scope),
            ExprKind::Float(x) => Err(fault(
                expr.span,
                "algorithms compute with integers only",
                format!("{x} is not an integer"),
            )
            .into()),
            ExprKind::Error => Err(fault(expr.span, "this expression has an error", "here").into()),
        }
    }

    fn operator(&self, op: BinaryOp, x: &V::Number, y: &V::Number, span: Span) -> Result<V::Value, V::Stop> {
        let binary = |op, sign: &str| {
            let text = || format!("{x} {sign} {y}");
            self.values.binary(op, x, y, &Site { span, text: &text })
        };
        match op {
            BinaryOp::Lt => self.values.compare(Order::Lt, x, y, span),
            BinaryOp::Le => self.values.compare(Order::Le, x, y, span),
            BinaryOp::Gt => self.values.compare(Order::Gt, x, y, span),
            BinaryOp::Ge => self.values.compare(Order::Ge, x, y, span),
            BinaryOp::BitOr => binary(Binary::BitOr, "|"),
            BinaryOp::BitXor => binary(Binary::BitXor, "^"),
            BinaryOp::BitAnd => binary(Binary::BitAnd, "&"),
            BinaryOp::Shl => binary(Binary::Shl, "<<"),
            BinaryOp::Shr => binary(Binary::Shr, ">>"),
            BinaryOp::Add => binary(Binary::Add, "+"),
            BinaryOp::Sub => binary(Binary::Sub, "-"),
            BinaryOp::Mul => binary(Binary::Mul, "*"),
            BinaryOp::Div => binary(Binary::Div, "/"),
            BinaryOp::Rem => binary(Binary::Rem, "%"),
            BinaryOp::And | BinaryOp::Or | BinaryOp::Eq | BinaryOp::Ne => {
                Err(fault(span, "this operation is not defined for integers", "here").into())
            }
        }
    }

    fn call(
        &self,
        name: &Ident,
        args: &[Expr],
        values: Vec<V::Value>,
        span: Span,
    ) -> Result<V::Value, V::Stop> {
        if let Some(&(_, least, most)) = BUILTINS.iter().find(|b| b.0 == name.node) {
            if values.len() < least || values.len() > most {
                return Err(wrong_count(name, values.len(), least, None).into());
            }
            let numbers: Result<Vec<V::Number>, V::Stop> =
                values.into_iter().zip(args).map(|(v, e)| self.values.number(v, e.span)).collect();
            return self.builtin(name, &numbers?, span);
        }
        let Some(decl) = self.functions.function(name) else {
            let built_in: Vec<String> = BUILTINS.iter().map(|b| b.0.to_owned()).collect();
            return Err(self.functions.unknown_function(name, &built_in).into());
        };
        if decl.params.len() != values.len() {
            return Err(wrong_count(name, values.len(), decl.params.len(), Some(decl)).into());
        }
        let body = match &decl.body {
            // A constant needs neither its arguments nor a place among the results that are kept.
            FnBody::Expr(Expr { kind: ExprKind::Int(i), .. }) => {
                return Ok(self.values.of_number(self.values.integer(*i)));
            }
            FnBody::Expr(body) => body,
            FnBody::List(list) if values.len() == 1 => {
                let index =
                    self.values.number(values.into_iter().next().expect("there is one"), args[0].span)?;
                // Most tables have numbers as they are printed.
                let known = self.values.known(&index).and_then(|i| usize::try_from(i).ok());
                return match known.and_then(|i| list.get(i)).map(|e| &e.kind) {
                    Some(ExprKind::Int(i)) => Ok(self.values.of_number(self.values.integer(*i))),
                    _ => self.entry(decl, name, vec![index], span),
                };
            }
            FnBody::List(_) | FnBody::Rows(_) => {
                let index: Result<Vec<V::Number>, V::Stop> =
                    values.into_iter().zip(args).map(|(v, e)| self.values.number(v, e.span)).collect();
                return self.entry(decl, name, index?, span);
            }
        };
        self.values.function(Called { decl, name, args: values, span }, |values| {
            self.eval(body, &Arguments { names: &decl.params, values })
        })
    }

    /// Returns the value of a built-in function. Every row of [`BUILTINS`] has its meaning here,
    /// for all domains.
    fn builtin(&self, name: &Ident, v: &[V::Number], span: Span) -> Result<V::Value, V::Stop> {
        let d = &self.values;
        let text = || {
            let args: Vec<String> = v.iter().map(V::Number::to_string).collect();
            format!("{}({})", name.node, args.join(", "))
        };
        let site = Site { span, text: &text };
        let number = |v: V::Value| d.number(v, span);
        let fold = |op| {
            let mut rest = v.iter();
            let first = rest.next().cloned().unwrap_or_else(|| d.integer(0));
            let all = rest.try_fold(first, |a, b| number(d.binary(op, &a, b, &site)?))?;
            Ok(d.of_number(all))
        };
        match (name.node.as_str(), v) {
            ("log2", [a]) => d.unary(Unary::Log2, a, &site),
            ("ceil_log2", [a]) => d.unary(Unary::CeilLog2, a, &site),
            ("is_pow2", [a]) => d.unary(Unary::IsPow2, a, &site),
            ("min", _) => fold(Binary::Min),
            ("max", _) => fold(Binary::Max),
            ("abs", [a]) => d.unary(Unary::Abs, a, &site),
            ("sign", [a]) => d.unary(Unary::Sign, a, &site),
            ("pow", [a, b]) => d.binary(Binary::Pow, a, b, &site),
            ("popcount", [a]) => d.unary(Unary::Popcount, a, &site),
            ("ceil_div", [a, b]) => {
                let low = d.binary(Binary::Div, &number(d.unary(Unary::Neg, a, &site)?)?, b, &site)?;
                d.unary(Unary::Neg, &number(low)?, &site)
            }
            (other, _) => Err(unknown("E005", "function", other, name.span, &[]).into()),
        }
    }
}

fn wrong_count(name: &Ident, got: usize, wanted: usize, decl: Option<&FnDecl>) -> Fault {
    let mut d =
        Diagnostic::error("E006", arguments(&name.node, wanted, got)).primary(name.span, "called here");
    if let Some(decl) = decl {
        d = d.secondary(decl.name.span, "declared here");
    }
    Box::new(d)
}
