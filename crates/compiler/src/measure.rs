//! Measurement: a program on a machine, prepared for published figures and sweeps.
//!
//! The module owns the checks made before a timing is reported: the proof and, if that is not too
//! much data, an execution that is compared with the single-device result.

use crate::about::{about_schedule, begin};
use crate::analyse;
use crate::bounds::Subject;
use crate::build::{Built, build};
use crate::failure::Outcome;
use crate::load;
use crate::options::{Data, Source};
use crate::report::{CompareReport, Report, VerifiedReport};
use crate::watch::Unwatched;
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::Module;
use kbc_ir::schedule::Schedule;
use kbc_ir::types::TensorType;
use kbc_machine::topology::Topology;
use kbc_machine::topology::perturb::Perturb;
use kbc_time::{TimeOptions, Timing};

/// Bytes of results on all ranks up to which a program is executed.
pub const EXECUTED: u64 = 64 << 20;

/// A schedule with its machine.
pub enum MeasuredSchedule {
    /// Of a program.
    Program(Box<Built>),
    /// That comes from text: there is no single-device result to compare its numbers with.
    Schedule(Box<(Module, Topology, Option<Perturb>)>),
}

/// What was done before a time is believed.
pub struct TimingChecks {
    /// The proof.
    pub verified: VerifiedReport,
    /// The comparison; none where nothing was executed.
    pub compare: Option<CompareReport>,
}

impl MeasuredSchedule {
    /// The module with the schedule.
    pub fn module(&self) -> &Module {
        match self {
            MeasuredSchedule::Program(built) => &built.module,
            MeasuredSchedule::Schedule(all) => &all.0,
        }
    }

    /// The schedule.
    ///
    /// # Errors
    /// E991: the pipeline made none.
    pub fn schedule(&self) -> Result<&Schedule, Diagnostic> {
        self.module().schedule().ok_or_else(|| Diagnostic::error("E991", "the pipeline made no schedule"))
    }

    /// Returns the schedule, and the program from which it was made.
    ///
    /// # Errors
    /// As [`MeasuredSchedule::schedule`].
    pub fn subject(&self) -> Result<Subject<'_>, Diagnostic> {
        let schedule = self.schedule()?;
        Ok(match self {
            MeasuredSchedule::Program(built) => built.subject(schedule),
            MeasuredSchedule::Schedule(_) => schedule.into(),
        })
    }

    /// The machine.
    pub fn topology(&self) -> &Topology {
        match self {
            MeasuredSchedule::Program(built) => &built.topology,
            MeasuredSchedule::Schedule(all) => &all.1,
        }
    }

    /// Perturbations of the machine, from its file.
    pub fn perturb(&self) -> Option<&Perturb> {
        match self {
            MeasuredSchedule::Program(built) => built.perturb.as_ref(),
            MeasuredSchedule::Schedule(all) => all.2.as_ref(),
        }
    }

    /// The report of a timed run that the verb `command` makes of `file`, and its times.
    ///
    /// # Errors
    /// Of time.
    pub fn timed(
        &self,
        workspace: &Workspace,
        command: &'static str,
        file: &str,
    ) -> Outcome<(Report, Timing)> {
        let schedule = self.schedule()?;
        let mut report = match self {
            MeasuredSchedule::Program(built) => begin(command, file, built, schedule),
            MeasuredSchedule::Schedule(all) => {
                Report { machine: Some(all.1.to_string()), ..about_schedule(command, file, &all.0, schedule) }
            }
        };
        let options = TimeOptions::default();
        let timing = analyse::time(workspace, &mut report, self.subject()?, self.topology(), &options)?;
        Ok((report, timing))
    }

    /// Proves it.
    ///
    /// # Errors
    /// Of the proof.
    pub fn prove(&self, workspace: &Workspace) -> Result<VerifiedReport, Diagnostics> {
        let schedule = self.schedule()?;
        match self {
            MeasuredSchedule::Program(built) => analyse::prove(workspace, built, schedule),
            MeasuredSchedule::Schedule(_) => analyse::verify(workspace, schedule),
        }
    }

    /// Proves it, and executes it unless it is only a schedule or has more than [`EXECUTED`] bytes
    /// of results.
    ///
    /// # Errors
    /// Returns the errors of the proof and of the execution. Wrong numbers are part of the result.
    pub fn trust(&self, workspace: &Workspace) -> Outcome<TimingChecks> {
        let schedule = self.schedule()?;
        let MeasuredSchedule::Program(built) = self else {
            return Ok(TimingChecks { verified: self.prove(workspace)?, compare: None });
        };
        let verified = self.prove(workspace)?;
        let mesh = &schedule.mesh;
        let types = analyse::output_types(built);
        let held = |rank: u64, t: &TensorType| {
            let parts = t.local_box(mesh, &mesh.coords(rank));
            parts.iter().fold(t.dtype.bytes(), |n, (a, b)| n.saturating_mul(b - a))
        };
        let all = (0..mesh.ranks()).flat_map(|r| types.iter().map(move |t| held(r, t)));
        let compare = if all.fold(0u64, u64::saturating_add) <= EXECUTED {
            Some(
                analyse::execute(workspace, built, schedule, &Data::default(), 1, None, &mut Unwatched)?
                    .compare,
            )
        } else {
            None
        };
        Ok(TimingChecks { verified, compare })
    }
}

/// Builds a program, or reads a schedule with the machine it is timed on.
///
/// # Errors
/// Of reading, building, and of the machine; E416 for a schedule without one.
pub fn ready(workspace: &mut Workspace, source: &Source) -> Outcome<MeasuredSchedule> {
    if !source.file.ends_with(".kir") {
        return Ok(MeasuredSchedule::Program(Box::new(build(workspace, source, "default", &mut Unwatched)?)));
    }
    let module = load::read_schedule(workspace, source)?;
    let own = module.machine.as_ref();
    let Some((topology, perturb)) = crate::machine::machine(workspace, &source.of, own, module.schedule())?
    else {
        return Err(Diagnostic::error("E416", format!("{} cannot be timed without a machine", source.file))
            .help("give the program a `topology`")
            .into());
    };
    Ok(MeasuredSchedule::Schedule(Box::new((module, topology, perturb))))
}
