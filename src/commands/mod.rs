//! Subcommands, one module each, and what several of them share.

pub mod bench;
pub mod bench_host;
pub mod calibrate;
pub mod ccl;
pub mod check;
pub mod compare;
pub mod compile;
pub mod completions;
pub mod explain;
pub mod fmt;
pub mod fuzz;
pub mod fuzz_readers;
pub mod launch;
pub mod list;
mod man;
mod measured_rows;
pub mod msccl;
mod mutate;
mod new;
pub mod opt;
pub mod output;
pub mod passes;
mod plot;
pub mod reference;
pub mod refusals;
mod repair;
pub mod replay;
pub mod report;
pub mod repro;
pub mod run;
pub mod scale;
pub mod signals;
pub mod sweep;
mod sweep_jobs;
mod synth;
pub mod tile;
pub mod torch;
mod traffic;

use crate::cli::{Check, Command, Compile, Dev, DevVerb};
use crate::session::{Failure, Outcome, Session};
use kbc_diag::Severity;
use kbc_diag::place_fallback::place_fallback;

/// Runs a subcommand. Messages about a text of the IR or of the tile level get a position in it.
///
/// # Errors
/// Returns the errors of the subcommand.
pub fn dispatch(session: &mut Session, command: &Command) -> Outcome {
    verb(session, command).map_err(|failure| with_place(session, failure))
}

/// Gives messages without a position one, if one text of the IR or of the tile level was read and
/// they are about its content.
fn with_place(session: &Session, failure: Failure) -> Failure {
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
            place_fallback(d, id, &file.text);
        }
    }
    Failure::Program(found)
}

/// A format of schedules or programs that other tools wrote.
struct Format {
    /// Checks whether a path, or standard input (`-`), has the format.
    claims: fn(&mut Session, &str) -> bool,
    check: fn(&mut Session, &Check) -> Outcome,
    compile: fn(&mut Session, &Compile) -> Outcome,
}

/// All formats of other tools.
static FORMATS: &[Format] = &[
    Format { claims: |_, path| torch::is_one(path), check: torch::check, compile: torch::compile },
    Format {
        claims: |session, path| msccl::is_one(session, path),
        check: msccl::check,
        compile: msccl::compile,
    },
];

/// Returns the format of another tool that a file has, if it has one.
fn format_of(session: &mut Session, path: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|f| (f.claims)(session, path))
}

fn run_or_compile(session: &mut Session, args: &Compile) -> Outcome {
    refusals::no_results(&args.execution)?;
    match format_of(session, &args.source.file) {
        Some(format) => (format.compile)(session, args),
        None if args.target == "sim" && args.source.file.ends_with(".kir") => run::schedule(session, args),
        None => compile::run(session, args),
    }
}

fn verb(session: &mut Session, command: &Command) -> Outcome {
    match command {
        Command::Run(args) => run_or_compile(session, &args.compile()),
        Command::Compile(args) => run_or_compile(session, args),
        Command::Check(args) => match args.file.as_deref().and_then(|f| format_of(session, f)) {
            Some(format) => (format.check)(session, args),
            None => check::run(session, args),
        },
        Command::Launch(args) => match format_of(session, &args.file) {
            Some(_) => Err(launch::no_program(&args.file)),
            None => launch::run(session, args),
        },
        Command::Calibrate(args) => calibrate::run(session, args),
        Command::New(args) => new::run(session, args),
        Command::Import(args) => torch::import(session, args),
        Command::Report(args) => match format_of(session, &args.file) {
            Some(_) => Err(report::no_page(&args.file, report::NEITHER).into()),
            None => report::run(session, args),
        },
        Command::Opt(args) => match opt::run(session, args)? {
            Some(replayed) => verb(session, &replayed),
            None => Ok(()),
        },
        Command::Fmt(args) => fmt::run(session, args),
        Command::Explain(args) => explain::run(session, args),
        Command::Passes(args) => passes::run(session, args),
        Command::Compare(args) => compare::run(session, args),
        Command::Sweep(args) => sweep::run(session, args),
        Command::Synth(args) => synth::run(session, args),
        Command::Repair(args) => repair::run(session, args),
        Command::Plot(args) => plot::run(session, args),
        Command::List(args) => list::run(session, args),
        Command::Completions(args) => completions::run(session, args),
        Command::Man(args) => man::run(session, args),
        Command::Dev(Dev { verb }) | Command::Old(verb) => dev(session, verb),
    }
}

/// Runs a verb about kbc itself.
fn dev(session: &mut Session, command: &DevVerb) -> Outcome {
    match command {
        DevVerb::Fuzz(args) => fuzz::run(session, args),
        DevVerb::Mutate(args) => mutate::run(session, args),
        DevVerb::Replay(args) => {
            let replayed = replay::command(session, args)?;
            verb(session, &replayed)
        }
        DevVerb::Repro(args) => repro::run(session, args),
        DevVerb::Bench(args) => bench::run(session, args),
        DevVerb::CompareReference(args) => reference::run(session, args),
    }
}
