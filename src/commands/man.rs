//! `kbc man`: manual pages, generated from the description of the command line.

use crate::cli::{Man, help};
use crate::outdir;
use crate::session::{Failure, Outcome, Session};
use kbc_diag::Diagnostic;
use serde_json::json;
use std::path::Path;

/// Prints a page, or writes all of them.
///
/// # Errors
/// Returns E416 for an unknown command, E991 for a page that cannot be made, and E410 and E411 for
/// the folder.
pub fn run(session: &mut Session, args: &Man) -> Outcome {
    let mut all = help::complete().disable_help_subcommand(true);
    all.build();
    if let Some(folder) = &args.output {
        let mut files = vec![];
        collect(&all, &mut files)?;
        outdir::write(Path::new(folder), &files, false)?;
        let names: Vec<&str> = files.iter().map(|f| f.0.as_str()).collect();
        let json = json!({ "schema": 1, "command": "man", "ok": true, "output": folder, "files": names });
        return Ok(session.answer(&format!("{} pages in {folder}", files.len()), &json)?);
    }
    let mut command = &all;
    for word in &args.command {
        command = command.find_subcommand(word).ok_or_else(|| {
            let d = Diagnostic::error("E416", format!("there is no command `{}`", args.command.join(" ")));
            Failure::Usage(d.help("kbc help lists the commands").into())
        })?;
    }
    session.print_artefact(&String::from_utf8_lossy(&page(command)?));
    Ok(())
}

/// Makes the page of a command and those of its subcommands.
fn collect(command: &clap::Command, out: &mut Vec<(String, Vec<u8>)>) -> Outcome {
    out.push((format!("{}.1", name(command)), page(command)?));
    command.get_subcommands().filter(|c| !c.is_hide_set()).try_for_each(|c| collect(c, out))
}

/// Returns the name of a page: `kbc-dev-fuzz`.
fn name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).replace(' ', "-")
}

fn page(command: &clap::Command) -> Outcome<Vec<u8>> {
    let mut out = vec![];
    clap_mangen::Man::new(command.clone())
        .render(&mut out)
        .map_err(|e| Diagnostic::error("E991", format!("the manual page cannot be written: {e}")))?;
    Ok(out)
}
