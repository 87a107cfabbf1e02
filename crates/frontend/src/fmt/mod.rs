//! Formatter of `kbc fmt`: gives `.kb` text its standard form (docs/adr/010-formatter.md,
//! docs/reference/fmt.md).
//!
//! The formatter changes blanks, line ends and indentation, and nothing else. Every token and every
//! comment of the text is preserved in order. The only token that it ever adds is a `;` between two
//! statements on one line. So the formatted text has the same meaning as the original; [`format()`]
//! checks this for its own output. Facts that tokens do not show (where a statement begins, which
//! sign is unary) come from the parser (`make::Marks`).

mod align;
mod layout;
mod piece;
mod space;

use crate::parse::parse_marked;
use crate::token::{MARK, Token};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use layout::Layout;
use logos::Logos;
use space::wants_semicolon;

/// The largest width of a formatted line, in columns. Lines that cannot be broken may be longer.
pub const WIDTH: usize = 120;

/// The number of columns of an indentation level.
pub const INDENT: usize = 4;

/// Returns the text in its standard form. `\n` ends every line, and a byte order mark is removed.
///
/// # Errors
/// Returns the errors of [`crate::parse()`], because a text that does not parse has no standard
/// form. Returns E995 if the formatted text would not be the same program; this is a bug of the
/// formatter.
pub fn format(file: FileId, text: &str) -> Result<String, Diagnostics> {
    let (tree, marks, found) = parse_marked(file, text);
    if found.has_errors() {
        return Err(found);
    }
    let items = tree.items.iter().map(|i| i.span().start as usize).collect();
    let out = laid_out(Layout::new(piece::pieces(text, marks, items)));
    if same(text, &out) {
        return Ok(out);
    }
    Err(Diagnostic::error("E995", "formatting would change the meaning of this program")
        .primary(Span::new(file, 0, 0), "this file was not changed")
        .into())
}

/// Returns the text of a layout, with its columns aligned.
fn laid_out(mut layout: Layout<'_>) -> String {
    let lines = layout.lines(true);
    let lines = align::tokens(&mut layout, lines);
    align::comments(&mut layout, &lines);
    let mut out = String::new();
    for line in &lines {
        if line.blank {
            out.push('\n');
        }
        blanks(&mut out, line.indent);
        for i in line.from..line.to {
            if i > line.from {
                if wants_semicolon(&layout.all, i) {
                    out.push(';');
                }
                blanks(&mut out, layout.before(i));
            }
            out.push_str(&layout.all[i].text);
        }
        out.push('\n');
    }
    out
}

fn blanks(out: &mut String, n: usize) {
    out.extend(std::iter::repeat_n(' ', n));
}

/// Returns whether two texts have the same tokens and comments, except for `;` and blanks at the
/// ends of comments.
fn same(before: &str, after: &str) -> bool {
    tokens(before).eq(tokens(after))
}

/// Returns tokens and comments without the parts that formatting may change.
fn tokens(text: &str) -> impl Iterator<Item = Result<Token<'_>, ()>> {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    Token::lexer(text).filter(|t| *t != Ok(Token::Semicolon)).map(|t| match t {
        Ok(Token::Comment(c)) => Ok(Token::Comment(c.trim_end())),
        other => other,
    })
}
