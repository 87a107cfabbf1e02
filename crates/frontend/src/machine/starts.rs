//! Node positions: finds the first bytes of all nodes of a YAML text in a single pass over the
//! text, guided by its tree.
//!
//! The YAML parser reports a position only in an error. So one position costs parsing the text up
//! to there, and the positions of all links of a large machine cost quadratic time. Here the tree
//! determines which word comes next, and the text is searched only for that word. Texts with
//! constructs that are unusual in machine files (references, tags, block scalars, words over
//! several lines) are not supported. For these, the text is parsed again for each position.

use super::tree::{Node, NodeKind};

/// Returns the first byte of each node and key, by number, or [`NONE`] for a node without text.
/// Returns None if the text and its tree do not match word by word.
pub fn starts(text: &str, root: &Node) -> Option<Vec<usize>> {
    let mut w = Walk { text, at: 0, out: vec![] };
    w.node(root, false)?;
    Some(w.out)
}

/// The position of a node without text.
pub const NONE: usize = usize::MAX;

struct Walk<'t> {
    text: &'t str,
    at: usize,
    out: Vec<usize>,
}

impl Walk<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Skips blanks, comments and the punctuation between words, but not the `-` of an entry of a
    /// block list.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let bytes = rest.as_bytes();
            let alone = bytes.get(1).is_none_or(|b| b.is_ascii_whitespace());
            let begins = self.at == 0 || self.text[..self.at].ends_with(char::is_whitespace);
            match bytes.first() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                Some(b'#') if begins => self.at += rest.find('\n').unwrap_or(rest.len()),
                Some(b',' | b']' | b'}') => self.at += 1,
                Some(b':' | b'?') if alone || rest.starts_with(":[") || rest.starts_with(":{") => {
                    self.at += 1
                }
                Some(b'-')
                    if rest.starts_with("---") && (self.at == 0 || self.text[..self.at].ends_with('\n')) =>
                {
                    self.at += 3;
                }
                Some(0xef) if self.at == 0 && rest.starts_with('\u{feff}') => self.at += 3,
                _ => return,
            }
        }
    }

    fn begin(&mut self, number: usize, at: usize) -> Option<()> {
        (self.out.len() == number).then(|| self.out.push(at))
    }

    fn node(&mut self, node: &Node, flow: bool) -> Option<()> {
        match &node.kind {
            NodeKind::Null => {
                self.begin(node.number, NONE)?;
                let before = self.at;
                self.skip();
                let word = ["~", "null", "Null", "NULL"].into_iter().find(|w| self.rest().starts_with(w));
                match word {
                    Some(w) => self.at += w.len(),
                    None => self.at = before,
                }
                Some(())
            }
            NodeKind::Scalar(value) => self.scalar(node.number, value, flow),
            NodeKind::List(list) => {
                self.skip();
                self.begin(node.number, self.at)?;
                let inside = self.rest().starts_with('[');
                if inside {
                    self.at += 1;
                }
                for entry in list {
                    if !inside {
                        self.skip();
                        let entry = self.rest().strip_prefix('-')?;
                        entry.starts_with(char::is_whitespace).then_some(())?;
                        self.at += 1;
                    }
                    self.node(entry, inside)?;
                }
                Some(())
            }
            NodeKind::Map(entries) => {
                self.skip();
                self.begin(node.number, self.at)?;
                let inside = self.rest().starts_with('{');
                if inside {
                    self.at += 1;
                } else if self.rest().starts_with('[') {
                    return None;
                }
                for (key, value) in entries {
                    self.scalar(key.number, &key.name, inside)?;
                    self.skip();
                    self.node(value, inside)?;
                }
                Some(())
            }
        }
    }

    fn scalar(&mut self, number: usize, value: &str, flow: bool) -> Option<()> {
        self.skip();
        self.begin(number, self.at)?;
        let rest = self.rest();
        let length = match rest.chars().next()? {
            '&' | '*' | '!' | '|' | '>' | '%' | '@' | '`' | '[' | '{' => return None,
            quote @ ('"' | '\'') => quoted(rest, quote)?,
            _ => {
                let length = plain(rest, flow);
                let word = &rest[..length];
                let number = |t: &str| t.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
                let truth = |t: &str| t.eq_ignore_ascii_case("true") || t.eq_ignore_ascii_case("false");
                // The tree has numbers and truth values in their standard form, so the text may
                // differ.
                (word == value || number(word) || truth(word) || word.is_empty()).then_some(length)?
            }
        };
        self.at += length;
        Some(())
    }
}

/// Returns the number of bytes of a quoted value, or None if it has no end.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut rest = text.char_indices().skip(1);
    while let Some((at, c)) = rest.next() {
        if c == '\\' && quote == '"' {
            rest.next();
        } else if c == quote {
            if quote == '\'' && text[at + 1..].starts_with('\'') {
                rest.next();
                continue;
            }
            return Some(at + 1);
        }
    }
    None
}

/// Returns the number of bytes of an unquoted value on one line.
fn plain(text: &str, flow: bool) -> usize {
    let line = &text[..text.find('\n').unwrap_or(text.len())];
    let mut end = line.len();
    for (at, c) in line.char_indices() {
        let next = line[at + c.len_utf8()..].chars().next();
        let ends = match c {
            ':' => next.is_none_or(|n| n.is_whitespace() || flow && ",[]{}".contains(n)),
            '#' => at > 0 && line[..at].ends_with(char::is_whitespace),
            ',' | '[' | ']' | '{' | '}' => flow,
            _ => false,
        };
        if ends {
            end = at;
            break;
        }
    }
    line[..end].trim_end().len()
}
