//! Diagnostics of a simulation in which no event is left before all streams have ended.
//!
//! Which stream waits for which does not depend on time, because counters only grow. So the streams
//! are walked once more without time, to the same standstill, which [`kbc_backend_sim::failure`]
//! explains as for the interpreter.

use kbc_backend_sim::failure;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::walk::Program;

/// Returns E361, or the fault that a rank meets before the deadlock.
pub(super) fn explain(program: &Program<'_>, calls: i64) -> Diagnostics {
    match failure::walked(program, calls) {
        Some(f) => f.diagnostics,
        None => Diagnostic::error("E361", "deadlock: no rank can proceed").into(),
    }
}
