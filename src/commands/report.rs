//! `kbc report`: an HTML page about a program or a schedule.

use super::compile::finish;
use super::run::generated;
use crate::analyse;
use crate::build::{Built, build};
use crate::cli::{Data, MakePage, ReportFormat, Source};
use crate::outdir;
use crate::page::{self, Made, texts};
use crate::perturb;
use crate::record::ranks::Ranks;
use crate::record::scene::Scene;
use crate::record::{self, Wanted};
use crate::report::{Report, human, timed};
use crate::session::{Outcome, Session};
use kbc_backend_sim::interp::RunOptions;
use kbc_compiler::about::{begin, inputs};
use kbc_compiler::machine::machine;
use kbc_compiler::timeline::holders;
use kbc_compiler::watch::Unwatched;
use kbc_diag::Diagnostic;
use kbc_ir::Module;
use kbc_ir::schedule::Schedule;
use kbc_machine::topology::Topology;
use kbc_time::TimeOptions;
use std::path::Path;

/// Proves, executes, compares and times, and writes the results as a page.
///
/// # Errors
/// Returns the error of any step, E594 for an input without a page, and E593 for a page that would
/// be too large. Wrong results are an error, too, but the page is written to show them.
pub fn run(session: &mut Session, args: &MakePage) -> Outcome {
    let source = Source { file: args.file.clone(), of: args.of.clone(), post: None };
    if super::import::is_one(session, &source.file)
        || super::torch::is_one(&source.file)
        || source.file.ends_with(".tile")
    {
        return Err(no_page(&source.file, "it is neither a program nor a .kir schedule").into());
    }
    if source.file.ends_with(".kir") {
        of_schedule(session, args, &source)
    } else {
        of_program(session, args, &source)
    }
}

fn no_page(file: &str, why: &str) -> Diagnostic {
    Diagnostic::error("E594", format!("{file} has no report page: {why}"))
        .help("give a .kb program, or a .kir schedule and a machine")
}

fn of_program(session: &mut Session, args: &MakePage, source: &Source) -> Outcome {
    session.inputs.clone_from(&args.input);
    let built = build(session, &source.plain(), "default", &mut Unwatched)?;
    let Some(schedule) = built.module.schedule() else { return Ok(()) };
    shown(args, schedule)?;
    let mut report = begin("report", &source.file, &built, schedule);
    session.progress("proving");
    report.verified = Some(analyse::prove(session, &built, schedule)?);
    report.ok = true;
    if !args.no_data {
        session.progress("executing");
        let data = Data { input: args.input.clone(), engine: args.engine, output: vec![] };
        let done = analyse::execute(session, &built, schedule, &data.plain(), 1, None, &mut Unwatched)?;
        report.engine = Some(args.engine.unwrap_or_default().plain().name());
        report.inputs = inputs(&built, &done.inputs);
        report.host_reads = crate::host::reads(schedule, &done.result);
        report.ok = analyse::passes(&done.compare) && done.expect.iter().all(analyse::passes);
        (report.compare, report.expect) = (Some(done.compare), done.expect);
    }
    if let Some(p) = &built.perturb {
        report.perturb = Some(perturb::runs(built.subject(schedule), &built.topology, p)?);
    }
    write(session, args, report, &built.module, &built.topology, Some(&built))
}

fn of_schedule(session: &mut Session, args: &MakePage, source: &Source) -> Outcome {
    kbc_compiler::load::refuse(&[("--input", !args.input.is_empty())], "a .kir file")?;
    let module = kbc_compiler::load::read_schedule(session, &source.plain())?;
    let Some(schedule) = module.schedule() else { return Ok(()) };
    shown(args, schedule)?;
    let machine = machine(session, &source.of.plain(), module.machine.as_ref(), Some(schedule))?;
    let Some((topology, own)) = machine else {
        return Err(no_page(&source.file, "it names no machine, so it cannot be timed")
            .help("give one with --topology")
            .into());
    };
    let mut report = kbc_compiler::about::about_schedule("report", &source.file, &module, schedule);
    report.machine = Some(topology.to_string());
    report.verified = Some(analyse::verify(session, schedule)?);
    if !args.no_data {
        let engine = args.engine.unwrap_or_default().plain();
        session.room().calls_fit(schedule, 1, false)?;
        let options = RunOptions { max_bytes: session.room().engine_bytes(), ..RunOptions::default() };
        let fed = generated(schedule, 1, 0)?;
        let ran =
            engine.attempt(session, &mut Unwatched, schedule, &fed, &options).map_err(|f| f.diagnostics)?;
        report.host_reads = crate::host::reads(schedule, &ran);
        report.engine = Some(engine.name());
    }
    report.ok = true;
    if let Some(p) = own {
        report.perturb = Some(perturb::runs(schedule, &topology, &p)?);
    }
    write(session, args, report, &module, &topology, None)
}

/// Ranks that do not exist are rejected before any step that takes time.
fn shown(args: &MakePage, schedule: &Schedule) -> Outcome {
    if let Some(text) = &args.trace_ranks {
        Ranks::parse(text, schedule.mesh.ranks())?;
    }
    Ok(())
}

fn write(
    session: &mut Session,
    args: &MakePage,
    mut report: Report,
    module: &Module,
    topology: &Topology,
    built: Option<&Built>,
) -> Outcome {
    let Some(schedule) = module.schedule() else { return Ok(()) };
    session.progress("timing");
    let options = TimeOptions::default();
    let subject = built.map_or_else(|| schedule.into(), |b| b.subject(schedule));
    let timing = record::time(session, &mut report, subject, topology, &Wanted::default(), &options)?;
    let scene = Scene::new(schedule, topology, &session.map);
    let behind = holders::find(&scene, &timing.path)?;
    timed::fill(&mut report, &scene, &timing, &behind, None);
    session.progress("writing");
    let made = Made {
        report: &report,
        module,
        scene: &scene,
        timing: &timing,
        values: built.map_or_else(Vec::new, |b| texts::values(&session.map, b)),
        file: &args.file,
        command: command(args),
        ranks: args.trace_ranks.as_deref(),
        events: page::tape::MOST,
    };
    let html = page::page(made, &session.map)?;
    if args.out == "-" {
        session.artefact(&html);
    } else {
        outdir::write_file(Path::new(&args.out), html.as_bytes())?;
        let took = report.time_ns.map_or_else(String::new, |ns| format!(", {}", human::time(ns)));
        let bound = report
            .percent
            .map_or_else(String::new, |p| format!(", {} of the bound", human::percent(Some(p))));
        session.result(&format!("{}: page of {}{took}{bound}", args.out, report.file));
    }
    finish(session, &report, ReportFormat::Human, false)
}

/// Returns the command line that generates the page again, for a shell.
fn command(args: &MakePage) -> String {
    let mut words = vec!["kbc".to_owned(), "report".to_owned(), args.file.clone()];
    let mut pair = |flag: &str, value: &String| words.extend([flag.to_owned(), value.clone()]);
    args.of.define.iter().for_each(|d| pair("-D", d));
    args.of.topology.iter().for_each(|t| pair("--topology", t));
    args.of.set.iter().for_each(|s| pair("--set", s));
    args.of.program.iter().for_each(|p| pair("--program", p));
    args.of.algorithm.iter().for_each(|a| pair("--algorithm", a));
    args.input.iter().for_each(|i| pair("--input", i));
    args.engine.iter().for_each(|e| pair("--engine", &e.plain().name().to_owned()));
    args.trace_ranks.iter().for_each(|r| pair("--trace-ranks", r));
    pair("-o", &"report.html".to_owned());
    if args.no_data {
        words.push("--no-data".to_owned());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    let quoted = |w: &String| match w.chars().all(plain) && !w.is_empty() {
        true => w.clone(),
        false => format!("'{}'", w.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
