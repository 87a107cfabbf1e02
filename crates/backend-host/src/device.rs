//! The processor as a device of the tile level: it executes the printed loops in order.

use kbc_diag::Diagnostic;
use kbc_ir::scalar::{CompareOp, ScalarFn};
use kbc_ir::types::DType;
use kbc_tiles::device::{Device, Limits, NarrowField};
use kbc_tiles::lower::chain::Chain;
use kbc_tiles::tile::{Barrier, Core, Dialect, Op, Rounding, Space, VecOp};

/// The names of `.tile` text for this target, and the names that the C text uses itself.
pub static DIALECT: Dialect = Dialect {
    vector_core: "process",
    matrix_core: "matrix",
    matrix_word: "matrix",
    spaces: ["cache", "stage", "left", "right", "sums"],
    pipes: ["scalar", "compute", "load", "store", "move", "matmul", "spill"],
    taken: &["me", "tensors"],
    step_note: "",
    mask_note: "",
};

/// Maximum number of ranks of a run.
pub const MAX_RANKS: u32 = 64;

/// Bytes that the tiles of a kernel may take: half of a usual second-level cache.
const TILES: u32 = 512 << 10;

/// The limits of a kernel.
static LIMITS: Limits = Limits {
    ranks: MAX_RANKS,
    ranks_why: "the control block of a run has room for 64 ranks",
    cores: 1,
    matrix_cores: 1,
    tensors: 1 << 10,
    scalars: 16,
    events: 0,
    align: 64,
    // 16 KiB of f32: a few tiles fit into a first-level cache.
    tile: 4096,
    block: [64, 64],
    box_side: 1,
};

/// A processor that runs a process per rank.
#[derive(Clone, Copy, Debug)]
pub struct Processor;

impl Device for Processor {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    fn limits(&self) -> &Limits {
        &LIMITS
    }

    fn in_order(&self) -> bool {
        true
    }

    fn bytes(&self, space: Space) -> u32 {
        if space == Space::Vector { TILES } else { 0 }
    }

    fn vector(&self, op: VecOp, dtype: DType, number: bool) -> Result<(), &'static str> {
        match op {
            VecOp::Add | VecOp::Mul | VecOp::Max | VecOp::Min if !number && dtype.reduces() => Ok(()),
            VecOp::Add | VecOp::Mul | VecOp::Max | VecOp::Min => {
                Err("target host combines tiles of f32, f16, bf16 and i32")
            }
            VecOp::Fill if dtype.scaled().is_some() => Err("8-bit floats can only be moved"),
            VecOp::Fill => Ok(()),
            VecOp::Sub | VecOp::Div | VecOp::Abs | VecOp::Exp | VecOp::Log | VecOp::Sqrt | VecOp::Rsqrt => {
                Err("target host computes no elementwise functions")
            }
        }
    }

    fn compare(&self, _: CompareOp, _: DType) -> Result<(), &'static str> {
        Err("target host computes no elementwise functions")
    }

    fn select_step(&self, _: DType) -> u32 {
        1
    }

    fn mask_bytes(&self, elements: u32, _: DType) -> u32 {
        elements
    }

    fn convert(&self, from: DType, to: DType) -> &'static [Rounding] {
        match (from, to) {
            (DType::F16 | DType::BF16, DType::F32) => &[Rounding::Exact],
            (DType::F32, DType::F16 | DType::BF16) => &[Rounding::Nearest],
            _ => &[],
        }
    }

    fn reduce(&self, _: VecOp, _: DType) -> Result<(), &'static str> {
        Err("target host reduces no rows")
    }

    fn expand(&self, _: DType) -> bool {
        false
    }

    fn holds_rows(&self) -> bool {
        false
    }

    fn choose(&self, _: DType) -> Result<(), &'static str> {
        Err("target host chooses no rows of a table")
    }

    fn multiply(&self, _: DType) -> Result<(), &'static str> {
        Err("target host multiplies no matrices")
    }

    fn sums(&self, _: DType) -> bool {
        false
    }

    fn barrier(&self, _: Core, _: Barrier) -> bool {
        false
    }

    fn narrow_fields<'o>(&self, _: &'o Op) -> Vec<NarrowField<'o>> {
        vec![]
    }

    fn chain(&self, func: &ScalarFn, dtype: DType) -> Result<Chain, Diagnostic> {
        Err(Diagnostic::error("E451", format!("{} of {dtype} cannot be emitted for target host", func.name))
            .note("this target emits collectives and the movement of data, not elementwise functions")
            .help("use --target sim"))
    }
}
