//! What to say when nothing can happen any more.
//!
//! Who waits for whom does not depend on time (counters only grow), so the streams are walked once more without it to
//! the same standstill, which [`kbc_backend_sim::failure`] explains as for the interpreter.

use kbc_backend_sim::failure;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::walk::Program;

/// Code E361, or that of a fault that a rank meets before.
pub(super) fn explain(program: &Program<'_>, calls: i64) -> Diagnostics {
    match failure::walked(program, calls) {
        Some(f) => f.diagnostics,
        None => Diagnostic::error("E361", "deadlock: nothing can happen any more").into(),
    }
}
