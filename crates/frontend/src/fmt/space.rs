//! Spacing: the number of blanks between two pieces on one line.

use super::piece::{Piece, Start};
use crate::token::Token;

/// Returns the number of blanks before piece `i`, which is not the first one of its line.
pub fn gap(all: &[Piece<'_>], i: usize) -> usize {
    let (p, n) = (&all[i - 1], &all[i]);
    if n.is_comment() {
        return 2;
    }
    if p.unary {
        return 0;
    }
    if binary(n) {
        return usize::from(!tight(all, i));
    }
    if binary(p) {
        return usize::from(!tight(all, i - 1));
    }
    match (p.token, n.token) {
        (_, Token::Comma | Token::Semicolon | Token::CloseParen | Token::CloseBracket)
        | (Token::OpenParen | Token::OpenBracket, _)
        | (_, Token::Colon | Token::AtSign | Token::DotDot)
        | (Token::AtSign | Token::DotDot, _)
        | (Token::OpenBrace, Token::CloseBrace) => 0,
        // The key of a file: "file.npz":key
        (Token::Colon, _) => usize::from(i < 2 || !matches!(all[i - 2].token, Token::String(_))),
        (_, Token::OpenParen) => usize::from(n.apart || !calls(p)),
        (Token::Name(_) | Token::Path(_) | Token::CloseBracket, Token::OpenBracket) => 0,
        (_, Token::OpenBracket) if p.called => 0,
        _ => 1,
    }
}

/// Returns whether piece `i` begins a statement on the same line as the previous one, so that a `;`
/// is needed before it.
pub fn wants_semicolon(all: &[Piece<'_>], i: usize) -> bool {
    let before = |t: &Token<'_>| matches!(t, Token::OpenBrace | Token::CloseBrace | Token::Semicolon);
    all[i].start == Start::Statement && i > 0 && !all[i - 1].is_comment() && !before(&all[i - 1].token)
}

/// Returns whether a parenthesis after this piece follows it directly.
fn calls(p: &Piece<'_>) -> bool {
    p.called
        || matches!(
            p.token,
            Token::Name(_)
                | Token::Path(_)
                | Token::Sum
                | Token::Partial
                | Token::Only
                | Token::Tiles
                | Token::Dot
                | Token::Zeros
                | Token::CloseParen
        )
}

/// Returns whether the piece is an operator with two operands.
pub fn binary(p: &Piece<'_>) -> bool {
    !p.unary && (arithmetic(p) || comparison(p))
}

/// Returns whether the piece is an operator that may be written without blanks.
fn arithmetic(p: &Piece<'_>) -> bool {
    matches!(
        p.token,
        Token::Plus
            | Token::Minus
            | Token::Star
            | Token::Slash
            | Token::Percent
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::Or
            | Token::Xor
            | Token::And
    )
}

fn comparison(p: &Piece<'_>) -> bool {
    matches!(
        p.token,
        Token::EqEq
            | Token::NotEq
            | Token::Less
            | Token::LessEq
            | Token::Greater
            | Token::GreaterEq
            | Token::AndAnd
            | Token::OrOr
    )
}

/// Returns whether the operator at `i` was written without blanks on both sides (`p-1`, `2*d`). The
/// formatter keeps this.
fn tight(all: &[Piece<'_>], i: usize) -> bool {
    arithmetic(&all[i]) && all[i].touches() && all.get(i + 1).is_some_and(|n| n.touches() && !n.is_comment())
}
