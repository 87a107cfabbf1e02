//! Claims: cost formulas and variants that the documentation of an algorithm states for kbc.
//!
//! This module owns their form in the documentation. A paragraph that begins with `Cost:` lists
//! figures separated by `;`, each with a word (`rounds`, `sent`, `pair`) and a formula. A paragraph
//! that begins with `Variants:` lists alternative arguments separated by `;`. [`kbc_rounds::claim`]
//! defines the meaning of formulas, checks them, and defines the form of variants.

use crate::ast::Item;
use kbc_diag::Diagnostic;
use kbc_diag::nearest::nearest;
use kbc_rounds::ast::AlgorithmDecl;
use kbc_rounds::claim::{Claim, Figure};

/// The word at the beginning of the paragraph of costs.
pub const COST: &str = "Cost:";

/// Returns the claims of an algorithm's documentation in source order. The list is empty if there
/// is no paragraph `Cost:`.
///
/// # Errors
/// Returns E119 if a figure does not exist or occurs twice, or if a formula cannot be parsed.
pub fn claims(decl: &AlgorithmDecl) -> Result<Vec<Claim>, Diagnostic> {
    let mut out: Vec<Claim> = vec![];
    let error =
        |title: String| Diagnostic::error("E119", title).primary(decl.name.span, "in its documentation");
    for part in paragraph(&decl.doc, COST).split(';').map(str::trim).filter(|p| !p.is_empty()) {
        let (word, text) = part.split_once(' ').unwrap_or((part, ""));
        let Some(figure) = Figure::ALL.into_iter().find(|f| f.word() == word) else {
            let words = Figure::ALL.map(Figure::word);
            let d = error(format!("unknown cost figure `{word}`")).note(format!(
                "the figures are {}; example: `Cost: rounds p - 1; sent A(p); pair A(p)`",
                words.join(", ")
            ));
            return Err(match nearest(word, words) {
                Some(near) => d.help(format!("did you mean `{near}`?")),
                None => d,
            });
        };
        if out.iter().any(|c| c.figure == figure) {
            return Err(error(format!("the cost figure `{word}` is stated twice")));
        }
        // Functions are looked up from the algorithm's file, but the positions are relative to the
        // formula.
        let (tree, found) = crate::parse(decl.span.file, &format!("fn formula() = {text}"));
        match (tree.items.into_iter().next(), found.list.first()) {
            (Some(Item::Function(f)), None) => {
                out.push(Claim { figure, text: text.to_owned(), formula: f.body });
            }
            (_, why) => {
                let why = why.map_or("there is no formula", |d| &d.title);
                return Err(error(format!("the formula `{text}` of {word} cannot be read: {why}")));
            }
        }
    }
    Ok(out)
}

/// Returns the paragraph that begins with a word, on one line and without that word.
fn paragraph(doc: &str, word: &str) -> String {
    let mut lines =
        doc.lines().map(str::trim).skip_while(|l| !l.starts_with(word)).take_while(|l| !l.is_empty());
    let first = lines.next().and_then(|l| l.strip_prefix(word)).unwrap_or("").trim();
    let all: Vec<&str> = std::iter::once(first).chain(lines).collect();
    all.join(" ").trim_end_matches('.').trim().to_owned()
}
