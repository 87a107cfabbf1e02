//! `kbc dev fuzz readers`: damaged files for every reader.

use crate::cli::FuzzReaders;
use crate::crash;
use crate::outdir;
use crate::session::{Outcome, Session, words};
use kbc_audit::fuzz::readers::examples::{Example, MAX_BYTES, built_in};
use kbc_audit::fuzz::readers::{Failure as Found, Reader, ReadersSummary, With, file, run as read};
use kbc_diag::Diagnostic;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Number of files between two progress messages.
const STEP: u64 = 5000;

/// Damages and reads files, and prints the counts.
///
/// # Errors
/// Returns E993 if a reader fails, and the errors of reading the examples and of writing a file
/// that is not read correctly.
pub fn run(session: &mut Session, args: &FuzzReaders) -> Outcome {
    let mut examples = built_in();
    for path in &args.files {
        let cannot =
            |e: std::io::Error| Diagnostic::error("E412", format!("cannot read {path}: {}", words(&e)));
        let before = examples.len();
        if !Path::new(path).exists() {
            return Err(session.unread(Path::new(path), &std::io::ErrorKind::NotFound.into()).into());
        }
        below(Path::new(path), &mut examples).map_err(cannot)?;
        if examples.len() == before {
            return Err(Diagnostic::error("E416", format!("{path} contains no file that kbc can read"))
                .help("give files with a known extension, or folders with such files")
                .into());
        }
    }
    let numbers = match args.only {
        Some(k) => k..k.saturating_add(1),
        None => args.first..args.first.saturating_add(args.inputs),
    };
    if let Some(k) = args.only
        && let Some((reader, example, bytes)) = file(&examples, args.seed, k)
    {
        session.tell(&format!("number {k}: {} of {example}, {} bytes", reader.ending(), bytes.len()));
        if !reader.is_binary() && !session.is_json() {
            session.print_artefact(&String::from_utf8_lossy(&bytes));
        }
    }
    let mut next = STEP;
    let mut told = 0;
    let sum = read(WITH, &examples, args.seed, numbers, &mut |s: &ReadersSummary| {
        for f in &s.failures[told..] {
            session.print_note(&line(f));
        }
        told = s.failures.len();
        let tried: u64 = s.tried.values().sum();
        if tried >= next {
            next += STEP;
            session.print_note(&format!("{tried} files, {told} not read correctly\n"));
        }
    });
    let counts: Vec<String> = sum.tried.iter().map(|(r, n)| format!("{n} {r:?}").to_lowercase()).collect();
    let tried: u64 = sum.tried.values().sum();
    let text = format!("{tried} files: {}; {} not read correctly", counts.join(", "), sum.failures.len());
    let by_reader: BTreeMap<&str, u64> = sum.tried.iter().map(|(r, n)| (r.ending(), *n)).collect();
    let failures: Vec<_> = sum
        .failures
        .iter()
        .map(|f| json!({ "number": f.number, "reader": f.reader.ending(), "example": f.example, "what": f.what }))
        .collect();
    let json = json!({
        "schema": 1, "command": "fuzz readers", "ok": failures.is_empty(),
        "tried": tried, "by_reader": by_reader, "failures": failures,
    });
    session.answer(&text, &json)?;
    for f in &sum.failures {
        let name = format!("kbc-fuzz-{}-{}.{}", args.seed, f.number, f.reader.ending());
        outdir::write_file(&Path::new(&args.output).join(name), &f.bytes)?;
    }
    match sum.failures.first() {
        None => Ok(()),
        Some(f) => {
            let title = format!("a reader fails: {}", line(f).trim_end());
            let d = Diagnostic::error("E993", title)
                .help("this is a bug of kbc, please report it with the written file");
            Err(d.note(format!("{} failures in total", sum.failures.len())).into())
        }
    }
}

/// A failure in words.
fn line(f: &Found) -> String {
    format!("number {} ({} of {}): {}\n", f.number, f.reader.ending(), f.example, f.what)
}

/// Adds the examples in a file or folder, in the order of their names. Files that are too large are
/// left out.
///
/// # Errors
/// Returns the errors of reading.
pub fn below(path: &Path, out: &mut Vec<Example>) -> std::io::Result<()> {
    if !path.is_dir() {
        let ending = path.extension().and_then(|e| e.to_str());
        let Some(reader) = ending.and_then(Reader::of) else { return Ok(()) };
        let bytes = std::fs::read(path)?;
        if bytes.len() <= MAX_BYTES {
            out.push(Example { reader, name: path.display().to_string(), bytes });
        }
        return Ok(());
    }
    let mut entries = std::fs::read_dir(path)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // A symbolic link may lead back to a parent.
        if !hidden && !entry.file_type()?.is_symlink() {
            below(&entry.path(), out)?;
        }
    }
    Ok(())
}

/// What the readers need of this process.
pub const WITH: With = With { replay, clock };

/// Reads a file as `kbc dev replay` and `kbc opt` do.
fn replay(text: &str) {
    let _ = (crash::bundle(text), crash::command_in_module(text));
}

/// Processor time of this thread.
#[cfg(target_os = "linux")]
fn clock() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[allow(unsafe_code, reason = "the clock of a thread has no safe entry")]
    // SAFETY: the structure is valid, and the call writes to nothing else.
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
    }
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Time since the first call, where the system has no clock of a thread.
#[cfg(not(target_os = "linux"))]
fn clock() -> Duration {
    static BEGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGIN.get_or_init(std::time::Instant::now).elapsed()
}
