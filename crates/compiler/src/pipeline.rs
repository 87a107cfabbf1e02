//! Pipeline: runs passes on a module, verifies it after each of them, and reports progress to the
//! environment.

use crate::failure::Outcome;
use crate::watch::Watch;
use crate::workspace::{Environment, Stage, Workspace};
use kbc_ir::Module;
use kbc_passes::PassCx;
use kbc_passes::instrument::{Instrument, PipelineStep, RoundTrip, VerifyEach};
use kbc_passes::pipeline::Pipeline;

/// Passes the module from before the running pass on to the environment.
struct Record<'a>(&'a dyn Environment);

impl Instrument for Record<'_> {
    fn before(&mut self, step: PipelineStep<'_>, module: &Module) {
        self.0.module(step.rest, module);
        self.0.pass(step.info.name);
    }
}

/// Runs `passes` on the module; `keep`, if there is one, sees the module after every pass.
///
/// # Errors
/// Of the passes, of verification after each of them, or of the watch.
pub fn run(
    workspace: &mut Workspace,
    module: &mut Module,
    passes: &str,
    cx: &PassCx<'_>,
    watch: &mut dyn Watch,
    keep: Option<&mut dyn Instrument>,
) -> Outcome {
    let file = workspace.add_text("<passes>", passes);
    let pipeline = Pipeline::parse(passes, file)?;
    watch.ready()?;
    let environment = workspace.environment.clone();
    let mut record = Record(&*environment);
    let mut verify = VerifyEach;
    let mut round_trip = RoundTrip::default();
    workspace.stage(Stage::Passes);
    let result = {
        let mut all: Vec<&mut dyn Instrument> = vec![&mut record];
        if let Some(keep) = keep {
            all.push(keep);
        }
        all.push(&mut verify);
        if cfg!(debug_assertions) {
            all.push(&mut round_trip);
        }
        all.extend(watch.instruments());
        pipeline.run(module, cx, &mut all)
    };
    watch.passed()?;
    workspace.report(&cx.take_messages());
    result?;
    environment.module("", module);
    Ok(())
}
