//! One module a verb, and what several of them need.

pub mod check;
pub mod compile;
pub mod explain;
pub mod list;
pub mod opt;
pub mod passes;
pub mod run;

use crate::session::{Outcome, Session};
use kbc_frontend::load::{Loaded, load};
use kbc_passes::instrument::Instrument;
use kbc_rounds::Library;

/// An observer that looks at nothing.
pub struct Nothing;

impl Instrument for Nothing {}

/// Loads a file and everything it uses.
///
/// # Errors
/// Of reading, parsing and the checks that need no sizes.
pub fn load_file(session: &mut Session, path: &str) -> Outcome<Loaded> {
    let (file, text) = session.read(path)?;
    load_text(session, Some((file, text)))
}

/// The library, and the algorithms of some files.
///
/// # Errors
/// As [`load_file`].
pub fn library(session: &mut Session, files: &[String]) -> Outcome<Library> {
    // All files in one scope, as if one file used them all.
    let uses: Vec<String> = files.iter().map(|f| format!("use {f:?}\n")).collect();
    let text = uses.concat();
    let file = session.add_text("<files>", &text);
    Ok(load_text(session, (!files.is_empty()).then_some((file, text)))?.library)
}

fn load_text(session: &mut Session, root: Option<(kbc_diag::FileId, String)>) -> Outcome<Loaded> {
    let (loaded, found) = load(root, session);
    if found.has_errors() {
        return Err(found.into());
    }
    session.tell(&found);
    Ok(loaded)
}
