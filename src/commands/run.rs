//! `kbc run`: executes and times `.kb` and `.kir` files, without proof, with options of its own.

use super::output::{artefacts, finish, show, write_results};
use super::refusals;
use crate::cli::{ReportFormat, Run};
use crate::outdir::Records;
use crate::session::{Outcome, Session};
use crate::watch::Watching;
use kbc_backend_sim::failure::{RunFailure, standstill};
use kbc_compiler::about::{begin, inputs};
use kbc_compiler::analyse;
use kbc_compiler::arguments;
use kbc_compiler::build::build;
use kbc_compiler::contract;
use kbc_compiler::data;
use kbc_compiler::perturb;
use kbc_compiler::report::Report;
use kbc_compiler::watch::Unwatched;
use kbc_diag::Diagnostic;
use kbc_ir::schedule::Schedule;
use kbc_time::TimeOptions;
use kbc_views::record::{self, Wanted};

/// Calls of an adversarial run: one more than a race on the reuse of alternating slots needs to
/// show.
const ADVERSARIAL_CALLS: u32 = 4;

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
    let calls = args.calls.unwrap_or(if args.adversarial { ADVERSARIAL_CALLS } else { 1 }).max(1);
    if !args.no_data {
        let seed = (args.seed != 0).then_some(args.seed);
        let done = analyse::execute(
            session,
            &built,
            schedule,
            &args.data.plain(),
            calls,
            seed,
            &mut Watching::times(args.timings),
        )?;
        report.engine = Some(args.data.engine.unwrap_or_default().plain().name());
        report.inputs = inputs(&built, &done.inputs);
        report.inside =
            analyse::inside(session, schedule, &built.topology, &done.inputs.calls, &done.result, seed)?;
        report.host_reads = kbc_compiler::host::reads(schedule, &done.result);
        report.ok = analyse::passes(&done.compare) && done.expect.iter().all(analyse::passes);
        if args.adversarial {
            let (found, failure) =
                analyse::adversary(session, schedule, &done.inputs, args.seed, args.seeds, calls)?;
            report.ok &= failure.is_none();
            report.adversarial = Some(found);
            failure.into_iter().for_each(|d| session.report(&d.into()));
        }
        if let Some(last) = done.result.outputs.last() {
            write_results(&args.data, &names, &analyse::output_types(&built), last)?;
        }
        (report.compare, report.expect) = (Some(done.compare), done.expect);
    }
    if !args.no_time {
        record::time(
            session,
            &mut report,
            built.subject(schedule),
            &built.topology,
            &wanted,
            &Records,
            &options(args),
        )?;
        if let Some(p) = described.as_ref().or(built.perturb.as_ref()) {
            report.perturb = Some(perturb::runs(built.subject(schedule), &built.topology, p)?);
        }
    }
    finish(session, &report, args.report, !wanted.takes_output())
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
    let module = kbc_compiler::load::read_schedule(session, &args.source.plain())?;
    let Some(schedule) = module.schedule() else { return Ok(()) };
    let mut report = kbc_compiler::about::about_schedule("run", &args.source.file, &module, schedule);
    report.ok = true;
    let mut failed_orders = false;
    let mut ran = None;
    if args.no_data && !args.no_time {
        // No other step would find that it is wrong.
        analyse::verify(session, schedule)?;
    }
    if !args.no_data {
        let calls = args.calls.unwrap_or(if args.adversarial { ADVERSARIAL_CALLS } else { 1 }).max(1);
        session.memory_budget().calls_fit(schedule, calls, false)?;
        let inputs = data::Inputs { calls: data::generated(schedule, calls, args.seed)?, origin: vec![] };
        let options = kbc_backend_sim::interp::RunOptions {
            calls,
            seed: (args.seed != 0).then_some(args.seed),
            max_bytes: session.memory_budget().engine_bytes(),
        };
        let engine = args.data.engine.unwrap_or_default().plain();
        match engine.attempt(session, &mut Watching::times(args.timings), schedule, &inputs.calls, &options) {
            Ok(result) => {
                report.host_reads = kbc_compiler::host::reads(schedule, &result);
                ran = Some((inputs.calls.clone(), result.clone()));
                match contract::compare(schedule, &inputs, &result) {
                    Ok(found) => {
                        report.ok = analyse::passes(&found) && found.unbounded == 0;
                        if found.unbounded > 0 {
                            let (n, of) = (found.unbounded, found.elements);
                            report.unchecked.push(format!(
                                "not compared: {n} of {of} elements, which are functions of rounded sums"
                            ));
                        }
                        report.compare = Some(found);
                    }
                    Err(why) => {
                        report.ok = false;
                        report.unchecked.push(format!("not compared: {why}"));
                    }
                }
            }
            Err(f) => return failed(session, report, schedule, *f, args.report),
        }
        report.engine = Some(engine.name());
        if args.adversarial {
            let (found, failure) =
                analyse::adversary(session, schedule, &inputs, args.seed, args.seeds, calls)?;
            report.ok &= failure.is_none();
            failed_orders = failure.is_some();
            report.adversarial = Some(found);
            failure.into_iter().for_each(|d| session.report(&d.into()));
        }
    }
    let described = arguments::perturb(session, args.perturb.as_ref())?;
    let machine = kbc_compiler::machine::machine(
        session,
        &args.source.of.plain(),
        module.machine.as_ref(),
        module.schedule(),
    )?;
    report.machine = machine.as_ref().map(|m| m.0.to_string());
    if let (Some((inputs, result)), Some((topology, _))) = (ran, &machine) {
        let seed = (args.seed != 0).then_some(args.seed);
        report.inside = analyse::inside(session, schedule, topology, &inputs, &result, seed)?;
    }
    match machine {
        Some((topology, own)) if !args.no_time => {
            if let Err(failure) =
                record::time(session, &mut report, schedule, &topology, wanted, &Records, &options(args))
            {
                let (d, code) = failure.into_parts();
                if code != 1 {
                    return Err(d.into());
                }
                let stuck = d.list.iter().any(|d| d.code == "E361");
                let ranks = stuck.then(|| standstill(schedule, 1)).flatten().map_or(vec![], |f| f.ranks);
                return failed(session, report, schedule, RunFailure { diagnostics: d, ranks }, args.report);
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
    let wrong = failed_orders || report.compare.as_ref().is_some_and(|c| !analyse::passes(c));
    if report.unchecked.is_empty() || wrong {
        return finish(session, &report, args.report, !wanted.takes_output());
    }
    // The schedule ran as requested, and nothing defines the correct result: that is neither an
    // error nor `ok`.
    if wanted.takes_output() { Ok(()) } else { show(session, &report, args.report) }
}

/// Prints the report of the ranks, if there are any, and the messages of a run that did not end.
fn failed(
    session: &Session,
    mut report: Report,
    schedule: &Schedule,
    failure: RunFailure,
    format: ReportFormat,
) -> Outcome {
    if !failure.ranks.is_empty() {
        report.ok = false;
        report.failures = kbc_compiler::host::failures(schedule, &failure.ranks);
        show(session, &report, format)?;
    }
    Err(failure.diagnostics.into())
}
