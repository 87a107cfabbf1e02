//! Cursor over the tokens of one line, read from left to right.

use super::lex::{Label, ParseResult, Token, TokenKind};
use super::names::{Names, unknown};
use crate::name::Name;
use kbc_diag::{Diagnostic, Span};

/// A position in a line.
pub struct LineCursor<'a> {
    toks: &'a [Token],
    at: usize,
    line: Span,
    /// Whether an error about the meaning of a token waits until the line is read.
    defers: bool,
    deferred: Option<Diagnostic>,
    /// Number of operations in the current expression, and current depth of parentheses.
    pub(super) size: usize,
    pub(super) depth: usize,
}

impl<'a> LineCursor<'a> {
    /// Creates a cursor at the start of a line.
    pub fn new(toks: &'a [Token], line: Span) -> Self {
        LineCursor { toks, at: 0, line, defers: false, deferred: None, size: 0, depth: 0 }
    }

    /// Creates a cursor that reads a line to its end before it reports a name or a number that is
    /// wrong. So a line with a syntax error reports that error, whatever its names are.
    pub(super) fn deferring(toks: &'a [Token], line: Span) -> Self {
        LineCursor { defers: true, ..LineCursor::new(toks, line) }
    }

    /// Returns a result about the meaning of a token. An error is kept for the end of the line, and
    /// `instead` takes the place of the result.
    pub(super) fn defer<T>(&mut self, result: ParseResult<T>, instead: impl FnOnce() -> T) -> ParseResult<T> {
        match result {
            Err(d) if self.defers => {
                self.deferred.get_or_insert(d);
                Ok(instead())
            }
            result => result,
        }
    }

    /// Checks whether an error waits for the end of the line.
    pub(super) fn has_deferred(&self) -> bool {
        self.deferred.is_some()
    }

    /// Returns the next token.
    pub fn peek(&self) -> Option<&'a TokenKind> {
        self.peek_at(0)
    }

    /// Returns the token `n` positions after the next one.
    pub fn peek_at(&self, n: usize) -> Option<&'a TokenKind> {
        self.toks.get(self.at + n).map(|t| &t.tok)
    }

    /// Consumes the next token, whatever it is.
    pub fn skip(&mut self) {
        self.at += 1;
    }

    /// Returns the location of the next token, or of the end of the line if there is none.
    pub fn here(&self) -> Span {
        self.toks
            .get(self.at)
            .map_or(Span { start: self.line.end.saturating_sub(1), ..self.line }, |t| t.span)
    }

    /// Returns the location of the last consumed token.
    pub fn before(&self) -> Span {
        self.at.checked_sub(1).and_then(|i| self.toks.get(i)).map_or(self.line, |t| t.span)
    }

    /// Creates E311: "expected WHAT, found ..".
    pub fn expected(&self, what: &str) -> Diagnostic {
        let found = match self.peek() {
            None => "the end of the line".into(),
            Some(TokenKind::Word(l, _)) => format!("`{l}`"),
            Some(TokenKind::Percent(l)) => format!("`%{l}`"),
            Some(TokenKind::At(l)) => format!("`@{l}`"),
            Some(TokenKind::Dollar(n)) => format!("`${n}`"),
            Some(TokenKind::DollarName(l)) => format!("`${l}`"),
            Some(TokenKind::Int(n)) => format!("`{n}`"),
            Some(TokenKind::Float(v)) => format!("`{v:?}`"),
            Some(TokenKind::Str(_)) => "a string".into(),
            Some(TokenKind::Attribute(name)) => format!("`{name}`"),
            Some(TokenKind::Loc(_)) => "a location".into(),
            Some(TokenKind::Sym(s)) => format!("`{s}`"),
        };
        Diagnostic::error("E311", format!("expected {what}, found {found}")).primary(self.here(), "here")
    }

    /// Checks whether the next token is this symbol.
    pub fn is_sym(&self, s: &str) -> bool {
        matches!(self.peek(), Some(TokenKind::Sym(t)) if *t == s)
    }

    /// Consumes the symbol if it is next.
    pub fn eat(&mut self, s: &str) -> bool {
        let yes = self.is_sym(s);
        self.at += usize::from(yes);
        yes
    }

    /// Consumes the symbol; returns E311 if something else is next.
    pub fn expect(&mut self, s: &str) -> ParseResult<()> {
        if self.eat(s) { Ok(()) } else { Err(self.expected(&format!("`{s}`"))) }
    }

    /// Checks whether the next token is this word, not quoted.
    pub fn is_word(&self, w: &str) -> bool {
        matches!(self.peek(), Some(TokenKind::Word(l, false)) if l.hint == w && l.nth == 0)
    }

    /// Consumes the word if it is next.
    pub fn eat_word(&mut self, w: &str) -> bool {
        let yes = self.is_word(w);
        self.at += usize::from(yes);
        yes
    }

    /// Consumes the word; returns E311 if something else is next.
    pub fn expect_word(&mut self, w: &str) -> ParseResult<()> {
        if self.eat_word(w) { Ok(()) } else { Err(self.expected(&format!("`{w}`"))) }
    }

    /// Reads a name without a sigil and without a number after it.
    pub fn word(&mut self, what: &str) -> ParseResult<Name> {
        match self.peek() {
            Some(TokenKind::Word(l, _)) if l.nth == 0 => {
                self.at += 1;
                Ok(Name::from(&l.hint))
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads a word of the format, which is neither quoted nor numbered.
    pub fn keyword(&mut self, what: &str) -> ParseResult<Name> {
        match self.peek() {
            Some(TokenKind::Word(_, false)) => self.word(what),
            _ => Err(self.expected(what)),
        }
    }

    /// Reads a name without a sigil, which may have a number after it.
    pub fn label(&mut self, what: &str) -> ParseResult<&'a Label> {
        match self.peek() {
            Some(TokenKind::Word(l, _)) => {
                self.at += 1;
                Ok(l)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads `%name`.
    pub fn percent(&mut self, what: &str) -> ParseResult<&'a Label> {
        match self.peek() {
            Some(TokenKind::Percent(l)) => {
                self.at += 1;
                Ok(l)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads `@name`.
    pub fn at_name(&mut self, what: &str) -> ParseResult<&'a Label> {
        match self.peek() {
            Some(TokenKind::At(l)) => {
                self.at += 1;
                Ok(l)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads `@name` without a number after it, for things that are distinguished by name alone.
    pub fn at_word(&mut self, what: &str) -> ParseResult<Name> {
        match self.peek() {
            Some(TokenKind::At(l)) if l.nth == 0 => {
                self.at += 1;
                Ok(Name::from(&l.hint))
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads `$name`.
    pub fn dollar_name(&mut self, what: &str) -> ParseResult<&'a Label> {
        match self.peek() {
            Some(TokenKind::DollarName(l)) => {
                self.at += 1;
                Ok(l)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads `%name` and returns the number under which it is declared.
    pub fn percent_of(&mut self, names: &Names, what: &str) -> ParseResult<usize> {
        let span = self.here();
        let label = self.percent(what)?;
        self.defer(names.find(label, span), || 0)
    }

    /// Reads `@name` and returns the number under which it is declared.
    pub fn at_of(&mut self, names: &Names, what: &str) -> ParseResult<usize> {
        let span = self.here();
        let label = self.at_name(what)?;
        self.defer(names.find(label, span), || 0)
    }

    /// Reads an integer without a sign.
    pub fn int(&mut self, what: &str) -> ParseResult<u64> {
        match self.peek() {
            Some(TokenKind::Int(n)) => {
                self.at += 1;
                Ok(*n)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads an integer that fits a smaller type; returns E316 if it does not.
    pub fn small<T: TryFrom<u64>>(&mut self, what: &str) -> ParseResult<T> {
        let span = self.here();
        let value = self.int(what)?;
        let large = || Diagnostic::error("E316", format!("{what} is too large")).primary(span, "here");
        match (T::try_from(value), T::try_from(0)) {
            (Ok(v), _) => Ok(v),
            (Err(_), Ok(zero)) => self.defer(Err(large()), || zero),
            (Err(_), Err(_)) => Err(large()),
        }
    }

    /// Reads a string in quotes.
    pub fn string(&mut self, what: &str) -> ParseResult<String> {
        match self.peek() {
            Some(TokenKind::Str(s)) => {
                self.at += 1;
                Ok(s.clone())
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads a floating-point number with its sign.
    pub fn number(&mut self, what: &str) -> ParseResult<f64> {
        let negative = self.eat("-");
        let v = match self.peek() {
            Some(TokenKind::Int(n)) => *n as f64,
            Some(TokenKind::Float(v)) => *v,
            Some(TokenKind::Word(..)) if self.is_word("inf") => f64::INFINITY,
            Some(TokenKind::Word(..)) if self.is_word("NaN") => f64::NAN,
            _ => return Err(self.expected(what)),
        };
        self.at += 1;
        Ok(if negative { -v } else { v })
    }

    /// Reads one of a fixed set of words. Returns E315 with the nearest word otherwise.
    pub fn one_of<T>(
        &mut self,
        what: &str,
        parse: impl Fn(&str) -> Option<T>,
        valid: &[&str],
    ) -> ParseResult<T> {
        let span = self.here();
        let word = self.keyword(what)?;
        parse(&word).ok_or_else(|| unknown("E315", what, &word, valid.iter().copied(), span))
    }

    /// Reads the location at the end of a line or of an item; returns `default` if there is none.
    pub fn location(&mut self, default: Span) -> Span {
        match self.peek() {
            Some(TokenKind::Loc(span)) => {
                self.at += 1;
                *span
            }
            _ => default,
        }
    }

    /// Reads items separated by commas, up to and including a closing symbol.
    pub fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<Vec<T>> {
        let mut out = vec![];
        if self.eat(close) {
            return Ok(out);
        }
        loop {
            out.push(item(self)?);
            if self.eat(close) {
                return Ok(out);
            }
            self.expect(",").map_err(|_| self.expected(&format!("`,` or `{close}`")))?;
        }
    }

    /// Checks that the line is completely read, and returns the error that has waited for it.
    pub fn finish(&self) -> ParseResult<()> {
        self.end()?;
        self.deferred.clone().map_or(Ok(()), Err)
    }

    /// Checks that the line is completely read.
    pub(super) fn end(&self) -> ParseResult<()> {
        if self.at < self.toks.len() { Err(self.expected("the end of the line")) } else { Ok(()) }
    }
}
