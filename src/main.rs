//! The binary: one verb, one outcome, one exit code (0 fine, 1 the input is wrong, 2 usage or files, 101 a bug).

use clap::{CommandFactory, FromArgMatches};
use kbc::cli::{Cli, color_of, usage};
use kbc::session::Session;
use kbc::{commands, crash, heap};
use std::process::ExitCode;

fn main() -> ExitCode {
    heap::keep();
    crash::install();
    let words: Vec<String> = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned()).collect();
    let command = Cli::command().color(color_of(&words));
    let cli = match command.try_get_matches().and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(e) => match usage(&e, &words) {
            Some(text) => {
                let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
                return ExitCode::from(2);
            }
            None => e.exit(),
        },
    };
    crash::begin(&words);
    let mut session = Session::new(&cli);
    let (messages, code) = match commands::dispatch(&mut session, &cli.command) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure.into_parts(),
    };
    session.tell(&messages);
    if crash::is_bug(&messages) {
        session.words(&crash::leave());
    }
    ExitCode::from(code)
}
