//! MSCCL schedules (`.xml`): checked, compiled and run as they stand.

use super::output::{artefacts, finish, show, write_results, write_text};
use super::refusals;
use crate::cli::{Check, Compile, Data, Run, Selection, Source};
use crate::outdir::Records;
use crate::session::{Failure, Outcome, Session};
use crate::watch::Watching;
use kbc_compiler::msccl::{Execution, Imported, execute, import, inputs};
use kbc_compiler::run::{RunRequest, adversaries};
use kbc_compiler::{arguments, data, perturb};
use kbc_diag::Diagnostic;
use kbc_ir::dot;
use kbc_ir::text::{self, PrintOptions};
use kbc_numerics::tensor::Tensor;
use kbc_time::TimeOptions;
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

/// `kbc compile`
///
/// # Errors
/// Returns the error of any step; a comparison that fails is an error, too.
pub fn compile(session: &mut Session, args: &Compile) -> Outcome {
    kbc_compiler::emit::target(&args.target)?;
    if args.target != "sim" {
        return Err(Diagnostic::error(
            "E416",
            format!("an imported schedule cannot be compiled for {}", args.target),
        )
        .note("the target does not support its queues")
        .help("use --target sim to execute it on this computer")
        .into());
    }
    let idle = [
        ("--out", args.out.is_some()),
        ("--passes", args.passes != "default"),
        ("--print-after", !args.watch.print_after.is_empty()),
        ("--print-changed", args.watch.print_changed),
        ("--dump-dir", args.watch.dump_dir.is_some()),
    ];
    if let Some((flag, _)) = idle.iter().find(|f| f.1) {
        return Err(Diagnostic::error("E416", format!("{flag} does not apply to {}", args.source.file))
            .help("no pass runs on an imported schedule; write it with --emit kir=FILE")
            .into());
    }
    let kinds = ["kir", "dot", "trace", "log"];
    let (records, texts): (Vec<_>, Vec<_>) =
        artefacts(&args.emit, &kinds)?.into_iter().partition(|a| record::KINDS.contains(&a.0.as_str()));
    let wanted = Wanted::new(records, args.trace_ranks.clone())?;
    let mut it = import(session, "compile", &args.source.plain())?;
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
    if alone && args.data.output.is_empty() && wanted.list.is_empty() {
        return Ok(());
    }
    let run = Simulate {
        data: &args.data,
        seed: 0,
        calls: 1,
        timings: args.watch.timings,
        perturb: args.perturb.as_ref(),
        numbers: true,
        time: true,
        options: TimeOptions::default(),
    };
    simulate(session, &mut it, &args.source, &run, &wanted)?;
    finish(session, &it.report, !alone && !wanted.takes_output())
}

/// `kbc run`
///
/// # Errors
/// Of any step; results that differ are an error, too.
pub fn run(session: &mut Session, args: &Run) -> Outcome {
    let wanted = Wanted::new(artefacts(&args.emit, &record::KINDS)?, args.trace_ranks.clone())?;
    if args.calls.is_some_and(|n| n > 1) {
        return Err(Diagnostic::error("E416", "an imported schedule is proven for one call only")
            .note("the runtime ends the kernel after every call")
            .help("remove --calls")
            .into());
    }
    let mut it = import(session, "run", &args.source.plain())?;
    reject(session, &mut it)?;
    let run = Simulate {
        data: &args.data,
        seed: args.seed,
        calls: 1,
        timings: args.timings,
        perturb: args.perturb.as_ref(),
        numbers: !args.no_data,
        time: !args.no_time,
        options: TimeOptions { every_rank: args.every_rank, ..TimeOptions::default() },
    };
    let inputs = simulate(session, &mut it, &args.source, &run, &wanted)?;
    if !args.no_data {
        let inputs = data::Inputs { calls: vec![vec![inputs]], origin: vec![] };
        let request = RunRequest {
            calls: Some(1),
            seed: args.seed,
            adversaries: args.adversarial.then_some(args.seeds),
            ..RunRequest::default()
        };
        adversaries(session, &mut it.report, &it.built.execute, &inputs, &request)?;
    }
    finish(session, &it.report, !wanted.takes_output())
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

/// How to simulate.
struct Simulate<'a> {
    data: &'a Data,
    seed: u64,
    calls: u32,
    timings: bool,
    perturb: Option<&'a String>,
    numbers: bool,
    time: bool,
    options: TimeOptions,
}

/// Executes with numbers, compares and times. Returns the inputs.
fn simulate(
    session: &mut Session,
    it: &mut Imported,
    source: &Source,
    how: &Simulate,
    wanted: &Wanted,
) -> Outcome<Tensor> {
    if !how.data.input.is_empty() {
        return Err(Diagnostic::error("E416", "--input does not apply to an imported schedule")
            .note("the contribution of every rank is generated")
            .into());
    }
    let names = ["y".to_owned()];
    data::check_outputs(&how.data.plain(), &names)?;
    let described = arguments::perturb(session, how.perturb)?;
    let full = format!("full({})", it.algo.ranks());
    let topology = source.of.topology.clone().unwrap_or(full);
    let of = Selection { topology: Some(topology), ..source.of.clone() };
    let machine = kbc_compiler::machine::machine(session, &of.plain(), None, None)?;
    let inputs = inputs(it, how.seed)?;
    if how.numbers {
        session.progress("executing");
        let engine = how.data.engine.unwrap_or_default().plain();
        let execution = Execution { engine, calls: how.calls, seed: how.seed };
        let (y, outputs) = execute(session, it, &inputs, execution, &mut Watching::times(how.timings))?;
        if !outputs.is_empty() {
            write_results(how.data, &names, &[y], &outputs)?;
        }
    }
    if let (Some((topology, own)), Some(schedule)) = (machine.filter(|_| how.time), it.built.schedule()) {
        session.progress("timing");
        record::time(session, &mut it.report, schedule, &topology, wanted, &Records, &how.options)?;
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
