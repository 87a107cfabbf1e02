//! `kbc bench`: measurements of kbc itself; `kbc bench ccl` is [`super::ccl`].

use crate::cli::{Bench, BenchSelect, BenchWhat, ReportFormat};
use crate::report::human::{bytes, time};
use crate::selection::{Choice, compare, point};
use crate::session::{Failure, Outcome, Session};
use kbc_diag::{Diagnostic, Diagnostics};
use serde::Serialize;
use std::collections::BTreeMap;

/// Measures and prints.
///
/// # Errors
/// Returns E996 if a choice is more than 5 % slower than the best, and the errors of
/// [`super::ccl`].
pub fn run(session: &mut Session, args: &Bench) -> Outcome {
    match &args.what {
        BenchWhat::Select(args) => select(session, args),
        BenchWhat::Ccl(args) => super::ccl::run(session, args),
    }
}

/// Allowed ratio of the time of a choice to that of the best algorithm.
const ALLOWED: f64 = 1.05;

/// The report, as JSON.
#[derive(Serialize)]
struct Found {
    seed: u64,
    points: usize,
    /// Points at which the choice is within 5 % of the best.
    within: usize,
    /// The same for the cost model alone.
    model_within: usize,
    /// Largest ratio of a choice to the best.
    worst: f64,
    choices: Vec<Choice>,
}

fn select(session: &mut Session, args: &BenchSelect) -> Outcome {
    let mut choices = vec![];
    for k in args.first..args.first.saturating_add(args.points) {
        let p = point(args.seed, k);
        session.progress(&format!("{k}: {} on {}", p.collective, p.shape));
        choices.push(compare(&p)?);
    }
    let within = |ratio: fn(&Choice) -> f64| choices.iter().filter(|c| ratio(c) <= ALLOWED).count();
    let found = Found {
        seed: args.seed,
        points: choices.len(),
        within: within(Choice::ratio),
        model_within: within(Choice::model_ratio),
        worst: choices.iter().map(Choice::ratio).fold(1.0, f64::max),
        choices,
    };
    match args.report {
        ReportFormat::Human => session.result(human(&found).trim_end()),
        ReportFormat::Json => {
            let json = serde_json::to_string(&found)
                .map_err(|e| Diagnostic::error("E991", format!("a report without a form: {e}")))?;
            session.result(&json);
        }
    }
    if found.within == found.points {
        return Ok(());
    }
    let what = format!("{} choices are more than 5 % slower than the best", found.points - found.within);
    Err(Failure::Program(Diagnostics::from(Diagnostic::error("E996", what))))
}

fn human(found: &Found) -> String {
    let mut out = format!("seed {}, {} points\n", found.seed, found.points);
    let mut rows: BTreeMap<&str, Vec<&Choice>> = BTreeMap::new();
    for c in &found.choices {
        rows.entry(&c.point.collective).or_default().push(c);
    }
    out += "collective       points  within 5 %   worst  model alone  fastest, and how often\n";
    for (name, list) in rows {
        let within = list.iter().filter(|c| c.ratio() <= ALLOWED).count();
        let worst = list.iter().map(|c| c.ratio()).fold(1.0, f64::max);
        let model = list.iter().map(|c| c.model_ratio()).fold(1.0, f64::max);
        let mut best: BTreeMap<&str, usize> = BTreeMap::new();
        list.iter().for_each(|c| *best.entry(&c.best.0).or_default() += 1);
        let mut best: Vec<(&str, usize)> = best.into_iter().collect();
        best.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), *name));
        let best: Vec<String> = best.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let points = list.len();
        out +=
            &format!("{name:<16} {points:>6} {within:>11} {worst:>7.3} {model:>12.3}  {}\n", best.join(", "));
    }
    for c in found.choices.iter().filter(|c| c.ratio() > ALLOWED) {
        let p = &c.point;
        out += &format!(
            "{} of {} on {}: {} takes {}, {} {}: {:.3}\n",
            p.collective,
            bytes(p.elements * 4),
            p.machine.trim_end().replace('\n', "; "),
            c.chosen.0,
            time(c.chosen.1),
            c.best.0,
            time(c.best.1),
            c.ratio()
        );
    }
    out += &format!(
        "within 5 % of the best: {} of {}; by the cost model alone: {} of {}\n",
        found.within, found.points, found.model_within, found.points
    );
    out
}
