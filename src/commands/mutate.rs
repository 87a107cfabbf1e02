//! `kbc mutate`: measures the error rate of the checker.

use crate::analyse;
use crate::build::build;
use crate::cli::{Mutate, ReportFormat, Selection, Source};
use crate::fuzz::rng::Rng;
use crate::mutate::report::{human, report, text};
use crate::mutate::subjects::{Subject, Subjects, algorithms, ids};
use crate::mutate::{Outcome, Settings, measure};
use crate::session::{Failure, Outcome as Done, Session};
use kbc_compiler::load::{everything, load_file, load_kir};
use kbc_compiler::watch::Unwatched;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_frontend::ast::Item;
use kbc_frontend::load::Loaded;
use kbc_rounds::AlgId;
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
        let loaded = everything(session, &[])?;
        let ids = wanted(&loaded, ids(&loaded, None), args);
        all = algorithms(session, &loaded, &ids, &ranks);
    }
    for file in &args.files {
        let more = of_file(session, file, &ranks, args)?;
        all.subjects.extend(more.subjects);
        all.left_out.extend(more.left_out);
    }
    let Subjects { subjects, left_out } = all;
    if subjects.is_empty() {
        return Err(Diagnostic::error("E416", "there is no schedule to mutate")
            .help("give files with algorithms or programs that are defined for these numbers of ranks")
            .into());
    }
    let settings = Settings {
        room: session.room(),
        seed: args.seed,
        limit: (!args.all).then_some(args.limit),
        jobs: args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get())),
        events: args.events,
        runs: args.runs,
    };
    session.progress(&format!("{} schedules", subjects.len()));
    let found = measure(&subjects, &settings);
    let r = report(&subjects, left_out, &found, &settings);
    match args.report {
        ReportFormat::Human => session.result(human(&r).trim_end()),
        ReportFormat::Json => {
            let json = serde_json::to_string(&r)
                .map_err(|e| Diagnostic::error("E991", format!("a report without a form: {e}")))?;
            session.result(&json);
        }
    }
    if let (Some(n), ReportFormat::Human) = (args.equivalent, args.report) {
        let equal = |r: &&crate::mutate::Row| matches!(r.outcome, Outcome::Equivalent(_));
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

/// Returns the algorithms that `--algorithm` names, or all.
fn wanted(loaded: &Loaded, ids: Vec<AlgId>, args: &Mutate) -> Vec<AlgId> {
    let named = |id: &AlgId| {
        let decl = loaded.library.algorithm(*id);
        let full = format!("{}.{}", decl.coll.node, decl.name.node);
        args.algorithm.as_ref().is_none_or(|n| *n == decl.name.node || *n == full)
    };
    ids.into_iter().filter(named).collect()
}

fn one(file: &str, module: kbc_ir::Module) -> Subjects {
    let subject = Subject { algorithm: file.to_owned(), name: file.to_owned(), module };
    Subjects { subjects: vec![subject], left_out: vec![] }
}

fn of_file(session: &mut Session, file: &str, ranks: &RangeInclusive<u64>, args: &Mutate) -> Done<Subjects> {
    if file.ends_with(".kir") {
        let (_, module) = load_kir(session, file)?;
        let Some(schedule) = module.schedule() else {
            return Err(Diagnostic::error("E416", format!("expected a schedule, and {file} is a graph"))
                .help("lower it with `kbc opt` first")
                .into());
        };
        // Mutants of a schedule that is already wrong show nothing.
        analyse::verify(session, schedule)?;
        return Ok(one(file, module));
    }
    let loaded = load_file(session, file)?;
    let root = loaded.root.unwrap_or_default();
    let program = |i: &Item| matches!(i, Item::Program(_) | Item::Local(_));
    if loaded.file(root).is_some_and(|f| f.tree().items.iter().any(program)) {
        let source = Source { file: file.to_owned(), of: Selection::default(), post: None };
        let module = build(session, &source.plain(), "default", &mut Unwatched)?.module;
        return Ok(one(file, module));
    }
    let ids = wanted(&loaded, ids(&loaded, Some(root)), args);
    Ok(algorithms(session, &loaded, &ids, ranks))
}

/// Parses `2..9`, which includes both ends, or one number.
fn ranks(text: &str) -> Result<RangeInclusive<u64>, Diagnostic> {
    let (lo, hi) = text.split_once("..").unwrap_or((text, text));
    match (lo.trim().parse::<u64>(), hi.trim().parse::<u64>()) {
        (Ok(lo), Ok(hi)) if 1 < lo && lo <= hi && hi <= MOST_RANKS => Ok(lo..=hi),
        _ => Err(Diagnostic::error("E413", format!("--ranks {text} is not a valid range of ranks"))
            .help(format!("write --ranks 2..9, with at least 2 and at most {MOST_RANKS} ranks"))),
    }
}

/// Number of ranks above which there would be too many orders.
const MOST_RANKS: u64 = 32;
