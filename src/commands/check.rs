//! `kbc check`: proof without execution. A `.kir` file: its schedule as it stands. A file with a program: its schedule.
//! A file of algorithms, or the library: each of them on many shapes ([`super::algorithms`]). A `.tile` file:
//! [`super::tile`]. PyTorch programs: [`super::torch`].

use super::compile::{begin, finish};
use super::{algorithms, refuse, tile, torch};
use crate::analyse;
use crate::build::build;
use crate::cli::{Check, Source, Watch};
use crate::report::{Report, SCHEMA};
use crate::session::{Outcome, Session};
use kbc_diag::{Diagnostic, Span};
use kbc_frontend::ast::Item;
use kbc_frontend::lower::only_called;
use kbc_rounds::AlgId;

/// Proves what the file says, or what the library says.
///
/// # Errors
/// What is wrong with it.
pub fn run(session: &mut Session, args: &Check) -> Outcome {
    let torch = args.file.as_deref().is_some_and(torch::is_one);
    if args.sync && torch {
        refuse(&[("--sync", true)], "PyTorch programs")?;
    }
    if torch {
        return torch::check(session, args);
    }
    no_torch(args)?;
    refuse(&[("a second file", !args.more.is_empty())], args.file.as_deref().unwrap_or("the library"))?;
    if args.sync {
        return super::sync::run(session, args);
    }
    let source = args.source();
    if args.file.is_none() {
        super::import::no_post(&source)?;
        refuse(&[("--program", source.of.program.is_some())], "the library")?;
        tile::no_target(args.target.as_ref(), "the library")?;
        let library = super::library(session, &[])?;
        let ids = library.algorithms().collect();
        return several(session, args, &source, &library, ids, "");
    }
    if super::import::is_one(session, &source.file) {
        return super::import::check(session, args);
    }
    super::import::no_post(&source)?;
    if source.file.ends_with(".tile") {
        return tile::check(session, args);
    }
    tile::no_target(args.target.as_ref(), &source.file)?;
    if source.file.ends_with(".kir") {
        return schedule(session, args, &source);
    }
    let loaded = super::load_file(session, &source.file)?;
    let root = loaded.root.unwrap_or_default();
    let has_program = loaded
        .file(root)
        .is_some_and(|f| f.tree().items.iter().any(|i| matches!(i, Item::Program(_) | Item::Local(_))));
    let called = source.of.program.is_none() && only_called(&loaded, root);
    if has_program && !called || source.of.program.is_some() {
        let built = build(session, &source, "default", &Watch::default())?;
        let Some(schedule) = built.module.schedule() else { return Ok(()) };
        let mut report = begin("check", &source.file, &built, schedule);
        report.verified = Some(analyse::prove(&built, schedule)?);
        report.ok = true;
        return finish(session, &report, args.report, true);
    }
    let ids = loaded.library.algorithms_in(root);
    // Kernels, functions and collectives alone have been read and resolved: there is nothing more to prove.
    let declares = loaded.file(root).is_some_and(|f| !f.tree().items.is_empty())
        || loaded.library.functions_in(root).next().is_some()
        || loaded.library.collectives_in(root).next().is_some();
    if ids.is_empty() && !declares {
        return Err(Diagnostic::error(
            "E416",
            format!("{} has no program and no algorithm to check", source.file),
        )
        .primary(Span::new(root, 0, 0), "nothing here")
        .into());
    }
    several(session, args, &source, &loaded.library, ids, &source.file)
}

/// Refuses what is said of PyTorch programs alone.
fn no_torch(args: &Check) -> Outcome {
    let of = &args.groups;
    let flags = [
        ("--group", !of.group.is_empty()),
        ("--weights", of.weights.is_some()),
        ("--reference", of.reference.is_some()),
    ];
    refuse(&flags, args.file.as_deref().unwrap_or("the library"))
}

/// Algorithms, on their shapes.
fn several(
    session: &mut Session,
    args: &Check,
    source: &Source,
    library: &kbc_rounds::Library,
    mut ids: Vec<AlgId>,
    file: &str,
) -> Outcome {
    let wanted = source.of.algorithm.as_deref();
    ids.retain(|id| wanted.is_none_or(|n| library.algorithm(*id).name.node == n));
    if let (true, Some(name)) = (ids.is_empty(), wanted) {
        let place = if file.is_empty() { "the library" } else { file };
        return Err(Diagnostic::error("E416", format!("{place} has no algorithm `{name}` to check"))
            .help("kbc list")
            .into());
    }
    let mut report =
        Report { schema: SCHEMA, command: "check", file: file.into(), ok: true, ..Report::default() };
    report.algorithms = algorithms::check(session, library, &ids, source)?;
    finish(session, &report, args.report, true)
}

/// A schedule as text: verified and proven as it stands.
fn schedule(session: &mut Session, args: &Check, source: &Source) -> Outcome {
    super::refuse(&[("--set", !source.of.set.is_empty())], "the proof of a schedule")?;
    if let Some(shape) = &source.of.topology {
        return Err(Diagnostic::error(
            "E416",
            format!("--topology {shape} means nothing for the proof of a schedule"),
        )
        .help("kbc run times a .kir on a machine")
        .into());
    }
    let module = super::read_schedule(session, source)?;
    let Some(schedule) = module.schedule() else { return Ok(()) };
    let mut report = super::about_schedule("check", &source.file, &module, schedule);
    report.verified = Some(analyse::verify(schedule)?);
    report.ok = true;
    finish(session, &report, args.report, true)
}
