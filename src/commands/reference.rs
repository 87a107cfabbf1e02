//! `kbc dev compare-reference`: published figures, or measured rows, beside those of kbc.

use crate::checkout;
use crate::cli::CompareReference;
use crate::session::{Failure, Outcome, Session, named, words};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_evaluation::host_bench::predicted::{self, predicted};
use kbc_evaluation::published::{Row, human, one};
use std::path::Path;

/// Measures and prints.
///
/// # Errors
/// Returns the errors of reading a file, and E997 if a figure deviates more than its file allows or
/// its program fails; E416 for measured rows without a machine, or together with other files.
pub fn run(session: &mut Session, args: &CompareReference) -> Outcome {
    if args.topology.is_some() || args.files.iter().any(|f| is_rows(f)) {
        return measured(session, args);
    }
    let mut all = vec![];
    let usual = [checkout::find("specs/reference")];
    for path in files(if args.files.is_empty() { &usual } else { &args.files })? {
        all.push(one(session, &path)?);
    }
    session.answer(all.iter().map(human).collect::<String>().trim_end(), &all)?;
    let off: Vec<&Row> = all.iter().flat_map(|f| &f.figures).filter(|r| !r.ok).collect();
    if off.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = off.iter().map(|r| r.name.as_str()).collect();
    let count = all.iter().map(|f| f.figures.len()).sum::<usize>();
    let failed = off.iter().filter(|r| r.failed).count();
    let mut title = format!("{} of {count} figures deviate more than the file allows", off.len() - failed);
    if failed > 0 {
        title += &format!(", {failed} have a program that fails");
    }
    let d = Diagnostic::error("E997", title).note(names.join("; "));
    Err(Failure::Program(Diagnostics::from(d)))
}

fn is_rows(file: &str) -> bool {
    file.ends_with(".csv")
}

/// Compares files of measured rows with simulated times.
fn measured(session: &mut Session, args: &CompareReference) -> Outcome {
    let usage = |title: &str, help: &str| {
        Err(Failure::Usage(Diagnostic::error("E416", title.to_owned()).help(help.to_owned()).into()))
    };
    if args.files.is_empty() || !args.files.iter().all(|f| is_rows(f)) {
        return usage(
            "--topology is for files of measured rows, .csv",
            "kbc dev bench host -o rows.csv and kbc sweep -o rows.csv write one",
        );
    }
    let Some(topology) = &args.topology else {
        return usage(
            "measured rows need the machine that they are compared with",
            "--topology machine.yaml; kbc calibrate -o machine.yaml writes one for this computer",
        );
    };
    let mut all = vec![];
    for file in &args.files {
        all.push(predicted(session, file, topology)?);
    }
    let text: Vec<String> = all.iter().map(predicted::human).collect();
    Ok(session.answer(text.join("\n").trim_end(), &all)?)
}

/// Returns the files, with folders replaced by the `.yaml` files in them.
fn files(names: &[String]) -> Outcome<Vec<String>> {
    let mut out = vec![];
    for name in names {
        let path = Path::new(name);
        if !path.is_dir() {
            out.push(name.clone());
            continue;
        }
        let cannot =
            |e: &std::io::Error| Diagnostic::error("E412", format!("cannot read {name}: {}", words(e)));
        let entries = std::fs::read_dir(path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut found: Vec<String> = entries
            .map_err(|e| cannot(&e))?
            .iter()
            .map(std::fs::DirEntry::path)
            .filter(|p| p.extension().is_some_and(|e| e == "yaml" || e == "yml"))
            .map(|p| named(&p))
            .collect::<std::io::Result<_>>()
            .map_err(|e| cannot(&e))?;
        if found.is_empty() {
            return Err(Diagnostic::error("E412", format!("no .yaml file in {name}")).into());
        }
        found.sort();
        out.extend(found);
    }
    Ok(out)
}
