//! Arguments of operations: literals, and values of a program by name or by number.

use super::dtype::DType;
use std::fmt;

/// An integer argument: a literal or a value of the program.
#[derive(Clone, PartialEq, Debug)]
pub enum Int<V> {
    /// A literal.
    Is(i64),
    /// A value.
    Of(V),
}

impl<V: fmt::Display> fmt::Display for Int<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Int::Is(n) => n.fmt(f),
            Int::Of(v) => v.fmt(f),
        }
    }
}

/// An argument of an operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg<V> {
    /// `None`
    None,
    /// A tensor.
    Tensor(V),
    /// A list of tensors.
    Tensors(Vec<V>),
    /// A list of tensors, some of which are `None`.
    Optionals(Vec<Option<V>>),
    /// An integer.
    Int(Int<V>),
    /// A list of integers.
    Ints(Vec<Int<V>>),
    /// A floating-point number.
    Float(f64),
    /// A literal truth value.
    Bool(bool),
    /// A truth value of the program.
    BoolOf(V),
    /// A string.
    Text(String),
    /// An element type.
    DType(DType),
    /// A device, layout or memory format; kbc has one of each.
    Place,
}

impl<V> Arg<V> {
    /// Returns the values that the argument contains.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        let (mut one, mut tensors, mut optionals, mut ints) = (None, &[][..], &[][..], &[][..]);
        match self {
            Arg::Tensor(v) | Arg::BoolOf(v) | Arg::Int(Int::Of(v)) => one = Some(v),
            Arg::Tensors(list) => tensors = list,
            Arg::Optionals(list) => optionals = list,
            Arg::Ints(list) => ints = list,
            _ => {}
        }
        let ints = ints.iter().filter_map(|i| if let Int::Of(v) = i { Some(v) } else { None });
        one.into_iter().chain(tensors).chain(optionals.iter().flatten()).chain(ints)
    }

    /// Applies a function to every value of the argument.
    ///
    /// # Errors
    /// Returns the first error of the function.
    pub fn map<W, E>(&self, f: &mut impl FnMut(&V) -> Result<W, E>) -> Result<Arg<W>, E> {
        fn int<V, W, E>(i: &Int<V>, f: &mut impl FnMut(&V) -> Result<W, E>) -> Result<Int<W>, E> {
            Ok(match i {
                Int::Is(n) => Int::Is(*n),
                Int::Of(v) => Int::Of(f(v)?),
            })
        }
        Ok(match self {
            Arg::None => Arg::None,
            Arg::Tensor(v) => Arg::Tensor(f(v)?),
            Arg::Tensors(l) => Arg::Tensors(l.iter().map(f).collect::<Result<_, E>>()?),
            Arg::Optionals(l) => Arg::Optionals(
                l.iter().map(|v| v.as_ref().map(&mut *f).transpose()).collect::<Result<_, E>>()?,
            ),
            Arg::Int(i) => Arg::Int(int(i, f)?),
            Arg::Ints(l) => Arg::Ints(l.iter().map(|i| int(i, f)).collect::<Result<_, E>>()?),
            Arg::Float(x) => Arg::Float(*x),
            Arg::Bool(b) => Arg::Bool(*b),
            Arg::BoolOf(v) => Arg::BoolOf(f(v)?),
            Arg::Text(s) => Arg::Text(s.clone()),
            Arg::DType(d) => Arg::DType(*d),
            Arg::Place => Arg::Place,
        })
    }
}
