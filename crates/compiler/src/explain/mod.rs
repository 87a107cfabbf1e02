//! Explain: why the compiler chose what it chose, and where the time of a call goes.

pub mod bound;
pub mod memory;
pub mod order;
pub mod overlap;
pub mod select;

use crate::about::{about_schedule, begin};
use crate::analyse;
use crate::bounds::Subject;
use crate::build::{Built, build};
use crate::failure::{Failure, Outcome};
use crate::load::read_schedule;
use crate::machine::machine;
use crate::options::Source;
use crate::report::{Report, timed};
use crate::timeline::holders;
use crate::timeline::scene::Scene;
use crate::values::{ValueWords, values_of};
use crate::watch::Unwatched;
use crate::workspace::Workspace;
use kbc_diag::Diagnostic;
use kbc_ir::graph::Graph;
use kbc_ir::local::LocalPart;
use kbc_ir::schedule::{Schedule, Signal, Window};
use kbc_time::TimeOptions;
use serde_json::{Value, json};

/// Which part of the time of a call is explained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimePart {
    /// The critical path, with whoever held what it waits for.
    Path,
    /// The use of every link.
    Links,
}

impl TimePart {
    /// Returns the name of the command, as reports state it.
    fn command(self) -> &'static str {
        match self {
            TimePart::Path => "explain path",
            TimePart::Links => "explain links",
        }
    }
}

/// Builds a program for an explanation. For `select`, collectives are whole and in the order of the
/// program, as their bounds are.
///
/// # Errors
/// Of building.
pub fn built(workspace: &mut Workspace, source: &Source, select: bool) -> Outcome<Built> {
    let built = build(workspace, source, "default", &mut Unwatched)?;
    if select && built.overlap.changed() {
        return build(workspace, source, "windows", &mut Unwatched);
    }
    Ok(built)
}

/// Times a program, or a `.kir` schedule, and reports the whole critical path and all links.
///
/// # Errors
/// Of building, proving and timing; E416 for a schedule without a machine.
pub fn time(workspace: &mut Workspace, source: &Source, part: TimePart) -> Outcome<Report> {
    let command = part.command();
    let none = || Diagnostic::error("E991", "the pipeline made no schedule");
    let (mut report, module, plain, topology) = if source.file.ends_with(".kir") {
        let module = read_schedule(workspace, source)?;
        let schedule = module.schedule().ok_or_else(none)?;
        let mut report = about_schedule(command, &source.file, &module, schedule);
        let machine = machine(workspace, &source.of, module.machine.as_ref(), Some(schedule))?;
        let Some((topology, _)) = machine else {
            let d =
                Diagnostic::error("E416", format!("{} names no machine, so it cannot be timed", source.file))
                    .help("give one with --topology");
            return Err(Failure::Usage(d.into()));
        };
        report.machine = Some(topology.to_string());
        analyse::verify(workspace, schedule)?;
        (report, module, None, topology)
    } else {
        let built = build(workspace, source, "default", &mut Unwatched)?;
        let schedule = built.schedule()?;
        let report = begin(command, &source.file, &built, schedule);
        analyse::prove(workspace, &built, schedule)?;
        (report, built.module, built.plain, built.topology)
    };
    let schedule = module.schedule().ok_or_else(none)?;
    let subject = Subject { schedule, plain: plain.as_ref().unwrap_or(schedule) };
    let timing = analyse::time(workspace, &mut report, subject, &topology, &TimeOptions::default())?;
    let scene = Scene::new(schedule, &topology, &workspace.map);
    let behind = if part == TimePart::Path { holders::find(&scene, &timing.path)? } else { vec![] };
    timed::fill(&mut report, &scene, &timing, &behind, None);
    report.ok = true;
    Ok(report)
}

/// Lists every value with its type and what it comes from.
pub fn placement(built: &Built) -> String {
    let Some(local) = &built.local else { return values(&built.placed) };
    let part = |p: &LocalPart| {
        let ranks: Vec<String> = p.ranks.iter().take(8).map(u64::to_string).collect();
        let more = if p.ranks.len() > 8 { ", .." } else { "" };
        format!("ranks {}{more}: types state the sizes on one rank\n{}", ranks.join(", "), values(&p.graph))
    };
    local.parts.iter().map(part).collect()
}

/// The values of a graph.
fn values(g: &Graph) -> String {
    let line = |v: ValueWords| format!("{:<24} {:<40} {}  {}\n", v.name, v.ty, v.what, v.why);
    values_of(g).into_iter().map(line).collect()
}

/// Returns the values of a program as JSON.
pub fn placement_json(built: &Built) -> Value {
    let values = |g: &Graph| {
        let one = |v: ValueWords| json!({ "name": v.name, "type": v.ty, "from": v.what, "why": v.why });
        values_of(g).into_iter().map(one).collect::<Vec<_>>()
    };
    match &built.local {
        None => json!({ "values": values(&built.placed) }),
        Some(local) => {
            let part = |p: &LocalPart| json!({ "ranks": p.ranks, "values": values(&p.graph) });
            json!({ "parts": local.parts.iter().map(part).collect::<Vec<_>>() })
        }
    }
}

/// Returns the windows and signals of a rank as JSON.
pub fn window_json(s: &Schedule) -> Value {
    let window = |w: &Window| {
        json!({
            "name": w.name.as_str(),
            "offset": w.offset,
            "bytes": w.slots * w.capacity * w.dtype.bytes(),
            "slots": w.slots,
            "capacity": w.capacity,
            "dtype": w.dtype.to_string(),
            "memory": w.memory.to_string(),
        })
    };
    let signal = |g: &Signal| json!({ "name": g.name.as_str(), "offset": g.offset, "counters": g.count });
    json!({
        "windows": s.windows.iter().map(window).collect::<Vec<_>>(),
        "signals": s.signals.iter().map(signal).collect::<Vec<_>>(),
    })
}

/// Lists the windows and signals of a rank, with their offsets.
pub fn window(s: &Schedule) -> String {
    let mut out = String::from("windows (bytes in the domain of every rank)\n");
    for w in &s.windows {
        let size = w.slots * w.capacity * w.dtype.bytes();
        let from = w.offset.map_or_else(|| "-".into(), |o| format!("{o}..{}", o + size));
        out += &format!(
            "  {:<28} {from:<20} {} slots of {} {} in {}\n",
            w.name.as_str(),
            w.slots,
            w.capacity,
            w.dtype,
            w.memory
        );
    }
    out += "signals (bytes in the signal area of every rank, 64 per counter)\n";
    for g in &s.signals {
        let from = g.offset.map_or_else(|| "-".into(), |o| format!("{o}..{}", o + 64 * g.count));
        out += &format!("  {:<28} {from:<20} {} counters\n", g.name.as_str(), g.count);
    }
    out
}
