//! Pending values: the result of a collective is pending until a `wait` on it.

use super::{Local, issued};
use crate::graph::OpKind;
use kbc_diag::{Diagnostic, Diagnostics};

/// Returns the misuses of pending values. They are mistakes in one rank's program, whatever the
/// other ranks do.
///
/// E541: an operation other than `wait` uses a pending value, or `wait` uses a value that is not
/// pending. E542: a collective without a `wait`.
pub fn pending(local: &Local) -> Diagnostics {
    let mut found = Diagnostics::new();
    for part in &local.parts {
        let g = &part.graph;
        let is_pending = |kind: &OpKind| matches!(kind, OpKind::Collective(_));
        for &id in g.order() {
            let op = g.op(id);
            for o in g.operands(id) {
                let value = g.op(o);
                let waits = op.kind == OpKind::Wait;
                if is_pending(&value.kind) && !waits {
                    found.push(
                        Diagnostic::error(
                            "E541",
                            format!("`{}` is used while its collective is pending", value.name),
                        )
                        .primary(op.span, "used here")
                        .secondary(value.span, "pending from here on")
                        .help(format!("wait for it: wait({})", value.name)),
                    );
                } else if waits && !is_pending(&value.kind) {
                    found.push(
                        Diagnostic::error(
                            "E541",
                            format!("`{}` is not pending, so there is nothing to wait for", value.name),
                        )
                        .primary(op.span, "this is not the result of a collective")
                        .secondary(value.span, "defined here")
                        .help("remove `wait` and use the value itself"),
                    );
                }
            }
        }
        for (id, c) in issued(g) {
            if g.users(id).is_empty() {
                let op = g.op(id);
                found.push(
                    Diagnostic::error("E542", format!("no `wait` for the result of this {}", c.name()))
                        .primary(op.span, "still pending at the end of the program")
                        .help(
                            "name its result and `wait` for it: a rank may end only after its transfers have ended",
                        ),
                );
            }
        }
    }
    found
}
