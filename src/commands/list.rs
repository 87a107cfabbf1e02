//! `kbc list`: the names that a program or the command line can use, from the library and from
//! files of the user.

use crate::cli::{List, Passes};
use crate::session::{Failure, Outcome, Session};
use kbc_compiler::algorithm_request::{self, AlgorithmRequest, one_number};
use kbc_compiler::catalogue::{WHAT, algorithms, human, human_algorithms, is_declared, table};
use kbc_compiler::costs::{Page, named, pages};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, FileId, Span};
use kbc_rounds::Library;
use std::path::Path;

/// The file of a text that belongs to none: it knows the namespaces of all files.
const NOWHERE: FileId = Span::NONE.file;

/// Prints a table.
///
/// # Errors
/// Returns E416 for an unknown name, E005 for one that is not in its namespace, and the errors of
/// reading and parsing files.
pub fn run(session: &mut Session, args: &List) -> Outcome {
    let (what, files) = match args.what.split_first() {
        Some((first, rest)) if WHAT.contains(&first.as_str()) => (first.as_str(), rest),
        Some((first, rest)) if !is_file(first) => {
            let library = kbc_compiler::load::library(session, rest, &[])?;
            let asked = algorithm_request::read(session, "kbc list", first)?;
            let name = &asked.name;
            if named(&library, &name.node).is_empty() {
                return Err(match name.node.contains('.') {
                    true => {
                        (*library.no_algorithm("algorithm", NOWHERE, (&name.node, name.span), &[])).into()
                    }
                    false => Failure::Usage(unknown(&name.node, &library).into()),
                });
            }
            return show(session, &library, &asked, args);
        }
        _ => (WHAT[0], &args.what[..]),
    };
    let given = [("-D", !args.define.is_empty()), ("--ranks", args.ranks.is_some())];
    if let Some((flag, _)) = given.iter().find(|f| f.1) {
        let d = Diagnostic::error("E416", format!("{flag} applies only with the name of an algorithm"));
        return Err(d.help("write kbc list ring --ranks 64").into());
    }
    if what == "passes" && files.len() < 2 {
        return super::passes::run(session, &Passes { name: files.first().cloned() });
    }
    if let (Some(file), false) = (files.first(), is_declared(what)) {
        return Err(
            Diagnostic::error("E416", format!("no file declares {what}, so {file} does not apply")).into()
        );
    }
    if what == "algorithms" {
        let all = algorithms(session, files)?;
        let json = serde_json::json!({ "schema": 1, what: all });
        return Ok(session.answer(&human_algorithms(&all), &json)?);
    }
    let all = table(session, what, files)?;
    Ok(session.answer(&human(&all), &serde_json::json!({ "schema": 1, what: all }))?)
}

/// Checks whether a word names a file and not an algorithm, whose namespace may stand before a dot.
fn is_file(word: &str) -> bool {
    let path = Path::new(word);
    let ending = path.extension().and_then(|e| e.to_str());
    word.contains('/') || matches!(ending, Some("kb" | "kir")) || path.exists()
}

/// Prints the documentation of the algorithms of a name and their costs (`kbc list NAME`).
fn show(session: &Session, library: &Library, asked: &AlgorithmRequest, args: &List) -> Outcome {
    let ranks = args.ranks.as_deref().map(one_number).transpose()?;
    if ranks.is_some() && args.define.iter().any(|d| d.starts_with("p=")) {
        let d = Diagnostic::error("E416", "--ranks and -D p= both define the number of ranks");
        return Err(d.help("remove one of them").into());
    }
    let define: Vec<String> = args.define.iter().cloned().chain(ranks.map(|p| format!("p={p}"))).collect();
    let pages = pages(session, library, asked, &define)?;
    let text = pages.iter().map(Page::text).collect::<Vec<_>>().join("\n");
    Ok(session.answer(&text, &serde_json::json!({ "schema": 1, "algorithm": pages }))?)
}

fn unknown(what: &str, library: &Library) -> Diagnostic {
    let d = Diagnostic::error("E416", format!("`{what}` is not a list, an algorithm or a file"))
        .note(format!("lists: {}", WHAT.join(", ")));
    let algorithms = library.algorithms().map(|id| library.algorithm_name(id).node.as_str());
    match nearest(what, WHAT.into_iter().chain(algorithms)) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    }
}
