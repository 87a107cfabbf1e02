//! Sized: the options that put a program on a given number of ranks, or give its data a size, where
//! the user names the number and not the parameter.

use crate::arguments::lower_options;
use crate::build::build;
use crate::emit::sizes::count_parameter;
use crate::failure::{Failure, Outcome};
use crate::options::{Selection, Source};
use crate::watch::Unwatched;
use crate::workspace::Workspace;
use kbc_diag::Diagnostic;
use kbc_frontend::ast::Item;
use kbc_frontend::load::load;
use kbc_frontend::lower::{LowerOptions, compiles_algorithm, ranks};
use kbc_ir::schedule::Schedule;
use kbc_tiles::backend::Target;

/// Returns the options with which a program runs on `wanted` ranks. They set the first parameter of
/// its file that defines the number, or `--ranks` for an algorithm. A machine of the command line
/// stays as it is; [`fits`] says later whether it has that number.
///
/// # Errors
/// Returns E412 for a file that cannot be read, and E416 if no parameter defines the number. Other
/// errors of the program are left to whoever builds it.
pub fn on_ranks(workspace: &Workspace, source: &Source, wanted: u64) -> Outcome<Selection> {
    let mut of = source.of.clone();
    if of.topology.is_some() || of.ranks.is_some() {
        return Ok(of);
    }
    let workspace = &mut workspace.silent();
    let (file, text) = workspace.read(&source.file)?;
    let (loaded, found) = load(Some((file, text.to_string())), workspace);
    let Ok(options) = lower_options(workspace, &of) else { return Ok(of) };
    let options = LowerOptions { program: of.program.clone(), ..options };
    if found.has_errors() {
        return Ok(of);
    }
    if of.algorithm.is_some() || compiles_algorithm(&loaded, &options) {
        of.ranks = Some(wanted.to_string());
        return Ok(of);
    }
    let Ok(own) = ranks(&loaded, &options) else { return Ok(of) };
    if own == wanted {
        return Ok(of);
    }
    let defines = |name: &str| {
        let mut options = options.clone();
        options.defines.push((name.to_owned(), wanted.to_string()));
        ranks(&loaded, &options).is_ok_and(|n| n == wanted)
    };
    let items = loaded.file(file).map_or(&[][..], |f| &f.tree().items);
    let free = items.iter().filter_map(|item| match item {
        Item::Param(p) if options.defines.iter().all(|d| d.0 != p.name.node) => Some(p.name.node.as_str()),
        _ => None,
    });
    let Some(name) = free.into_iter().find(|name| defines(name)) else {
        return Err(other_ranks(wanted, own));
    };
    of.define.push(format!("{name}={wanted}"));
    Ok(of)
}

/// Checks whether a schedule has the number of ranks that the user wants.
///
/// # Errors
/// Returns E416 for another number.
pub fn fits(schedule: &Schedule, wanted: Option<u64>) -> Outcome {
    let own = schedule.mesh.ranks();
    match wanted {
        Some(wanted) if wanted != own => Err(other_ranks(wanted, own)),
        _ => Ok(()),
    }
}

fn other_ranks(wanted: u64, own: u64) -> Failure {
    let d = Diagnostic::error("E416", format!("-n {wanted}: the program runs on {own} ranks"))
        .note("no parameter that the command line leaves open sets that number alone")
        .help(format!("give it a machine of {wanted} ranks, --topology 'full({wanted})', or leave -n out"));
    Failure::Usage(d.into())
}

/// Returns the options with which the data of a program has the size `count`: they set the
/// parameter that is the element count of its kernel.
///
/// # Errors
/// Returns E416 if the sizes of its data depend on no such parameter, or the command line sets it.
/// Errors of the program are left to whoever builds it.
pub fn with_count(
    workspace: &Workspace,
    source: &Source,
    target: &'static dyn Target,
    count: u64,
) -> Outcome<Selection> {
    let mut of = source.of.clone();
    let workspace = &mut workspace.silent();
    let Ok(built) = build(workspace, source, target.pipeline(), &mut Unwatched) else { return Ok(of) };
    let Some(schedule) = built.module.schedule().filter(|_| built.local.is_none()) else { return Ok(of) };
    let usage = |d: Diagnostic| Err(Failure::Usage(d.into()));
    match count_parameter(workspace, &built, schedule, target) {
        Err(_) => Ok(of),
        Ok(None) => usage(
            Diagnostic::error("E416", format!("-c {count}: all sizes of this program are fixed"))
                .note("no parameter changes the sizes of data and nothing else")
                .help("leave -c out, or set the parameters by their names, -D NAME=VALUE"),
        ),
        Ok(Some(name)) if built.origin.options.defines.iter().any(|d| d.0 == name) => {
            let title = format!("-c {count} and -D {name} both set the size of the data");
            usage(Diagnostic::error("E416", title).help("remove one of them"))
        }
        Ok(Some(name)) => {
            of.define.push(format!("{name}={count}"));
            Ok(of)
        }
    }
}
