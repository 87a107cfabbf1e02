//! A local program of one rank as every reader hands it over, whatever file it came from.
//!
//! Owns types of values, arguments and nodes. [`Written`] is a program in names, as a file has it; `resolve` makes a
//! [`Program`] of it: values by number, the operation's row of the table, every argument there in the order of the schema.

use super::dtype::DType;
use super::ops::Op;
use super::symbols::Size;
use kbc_diag::{FileId, Span};
use std::collections::BTreeMap;
use std::fmt;

/// Element type and sizes of a tensor, as recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct Meta {
    /// Of an element.
    pub dtype: DType,
    /// One a dimension.
    pub sizes: Vec<Size>,
}

impl Meta {
    /// The sizes as numbers: a symbolic one is what the example inputs made it.
    pub fn shape(&self) -> Vec<i64> {
        self.sizes.iter().map(|s| s.value).collect()
    }
}

/// `f32[8, s77]`
impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype.name())?;
        for (i, size) in self.sizes.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            size.fmt(f)?;
        }
        f.write_str("]")
    }
}

/// A whole number that is written, or a value of the program.
#[derive(Clone, PartialEq, Debug)]
pub enum Int<V> {
    /// Written.
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
    /// Tensors.
    Tensors(Vec<V>),
    /// Tensors of which some are `None`.
    Optionals(Vec<Option<V>>),
    /// A whole number.
    Int(Int<V>),
    /// Whole numbers.
    Ints(Vec<Int<V>>),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A truth value of the program.
    BoolOf(V),
    /// Characters.
    Text(String),
    /// An element type.
    DType(DType),
    /// A device, layout or memory format; kbc has one of each.
    Place,
}

impl<V> Arg<V> {
    /// The values in it.
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

    /// The same with every value changed.
    ///
    /// # Errors
    /// The first of the change.
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

/// What an input is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// A weight, by its name in the model: parameter, buffer or constant.
    Weight(String),
    /// An argument of the program.
    User,
}

/// A node in names.
#[derive(Clone, PartialEq, Debug)]
pub struct WrittenNode {
    /// `aten.mm.default`, without `torch.ops.`
    pub target: String,
    /// Arguments by the names of the schema.
    pub args: Vec<(String, Arg<String>)>,
    /// Results: one list where the result is a list.
    pub outputs: Vec<Arg<String>>,
    /// The line of the user's model it comes from, `model.py:17 in forward`.
    pub source: Option<String>,
    /// Where the file has it: byte 0 for a file without bytes of its own.
    pub at: usize,
}

/// Where the parts of a value are, for one dimension of a mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placement {
    /// `R`
    Replicated,
    /// `S(0)`
    Split(usize),
    /// `P(sum)`
    Partial(String),
}

/// A program in names, as a file has it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Written {
    /// The version that wrote it, `2.15.0`.
    pub torch: String,
    /// Names in call order, and what they are.
    pub inputs: Vec<(Arg<String>, Role)>,
    /// In the order of execution.
    pub nodes: Vec<WrittenNode>,
    /// Results.
    pub outputs: Vec<Arg<String>>,
    /// Records of tensors, by name.
    pub tensors: BTreeMap<String, Meta>,
    /// Records of whole numbers, by name.
    pub ints: BTreeMap<String, Size>,
    /// Of a graph of DTensors: where the parts of values are, an entry a dimension of the mesh; sizes are global then.
    pub placements: BTreeMap<String, Vec<Placement>>,
    /// Whether sizes with symbols have no value: text does not say what they were.
    pub unvalued: bool,
    /// Least and greatest value of symbols.
    pub ranges: BTreeMap<String, (Option<i64>, Option<i64>)>,
}

impl Written {
    /// Whether a size of it is a symbol.
    pub fn is_symbolic(&self) -> bool {
        self.tensors.values().flat_map(|m| &m.sizes).chain(self.ints.values()).any(|s| s.expr.is_some())
    }
}

/// Number of a value in [`Program::values`].
pub type ValueId = usize;

/// What a value is.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// A tensor.
    Tensor(Meta),
    /// A whole number.
    Int(Size),
    /// A truth value about sizes.
    Bool,
    /// A result that has no record, because nothing uses it.
    Unused,
}

/// A value: assigned once.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// Its name in the file.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// An operation with its arguments.
#[derive(Clone, Debug)]
pub struct Node {
    /// The row of the table.
    pub op: &'static Op,
    /// One a parameter of the row, defaults filled in.
    pub args: Vec<Arg<ValueId>>,
    /// Results, the elements of a list one by one.
    pub outputs: Vec<ValueId>,
}

impl Node {
    /// The argument of that name; `None` where the operation has no such parameter.
    pub fn arg(&self, name: &str) -> &Arg<ValueId> {
        self.op.params.iter().position(|p| p.name == name).map_or(&Arg::None, |i| &self.args[i])
    }
}

/// The program of one rank.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file as the user named it.
    pub file: String,
    /// Its text in the map, for messages: one line a node ([`super::listing`]).
    pub listing: FileId,
    /// The line of each node and, last, of the result: bytes of the listing.
    pub lines: Vec<(usize, usize)>,
    /// In names.
    pub written: Written,
    /// The rank that runs it.
    pub rank: u64,
    /// All values: inputs first.
    pub values: Vec<Value>,
    /// In the order of execution.
    pub nodes: Vec<Node>,
    /// Values that are results.
    pub outputs: Vec<ValueId>,
}

impl Program {
    /// The line of a node; of the result for the number after the last node.
    pub fn span(&self, node: usize) -> Span {
        self.lines.get(node).map_or(Span::NONE, |(a, b)| Span::new(self.listing, *a, *b))
    }

    /// The record of a tensor.
    pub fn meta(&self, v: ValueId) -> Option<&Meta> {
        match &self.values[v].kind {
            Kind::Tensor(m) => Some(m),
            _ => None,
        }
    }

    /// The number that a written number or a value is, as far as records tell.
    pub fn int(&self, i: &Int<ValueId>) -> Option<i64> {
        match i {
            Int::Is(n) => Some(*n),
            Int::Of(v) => match &self.values[*v].kind {
                Kind::Int(s) => Some(s.value),
                _ => None,
            },
        }
    }

    /// Where a node is written: the model's line if it is known, and the byte of the file.
    pub fn place(&self, node: usize) -> String {
        place(&self.file, &self.written.nodes[node])
    }
}

/// Where a node is written, in words.
pub fn place(file: &str, node: &WrittenNode) -> String {
    match &node.source {
        Some(line) => format!("{file}, byte {}; from {line}", node.at),
        None => format!("{file}, byte {}", node.at),
    }
}
