//! Human-readable form of a report's critical path and links: in short, and in full for `kbc
//! explain`.

use super::amounts::{bytes, count, percent, time};
use super::{LinkReport, Report, StepReport};
use crate::timeline::path::{Fold, fold};
use kbc_machine::topology::brief;

/// Number of lines of a folded path in a report; the middle of a longer path is left out.
const SHOWN: usize = 12;

/// Number of waits that a report names.
const WAITS: usize = 3;

/// Number of links that a report names.
const LINKS: usize = 3;

/// Number of causes that `explain path` shows even if they take no time. The others belong to
/// special machines.
const ALWAYS: usize = 5;

/// Returns the steps of each part.
fn parts(path: &[StepReport]) -> Vec<&[StepReport]> {
    path.chunk_by(|a, b| a.part == b.part).collect()
}

fn span(part: &[StepReport]) -> f64 {
    part.last().map_or(0.0, |l| l.end_ns) - part.first().map_or(0.0, |f| f.start_ns)
}

/// Formats the operation and place of a part: `put  tp=0 -> tp=1`.
fn head(part: &[StepReport]) -> String {
    let Some(first) = part.first() else { return String::new() };
    let to = first.to.as_ref().filter(|to| **to != first.place);
    format!("{}  {}{}", first.what, first.place, to.map_or_else(String::new, |to| format!(" -> {to}")))
}

/// Formats the sums of some parts' steps by kind: `latency 500.0 ns, bytes 192.0 ns`. Local work is
/// listed by unit.
fn sums<'a>(parts: impl Iterator<Item = &'a [StepReport]>) -> String {
    let mut sums: Vec<(String, f64)> = vec![];
    for s in parts.flatten() {
        let what = match s.kind {
            "queue" => "queueing".to_owned(),
            "latency" | "bytes" => s.kind.to_owned(),
            _ => s.cause.clone(),
        };
        match sums.iter_mut().find(|x| x.0 == what) {
            Some(x) => x.1 += s.end_ns - s.start_ns,
            None => sums.push((what, s.end_ns - s.start_ns)),
        }
    }
    match &sums[..] {
        // The duration is already printed before it.
        [(what, _)] => what.clone(),
        all => all.iter().map(|(what, ns)| format!("{what} {}", time(*ns))).collect::<Vec<_>>().join(", "),
    }
}

/// Formats the totals: `latency 51.2 %, work 48.8 %`. Causes that take no time are left out.
fn totals(r: &Report) -> String {
    let some = r.totals.iter().filter(|t| t.ns > 0.0);
    let words = some.map(|t| match r.slot_accesses.filter(|_| t.cause == "slots") {
        Some(n) => format!("{} {} ({n} accesses)", t.cause, percent(Some(t.percent))),
        None => format!("{} {}", t.cause, percent(Some(t.percent))),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Formats the folded path as lines.
fn folded(parts: &[&[StepReport]], folds: &[Fold]) -> Vec<String> {
    let mut out = vec![];
    for f in folds {
        for k in 0..f.length {
            let turns = || parts[f.first + k..].iter().step_by(f.length).take(f.turns).copied();
            let first = parts[f.first + k];
            let start = first.first().map_or(0.0, |s| s.start_ns);
            let all: f64 = turns().map(span).sum();
            let times = match (f.turns, f.length) {
                (1, _) => String::new(),
                (n, 1) => format!("x{n}  "),
                (n, all) => format!("x{n} ({} of {all})  ", k + 1),
            };
            out.push(format!(
                "  {:>10} {:>12}  {times}{}  {}",
                time(start),
                time(all),
                head(first),
                sums(turns())
            ));
        }
    }
    out
}

/// Returns the repetitions among the path's parts.
pub fn folds(r: &Report) -> Vec<Fold> {
    let parts = parts(&r.critical_path);
    let keys: Vec<(u32, bool)> =
        parts.iter().filter_map(|p| p.first()).map(|s| (s.op, s.to.is_some())).collect();
    fold(&keys)
}

/// Formats the whole folded path of a report; returns no lines if the report has no path.
pub fn lines(r: &Report) -> Vec<String> {
    folded(&parts(&r.critical_path), &folds(r))
}

/// Formats the path for a report: folded, with the longest waits. `whole` is the command that shows
/// all of it.
pub fn short(r: &Report, whole: &str, line: &mut impl FnMut(String)) {
    if r.critical_path.is_empty() {
        return;
    }
    let parts = parts(&r.critical_path);
    line(format!("critical path ({}): {}", count(parts.len() as u64, "part"), totals(r)));
    let lines = lines(r);
    let n = lines.len();
    for (i, l) in lines.into_iter().enumerate() {
        if n > SHOWN && i == SHOWN / 2 {
            line(format!("  ... {} more: {whole}", n - SHOWN));
        }
        if n <= SHOWN || !(SHOWN / 2..n - SHOWN / 2).contains(&i) {
            line(l);
        }
    }
    let mut waits: Vec<&StepReport> =
        r.critical_path.iter().filter(|s| matches!(s.kind, "queue" | "unit_queue")).collect();
    waits.sort_by(|a, b| {
        (b.end_ns - b.start_ns).total_cmp(&(a.end_ns - a.start_ns)).then(a.start_ns.total_cmp(&b.start_ns))
    });
    if !waits.is_empty() {
        let named: Vec<String> = waits
            .iter()
            .take(WAITS)
            .map(|s| format!("{} of {} {} {}", time(s.end_ns - s.start_ns), s.place, s.what, s.cause))
            .collect();
        line(format!("  longest waits: {}", named.join("; ")));
    }
}

/// Formats the busiest links of a report and the number of idle links.
pub fn links(r: &Report, line: &mut impl FnMut(String)) {
    let (Some(used), Some(total)) = (r.links_used, r.links_total) else { return };
    if total == 0 || used == 0 {
        return;
    }
    let busiest: Vec<String> =
        r.links.iter().take(LINKS).map(|l| format!("{} {}", l.link, percent(Some(l.use_percent)))).collect();
    let idle = total - used.min(total);
    let share = 100.0 * idle as f64 / total as f64;
    let queueing = match r.queue_ns {
        Some(ns) if ns > 0.0 => format!("; total queueing {}", time(ns)),
        _ => String::new(),
    };
    line(format!(
        "links: {idle} of {total} idle ({}); busiest {}{queueing}",
        percent(Some(share)),
        busiest.join(", ")
    ));
    let waited: f64 = r.memories.iter().map(|m| m.queue_ns).sum();
    if let Some(m) = r.memories.first() {
        let queueing =
            if waited > 0.0 { format!("; total queueing {}", time(waited)) } else { String::new() };
        line(format!("memories: busiest {} {}{queueing}", m.memory, time(m.busy_ns)));
    }
}

/// Formats the output of `kbc explain path`: every part of the path with all its steps.
pub fn full(r: &Report) -> String {
    let mut out = opening(r);
    let parts = parts(&r.critical_path);
    out += &format!(
        "critical path: {} in {}\n",
        time(r.time_ns.unwrap_or(0.0)),
        count(parts.len() as u64, "part")
    );
    for t in r.totals.iter().enumerate().filter(|(i, t)| *i < ALWAYS || t.ns > 0.0).map(|x| x.1) {
        out += &format!("  {:<11} {:>12}  {:>7}\n", t.cause, time(t.ns), percent(Some(t.percent)));
    }
    for part in parts {
        let Some(first) = part.first() else { continue };
        let source = first.source.as_ref().map_or_else(String::new, |s| format!("  {s}"));
        out += &format!(
            "{:>12} {:>12}  {}  @{} stream {} op {}{source}\n",
            time(first.start_ns),
            time(span(part)),
            head(part),
            first.region,
            first.stream,
            first.op
        );
        out += &format!("{:>12} {:>12}    after {}\n", "", "", first.after);
        for s in part {
            let behind = s.behind.as_ref().map_or_else(String::new, |b| {
                // The cause already names the link or unit.
                b.split_once(", ").map_or_else(String::new, |(_, by)| format!(", {by}"))
            });
            out += &format!("{:>12} {:>12}    {}{behind}\n", "", time(s.end_ns - s.start_ns), s.cause);
        }
    }
    out
}

/// Formats the output of `kbc explain links`: every link that is used.
pub fn table(r: &Report) -> String {
    let mut out = opening(r);
    let (used, total) = (r.links_used.unwrap_or(0), r.links_total.unwrap_or(0));
    out += &format!(
        "{} of {} in use, in {}; {} idle\n",
        used,
        count(total, "link"),
        time(r.time_ns.unwrap_or(0.0)),
        total.saturating_sub(used)
    );
    let width = r.links.iter().map(|l| l.link.chars().count()).max().unwrap_or(0).max(4);
    let row = |a: &str, b: [&str; 5]| {
        format!("{a:<width$} {:>9} {:>11} {:>12} {:>8} {:>12}\n", b[0], b[1], b[2], b[3], b[4])
    };
    out += &row("link", ["messages", "bytes", "service", "use", "queueing"]);
    let mut sum = LinkReport {
        link: "all".into(),
        messages: 0,
        bytes: 0,
        busy_ns: 0.0,
        queue_ns: 0.0,
        use_percent: 0.0,
    };
    for l in &r.links {
        let cells = [
            l.messages.to_string(),
            bytes(l.bytes),
            time(l.busy_ns),
            percent(Some(l.use_percent)),
            time(l.queue_ns),
        ];
        out += &row(&l.link, cells.each_ref().map(String::as_str));
        sum.messages += l.messages;
        sum.bytes = sum.bytes.saturating_add(l.bytes);
        sum.busy_ns += l.busy_ns;
        sum.queue_ns += l.queue_ns;
    }
    if used > 0 {
        // Share of what all links of the machine could carry in that time.
        let whole = r.time_ns.unwrap_or(0.0) * total as f64;
        sum.use_percent = if whole > 0.0 { 100.0 * sum.busy_ns / whole } else { 0.0 };
        let cells = [
            sum.messages.to_string(),
            bytes(sum.bytes),
            time(sum.busy_ns),
            percent(Some(sum.use_percent)),
            time(sum.queue_ns),
        ];
        out += &row(&sum.link, cells.each_ref().map(String::as_str));
    }
    out + &memories(r)
}

/// Formats the controllers of memories, which follow the links.
fn memories(r: &Report) -> String {
    let width = r.memories.iter().map(|m| m.memory.len()).max().unwrap_or(0).max(6);
    let row = |a: &str, b: [&str; 5]| {
        format!("{a:<width$} {:>9} {:>9} {:>11} {:>12} {:>12}\n", b[0], b[1], b[2], b[3], b[4])
    };
    let mut out = String::new();
    for m in &r.memories {
        if out.is_empty() {
            out = row("memory", ["read", "written", "bytes", "busiest", "queueing"]);
        }
        let (reads, writes) = (m.reads.to_string(), m.writes.to_string());
        out += &row(&m.memory, [&reads, &writes, &bytes(m.bytes), &time(m.busy_ns), &time(m.queue_ns)]);
    }
    out
}

fn opening(r: &Report) -> String {
    let mesh: Vec<String> = r.mesh.iter().map(|a| format!("{} = {}", a.name, a.size)).collect();
    let machine = r.machine.as_ref().map_or_else(String::new, |m| format!(" on {}", brief(m)));
    format!("{}: {}{machine}, mesh {}\n", r.file, r.program, mesh.join(", "))
}
