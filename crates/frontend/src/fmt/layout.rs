//! Layout: decides where lines end, how far they are indented, and how long lines are broken.
//!
//! A line end of the source is kept where a line may end (before a statement or an item, after `{`
//! `(` `,`, at an operator, ..), and removed elsewhere. A block either stands on one line, or its
//! braces end and begin lines. A line longer than [`WIDTH`] is broken at its outermost block, or
//! else after the commas of its outermost bracket.

use super::piece::{Piece, Start};
use super::space::{binary, gap, wants_semicolon};
use super::{INDENT, WIDTH};
use crate::token::Token;

/// The separation between a piece and the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Break {
    /// Blanks or nothing.
    None,
    /// A line end.
    Line,
    /// A line end and an empty line.
    Blank,
}

/// A text that is being laid out.
pub struct Layout<'s> {
    /// The pieces.
    pub all: Vec<Piece<'s>>,
    breaks: Vec<Break>,
    /// The number of blanks before each piece in addition to its gap, for alignment.
    pub pads: Vec<usize>,
}

/// An open bracket.
struct BracketFrame {
    /// The column of lines inside the bracket.
    inner: usize,
    /// The column of the closing bracket, if it begins a line.
    close: usize,
    block: bool,
}

/// A line of the layout.
pub struct Line {
    /// The index of the first piece.
    pub from: usize,
    /// The index after the last piece.
    pub to: usize,
    /// The column of the first piece.
    pub indent: usize,
    /// Whether an empty line precedes it.
    pub blank: bool,
}

impl<'s> Layout<'s> {
    /// Decides on the line ends of a text.
    pub fn new(all: Vec<Piece<'s>>) -> Self {
        let n = all.len();
        let mut it = Layout { breaks: vec![Break::None; n], pads: vec![0; n], all };
        for i in 1..n {
            it.breaks[i] = it.kept(i);
        }
        it.blocks();
        it
    }

    /// Returns the line end before piece `i`, based on the source.
    fn kept(&self, i: usize) -> Break {
        let (p, n) = (&self.all[i - 1], &self.all[i]);
        let wanted = match n.newlines {
            0 => Break::None,
            1 => Break::Line,
            _ if p.opens() || n.closes() => Break::Line,
            _ => Break::Blank,
        };
        if p.is_comment() || n.start == Start::Item {
            return wanted.max(Break::Line);
        }
        if p.token == Token::OpenBrace && n.token == Token::CloseBrace {
            return Break::None;
        }
        if n.is_comment() || self.may_end(p, n) { wanted } else { Break::None }
    }

    /// Returns whether a line may end between two tokens.
    fn may_end(&self, p: &Piece<'_>, n: &Piece<'_>) -> bool {
        // The body of an algorithm may begin a line after the clauses of its head, and so may a
        // block that is a statement or the result of a program.
        let body = n.start != Start::None;
        if n.token == Token::OpenBrace && !body || matches!(n.token, Token::CloseParen | Token::CloseBracket)
        {
            return false;
        }
        n.start != Start::None
            || binary(n)
            || binary(p)
            || matches!(
                p.token,
                Token::OpenBrace
                    | Token::OpenParen
                    | Token::OpenBracket
                    | Token::Comma
                    | Token::Semicolon
                    | Token::Assign
                    | Token::PlusEq
            )
            || matches!(
                n.token,
                Token::CloseBrace
                    | Token::RightArrow
                    | Token::LeftArrow
                    | Token::Over
                    | Token::Using
                    | Token::On
                    | Token::Where
                    | Token::Chunks
                    | Token::Cost
                    | Token::Check
                    | Token::Alias
                    | Token::With
                    | Token::Expect
            )
    }

    /// Places the brackets of multi-line constructs. If a block contains a line end, its braces
    /// stand at the ends of lines. A `)` or `]` begins a line if its partner ends one.
    fn blocks(&mut self) {
        for close in 0..self.all.len() {
            let Some(open) = self.all[close].partner.filter(|_| self.all[close].closes()) else { continue };
            if open + 1 == close {
                continue;
            }
            if self.all[close].token != Token::CloseBrace {
                if self.breaks[open + 1] != Break::None {
                    self.end(close);
                }
            } else if self.breaks[open + 1..=close].iter().any(|b| *b != Break::None) {
                let first = if self.all[open + 1].is_comment() { open + 2 } else { open + 1 };
                self.end(first);
                self.end(close);
                self.after(close);
            }
        }
    }

    /// If a closing brace begins a line, an item or statement after it begins the next line.
    fn after(&mut self, close: usize) {
        if self.all.get(close + 1).is_some_and(|n| n.start != Start::None) {
            self.end(close + 1);
        }
    }

    fn end(&mut self, i: usize) {
        self.breaks[i] = self.breaks[i].max(Break::Line);
    }

    /// Returns the number of blanks before piece `i` within a line, including alignment. A `;` may
    /// precede them.
    pub fn before(&self, i: usize) -> usize {
        gap(&self.all, i) + self.pads[i]
    }

    /// Returns the index after the last piece of the line that begins with piece `from`.
    fn line_end(&self, from: usize) -> usize {
        (from + 1..self.all.len()).find(|&i| self.breaks[i] != Break::None).unwrap_or(self.all.len())
    }

    /// Returns all lines. If `fit` is set, lines that are too long are broken first.
    pub fn lines(&mut self, fit: bool) -> Vec<Line> {
        let mut open: Vec<BracketFrame> = vec![];
        let mut out = vec![];
        let mut from = 0;
        while from < self.all.len() {
            let indent = self.indent(from, &open);
            let mut to = self.line_end(from);
            while fit && self.columns(from, to, indent) > WIDTH && self.break_up(from, to) {
                to = self.line_end(from);
            }
            out.push(Line { from, to, indent, blank: self.breaks[from] == Break::Blank });
            self.walk(from, to, indent, &mut open);
            from = to;
        }
        out
    }

    /// Returns the number of columns of a line, without a comment at its end.
    pub fn columns(&self, from: usize, to: usize, indent: usize) -> usize {
        let code = if to > from + 1 && self.all[to - 1].is_comment() { to - 1 } else { to };
        (from..code).fold(indent, |col, i| col + self.all[i].width + if i > from { self.step(i) } else { 0 })
    }

    /// Returns the number of columns between piece `i` and the one before it on its line.
    pub fn step(&self, i: usize) -> usize {
        self.before(i) + usize::from(wants_semicolon(&self.all, i))
    }

    /// Updates the stack of open brackets with the brackets of a line.
    fn walk(&self, from: usize, to: usize, indent: usize, open: &mut Vec<BracketFrame>) {
        let mut col = indent;
        for i in from..to {
            col += if i > from { self.step(i) } else { 0 };
            col += self.all[i].width;
            if self.all[i].closes() {
                open.pop();
            } else if self.all[i].opens() {
                let last =
                    self.all.get(i + 1).is_none_or(|n| n.is_comment() || self.breaks[i + 1] != Break::None);
                open.push(if self.all[i].token == Token::OpenBrace {
                    let outer = open.last().map_or(0, |o| o.inner);
                    BracketFrame { inner: outer + INDENT, close: outer, block: true }
                } else if last {
                    BracketFrame { inner: indent + INDENT, close: indent, block: false }
                } else {
                    BracketFrame { inner: col, close: col, block: false }
                });
            }
        }
    }

    /// Returns the column of a line that begins with piece `from`.
    fn indent(&self, from: usize, open: &[BracketFrame]) -> usize {
        let Some(code) = (from..self.all.len()).find(|&i| !self.all[i].is_comment()) else { return 0 };
        let top = open.last();
        if self.all[code].closes() {
            return top.map_or(0, |o| if code == from { o.close } else { o.inner });
        }
        let base = top.map_or(0, |o| o.inner);
        if top.is_some_and(|o| !o.block) {
            return base;
        }
        let before = (0..from).rev().find(|&i| !self.all[i].is_comment());
        let fresh = before.is_none_or(|b| {
            matches!(self.all[b].token, Token::OpenBrace | Token::CloseBrace | Token::Semicolon)
        });
        if fresh || self.all[code].start != Start::None { base } else { base + INDENT }
    }

    /// Breaks a line that is too long. Returns false if nothing can be broken.
    fn break_up(&mut self, from: usize, to: usize) -> bool {
        // Brackets that open and close on this line, outermost first. At equal depth, blocks come
        // first.
        let mut groups: Vec<(usize, bool, usize, usize)> = (from..to)
            .filter(|&i| self.all[i].opens())
            .filter_map(|i| self.all[i].partner.filter(|&c| c < to && c > i + 1).map(|c| (i, c)))
            .map(|(i, c)| (self.all[i].depth, self.all[i].token != Token::OpenBrace, i, c))
            .collect();
        groups.sort_unstable();
        for (depth, bracket, i, close) in groups {
            if bracket {
                let commas: Vec<usize> = (i + 1..close)
                    .filter(|&k| self.all[k].token == Token::Comma && self.all[k].depth == depth + 1)
                    .collect();
                if commas.is_empty() {
                    continue;
                }
                commas.iter().for_each(|&k| self.end(k + 1));
            } else {
                self.end(i + 1);
                self.end(close);
                self.after(close);
                for k in i + 2..close {
                    let statement =
                        self.all[k].start != Start::None || self.all[k - 1].token == Token::Semicolon;
                    if statement && self.all[k].depth == depth + 1 {
                        self.end(k);
                    }
                }
            }
            return true;
        }
        false
    }
}
