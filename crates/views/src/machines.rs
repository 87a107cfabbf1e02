//! Pictures of a machine: its links alone, with their use by a program, or with a packed tree.

use crate::diagram::{diagram, fits, mark_tree, used};
use crate::picture::fault;
use kbc_compiler::failure::{Failure, Outcome};
use kbc_compiler::measure::{MeasuredSchedule, ready};
use kbc_compiler::options::Source;
use kbc_compiler::report::Report;
use kbc_compiler::synthesis::trees_on_machine;
use kbc_compiler::workspace::Workspace;
use kbc_diag::Diagnostic;
use kbc_figures::units::Quantity;
use kbc_figures::{Fault, Figure, Heading, Theme};
use kbc_machine::topology::{Topology, brief};

/// Draws a machine: its nodes and directed links.
///
/// # Errors
/// Returns a fault for a machine with more nodes than can be told apart.
pub fn machine(topology: &Topology, theme: Theme) -> Result<Figure, Fault> {
    let (devices, links) = (topology.device_count(), topology.link_count());
    let subtitle = joined(&[format!("{devices} devices, {links} directed links"), settings(topology)]);
    let heading = Heading::new(topology.shape().to_string(), subtitle).with_theme(theme);
    diagram(topology, heading, &None).and_then(|d| d.draw())
}

/// Draws the machine of a program with the use of every link during one call. Messages call the
/// picture `name`.
///
/// # Errors
/// Returns the errors of building, proving and timing, and E590.
pub fn links(workspace: &mut Workspace, source: &Source, name: &str, theme: Theme) -> Outcome<Figure> {
    let fault = |f| fault(name, &f);
    let ready = ready(workspace, source)?;
    let topology = ready.topology();
    fits(topology).map_err(fault)?;
    ready.prove(workspace)?;
    let (report, timing) = ready.timed(workspace, "plot links", &source.file)?;
    let title = format!("Links in a call of {} on {}", report.program, topology.shape());
    let subtitle = joined(&[about(&report, timing.ns), settings(topology)]);
    let heading = Heading::new(title, subtitle).with_theme(theme);
    let shares = used(topology, &timing);
    Ok(diagram(topology, heading, &Some(shares)).and_then(|d| d.draw()).map_err(fault)?)
}

/// Draws one of the packed trees of a program on its machine: the one with this number, counted
/// from 1 over all collectives. Messages call the picture `name`.
///
/// # Errors
/// Returns the errors of building, E416 where there is no such tree, and E590.
pub fn tree(
    workspace: &mut Workspace,
    source: &Source,
    (number, name): (usize, &str),
    theme: Theme,
) -> Outcome<Figure> {
    let fault = |f| fault(name, &f);
    let ready = ready(workspace, source)?;
    let topology = ready.topology();
    fits(topology).map_err(fault)?;
    let trees = match &ready {
        MeasuredSchedule::Program(built) => trees_on_machine(built),
        MeasuredSchedule::Schedule(_) => vec![],
    };
    let count = trees.len();
    let Some(tree) = number.checked_sub(1).and_then(|i| trees.get(i)) else {
        let why = match count {
            0 => format!("no collective of {} uses packed trees", source.file),
            _ => format!("there is no tree {number}: {} has {count}", source.file),
        };
        let help = match count {
            0 => "`--using packed` asks for packed trees; a schedule (.kir) does not say its trees",
            _ => "trees count from 1 over all collectives",
        };
        return Err(Failure::Usage(Diagnostic::error("E416", why).help(help).into()));
    };
    let steps = tree.edges.iter().map(|e| e.step).max().unwrap_or(0);
    let alike = if tree.alike == 1 { "1 tree".to_owned() } else { format!("{} alike", tree.alike) };
    let about = format!(
        "tree {number} of {count} of {}, {alike}, root {}, depth {steps}",
        tree.name,
        topology.name(tree.root)
    );
    let heading =
        Heading::new(format!("Packed trees on {}", topology.shape()), joined(&[about, settings(topology)]))
            .with_theme(theme);
    let mut drawn = diagram(topology, heading, &None).map_err(fault)?;
    mark_tree(&mut drawn, topology, tree);
    Ok(drawn.draw().map_err(fault)?)
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
    const MAX_CHARACTERS: usize = 160;
    let text = brief(&topology.to_string());
    let inner = text.strip_prefix(&topology.shape().to_string()).unwrap_or(&text);
    let parts: Vec<&str> =
        inner.trim_matches([' ', '{', '}']).split("; ").filter(|p| !p.is_empty()).collect();
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        if out.len() + part.len() > MAX_CHARACTERS {
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
