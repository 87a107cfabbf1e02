//! Drives kbc as its binary does, but without printing, for tests and benchmarks that need more
//! than a report.

#![allow(dead_code, reason = "every test and benchmark uses a part of it")]

use clap::Parser;
use kbc::cli::{Cli, Command, Compile};
use kbc::session::{Failure, Session};
use kbc_backend_sim::interp::{self, RunOptions, RunResult};
use kbc_compiler::analyse::{self, Executed};
use kbc_compiler::build::{Built, build};
use kbc_compiler::data::{self, Inputs};
use kbc_compiler::report::Report;
use kbc_compiler::watch::Unwatched;
use kbc_ir::schedule::Schedule;
use kbc_rounds::Library;
use kbc_time::TimeOptions;

/// A compiled program with the session that read it.
pub struct Job {
    /// The session that read its files.
    pub session: Session,
    /// The command line.
    pub args: Compile,
    /// The program after the pipeline.
    pub built: Built,
}

/// The result of `kbc compile`: the report, and the data of every rank.
pub struct Done {
    pub job: Job,
    pub report: Report,
    pub executed: Executed,
}

/// Runs `kbc compile WORDS` up to the schedule.
pub fn try_build(words: &[&str]) -> Result<Job, Failure> {
    let line = ["kbc", "--quiet", "compile"].iter().chain(words);
    let cli = Cli::try_parse_from(line).expect("a command line of this form is valid");
    let mut session = Session::new(&cli);
    let Command::Compile(args) = cli.command else { unreachable!("the verb is compile") };
    let built = build(&mut session, &args.source.plain(), &args.execution.passes, &mut Unwatched)?;
    Ok(Job { session, args, built })
}

/// Does the same as [`try_build`] for a program that must compile.
pub fn built(words: &[&str]) -> Job {
    try_build(words).unwrap_or_else(|e| panic!("{words:?}: {e:?}"))
}

/// Loads the library alone, as every start of kbc does.
pub fn library() -> Library {
    let cli = Cli::try_parse_from(["kbc", "list"]).expect("a command line of this form is valid");
    kbc_compiler::load::library(&mut Session::new(&cli), &[], &[]).unwrap_or_else(|e| panic!("{e:?}"))
}

impl Job {
    /// Returns the schedule.
    pub fn schedule(&self) -> &Schedule {
        self.built.module.schedule().expect("the default pipeline ends with a schedule")
    }

    /// Returns the data of one call, from the files and flags that name it.
    pub fn inputs(&self) -> Inputs {
        let built = &self.built;
        let (graph, mesh, local) = (&built.typed, &built.module.mesh, built.local.as_ref());
        let fed = data::ProgramInterface { graph, mesh, local, files: data::Files::default() };
        data::inputs(&self.session, &fed, &self.args.execution.data.plain(), 1, 0)
            .unwrap_or_else(|e| panic!("{e:?}"))
    }

    /// Executes one call on every rank, without a comparison.
    pub fn run(&self, inputs: &Inputs) -> RunResult {
        interp::run(self.schedule(), &inputs.calls, &RunOptions::default())
            .unwrap_or_else(|e| panic!("{e:?}"))
    }

    /// Returns the simulated time of one call in ns.
    pub fn time_ns(&self) -> f64 {
        let mut report = Report::default();
        analyse::time(
            &self.session,
            &mut report,
            self.schedule(),
            &self.built.topology,
            &TimeOptions::default(),
        )
        .unwrap_or_else(|e| panic!("{e:?}"));
        report.time_ns.expect("a timed report has a time")
    }
}

/// Runs `kbc compile WORDS`: proof, numbers on every rank, time, bounds.
pub fn done(words: &[&str]) -> Done {
    let job = built(words);
    let fail = |e: &dyn std::fmt::Debug| -> ! { panic!("{words:?}: {e:?}") };
    let schedule = job.schedule();
    let mut report = kbc_compiler::about::begin("compile", &job.args.source.file, &job.built, schedule);
    report.verified = Some(analyse::verify(&job.session, schedule).unwrap_or_else(|e| fail(&e)));
    let executed = analyse::execute(
        &job.session,
        &job.built,
        schedule,
        &job.args.execution.data.plain(),
        1,
        None,
        &mut Unwatched,
    )
    .unwrap_or_else(|e| fail(&e));
    analyse::time(&job.session, &mut report, schedule, &job.built.topology, &TimeOptions::default())
        .unwrap_or_else(|e| fail(&e));
    Done { job, report, executed }
}
