//! A YAML text as a tree whose nodes can be found again in the text.
//!
//! Owns reading by `serde_yaml`, which keeps no places: a node remembers how many nodes came before it, and its place is
//! found by reading the text once more up to there. So places cost something only where there is an error, or where a
//! value has a text of its own to point into.

use kbc_diag::{Diagnostic, FileId, Span};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::cell::{Cell, RefCell};
use std::fmt;

/// A node of the tree.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// How many came before it.
    pub number: usize,
    pub kind: Kind,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Null,
    /// A scalar as text; numbers in their usual form.
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub number: usize,
    pub name: String,
}

impl Node {
    /// What it is, in words.
    pub fn what(&self) -> &'static str {
        match self.kind {
            Kind::Null => "nothing",
            Kind::Scalar(_) => "a single value",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }
}

/// A text and its tree.
pub(super) struct Document<'t> {
    pub text: &'t str,
    pub file: FileId,
    pub root: Node,
}

impl<'t> Document<'t> {
    /// Reads a text. E460 if it is no YAML, holds several documents, a key twice or a key that is no single value.
    pub fn read(text: &'t str, file: FileId) -> Result<Document<'t>, Diagnostic> {
        match walk(text, None) {
            Ok(root) => Ok(Document { text, file, root }),
            Err(e) => {
                let words = e.to_string();
                let words = words.split(" at line ").next().unwrap_or("").to_owned();
                let at = e.location().map_or(Span::new(file, 0, 0), |l| {
                    let start = offset(text, l.line(), l.column());
                    Span::new(file, start, start + first(&text[start..]))
                });
                Err(Diagnostic::error("E460", format!("this is no machine file: {words}"))
                    .primary(at, "here")
                    .help("a machine file is YAML with a key a line: `shape: ring(8)`"))
            }
        }
    }

    /// The bytes of a node or key: of a single value its text, of others where they begin.
    pub fn span(&self, number: usize) -> Span {
        let Some(start) = self.start(number) else { return Span::new(self.file, 0, 0) };
        let rest = &self.text[start..];
        let plain = value(&self.root, number).filter(|v| rest.starts_with(*v));
        Span::new(self.file, start, start + plain.map_or_else(|| first(rest), str::len))
    }

    /// Where the text of a value stands: its first byte if it stands there letter for letter.
    pub fn verbatim(&self, number: usize, value: &str) -> Option<usize> {
        let start = self.start(number)?;
        let rest = &self.text[start..];
        let quote = usize::from(rest.starts_with(['"', '\'']));
        rest[quote..].starts_with(value).then_some(start + quote)
    }

    fn start(&self, number: usize) -> Option<usize> {
        let place = walk(self.text, Some(number)).err()?.location()?;
        Some(offset(self.text, place.line(), place.column()))
    }
}

/// The text of the single value or key with a number.
fn value(node: &Node, number: usize) -> Option<&str> {
    match &node.kind {
        Kind::Scalar(text) if node.number == number => Some(text),
        Kind::List(list) => list.iter().find_map(|n| value(n, number)),
        Kind::Map(keys) => keys.iter().find_map(|(k, n)| match k.number == number {
            true => Some(k.name.as_str()),
            false => value(n, number),
        }),
        _ => None,
    }
}

/// Bytes of the first value of a text: up to the end of its line, a comment or what closes it.
fn first(text: &str) -> usize {
    if let Some(quote) = text.chars().next().filter(|c| *c == '"' || *c == '\'') {
        return text[1..].find(quote).map_or(text.len(), |i| i + 2);
    }
    let line = text.find('\n').unwrap_or(text.len());
    let line = &text[..line];
    let ends = [line.find(" #"), line.find(": "), line.strip_suffix(':').map(str::len)];
    let end = ends.into_iter().flatten().min().unwrap_or(line.len());
    line[..end].trim_end().len()
}

/// Byte of a line and a column, both from 1, columns in characters.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = text.get(start..).unwrap_or("");
    let within = rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |c| c.0);
    start + within
}

/// Reads the text; fails on purpose at the node or key with number `stop`.
fn walk(text: &str, stop: Option<usize>) -> Result<Node, serde_yaml::Error> {
    let count = Cell::new(0);
    Seed { count: &count, stop, keys: None }.deserialize(serde_yaml::Deserializer::from_str(text))
}

/// Reads one node; with `keys` a key that must not be among them.
#[derive(Clone, Copy)]
struct Seed<'c> {
    count: &'c Cell<usize>,
    stop: Option<usize>,
    keys: Option<&'c RefCell<Vec<String>>>,
}

impl Seed<'_> {
    fn begin<E: serde::de::Error>(self) -> Result<usize, E> {
        let number = self.count.get();
        self.count.set(number + 1);
        if self.stop == Some(number) { Err(E::custom("found")) } else { Ok(number) }
    }

    fn scalar<E: serde::de::Error>(self, text: String) -> Result<Node, E> {
        let number = self.begin()?;
        if let Some(keys) = self.keys {
            if keys.borrow().contains(&text) {
                return Err(E::custom(format!("key `{text}` is given twice")));
            }
            keys.borrow_mut().push(text.clone());
        }
        Ok(Node { number, kind: Kind::Scalar(text) })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.keys.is_some() { "a key" } else { "a value, a list or a mapping" })
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Node, E> {
        if self.keys.is_some() {
            return self.scalar("null".into());
        }
        Ok(Node { number: self.begin()?, kind: Kind::Null })
    }

    fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<Node, E> {
        self.scalar(v.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Node, E> {
        self.scalar(v.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Node, E> {
        self.scalar(v.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Node, E> {
        self.scalar(v.to_string())
    }

    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Node, E> {
        self.scalar(v.to_owned())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        if self.keys.is_some() {
            return Err(A::Error::custom("a key is a single value"));
        }
        let number = self.begin()?;
        let mut out = vec![];
        while let Some(node) = list.next_element_seed(self)? {
            out.push(node);
        }
        Ok(Node { number, kind: Kind::List(out) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        if self.keys.is_some() {
            return Err(A::Error::custom("a key is a single value"));
        }
        let number = self.begin()?;
        let keys = RefCell::new(vec![]);
        let mut out = vec![];
        while let Some(key) = map.next_key_seed(Seed { keys: Some(&keys), ..self })? {
            let Kind::Scalar(name) = key.kind else {
                return Err(A::Error::custom("a key is a single value"));
            };
            out.push((Key { number: key.number, name }, map.next_value_seed(self)?));
        }
        Ok(Node { number, kind: Kind::Map(out) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_again() {
        let text =
            "# a comment\nshape: ring(8)\nlinks:\n  (0)->(1): 1 GB/s, 2 ns  # slow\n  'q': [a, {b: 7}]\n";
        let d = Document::read(text, FileId(0)).unwrap();
        let Kind::Map(top) = &d.root.kind else { panic!() };
        let at = |n: usize| {
            let s = d.span(n);
            &text[s.start as usize..s.end as usize]
        };
        assert_eq!((at(top[0].0.number), at(top[0].1.number)), ("shape", "ring(8)"));
        let Kind::Map(links) = &top[1].1.kind else { panic!() };
        assert_eq!((at(links[0].0.number), at(links[0].1.number)), ("(0)->(1)", "1 GB/s, 2 ns"));
        let Kind::List(list) = &links[1].1.kind else { panic!() };
        let Kind::Map(inner) = &list[1].kind else { panic!() };
        assert_eq!(at(links[1].0.number), "'q'");
        assert_eq!((at(list[0].number), at(inner[0].1.number)), ("a", "7"));
        assert_eq!(d.verbatim(top[0].1.number, "ring(8)"), Some(text.find("ring").unwrap()));
    }

    #[test]
    fn no_text_panics() {
        for text in [
            "",
            "a: [",
            "a: 1\na: 2",
            "? [x]\n: 1",
            "a: &x [*x]",
            "- 1\n---\n- 2",
            "\u{feff}a: 1",
            "a: !t b",
            "\t",
            "a: \"\\q\"",
            "ä: ö\nü: [",
            "*x",
            "a: &a [1]\nb: *a",
            "&a [*a, *a]",
        ] {
            match Document::read(text, FileId(0)) {
                Ok(d) => assert!((0..9).all(|n| d.span(n).end as usize <= text.len())),
                Err(e) => assert_eq!(e.code, "E460", "{text}"),
            }
        }
    }
}
