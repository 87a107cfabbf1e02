//! `kbc repair`: what failed links and devices cost a program, and its schedule on what is left.

use crate::cli::{Repair, Source};
use crate::session::{Outcome, Session};
use kbc_compiler::repair::{failure, repair};

/// Prints the times before, unchanged and repaired, and the command that runs the new schedule.
///
/// # Errors
/// Those of [`repair`].
pub fn run(session: &mut Session, args: &Repair) -> Outcome {
    let source = Source { file: args.file.clone(), of: args.of.clone(), post: None };
    let found = repair(session, &source.plain(), &args.fail)?;
    let mut of = args.of.plain();
    of.set.extend(args.fail.iter().map(|what| failure(what)));
    let flags = of.flags();
    let flags = flags.iter().flat_map(|(flag, values)| values.iter().map(move |v| format!(" {flag} '{v}'")));
    let next = format!("next: kbc run {}{}\n", args.file, flags.collect::<String>());
    Ok(session.answer(&(found.text() + &next), &found.json())?)
}
