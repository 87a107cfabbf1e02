//! `kbc dev bench scale`: how the cost of kbc itself grows with size, measured in processes of it.

use crate::cli::BenchScale;
use crate::outdir;
use crate::process_cost::{Ended, measured};
use crate::session::{Failure, Outcome, Session, words};
use kbc_diag::{Diagnostic, SourceMap};
use kbc_evaluation::scale::cases::{ScaleCase, chosen};
use kbc_evaluation::scale::inputs::{ScaleInputs, inputs};
use kbc_evaluation::scale::report::{
    ProcessCost, ScaleCaseReport, ScaleFigures, ScaleReport, ScaleRow, ScaleSide, human,
};
use std::path::{Path, PathBuf};

/// Measures and prints.
///
/// # Errors
/// Returns E998 if a process fails, and the errors of the command line, of files and of starting a
/// process.
pub fn run(session: &mut Session, args: &BenchScale) -> Outcome {
    let cases = chosen(&args.cases, &args.sizes)?;
    let programs = programs(args.against.as_deref())?;
    let mut reports = vec![];
    for case in &cases {
        let sizes: Vec<Option<u64>> = match case.unit {
            Some(_) => case.sizes.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let rows = sizes.into_iter().map(|size| row(session, case, size, &programs, args.repeat));
        reports.push(ScaleCaseReport::new(case, rows.collect::<Outcome<_>>()?));
    }
    let found = ScaleReport::new(reports, args.against.clone());
    session.answer(human(&found).trim_end(), &found)?;
    let failed: Vec<&str> = found.failed().collect();
    match failed.first() {
        None => Ok(()),
        Some(first) => {
            let title = format!("{} of the measured rows failed", failed.len());
            Err(Failure::Program(
                Diagnostic::error("E998", title).note(format!("the first one: {first}")).into(),
            ))
        }
    }
}

/// Returns the programs that are measured: this one, and the other one if there is one.
fn programs(against: Option<&str>) -> Result<Vec<PathBuf>, Diagnostic> {
    let own = std::env::current_exe()
        .map_err(|e| Diagnostic::error("E412", format!("cannot find the program of kbc: {e}")))?;
    let mut out = vec![own];
    if let Some(path) = against {
        // Processes run in another folder.
        let absolute = Path::new(path)
            .canonicalize()
            .map_err(|e| Diagnostic::error("E412", format!("cannot run {path}: {}", words(&e))));
        out.push(absolute?);
    }
    Ok(out)
}

/// Measures a case at a size: each program `repeat` times, in turn, until it fails.
fn row(
    session: &Session,
    case: &ScaleCase,
    size: Option<u64>,
    programs: &[PathBuf],
    repeat: usize,
) -> Outcome<ScaleRow> {
    let folder = tempfile::tempdir()
        .map_err(|e| Diagnostic::error("E410", format!("cannot create a temporary folder: {e}")))?;
    let ScaleInputs { words: arguments, files } = inputs(case, size);
    for (name, text) in files {
        outdir::write_here(&folder.path().join(name), text.as_bytes())?;
    }
    let mut sides: Vec<Result<Vec<ProcessCost>, String>> = vec![Ok(vec![]); programs.len()];
    for turn in 0..repeat {
        let size = size.map_or(String::new(), |n| format!(" {n}"));
        session.progress(&format!("{}{size}: {} of {repeat}", case.name, turn + 1));
        for (program, side) in programs.iter().zip(&mut sides) {
            let Ok(costs) = side else { continue };
            // What an earlier process has found out would change the time of a later one.
            let cache = tempfile::tempdir_in(folder.path())
                .map_err(|e| Diagnostic::error("E410", format!("cannot create a temporary folder: {e}")))?;
            match measured(program, &arguments, (folder.path(), cache.path()), case.messages)? {
                Ended::Ok(cost) => costs.push(cost),
                Ended::Err(why) => *side = Err(why),
            }
        }
    }
    let mut sides = sides.into_iter().map(|side| summary(case, side));
    let own = sides.next().unwrap_or_else(|| summary(case, Ok(vec![])));
    Ok(ScaleRow::new(size, own, sides.next()))
}

/// Summarises the processes of a program.
fn summary(case: &ScaleCase, side: Result<Vec<ProcessCost>, String>) -> ScaleSide {
    match side {
        Ok(costs) => ScaleSide { figures: ScaleFigures::of(&costs), why: None, failure: None },
        Err(why) => {
            let d = Diagnostic::error("E998", format!("a process of the case {} failed", case.name));
            let failure = Failure::Program(d.note(why.clone()).into()).json(&SourceMap::default());
            ScaleSide { figures: None, why: Some(why), failure: Some(failure) }
        }
    }
}
