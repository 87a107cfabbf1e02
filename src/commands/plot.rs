//! `kbc plot`: a picture of a machine, alone or with the use of its links by a program.

use crate::cli::{Plot, PlotLinks, PlotTopology, PlotWhat, Selection, Source};
use crate::diagram::{diagram, fits, used};
use crate::measure::ready;
use crate::picture;
use crate::report::Report;
use crate::session::{Outcome, Session};
use kbc_compiler::machine::machine;
use kbc_figures::units::Quantity;
use kbc_figures::{Figure, Heading, Theme};
use kbc_machine::topology::{Topology, brief};

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
    let Some((topology, _)) = machine(session, &of.plain(), None, None)? else { return Ok(()) };
    let (devices, links) = (topology.device_count(), topology.link_count());
    let subtitle = joined(&[format!("{devices} devices, {links} directed links"), settings(&topology)]);
    let heading = Heading::new(topology.shape().to_string(), subtitle).with_theme(args.picture.theme.into());
    picture::write(session, &args.picture, diagram(&topology, heading, &None).and_then(|d| d.draw()))
}

fn links(session: &mut Session, args: &PlotLinks) -> Outcome {
    picture::check(&args.picture)?;
    let drawn = call(session, &args.source(), &args.picture.out, args.picture.theme.into())?;
    picture::write(session, &args.picture, Ok(drawn))
}

/// Returns the machine of a program with the use of every link in a call; `name` is its name in
/// messages.
///
/// # Errors
/// Returns the errors of building, proving and timing, and E590.
pub fn call(session: &mut Session, source: &Source, name: &str, theme: Theme) -> Outcome<Figure> {
    let fault = |f| picture::fault(name, &f);
    let ready = ready(session, &source.plain())?;
    let topology = ready.topology();
    fits(topology).map_err(fault)?;
    ready.prove(session)?;
    let (report, timing) = ready.timed(session, "plot links", &source.file)?;
    let title = format!("Links in a call of {} on {}", report.program, topology.shape());
    let subtitle = joined(&[about(&report, timing.ns), settings(topology)]);
    let heading = Heading::new(title, subtitle).with_theme(theme);
    let shares = used(topology, &timing);
    Ok(diagram(topology, heading, &Some(shares)).and_then(|d| d.draw()).map_err(fault)?)
}

/// Returns the subject of the figure: collectives with their algorithms, the time, and the reason
/// for the bound.
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
        parts.push(format!("{} of the bound ({why})", Quantity::Percent.show(percent, 3)));
    }
    parts.join(", ")
}

/// Returns the settings of a machine without its shape. Only the first entries of a long list are
/// shown, because a list of links would fill the picture.
fn settings(topology: &Topology) -> String {
    const MOST: usize = 160;
    let text = brief(&topology.to_string());
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

/// Returns the parts of a sentence that are not empty.
fn joined(parts: &[String]) -> String {
    parts.iter().filter(|p| !p.is_empty()).map(String::as_str).collect::<Vec<_>>().join(". ")
}
