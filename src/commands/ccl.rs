//! `kbc dev bench ccl`: the all-reduce that two kernbench files describe.

use crate::cli::BenchCcl;
use crate::crash::{self, Stage};
use crate::outdir;
use crate::session::{Failure, Outcome, Session};
use kbc_evaluation::ccl::{Finished, run as bench, run::human, run::logged};
use std::path::Path;

/// Runs the benchmark and prints.
///
/// # Errors
/// Of the files and of building; what the checker finds, or E430 where numbers are wrong.
pub fn run(session: &mut Session, args: &BenchCcl) -> Outcome {
    let Finished { bench, found, errors } = bench(session, &args.plain())?;
    crash::stage(Stage::Report);
    if let Some(file) = &args.output {
        outdir::write_file(Path::new(file), logged(&bench, &found).as_bytes())?;
    }
    session.answer(human(&bench, &found).trim_end(), &found)?;
    if found.ok { Ok(()) } else { Err(Failure::Program(errors)) }
}
