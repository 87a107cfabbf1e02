//! Check: proof without execution, of programs, schedules, and the algorithms of a file or of the
//! library.

pub mod algorithms;
pub mod grid;
pub mod programs;

use crate::about::{about_schedule, begin};
use crate::analyse;
use crate::build::build;
use crate::failure::Outcome;
use crate::load::{self, read_schedule, refuse};
use crate::machine::own_machine;
use crate::options::Source;
use crate::report::{Report, SCHEMA};
use crate::watch::Unwatched;
use crate::workspace::Workspace;
use algorithms::RequestedAlgorithms;
use kbc_diag::{Diagnostic, Span};
use kbc_frontend::ast::Item;
use kbc_frontend::lower::{is_generic, only_called, uncalled_kernels};

/// Checks the algorithms of the library.
///
/// # Errors
/// What is wrong with them; E416 for what means nothing for algorithms.
pub fn library(workspace: &mut Workspace, source: &Source) -> Outcome<Report> {
    refuse(&[("--program", source.of.program.is_some())], "the library")?;
    let library = load::library(workspace, &[], &[])?;
    let ranks = algorithms::ranks(source, None)?;
    let ids = library.algorithms().collect();
    let named = algorithms::requested(workspace, &library, None, ids, source)?;
    let mut report = Report { schema: SCHEMA, command: "check", ok: true, ..Report::default() };
    report.algorithms = algorithms::check(workspace, &library, &named, ranks.as_deref())?.0;
    Ok(report)
}

/// Checks a `.kb` file: the schedule of its program, its other programs by calls of them, and its
/// algorithms on many shapes. What nothing says anything about is in the report: programs that are
/// not called, and [`Report::unchecked`].
///
/// # Errors
/// What is wrong with any of them; E416 for a file with nothing to check.
pub fn file(workspace: &mut Workspace, source: &Source) -> Outcome<Report> {
    let loaded = load::load_file(workspace, &source.file)?;
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
        let built = build(workspace, source, "default", &mut Unwatched)?;
        let schedule = built.schedule()?;
        report = begin("check", &source.file, &built, schedule);
        report.verified = Some(analyse::prove(workspace, &built, schedule)?);
        report.ok = true;
        let graphs = std::iter::once(&built.typed)
            .chain(built.local.iter().flat_map(|l| l.parts.iter().map(|p| &p.graph)));
        let names = graphs.flat_map(|g| g.called()).map(|c| c.program.to_string());
        done = programs::participating(&built.module.name, &built.origin, names);
        true
    } else {
        // Only programs have machines. For algorithms, `ranks` reports each flag.
        if !has_program || asked {
            algorithms::ranks(source, Some(&loaded))?;
        } else {
            let flags = [
                ("--ranks", source.of.ranks.is_some()),
                ("--using", !source.of.using.is_empty()),
                ("--order", source.of.order.is_some()),
                ("--effort", source.of.effort.is_some()),
                ("--fuse", source.of.fuse.is_some()),
            ];
            refuse(&flags, "programs whose arguments only a call defines")?;
            programs::known(&loaded, source)?;
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
        report.programs = programs::check(workspace, &loaded, source, &done)?;
    }
    let mut unchecked: Vec<String> = vec![];
    if source.of.program.is_none() {
        // If a program is built, `-D`, `--using` and `--ranks` apply to the program.
        let ranks = match has_program && !asked {
            true => None,
            false => algorithms::ranks(source, Some(&loaded))?,
        };
        let library = algorithms::declarations(source, &loaded)?;
        let named = match built {
            true => RequestedAlgorithms { ids, asked: None, beside: true },
            false => algorithms::requested(workspace, &library, Some(root), ids, source)?,
        };
        let (rows, unfit) = algorithms::check(workspace, &library, &named, ranks.as_deref())?;
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
    Ok(report)
}

/// Checks a `.kir` schedule: verified and proven as it stands.
///
/// # Errors
/// What is wrong with it; E416 for what means nothing for a schedule.
pub fn schedule(workspace: &mut Workspace, source: &Source) -> Outcome<Report> {
    refuse(&[("--set", !source.of.set.is_empty())], "the proof of a schedule")?;
    if let Some(shape) = &source.of.topology {
        return Err(Diagnostic::error(
            "E416",
            format!("--topology {shape} does not apply to the proof of a schedule"),
        )
        .help("use kbc run to time a .kir file on a machine")
        .into());
    }
    let module = read_schedule(workspace, source)?;
    let none = || Diagnostic::error("E991", "the text has no schedule");
    let schedule = module.schedule().ok_or_else(none)?;
    own_machine(workspace, source, &module, schedule)?;
    let mut report = about_schedule("check", &source.file, &module, schedule);
    report.verified = Some(analyse::verify(workspace, schedule)?);
    report.ok = true;
    Ok(report)
}
