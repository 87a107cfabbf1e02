//! `kbc dev mutate`: measures the error rate of the checker.

use crate::cli::Mutate;
use crate::session::{Failure, Outcome as Done, Session};
use kbc_audit::fuzz::rng::Rng;
use kbc_audit::mutate::report::{human, report, text};
use kbc_audit::mutate::subjects::{Subjects, of_file, of_library};
use kbc_audit::mutate::{MutantOutcome, MutantRow, MutateSettings, measure};
use kbc_diag::{Diagnostic, Diagnostics};
use std::ops::RangeInclusive;

/// Measures and prints.
///
/// # Errors
/// Returns the errors of reading and compiling files, and E994 if a wrong mutant passes or a
/// correct schedule is rejected.
pub fn run(session: &mut Session, args: &Mutate) -> Done {
    let ranks = ranks(&args.ranks)?;
    let mut all = Subjects::default();
    if args.files.is_empty() {
        all = of_library(session, args.algorithm.as_deref(), &ranks)?;
    }
    for file in &args.files {
        let more = of_file(session, file, args.algorithm.as_deref(), &ranks)?;
        all.subjects.extend(more.subjects);
        all.left_out.extend(more.left_out);
    }
    let Subjects { subjects, left_out } = all;
    if subjects.is_empty() {
        return Err(Diagnostic::error("E416", "there is no schedule to mutate")
            .help("give files with algorithms or programs that are defined for these numbers of ranks")
            .into());
    }
    let settings = MutateSettings {
        memory_budget: session.memory_budget(),
        seed: args.seed,
        limit: (!args.all).then_some(args.limit),
        jobs: args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get())),
        events: args.events,
        runs: args.runs,
    };
    session.progress(&format!("{} schedules", subjects.len()));
    let found = measure(&subjects, &settings);
    let r = report(&subjects, left_out, &found, &settings);
    session.answer(human(&r).trim_end(), &r)?;
    if let (Some(n), false) = (args.equivalent, session.is_json()) {
        let equal = |r: &&MutantRow| matches!(r.outcome, MutantOutcome::Equivalent(_));
        let mut list: Vec<_> = found.rows.iter().filter(equal).collect();
        let mut rng = Rng::new(&[args.seed, 3]);
        for _ in 0..n {
            if list.is_empty() {
                break;
            }
            let r = list.swap_remove(rng.below(list.len()));
            let head = format!("; equivalent: {}: {}", subjects[r.subject].name, r.text);
            session.result(&format!("{head}\n{}", text(&subjects, &found, r)));
        }
    }
    if r.ok {
        return Ok(());
    }
    let what = format!(
        "{} wrong mutants pass the checker, {} correct schedules are rejected",
        r.escaped_list.len(),
        r.false_alarms
    );
    Err(Failure::Program(Diagnostics::from(Diagnostic::error("E994", what))))
}

/// Parses `2..9`, which includes both ends, or one number.
fn ranks(text: &str) -> Result<RangeInclusive<u64>, Diagnostic> {
    let (lo, hi) = text.split_once("..").unwrap_or((text, text));
    match (lo.trim().parse::<u64>(), hi.trim().parse::<u64>()) {
        (Ok(lo), Ok(hi)) if 1 < lo && lo <= hi && hi <= MAX_RANKS => Ok(lo..=hi),
        _ => Err(Diagnostic::error("E413", format!("--ranks {text} is not a valid range of ranks"))
            .help(format!("write --ranks 2..9, with at least 2 and at most {MAX_RANKS} ranks"))),
    }
}

/// Number of ranks above which there would be too many orders.
const MAX_RANKS: u64 = 32;
