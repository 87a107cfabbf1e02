//! Fills: values that depend on the position alone, such as `iota([4, 6], dim: 1, type: i32)` and
//! `full([4, 6], 0.5, type: f32)`.
//!
//! This module owns their arguments. `infer` checks whether the element type can represent the
//! elements.

use super::arguments::{Arguments, cannot, count_args, missing};
use super::state::{Lowering, Value};
use crate::ast::{Call, Named, OptionValue, Tensor, TensorKind};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::fill::{Fill, FillContent};
use kbc_ir::graph::OpKind;
use kbc_ir::types::DType;
use kbc_rounds::ast::{Expr, ExprKind, Ident};

impl Lowering<'_> {
    /// Lowers a fill. Returns None if errors were reported.
    pub(super) fn fill(&mut self, call: &Call, span: Span) -> Option<Value> {
        let iota = call.name.node == "iota";
        let form = if iota { "iota([4, 6], dim: 1)" } else { "full([4, 6], 0.5)" };
        let mut named = Arguments::new(call);
        let sizes = call.args.first().and_then(|a| self.sizes_of(a, form));
        let dtype = match named.take("type") {
            Some(n) => self.element_type(n),
            None => Some(if iota { DType::I32 } else { DType::F32 }),
        };
        let with = if iota {
            let rank = sizes.as_ref().map(Vec::len);
            match (named.take("dim"), rank) {
                (Some(n), _) => self.cx.dimension(n, rank, &mut self.found).map(FillContent::Place),
                (None, Some(1) | None) => Some(FillContent::Place(0)),
                (None, Some(_)) => {
                    self.found.push(missing(call, "dim", form));
                    None
                }
            }
        } else {
            call.args.get(1).and_then(|v| self.number_of(v)).map(FillContent::Number)
        };
        let sound = named.finish(&mut self.found);
        let right = count_args(call, if iota { 1 } else { 2 }, Span::NONE, &mut self.found);
        let fill = Fill { dtype: dtype?, sizes: sizes?, with: with? };
        (sound && right).then(|| self.push(OpKind::Fill(fill), self.named_after(call), &[], span))
    }

    fn sizes_of(&mut self, arg: &Tensor, form: &str) -> Option<Vec<u64>> {
        let TensorKind::List(items) = &arg.kind else {
            let word = form.split('(').next().unwrap_or(form);
            self.found.push(
                Diagnostic::error("E006", format!("the first argument of `{word}` must be a list of sizes"))
                    .primary(arg.span, "this is not a list")
                    .help(format!("write {form}")),
            );
            return None;
        };
        let all: Vec<Option<u64>> =
            items.iter().map(|e| self.cx.count(e, "a size", &mut self.found)).collect();
        all.into_iter().collect()
    }

    fn number_of(&mut self, arg: &Tensor) -> Option<f64> {
        match self.expr(arg)? {
            Value::Number(v) => Some(v),
            _ => {
                self.found.push(
                    Diagnostic::error("E226", "the value of `full` must be a number")
                        .primary(arg.span, "this is a tensor")
                        .help("to repeat a tensor along another one, add them: `0 * x + y`"),
                );
                None
            }
        }
    }

    /// Returns the element type of `type: f32`, which may be a name that a called program has
    /// bound.
    fn element_type(&mut self, named: &Named) -> Option<DType> {
        let known = match &named.value {
            OptionValue::Expr(Expr { kind: ExprKind::Name(w), span }) => {
                self.cx.element_type(&Ident::new(w.clone(), *span))
            }
            _ => None,
        };
        if known.is_none() {
            self.found.push(cannot(named, "an element type: f32 f16 bf16 i32 i8 u8 i16 i64"));
        }
        known
    }
}
