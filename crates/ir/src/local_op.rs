//! Operations on whole local buffers: what a rank does between collectives.
//!
//! Owns what each reads and writes, and which part of a line or a tensor a rank's is. What they compute is the engines'; how they are
//! written is [`crate::text`]'s.

use crate::expr::Expr;
use crate::grouped::Runs;
use crate::scalar::ScalarFn;
use crate::schedule::BufferId;
use crate::tiles::TileKernel;
use crate::types::{CutRule, ReduceOp};
use std::sync::Arc;

/// What elements are filled with.
#[derive(Clone, PartialEq, Debug)]
pub enum Filling {
    /// A number, rounded once to the element type.
    Number(f64),
    /// The index along a dimension.
    Place {
        /// The dimension.
        dim: u32,
        /// The index of its first element here: an expression in mesh coordinates.
        first: Expr,
    },
}

/// Operations on whole local tensors.
#[derive(Clone, PartialEq, Debug)]
pub enum LocalOp {
    /// Elementwise, operands broadcast from the right.
    Compute {
        /// The function.
        func: ScalarFn,
        /// Written.
        dst: BufferId,
        /// Read.
        args: Vec<BufferId>,
    },
    /// `[.., M, K] x [.., K, N]`; accumulated in f32 (i32), rounded once to the type of `dst`.
    Matmul {
        /// Written.
        dst: BufferId,
        /// Left.
        a: BufferId,
        /// Right.
        b: BufferId,
    },
    /// Reduction of one dimension (of the local part), in index order, in f32 (i32), rounded once.
    ReduceDim {
        /// Combiner.
        op: ReduceOp,
        /// Divide by this global count afterwards.
        mean: Option<u64>,
        /// Written.
        dst: BufferId,
        /// Read.
        src: BufferId,
        /// The dimension of `src`.
        dim: u32,
    },
    /// Conversion, nearest even.
    Cast {
        /// Written.
        dst: BufferId,
        /// Read.
        src: BufferId,
    },
    /// The same elements in the same order (shapes may differ).
    Copy {
        /// Written.
        dst: BufferId,
        /// Read.
        src: BufferId,
    },
    /// Tensor to line: the parts of `dim`'s cut one after another, each row-major. With `at`, `src` is the one part
    /// `at` and only that block of `dst` is written.
    Pack {
        /// The line.
        dst: BufferId,
        /// The tensor.
        src: BufferId,
        /// Cut dimension.
        dim: u32,
        /// Parts.
        parts: u64,
        /// How it is cut.
        rule: CutRule,
        /// Which part `src` is.
        at: Option<Expr>,
    },
    /// Line to tensor, the inverse of `Pack`; with `at`, `dst` is that part alone.
    Unpack {
        /// The tensor.
        dst: BufferId,
        /// The line.
        src: BufferId,
        /// Cut dimension.
        dim: u32,
        /// Parts.
        parts: u64,
        /// How it is cut.
        rule: CutRule,
        /// Which part `dst` is.
        at: Option<Expr>,
    },
    /// Dimension i of `dst` is dimension `perm[i]` of `src`.
    Transpose {
        /// Written.
        dst: BufferId,
        /// Read.
        src: BufferId,
        /// A permutation of the dimensions.
        perm: Vec<u32>,
    },
    /// Row `id - first` of a table for each id; zeros where the table has no such row.
    Embedding {
        /// Written: the sizes of `ids`, then those of a row.
        dst: BufferId,
        /// Read: rows along dimension 0.
        table: BufferId,
        /// Read: i32 or i64.
        ids: BufferId,
        /// The number of the first row: an expression in mesh coordinates.
        first: Expr,
    },
    /// Rows, each with its matrix.
    Grouped {
        /// Written: `[rows, F]`.
        dst: BufferId,
        /// Read: `[rows, D]`.
        x: BufferId,
        /// Read: `[matrices, D, F]`.
        w: BufferId,
        /// Which matrix each row meets, of all ranks.
        runs: Runs,
        /// The first row and the first matrix of each of a list of places.
        places: Vec<(u64, u64)>,
        /// Which place this rank's is: an expression in mesh coordinates.
        at: Expr,
    },
    /// A kernel over tiles.
    Tiles {
        /// Which.
        kernel: Arc<TileKernel>,
        /// Written, all of it.
        dst: BufferId,
        /// Read.
        args: Vec<BufferId>,
    },
    /// Elements by their place alone.
    Fill {
        /// Written.
        dst: BufferId,
        /// What they are.
        with: Filling,
    },
    /// Part `index` of `of` along a dimension.
    Slice {
        /// Written.
        dst: BufferId,
        /// Read.
        src: BufferId,
        /// Cut dimension.
        dim: u32,
        /// Which part: an expression in mesh coordinates.
        index: Expr,
        /// Parts.
        of: u64,
        /// How it is cut.
        rule: CutRule,
    },
}

impl LocalOp {
    /// The buffer it writes.
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

    /// The buffers it reads.
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

    /// Which part of a line or of a tensor this rank's is: its expression in mesh coordinates.
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
