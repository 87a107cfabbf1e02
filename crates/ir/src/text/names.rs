//! Names in text: numbers for equal hints, and the nearest name for diagnostics.

use super::lex::{Label, ParseResult};
use crate::name::Name;
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Span};
use std::collections::BTreeMap;

/// Returns the printed form of each name in a list: the hint, followed by `#1`, `#2`.. for repeated
/// hints.
pub fn labels<'a>(hints: impl IntoIterator<Item = &'a Name>) -> Vec<String> {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    hints
        .into_iter()
        .map(|hint| {
            let nth = seen.entry(hint.as_str()).or_insert(0);
            let label = Label { hint: hint.to_string(), nth: *nth };
            *nth += 1;
            label.to_string()
        })
        .collect()
}

/// Declarations of one kind: buffers, windows and so on.
#[derive(Debug)]
pub struct Names {
    what: &'static str,
    sigil: &'static str,
    known: BTreeMap<Label, (usize, Span)>,
}

impl Names {
    /// Creates an empty table; `what` and `sigil` are for diagnostics.
    pub fn new(what: &'static str, sigil: &'static str) -> Self {
        Names { what, sigil, known: BTreeMap::new() }
    }

    /// Declares a name with number `index`; returns E313 if the name is taken.
    pub fn declare(&mut self, label: &Label, index: usize, span: Span) -> ParseResult<()> {
        if let Some((_, first)) = self.known.get(label) {
            return Err(Diagnostic::error(
                "E313",
                format!("{} {}{label} is declared twice", self.what, self.sigil),
            )
            .primary(span, "again here")
            .secondary(*first, "first here")
            .help(format!("write {}{}#1 to keep the name as a hint, or rename it", self.sigil, label)));
        }
        self.known.insert(label.clone(), (index, span));
        Ok(())
    }

    /// Returns the number of a name; returns E312 if it is not declared.
    pub fn find(&self, label: &Label, span: Span) -> ParseResult<usize> {
        self.known.get(label).map(|k| k.0).ok_or_else(|| {
            let known: Vec<String> = self.known.keys().map(|k| format!("{}{k}", self.sigil)).collect();
            let text = format!("{}{label}", self.sigil);
            unknown("E312", self.what, &text, known.iter().map(String::as_str), span)
        })
    }
}

/// Creates the diagnostic for a word of older texts that has been replaced by another one.
pub(super) fn replaced(old: &str, new: &str, span: Span) -> Diagnostic {
    Diagnostic::error("E315", format!("`{old}` is an old word: it is `{new}` now"))
        .primary(span, "replaced")
        .help(format!("write `{new}`"))
}

/// Creates the diagnostic "there is no WHAT `text`", with the nearest valid name or the list of
/// valid names as help.
pub fn unknown<'a>(
    code: &'static str,
    what: &str,
    text: &str,
    valid: impl Iterator<Item = &'a str>,
    span: Span,
) -> Diagnostic {
    let valid: Vec<&str> = valid.collect();
    let d = Diagnostic::error(code, format!("unknown {what} `{text}`")).primary(span, "not known here");
    let sign = text.len() - text.trim_start_matches(['%', '@', '$']).len();
    let close = nearest(&text[sign..], valid.iter().map(|v| &v[sign.min(v.len())..]));
    match (close, &valid[..]) {
        (Some(n), _) => d.help(format!("did you mean `{}{n}`?", &text[..sign])),
        (None, []) => d.note(format!("no {what} is declared")),
        (None, few) if few.len() <= 24 => d.help(format!("one of: {}", few.join(", "))),
        (None, many) => d.note(format!("{} are declared, none with a similar name", many.len())),
    }
}
