//! `kbc run` of a `.kir` file: proves, executes and times its schedule as it stands.

use super::output::{artefacts, finish, show, wanted, write_text};
use super::refusals;
use crate::cli::Compile;
use crate::outdir::Records;
use crate::session::{Outcome, Session};
use crate::watch::{self, Watching};
use kbc_backend_sim::failure::RunFailure;
use kbc_compiler::about::about_schedule;
use kbc_compiler::analyse;
use kbc_compiler::arguments;
use kbc_compiler::artefacts::picture;
use kbc_compiler::load::{read_schedule, refuse};
use kbc_compiler::machine::machine;
use kbc_compiler::perturb;
use kbc_compiler::report::Report;
use kbc_compiler::run;
use kbc_diag::Diagnostic;
use kbc_ir::schedule::Schedule;
use kbc_ir::text::{self, PrintOptions};
use kbc_views::record;

/// Proves, executes and times. Inputs are generated.
///
/// # Errors
/// Of any step; results that differ are an error, too.
pub fn schedule(session: &mut Session, args: &Compile) -> Outcome {
    let how = &args.execution;
    refusals::no_post(&args.source)?;
    refusals::no_groups(how, &args.source.file)?;
    refuse(&how.about_passes(), "a .kir file, on which no pass runs: use kbc opt")?;
    watch::forced(&how.watch, false)?;
    let kinds = ["kir", "dot", "trace", "log"];
    let (records, texts): (Vec<_>, Vec<_>) =
        artefacts(how, &kinds, false)?.into_iter().partition(|a| record::KINDS.contains(&a.0.as_str()));
    let wanted = wanted(how, records)?;
    if !how.data.input.is_empty() || !how.data.results().is_empty() {
        return Err(
            Diagnostic::error("E416", "--input and --output NAME=FILE do not apply to a .kir file").into()
        );
    }
    let module = read_schedule(session, &args.source.plain())?;
    let Some(schedule) = module.schedule() else { return Ok(()) };
    let mut report = about_schedule(args.verb, &args.source.file, &module, schedule);
    report.ok = true;
    if !how.no_proof {
        session.progress("proving");
        report.verified = Some(analyse::verify(session, schedule)?);
    }
    for (kind, path) in &texts {
        let text = match kind.as_str() {
            "dot" => picture(&module),
            _ => text::print(&module, &PrintOptions::default()),
        };
        write_text(session, path, &text)?;
    }
    let alone = texts.iter().any(|a| a.1 == "-");
    if alone && wanted.list.is_empty() {
        return Ok(());
    }
    let (request, mut ran) = (how.request(), None);
    if !how.no_data {
        let watch = &mut Watching::times(how.watch.timings);
        match run::schedule(session, &mut report, schedule, &request, watch) {
            Ok((inputs, result)) => {
                run::adversaries(session, &mut report, schedule, &inputs, &request)?;
                ran = Some((inputs.calls, result));
            }
            Err(f) => return failed(session, report, schedule, *f),
        }
    }
    let described = arguments::perturb(session, how.perturb.as_ref())?;
    let machine = machine(session, &args.source.of.plain(), module.machine.as_ref(), Some(schedule))?;
    report.machine = machine.as_ref().map(|m| m.0.to_string());
    if let (Some((inputs, result)), Some((topology, _))) = (ran, &machine) {
        report.inside = analyse::inside(session, schedule, topology, &inputs, &result, request.order())?;
    }
    match machine {
        Some((topology, own)) if !how.no_time => {
            let timed =
                record::time(session, &mut report, schedule, &topology, &wanted, &Records, &how.time());
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
        return finish(session, &report, !alone && !wanted.takes_output());
    }
    // The schedule ran as requested, and nothing defines the correct result: that is neither an
    // error nor `ok`.
    if alone || wanted.takes_output() { Ok(()) } else { show(session, &report) }
}

/// Prints the report of the ranks, if there are any, and the messages of a run that did not end.
fn failed(session: &Session, mut report: Report, schedule: &Schedule, failure: RunFailure) -> Outcome {
    if run::failed(&mut report, schedule, &failure) {
        show(session, &report)?;
    }
    Err(failure.diagnostics.into())
}
