//! What names stand for inside one program beside its values: sizes, numbers, flags, axes, element types.
//!
//! Owns the table and the words for what is in it. Who puts something in is [`super::bind`].

use super::params::Number;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::types::DType;
use std::collections::BTreeMap;

/// What a name stands for.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Local {
    /// An argument of kind `int` or `number`, or a size.
    Number(Number),
    /// An argument of kind `bool`.
    Flag(bool),
    /// An argument of kind `axis`.
    Axis(Name),
    /// The name of an element type.
    Type(DType),
    /// A size that nothing says: the message about it was given.
    Unbound(Box<Diagnostic>),
}

/// A name in an expression.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Constant {
    Number(Number),
    Flag(bool),
}

impl Local {
    /// As it takes part in expressions.
    pub fn constant(&self) -> Option<Constant> {
        match self {
            Local::Number(n) => Some(Constant::Number(*n)),
            Local::Flag(b) => Some(Constant::Flag(*b)),
            Local::Axis(_) | Local::Type(_) | Local::Unbound(_) => None,
        }
    }
}

/// The names of one program.
#[derive(Clone, Default, Debug)]
pub(super) struct Locals {
    map: BTreeMap<String, (Local, Span)>,
}

impl Locals {
    /// What the name stands for.
    pub fn get(&self, name: &str) -> Option<&Local> {
        self.map.get(name).map(|l| &l.0)
    }

    /// Where it got its meaning.
    pub fn place(&self, name: &str) -> Option<Span> {
        self.map.get(name).map(|l| l.1)
    }

    /// Gives a name its meaning, at that place.
    pub fn set(&mut self, name: &str, what: Local, at: Span) {
        self.map.insert(name.to_owned(), (what, at));
    }

    /// Names that take part in expressions, sorted.
    pub fn names(&self) -> Vec<String> {
        self.map.iter().filter(|l| l.1.0.constant().is_some()).map(|l| l.0.clone()).collect()
    }

    /// Axes by their names here, sorted.
    pub fn axes(&self) -> impl Iterator<Item = (&str, &Name)> {
        self.map.iter().filter_map(|(n, l)| match &l.0 {
            Local::Axis(a) => Some((n.as_str(), a)),
            _ => None,
        })
    }

    /// Integers and numbers with their names, sorted.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, Number)> {
        self.map.iter().filter_map(|(n, l)| match l.0 {
            Local::Number(v) => Some((n.as_str(), v)),
            _ => None,
        })
    }
}
