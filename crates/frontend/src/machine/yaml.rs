//! YAML documents: a text as a tree whose nodes can be located in the text.
//!
//! This module parses with `serde_yaml`, which keeps no positions: a node stores how many nodes
//! precede it. Its position is found with the tree ([`super::starts`]) or, for a text of unusual
//! form, by parsing the text again up to the node.

use super::fault::fault;
use super::tree::{Key, Node, NodeKind};
use super::{nesting, starts};
use crate::token::MARK;
use kbc_diag::{Diagnostic, FileId, Span};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::fmt;

/// A text with its tree.
pub struct Document<'t> {
    /// The text.
    pub text: &'t str,
    /// The file that it is in.
    pub file: FileId,
    /// The root of its tree.
    pub root: Node,
    /// The positions of nodes, computed on first use. None for a text of unusual form.
    starts: OnceCell<Option<Vec<usize>>>,
}

impl<'t> Document<'t> {
    /// Parses a text. Returns E460 if it is not YAML, contains several documents, contains a key
    /// twice, or contains a key that is not a single value.
    pub fn read(text: &'t str, file: FileId) -> Result<Document<'t>, Diagnostic> {
        if let Some(at) = nesting::too_deep(text) {
            return Err(Diagnostic::error("E460", "this is not a machine file: brackets nest too deeply")
                .primary(Span::new(file, at, at + 1), "here")
                .help("a machine file is YAML with one key per line, such as `shape: ring(8)`"));
        }
        match walk(text, None) {
            Ok(root) => Ok(Document { text, file, root, starts: OnceCell::new() }),
            Err(e) => {
                let at = e.location().map_or(Span::new(file, 0, 0), |l| {
                    let start = offset(text, l.line(), l.column());
                    Span::new(file, start, start + first(&text[start..]))
                });
                let own = e.to_string();
                // Of this module, about keys; or of the reader, about the form of the text.
                let words = match own.split_once(" at line ").map_or(own.as_str(), |w| w.0) {
                    own if own.contains("key") && !own.contains("expected") => own.to_owned(),
                    _ => fault(&e, &[]).title,
                };
                Err(Diagnostic::error("E460", format!("this is not a machine file: {words}"))
                    .primary(at, "here")
                    .help("a machine file is YAML with one key per line, such as `shape: ring(8)`"))
            }
        }
    }

    /// Returns the source range of a node or key: the text of a single value, or the beginning of
    /// another node.
    pub fn span(&self, number: usize) -> Span {
        let Some(start) = self.start(number) else { return Span::new(self.file, 0, 0) };
        let rest = &self.text[start..];
        let plain = value(&self.root, number).filter(|v| rest.starts_with(*v));
        Span::new(self.file, start, start + plain.map_or_else(|| first(rest), str::len))
    }

    /// Returns the first byte of a value, if the source text is identical to the value.
    pub fn verbatim(&self, number: usize, value: &str) -> Option<usize> {
        let start = self.start(number)?;
        let rest = &self.text[start..];
        let quote = usize::from(rest.starts_with(['"', '\'']));
        rest[quote..].starts_with(value).then_some(start + quote)
    }

    fn start(&self, number: usize) -> Option<usize> {
        let known = self.starts.get_or_init(|| starts::starts(self.text, &self.root));
        match known.as_ref().and_then(|k| k.get(number)).filter(|s| **s != starts::NONE) {
            Some(start) => Some(*start),
            None => self.read_to(number),
        }
    }

    /// Finds the position by parsing the text up to the node.
    pub fn read_to(&self, number: usize) -> Option<usize> {
        let place = walk(self.text, Some(number)).err()?.location()?;
        Some(offset(self.text, place.line(), place.column()))
    }
}

/// Returns the text of the single value or key with this number.
fn value(node: &Node, number: usize) -> Option<&str> {
    // Numbers increase from entry to entry.
    match &node.kind {
        NodeKind::Scalar(text) => (node.number == number).then_some(text),
        NodeKind::List(list) => {
            let after = list.partition_point(|n| n.number <= number);
            value(list.get(after.checked_sub(1)?)?, number)
        }
        NodeKind::Map(keys) => {
            let after = keys.partition_point(|(k, _)| k.number <= number);
            let (k, n) = keys.get(after.checked_sub(1)?)?;
            if k.number == number { Some(&k.name) } else { value(n, number) }
        }
        NodeKind::Null => None,
    }
}

/// Returns the number of bytes of the first value of a text, which ends at the end of its line, at
/// a comment or at what closes it.
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

/// Returns the byte of a line and a column. Both count from 1, and columns count characters.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let body = unmarked(text);
    let start: usize = body.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = body.get(start..).unwrap_or("");
    let within = rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |c| c.0);
    text.len() - body.len() + start + within
}

/// Returns the text without a byte order mark, which the parser counts as a column of the first
/// line.
fn unmarked(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Parses the text. If `stop` is given, fails on purpose at the node or key with that number, to
/// obtain its position from the error.
fn walk(text: &str, stop: Option<usize>) -> Result<Node, serde_yaml::Error> {
    let count = Cell::new(0);
    Seed { count: &count, stop, keys: None }.deserialize(serde_yaml::Deserializer::from_str(unmarked(text)))
}

/// A deserializer of one node. If `keys` is given, the node is a key that must not be among them.
#[derive(Clone, Copy)]
struct Seed<'c> {
    count: &'c Cell<usize>,
    stop: Option<usize>,
    keys: Option<&'c RefCell<BTreeSet<String>>>,
}

impl Seed<'_> {
    fn begin<E: serde::de::Error>(self) -> Result<usize, E> {
        let number = self.count.get();
        self.count.set(number + 1);
        if self.stop == Some(number) { Err(E::custom("found")) } else { Ok(number) }
    }

    fn scalar<E: serde::de::Error>(self, text: String) -> Result<Node, E> {
        let number = self.begin()?;
        if let Some(keys) = self.keys
            && !keys.borrow_mut().insert(text.clone())
        {
            return Err(E::custom(format!("key `{text}` is given twice")));
        }
        Ok(Node { number, kind: NodeKind::Scalar(text) })
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
        Ok(Node { number: self.begin()?, kind: NodeKind::Null })
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
            return Err(A::Error::custom("a key must be a single value"));
        }
        let number = self.begin()?;
        let mut out = vec![];
        while let Some(node) = list.next_element_seed(self)? {
            out.push(node);
        }
        Ok(Node { number, kind: NodeKind::List(out) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        if self.keys.is_some() {
            return Err(A::Error::custom("a key must be a single value"));
        }
        let number = self.begin()?;
        let keys = RefCell::default();
        let mut out = vec![];
        while let Some(key) = map.next_key_seed(Seed { keys: Some(&keys), ..self })? {
            let NodeKind::Scalar(name) = key.kind else {
                return Err(A::Error::custom("a key must be a single value"));
            };
            out.push((Key { number: key.number, name }, map.next_value_seed(self)?));
        }
        Ok(Node { number, kind: NodeKind::Map(out) })
    }
}
