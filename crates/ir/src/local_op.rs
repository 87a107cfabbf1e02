//! Local operations: operations on whole local buffers, which a rank performs between collectives.
//!
//! The module owns which buffers each operation reads and writes, and the expression that selects
//! the rank's part of a line or tensor. The engines define what the operations compute, and
//! [`crate::text`] how they are written.

use crate::expr::Expr;
use crate::grouped::Runs;
use crate::scalar::ScalarFn;
use crate::schedule::BufferId;
use crate::tiles::TileKernel;
use crate::types::{CutRule, ReduceOp};
use std::sync::Arc;

/// Content of a fill.
#[derive(Clone, PartialEq, Debug)]
pub enum Filling {
    /// A number, rounded once to the element type.
    Number(f64),
    /// The index along a dimension.
    Place {
        /// Dimension.
        dim: u32,
        /// Index of the first element of the rank's part: an expression in mesh coordinates.
        first: Expr,
    },
}

/// An operation on whole local tensors.
#[derive(Clone, PartialEq, Debug)]
pub enum LocalOp {
    /// An elementwise function; operands are broadcast from the right.
    Compute {
        /// Function.
        func: ScalarFn,
        /// Destination.
        dst: BufferId,
        /// Operands.
        args: Vec<BufferId>,
    },
    /// `[.., M, K] x [.., K, N]`, accumulated in f32 (i32) and rounded once to the type of `dst`.
    Matmul {
        /// Destination.
        dst: BufferId,
        /// Left operand.
        a: BufferId,
        /// Right operand.
        b: BufferId,
    },
    /// Reduction of one dimension of the local part, in index order, accumulated in f32 (i32) and
    /// rounded once.
    ReduceDim {
        /// Combiner.
        op: ReduceOp,
        /// Global number of elements, by which to divide at the end.
        mean: Option<u64>,
        /// Destination.
        dst: BufferId,
        /// Source.
        src: BufferId,
        /// Dimension of `src` that is reduced.
        dim: u32,
    },
    /// Conversion of the element type, rounded to nearest even.
    Cast {
        /// Destination.
        dst: BufferId,
        /// Source.
        src: BufferId,
    },
    /// Copy of the elements in the same order. The shapes may differ.
    Copy {
        /// Destination.
        dst: BufferId,
        /// Source.
        src: BufferId,
    },
    /// Tensor to line: the parts of `dim` one after another, each row-major. With `at`, `src` is
    /// only the part number `at`, and only that block of `dst` is written.
    Pack {
        /// Destination, a line.
        dst: BufferId,
        /// Source, a tensor.
        src: BufferId,
        /// Dimension that is cut.
        dim: u32,
        /// Number of parts.
        parts: u64,
        /// Rule by which the dimension is cut.
        rule: CutRule,
        /// Number of the part that `src` is.
        at: Option<Expr>,
    },
    /// Line to tensor, the inverse of `Pack`. With `at`, `dst` is only the part number `at`.
    Unpack {
        /// Destination, a tensor.
        dst: BufferId,
        /// Source, a line.
        src: BufferId,
        /// Dimension that is cut.
        dim: u32,
        /// Number of parts.
        parts: u64,
        /// Rule by which the dimension is cut.
        rule: CutRule,
        /// Number of the part that `dst` is.
        at: Option<Expr>,
    },
    /// Transposition: dimension i of `dst` is dimension `perm[i]` of `src`.
    Transpose {
        /// Destination.
        dst: BufferId,
        /// Source.
        src: BufferId,
        /// Permutation of the dimensions.
        perm: Vec<u32>,
    },
    /// Row `id - first` of a table for each id; zeros where the table has no such row.
    Embedding {
        /// Destination: the sizes of `ids`, then those of a row.
        dst: BufferId,
        /// Table, with its rows along dimension 0.
        table: BufferId,
        /// Row numbers, of type i32 or i64.
        ids: BufferId,
        /// Number of the table's first row: an expression in mesh coordinates.
        first: Expr,
    },
    /// Rows, each multiplied by the matrix of its group.
    Grouped {
        /// Destination: `[rows, F]`.
        dst: BufferId,
        /// Rows: `[rows, D]`.
        x: BufferId,
        /// Matrices: `[matrices, D, F]`.
        w: BufferId,
        /// Matrix of each row, for the rows of all ranks.
        runs: Runs,
        /// List of places; each place is the number of the first row and of the first matrix.
        places: Vec<(u64, u64)>,
        /// Index of this rank's place in the list: an expression in mesh coordinates.
        at: Expr,
    },
    /// A kernel over tiles.
    Tiles {
        /// Kernel.
        kernel: Arc<TileKernel>,
        /// Destination, which is written completely.
        dst: BufferId,
        /// Operands.
        args: Vec<BufferId>,
    },
    /// Elements that follow from their position alone.
    Fill {
        /// Destination.
        dst: BufferId,
        /// Content.
        with: Filling,
    },
    /// Part `index` of `of` parts along a dimension.
    Slice {
        /// Destination.
        dst: BufferId,
        /// Source.
        src: BufferId,
        /// Dimension that is cut.
        dim: u32,
        /// Number of the part: an expression in mesh coordinates.
        index: Expr,
        /// Number of parts.
        of: u64,
        /// Rule by which the dimension is cut.
        rule: CutRule,
    },
}

impl LocalOp {
    /// Returns the buffer that the operation writes.
    pub fn dst(&self) -> BufferId {
        match self {
            LocalOp::Compute { dst, .. }
            | LocalOp::Matmul { dst, .. }
            | LocalOp::ReduceDim { dst, .. }
            | LocalOp::Cast { dst, .. }
            | LocalOp::Copy { dst, .. }
            | LocalOp::Pack { dst, .. }
            | LocalOp::Unpack { dst, .. }
            | LocalOp::Transpose { dst, .. }
            | LocalOp::Embedding { dst, .. }
            | LocalOp::Grouped { dst, .. }
            | LocalOp::Tiles { dst, .. }
            | LocalOp::Fill { dst, .. }
            | LocalOp::Slice { dst, .. } => *dst,
        }
    }

    /// Returns the buffers that the operation reads.
    pub fn srcs(&self) -> Vec<BufferId> {
        match self {
            LocalOp::Compute { args, .. } | LocalOp::Tiles { args, .. } => args.clone(),
            LocalOp::Fill { .. } => vec![],
            LocalOp::Matmul { a, b, .. } => vec![*a, *b],
            LocalOp::Embedding { table, ids, .. } => vec![*table, *ids],
            LocalOp::Grouped { x, w, .. } => vec![*x, *w],
            LocalOp::ReduceDim { src, .. }
            | LocalOp::Cast { src, .. }
            | LocalOp::Copy { src, .. }
            | LocalOp::Pack { src, .. }
            | LocalOp::Unpack { src, .. }
            | LocalOp::Transpose { src, .. }
            | LocalOp::Slice { src, .. } => vec![*src],
        }
    }

    /// Returns the expression in mesh coordinates that selects this rank's part of a line or
    /// tensor, if the operation has one.
    pub fn part(&self) -> Option<&Expr> {
        match self {
            LocalOp::Pack { at, .. } | LocalOp::Unpack { at, .. } => at.as_ref(),
            LocalOp::Slice { index, .. } => Some(index),
            LocalOp::Grouped { at, .. } => Some(at),
            LocalOp::Embedding { first, .. } | LocalOp::Fill { with: Filling::Place { first, .. }, .. } => {
                Some(first)
            }
            LocalOp::Compute { .. }
            | LocalOp::Tiles { .. }
            | LocalOp::Matmul { .. }
            | LocalOp::ReduceDim { .. }
            | LocalOp::Cast { .. }
            | LocalOp::Copy { .. }
            | LocalOp::Transpose { .. }
            | LocalOp::Fill { with: Filling::Number(_), .. } => None,
        }
    }
}
