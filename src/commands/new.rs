//! `kbc new`: a folder to begin with, holding an algorithm, a program, a machine and a README.
//!
//! The files are those of `specs/starter`, which the tests compile like every other file of
//! `specs`; the name of the algorithm is replaced in them.

use crate::cli::New;
use crate::outdir;
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::load::library;
use kbc_diag::{Diagnostic, FileId};
use kbc_frontend::token::reserved_words;
use serde_json::json;
use std::path::Path;

/// The algorithm's name in the files of `specs/starter`.
const NAME: &str = "my_ring";

/// Names and contents of the files.
const FILES: [(&str, &str); 4] = [
    ("README.md", include_str!("../../specs/starter/README.md")),
    ("layer.kb", include_str!("../../specs/starter/layer.kb")),
    ("machine.yaml", include_str!("../../specs/starter/machine.yaml")),
    ("my_ring.kb", include_str!("../../specs/starter/my_ring.kb")),
];

/// Writes the folder, and prints what to do next.
///
/// # Errors
/// Returns E413 for a name that no algorithm can have or that the library has already, E411 for a
/// folder with files of somebody else, and E410 if it cannot be written.
pub fn run(session: &mut Session, args: &New) -> Outcome {
    let name = &args.name;
    fits(session, name)?;
    let folder = args.output.as_deref().unwrap_or(name);
    let files: Vec<(String, Vec<u8>)> = FILES
        .iter()
        .map(|(file, text)| (file.replace(NAME, name), text.replace(NAME, name).into()))
        .collect();
    outdir::write(Path::new(folder), &files, args.force)?;
    let (check, run) = (format!("kbc check {name}.kb"), "kbc run layer.kb");
    let width = check.len().max(run.len());
    let text = format!(
        "{folder}: an algorithm ({name}.kb), a program that uses it (layer.kb), a machine (machine.yaml)\n\
         next:\n  cd {folder}\n  {check:width$}  # prove the algorithm\n  \
         {run:width$}  # prove, execute and time the program\n\
         README.md in it has more commands.\n"
    );
    let names: Vec<&str> = files.iter().map(|f| f.0.as_str()).collect();
    let json = json!({ "schema": 1, "command": "new", "ok": true, "output": folder, "files": names });
    Ok(session.answer(&text, &json)?)
}

/// Checks that an algorithm may have this name.
fn fits(session: &mut Session, name: &str) -> Outcome {
    let wrong = |title: String, help: &str| {
        Err(Failure::Usage(Diagnostic::error("E413", title).help(help.to_owned()).into()))
    };
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !first
        || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        || reserved_words().any(|w| w == name)
    {
        return wrong(
            format!("`{name}` cannot be the name of an algorithm"),
            "use letters, digits and `_`, beginning with a letter, and no reserved word: kbc new my_ring",
        );
    }
    let library = library(session, &[], &[])?;
    let taken = library.algorithm_names(FileId::default()).iter().any(|n| n == name)
        || library.collectives().any(|c| library.collective_name(c).node == name);
    if taken {
        return wrong(
            format!("the library has an algorithm or a collective `{name}` already"),
            "choose another name, such as `my_ring`; `kbc list` prints the names of the library",
        );
    }
    Ok(())
}
