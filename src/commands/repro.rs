//! `kbc dev repro`: generates every figure and table of the documentation from sweeps and reference
//! files, or checks them.

use super::sweep::Rows;
use crate::checkout;
use crate::cli::Repro;
use crate::outdir;
use crate::session::{Failure, Outcome, Session, write_stderr};
use kbc_diag::Diagnostic;
use kbc_evaluation::repro::DocFile;
use kbc_evaluation::repro::make::{All, How, Page, make};
use std::path::Path;

/// Largest number of names in a message.
const NAMED: usize = 12;

/// Generates all files, and writes them or compares them with the existing ones.
///
/// # Errors
/// Returns E589 for the list and for markers in pages, E585 for rows that fail, E590 for figures,
/// and with `--check` E586 if anything is out of date.
pub fn run(session: &mut Session, args: &Repro) -> Outcome {
    let list_file = args.file.clone().unwrap_or_else(|| checkout::find("docs/repro.yaml"));
    let rows = Rows::new(session);
    let mut how = How { within: rows.within(None), hear: &mut write_stderr };
    let All { folder: out, files, pages } = make(session, &list_file, &mut how)?;
    if args.check {
        let off = drifted(&out, &files, &pages);
        if off.is_empty() {
            let text = format!("{} files and {} pages are up to date", files.len(), pages.len());
            return Ok(session.answer(&text, &json(&out, files.len(), pages.len(), 0))?);
        }
        let more = off.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let title = format!(
            "out of date compared with sweeps and reference files: {} of {}",
            off.len(),
            files.len() + pages.len()
        );
        let d = Diagnostic::error("E586", title)
            .note(format!("{}{more}", off[..off.len().min(NAMED)].join(", ")))
            .help(format!("write them with kbc dev repro {list_file}"));
        return Err(Failure::Program(d.into()));
    }
    let files: Vec<(String, Vec<u8>)> = files.into_iter().map(|m| (m.path, m.bytes)).collect();
    outdir::write(&out, &files, args.force)?;
    let mut written = 0;
    for Page { path, text, made } in &pages {
        if **text != *made {
            outdir::write_file(Path::new(path), made.as_bytes())?;
            written += 1;
        }
    }
    let text =
        format!("{} files in {}, {written} of {} pages changed", files.len(), out.display(), pages.len());
    Ok(session.answer(&text, &json(&out, files.len(), pages.len(), written))?)
}

fn json(out: &Path, files: usize, pages: usize, changed: usize) -> serde_json::Value {
    let output = out.to_string_lossy();
    serde_json::json!({
        "schema": 1, "command": "repro", "ok": true,
        "output": output, "files": files, "pages": pages, "changed": changed,
    })
}

/// Returns the files that differ, are missing, or are not generated any more.
fn drifted(out: &Path, folder: &[DocFile], pages: &[Page]) -> Vec<String> {
    let shown = |name: &str| out.join(name).to_string_lossy().into_owned();
    let mut off: Vec<String> = folder
        .iter()
        .filter(|m| std::fs::read(out.join(&m.path)).ok().as_ref() != Some(&m.bytes))
        .map(|m| shown(&m.path))
        .collect();
    let there = std::fs::read_dir(out).map(|d| d.flatten().map(|e| e.file_name()).collect::<Vec<_>>());
    let mut over: Vec<String> = there
        .unwrap_or_default()
        .iter()
        .map(|n| n.to_string_lossy().into_owned())
        .filter(|n| n != outdir::MANIFEST && folder.iter().all(|m| m.path != *n))
        .map(|n| format!("{} (no sweep makes it)", shown(&n)))
        .collect();
    over.sort();
    off.extend(over);
    off.extend(pages.iter().filter(|p| *p.text != p.made).map(|p| p.path.clone()));
    off
}
