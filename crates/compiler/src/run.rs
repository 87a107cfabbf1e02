//! Run: executes a program, or a schedule that comes from text, in several calls and under
//! adversaries, and puts into the report what happened.

use crate::about::executed;
use crate::analyse;
use crate::build::Built;
use crate::contract;
use crate::data::{self, Inputs};
use crate::engine::Engine;
use crate::failure::Outcome;
use crate::host;
use crate::options::Data;
use crate::report::Report;
use crate::watch::Watch;
use crate::workspace::Workspace;
use kbc_backend_sim::failure::{RunFailure, standstill};
use kbc_backend_sim::interp::{RunOptions, RunResult};
use kbc_diag::Diagnostics;
use kbc_ir::schedule::Schedule;

/// Calls of an adversarial run: one more than a race on the reuse of alternating slots needs to
/// show.
const ADVERSARIAL_CALLS: u32 = 4;

/// How often and in which order something is executed, and with which data.
#[derive(Clone, Debug, Default)]
pub struct RunRequest {
    /// Data of inputs, and the engine.
    pub data: Data,
    /// Number of calls; one if absent, and several for adversaries.
    pub calls: Option<u32>,
    /// Seed of generated inputs and of the order of streams; 0 for the order of the text.
    pub seed: u64,
    /// Number of seeds of the adversaries; absent for a run without them.
    pub adversaries: Option<u64>,
}

impl RunRequest {
    /// Returns the number of calls.
    pub fn calls(&self) -> u32 {
        self.calls.unwrap_or(if self.adversaries.is_some() { ADVERSARIAL_CALLS } else { 1 }).max(1)
    }

    /// Returns the seed of the order, if there is one.
    pub fn order(&self) -> Option<u64> {
        (self.seed != 0).then_some(self.seed)
    }
}

/// Executes a program and compares every element. Returns the inputs and the results.
///
/// # Errors
/// Returns the errors of the data, of the runs and of the evaluator. Results that differ are no
/// error: the report is not ok then.
pub fn program(
    workspace: &Workspace,
    report: &mut Report,
    built: &Built,
    schedule: &Schedule,
    request: &RunRequest,
    watch: &mut dyn Watch,
) -> Outcome<(Inputs, RunResult)> {
    let (data, order) = (&request.data, request.order());
    let done = analyse::execute(workspace, built, schedule, data, request.calls(), order, watch)?;
    let (inputs, result) = executed(report, built, schedule, done);
    report.inside = analyse::inside(workspace, schedule, &built.topology, &inputs.calls, &result, order)?;
    adversaries(workspace, report, schedule, &inputs, request)?;
    Ok((inputs, result))
}

/// Executes a schedule on generated inputs and compares the results with its contracts, as far as
/// they define them. Returns the inputs and the results.
///
/// # Errors
/// Returns the errors of the data and of the run, with the state of each rank if the run did not
/// end. Results that differ are no error: the report is not ok then.
pub fn schedule(
    workspace: &Workspace,
    report: &mut Report,
    schedule: &Schedule,
    request: &RunRequest,
    watch: &mut dyn Watch,
) -> Result<(Inputs, RunResult), Box<RunFailure>> {
    let calls = request.calls();
    workspace.memory_budget().calls_fit(schedule, calls, false)?;
    let inputs = Inputs { calls: data::generated(schedule, calls, request.seed)?, origin: vec![] };
    let max_bytes = workspace.memory_budget().engine_bytes();
    let options = RunOptions { calls, seed: request.order(), max_bytes };
    let engine = Engine::chosen(request.data.engine, schedule);
    let result = engine.attempt(workspace, watch, schedule, &inputs.calls, &options)?;
    report.engine = Some(engine.name());
    report.host_reads = host::reads(schedule, &result);
    match contract::compare(schedule, &inputs, &result) {
        Ok(found) => {
            report.ok = analyse::passes(&found) && found.unbounded == 0;
            if found.unbounded > 0 {
                let (n, of) = (found.unbounded, found.elements);
                report
                    .unchecked
                    .push(format!("not compared: {n} of {of} elements, which are functions of rounded sums"));
            }
            report.compare = Some(found);
        }
        Err(why) => {
            report.ok = false;
            report.unchecked.push(format!("not compared: {why}"));
        }
    }
    Ok((inputs, result))
}

/// Executes a schedule under the adversaries, if they are requested. Their first finding is
/// reported to the environment.
///
/// # Errors
/// Returns the errors of the data and of the undisturbed run. A finding is no error: the report is
/// not ok then.
pub fn adversaries(
    workspace: &Workspace,
    report: &mut Report,
    schedule: &Schedule,
    inputs: &Inputs,
    request: &RunRequest,
) -> Outcome {
    let Some(seeds) = request.adversaries else { return Ok(()) };
    let (found, failure) =
        analyse::adversary(workspace, schedule, inputs, request.seed, seeds, request.calls())?;
    report.ok &= failure.is_none();
    report.adversarial = Some(found);
    failure.into_iter().for_each(|d| workspace.report(&d.into()));
    Ok(())
}

/// Checks whether a report shows that results are wrong, in the order of the text or in another
/// one. A report that is not ok may also be about results that nothing defines.
pub fn is_wrong(report: &Report) -> bool {
    report.compare.as_ref().is_some_and(|c| !analyse::passes(c))
        || report.adversarial.as_ref().is_some_and(|a| a.failure.is_some())
}

/// Adds the state of each rank to the errors of a simulation, if these say that it came to a
/// standstill (E361).
pub fn simulation_failure(schedule: &Schedule, diagnostics: Diagnostics) -> RunFailure {
    let stuck = diagnostics.list.iter().any(|d| d.code == "E361");
    let ranks = stuck.then(|| standstill(schedule, 1)).flatten().map_or(vec![], |f| f.ranks);
    RunFailure { diagnostics, ranks }
}

/// Puts the state of each rank into the report of a run that did not end. Returns whether there is
/// one, which makes the report worth reading.
pub fn failed(report: &mut Report, schedule: &Schedule, failure: &RunFailure) -> bool {
    if failure.ranks.is_empty() {
        return false;
    }
    report.ok = false;
    report.failures = host::failures(schedule, &failure.ranks);
    true
}
