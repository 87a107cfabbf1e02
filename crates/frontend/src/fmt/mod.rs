//! `.kb` text in its one form: `kbc fmt` (docs/adr/010-formatter.md, docs/fmt.md).
//!
//! Owns blanks, line ends and indentation, and nothing else: every token and every comment of the text comes out again, in
//! its order; the only token ever added is a `;` between two statements on one line. So the formatted text means
//! what the text meant, which [`format`] checks on its own output. What the tokens do not say (where a statement begins,
//! which sign is unary) comes from the parser ([`crate::make::Marks`]).

mod align;
mod layout;
mod piece;
mod space;

use crate::parse::parse_marked;
use crate::token::{MARK, Token};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use logos::Logos;

/// Longest line that is made; what cannot be broken is left longer.
pub const WIDTH: usize = 120;

/// Columns of a level.
pub const INDENT: usize = 4;

/// The text in its one form; `\n` ends every line, a byte order mark goes.
///
/// # Errors
/// Those of [`crate::parse()`]: text that does not parse has no form. E995: the formatted text would not be the same
/// program (a bug, found here and not by the user).
pub fn format(file: FileId, text: &str) -> Result<String, Diagnostics> {
    let (tree, marks, found) = parse_marked(file, text);
    if found.has_errors() {
        return Err(found);
    }
    let items = tree.items.iter().map(|i| i.span().start as usize).collect();
    let out = layout::Layout::new(piece::pieces(text, marks, items)).text();
    if same(text, &out) {
        return Ok(out);
    }
    Err(Diagnostic::error("E995", "the formatted text would not be the same program")
        .primary(Span::new(file, 0, 0), "this file is left as it is")
        .into())
}

/// Whether two texts have the same tokens and comments, `;` and blanks at the ends of comments apart.
fn same(before: &str, after: &str) -> bool {
    tokens(before).eq(tokens(after))
}

/// Tokens and comments without what formatting may change.
fn tokens(text: &str) -> impl Iterator<Item = Result<Token<'_>, ()>> {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    Token::lexer(text).filter(|t| *t != Ok(Token::Semicolon)).map(|t| match t {
        Ok(Token::Comment(c)) => Ok(Token::Comment(c.trim_end())),
        other => other,
    })
}
