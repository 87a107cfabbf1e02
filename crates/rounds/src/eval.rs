//! Evaluator of the algorithm language's expressions on concrete values.
//!
//! This module owns values, operators, the built-in functions and calls of `fn`. The caller
//! provides the values of names ([`Scope`]), and the library the visible functions ([`Functions`]).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, FileId, Span};

use crate::ast::{BinaryOp, Expr, ExprKind, FnDecl, Gens, Ident, UnaryOp};

/// Greatest nesting of `fn` calls.
pub const MAX_CALL_DEPTH: u32 = 200;
/// Greatest nesting of expressions, calls included.
pub const MAX_NESTING: u32 = 1000;
/// Greatest number of `fn` calls in one evaluation, for example in an expansion.
pub const MAX_CALLS: u64 = 20_000_000;

/// Greatest number of calls that one outermost call may make. A function that calls itself twice
/// makes exponentially many.
pub const MAX_INSIDE: u64 = 20_000;

/// An error to return; boxed because it is rare and large.
pub type Fault = Box<Diagnostic>;

/// The value of an expression.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Value {
    /// A 64-bit integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A rank: one coordinate per axis, two or more.
    Rank(Arc<[i64]>),
    /// An algorithm, as the value of an algorithm-valued parameter.
    Alg(Arc<AlgRef>),
}

/// The name of an algorithm, and the file in whose scope it is looked up. The collective is known
/// only where the algorithm is applied.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AlgRef {
    /// The name as written.
    pub name: String,
    /// The file that contains it.
    pub file: FileId,
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Int(i) => write!(f, "{i}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Rank(c) => {
                let parts: Vec<String> = c.iter().map(i64::to_string).collect();
                write!(f, "({})", parts.join(", "))
            }
            Value::Alg(a) => f.write_str(&a.name),
        }
    }
}

/// The values of names.
pub trait Scope {
    /// Returns the value of a name.
    fn lookup(&self, name: &str) -> Option<Value>;
    /// Returns all names, for messages.
    fn names(&self) -> Vec<String>;
}

/// The functions that are visible from a file.
pub trait Functions {
    /// Returns the function with that name, as seen from the file of `name`.
    fn function(&self, name: &Ident) -> Option<&FnDecl>;
    /// Returns all functions that are visible from a file, for messages.
    fn function_names(&self, from: FileId) -> Vec<String>;
}

/// The simplest scope: a list in which the last entry of a name counts.
#[derive(Clone, Debug, Default)]
pub struct ListScope(pub Vec<(String, Value)>);

impl Scope for ListScope {
    fn lookup(&self, name: &str) -> Option<Value> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    }
    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(n, _)| n.clone()).collect()
    }
}

/// The parameters of a `fn` during a call.
struct Arguments<'a> {
    names: &'a [Ident],
    values: &'a [Value],
}

impl Scope for Arguments<'_> {
    fn lookup(&self, name: &str) -> Option<Value> {
        self.names.iter().position(|n| n.node == name).and_then(|i| self.values.get(i).cloned())
    }
    fn names(&self) -> Vec<String> {
        self.names.iter().map(|n| n.node.clone()).collect()
    }
}

/// Built-in functions, each with its least and greatest number of arguments.
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

/// Evaluates `expr` once. For many evaluations use an [`Evaluator`], which caches
/// results of functions.
///
/// # Errors
/// Returns E005 for an unknown name, E006 for a wrong number of arguments, and E010 for an
/// arithmetic error.
pub fn eval(expr: &Expr, scope: &dyn Scope, functions: &dyn Functions) -> Result<Value, Fault> {
    Evaluator::new(functions).eval(expr, scope)
}

/// Makes the error for an unknown name, with the valid names and the nearest of them.
pub fn unknown(code: &'static str, what: &str, name: &str, span: Span, valid: &[String]) -> Fault {
    let mut sorted: Vec<&str> = valid.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut d = Diagnostic::error(code, format!("unknown {what} `{name}`")).primary(span, "not known here");
    d = if sorted.is_empty() {
        d.note("nothing is declared here that it could be")
    } else {
        d.note(format!("valid: {}", sorted.join(", ")))
    };
    if let Some(n) = nearest(name, sorted.iter().copied()) {
        d = d.help(format!("did you mean `{n}`?"));
    }
    Box::new(d)
}

fn arithmetic(span: Span, title: impl Into<String>, label: impl Into<String>) -> Fault {
    Box::new(Diagnostic::error("E010", title).primary(span, label))
}

fn overflow(span: Span, what: String) -> Fault {
    Box::new(
        Diagnostic::error("E010", "a number does not fit in 64 bits")
            .primary(span, format!("{what} overflows"))
            .help("integers are of 64 bits; reorder the expression or guard it with `if`"),
    )
}

/// Returns the quotient, rounded down; `None` for a division by zero or an overflow.
pub fn floor_div(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    if a % b != 0 && ((a < 0) != (b < 0)) { q.checked_sub(1) } else { Some(q) }
}

/// Returns the remainder with the sign of the divisor; `None` for a division by zero.
pub fn floor_rem(a: i64, b: i64) -> Option<i64> {
    if b == 0 {
        return None;
    }
    if b == -1 {
        return Some(0);
    }
    let r = a % b;
    Some(if r != 0 && ((r < 0) != (b < 0)) { r + b } else { r })
}

/// An evaluator that caches the results of functions. Functions are pure, and recursive ones (for
/// example the parent of a rank in a tree) would otherwise take exponential time.
pub struct Evaluator<'a> {
    functions: &'a dyn Functions,
    calls: Cell<u64>,
    depth: Cell<u32>,
    /// Number of calls since the outermost call began, including it. A call whose result is cached
    /// does not count.
    inside: Cell<u64>,
    nesting: Cell<u32>,
    memo: RefCell<HashMap<(Span, Vec<Value>), Value>>,
}

/// Greatest number of cached results; further results are not cached.
const MAX_MEMO: usize = 1 << 18;

impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Value::Int(i) => i.hash(state),
            Value::Bool(b) => b.hash(state),
            Value::Rank(c) => c.hash(state),
            Value::Alg(a) => a.name.hash(state),
        }
    }
}

impl<'a> Evaluator<'a> {
    /// Makes an evaluator with these functions.
    pub fn new(functions: &'a dyn Functions) -> Self {
        Evaluator {
            functions,
            calls: Cell::new(0),
            depth: Cell::new(0),
            inside: Cell::new(0),
            nesting: Cell::new(0),
            memo: RefCell::default(),
        }
    }

    /// Returns the value of `expr`.
    ///
    /// # Errors
    /// Returns E005 for an unknown name, E006 for a wrong number of arguments, and E010 for an
    /// arithmetic error.
    pub fn eval(&self, expr: &Expr, scope: &dyn Scope) -> Result<Value, Fault> {
        let nesting = self.nesting.get();
        if nesting >= MAX_NESTING {
            return Err(arithmetic(
                expr.span,
                format!("expressions nest more than {MAX_NESTING} deep"),
                "here",
            ));
        }
        self.nesting.set(nesting + 1);
        let value = self.kind(expr, scope);
        self.nesting.set(nesting);
        value
    }

    fn kind(&self, expr: &Expr, scope: &dyn Scope) -> Result<Value, Fault> {
        match &expr.kind {
            ExprKind::Int(i) => Ok(Value::Int(*i)),
            ExprKind::Bool(b) => Ok(Value::Bool(*b)),
            ExprKind::Name(n) => {
                scope.lookup(n).ok_or_else(|| unknown("E005", "name", n, expr.span, &scope.names()))
            }
            ExprKind::Call(name, args) => self.call(name, args, expr.span, scope),
            ExprKind::Tuple(parts) => {
                let coordinates: Result<Vec<i64>, Fault> = parts.iter().map(|e| self.int(e, scope)).collect();
                Ok(Value::Rank(coordinates?.into()))
            }
            ExprKind::Unary(UnaryOp::Neg, e) => {
                let a = self.int(e, scope)?;
                a.checked_neg().map(Value::Int).ok_or_else(|| overflow(expr.span, format!("-({a})")))
            }
            ExprKind::Unary(UnaryOp::Not, e) => Ok(Value::Bool(!self.bool(e, scope)?)),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, expr.span, scope),
            ExprKind::If(c, a, b) => {
                if self.bool(c, scope)? {
                    self.eval(a, scope)
                } else {
                    self.eval(b, scope)
                }
            }
            ExprKind::Float(x) => Err(arithmetic(
                expr.span,
                "a number with a fraction in an algorithm",
                format!("{x} is not an integer"),
            )),
            ExprKind::Error => Err(arithmetic(expr.span, "an expression that could not be read", "this one")),
        }
    }

    /// Returns the value of an expression that must be an integer.
    ///
    /// # Errors
    /// Returns the errors of [`Evaluator::eval`], and E010 for another type.
    pub fn int(&self, expr: &Expr, scope: &dyn Scope) -> Result<i64, Fault> {
        match self.eval(expr, scope)? {
            Value::Int(i) => Ok(i),
            other => Err(wrong_kind(expr.span, "an integer", &other)),
        }
    }

    /// Returns the value of an expression that must be a truth value.
    ///
    /// # Errors
    /// Returns the errors of [`Evaluator::eval`], and E010 for another type.
    pub fn bool(&self, expr: &Expr, scope: &dyn Scope) -> Result<bool, Fault> {
        match self.eval(expr, scope)? {
            Value::Bool(b) => Ok(b),
            other => Err(wrong_kind(expr.span, "true or false", &other)),
        }
    }

    fn binary(
        &self,
        op: BinaryOp,
        a: &Expr,
        b: &Expr,
        span: Span,
        scope: &dyn Scope,
    ) -> Result<Value, Fault> {
        use BinaryOp::{
            Add, And, BitAnd, BitOr, BitXor, Div, Eq, Ge, Gt, Le, Lt, Mul, Ne, Or, Rem, Shl, Shr, Sub,
        };
        match op {
            And => return Ok(Value::Bool(self.bool(a, scope)? && self.bool(b, scope)?)),
            Or => return Ok(Value::Bool(self.bool(a, scope)? || self.bool(b, scope)?)),
            Eq | Ne => {
                let (x, y) = (self.eval(a, scope)?, self.eval(b, scope)?);
                if std::mem::discriminant(&x) != std::mem::discriminant(&y) {
                    return Err(arithmetic(span, "a comparison of different kinds", format!("{x} and {y}")));
                }
                return Ok(Value::Bool((x == y) == (op == Eq)));
            }
            _ => {}
        }
        let (x, y) = (self.int(a, scope)?, self.int(b, scope)?);
        let checked = |v: Option<i64>, sign: &str| {
            v.map(Value::Int).ok_or_else(|| overflow(span, format!("{x} {sign} {y}")))
        };
        let nonzero = |sign: &str| {
            if y == 0 { Err(arithmetic(span, "division by zero", format!("{x} {sign} 0"))) } else { Ok(()) }
        };
        let shift = |sign: &str| {
            if y < 0 {
                Err(arithmetic(span, "a shift by a negative amount", format!("{x} {sign} {y}")))
            } else {
                Ok(())
            }
        };
        match op {
            Lt => Ok(Value::Bool(x < y)),
            Le => Ok(Value::Bool(x <= y)),
            Gt => Ok(Value::Bool(x > y)),
            Ge => Ok(Value::Bool(x >= y)),
            BitOr => Ok(Value::Int(x | y)),
            BitXor => Ok(Value::Int(x ^ y)),
            BitAnd => Ok(Value::Int(x & y)),
            Shl => {
                shift("<<")?;
                let back = if y < 63 { x.checked_mul(1 << y) } else { (x == 0).then_some(0) };
                checked(back, "<<")
            }
            Shr => shift(">>").map(|()| Value::Int(x >> y.min(63))),
            Add => checked(x.checked_add(y), "+"),
            Sub => checked(x.checked_sub(y), "-"),
            Mul => checked(x.checked_mul(y), "*"),
            Div => nonzero("/").and_then(|()| checked(floor_div(x, y), "/")),
            Rem => nonzero("%").and_then(|()| checked(floor_rem(x, y), "%")),
            And | Or | Eq | Ne => Err(arithmetic(span, "not an operation on integers", "this one")),
        }
    }

    fn call(&self, name: &Ident, args: &[Expr], span: Span, scope: &dyn Scope) -> Result<Value, Fault> {
        let values: Result<Vec<Value>, Fault> = args.iter().map(|e| self.eval(e, scope)).collect();
        let values = values?;
        if let Some(&(_, least, most)) = BUILTINS.iter().find(|b| b.0 == name.node) {
            if values.len() < least || values.len() > most {
                return Err(wrong_count(name, values.len(), least, None));
            }
            return self.builtin(name, args, &values, span);
        }
        let Some(decl) = self.functions.function(name) else {
            let mut valid = self.functions.function_names(name.span.file);
            valid.extend(BUILTINS.iter().map(|b| b.0.to_owned()));
            return Err(unknown("E005", "function", &name.node, name.span, &valid));
        };
        if decl.params.len() != values.len() {
            return Err(wrong_count(name, values.len(), decl.params.len(), Some(decl)));
        }
        let key = (decl.span, values);
        // Declarations that were not read from a text share one location, so their results must
        // not be cached.
        let keep = !decl.span.is_none();
        if keep && let Some(v) = self.memo.borrow().get(&key) {
            return Ok(v.clone());
        }
        self.calls.set(self.calls.get() + 1);
        // The count starts anew at each outermost call.
        self.inside.set(if self.depth.get() == 0 { 1 } else { self.inside.get() + 1 });
        if self.inside.get() > MAX_INSIDE {
            return Err(Box::new(
                Diagnostic::error("E010", format!("one call made more than {MAX_INSIDE} further calls"))
                    .primary(span, "while this call was evaluated")
                    .help("the recursion may branch more often than it shrinks"),
            ));
        }
        if self.calls.get() > MAX_CALLS {
            return Err(Box::new(
                Diagnostic::error("E010", format!("functions were called more than {MAX_CALLS} times"))
                    .primary(span, "while this call was evaluated")
                    .help("the recursion may branch more often than it shrinks"),
            ));
        }
        if self.depth.get() >= MAX_CALL_DEPTH {
            return Err(Box::new(
                Diagnostic::error(
                    "E010",
                    format!("`{}` calls itself more than {MAX_CALL_DEPTH} deep", name.node),
                )
                .primary(span, format!("arguments here: {}", listed(&key.1)))
                .secondary(decl.span, "this function")
                .help("is there an `if` that ends the recursion, and does it hold for these arguments?"),
            ));
        }
        self.depth.set(self.depth.get() + 1);
        let result = self.eval(&decl.body, &Arguments { names: &decl.params, values: &key.1 });
        self.depth.set(self.depth.get() - 1);
        // Only the innermost calls of a deep recursion are labelled; two hundred labels would
        // be unreadable.
        let value = result.map_err(|d| {
            if d.labels.len() < 4 {
                Box::new(d.secondary(span, format!("in `{}` called here", name.node)))
            } else {
                d
            }
        })?;
        let mut memo = self.memo.borrow_mut();
        if keep && memo.len() < MAX_MEMO {
            memo.insert(key, value.clone());
        }
        Ok(value)
    }

    fn builtin(&self, name: &Ident, args: &[Expr], values: &[Value], span: Span) -> Result<Value, Fault> {
        let mut ints = Vec::with_capacity(values.len());
        for (v, e) in values.iter().zip(args) {
            match v {
                Value::Int(i) => ints.push(*i),
                other => return Err(wrong_kind(e.span, "an integer", other)),
            }
        }
        let a = ints.first().copied().unwrap_or_default();
        let b = ints.get(1).copied().unwrap_or_default();
        let over = || overflow(span, format!("{}({})", name.node, listed(values)));
        let positive = || {
            if a <= 0 {
                Err(arithmetic(
                    span,
                    format!("`{}` of a number that is not positive", name.node),
                    format!("of {a}"),
                ))
            } else {
                Ok(())
            }
        };
        let int = match name.node.as_str() {
            "log2" => {
                positive()?;
                i64::from(a.ilog2())
            }
            "ceil_log2" => {
                positive()?;
                i64::from(a.ilog2()) + i64::from(!(a as u64).is_power_of_two())
            }
            "is_pow2" => return Ok(Value::Bool(a > 0 && (a as u64).is_power_of_two())),
            "min" => ints.iter().copied().min().unwrap_or_default(),
            "max" => ints.iter().copied().max().unwrap_or_default(),
            "abs" => a.checked_abs().ok_or_else(over)?,
            "sign" => a.signum(),
            "pow" => {
                if b < 0 {
                    return Err(arithmetic(span, "a negative power", format!("pow({a}, {b})")));
                }
                match a {
                    0 | 1 => {
                        if b == 0 {
                            1
                        } else {
                            a
                        }
                    }
                    -1 => {
                        if b % 2 == 0 {
                            1
                        } else {
                            -1
                        }
                    }
                    _ => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)).ok_or_else(over)?,
                }
            }
            "popcount" => {
                if a < 0 {
                    return Err(arithmetic(span, "`popcount` of a negative number", format!("of {a}")));
                }
                i64::from(a.count_ones())
            }
            "ceil_div" => {
                if b == 0 {
                    return Err(arithmetic(span, "division by zero", format!("ceil_div({a}, 0)")));
                }
                let q = floor_div(a, b).ok_or_else(over)?;
                if a % b == 0 { q } else { q + 1 }
            }
            other => return Err(unknown("E005", "function", other, name.span, &[])),
        };
        Ok(Value::Int(int))
    }

    /// Returns the values of the variables of `gens` for every binding that satisfies its
    /// condition, the first variable outermost.
    ///
    /// # Errors
    /// Returns the errors of [`Evaluator::eval`], and E040 if the ranges have more than `limit`
    /// values in total, over all variables and before the condition applies.
    pub fn bindings(&self, gens: &Gens, scope: &dyn Scope, limit: usize) -> Result<Vec<Vec<Value>>, Fault> {
        let mut out = vec![];
        let mut steps = 0;
        self.bind(gens, &mut vec![], scope, (&mut steps, limit), &mut out)?;
        Ok(out)
    }

    fn bind(
        &self,
        gens: &Gens,
        so_far: &mut Vec<Value>,
        outer: &dyn Scope,
        steps: (&mut usize, usize),
        out: &mut Vec<Vec<Value>>,
    ) -> Result<(), Fault> {
        let inner = Bound { gens, values: so_far, outer };
        let Some((name, range)) = gens.vars.get(so_far.len()) else {
            let kept = match &gens.cond {
                Some(c) => self.bool(c, &inner)?,
                None => true,
            };
            if kept {
                out.push(so_far.clone());
            }
            return Ok(());
        };
        let (lo, hi) = (self.int(&range.lo, &inner)?, self.int(&range.hi, &inner)?);
        for i in lo..hi {
            *steps.0 += 1;
            if *steps.0 > steps.1 {
                return Err(Box::new(
                    Diagnostic::error("E040", format!("more than {} combinations", steps.1))
                        .primary(name.span, format!("`{}` runs from {lo} to {hi}", name.node))
                        .help("lists are written out one by one; use a part `[i of n]` or a run `[i; k]` for long ones"),
                ));
            }
            so_far.push(Value::Int(i));
            self.bind(gens, so_far, outer, (&mut *steps.0, steps.1), out)?;
            so_far.pop();
        }
        Ok(())
    }
}

/// The variables of a comprehension bound so far, over the enclosing scope.
struct Bound<'a> {
    gens: &'a Gens,
    values: &'a [Value],
    outer: &'a dyn Scope,
}

impl Scope for Bound<'_> {
    fn lookup(&self, name: &str) -> Option<Value> {
        let inner = self.gens.vars.iter().zip(self.values).rev().find(|((n, _), _)| n.node == name);
        inner.map(|(_, v)| v.clone()).or_else(|| self.outer.lookup(name))
    }
    fn names(&self) -> Vec<String> {
        let mut names = self.outer.names();
        names.extend(self.gens.vars.iter().map(|(n, _)| n.node.clone()));
        names
    }
}

/// Returns a scope in which the variables of `gens` are bound to `values`.
pub(crate) fn with_bindings<'a>(
    gens: &'a Gens,
    values: &'a [Value],
    outer: &'a dyn Scope,
) -> impl Scope + 'a {
    Bound { gens, values, outer }
}

fn listed(values: &[Value]) -> String {
    values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
}

fn wrong_kind(span: Span, wanted: &str, got: &Value) -> Fault {
    let kind = match got {
        Value::Int(_) => "an integer",
        Value::Bool(_) => "a truth value",
        Value::Rank(_) => "a rank",
        Value::Alg(_) => "an algorithm",
    };
    arithmetic(span, format!("{wanted} is needed here"), format!("{got} is {kind}"))
}

/// Describes a wrong number of arguments.
pub(crate) fn arguments(name: &str, wanted: usize, got: usize) -> String {
    format!("`{name}` takes {wanted} argument{}, not {got}", if wanted == 1 { "" } else { "s" })
}

fn wrong_count(name: &Ident, got: usize, wanted: usize, decl: Option<&FnDecl>) -> Fault {
    let mut d =
        Diagnostic::error("E006", arguments(&name.node, wanted, got)).primary(name.span, "called here");
    if let Some(decl) = decl {
        d = d.secondary(decl.name.span, "declared here");
    }
    Box::new(d)
}
