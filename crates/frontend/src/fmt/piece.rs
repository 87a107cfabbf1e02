//! A text as pieces: tokens and comments, each with what stood before it and what the parser knows of it.

use crate::make::Marks;
use crate::token::{MARK, Number, Token};
use logos::Logos;
use std::borrow::Cow;

/// A token or a comment.
#[derive(Clone, Debug)]
pub struct Piece<'s> {
    /// What it is.
    pub token: Token<'s>,
    /// Its text as it is written out.
    pub text: Cow<'s, str>,
    /// Columns of it.
    pub width: usize,
    /// Line ends before it in the source.
    pub newlines: usize,
    /// Characters between it and the piece before, if they share a line.
    pub blanks: usize,
    /// What begins here.
    pub start: Start,
    /// An operator with one operand.
    pub unary: bool,
    /// A name that is called: its parenthesis touches it.
    pub called: bool,
    /// A parenthesis that belongs to no name before it.
    pub apart: bool,
    /// Open brackets around it; a closing bracket stands outside.
    pub depth: usize,
    /// The other bracket of a pair.
    pub partner: Option<usize>,
}

/// What begins at a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Nothing.
    None,
    /// An item.
    Item,
    /// A statement.
    Statement,
    /// A clause or a part, that no `;` separates.
    Part,
}

impl Piece<'_> {
    /// Whether it is a comment.
    pub fn is_comment(&self) -> bool {
        matches!(self.token, Token::Comment(_))
    }

    /// Whether it opens a bracket.
    pub fn opens(&self) -> bool {
        matches!(self.token, Token::OpenParen | Token::OpenBracket | Token::OpenBrace)
    }

    /// Whether it closes a bracket.
    pub fn closes(&self) -> bool {
        matches!(self.token, Token::CloseParen | Token::CloseBracket | Token::CloseBrace)
    }

    /// Whether nothing but blanks and fewer than a line end stand before it.
    pub fn touches(&self) -> bool {
        self.newlines == 0 && self.blanks == 0
    }
}

/// Places of a text that are asked for from its beginning to its end.
struct Places<T> {
    list: Vec<(usize, T)>,
    next: usize,
}

impl<T: Copy> Places<T> {
    fn new(mut list: Vec<(usize, T)>) -> Self {
        list.sort_by_key(|p| p.0);
        Places { list, next: 0 }
    }

    /// What was said last of a place behind the one asked for before.
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

/// Cuts a text that parses into pieces; `items` are first bytes.
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
        // A text that parses has no faults.
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

/// Characters of a text.
fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// A piece's text: comments without blanks at the end, one blank before a unit.
fn written<'s>(token: Token<'s>, text: &'s str) -> Cow<'s, str> {
    match token {
        Token::Comment(c) => c.trim_end().into(),
        Token::Number(Number::Quantity(_)) => {
            // The unit begins after the digits, fraction and exponent; no unit begins with `e` or `E`.
            let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '/').trim_end();
            let unit = text[number.len()..].trim_start();
            format!("{number} {unit}").into()
        }
        _ => text.into(),
    }
}
