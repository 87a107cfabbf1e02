//! Local operations: operations on whole local buffers, which a rank performs between collectives.
//!
//! The module owns the word of each operation, its parts, what it does with elements
//! ([`LocalOp::kind`]), and the block of a line that it packs or unpacks. The engines define what
//! the operations compute, and [`crate::text`] how they are written.

use crate::expr::Expr;
use crate::grouped::Runs;
use crate::optable::Level::Schedule;
use crate::optable::word;
use crate::refs::{BufferId, RefUse};
use crate::scalar::ScalarFn;
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
    /// Part `index` of `of` parts along a dimension. The destination may lack the dimension if the
    /// part has one element.
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

/// What a local operation does with elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalKind {
    /// It only moves elements.
    Moves,
    /// It computes elements from elements, or makes them.
    Computes,
}

/// Block of a line that a `Pack` or `Unpack` with `at` moves.
#[derive(Clone, Copy, Debug)]
pub struct LineBlock<'a> {
    /// The line.
    pub line: BufferId,
    /// The tensor that is one part of the line.
    pub tensor: BufferId,
    /// Dimension that is cut.
    pub dim: u32,
    /// Number of parts.
    pub parts: u64,
    /// Rule by which the dimension is cut.
    pub rule: &'a CutRule,
    /// Number of the part.
    pub at: &'a Expr,
}

macro_rules! parts {
    ($(#[$doc:meta])* $part:ident, $(#[$about:meta])* $method:ident, [$($by:tt)*]) => {
        $(#[$doc])*
        pub enum $part<'a> {
            /// An elementwise function.
            Function($($by)* ScalarFn),
            /// A kernel over tiles.
            Tiles($($by)* Arc<TileKernel>),
            /// Combiner of a reduction.
            Combiner($($by)* ReduceOp),
            /// Count that a mean divides by; `None` if the operation is not a mean.
            Mean($($by)* Option<u64>),
            /// A buffer, and how the operation uses it.
            Buffer(RefUse, $($by)* BufferId),
            /// Buffers that are read.
            Buffers($($by)* Vec<BufferId>),
            /// Number of a dimension.
            Dimension($($by)* u32),
            /// Number of parts.
            Count($($by)* u64),
            /// Rule of a cut.
            Rule($($by)* CutRule),
            /// Expression in mesh coordinates that selects this rank's part.
            Part($($by)* Expr),
            /// Permutation of dimensions.
            Permutation($($by)* Vec<u32>),
            /// Runs of rows with their matrices.
            Runs($($by)* Runs),
            /// First row and first matrix of each place.
            Places($($by)* Vec<(u64, u64)>),
            /// Number that elements are filled with.
            Number($($by)* f64),
        }

        impl LocalOp {
            $(#[$about])*
            pub fn $method<'a>(self: $($by)* Self, f: &mut impl FnMut($part<'a>)) {
                use $part as P;
                match self {
                    LocalOp::Compute { func, dst, args } => {
                        f(P::Buffer(RefUse::Write, dst));
                        f(P::Function(func));
                        f(P::Buffers(args));
                    }
                    LocalOp::Matmul { dst, a, b } => {
                        f(P::Buffer(RefUse::Write, dst));
                        f(P::Buffer(RefUse::Read, a));
                        f(P::Buffer(RefUse::Read, b));
                    }
                    LocalOp::ReduceDim { op, mean, dst, src, dim } => {
                        f(P::Combiner(op));
                        f(P::Mean(mean));
                        f(P::Buffer(RefUse::Write, dst));
                        f(P::Buffer(RefUse::Read, src));
                        f(P::Dimension(dim));
                    }
                    LocalOp::Cast { dst, src } | LocalOp::Copy { dst, src } => {
                        f(P::Buffer(RefUse::Write, dst));
                        f(P::Buffer(RefUse::Read, src));
                    }
                    LocalOp::Pack { dst, src, dim, parts, rule, at }
                    | LocalOp::Unpack { dst, src, dim, parts, rule, at } => {
                        f(P::Buffer(RefUse::Write, dst));
                        f(P::Buffer(RefUse::Read, src));
                        f(P::Dimension(dim));
                        f(P::Count(parts));
                        f(P::Rule(rule));
                        if let Some(e) = at {
                            f(P::Part(e));
                        }
                    }
                    LocalOp::Transpose { dst, src, perm } => {
                        f(P::Buffer(RefUse::Write, dst));
                        f(P::Buffer(RefUse::Read, src));
                        f(P::Permutation(perm));
                    }
                    LocalOp::Embedding { dst, table, ids, first } => {
                        f(P::Buffer(RefUse::Write, dst));
                        f(P::Buffer(RefUse::Read, table));
                        f(P::Buffer(RefUse::Read, ids));
                        f(P::Part(first));
                    }
                    LocalOp::Grouped { dst, x, w, runs, places, at } => {
                        f(P::Buffer(RefUse::Write, dst));
                        f(P::Buffer(RefUse::Read, x));
                        f(P::Buffer(RefUse::Read, w));
                        f(P::Runs(runs));
                        f(P::Places(places));
                        f(P::Part(at));
                    }
                    LocalOp::Tiles { kernel, dst, args } => {
                        f(P::Tiles(kernel));
                        f(P::Buffer(RefUse::Write, dst));
                        f(P::Buffers(args));
                    }
                    LocalOp::Fill { dst, with } => {
                        f(P::Buffer(RefUse::Write, dst));
                        match with {
                            Filling::Number(n) => f(P::Number(n)),
                            Filling::Place { dim, first } => {
                                f(P::Dimension(dim));
                                f(P::Part(first));
                            }
                        }
                    }
                    LocalOp::Slice { dst, src, dim, index, of, rule } => {
                        f(P::Buffer(RefUse::Write, dst));
                        f(P::Buffer(RefUse::Read, src));
                        f(P::Dimension(dim));
                        f(P::Part(index));
                        f(P::Count(of));
                        f(P::Rule(rule));
                    }
                }
            }
        }
    };
}

parts!(
    /// A part of a local operation, for reading.
    LocalOpPart,
    /// Calls `f` with every part of the operation, in the order of the definition.
    parts, [&'a]
);
parts!(
    /// A part of a local operation, for changing.
    LocalOpPartMut,
    /// Calls `f` with every part of the operation, in the order of the definition, to change it.
    parts_mut, [&'a mut]
);

impl LocalOp {
    /// Row of an operation: its word, and what it does with elements.
    fn row(&self) -> (&'static str, LocalKind) {
        use LocalKind::{Computes, Moves};
        match self {
            LocalOp::Compute { .. } => (const { word(Schedule, "map") }, Computes),
            LocalOp::Matmul { .. } => (const { word(Schedule, "matmul") }, Computes),
            LocalOp::ReduceDim { .. } => (const { word(Schedule, "reduce_dim") }, Computes),
            LocalOp::Cast { .. } => (const { word(Schedule, "cast") }, Computes),
            LocalOp::Copy { .. } => (const { word(Schedule, "copy") }, Moves),
            LocalOp::Pack { .. } => (const { word(Schedule, "pack") }, Moves),
            LocalOp::Unpack { .. } => (const { word(Schedule, "unpack") }, Moves),
            LocalOp::Transpose { .. } => (const { word(Schedule, "transpose") }, Moves),
            LocalOp::Embedding { .. } => (const { word(Schedule, "embedding") }, Computes),
            LocalOp::Grouped { .. } => (const { word(Schedule, "grouped") }, Computes),
            LocalOp::Tiles { .. } => (const { word(Schedule, "tiles") }, Computes),
            LocalOp::Fill { .. } => (const { word(Schedule, "fill") }, Computes),
            LocalOp::Slice { .. } => (const { word(Schedule, "keep_part") }, Moves),
        }
    }

    /// Returns the first word of the operation, as texts, reports and traces print it.
    pub fn word(&self) -> &'static str {
        self.row().0
    }

    /// Returns what the operation does with elements.
    pub fn kind(&self) -> LocalKind {
        self.row().1
    }

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

    /// Returns the buffers that the operation reads, in the order of the operands.
    pub fn srcs(&self) -> Vec<BufferId> {
        let mut out = vec![];
        self.parts(&mut |part| match part {
            LocalOpPart::Buffer(RefUse::Read | RefUse::Update, b) => out.push(*b),
            LocalOpPart::Buffers(list) => out.extend(list),
            LocalOpPart::Buffer(RefUse::Write, _)
            | LocalOpPart::Function(_)
            | LocalOpPart::Tiles(_)
            | LocalOpPart::Combiner(_)
            | LocalOpPart::Mean(_)
            | LocalOpPart::Dimension(_)
            | LocalOpPart::Count(_)
            | LocalOpPart::Rule(_)
            | LocalOpPart::Part(_)
            | LocalOpPart::Permutation(_)
            | LocalOpPart::Runs(_)
            | LocalOpPart::Places(_)
            | LocalOpPart::Number(_) => {}
        });
        out
    }

    /// Returns the expression in mesh coordinates that selects this rank's part of a line or
    /// tensor, if the operation has one.
    pub fn part(&self) -> Option<&Expr> {
        let mut out = None;
        self.parts(&mut |part| {
            if let LocalOpPart::Part(e) = part {
                out = Some(e);
            }
        });
        out
    }

    /// Returns the buffers of which every element of the result needs an element. The flag states
    /// whether each element of the buffer is needed by some element of the result.
    pub fn needed(&self) -> Vec<(BufferId, bool)> {
        let all = |used: bool| self.srcs().into_iter().map(|b| (b, used)).collect();
        match self {
            LocalOp::Compute { .. }
            | LocalOp::Matmul { .. }
            | LocalOp::ReduceDim { .. }
            | LocalOp::Cast { .. }
            | LocalOp::Copy { .. }
            | LocalOp::Transpose { .. }
            | LocalOp::Pack { .. }
            | LocalOp::Unpack { at: None, .. } => all(true),
            LocalOp::Unpack { at: Some(_), .. } | LocalOp::Slice { .. } => all(false),
            // The table may lack the row, and a row may have no matrix.
            LocalOp::Embedding { ids, .. } => vec![(*ids, true)],
            LocalOp::Grouped { x, .. } => vec![(*x, false)],
            // Which elements of its operands a kernel over tiles uses is not analysed.
            LocalOp::Tiles { .. } => all(false),
            LocalOp::Fill { .. } => vec![],
        }
    }

    /// Returns the block of a line that the operation writes or reads instead of a whole buffer.
    pub fn line_block(&self) -> Option<LineBlock<'_>> {
        match self {
            LocalOp::Pack { dst: line, src: tensor, dim, parts, rule, at }
            | LocalOp::Unpack { dst: tensor, src: line, dim, parts, rule, at } => {
                let (line, tensor, dim, parts) = (*line, *tensor, *dim, *parts);
                at.as_ref().map(|at| LineBlock { line, tensor, dim, parts, rule, at })
            }
            LocalOp::Compute { .. }
            | LocalOp::Matmul { .. }
            | LocalOp::ReduceDim { .. }
            | LocalOp::Cast { .. }
            | LocalOp::Copy { .. }
            | LocalOp::Transpose { .. }
            | LocalOp::Embedding { .. }
            | LocalOp::Grouped { .. }
            | LocalOp::Tiles { .. }
            | LocalOp::Fill { .. }
            | LocalOp::Slice { .. } => None,
        }
    }
}
