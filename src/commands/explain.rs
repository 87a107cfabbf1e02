//! `kbc explain`: error codes, choices of the compiler, and the parts of the time of a call.

use super::compile::finish;
use super::{bound, memory, overlap, select, traffic};
use crate::analyse;
use crate::bounds::Subject;
use crate::build::{Built, build};
use crate::cli::{Explain, ReportFormat, Source};
use crate::emit;
use crate::record::scene::Scene;
use crate::record::{self, Wanted};
use crate::report::{self, timed};
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::about::begin;
use kbc_compiler::load::refuse;
use kbc_compiler::machine::machine;
use kbc_compiler::timeline::holders;
use kbc_compiler::values::{ValueWords, values_of};
use kbc_compiler::watch::Unwatched;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, codes};
use kbc_ir::graph::Graph;
use kbc_ir::local::LocalPart;
use kbc_ir::schedule::Schedule;
use kbc_time::TimeOptions;

const TOPICS: [&str; 9] =
    ["select", "placement", "overlap", "memory", "window", "traffic", "bound", "path", "links"];

/// Prints a page or a table.
///
/// # Errors
/// Returns E416 for an unknown code or topic, and the errors of compiling the file.
pub fn run(session: &mut Session, args: &Explain) -> Outcome {
    if TOPICS.contains(&args.topic.as_str()) {
        let Some(file) = &args.file else {
            return usage(
                Diagnostic::error("E416", format!("explain {} needs a program", args.topic))
                    .help(format!("write kbc explain {} FILE", args.topic)),
            );
        };
        let timed = matches!(args.topic.as_str(), "path" | "links");
        let traffic = args.topic == "traffic";
        if args.report == ReportFormat::Json && !timed && !traffic {
            return usage(
                Diagnostic::error("E416", format!("explain {} has no JSON output", args.topic))
                    .help("explain traffic, explain path and explain links have one"),
            );
        }
        let source = Source { file: file.clone(), of: args.of.clone(), post: None };
        let target = match (&args.target, args.topic.as_str()) {
            (Some(name), "window" | "traffic") => emit::target(name)?,
            (Some(_), _) => {
                return usage(
                    Diagnostic::error("E416", format!("--target does not apply to explain {}", args.topic))
                        .help("only explain window and explain traffic have a target"),
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
        let mut built = build(session, &source.plain(), "default", &mut Unwatched)?;
        if args.topic == "select" && built.overlap.changed() {
            // The bounds are those of whole collectives, in the order of the program.
            built = build(session, &source.plain(), "windows", &mut Unwatched)?;
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
            "--report json applies only to explain traffic, explain path and explain links",
        ));
    }
    if codes::find(&args.topic).is_some() {
        refuse(&args.of.plain().given(), &format!("the page of {}", args.topic))?;
        refuse(&[("--target", args.target.is_some())], &format!("the page of {}", args.topic))?;
    }
    if args.file.is_some() && codes::find(&args.topic).is_some() {
        return usage(Diagnostic::error("E416", format!("explain {} takes no file", args.topic)));
    }
    match codes::find(&args.topic.to_uppercase()) {
        Some(code) => {
            session.result(code.page);
            Ok(())
        }
        None => usage(unknown(&args.topic)),
    }
}

/// Prints the parts of the time of a call: its critical path, or its links.
fn explain_timed(session: &mut Session, args: &Explain, source: &Source) -> Outcome {
    let (command, path) =
        if args.topic == "path" { ("explain path", true) } else { ("explain links", false) };
    let (mut report, module, plain, topology) = if source.file.ends_with(".kir") {
        let module = kbc_compiler::load::read_schedule(session, &source.plain())?;
        let Some(schedule) = module.schedule() else { return Ok(()) };
        let mut report = kbc_compiler::about::about_schedule(command, &source.file, &module, schedule);
        let machine = machine(session, &source.of.plain(), module.machine.as_ref(), Some(schedule))?;
        let Some((topology, _)) = machine else {
            return usage(
                Diagnostic::error("E416", format!("{} names no machine, so it cannot be timed", source.file))
                    .help("give one with --topology"),
            );
        };
        report.machine = Some(topology.to_string());
        analyse::verify(session, schedule)?;
        (report, module, None, topology)
    } else {
        let built = build(session, &source.plain(), "default", &mut Unwatched)?;
        let Some(schedule) = built.module.schedule() else { return Ok(()) };
        let report = begin(command, &source.file, &built, schedule);
        analyse::prove(session, &built, schedule)?;
        (report, built.module, built.plain, built.topology)
    };
    let Some(schedule) = module.schedule() else { return Ok(()) };
    let timing = record::time(
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
    let mut d = Diagnostic::error("E416", format!("there is no explanation of `{topic}`"))
        .note(format!("explanations: {}, and the codes of messages", TOPICS.join(", ")));
    if let Some(near) = nearest(&topic.to_uppercase(), all.iter().copied()).or_else(|| nearest(topic, TOPICS))
    {
        d = d.help(format!("did you mean `{near}`?"));
    }
    d
}

/// Prints every value with its type and the reason for it.
fn placement(built: &Built) -> String {
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

/// Prints the memory map of a rank's window domain.
fn window(s: &Schedule) -> String {
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
