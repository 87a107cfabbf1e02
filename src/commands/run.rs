//! `kbc run`: the simulate step alone, for `.kb` and `.kir`, with its own switches.

use super::compile::{begin, finish, inputs, show};
use crate::analyse;
use crate::build::build;
use crate::cli::{Run, Watch};
use crate::data;
use crate::session::{Outcome, Session};
use kbc_backend_sim::generate::{self, ExactRange};
use kbc_backend_sim::tensor::Tensor;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::schedule::{BufferRole, Schedule};
use kbc_ir::topology::Topology;
use kbc_ir::types::TensorType;

/// Calls of an adversarial run: what a reuse race over alternating slots needs to show, and one more.
const ADVERSARIAL_CALLS: u32 = 4;

/// Executes and times.
///
/// # Errors
/// Of any step; results that differ are an error, too.
pub fn run(session: &mut Session, args: &Run) -> Outcome {
    if args.source.file.ends_with(".kir") {
        return run_schedule(session, args);
    }
    let built = build(session, &args.source, "default", &Watch::default())?;
    let Some(schedule) = built.module.schedule() else { return Ok(()) };
    let names = analyse::output_names(&built.typed);
    data::check_outputs(&args.data, &names)?;
    let mut report = begin("run", &args.source.file, &built, schedule);
    report.ok = true;
    let calls = args.calls.unwrap_or(if args.adversarial { ADVERSARIAL_CALLS } else { 1 }).max(1);
    if !args.no_data {
        let seed = (args.seed != 0).then_some(args.seed);
        let done = analyse::execute(session, &built, schedule, &args.data, calls, seed)?;
        report.inputs = inputs(&built, &done.inputs);
        report.ok = analyse::passes(&done.compare) && done.expect.iter().all(analyse::passes);
        if args.adversarial {
            let found = analyse::adversary(schedule, &done.inputs, args.seed, args.seeds, calls)?;
            report.ok &= found.failure.is_none();
            report.adversarial = Some(found);
        }
        if let Some(last) = done.result.outputs.last() {
            data::write(&args.data, &names, &analyse::output_types(&built), last)?;
        }
        (report.compare, report.expect) = (Some(done.compare), done.expect);
    }
    if !args.no_time {
        analyse::time(&mut report, schedule, &built.topology)?;
    }
    finish(session, &report, args.report, true)
}

/// A schedule as it stands: executed on generated inputs, adversarially if asked for, and timed on its machine.
fn run_schedule(session: &mut Session, args: &Run) -> Outcome {
    if !args.data.input.is_empty() || !args.data.output.is_empty() {
        return Err(Diagnostic::error("E416", "--input and --output mean nothing for a .kir file").into());
    }
    let module = super::read_schedule(session, &args.source)?;
    let Some(schedule) = module.schedule() else { return Ok(()) };
    let mut report = super::about_schedule("run", &args.source.file, &module, schedule);
    report.ok = true;
    if !args.no_data {
        let calls = args.calls.unwrap_or(if args.adversarial { ADVERSARIAL_CALLS } else { 1 }).max(1);
        let inputs = data::Inputs { calls: generated(schedule, calls, args.seed)?, origin: vec![] };
        let options = kbc_backend_sim::interp::RunOptions {
            calls,
            seed: (args.seed != 0).then_some(args.seed),
            ..Default::default()
        };
        match kbc_backend_sim::interp::attempt(schedule, &inputs.calls, &options) {
            Ok(result) => report.host_reads = crate::host::reads(schedule, &result),
            Err(f) if f.ranks.is_empty() => return Err(f.diagnostics.into()),
            Err(f) => {
                report.ok = false;
                report.failures = crate::host::failures(schedule, &f.ranks);
                show(session, &report, args.report)?;
                return Err(f.diagnostics.into());
            }
        }
        if args.adversarial {
            let found = analyse::adversary(schedule, &inputs, args.seed, args.seeds, calls)?;
            report.ok = found.failure.is_none();
            report.adversarial = Some(found);
        }
    }
    let machine = args.source.topology.clone().or(module.machine.clone());
    report.machine.clone_from(&machine);
    if let (Some(machine), false) = (&machine, args.no_time) {
        let at = session.add_text("<machine>", machine);
        let topology = Topology::parse(machine, at).map_err(Diagnostics::from)?;
        analyse::time(&mut report, schedule, &topology)?;
    }
    finish(session, &report, args.report, true)
}

/// Exact integers for every input of a schedule.
fn generated(schedule: &Schedule, calls: u32, seed: u64) -> Result<Vec<Vec<Tensor>>, Diagnostic> {
    let mut types: Vec<(u32, &TensorType)> = schedule
        .buffers
        .iter()
        .filter_map(|b| match (b.role, &b.global) {
            (BufferRole::Input(i), Some(t)) => Some((i, t)),
            _ => None,
        })
        .collect();
    types.sort_by_key(|t| t.0);
    (0..calls)
        .map(|c| {
            types
                .iter()
                .map(|(i, t)| {
                    let range: ExactRange = generate::exact_range(t.dtype, schedule.mesh.ranks(), 1, false);
                    generate::exact(t, &schedule.mesh, range, *i, c.wrapping_add(seed as u32))
                })
                .collect()
        })
        .collect()
}
