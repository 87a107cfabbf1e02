//! PyTorch programs: one local program per rank, checked on its own and against those of the other
//! ranks (row TP-8 of `docs/reference/features.md`).
//!
//! A reader of a format ([`exported()`] or the text reader) yields a program that refers to values
//! by name. `resolve` replaces names by value numbers and operations by rows of the table [`ops`],
//! whose results follow from `rules`. `local` checks one rank and [`matching`] all ranks together.
//! These files do not contain the process groups; [`groups`] reads them from separate files. All
//! readers and users share the data model in [`model`].

pub mod archive;
pub mod arg;
pub mod dtype;
pub mod exported;
pub mod groups;
pub mod json;
pub mod kb;
mod listing;
mod local;
pub mod matching;
pub mod model;
pub mod ops;
pub mod pickle;
pub mod resize;
mod resolve;
mod rule;
mod rules;
pub mod summary;
pub mod symbols;
pub mod text;

pub use listing::listing;
pub use resolve::resolve;

use exported::{SCHEMA, Unread};
use groups::{Table, World};
use json::JsonFault;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use matching::MatchedCollective;
use model::Written;
use std::collections::BTreeMap;

/// Greatest length of a line that messages show whole. Of a longer line they show an excerpt.
const SHORT: usize = 160;

/// Makes a message about a byte of a text.
fn at(code: &'static str, file: FileId, name: &str, text: &str, f: &JsonFault) -> Diagnostic {
    let mut place = f.at.min(text.len());
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    let line = text[..place].rfind('\n').map_or(0, |i| i + 1);
    let end = text[place..].find('\n').map_or(text.len(), |i| place + i);
    let d = Diagnostic::error(code, format!("{name}: {}", f.why));
    if end - line <= SHORT {
        let last = text[place..end].chars().next().map_or(0, char::len_utf8);
        return d.primary(Span::new(file, place, place + last), "here");
    }
    let near: String = text[place..end].chars().take(60).collect();
    d.note(format!("byte {place}: {near}"))
}

/// Reads the JSON of an exported program.
///
/// # Errors
/// Returns E520 if the text is not an exported program, and E521 if it has another schema.
pub fn exported(file: FileId, name: &str, text: &str) -> Result<Written, Diagnostic> {
    exported::read(text).map_err(|e| match e {
        Unread::Fault(f) => at("E520", file, name, text, &f),
        Unread::Schema(n) => {
            Diagnostic::error("E521", format!("{name}: unsupported schema {n}; kbc reads schema {SCHEMA}"))
                .help("PyTorch 2.6 and later write schema 8")
        }
    })
}

/// Reads the text of a printed program.
///
/// # Errors
/// Returns E554 if the text is not a printed program.
pub fn printed(file: FileId, name: &str, text: &str) -> Result<Written, Diagnostic> {
    text::written::read(text).map_err(|f| at("E554", file, name, text, &f))
}

/// Reads a file of process groups.
///
/// # Errors
/// Returns E530 if the text is not such a file.
pub fn table(file: FileId, name: &str, text: &str) -> Result<Table, Diagnostic> {
    groups::read(text).map_err(|f| at("E530", file, name, text, &f))
}

/// Checks the programs of a world: each on its own, then all together if every rank has one.
/// Returns the collectives in the order in which they meet.
///
/// # Errors
/// Returns E525 to E539. An error that several ranks have in common is reported once.
pub fn check(world: &World) -> Result<Vec<MatchedCollective>, Diagnostics> {
    let mut found: Vec<(Diagnostic, Vec<u64>)> = vec![];
    let mut known: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (i, p) in world.programs.iter().enumerate() {
        for d in local::check(world, i) {
            let next = found.len();
            let first = *known.entry((d.code, d.title.clone())).or_insert(next);
            match found.get_mut(first) {
                // Two equal messages of one rank are two places in its program, and both are kept.
                Some((_, ranks)) if ranks[0] != p.rank => {
                    if ranks.last() != Some(&p.rank) {
                        ranks.push(p.rank);
                    }
                }
                _ => found.push((d, vec![p.rank])),
            }
        }
    }
    if !found.is_empty() {
        let list = found
            .into_iter()
            .map(|(d, ranks)| match &ranks[1..] {
                [] => d,
                [one] => d.note(format!("the same error on rank {one}")),
                more => d.note(format!("the same error on ranks {}", groups::words(more))),
            })
            .collect();
        return Err(Diagnostics { list });
    }
    if world.is_whole() { matching::check(world) } else { Ok(summary::collectives_without_peers(world)) }
}
