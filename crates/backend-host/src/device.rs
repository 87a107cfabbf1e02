//! The processor as a device of the tile level: it executes the printed loops in order.

use kbc_diag::Diagnostic;
use kbc_ir::scalar::{CompareOp, ScalarFn};
use kbc_ir::types::DType;
use kbc_tiles::device::{Device, Limits, NarrowField};
use kbc_tiles::elementwise;
use kbc_tiles::lower::chain::Chain;
use kbc_tiles::tile::{Barrier, Core, Dialect, Op, Rounding, Space, Tile, VecOp};

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
    // Whole groups of the rows of `kbc_compute.h`, and panels of its columns. With 256 terms, both
    // operands and the sums take 0.7 MB, and are in a second-level cache of 1 MB or more.
    block: [192, 256],
    box_side: 1,
    conditions: 0,
};

/// Terms of a slice of operands of f32. Operands of other types have as many where a program has
/// operands of one type.
const TERMS: u32 = 256;

/// Rows that are multiplied together, and columns of a panel (`KBC_UP`, `KBC_WIDTH` of
/// `kbc_compute.h`).
const GROUP: [u64; 2] = [6, 32];

/// Elements between the ends of the rows of a left operand and the beginnings of the next ones, so
/// that rows do not share lines of a cache.
const APART: u64 = 16;

/// The form of a tile of a matrix core in memory, in elements of 4 bytes.
pub struct BlockForm {
    /// Elements from a row, a term of a panel or a row of sums to the next one; of a right operand,
    /// terms of a panel.
    pub stride: u64,
    /// Elements of the tile.
    elements: u64,
}

impl BlockForm {
    /// Returns the form of a tile.
    pub fn of(tile: &Tile) -> BlockForm {
        let up = |n: u32, to: u64| u64::from(n).div_ceil(to) * to;
        let [rows, cols] = [up(tile.rows, GROUP[0]), up(tile.elements, GROUP[1])];
        let (stride, elements) = match tile.space {
            Space::Left => (u64::from(tile.elements) + APART, rows * (u64::from(tile.elements) + APART)),
            Space::Right => (tile.rows.into(), cols * u64::from(tile.rows)),
            Space::Sums => (cols, rows * cols),
            // A panel is read where it is.
            Space::Stage | Space::Vector => (0, 0),
        };
        BlockForm { stride, elements }
    }
}

/// Returns the place of each tile in the memory of a rank, in bytes, and the size of that memory.
/// On a rank, the memories of a core are one after another, and tiles of matrix cores have the form
/// that [`BlockForm`] says. `None` is a tile without an address.
pub fn places(tiles: &[Tile]) -> (Vec<Option<u64>>, u64) {
    let step = u64::from(LIMITS.align);
    let vectors = tiles.iter().filter(|t| t.space == Space::Vector);
    let mut end = vectors.map(|t| u64::from(t.at.unwrap_or(0)) + t.all_bytes()).max().unwrap_or(0);
    let mut place = |t: &Tile| {
        let address = t.at.map(u64::from)?;
        if t.space == Space::Vector {
            return Some(address);
        }
        let at = end.div_ceil(step) * step;
        end = at + BlockForm::of(t).elements * 4;
        Some(at)
    };
    let all = tiles.iter().map(&mut place).collect();
    (all, end)
}

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

    fn shares_inputs(&self) -> bool {
        true
    }

    fn bytes(&self, space: Space) -> u32 {
        let [rows, cols] = LIMITS.block;
        match space {
            Space::Vector => TILES,
            Space::Left => rows * TERMS * 4,
            Space::Right => cols * TERMS * 4,
            // One slice of both operands.
            Space::Stage => (rows + cols) * TERMS * 4,
            Space::Sums => rows * cols * 4,
        }
    }

    fn vector(&self, op: VecOp, dtype: DType, number: bool) -> Result<(), &'static str> {
        let computes = matches!(dtype, DType::F32 | DType::I32);
        match op {
            VecOp::Add | VecOp::Mul | VecOp::Max | VecOp::Min if !number && dtype.reduces() => Ok(()),
            VecOp::Add | VecOp::Sub | VecOp::Mul | VecOp::Div | VecOp::Max | VecOp::Min if computes => Ok(()),
            VecOp::Add | VecOp::Mul | VecOp::Max | VecOp::Min if !number => {
                Err("target host combines tiles of f32, f16, bf16 and i32")
            }
            VecOp::Add | VecOp::Sub | VecOp::Mul | VecOp::Div | VecOp::Max | VecOp::Min => {
                Err("target host computes with tiles of f32 and i32: convert them")
            }
            VecOp::Fill if dtype.scaled().is_some() => Err("8-bit floats can only be moved"),
            VecOp::Fill => Ok(()),
            VecOp::Abs | VecOp::Exp | VecOp::Log | VecOp::Sqrt | VecOp::Rsqrt if dtype == DType::F32 => {
                Ok(())
            }
            VecOp::Abs | VecOp::Exp | VecOp::Log | VecOp::Sqrt | VecOp::Rsqrt => Err("it exists for f32"),
        }
    }

    fn compare(&self, _: CompareOp, dtype: DType) -> Result<(), &'static str> {
        match dtype {
            DType::F32 | DType::I32 => Ok(()),
            _ => Err("it exists for f32 and i32"),
        }
    }

    fn select_step(&self, _: DType) -> u32 {
        1
    }

    fn mask_bytes(&self, _: u32, _: DType) -> u32 {
        // Comparison and selection are one loop, which needs no mask.
        0
    }

    fn convert(&self, from: DType, to: DType) -> &'static [Rounding] {
        use DType::{BF16, F16, F32, I8, I16, I32, I64, U8};
        match (from, to) {
            _ if from == to || from.scaled().is_some() || to.scaled().is_some() => &[],
            (F16 | BF16 | I16, F32) | (I8 | U8, F16) | (I32, I64) => &[Rounding::Exact],
            // Through f32.
            (F16, BF16) | (BF16, F16) => &[],
            _ => &[Rounding::Nearest],
        }
    }

    fn reduce(&self, op: VecOp, dtype: DType) -> Result<(), &'static str> {
        match (op, dtype) {
            (VecOp::Add | VecOp::Max | VecOp::Min, DType::F32 | DType::I32) => Ok(()),
            (VecOp::Add | VecOp::Max | VecOp::Min, _) => Err("rows of f32 and i32 can be reduced"),
            _ => Err("a row can be reduced only by sum, max or min"),
        }
    }

    fn expand(&self, dtype: DType) -> bool {
        dtype.reduces()
    }

    fn holds_rows(&self) -> bool {
        true
    }

    fn choose(&self, dtype: DType) -> Result<(), &'static str> {
        match dtype {
            DType::I32 | DType::I64 => Ok(()),
            _ => Err("row numbers must be i32 or i64"),
        }
    }

    fn multiply(&self, dtype: DType) -> Result<(), &'static str> {
        if dtype.reduces() { Ok(()) } else { Err("matrices of f32, f16, bf16 and i32 are multiplied") }
    }

    fn sums(&self, dtype: DType) -> bool {
        dtype.reduces()
    }

    fn barrier(&self, _: Core, _: Barrier) -> bool {
        false
    }

    fn narrow_fields<'o>(&self, _: &'o Op) -> Vec<NarrowField<'o>> {
        vec![]
    }

    fn chain(&self, func: &ScalarFn, dtype: DType) -> Result<Chain, Diagnostic> {
        elementwise::chain(func, dtype, true)
    }
}
