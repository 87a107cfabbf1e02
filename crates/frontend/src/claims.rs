//! What the documentation of an algorithm says to kbc: formulas of cost, and other arguments it is meant for.
//!
//! Owns the form: a paragraph that begins with `Cost:`, figures separated by `;`, each a word (`rounds`, `sent`, `pair`) and
//! a formula; a paragraph that begins with `Variants:`, lists of arguments separated by `;`. What a formula means and whether
//! it is true, and the form of variants, is [`kbc_rounds::claim`]'s.

use crate::ast::Item;
use kbc_diag::Diagnostic;
use kbc_diag::nearest::nearest;
use kbc_rounds::ast::AlgorithmDecl;
use kbc_rounds::claim::{Claim, Figure};

/// What begins the paragraph.
pub const COST: &str = "Cost:";

/// The claims of an algorithm's documentation, in the order written; none without a paragraph `Cost:`.
///
/// # Errors
/// E119: a figure that does not exist or stands twice, a formula that cannot be read.
pub fn claims(decl: &AlgorithmDecl) -> Result<Vec<Claim>, Diagnostic> {
    let mut out: Vec<Claim> = vec![];
    let error =
        |title: String| Diagnostic::error("E119", title).primary(decl.name.span, "in its documentation");
    for part in paragraph(&decl.doc, COST).split(';').map(str::trim).filter(|p| !p.is_empty()) {
        let (word, text) = part.split_once(' ').unwrap_or((part, ""));
        let Some(figure) = Figure::ALL.into_iter().find(|f| f.word() == word) else {
            let words = Figure::ALL.map(Figure::word);
            let d = error(format!("there is no figure of cost `{word}`"))
                .note(format!("figures: {}; `Cost: rounds p - 1; sent A(p); pair A(p)`", words.join(", ")));
            return Err(match nearest(word, words) {
                Some(near) => d.help(format!("did you mean `{near}`?")),
                None => d,
            });
        };
        if out.iter().any(|c| c.figure == figure) {
            return Err(error(format!("{word} are claimed twice")));
        }
        // Functions are looked up from the algorithm's file; places are those of the formula alone.
        let (tree, found) = crate::parse(decl.span.file, &format!("fn formula() = {text}"));
        match (tree.items.into_iter().next(), found.list.first()) {
            (Some(Item::Function(f)), None) => {
                out.push(Claim { figure, text: text.to_owned(), formula: f.body });
            }
            (_, why) => {
                let why = why.map_or("no formula", |d| &d.title);
                return Err(error(format!("the formula `{text}` of {word} cannot be read: {why}")));
            }
        }
    }
    Ok(out)
}

/// The paragraph that begins with a word, in one line and without it.
fn paragraph(doc: &str, word: &str) -> String {
    let mut lines =
        doc.lines().map(str::trim).skip_while(|l| !l.starts_with(word)).take_while(|l| !l.is_empty());
    let first = lines.next().and_then(|l| l.strip_prefix(word)).unwrap_or("").trim();
    let all: Vec<&str> = std::iter::once(first).chain(lines).collect();
    all.join(" ").trim_end_matches('.').trim().to_owned()
}
