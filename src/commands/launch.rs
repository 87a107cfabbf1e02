//! `kbc launch`: compiles a program for this computer, builds it with the C compiler, and runs it.
//!
//! The steps up to the folder of C are those of `kbc compile`. The compiler is called itself, and
//! not through `make`, so that it is all that a computer needs. What the program measures comes
//! back as JSON. With `--mpi` the compiler is that of MPI, and its launcher starts the ranks.

use super::compile::{self, PackageReceiver};
use super::output::finish;
use crate::cli::{Compile, Launch, Source};
use crate::crash::{self, Stage};
use crate::host_program::{self, Temporary, lines};
use crate::native::NativeTool;
use crate::outdir;
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::report::{Report, launch};
use kbc_compiler::workspace::words;
use kbc_compiler::{backends, sized};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::schedule::Schedule;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// E416: a file of another tool is not launched.
pub fn no_program(file: &str) -> Failure {
    let d = Diagnostic::error("E416", format!("{file} is not a .kb file"))
        .note("kbc launch runs the program or algorithm of a .kb file")
        .help("kbc import and kbc compile take files of other tools");
    Failure::Usage(d.into())
}

/// Compiles, builds and runs.
///
/// # Errors
/// Returns the errors of `kbc compile`; E416 for sizes that the program cannot have; E564 if the
/// compiler or the launcher of MPI is missing, or the compiler fails; E430 for wrong elements, and
/// E567 for a run that ends otherwise.
pub fn run(session: &mut Session, args: &Launch) -> Outcome {
    let source = sized(session, args)?;
    let mut made = MadeForRun { args, folder: None };
    let Some((mut report, print)) = compile::steps(session, &compilation(args, source), &mut made)? else {
        return Ok(());
    };
    let kernel = report.emitted.as_ref().map(|e| e.kernel.clone());
    let (Some(kernel), Some(folder)) = (kernel, made.folder) else {
        // A comparison has failed, and nothing was emitted.
        return finish(session, &report, print);
    };
    if args.output.is_none() {
        // It is removed before the command ends.
        report.emitted = None;
    }
    crash::stage(Stage::Run);
    session.progress("building");
    let package = args.output.as_ref().map_or_else(|| folder.package(), PathBuf::from);
    let program = folder.path().join("program");
    let (launcher, stored) = build(args, &kernel, &package, &program)?;
    session.progress("running");
    let ranks: u64 = report.mesh.iter().map(|a| a.size).product();
    let mut given = arguments(args, ranks);
    let stored = std::path::absolute(package.join(stored)).ok().filter(|p| p.exists());
    given.extend(stored.iter().flat_map(|p| ["--data".to_owned(), p.to_string_lossy().into_owned()]));
    let needed = launcher.is_some() || stored.is_some();
    let ended = started(&program, &given, launcher.map(|l| (l, ranks)), (folder, needed))?;
    show(session, args, &mut report, &kernel, &ended)
}

/// Takes the package: into the folder of `--output`, or else into a temporary one. A temporary
/// folder, in which the program is built, exists from then on.
struct MadeForRun<'a> {
    args: &'a Launch,
    folder: Option<Temporary>,
}

impl PackageReceiver for MadeForRun<'_> {
    fn schedule(&self, schedule: &Schedule) -> Outcome {
        sized::fits(schedule, self.args.processes)
    }

    fn package(&mut self, out: &Path, files: &[(String, Vec<u8>)], force: bool) -> Result<(), Diagnostic> {
        let folder = self.folder.insert(Temporary::new()?);
        match &self.args.output {
            Some(_) => outdir::write(out, files, force),
            None => outdir::write(&folder.package(), files, false),
        }
    }
}

/// Returns the source at the size that the options name.
fn sized(session: &mut Session, args: &Launch) -> Outcome<Source> {
    let mut source = Source { file: args.file.clone(), of: args.of.clone(), post: None };
    let is_program = ![".kir", ".tile"].iter().any(|end| args.file.ends_with(end));
    if is_program && (args.processes.is_some() || args.count.is_some()) {
        if args.file == "-" {
            // The workspace keeps what it has read from there.
            session.read("-")?;
        }
        if let Some(ranks) = args.processes {
            source.of.set_size(sized::on_ranks(session, &source.plain(), ranks)?);
        }
        if let Some(count) = args.count {
            let of = sized::with_count(session, &source.plain(), backends::native_target(), count)?;
            source.of.set_size(of);
        }
    }
    Ok(source)
}

/// Returns the compilation for this computer that comes first.
fn compilation(args: &Launch, source: Source) -> Compile {
    let folder = place(args.output.as_deref());
    host_program::compilation("launch", source, folder, (args.no_data, args.force))
}

/// Returns the value of `--output` for which a package is made: a path, which is not taken for
/// `NAME=FILE`. Without a folder, [`MadeForRun`] does not read it.
fn place(folder: Option<&str>) -> String {
    match folder.unwrap_or("package") {
        path if path.contains('=') && Path::new(path).is_relative() => format!("./{path}"),
        path => path.to_owned(),
    }
}

/// Compiles the C of a kernel. Returns the launcher of its processes, if it needs one, and the name
/// of the file with inputs that the package may have.
fn build(
    args: &Launch,
    kernel: &str,
    package: &Path,
    program: &Path,
) -> Result<(Option<NativeTool>, &'static str), Diagnostic> {
    let Some(build) = backends::native_target().native_build(kernel) else {
        return Err(Diagnostic::error("E991", "the packages of the target are not built on this computer"));
    };
    let help = match args.mpi {
        true => {
            "kbc launch --mpi needs MPI: install Open MPI or MPICH with its compiler, or set MPICC and MPIRUN"
        }
        false => {
            "kbc launch compiles C11 with atomics: install a C compiler (gcc or clang), or set CC; \
             kbc compile --target host writes the C without one"
        }
    };
    let launcher = match args.mpi {
        true => Some(NativeTool::find("launcher", "MPIRUN", "mpirun", help)?),
        false => None,
    };
    let (variable, name, with) = if args.mpi { ("MPICC", "mpicc", build.mpi) } else { ("CC", "cc", &[][..]) };
    let compiler = NativeTool::find("compiler", variable, name, help)?;
    let title = format!("the compiler `{}` does not compile the C of {kernel}", compiler.command());
    host_program::build(&compiler, (&build, &build.source, with), package, program)
        .map_err(|said| lines(Diagnostic::error("E564", title), &said).help(help))?;
    Ok((launcher, build.stored))
}

/// Returns the arguments of the program. Its sizes are those for which it was compiled.
fn arguments(args: &Launch, ranks: u64) -> Vec<String> {
    let Launch { calls, repeat, limit, seed, delays, bind, .. } = args;
    let mut out: Vec<String> = ["--json", "--until-eof"].map(str::to_owned).to_vec();
    let mut give = |flag: &str, value: u64| out.extend([flag.to_owned(), value.to_string()]);
    give("-n", ranks);
    if let Some(calls) = calls {
        give("--calls", *calls);
    }
    give("--limit", *limit);
    give("--seed", *seed);
    if let Some(repeat) = repeat {
        give("--repeat", *repeat);
    }
    out.extend(delays.then(|| "--delays".to_owned()));
    out.extend(bind.then(|| "--bind".to_owned()));
    out
}

/// Runs the program to its end. Its folder is removed as soon as it runs, unless it is needed: by a
/// launcher, which starts a number of processes of the program, or for the inputs in it.
fn started(
    program: &Path,
    args: &[String],
    launcher: Option<(NativeTool, u64)>,
    (folder, needed): (Temporary, bool),
) -> Result<Output, Diagnostic> {
    let failed = |e: std::io::Error| {
        Diagnostic::error("E567", "the program that was built does not start")
            .note(format!("{}: {}", program.display(), words(&e)))
            .help("TMPDIR names another folder for temporary files, in which programs may run")
    };
    let mut command = match launcher {
        None => Command::new(program),
        Some((launcher, ranks)) => {
            let mut command = launcher.start();
            command.args(["-n", &ranks.to_string()]).arg(program);
            command
        }
    };
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let folder = needed.then_some(folder);
    // The program ends when this pipe is closed, so it does not outlive kbc however that ends.
    let held = child.stdin.take();
    let ended = child.wait_with_output().map_err(failed);
    drop((held, folder));
    ended
}

/// Prints the result of a run.
fn show(session: &Session, args: &Launch, report: &mut Report, kernel: &str, ended: &Output) -> Outcome {
    crash::stage(Stage::Report);
    let said = String::from_utf8_lossy(&ended.stderr);
    // A launcher may print lines of its own.
    let Some(launched) = host_program::launched(ended) else {
        let usage = ended.status.code() == Some(2);
        let title = match usage {
            true => format!("{kernel} refuses its arguments"),
            false => format!("the run of {kernel} failed ({})", ended.status),
        };
        let mut d = lines(Diagnostic::error("E567", title), &said);
        if args.mpi && !usage {
            d = d.help("arguments of the launcher are in MPIRUN: MPIRUN='mpirun --oversubscribe'");
        }
        let found = Diagnostics::from(d);
        return Err(if usage { Failure::Usage(found) } else { Failure::Program(found) });
    };
    report.ok = launched.wrong == 0 && ended.status.success();
    let processors = std::thread::available_parallelism().ok().map(|n| n.get() as u64);
    let text = launch::human(report, &launched, processors);
    report.launched = Some(launched);
    session.answer(&text, report)?;
    if report.ok {
        return Ok(());
    }
    let title = format!("{}: the results of the processes are wrong", report.file);
    Err(Failure::Program(lines(Diagnostic::error("E430", title), &said).into()))
}
