//! `.tile` texts: kernels of the tile level, which `kbc check` verifies and on which `kbc opt` runs
//! passes.

use crate::cli::{Check, Opt, ReportFormat};
use crate::crash::{self, Stage};
use crate::outdir;
use crate::session::{Failure, Outcome, Session};
use crate::watch::{self, Watching};
use kbc_compiler::backends;
use kbc_compiler::emit;
use kbc_compiler::load::refuse;
use kbc_diag::{Diagnostic, Diagnostics, FileId};
use kbc_tiles::backend::Target;
use kbc_tiles::tile::sync::{self, SyncCounts};
use kbc_tiles::tile::verify::{in_text, problems};
use kbc_tiles::tile::{Kernel, parse, text};
use std::path::Path;

/// Checks whether a file is one, by its extension or by the first line of standard input.
pub fn is_one(session: &mut Session, path: &str) -> bool {
    if path != "-" {
        return path.ends_with(".tile");
    }
    let Ok((_, text)) = session.read(path) else { return false };
    let first = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with(';'));
    first.is_some_and(|l| l.starts_with("tile "))
}

fn usage<T>(d: Diagnostic) -> Outcome<T> {
    Err(Failure::Usage(d.into()))
}

/// Name of the input in messages about flags that do not apply.
const KIND: &str = "a .tile file";

fn profile(target: Option<&String>) -> Outcome<&'static dyn Target> {
    let Some(name) = target else { return Ok(backends::default_target()) };
    match emit::target(name)? {
        Some(profile) => Ok(profile),
        None => usage(
            Diagnostic::error("E416", format!("target {name} has no kernels"))
                .help("kbc list targets lists the targets for which kernels are emitted"),
        ),
    }
}

fn read(session: &mut Session, path: &str, target: &dyn Target) -> Outcome<(FileId, String, Kernel)> {
    let (file, text) = session.read(path)?;
    crash::stage(Stage::Read);
    let kernel = parse::parse(&text, file, target.dialect())?;
    Ok((file, text.to_string(), kernel))
}

/// Verifies a kernel that its passes have completed.
///
/// # Errors
/// Returns the errors of reading, and E449 to E456 and E459 at their lines.
pub fn check(session: &mut Session, args: &Check) -> Outcome {
    refuse(&args.of.plain().given(), KIND)?;
    refuse(&[("--report json", args.report == ReportFormat::Json)], KIND)?;
    let profile = profile(args.target.as_ref())?;
    let (file, text, kernel) = read(session, &args.source().file, profile)?;
    crash::stage(Stage::Check);
    let found = in_text(&kernel, problems(&kernel, profile), &text, file);
    if found.has_errors() {
        return Err(found.into());
    }
    let SyncCounts { all, all_in_tiles, pipe, flags, dsb } = sync::counts(&kernel);
    session.result(&format!(
        "{}: verified for {}: {flags} flag pairs, {pipe} barriers of one pipe, {all} of all pipes \
         ({all_in_tiles} in loops over tiles), {dsb} dsb\nok\n",
        kernel.name,
        profile.name()
    ));
    Ok(())
}

/// Runs passes. A kernel that is complete afterwards is verified.
///
/// # Errors
/// Returns the errors of reading, of names, of the passes, of the verifier and of writing the
/// result.
pub fn opt(session: &mut Session, args: &Opt) -> Outcome {
    let flags = [("--use", !args.uses.is_empty()), ("--locs", args.locs), ("--emit dot", args.emit == "dot")];
    refuse(&flags, KIND)?;
    let profile = profile(args.target.as_ref())?;
    let wanted = watch::tile_passes(args.passes.as_deref())?;
    let after = watch::tile_watch(&args.watch)?;
    let (file, source, mut kernel) = read(session, &args.file, profile)?;
    let mut names = problems(&kernel, profile);
    names.retain(|p| p.diagnostic.code == "E456");
    if !names.is_empty() {
        return Err(in_text(&kernel, names, &source, file).into());
    }
    crash::stage(Stage::Passes);
    let mut watching = Watching::new(&args.watch, after);
    let mut dump = vec![("00-input.tile".to_owned(), text::print(&kernel).into_bytes())];
    for (i, name) in wanted.iter().enumerate() {
        emit::run_passes(&mut kernel, profile, &mut watching, &|n| n == *name)?;
        dump.push((format!("{:02}-{name}.tile", i + 1), text::print(&kernel).into_bytes()));
    }
    if let Some(dir) = &args.watch.dump_dir {
        outdir::write(Path::new(dir), &dump, args.watch.force)?;
    }
    if wanted.len() == profile.backend().passes().len() {
        let list: Vec<Diagnostic> = problems(&kernel, profile).into_iter().map(|p| p.diagnostic).collect();
        if !list.is_empty() {
            return Err(Diagnostics { list }.into());
        }
    }
    crash::stage(Stage::Emit);
    let text = text::print(&kernel);
    write_text(session, &args.output, &text)?;
    Ok(())
}
