//! PyTorch programs: one local program a rank, checked by itself and against those of the other ranks (row TP-8).
//!
//! The way: [`exported`] (a format a file) gives a program in names, `resolve` values and rows of the table of
//! operations ([`ops`], with `rules`), `local` checks a rank, [`matching`] all of them. Who is in which group is in no
//! such file: [`groups`]. The model ([`model`]) is what every reader and every user of programs shares.

pub mod archive;
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
mod resolve;
mod rules;
pub mod summary;
pub mod symbols;
pub mod text;

pub use listing::listing;
pub use resolve::resolve;

use exported::{SCHEMA, Unread};
use groups::{Table, World};
use json::Fault;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use matching::Met;
use model::Written;
use std::collections::BTreeMap;

/// Lines up to this length are shown with a mark under them; of longer ones an excerpt.
const SHORT: usize = 160;

/// A message about a byte of a text.
fn at(code: &'static str, file: FileId, name: &str, text: &str, f: &Fault) -> Diagnostic {
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
/// E520: it is none; E521: its schema is another one.
pub fn exported(file: FileId, name: &str, text: &str) -> Result<Written, Diagnostic> {
    exported::read(text).map_err(|e| match e {
        Unread::Fault(f) => at("E520", file, name, text, &f),
        Unread::Schema(n) => {
            Diagnostic::error("E521", format!("{name}: schema {n}, and kbc reads schema {SCHEMA}"))
                .help("PyTorch 2.6 and later write schema 8")
        }
    })
}

/// Reads the text of a program.
///
/// # Errors
/// E554: it is none.
pub fn printed(file: FileId, name: &str, text: &str) -> Result<Written, Diagnostic> {
    text::written::read(text).map_err(|f| at("E554", file, name, text, &f))
}

/// Reads a side-car with groups.
///
/// # Errors
/// E530: it is none.
pub fn table(file: FileId, name: &str, text: &str) -> Result<Table, Diagnostic> {
    groups::read(text).map_err(|f| at("E530", file, name, text, &f))
}

/// Checks the programs of a world: each by itself, then all together if all are there. Gives the collectives as they meet.
///
/// # Errors
/// E525 to E539; what several ranks have alike is said once.
pub fn check(world: &World) -> Result<Vec<Met>, Diagnostics> {
    let mut found: Vec<(Diagnostic, Vec<u64>)> = vec![];
    let mut known: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (i, p) in world.programs.iter().enumerate() {
        for d in local::check(world, i) {
            let next = found.len();
            let first = *known.entry((d.code, d.title.clone())).or_insert(next);
            match found.get_mut(first) {
                // twice on one rank is two places
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
                [one] => d.note(format!("the same on rank {one}")),
                more => d.note(format!("the same on ranks {}", groups::words(more))),
            })
            .collect();
        return Err(Diagnostics { list });
    }
    if world.is_whole() { matching::check(world) } else { Ok(summary::alone(world)) }
}
