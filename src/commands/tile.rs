//! `.tile` texts: kernels of the tile level, which `kbc check` verifies and on which `kbc opt` runs
//! passes.

use super::output::write_as;
use crate::cli::{Check, Opt};
use crate::crash::{self, Stage};
use crate::outdir;
use crate::session::{Outcome, Session};
use crate::watch::{self, Watching};
use kbc_compiler::kernel::{self, KernelSource};
use kbc_compiler::load::refuse;
use kbc_tiles::tile::sync::SyncCounts;
use kbc_tiles::tile::text;
use std::path::Path;

pub use kbc_compiler::kernel::is_one;

/// Name of the input in messages about flags that do not apply.
const KIND: &str = "a .tile file";

/// Verifies a kernel that its passes have completed.
///
/// # Errors
/// Returns the errors of reading, and E449 to E456 and E459 at their lines.
pub fn check(session: &mut Session, args: &Check) -> Outcome {
    refuse(&args.of.plain().given(), KIND)?;
    let target = kernel::target(args.target.as_deref())?;
    let source = KernelSource::read(session, &args.source().file, target)?;
    let SyncCounts { all, all_in_tiles, pipe, flags, dsb } = source.check(session)?;
    let text = format!(
        "{}: verified for {}: {flags} flag pairs, {pipe} barriers of one pipe, {all} of all pipes \
         ({all_in_tiles} in loops over tiles), {dsb} dsb\nok\n",
        source.kernel.name,
        target.name()
    );
    let counts = serde_json::json!({
        "flag_pairs": flags,
        "barriers_of_one_pipe": pipe,
        "barriers_of_all_pipes": all,
        "of_them_in_loops": all_in_tiles,
        "dsb": dsb,
    });
    let json = serde_json::json!({
        "schema": 1,
        "command": "check",
        "file": args.source().file,
        "ok": true,
        "kernel": source.kernel.name.to_string(),
        "target": target.name(),
        "synchronisation": counts,
    });
    Ok(session.answer(&text, &json)?)
}

/// Runs passes. A kernel that is complete afterwards is verified.
///
/// # Errors
/// Returns the errors of reading, of names, of the passes, of the verifier and of writing the
/// result.
pub fn opt(session: &mut Session, args: &Opt) -> Outcome {
    let flags = [
        ("--use", !args.uses.is_empty()),
        ("-D", !args.define.is_empty()),
        ("--locs", args.locs),
        ("--emit dot", args.emit == "dot"),
    ];
    refuse(&flags, KIND)?;
    let target = kernel::target(args.target.as_deref())?;
    let wanted = watch::tile_passes(args.passes.as_deref())?;
    let after = watch::tile_watch(&args.watch)?;
    let mut source = KernelSource::read(session, &args.file, target)?;
    let dump = source.run_passes(session, &wanted, &mut Watching::new(&args.watch, after))?;
    if let Some(dir) = &args.watch.dump_dir {
        let files: Vec<_> = dump.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
        outdir::write(Path::new(dir), &files, args.watch.force)?;
    }
    source.verify_after(&wanted)?;
    crash::stage(Stage::Emit);
    write_as(session, "opt", &args.file, &args.output, &text::print(&source.kernel))
}
