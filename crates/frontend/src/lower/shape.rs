//! Operations that move elements: `transpose(x, [1, 0])`, `reshape(x, [25, 12, 32])`, `slice(x,
//! dim: 0, from: 2, to: 5)`, `pad(x, dim: 0, before: 1, after: 2)`, `concat(a, b, dim: 0)`.
//!
//! This module owns their arguments. `infer` checks whether they fit the operand.

use super::arguments::{Arguments, count_args, missing};
use super::state::{Lowering, Value};
use crate::ast::{Call, TensorKind};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::graph::{OpId, OpKind};
use kbc_ir::shape::ShapeOp;

/// The largest number of operands of a concat. A graph stores operand positions in one byte.
const MAX_OPERANDS: usize = 255;

impl Lowering<'_> {
    /// Lowers such a call. Returns None if errors were reported.
    pub(super) fn shape(&mut self, call: &Call, span: Span) -> Option<Value> {
        let word = call.name.node.as_str();
        match word {
            "transpose" => {
                let (x, list) = self.listed(call, "transpose(x, [1, 0])", "a dimension")?;
                let perm = list.into_iter().map(|d| usize::try_from(d).unwrap_or(usize::MAX)).collect();
                self.shaped(call, ShapeOp::Transpose(perm), &[x], span)
            }
            "reshape" => {
                let (x, list) = self.listed(call, "reshape(x, [25, 12, 32])", "a size")?;
                self.shaped(call, ShapeOp::Reshape(list), &[x], span)
            }
            "slice" => {
                let mut named = Arguments::new(call);
                let form = "slice(x, dim: 0, from: 0, to: 2)";
                let x = call.args.first().and_then(|a| self.operand(a));
                let dim = self.dim_of(call, &mut named, x, form);
                let given = ["from", "to"].map(|name| (name, named.take(name)));
                let numbers = given.map(|(name, n)| match n {
                    Some(n) => self.cx.count_of(n, &mut self.found),
                    None => {
                        self.found.push(missing(call, name, form));
                        None
                    }
                });
                let sound = named.finish(&mut self.found);
                let right = count_args(call, 1, Span::NONE, &mut self.found);
                let ([Some(from), Some(to)], Some(x), true) = (numbers, x, sound && right) else {
                    return None;
                };
                self.shaped(call, ShapeOp::Slice { dim: dim?, from, to }, &[x], span)
            }
            "pad" => {
                let mut named = Arguments::new(call);
                let form = "pad(x, dim: 0, before: 1, after: 2)";
                let x = call.args.first().and_then(|a| self.operand(a));
                let dim = self.dim_of(call, &mut named, x, form);
                let given = ["before", "after"].map(|name| named.take(name));
                if given.iter().all(Option::is_none) {
                    self.found.push(missing(call, "before", form));
                }
                let many = given.map(|n| n.map_or(Some(0), |n| self.cx.count_of(n, &mut self.found)));
                let value = named.take("value").map_or(Some(0.0), |n| self.cx.number_of(n, &mut self.found));
                let sound = named.finish(&mut self.found);
                let right = count_args(call, 1, Span::NONE, &mut self.found);
                let ([Some(before), Some(after)], Some(x), true) = (many, x, sound && right) else {
                    return None;
                };
                self.shaped(call, ShapeOp::Pad { dim: dim?, before, after, value: value? }, &[x], span)
            }
            _ => {
                let mut named = Arguments::new(call);
                let operands: Vec<Option<OpId>> = call.args.iter().map(|a| self.operand(a)).collect();
                let first = operands.first().copied().flatten();
                let dim = self.dim_of(call, &mut named, first, "concat(a, b, dim: 0)");
                let sound = named.finish(&mut self.found);
                if call.args.is_empty() || call.args.len() > MAX_OPERANDS {
                    let wanted = if call.args.is_empty() { 1 } else { MAX_OPERANDS };
                    let d = super::kernel::wrong_count(&call.name, wanted, call.args.len(), Span::NONE);
                    self.found.push(d.help("concatenate the values in several steps"));
                    return None;
                }
                let operands = operands.into_iter().collect::<Option<Vec<_>>>()?;
                let dim = dim.filter(|_| sound)?;
                self.shaped(call, ShapeOp::Concat { dim }, &operands, span)
            }
        }
    }

    fn shaped(&mut self, call: &Call, op: ShapeOp, operands: &[OpId], span: Span) -> Option<Value> {
        Some(self.push(OpKind::Shape(op), self.named_after(call), operands, span))
    }

    /// Returns the required argument `dim:`. If the number of dimensions of the operand is known,
    /// it must be one of them.
    fn dim_of(
        &mut self,
        call: &Call,
        named: &mut Arguments<'_>,
        operand: Option<OpId>,
        form: &str,
    ) -> Option<usize> {
        match named.take("dim") {
            Some(n) => self.cx.dimension(n, operand.and_then(|x| self.rank_of(x)), &mut self.found),
            None => {
                self.found.push(missing(call, "dim", form));
                None
            }
        }
    }

    /// Returns the operand and the list of `transpose(x, [..])` and `reshape(x, [..])`.
    fn listed(&mut self, call: &Call, form: &str, what: &str) -> Option<(OpId, Vec<u64>)> {
        let sound = Arguments::new(call).finish(&mut self.found);
        let x = call.args.first().and_then(|a| self.operand(a));
        let right = count_args(call, 2, Span::NONE, &mut self.found);
        let list = match call.args.get(1).map(|a| (&a.kind, a.span)) {
            Some((TensorKind::List(items), _)) => {
                let all: Vec<Option<u64>> =
                    items.iter().map(|e| self.cx.count(e, what, &mut self.found)).collect();
                all.into_iter().collect::<Option<Vec<u64>>>()
            }
            Some((_, at)) => {
                self.found.push(
                    Diagnostic::error(
                        "E006",
                        format!("the second argument of `{}` must be a list", call.name.node),
                    )
                    .primary(at, "this is not a list")
                    .help(format!("write {form}")),
                );
                None
            }
            None => None,
        };
        (sound && right).then_some((x?, list?))
    }
}
