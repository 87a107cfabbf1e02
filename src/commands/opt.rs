//! `kbc opt`: runs passes on a `.kir` or `.tile` text.

use super::tile;
use crate::cli::Opt;
use crate::crash::{self, Stage};
use crate::outdir;
use crate::session::{Outcome, Session};
use crate::watch::{self, Watching};
use kbc_compiler::build::pipeline_of_machine;
use kbc_compiler::pipeline;
use kbc_compiler::simulated::Simulated;
use kbc_diag::Diagnostics;
use kbc_ir::text::{self, PrintOptions};
use kbc_ir::{Body, dot};
use kbc_machine::topology::Topology;
use kbc_passes::PassCx;
use std::path::Path;

/// Reads, runs passes and writes.
///
/// # Errors
/// Returns the errors of the text, of the passes and of writing the result.
pub fn run(session: &mut Session, args: &Opt) -> Outcome {
    watch::forced(&args.watch, false)?;
    if tile::is_one(session, &args.file) {
        return tile::opt(session, args);
    }
    tile::no_target(args.target.as_ref(), &args.file)?;
    let (file, mut module) = kbc_compiler::load::load_kir(session, &args.file)?;
    let text = session.map.get(file).map_or("", |f| &f.text).to_owned();
    // The file of a crash states the remaining passes, or another subcommand.
    if args.passes.is_none()
        && let Some(outcome) = super::replay::by_first_line(session, &args.file, &text)
    {
        return outcome;
    }
    let passes = args.passes.clone().or_else(|| watch::replays(&text)).unwrap_or_else(|| "default".into());
    let library = kbc_compiler::load::library(session, &args.uses)?;
    let topology = match &module.machine {
        Some(machine) => {
            let machine = machine.clone();
            let at = session.add_text("<machine>", &machine);
            Some(Topology::parse(&machine, at).map_err(Diagnostics::from)?)
        }
        None => None,
    };
    // The same conditions as in `kbc compile`: its pipeline for this machine, and its clock.
    let time = topology.as_ref().map(|topology| Simulated { topology });
    let mut cx = PassCx::new(&library, topology.as_ref());
    if let Some(time) = &time {
        cx = cx.with_time(time);
    }
    let passes = match &topology {
        Some(t) => pipeline_of_machine(&passes, t),
        None => &passes,
    };
    let mut watching = Watching::new(&args.watch, vec![]);
    pipeline::run(session, &mut module, passes, &cx, &mut watching, None)?;
    crash::stage(Stage::Emit);
    let text = if args.emit == "json" {
        text::json(&module)
    } else if args.emit == "dot" {
        match &module.body {
            Body::Graph(g) => dot::graph_dot(g),
            Body::Local(l) => dot::local_dot(l),
            Body::Schedule(s) => dot::schedule_dot(s),
        }
    } else {
        text::print(&module, &PrintOptions { locs: args.locs })
    };
    if args.output == "-" {
        session.print_artefact(&text);
    } else {
        outdir::write_file(Path::new(&args.output), text.as_bytes())?;
    }
    Ok(())
}
