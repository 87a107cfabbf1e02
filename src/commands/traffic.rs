//! `kbc explain traffic`: the traffic of a schedule, beside what it must move and beside
//! hand-written kernels.

use crate::cli::{ReportFormat, Source};
use crate::session::{Outcome, Session};
use kbc_evaluation::traffic::table::{human, traffic};

/// Counts and prints. `target` selects the hand-written kernels.
///
/// # Errors
/// Returns the errors of compiling or reading the file, and E30x and E354 of counting.
pub(super) fn run(
    session: &mut Session,
    source: &Source,
    target: Option<&str>,
    report: ReportFormat,
) -> Outcome {
    let found = traffic(session, &source.plain(), target)?;
    match report {
        ReportFormat::Human => session.result(&human(&found)),
        ReportFormat::Json => session.json(&found)?,
    }
    Ok(())
}
