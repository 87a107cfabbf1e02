//! Table of the traffic of a schedule: the bytes that it moves, those that it must move, and those
//! of hand-written kernels.
//!
//! [`super::count`] counts. The bytes that must move follow from the bound of
//! [`kbc_compiler::bounds`] on a machine where every rank has one link to a switch, which takes a
//! nanosecond per byte.

use super::executed::ExecutedKernel;
use super::kernels::{self, KernelTraffic};
use super::{CountedTraffic, Traffic, count, kernel};
use kbc_compiler::bounds::{Collective, NoObserver, timed};
use kbc_compiler::build::build;
use kbc_compiler::emit;
use kbc_compiler::failure::Outcome;
use kbc_compiler::load::read_schedule;
use kbc_compiler::options::Source;
use kbc_compiler::report::SCHEMA;
use kbc_compiler::report::amounts::bytes;
use kbc_compiler::watch::Unwatched;
use kbc_compiler::workspace::Workspace;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::schedule::{Region, Schedule};
use kbc_machine::topology::{LinkRate, Settings, Shape, Topology};
use kbc_tiles::backend::Target;
use kbc_time::TimeOptions;
use serde::Serialize;

/// The traffic of a schedule, by collective and as a whole; it serialises to the JSON of `kbc
/// explain traffic`.
#[derive(Serialize)]
pub struct TrafficReport {
    schema: u32,
    command: &'static str,
    ok: bool,
    file: String,
    schedule: String,
    ranks: u64,
    collectives: Vec<Row>,
    whole: Row,
    /// Copies outside collectives.
    copies: Vec<Copied>,
    /// What the kernel of the target executes.
    kernel: Option<ExecutedKernel>,
    /// Source of the counts of hand-written kernels.
    source: Option<String>,
}

/// A collective, or the whole schedule.
#[derive(Serialize)]
struct Row {
    name: String,
    /// Its algorithm, named as in reports.
    algorithm: Option<String>,
    /// Ranks of a group.
    ranks: u64,
    /// S of the bandwidth conventions.
    bytes: Option<u64>,
    most: Traffic,
    mean: Mean,
    /// Bytes that some rank must send or receive; None if that is not known. For the whole
    /// schedule, the sum over its collectives.
    bound: Option<u64>,
    /// The bound in percent of the traffic of the rank with the most; for the whole schedule,
    /// collective by collective.
    percent: Option<f64>,
    /// Bytes of the windows that it uses; for the whole schedule, of all windows and signals.
    window: u64,
    /// Bytes of copies that end in its operands before it, and of those that begin with them after
    /// it.
    stage_in: u64,
    stage_out: u64,
    /// Hand-written kernels for the same operation.
    hand_written: Vec<KernelTraffic>,
}

/// [`Traffic`], averaged over all ranks.
#[derive(Serialize)]
struct Mean {
    sent: f64,
    received: f64,
    read: f64,
    written: f64,
    copied: f64,
    notifies: f64,
    waits: f64,
    fences: f64,
}

/// A copy.
#[derive(Serialize)]
struct Copied {
    to: String,
    from: String,
    bytes: u64,
}

/// Counts the traffic of a program or of a `.kir` schedule in one call. `target` is the target
/// whose kernel is counted and whose hand-written kernels are named.
///
/// # Errors
/// Returns the errors of compiling or reading the file, and E30x and E354 of counting.
pub fn traffic(workspace: &mut Workspace, source: &Source, target: Option<&str>) -> Outcome<TrafficReport> {
    let (module, machine) = match source.file.ends_with(".kir") {
        true => (read_schedule(workspace, source)?, None),
        // The schedule from which the target's kernel is made.
        false => {
            let passes = emit::passes(emitted(target)?, "default");
            let built = build(workspace, source, passes, &mut Unwatched)?;
            (built.module, Some(built.topology))
        }
    };
    let machine = machine.as_ref().map(|m| (m, source.of.topology.as_deref()));
    let Some(schedule) = module.schedule() else {
        return Err(Diagnostic::error("E991", "the pipeline made no schedule").into());
    };
    of(&source.file, schedule, target, machine)
}

/// Every rank has one link per direction, of one byte per nanosecond.
fn one_link(ranks: u64) -> Outcome<Topology> {
    let n = u32::try_from(ranks).unwrap_or(u32::MAX);
    let link = Some(LinkRate { bandwidth: 1e9, latency_ns: 0.0 });
    Ok(Topology::build(Shape::Switch(n), Settings { link, ..Settings::default() }, Span::NONE)?)
}

/// Returns the target for which a kernel is emitted, if there is one.
fn emitted(target: Option<&str>) -> Outcome<Option<&'static dyn Target>> {
    target.map_or(Ok(None), emit::target)
}

fn of(
    file: &str,
    schedule: &Schedule,
    target: Option<&str>,
    machine: Option<(&Topology, Option<&str>)>,
) -> Outcome<TrafficReport> {
    let ranks = schedule.mesh.ranks();
    let options = TimeOptions { path: false, ..TimeOptions::default() };
    let (_, lower) = timed(schedule, &one_link(ranks)?, &options, &mut NoObserver)?;
    // For a target, the traffic of its kernel.
    let emitted = emitted(target)?;
    let counted = match emitted {
        Some(target) => kernel::count(&target.counts(schedule)?)?,
        None => count(schedule)?,
    };
    let executed = emitted.map(|target| ExecutedKernel::of(schedule, target, machine)).transpose()?;
    let mut source = None;
    let mut collectives = vec![];
    let over: Vec<usize> =
        (0..schedule.regions.len()).filter(|r| !schedule.regions[*r].over.is_empty()).collect();
    for (place, &i) in over.iter().enumerate() {
        let bound = lower.collectives.iter().find(|c| c.place == place);
        let mut row = collective(schedule, &counted, i, bound);
        if let (Some(target), Some(bytes)) = (target, row.bytes)
            && let Some((from, list)) = kernels::of(target, &row.name, row.ranks, bytes)?
        {
            source = Some(from);
            row.hand_written = list;
        }
        collectives.push(row);
    }
    // Each collective has its own rank with the most traffic.
    let known = collectives.iter().filter_map(|c| c.bound.map(|b| (b, c.most.sent.max(c.most.received))));
    let (bound, link) = known.fold((0, 0), |sum, c| (sum.0 + c.0, sum.1 + c.1));
    let bounded = bound > 0 && link > 0;
    let windows = schedule.windows.iter().map(|w| w.slots * w.capacity * w.dtype.bytes());
    let signals = schedule.signals.iter().map(|s| 64 * s.count);
    let whole = Row {
        name: schedule.name.to_string(),
        ranks,
        window: windows.chain(signals).sum(),
        bound: bounded.then_some(bound),
        percent: bounded.then(|| 100.0 * bound as f64 / link as f64),
        ..row(&counted.whole(), None)
    };
    let local = |region: usize| region.checked_sub(1).is_none_or(|r| !over.contains(&r));
    let copies = counted.copies.iter().filter(|((r, ..), bytes)| **bytes > 0 && local(*r));
    let copies =
        copies.map(|((_, to, from), bytes)| Copied { to: to.clone(), from: from.clone(), bytes: *bytes });
    Ok(TrafficReport {
        schema: SCHEMA,
        command: "explain traffic",
        ok: true,
        file: file.to_owned(),
        schedule: schedule.name.to_string(),
        ranks,
        collectives,
        whole,
        copies: copies.collect(),
        kernel: executed,
        source,
    })
}

/// The row of a collective region.
fn collective(
    schedule: &Schedule,
    counted: &CountedTraffic,
    region: usize,
    bound: Option<&Collective>,
) -> Row {
    let r = &schedule.regions[region];
    let promised = r.contract.as_ref().map(|p| p.collective.to_string());
    // Returns copies into an operand before the region and out of one after it, and copies that
    // these copy from and to.
    let staged = |before: bool| -> u64 {
        let mut of = counted.operands[region].clone();
        let mut bytes = 0;
        let side = |at: usize| at != region + 1 && (at <= region) == before;
        let mut copies: Vec<_> = counted.copies.iter().filter(|((at, ..), _)| side(*at)).collect();
        if before {
            copies.reverse();
        }
        for ((_, to, from), size) in copies {
            let (near, far) = if before { (to, from) } else { (from, to) };
            if of.contains(near) {
                of.insert(far.clone());
                bytes += size;
            }
        }
        bytes
    };
    Row {
        name: promised.unwrap_or_else(|| r.name.to_string()),
        algorithm: r.label.clone(),
        ranks: group(r),
        bytes: bound.and_then(|c| c.bytes),
        window: counted.windows[region],
        stage_in: staged(true),
        stage_out: staged(false),
        ..row(&counted.of([region]), bound.map(|c| c.bound.ns.round() as u64))
    }
}

/// Ranks of a group of a region.
fn group(r: &Region) -> u64 {
    r.coords.iter().map(|c| c.1).product()
}

/// Returns a row of the traffic of ranks, without its subject.
fn row(ranks: &[Traffic], bound: Option<u64>) -> Row {
    let most = |get: fn(&Traffic) -> u64| ranks.iter().map(get).max().unwrap_or(0);
    let mean = |get: fn(&Traffic) -> u64| {
        ranks.iter().map(|t| get(t) as f64).sum::<f64>() / ranks.len().max(1) as f64
    };
    let link = most(|t| t.sent).max(most(|t| t.received));
    Row {
        name: String::new(),
        algorithm: None,
        ranks: 0,
        bytes: None,
        most: Traffic {
            sent: most(|t| t.sent),
            received: most(|t| t.received),
            read: most(|t| t.read),
            written: most(|t| t.written),
            copied: most(|t| t.copied),
            notifies: most(|t| t.notifies),
            waits: most(|t| t.waits),
            fences: most(|t| t.fences),
        },
        mean: Mean {
            sent: mean(|t| t.sent),
            received: mean(|t| t.received),
            read: mean(|t| t.read),
            written: mean(|t| t.written),
            copied: mean(|t| t.copied),
            notifies: mean(|t| t.notifies),
            waits: mean(|t| t.waits),
            fences: mean(|t| t.fences),
        },
        bound: bound.filter(|b| *b > 0),
        percent: bound.filter(|b| *b > 0 && link > 0).map(|b| 100.0 * b as f64 / link as f64),
        window: 0,
        stage_in: 0,
        stage_out: 0,
        hand_written: vec![],
    }
}

/// Formats the tables for people.
pub fn human(found: &TrafficReport) -> String {
    let mut out = String::new();
    for c in &found.collectives {
        let size = c.bytes.map_or(String::new(), |b| format!(" of {}", bytes(b)));
        let algorithm = c.algorithm.as_ref().map_or(String::new(), |a| format!(", {a}"));
        out += &format!("{}{size} on {} ranks{algorithm}\n", c.name, c.ranks);
        out += &table(c);
        if !c.hand_written.is_empty() {
            out += &compared(c);
        }
    }
    out += &format!("{}, one call on {} ranks\n{}", found.schedule, found.ranks, table(&found.whole));
    for c in &found.copies {
        out += &format!("  copies {} = {}, {} outside collectives\n", c.to, c.from, bytes(c.bytes));
    }
    if let Some(kernel) = &found.kernel {
        out += &kernel.text();
    }
    if let Some(source) = &found.source {
        out += &format!("hand-written kernels: {source}\n");
    }
    out
}

/// Prints bytes and numbers of the rank with the most, and the mean of all.
fn table(r: &Row) -> String {
    let (a, b) = (&r.most, &r.mean);
    let mut out = format!("  {:<24} {:>12} {:>12}\n", "a rank", "most", "mean");
    let sizes = [
        ("sends", a.sent, b.sent),
        ("receives", a.received, b.received),
        ("local reads", a.read, b.read),
        ("local writes", a.written, b.written),
        ("of these by copies", a.copied, b.copied),
    ];
    for (name, most, mean) in sizes {
        out += &format!("  {name:<24} {:>12} {:>12}\n", bytes(most), bytes(mean.round() as u64));
    }
    let numbers =
        [("notifies", a.notifies, b.notifies), ("waits", a.waits, b.waits), ("fences", a.fences, b.fences)];
    for (name, most, mean) in numbers {
        // To a tenth, without a fraction if it is whole.
        let mean = (mean * 10.0).round() / 10.0;
        out += &format!("  {name:<24} {most:>12} {mean:>12}\n");
    }
    out += &format!("  {:<24} {:>12}\n", "windows", bytes(r.window));
    if let (Some(bound), Some(percent)) = (r.bound, r.percent) {
        let words = format!("{percent:.1} % of the maximum");
        out += &format!("  {:<24} {:>12} {words:>24}\n", "must move", bytes(bound));
    }
    out
}

/// Prints a collective beside hand-written kernels.
fn compared(r: &Row) -> String {
    let own = KernelTraffic {
        name: "this".into(),
        link: r.most.sent.max(r.most.received),
        read: r.most.read + r.stage_in + r.stage_out,
        written: r.most.written + r.stage_in + r.stage_out,
        stage_in: r.stage_in,
        stage_out: r.stage_out,
        notifies: r.most.notifies,
        window: r.window,
        note: None,
    };
    let width = r.hand_written.iter().map(|k| k.name.len()).max().unwrap_or(0).max(7);
    let mut out = format!(
        "  {:<width$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>10}\n",
        "by hand", "link", "reads", "writes", "stage-in", "stage-out", "notifies", "window"
    );
    for k in std::iter::once(&own).chain(&r.hand_written) {
        out += &format!(
            "  {:<width$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>10}\n",
            k.name,
            bytes(k.link),
            bytes(k.read),
            bytes(k.written),
            bytes(k.stage_in),
            bytes(k.stage_out),
            k.notifies,
            bytes(k.window)
        );
    }
    out
}
