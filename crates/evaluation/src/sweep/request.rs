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
    /// What yields its time.
    pub engine: RowEngine,
    /// The options of the command line. A machine file is relative to the sweep file, and empty
    /// values of `--using` have no effect.
    pub of: Selection,
}

/// What yields the time of a row.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RowEngine {
    /// The simulator: the time is computed.
    #[default]
    Sim,
    /// Processes that share the memory of this computer: the time is measured.
    Host,
    /// Processes of MPI: the time is measured.
    Mpi,
}

impl RowEngine {
    /// All of them.
    pub const ALL: [RowEngine; 3] = [RowEngine::Sim, RowEngine::Host, RowEngine::Mpi];

    /// Its name in sweep files.
    pub fn name(self) -> &'static str {
        match self {
            RowEngine::Sim => "sim",
            RowEngine::Host => "host",
            RowEngine::Mpi => "mpi",
        }
    }

    /// The engine of a name.
    pub fn named(name: &str) -> Option<RowEngine> {
        RowEngine::ALL.into_iter().find(|e| e.name() == name)
    }

    /// Whether processes measure the time.
    pub fn measures(self) -> bool {
        self != RowEngine::Sim
    }
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
