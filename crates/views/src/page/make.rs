//! Making a page: proves, executes and times a program or a schedule, and puts the findings into a
//! page.

use super::{PageInputs, page, page_events, texts};
use crate::record::ranks::Ranks;
use kbc_backend_sim::interp::RunOptions;
use kbc_compiler::about::{about_schedule, begin, executed};
use kbc_compiler::analyse;
use kbc_compiler::build::{Built, build};
use kbc_compiler::data::generated;
use kbc_compiler::engine::Engine;
use kbc_compiler::failure::Outcome;
use kbc_compiler::host;
use kbc_compiler::load::{read_schedule, refuse};
use kbc_compiler::machine::machine;
use kbc_compiler::options::{Data, Source};
use kbc_compiler::perturb;
use kbc_compiler::report::{OrderOfAdditions, Report, timed};
use kbc_compiler::synthesis::packed_trees;
use kbc_compiler::timeline::holders;
use kbc_compiler::timeline::scene::Scene;
use kbc_compiler::watch::Unwatched;
use kbc_compiler::workspace::Workspace;
use kbc_diag::Diagnostic;
use kbc_ir::Module;
use kbc_ir::schedule::Schedule;
use kbc_machine::topology::Topology;
use kbc_time::TimeOptions;

/// What a page is about.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The program or the schedule.
    pub source: Source,
    /// Its data; `None` for a page without execution.
    pub data: Option<Data>,
    /// Ranks of the timeline: `0..8,12`; all if absent.
    pub ranks: Option<String>,
    /// The command line that makes the page again, for readers of the page.
    pub command: String,
}

/// Returns the message for a file of which there is no page (E594).
pub fn no_page(file: &str, why: &str) -> Diagnostic {
    Diagnostic::error("E594", format!("{file} has no report page: {why}"))
        .help("give a .kb program, or a .kir schedule and a machine")
}

/// Makes the page of a `.kb` program or of a `.kir` schedule: the page as text, and the report that
/// it shows.
///
/// # Errors
/// Returns the errors of each step, E594 for a schedule without a machine, and E593 for a page that
/// would be too large. Results that are wrong are no error: the report is not ok then.
pub fn make(workspace: &mut Workspace, subject: &Subject) -> Outcome<(String, Report)> {
    if subject.source.file.ends_with(".kir") {
        of_schedule(workspace, subject)
    } else {
        of_program(workspace, subject)
    }
}

fn of_program(workspace: &mut Workspace, subject: &Subject) -> Outcome<(String, Report)> {
    let source = &subject.source;
    workspace.inputs = subject.data.as_ref().map_or_else(Vec::new, |d| d.input.clone());
    let built = build(workspace, source, "default", &mut Unwatched)?;
    let schedule = built.schedule()?;
    shown(subject, schedule)?;
    let mut report = begin("report", &source.file, &built, schedule);
    workspace.progress("proving");
    report.verified = Some(analyse::prove(workspace, &built, schedule)?);
    report.ok = true;
    if let Some(data) = &subject.data {
        workspace.progress("executing");
        let done = analyse::execute(workspace, &built, schedule, data, 1, None, &mut Unwatched)?;
        executed(&mut report, &built, schedule, done);
    }
    if let Some(p) = &built.perturb {
        report.perturb = Some(perturb::runs(built.subject(schedule), &built.topology, p)?);
    }
    timed_page(workspace, subject, report, (&built.module, schedule), &built.topology, Some(&built))
}

fn of_schedule(workspace: &mut Workspace, subject: &Subject) -> Outcome<(String, Report)> {
    let source = &subject.source;
    let fed = subject.data.as_ref().is_some_and(|d| !d.input.is_empty());
    refuse(&[("--input", fed)], "a .kir file")?;
    let module = read_schedule(workspace, source)?;
    let schedule = module.schedule().ok_or_else(no_schedule)?;
    shown(subject, schedule)?;
    let machine = machine(workspace, &source.of, module.machine.as_ref(), Some(schedule))?;
    let Some((topology, own)) = machine else {
        return Err(no_page(&source.file, "it names no machine, so it cannot be timed")
            .help("give one with --topology")
            .into());
    };
    let mut report = about_schedule("report", &source.file, &module, schedule);
    report.machine = Some(topology.to_string());
    report.verified = Some(analyse::verify(workspace, schedule)?);
    if let Some(data) = &subject.data {
        let engine = Engine::chosen(data.engine, schedule);
        workspace.memory_budget().calls_fit(schedule, 1, false)?;
        let options =
            RunOptions { max_bytes: workspace.memory_budget().engine_bytes(), ..RunOptions::default() };
        let fed = generated(schedule, 1, 0)?;
        let ran =
            engine.attempt(workspace, &mut Unwatched, schedule, &fed, &options).map_err(|f| f.diagnostics)?;
        report.host_reads = host::reads(schedule, &ran);
        report.engine = Some(engine.name());
    }
    report.ok = true;
    if let Some(p) = own {
        report.perturb = Some(perturb::runs(schedule, &topology, &p)?);
    }
    timed_page(workspace, subject, report, (&module, schedule), &topology, None)
}

fn no_schedule() -> Diagnostic {
    Diagnostic::error("E991", "the text has no schedule")
}

/// Refuses ranks that do not exist before anything takes time.
fn shown(subject: &Subject, schedule: &Schedule) -> Outcome {
    if let Some(text) = &subject.ranks {
        Ranks::parse(text, schedule.mesh.ranks())?;
    }
    Ok(())
}

/// Times the schedule and makes the page.
fn timed_page(
    workspace: &Workspace,
    subject: &Subject,
    mut report: Report,
    (module, schedule): (&Module, &Schedule),
    topology: &Topology,
    built: Option<&Built>,
) -> Outcome<(String, Report)> {
    report.order.get_or_insert_with(|| OrderOfAdditions::of(schedule));
    workspace.progress("timing");
    let of = built.map_or_else(|| schedule.into(), |b| b.subject(schedule));
    let timing = analyse::time(workspace, &mut report, of, topology, &TimeOptions::default())?;
    let scene = Scene::new(schedule, topology, &workspace.map);
    let behind = holders::find(&scene, &timing.path)?;
    timed::fill(&mut report, &scene, &timing, &behind, None);
    workspace.progress("writing");
    let made = PageInputs {
        report: &report,
        module,
        scene: &scene,
        timing: &timing,
        values: built.map_or_else(Vec::new, |b| texts::values(&workspace.map, b)),
        file: &subject.source.file,
        command: subject.command.clone(),
        trees: built.map_or_else(Vec::new, packed_trees),
        ranks: subject.ranks.as_deref(),
        events: page_events::MAX_EVENTS,
    };
    let html = page(made, &workspace.map)?;
    Ok((html, report))
}
