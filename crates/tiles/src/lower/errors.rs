//! Errors of lowering: operations that a target does not support (E470), and faults of the walk.

use kbc_diag::{Diagnostic, Span};
use kbc_ir::walk::Fault;

/// Returns E470: the operation has no form on the target.
pub(super) fn refuse(span: Span, what: impl Into<String>, help: impl Into<String>) -> Diagnostic {
    Diagnostic::error("E470", format!("cannot emit {}", what.into()))
        .primary(span, "the target does not support this")
        .help(help)
}

/// Returns the message of a fault of the walk.
pub(super) fn fault(f: &Fault) -> Diagnostic {
    f.diagnostic(|r| r.to_string())
}
