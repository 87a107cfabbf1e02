//! Integers: the domain of concrete values, on which [`ConcreteEvaluator`] gives an expression its
//! number, truth value, rank or algorithm.
//!
//! This module owns arithmetic, the limits of recursion and the cache of results. The caller
//! provides the values of names ([`Scope`]), and the library the visible functions ([`Functions`]).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use kbc_diag::{Diagnostic, Span};

use crate::ast::{Expr, Gens};
use crate::evaluator::{Binary, Called, Order, Site, Unary, Values};

pub use crate::evaluator::BUILTINS;
pub use crate::scope::{AlgRef, Fault, Functions, ListScope, Scope, Value, unknown};

/// Greatest nesting of `fn` calls.
pub const MAX_CALL_DEPTH: u32 = 200;
/// Greatest nesting of expressions, calls included.
pub const MAX_NESTING: u32 = 1000;
/// Greatest number of `fn` calls in one evaluation, for example in an expansion.
pub const MAX_CALLS: u64 = 20_000_000;

/// Greatest number of calls that one outermost call may make. A function that calls itself twice
/// makes exponentially many.
pub const MAX_INSIDE: u64 = 20_000;

/// Greatest number of terms of sums, minima and maxima over ranges in one evaluation.
pub const MAX_TERMS: u64 = 20_000_000;

/// Greatest number of cached results; further results are not cached.
const MAX_MEMO: usize = 1 << 18;

/// An evaluator of concrete values.
pub type ConcreteEvaluator<'a> = crate::evaluator::Evaluator<'a, Integers>;

/// Evaluates `expr` once. For many evaluations use an [`ConcreteEvaluator`], which caches
/// results of functions.
///
/// # Errors
/// Returns E005 for an unknown name, E006 for a wrong number of arguments, and E010 for an
/// arithmetic error.
pub fn eval(expr: &Expr, scope: &dyn Scope, functions: &dyn Functions) -> Result<Value, Fault> {
    ConcreteEvaluator::new(functions).eval(expr, scope)
}

fn arithmetic(span: Span, title: impl Into<String>, label: impl Into<String>) -> Fault {
    Box::new(Diagnostic::error("E010", title).primary(span, label))
}

fn overflow(site: &Site<'_>) -> Fault {
    Box::new(
        Diagnostic::error("E010", "integer overflow: a value does not fit in 64 bits")
            .primary(site.span, format!("{} overflows", (site.text)()))
            .help("integers have 64 bits; reorder the expression or guard it with `if`"),
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

/// The domain of concrete values. It caches the results of functions: they are pure, and recursive
/// ones (for example the parent of a rank in a tree) would otherwise take exponential time.
#[derive(Default)]
pub struct Integers {
    calls: Cell<u64>,
    depth: Cell<u32>,
    /// Number of calls since the outermost call began, including it. A call whose result is cached
    /// does not count.
    inside: Cell<u64>,
    nesting: Cell<u32>,
    /// Number of terms of sums, minima and maxima over ranges.
    terms: Cell<u64>,
    memo: RefCell<HashMap<(Span, Vec<Value>), Value>>,
    /// Values of the longest comprehension since this was set to 0.
    pub(crate) longest: Cell<usize>,
}

impl Values for Integers {
    type Value = Value;
    type Number = i64;
    type Truth = bool;
    type Stop = Fault;

    fn integer(&self, i: i64) -> i64 {
        i
    }

    fn constant(&self, b: bool) -> Value {
        Value::Bool(b)
    }

    fn of_number(&self, n: i64) -> Value {
        Value::Int(n)
    }

    fn rank(&self, coordinates: Vec<i64>) -> Value {
        Value::Rank(coordinates.into())
    }

    fn number(&self, v: Value, span: Span) -> Result<i64, Fault> {
        match v {
            Value::Int(i) => Ok(i),
            other => Err(wrong_kind(span, "an integer", &other)),
        }
    }

    fn truth(&self, v: Value, span: Span) -> Result<bool, Fault> {
        match v {
            Value::Bool(b) => Ok(b),
            other => Err(wrong_kind(span, "true or false", &other)),
        }
    }

    fn operand(&self, v: Value, _: Span) -> Result<Value, Fault> {
        Ok(v)
    }

    fn algorithm(&self, a: Arc<AlgRef>) -> Value {
        Value::Alg(a)
    }

    fn as_algorithm(&self, v: &Value) -> Option<Arc<AlgRef>> {
        match v {
            Value::Alg(a) => Some(a.clone()),
            Value::Int(_) | Value::Bool(_) | Value::Rank(_) => None,
        }
    }

    fn flag(&self, v: &Value) -> Option<bool> {
        match v {
            Value::Bool(b) => Some(*b),
            Value::Int(_) | Value::Rank(_) | Value::Alg(_) => None,
        }
    }

    fn show(&self, v: &Value) -> String {
        v.to_string()
    }

    fn not(&self, a: bool, _: Span) -> Result<Value, Fault> {
        Ok(Value::Bool(!a))
    }

    fn unary(&self, op: Unary, a: &i64, site: &Site<'_>) -> Result<Value, Fault> {
        let a = *a;
        let over = || overflow(site);
        let positive = |name: &str| {
            let title = format!("`{name}` of a number that is not positive");
            if a <= 0 { Err(arithmetic(site.span, title, format!("of {a}"))) } else { Ok(()) }
        };
        Ok(Value::Int(match op {
            Unary::Neg => a.checked_neg().ok_or_else(over)?,
            Unary::Log2 => {
                positive("log2")?;
                i64::from(a.ilog2())
            }
            Unary::CeilLog2 => {
                positive("ceil_log2")?;
                i64::from(a.ilog2()) + i64::from(!(a as u64).is_power_of_two())
            }
            Unary::IsPow2 => return Ok(Value::Bool(a > 0 && (a as u64).is_power_of_two())),
            Unary::Abs => a.checked_abs().ok_or_else(over)?,
            Unary::Sign => a.signum(),
            Unary::Popcount if a < 0 => {
                return Err(arithmetic(site.span, "`popcount` of a negative number", format!("of {a}")));
            }
            Unary::Popcount => i64::from(a.count_ones()),
        }))
    }

    fn binary(&self, op: Binary, a: &i64, b: &i64, site: &Site<'_>) -> Result<Value, Fault> {
        let (x, y) = (*a, *b);
        let bad = |title: &str| Err(arithmetic(site.span, title, (site.text)()));
        let value = match op {
            Binary::BitOr => Some(x | y),
            Binary::BitXor => Some(x ^ y),
            Binary::BitAnd => Some(x & y),
            Binary::Shl | Binary::Shr if y < 0 => return bad("a shift by a negative amount"),
            Binary::Shl if y < 63 => x.checked_mul(1 << y),
            Binary::Shl => (x == 0).then_some(0),
            Binary::Shr => Some(x >> y.min(63)),
            Binary::Add => x.checked_add(y),
            Binary::Sub => x.checked_sub(y),
            Binary::Mul => x.checked_mul(y),
            Binary::Div | Binary::Rem if y == 0 => return bad("division by zero"),
            Binary::Div => floor_div(x, y),
            Binary::Rem => floor_rem(x, y),
            Binary::Min => Some(x.min(y)),
            Binary::Max => Some(x.max(y)),
            Binary::Pow if y < 0 => return bad("a negative power"),
            Binary::Pow => match x {
                _ if y == 0 => Some(1),
                0 | 1 => Some(x),
                -1 => Some(if y % 2 == 0 { 1 } else { -1 }),
                _ => u32::try_from(y).ok().and_then(|y| x.checked_pow(y)),
            },
        };
        value.map(Value::Int).ok_or_else(|| overflow(site))
    }

    fn compare(&self, op: Order, a: &i64, b: &i64, _: Span) -> Result<Value, Fault> {
        Ok(Value::Bool(match op {
            Order::Lt => a < b,
            Order::Le => a <= b,
            Order::Gt => a > b,
            Order::Ge => a >= b,
        }))
    }

    fn equal(&self, a: Value, b: Value, wanted: bool, span: Span) -> Result<Value, Fault> {
        if std::mem::discriminant(&a) != std::mem::discriminant(&b) {
            return Err(arithmetic(
                span,
                "a comparison of two values of different kinds",
                format!("{a} and {b}"),
            ));
        }
        Ok(Value::Bool((a == b) == wanted))
    }

    fn connect(&self, or: bool, a: bool, b: bool, _: Span) -> Result<Value, Fault> {
        Ok(Value::Bool(if or { a || b } else { a && b }))
    }

    fn decide(&self, c: &bool) -> Option<bool> {
        Some(*c)
    }

    fn known(&self, n: &i64) -> Option<i64> {
        Some(*n)
    }

    fn undecidable(&self, what: &str, span: Span) -> Fault {
        arithmetic(span, what, "here")
    }

    fn select(&self, c: bool, a: Value, b: Value, _: Span) -> Result<Value, Fault> {
        Ok(if c { a } else { b })
    }

    fn undecided<T>(&self, _: Span, eval: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        eval()
    }

    fn nested(&self, span: Span, eval: impl FnOnce() -> Result<Value, Fault>) -> Result<Value, Fault> {
        let nesting = self.nesting.get();
        if nesting >= MAX_NESTING {
            let title = format!("expressions nest more than {MAX_NESTING} deep");
            return Err(arithmetic(span, title, "here"));
        }
        self.nesting.set(nesting + 1);
        let value = eval();
        self.nesting.set(nesting);
        value
    }

    fn term(&self, span: Span) -> Result<(), Fault> {
        self.terms.set(self.terms.get() + 1);
        if self.terms.get() > MAX_TERMS {
            let title = format!("sums, minima and maxima have more than {MAX_TERMS} terms");
            return Err(arithmetic(span, title, "while this one was evaluated"));
        }
        Ok(())
    }

    fn function(
        &self,
        call: Called<'_, Value>,
        body: impl FnOnce(&[Value]) -> Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        let Called { decl, name, args, span } = call;
        let key = (decl.span, args);
        // Declarations that were not read from a text share one location, so their results must
        // not be cached.
        let keep = !decl.span.is_none();
        if keep && let Some(v) = self.memo.borrow().get(&key) {
            return Ok(v.clone());
        }
        self.calls.set(self.calls.get() + 1);
        // The count starts anew at each outermost call.
        self.inside.set(if self.depth.get() == 0 { 1 } else { self.inside.get() + 1 });
        let many = |title: String| {
            let d = Diagnostic::error("E010", title).primary(span, "while this call was evaluated");
            Box::new(d.help(
                "check the recursion: it may call itself several times without making the arguments smaller",
            ))
        };
        if self.inside.get() > MAX_INSIDE {
            return Err(many(format!("one call made more than {MAX_INSIDE} further calls")));
        }
        if self.calls.get() > MAX_CALLS {
            return Err(many(format!("functions were called more than {MAX_CALLS} times")));
        }
        if self.depth.get() >= MAX_CALL_DEPTH {
            return Err(Box::new(
                Diagnostic::error(
                    "E010",
                    format!("`{}` calls itself more than {MAX_CALL_DEPTH} deep", name.node),
                )
                .primary(span, format!("arguments here: {}", listed(&key.1)))
                .secondary(decl.span, "this function")
                .help("the recursion needs an `if` that ends it for these arguments"),
            ));
        }
        self.depth.set(self.depth.get() + 1);
        let result = body(&key.1);
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
}

impl ConcreteEvaluator<'_> {
    /// Returns the values of the variables of `gens` for every binding that satisfies its
    /// condition, the first variable outermost.
    ///
    /// # Errors
    /// Returns the errors of [`ConcreteEvaluator::eval`], and E040 if the ranges have more than
    /// `limit` values in total, over all variables and before the condition applies.
    pub fn bindings(&self, gens: &Gens, scope: &dyn Scope, limit: usize) -> Result<Vec<Vec<Value>>, Fault> {
        let mut out = vec![];
        let mut steps = 0;
        self.bind(gens, &mut vec![], scope, (&mut steps, limit), &mut out)?;
        self.values.longest.set(self.values.longest.get().max(steps));
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
                        .help("a list is evaluated element by element; for long lists use a part `[i of n]` or a run `[i; k]`"),
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
    arithmetic(span, format!("expected {wanted}"), format!("{got} is {kind}"))
}
