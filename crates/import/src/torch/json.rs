//! JSON text as a tree whose values know the byte where they begin.
//!
//! Owns the syntax of JSON, with the bare `NaN` and `Infinity` that Python writes. What the values mean is its readers'.

use std::borrow::Cow;

/// A value and the byte of the text where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Json<'t> {
    /// Byte of the text.
    pub at: usize,
    /// The value.
    pub kind: Kind<'t>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are those of JSON")]
pub enum Kind<'t> {
    Null,
    Bool(bool),
    /// As it is written.
    Number(&'t str),
    Text(Cow<'t, str>),
    List(Vec<Json<'t>>),
    Map(Vec<(Cow<'t, str>, Json<'t>)>),
}

/// What is wrong with a text, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Byte of the text.
    pub at: usize,
    /// What is wanted there, or why it cannot be.
    pub why: String,
}

impl Fault {
    /// At a byte, for a reason.
    pub fn new(at: usize, why: impl Into<String>) -> Fault {
        Fault { at, why: why.into() }
    }
}

/// Lists and objects within each other; deeper ones are refused, so that no text overflows the stack.
const DEEPEST: usize = 64;

/// The value of a text.
///
/// # Errors
/// Where it is no JSON.
pub fn parse(text: &str) -> Result<Json<'_>, Fault> {
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut p = Parser { text, at: start };
    let value = p.value(0)?;
    p.blank();
    if p.at < text.len() {
        return Err(Fault::new(p.at, "the end of the file is wanted"));
    }
    Ok(value)
}

impl<'t> Json<'t> {
    /// The value of a key, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Json<'t>> {
        match &self.kind {
            Kind::Map(list) => list.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The value of a key that has to be there.
    ///
    /// # Errors
    /// It is not.
    pub fn want(&self, key: &str) -> Result<&Json<'t>, Fault> {
        self.get(key).ok_or_else(|| Fault::new(self.at, format!("an object with `{key}` is wanted")))
    }

    /// The elements.
    ///
    /// # Errors
    /// It is no list.
    pub fn list(&self) -> Result<&[Json<'t>], Fault> {
        match &self.kind {
            Kind::List(list) => Ok(list),
            _ => Err(Fault::new(self.at, "a list is wanted")),
        }
    }

    /// Keys with their values.
    ///
    /// # Errors
    /// It is no object.
    pub fn map(&self) -> Result<&[(Cow<'t, str>, Json<'t>)], Fault> {
        match &self.kind {
            Kind::Map(list) => Ok(list),
            _ => Err(Fault::new(self.at, "an object is wanted")),
        }
    }

    /// The characters.
    ///
    /// # Errors
    /// It is no string.
    pub fn text(&self) -> Result<&str, Fault> {
        match &self.kind {
            Kind::Text(s) => Ok(s),
            _ => Err(Fault::new(self.at, "a string is wanted")),
        }
    }

    /// The whole number.
    ///
    /// # Errors
    /// It is none, or one beyond 64 bits.
    pub fn int(&self) -> Result<i64, Fault> {
        match &self.kind {
            Kind::Number(s) => s.parse().ok(),
            _ => None,
        }
        .ok_or_else(|| Fault::new(self.at, "a whole number is wanted"))
    }

    /// The number; the strings `"Infinity"`, `"-Infinity"` and `"NaN"` are numbers, too.
    ///
    /// # Errors
    /// It is none.
    pub fn float(&self) -> Result<f64, Fault> {
        let word: &str = match &self.kind {
            Kind::Number(s) => s,
            Kind::Text(s) if matches!(&**s, "Infinity" | "-Infinity" | "NaN") => s,
            _ => return Err(Fault::new(self.at, "a number is wanted")),
        };
        word.parse().map_err(|_| Fault::new(self.at, "a number is wanted"))
    }

    /// The truth value.
    ///
    /// # Errors
    /// It is none.
    pub fn bool(&self) -> Result<bool, Fault> {
        match self.kind {
            Kind::Bool(b) => Ok(b),
            _ => Err(Fault::new(self.at, "true or false is wanted")),
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, c: u8) -> bool {
        self.blank();
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json<'t>, Fault> {
        self.blank();
        let at = self.at;
        if depth > DEEPEST {
            return Err(Fault::new(at, format!("values lie more than {DEEPEST} deep in each other")));
        }
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Kind::Text(self.string()?),
            Some(_) => self.word()?,
            None => return Err(Fault::new(at, "the file ends where a value is wanted")),
        };
        Ok(Json { at, kind })
    }

    fn array(&mut self, depth: usize) -> Result<Kind<'t>, Fault> {
        self.at += 1;
        let mut list = vec![];
        if self.eat(b']') {
            return Ok(Kind::List(list));
        }
        loop {
            list.push(self.value(depth + 1)?);
            if self.eat(b']') {
                return Ok(Kind::List(list));
            }
            if !self.eat(b',') {
                return Err(Fault::new(self.at, "`,` or `]` is wanted"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Kind<'t>, Fault> {
        self.at += 1;
        let mut list = vec![];
        if self.eat(b'}') {
            return Ok(Kind::Map(list));
        }
        loop {
            self.blank();
            if self.peek() != Some(b'"') {
                return Err(Fault::new(self.at, "a key is wanted"));
            }
            let key = self.string()?;
            if !self.eat(b':') {
                return Err(Fault::new(self.at, "`:` is wanted"));
            }
            list.push((key, self.value(depth + 1)?));
            if self.eat(b'}') {
                return Ok(Kind::Map(list));
            }
            if !self.eat(b',') {
                return Err(Fault::new(self.at, "`,` or `}` is wanted"));
            }
        }
    }

    fn word(&mut self) -> Result<Kind<'t>, Fault> {
        let at = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c)) {
            self.at += 1;
        }
        match &self.text[at..self.at] {
            "null" => Ok(Kind::Null),
            "true" => Ok(Kind::Bool(true)),
            "false" => Ok(Kind::Bool(false)),
            w @ ("NaN" | "Infinity" | "-Infinity") => Ok(Kind::Number(w)),
            // Most numbers are sizes.
            w if !w.is_empty() && w.bytes().all(|c| c.is_ascii_digit()) => Ok(Kind::Number(w)),
            w if w.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && w.parse::<f64>().is_ok() => {
                Ok(Kind::Number(w))
            }
            _ => Err(Fault::new(at, "a value is wanted")),
        }
    }

    fn string(&mut self) -> Result<Cow<'t, str>, Fault> {
        let open = self.at;
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        let mut run = start;
        loop {
            match self.peek() {
                None => return Err(Fault::new(open, "a string without an end")),
                Some(b'"') => {
                    let last = &self.text[run..self.at];
                    self.at += 1;
                    return Ok(match owned {
                        Some(s) => Cow::Owned(s + last),
                        None => Cow::Borrowed(last),
                    });
                }
                Some(b'\\') => {
                    let mut s = owned.take().unwrap_or_default();
                    s.push_str(&self.text[run..self.at]);
                    s.push(self.escape()?);
                    owned = Some(s);
                    run = self.at;
                }
                Some(_) => {
                    let rest = &self.text.as_bytes()[self.at..];
                    let plain = rest.iter().position(|c| matches!(c, b'"' | b'\\'));
                    self.at += plain.unwrap_or(rest.len());
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let at = self.at;
        let letter = self.text.as_bytes().get(at + 1).copied();
        self.at += 2;
        let plain = match letter {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => {
                let high = self.hex(at)?;
                let low = match high {
                    0xd800..0xdc00 if self.text[self.at..].starts_with("\\u") => {
                        self.at += 2;
                        self.hex(at)?
                    }
                    _ => return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER)),
                };
                let joined = 0x10000 + ((high - 0xd800) << 10) + (low.wrapping_sub(0xdc00) & 0x3ff);
                char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => {
                self.at = at;
                return Err(Fault::new(at, "an escape that JSON does not have"));
            }
        };
        Ok(plain)
    }

    fn hex(&mut self, at: usize) -> Result<u32, Fault> {
        let digits = self.text.get(self.at..self.at + 4);
        let value = digits.filter(|d| d.bytes().all(|c| c.is_ascii_hexdigit()));
        self.at += 4;
        value
            .and_then(|d| u32::from_str_radix(d, 16).ok())
            .ok_or_else(|| Fault::new(at, "four hexadecimal digits are wanted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_where_they_begin() {
        let j = parse(" {\"a\": [1, -2.5e3, \"x\\u00e9\\n\"], \"b\": NaN}").expect("JSON");
        assert_eq!(j.get("a").expect("a").at, 7);
        let a = j.get("a").expect("a").list().expect("a list");
        assert_eq!((a[0].int(), a[1].float(), a[2].text()), (Ok(1), Ok(-2500.0), Ok("x\u{e9}\n")));
        assert!(j.get("b").expect("b").float().expect("a number").is_nan());
        assert_eq!(parse("\"\\ud83d\\ude00\"").expect("JSON").text(), Ok("\u{1f600}"));
        assert_eq!(parse("\"-Infinity\"").expect("JSON").float(), Ok(f64::NEG_INFINITY));
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
        ] {
            assert_eq!(parse(text).map_err(|f| f.at), Err(at), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
