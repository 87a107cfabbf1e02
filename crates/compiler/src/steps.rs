//! Steps: compile a source, then check, execute, time, emit and report on what was built.

use crate::about::{begin, executed};
use crate::analyse::{self, Executed};
use crate::build::{self, Built};
use crate::emit::{self, Contents};
use crate::failure::Outcome;
use crate::options::{Data, Options, Source};
use crate::report::{Report, VerifiedReport};
use crate::watch::Unwatched;
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::schedule::Schedule;
use kbc_time::{TimeOptions, Timing};

/// Compiles a program or an algorithm to a schedule.
///
/// # Errors
/// Of reading, of the program, of an algorithm of the program that does not keep its contract, or
/// of a pass.
pub fn compile(workspace: &mut Workspace, source: &Source, options: &Options) -> Outcome<Built> {
    build::build(workspace, source, &options.passes, &mut Unwatched)
}

impl Built {
    /// Returns the schedule.
    ///
    /// # Errors
    /// Returns E991 if the requested passes made no schedule.
    pub fn schedule(&self) -> Result<&Schedule, Diagnostic> {
        self.module.schedule().ok_or_else(|| Diagnostic::error("E991", "the pipeline made no schedule"))
    }

    /// Proves the schedule: free of races and deadlocks, and every collective keeps its contract.
    ///
    /// # Errors
    /// What the checker finds.
    pub fn check(&self, workspace: &Workspace) -> Result<VerifiedReport, Diagnostics> {
        analyse::prove(workspace, self, self.schedule()?)
    }

    /// Executes one call of the schedule on all ranks, and compares every element of every result
    /// with what one device computes from the same inputs.
    ///
    /// # Errors
    /// Of the data, of the run, or of the reference. Results that differ are no error: they are in
    /// [`Executed::compare`].
    pub fn execute(&self, workspace: &Workspace, data: &Data) -> Outcome<Executed> {
        analyse::execute(workspace, self, self.schedule()?, data, 1, None, &mut Unwatched)
    }

    /// Simulates the time of one call, in ns, beside its lower bound.
    ///
    /// # Errors
    /// Of the event engine; E990 for a time below the bound, which is an error of kbc.
    pub fn time(&self, workspace: &Workspace) -> Outcome<(Report, Timing)> {
        let schedule = self.schedule()?;
        let mut report = begin("time", "", self, schedule);
        let options = TimeOptions::default();
        let subject = self.subject(schedule);
        let timing = analyse::time(workspace, &mut report, subject, &self.topology, &options)?;
        Ok((report, timing))
    }

    /// Proves, executes and times the schedule, and puts everything into one report.
    ///
    /// # Errors
    /// Of any of these steps. Results that differ are no error: the report is not ok then.
    pub fn report(&self, workspace: &Workspace, data: &Data) -> Outcome<Report> {
        let schedule = self.schedule()?;
        let mut report = begin("compile", "", self, schedule);
        report.verified = Some(self.check(workspace)?);
        let done = self.execute(workspace, data)?;
        executed(&mut report, self, schedule, done);
        let options = TimeOptions::default();
        analyse::time(workspace, &mut report, self.subject(schedule), &self.topology, &options)?;
        Ok(report)
    }

    /// Emits the schedule as a package of kernels for a target, as files in memory. `report` is the
    /// evidence that the texts of the package quote, see [`Built::report`]. The passes of `windows`
    /// make schedules that targets accept.
    ///
    /// # Errors
    /// E458 if there is no such target; the reason if it cannot have a kernel of the program.
    pub fn emit(&self, workspace: &mut Workspace, target: &str, report: &Report) -> Outcome<Contents> {
        let Some(target) = emit::target(target)? else {
            let title = format!("there is no emitted code for target {target}");
            return Err(Diagnostic::error("E416", title).into());
        };
        let prepared = emit::prepare(workspace, self, self.schedule()?, target, &mut Unwatched)?;
        Ok(emit::contents(&prepared, report, emit::OwnData::default())?)
    }
}
