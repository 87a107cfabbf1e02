//! `kbc check --sync`: the signals of every algorithm against a barrier a round, or those of a
//! schedule as text.

use crate::cli::Check;
use crate::session::{Outcome, Session};
use kbc_compiler::load::refuse;
use kbc_compiler::options::Selection;
use kbc_compiler::signals::{algorithms, schedule};
use kbc_diag::Diagnostic;

/// Counts and prints.
///
/// # Errors
/// Returns the errors of reading, E416 if there is no algorithm, and the errors of an algorithm or
/// a schedule.
pub fn run(session: &mut Session, args: &Check) -> Outcome {
    let source = args.source();
    let file = &source.file;
    let counts = "--sync, which counts signals of algorithms";
    refuse(&[("--target", args.target.is_some()), ("--post", args.post.is_some())], counts)?;
    let about_programs =
        Selection { define: vec![], algorithm: None, ranks: None, using: vec![], ..args.of.plain() };
    refuse(&about_programs.given(), counts)?;
    if [".tile", ".xml"].iter().any(|ending| file.ends_with(ending)) {
        return Err(Diagnostic::error(
            "E416",
            format!("{file} has no algorithm, so there are no signals to count"),
        )
        .into());
    }
    if file.ends_with(".kir") {
        let found = schedule::count_signals(session, &source.plain())?;
        session.answer(&schedule::human(&found), &found)?;
    } else {
        let found = algorithms::count_signals(session, &source.plain())?;
        session.answer(&algorithms::human(&found), &found)?;
    }
    Ok(())
}
