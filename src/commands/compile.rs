//! `kbc run` and `kbc compile` of programs: lower, prove, execute, time, emit and report.

use super::output::{self, finish, write_results, write_text};
use super::refusals;
use crate::cli::Compile;
use crate::crash::{self, Stage};
use crate::outdir::{self, Records};
use crate::session::{Failure, Outcome, Session};
use crate::watch::{self, Watching};
use kbc_compiler::about::begin;
use kbc_compiler::analyse;
use kbc_compiler::arguments;
use kbc_compiler::artefacts;
use kbc_compiler::backends;
use kbc_compiler::build::{Built, build};
use kbc_compiler::data;
use kbc_compiler::emit;
use kbc_compiler::emit::Prepared;
use kbc_compiler::perturb;
use kbc_compiler::report::{EmitReport, Report};
use kbc_compiler::run;
use kbc_compiler::workspace::NextRun;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::schedule::{Calls, Schedule};
use kbc_tiles::backend::{SharedFile, Target};
use kbc_views::record;
use std::collections::BTreeMap;
use std::path::Path;

/// What takes the results of a compilation between its steps.
pub trait PackageReceiver {
    /// Looks at the schedule, before it is proven.
    ///
    /// # Errors
    /// Returns why it is not the wanted one.
    fn schedule(&self, _schedule: &Schedule) -> Outcome {
        Ok(())
    }

    /// Writes the files of a package to the folder that the command line names.
    ///
    /// # Errors
    /// Returns the errors of [`outdir::write`].
    fn package(&mut self, out: &Path, files: &[(String, Vec<u8>)], force: bool) -> Result<(), Diagnostic> {
        outdir::write(out, files, force)
    }
}

/// A compilation that ends with its package.
struct PackageWriter;

impl PackageReceiver for PackageWriter {}

/// Returns the target that a command line asks for; none for the simulator.
pub(super) fn target_of(args: &Compile) -> Outcome<Option<&'static dyn Target>> {
    let target = emit::target(&args.target)?;
    if !args.deferred_waits {
        return Ok(target);
    }
    let deferring = target.and_then(|t| t.with_deferred_waits());
    let none = || {
        let title = format!("--deferred-waits does not apply to the target {}", args.target);
        let why = "the option needs a runtime that waits for counters in place of a task";
        let d = Diagnostic::error("E458", title).note(why);
        Failure::Usage(d.help("use it with --target a2a3, or leave it out").into())
    };
    deferring.map(Some).ok_or_else(none)
}

/// Runs all steps of `kbc compile` or `kbc run`.
///
/// # Errors
/// Returns the error of any step; a comparison that fails is an error, too.
pub fn run(session: &mut Session, args: &Compile) -> Outcome {
    target_of(args)?;
    refusals::no_groups(&args.execution, &args.source.file)?;
    program(session, args)
}

/// Compiles a program, or an input that represents one.
///
/// # Errors
/// As [`run()`].
pub fn program(session: &mut Session, args: &Compile) -> Outcome {
    if let Some(names) = several(args)? {
        return together(session, args, &names);
    }
    match steps(session, args, &mut PackageWriter)? {
        Some((report, print)) => finish(session, &report, print),
        None => Ok(()),
    }
}

/// Returns the programs that `--program` names, if they are several.
fn several(args: &Compile) -> Outcome<Option<Vec<String>>> {
    let Some(list) = args.source.of.program.as_deref().filter(|p| p.contains(',')) else { return Ok(None) };
    let names: Vec<String> = list.split(',').map(|n| n.trim().to_owned()).collect();
    let usage = |d: Diagnostic| Err(Failure::Usage(d.into()));
    let twice = names.iter().enumerate().find(|(i, n)| n.is_empty() || names[..*i].contains(n));
    if let Some((_, name)) = twice {
        let what = if name.is_empty() { "has an empty name".into() } else { format!("names `{name}` twice") };
        return usage(
            Diagnostic::error("E416", format!("--program {list} {what}"))
                .help("write names with commas between them, each once"),
        );
    }
    if target_of(args)?.is_none() {
        return usage(
            Diagnostic::error("E416", "--program names several programs, and target sim takes one")
                .help("name one, or a target that writes a folder for each (kbc list targets)"),
        );
    }
    if args.source.file == "-" {
        return usage(
            Diagnostic::error("E416", "--program names several programs, and standard input is read once")
                .help("write the programs to a file"),
        );
    }
    let asked = asked(args, true)?;
    let files = !asked.artefacts.is_empty() || !asked.texts.is_empty() || !asked.records.is_empty();
    if files || !args.execution.data.results().is_empty() {
        return usage(
            Diagnostic::error("E416", "--emit and results in files are those of one program")
                .help("name one program, or leave them out"),
        );
    }
    Ok(Some(names))
}

/// Keeps the files of packages that are written together: each in a folder of its program's name,
/// and what they share beside these folders.
struct PackageCollector<'a> {
    name: &'a str,
    shared: &'static [SharedFile],
    files: BTreeMap<String, Vec<u8>>,
}

impl PackageReceiver for PackageCollector<'_> {
    fn package(&mut self, _out: &Path, files: &[(String, Vec<u8>)], _force: bool) -> Result<(), Diagnostic> {
        for (path, bytes) in files {
            let shared = self.shared.iter().find(|s| s.name == path);
            if shared.is_some() {
                self.files.insert(path.clone(), bytes.clone());
            }
            if shared.is_none_or(|s| s.kept) {
                self.files.insert(format!("{}/{path}", self.name), bytes.clone());
            }
        }
        Ok(())
    }
}

/// Compiles several programs of a file, and writes their packages as one folder.
fn together(session: &mut Session, args: &Compile, names: &[String]) -> Outcome {
    let shared = target_of(args)?.map_or(&[][..], |t| t.shared_files());
    let Some(out) = asked(args, true)?.out else {
        return Err(Diagnostic::error("E991", "several packages have no folder").into());
    };
    let mut files = BTreeMap::new();
    let mut reports = vec![];
    for name in names {
        let mut one = args.clone();
        one.source.of.program = Some(name.clone());
        let mut receiver = PackageCollector { name, shared, files };
        let mut session = session.fresh(vec![]);
        let made = steps(&mut session, &one, &mut receiver)?;
        files = receiver.files;
        let Some((mut report, print)) = made else { continue };
        if let Some(emitted) = &mut report.emitted {
            emitted.out = format!("{out}/{name}");
            emitted.files.retain(|f| shared.iter().all(|s| s.kept || s.name != f));
        }
        reports.push((session, report, print));
    }
    if reports.iter().all(|(_, report, _)| report.ok) {
        let files: Vec<_> = files.into_iter().collect();
        outdir::write(Path::new(&out), &files, args.execution.watch.force)?;
    } else {
        // Nothing was written.
        reports.iter_mut().for_each(|(_, report, _)| report.emitted = None);
    }
    if session.is_json() {
        let all: Vec<&Report> = reports.iter().map(|(_, report, _)| report).collect();
        session.json(&serde_json::json!({ "programs": all }))?;
    }
    let ends: Vec<Outcome> = reports
        .iter()
        .map(|(own, report, print)| finish(own, report, *print && !session.is_json()))
        .collect();
    ends.into_iter().collect()
}

/// Does everything up to the report, and returns that, with whether it is to be printed. There is
/// none where only a text was requested.
///
/// # Errors
/// As [`run()`], but a comparison that fails is none: the report is not ok then.
pub fn steps(
    session: &mut Session,
    args: &Compile,
    receiver: &mut dyn PackageReceiver,
) -> Outcome<Option<(Report, bool)>> {
    let how = &args.execution;
    let target = target_of(args)?;
    refusals::no_post(&args.source)?;
    if target.is_some() {
        refusals::complete(how, &args.target)?;
    }
    let asked = asked(args, target.is_some())?;
    let wanted = output::wanted(how, asked.records.clone())?;
    watch::forced(&how.watch, asked.out.is_some())?;
    let described = arguments::perturb(session, how.perturb.as_ref())?;
    let silent = || {
        let d = Diagnostic::error("E416", "--perturb applies only to a timed run")
            .help("write the output to a file, --emit kir=FILE, so that the report goes to standard output");
        Failure::Usage(d.into())
    };
    if described.is_some() && asked.artefacts.iter().any(|a| a.1 == "-") {
        return Err(silent());
    }
    let (watch, after) = match target {
        Some(_) => watch::split(&how.watch)?,
        None => (how.watch.clone(), vec![]),
    };
    let passes = emit::passes(target, &how.passes);
    let mut watching = Watching::new(&watch, after);
    session.inputs.clone_from(&how.data.input);
    let next = how.request();
    // Where only a text is requested, no run follows.
    let runs = !how.no_data && asked.artefacts.iter().all(|a| a.1 != "-");
    session.next_run = runs.then(|| NextRun { calls: next.calls(), seed: next.order().unwrap_or(0) });
    let built = build(session, &args.source.plain(), passes, &mut watching)?;
    if target.is_some() {
        emit::refuse_local(&built)?;
    }
    let names = analyse::output_names(&built.typed);
    data::check_outputs(&how.data.plain(), &names)?;
    let Some(schedule) = built.module.schedule().filter(|s| s.calls != Calls::None) else {
        // A pipeline that ends before `synchronize` was requested, to look at the module.
        let kinds = wanted.list.first().or(asked.texts.first());
        if let Some((kind, _)) = kinds {
            return Err(Diagnostic::error(
                "E416",
                format!("there is no {kind} before the module has a schedule"),
            )
            .help("run the passes up to `synchronize`")
            .into());
        }
        if described.is_some() {
            return Err(silent());
        }
        write_artefacts(session, &asked.artefacts, &built)?;
        return Ok(None);
    };
    receiver.schedule(schedule)?;
    let mut report = begin(args.verb, &args.source.file, &built, schedule);
    report.ok = true;
    report.torch = std::mem::take(&mut session.torch);
    if !how.no_proof {
        session.progress("proving");
        report.verified = Some(analyse::prove(session, &built, schedule)?);
    }
    let prepared = match target {
        Some(profile) => {
            session.progress("emitting");
            Some(emit::prepare(session, &built, schedule, profile, &mut watching)?)
        }
        None => None,
    };
    write_artefacts(session, &asked.artefacts, &built)?;
    let nothing_more = asked.out.is_none() && asked.texts.is_empty();
    let alone = asked.artefacts.iter().chain(&asked.texts).any(|a| a.1 == "-");
    if alone && nothing_more && how.data.results().is_empty() && wanted.list.is_empty() {
        // The text was requested, and it is proven; nobody would see the results of a run.
        return Ok(None);
    }
    let mut ran = None;
    if !how.no_data {
        session.progress("executing");
        ran = Some(run::program(session, &mut report, &built, schedule, &how.request(), &mut watching)?);
    }
    if !how.no_time {
        session.progress("timing");
        let (subject, topology) = (built.subject(schedule), &built.topology);
        record::time(session, &mut report, subject, topology, &wanted, &Records, &how.time())?;
        if let Some(p) = described.as_ref().or(built.perturb.as_ref()) {
            report.perturb = Some(perturb::runs(subject, topology, p)?);
        }
    }
    if let (Some(prepared), true) = (&prepared, report.ok) {
        let own = match (&built.local, ran.as_ref().and_then(|(inputs, _)| inputs.calls.first())) {
            (None, Some(call)) if asked.out.is_some() => {
                emit::own_data(&built.typed, built.module.mesh.ranks(), call)?
            }
            _ => emit::OwnData::default(),
        };
        report.emitted = emitted(session, args, &asked, prepared, &report, (own, receiver))?;
    }
    if let Some(last) = ran.as_ref().and_then(|(_, result)| result.outputs.last()) {
        write_results(&how.data, &names, &analyse::output_types(&built), last)?;
    }
    Ok(Some((report, !alone && !wanted.takes_output())))
}

/// Writes the package and the texts of the kernel. The folder comes first, so that no other file is
/// written if the folder cannot be.
fn emitted(
    session: &Session,
    args: &Compile,
    asked: &EmitRequest,
    prepared: &Prepared,
    report: &Report,
    (own, receiver): (emit::OwnData, &mut dyn PackageReceiver),
) -> Outcome<Option<EmitReport>> {
    crash::stage(Stage::Emit);
    let mut texts = vec![];
    for (kind, path) in &asked.texts {
        texts.push((path, emit::text(prepared, kind, report)?));
    }
    let mut emitted = None;
    if let Some(out) = &asked.out {
        let contents = emit::contents(prepared, report, own)?;
        receiver.package(Path::new(out), &contents.files, args.execution.watch.force)?;
        emitted = Some(EmitReport { out: out.clone(), ..contents.report });
    }
    for (path, text) in texts {
        write_text(session, path, &text)?;
    }
    Ok(emitted)
}

/// What `--emit` and `--output` request.
struct EmitRequest {
    /// Records of the timed run.
    records: Vec<(String, String)>,
    /// Texts of module and graph.
    artefacts: Vec<(String, String)>,
    /// Texts of the kernel.
    texts: Vec<(String, String)>,
    /// The folder of the package.
    out: Option<String>,
}

/// Parses `--emit` and `--output`. A package is written unless only outputs on standard output or
/// of the kernel are requested.
fn asked(args: &Compile, emits: bool) -> Outcome<EmitRequest> {
    let kinds = [&artefacts::KINDS[..], &record::KINDS, &emit::TEXTS].concat();
    let (records, rest): (Vec<_>, Vec<_>) = output::artefacts(&args.execution, &kinds, emits)?
        .into_iter()
        .partition(|a| record::KINDS.contains(&a.0.as_str()));
    let (texts, artefacts): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|a| emit::TEXTS.contains(&a.0.as_str()));
    let usage = |d: Diagnostic| Err(Failure::Usage(Diagnostics::from(d)));
    if !emits {
        if let Some((kind, _)) = texts.first() {
            return usage(
                Diagnostic::error(
                    "E416",
                    format!("there is no {kind} for target sim, which emits no kernel"),
                )
                .help(format!(
                    "write --target {}; kbc list targets lists the others",
                    backends::default_target().name()
                )),
            );
        }
        return Ok(EmitRequest { records, artefacts, texts, out: None });
    }
    let alone = !texts.is_empty() || artefacts.iter().any(|a| a.1 == "-");
    let out = match args.execution.data.place()? {
        Some(out) => Some(out.to_owned()),
        None if alone => None,
        None => Some(folder(args)?),
    };
    Ok(EmitRequest { records, artefacts, texts, out })
}

/// Returns the default folder of a package: the program's name followed by the target's, in the
/// working directory.
fn folder(args: &Compile) -> Outcome<String> {
    match Path::new(&args.source.file).file_stem() {
        Some(stem) if args.source.file != "-" => Ok(format!("{}.{}", stem.to_string_lossy(), args.target)),
        _ => Err(Failure::Usage(
            Diagnostic::error(
                "E416",
                "a program from standard input has no name, so the folder must be given",
            )
            .help("write -o DIR")
            .into(),
        )),
    }
}

fn write_artefacts(session: &Session, artefacts: &[(String, String)], built: &Built) -> Outcome {
    if !artefacts.is_empty() {
        crash::stage(Stage::Emit);
    }
    artefacts.iter().try_for_each(|(kind, path)| write_text(session, path, &artefacts::text(built, kind)))
}
