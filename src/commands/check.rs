//! `kbc check`: proof without execution. A `.kir` file: its schedule as it stands. A file with a
//! program: its schedule. A file of algorithms, or the library: each of them on many shapes
//! ([`kbc_compiler::check`]). A `.tile` file: [`super::tile`]. PyTorch programs: [`super::torch`].

use super::output::{finish, show};
use super::{refusals, tile};
use crate::cli::Check;
use crate::session::{Outcome, Session};
use kbc_compiler::check;
use kbc_compiler::report::ProgramReport;
use kbc_diag::Diagnostic;

/// Proves the content of the file, or the library.
///
/// # Errors
/// Returns everything that is wrong.
pub fn run(session: &mut Session, args: &Check) -> Outcome {
    refusals::single(args)?;
    if args.sync {
        return super::signals::run(session, args);
    }
    let source = args.source();
    if args.file.is_none() {
        refusals::no_post(&source)?;
        refusals::no_target(args.target.as_ref(), "the library")?;
        let report = check::library(session, &source.plain())?;
        return finish(session, &report, true);
    }
    refusals::no_post(&source)?;
    if source.file.ends_with(".tile") {
        return tile::check(session, args);
    }
    refusals::no_target(args.target.as_ref(), &source.file)?;
    if source.file.ends_with(".kir") {
        let report = check::schedule(session, &source.plain())?;
        return finish(session, &report, true);
    }
    let mut report = check::file(session, &source.plain())?;
    let skipped: Vec<&ProgramReport> = report.programs.iter().filter(|p| p.not_checked.is_some()).collect();
    if skipped.is_empty() && report.unchecked.is_empty() {
        return finish(session, &report, true);
    }
    let names: Vec<String> = skipped.iter().map(|p| format!("`{}`", p.program)).collect();
    let mut d = Diagnostic::error("E432", format!("{}: some parts were not checked", source.file));
    if !names.is_empty() {
        d = d.note(format!("not called: {}", names.join(", ")));
        d = d.help("call it from a program with suitable sizes, and check that program");
    }
    for u in &report.unchecked {
        d = d.note(u.clone());
    }
    report.ok = false;
    show(session, &report)?;
    Err(d.into())
}
