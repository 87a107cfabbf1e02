//! MSCCL schedules (`.xml`): checked, compiled and run as they stand.

use super::output::{artefacts, finish, show, wanted, write_results, write_text};
use super::refusals;
use crate::cli::{Check, Compile, EngineChoice, Execution, Selection, Source};
use crate::outdir::Records;
use crate::session::{Failure, Outcome, Session};
use crate::watch::{self, Watching};
use kbc_compiler::engine::Engine;
use kbc_compiler::msccl::{self, Imported, execute, import, inputs};
use kbc_compiler::run::{RunRequest, adversaries};
use kbc_compiler::{arguments, data, perturb};
use kbc_diag::Diagnostic;
use kbc_ir::dot;
use kbc_ir::text::{self, PrintOptions};
use kbc_numerics::tensor::Tensor;
use kbc_views::record::{self, Wanted};

pub use kbc_compiler::msccl::is_one;

/// `kbc check`
///
/// # Errors
/// What is wrong with the schedule.
pub fn check(session: &mut Session, args: &Check) -> Outcome {
    refusals::single(args)?;
    if args.sync {
        return super::signals::run(session, args);
    }
    let source = args.source();
    if args.target.is_some() || source.of.topology.is_some() || !source.of.set.is_empty() {
        return Err(Diagnostic::error(
            "E416",
            "--target, --topology and --set do not apply to the proof of a schedule",
        )
        .help("use kbc run to time a schedule on a machine")
        .into());
    }
    let mut it = import(session, "check", &source.plain())?;
    reject(session, &mut it)?;
    finish(session, &it.report, true)
}

/// `kbc compile` and `kbc run`
///
/// # Errors
/// Returns the error of any step; a comparison that fails is an error, too.
pub fn compile(session: &mut Session, args: &Compile) -> Outcome {
    let how = &args.execution;
    super::compile::target_of(args)?;
    if args.target != "sim" {
        return Err(Diagnostic::error(
            "E416",
            format!("an imported schedule cannot be compiled for {}", args.target),
        )
        .note("the target does not support its queues")
        .help("use kbc run to execute it on this computer")
        .into());
    }
    refusals::no_groups(how, &args.source.file)?;
    if let Some((flag, _)) = how.about_passes().iter().find(|f| f.1) {
        return Err(Diagnostic::error("E416", format!("{flag} does not apply to {}", args.source.file))
            .help("no pass runs on an imported schedule; write it with --emit kir=FILE")
            .into());
    }
    watch::forced(&how.watch, false)?;
    if how.no_proof {
        return Err(Diagnostic::error("E416", "--no-proof does not apply to an imported schedule")
            .note("the proof of what its messages mean is a part of the import")
            .into());
    }
    if how.calls.is_some_and(|n| n > 1) {
        return Err(Diagnostic::error("E416", "an imported schedule is proven for one call only")
            .note("the runtime ends the kernel after every call")
            .help("remove --calls")
            .into());
    }
    let kinds = ["kir", "dot", "trace", "log"];
    let (records, texts): (Vec<_>, Vec<_>) =
        artefacts(how, &kinds, false)?.into_iter().partition(|a| record::KINDS.contains(&a.0.as_str()));
    let wanted = wanted(how, records)?;
    let mut it = import(session, args.verb, &args.source.plain())?;
    reject(session, &mut it)?;
    let Some(schedule) = it.built.schedule() else { return Ok(()) };
    for (kind, path) in &texts {
        let text = match kind.as_str() {
            "dot" => dot::schedule_dot(schedule),
            _ => text::print(&it.built.module, &PrintOptions::default()),
        };
        write_text(session, path, &text)?;
    }
    let alone = texts.iter().any(|a| a.1 == "-");
    if alone && how.data.results().is_empty() && wanted.list.is_empty() {
        return Ok(());
    }
    let inputs = simulate(session, &mut it, &args.source, how, &wanted)?;
    if !how.no_data {
        let inputs = data::Inputs { calls: vec![vec![inputs]], origin: vec![] };
        let request = RunRequest { calls: Some(1), ..how.request() };
        adversaries(session, &mut it.report, &it.built.execute, &inputs, &request)?;
    }
    finish(session, &it.report, !alone && !wanted.takes_output())
}

/// Prints the report and the messages of a schedule that is wrong.
fn reject(session: &Session, it: &mut Imported) -> Outcome {
    if it.finding.accepted() {
        let notes = std::mem::take(&mut it.finding.errors);
        session.report(&notes);
        return Ok(());
    }
    it.report.verified = None;
    show(session, &it.report)?;
    Err(Failure::Program(std::mem::take(&mut it.finding.errors)))
}

/// Executes with numbers, compares and times. Returns the inputs.
fn simulate(
    session: &mut Session,
    it: &mut Imported,
    source: &Source,
    how: &Execution,
    wanted: &Wanted,
) -> Outcome<Tensor> {
    if !how.data.input.is_empty() {
        return Err(Diagnostic::error("E416", "--input does not apply to an imported schedule")
            .note("the contribution of every rank is generated")
            .into());
    }
    let names = ["y".to_owned()];
    data::check_outputs(&how.data.plain(), &names)?;
    let described = arguments::perturb(session, how.perturb.as_ref())?;
    let full = format!("full({})", it.algo.ranks());
    let topology = source.of.topology.clone().unwrap_or(full);
    let of = Selection { topology: Some(topology), ..source.of.clone() };
    let machine = kbc_compiler::machine::machine(session, &of.plain(), None, None)?;
    let inputs = inputs(it, how.seed)?;
    if !how.no_data {
        session.progress("executing");
        let engine = Engine::chosen(how.data.engine.map(EngineChoice::plain), &it.built.execute);
        let execution = msccl::Execution { engine, calls: 1, seed: how.seed };
        let (y, outputs) = execute(session, it, &inputs, execution, &mut Watching::times(how.watch.timings))?;
        if !outputs.is_empty() {
            write_results(&how.data, &names, &[y], &outputs)?;
        }
    }
    if let (Some((topology, own)), Some(schedule)) = (machine.filter(|_| !how.no_time), it.built.schedule()) {
        session.progress("timing");
        record::time(session, &mut it.report, schedule, &topology, wanted, &Records, &how.time())?;
        it.report.machine = Some(match &source.of.topology {
            Some(_) => topology.to_string(),
            None => format!("{topology} (assumed, because the file names no machine)"),
        });
        if let Some(p) = described.or(own) {
            it.report.perturb = Some(perturb::runs(schedule, &topology, &p)?);
        }
    }
    Ok(inputs)
}
