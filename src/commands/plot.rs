//! `kbc plot`: a machine as a picture, alone or with what a program makes of its links.

use super::compile::begin;
use super::run::machine;
use crate::analyse;
use crate::build::build;
use crate::cli::{Plot, PlotLinks, PlotTopology, PlotWhat, Selection, Watch};
use crate::diagram::{diagram, fits, used};
use crate::picture;
use crate::record::Wanted;
use crate::report::Report;
use crate::session::{Failure, Outcome, Session};
use kbc_backend_sim::time::TimeOptions;
use kbc_diag::Diagnostic;
use kbc_figures::Heading;
use kbc_figures::units::Quantity;
use kbc_ir::topology::Topology;

/// Draws a picture into a file.
///
/// # Errors
/// E590 to E591, those of the machine, of compiling and of timing; E410.
pub fn run(session: &mut Session, args: &Plot) -> Outcome {
    match &args.what {
        PlotWhat::Topology(args) => alone(session, args),
        PlotWhat::Links(args) => links(session, args),
    }
}

fn alone(session: &mut Session, args: &PlotTopology) -> Outcome {
    picture::check(&args.picture)?;
    let of =
        Selection { topology: Some(args.machine.clone()), set: args.set.clone(), ..Selection::default() };
    let Some((topology, _)) = machine(session, &of, None, None)? else { return Ok(()) };
    let (devices, links) = (topology.device_count(), topology.link_count());
    let subtitle = joined(&[format!("{devices} devices, {links} directed links"), settings(&topology)]);
    let heading = heading(topology.shape().to_string(), subtitle, &args.picture);
    picture::write(session, &args.picture, diagram(&topology, heading, &None).and_then(|d| d.draw()))
}

fn links(session: &mut Session, args: &PlotLinks) -> Outcome {
    picture::check(&args.picture)?;
    let source = args.source();
    let (mut report, module, topology) = if source.file.ends_with(".kir") {
        let module = super::read_schedule(session, &source)?;
        let Some(schedule) = module.schedule() else { return Ok(()) };
        let report = super::about_schedule("plot links", &source.file, &module, schedule);
        let Some((topology, _)) = machine(session, &source.of, module.machine.as_ref(), Some(schedule))?
        else {
            let d = Diagnostic::error("E416", format!("{} names no machine to be timed on", source.file))
                .help("say --topology");
            return Err(Failure::Usage(d.into()));
        };
        (report, module, topology)
    } else {
        let built = build(session, &source, "default", &Watch::default())?;
        let Some(schedule) = built.module.schedule() else { return Ok(()) };
        (begin("plot links", &source.file, &built, schedule), built.module, built.topology)
    };
    let Some(schedule) = module.schedule() else { return Ok(()) };
    fits(&topology).map_err(|f| picture::fault(&args.picture, f))?;
    let timing = analyse::time(
        session,
        &mut report,
        schedule,
        &topology,
        &Wanted::default(),
        &TimeOptions::default(),
    )?;
    let title = format!("Links in a call of {} on {}", report.program, topology.shape());
    let subtitle = joined(&[about(&report, timing.ns), settings(&topology)]);
    let heading = heading(title, subtitle, &args.picture);
    let shares = used(&topology, &timing);
    picture::write(session, &args.picture, diagram(&topology, heading, &Some(shares)).and_then(|d| d.draw()))
}

/// What was timed: collectives with their algorithms, the time, what the bound comes from.
fn about(report: &Report, ns: f64) -> String {
    const SHOWN: usize = 3;
    let mut parts: Vec<String> = report
        .collectives
        .iter()
        .take(SHOWN)
        .map(|c| format!("{} of {} by {}", c.operation, Quantity::Bytes.show(c.bytes as f64, 4), c.algorithm))
        .collect();
    if report.collectives.len() > SHOWN {
        parts.push(format!("{} more collectives", report.collectives.len() - SHOWN));
    }
    parts.push(format!("{} a call", Quantity::Time.show(ns, 4)));
    if let (Some(percent), Some(why)) = (report.percent, &report.bottleneck) {
        parts.push(format!("{} of the bound, which is {why}", Quantity::Percent.show(percent, 3)));
    }
    parts.join(", ")
}

/// The settings of a machine, without its shape; of a long list the first, as a list of links would fill the card.
fn settings(topology: &Topology) -> String {
    const MOST: usize = 160;
    let text = topology.to_string();
    let inner = text.strip_prefix(&topology.shape().to_string()).unwrap_or(&text);
    let parts: Vec<&str> =
        inner.trim_matches([' ', '{', '}']).split("; ").filter(|p| !p.is_empty()).collect();
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        if out.len() + part.len() > MOST {
            return format!("{out} and {} more settings", parts.len() - i);
        }
        out += if i > 0 { "; " } else { "" };
        out += part;
    }
    out
}

/// Parts of a sentence that are not empty.
fn joined(parts: &[String]) -> String {
    parts.iter().filter(|p| !p.is_empty()).map(String::as_str).collect::<Vec<_>>().join(". ")
}

fn heading(title: String, subtitle: String, picture: &crate::cli::Picture) -> Heading {
    Heading::new(title, subtitle).with_theme(picture::theme(picture))
}
