//! `kbc dev fuzz`: runs random programs and schedules on both engines.

use crate::checkout;
use crate::cli::{
    Fuzz, FuzzBounds, FuzzChecker, FuzzEmitted, FuzzEngines, FuzzRange, FuzzSchedules, FuzzWhat,
};
use crate::outdir;
use crate::session::{Outcome, Session};
use crate::standin::Standin;
use kbc_audit::fuzz::bounds::Tally;
use kbc_audit::fuzz::catalogue::Catalogue;
use kbc_audit::fuzz::emitted::EmittedRunner;
use kbc_audit::fuzz::generate::{Aim, program};
use kbc_audit::fuzz::{self, Difference, Summary, Trial};
use kbc_compiler::load::load_kir;
use kbc_diag::Diagnostic;
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Number of programs between two progress messages.
const STEP: u64 = 5000;

/// Runs them and prints the counts.
///
/// # Errors
/// Returns E993 if the engines differ, E990 if a bound is wrong, and the errors of reading and
/// writing files.
pub fn run(session: &mut Session, args: &Fuzz) -> Outcome {
    let out = match &args.what {
        FuzzWhat::Engines(a) => &a.range.output,
        FuzzWhat::Emitted(a) => &a.range.output,
        FuzzWhat::Schedules(a) => &a.range.output,
        FuzzWhat::Checker(a) => &a.output,
        FuzzWhat::Bounds(a) => &a.range.output,
        FuzzWhat::Readers(a) => &a.output,
    };
    outdir::folder(Path::new(out))?;
    match &args.what {
        FuzzWhat::Engines(args) => engines(session, args),
        FuzzWhat::Emitted(args) => emitted(session, args),
        FuzzWhat::Schedules(args) => schedules(session, args),
        FuzzWhat::Checker(args) => checker(session, args),
        FuzzWhat::Readers(args) => super::fuzz_readers::run(session, args),
        FuzzWhat::Bounds(args) => bounds(session, args),
    }
}

fn numbers(range: &FuzzRange) -> Range<u64> {
    match range.only {
        Some(k) => k..k.saturating_add(1),
        None => range.first..range.first.saturating_add(range.programs),
    }
}

/// Prints progress from time to time, and each difference at once.
fn progress(session: &Session) -> impl FnMut(&Summary) {
    let (mut next, mut told) = (STEP, 0);
    move |s| {
        for d in &s.differences[told..] {
            session.print_note(&format!("number {}: {}\n{}", d.number, d.what, d.text));
        }
        told = s.differences.len();
        if s.tried >= next {
            next += STEP;
            session.print_note(&format!("{} tried, {} accepted, {told} differences\n", s.tried, s.accepted));
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
                let text = format!("{} runs, {} elements the same{end}", a.runs, a.elements);
                let json = json!({
                    "schema": 1, "command": "fuzz engines", "ok": true, "file": file,
                    "runs": a.runs, "elements": a.elements, "fault": a.fault,
                });
                Ok(session.answer(&text, &json)?)
            }
            Trial::Differs(what) => Err(differs(format!("{file}: {what}"), 1).into()),
        };
    }
    if let Some(k) = range.only {
        let loaded = fuzz::library();
        session.tell(&fuzz::generate::generate(&Catalogue::new(&loaded), range.seed, k).text());
    }
    let sum = fuzz::programs(range.seed, numbers(range), &mut progress(session));
    finish(session, range, ("engines", &sum.text("programs")), &sum)
}

fn emitted(session: &mut Session, args: &FuzzEmitted) -> Outcome {
    let range = &args.range;
    let given = args.file.as_ref().map(|file| session.read(file)).transpose()?;
    let headers = match &args.standin {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(checkout::find("tests/ascend/standin")),
    };
    let temporary = std::env::temp_dir().join(format!("kbc-standin-{}", std::process::id()));
    let build = args.build.as_ref().map_or_else(|| temporary.clone(), PathBuf::from);
    let standin = Standin::new(&headers, &build)?;
    let bench = EmittedRunner {
        workspace: session,
        standin: &standin,
        batch: args.batch,
        keep: args.build.is_some(),
    };
    let done = match (&given, &args.file) {
        (Some((_, text)), Some(file)) => bench
            .one(text, range.seed, range.only.unwrap_or(range.first))
            .map(Err)
            .map_err(|e| format!("{file}: {e}")),
        _ => {
            if let Some(k) = range.only {
                let loaded = fuzz::library();
                session.tell(&program(&Catalogue::new(&loaded), Aim::Emission, range.seed, k).text());
            }
            Ok(Ok(bench.programs(range.seed, numbers(range), &mut progress(session))))
        }
    };
    if args.build.is_none() {
        // Files that cannot be removed remain in the folder for temporary files.
        let _ = std::fs::remove_dir_all(temporary);
    }
    match done {
        Ok(Ok(sum)) => finish(session, range, ("emitted", &sum.text()), &sum.engines),
        Ok(Err(c)) => {
            let all = c.exact + c.near;
            let text = format!("{all} elements compared, {} of them bit for bit", c.exact);
            let json = json!({
                "schema": 1, "command": "fuzz emitted", "ok": true, "file": args.file,
                "elements": all, "exact": c.exact,
            });
            Ok(session.answer(&text, &json)?)
        }
        Err(what) => Err(differs(what, 1).into()),
    }
}

fn schedules(session: &mut Session, args: &FuzzSchedules) -> Outcome {
    let mut given = vec![];
    for file in &args.files {
        let (_, module) = load_kir(session, file)?;
        given.extend(module.schedule().cloned());
    }
    let sum =
        fuzz::schedules::schedules(&given, args.range.seed, numbers(&args.range), &mut progress(session));
    finish(session, &args.range, ("schedules", &sum.text("schedules")), &sum)
}

/// Largest number of files that are written.
const FILES: usize = 100;

fn checker(session: &mut Session, args: &FuzzChecker) -> Outcome {
    let mut given = vec![];
    for file in &args.files {
        let (_, module) = load_kir(session, file)?;
        given.extend(module.schedule().cloned());
    }
    let numbers = match args.only {
        Some(k) => k..k.saturating_add(1),
        None => args.first..args.first.saturating_add(args.schedules),
    };
    let settings = fuzz::checker::FuzzSettings {
        seed: args.seed,
        jobs: args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get())),
        events: args.events,
    };
    let (mut next, mut told) = (STEP, 0);
    let sum = fuzz::checker::checker(&given, numbers, &settings, &mut |s| {
        for t in &s.escaped[told..] {
            session.print_note(&format!("number {} escaped\n", t.number));
        }
        told = s.escaped.len();
        if s.tried >= next {
            next += STEP;
            session.print_note(&format!("{} tried, {told} escaped\n", s.tried));
        }
    });
    let numbers = |list: &[fuzz::checker::ScheduleTrial]| list.iter().map(|t| t.number).collect::<Vec<_>>();
    let json = json!({
        "schema": 1,
        "command": "fuzz checker",
        "ok": sum.ok(),
        "tried": sum.tried,
        "mutants": sum.mutants,
        "unchanged": sum.unchanged,
        "stands": sum.stands,
        "refused": sum.refused,
        "too_long": sum.too_long,
        "escaped": numbers(&sum.escaped),
        "alarms": numbers(&sum.alarms),
        "unexplained": numbers(&sum.unexplained),
    });
    session.answer(sum.text().trim_end(), &json)?;
    for t in sum.escaped.iter().chain(&sum.alarms).chain(&sum.unexplained).take(FILES) {
        let path = Path::new(&args.output).join(format!("kbc-fuzz-{}-{}.kir", args.seed, t.number));
        let text = fuzz::checker::reproducer(t, args.seed);
        outdir::write_file(&path, text.as_bytes())?;
        session.tell(text.trim_end());
    }
    if sum.ok() {
        return Ok(());
    }
    let d = Diagnostic::error(
        "E994",
        format!(
            "{} wrong schedules pass the checker, {} correct ones are rejected, {} are rejected without a reason",
            sum.escaped.len(),
            sum.alarms.len(),
            sum.unexplained.len()
        ),
    );
    Err(crate::session::Failure::Program(d.into()))
}

fn bounds(session: &mut Session, args: &FuzzBounds) -> Outcome {
    let range = &args.range;
    let mut tally = Tally::default();
    match &args.file {
        Some(file) => {
            let (_, text) = session.read(file)?;
            let loaded = fuzz::library();
            let number = range.only.unwrap_or(range.first);
            fuzz::bounds::given(&Catalogue::new(&loaded), &text, range.seed, number, &mut tally);
        }
        None => {
            if let Some(k) = range.only {
                let loaded = fuzz::library();
                session.tell(&fuzz::bounds::text(&Catalogue::new(&loaded), range.seed, k));
            }
            let mut next = STEP;
            tally = fuzz::bounds::programs(range.seed, numbers(range), &mut |t| {
                if t.tried >= next {
                    next += STEP;
                    session.print_note(&format!("{} tried, {} wrong\n", t.tried, t.wrong.len()));
                }
            });
        }
    }
    let wrong = tally.wrong.iter().map(|w| json!({ "number": w.0, "what": w.2 })).collect::<Vec<_>>();
    let json = json!({
        "schema": 1,
        "command": "fuzz bounds",
        "ok": wrong.is_empty(),
        "tried": tally.tried,
        "accepted": tally.accepted,
        "timed": tally.timed,
        "overlapped": tally.overlapped,
        "rows": tally.rows,
        "closest": tally.closest,
        "wrong": wrong,
    });
    session.answer(&tally.text(), &json)?;
    for (number, text, what) in &tally.wrong {
        let name = format!("kbc-fuzz-{}-{number}.kb", range.seed);
        let replay = format!("kbc dev fuzz bounds {name} --seed {} --only {number}", range.seed);
        // The machine comes first.
        let file = format!("{text}// {replay}\n// {}\n", what.replace('\n', " "));
        outdir::write_file(&Path::new(&range.output).join(name), file.as_bytes())?;
        session.tell(&format!("number {number}: {what}\n{text}"));
    }
    match tally.wrong.first() {
        None => Ok(()),
        Some((number, _, what)) => {
            let title = format!("number {number} of seed {}: {what}", range.seed);
            let d = Diagnostic::error("E990", title)
                .note(format!("{} wrong in total", tally.wrong.len()))
                .help("this is an error of kbc: please report it with the written file");
            Err(d.into())
        }
    }
}

/// Prints the counts, and writes a file for each difference.
fn finish(session: &Session, range: &FuzzRange, (mode, text): (&str, &str), sum: &Summary) -> Outcome {
    let refused: BTreeMap<&str, u64> = sum.refused.iter().map(|(code, r)| (*code, r.0)).collect();
    let differences: Vec<_> = sum
        .differences
        .iter()
        .map(|d| json!({ "number": d.number, "what": d.what, "text": d.text }))
        .collect();
    let json = json!({
        "schema": 1,
        "command": format!("fuzz {mode}"),
        "ok": differences.is_empty(),
        "tried": sum.tried,
        "accepted": sum.accepted,
        "refused": refused,
        "runs": sum.runs,
        "elements": sum.elements,
        "differences": differences,
    });
    session.answer(text, &json)?;
    for d in &sum.differences {
        let path = Path::new(&range.output).join(name(range.seed, d));
        outdir::write_file(&path, reproducer(mode, range.seed, d).as_bytes())?;
        session.tell(&format!("number {}: {}\n{}", d.number, d.what, d.text));
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

fn reproducer(mode: &str, seed: u64, d: &Difference) -> String {
    let comment = if d.kir { ";" } else { "//" };
    let replay = if d.kir {
        format!("kbc dev fuzz schedules .. --seed {seed} --only {}", d.number)
    } else {
        format!("kbc dev fuzz {mode} {} --seed {seed} --only {}", name(seed, d), d.number)
    };
    format!("{comment} {replay}\n{comment} {}\n{}", d.what.replace('\n', " "), d.text)
}

fn differs(title: String, count: usize) -> Diagnostic {
    let d = Diagnostic::error("E993", format!("two engines differ: {title}"))
        .help("the interpreter defines the correct result; this is a bug of kbc, please report it with the written file");
    if count > 1 { d.note(format!("{count} differences in total")) } else { d }
}
