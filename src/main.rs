//! The binary: one verb, one outcome, one exit code (0 fine, 1 the input is wrong, 2 usage or files, 101 a bug).

use clap::Parser;
use kbc::cli::{Cli, Command};
use kbc::session::Session;
use kbc::{commands, pipeline};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    pipeline::install_panic_hook();
    let mut session = Session::new(&cli);
    let outcome = match &cli.command {
        Command::Compile(args) => commands::compile::run(&mut session, args),
        Command::Check(args) => commands::check::run(&mut session, args),
        Command::Run(args) => commands::run::run(&mut session, args),
        Command::Opt(args) => commands::opt::run(&mut session, args),
        Command::Explain(args) => commands::explain::run(&mut session, args),
        Command::Passes(args) => commands::passes::run(&mut session, args),
        Command::List(args) => commands::list::run(&mut session, args),
    };
    let (messages, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure.into_parts(),
    };
    session.tell(&messages);
    ExitCode::from(code)
}
