//! `kbc explain select`: why each collective has its algorithm.
//!
//! For every candidate, the table shows the estimate of the cost model, the simulated time of its
//! finished schedule, and its ratio to the bound of the collective on the machine.

use crate::again::select_again;
use crate::bounds::{self, NoObserver};
use crate::build::Built;
use crate::failure::Outcome;
use crate::report::human::{bytes, count, percent, time};
use kbc_machine::bounds::Bound;
use kbc_passes::cost::{Method, Price, exact_ranks};
use kbc_passes::select::{Selection, Verdict};
use kbc_time::TimeOptions;

/// Returns the table of every collective of a program.
///
/// # Errors
/// Returns the errors of estimating and simulating the candidates, and of timing the program.
pub fn text(built: &Built) -> Outcome<String> {
    // Simulating all candidates on thousands of ranks would take too long.
    let most = exact_ranks(&built.topology);
    let small = built.module.mesh.axes.iter().all(|a| a.size <= most);
    let by = if small { "time" } else { "model" };
    let all = select_again(built, &format!("by={by},explain=true"))?;
    let options = TimeOptions { path: false, ..TimeOptions::default() };
    let bounds = match built.module.schedule() {
        Some(schedule) => {
            bounds::timed(built.subject(schedule), &built.topology, &options, &mut NoObserver)?.1.collectives
        }
        None => vec![],
    };
    let mut out = String::new();
    for (i, (all, taken)) in all.entries.iter().zip(&built.select.entries).enumerate() {
        let bound = bounds.iter().find(|b| b.place == i).map(|b| &b.bound);
        out += &one(all, taken, bound);
        let launch = built.topology.settings().launch_ns();
        if small && launch > 0.0 {
            out += &format!("  simulated times include the launch of {}; the model does not\n", time(launch));
        }
        if !small {
            out += &format!("  more than {most} ranks: estimated by the model, not simulated\n");
        }
    }
    Ok(if out.is_empty() { "no collective\n".into() } else { out })
}

/// Returns the time that is used for an algorithm.
fn taken_as(p: &Price) -> f64 {
    p.simulated.unwrap_or(p.ns)
}

/// Returns the reason for the choice: against the next best, or against the best if another one was
/// requested.
fn why(all: &Selection, taken: &Selection) -> String {
    if taken.requested {
        let own = all.candidates.iter().find(|c| c.algorithm == taken.chosen);
        let best = all.candidates.first();
        return match (own.map(|c| &c.verdict), best.map(|c| (&c.algorithm, &c.verdict))) {
            (Some(Verdict::Priced(own)), Some((name, Verdict::Priced(best))))
                if taken_as(own) > taken_as(best) * 1.000_001 =>
            {
                let slower = 100.0 * (taken_as(own) / taken_as(best) - 1.0);
                format!("requested by the program; {name} is faster, this takes {slower:.1} % longer")
            }
            _ => "requested by the program".to_owned(),
        };
    }
    let simulated = taken
        .candidates
        .iter()
        .filter(|c| matches!(&c.verdict, Verdict::Priced(p) if p.simulated.is_some()))
        .count();
    let how = match simulated {
        0 => "the cheapest by the cost model".to_owned(),
        n => format!("the fastest of {n} that the cost model finds close, simulated"),
    };
    if taken.transfers.is_some() {
        let priced = taken.candidates.iter().filter(|c| matches!(c.verdict, Verdict::Priced(_))).count();
        return format!("the fastest of {priced}, simulated pushed and pulled");
    }
    let next = all.candidates.iter().filter(|c| c.algorithm != taken.chosen).find_map(|c| match &c.verdict {
        Verdict::Priced(p) => Some((&c.algorithm, taken_as(p))),
        _ => None,
    });
    let own = all.candidates.iter().find_map(|c| match &c.verdict {
        Verdict::Priced(p) if c.algorithm == taken.chosen => Some(taken_as(p)),
        _ => None,
    });
    match (own, next) {
        (Some(own), Some((name, ns))) if own > 0.0 => {
            format!("{how}; next is {name}, {:+.1} %", 100.0 * (ns / own - 1.0))
        }
        _ => how,
    }
}

fn one(all: &Selection, taken: &Selection, bound: Option<&Bound>) -> String {
    let mut out = format!(
        "{} of {} over {} ({}), %{}: {}\n  {}\n",
        all.kind,
        bytes(all.bytes),
        all.axis,
        count(all.ranks, "rank"),
        all.value,
        taken.chosen,
        why(all, taken)
    );
    if let Some(t) = &taken.transfers {
        let way = if t.pulls() { "fetched by the receivers" } else { "written by the senders" };
        out += &format!("  {way}: push takes {}, pull takes {}\n", time(t.push), time(t.pull));
    }
    if let Some(b) = bound {
        out += &format!("  lower bound {}: {}\n", time(b.ns), b.bottleneck);
    }
    let width = all.candidates.iter().map(|c| c.algorithm.len()).max().unwrap_or(0).max(9);
    out += &format!(
        "  {:<width$} {:>12} {:>12} {:>9} {:>7} {:>14}\n",
        "algorithm", "model", "simulated", "of bound", "rounds", "sent per rank"
    );
    for c in &all.candidates {
        let words = match &c.verdict {
            Verdict::Priced(p) => {
                let simulated = p.simulated.map_or_else(|| "-".into(), time);
                let of = bound.map(|b| b.ns).filter(|b| *b > 0.0).map(|b| 100.0 * b / taken_as(p));
                let note = match &p.method {
                    Method::Rounds => String::new(),
                    Method::SomeGroups(some, all) => format!("  model of {some} of {all} groups"),
                    Method::Extrapolated(sizes) => {
                        format!("  model extrapolated from {}, {} and {} ranks", sizes[0], sizes[1], sizes[2])
                    }
                };
                format!(
                    "{:>12} {simulated:>12} {:>9} {:>7} {:>14}{note}",
                    time(p.ns),
                    percent(of),
                    p.rounds,
                    bytes(p.sent)
                )
            }
            Verdict::Unpriced => "legal".to_owned(),
            Verdict::Rejected(why) => format!("   not possible: {why}"),
        };
        out += &format!("  {:<width$} {words}\n", c.algorithm.as_str());
    }
    out
}
