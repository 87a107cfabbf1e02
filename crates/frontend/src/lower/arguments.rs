//! Named arguments: `dim: 1, keep: true, over: tp`.
//!
//! This module looks up arguments by name, converts them to the kind of value that an operation
//! needs, and reports arguments that no operation asked for.

use super::Cx;
use crate::ast::{Call, Named, OptionValue};
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::Name;
use kbc_rounds::ast::{Expr, ExprKind, Ident};
use kbc_rounds::eval::unknown;

/// The named arguments of one call.
pub(super) struct Arguments<'c> {
    call: &'c Call,
    /// The names that were asked for, whether given or not.
    requested: Vec<String>,
}

impl<'c> Arguments<'c> {
    pub fn new(call: &'c Call) -> Self {
        Arguments { call, requested: vec![] }
    }

    /// Returns the argument with this name.
    pub fn take(&mut self, name: &str) -> Option<&'c Named> {
        self.requested.push(name.to_owned());
        self.call.named.iter().find(|n| n.name.node == name)
    }

    /// Reports arguments that are given twice and arguments that the operation does not have.
    /// Returns false if there are any.
    pub fn finish(self, found: &mut Diagnostics) -> bool {
        let before = found.list.len();
        for (i, n) in self.call.named.iter().enumerate() {
            if !self.requested.contains(&n.name.node) {
                let what = format!("argument of `{}`", self.call.name.node);
                found.push(*unknown("E006", &what, &n.name.node, n.name.span, &self.requested));
            } else if let Some(first) = self.call.named[..i].iter().find(|o| o.name.node == n.name.node) {
                found.push(
                    Diagnostic::error("E006", format!("`{}` is given twice", n.name.node))
                        .primary(n.span, "again here")
                        .secondary(first.span, "first here"),
                );
            }
        }
        found.list.len() == before
    }
}

/// Returns the message for an argument with an invalid value.
pub(super) fn cannot(named: &Named, wanted: &str) -> Diagnostic {
    Diagnostic::error("E006", format!("invalid value of argument `{}`", named.name.node))
        .primary(named.span, format!("expected {wanted}"))
}

/// Returns the message for a required argument that is missing.
pub(super) fn missing(call: &Call, name: &str, form: &str) -> Diagnostic {
    Diagnostic::error("E006", format!("`{}` needs `{name}:`", call.name.node))
        .primary(call.name.span, "this argument is missing")
        .help(format!("write {form}"))
}

/// Returns the expression of an argument.
fn expr(named: &Named) -> Result<&Expr, Diagnostic> {
    match &named.value {
        OptionValue::Expr(e) => Ok(e),
        OptionValue::Use(..) | OptionValue::List(_) | OptionValue::Rows(_) => {
            Err(cannot(named, "a single value"))
        }
    }
}

fn dimensions(n: usize) -> String {
    if n == 1 { "a value of 1 dimension".into() } else { format!("a value of {n} dimensions") }
}

impl Cx<'_> {
    /// Returns an argument that is a non-negative integer, such as a dimension or a coordinate.
    pub(super) fn count_of(&self, named: &Named, found: &mut Diagnostics) -> Option<u64> {
        match expr(named) {
            Ok(e) => self.count(e, &format!("`{}:`", named.name.node), found),
            Err(d) => {
                found.push(d);
                None
            }
        }
    }

    /// Returns an argument that is a number.
    pub(super) fn number_of(&self, named: &Named, found: &mut Diagnostics) -> Option<f64> {
        let e = expr(named).map_err(|d| found.push(d)).ok()?;
        self.number(e).map(|n| n.as_f64()).map_err(|d| found.push(*d)).ok()
    }

    /// Returns an argument that is a dimension. `rank` is the number of dimensions of the operand,
    /// if it is known; a negative argument then counts from the last one.
    pub(super) fn dimension(
        &self,
        named: &Named,
        rank: Option<usize>,
        found: &mut Diagnostics,
    ) -> Option<usize> {
        let e = expr(named).map_err(|d| found.push(d)).ok()?;
        let n = self.int(e).map_err(|d| found.push(*d)).ok()?;
        if n >= 0 {
            return Some(usize::try_from(n).unwrap_or(usize::MAX));
        }
        let from_last = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
        let at = rank.and_then(|rank| rank.checked_sub(from_last));
        if at.is_none() {
            let of = rank
                .map_or_else(|| "a value whose number of dimensions is not known here".into(), dimensions);
            found.push(
                Diagnostic::error("E221", format!("`{}: {n}` is out of range for {of}", named.name.node))
                    .primary(named.span, "dimensions count from 0; negative numbers count from the end, where -1 is the last one"),
            );
        }
        at
    }

    /// Returns an argument that is `true` or `false`.
    pub(super) fn flag(&self, named: &Named, found: &mut Diagnostics) -> Option<bool> {
        match &named.value {
            OptionValue::Expr(e) if !matches!(e.kind, ExprKind::Int(_) | ExprKind::Float(_)) => {
                self.truth(e).map_err(|d| found.push(*d)).ok()
            }
            _ => {
                found.push(cannot(named, "true or false"));
                None
            }
        }
    }

    /// Returns the axis of `over: tp`. Without the argument, this is the only axis of the mesh.
    pub(super) fn over(&self, call: &Call, named: Option<&Named>, found: &mut Diagnostics) -> Option<Name> {
        let Some(named) = named else {
            if let [only] = &self.mesh.axes[..] {
                return Some(only.name.clone());
            }
            let all: Vec<&str> = self.mesh.axes.iter().map(|a| a.name.as_str()).collect();
            let form = format!("`over:` and one of the axes {}", all.join(", "));
            found.push(missing(call, "over", &form));
            return None;
        };
        match &named.value {
            OptionValue::Expr(Expr { kind: ExprKind::Name(n), span }) => {
                self.axis(&Ident::new(n.clone(), *span), found)
            }
            OptionValue::Expr(Expr { kind: ExprKind::Tuple(_), span }) => {
                found.push(super::later(
                    *span,
                    "a collective over several axes is",
                    "write one collective per axis, or join the axes in the mesh: sys[tp]",
                ));
                None
            }
            _ => {
                found.push(cannot(named, "an axis of the mesh"));
                None
            }
        }
    }
}

/// Checks the number of positional arguments. Reports an error and returns false if it is wrong.
pub(super) fn count_args(call: &Call, wanted: usize, declared: Span, found: &mut Diagnostics) -> bool {
    let right = call.args.len() == wanted;
    if !right {
        found.push(super::kernel::wrong_count(&call.name, wanted, call.args.len(), declared));
    }
    right
}
