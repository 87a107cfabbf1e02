//! Subcommands, one module each, and what several of them share.

mod algorithms;
pub mod bench;
pub mod bound;
pub mod ccl;
pub mod check;
pub mod compare;
pub mod compile;
pub mod completions;
pub mod explain;
pub mod fmt;
pub mod fuzz;
mod fuzz_readers;
mod grid;
pub mod import;
pub mod list;
pub mod memory;
mod mutate;
mod new;
pub mod opt;
pub mod overlap;
pub mod passes;
mod plot;
mod programs;
pub mod reference;
pub mod replay;
pub mod report;
pub mod repro;
pub mod run;
pub mod select;
pub mod signals;
pub mod sweep;
pub mod sync;
pub mod tile;
pub mod torch;
mod traffic;

use crate::cli::Command;
use crate::session::{Failure, Outcome, Session};
use kbc_diag::Severity;
use kbc_diag::settle::settle;
use kbc_passes::instrument::Instrument;

/// Runs a subcommand. Messages about a text of the IR or of the tile level get a position in it.
///
/// # Errors
/// Returns the errors of the subcommand.
pub fn dispatch(session: &mut Session, command: &Command) -> Outcome {
    verb(session, command).map_err(|failure| settled(session, failure))
}

/// Gives messages without a position one, if one text of the IR or of the tile level was read and
/// they are about its content.
fn settled(session: &Session, failure: Failure) -> Failure {
    let Failure::Program(mut found) = failure else { return failure };
    let is_one = |text: &str| {
        let first = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with(';'));
        first.is_some_and(|l| l.starts_with("kir ") || l.starts_with("tile "))
    };
    let ending = |name: &str| name.ends_with(".kir") || name.ends_with(".tile");
    let mut texts = session.map.files().filter(|(_, f)| ending(&f.name) || f.name == "-" && is_one(&f.text));
    if let (Some((id, file)), None) = (texts.next(), texts.next()) {
        // Errors of data, files, memory and the command line are not errors of the text.
        let about = |code: &str| {
            matches!(
                code.as_bytes(),
                [b'E', b'2', ..] | [b'E', b'3', b'0'..=b'5' | b'7', _] | [b'E', b'4', b'4'..=b'7', _]
            )
        };
        for d in found.list.iter_mut().filter(|d| d.severity == Severity::Error && about(d.code)) {
            settle(d, id, &file.text);
        }
    }
    Failure::Program(found)
}

fn verb(session: &mut Session, command: &Command) -> Outcome {
    match command {
        Command::Compile(args) => compile::run(session, args),
        Command::Check(args) => check::run(session, args),
        Command::New(args) => new::run(session, args),
        Command::Import(args) => torch::import::run(session, args),
        Command::Run(args) => run::run(session, args),
        Command::Report(args) => report::run(session, args),
        Command::Opt(args) => opt::run(session, args),
        Command::Bench(args) => bench::run(session, args),
        Command::Fuzz(args) => fuzz::run(session, args),
        Command::Mutate(args) => mutate::run(session, args),
        Command::Fmt(args) => fmt::run(session, args),
        Command::Replay(args) => replay::run(session, args),
        Command::Explain(args) => explain::run(session, args),
        Command::Passes(args) => passes::run(session, args),
        Command::CompareReference(args) => reference::run(session, args),
        Command::Compare(args) => compare::run(session, args),
        Command::Repro(args) => repro::run(session, args),
        Command::Sweep(args) => sweep::run(session, args),
        Command::Plot(args) => plot::run(session, args),
        Command::List(args) => list::run(session, args),
        Command::Completions(args) => completions::run(session, args),
    }
}

/// An observer that ignores everything.
pub struct Nothing;

impl Instrument for Nothing {}
