//! The binary: runs one subcommand and exits with its code (0: success, 1: wrong input, 2: usage or
//! files, 101: a bug).

use clap::FromArgMatches;
use kbc::cli::Cli;
use kbc::cli::help::{asked, screen};
use kbc::cli::messages::{before, color_of, failure, for_programs, usage};
use kbc::outdir::written;
use kbc::session::{Failure, Session};
use kbc::{cache, commands, confine, crash, heap, memory_limit};
use kbc_diag::{Diagnostic, escape_controls};
use std::borrow::Cow;
use std::process::ExitCode;

/// Text that `kbc` prints without arguments.
const FIRST_STEPS: &str = "\
kbc compiles collective algorithms and tensor-parallel programs: it proves, executes and times them.

  kbc new my_ring            start a folder with an algorithm, a program and a machine
  kbc check my_ring.kb       prove the algorithms of a file on many numbers of ranks
  kbc run layer.kb           prove, execute and time a program, next to its lower bound
  kbc report layer.kb        write an HTML page that shows the messages step by step
  kbc list                   list the algorithms of the library
  kbc explain E110           explain an error code
  kbc help                   list all commands; kbc COMMAND --help explains one
";

/// Text of `kbc --version`.
const VERSION: &str = concat!("kbc ", env!("CARGO_PKG_VERSION"), "\n");

fn main() -> ExitCode {
    heap::keep_freed_memory();
    heap::write_errors();
    crash::install();
    let given: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<String> = given.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    if let Some(word) = given.iter().find(|w| w.to_str().is_none()) {
        let d = Diagnostic::error("E413", format!("{word:?} on the command line is not UTF-8"));
        return early(&d.help("rename the file so that its name is UTF-8"), &words);
    }
    // These two need no command line parser, which is larger than what they print.
    let text = match &words[..] {
        [] => Some(FIRST_STEPS),
        [word] if word == "--version" || word == "-V" => Some(VERSION),
        _ => None,
    };
    if let Some(text) = text {
        let shown = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
        return written(shown).map_or_else(|d| early(&d, &words), |()| ExitCode::SUCCESS);
    }
    let line = std::iter::once("kbc".into()).chain(asked(given));
    let command = screen().color(color_of(&words));
    let cli = match command.try_get_matches_from(line).and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(e) => match usage(&e) {
            Some(d) if for_programs(&words) => return early(&d, &words),
            Some(d) => {
                print_failure(&d, &words);
                // The message contains the words.
                let text = if words.iter().any(|w| matches!(escape_controls(w), Cow::Owned(_))) {
                    escape_controls(&e.to_string()).into_owned()
                } else {
                    let _ = e.print();
                    String::new()
                };
                let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
                return ExitCode::from(2);
            }
            None => {
                // Prints the help or the version.
                let code = u8::try_from(e.exit_code()).unwrap_or(2);
                let shown = e.print().and_then(|()| std::io::Write::flush(&mut std::io::stdout()));
                return written(shown).map_or_else(|d| early(&d, &words), |()| ExitCode::from(code));
            }
        },
    };
    memory_limit::guard(cli.diagnostics);
    crash::begin(&words);
    let mut session = Session::new(&cli);
    let usable = cli.cache.as_deref().map_or(Ok(()), cache::check).map_err(|d| Failure::Usage(d.into()));
    let ready = usable.and_then(|()| memory_limit::check_variable().map_err(Failure::from));
    let outcome = ready.and_then(|()| commands::dispatch(&mut session, &cli.command));
    session.end(outcome.as_ref().err());
    let code = outcome.map_or_else(
        |failure| {
            let (messages, code) = failure.into_parts();
            session.report(&messages);
            if crash::is_bug(&messages) {
                session.print_note(&crash::leave());
            }
            code
        },
        |()| 0,
    );
    if let Some(folder) = confine::folder() {
        session.print_note(&format!("kbc dev replay: the written files are in {}\n", folder.display()));
    }
    match session.complete() {
        // An incomplete result is worse than a wrong one, because nobody notices it.
        Err(d) if code != 101 => {
            session.report(&d.into());
            ExitCode::from(2)
        }
        _ => ExitCode::from(code),
    }
}

/// Prints a message before there is a session that knows the format of messages.
fn early(d: &Diagnostic, words: &[String]) -> ExitCode {
    print_failure(d, words);
    let text = before(d, words);
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    ExitCode::from(2)
}

/// Prints a failure as JSON on standard output, if the words request results as JSON.
fn print_failure(d: &Diagnostic, words: &[String]) {
    if let Some(text) = failure(d, words) {
        let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
    }
}
