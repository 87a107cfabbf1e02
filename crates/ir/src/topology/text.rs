//! The text of a machine: `torus(2, 3) { link: 50 GB/s, 500 ns; fence: 20 ns }`.
//!
//! Owns a reader for the command line and for `.kir` headers, where no grammar of the frontend is at hand. Sizes are
//! whole numbers here; expressions and parameters belong to `.kb` files and are evaluated before they come here.

use kbc_diag::{Diagnostic, FileId, Span, Spanned};

use super::quantity::{quantity, unit_names};
use super::settings::{SettingValue, Settings};
use super::shape::{Part, Shape};

/// Nested shapes deeper than this are refused.
const MAX_DEPTH: usize = 16;

/// Reads a shape and, where written, its settings.
///
/// # Errors
/// E446 for what is no such text, and the errors of [`Shape::from_call`] and [`Settings::set`], with spans in `file`.
pub fn parse(text: &str, file: FileId) -> Result<(Shape, Settings), Diagnostic> {
    let mut reader = Reader { text, file, at: 0 };
    let shape = reader.shape(0)?;
    let mut settings = Settings::default();
    if reader.take('{') {
        while !reader.take('}') {
            reader.setting(&mut settings)?;
            if !reader.take(';') {
                reader.expect('}', "`;` or `}` after a setting")?;
                break;
            }
        }
    }
    reader.blanks();
    match reader.rest().chars().next() {
        None => Ok((shape, settings)),
        Some(_) => Err(reader.expected("the end, or settings in `{ }`")),
    }
}

struct Reader<'t> {
    text: &'t str,
    file: FileId,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn span(&self, start: usize) -> Span {
        Span::new(self.file, start, self.at)
    }

    /// Skips blanks, then takes the longest prefix of such characters.
    fn run(&mut self, of: impl Fn(char) -> bool) -> Spanned<&'t str> {
        self.blanks();
        let (start, rest) = (self.at, self.rest());
        self.at += rest.find(|c| !of(c)).unwrap_or(rest.len());
        Spanned::new(&rest[..self.at - start], self.span(start))
    }

    fn word(&mut self) -> Option<Spanned<String>> {
        self.blanks();
        if !self.rest().starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        let word = self.run(|c| c.is_ascii_alphanumeric() || c == '_');
        Some(Spanned::new(word.node.to_owned(), word.span))
    }

    fn take(&mut self, c: char) -> bool {
        self.blanks();
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn expect(&mut self, c: char, what: &str) -> Result<(), Diagnostic> {
        if self.take(c) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expected(&mut self, what: &str) -> Diagnostic {
        self.blanks();
        let found = match self.rest().chars().next() {
            None => "the text ends".to_owned(),
            Some(c) => format!("found `{c}`"),
        };
        let end = self.at + self.rest().chars().next().map_or(0, char::len_utf8);
        Diagnostic::error("E446", format!("expected {what}, {found}"))
            .primary(Span::new(self.file, self.at, end), "here")
            .help("a machine is written like `torus(2, 3) { link: 50 GB/s, 500 ns; fence: 20 ns }`")
    }

    fn shape(&mut self, depth: usize) -> Result<Shape, Diagnostic> {
        let Some(name) = self.word() else {
            return Err(self.expected("the name of a topology generator"));
        };
        if depth > MAX_DEPTH {
            let title = format!("shapes are nested more than {MAX_DEPTH} deep");
            return Err(Diagnostic::error("E446", title).primary(name.span, "here"));
        }
        // An unknown name is the better message than a missing parenthesis after it.
        if !super::shape::SHAPE_NAMES.contains(&name.node.as_str()) {
            return Shape::from_call(&name, &[]);
        }
        self.expect('(', "`(` after the generator's name")?;
        let mut parts = vec![];
        while !self.take(')') {
            parts.push(self.part(depth)?);
            if !self.take(',') {
                self.expect(')', "`,` or `)` after an argument")?;
                break;
            }
        }
        Shape::from_call(&name, &parts)
    }

    fn part(&mut self, depth: usize) -> Result<Spanned<Part>, Diagnostic> {
        self.blanks();
        let start = self.at;
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let negative = self.take('-');
            let digits = self.run(|c| c.is_ascii_digit());
            if digits.node.is_empty() {
                return Err(self.expected("a size"));
            }
            let Ok(size) = digits.node.parse::<i64>() else {
                let title = "the size does not fit 64 bits".to_owned();
                return Err(super::shape::out_of_range(title, digits.span));
            };
            let size = if negative { -size } else { size };
            return Ok(Spanned::new(Part::Size(size), self.span(start)));
        }
        let shape = self.shape(depth + 1)?;
        Ok(Spanned::new(Part::Shape(shape), self.span(start)))
    }

    fn setting(&mut self, settings: &mut Settings) -> Result<(), Diagnostic> {
        let Some(name) = self.word() else {
            return Err(self.expected("the name of a setting"));
        };
        self.expect(':', "`:` after the setting's name")?;
        let mut values = vec![self.value()?];
        while self.take(',') {
            values.push(self.value()?);
        }
        settings.set(&name, &values)
    }

    fn value(&mut self) -> Result<Spanned<SettingValue>, Diagnostic> {
        if let Some(word) = self.word() {
            return Ok(Spanned::new(SettingValue::Name(word.node), word.span));
        }
        let number = self.number();
        if number.node.is_empty() {
            return Err(self.expected("a number, a quantity or a name"));
        }
        let Ok(plain) = number.node.parse::<f64>() else {
            let title = format!("`{}` is no number", number.node);
            return Err(Diagnostic::error("E446", title).primary(number.span, "here"));
        };
        let after = self.at;
        let Some(unit) = self.word() else {
            self.at = after;
            return Ok(Spanned::new(SettingValue::Number(plain), number.span));
        };
        let mut unit_text = unit.node;
        if self.rest().starts_with("/s") {
            self.at += 2;
            unit_text.push_str("/s");
        }
        let span = Span::new(self.file, number.span.start as usize, self.at);
        match quantity(number.node, &unit_text) {
            Some(q) => Ok(Spanned::new(SettingValue::Quantity(q), span)),
            None if unit_names().contains(&unit_text.as_str()) => {
                Err(Diagnostic::error("E446", "the number does not fit").primary(span, "here"))
            }
            None => Err(super::unknown("E446", "unit", &unit_text, &unit_names(), span)),
        }
    }

    /// Digits, a fraction, an exponent.
    fn number(&mut self) -> Spanned<&'t str> {
        self.blanks();
        let start = self.at;
        self.run(|c| c.is_ascii_digit() || c == '.');
        let bytes = self.rest().as_bytes();
        let sign = usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
        if matches!(bytes.first(), Some(b'e' | b'E')) && bytes.get(1 + sign).is_some_and(u8::is_ascii_digit) {
            self.at += 1 + sign;
            self.run(|c| c.is_ascii_digit());
        }
        Spanned::new(self.text.get(start..self.at).unwrap_or(""), self.span(start))
    }
}
