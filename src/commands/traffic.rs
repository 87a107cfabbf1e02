//! `kbc explain traffic`: what a schedule moves, beside what it has to move and beside hand-written kernels.

use crate::cli::{ReportFormat, Source};
use crate::session::{Outcome, Session};
use kbc_evaluation::traffic::table::{human, traffic};

/// Counts and prints. `target` is whose hand-written kernels are named.
///
/// # Errors
/// Of compiling or reading the file; E30x, E354 of counting.
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
