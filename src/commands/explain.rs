//! `kbc explain`: what a code means, and why the compiler chose what it chose.

use super::compile::{begin, finish};
use super::run::machine;
use super::{bound, memory, overlap, refuse, select, traffic};
use crate::analyse;
use crate::bounds::Subject;
use crate::build::{Built, build};
use crate::cli::{Explain, ReportFormat, Source, Watch};
use crate::emit;
use crate::record::scene::Scene;
use crate::record::{Wanted, holders};
use crate::report::{self, timed};
use crate::session::{Failure, Outcome, Session};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, Span, codes};
use kbc_ir::graph::Graph;
use kbc_ir::local::LocalPart;
use kbc_ir::schedule::Schedule;
use kbc_time::TimeOptions;
use std::collections::BTreeMap;

const TOPICS: [&str; 9] =
    ["select", "placement", "overlap", "memory", "window", "traffic", "bound", "path", "links"];

/// Prints a page or a table.
///
/// # Errors
/// E416: no such code or topic; those of compiling the file.
pub fn run(session: &mut Session, args: &Explain) -> Outcome {
    if TOPICS.contains(&args.topic.as_str()) {
        let Some(file) = &args.file else {
            return usage(
                Diagnostic::error("E416", format!("explain {} is about a program", args.topic))
                    .help(format!("write kbc explain {} FILE", args.topic)),
            );
        };
        let timed = matches!(args.topic.as_str(), "path" | "links");
        let traffic = args.topic == "traffic";
        if args.report == ReportFormat::Json && !timed && !traffic {
            return usage(
                Diagnostic::error("E416", format!("explain {} has no JSON", args.topic))
                    .help("traffic, path and links have one"),
            );
        }
        let source = Source { file: file.clone(), of: args.of.clone(), post: None };
        let target = match (&args.target, args.topic.as_str()) {
            (Some(name), "window" | "traffic") => emit::target(name)?,
            (Some(_), _) => {
                return usage(
                    Diagnostic::error("E416", format!("--target means nothing for explain {}", args.topic))
                        .help("explain window and explain traffic have one"),
                );
            }
            (None, _) => None,
        };
        if traffic {
            return traffic::run(session, &source, args.target.as_deref(), args.report);
        }
        if timed {
            return explain_timed(session, args, &source);
        }
        let mut built = build(session, &source, "default", &Watch::default())?;
        if args.topic == "select" && built.overlap.changed() {
            // Its bounds are those of whole collectives, in the order of the program.
            built = build(session, &source, "windows", &Watch::default())?;
        }
        let text = match args.topic.as_str() {
            "select" => select::text(&built)?,
            "placement" => placement(&built) + &memory::shards(&built)?,
            "overlap" => overlap::text(&built),
            "memory" => memory::text(&built)?,
            "bound" => bound::of(&built)?,
            _ => match (built.module.schedule(), target) {
                (Some(schedule), Some(profile)) => emit::window::text(session, &built, schedule, profile)?,
                (schedule, _) => schedule.map_or_else(String::new, window),
            },
        };
        session.result(&text);
        return Ok(());
    }
    if args.report == ReportFormat::Json {
        return usage(Diagnostic::error(
            "E416",
            "--report json is about explain traffic, explain path and explain links",
        ));
    }
    if codes::find(&args.topic).is_some() {
        refuse(&args.of.given(), &format!("the page of {}", args.topic))?;
        refuse(&[("--target", args.target.is_some())], &format!("the page of {}", args.topic))?;
    }
    if args.file.is_some() && codes::find(&args.topic).is_some() {
        return usage(Diagnostic::error("E416", format!("the page of {} is about no file", args.topic)));
    }
    match codes::find(&args.topic.to_uppercase()) {
        Some(code) => {
            session.result(code.page);
            Ok(())
        }
        None => usage(unknown(&args.topic)),
    }
}

/// Where the time of a call goes: its critical path, or its links.
fn explain_timed(session: &mut Session, args: &Explain, source: &Source) -> Outcome {
    let (command, path) =
        if args.topic == "path" { ("explain path", true) } else { ("explain links", false) };
    let (mut report, module, plain, topology) = if source.file.ends_with(".kir") {
        let module = super::read_schedule(session, source)?;
        let Some(schedule) = module.schedule() else { return Ok(()) };
        let mut report = super::about_schedule(command, &source.file, &module, schedule);
        let machine = machine(session, &source.of, module.machine.as_ref(), Some(schedule))?;
        let Some((topology, _)) = machine else {
            return usage(
                Diagnostic::error("E416", format!("{} names no machine to be timed on", source.file))
                    .help("say --topology"),
            );
        };
        report.machine = Some(topology.to_string());
        analyse::verify(schedule)?;
        (report, module, None, topology)
    } else {
        let built = build(session, source, "default", &Watch::default())?;
        let Some(schedule) = built.module.schedule() else { return Ok(()) };
        let report = begin(command, &source.file, &built, schedule);
        analyse::prove(&built, schedule)?;
        (report, built.module, built.plain, built.topology)
    };
    let Some(schedule) = module.schedule() else { return Ok(()) };
    let timing = analyse::time(
        session,
        &mut report,
        Subject { schedule, plain: plain.as_ref().unwrap_or(schedule) },
        &topology,
        &Wanted::default(),
        &TimeOptions::default(),
    )?;
    let scene = Scene::new(schedule, &topology, &session.map);
    let behind = if path { holders::find(&scene, &timing.path)? } else { vec![] };
    timed::fill(&mut report, &scene, &timing, &behind, None);
    report.ok = true;
    match args.report {
        ReportFormat::Json => finish(session, &report, args.report, true),
        ReportFormat::Human => {
            session.result(&if path { report::path::full(&report) } else { report::path::table(&report) });
            Ok(())
        }
    }
}

fn usage(d: Diagnostic) -> Outcome {
    Err(Failure::Usage(Diagnostics::from(d)))
}

fn unknown(topic: &str) -> Diagnostic {
    let all: Vec<&str> = codes::CODES.iter().map(|c| c.code).chain(TOPICS).collect();
    let mut d = Diagnostic::error("E416", format!("there is no page about `{topic}`"))
        .note(format!("pages: {}, and the codes of messages", TOPICS.join(", ")));
    if let Some(near) = nearest(&topic.to_uppercase(), all.iter().copied()).or_else(|| nearest(topic, TOPICS))
    {
        d = d.help(format!("did you mean `{near}`?"));
    }
    d
}

/// Every value with its type and what it comes from.
fn placement(built: &Built) -> String {
    let Some(local) = &built.local else { return values(&built.placed) };
    let part = |p: &LocalPart| {
        let ranks: Vec<String> = p.ranks.iter().take(8).map(u64::to_string).collect();
        let more = if p.ranks.len() > 8 { ", .." } else { "" };
        format!("ranks {}{more}: types are a rank's own\n{}", ranks.join(", "), values(&p.graph))
    };
    local.parts.iter().map(part).collect()
}

/// A value of a program, in words.
pub struct ValueWords {
    /// As in `.kir`: `%h`.
    pub name: String,
    /// Its type with its placement.
    pub ty: String,
    /// What makes it: `matmul(%x, %w1)`.
    pub what: String,
    /// What its placement follows from, and the called program that it stands in.
    pub why: String,
    /// Where it is written.
    pub span: Span,
}

/// The values of a graph.
fn values(g: &Graph) -> String {
    let line = |v: ValueWords| format!("{:<24} {:<40} {}  {}\n", v.name, v.ty, v.what, v.why);
    values_of(g).into_iter().map(line).collect()
}

/// The values of a graph, in order.
pub fn values_of(g: &Graph) -> Vec<ValueWords> {
    let mut out = vec![];
    // Values of one name are told apart by a number, as in .kir.
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for &id in g.order() {
        let name = g.op(id).name.as_str();
        let n = count.entry(name).or_default();
        names.insert(id, if *n == 0 { format!("%{name}") } else { format!("%{name}#{n}") });
        *n += 1;
    }
    for &id in g.order() {
        let op = g.op(id);
        let ty = op.ty.as_ref().map_or_else(|| "?".into(), ToString::to_string);
        let mut args: Vec<String> = g.operands(id).iter().map(|o| names[o].clone()).collect();
        if let kbc_ir::graph::OpKind::Shape(s) = &op.kind {
            args.push(s.to_string());
        }
        let (what, why): (String, &str) = match &op.kind {
            kbc_ir::graph::OpKind::Input(_) => ("input".into(), "declared"),
            kbc_ir::graph::OpKind::Matmul { .. } => ("matmul".into(), "follows from its operands"),
            kbc_ir::graph::OpKind::Map(f) => (f.name.to_string(), "follows from its operands"),
            kbc_ir::graph::OpKind::ReduceDim { op, .. } => (op.to_string(), "follows from its operand"),
            kbc_ir::graph::OpKind::Cast(d) => (format!("cast to {d}"), "follows from its operand"),
            kbc_ir::graph::OpKind::Embedding => ("embedding".into(), "follows from its operands"),
            kbc_ir::graph::OpKind::Grouped(_) => ("grouped_matmul".into(), "follows from its operands"),
            kbc_ir::graph::OpKind::Tiles(k) => (k.name.to_string(), "follows from its operands"),
            kbc_ir::graph::OpKind::Fill(f) => (format!("fill {f}"), "every rank makes its part"),
            kbc_ir::graph::OpKind::Shape(s) => (s.name().into(), "follows from its operands"),
            kbc_ir::graph::OpKind::Collective(c) if c.explicit => (c.name().into(), "written in the program"),
            kbc_ir::graph::OpKind::Collective(c) => {
                (c.name().into(), "because a user of the value asks for it")
            }
            kbc_ir::graph::OpKind::Demand | kbc_ir::graph::OpKind::Ask(_) => ("demand".into(), "annotation"),
            kbc_ir::graph::OpKind::Wait => ("wait".into(), "follows from its operand"),
            kbc_ir::graph::OpKind::Host(h) => (format!("host {}", h.word()), "follows from its operand"),
            kbc_ir::graph::OpKind::Output(_) => ("result".into(), "declared"),
        };
        let called: Vec<String> = g.calls(id).iter().map(|c| format!(", in {}", c.program)).collect();
        let called = called.concat();
        out.push(ValueWords {
            name: names[&id].clone(),
            ty,
            what: format!("{what}({})", args.join(", ")),
            why: format!("{why}{called}"),
            span: op.span,
        });
    }
    out
}

/// The memory map of a rank's window domain.
fn window(s: &Schedule) -> String {
    let mut out = String::from("windows (bytes of every rank's domain)\n");
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
    out += "signals (bytes of every rank's signal area, 64 a counter)\n";
    for g in &s.signals {
        let from = g.offset.map_or_else(|| "-".into(), |o| format!("{o}..{}", o + 64 * g.count));
        out += &format!("  {:<28} {from:<20} {} counters\n", g.name.as_str(), g.count);
    }
    out
}
