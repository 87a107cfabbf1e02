//! `kbc run`: executes and times `.kb` and `.kir` files, without proof, with options of its own.

use super::output::{artefacts, finish, show, write_results};
use super::refusals;
use crate::cli::Run;
use crate::outdir::Records;
use crate::session::{Outcome, Session};
use crate::watch::Watching;
use kbc_backend_sim::failure::RunFailure;
use kbc_compiler::about::{about_schedule, begin};
use kbc_compiler::analyse;
use kbc_compiler::arguments;
use kbc_compiler::build::build;
use kbc_compiler::data;
use kbc_compiler::load::read_schedule;
use kbc_compiler::machine::machine;
use kbc_compiler::perturb;
use kbc_compiler::report::Report;
use kbc_compiler::run::{self, RunRequest};
use kbc_compiler::watch::Unwatched;
use kbc_diag::Diagnostic;
use kbc_ir::schedule::Schedule;
use kbc_time::TimeOptions;
use kbc_views::record::{self, Wanted};

/// Executes and times.
///
/// # Errors
/// Of any step; results that differ are an error, too.
pub fn run(session: &mut Session, args: &Run) -> Outcome {
    let wanted = Wanted::new(artefacts(&args.emit, &record::KINDS)?, args.trace_ranks.clone())?;
    refusals::no_post(&args.source)?;
    if args.source.file.ends_with(".kir") {
        return run_schedule(session, args, &wanted);
    }
    let described = arguments::perturb(session, args.perturb.as_ref())?;
    session.inputs.clone_from(&args.data.input);
    let built = build(session, &args.source.plain(), "default", &mut Unwatched)?;
    let Some(schedule) = built.module.schedule() else { return Ok(()) };
    let names = analyse::output_names(&built.typed);
    data::check_outputs(&args.data.plain(), &names)?;
    let mut report = begin("run", &args.source.file, &built, schedule);
    report.ok = true;
    if !args.no_data {
        let watch = &mut Watching::times(args.timings);
        let result = run::program(session, &mut report, &built, schedule, &request(args), watch)?;
        if let Some(last) = result.outputs.last() {
            write_results(&args.data, &names, &analyse::output_types(&built), last)?;
        }
    }
    if !args.no_time {
        let (subject, topology) = (built.subject(schedule), &built.topology);
        record::time(session, &mut report, subject, topology, &wanted, &Records, &options(args))?;
        if let Some(p) = described.as_ref().or(built.perturb.as_ref()) {
            report.perturb = Some(perturb::runs(subject, topology, p)?);
        }
    }
    finish(session, &report, !wanted.takes_output())
}

/// Options of the execution.
fn request(args: &Run) -> RunRequest {
    RunRequest {
        data: args.data.plain(),
        calls: args.calls,
        seed: args.seed,
        adversaries: args.adversarial.then_some(args.seeds),
    }
}

/// Options of the simulation.
fn options(args: &Run) -> TimeOptions {
    TimeOptions { every_rank: args.every_rank, ..TimeOptions::default() }
}

/// Runs a schedule unchanged: executes it on generated inputs, adversarially if requested, and
/// times it on its machine.
fn run_schedule(session: &mut Session, args: &Run, wanted: &Wanted) -> Outcome {
    if !args.data.input.is_empty() || !args.data.output.is_empty() {
        return Err(Diagnostic::error("E416", "--input and --output do not apply to a .kir file").into());
    }
    let module = read_schedule(session, &args.source.plain())?;
    let Some(schedule) = module.schedule() else { return Ok(()) };
    let mut report = about_schedule("run", &args.source.file, &module, schedule);
    report.ok = true;
    let (request, mut ran) = (request(args), None);
    if !args.no_data {
        let watch = &mut Watching::times(args.timings);
        match run::schedule(session, &mut report, schedule, &request, watch) {
            Ok((inputs, result)) => {
                run::adversaries(session, &mut report, schedule, &inputs, &request)?;
                ran = Some((inputs.calls, result));
            }
            Err(f) => return failed(session, report, schedule, *f),
        }
    } else if !args.no_time {
        // No other step would find that it is wrong.
        analyse::verify(session, schedule)?;
    }
    let described = arguments::perturb(session, args.perturb.as_ref())?;
    let machine = machine(session, &args.source.of.plain(), module.machine.as_ref(), Some(schedule))?;
    report.machine = machine.as_ref().map(|m| m.0.to_string());
    if let (Some((inputs, result)), Some((topology, _))) = (ran, &machine) {
        report.inside = analyse::inside(session, schedule, topology, &inputs, &result, request.order())?;
    }
    match machine {
        Some((topology, own)) if !args.no_time => {
            let timed = record::time(session, &mut report, schedule, &topology, wanted, &Records, &options(args));
            if let Err(failure) = timed {
                let (d, code) = failure.into_parts();
                if code != 1 {
                    return Err(d.into());
                }
                let failure = run::simulation_failure(schedule, d);
                return failed(session, report, schedule, failure);
            }
            if let Some(p) = described.or(own) {
                report.perturb = Some(perturb::runs(schedule, &topology, &p)?);
            }
        }
        None if described.is_some() => {
            return Err(Diagnostic::error("E416", "--perturb needs a machine")
                .help("give one with --topology")
                .into());
        }
        None if !wanted.list.is_empty() => {
            return Err(Diagnostic::error("E416", "a trace or log needs a machine")
                .help("give one with --topology")
                .into());
        }
        _ => {}
    }
    if report.unchecked.is_empty() || run::is_wrong(&report) {
        return finish(session, &report, !wanted.takes_output());
    }
    // The schedule ran as requested, and nothing defines the correct result: that is neither an
    // error nor `ok`.
    if wanted.takes_output() { Ok(()) } else { show(session, &report) }
}

/// Prints the report of the ranks, if there are any, and the messages of a run that did not end.
fn failed(
    session: &Session,
    mut report: Report,
    schedule: &Schedule,
    failure: RunFailure,
) -> Outcome {
    if run::failed(&mut report, schedule, &failure) {
        show(session, &report)?;
    }
    Err(failure.diagnostics.into())
}
