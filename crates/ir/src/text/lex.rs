//! Lexer: lines and tokens of `.kir` text.
//!
//! The module handles characters, comments, quoting and indentation. The parsers interpret the
//! words.

use super::words::{is_start, quoted, word_length};
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};

/// Result of a parsing function.
pub type ParseResult<T> = Result<T, Diagnostic>;

/// Maximum nesting depth of blocks and of parentheses. Deeper text is rejected, so that no text can
/// exhaust the stack.
pub const MAX_DEPTH: usize = 300;

/// A name as written: the hint, and the number that distinguishes values with the same hint
/// (`x#1`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Label {
    /// Hint.
    pub hint: String,
    /// Number; 0 for the first value with this hint.
    pub nth: u32,
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&quoted(&self.hint))?;
        if self.nth > 0 { write!(f, "#{}", self.nth) } else { Ok(()) }
    }
}

/// A token.
#[derive(Clone, PartialEq, Debug)]
pub enum TokenKind {
    /// A name or keyword without a sigil. The flag is true if it was quoted; then it is never a
    /// keyword.
    Word(Label, bool),
    /// `%name`.
    Percent(Label),
    /// `@name`.
    At(Label),
    /// `$3`.
    Dollar(u64),
    /// `$name`.
    DollarName(Label),
    /// An integer.
    Int(u64),
    /// A number with a decimal point or an exponent.
    Float(f64),
    /// A string in double quotes.
    Str(String),
    /// The name of an attribute of another tool, with its prefix `x-`. A number or a string
    /// follows.
    Attribute(String),
    /// A location: `@0:12..40` or `@-`.
    Loc(Span),
    /// A symbol.
    Sym(&'static str),
}

/// A token with its location.
#[derive(Clone, Debug)]
pub struct Token {
    /// Token.
    pub tok: TokenKind,
    /// Location.
    pub span: Span,
}

/// A line with its tokens and the lines indented below it.
#[derive(Debug)]
pub struct LineNode {
    /// Location of the content, without indentation and comment.
    pub span: Span,
    /// Tokens; at least one.
    pub toks: Vec<Token>,
    /// Lines indented below this one.
    pub kids: Vec<LineNode>,
}

/// Symbols, longest first, so that the first match is the longest.
const SYMBOLS: [&str; 33] = [
    "->", "-=", "..", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "(", ")", "[", "]", "{", "}", ",", ":",
    "=", "+", "-", "*", "/", "<", ">", "!", "&", "|", "@", ";", "%", "^",
];

/// Byte order mark.
pub(super) const MARK: char = '\u{feff}';

/// Divides a text into lines and nests them by indentation. Lines with an error are reported and
/// left out.
pub fn tree(file: FileId, text: &str, out: &mut Diagnostics) -> Vec<LineNode> {
    // Open blocks: the indentation of their lines, and their lines so far.
    let mut open: Vec<(usize, Vec<LineNode>)> = vec![(0, vec![])];
    // Some editors put a byte order mark before a text; it is not part of the text.
    let mark = if text.starts_with(MARK) { MARK.len_utf8() } else { 0 };
    let mut at = mark;
    for line in text[mark..].split('\n') {
        let start = at;
        at += line.len() + 1;
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        let (toks, span) = match tokens(file, start + indent, body.trim_end_matches('\r')) {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(d) => {
                out.push(d);
                continue;
            }
        };
        let innermost = open.last().map_or(0, |o| o.0);
        if indent > innermost {
            if open.last().is_none_or(|o| o.1.is_empty()) {
                out.push(bad_indent(span, "the first line must not be indented"));
            } else if open.len() > MAX_DEPTH {
                out.push(bad_indent(span, &format!("blocks nest at most {MAX_DEPTH} levels deep")));
                continue;
            } else {
                open.push((indent, vec![]));
            }
        } else {
            while open.len() > 1 && open.last().is_some_and(|o| o.0 > indent) {
                close(&mut open);
            }
            if open.last().is_some_and(|o| o.0 != indent) {
                out.push(bad_indent(span, "no line above starts at this column"));
            }
        }
        if let Some((_, list)) = open.last_mut() {
            list.push(LineNode { span, toks, kids: vec![] });
        }
    }
    while open.len() > 1 {
        close(&mut open);
    }
    open.pop().map(|o| o.1).unwrap_or_default()
}

fn close(open: &mut Vec<(usize, Vec<LineNode>)>) {
    if let Some((_, kids)) = open.pop()
        && let Some(parent) = open.last_mut().and_then(|o| o.1.last_mut())
    {
        parent.kids = kids;
    }
}

fn bad_indent(span: Span, why: &str) -> Diagnostic {
    Diagnostic::error("E314", "the indentation of this line matches no block").primary(span, why)
}

struct Lexer<'a> {
    file: FileId,
    base: usize,
    text: &'a str,
    at: usize,
}

/// Returns the tokens of a line that starts at byte `base`, or `None` if it has none. Only spaces
/// or a comment follow the last token.
pub(super) fn tokens(file: FileId, base: usize, text: &str) -> ParseResult<Option<(Vec<Token>, Span)>> {
    let mut lexer = Lexer { file, base, text, at: 0 };
    if let Some(rest) = text.strip_prefix("machine ")
        && !rest.trim_start().starts_with('"')
    {
        return Ok(Some(lexer.machine(rest)));
    }
    let mut out: Vec<Token> = vec![];
    let mut brackets = 0usize;
    loop {
        lexer.at += lexer.rest().len() - lexer.rest().trim_start_matches(' ').len();
        // A `;` opens a comment, except in brackets, where it is a separator: `v[i; n of k]`.
        if lexer.rest().is_empty() || (lexer.rest().starts_with(';') && brackets == 0) {
            break;
        }
        let start = lexer.at;
        let tok = lexer.token()?;
        match tok {
            TokenKind::Sym("[") => brackets += 1,
            TokenKind::Sym("]") => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        out.push(Token { tok, span: lexer.span(start, lexer.at) });
    }
    let Some(last) = out.last() else { return Ok(None) };
    let span = out[0].span.to(last.span);
    Ok(Some((out, span)))
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, self.base + start, self.base + end)
    }

    fn fail(&self, start: usize, title: String, label: &str) -> Diagnostic {
        let end = self.text.len().min(self.at.max(start + 1));
        Diagnostic::error("E310", title).primary(self.span(start, end), label)
    }

    /// Reads the line of the machine, whose text extends to the end of the line or to a comment. A
    /// `;` in brackets is part of the machine.
    fn machine(&self, rest: &str) -> (Vec<Token>, Span) {
        let mut depth = 0i32;
        let comment = rest.bytes().position(|b| {
            depth += match b {
                b'{' | b'(' => 1,
                b'}' | b')' => -1,
                _ => 0,
            };
            b == b';' && depth <= 0
        });
        let text = &rest[..comment.unwrap_or(rest.len())];
        let from = "machine ".len() + (text.len() - text.trim_start().len());
        let span = self.span(from, from + text.trim().len());
        let word = Token {
            tok: TokenKind::Word(Label { hint: "machine".into(), nth: 0 }, false),
            span: self.span(0, "machine".len()),
        };
        let whole = word.span.to(span);
        (vec![word, Token { tok: TokenKind::Str(text.trim().into()), span }], whole)
    }

    fn token(&mut self) -> ParseResult<TokenKind> {
        let start = self.at;
        let c = self.rest().chars().next().unwrap_or(' ');
        let after = self.rest()[c.len_utf8()..].chars().next().unwrap_or(' ');
        Ok(match c {
            '"' => TokenKind::Str(self.string('"')?),
            '%' | '@' if is_start(after) || after == '`' => {
                self.at += 1;
                let label = self.label()?;
                if c == '%' { TokenKind::Percent(label) } else { TokenKind::At(label) }
            }
            '@' if after.is_ascii_digit() || after == '-' => TokenKind::Loc(self.location(start)?),
            '$' if after.is_ascii_digit() => {
                self.at += 1;
                TokenKind::Dollar(self.int()?)
            }
            '$' if is_start(after) || after == '`' => {
                self.at += 1;
                TokenKind::DollarName(self.label()?)
            }
            'x' if self.attribute_length().is_some() => {
                let end = self.at + self.attribute_length().unwrap_or_default();
                let name = self.text[start..end].to_owned();
                self.at = end;
                TokenKind::Attribute(name)
            }
            _ if is_start(c) || c == '`' => {
                let label = self.label()?;
                TokenKind::Word(label, c == '`')
            }
            _ if c.is_ascii_digit() => self.number()?,
            _ => match SYMBOLS.iter().find(|s| self.rest().starts_with(**s)) {
                Some(s) => {
                    self.at += s.len();
                    TokenKind::Sym(s)
                }
                None => {
                    let d = self.fail(start, format!("unexpected character {c:?}"), "here");
                    return Err(if c == '\t' { d.help("indent and separate with spaces") } else { d });
                }
            },
        })
    }

    /// Returns the length of the name of an attribute: `x-` and words joined by `-`, with a space
    /// before it and a number or a string after it. So it is no difference of variables.
    fn attribute_length(&self) -> Option<usize> {
        let mut n = self.rest().strip_prefix("x-").map(|_| 1)?;
        while self.rest()[n..].starts_with('-') {
            let word = word_length(&self.rest()[n + 1..]);
            if word == 0 {
                return None;
            }
            n += 1 + word;
        }
        let value = self.rest()[n..].strip_prefix(' ')?.trim_start_matches(' ').chars().next()?;
        let alone = self.at == 0 || self.text[..self.at].ends_with(' ');
        (alone && (value == '"' || value.is_ascii_digit())).then_some(n)
    }

    /// Reads a name, plain or in back quotes, with the number that distinguishes it from others
    /// with the same hint.
    fn label(&mut self) -> ParseResult<Label> {
        let hint = if self.rest().starts_with('`') {
            self.string('`')?
        } else {
            let n = word_length(self.rest());
            let word = &self.rest()[..n];
            self.at += n;
            word.to_string()
        };
        let mut nth = 0;
        if self.rest().starts_with('#') {
            let start = self.at;
            self.at += 1;
            nth = u32::try_from(self.int()?)
                .map_err(|_| self.fail(start, "the number after `#` is too large".into(), "here"))?;
        }
        Ok(Label { hint, nth })
    }

    fn string(&mut self, quote: char) -> ParseResult<String> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return Err(self.fail(start, format!("the closing {quote} is missing"), "opened here"));
            };
            self.at += c.len_utf8();
            match c {
                _ if c == quote => return Ok(out),
                '\\' => out.push(self.escape()?),
                _ => out.push(c),
            }
        }
    }

    fn escape(&mut self) -> ParseResult<char> {
        let start = self.at - 1;
        let c = self.rest().chars().next().unwrap_or(' ');
        self.at = self.text.len().min(self.at + c.len_utf8());
        Ok(match c {
            'n' => '\n',
            't' => '\t',
            '"' | '`' | '\\' => c,
            'u' => {
                let digits = self.rest().strip_prefix('{').and_then(|r| r.split_once('}')).map(|(d, _)| d);
                let value = digits.and_then(|d| u32::from_str_radix(d, 16).ok()).and_then(char::from_u32);
                match (digits, value) {
                    (Some(d), Some(v)) => {
                        self.at += d.len() + 2;
                        v
                    }
                    _ => {
                        return Err(self.fail(
                            start,
                            "`\\u` is followed by {hexadecimal digits}".into(),
                            "here",
                        ));
                    }
                }
            }
            _ => {
                return Err(self
                    .fail(start, format!("unknown escape `\\{c}`"), "here")
                    .help("the escapes are \\n \\t \\\" \\` \\\\ \\u{..}"));
            }
        })
    }

    fn digits(&mut self) -> &'a str {
        let rest = self.rest();
        let n = rest.bytes().take_while(u8::is_ascii_digit).count();
        self.at += n;
        &rest[..n]
    }

    fn int(&mut self) -> ParseResult<u64> {
        let start = self.at;
        let digits = self.digits();
        digits.parse().map_err(|_| match digits {
            "" => self.fail(start, "digits are missing".into(), "expected a number"),
            _ => self.fail(start, format!("{digits} does not fit in 64 bits"), "here"),
        })
    }

    fn number(&mut self) -> ParseResult<TokenKind> {
        let start = self.at;
        self.digits();
        let mut float = false;
        let next = |l: &Self, n: usize| l.rest().as_bytes().get(n).copied().unwrap_or(b' ');
        if next(self, 0) == b'.' && next(self, 1).is_ascii_digit() {
            float = true;
            self.at += 1;
            self.digits();
        }
        let sign = usize::from(matches!(next(self, 1), b'+' | b'-'));
        if next(self, 0) == b'e' && next(self, 1 + sign).is_ascii_digit() {
            float = true;
            self.at += 1 + sign;
            self.digits();
        }
        if float {
            let text = &self.text[start..self.at];
            return text
                .parse()
                .map(TokenKind::Float)
                .map_err(|_| self.fail(start, format!("{text} is not a number"), "here"));
        }
        self.at = start;
        Ok(TokenKind::Int(self.int()?))
    }

    /// Reads a location: `@FILE:START..END` in bytes, or `@-` for none.
    fn location(&mut self, start: usize) -> ParseResult<Span> {
        self.at += 1;
        if self.rest().starts_with('-') {
            self.at += 1;
            return Ok(Span::NONE);
        }
        let mut part = |after: &str| -> ParseResult<u32> {
            let n = self.int()?;
            let ok = self.rest().starts_with(after);
            match u32::try_from(n) {
                Ok(n) if ok => {
                    self.at += after.len();
                    Ok(n)
                }
                _ => Err(self
                    .fail(start, "this is not a location".into(), "here")
                    .help("a location is @FILE:FIRST..END in bytes, or @- for none")),
            }
        };
        let file = part(":")?;
        let first = part("..")?;
        let end = part("")?;
        Ok(Span { file: FileId(file), start: first, end })
    }
}
