//! Where the nodes of a YAML text begin, all found in one reading of the text beside its tree.
//!
//! The reader of YAML tells a place only in an error, so that a place costs a reading of the text up to there, and the
//! places of all links of a large machine cost the square of their number. Here the tree says which word comes next,
//! and the text is searched for nothing but that. A text of another form than machine files have (references, tags,
//! blocks of text, words over several lines) has no such places, and is read again for each.

use super::yaml::{Kind, Node};

/// The byte where each node and key begins, by number; [`NONE`] for one that has no text. None if the text and its tree
/// do not go together word by word.
pub(super) fn starts(text: &str, root: &Node) -> Option<Vec<usize>> {
    let mut w = Walk { text, at: 0, out: vec![] };
    w.node(root, false)?;
    Some(w.out)
}

/// No byte.
pub(super) const NONE: usize = usize::MAX;

struct Walk<'t> {
    text: &'t str,
    at: usize,
    out: Vec<usize>,
}

impl Walk<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Leaves out blanks, comments and the signs between words; in a list of lines not the sign of its entries.
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
            Kind::Null => {
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
            Kind::Scalar(value) => self.scalar(node.number, value, flow),
            Kind::List(list) => {
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
            Kind::Map(entries) => {
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
                // Numbers and truth values are kept in their usual form.
                (word == value || number(word) || truth(word) || word.is_empty()).then_some(length)?
            }
        };
        self.at += length;
        Some(())
    }
}

/// Bytes of a value in quotes, if it ends.
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

/// Bytes of a value without quotes that stands on one line.
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
