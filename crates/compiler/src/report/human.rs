//! Reports as text for people.

use super::amounts::{bytes, count, percent, time};
use super::{AlgorithmReport, CompareReport, PerturbReport, Report, path};
use kbc_machine::topology::brief;
use kbc_reference::OUTER;

/// Largest number of ranks for which the report leaves out which of them were simulated.
const SMALL: u64 = 64;

fn ranks(r: &Report) -> u64 {
    r.mesh.iter().map(|a| a.size).product()
}

/// Formats a report as lines of text.
pub fn human(r: &Report) -> String {
    let mut out = String::new();
    let mut line = |s: String| {
        out.push_str(&s);
        out.push('\n');
    };
    let mesh: Vec<String> = r.mesh.iter().map(|a| format!("{} = {}", a.name, a.size)).collect();
    if !r.program.is_empty() {
        let machine = r.machine.as_ref().map_or_else(String::new, |m| format!(" on {}", brief(m)));
        line(format!("{}: {}{machine}, mesh {}", r.file, r.program, mesh.join(", ")));
    }
    if let Some(i) = &r.imported {
        imported(i, &mut line);
    }
    for t in &r.torch {
        match r.command {
            "check" => super::torch::human(&r.file, t, &mut line),
            _ => super::torch::placements(&t.placements, &mut line),
        }
    }
    for i in &r.inputs {
        line(format!("  input {}: {}  from {}", i.name, i.r#type, i.from));
    }
    if !r.collectives.is_empty() {
        line("collectives".into());
    }
    for c in &r.collectives {
        let op =
            c.reduce.as_ref().map_or_else(|| c.operation.clone(), |red| format!("{} {red}", c.operation));
        line(format!(
            "  {op} of {} over {} ({}){}{}",
            bytes(c.bytes),
            c.axis,
            count(c.ranks, "rank"),
            if c.algorithm.is_empty() { String::new() } else { format!(": {}", c.algorithm) },
            if c.asked { "" } else { " (selected)" }
        ));
        if let (Some(t), Some(b)) = (c.time_ns, c.bound_ns) {
            line(format!(
                "    time {}, bound {}{}, {} of the bound; bound set by {}",
                time(t),
                time(b),
                if c.bound_exact { "" } else { " (from a partition)" },
                percent(c.percent),
                c.bottleneck.as_deref().unwrap_or("no bottleneck")
            ));
        }
        if let (Some(a), Some(b)) = (c.algbw, c.busbw) {
            line(format!("    algbw {a:.3} GB/s, busbw {b:.3} GB/s"));
        }
    }
    if r.collectives.is_empty() && r.verified.is_some() && r.algorithms.is_empty() {
        line("collectives: none".into());
    }
    if let Some(v) = &r.verified {
        let calls = if v.calls == "any" { "for every call at any skew" } else { "for the first call" };
        let what = if r.torch.is_empty() {
            v.shown.as_str()
        } else {
            // Whether the ranks together compute one program is reported separately.
            "race-free, deadlock-free, and every collective keeps its contract"
        };
        line(format!(
            "verified: {what} {calls} ({} and {} checked; meaning: {})",
            count(v.ranks_walked, "rank"),
            count(v.calls_walked, "call"),
            v.meaning
        ));
    }
    for c in r.compare.iter().chain(&r.expect) {
        compare(c, &mut line);
    }
    if let Some(order) = &r.order {
        line(format!("order of additions: {}", order.words()));
    }
    if let Some(a) = &r.adversarial {
        line(format!(
            "adversarial: {}, {} elements compared: {}",
            count(a.runs, "run"),
            a.elements,
            match (&a.failure, &r.compare) {
                (Some(f), _) => f.as_str(),
                (None, Some(c)) if !crate::analyse::passes(c) =>
                    "all equal to the undisturbed run, which is wrong",
                (None, _) => "all equal to the undisturbed run",
            }
        ));
    }
    host(r, &mut line);
    failures(r, &mut line);
    if let Some(inside) = &r.inside {
        line(format!("inside devices: {inside}"));
    }
    if let Some(t) = r.time_ns {
        let bound = r.bound_ns.unwrap_or(0.0);
        line(format!(
            "time: {}, bound {}, {} of the bound{}",
            time(t),
            time(bound),
            percent(r.percent),
            r.bottleneck.as_ref().map_or_else(String::new, |b| format!("; bound set by {b}"))
        ));
        if let (Some(all), Some(exposed)) = (r.communication_ns, r.exposed_ns) {
            line(format!("  communication: {}, {} of it exposed", time(all), time(exposed)));
        }
        if !r.chosen.is_empty() {
            line(format!("  assumed values (not published for this machine): {}", r.chosen.join("; ")));
        }
        if !r.unlimited.is_empty() {
            line(format!("  assumed infinitely fast: {}", r.unlimited.join(", ")));
        }
        if let Some(simulated) = r.simulated.as_ref().filter(|_| ranks(r) > SMALL) {
            line(format!("  simulated: {simulated}"));
        }
    }
    if let Some(p) = &r.perturb {
        perturb(p, &mut line);
    }
    path::short(r, "kbc explain path", &mut line);
    path::links(r, &mut line);
    if let Some(e) = &r.emitted {
        let ranks: Vec<String> = e.ranks.iter().map(u64::to_string).collect();
        let counts = match (&e.count, e.largest_count) {
            (Some(name), Some(most)) => format!(", {name} from 0 to {most} at run time"),
            _ => String::new(),
        };
        line(format!("emitted {} for {}: {}", e.kernel, e.target, e.out));
        line(format!("  for {} ranks{counts}", ranks.join(", ")));
        if let Some(why) = &e.one_rank_count_because {
            line(format!("  one number of ranks, because {why}"));
        }
        if let Some(why) = &e.fixed_sizes_because {
            line(format!("  fixed sizes, because {why}"));
        }
        // A target whose cores work in order has none of them.
        let pipes = match e.flags + e.barriers + e.dsb {
            0 => String::new(),
            _ => format!(
                ", {}, {} PIPE_ALL ({} in loops over tiles), {} dsb",
                count(e.flags, "flag pair"),
                e.barriers,
                e.barriers_in_tiles,
                e.dsb
            ),
        };
        line(format!("  {}{pipes}", count(e.files.len() as u64, "file")));
        if let Some([deferred, kept]) = e.deferred_waits {
            let why = match kept {
                0 => "",
                _ => {
                    " (in rounds or conditions, between cores, or more than a task can leave to the runtime)"
                }
            };
            line(format!("  {} left to the runtime, {kept} in kernels{why}", count(deferred, "wait")));
        }
    }
    for p in &r.programs {
        match (&p.not_checked, &p.with[..]) {
            (Some(why), _) => line(format!("program {}: not checked: {why}", p.program)),
            (None, [one]) if one.is_empty() => line(format!("program {}: proven", p.program)),
            (None, [one]) => line(format!("program {}: proven with {one}", p.program)),
            (None, several) => {
                line(format!("program {}: proven with", p.program));
                several.iter().for_each(|w| line(format!("  {w}")));
            }
        }
    }
    for a in &r.algorithms {
        let words: Vec<&str> = a.costs.iter().filter_map(|c| c.split(' ').next()).collect();
        line(format!(
            "{} {}{}: correct on {} up to {}{}, {} proven{}{}",
            a.collective,
            a.algorithm,
            if a.variants == 0 { String::new() } else { format!(" (and {})", count(a.variants, "variant")) },
            count(a.shapes, "shape"),
            count(a.largest, "rank"),
            if a.tried.is_empty() { String::new() } else { format!(" with {}", a.tried.join("; ")) },
            count(a.schedules, "schedule"),
            if a.elements.is_empty() {
                String::new()
            } else {
                format!(" of {} elements", a.elements.join(", "))
            },
            if words.is_empty() { String::new() } else { format!("; {} as documented", words.join(", ")) }
        ));
    }
    if r.algorithms.len() > 1 {
        let sum = |f: fn(&AlgorithmReport) -> u64| r.algorithms.iter().map(f).sum::<u64>();
        line(format!(
            "{} algorithms, {} shapes, {} schedules",
            r.algorithms.len(),
            sum(|a| a.shapes),
            sum(|a| a.schedules)
        ));
    }
    for u in &r.unchecked {
        line(u.clone());
    }
    let shown = r.torch.iter().all(|t| t.placements.shown || t.placements.reference.is_some());
    // A check is ok if everything was proven, a run if its comparisons passed.
    if !shown && (r.ok || r.command == "check") {
        line("no error was found, but not everything was proven".into());
    } else if r.ok {
        line("ok".into());
    } else if r.unchecked.is_empty() || wrong(r) {
        line("not ok".into());
    }
    out
}

/// Checks whether something is wrong, as opposed to not checked.
fn wrong(r: &Report) -> bool {
    let compared = r.compare.iter().chain(&r.expect);
    compared.into_iter().any(|c| !crate::analyse::passes(c))
        || r.adversarial.as_ref().is_some_and(|a| a.failure.is_some())
        || !r.failures.is_empty()
}

fn perturb(p: &PerturbReport, line: &mut impl FnMut(String)) {
    line(format!(
        "perturbed: {} from seed {}: min {}, median {}, p95 {}, max {}",
        count(p.runs, "run"),
        p.seed,
        time(p.min_ns),
        time(p.median_ns),
        time(p.p95_ns),
        time(p.max_ns)
    ));
    line(format!(
        "  worst: seed {}, {} and {} perturbed; bound on that machine {}",
        p.worst_seed,
        count(p.ranks, "rank"),
        count(p.links, "link"),
        time(p.worst_bound_ns)
    ));
    for b in &p.blame {
        line(format!(
            "  {} adds {} to its critical path ({:.1} % of the time)",
            b.what,
            time(b.ns),
            b.percent
        ));
    }
    if p.blame.is_empty() {
        line("  no perturbed rank or link is on its critical path".into());
    }
}

/// Number of lines of a list that are shown; the rest is only counted.
const LISTED: usize = 8;

fn host(r: &Report, line: &mut impl FnMut(String)) {
    for h in r.host_reads.iter().take(LISTED) {
        let more = if h.elements > h.first.len() as u64 { ", .." } else { "" };
        let at = h.time_ns.map_or_else(String::new, |t| format!(" at {}", time(t)));
        line(format!(
            "host.read %{} on {} in call {}{at}: {} [{}{more}]",
            h.buffer,
            h.rank,
            h.call,
            count(h.elements, "element"),
            h.first.join(", ")
        ));
    }
    if r.host_reads.len() > LISTED {
        line(format!("  ... {} more", r.host_reads.len() - LISTED));
    }
}

fn failures(r: &Report, line: &mut impl FnMut(String)) {
    for (kind, title) in [("root", "ranks that failed"), ("aborted", "aborted because of them")] {
        let list: Vec<_> = r.failures.iter().filter(|f| f.kind == kind).collect();
        if list.is_empty() {
            continue;
        }
        line(format!("{title}: {}", count(list.len() as u64, "rank")));
        for f in list.iter().take(LISTED) {
            let code = f.code.map_or_else(String::new, |c| format!("[{c}] "));
            let why = f.because.as_ref().map_or_else(String::new, |b| format!("; {b}"));
            line(format!("  {}: {code}{}{why}", f.rank, f.what));
        }
        if list.len() > LISTED {
            line(format!("  ... {} more", list.len() - LISTED));
        }
    }
}

fn compare(c: &CompareReport, line: &mut impl FnMut(String)) {
    if let Some(why) = &c.unfit {
        line(format!("{}: cannot be compared with {}: {why}", c.result, c.against));
        return;
    }
    let err = c
        .max_err
        .map_or_else(|| "infinite".into(), |e| if e == 0.0 { "0".to_owned() } else { format!("{e:.2e}") });
    if c.mismatches == 0 {
        line(format!(
            "{}: all {} elements on all ranks agree with {} (largest error {err} of its bound)",
            c.result, c.elements, c.against
        ));
    } else {
        line(format!(
            "{}: {} of {} elements differ from {} (largest error {err} of its bound)",
            c.result, c.mismatches, c.elements, c.against
        ));
    }
    let terms = c.terms_err.map(|e| if e == 0.0 { "0".to_owned() } else { format!("{e:.1e}") });
    if c.beyond > 0 {
        let most = terms.map_or_else(|| "the largest is infinite".into(), |t| format!("the largest is {t}"));
        line(format!(
            "  {} of them differ by more than {OUTER:e} of the sum of their absolute terms: {most}",
            c.beyond
        ));
    } else if let Some(terms) = terms {
        line(format!("  largest error {terms} of the sum of its absolute terms (limit {OUTER:e})"));
    }
    if c.unbounded > 0 {
        line(format!("  {} of them are not judged: no bound of their rounding errors is known", c.unbounded));
    }
    if let (Some(w), true) = (&c.worst, c.mismatches > 0) {
        let index: Vec<String> = w.index.iter().map(u64::to_string).collect();
        line(format!(
            "  worst: rank {} [{}]: expected {}, got {}, bound {:.3e}",
            w.rank,
            index.join(", "),
            w.expected,
            w.got,
            w.bound
        ));
    }
    for h in &c.hints {
        line(format!("  {h}"));
    }
}

/// Describes an imported schedule and its verdict.
fn imported(i: &super::ImportReport, line: &mut impl FnMut(String)) {
    let place = if i.inplace { "in place" } else { "out of place" };
    line(format!(
        "{}: {} {place}, {}, {}, {}, {}, {}",
        i.format,
        i.collective,
        i.protocol,
        count(i.chunks, "chunk"),
        count(i.channels, "channel"),
        count(i.thread_blocks, "thread block"),
        count(i.steps, "step")
    ));
    let why = if i.kinds.is_empty() { String::new() } else { format!(": {}", i.kinds.join(", ")) };
    line(format!("verdict: {}{why}", i.verdict));
    if i.hang != "none" {
        line(format!("  hangs {}, with {} on a connection", i.hang, count(i.depth, "slot")));
    }
    line(match i.postcondition {
        "not checked" => {
            format!(
                "  postcondition: not checked, because `{}` has none; give one with --post FILE",
                i.collective
            )
        }
        other => format!("  postcondition: {other}"),
    });
    if i.uninitialised > 0 {
        line(format!("  reads of empty memory: {}", i.uninitialised));
    }
    if i.races > 0 {
        line(format!("  races: {}", i.races));
    }
    let size = i
        .hang_free_bytes
        .map_or_else(|| i.hang_free.clone(), |n| format!("up to {n} B of the largest buffer ({})", bytes(n)));
    line(format!("  free of deadlock at: {size}"));
}
