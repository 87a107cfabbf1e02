//! Calls in tensor expressions: operations, functions, casts and kernels.
//!
//! This module owns the list of operations, their arguments, and the messages about operations that
//! do not exist. [`super::collective`] and [`super::contract_collectives`] lower explicit
//! collectives.

use super::arguments::{Arguments, cannot, count_args, missing};
use super::kernel::{checked_exponent, comparison};
use super::state::{Lowering, Value};
use super::tensor::function;
use crate::ast::{Call, OptionValue, Tensor, TensorKind};
use crate::loaded::Callable;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::graph::{CollKind, OpKind};
use kbc_ir::scalar::{Compare, Scalar, ScalarBin, ScalarUn};
use kbc_ir::types::{DType, ReduceOp};
use kbc_rounds::CollId;
use kbc_rounds::ast::{Expr, ExprKind};
use kbc_rounds::eval::unknown;

/// Operations that are neither scalar functions nor casts.
pub(super) const OPERATIONS: [&str; 26] = [
    "matmul",
    "grouped_matmul",
    "embedding",
    "sum",
    "mean",
    "prod",
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "shift",
    "permute",
    "send_recv",
    "barrier",
    "select",
    "transpose",
    "reshape",
    "slice",
    "pad",
    "concat",
    "iota",
    "full",
];

/// Operations that a program does not have, with what to write instead.
const LATER: [(&str, &str); 1] = [(
    "wait",
    "in a program, a collective's result can be used at once; only a `local program` has pending results",
)];

impl Lowering<'_> {
    /// Returns the value of a call, or None if errors were reported.
    pub(super) fn call(&mut self, call: &Call, span: Span) -> Option<Value> {
        let word = call.name.node.as_str();
        if let Some(done) = self.local_call(call, span) {
            return done;
        }
        match self.cx.loaded.callable(call.name.span.file, word) {
            Some(Callable::Kernel(decl)) => {
                let f = self.cx.kernels.get(decl, &mut self.found);
                let sound = Arguments::new(call).finish(&mut self.found);
                let args = self.values(&call.args);
                let right = count_args(call, decl.params.len(), decl.name.span, &mut self.found);
                return if right && sound { self.map(f?, args?, span) } else { None };
            }
            Some(Callable::Tile(decl)) => return self.call_tiles(decl, call, span),
            Some(Callable::Program(decl)) => return self.call_program(decl, call),
            Some(Callable::Local(decl)) => {
                self.found.push(
                    Diagnostic::error("E548", format!("`{word}` is a local program, which cannot be called"))
                        .primary(
                            call.name.span,
                            "in a local program, arguments and results differ from rank to rank",
                        )
                        .secondary(decl.name.span, "declared here")
                        .help("call a `program` instead: it is inlined"),
                );
                return None;
            }
            None => {}
        }
        if let Some(dtype) = self.cx.element_type(&call.name) {
            if let (false, [arg]) = (self.calls.is_empty(), &call.args[..])
                && let Some(Value::Number(x)) = self.absent(arg)
            {
                return Some(Value::Number(x));
            }
            let x = self.one_operand(call)?;
            // In a called program, the value may already have that type, depending on the call.
            if !self.calls.is_empty() && self.dtype_of(x) == Some(dtype) {
                return Some(Value::Tensor(x));
            }
            return Some(self.push(OpKind::Cast(dtype), word.into(), &[x], span));
        }
        if let Some(kind) = CollKind::parse(word).filter(|k| *k != CollKind::Slice) {
            return self.collective(kind, call, span);
        }
        if let Some(f) = ScalarUn::parse(word) {
            let sound = Arguments::new(call).finish(&mut self.found);
            let args = self.values(&call.args);
            let right = count_args(call, 1, Span::NONE, &mut self.found);
            let body = Scalar::Un(f, Box::new(Scalar::Arg(0)));
            return if right && sound { self.map(function(word, 1, body), args?, span) } else { None };
        }
        match word {
            "matmul" => self.matmul(call, span),
            "grouped_matmul" => self.grouped(call, span),
            "embedding" => self.embedding(call, span),
            "sum" | "mean" | "prod" => self.reduction(call, span),
            // `max(x, dim: 1)` is a reduction, and `max(x, y)` is elementwise.
            "min" | "max" if call.args.len() == 1 => self.reduction(call, span),
            "min" | "max" => self.least(call, span),
            "select" => self.select(call, span),
            "pow_int" => self.power(call, span),
            "shift" | "permute" | "send_recv" => self.moving(call, span),
            "transpose" | "reshape" | "slice" | "pad" | "concat" => self.shape(call, span),
            "iota" | "full" => self.fill(call, span),
            _ => match self.cx.library.find_collective(call.name.span.file, word, call.name.span) {
                Ok(coll) => match self.operation_of(coll, word) {
                    None => self.own_collective(coll, call, span),
                    Some(word) => {
                        let what = format!("an operation with a namespace, `{}`, is", call.name.node);
                        self.found.push(super::later(call.name.span, &what, &format!("write `{word}(..)`")));
                        None
                    }
                },
                Err(_) => {
                    self.no_such_operation(call);
                    None
                }
            },
        }
    }

    /// Returns the operation for a collective of the library that is called with its namespace. Its
    /// arguments are those of the operation, and not those of a collective that a file declares.
    fn operation_of<'w>(&self, coll: CollId, word: &'w str) -> Option<&'w str> {
        let library = self.cx.library;
        let (_, last) = word.rsplit_once('.')?;
        let operation = CollKind::parse(last).is_some() || OPERATIONS.contains(&last);
        (operation && library.is_builtin(library.collective_name(coll).span.file)).then_some(last)
    }

    /// Returns the number that replaces an argument that was not given. It has no element type.
    fn absent(&self, arg: &Tensor) -> Option<Value> {
        let TensorKind::Name(n) = &arg.kind else { return None };
        self.names.get(n)?.0.clone().filter(|v| matches!(v, Value::Number(_)))
    }

    fn no_such_operation(&mut self, call: &Call) {
        let word = call.name.node.as_str();
        if let Some(d) = self.cx.loaded.unknown_in_space("kernel, program or collective", &call.name) {
            self.found.push(d);
            return;
        }
        // Errors inside the arguments are reported, too. Bare names and lists are skipped, because
        // they may be words of the operation.
        for arg in call.args.iter().filter(|a| !matches!(a.kind, TensorKind::Name(_) | TensorKind::List(_))) {
            self.expr(arg);
        }
        if let Some((_, instead)) = LATER.iter().find(|l| l.0 == word) {
            self.found.push(super::later(call.name.span, &format!("the operation `{word}` is"), instead));
            return;
        }
        let instead = crate::newcomers::operation(word);
        let mut valid: Vec<String> = OPERATIONS.iter().map(|&o| o.to_owned()).collect();
        valid.extend(ScalarUn::ALL.iter().map(|f| f.name().to_owned()));
        valid.extend(["min", "max", "pow_int"].map(str::to_owned));
        valid.extend(DType::ALL.iter().map(|d| d.name().to_owned()));
        valid.extend(self.cx.loaded.callables(call.name.span.file).map(|c| c.name().node.clone()));
        let library = self.cx.library;
        valid.extend(library.collectives().map(|c| library.collective_name(c).node.clone()));
        let mut d = *unknown("E005", "operation or kernel", word, call.name.span, &valid);
        if let Some(instead) = instead {
            d = d.help(instead);
        }
        self.found.push(d);
    }

    /// Returns the values of arguments with their places. All of them are visited. Returns None if
    /// errors were reported.
    fn values(&mut self, args: &[Tensor]) -> Option<Vec<(Value, Span)>> {
        let all: Vec<Option<(Value, Span)>> = args.iter().map(|a| Some((self.expr(a)?, a.span))).collect();
        all.into_iter().collect()
    }

    /// Returns the operand of an operation that takes one tensor and no named arguments.
    fn one_operand(&mut self, call: &Call) -> Option<kbc_ir::graph::OpId> {
        let sound = Arguments::new(call).finish(&mut self.found);
        let x = call.args.first().and_then(|a| self.operand(a));
        let right = count_args(call, 1, Span::NONE, &mut self.found);
        x.filter(|_| right && sound)
    }

    fn matmul(&mut self, call: &Call, span: Span) -> Option<Value> {
        let mut named = Arguments::new(call);
        let mut accumulate_f32 = false;
        if let Some(n) = named.take("accumulate") {
            match &n.value {
                OptionValue::Expr(Expr { kind: ExprKind::Name(w), .. }) if w == "f32" => {
                    accumulate_f32 = true
                }
                _ => self.found.push(cannot(n, "f32")),
            }
        }
        let sound = named.finish(&mut self.found);
        let operands: Vec<Option<_>> = call.args.iter().map(|a| self.operand(a)).collect();
        let right = count_args(call, 2, Span::NONE, &mut self.found);
        let operands = operands.into_iter().collect::<Option<Vec<_>>>()?;
        (right && sound)
            .then(|| self.push(OpKind::Matmul { accumulate_f32 }, "matmul".into(), &operands, span))
    }

    /// Lowers `embedding(w, ids)`.
    fn embedding(&mut self, call: &Call, span: Span) -> Option<Value> {
        let sound = Arguments::new(call).finish(&mut self.found);
        let operands: Vec<Option<_>> = call.args.iter().map(|a| self.operand(a)).collect();
        let right = count_args(call, 2, Span::NONE, &mut self.found);
        let operands = operands.into_iter().collect::<Option<Vec<_>>>()?;
        (right && sound).then(|| self.push(OpKind::Embedding, "embedding".into(), &operands, span))
    }

    fn reduction(&mut self, call: &Call, span: Span) -> Option<Value> {
        let word = call.name.node.as_str();
        let mut named = Arguments::new(call);
        let x = call.args.first().and_then(|a| self.operand(a));
        let rank = x.and_then(|x| self.rank_of(x));
        let dim = match named.take("dim") {
            Some(n) => self.cx.dimension(n, rank, &mut self.found),
            None => {
                self.found.push(missing(
                    call,
                    "dim",
                    &format!("{word}(x, dim: 0), with one call per dimension"),
                ));
                None
            }
        };
        let keep = match named.take("keep") {
            Some(n) => self.cx.flag(n, &mut self.found),
            None => Some(false),
        };
        let sound = named.finish(&mut self.found);
        let right = count_args(call, 1, Span::NONE, &mut self.found);
        let mean = word == "mean";
        let op = if mean { Some(ReduceOp::Sum) } else { ReduceOp::parse(word) };
        let kind = OpKind::ReduceDim { op: op?, mean, dim: dim?, keep: keep? };
        let x = x?;
        (right && sound).then(|| self.push(kind, word.into(), &[x], span))
    }

    /// Lowers `min` and `max` of two or more operands.
    fn least(&mut self, call: &Call, span: Span) -> Option<Value> {
        let sound = Arguments::new(call).finish(&mut self.found);
        let values = self.values(&call.args);
        if call.args.len() < 2 {
            self.found.push(super::kernel::wrong_count(&call.name, 2, call.args.len(), Span::NONE));
            return None;
        }
        let op = ScalarBin::parse(&call.name.node)?;
        let mut rest = values?.into_iter();
        let (mut so_far, mut at) = rest.next()?;
        for (value, place) in rest {
            so_far = match (&so_far, &value) {
                (Value::Number(x), Value::Number(y)) => {
                    Value::Number(if op == ScalarBin::Min { x.min(*y) } else { x.max(*y) })
                }
                _ => {
                    let body = Scalar::bin(op, Scalar::Arg(0), Scalar::Arg(1));
                    self.map(function(op.name(), 2, body), vec![(so_far, at), (value, place)], span)?
                }
            };
            at = at.to(place);
        }
        sound.then_some(so_far)
    }

    /// Lowers `select(a < b, x, y)`.
    fn select(&mut self, call: &Call, span: Span) -> Option<Value> {
        let sound = Arguments::new(call).finish(&mut self.found);
        if !count_args(call, 3, Span::NONE, &mut self.found) {
            return None;
        }
        let [c, x, y] = &call.args[..] else { return None };
        let condition = match &c.kind {
            TensorKind::Binary(op, a, b) => comparison(*op).map(|op| (op, a, b)),
            _ => None,
        };
        let Some((op, a, b)) = condition else {
            self.found.push(
                Diagnostic::error("E227", "the condition of `select` must be one comparison")
                    .primary(c.span, "this is not a comparison")
                    .help("write select(a < b, x, y)"),
            );
            return None;
        };
        let values: Vec<Option<(Value, Span)>> =
            [&**a, &**b, x, y].into_iter().map(|t| Some((self.expr(t)?, t.span))).collect();
        let values = values.into_iter().collect::<Option<Vec<_>>>()?;
        let body = Scalar::If(
            Box::new(Compare { op, a: Scalar::Arg(0), b: Scalar::Arg(1) }),
            Box::new(Scalar::Arg(2)),
            Box::new(Scalar::Arg(3)),
        );
        if sound { self.map(function("select", 4, body), values, span) } else { None }
    }

    /// Lowers `pow_int(x, 3)`.
    fn power(&mut self, call: &Call, span: Span) -> Option<Value> {
        let sound = Arguments::new(call).finish(&mut self.found);
        if !count_args(call, 2, Span::NONE, &mut self.found) {
            return None;
        }
        let values = self.values(&call.args)?;
        let [(x, at), (n, exponent)] = &values[..] else { return None };
        let Value::Number(n) = n else {
            self.found.push(
                Diagnostic::error("E227", "the exponent of `pow_int` must be an integer")
                    .primary(*exponent, "this is a tensor"),
            );
            return None;
        };
        let whole = if n.fract() == 0.0 && n.abs() < 1e9 { *n as i64 } else { -1 };
        match checked_exponent(whole, *exponent) {
            Ok(n) => {
                let body = Scalar::Pow(Box::new(Scalar::Arg(0)), n);
                if sound {
                    self.map(function("pow_int", 1, body), vec![(x.clone(), *at)], span)
                } else {
                    None
                }
            }
            Err(d) => {
                self.found.push(d);
                None
            }
        }
    }

    /// Returns a name for the value of an operation.
    pub(super) fn named_after(&self, call: &Call) -> Name {
        Name::from(&call.name.node)
    }
}
