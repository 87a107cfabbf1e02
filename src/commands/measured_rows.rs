//! Rows of `kbc sweep` that processes measure: their programs are compiled and built, and then run
//! in turn.
//!
//! Several programs are built at a time. While processes run, kbc does nothing else. In a round
//! every program runs once, and each round begins with another one, so that a change of the
//! computer's speed meets all rows. Nothing is taken from the cache or put into it: what was
//! measured belongs to a time and to a computer, and not to what the row is made from.

use super::compile::{self, PackageReceiver};
use crate::cli::{Selection, Source};
use crate::confine;
use crate::host_program::{self, Temporary, lines};
use crate::native::NativeTool;
use crate::outdir;
use crate::session::{Failure, Outcome, Session, words};
use indicatif::ProgressBar;
use kbc_compiler::backends;
use kbc_compiler::report::{LaunchReport, Report};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_evaluation::sweep::cache::digest;
use kbc_evaluation::sweep::listening::Listening;
use kbc_evaluation::sweep::run::{SweepRow, SweepRows, refused};
use kbc_evaluation::sweep::spec::MeasureOptions;
use kbc_evaluation::sweep::{RowEngine, RowRequest, measured, row};
use kbc_ir::schedule::Schedule;
use kbc_ir::types::DType;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What rows need that share memory.
const HELP: &str =
    "rows with the engine host compile C11 with atomics: install a C compiler (gcc or clang), or set CC";
/// What rows over MPI need.
const MPI_HELP: &str = "rows with the engine mpi need MPI: install Open MPI or MPICH with its compiler, \
                        or set MPICC and MPIRUN";

/// Compilers, and the launcher of MPI; each is there, or it is known why not.
struct Tools {
    host: Result<NativeTool, Diagnostic>,
    mpi: Result<(NativeTool, NativeTool), Diagnostic>,
}

impl Tools {
    fn find(points: &[&RowRequest]) -> Tools {
        let unused = || Diagnostic::error("E991", "no row needs this compiler");
        let needs = |engine| points.iter().any(|p| p.engine == engine);
        let mpi = || {
            let compiler = NativeTool::find("compiler", "MPICC", "mpicc", MPI_HELP)?;
            Ok((compiler, NativeTool::find("launcher", "MPIRUN", "mpirun", MPI_HELP)?))
        };
        Tools {
            host: match needs(RowEngine::Host) {
                true => NativeTool::find("compiler", "CC", "cc", HELP),
                false => Err(unused()),
            },
            mpi: if needs(RowEngine::Mpi) { mpi() } else { Err(unused()) },
        }
    }
}

/// Takes the package of a row into a folder, and looks at its schedule.
struct RowPackage<'a> {
    folder: &'a Path,
    element: Cell<Option<DType>>,
}

impl PackageReceiver for RowPackage<'_> {
    fn schedule(&self, schedule: &Schedule) -> Outcome {
        self.element.set(measured::element(schedule));
        Ok(())
    }

    fn package(&mut self, _: &Path, files: &[(String, Vec<u8>)], _: bool) -> Result<(), Diagnostic> {
        outdir::write(self.folder, files, false)
    }
}

/// A program that was compiled and built for this computer.
struct RowProgram {
    report: Report,
    element: Option<DType>,
    program: PathBuf,
    /// The launcher of its processes, if it needs one.
    launcher: Option<NativeTool>,
}

/// A program of a row that was built, and what its processes have printed so far.
struct Built {
    session: Session,
    listening: Arc<Listening>,
    of: RowProgram,
    runs: Vec<LaunchReport>,
    said: Vec<String>,
}

/// A row in progress.
enum Progress {
    Runs(Box<Built>),
    /// It has ended, with what was heard of it.
    Ended(Box<SweepRow>, Vec<String>),
}

/// Measures rows, one process group at a time. `jobs` programs are built at a time.
///
/// # Errors
/// Files that cannot be read, and errors of kbc or of the folder for temporary files. All others
/// are rows that are refused, such as those of a compiler that is missing (E564) or of processes
/// that fail (E567).
pub(super) fn run(
    session: &Session,
    sweep: &str,
    points: &[&RowRequest],
    measure: &MeasureOptions,
    jobs: usize,
    bar: &ProgressBar,
) -> Outcome<SweepRows> {
    if points.is_empty() {
        return Ok(SweepRows::of(vec![], BTreeMap::new()));
    }
    if confine::is_on() {
        let title = "the sweep compiles and runs C, which kbc dev replay does not do: run it yourself";
        return Err(Diagnostic::error("E413", title).into());
    }
    let tools = Tools::find(points);
    let folder = Temporary::new()?;
    bar.set_message("building");
    let mut rows = all_built(session, sweep, points, &tools, &folder, jobs)?;
    for round in 0..measure.rounds {
        bar.set_message(format!("round {} of {}", round + 1, measure.rounds));
        for k in 0..rows.len() {
            let k = (k + round as usize) % rows.len();
            let ended = match &mut rows[k] {
                Progress::Runs(built) => one_run(built, points[k], measure, round).err(),
                Progress::Ended(..) => None,
            };
            if let (Some(failure), Progress::Runs(built)) = (ended, &rows[k]) {
                rows[k] = of_failure(&built.session, &built.listening, points[k], failure)?;
            }
        }
    }
    let mut found = vec![];
    let mut heard = BTreeMap::new();
    for (point, row) in points.iter().zip(rows) {
        let (row, said) = match row {
            Progress::Ended(row, said) => (*row, said),
            Progress::Runs(built) => {
                let facts =
                    measured::facts(&built.of.report, built.of.element, &built.runs, &built.session.map);
                let said = built.listening.heard().into_iter().chain(built.said).collect();
                (SweepRow { row: point.row, facts, cached: false }, said)
            }
        };
        bar.inc(1);
        heard.insert(point.row, said);
        found.push(row);
    }
    Ok(SweepRows::of(found, heard))
}

/// Compiles and builds the programs of all rows, several at a time.
fn all_built(
    session: &Session,
    sweep: &str,
    points: &[&RowRequest],
    tools: &Tools,
    folder: &Temporary,
    jobs: usize,
) -> Outcome<Vec<Progress>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Outcome<Progress>>> = Mutex::default();
    std::thread::scope(|s| {
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(point) = points.get(i) else { return };
                let environment = session.environment.clone();
                let listening = Arc::new(Listening::new(environment, digest));
                let mut own = session.within(listening.clone());
                own.environment.begin_separate_record(&row::command(sweep, point));
                let folder = folder.path().join(format!("row_{}", point.row));
                let built = match build(&mut own, sweep, point, tools, &folder) {
                    Ok(of) => {
                        let (runs, said) = (vec![], vec![]);
                        Ok(Progress::Runs(Box::new(Built { session: own, listening, of, runs, said })))
                    }
                    Err(failure) => of_failure(&own, &listening, point, failure),
                };
                done.lock().unwrap_or_else(PoisonError::into_inner).insert(i, built);
            }
        };
        let threads: Vec<_> = (0..jobs.clamp(1, points.len())).map(|_| s.spawn(work)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// Returns the row of a failure. A size or an option that the program cannot have is that of the
/// row, and does not end the sweep.
fn of_failure(
    session: &Session,
    listening: &Listening,
    point: &RowRequest,
    failure: Failure,
) -> Outcome<Progress> {
    let failure = match failure {
        Failure::Usage(d) if d.list.iter().all(|d| d.code == "E416") => Failure::Program(d),
        other => other,
    };
    let row = refused(session, point.row, failure)?;
    Ok(Progress::Ended(Box::new(row), listening.heard()))
}

/// Compiles the program of a row for this computer, and builds it.
fn build(
    session: &mut Session,
    sweep: &str,
    point: &RowRequest,
    tools: &Tools,
    folder: &Path,
) -> Outcome<RowProgram> {
    let (compiler, launcher, help) = match point.engine {
        RowEngine::Mpi => {
            let (compiler, launcher) = tools.mpi.as_ref().map_err(Diagnostic::clone)?;
            (compiler, Some(launcher.clone()), MPI_HELP)
        }
        RowEngine::Host | RowEngine::Sim => (tools.host.as_ref().map_err(Diagnostic::clone)?, None, HELP),
    };
    let source = row::source(session, sweep, point)?;
    let source = Source { file: source.file, of: Selection::of(source.of)?, post: source.post };
    // The processes compare every element, so kbc does not execute the program itself.
    let compilation = host_program::compilation("sweep", source, "package".into(), (true, false));
    let mut package = RowPackage { folder, element: Cell::new(None) };
    let made = compile::steps(session, &compilation, &mut package)?;
    let kernel = made.as_ref().and_then(|(report, _)| report.emitted.as_ref()).map(|e| e.kernel.clone());
    let build = kernel.and_then(|k| backends::native_target().native_build(&k));
    let (Some((report, _)), Some(build)) = (made, build) else {
        return Err(Diagnostic::error("E991", "nothing was emitted for this computer").into());
    };
    let program = folder.join("program");
    let with = if launcher.is_some() { build.mpi } else { &[][..] };
    host_program::build(compiler, (&build, &build.source, with), folder, &program).map_err(|said| {
        let title = format!("the compiler `{}` does not compile {}", compiler.command(), build.source);
        lines(Diagnostic::error("E564", title), &said).help(help)
    })?;
    Ok(RowProgram { report, element: package.element.get(), program, launcher })
}

/// Runs the processes of a row once.
fn one_run(built: &mut Built, point: &RowRequest, measure: &MeasureOptions, round: u64) -> Outcome {
    let ranks: u64 = built.of.report.mesh.iter().map(|a| a.size).product();
    let mut command = match &built.of.launcher {
        None => Command::new(&built.of.program),
        Some(launcher) => {
            let mut command = launcher.start();
            command.args(["-n", &ranks.to_string()]).arg(&built.of.program);
            command
        }
    };
    command.args(["--json", "--until-eof"]);
    // Launchers of MPI bind their ranks themselves.
    if measure.bind && point.engine == RowEngine::Host {
        command.arg("--bind");
    }
    let seed = measure.seed.saturating_add(round);
    let own = [("-n", ranks), ("--calls", measure.calls), ("--limit", measure.limit), ("--seed", seed)];
    for (flag, value) in own.into_iter().chain(measure.repeat.map(|r| ("--repeat", r))) {
        command.args([flag, &value.to_string()]);
    }
    let ended = host_program::ended(&mut command).map_err(|e| {
        Diagnostic::error("E567", "the program that was built does not start")
            .note(words(&e))
            .help("TMPDIR names another folder for temporary files, in which programs may run")
    })?;
    let said = String::from_utf8_lossy(&ended.stderr);
    match host_program::launched(&ended) {
        Some(run) if run.time_ns.is_some() => {
            if run.wrong > 0 {
                built.said.extend(said.lines().map(str::to_owned));
            }
            built.runs.push(run);
            Ok(())
        }
        _ => {
            let title = format!("the processes of the row failed ({})", ended.status);
            let d = lines(Diagnostic::error("E567", title), &said);
            let d = match point.engine {
                RowEngine::Mpi => {
                    d.help("arguments of the launcher are in MPIRUN: MPIRUN='mpirun --oversubscribe'")
                }
                _ => d,
            };
            Err(Failure::Program(Diagnostics::from(d)))
        }
    }
}
