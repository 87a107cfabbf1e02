//! Output of the verbs: reports, texts and results, and the values of `--emit` that request them.

use crate::cli::{Data, Execution};
use crate::crash::{self, Stage};
use crate::outdir;
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::data;
use kbc_compiler::report::{Report, human};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::types::TensorType;
use kbc_numerics::shard::Part;
use kbc_views::record::Wanted;
use serde_json::json;
use std::path::Path;

/// Prints a report. A report that is not ok gives exit code 1.
///
/// # Errors
/// Returns E430 if a comparison failed.
pub fn finish(session: &Session, report: &Report, print: bool) -> Outcome {
    crash::stage(Stage::Report);
    if print {
        show(session, report)?;
    }
    if report.ok {
        return Ok(());
    }
    Err(Failure::Program(Diagnostics::from(
        Diagnostic::error("E430", format!("{}: the results are wrong", report.file))
            .note("the report lists the wrong elements"),
    )))
}

/// Writes a report to standard output.
///
/// # Errors
/// E991: it cannot be written as JSON.
pub fn show(session: &Session, report: &Report) -> Outcome {
    Ok(session.answer(&human(report), report)?)
}

/// Parses `KIND[=PATH]`, where the path `-` is standard output. Unless code is emitted, the path of
/// `--output` is that of the only artefact without one.
///
/// # Errors
/// Returns E416 for an unknown kind, and for a path of `--output` that belongs to nothing.
pub fn artefacts(how: &Execution, kinds: &[&'static str], emits: bool) -> Outcome<Vec<(String, String)>> {
    let place = if emits { None } else { how.data.place()? };
    let open = how.emit.iter().filter(|e| !e.contains('=')).count();
    if let (Some(place), true) = (place, open != 1) {
        let title = format!("--output {place} does not say what is written there");
        return Err(Failure::Usage(
            Diagnostic::error("E416", title)
                .help("write --output NAME=FILE for a result, --emit kir --output FILE for an artefact, or --target for code")
                .into(),
        ));
    }
    let mut out = vec![];
    for e in &how.emit {
        let (kind, path) = e.split_once('=').unwrap_or((e, place.unwrap_or("-")));
        if !kinds.contains(&kind) {
            let mut d = Diagnostic::error("E416", format!("unknown output `{kind}` of --emit"))
                .note(format!("the outputs are {}", kinds.join(", ")));
            if let Some(near) = nearest(kind, kinds.iter().copied()) {
                d = d.help(format!("did you mean `{near}`?"));
            }
            return Err(Failure::Usage(d.into()));
        }
        out.push((kind.to_owned(), path.to_owned()));
    }
    Ok(out)
}

/// Returns the records of the timed run that are requested.
///
/// # Errors
/// Returns E416 for records of a run that is not timed, and the errors of the list of ranks.
pub fn wanted(how: &Execution, records: Vec<(String, String)>) -> Outcome<Wanted> {
    if let (true, Some((kind, _))) = (how.no_time, records.first()) {
        return Err(Failure::Usage(
            Diagnostic::error("E416", format!("--emit {kind} needs the timed run that --no-time leaves out"))
                .help("remove one of them")
                .into(),
        ));
    }
    Ok(Wanted::new(records, how.trace_ranks.clone())?)
}

/// Writes a text to a file; `-` is standard output.
///
/// # Errors
/// E410: it cannot be written.
pub fn write_text(session: &Session, path: &str, text: &str) -> Outcome {
    if path == "-" {
        session.print_artefact(text);
    } else {
        outdir::write_file(Path::new(path), text.as_bytes())?;
    }
    Ok(())
}

/// Writes the text that is the output of a command; `-` is standard output.
///
/// # Errors
/// As [`write_text`].
pub fn write_as(session: &Session, command: &str, file: &str, path: &str, text: &str) -> Outcome {
    write_text(session, path, text)?;
    if path == "-" {
        return Ok(());
    }
    let json = json!({ "schema": 1, "command": command, "file": file, "ok": true, "output": path });
    Ok(session.answer("", &json)?)
}

/// Writes results for `--output`: the global value, assembled from the parts of the ranks.
///
/// # Errors
/// Returns the errors of [`data::outputs`], and E410 if a file cannot be written.
pub fn write_results(asked: &Data, names: &[String], types: &[TensorType], parts: &[Vec<Part>]) -> Outcome {
    for (file, bytes) in data::outputs(&asked.plain(), names, types, parts)? {
        outdir::write_file(Path::new(&file), &bytes)?;
    }
    Ok(())
}
