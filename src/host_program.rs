//! Host programs: packages of C, compiled for this computer, built and run.
//!
//! `kbc launch`, `kbc dev bench host` and `kbc calibrate` share these steps. The compiler is called
//! itself, and not through `make`, so that it is all that a computer needs.

use crate::cli::{Compile, Data, Execution, Groups, Source, Watch};
use crate::native::NativeTool;
use kbc_compiler::backends;
use kbc_compiler::report::LaunchReport;
use kbc_compiler::workspace::words;
use kbc_diag::Diagnostic;
use kbc_tiles::backend::NativeBuild;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Most lines of another program that a message repeats.
const LINES: usize = 16;

/// Returns the compilation for this computer that `verb` makes, with its package in a folder.
/// `no_data` leaves the execution by kbc out, and `force` replaces a folder that kbc did not write.
pub fn compilation(
    verb: &'static str,
    source: Source,
    folder: String,
    (no_data, force): (bool, bool),
) -> Compile {
    Compile {
        verb,
        source,
        target: backends::native_target().name().to_owned(),
        deferred_waits: false,
        execution: Execution {
            no_proof: false,
            no_data,
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
            watch: Watch { force, ..Watch::default() },
            data: Data { output: vec![folder], ..Data::default() },
            groups: Groups::default(),
        },
    }
}

/// Compiles a file of a package to a program, with the flags of its Makefile and with others; the
/// variable `CFLAGS` replaces those for optimisation.
///
/// # Errors
/// Returns the messages of the compiler.
pub fn build(
    compiler: &NativeTool,
    (build, source, with): (&NativeBuild, &str, &[&str]),
    package: &Path,
    program: &Path,
) -> Result<(), String> {
    let own = std::env::var("CFLAGS").ok();
    let optimise: Vec<&str> = match &own {
        Some(flags) => flags.split_whitespace().collect(),
        None => build.optimise.to_vec(),
    };
    let program = program.to_string_lossy();
    let file = ["-o", &program, source];
    let args = [build.standard, with, &optimise[..], &file, &build.libraries[..]].concat();
    compiler.call(&args, package)
}

/// Runs a command to its end. It has a standard input that is closed when kbc ends, however that
/// ends, so a program with `--until-eof` does not outlive kbc.
///
/// # Errors
/// Returns why it does not start.
pub fn ended(command: &mut Command) -> io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let held = child.stdin.take();
    let out = child.wait_with_output();
    drop(held);
    out
}

/// Time after the limit that a command has to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a command as [`ended`], for a limited time. A command that takes longer is told to end, and
/// killed if it does not. Returns nothing then.
///
/// # Errors
/// Returns why it does not start.
pub fn ended_within(command: &mut Command, limit: Duration) -> io::Result<Option<Output>> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let held = child.stdin.take();
    let until = Instant::now() + limit;
    // Its processes may keep a pipe open that it has left, so nothing waits for the readers.
    let out = child.stdout.take().map(reader);
    let err = child.stderr.take().map(reader);
    let status = wait(&mut child, until)?;
    drop(held);
    let Some(status) = status else {
        terminate(&child);
        if wait(&mut child, Instant::now() + GRACE)?.is_none() {
            child.kill()?;
            child.wait()?;
        }
        return Ok(None);
    };
    let left = until.saturating_duration_since(Instant::now()).max(GRACE);
    let all = |of: Option<Receiver<Vec<u8>>>| of.map_or(Some(vec![]), |r| r.recv_timeout(left).ok());
    Ok(all(out).zip(all(err)).map(|(stdout, stderr)| Output { status, stdout, stderr }))
}

/// Reads a pipe to its end in a thread of its own.
fn reader(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut all = vec![];
        let _ = pipe.read_to_end(&mut all);
        let _ = send.send(all);
    });
    receive
}

/// Waits for a process, until some time at most.
fn wait(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        std::thread::sleep(pause.min(left));
        pause = (2 * pause).min(Duration::from_millis(20));
    }
}

/// Asks a process to end. A launcher of others then ends them, too.
fn terminate(child: &Child) {
    #[cfg(unix)]
    if let Some(id) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
    #[cfg(not(unix))]
    let _ = child;
}

/// Returns the report of a program among the lines that it and its launcher printed.
pub fn launched(ended: &Output) -> Option<LaunchReport> {
    ended.stdout.split(|b| *b == b'\n').find_map(|line| serde_json::from_slice(line).ok())
}

/// Adds the lines that another program printed, the first ones if there are many.
pub fn lines(mut d: Diagnostic, said: &str) -> Diagnostic {
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
pub struct Temporary(TempDir);

impl Temporary {
    /// Creates the folder in that for temporary files.
    ///
    /// # Errors
    /// Returns E410 if it cannot be created.
    pub fn new() -> Result<Temporary, Diagnostic> {
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

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The folder of the C, unless the user has named one.
    pub fn package(&self) -> PathBuf {
        self.0.path().join("package")
    }
}
