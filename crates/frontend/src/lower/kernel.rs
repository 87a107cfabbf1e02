//! Elementwise kernels: lowers scalar expressions to functions of the IR.
//!
//! This module owns the functions that a scalar expression may call, and inlines called kernels.
//! Numbers keep their written value; evaluation defines the rounding.

use super::locals::{Local, Locals};
use super::params::Params;
use super::values::ParamValue;
use crate::ast::KernelDecl;
use crate::loaded::{Callable, Loaded};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_ir::scalar::{Compare, CompareOp, Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_ir::types::DType;
use kbc_rounds::ast::{BinaryOp, Expr, ExprKind, FoldOp, Gens, Ident, UnaryOp};
use kbc_rounds::eval::{Fault, unknown};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The largest number of operations of a kernel, including the kernels that it calls, and the
/// largest nesting depth. `.kir` can hold no more.
pub(super) const MAX_OPERATIONS: usize = 1500;
const MAX_DEPTH: usize = 200;

/// The largest exponent of `pow_int`, which takes that many multiplications.
pub(super) const MAX_EXPONENT: i64 = 64;

/// Scalar functions that have more than one operand, or operands that are not values.
pub(super) const FUNCTIONS: [&str; 5] = ["min", "max", "select", "pow_int", "cast"];

/// Returns whether a name is a scalar function of the language.
pub(super) fn is_function(name: &str) -> bool {
    ScalarUn::parse(name).is_some() || FUNCTIONS.contains(&name)
}

/// Returns the comparison for an operator.
pub(super) fn comparison(op: BinaryOp) -> Option<CompareOp> {
    Some(match op {
        BinaryOp::Eq => CompareOp::Eq,
        BinaryOp::Ne => CompareOp::Ne,
        BinaryOp::Lt => CompareOp::Lt,
        BinaryOp::Le => CompareOp::Le,
        BinaryOp::Gt => CompareOp::Gt,
        BinaryOp::Ge => CompareOp::Ge,
        _ => return None,
    })
}

/// Returns the arithmetic operation for an operator.
pub(super) fn arithmetic(op: BinaryOp) -> Option<ScalarBin> {
    Some(match op {
        BinaryOp::Add => ScalarBin::Add,
        BinaryOp::Sub => ScalarBin::Sub,
        BinaryOp::Mul => ScalarBin::Mul,
        BinaryOp::Div => ScalarBin::Div,
        _ => return None,
    })
}

/// Returns the message for a wrong number of arguments.
pub(super) fn wrong_count(name: &Ident, wanted: usize, got: usize, declared: Span) -> Diagnostic {
    let s = if wanted == 1 { "" } else { "s" };
    Diagnostic::error("E006", format!("`{}` takes {wanted} argument{s}, not {got}", name.node))
        .primary(name.span, "called here")
        .secondary(declared, "declared here")
}

/// The kernels of a run. Each is lowered once.
pub(super) struct Kernels<'a> {
    loaded: &'a Loaded,
    params: &'a Params<'a>,
    /// The lowered kernels by the place of their name. None if errors were reported.
    made: RefCell<BTreeMap<Span, Option<ScalarFn>>>,
}

impl<'a> Kernels<'a> {
    pub fn new(loaded: &'a Loaded, params: &'a Params<'a>) -> Self {
        Kernels { loaded, params, made: RefCell::default() }
    }

    /// Returns the function of a kernel, or None if errors were reported. Errors are reported once.
    pub fn get(&self, decl: &KernelDecl, found: &mut Diagnostics) -> Option<ScalarFn> {
        self.make(decl, &mut vec![], found)
    }

    fn make(&self, decl: &KernelDecl, calls: &mut Vec<Span>, found: &mut Diagnostics) -> Option<ScalarFn> {
        if let Some(made) = self.made.borrow().get(&decl.name.span) {
            return made.clone();
        }
        calls.push(decl.name.span);
        // Callees are lowered first, so that a chain of kernels does not cause deep recursion
        // through expressions.
        let mut called = vec![];
        callees(&decl.body, &mut called);
        for name in called {
            if let Some(Callable::Kernel(k)) = self.loaded.callable(name.span.file, &name.node)
                && !calls.contains(&k.name.span)
                && calls.len() < MAX_DEPTH
            {
                self.make(k, calls, found);
            }
        }
        let mut constants = Locals::default();
        decl.params.iter().for_each(|p| constants.set(&p.node, unknown_value(p), p.span));
        let mut body = Body { kernels: self, decl, calls, found, operations: 0, lets: vec![], constants };
        let made = body.function();
        calls.pop();
        self.made.borrow_mut().insert(decl.name.span, made.clone());
        made
    }
}

struct Body<'b, 'a> {
    kernels: &'b Kernels<'a>,
    decl: &'b KernelDecl,
    /// The places of the names of the kernels whose bodies are being lowered.
    calls: &'b mut Vec<Span>,
    found: &'b mut Diagnostics,
    operations: usize,
    /// The values of the names that `let`s and ranges declare, the innermost last. None if errors
    /// were reported.
    lets: Vec<(&'b str, Option<Scalar>)>,
    /// The same names and the parameters of the kernel, for expressions that must be known when kbc
    /// compiles.
    constants: Locals,
}

impl<'b> Body<'b, '_> {
    fn function(&mut self) -> Option<ScalarFn> {
        let decl: &'b KernelDecl = self.decl;
        let params = &decl.params;
        let mut sound = true;
        for (i, p) in params.iter().enumerate() {
            if let Some(first) = params[..i].iter().find(|o| o.node == p.node) {
                self.found.push(
                    Diagnostic::error("E004", format!("`{}` is declared twice", p.node))
                        .primary(p.span, "again here")
                        .secondary(first.span, "first here")
                        .help("choose another name"),
                );
                sound = false;
            }
        }
        let body = self.scalar(&decl.body)?;
        if self.operations > MAX_OPERATIONS || depth(&body) > MAX_DEPTH {
            self.too_large();
            return None;
        }
        let names = params.iter().map(|p| Name::from(&p.node)).collect();
        sound.then(|| ScalarFn { name: Name::from(&self.decl.name.node), params: names, body })
    }

    fn fault(&mut self, d: Diagnostic) -> Option<Scalar> {
        self.found.push(d);
        None
    }

    /// Lowers an expression. Returns None if errors were reported. All operands are visited, so
    /// that the errors of each are reported.
    fn scalar(&mut self, e: &'b Expr) -> Option<Scalar> {
        self.operations += 1;
        match &e.kind {
            ExprKind::Int(i) => Some(Scalar::Num(*i as f64)),
            ExprKind::Float(x) => Some(Scalar::Num(*x)),
            ExprKind::Name(n) => self.name(n, e),
            ExprKind::Call(name, args) => self.call(name, args),
            ExprKind::Unary(UnaryOp::Neg, a) => Some(match self.scalar(a)? {
                Scalar::Num(x) => Scalar::Num(-x),
                a => Scalar::Un(ScalarUn::Neg, Box::new(a)),
            }),
            ExprKind::Binary(op, a, b) => match arithmetic(*op) {
                Some(op) => {
                    let (a, b) = (self.scalar(a), self.scalar(b));
                    Some(Scalar::bin(op, a?, b?))
                }
                None => self.not_scalar(e),
            },
            ExprKind::If(c, a, b) => {
                let (c, a, b) = (self.condition(c), self.scalar(a), self.scalar(b));
                Some(Scalar::If(Box::new(c?), Box::new(a?), Box::new(b?)))
            }
            ExprKind::Let(lets, e) => {
                let outer = (self.lets.len(), self.constants.clone());
                for (name, value) in lets {
                    let value = self.scalar(value);
                    self.declare(name, value);
                }
                let value = self.scalar(e);
                self.lets.truncate(outer.0);
                self.constants = outer.1;
                value
            }
            ExprKind::Fold(op, term, gens) => {
                let mut terms = vec![];
                let outer = self.constants.clone();
                let sound = self.terms(term, gens, 0, &mut terms);
                self.constants = outer;
                sound?;
                let join = match op {
                    FoldOp::Sum => ScalarBin::Add,
                    FoldOp::Min => ScalarBin::Min,
                    FoldOp::Max => ScalarBin::Max,
                };
                match (terms.into_iter().reduce(|a, b| Scalar::bin(join, a, b)), op) {
                    (Some(all), _) => Some(all),
                    (None, FoldOp::Sum) => Some(Scalar::Num(0.0)),
                    (None, FoldOp::Min | FoldOp::Max) => self.fault(
                        Diagnostic::error("E010", format!("`{}` of nothing", op.word()))
                            .primary(e.span, "no values are in these ranges"),
                    ),
                }
            }
            ExprKind::Error => None,
            ExprKind::Bool(_) | ExprKind::Tuple(_) | ExprKind::Unary(UnaryOp::Not, _) => self.not_scalar(e),
        }
    }

    /// Declares a name for what follows.
    fn declare(&mut self, name: &'b Ident, value: Option<Scalar>) {
        let constant = match &value {
            Some(Scalar::Num(x)) if x.fract() == 0.0 && x.abs() < 2f64.powi(53) => {
                Local::Number(ParamValue::Int(*x as i64))
            }
            Some(Scalar::Num(x)) => Local::Number(ParamValue::Float(*x)),
            _ => unknown_value(name),
        };
        self.constants.set(&name.node, constant, name.span);
        self.lets.push((&name.node, value));
    }

    /// Lowers the terms of a sum, minimum or maximum for all values of the variables of `gens` from
    /// number `at` on. Returns None if errors were reported.
    fn terms(&mut self, term: &'b Expr, gens: &'b Gens, at: usize, out: &mut Vec<Scalar>) -> Option<()> {
        let params = self.kernels.params;
        let known =
            |value: Result<i64, Fault>, found: &mut Diagnostics| value.map_err(|d| found.push(*d)).ok();
        let Some((name, range)) = gens.vars.get(at) else {
            let kept = match gens.cond.as_ref().map(|c| params.truth_in(c, &self.constants)).transpose() {
                Ok(kept) => kept.unwrap_or(true),
                Err(d) => {
                    self.found.push(*d);
                    return None;
                }
            };
            if kept {
                out.push(self.scalar(term)?);
            }
            return Some(());
        };
        let lo = known(params.int_in(&range.lo, &self.constants), self.found)?;
        let hi = known(params.int_in(&range.hi, &self.constants), self.found)?;
        for i in lo..hi {
            self.operations += 1;
            if self.operations > MAX_OPERATIONS {
                self.too_large();
                return None;
            }
            self.declare(name, Some(Scalar::Num(i as f64)));
            let sound = self.terms(term, gens, at + 1, out);
            self.lets.pop();
            sound?;
        }
        Some(())
    }

    fn not_scalar(&mut self, e: &Expr) -> Option<Scalar> {
        let what = match &e.kind {
            ExprKind::Binary(op, ..) if comparison(*op).is_some() => "a comparison is not a number",
            ExprKind::Bool(_) => "a truth value is not a number",
            ExprKind::Tuple(_) => "a tuple is not a number",
            _ => "this operator needs integers or truth values",
        };
        self.fault(
            Diagnostic::error("E227", "a kernel cannot compute this")
                .primary(e.span, what)
                .help("kernels support + - * /, the elementwise functions, and `if a < b { x } else { y }`"),
        )
    }

    fn condition(&mut self, e: &'b Expr) -> Option<Compare> {
        let (op, a, b) = match &e.kind {
            ExprKind::Binary(op, a, b) => (comparison(*op), a, b),
            ExprKind::Error => return None,
            _ => {
                self.no_condition(e);
                return None;
            }
        };
        let Some(op) = op else {
            self.no_condition(e);
            return None;
        };
        let (a, b) = (self.scalar(a), self.scalar(b));
        Some(Compare { op, a: a?, b: b? })
    }

    fn no_condition(&mut self, e: &Expr) {
        self.found.push(
            Diagnostic::error("E227", "a condition in a kernel must be one comparison")
                .primary(e.span, "this is not a comparison")
                .help("write `a < b` (or <= > >= == !=); nest `if` for `and` and `or`"),
        );
    }

    fn name(&mut self, name: &str, e: &Expr) -> Option<Scalar> {
        if let Some((_, value)) = self.lets.iter().rev().find(|l| l.0 == name) {
            let value = value.clone()?;
            self.operations = self.operations.saturating_add(size(&value, &[]));
            return if self.operations > MAX_OPERATIONS { self.too_large() } else { Some(value) };
        }
        if let Some(i) = self.decl.params.iter().position(|p| p.node == *name) {
            return Some(Scalar::Arg(i));
        }
        let file = e.span.file;
        match self.kernels.params.find(file, name) {
            Some(p) => match self.kernels.params.of(p) {
                Ok(ParamValue::Type(t)) => {
                    let d = Diagnostic::error("E226", format!("`{name}` is the element type {t}"));
                    self.fault(d.primary(e.span, "used here as a value"))
                }
                Ok(v) => Some(Scalar::Num(v.as_f64())),
                Err(d) => self.fault(*d),
            },
            None => {
                let mut valid: Vec<String> = self.decl.params.iter().map(|p| p.node.clone()).collect();
                valid.extend(self.lets.iter().map(|l| l.0.to_owned()));
                valid.extend(self.kernels.loaded.params(file).map(|p| p.name.node.clone()));
                self.fault(*unknown("E005", "name", name, e.span, &valid))
            }
        }
    }

    fn call(&mut self, name: &'b Ident, args: &'b [Expr]) -> Option<Scalar> {
        let word = name.node.as_str();
        if word == "cast" || DType::parse(word).is_some() {
            return self.fault(super::later(
                name.span,
                "a cast inside an elementwise kernel is",
                "cast the tensor before or after the kernel: f16(gelu(f32(x)))",
            ));
        }
        let fixed =
            |wanted: usize| (args.len() != wanted).then(|| wrong_count(name, wanted, args.len(), Span::NONE));
        if let Some(f) = ScalarUn::parse(word) {
            let bad = fixed(1);
            let a = args.first().and_then(|a| self.scalar(a));
            return match bad {
                Some(d) => self.fault(d),
                None => Some(Scalar::Un(f, Box::new(a?))),
            };
        }
        match word {
            "min" | "max" => {
                let op = if word == "min" { ScalarBin::Min } else { ScalarBin::Max };
                let all: Vec<Option<Scalar>> = args.iter().map(|a| self.scalar(a)).collect();
                if args.len() < 2 {
                    return self.fault(wrong_count(name, 2, args.len(), Span::NONE));
                }
                let all: Option<Vec<Scalar>> = all.into_iter().collect();
                all?.into_iter().reduce(|a, b| Scalar::bin(op, a, b))
            }
            "select" => {
                let [c, a, b] = args else { return self.fault(wrong_count(name, 3, args.len(), Span::NONE)) };
                let (c, a, b) = (self.condition(c), self.scalar(a), self.scalar(b));
                Some(Scalar::If(Box::new(c?), Box::new(a?), Box::new(b?)))
            }
            "pow_int" => {
                let [x, n] = args else { return self.fault(wrong_count(name, 2, args.len(), Span::NONE)) };
                let x = self.scalar(x);
                let n = self.exponent(n);
                Some(Scalar::Pow(Box::new(x?), n?))
            }
            _ => self.kernel(name, args),
        }
    }

    fn exponent(&mut self, e: &Expr) -> Option<u32> {
        match self.kernels.params.int_in(e, &self.constants) {
            Ok(n) => match checked_exponent(n, e.span) {
                Ok(n) => Some(n),
                Err(d) => {
                    self.found.push(d);
                    None
                }
            },
            Err(d) => {
                self.found.push(*d);
                None
            }
        }
    }

    fn kernel(&mut self, name: &'b Ident, args: &'b [Expr]) -> Option<Scalar> {
        let values: Vec<Option<Scalar>> = args.iter().map(|a| self.scalar(a)).collect();
        let file = name.span.file;
        let decl = match self.kernels.loaded.callable(file, &name.node) {
            Some(Callable::Kernel(k)) => k,
            Some(other) => {
                return self.fault(
                    Diagnostic::error("E227", format!("`{}` is not an elementwise kernel", name.node))
                        .primary(name.span, "a kernel can call only functions and elementwise kernels")
                        .secondary(other.name().span, "declared here"),
                );
            }
            None => {
                if let Some(d) = self.kernels.loaded.unknown_in_space("kernel", name) {
                    return self.fault(d);
                }
                let mut valid: Vec<String> = ScalarUn::ALL.iter().map(|f| f.name().to_owned()).collect();
                valid.extend(["min", "max", "select", "pow_int"].map(str::to_owned));
                valid.extend(self.kernels.loaded.callables(file).filter_map(|c| match c {
                    Callable::Kernel(k) => Some(k.name.node.clone()),
                    _ => None,
                }));
                return self.fault(*unknown("E005", "function or kernel", &name.node, name.span, &valid));
            }
        };
        if decl.params.len() != args.len() {
            return self.fault(wrong_count(name, decl.params.len(), args.len(), decl.name.span));
        }
        if self.calls.contains(&decl.name.span) {
            return self.fault(
                Diagnostic::error("E222", format!("kernel `{}` calls itself", decl.name.node))
                    .primary(name.span, "called here")
                    .secondary(decl.name.span, "from within this kernel")
                    .help("kernels are inlined, so a recursive call would never end"),
            );
        }
        let Some(callee) = self.kernels.made.borrow().get(&decl.name.span).cloned() else {
            self.too_large();
            return None;
        };
        let callee = callee?;
        let values: Option<Vec<Scalar>> = values.into_iter().collect();
        let values = values?;
        let sizes: Vec<usize> = values.iter().map(|v| size(v, &[])).collect();
        self.operations = self.operations.saturating_add(size(&callee.body, &sizes));
        if self.operations > MAX_OPERATIONS {
            return self.too_large();
        }
        Some(callee.body.subst(&values))
    }

    fn too_large(&mut self) -> Option<Scalar> {
        self.fault(
            Diagnostic::error("E228", format!("kernel `{}` is too large", self.decl.name.node))
                .primary(
                    self.decl.name.span,
                    format!(
                        "together with the kernels it calls it has more than {MAX_OPERATIONS} operations or nests more than {MAX_DEPTH} levels deep"
                    ),
                )
                .help("split it into two kernels and call them one after the other in the program"),
        )
    }
}

/// Returns what a name means in an expression that must be known when kbc compiles, if its value is
/// known only when the kernel runs.
fn unknown_value(name: &Ident) -> Local {
    Local::Unbound(Box::new(
        Diagnostic::error("E227", format!("the value of `{}` is not known when kbc compiles", name.node))
            .primary(name.span, "a range or an exponent uses this name")
            .help("ranges and exponents in a kernel are numbers or parameters of the file"),
    ))
}

/// Collects the names that an expression calls.
fn callees<'e>(e: &'e Expr, out: &mut Vec<&'e Ident>) {
    if let ExprKind::Call(name, _) = &e.kind {
        out.push(name);
    }
    e.parts().into_iter().for_each(|e| callees(e, out));
}

/// Returns an exponent of `pow_int` if it is in range.
pub(super) fn checked_exponent(n: i64, span: Span) -> Result<u32, Diagnostic> {
    match u32::try_from(n) {
        Ok(k) if n <= MAX_EXPONENT => Ok(k),
        _ => Err(Diagnostic::error("E227", format!("the exponent {n} of `pow_int` is out of range"))
            .primary(span, format!("exponents range from 0 to {MAX_EXPONENT}"))
            .help("for other powers write exp(y * log(x))")),
    }
}

/// Returns the number of operations of an expression if its parameters are replaced by expressions
/// of the given sizes.
pub(super) fn size(e: &Scalar, args: &[usize]) -> usize {
    let all = |parts: &[&Scalar]| parts.iter().fold(1usize, |n, e| n.saturating_add(size(e, args)));
    match e {
        Scalar::Num(_) => 1,
        Scalar::Arg(i) => args.get(*i).copied().unwrap_or(1),
        Scalar::Un(_, a) | Scalar::Pow(a, _) => all(&[a]),
        Scalar::Bin(_, a, b) => all(&[a, b]),
        Scalar::If(c, a, b) => all(&[&c.a, &c.b, a, b]),
    }
}

/// Returns the nesting depth of an expression.
fn depth(e: &Scalar) -> usize {
    1 + match e {
        Scalar::Num(_) | Scalar::Arg(_) => 0,
        Scalar::Un(_, a) | Scalar::Pow(a, _) => depth(a),
        Scalar::Bin(_, a, b) => depth(a).max(depth(b)),
        Scalar::If(c, a, b) => depth(&c.a).max(depth(&c.b)).max(depth(a)).max(depth(b)),
    }
}
