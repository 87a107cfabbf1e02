//! `kbc opt`: runs passes on a `.kir` or `.tile` text.

use super::output::write_as;
use super::{refusals, replay, tile};
use crate::cli::{Command, Opt};
use crate::crash::{self, Stage};
use crate::session::{Outcome, Session};
use crate::watch::{self, Watching};
use kbc_compiler::artefacts;
use kbc_compiler::build::pipeline_of_machine;
use kbc_compiler::ordered::Ordered;
use kbc_compiler::pipeline;
use kbc_compiler::rankings::Rankings;
use kbc_compiler::simulated::Simulated;
use kbc_diag::Diagnostics;
use kbc_ir::text::{self, PrintOptions};
use kbc_machine::topology::Topology;
use kbc_passes::{PassCx, RankingStore};

/// Reads, runs passes and writes. If the text is from a crash of another subcommand, nothing is
/// done, and that command is returned.
///
/// # Errors
/// Returns the errors of the text, of the passes and of writing the result.
pub fn run(session: &mut Session, args: &Opt) -> Outcome<Option<Command>> {
    watch::forced(&args.watch, false)?;
    if tile::is_one(session, &args.file) {
        return tile::opt(session, args).map(|()| None);
    }
    refusals::no_target(args.target.as_ref(), &args.file)?;
    let (file, mut module) = kbc_compiler::load::load_kir(session, &args.file)?;
    let text = session.map.get(file).map_or("", |f| &f.text).to_owned();
    // The file of a crash states the remaining passes, or another subcommand.
    if args.passes.is_none()
        && let Some(command) = replay::in_first_line(session, &args.file, &text)?
    {
        return Ok(Some(command));
    }
    let passes = args.passes.clone().or_else(|| watch::replays(&text)).unwrap_or_else(|| "default".into());
    let library = kbc_compiler::load::library(session, &args.uses, &args.define)?;
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
    let mut cx = PassCx::new(&library, topology.as_ref()).with_order(&Ordered, false);
    let environment = session.environment.clone();
    let rankings = environment.cache().map(Rankings::new);
    cx = cx.with_rankings(rankings.as_ref().map(|r| r as &dyn RankingStore));
    if let Some(time) = &time {
        cx = cx.with_time(time);
    }
    let passes = match &topology {
        Some(t) => pipeline_of_machine(&passes, t),
        None => &passes,
    };
    let mut watching = Watching::new(&args.watch, vec![]);
    pipeline::run(session, &mut module, passes, &cx, &mut watching, None)?;
    if let Some(damaged) = rankings.as_ref().and_then(Rankings::damaged) {
        session.report(&damaged.into());
    }
    crash::stage(Stage::Emit);
    let text = match args.emit.as_str() {
        "dot" => artefacts::picture(&module),
        "json" => text::json(&module),
        _ => text::print(&module, &PrintOptions { locs: args.locs }),
    };
    write_as(session, "opt", &args.file, &args.output, &text)?;
    Ok(None)
}
