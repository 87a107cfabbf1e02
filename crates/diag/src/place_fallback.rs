//! Fallback places: finds a line of the source text for a message that has no place.
//!
//! The declarations at the head of `.kir` and `.tile` texts keep no positions once they are parsed,
//! and an error of a text as a whole has no position at all. A reader still wants a line to look
//! at. This module picks the line that declares a name in the message, else a line that begins with
//! a word of the message, else the first line.

use crate::diagnostic::{Diagnostic, Label};
use crate::span::{FileId, Span};

/// A non-empty line of a text that is not a comment, with its position.
struct Line<'t> {
    code: &'t str,
    span: Span,
}

/// Gives a place to a message that has none. Comments in the text begin with `;`.
pub fn place_fallback(d: &mut Diagnostic, file: FileId, text: &str) {
    if d.labels.iter().any(|l| !l.span.is_none()) {
        return;
    }
    let mut at = 0;
    let mut lines = vec![];
    for line in text.split_inclusive('\n') {
        let code = line.trim();
        let start = at + (line.len() - line.trim_start().len());
        if !code.is_empty() && !code.starts_with(';') {
            lines.push(Line { code, span: Span::new(file, start, start + code.len()) });
        }
        at += line.len();
    }
    let label = d.labels.iter().find(|l| !l.text.is_empty()).map(|l| l.text.clone());
    let span = best(d, &lines).map_or(Span::new(file, 0, 0), |l| l.span);
    d.labels = vec![Label { span, text: label.unwrap_or_else(|| "here".into()) }];
}

/// Returns the line that a message refers to. A title with "at the end" refers to the last line.
fn best<'l, 't>(d: &Diagnostic, lines: &'l [Line<'t>]) -> Option<&'l Line<'t>> {
    if d.title.contains("at the end") {
        return lines.last();
    }
    let said: String = std::iter::once(&d.title)
        .chain(d.labels.iter().map(|l| &l.text))
        .fold(String::new(), |a, b| a + " " + b);
    let part = |c: char| c.is_alphanumeric() || "_@%".contains(c);
    let words: Vec<&str> = said.split(|c| !part(c)).filter(|w| !w.is_empty()).collect();
    // A line begins with the keyword of its declaration and the declared name.
    let head =
        |l: &Line<'t>| -> Vec<&'t str> { l.code.split(|c| !part(c)).filter(|w| !w.is_empty()).collect() };
    let heads: Vec<(Vec<&str>, &Line<'_>)> = lines.iter().map(|l| (head(l), l)).collect();
    let bare = |w: &str| w.trim_start_matches(['@', '%']).to_owned();
    let named = |w: &&str| {
        let name = bare(w);
        heads.iter().find(|(h, _)| {
            h.get(1).is_some_and(|n| bare(n) == name) && (w.starts_with(['@', '%']) || words.contains(&h[0]))
        })
    };
    let sigil = |w: &&&str| w.starts_with(['@', '%']);
    let anywhere = |w: &&str| heads.iter().find(|(h, _)| h.contains(w));
    let word = |w: &&str| {
        let one = w.strip_suffix('s').unwrap_or(w);
        heads.iter().find(|(h, _)| h[0] == *w || h[0] == one)
    };
    let found = words
        .iter()
        .find_map(named)
        .or_else(|| words.iter().filter(sigil).find_map(anywhere))
        .or_else(|| words.iter().find_map(word));
    found.map(|f| f.1).or(lines.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_finds_its_line() {
        let text = "; c\nkir 1\nmodule @m\nmesh tp 2\nprops placed\n\ntable @t 1 2\nbuffer %x : f32[4] hbm temp\nregion @r local\n";
        for (title, label, want) in [
            ("the mesh has two axes tp", "", "mesh tp 2"),
            ("a graph cannot be placed", "claimed by `props`", "props placed"),
            ("there are two tables t", "", "table @t 1 2"),
            ("%x is too long", "", "buffer %x : f32[4] hbm temp"),
            ("region r has no role", "", "region @r local"),
            ("a flag is left set at the end", "", "region @r local"),
            ("something else", "", "kir 1"),
        ] {
            let mut d = Diagnostic::error("E320", title).primary(Span::NONE, label);
            place_fallback(&mut d, FileId(0), text);
            let s = d.span();
            assert_eq!(&text[s.start as usize..s.end as usize], want, "{title}");
        }
        let mut d = Diagnostic::error("E320", "t").primary(Span::new(FileId(0), 2, 3), "x");
        let before = d.clone();
        place_fallback(&mut d, FileId(0), text);
        assert_eq!(d, before);
        let mut d = Diagnostic::error("E320", "t");
        place_fallback(&mut d, FileId(0), "");
        assert_eq!(d.span(), Span::new(FileId(0), 0, 0));
    }
}
