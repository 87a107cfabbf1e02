//! What to say when nothing can happen any more.
//!
//! Who waits for whom does not depend on time (counters only grow), so the streams are walked once more without it to
//! the same standstill, which [`crate::stall`] explains as for the interpreter.

use crate::flow::{Flow, Turn};
use crate::stall;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::walk::{Act, Program};

/// Code E361.
pub(super) fn explain(program: &Program<'_>, calls: i64) -> Diagnostics {
    let mut flow = Flow::new(program, calls);
    let mut moved = true;
    while moved {
        moved = false;
        for thread in 0..flow.threads.len() {
            loop {
                match flow.advance(thread) {
                    Ok(Turn::Act(act, _)) => match act {
                        Act::Notify { peer, counter } => flow.add(peer, counter),
                        Act::Record(event) => flow.record(thread, event),
                        _ => {}
                    },
                    Ok(Turn::CallOver(_)) => {}
                    Ok(Turn::Blocked | Turn::Done) => break,
                    Err(fault) => return fault.diagnostic(|r| program.schedule.mesh.show(r)).into(),
                }
                moved = true;
            }
        }
    }
    stall::explain(&mut flow)
        .deadlock
        .unwrap_or_else(|| Diagnostic::error("E361", "deadlock: nothing can happen any more"))
        .into()
}
