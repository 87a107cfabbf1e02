//! `kbc explain select`: why each collective has its algorithm.
//!
//! For every candidate, the table shows the estimate of the cost model, the simulated time of its
//! finished schedule, and its ratio to the bound of the collective on the machine.

use crate::again::select_again;
use crate::bounds::{self, NoObserver};
use crate::build::Built;
use crate::failure::Outcome;
use crate::report::amounts::{bytes, count, percent, time};
use kbc_machine::bounds::{Bound, algbw};
use kbc_passes::cost::{Method, Price, exact_ranks};
use kbc_passes::findings::select::{Candidate, Fetching, Selection, Verdict};
use kbc_time::TimeOptions;
use serde_json::{Value, json};

/// Every collective of a program with its candidates.
pub struct Candidates {
    rows: Vec<Row>,
    /// Number of ranks up to which candidates are simulated.
    most: u64,
    /// Whether they were.
    simulated: bool,
    /// Time of a launch, in ns.
    launch_ns: f64,
}

/// A collective with its candidates.
struct Row {
    /// All of them, estimated and simulated.
    all: Selection,
    /// What was taken.
    taken: Selection,
    bound: Option<Bound>,
    certified: Option<CertifiedRate>,
}

/// The best rate that is known to be attainable.
struct CertifiedRate {
    /// Time at this rate, but not less than the bound, in ns.
    ns: f64,
    /// The rate in GB/s, by the convention of the collective.
    rate: f64,
}

/// Estimates and simulates the candidates of every collective of a program.
///
/// # Errors
/// Returns the errors of estimating and simulating the candidates, and of timing the program.
pub fn candidates(built: &Built) -> Outcome<Candidates> {
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
    let certified = |b: &bounds::Collective| {
        // Nothing moves where it takes no time, so there is no rate.
        let ns = bounds::certified_ns(&built.topology, &b.problem).filter(|ns| *ns > 0.0)?;
        let rate = algbw(b.bytes.unwrap_or(b.problem.bytes), ns);
        Some(CertifiedRate { ns: ns.max(b.bound.ns), rate })
    };
    let row = |(i, (all, taken)): (usize, (Selection, &Selection))| {
        let found = bounds.iter().find(|b| b.place == i);
        let (bound, certified) = (found.map(|b| b.bound.clone()), found.and_then(certified));
        Row { all, taken: taken.clone(), bound, certified }
    };
    Ok(Candidates {
        rows: all.entries.into_iter().zip(&built.select.entries).enumerate().map(row).collect(),
        most,
        simulated: small,
        launch_ns: built.topology.settings().launch_ns(),
    })
}

impl Candidates {
    /// Returns the table of every collective.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for row in &self.rows {
            out += &one(row);
            if self.simulated && self.launch_ns > 0.0 {
                let launch = time(self.launch_ns);
                out += &format!("  simulated times include the launch of {launch}; the model does not\n");
            }
            if !self.simulated {
                let most = self.most;
                out += &format!("  more than {most} ranks: estimated by the model, not simulated\n");
            }
        }
        if out.is_empty() { "no collective\n".into() } else { out }
    }

    /// Returns the same as JSON.
    pub fn json(&self) -> Value {
        let all: Vec<Value> = self.rows.iter().map(one_json).collect();
        json!({ "simulated": self.simulated, "launch_ns": self.launch_ns, "collectives": all })
    }
}

fn one_json(Row { all, taken, bound, certified }: &Row) -> Value {
    let (bound, certified) = (bound.as_ref(), certified.as_ref());
    let time = taken_ns(all, taken);
    let candidate = |c: &Candidate| match &c.verdict {
        Verdict::Priced(p) => json!({
            "algorithm": c.call(),
            "verdict": "priced",
            "model_ns": p.ns,
            "simulated_ns": p.simulated,
            "rounds": p.rounds,
            "sent_bytes": p.sent,
            "model": method(&p.method),
        }),
        Verdict::Unpriced => json!({ "algorithm": c.call(), "verdict": "legal" }),
        Verdict::Pruned(why) => json!({ "algorithm": c.call(), "verdict": "pruned", "why": why }),
        Verdict::Rejected(why) => json!({ "algorithm": c.call(), "verdict": "rejected", "why": why }),
    };
    json!({
        "operation": all.kind.as_str(),
        "value": all.value.as_str(),
        "bytes": all.bytes,
        "axis": all.axis.as_str(),
        "ranks": all.ranks,
        "algorithm": taken.call(),
        "requested": taken.requested,
        "why": why(all, taken),
        "transfer": taken.transfers.map(|t| {
            let (time, taken) = match t.other {
                Fetching::Pull => ("pull_ns", "pulls"),
                Fetching::Switch => ("switch_ns", "switches"),
            };
            json!({ "push_ns": t.push, time: t.fetched, taken: t.fetches() })
        }),
        "percent": time.and_then(|ns| bound?.percent(ns)),
        "certified_ns": certified.map(|c| c.ns),
        "certified_percent": time.zip(certified).map(|(ns, c)| 100.0 * c.ns / ns),
        "search": {
            "orders": taken.search.orders,
            "tried": taken.search.tried,
            "given_up": taken.search.given_up,
            "exhausted": taken.search.exhausted,
            "skipped": skipped(taken),
            "pruned": pruned(taken),
        },
        "bound_ns": bound.map(|b| b.ns),
        "bottleneck": bound.map(|b| &b.bottleneck),
        "candidates": all.candidates.iter().map(candidate).collect::<Vec<_>>(),
    })
}

/// Returns what an estimate comes from.
fn method(m: &Method) -> Value {
    match m {
        Method::Rounds => json!({ "from": "rounds" }),
        Method::SomeGroups(some, all) => json!({ "from": "groups", "groups": some, "of": all }),
        Method::Extrapolated(ranks) => json!({ "from": "extrapolation", "ranks": ranks }),
    }
}

/// Returns the time that is used for an algorithm.
fn taken_as(p: &Price) -> f64 {
    p.simulated.unwrap_or(p.ns)
}

/// Returns the reason for the choice: against the next best, or against the best if another one was
/// requested.
fn why(all: &Selection, taken: &Selection) -> String {
    let chosen = |c: &Candidate| is_taken(c, taken);
    if taken.requested {
        let best = all.candidates.first();
        return match (taken_ns(all, taken), best.map(|c| (c.call(), &c.verdict))) {
            (Some(own), Some((name, Verdict::Priced(best)))) if own > taken_as(best) * 1.000_001 => {
                let slower = 100.0 * (own / taken_as(best) - 1.0);
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
    if let Some(transfers) = taken.transfers {
        let other = transfers.other.done();
        let priced = taken.candidates.iter().filter(|c| matches!(c.verdict, Verdict::Priced(_))).count();
        return format!("the fastest of {priced}, simulated pushed and {other}");
    }
    let next = all.candidates.iter().filter(|c| !chosen(c)).find_map(|c| match &c.verdict {
        Verdict::Priced(p) => Some((c.call(), taken_as(p))),
        _ => None,
    });
    let own = all.candidates.iter().find_map(|c| match &c.verdict {
        Verdict::Priced(p) if chosen(c) => Some(taken_as(p)),
        _ => None,
    });
    match (own, next) {
        (Some(own), Some((name, ns))) if own > 0.0 => {
            format!("{how}; next is {name}, {:+.1} %", 100.0 * (ns / own - 1.0))
        }
        _ => how,
    }
}

/// Checks whether a candidate is what was taken.
fn is_taken(c: &Candidate, taken: &Selection) -> bool {
    (&c.algorithm, &c.arguments, &c.options) == (&taken.chosen, &taken.arguments, &taken.options)
}

/// Returns the time of what was taken, in ns, if it is known.
fn taken_ns(all: &Selection, taken: &Selection) -> Option<f64> {
    if let Some(transfers) = taken.transfers.filter(|t| t.fetches()) {
        return Some(transfers.fetched);
    }
    [all, taken].into_iter().flat_map(|s| &s.candidates).find_map(|c| match &c.verdict {
        Verdict::Priced(p) if is_taken(c, taken) => Some(taken_as(p)),
        _ => None,
    })
}

/// Returns the number of candidates that were left out without an exact price.
fn pruned(taken: &Selection) -> usize {
    taken.candidates.iter().filter(|c| matches!(c.verdict, Verdict::Pruned(_))).count()
}

/// Returns why no compositions and options were tried, if none were.
fn skipped(taken: &Selection) -> Option<String> {
    let search = &taken.search;
    match &search.bound {
        _ if taken.requested => Some("the program names the algorithm".into()),
        _ if search.skipped.is_some() => search.skipped.clone(),
        Some((ns, _)) if search.tried == 0 => {
            Some(format!("no schedule takes less than {}, and a gain of 5 % is asked for", time(*ns)))
        }
        _ => None,
    }
}

/// Returns what was searched, for the table.
fn searched(taken: &Selection) -> String {
    let search = &taken.search;
    let far = match pruned(taken) {
        0 => String::new(),
        n => format!("; {} left out as too slow", count(n as u64, "candidate")),
    };
    let orders = match search.orders {
        0 => String::new(),
        n => format!("  orders of axes and other arguments of three axes: {n} tried\n"),
    };
    let compositions = match skipped(taken) {
        Some(why) => format!("  compositions and options: not tried, {why}{far}\n"),
        None => {
            let end = if search.exhausted { ", and a larger --effort would try more" } else { "" };
            let (tried, up) = (search.tried, search.given_up);
            format!(
                "  compositions and options: {tried} tried, {up} of them given up as too slow{end}{far}\n"
            )
        }
    };
    orders + &compositions
}

fn one(Row { all, taken, bound, certified }: &Row) -> String {
    let reached = taken_ns(all, taken);
    let mut out = format!(
        "{} of {} over {} ({}), %{}: {}\n  {}\n",
        all.kind,
        bytes(all.bytes),
        all.axis,
        count(all.ranks, "rank"),
        all.value,
        taken.call(),
        why(all, taken)
    );
    if let Some(t) = &taken.transfers {
        let way = match (t.fetches(), t.other) {
            (false, _) => "written by the senders",
            (true, Fetching::Pull) => "fetched by the receivers",
            (true, Fetching::Switch) => "added by switches",
        };
        let (push, fetched, word) = (time(t.push), time(t.fetched), t.other.word());
        out += &format!("  {way}: push takes {push}, {word} takes {fetched}\n");
    }
    if let Some(b) = &bound {
        out += &format!("  lower bound {}: {}\n", time(b.ns), b.bottleneck);
    }
    if let Some(of) = reached.and_then(|ns| bound.as_ref()?.percent(ns)) {
        let most = of / 100.0;
        out += &format!(
            "  reaches {of:.1} % of the bound: no schedule takes less than {most:.3} of this time\n"
        );
    }
    if let (Some(c), Some(ns)) = (certified, reached) {
        let (takes, of) = (time(c.ns), 100.0 * c.ns / ns);
        out += &format!(
            "  best certified rate {:.3} GB/s, {takes}: known trees attain it; {of:.1} % of it reached\n",
            c.rate
        );
    }
    out += &searched(taken);
    let width = all.candidates.iter().map(|c| c.call().len()).max().unwrap_or(0).max(9);
    out += &format!(
        "  {:<width$} {:>12} {:>12} {:>9} {:>7} {:>14}\n",
        "algorithm", "model", "simulated", "of bound", "rounds", "sent per rank"
    );
    for c in &all.candidates {
        let words = match &c.verdict {
            Verdict::Priced(p) => {
                let simulated = p.simulated.map_or_else(|| "-".into(), time);
                let of = bound.as_ref().map(|b| b.ns).filter(|b| *b > 0.0).map(|b| 100.0 * b / taken_as(p));
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
            Verdict::Pruned(why) => format!("   not tried: {why}"),
            Verdict::Rejected(why) => format!("   not possible: {why}"),
        };
        out += &format!("  {:<width$} {words}\n", c.call());
    }
    out
}
