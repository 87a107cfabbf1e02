//! `kbc fuzz`: random programs and schedules on both engines.

use super::load_kir;
use crate::cli::{Fuzz, FuzzEngines, FuzzRange, FuzzSchedules, FuzzWhat};
use crate::fuzz::catalogue::Catalogue;
use crate::fuzz::{self, Difference, Summary, Trial};
use crate::outdir;
use crate::session::{Outcome, Session};
use kbc_diag::Diagnostic;
use std::ops::Range;
use std::path::Path;

/// Programs between two words about progress.
const STEP: u64 = 5000;

/// Runs them and prints the counts.
///
/// # Errors
/// E993: the engines differ. Of reading files, or of writing what differs.
pub fn run(session: &mut Session, args: &Fuzz) -> Outcome {
    match &args.what {
        FuzzWhat::Engines(args) => engines(session, args),
        FuzzWhat::Schedules(args) => schedules(session, args),
    }
}

fn numbers(range: &FuzzRange) -> Range<u64> {
    match range.only {
        Some(k) => k..k.saturating_add(1),
        None => range.first..range.first.saturating_add(range.programs),
    }
}

/// Says from time to time how far it is, and of each difference at once.
fn progress(session: &Session) -> impl FnMut(&Summary) {
    let (mut next, mut told) = (STEP, 0);
    move |s| {
        for d in &s.differences[told..] {
            session.words(&format!("number {}: {}\n{}", d.number, d.what, d.text));
        }
        told = s.differences.len();
        if s.tried >= next {
            next += STEP;
            session.words(&format!("{} tried, {} accepted, {told} differences\n", s.tried, s.accepted));
        }
    }
}

fn engines(session: &mut Session, args: &FuzzEngines) -> Outcome {
    let range = &args.range;
    if let Some(file) = &args.file {
        let (_, text) = session.read(file)?;
        return match fuzz::engines(&text, range.seed, range.only.unwrap_or(range.first)) {
            Trial::Refused(found) => Err(found.into()),
            Trial::Agreed(_, a) => {
                let end = a.fault.map_or(String::new(), |c| format!(", both end with {c}"));
                session.result(&format!("{} runs, {} elements the same{end}", a.runs, a.elements));
                Ok(())
            }
            Trial::Differs(what) => Err(differs(format!("{file}: {what}"), 1).into()),
        };
    }
    if let Some(k) = range.only {
        let loaded = fuzz::library();
        session.result(&fuzz::generate::generate(&Catalogue::new(&loaded), range.seed, k).text());
    }
    let sum = fuzz::programs(range.seed, numbers(range), &mut progress(session));
    finish(session, range, "programs", &sum)
}

fn schedules(session: &mut Session, args: &FuzzSchedules) -> Outcome {
    let mut given = vec![];
    for file in &args.files {
        let (_, module) = load_kir(session, file)?;
        given.extend(module.schedule().cloned());
    }
    let sum =
        fuzz::schedules::schedules(&given, args.range.seed, numbers(&args.range), &mut progress(session));
    finish(session, &args.range, "schedules", &sum)
}

/// The counts, and a file for each difference.
fn finish(session: &Session, range: &FuzzRange, what: &str, sum: &Summary) -> Outcome {
    session.result(&sum.text(what));
    for d in &sum.differences {
        let path = Path::new(&range.out).join(name(range.seed, d));
        outdir::write_file(&path, reproducer(range.seed, d).as_bytes())?;
        session.result(&format!("number {}: {}\n{}", d.number, d.what, d.text));
    }
    match sum.differences.first() {
        None => Ok(()),
        Some(d) => Err(differs(
            format!("number {} of seed {}: {}", d.number, range.seed, d.what),
            sum.differences.len(),
        )
        .into()),
    }
}

fn name(seed: u64, d: &Difference) -> String {
    format!("kbc-fuzz-{seed}-{}.{}", d.number, if d.kir { "kir" } else { "kb" })
}

fn reproducer(seed: u64, d: &Difference) -> String {
    let comment = if d.kir { ";" } else { "//" };
    let replay = if d.kir {
        format!("kbc fuzz schedules .. --seed {seed} --only {}", d.number)
    } else {
        format!("kbc fuzz engines {} --seed {seed} --only {}", name(seed, d), d.number)
    };
    format!("{comment} {replay}\n{comment} {}\n{}", d.what.replace('\n', " "), d.text)
}

fn differs(title: String, count: usize) -> Diagnostic {
    let d = Diagnostic::error("E993", format!("interpreter and machine code differ: {title}"))
        .help("the interpreter defines what is right: a bug of kbc, please report it with the file written");
    if count > 1 { d.note(format!("{count} differences in all")) } else { d }
}
