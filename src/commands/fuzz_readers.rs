//! `kbc fuzz readers`: damaged files for everything that reads one.

use crate::cli::FuzzReaders;
use crate::fuzz::readers::examples::{below, built_in};
use crate::fuzz::readers::{Failure as Found, Summary, file, run as read};
use crate::outdir;
use crate::session::{Outcome, Session, words};
use kbc_diag::Diagnostic;
use std::path::Path;

/// Files between two words about progress.
const STEP: u64 = 5000;

/// Damages, reads and prints the counts.
///
/// # Errors
/// E993: a reader fails. Of reading the examples, or of writing what is not read as it should be.
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
            return Err(Diagnostic::error("E416", format!("{path} has no file that kbc reads"))
                .help("name files, or folders with files, whose endings kbc knows")
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
        session.result(&format!("number {k}: {} of {example}, {} bytes", reader.ending(), bytes.len()));
        if !reader.is_binary() {
            session.artefact(&String::from_utf8_lossy(&bytes));
        }
    }
    let mut next = STEP;
    let mut told = 0;
    let sum = read(&examples, args.seed, numbers, &mut |s: &Summary| {
        for f in &s.failures[told..] {
            session.words(&line(f));
        }
        told = s.failures.len();
        let tried: u64 = s.tried.values().sum();
        if tried >= next {
            next += STEP;
            session.words(&format!("{tried} files, {told} are not read as they should be\n"));
        }
    });
    let counts: Vec<String> = sum.tried.iter().map(|(r, n)| format!("{n} {r:?}").to_lowercase()).collect();
    let tried: u64 = sum.tried.values().sum();
    session.result(&format!(
        "{tried} files: {}; {} are not read as they should be",
        counts.join(", "),
        sum.failures.len()
    ));
    for f in &sum.failures {
        let name = format!("kbc-fuzz-{}-{}.{}", args.seed, f.number, f.reader.ending());
        outdir::write_file(&Path::new(&args.out).join(name), &f.bytes)?;
    }
    match sum.failures.first() {
        None => Ok(()),
        Some(f) => {
            let title = format!("a reader fails: {}", line(f).trim_end());
            let d =
                Diagnostic::error("E993", title).help("a bug of kbc, please report it with the file written");
            Err(d.note(format!("{} failures in all", sum.failures.len())).into())
        }
    }
}

/// A failure in words.
fn line(f: &Found) -> String {
    format!("number {} ({} of {}): {}\n", f.number, f.reader.ending(), f.example, f.what)
}
