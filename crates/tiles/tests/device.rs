//! A device that executes its operations in order, such as a processor that runs printed loops.

use kbc_diag::Diagnostic;
use kbc_ir::scalar::{CompareOp, ScalarFn};
use kbc_ir::types::DType;
use kbc_tiles::device::{Device, Limits, NarrowField};
use kbc_tiles::lower::chain::Chain;
use kbc_tiles::tile::{Barrier, Core, Dialect, Op, Pipe, Rounding, Space, VecOp};

/// Names of the device.
pub static DIALECT: Dialect = Dialect {
    vector_core: "worker",
    matrix_core: "block",
    matrix_word: "block",
    spaces: ["local", "stage", "left", "right", "sums"],
    pipes: ["scalar", "compute", "load", "store", "move", "matmul", "spill"],
    taken: &["window"],
    step_note: "",
    mask_note: "",
};

/// A device with the given most ranks and bytes of local memory.
pub struct Plain {
    limits: Limits,
    bytes: u32,
}

impl Plain {
    /// Returns the device.
    pub fn new(ranks: u32, bytes: u32) -> Plain {
        let limits = Limits {
            ranks,
            ranks_why: "a test says so",
            cores: 1,
            matrix_cores: 1,
            tensors: 8,
            scalars: 8,
            events: 0,
            align: 4,
            tile: 1024,
            block: [8, 8],
            box_side: 1,
            conditions: 0,
        };
        Plain { limits, bytes }
    }
}

impl Device for Plain {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn in_order(&self) -> bool {
        true
    }

    fn shares_inputs(&self) -> bool {
        false
    }

    fn bytes(&self, space: Space) -> u32 {
        if space == Space::Vector { self.bytes } else { 0 }
    }

    fn vector(&self, _: VecOp, dtype: DType, _: bool) -> Result<(), &'static str> {
        if dtype == DType::F32 { Ok(()) } else { Err("the device computes f32 alone") }
    }

    fn compare(&self, _: CompareOp, _: DType) -> Result<(), &'static str> {
        Err("the device compares nothing")
    }

    fn select_step(&self, _: DType) -> u32 {
        1
    }

    fn mask_bytes(&self, elements: u32, _: DType) -> u32 {
        elements
    }

    fn convert(&self, from: DType, to: DType) -> &'static [Rounding] {
        match (from, to) {
            (DType::F16, DType::F32) => &[Rounding::Exact],
            (DType::F32, DType::F16) => &[Rounding::Nearest],
            _ => &[],
        }
    }

    fn reduce(&self, _: VecOp, _: DType) -> Result<(), &'static str> {
        Err("the device reduces no rows")
    }

    fn expand(&self, _: DType) -> bool {
        false
    }

    fn holds_rows(&self) -> bool {
        false
    }

    fn choose(&self, _: DType) -> Result<(), &'static str> {
        Err("the device chooses no rows")
    }

    fn multiply(&self, _: DType) -> Result<(), &'static str> {
        Err("the device multiplies no matrices")
    }

    fn sums(&self, _: DType) -> bool {
        false
    }

    fn barrier(&self, _: Core, barrier: Barrier) -> bool {
        barrier != Barrier::Pipe(Pipe::Vector)
    }

    fn narrow_fields<'o>(&self, _: &'o Op) -> Vec<NarrowField<'o>> {
        vec![]
    }

    fn chain(&self, func: &ScalarFn, _: DType) -> Result<Chain, Diagnostic> {
        Err(Diagnostic::error("E451", format!("{} has no instruction", func.name)))
    }
}
