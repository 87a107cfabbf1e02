//! Lexer: the tokens of `.kb`, and the words that messages use for them.
//!
//! This module turns the text of both halves of the language into tokens. Blanks and `//` comments
//! are dropped, and `///` lines are passed along beside the tokens. Anything that is not a token (a
//! stray character, an unterminated string, a number that is too large) becomes [`Token::Error`]
//! with its own message (E001), so that the parser sees the gap and recovers. All structure is left
//! to the grammar.

use crate::ast::{Dimension, Quantity};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use logos::{Lexer, Logos};
use std::collections::BTreeMap;
use std::ops::Range;

/// The value of a number, which its suffix determines.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum NumberLiteral {
    /// Digits only.
    Int(i64),
    /// Digits with a fraction or an exponent.
    Float(f64),
    /// A number with a unit.
    Quantity(Quantity),
}

macro_rules! tokens {
    ($($variant:ident $text:literal $kind:ident,)*) => {
        /// A token. Fixed tokens are listed once, in the table below, with their text and their
        /// kind.
        #[derive(Logos, Clone, Copy, PartialEq, Debug)]
        #[logos(skip r"[ \t\r\n]+")]
        #[expect(missing_docs, reason = "the fixed tokens are their text")]
        pub enum Token<'s> {
            $(#[token($text)] $variant,)*
            /// An identifier that is not a reserved word.
            #[regex("[A-Za-z_][A-Za-z0-9_]*")]
            Name(&'s str),
            /// A name with its namespace: `collectives.ring`. Words after a dot are not reserved.
            #[regex(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+")]
            Path(&'s str),
            /// A number, including its fraction, exponent and unit.
            #[regex("[0-9]", number)]
            Number(NumberLiteral),
            /// A string without its quotes.
            #[token("\"", string)]
            String(&'s str),
            /// Text in single quotes. It is never valid, but yields one error and not two.
            #[token("'", quoted)]
            Quoted,
            /// A `//` or `///` comment up to the end of the line. It never reaches the parser.
            #[token("//", comment)]
            Comment(&'s str),
            /// Text that is not a token. Its message has already been reported.
            Error,
        }

        /// The fixed tokens: their text, and whether they are reserved words.
        const FIXED: &[(&str, TokenKind)] = &[$(($text, TokenKind::$kind),)*];

        impl Token<'_> {
            /// Returns the text of a fixed token.
            fn fixed(&self) -> Option<&'static str> {
                match self { $(Token::$variant => Some($text),)* _ => None }
            }
        }
    };
}

/// The kind of a fixed token: reserved word or sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TokenKind {
    Word,
    /// A word that is reserved only where its clause may begin, and a name everywhere else.
    Soft,
    Sign,
}

tokens! {
    // items
    Use "use" Word, Param "param" Word, Topology "topology" Word, Mesh "mesh" Word, Table "table" Soft,
    Kernel "kernel" Word,
    Program "program" Word, Local "local" Word, Fn "fn" Word, Collective "collective" Word, Algorithm "algorithm" Word,
    // heads
    Mod "mod" Word, Of "of" Word, On "on" Word, From "from" Word, To "to" Word, Over "over" Word, Using "using" Word,
    Chunks "chunks" Word, Where "where" Word, At "at" Word, In "in" Word,
    As "as" Soft, Cost "cost" Soft, Check "check" Soft, Alias "alias" Soft, With "with" Soft, Via "via" Soft,
    // statements and clauses
    Let "let" Word, Scratch "scratch" Word, Put "put" Word, Get "get" Word, For "for" Word, Each "each" Word,
    If "if" Word, Else "else" Word, Apply "apply" Word, Together "together" Word, Reduce "reduce" Word,
    Start "start" Soft, End "end" Soft, Sum "sum" Word, True "true" Word, False "false" Word,
    // programs and kernels
    Return "return" Word, Host "host" Word, Expect "expect" Word, Group "group" Soft, Ranks "ranks" Soft, Partial "partial" Word, Only "only" Word,
    Tiles "tiles" Word, Preload "preload" Word, Load "load" Word, Store "store" Word, Dot "dot" Word, Zeros "zeros" Word,
    // signs
    LeftArrow "<-" Sign, RightArrow "->" Sign, DotDot ".." Sign, PlusEq "+=" Sign,
    OrOr "||" Sign, AndAnd "&&" Sign, EqEq "==" Sign, NotEq "!=" Sign, LessEq "<=" Sign, GreaterEq ">=" Sign,
    ShiftLeft "<<" Sign, ShiftRight ">>" Sign, Less "<" Sign, Greater ">" Sign, Or "|" Sign, Xor "^" Sign, And "&" Sign,
    Plus "+" Sign, Minus "-" Sign, Star "*" Sign, Slash "/" Sign, Percent "%" Sign, Not "!" Sign, Assign "=" Sign,
    OpenParen "(" Sign, CloseParen ")" Sign, OpenBracket "[" Sign, CloseBracket "]" Sign, OpenBrace "{" Sign,
    CloseBrace "}" Sign, Comma "," Sign, Semicolon ";" Sign, Colon ":" Sign, AtSign "@" Sign,
}

impl Token<'_> {
    /// Returns how a message names this token, such as `` `put` ``, the name `foo`, or the number
    /// 3.
    pub fn words(&self) -> String {
        match self {
            Token::Name(n) | Token::Path(n) => format!("the name `{n}`"),
            Token::Number(NumberLiteral::Int(n)) => format!("the number {n}"),
            Token::Number(NumberLiteral::Float(x)) => format!("the number {x}"),
            Token::Number(NumberLiteral::Quantity(_)) => "a quantity with a unit".into(),
            Token::String(s) => format!("the string \"{s}\""),
            Token::Comment(_) => "a comment".into(),
            Token::Quoted => "text in single quotes".into(),
            Token::Error => "an invalid character".into(),
            fixed => format!("`{}`", fixed.fixed().unwrap_or("?")),
        }
    }

    /// Returns the text if the token is a word, reserved or soft.
    fn word(&self) -> Option<&'static str> {
        let text = self.fixed()?;
        FIXED.iter().any(|&(t, k)| t == text && k != TokenKind::Sign).then_some(text)
    }

    /// Returns the text if the token is a reserved word.
    pub fn reserved(&self) -> Option<&'static str> {
        let text = self.fixed()?;
        FIXED.iter().any(|&(t, k)| t == text && k == TokenKind::Word).then_some(text)
    }
}

/// Iterates over all words of the grammar, for "did you mean".
pub fn reserved_words() -> impl Iterator<Item = &'static str> {
    FIXED.iter().filter(|f| f.1 != TokenKind::Sign).map(|f| f.0)
}

/// Returns whether this is the text of a word that is also a name.
pub fn is_soft(word: &str) -> bool {
    FIXED.contains(&(word, TokenKind::Soft))
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

/// Returns the length of the longest prefix of digits.
fn digits(b: &[u8]) -> usize {
    b.iter().take_while(|c| c.is_ascii_digit()).count()
}

/// Reads the rest of a number: digits, a fraction (only if digits follow the point), an exponent, a
/// unit.
fn number<'s>(lex: &mut Lexer<'s, Token<'s>>) -> Result<NumberLiteral, ()> {
    lex.bump(digits(lex.remainder().as_bytes()));
    let mut whole = true;
    let rest = lex.remainder().as_bytes();
    if rest.first() == Some(&b'.') && rest.get(1).is_some_and(u8::is_ascii_digit) {
        whole = false;
        lex.bump(1 + digits(&rest[1..]));
    }
    let rest = lex.remainder().as_bytes();
    if matches!(rest.first(), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(1), Some(b'+' | b'-')));
        let n = digits(rest.get(1 + sign..).unwrap_or(&[]));
        if n > 0 && !rest.get(1 + sign + n).is_some_and(|&c| is_word(c)) {
            whole = false;
            lex.bump(1 + sign + n);
        }
    }
    let text = lex.slice();
    if let Some((len, factor, dimension)) = unit(lex.remainder()) {
        lex.bump(len);
        let amount = text.parse::<f64>().map_err(|_| ())? * factor;
        return if amount.is_finite() {
            Ok(NumberLiteral::Quantity(Quantity { amount, dimension }))
        } else {
            Err(())
        };
    }
    if whole {
        return text.parse().map(NumberLiteral::Int).map_err(|_| ());
    }
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(NumberLiteral::Float(x)),
        _ => Err(()),
    }
}

/// Reads blanks and a unit at the start of `rest`. Returns their length, the factor to the base
/// unit, and the dimension.
fn unit(rest: &str) -> Option<(usize, f64, Dimension)> {
    const KI: f64 = 1024.0;
    let b = rest.as_bytes();
    let blanks = b.iter().take_while(|c| matches!(c, b' ' | b'\t')).count();
    let word = b[blanks..].iter().take_while(|&&c| is_word(c)).count();
    let after = &b[blanks + word..];
    let per_second = after.starts_with(b"/s") && !after.get(2).is_some_and(|&c| is_word(c));
    let (factor, dimension) = match &rest[blanks..blanks + word] {
        "B" => (1.0, Dimension::Bytes),
        "KB" => (1e3, Dimension::Bytes),
        "MB" => (1e6, Dimension::Bytes),
        "GB" => (1e9, Dimension::Bytes),
        "TB" => (1e12, Dimension::Bytes),
        "KiB" => (KI, Dimension::Bytes),
        "MiB" => (KI * KI, Dimension::Bytes),
        "GiB" => (KI * KI * KI, Dimension::Bytes),
        "ns" => (1.0, Dimension::Nanoseconds),
        "us" => (1e3, Dimension::Nanoseconds),
        "ms" => (1e6, Dimension::Nanoseconds),
        "GFLOP" => (1e9, Dimension::FlopPerSecond),
        "TFLOP" => (1e12, Dimension::FlopPerSecond),
        _ => return None,
    };
    match (dimension, per_second) {
        (Dimension::Bytes, true) => Some((blanks + word + 2, factor, Dimension::BytesPerSecond)),
        (Dimension::FlopPerSecond, true) => Some((blanks + word + 2, factor, dimension)),
        (Dimension::FlopPerSecond, false) => None,
        _ => Some((blanks + word, factor, dimension)),
    }
}

/// Reads up to the closing quote. A string must end on its line. `\` is an ordinary character.
fn string<'s>(lex: &mut Lexer<'s, Token<'s>>) -> Result<&'s str, ()> {
    let rest = lex.remainder();
    match rest.find(['"', '\n']) {
        Some(n) if rest.as_bytes()[n] == b'"' => {
            lex.bump(n + 1);
            Ok(&rest[..n])
        }
        end => {
            lex.bump(end.unwrap_or(rest.len()));
            Err(())
        }
    }
}

/// Reads up to the closing single quote, if there is one on the line.
fn quoted<'s>(lex: &mut Lexer<'s, Token<'s>>) -> Result<(), ()> {
    let line = lex.remainder().lines().next().unwrap_or("");
    lex.bump(line.find('\'').map_or(0, |n| n + 1));
    Err(())
}

/// Reads up to the end of the line.
fn comment<'s>(lex: &mut Lexer<'s, Token<'s>>) -> &'s str {
    let rest = lex.remainder();
    lex.bump(rest.find('\n').unwrap_or(rest.len()));
    lex.slice()
}

/// The documentation of an item: its `///` lines.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Doc {
    /// The text of each line without its marker, with the bytes of the whole line.
    pub lines: Vec<(String, Range<usize>)>,
}

impl Doc {
    /// Returns the lines, joined by line ends.
    pub fn text(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(|l| l.0.as_str()).collect();
        lines.join("\n")
    }
}

/// The tokens of a file, with its documentation and its errors.
#[derive(Debug)]
pub struct Lexed<'s> {
    /// The tokens, each with its start and end in bytes.
    pub tokens: Vec<(usize, Token<'s>, usize)>,
    /// The `///` lines, by the start of the token that follows them.
    pub docs: BTreeMap<usize, Doc>,
    /// The errors (E001).
    pub diagnostics: Diagnostics,
}

/// The byte order mark that some editors put before a text. It is not part of the text.
pub const MARK: char = '\u{feff}';

/// Cuts a text into tokens. Neighbouring characters that are not tokens yield one error.
pub fn lex(file: FileId, text: &str) -> Lexed<'_> {
    let mark = if text.starts_with(MARK) { MARK.len_utf8() } else { 0 };
    lex_part(file, text, mark..text.len())
}

/// Cuts a part of a text into tokens, as [`lex`] does for a whole text.
pub(crate) fn lex_part(file: FileId, text: &str, part: Range<usize>) -> Lexed<'_> {
    let mut out = Lexed { tokens: vec![], docs: BTreeMap::new(), diagnostics: Diagnostics::new() };
    let mut doc = Doc::default();
    let mut faults: Vec<(usize, usize)> = vec![];
    let first = part.start;
    for (token, range) in Token::lexer(&text[part]).spanned() {
        let range = range.start + first..range.end + first;
        match token {
            Ok(Token::Comment(c)) => {
                if let Some(line) = c.strip_prefix("///").filter(|l| !l.starts_with('/')) {
                    doc.lines.push((line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned(), range));
                }
                continue;
            }
            Ok(token) => out.tokens.push((range.start, token, range.end)),
            Err(()) => match faults.last_mut() {
                Some(last)
                    if last.1 == range.start
                        && !text[range.clone()]
                            .starts_with(|c: char| matches!(c, '"' | '\'') || c.is_ascii_digit()) =>
                {
                    last.1 = range.end;
                    if let Some(t) = out.tokens.last_mut() {
                        t.2 = range.end;
                    }
                }
                _ => {
                    faults.push((range.start, range.end));
                    out.tokens.push((range.start, Token::Error, range.end));
                }
            },
        }
        if !doc.lines.is_empty() {
            out.docs.insert(range.start, std::mem::take(&mut doc));
        }
    }
    for (start, end) in faults {
        out.diagnostics.push(fault(&text[start..end], Span::new(file, start, end)));
    }
    mend(text, &mut out.tokens);
    out
}

/// Replaces invalid tokens whose message has already been reported by the token that was probably
/// meant, so that the parser continues without further errors. A word with foreign letters becomes
/// a name, an arrow or operator becomes the one that it resembles, and a special blank is dropped.
fn mend<'s>(text: &'s str, tokens: &mut Vec<(usize, Token<'s>, usize)>) {
    let mark = |c: char| matches!(c, '\u{300}'..='\u{36f}');
    let letters = |s: &str| s.chars().all(|c| !c.is_ascii() && (c.is_alphanumeric() || mark(c)));
    let word = |t: &Token<'_>| {
        matches!(t, Token::Name(_) | Token::Number(NumberLiteral::Int(_))) || t.word().is_some()
    };
    let mut out: Vec<(usize, Token<'s>, usize)> = vec![];
    // Whether the last token is a name with foreign letters. Pieces that directly follow it
    // continue the name.
    let mut foreign = false;
    for &(start, token, end) in tokens.iter() {
        let touching = out.last().copied().filter(|l| l.2 == start);
        let piece = &text[start..end];
        let fault = token == Token::Error;
        let first = match touching {
            Some(last) if fault && letters(piece) && word(&last.1) => Some(last.0),
            Some(last) if foreign && (word(&token) || fault && letters(piece)) => Some(last.0),
            _ => None,
        };
        if let Some(first) = first {
            out.pop();
            out.push((first, Token::Name(&text[first..end]), end));
            foreign = true;
            continue;
        }
        foreign = fault && letters(piece);
        let mut chars = piece.chars();
        let meant = chars.next().filter(|_| fault && chars.next().is_none()).and_then(ascii_for);
        match meant.map(|m| (m, Token::lexer(m).next())) {
            _ if foreign => out.push((start, Token::Name(piece), end)),
            Some((" ", _)) => {}
            Some((_, Some(Ok(meant)))) if meant.fixed().is_some() => out.push((start, meant, end)),
            _ => out.push((start, token, end)),
        }
    }
    *tokens = out;
}

/// Returns the message for a piece of text that is not a token.
fn fault(text: &str, span: Span) -> Diagnostic {
    if text.starts_with('"') {
        return Diagnostic::error("E001", "this string is not closed")
            .primary(span, "the closing `\"` is missing on this line")
            .help("write the closing `\"`; a string cannot continue on the next line");
    }
    if text.starts_with('\'') {
        return Diagnostic::error("E001", "single quotes are not part of the language")
            .primary(span, "not allowed here")
            .help("write strings in double quotes: `\"..\"`");
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return Diagnostic::error("E001", format!("the number {text} is too large")).primary(
            span,
            "an integer is at most 9223372036854775807, a floating-point number at most about 1.8e308",
        );
    }
    let shown: String = text
        .chars()
        .take(12)
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect();
    let many = text.chars().nth(1).is_some();
    let d = Diagnostic::error(
        "E001",
        if many {
            format!("unexpected characters `{shown}`")
        } else {
            format!("unexpected character `{shown}`")
        },
    )
    .primary(span, if many { "not allowed here" } else { "not a character of the language" });
    let plain: Option<String> = text.chars().map(ascii_for).collect::<Option<Vec<_>>>().map(|v| v.concat());
    match plain {
        Some(p) => d.help(format!("write `{p}`")),
        None if !text.is_ascii() => d.help("names consist of the letters a-z and A-Z, digits and `_`; other letters are allowed in comments and strings"),
        None => d,
    }
}

/// Returns the ASCII token that users probably meant by this character.
fn ascii_for(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2190}' => "<-",
        '\u{2192}' => "->",
        '\u{2013}' | '\u{2014}' | '\u{2212}' => "-",
        '\u{d7}' | '\u{b7}' | '\u{22c5}' => "*",
        '\u{f7}' => "/",
        '\u{2264}' => "<=",
        '\u{2265}' => ">=",
        '\u{2260}' => "!=",
        '\u{2026}' => "..",
        '\u{201c}' | '\u{201d}' | '\u{201e}' => "\"",
        '\u{2227}' => "&&",
        '\u{2228}' => "||",
        '\u{2295}' => "^",
        '\u{a0}' => " ",
        '#' => "//",
        _ => return None,
    })
}
