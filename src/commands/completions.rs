//! `kbc completions`: a completion script for a shell, generated from the description of the
//! command line.

use crate::cli::{Cli, Completions};
use crate::session::{Outcome, Session};
use clap::CommandFactory;

/// Prints the script.
///
/// # Errors
/// None.
pub fn run(session: &mut Session, args: &Completions) -> Outcome {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut Cli::command(), "kbc", &mut script);
    session.print_artefact(&String::from_utf8_lossy(&script));
    Ok(())
}
