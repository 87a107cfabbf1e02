//! Tensor expressions.
//!
//! This module owns names, numbers and operators. A number becomes part of the elementwise function
//! in which it occurs, so it needs no tensor of its own. Every operator is one operation of the
//! graph: nothing is fused here. [`super::call`] lowers calls.

use super::kernel::{arithmetic, comparison};
use super::locals::Local;
use super::state::{Lowering, Value};
use super::values::ParamValue;
use crate::ast::{Tensor, TensorKind};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::graph::{OpId, OpKind};
use kbc_ir::scalar::{Scalar, ScalarBin, ScalarFn, ScalarUn};
use kbc_rounds::ast::BinaryOp;
use kbc_rounds::eval::unknown;

/// The deepest nesting of expressions across calls. It is larger than the limit for one program
/// ([`crate::parse::MAX_DEPTH`]).
const MAX_NESTING: usize = 600;

impl Lowering<'_> {
    /// Lowers an expression. Returns None if errors were reported.
    pub(super) fn expr(&mut self, t: &Tensor) -> Option<Value> {
        self.depth += 1;
        let value = if self.depth > MAX_NESTING { self.too_deep(t.span) } else { self.value(t) };
        self.depth -= 1;
        value
    }

    /// Reports expressions that are nested too deeply. This only happens to programs that call one
    /// another, because the parser limits each program.
    fn too_deep(&mut self, span: Span) -> Option<Value> {
        let what =
            format!("expressions of programs that call one another nest more than {MAX_NESTING} levels deep");
        if !self.found.list.iter().any(|d| d.code == "E233") {
            let d = Diagnostic::error("E233", what).primary(span, "the limit is exceeded here");
            self.found.push(d.help("use `let` for parts of the expressions"));
        }
        None
    }

    fn value(&mut self, t: &Tensor) -> Option<Value> {
        match &t.kind {
            TensorKind::Name(n) => self.named(n, t.span),
            TensorKind::Int(i) => Some(Value::Number(*i as f64)),
            TensorKind::Float(x) => Some(Value::Number(*x)),
            TensorKind::Tuple(parts) => {
                let parts: Vec<Option<Value>> = parts.iter().map(|p| self.expr(p)).collect();
                parts.into_iter().collect::<Option<Vec<Value>>>().map(Value::Tuple)
            }
            TensorKind::List(_) => {
                self.found.push(
                    Diagnostic::error("E226", "expected a tensor, found a list")
                        .primary(t.span, "this is a list")
                        .help("a list can only be an argument, as in transpose(x, [1, 0]) or reshape(x, [25, 12, 32])"),
                );
                None
            }
            TensorKind::Neg(a) => match self.expr(a)? {
                Value::Number(x) => Some(Value::Number(-x)),
                v => {
                    let body = Scalar::Un(ScalarUn::Neg, Box::new(Scalar::Arg(0)));
                    self.map(function("neg", 1, body), vec![(v, a.span)], t.span)
                }
            },
            TensorKind::Binary(op, a, b) => self.binary(*op, a, b, t.span),
            TensorKind::Call(call) => self.call(call, t.span),
            TensorKind::Index(name, index) => self.index(name, index, t.span),
            TensorKind::If(c, a, b) => match self.cx.truth(c) {
                Ok(true) => self.expr(a),
                Ok(false) => self.expr(b),
                Err(d) => {
                    self.found.push(*d);
                    None
                }
            },
            TensorKind::Block(lets, t) => {
                let before: Vec<String> = self.names.keys().cloned().collect();
                lets.iter().for_each(|l| self.bind(l));
                let value = self.expr(t);
                // Names that the block declares are local to it.
                self.names.retain(|n, _| before.binary_search(n).is_ok());
                value
            }
            TensorKind::Error => None,
        }
    }

    /// Returns the value of a name.
    pub(super) fn named(&mut self, name: &str, span: Span) -> Option<Value> {
        if let Some((value, _)) = self.names.get(name) {
            self.used.insert(name.to_owned());
            return value.clone();
        }
        match self.cx.locals.get(name) {
            Some(Local::Number(v)) => return Some(Value::Number(v.as_f64())),
            Some(Local::Flag(_) | Local::Axis(_)) => {
                let d = Diagnostic::error("E226", format!("`{name}` is neither a tensor nor a number"))
                    .primary(span, "used here as a value")
                    .secondary(self.cx.locals.place(name).unwrap_or(Span::NONE), "declared here");
                self.found.push(d.help("to choose by a flag, write `if causal { a } else { b }`"));
                return None;
            }
            Some(Local::Unbound(fault)) => {
                self.found.push((**fault).clone());
                return None;
            }
            Some(Local::Type(_)) | None => {}
        }
        if let Some(p) = self.cx.params.find(span.file, name) {
            return match self.cx.params.of(p) {
                Ok(ParamValue::Type(t)) => {
                    let d = Diagnostic::error("E226", format!("`{name}` is the element type {t}"));
                    let d = d.primary(span, "used here as a value");
                    self.found.push(d.secondary(p.name.span, "declared here"));
                    None
                }
                Ok(v) => Some(Value::Number(v.as_f64())),
                Err(d) => {
                    self.found.push(*d);
                    None
                }
            };
        }
        let mut valid: Vec<String> = self.names.keys().cloned().collect();
        valid.extend(self.cx.locals.names());
        valid.extend(self.cx.loaded.params(span.file).map(|p| p.name.node.clone()));
        self.found.push(*unknown("E005", "value", name, span, &valid));
        None
    }

    fn binary(&mut self, op: BinaryOp, a: &Tensor, b: &Tensor, span: Span) -> Option<Value> {
        let Some(arith) = arithmetic(op) else {
            if comparison(op).is_some() {
                self.found.push(super::later(
                    span,
                    "comparisons as values are",
                    "write the comparison in `select(a < b, x, y)`, or in a kernel: kernel f(a, b) = if a < b { .. } else { .. }",
                ));
            } else {
                self.found.push(
                    Diagnostic::error("E227", "this operator is not defined for tensors")
                        .primary(span, "tensors support + - * / and comparisons"),
                );
            }
            return None;
        };
        let (va, vb) = (self.expr(a), self.expr(b));
        let (va, vb) = (va?, vb?);
        if let (Value::Number(x), Value::Number(y)) = (&va, &vb) {
            let z = match arith {
                ScalarBin::Add => x + y,
                ScalarBin::Sub => x - y,
                ScalarBin::Mul => x * y,
                _ => x / y,
            };
            if !z.is_finite() {
                self.found.push(
                    Diagnostic::error("E010", "a number is out of range")
                        .primary(span, format!("this is {z}")),
                );
                return None;
            }
            return Some(Value::Number(z));
        }
        // An argument that was not given is 0 and adds nothing.
        if let (false, ScalarBin::Add, Value::Number(0.0)) = (self.calls.is_empty(), arith, &vb) {
            return Some(va);
        }
        let body = Scalar::bin(arith, Scalar::Arg(0), Scalar::Arg(1));
        self.map(function(arith.name(), 2, body), vec![(va, a.span), (vb, b.span)], span)
    }

    /// Appends an elementwise function of values. Numbers among them become part of the function.
    pub(super) fn map(&mut self, f: ScalarFn, args: Vec<(Value, Span)>, span: Span) -> Option<Value> {
        let numbers: Option<Vec<f64>> = args
            .iter()
            .map(|a| match a.0 {
                Value::Number(x) => Some(x),
                _ => None,
            })
            .collect();
        if let Some(x) = numbers.and_then(|numbers| exact(&f.body, &numbers)) {
            return Some(Value::Number(x));
        }
        let mut operands = vec![];
        let mut params = vec![];
        let mut put = vec![];
        for ((value, at), name) in args.into_iter().zip(&f.params) {
            match value {
                Value::Number(x) => put.push(Scalar::Num(x)),
                other => {
                    operands.push(self.tensor(other, at)?);
                    put.push(Scalar::Arg(params.len()));
                    params.push(name.clone());
                }
            }
        }
        if operands.is_empty() {
            self.found.push(
                Diagnostic::error(
                    "E226",
                    format!("`{}` needs a tensor operand, and all operands are numbers", f.name),
                )
                .primary(span, "here")
                .help("write the result as a number"),
            );
            return None;
        }
        let f = ScalarFn { body: f.body.subst(&put), params, name: f.name };
        let name = f.name.clone();
        Some(self.push(OpKind::Map(f), name, &operands, span))
    }

    /// Lowers an expression to a tensor. Returns None if errors were reported.
    pub(super) fn operand(&mut self, t: &Tensor) -> Option<OpId> {
        let v = self.expr(t)?;
        self.tensor(v, t.span)
    }
}

/// Returns the value of a function of numbers if it is the same on every machine, that is, if it
/// uses only operations that IEEE 754 rounds correctly.
fn exact(body: &Scalar, args: &[f64]) -> Option<f64> {
    let value = match body {
        Scalar::Num(x) => *x,
        Scalar::Arg(i) => *args.get(*i)?,
        Scalar::Un(ScalarUn::Neg, a) => -exact(a, args)?,
        Scalar::Un(ScalarUn::Abs, a) => exact(a, args)?.abs(),
        Scalar::Un(ScalarUn::Sqrt, a) => exact(a, args)?.sqrt(),
        Scalar::Un(ScalarUn::Rsqrt, a) => 1.0 / exact(a, args)?.sqrt(),
        Scalar::Bin(op, a, b) => {
            let (a, b) = (exact(a, args)?, exact(b, args)?);
            match op {
                ScalarBin::Add => a + b,
                ScalarBin::Sub => a - b,
                ScalarBin::Mul => a * b,
                ScalarBin::Div => a / b,
                _ => return None,
            }
        }
        _ => return None,
    };
    value.is_finite().then_some(value)
}

/// Returns a function with parameters x, y, z, w.
pub(super) fn function(name: &str, params: usize, body: Scalar) -> ScalarFn {
    ScalarFn {
        name: name.into(),
        params: ["x", "y", "z", "w"].into_iter().take(params).map(Name::from).collect(),
        body,
    }
}
