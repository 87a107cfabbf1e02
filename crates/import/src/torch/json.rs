//! JSON parser: turns a text into a flat list of values, each with the byte where it begins.
//!
//! This module owns the syntax of JSON, including the bare `NaN` and `Infinity` that Python writes.
//! Readers of a format own the meaning of the values.
//!
//! Values are listed in the order of the text. A list or an object precedes its contents and stores
//! the index of the value after them. The contents of strings and numbers stay in the text and are
//! parsed lazily. A program of a megabyte therefore needs a single allocation.

use std::borrow::Cow;

/// A parsed JSON text.
#[derive(Clone, Debug)]
pub struct Parsed<'t> {
    text: &'t str,
    values: Vec<JsonNode>,
}

/// A value of the text; 12 bytes.
#[derive(Clone, Copy, Debug)]
struct JsonNode {
    /// First byte in the text.
    at: u32,
    /// For lists and objects, the index of the value after their contents; for other values, the
    /// byte after them.
    end: u32,
    kind: JsonKind,
}

/// The kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of JSON")]
pub enum JsonKind {
    Null,
    True,
    False,
    Number,
    /// A string without escapes.
    Plain,
    /// A string with escapes.
    Escaped,
    List,
    Map,
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub struct Json<'d> {
    /// First byte in the text.
    pub at: usize,
    of: &'d Parsed<'d>,
    number: usize,
}

/// An error in a text, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFault {
    /// Byte of the text.
    pub at: usize,
    /// What was expected there, or why the text is invalid.
    pub why: String,
}

impl JsonFault {
    /// Makes a fault at a byte.
    pub fn new(at: usize, why: impl Into<String>) -> JsonFault {
        JsonFault { at, why: why.into() }
    }
}

/// Greatest nesting of lists and objects. Deeper texts are rejected, so that no text
/// overflows the stack.
const DEEPEST: usize = 64;

/// Number of characters of text per value for the initial allocation. Compact texts have fewer, and
/// the list grows.
const A_VALUE: usize = 8;

/// Parses a text.
///
/// # Errors
/// Returns a fault if the text is not JSON.
pub fn parse(text: &str) -> Result<Parsed<'_>, JsonFault> {
    if u32::try_from(text.len()).is_err() {
        return Err(JsonFault::new(0, "the JSON text is 4 GB or larger"));
    }
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut p = Parser { text, at: start, values: Vec::with_capacity(text.len() / A_VALUE) };
    p.value(0)?;
    p.blank();
    if p.at < text.len() {
        return Err(JsonFault::new(p.at, "expected the end of the file"));
    }
    Ok(Parsed { text, values: p.values })
}

impl Parsed<'_> {
    /// Returns the outermost value.
    pub fn root(&self) -> Json<'_> {
        self.value(0)
    }

    fn value(&self, number: usize) -> Json<'_> {
        Json { at: self.values[number].at as usize, of: self, number }
    }

    /// Returns the index of the value after a value and its contents.
    fn behind(&self, number: usize) -> usize {
        let v = &self.values[number];
        if matches!(v.kind, JsonKind::List | JsonKind::Map) { v.end as usize } else { number + 1 }
    }
}

/// Iterator over the elements of a list.
#[derive(Clone, Debug)]
pub struct Elements<'d> {
    of: &'d Parsed<'d>,
    next: usize,
    end: usize,
}

impl<'d> Iterator for Elements<'d> {
    type Item = Json<'d>;

    fn next(&mut self) -> Option<Json<'d>> {
        if self.next >= self.end {
            return None;
        }
        let v = self.of.value(self.next);
        self.next = self.of.behind(self.next);
        Some(v)
    }
}

/// Iterator over the keys of an object with their values.
#[derive(Clone, Debug)]
pub struct Entries<'d>(Elements<'d>);

impl<'d> Iterator for Entries<'d> {
    type Item = (Cow<'d, str>, Json<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.0.next()?;
        Some((key.characters(), self.0.next()?))
    }
}

impl<'d> Json<'d> {
    /// Returns the kind of the value.
    pub fn kind(&self) -> JsonKind {
        self.of.values[self.number].kind
    }

    /// Returns the contents of a list or an object.
    fn inside(&self) -> Elements<'d> {
        Elements { of: self.of, next: self.number + 1, end: self.of.behind(self.number) }
    }

    /// Returns the text of a value without contents.
    fn word(&self) -> &'d str {
        let v = &self.of.values[self.number];
        &self.of.text[v.at as usize..v.end as usize]
    }

    /// Returns the characters of a string.
    fn characters(&self) -> Cow<'d, str> {
        let word = self.word();
        let inner = &word[1..word.len() - 1];
        if self.kind() == JsonKind::Plain { inner.into() } else { unescaped(inner).into() }
    }

    /// Returns the value of a key, if this is an object with that key.
    pub fn get(&self, key: &str) -> Option<Json<'d>> {
        if self.kind() != JsonKind::Map {
            return None;
        }
        let mut inside = self.inside();
        while let (Some(k), Some(v)) = (inside.next(), inside.next()) {
            let word = k.word();
            let same = match k.kind() {
                JsonKind::Plain => word[1..word.len() - 1] == *key,
                _ => k.characters() == key,
            };
            if same {
                return Some(v);
            }
        }
        None
    }

    /// Returns the value of a required key.
    ///
    /// # Errors
    /// Returns a fault if the key is missing.
    pub fn want(&self, key: &str) -> Result<Json<'d>, JsonFault> {
        self.get(key)
            .ok_or_else(|| JsonFault::new(self.at, format!("expected an object with the key `{key}`")))
    }

    /// Returns the elements.
    ///
    /// # Errors
    /// Returns a fault if this is not a list.
    pub fn list(&self) -> Result<Elements<'d>, JsonFault> {
        match self.kind() {
            JsonKind::List => Ok(self.inside()),
            _ => Err(JsonFault::new(self.at, "expected a list")),
        }
    }

    /// Returns the keys with their values.
    ///
    /// # Errors
    /// Returns a fault if this is not an object.
    pub fn map(&self) -> Result<Entries<'d>, JsonFault> {
        match self.kind() {
            JsonKind::Map => Ok(Entries(self.inside())),
            _ => Err(JsonFault::new(self.at, "expected an object")),
        }
    }

    /// Returns the characters.
    ///
    /// # Errors
    /// Returns a fault if this is not a string.
    pub fn text(&self) -> Result<Cow<'d, str>, JsonFault> {
        match self.kind() {
            JsonKind::Plain | JsonKind::Escaped => Ok(self.characters()),
            _ => Err(JsonFault::new(self.at, "expected a string")),
        }
    }

    /// Returns the integer.
    ///
    /// # Errors
    /// Returns a fault if this is not an integer, or does not fit into 64 bits.
    pub fn int(&self) -> Result<i64, JsonFault> {
        match self.kind() {
            JsonKind::Number => self.word().parse().ok(),
            _ => None,
        }
        .ok_or_else(|| JsonFault::new(self.at, "expected an integer"))
    }

    /// Returns the number. The strings `"Infinity"`, `"-Infinity"` and `"NaN"` count
    /// as numbers too.
    ///
    /// # Errors
    /// Returns a fault if this is not a number.
    pub fn float(&self) -> Result<f64, JsonFault> {
        let word = match self.kind() {
            JsonKind::Number => self.word().into(),
            _ => self
                .text()
                .ok()
                .filter(|s| matches!(&**s, "Infinity" | "-Infinity" | "NaN"))
                .unwrap_or_default(),
        };
        word.parse().map_err(|_| JsonFault::new(self.at, "expected a number"))
    }

    /// Returns the truth value.
    ///
    /// # Errors
    /// Returns a fault if this is not a truth value.
    pub fn bool(&self) -> Result<bool, JsonFault> {
        match self.kind() {
            JsonKind::True => Ok(true),
            JsonKind::False => Ok(false),
            _ => Err(JsonFault::new(self.at, "expected true or false")),
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    values: Vec<JsonNode>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Skips characters of a class; returns false if there is none.
    fn while_it(&mut self, is: impl Fn(u8) -> bool) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        let n = rest.iter().position(|c| !is(*c)).unwrap_or(rest.len());
        self.at += n;
        n > 0
    }

    fn eat(&mut self, c: u8) -> bool {
        self.blank();
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    /// Appends a value that ends at the current position.
    fn push(&mut self, at: usize, kind: JsonKind) {
        // The text is shorter than 4 GiB and has no more values than bytes.
        self.values.push(JsonNode { at: at as u32, end: self.at as u32, kind });
    }

    fn value(&mut self, depth: usize) -> Result<(), JsonFault> {
        self.blank();
        let at = self.at;
        if depth > DEEPEST {
            return Err(JsonFault::new(at, format!("values nest more than {DEEPEST} levels deep")));
        }
        match self.peek() {
            Some(b'{') => self.all(depth, JsonKind::Map),
            Some(b'[') => self.all(depth, JsonKind::List),
            Some(b'"') => {
                let kind = self.string()?;
                self.push(at, kind);
                Ok(())
            }
            Some(_) => {
                let kind = self.word()?;
                self.push(at, kind);
                Ok(())
            }
            None => Err(JsonFault::new(at, "expected a value, found the end of the file")),
        }
    }

    /// Parses the contents of a list or an object.
    fn all(&mut self, depth: usize, kind: JsonKind) -> Result<(), JsonFault> {
        let number = self.values.len();
        self.push(self.at, kind);
        self.at += 1;
        let (close, wanted) = match kind {
            JsonKind::Map => (b'}', "expected `,` or `}`"),
            _ => (b']', "expected `,` or `]`"),
        };
        if !self.eat(close) {
            loop {
                if kind == JsonKind::Map {
                    self.key()?;
                }
                self.value(depth + 1)?;
                if self.eat(close) {
                    break;
                }
                if !self.eat(b',') {
                    return Err(JsonFault::new(self.at, wanted));
                }
            }
        }
        self.values[number].end = self.values.len() as u32;
        Ok(())
    }

    fn key(&mut self) -> Result<(), JsonFault> {
        self.blank();
        if self.peek() != Some(b'"') {
            return Err(JsonFault::new(self.at, "expected a key"));
        }
        let at = self.at;
        let kind = self.string()?;
        self.push(at, kind);
        if self.eat(b':') { Ok(()) } else { Err(JsonFault::new(self.at, "expected `:`")) }
    }

    fn word(&mut self) -> Result<JsonKind, JsonFault> {
        let at = self.at;
        // Fast path: most numbers are sizes.
        let digits = self.while_it(|c| c.is_ascii_digit());
        if !self.while_it(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c)) && digits {
            return Ok(JsonKind::Number);
        }
        match &self.text[at..self.at] {
            "null" => Ok(JsonKind::Null),
            "true" => Ok(JsonKind::True),
            "false" => Ok(JsonKind::False),
            "NaN" | "Infinity" | "-Infinity" => Ok(JsonKind::Number),
            w if w.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && w.parse::<f64>().is_ok() => {
                Ok(JsonKind::Number)
            }
            _ => Err(JsonFault::new(at, "expected a value")),
        }
    }

    /// Skips a string and returns its kind.
    fn string(&mut self) -> Result<JsonKind, JsonFault> {
        let open = self.at;
        self.at += 1;
        let mut kind = JsonKind::Plain;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let Some(plain) = rest.iter().position(|c| matches!(c, b'"' | b'\\')) else {
                return Err(JsonFault::new(open, "this string is not closed"));
            };
            self.at += plain;
            if rest[plain] == b'"' {
                self.at += 1;
                return Ok(kind);
            }
            kind = JsonKind::Escaped;
            escape(&self.text[self.at..], self.at).map(|(_, bytes)| self.at += bytes)?;
        }
    }
}

/// Returns the characters of a string whose escapes are all known to be valid.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(i) = rest.find('\\') {
        out.push_str(&rest[..i]);
        rest = &rest[i..];
        let (c, bytes) = escape(rest, 0).unwrap_or((char::REPLACEMENT_CHARACTER, 1));
        out.push(c);
        rest = &rest[bytes..];
    }
    out + rest
}

/// Returns the character of the escape at the start of a text, and the number of its bytes. `at` is
/// the position of the escape.
fn escape(text: &str, at: usize) -> Result<(char, usize), JsonFault> {
    let hex = |from: usize| {
        let digits = text.get(from..from + 4).filter(|d| d.bytes().all(|c| c.is_ascii_hexdigit()));
        digits
            .and_then(|d| u32::from_str_radix(d, 16).ok())
            .ok_or_else(|| JsonFault::new(at, "expected four hexadecimal digits"))
    };
    let plain = match text.as_bytes().get(1) {
        Some(c @ (b'"' | b'\\' | b'/')) => char::from(*c),
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => {
            let high = hex(2)?;
            return Ok(match high {
                0xd800..0xdc00 if text[6..].starts_with("\\u") => {
                    let joined = 0x10000 + ((high - 0xd800) << 10) + (hex(8)?.wrapping_sub(0xdc00) & 0x3ff);
                    (char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
                }
                _ => (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
            });
        }
        _ => return Err(JsonFault::new(at, "invalid escape")),
    };
    Ok((plain, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_where_they_begin() {
        let text = " {\"a\": [1, -2.5e3, \"x\\u00e9\\n\", [], {}], \"b\\t\": NaN}";
        let all = parse(text).expect("JSON");
        let j = all.root();
        assert_eq!(j.get("a").expect("a").at, 7);
        let a: Vec<Json<'_>> = j.get("a").expect("a").list().expect("a list").collect();
        assert_eq!((a[0].int(), a[1].float(), a[2].text()), (Ok(1), Ok(-2500.0), Ok("x\u{e9}\n".into())));
        assert_eq!(
            (a.len(), a[3].list().expect("a list").count(), a[4].map().expect("a map").count()),
            (5, 0, 0)
        );
        assert!(j.get("b\t").expect("b").float().expect("a number").is_nan());
        assert_eq!(j.map().expect("an object").map(|e| e.0).collect::<Vec<_>>(), ["a", "b\t"]);
        assert_eq!(j.get("c").map(|c| c.at), None);
        let text = |t: &str| parse(t).expect("JSON").root().text().expect("a string").into_owned();
        assert_eq!(text("\"\\ud83d\\ude00!\""), "\u{1f600}!");
        assert_eq!(text("\"\\\"\\/\\ud83dx\""), "\"/\u{fffd}x");
        assert_eq!(parse("\"-Infinity\"").expect("JSON").root().float(), Ok(f64::NEG_INFINITY));
    }

    #[test]
    fn what_is_no_json_is_refused_at_its_place() {
        for (text, at) in [
            ("", 0),
            ("[1,", 3),
            ("{\"a\" 1}", 5),
            ("[1] 2", 4),
            ("\"ab", 0),
            ("nul", 0),
            ("[\"\\q\"]", 2),
            ("\"\\u12", 1),
            ("\"a\\", 2),
            ("\"\\ud83d\\u00\"", 1),
        ] {
            assert_eq!(parse(text).map(|_| ()).map_err(|f| f.at), Err(at), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
