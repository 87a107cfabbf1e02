//! Listing of a program for messages: one line per node, in the notation of `print(ep)`.
//!
//! Messages point into the listing, because the file of an exported program is a single line
//! of a megabyte.

use super::arg::{Arg, Int};
use super::model::Written;
use std::fmt::{self, Display, Formatter, Write};

/// Returns the text, and the byte range of the line of each node and, last, of the result.
pub fn listing(w: &Written) -> (String, Vec<(usize, usize)>) {
    let mut text = String::from("def forward(self");
    let mut lines = Vec::with_capacity(w.nodes.len() + 1);
    for (arg, _) in &w.inputs {
        let _ = write!(text, ", {}", Typed(w, arg));
    }
    text.push_str("):\n");
    for n in &w.nodes {
        text.push_str("    ");
        let start = text.len();
        list(&mut text, n.outputs.iter().map(|o| Typed(w, o)));
        if !n.outputs.is_empty() {
            text.push_str(" = ");
        }
        text.push_str(&n.target);
        text.push('(');
        list(&mut text, n.args.iter().map(|(name, a)| Named(name, a)));
        text.push(')');
        lines.push((start, text.len()));
        text.push('\n');
    }
    text.push_str("    ");
    let start = text.len();
    text.push_str("return (");
    list(&mut text, w.outputs.iter().map(Word));
    text.push(')');
    lines.push((start, text.len()));
    text.push('\n');
    (text, lines)
}

/// Writes items separated by commas.
fn list(out: &mut impl Write, all: impl Iterator<Item = impl Display>) {
    for (i, one) in all.enumerate() {
        let _ = out.write_str(if i == 0 { "" } else { ", " });
        let _ = write!(out, "{one}");
    }
}

/// Writes a list in brackets.
fn bracketed(f: &mut Formatter<'_>, all: impl Iterator<Item = impl Display>) -> fmt::Result {
    f.write_char('[')?;
    list(f, all);
    f.write_char(']')
}

/// A value with its type.
struct OfType<'a>(&'a Written, &'a String);

impl Display for OfType<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let OfType(w, name) = self;
        f.write_str(name)?;
        if let Some(m) = w.tensors.get(*name) {
            write!(f, ": {m}")
        } else if let Some(s) = w.ints.get(*name) {
            write!(f, ": int {s}")
        } else {
            Ok(())
        }
    }
}

/// An argument at its assignment: values with their types.
struct Typed<'a>(&'a Written, &'a Arg<String>);

impl Display for Typed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Typed(w, arg) = self;
        match arg {
            Arg::Tensor(n) | Arg::Int(Int::Of(n)) | Arg::BoolOf(n) => OfType(w, n).fmt(f),
            Arg::Tensors(l) => bracketed(f, l.iter().map(|n| OfType(w, n))),
            other => Word(other).fmt(f),
        }
    }
}

/// An argument with its name, such as `dim = 0`.
struct Named<'a>(&'a str, &'a Arg<String>);

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        f.write_str(" = ")?;
        Word(self.1).fmt(f)
    }
}

/// An argument at its use.
struct Word<'a>(&'a Arg<String>);

impl Display for Word<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Arg::None => f.write_str("None"),
            Arg::Tensor(n) | Arg::BoolOf(n) => f.write_str(n),
            Arg::Tensors(l) => bracketed(f, l.iter()),
            Arg::Optionals(l) => bracketed(f, l.iter().map(|o| o.as_deref().unwrap_or("None"))),
            Arg::Int(i) => i.fmt(f),
            Arg::Ints(l) => bracketed(f, l.iter()),
            Arg::Float(x) => write!(f, "{x:?}"),
            Arg::Bool(true) => f.write_str("True"),
            Arg::Bool(false) => f.write_str("False"),
            Arg::Text(s) => write!(f, "{s:?}"),
            Arg::DType(d) => f.write_str(d.name()),
            Arg::Place => f.write_str(".."),
        }
    }
}
