//! Pieces: the tokens and comments of a text, each with what precedes it and with facts from the
//! parser.

use crate::make::Marks;
use crate::token::{MARK, NumberLiteral, Token};
use logos::Logos;
use std::borrow::Cow;

/// A token or a comment.
#[derive(Clone, Debug)]
pub struct Piece<'s> {
    /// The token.
    pub token: Token<'s>,
    /// The text in the formatted output.
    pub text: Cow<'s, str>,
    /// The width in columns.
    pub width: usize,
    /// The number of line ends before it in the source.
    pub newlines: usize,
    /// The number of characters between it and the previous piece. It counts if both are on the
    /// same line.
    pub blanks: usize,
    /// The construct that begins here.
    pub start: Start,
    /// Whether it is an operator with one operand.
    pub unary: bool,
    /// Whether it is a name that is called. The opening parenthesis then follows directly.
    pub called: bool,
    /// Whether it is a parenthesis that does not belong to the name before it.
    pub apart: bool,
    /// The number of open brackets around it. A closing bracket does not count as inside its own
    /// pair.
    pub depth: usize,
    /// The index of the other bracket of the pair.
    pub partner: Option<usize>,
}

/// The construct that begins at a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Nothing.
    None,
    /// An item.
    Item,
    /// A statement.
    Statement,
    /// A clause or a part, which is not separated by `;`.
    Part,
}

impl Piece<'_> {
    /// Returns whether it is a comment.
    pub fn is_comment(&self) -> bool {
        matches!(self.token, Token::Comment(_))
    }

    /// Returns whether it is an opening bracket.
    pub fn opens(&self) -> bool {
        matches!(self.token, Token::OpenParen | Token::OpenBracket | Token::OpenBrace)
    }

    /// Returns whether it is a closing bracket.
    pub fn closes(&self) -> bool {
        matches!(self.token, Token::CloseParen | Token::CloseBracket | Token::CloseBrace)
    }

    /// Returns whether it directly follows the previous piece.
    pub fn touches(&self) -> bool {
        self.newlines == 0 && self.blanks == 0
    }
}

/// Positions of a text with values, which are queried in ascending order.
struct Places<T> {
    list: Vec<(usize, T)>,
    next: usize,
}

impl<T: Copy> Places<T> {
    fn new(mut list: Vec<(usize, T)>) -> Self {
        list.sort_by_key(|p| p.0);
        Places { list, next: 0 }
    }

    /// Returns the last value recorded for a position. It must not precede the position of the
    /// previous query.
    fn at(&mut self, place: usize) -> Option<T> {
        let ahead = &self.list[self.next..];
        let to = ahead.iter().position(|p| p.0 > place).unwrap_or(ahead.len());
        self.next += to;
        ahead[..to].last().filter(|p| p.0 == place).map(|p| p.1)
    }
}

fn places(list: Vec<usize>) -> Places<()> {
    Places::new(list.into_iter().map(|p| (p, ())).collect())
}

/// Cuts a text that parses into pieces. `items` lists the first bytes of the items.
pub fn pieces(text: &str, marks: Marks, items: Vec<usize>) -> Vec<Piece<'_>> {
    let mut out: Vec<Piece<'_>> = vec![];
    let (mut starts, mut items) = (Places::new(marks.starts), places(items));
    let (mut unary, mut calls, mut apart) = (places(marks.unary), places(marks.calls), places(marks.apart));
    let mut open: Vec<usize> = vec![];
    let mut last = 0;
    let mark = if text.starts_with(MARK) { MARK.len_utf8() } else { 0 };
    last += mark;
    let mut lexer = Token::lexer(&text[mark..]);
    while let Some(token) = lexer.next() {
        // A text that parses contains no invalid tokens.
        let Ok(token) = token else { continue };
        let range = lexer.span().start + mark..lexer.span().end + mark;
        let between = &text[last..range.start];
        let written = written(token, lexer.slice());
        let mut piece = Piece {
            token,
            width: columns(&written),
            text: written,
            newlines: between.matches('\n').count(),
            blanks: between.chars().count(),
            start: match (items.at(range.start), starts.at(range.start)) {
                (Some(()), _) => Start::Item,
                (_, Some(true)) => Start::Statement,
                (_, Some(false)) => Start::Part,
                _ => Start::None,
            },
            unary: unary.at(range.start).is_some(),
            called: calls.at(range.end).is_some(),
            apart: apart.at(range.start).is_some(),
            depth: open.len(),
            partner: None,
        };
        last = range.end;
        if piece.closes()
            && let Some(at) = open.pop()
        {
            piece.depth = open.len();
            piece.partner = Some(at);
            out[at].partner = Some(out.len());
        } else if piece.opens() {
            open.push(out.len());
        }
        out.push(piece);
    }
    out
}

/// Returns the number of characters of a text.
fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Returns the formatted text of a piece: a comment has no trailing blanks, and one blank precedes
/// a unit.
fn written<'s>(token: Token<'s>, text: &'s str) -> Cow<'s, str> {
    match token {
        Token::Comment(c) => c.trim_end().into(),
        Token::Number(NumberLiteral::Quantity(_)) => {
            // The unit begins after the digits, the fraction and the exponent. No unit begins with
            // `e` or `E`.
            let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '/').trim_end();
            let unit = text[number.len()..].trim_start();
            format!("{number} {unit}").into()
        }
        _ => text.into(),
    }
}
