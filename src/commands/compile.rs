//! `kbc compile`: lowers, proves, executes, times and reports.

use crate::cli::{Compile, Data, ReportFormat};
use crate::crash::{self, Stage};
use crate::outdir::{self, Records};
use crate::session::{Failure, Outcome, Session};
use crate::watch::{self, Watching};
use kbc_compiler::about::{begin, inputs};
use kbc_compiler::analyse;
use kbc_compiler::arguments;
use kbc_compiler::backends;
use kbc_compiler::build::{Built, build};
use kbc_compiler::data;
use kbc_compiler::emit;
use kbc_compiler::emit::Prepared;
use kbc_compiler::perturb;
use kbc_compiler::report::{EmitReport, Report, human};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span};
use kbc_ir::dot;
use kbc_ir::schedule::Calls;
use kbc_ir::text::{self, PrintOptions};
use kbc_ir::types::TensorType;
use kbc_numerics::shard::Part;
use kbc_time::TimeOptions;
use kbc_views::record::{self, Wanted};
use std::path::Path;

/// Runs all steps for a target.
///
/// # Errors
/// Returns the error of any step; a comparison that fails is an error, too.
pub fn run(session: &mut Session, args: &Compile) -> Outcome {
    emit::target(&args.target)?;
    let given = &args.groups;
    let flags = [
        ("--group", !given.group.is_empty()),
        ("--weights", given.weights.is_some()),
        ("--reference", given.reference.is_some()),
    ];
    kbc_compiler::load::refuse(&flags, &args.source.file)?;
    program(session, args)
}

/// Compiles a program, or an input that represents one.
///
/// # Errors
/// As [`run`].
pub fn program(session: &mut Session, args: &Compile) -> Outcome {
    let target = emit::target(&args.target)?;
    super::msccl::no_post(&args.source)?;
    let asked = asked(args, target.is_some())?;
    let wanted = Wanted::new(asked.records.clone(), args.trace_ranks.clone())?;
    watch::forced(&args.watch, asked.out.is_some())?;
    let artefacts = asked.artefacts.clone();
    let described = arguments::perturb(session, args.perturb.as_ref())?;
    let silent = || {
        let d = Diagnostic::error("E416", "--perturb applies only to a timed run")
            .help("write the output to a file, --emit kir=FILE, so that the report goes to standard output");
        Failure::Usage(d.into())
    };
    if described.is_some() && artefacts.iter().any(|a| a.1 == "-") {
        return Err(silent());
    }
    let (watch, after) = match target {
        Some(_) => watch::split(&args.watch)?,
        None => (args.watch.clone(), vec![]),
    };
    let passes = match target {
        // No target has queues, whatever the machine on which it is timed.
        Some(_) if args.passes == "default" => "windows",
        _ => &args.passes,
    };
    let mut watching = Watching::new(&watch, after);
    session.inputs.clone_from(&args.data.input);
    let built = build(session, &args.source.plain(), passes, &mut watching)?;
    if let (Some(l), Some(_)) = (&built.local, target) {
        let name = l.name.clone().unwrap_or_else(|| "it".into());
        let d = Diagnostic::error("E548", format!("a local program cannot be emitted: `{name}`"))
            .primary(
                l.parts.first().map_or(Span::NONE, |p| p.span),
                "these are sizes on one rank, and a kernel needs global sizes",
            )
            .help("write it as a `program` with global shapes, or use --target sim");
        return Err(d.into());
    }
    let names = analyse::output_names(&built.typed);
    data::check_outputs(&args.data.plain(), &names)?;
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
        return write_artefacts(session, &artefacts, &built);
    };
    let mut report = begin("compile", &args.source.file, &built, schedule);
    report.torch = std::mem::take(&mut session.torch);
    session.progress("proving");
    report.verified = Some(analyse::prove(session, &built, schedule)?);
    let prepared = match target {
        Some(profile) => {
            session.progress("emitting");
            Some(emit::prepare(session, &built, schedule, profile, &mut watching)?)
        }
        None => None,
    };
    write_artefacts(session, &artefacts, &built)?;
    let nothing_more = asked.out.is_none() && asked.texts.is_empty();
    let alone = artefacts.iter().chain(&asked.texts).any(|a| a.1 == "-");
    if alone && nothing_more && args.data.output.is_empty() && wanted.list.is_empty() {
        // The text was requested, and it is proven; nobody would see the results of a run.
        return Ok(());
    }
    session.progress("executing");
    let done = analyse::execute(session, &built, schedule, &args.data.plain(), 1, None, &mut watching)?;
    report.engine = Some(args.data.engine.unwrap_or_default().plain().name());
    report.inputs = inputs(&built, &done.inputs);
    report.host_reads = kbc_compiler::host::reads(schedule, &done.result);
    session.progress("timing");
    record::time(
        session,
        &mut report,
        built.subject(schedule),
        &built.topology,
        &wanted,
        &Records,
        &TimeOptions::default(),
    )?;
    if let Some(p) = described.as_ref().or(built.perturb.as_ref()) {
        report.perturb = Some(perturb::runs(built.subject(schedule), &built.topology, p)?);
    }
    report.ok = analyse::passes(&done.compare) && done.expect.iter().all(analyse::passes);
    (report.compare, report.expect) = (Some(done.compare), done.expect);
    if let (Some(prepared), true) = (&prepared, report.ok) {
        let own = match (&built.local, done.inputs.calls.first()) {
            (None, Some(call)) if asked.out.is_some() => {
                emit::own_data(&built.typed, built.module.mesh.ranks(), call)?
            }
            _ => None,
        };
        report.emitted = emitted(session, args, &asked, prepared, &report, own)?;
    }
    if let Some(last) = done.result.outputs.last() {
        write_results(&args.data, &names, &analyse::output_types(&built), last)?;
    }
    finish(session, &report, args.report, !alone && !wanted.takes_output())
}

/// Writes the package and the texts of the kernel. The folder comes first, so that no other file is
/// written if the folder cannot be.
fn emitted(
    session: &Session,
    args: &Compile,
    asked: &EmitRequest,
    prepared: &Prepared,
    report: &Report,
    own: Option<Vec<u8>>,
) -> Outcome<Option<EmitReport>> {
    crash::stage(Stage::Emit);
    let mut texts = vec![];
    for (kind, path) in &asked.texts {
        texts.push((path, emit::text(prepared, kind, report)?));
    }
    let mut emitted = None;
    if let Some(out) = &asked.out {
        let contents = emit::contents(prepared, report, own)?;
        outdir::write(Path::new(out), &contents.files, args.watch.force)?;
        emitted = Some(EmitReport { out: out.clone(), ..contents.report });
    }
    for (path, text) in texts {
        write_text(session, path, &text)?;
    }
    Ok(emitted)
}

/// Writes a text to a file; `-` is standard output.
fn write_text(session: &Session, path: &str, text: &str) -> Outcome {
    if path == "-" {
        session.print_artefact(text);
    } else {
        outdir::write_file(Path::new(path), text.as_bytes())?;
    }
    Ok(())
}

/// Writes results for `--output`: the global value, assembled from the parts of the ranks.
///
/// # Errors
/// Returns the errors of [`data::outputs`], and E410 if a file cannot be written.
pub fn write_results(asked: &Data, names: &[String], types: &[TensorType], parts: &[Vec<Part>]) -> Outcome {
    for (file, bytes) in data::outputs(&asked.plain(), names, types, parts)? {
        outdir::write_file(Path::new(&file), &bytes)?;
    }
    Ok(())
}

/// What `--emit` and `--out` request.
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

/// Parses `--emit` and `--out`. A package is written unless only outputs on standard output or of
/// the kernel are requested.
fn asked(args: &Compile, emits: bool) -> Outcome<EmitRequest> {
    let (records, rest): (Vec<_>, Vec<_>) =
        artefacts(&args.emit, &ARTEFACTS)?.into_iter().partition(|a| record::KINDS.contains(&a.0.as_str()));
    let (texts, artefacts): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|a| emit::TEXTS.contains(&a.0.as_str()));
    let usage = |d: Diagnostic| Err(Failure::Usage(Diagnostics::from(d)));
    if !emits {
        if args.out.is_some() {
            return usage(
                Diagnostic::error(
                    "E416",
                    "--out is the folder of emitted code, and target sim emits no code",
                )
                .help("use --emit kir=FILE or --dump-dir DIR"),
            );
        }
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
    let out = match &args.out {
        Some(out) => Some(out.clone()),
        None if alone => None,
        None => Some(folder(args)?),
    };
    Ok(EmitRequest { records, artefacts, texts, out })
}

/// Prints a report. A report that is not ok gives exit code 1.
///
/// # Errors
/// Returns E430 if a comparison failed.
pub fn finish(session: &Session, report: &Report, format: ReportFormat, print: bool) -> Outcome {
    crash::stage(Stage::Report);
    if print {
        show(session, report, format)?;
    }
    if report.ok {
        return Ok(());
    }
    Err(Failure::Program(Diagnostics::from(
        Diagnostic::error("E430", format!("{}: the results are wrong", report.file))
            .note("the report lists the wrong elements"),
    )))
}

/// Writes a report to standard output.
///
/// # Errors
/// E991: it cannot be written as JSON.
pub fn show(session: &Session, report: &Report, format: ReportFormat) -> Outcome {
    match format {
        ReportFormat::Human => session.result(&human(report)),
        ReportFormat::Json => session.json(report)?,
    }
    Ok(())
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

const ARTEFACTS: [&str; 9] = ["graph", "kir", "json", "dot", "dot-graph", "trace", "log", "tile", "cpp"];

/// Parses `KIND[=PATH]`, where the path `-` is standard output.
///
/// # Errors
/// Returns E416 for an unknown kind.
pub fn artefacts(emit: &[String], kinds: &[&'static str]) -> Outcome<Vec<(String, String)>> {
    let mut out = vec![];
    for e in emit {
        let (kind, path) = e.split_once('=').unwrap_or((e, "-"));
        if !kinds.contains(&kind) {
            let mut d = Diagnostic::error("E416", format!("unknown output `{kind}` of --emit"))
                .note(format!("the outputs are {}", kinds.join(", ")));
            if let Some(near) = nearest(kind, kinds.iter().copied()) {
                d = d.help(format!("did you mean `{near}`?"));
            }
            return Err(Failure::Usage(d.into()));
        }
        out.push((kind.to_owned(), path.to_owned()));
    }
    Ok(out)
}

fn write_artefacts(session: &Session, artefacts: &[(String, String)], built: &Built) -> Outcome {
    if !artefacts.is_empty() {
        crash::stage(Stage::Emit);
    }
    for (kind, path) in artefacts {
        let text = match (kind.as_str(), built.module.schedule()) {
            ("graph", _) => {
                let mut module = built.module.clone();
                module.body = match &built.local {
                    Some(l) => kbc_ir::Body::Local(l.clone()),
                    None => kbc_ir::Body::Graph(built.placed.clone()),
                };
                module.props = kbc_ir::Props::TYPED.with(kbc_ir::Props::PLACED).with(kbc_ir::Props::SELECTED);
                text::print(&module, &PrintOptions::default())
            }
            ("dot-graph", _) => match &built.local {
                Some(l) => dot::local_dot(l),
                None => dot::graph_dot(&built.placed),
            },
            ("dot", Some(s)) => dot::schedule_dot(s),
            ("json", _) => text::json(&built.module),
            _ => text::print(&built.module, &PrintOptions::default()),
        };
        write_text(session, path, &text)?;
    }
    Ok(())
}
