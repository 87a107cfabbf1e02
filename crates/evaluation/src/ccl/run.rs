//! Run of a kernbench all-reduce: proven, executed, compared element by element, and timed.
//!
//! The module owns the line for people, the words about wrong elements and the JSON.
//! [`mod@super::prepare`] decides what is run.

use super::prepare::{CclOptions, PeSelection, PreparedBench, prepare};
use kbc_backend_sim::interp::RunOptions;
use kbc_compiler::about::{begin, inputs};
use kbc_compiler::analyse::{self, Executed};
use kbc_compiler::build::{Built, assemble};
use kbc_compiler::engine::Engine;
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::options::Data;
use kbc_compiler::report::amounts::{bytes, count, percent, time};
use kbc_compiler::report::{Report, path};
use kbc_compiler::watch::Unwatched;
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::schedule::Schedule;
use kbc_numerics::provenance::{Provenance, provenance};
use kbc_time::{RankUse, TimeOptions};
use serde::Serialize;

/// Largest number of wrong elements that are shown in total, and per rank.
const SHOWN: (usize, usize) = (8, 3);

/// Largest number of names in a list.
const NAMED: usize = 6;

/// Largest number of element additions in all runs that search the provenance of wrong elements:
/// about ten seconds.
const SEARCHED: u64 = 1 << 30;

/// What was found; it serialises to the JSON of `kbc dev bench ccl`.
#[derive(Serialize)]
pub struct CclReport {
    schema: u32,
    command: &'static str,
    /// Whether it is proven and every element is right.
    pub ok: bool,
    /// The line for people.
    line: String,
    /// Entry of the file.
    algorithm: String,
    /// The algorithm of kbc, with its arguments.
    using: String,
    world_size: u64,
    /// Where the world size comes from.
    origin: String,
    /// `sip` or `pe`.
    ranks: &'static str,
    /// Number of PEs that take part.
    pes: u64,
    n_elem: u64,
    bytes_per_pe: u64,
    bytes_per_sip: u64,
    /// Settings of the machine's queues.
    queues: String,
    /// How messages pass through links.
    forward: &'static str,
    /// Number of ranks whose elements are all correct; null if the run did not end.
    right: Option<u64>,
    /// Latency: the longest of `pe_times`; null if anything is wrong.
    crit_ns: Option<f64>,
    bound_ns: Option<f64>,
    /// Execution time of every PE that takes part; empty if anything is wrong.
    pe_times: Vec<PeTime>,
    /// The first wrong elements.
    wrong: Vec<Wrong>,
    /// Numbers of wrong elements, for each PE that has some.
    wrong_elements: Vec<WrongPe>,
    /// The report of `kbc run`.
    report: Report,
}

/// A wrong element.
#[derive(Serialize)]
struct Wrong {
    /// Whose.
    who: String,
    rank: u64,
    element: u64,
    expected: f64,
    got: f64,
    /// Missing contributors.
    missing: Vec<String>,
    /// Contributors that are counted more than once, with the count.
    repeated: Vec<(String, u64)>,
    /// All of that in words; empty if it is not known.
    why: String,
}

/// Time from the common start of all PEs to the end of this one.
#[derive(Serialize)]
struct PeTime {
    who: String,
    rank: u64,
    exec_ns: f64,
}

/// Number of wrong elements of a PE.
#[derive(Serialize)]
struct WrongPe {
    who: String,
    rank: u64,
    elements: u64,
}

/// A run that came to its end, whether its results are right or wrong.
pub struct Finished {
    /// What ran.
    pub bench: PreparedBench,
    /// What was found.
    pub found: CclReport,
    /// What the checker and the run report, and E430 where numbers are wrong; empty if all is
    /// right.
    pub errors: Diagnostics,
}

/// Runs the benchmark.
///
/// # Errors
/// Of [`prepare`] and of building.
pub fn run(workspace: &mut Workspace, options: &CclOptions) -> Outcome<Finished> {
    let bench = prepare(workspace, options)?;
    let built = assemble(workspace, &bench.source, "default", &mut Unwatched);
    let (built, wrong) = built.map_err(|f| no_form(&bench, f))?;
    let Some(schedule) = built.module.schedule() else {
        return Err(Diagnostic::error("E991", "the pipeline made no schedule").into());
    };
    let mut report = begin("bench ccl", &options.ccl, &built, schedule);
    workspace.progress("proving");
    // If the text of an algorithm is wrong, the proof of its schedule would report the same less
    // clearly.
    let proven = if wrong.has_errors() { Err(wrong) } else { analyse::prove(workspace, &built, schedule) };
    workspace.progress("executing");
    let done = analyse::execute(workspace, &built, schedule, &Data::default(), 1, None, &mut Unwatched);
    report.engine = Some(Engine::chosen(None, schedule).name());
    let mut errors = Diagnostics::new();
    let mut proof = false;
    match proven {
        Ok(verified) => (report.verified, proof) = (Some(verified), true),
        Err(d) => errors.extend(d),
    }
    let (mut elements, mut pes, mut right) = (vec![], vec![], None);
    match done {
        Ok(done) => {
            (elements, pes) = look(workspace, &bench, schedule, &built, &done);
            let bad = |r: u64| pes.iter().any(|p: &WrongPe| p.rank == r);
            right = Some((0..bench.run.world_size).filter(|r| !bad(*r)).count() as u64);
            report.ok = proof && pes.is_empty() && analyse::passes(&done.compare);
            report.inputs = inputs(&built, &done.inputs);
            report.compare = Some(done.compare);
        }
        // The checker has already reported why a run does not end.
        Err(failure) => {
            let (d, code) = failure.into_parts();
            if code != 1 {
                return Err(d.into());
            }
            if proof {
                errors.extend(d);
            }
        }
    }
    let mut pe_times = vec![];
    if report.ok {
        workspace.progress("timing");
        let subject = built.subject(schedule);
        let timing =
            analyse::time(workspace, &mut report, subject, &built.topology, &TimeOptions::default())?;
        let of = |(pe, r): (u64, &RankUse)| PeTime {
            who: who(&bench, pe),
            rank: pe / bench.each,
            exec_ns: r.finish_ns,
        };
        pe_times = (0..).zip(&timing.ranks).map(of).collect();
    } else if !errors.has_errors() {
        let title = format!("{}: the results are wrong", options.ccl);
        errors.push(Diagnostic::error("E430", title).note("the report lists the wrong elements"));
    }
    let found = found(&bench, &built, report, right, (elements, pes, pe_times));
    Ok(Finished { bench, found, errors })
}

/// Reports an algorithm that is not defined for so many ranks at the file of the user instead of
/// the generated program.
fn no_form(bench: &PreparedBench, failure: Failure) -> Failure {
    let (d, code) = failure.into_parts();
    let why = d.list.iter().find(|d| matches!(d.code, "E022" | "E024"));
    let Some((why, reason)) = why.and_then(|d| Some((d, d.labels.first()?))).filter(|_| code == 1) else {
        return d.into();
    };
    let run = &bench.run;
    let title = format!("`{}` does not run on {} ranks: {}", run.algorithm, run.world_size, reason.text);
    let mut new = Diagnostic::error("E467", title);
    if let Some(at) = run.at("world_size").or(run.at("algorithm")) {
        new = new.primary(at, format!("{} from {}", count(run.world_size, "rank"), run.origin));
    }
    if let Some(decl) = why.labels.get(1) {
        new = new.secondary(decl.span, "its declaration");
    }
    new.help("choose another `world_size` or another algorithm").into()
}

fn found(
    bench: &PreparedBench,
    built: &Built,
    report: Report,
    right: Option<u64>,
    (wrong, wrong_elements, pe_times): (Vec<Wrong>, Vec<WrongPe>, Vec<PeTime>),
) -> CclReport {
    let run = &bench.run;
    let (of, all) = (format!("{} (ws={})", run.algorithm, run.world_size), run.world_size);
    let line = match right.unwrap_or(0) {
        _ if report.ok => format!("{of}: {all} OK"),
        right if right == all => format!("{of}: {all} OK / 0 FAIL, not proven"),
        right => format!("{of}: {right} OK / {} FAIL", all - right),
    };
    let bytes = run.n_elem.saturating_mul(2);
    CclReport {
        schema: kbc_compiler::report::SCHEMA,
        command: "bench ccl",
        ok: report.ok,
        line,
        algorithm: run.algorithm.clone(),
        using: bench.algorithm.clone(),
        world_size: run.world_size,
        origin: run.origin.to_string(),
        ranks: run.ranks.name(),
        pes: run.world_size * bench.each,
        n_elem: run.n_elem,
        bytes_per_pe: bytes,
        bytes_per_sip: bytes.saturating_mul(if bench.part == PeSelection::Pe {
            run.world_size
        } else {
            bench.each
        }),
        queues: built.topology.settings().queue.text(),
        forward: built.topology.settings().forward().name(),
        right,
        crit_ns: report.time_ns,
        bound_ns: report.bound_ns,
        pe_times,
        wrong,
        wrong_elements,
        report,
    }
}

/// Compares every element of every PE with the sum of the inputs. Returns the first wrong elements,
/// and the number of wrong elements of each PE.
fn look(
    workspace: &Workspace,
    bench: &PreparedBench,
    schedule: &Schedule,
    built: &Built,
    done: &Executed,
) -> (Vec<Wrong>, Vec<WrongPe>) {
    let (Some(input), Some(feed)) = (built.typed.inputs.first(), done.inputs.calls[0].first()) else {
        return (vec![], vec![]);
    };
    let n = input.ty.elements() as usize;
    let mut sums = vec![0.0; n];
    for (i, x) in feed.data().to_f64().into_iter().enumerate() {
        sums[i % n.max(1)] += x;
    }
    let (mut places, mut values, mut pes): (Vec<(u64, usize)>, _, _) = (vec![], vec![], vec![]);
    for (pe, parts) in done.result.outputs[0].iter().enumerate() {
        let pe = pe as u64;
        let got = parts.first().map_or(vec![], |p| p.tensor.data().to_f64());
        let wrong: Vec<usize> = (0..n).filter(|i| got.get(*i) != Some(&sums[*i])).collect();
        let of_rank = places.iter().filter(|p| p.0 / bench.each == pe / bench.each).count();
        let room = SHOWN.0.saturating_sub(places.len()).min(SHOWN.1.saturating_sub(of_rank));
        for i in wrong.iter().take(room) {
            places.push((pe, *i));
            values.push(got.get(*i).copied().unwrap_or(f64::NAN));
        }
        if !wrong.is_empty() {
            pes.push(WrongPe { who: who(bench, pe), rank: pe / bench.each, elements: wrong.len() as u64 });
        }
    }
    let ranks = schedule.mesh.ranks();
    let cost = ranks.saturating_mul(ranks).saturating_mul(n as u64);
    let mut again = |feed| {
        let run = Engine::chosen(None, schedule).attempt(
            workspace,
            &mut Unwatched,
            schedule,
            &[vec![feed]],
            &RunOptions::default(),
        );
        run.ok().map(|r| r.outputs[0].iter().filter_map(|parts| parts.first().cloned()).collect())
    };
    let from = match places.is_empty() || cost > SEARCHED {
        true => None,
        false => provenance(&input.ty, &schedule.mesh, &places, &mut again),
    };
    let rows = places.iter().zip(values).enumerate().map(|(k, ((pe, i), got))| {
        let from = from.as_ref().map(|f| &f[k]);
        let name = |c: &u64| who(bench, *c);
        Wrong {
            who: who(bench, *pe),
            rank: pe / bench.each,
            element: *i as u64,
            expected: sums[*i],
            got,
            missing: from.map_or(vec![], |f| f.missing.iter().map(name).collect()),
            repeated: from.map_or(vec![], |f| f.repeated.iter().map(|(c, n)| (name(c), *n)).collect()),
            why: from.map_or_else(|| done.compare.hints.join("; "), |f| why(bench, f)),
        }
    });
    (rows.collect(), pes)
}

/// Returns the name of a PE that takes part.
fn who(bench: &PreparedBench, pe: u64) -> String {
    let (rank, inside) = (pe / bench.each, pe % bench.each);
    match bench.part {
        PeSelection::Sip | PeSelection::Pe => format!("rank {rank}"),
        PeSelection::Cube => format!("rank {rank} cube {inside}"),
        PeSelection::All => format!("rank {rank} cube {} pe {}", inside / bench.pes, inside % bench.pes),
    }
}

fn why(bench: &PreparedBench, from: &Provenance) -> String {
    if from.is_complete() {
        return "every contribution is there once, but from another element".to_owned();
    }
    let of = |pes: &[u64], what: &str| {
        let many = pes.len() as u64 == bench.run.world_size * bench.each;
        match (many, &all(bench, pes)[..]) {
            (true, _) => format!("all contributions are {what}"),
            (_, [one]) if !one.contains("ranks ") => format!("the contribution of {one} is {what}"),
            (_, names) => format!("the contributions of {} are {what}", list(names)),
        }
    };
    let mut parts = vec![];
    if !from.missing.is_empty() {
        parts.push(of(&from.missing, "missing"));
    }
    let mut times: Vec<u64> = from.repeated.iter().map(|r| r.1).collect();
    times.sort_unstable();
    times.dedup();
    for n in times {
        let those: Vec<u64> = from.repeated.iter().filter(|r| r.1 == n).map(|r| r.0).collect();
        let often = if n == 2 { "twice".to_owned() } else { format!("{n} times") };
        parts.push(of(&those, &format!("counted {often}")));
    }
    parts.join("; ")
}

/// Returns contributors in words: first the ranks whose PEs are all among them, then single PEs.
fn all(bench: &PreparedBench, pes: &[u64]) -> Vec<String> {
    let (mut whole, mut single) = (vec![], vec![]);
    let mut rest = pes;
    while let [first, ..] = rest {
        let rank = first / bench.each;
        let (same, others) = rest.split_at(rest.iter().take_while(|c| *c / bench.each == rank).count());
        if same.len() as u64 == bench.each {
            whole.push(rank.to_string());
        } else {
            single.extend(same.iter().map(|c| who(bench, *c)));
        }
        rest = others;
    }
    let ranks = match &whole[..] {
        [] => None,
        [one] => Some(format!("rank {one}")),
        some => Some(format!("ranks {}", list(some))),
    };
    ranks.into_iter().chain(single).collect()
}

/// `a, b and c`
fn list(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    match &names[..names.len() - more] {
        [] => String::new(),
        [one] if more == 0 => one.clone(),
        [before @ .., last] if more == 0 => format!("{} and {last}", before.join(", ")),
        some => format!("{} and {more} more", some.join(", ")),
    }
}

/// Returns the range of times at which PEs end, and which ones end last.
fn spread(times: &[PeTime]) -> String {
    let first = times.iter().map(|p| p.exec_ns).fold(f64::INFINITY, f64::min);
    let last = times.iter().map(|p| p.exec_ns).fold(0.0, f64::max);
    let late: Vec<&PeTime> = times.iter().filter(|p| p.exec_ns >= last).collect();
    let who = match &late[..] {
        [one] => one.who.clone(),
        [one, ..] => format!("{} and {} more", one.who, late.len() - 1),
        [] => String::new(),
    };
    format!("exec_ns of {}: {first:.2} to {last:.2}, the last is {who}", count(times.len() as u64, "PE"))
}

/// Returns the lines about ranks that fail, with their known wrong elements.
fn failures(bench: &PreparedBench, found: &CclReport) -> Vec<String> {
    let run = &bench.run;
    let head = |rank: u64| format!("[FAIL] rank {rank} (ws={}, algo={})", run.world_size, run.algorithm);
    if found.right.is_none() {
        return (0..run.world_size).map(|r| format!("{}: the run does not end", head(r))).collect();
    }
    let mut out = vec![];
    for rank in 0..run.world_size {
        let pes: Vec<&WrongPe> = found.wrong_elements.iter().filter(|p| p.rank == rank).collect();
        if pes.is_empty() {
            continue;
        }
        let elements: u64 = pes.iter().map(|p| p.elements).sum();
        let all = found.n_elem.saturating_mul(bench.each);
        let on = match bench.each {
            1 => String::new(),
            each => format!(" on {} of its {each} PEs", pes.len()),
        };
        out.push(format!("{}: {elements} of {all} elements are wrong{on}", head(rank)));
        for w in found.wrong.iter().filter(|w| w.rank == rank) {
            let why = if w.why.is_empty() { String::new() } else { format!(": {}", w.why) };
            out.push(format!(
                "  {}, element {}: expected {}, got {}{why}",
                w.who, w.element, w.expected, w.got
            ));
        }
    }
    out
}

/// Formats the report for people, with the time of every PE.
pub fn logged(bench: &PreparedBench, found: &CclReport) -> String {
    let mut out = human(bench, found);
    for p in &found.pe_times {
        out += &format!("[PE] {}: exec_ns {:.2}\n", p.who, p.exec_ns);
    }
    out
}

/// Formats the report for people.
pub fn human(bench: &PreparedBench, found: &CclReport) -> String {
    let mut out = format!("{}\n", found.line);
    for line in failures(bench, found) {
        out += &format!("{line}\n");
    }
    let mut line = |s: String| {
        out.push_str("  ");
        out.push_str(&s);
        out.push('\n');
    };
    let r = &found.report;
    if !found.ok && found.wrong_elements.is_empty() && found.right.is_some() {
        line("every element is correct in this run, but the proof for all runs fails".into());
    }
    let part = match bench.part {
        PeSelection::Sip => "ranks are SIPs; one PE of each takes part".to_owned(),
        PeSelection::Cube => {
            format!("ranks are SIPs; one PE of each of their {} takes part", count(bench.each, "cube"))
        }
        PeSelection::All => format!("ranks are SIPs; all {} of each take part", count(bench.each, "PE")),
        PeSelection::Pe => "ranks are PEs of SIP 0".to_owned(),
    };
    line(format!("world size {} (from {}): {part}", found.world_size, found.origin));
    line(format!(
        "all-reduce: {}, {} of f16, {} per PE",
        found.using,
        count(found.n_elem, "element"),
        bytes(found.bytes_per_pe)
    ));
    for i in &r.inputs {
        line(format!("inputs {}", i.from));
    }
    line(format!("{}; forward: {}", found.queues, found.forward));
    if let Some(t) = found.crit_ns {
        line(format!(
            "crit_ns {t:.2}, bound {}, {} of the bound{}",
            time(found.bound_ns.unwrap_or(0.0)),
            percent(r.percent),
            r.bottleneck.as_ref().map_or_else(String::new, |b| format!("; bound set by {b}"))
        ));
        line(spread(&found.pe_times));
        if !r.chosen.is_empty() {
            line(format!("estimated values of this machine, not published ones: {}", r.chosen.join("; ")));
        }
        // There is no program for `kbc explain`.
        path::short(r, "--format json", &mut line);
    }
    out
}
