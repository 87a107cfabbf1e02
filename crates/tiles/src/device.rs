//! Devices: what the cores of a target can do and how its text names them, as far as lowering and
//! the verifier of the tile level ask.
//!
//! The module owns the questions; a backend answers them ([`Device`]). The tile level describes
//! cores by roles: a vector core has one memory and moves data, computes, and talks to peers; a
//! matrix core multiplies blocks. A target names these roles in `.tile` text
//! ([`crate::tile::Dialect`]).

use crate::lower::chain::Chain;
use crate::tile::{Barrier, Core, Dialect, Op, Rounding, Space, VecOp};
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::scalar::{CompareOp, ScalarFn};
use kbc_ir::types::DType;

/// Numbers that bound a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of ranks of a domain.
    pub ranks: u32,
    /// Why there are no more ranks.
    pub ranks_why: &'static str,
    /// Maximum number of vector cores of a rank.
    pub cores: u32,
    /// Maximum number of matrix cores of a rank among which a matmul is divided.
    pub matrix_cores: u32,
    /// Maximum number of tensor arguments of a task.
    pub tensors: usize,
    /// Maximum number of scalar arguments of a task.
    pub scalars: usize,
    /// Maximum number of waits that a task leaves to the runtime, on all its cores together; 0 if
    /// the runtime does not wait for counters.
    pub conditions: u64,
    /// Number of events per pair of pipes, at most 8.
    pub events: u8,
    /// Alignment of a tile's address and length, in bytes.
    pub align: u32,
    /// Elements of a tile of a vector core, before the size of the memory makes it smaller.
    pub tile: u32,
    /// Rows and columns of a block of a matmul's result, before the size of the memory makes it
    /// smaller.
    pub block: [u32; 2],
    /// The number of which rows and columns of a tile of a matrix core are multiples.
    pub box_side: u32,
}

/// A number of an operation that an instruction keeps in a field of fewer bits. A larger number
/// would lose its upper bits without a message, so the instruction would do something else.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NarrowField<'o> {
    /// What the number is: "distance between rows".
    pub what: &'static str,
    /// The number, which is at least 0.
    pub value: &'o Expr,
    /// The largest number that the instruction takes.
    pub most: i64,
    /// Where the limit is stated or follows from.
    pub source: &'static str,
}

/// What the cores of a target can do. Where a question has a reason for its "no", the reason is a
/// sentence for a message.
pub trait Device: Sync {
    /// Returns the names of the target's text.
    fn dialect(&self) -> &'static Dialect;

    /// Returns the numbers that bound a kernel.
    fn limits(&self) -> &Limits;

    /// Checks whether a core executes its operations one after another, and the text of a kernel
    /// keeps the fences of the schedule. Then no flags or barriers are needed, and the verifier
    /// does not ask for them.
    fn in_order(&self) -> bool;

    /// Checks whether tasks end where they would wait, and the runtime waits for them.
    fn defers_waits(&self) -> bool {
        false
    }

    /// Checks whether the launch can put inputs where peers read them.
    fn shares_inputs(&self) -> bool;

    /// Returns the size in bytes of a memory of a core.
    fn bytes(&self, space: Space) -> u32;

    /// Checks whether a vector instruction supports an element type. `number`: its last operand is
    /// a number and not a tile.
    ///
    /// # Errors
    /// Returns the reason why it does not.
    fn vector(&self, op: VecOp, dtype: DType, number: bool) -> Result<(), &'static str>;

    /// Checks whether a comparison supports an element type.
    ///
    /// # Errors
    /// Returns the reason why it does not.
    fn compare(&self, cmp: CompareOp, dtype: DType) -> Result<(), &'static str>;

    /// Returns the number of elements of which the length of a compared tile is a multiple.
    fn select_step(&self, dtype: DType) -> u32;

    /// Returns the size in bytes of the mask tile of a `select` over `elements` elements.
    fn mask_bytes(&self, elements: u32, dtype: DType) -> u32;

    /// Returns the roundings of the conversion between two element types; empty if there is no such
    /// conversion.
    fn convert(&self, from: DType, to: DType) -> &'static [Rounding];

    /// Checks whether `op` can reduce a row of this element type.
    ///
    /// # Errors
    /// Returns the reason why it cannot.
    fn reduce(&self, op: VecOp, dtype: DType) -> Result<(), &'static str>;

    /// Checks whether one element of this type can be expanded over a tile.
    fn expand(&self, dtype: DType) -> bool;

    /// Checks whether a tile of a vector core can hold several rows of a matrix, which instructions
    /// reduce, expand and fill one by one.
    fn holds_rows(&self) -> bool;

    /// Checks whether a row index of this type can be read from a tile.
    ///
    /// # Errors
    /// Returns the reason why it cannot.
    fn choose(&self, dtype: DType) -> Result<(), &'static str>;

    /// Checks whether a matrix core multiplies elements of this type with f32 sums.
    ///
    /// # Errors
    /// Returns the reason why it does not.
    fn multiply(&self, dtype: DType) -> Result<(), &'static str>;

    /// Checks whether a matrix core stores its sums as this type.
    fn sums(&self, dtype: DType) -> bool;

    /// Checks whether a kind of core has this barrier.
    fn barrier(&self, core: Core, barrier: Barrier) -> bool;

    /// Returns the numbers of an operation that its instructions keep in narrow fields.
    fn narrow_fields<'o>(&self, op: &'o Op) -> Vec<NarrowField<'o>>;

    /// Returns the instructions that compute an elementwise function on elements of a type.
    ///
    /// # Errors
    /// Returns E451 for a function that the target's instructions do not compute.
    fn chain(&self, func: &ScalarFn, dtype: DType) -> Result<Chain, Diagnostic>;
}

/// Returns the element types through which a value is converted from `from` to `to`, `to` included.
/// All conversions but the last are exact, so the value is rounded once. `None` if no such sequence
/// exists.
pub fn conversions(device: &dyn Device, from: DType, to: DType) -> Option<Vec<DType>> {
    let exact = |a, b| device.convert(a, b).contains(&Rounding::Exact);
    let mut path = vec![];
    let mut at = from;
    while device.convert(at, to).is_empty() {
        at = [DType::F16, DType::F32].into_iter().find(|t| exact(at, *t) && !path.contains(t))?;
        path.push(at);
    }
    path.push(to);
    Some(path)
}
