//! What the parsers of all levels do with a line: its first word, its end, and its errors.

use super::cursor::LineCursor;
use super::lex::{LineNode, ParseResult, TokenKind};
use kbc_diag::{Diagnostic, Diagnostics, Span};

/// Returns the result of a line, or records its error so that parsing can continue.
pub fn keep<T>(result: ParseResult<T>, out: &mut Diagnostics) -> Option<T> {
    result.map_err(|d| out.push(d)).ok()
}

/// Returns the first word of a line.
pub fn head(n: &LineNode) -> &str {
    match n.toks.first().map(|t| &t.tok) {
        Some(TokenKind::Word(l, false)) if l.nth == 0 => &l.hint,
        _ => "",
    }
}

/// Reports an error if there are lines below a line that must not have any.
pub fn leaf(n: &LineNode, out: &mut Diagnostics) {
    if let Some(kid) = n.kids.first() {
        out.push(
            Diagnostic::error("E314", "the line before cannot have nested lines")
                .primary(kid.span, "indented too far")
                .secondary(n.span, "below this line"),
        );
    }
}

/// Returns the location at the end of the line, or that of the line itself.
pub(super) fn end_of(c: &mut LineCursor, line: Span) -> ParseResult<Span> {
    let span = c.location(line);
    c.finish().map(|()| span)
}
