//! Data model of one rank's program, the same for every file format.
//!
//! This module owns the types of values and nodes. [`Written`] is a program as a file
//! contains it, with names. `resolve` turns it into a [`Program`]: values by number, the
//! operation's row of the table, and all arguments in the order of the schema.

use super::arg::{Arg, Int};
use super::dtype::DType;
use super::ops::OpSignature;
use super::symbols::Size;
use kbc_diag::{FileId, Span};
use std::collections::BTreeMap;
use std::fmt;

/// Recorded element type and sizes of a tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Meta {
    /// Element type.
    pub dtype: DType,
    /// One size per dimension.
    pub sizes: Vec<Size>,
}

impl Meta {
    /// Returns the sizes as numbers. A symbolic size has the value that the example inputs gave it.
    pub fn shape(&self) -> Vec<i64> {
        self.sizes.iter().map(|s| s.value).collect()
    }
}

/// Prints the record, such as `f32[8, s77]`.
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

/// The role of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// A weight (parameter, buffer or constant), with its name in the model.
    Weight(String),
    /// An argument of the program.
    User,
}

/// A node that refers to values by name.
#[derive(Clone, PartialEq, Debug)]
pub struct WrittenNode {
    /// The operation, such as `aten.mm.default`, without `torch.ops.`.
    pub target: String,
    /// Arguments, by their names in the schema.
    pub args: Vec<(String, Arg<String>)>,
    /// Results; a single list if the operation returns a list.
    pub outputs: Vec<Arg<String>>,
    /// Line of the user's model from which the node comes, such as `model.py:17 in forward`.
    pub source: Option<String>,
    /// Byte of the node in its file; 0 for a file without byte positions of its own.
    pub at: usize,
}

/// Placement of a value over one dimension of a mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placement {
    /// `R`
    Replicated,
    /// `S(0)`
    Split(usize),
    /// `P(sum)`
    Partial(String),
}

/// A program as a file contains it, with names.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Written {
    /// Version of PyTorch that wrote the file, such as `2.15.0`.
    pub torch: String,
    /// Inputs in call order, with their roles.
    pub inputs: Vec<(Arg<String>, Role)>,
    /// Nodes, in order of execution.
    pub nodes: Vec<WrittenNode>,
    /// Results.
    pub outputs: Vec<Arg<String>>,
    /// Recorded types of tensors, by name.
    pub tensors: BTreeMap<String, Meta>,
    /// Recorded integers, by name.
    pub ints: BTreeMap<String, Size>,
    /// For a graph of DTensors: placements of values, one entry per mesh dimension. Sizes
    /// are then global.
    pub placements: BTreeMap<String, Vec<Placement>>,
    /// Whether symbolic sizes have no value, because the text does not contain it.
    pub unvalued: bool,
    /// Least and greatest value of each symbol.
    pub ranges: BTreeMap<String, (Option<i64>, Option<i64>)>,
}

impl Written {
    /// Checks whether any size of the program is symbolic.
    pub fn is_symbolic(&self) -> bool {
        self.tensors.values().flat_map(|m| &m.sizes).chain(self.ints.values()).any(|s| s.expr.is_some())
    }
}

/// Index of a value in [`Program::values`].
pub type ValueId = usize;

/// The kind of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum ValueKind {
    /// A tensor.
    Tensor(Meta),
    /// An integer.
    Int(Size),
    /// A truth value that depends on sizes.
    Bool,
    /// A result without a record, because nothing uses it.
    Unused,
}

/// A value; it is assigned once.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// Its name in the file.
    pub name: String,
    /// Its kind.
    pub kind: ValueKind,
}

/// An operation with its arguments.
#[derive(Clone, Debug)]
pub struct Node {
    /// Row of the table of operations.
    pub op: &'static OpSignature,
    /// One argument per parameter of the row, with defaults filled in.
    pub args: Vec<Arg<ValueId>>,
    /// Results; the elements of a list are listed one by one.
    pub outputs: Vec<ValueId>,
}

impl Node {
    /// Returns the argument with that name; `None` if the operation has no such parameter.
    pub fn arg(&self, name: &str) -> &Arg<ValueId> {
        self.op.params.iter().position(|p| p.name == name).map_or(&Arg::None, |i| &self.args[i])
    }
}

/// The program of one rank.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file, as the user named it.
    pub file: String,
    /// The text of the program in the source map, for messages: one line per node
    /// ([`super::listing`]).
    pub listing: FileId,
    /// Byte range in the listing of each node's line and, last, of the line of the result.
    pub lines: Vec<(usize, usize)>,
    /// The program with names.
    pub written: Written,
    /// The rank that runs it.
    pub rank: u64,
    /// All values, inputs first.
    pub values: Vec<Value>,
    /// Nodes, in order of execution.
    pub nodes: Vec<Node>,
    /// Values that are results.
    pub outputs: Vec<ValueId>,
}

impl Program {
    /// Returns the location of a node; for the index after the last node, that of the result.
    pub fn span(&self, node: usize) -> Span {
        self.lines.get(node).map_or(Span::NONE, |(a, b)| Span::new(self.listing, *a, *b))
    }

    /// Returns the record of a tensor.
    pub fn meta(&self, v: ValueId) -> Option<&Meta> {
        match &self.values[v].kind {
            ValueKind::Tensor(m) => Some(m),
            _ => None,
        }
    }

    /// Returns the number that a literal or a value stands for, if the records determine it.
    pub fn int(&self, i: &Int<ValueId>) -> Option<i64> {
        match i {
            Int::Is(n) => Some(*n),
            Int::Of(v) => match &self.values[*v].kind {
                ValueKind::Int(s) => Some(s.value),
                _ => None,
            },
        }
    }

    /// Returns the place of a node: the line of the model if it is known, and the byte of the file.
    pub fn place(&self, node: usize) -> String {
        place(&self.file, &self.written.nodes[node])
    }
}

/// Returns the place of a node as text.
pub fn place(file: &str, node: &WrittenNode) -> String {
    match &node.source {
        Some(line) => format!("{file}, byte {}; from {line}", node.at),
        None => format!("{file}, byte {}", node.at),
    }
}
