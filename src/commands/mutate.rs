//! `kbc dev mutate`: measures the error rate of the checker.

use crate::cli::Mutate;
use crate::session::{Failure, Outcome as Done, Session};
use kbc_audit::fuzz::rng::Rng;
use kbc_audit::mutate::report::{human, report, text};
use kbc_audit::mutate::subjects::{Subjects, of_file, of_library};
use kbc_audit::mutate::{MutantOutcome, MutantRow, MutateSettings, measure};
use kbc_compiler::algorithm_request;
use kbc_diag::{Diagnostic, Diagnostics};

/// Measures and prints.
///
/// # Errors
/// Returns the errors of reading and compiling files, and E994 if a wrong mutant passes or a
/// correct schedule is rejected.
pub fn run(session: &mut Session, args: &Mutate) -> Done {
    let ranks = ranks(&args.ranks)?;
    let asked =
        args.algorithm.as_ref().map(|a| algorithm_request::read(session, "--algorithm", a)).transpose()?;
    let mut all = Subjects::default();
    if args.files.is_empty() {
        all = of_library(session, asked.as_ref(), &ranks)?;
    }
    for file in &args.files {
        let more = of_file(session, file, asked.as_ref(), &ranks)?;
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

/// Returns the numbers of ranks, of which there must be at least 2 and not too many.
fn ranks(text: &str) -> Result<Vec<u64>, Diagnostic> {
    let list: Vec<u64> =
        algorithm_request::ranks("--ranks ", text)?.into_iter().filter_map(|p| p.try_into().ok()).collect();
    match list.iter().find(|p| !(2..=MAX_RANKS).contains(*p)) {
        None => Ok(list),
        Some(p) => {
            Err(Diagnostic::error("E413", format!("--ranks {text}: {p} is not a number of ranks here"))
                .help(format!("write --ranks 2..9, with at least 2 and at most {MAX_RANKS} ranks")))
        }
    }
}

/// Number of ranks above which there would be too many orders.
const MAX_RANKS: u64 = 32;
