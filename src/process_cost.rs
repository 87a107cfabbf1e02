//! Process cost: runs a program to its end and says what processor time and memory it took.
//!
//! The system counts both for a process that has ended. Its count of memory begins before the
//! program is loaded, when the process is still a copy of the one that started it (`as_copy`). A
//! caller therefore holds little memory itself.

use kbc_compiler::workspace::words;
use kbc_diag::Diagnostic;
use kbc_evaluation::scale::report::ProcessCost;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a process did: its cost, or the first line that it printed on standard error, or how it
/// ended.
pub type Ended = Result<ProcessCost, String>;

/// The part of a report that is read.
#[derive(Deserialize)]
struct Counted {
    messages: Option<u64>,
}

/// Runs a program in a folder, which also holds what it prints. `cache` is the folder of what kbc
/// keeps from one run to another. `counted` says that the program prints a report as JSON, whose
/// messages are read.
///
/// # Errors
/// Returns E412 if the program cannot be started, E410 if the folder cannot be written, and E416 on
/// a system that does not count the cost of processes.
pub fn measured(
    program: &Path,
    arguments: &[String],
    (folder, cache): (&Path, &Path),
    counted: bool,
) -> Result<Ended, Diagnostic> {
    let (answer, messages) = (folder.join("standard-output"), folder.join("standard-error"));
    let unwritten = |e: std::io::Error| {
        Diagnostic::error("E410", format!("cannot write {}: {}", folder.display(), words(&e)))
    };
    let create = |path: &Path| File::create(path).map_err(unwritten);
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("KBC_CACHE", cache).stdin(Stdio::null());
    command.stdout(create(&answer)?).stderr(create(&messages)?);
    as_copy(&mut command);
    let begin = Instant::now();
    let child = command
        .spawn()
        .map_err(|e| Diagnostic::error("E412", format!("cannot run {}: {}", program.display(), words(&e))))?;
    let Waited { status, cpu_seconds, peak_bytes } = wait(child)?;
    let wall_seconds = begin.elapsed().as_secs_f64();
    if !status.success() {
        let mut lines = File::open(messages).into_iter().flat_map(|file| BufReader::new(file).lines());
        let first = lines.find_map(|line| line.ok().filter(|line| !line.trim().is_empty()));
        return Ok(Err(first.unwrap_or_else(|| status.to_string())));
    }
    let read = |file| serde_json::from_reader(BufReader::new(file)).ok();
    let report: Option<Counted> = File::open(answer).ok().filter(|_| counted).and_then(read);
    let messages = report.and_then(|report| report.messages);
    Ok(Ok(ProcessCost { cpu_seconds, wall_seconds, peak_bytes, messages }))
}

/// Has the process begin as a copy of this one, with only the pages that this one has written. It
/// would otherwise share all pages of this one until its program is loaded, and its peak would be
/// at least that of this process.
#[cfg(unix)]
fn as_copy(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    #[allow(unsafe_code, reason = "the library copies the process only if something runs in the copy")]
    // SAFETY: what runs in the copy does nothing.
    unsafe {
        command.pre_exec(|| Ok(()));
    }
}

#[cfg(not(unix))]
fn as_copy(_: &mut Command) {}

/// The end of a process.
#[cfg_attr(not(unix), allow(dead_code, reason = "only Unix counts the cost of a process"))]
struct Waited {
    status: std::process::ExitStatus,
    cpu_seconds: f64,
    peak_bytes: u64,
}

#[cfg(unix)]
fn wait(child: std::process::Child) -> Result<Waited, Diagnostic> {
    use std::os::unix::process::ExitStatusExt;
    let failed = |e: std::io::Error| Diagnostic::error("E991", format!("waiting for a process: {e}"));
    let id = libc::pid_t::try_from(child.id()).map_err(|e| failed(std::io::Error::other(e)))?;
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    loop {
        #[allow(unsafe_code, reason = "the library does not say what a single process took")]
        // SAFETY: both places exist, and nobody else waits for this process.
        let ended = unsafe { libc::wait4(id, &raw mut status, 0, usage.as_mut_ptr()) };
        if ended == id {
            break;
        }
        let e = std::io::Error::last_os_error();
        if e.kind() != std::io::ErrorKind::Interrupted {
            return Err(failed(e));
        }
    }
    #[allow(unsafe_code, reason = "the system has written it")]
    // SAFETY: zeros are valid numbers, too.
    let usage = unsafe { usage.assume_init() };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Ok(Waited {
        status: std::process::ExitStatus::from_raw(status),
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak_bytes: usage.ru_maxrss.unsigned_abs() * PEAK_UNIT,
    })
}

/// Bytes that the system counts as one of a peak.
#[cfg(unix)]
const PEAK_UNIT: u64 = if cfg!(target_os = "macos") { 1 } else { 1024 };

#[cfg(not(unix))]
fn wait(mut child: std::process::Child) -> Result<Waited, Diagnostic> {
    let _ = child.kill();
    let _ = child.wait();
    Err(Diagnostic::error("E416", "this system does not say what a single process took")
        .note("kbc measures processes with wait4, which only Unix has"))
}
