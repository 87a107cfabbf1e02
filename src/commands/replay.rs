//! `kbc dev replay`: replays the file that a crash wrote.
//!
//! The author of the file chose the command in it. Therefore the command may only read and compute:
//! everything that it writes goes to a new folder ([`confine`]), and it must not itself read a
//! command from a file.

use crate::cli::{Bench, BenchWhat, Cli, Command, Dev, DevVerb, Fuzz, FuzzWhat, Replay};
use crate::confine;
use crate::crash;
use crate::session::{Outcome, Session};
use clap::Parser;
use kbc_diag::Diagnostic;

/// Returns the command in the file of a crash. The session holds its texts from now on.
///
/// # Errors
/// Returns E413 for another file, and for a command that cannot be replayed.
pub fn command(session: &mut Session, args: &Replay) -> Outcome<Command> {
    let (_, text) = session.read(&args.file)?;
    if let Some((command, texts)) = crash::bundle(&text) {
        return begin(session, &command, texts);
    }
    match crash::command_in_module(&text) {
        Some(mut command) => {
            command.push(args.file.clone());
            begin(session, &command, vec![(args.file.clone(), text.to_string())])
        }
        None => Err(Diagnostic::error(
            "E413",
            format!("{} is not a file that a crash of kbc has written", args.file),
        )
        .help("kbc dev replay accepts the files kbc-crash.kb and kbc-crash.kir")
        .into()),
    }
}

/// Parses a command, and gives the session the texts that stand for the files with their names.
fn begin(session: &mut Session, command: &[String], texts: Vec<(String, String)>) -> Outcome<Command> {
    let words = std::iter::once("kbc".to_owned()).chain(command.iter().cloned());
    let cli = Cli::try_parse_from(words).map_err(|e| {
        Diagnostic::error("E413", "the command of the file does not exist in this version of kbc")
            .note(e.to_string())
    })?;
    let refused = match &cli.command {
        Command::Dev(Dev { verb: DevVerb::Replay(_) }) | Command::Old(DevVerb::Replay(_)) => {
            Some("is itself a replay")
        }
        // Its flags name folders whose C++ is compiled and run.
        Command::Dev(Dev { verb: DevVerb::Fuzz(Fuzz { what: FuzzWhat::Emitted(_) }) })
        | Command::Old(DevVerb::Fuzz(Fuzz { what: FuzzWhat::Emitted(_) })) => {
            Some("compiles and runs C++, which kbc dev replay does not do: run it yourself")
        }
        // `--against` names a program, which is run, and so do `--peer` and `--mpi`.
        Command::Dev(Dev {
            verb: DevVerb::Bench(Bench { what: BenchWhat::Scale(_) | BenchWhat::Host(_) }),
        })
        | Command::Old(DevVerb::Bench(Bench { what: BenchWhat::Scale(_) | BenchWhat::Host(_) })) => {
            Some("runs programs, which kbc dev replay does not do: run it yourself")
        }
        Command::Launch(_) | Command::Calibrate(_) => {
            Some("compiles and runs C, which kbc dev replay does not do: run it yourself")
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
    *session = session.fresh(texts).with_format(cli.format);
    Ok(cli.command)
}

/// Returns the command in the first line of a `.kir` text, if there is one and it is not `opt`. The
/// session holds the text from now on.
///
/// # Errors
/// Returns E413 for a command that cannot be replayed.
pub fn in_first_line(session: &mut Session, file: &str, text: &str) -> Outcome<Option<Command>> {
    let command = crash::command_in_module(text).filter(|c| c.first().is_some_and(|v| v != "opt"));
    let Some(mut command) = command else { return Ok(None) };
    command.push(file.to_owned());
    begin(session, &command, vec![(file.to_owned(), text.to_owned())]).map(Some)
}
