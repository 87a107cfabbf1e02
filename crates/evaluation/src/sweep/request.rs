//! Request of a row: its program, and its options with the templates filled in.

use super::spec::AxisValue;
use kbc_compiler::options::Selection;

/// The request of one row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowRequest {
    /// Index in the whole grid, from 0.
    pub row: usize,
    /// The value of each axis.
    pub values: Vec<AxisValue>,
    /// The program.
    pub program: RowProgram,
    /// The options of the command line. A machine file is relative to the sweep file, and empty
    /// values of `--using` have no effect.
    pub of: Selection,
}

/// A program of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowProgram {
    /// A file, relative to the sweep file.
    File(String),
    /// The text of a program.
    Text(String),
    /// A kernbench ccl.yaml, relative to the sweep file.
    Ccl(String),
}
