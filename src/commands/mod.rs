//! One module a verb, and what several of them need.

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

use crate::cli::{Command, Selection, Source};
use crate::crash::{self, Stage};
use crate::report::{AxisReport, Report, SCHEMA};
use crate::session::{Failure, Outcome, Session};
use kbc_diag::settle::settle;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Severity, Span};
use kbc_frontend::load::{Loaded, load};
use kbc_ir::Module;
use kbc_ir::schedule::Schedule;
use kbc_passes::instrument::Instrument;
use kbc_rounds::Library;

/// Runs a verb. What is wrong with a text of the IR or of the tile level has a place in it.
///
/// # Errors
/// Of the verb.
pub fn dispatch(session: &mut Session, command: &Command) -> Outcome {
    verb(session, command).map_err(|failure| settled(session, failure))
}

/// Messages without a place get one, where one text of the IR or of the tile level was read and they are about its content.
fn settled(session: &Session, failure: Failure) -> Failure {
    let Failure::Program(mut found) = failure else { return failure };
    let is_one = |text: &str| {
        let first = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with(';'));
        first.is_some_and(|l| l.starts_with("kir ") || l.starts_with("tile "))
    };
    let ending = |name: &str| name.ends_with(".kir") || name.ends_with(".tile");
    let mut texts = session.map.files().filter(|(_, f)| ending(&f.name) || f.name == "-" && is_one(&f.text));
    if let (Some((id, file)), None) = (texts.next(), texts.next()) {
        // Data, files, memory and the command line are not the text's.
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

/// An observer that looks at nothing.
pub struct Nothing;

impl Instrument for Nothing {}

/// Loads a file and everything it uses; what is wrong with its declarations comes along, so that lowering can say what
/// is wrong with its program in the same run.
///
/// # Errors
/// Of reading and parsing, after which names and types would be wrong for want of what could not be read.
pub fn load_parts(session: &mut Session, path: &str) -> Outcome<(Loaded, Diagnostics)> {
    let (file, text) = session.read(path)?;
    crash::stage(Stage::Read);
    let (loaded, found) = load(Some((file, text.to_string())), session);
    let unread = |code: &str| ("E001"..="E003").contains(&code) || code.starts_with("E41");
    if found.list.iter().any(|d| d.severity == Severity::Error && unread(d.code)) {
        return Err(found.into());
    }
    Ok((loaded, told(session, found)))
}

/// Loads a file and everything it uses.
///
/// # Errors
/// Of reading, parsing and the checks that need no sizes.
pub fn load_file(session: &mut Session, path: &str) -> Outcome<Loaded> {
    let (file, text) = session.read(path)?;
    load_text(session, Some((file, text.to_string())))
}

/// Reads a `.kir` text and verifies that it is well formed.
///
/// # Errors
/// Of reading, parsing and the verifier; E416 for a program.
pub fn load_kir(session: &mut Session, path: &str) -> Outcome<(FileId, Module)> {
    if path.ends_with(".kb") {
        return Err(Diagnostic::error("E416", format!("{path} is a program, not a text of the IR"))
            .help(format!(
                "kbc compile {path} --emit graph=FILE.kir writes its graph, --emit kir its schedule"
            ))
            .into());
    }
    let (file, text) = session.read(path)?;
    crash::stage(Stage::Read);
    let module = kbc_ir::text::parse(file, &text)?;
    crash::module("", &module);
    let found = kbc_ir::verify::verify(&module);
    if found.has_errors() {
        return Err(found.into());
    }
    session.tell(&found);
    Ok((file, module))
}

/// The library, and the algorithms of some files.
///
/// # Errors
/// As [`load_file`].
pub fn library(session: &mut Session, files: &[String]) -> Outcome<Library> {
    Ok(everything(session, files)?.library)
}

/// The library, and all that some files declare.
///
/// # Errors
/// As [`load_file`].
pub fn everything(session: &mut Session, files: &[String]) -> Outcome<Loaded> {
    // All files in one scope, as if one file used them all.
    // The text between quotes is taken as it is.
    let uses: Vec<String> = files.iter().map(|f| format!("use \"{f}\"\n")).collect();
    let text = uses.concat();
    let file = session.add_text("<files>", &text);
    load_text(session, (!files.is_empty()).then_some((file, text)))
}

fn load_text(session: &mut Session, root: Option<(FileId, String)>) -> Outcome<Loaded> {
    crash::stage(Stage::Read);
    let (loaded, found) = load(root, session);
    let found = told(session, found);
    if found.has_errors() { Err(found.into()) } else { Ok(loaded) }
}

/// Errors alone; without any, warnings and notes are told now.
fn told(session: &Session, mut found: Diagnostics) -> Diagnostics {
    // A copy of a library file hides what it is a copy of: nobody needs to be told.
    let text = |span: Span| session.map.get(span.file).map(|f| &*f.text);
    let copy = |d: &Diagnostic| match &d.labels[..] {
        [a, b] => d.severity == Severity::Note && a.span.file != b.span.file && text(a.span) == text(b.span),
        _ => false,
    };
    found.list.retain(|d| !copy(d));
    if !found.has_errors() {
        session.tell(&found);
        found = Diagnostics::new();
    }
    found
}

/// Nothing that was said is ignored.
///
/// # Errors
/// E416: the first of the flags that was given, and means nothing for `what`.
pub fn refuse(flags: &[(&str, bool)], what: &str) -> Outcome {
    match flags.iter().find(|f| f.1) {
        Some((flag, _)) => {
            Err(Failure::Usage(Diagnostic::error("E416", format!("{flag} means nothing for {what}")).into()))
        }
        None => Ok(()),
    }
}

/// Reads and verifies a `.kir` text that must hold a schedule.
///
/// # Errors
/// Of reading, parsing, verifying; E416 for a graph, and for flags that are about programs.
pub fn read_schedule(session: &mut Session, source: &Source) -> Outcome<Module> {
    let of = &source.of;
    refuse(&Selection { topology: None, set: vec![], ..of.clone() }.given(), "a .kir file")?;
    let (file, module) = load_kir(session, &source.file)?;
    if module.schedule().is_none() {
        return Err(Diagnostic::error("E416", "this .kir is a graph, and a schedule is needed")
            .primary(Span::new(file, 0, 0), "lower it with `kbc opt` first")
            .into());
    }
    Ok(module)
}

/// The report of a schedule that comes from text.
pub fn about_schedule(command: &'static str, file: &str, module: &Module, schedule: &Schedule) -> Report {
    Report {
        schema: SCHEMA,
        command,
        file: file.to_owned(),
        program: module.name.to_string(),
        machine: module.machine.clone(),
        mesh: schedule
            .mesh
            .axes
            .iter()
            .map(|a| AxisReport { name: a.name.to_string(), size: a.size })
            .collect(),
        collectives: crate::analyse::collectives(schedule, &[]),
        ..Report::default()
    }
}
