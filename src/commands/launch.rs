//! `kbc launch`: compiles a program for this computer, builds it with the C compiler, and runs it.
//!
//! The steps up to the folder of C are those of `kbc compile`. The compiler is called itself, and
//! not through `make`, so that it is all that a computer needs. What the program measures comes
//! back as JSON. With `--mpi` the compiler is that of MPI, and its launcher starts the ranks.

use super::compile::{self, PackageReceiver};
use super::output::finish;
use crate::cli::{Compile, Data, Execution, Groups, Launch, Source, Watch};
use crate::crash::{self, Stage};
use crate::native::NativeTool;
use crate::outdir;
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::report::{LaunchReport, Report, launch};
use kbc_compiler::workspace::words;
use kbc_compiler::{backends, sized};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::schedule::Schedule;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Most lines of another program that a message repeats.
const LINES: usize = 16;

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
    let launcher = build(args, &kernel, &package, &program)?;
    session.progress("running");
    let ranks: u64 = report.mesh.iter().map(|a| a.size).product();
    let ended = started(&program, &arguments(args, ranks), launcher.map(|l| (l, ranks)), folder)?;
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
    Compile {
        verb: "launch",
        source,
        target: backends::native_target().name().to_owned(),
        execution: Execution {
            no_proof: false,
            no_data: args.no_data,
            no_time: false,
            adversarial: false,
            seeds: 1,
            seed: 0,
            calls: None,
            every_rank: false,
            perturb: None,
            emit: vec![],
            trace_ranks: None,
            passes: "default".into(),
            watch: Watch { force: args.force, ..Watch::default() },
            data: Data { output: vec![place(args.output.as_deref())], ..Data::default() },
            groups: Groups::default(),
        },
    }
}

/// Returns the value of `--output` for which a package is made: a path, which is not taken for
/// `NAME=FILE`. Without a folder, [`MadeForRun`] does not read it.
fn place(folder: Option<&str>) -> String {
    match folder.unwrap_or("package") {
        path if path.contains('=') && Path::new(path).is_relative() => format!("./{path}"),
        path => path.to_owned(),
    }
}

/// Compiles the C of a kernel. Returns the launcher of its processes, if it needs one.
fn build(
    args: &Launch,
    kernel: &str,
    package: &Path,
    program: &Path,
) -> Result<Option<NativeTool>, Diagnostic> {
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
    let own = std::env::var("CFLAGS").ok();
    let optimise: Vec<&str> = match &own {
        Some(flags) => flags.split_whitespace().collect(),
        None => build.optimise.to_vec(),
    };
    let program = program.to_string_lossy();
    let file = ["-o", &program, &build.source];
    let args = [build.standard, with, &optimise[..], &file, &build.libraries[..]].concat();
    compiler.call(&args, package).map_err(|said| {
        let title = format!("the compiler `{}` does not compile the C of {kernel}", compiler.command());
        lines(Diagnostic::error("E564", title), &said).help(help)
    })?;
    Ok(launcher)
}

/// Returns the arguments of the program. Its sizes are those for which it was compiled.
fn arguments(args: &Launch, ranks: u64) -> Vec<String> {
    let Launch { calls, repeat, limit, seed, delays, .. } = args;
    let mut out: Vec<String> = ["--json", "--until-eof"].map(str::to_owned).to_vec();
    let mut give = |flag: &str, value: u64| out.extend([flag.to_owned(), value.to_string()]);
    give("-n", ranks);
    give("--calls", *calls);
    give("--limit", *limit);
    give("--seed", *seed);
    if let Some(repeat) = repeat {
        give("--repeat", *repeat);
    }
    out.extend(delays.then(|| "--delays".to_owned()));
    out
}

/// Runs the program to its end. Its folder is removed as soon as it runs; a launcher, which starts
/// a number of processes of the program, needs it longer.
fn started(
    program: &Path,
    args: &[String],
    launcher: Option<(NativeTool, u64)>,
    folder: Temporary,
) -> Result<Output, Diagnostic> {
    let failed = |e: std::io::Error| {
        Diagnostic::error("E567", "the program that was built does not start")
            .note(format!("{}: {}", program.display(), words(&e)))
            .help("TMPDIR names another folder for temporary files, in which programs may run")
    };
    let launched = launcher.is_some();
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
    let folder = launched.then_some(folder);
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
    let found = ended.stdout.split(|b| *b == b'\n').find_map(|line| serde_json::from_slice(line).ok());
    let Some::<LaunchReport>(launched) = found else {
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

/// Adds the lines that another program printed, the first ones if there are many.
fn lines(mut d: Diagnostic, said: &str) -> Diagnostic {
    let all: Vec<&str> = said.lines().filter(|l| !l.trim().is_empty()).collect();
    for line in all.iter().take(LINES) {
        d = d.note(*line);
    }
    match all.len().saturating_sub(LINES) {
        0 => d,
        more => d.note(format!("... and {more} more lines")),
    }
}

/// A folder that is removed when it is dropped, and when a signal ends kbc.
struct Temporary(TempDir);

impl Temporary {
    fn new() -> Result<Temporary, Diagnostic> {
        let failed = |e: std::io::Error| {
            Diagnostic::error("E410", format!("cannot create a temporary folder: {}", words(&e)))
        };
        // The compiler works in another folder than kbc.
        let all = std::path::absolute(std::env::temp_dir()).map_err(failed)?;
        let folder = tempfile::Builder::new().prefix("kbc-launch-").tempdir_in(all).map_err(failed)?;
        let path = folder.path().to_owned();
        // Not the end of the terminal, which nohup lets a command ignore.
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        std::thread::spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            // The compiler may still be writing: it has its own time to end.
            for _ in 0..100 {
                match fs::remove_dir_all(&path) {
                    Err(_) if path.exists() => std::thread::sleep(Duration::from_millis(10)),
                    _ => break,
                }
            }
            // Ends kbc as the signal would have.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        });
        Ok(Temporary(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The folder of the C, unless the user has named one.
    fn package(&self) -> PathBuf {
        self.0.path().join("package")
    }
}
