//! Parser driver: from text to the tree of a file and its messages.
//!
//! This module owns the order of the steps, the limit on nesting, and the choice of parser errors
//! that deserve a message of their own. `explain` words these messages.

use crate::ast::File;
use crate::explain::{Context, explain};
use crate::grammar::FileParser;
use crate::make::{Ctx, Marks};
use crate::token::{Lexed, Token, lex, lex_part};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use lalrpop_util::ParseError;
use std::convert::Infallible;
use std::ops::Range;

/// The deepest allowed nesting of expressions and blocks. It protects all later recursions over the
/// tree from stack overflow.
pub const MAX_DEPTH: usize = 500;

/// Parses a file. Returns its tree and the messages with the codes E001 (character), E002 (syntax),
/// E003 (misuse of `for`), E006 (an argument of a split) and E007 (an old form), sorted by place.
/// Items that could not be parsed are absent from the tree; statements that could not be parsed are
/// `Error` nodes.
pub fn parse(file: FileId, text: &str) -> (File, Diagnostics) {
    let (tree, _, found) = parse_marked(file, text);
    (tree, found)
}

/// Parses the items of a part of a text, which must begin and end between items. Returns what
/// [`parse`] returns, with positions in the whole text.
pub fn parse_part(file: FileId, text: &str, part: Range<usize>) -> (File, Diagnostics) {
    let (tree, _, found) = parse_lexed(file, text, lex_part(file, text, part));
    (tree, found)
}

/// Parses a file as [`parse`] does, and also returns the marks for the formatter.
pub(crate) fn parse_marked(file: FileId, text: &str) -> (File, Marks, Diagnostics) {
    parse_lexed(file, text, lex(file, text))
}

fn parse_lexed(file: FileId, text: &str, lexed: Lexed<'_>) -> (File, Marks, Diagnostics) {
    let Lexed { tokens, docs, mut diagnostics } = lexed;
    if let Some((start, _, end)) = too_deep(&tokens) {
        diagnostics.push(
            Diagnostic::error("E002", format!("the text nests more than {MAX_DEPTH} levels deep"))
                .primary(Span::new(file, start, end), "the limit is exceeded here")
                .help("use `let` or `fn` for parts of it"),
        );
        return (File::default(), Marks::default(), diagnostics.finish());
    }
    let mut cx = Ctx::new(file, text, docs);
    let result = FileParser::new().parse(&mut cx, tokens.iter().map(|&t| Ok::<_, Infallible>(t)));
    let mut errors: Vec<_> = cx.recovered.into_iter().map(|r| r.error).collect();
    let tree = result.unwrap_or_else(|e| {
        errors.push(e);
        File::default()
    });
    diagnostics.extend(cx.diagnostics);
    report(&Context { file, text, tokens: &tokens }, errors, &mut diagnostics);
    (tree, cx.marks, diagnostics.finish())
}

/// Reports each error that is not a consequence of the previous one. It skips errors at an invalid
/// token (the lexer has reported it), errors on the line of the last error (unless that error only
/// showed that the line before had no end), and errors inside the brackets that contained the last
/// error.
fn report(cx: &Context<'_>, errors: Vec<ParseError<usize, Token<'_>, Infallible>>, out: &mut Diagnostics) {
    let mut places: Vec<(usize, Vec<String>)> = errors.into_iter().filter_map(|e| place(cx, e)).collect();
    places.sort();
    let mut quiet_until = 0;
    for (index, expected) in places {
        let (start, token, _) =
            cx.tokens.get(index).copied().unwrap_or((cx.text.len(), Token::CloseBrace, cx.text.len()));
        let at_fault = index < cx.tokens.len() && token == Token::Error;
        if !at_fault && (start >= quiet_until || quiet_until == 0) {
            out.push(explain(cx, index, &expected));
        }
        if at_fault || start >= quiet_until {
            quiet_until = if cx.begins_something(index) {
                start + 1
            } else {
                let line_end = cx.text[start..].find('\n').map_or(cx.text.len(), |n| start + n);
                line_end.max(cx.end_of_brackets(index)).max(1)
            };
        }
    }
}

/// Returns the index of the token at which an error occurred (the number of tokens for the end of
/// the file), and the terminals that were expected.
fn place(cx: &Context<'_>, e: ParseError<usize, Token<'_>, Infallible>) -> Option<(usize, Vec<String>)> {
    match e {
        ParseError::UnrecognizedToken { token, expected } => {
            Some((cx.tokens.partition_point(|t| t.0 < token.0), expected))
        }
        ParseError::ExtraToken { token } => Some((cx.tokens.partition_point(|t| t.0 < token.0), vec![])),
        ParseError::InvalidToken { location } => {
            Some((cx.tokens.partition_point(|t| t.0 < location), vec![]))
        }
        ParseError::UnrecognizedEof { expected, .. } => Some((cx.tokens.len(), expected)),
        ParseError::User { error } => match error {},
    }
}

/// Returns the first token at which the tree could become deeper than [`MAX_DEPTH`]. The depth
/// counts the open brackets and, in each bracket, the operators of the current expression.
fn too_deep<'s>(tokens: &[(usize, Token<'s>, usize)]) -> Option<(usize, Token<'s>, usize)> {
    let mut levels: Vec<usize> = vec![0];
    let mut depth = 0;
    let mut last = Token::Semicolon;
    for &t in tokens {
        let fresh = match t.1 {
            Token::OpenParen | Token::OpenBracket | Token::OpenBrace => {
                levels.push(1);
                depth += 1;
                false
            }
            Token::CloseParen | Token::CloseBracket | Token::CloseBrace => {
                if levels.len() > 1 {
                    depth -= levels.pop().unwrap_or(0);
                }
                false
            }
            Token::Comma
            | Token::Semicolon
            | Token::Let
            | Token::Return
            // A name precedes `=`, and no operand.
            | Token::Assign
            | Token::Put
            | Token::Get
            | Token::For
            | Token::Each
            | Token::Apply
            | Token::Scratch
            | Token::Fn
            | Token::Algorithm
            | Token::Collective
            | Token::Param => true,
            // An `if` at a position where no operand can stand begins a statement.
            Token::If => matches!(
                last,
                Token::Name(_)
                    | Token::Path(_)
                    | Token::Number(_)
                    | Token::CloseParen
                    | Token::CloseBracket
                    | Token::CloseBrace
                    | Token::OpenBrace
                    | Token::Reduce
            ),
            Token::OrOr
            | Token::AndAnd
            | Token::EqEq
            | Token::NotEq
            | Token::LessEq
            | Token::GreaterEq
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::Less
            | Token::Greater
            | Token::Or
            | Token::Xor
            | Token::And
            | Token::Plus
            | Token::Minus
            | Token::Star
            | Token::Slash
            | Token::Percent
            | Token::Not
            | Token::Else => {
                if let Some(level) = levels.last_mut() {
                    *level += 1;
                    depth += 1;
                }
                false
            }
            _ => false,
        };
        // The operators of the previous expression no longer count, but the bracket around it is
        // still open.
        let bracket = usize::from(levels.len() > 1);
        if let Some(level) = levels.last_mut().filter(|l| fresh && **l > bracket) {
            depth -= *level - bracket;
            *level = bracket;
        }
        if depth > MAX_DEPTH {
            return Some(t);
        }
        last = t.1;
    }
    None
}
