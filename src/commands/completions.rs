//! `kbc completions`: a script for a shell, made of the command line's own description.

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
    session.result(&String::from_utf8_lossy(&script));
    Ok(())
}
