//! `kbc replay`: replays the file that a crash wrote.
//!
//! The author of the file chose the command in it. Therefore the command may only read and compute:
//! everything that it writes goes to a new folder ([`confine`]), and it must not itself read a
//! command from a file.

use crate::cli::{Cli, Command, Fuzz, FuzzWhat, Replay};
use crate::confine;
use crate::crash;
use crate::session::{Outcome, Session};
use clap::Parser;
use kbc_diag::Diagnostic;

/// Replays the file of a crash: its command, on its texts.
///
/// # Errors
/// Returns E413 for another file, and the errors of the command.
pub fn run(session: &mut Session, args: &Replay) -> Outcome {
    let (_, text) = session.read(&args.file)?;
    if let Some((command, texts)) = crash::bundle(&text) {
        return replay(session, &command, texts);
    }
    match crash::command_in_module(&text) {
        Some(mut command) => {
            command.push(args.file.clone());
            replay(session, &command, vec![(args.file.clone(), text.to_string())])
        }
        None => Err(Diagnostic::error(
            "E413",
            format!("{} is not a file that a crash of kbc has written", args.file),
        )
        .help("kbc replay accepts the files kbc-crash.kb and kbc-crash.kir")
        .into()),
    }
}

/// Runs a command on texts that stand for the files with their names.
fn replay(session: &mut Session, command: &[String], texts: Vec<(String, String)>) -> Outcome {
    let words = std::iter::once("kbc".to_owned()).chain(command.iter().cloned());
    let cli = Cli::try_parse_from(words).map_err(|e| {
        Diagnostic::error("E413", "the command of the file does not exist in this version of kbc")
            .note(e.to_string())
    })?;
    let refused = match &cli.command {
        Command::Replay(_) => Some("is itself a replay"),
        // Its flags name folders whose C++ is compiled and run.
        Command::Fuzz(Fuzz { what: FuzzWhat::Emitted(_) }) => {
            Some("compiles and runs C++, which kbc replay does not do: run it yourself")
        }
        _ => None,
    };
    if let Some(why) = refused {
        let d = Diagnostic::error("E413", format!("the command of the file {why}"));
        return Err(d.note(format!("the command: kbc {}", crash::line(command))).into());
    }
    confine::begin();
    crash::begin(command);
    session.progress(&format!("replaying kbc {}", command.join(" ")));
    *session = session.fresh(texts);
    super::dispatch(session, &cli.command)
}

/// Replays the command in the first line of a `.kir` text, if it is not `opt`. Returns None
/// otherwise.
pub fn by_first_line(session: &mut Session, file: &str, text: &str) -> Option<Outcome> {
    let mut command = crash::command_in_module(text).filter(|c| c.first().is_some_and(|v| v != "opt"))?;
    command.push(file.to_owned());
    Some(replay(session, &command, vec![(file.to_owned(), text.to_owned())]))
}
