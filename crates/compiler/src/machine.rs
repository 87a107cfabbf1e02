//! The machine of a schedule that comes from text: the one that its text names, or the one of
//! `--topology`, with settings.
//!
//! The module refuses machines on which the schedule cannot run.

use crate::arguments::{self, Argument};
use crate::failure::Outcome;
use crate::load::refuse;
use crate::options::{Selection, Source};
use crate::workspace::Workspace;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Module;
use kbc_ir::schedule::Schedule;
use kbc_machine::memory;
use kbc_machine::policy::Placements;
use kbc_machine::topology::perturb::Perturb;
use kbc_machine::topology::{Described, Shape, Topology};
use kbc_time::device_each;

/// Reads the machine of a schedule that is only proven: it must be one that the schedule can run
/// on.
///
/// # Errors
/// Of reading it and of laying out windows in its memories; E371 for another number of devices.
pub fn own_machine(
    workspace: &mut Workspace,
    source: &Source,
    module: &Module,
    schedule: &Schedule,
) -> Outcome {
    match machine(workspace, &source.of, module.machine.as_ref(), Some(schedule))? {
        Some((topology, _)) => Ok(device_each(schedule.mesh.ranks(), &topology)?),
        None => Ok(()),
    }
}

/// Returns the machine of a schedule: that of `--topology`, or else its own, with the settings of
/// `--set`. A machine file without a shape changes the schedule's own machine.
///
/// # Errors
/// Of reading it and of laying out windows in its memories; E463 if nothing says its shape.
pub fn machine(
    workspace: &mut Workspace,
    asked: &Selection,
    own: Option<&String>,
    schedule: Option<&Schedule>,
) -> Outcome<Option<(Topology, Option<Perturb>)>> {
    let fits = |topology: &Topology, placements: &Placements| match schedule {
        Some(schedule) => memory::lay_out(schedule, topology, placements).map(|_| ()),
        None => Ok(()),
    };
    let set = arguments::settings(workspace, &asked.set)?;
    let Some(text) = asked.topology.as_ref().or(own) else {
        refuse(&[("--set", !asked.set.is_empty())], "a schedule without a machine")?;
        return Ok(None);
    };
    let (text, file) = match arguments::argument(workspace, "<machine>", text)? {
        Argument::Text(text, at) => {
            let own = Described::from(Topology::parse_shape(&text, at)?);
            // It has a shape.
            let topology = Described::stacked([own, set], Shape::Ring(1), Span::new(at, 0, text.len()))?;
            fits(&topology, &Placements::default())?;
            return Ok(Some((topology, None)));
        }
        Argument::File(text, file) => (text, file),
    };
    let at = file;
    let file = kbc_frontend::machine::read(&text, file)?;
    workspace.report(&file.warnings);
    let base = match own {
        Some(own) => {
            let at = workspace.add_text("<machine>", own);
            Described::from(Topology::parse_shape(own, at)?)
        }
        None => Described::default(),
    };
    let shape = file.shape.map(|s| s.node);
    if shape.is_none() && base.shape.is_none() {
        return Err(Diagnostic::error("E463", "neither the machine file nor the schedule has a `shape`")
            .primary(Span::new(at, 0, 0), "this machine file")
            .help("add `shape: ring(8)` to the file")
            .into());
    }
    let own = Described { shape, settings: file.settings, links: file.links, routes: file.routes };
    // One of the first two has a shape.
    let topology = Described::stacked([base, own, set], Shape::Ring(1), Span::NONE)?;
    fits(&topology, &file.placements)?;
    Ok(Some((topology.with_placements(file.placements), file.perturb)))
}
