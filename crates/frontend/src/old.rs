//! Old forms of the language: their messages (E007), each with the edits that rewrite the text.
//!
//! `kbc fmt --migrate` makes exactly the edits of these messages ([`crate::migrate`]), so a message
//! and a migration cannot differ.

use crate::token::Doc;
use kbc_diag::{Diagnostic, FileId, Span};
use std::ops::Range;

/// Returns the message for an old form at `span`, which `new` replaces.
pub fn form(title: impl Into<String>, span: Span, new: &str) -> Diagnostic {
    message(title, span, new).edit(span, new)
}

/// Returns the message for an old form without its edits.
fn message(title: impl Into<String>, span: Span, new: &str) -> Diagnostic {
    let d = Diagnostic::error("E007", title).primary(span, "an old form");
    d.help(format!("write `{new}`; `kbc fmt --migrate` rewrites a file"))
}

/// The clause of an algorithm's head that replaces a paragraph of its documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Paragraph {
    Cost,
    Check,
    Alias,
}

/// Returns the clause and the length of the word with which an old paragraph begins.
fn paragraph(line: &str) -> Option<(Paragraph, usize)> {
    let end = line.find(':')?;
    let of = match line[..end].to_lowercase().as_str() {
        "cost" | "costs" => Paragraph::Cost,
        "variant" | "variants" | "check" | "checks" => Paragraph::Check,
        "name" | "names" | "alias" | "aliases" => Paragraph::Alias,
        _ => return None,
    };
    Some((of, end + 1))
}

/// The width beyond which the figures of a cost stand on lines of their own.
const WIDE: usize = 100;

/// Returns the clauses that have the meaning of an old paragraph, each on a line.
fn clauses(of: Paragraph, text: &str) -> Vec<String> {
    let text = text.trim().trim_end_matches('.');
    let parts: Vec<&str> = text.split(';').map(str::trim).filter(|p| !p.is_empty()).collect();
    match of {
        Paragraph::Cost if parts.iter().map(|p| p.len() + 2).sum::<usize>() > WIDE => {
            parts.iter().map(|p| format!("cost {p}")).collect()
        }
        Paragraph::Cost => vec![format!("cost {}", parts.join(", "))],
        Paragraph::Check => parts.iter().map(|p| format!("check {p}")).collect(),
        Paragraph::Alias => vec![format!("alias {}", parts.join(", "))],
    }
}

/// Returns the messages for the old paragraphs in the documentation of an algorithm. The clauses
/// replace `gap`, the blanks before its body.
pub fn paragraphs(file: FileId, doc: &Doc, text: &str, gap: Range<usize>) -> Vec<Diagnostic> {
    let mut out = vec![];
    let empty = |i: usize| doc.lines[i].0.trim().is_empty();
    let mut first = 0;
    while first < doc.lines.len() {
        let begins = first == 0 || empty(first - 1);
        let Some((of, word)) = paragraph(doc.lines[first].0.trim()).filter(|_| begins) else {
            first += 1;
            continue;
        };
        let last = (first..doc.lines.len()).take_while(|i| !empty(*i)).last().unwrap_or(first);
        let lines: Vec<&str> = doc.lines[first..=last].iter().map(|l| l.0.trim()).collect();
        let joined = lines.join(" ");
        let (name, rest) = joined.split_at(word);
        let clauses = clauses(of, rest);
        // The empty line before the paragraph goes with it, or else the one after it.
        let from = if first > 0 { first - 1 } else { first };
        let to = if first == 0 && last + 1 < doc.lines.len() { last + 1 } else { last };
        let line_start = |at: usize| text[..at].rfind('\n').map_or(0, |n| n + 1);
        let line_end = |at: usize| text[at..].find('\n').map_or(text.len(), |n| at + n + 1);
        let whole = line_start(doc.lines[from].1.start)..line_end(doc.lines[to].1.end);
        let shown = Span::new(file, doc.lines[first].1.start, doc.lines[last].1.end);
        let list: String = clauses.iter().map(|c| format!("\n    {c}")).collect();
        let d = message(
            format!("`{name}` in the documentation has no effect: it is a clause of the head"),
            shown,
            &clauses.join(" "),
        )
        .edit(Span::new(file, whole.start, whole.end), "")
        .edit(Span::new(file, gap.start, gap.end), format!("{list}\n"));
        out.push(d);
        first = last + 1;
    }
    out
}
