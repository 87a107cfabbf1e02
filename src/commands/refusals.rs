//! Refusals of arguments that mean nothing for the kind of the given file.

use crate::cli::{Check, Execution, Source};
use crate::session::{Failure, Outcome};
use kbc_compiler::load::refuse;
use kbc_diag::Diagnostic;

/// Rejects `--post` without an imported schedule.
///
/// # Errors
/// Returns E416 (wrong usage).
pub fn no_post(source: &Source) -> Outcome {
    match &source.post {
        Some(_) if source.file.is_empty() => {
            Err(Diagnostic::error("E416", "--post applies only to an imported schedule").into())
        }
        Some(_) => Err(Diagnostic::error("E416", format!("--post does not apply to {}", source.file))
            .help("a program defines its own result; --post is for .xml files")
            .into()),
        None => Ok(()),
    }
}

/// Rejects `--target` without a `.tile` text.
///
/// # Errors
/// Returns E416 (wrong usage).
pub fn no_target(target: Option<&String>, file: &str) -> Outcome {
    let Some(_) = target else { return Ok(()) };
    let d = Diagnostic::error("E416", format!("--target does not apply to {file}"))
        .help("--target is the target of a .tile file; use kbc compile to emit a program for a target");
    Err(Failure::Usage(d.into()))
}

/// Rejects steps that are left out of the emission of code.
///
/// # Errors
/// Returns E416 (wrong usage).
pub fn complete(how: &Execution, target: &str) -> Outcome {
    let left_out = [("--no-proof", how.no_proof), ("--no-time", how.no_time)];
    let Some((flag, _)) = left_out.into_iter().find(|f| f.1) else { return Ok(()) };
    let d = Diagnostic::error("E416", format!("{flag} does not apply to the target {target}"))
        .note("code is emitted only for a program that is proven, and its package states the time")
        .help(format!("use kbc run {flag}, or remove {flag}"));
    Err(Failure::Usage(d.into()))
}

/// Rejects results of a run without data.
///
/// # Errors
/// Returns E416 (wrong usage).
pub fn no_results(how: &Execution) -> Outcome {
    match how.data.results().first() {
        Some(result) if how.no_data => {
            let title = format!("--output {result} is a result of the execution that --no-data leaves out");
            Err(Failure::Usage(Diagnostic::error("E416", title).help("remove one of them").into()))
        }
        _ => Ok(()),
    }
}

/// Rejects process groups and weights without PyTorch programs.
///
/// # Errors
/// Returns E416 (wrong usage).
pub fn no_groups(how: &Execution, file: &str) -> Outcome {
    let of = &how.groups;
    let flags = [
        ("--group", !of.group.is_empty()),
        ("--weights", of.weights.is_some()),
        ("--reference", of.reference.is_some()),
    ];
    refuse(&flags, file)
}

/// Rejects arguments that apply only to PyTorch programs.
///
/// # Errors
/// E416 for several files, and for flags that belong to programs per rank.
pub fn single(args: &Check) -> Outcome {
    let of = &args.groups;
    let flags = [
        ("--group", !of.group.is_empty()),
        ("--weights", of.weights.is_some()),
        ("--reference", of.reference.is_some()),
    ];
    let file = args.file.as_deref().unwrap_or("the library");
    refuse(&flags, file)?;
    refuse(&[("a second file", !args.more.is_empty())], file)
}
