//! `kbc explain traffic`: the traffic of a schedule, beside what it must move and beside
//! hand-written kernels.

use crate::cli::Source;
use crate::session::{Outcome, Session};
use kbc_evaluation::traffic::table::{human, traffic};

/// Counts and prints. `target` selects the hand-written kernels.
///
/// # Errors
/// Returns the errors of compiling or reading the file, and E30x and E354 of counting.
pub(super) fn run(session: &mut Session, source: &Source, target: Option<&str>) -> Outcome {
    let found = traffic(session, &source.plain(), target)?;
    session.answer(&human(&found), &found)?;
    Ok(())
}
