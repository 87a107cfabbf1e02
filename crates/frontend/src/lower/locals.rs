//! Local names: the meaning of names inside one program that are not tensors, which are sizes,
//! numbers, flags, axes and element types.
//!
//! This module owns the table. [`super::bind`] fills it.

use super::values::ParamValue;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::Name;
use kbc_ir::types::DType;
use std::collections::BTreeMap;

/// The meaning of a name.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Local {
    /// An argument of kind `int` or `number`, or a size.
    Number(ParamValue),
    /// An argument of kind `bool`.
    Flag(bool),
    /// An argument of kind `axis`.
    Axis(Name),
    /// An element type.
    Type(DType),
    /// A size without a value. The error has already been reported and is kept here.
    Unbound(Box<Diagnostic>),
}

/// The value of a name in an expression.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Constant {
    Number(ParamValue),
    Flag(bool),
}

impl Local {
    /// Returns the value in expressions, if it has one.
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
    /// Returns the meaning of a name.
    pub fn get(&self, name: &str) -> Option<&Local> {
        self.map.get(name).map(|l| &l.0)
    }

    /// Returns the place where a name got its meaning.
    pub fn place(&self, name: &str) -> Option<Span> {
        self.map.get(name).map(|l| l.1)
    }

    /// Gives a name its meaning, with the place of the definition.
    pub fn set(&mut self, name: &str, what: Local, at: Span) {
        self.map.insert(name.to_owned(), (what, at));
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &str) {
        self.map.remove(name);
    }

    /// Returns the names that can be used in expressions, sorted.
    pub fn names(&self) -> Vec<String> {
        self.map.iter().filter(|l| l.1.0.constant().is_some()).map(|l| l.0.clone()).collect()
    }

    /// Iterates over the axes by their names in this program, sorted.
    pub fn axes(&self) -> impl Iterator<Item = (&str, &Name)> {
        self.map.iter().filter_map(|(n, l)| match &l.0 {
            Local::Axis(a) => Some((n.as_str(), a)),
            _ => None,
        })
    }

    /// Iterates over the integers and numbers with their names, sorted.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, ParamValue)> {
        self.map.iter().filter_map(|(n, l)| match l.0 {
            Local::Number(v) => Some((n.as_str(), v)),
            _ => None,
        })
    }
}
