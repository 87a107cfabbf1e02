//! `kbc check`: proves without executing. The input is a `.kir` file with a schedule, a file with a
//! program, a file of algorithms or the library ([`super::algorithms`], on many shapes), a `.tile`
//! file ([`super::tile`]), or PyTorch programs ([`super::torch`]).

use super::algorithms::Named;
use super::compile::{finish, show};
use super::{algorithms, programs, tile, torch};
use crate::analyse;
use crate::build::build;
use crate::cli::{Check, Source};
use crate::report::{ProgramReport, Report, SCHEMA};
use crate::session::{Outcome, Session};
use kbc_compiler::about::begin;
use kbc_compiler::load::refuse;
use kbc_compiler::watch::Unwatched;
use kbc_diag::{Diagnostic, Span};
use kbc_frontend::ast::Item;
use kbc_frontend::lower::{is_generic, only_called, uncalled_kernels};

/// Proves the content of the file, or the library.
///
/// # Errors
/// Returns everything that is wrong.
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
        let library = kbc_compiler::load::library(session, &[])?;
        let ranks = algorithms::ranks(&source)?;
        let ids = library.algorithms().collect();
        let named = algorithms::asked(session, &library, None, ids, &source)?;
        let mut report = Report { schema: SCHEMA, command: "check", ok: true, ..Report::default() };
        report.algorithms = algorithms::check(session, &library, &named, ranks.as_deref())?.0;
        return finish(session, &report, args.report, true);
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
    let loaded = kbc_compiler::load::load_file(session, &source.file)?;
    let root = loaded.root.unwrap_or_default();
    let has_program = loaded
        .file(root)
        .is_some_and(|f| f.tree().items.iter().any(|i| matches!(i, Item::Program(_) | Item::Local(_))));
    let called = match &source.of.program {
        Some(name) => is_generic(&loaded, root, name),
        None => only_called(&loaded, root),
    };
    // An algorithm that is named is checked, whatever else the file contains.
    let asked = source.of.algorithm.is_some() && source.of.program.is_none();
    let mut report =
        Report { schema: SCHEMA, command: "check", file: source.file.clone(), ok: true, ..Report::default() };
    let mut done = vec![];
    let built = if (has_program || source.of.program.is_some()) && !called && !asked {
        let built = build(session, &source.plain(), "default", &mut Unwatched)?;
        let Some(schedule) = built.module.schedule() else { return Ok(()) };
        report = begin("check", &source.file, &built, schedule);
        report.verified = Some(analyse::prove(session, &built, schedule)?);
        report.ok = true;
        let graphs = std::iter::once(&built.typed)
            .chain(built.local.iter().flat_map(|l| l.parts.iter().map(|p| &p.graph)));
        let names = graphs.flat_map(|g| g.called()).map(|c| c.program.to_string());
        done = programs::taken(&built.module.name, &built.origin, names);
        true
    } else {
        // Only programs have machines. For algorithms, `ranks` reports each flag.
        if !has_program || asked {
            algorithms::ranks(&source)?;
        } else {
            let flags = [("--ranks", source.of.ranks.is_some()), ("--using", !source.of.using.is_empty())];
            refuse(&flags, "programs whose arguments only a call defines")?;
            programs::known(&loaded, &source)?;
        }
        false
    };
    let ids = loaded.library.algorithms_in(root);
    // Kernels, functions and collectives alone have been parsed and resolved; there is nothing more
    // to prove.
    let declares = loaded.file(root).is_some_and(|f| !f.tree().items.is_empty())
        || loaded.library.functions_in(root).next().is_some()
        || loaded.library.collectives_in(root).next().is_some();
    if ids.is_empty() && !declares {
        return Err(Diagnostic::error(
            "E416",
            format!("{} has no program and no algorithm to check", source.file),
        )
        .primary(Span::new(root, 0, 0), "in this file")
        .into());
    }
    if has_program && !asked {
        report.programs = programs::check(session, &loaded, &source, &done)?;
    }
    let mut unchecked: Vec<String> = vec![];
    if source.of.program.is_none() {
        // If a program is built, `-D`, `--using` and `--ranks` apply to the program.
        let ranks = if has_program && !asked { None } else { algorithms::ranks(&source)? };
        let named = match built {
            true => Named { ids, asked: None, beside: true },
            false => algorithms::asked(session, &loaded.library, Some(root), ids, &source)?,
        };
        let (rows, unfit) = algorithms::check(session, &loaded.library, &named, ranks.as_deref())?;
        report.algorithms = rows;
        let used = |n: &String| {
            let label = |l: &str| l.split('(').next() == Some(n.as_str());
            report.collectives.iter().any(|c| label(&c.algorithm))
        };
        let unused = unfit.into_iter().filter(|n| !used(n));
        unchecked.extend(unused.map(|n| {
            format!("algorithm {n}: not checked, because it is not defined for any of the usual shapes and the program does not use it")
        }));
    }
    // A tile kernel has a meaning only where it is called.
    let kernels = uncalled_kernels(&loaded, root).into_iter().filter(|_| !asked);
    unchecked.extend(kernels.map(|k| format!("kernel {k}: not checked, because no program here calls it")));
    report.unchecked = unchecked;
    let skipped: Vec<&ProgramReport> = report.programs.iter().filter(|p| p.not_checked.is_some()).collect();
    if skipped.is_empty() && report.unchecked.is_empty() {
        return finish(session, &report, args.report, true);
    }
    let names: Vec<String> = skipped.iter().map(|p| format!("`{}`", p.program)).collect();
    let mut d = Diagnostic::error("E432", format!("{}: some parts were not checked", source.file));
    if !names.is_empty() {
        d = d.note(format!("not called: {}", names.join(", ")));
        d = d.help("call it from a program with suitable sizes, and check that program");
    }
    for u in &report.unchecked {
        d = d.note(u.clone());
    }
    report.ok = false;
    show(session, &report, args.report)?;
    Err(d.into())
}

/// Rejects arguments that apply only to PyTorch programs.
fn no_torch(args: &Check) -> Outcome {
    let of = &args.groups;
    let flags = [
        ("--group", !of.group.is_empty()),
        ("--weights", of.weights.is_some()),
        ("--reference", of.reference.is_some()),
    ];
    refuse(&flags, args.file.as_deref().unwrap_or("the library"))
}

/// Verifies and proves a schedule given as text.
fn schedule(session: &mut Session, args: &Check, source: &Source) -> Outcome {
    kbc_compiler::load::refuse(&[("--set", !source.of.set.is_empty())], "the proof of a schedule")?;
    if let Some(shape) = &source.of.topology {
        return Err(Diagnostic::error(
            "E416",
            format!("--topology {shape} does not apply to the proof of a schedule"),
        )
        .help("use kbc run to time a .kir file on a machine")
        .into());
    }
    let module = kbc_compiler::load::read_schedule(session, &source.plain())?;
    let Some(schedule) = module.schedule() else { return Ok(()) };
    kbc_compiler::machine::own_machine(session, &source.plain(), &module, schedule)?;
    let mut report = kbc_compiler::about::about_schedule("check", &source.file, &module, schedule);
    report.verified = Some(analyse::verify(session, schedule)?);
    report.ok = true;
    finish(session, &report, args.report, true)
}
