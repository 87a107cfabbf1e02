//! Local operations: which of them only move a run of elements, and which compute.
//!
//! A move of one contiguous run keeps the trees of its elements. Every other operation computes:
//! its elements are leaves of a new source, which is identified by the operation and the contents
//! of its operands. A move that changes the order of elements counts as a computation, because the
//! number of its runs would grow with the sizes of the tensors.

use kbc_backend_sim::effect::mem_dtype;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::Expr;
use kbc_ir::local_op::LocalOpPartMut;
use kbc_ir::schedule::{BufferId, Filling, LocalOp};
use kbc_ir::types::DType;
use kbc_ir::walk::{Mem, Program};
use kbc_numerics::local::{block, outer_inner};
use std::collections::HashMap;

/// What a local operation does with elements on a rank.
pub(crate) enum LocalMeaning {
    /// It copies as many elements as it writes, from `skip` elements after the start of its
    /// operand.
    Moves {
        /// Elements that are left out.
        skip: u64,
    },
    /// It writes one number everywhere.
    Number(f64),
    /// It computes new elements.
    Computes(Computation),
}

/// A computation without its buffers: everything but the operands on which its bits depend.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Computation {
    /// The operation, with number 0 for each buffer and 0 for the part of the rank.
    op: LocalOp,
    /// The part of the rank.
    part: Option<i64>,
    /// Local sizes: of the destination, then of the operands.
    sizes: Vec<Vec<u64>>,
    /// Types: of the destination, then of the operands.
    dtypes: Vec<DType>,
}

/// All computations of a schedule.
#[derive(Default)]
pub(crate) struct Definitions {
    list: Vec<Computation>,
    by_sizes: HashMap<(&'static str, Vec<Vec<u64>>), Vec<u32>>,
}

impl Definitions {
    /// Returns the number of a computation.
    pub fn number(&mut self, what: Computation) -> u32 {
        let alike = self.by_sizes.entry((what.op.word(), what.sizes.clone())).or_default();
        if let Some(i) = alike.iter().find(|i| self.list[**i as usize] == what) {
            return *i;
        }
        let i = self.list.len() as u32;
        alike.push(i);
        self.list.push(what);
        i
    }
}

/// Returns what an operation does on a rank.
///
/// # Errors
/// Returns E302 for an expression without a value and E363 for operands that do not fit.
pub(crate) fn meaning(
    program: &Program<'_>,
    rank: u64,
    op: &LocalOp,
    span: Span,
) -> Result<LocalMeaning, Diagnostic> {
    let show = |r| program.schedule.mesh.show(r);
    let dims = |b: BufferId| program.dims(b, rank).map_err(|f| f.diagnostic(show));
    let refused = |r: kbc_numerics::numbers::Refusal| {
        Diagnostic::error("E363", r.text).primary(span, "in this operation").help(r.help)
    };
    let value = |e: &Expr| {
        let found = program.local_value(e, rank);
        found.map_err(|e| Diagnostic::error("E302", e.to_string()).primary(span, "in this operation"))
    };
    let outer = |shape: &[u64], dim: u32| outer_inner(shape, dim).map_err(refused);
    let straight = |yes: bool| Ok::<_, Diagnostic>(yes.then_some(0));
    let skip = match op {
        LocalOp::Copy { .. } => Some(0),
        LocalOp::Pack { at: Some(_), .. } | LocalOp::Unpack { at: Some(_), .. } => Some(0),
        LocalOp::Pack { src, dim, parts, at: None, .. } => {
            straight(*parts == 1 || outer(&dims(*src)?, *dim)?.0 <= 1)?
        }
        LocalOp::Unpack { dst, dim, parts, at: None, .. } => {
            straight(*parts == 1 || outer(&dims(*dst)?, *dim)?.0 <= 1)?
        }
        LocalOp::Transpose { src, perm, .. } => {
            let sizes = dims(*src)?;
            let long = |d: &&u32| sizes.get(**d as usize).is_some_and(|n| *n > 1);
            let moved: Vec<&u32> = perm.iter().filter(long).collect();
            straight(moved.is_sorted())?
        }
        LocalOp::Slice { src, dim, index, of, rule, .. } => {
            let (before, size, inner) = outer(&dims(*src)?, *dim)?;
            let (start, _) = block(size, 1, *of, rule, value(index)?).map_err(refused)?;
            (before <= 1).then_some(start * inner)
        }
        LocalOp::Fill { with: Filling::Number(n), .. } => return Ok(LocalMeaning::Number(*n)),
        LocalOp::Fill { with: Filling::Place { .. }, .. }
        | LocalOp::Compute { .. }
        | LocalOp::Matmul { .. }
        | LocalOp::ReduceDim { .. }
        | LocalOp::Cast { .. }
        | LocalOp::Embedding { .. }
        | LocalOp::Grouped { .. }
        | LocalOp::Tiles { .. } => None,
    };
    if let Some(skip) = skip {
        return Ok(LocalMeaning::Moves { skip });
    }
    let mut bare = op.clone();
    bare.parts_mut(&mut |part| match part {
        LocalOpPartMut::Buffer(_, b) => *b = BufferId(0),
        LocalOpPartMut::Buffers(list) => list.fill(BufferId(0)),
        LocalOpPartMut::Part(e) => *e = Expr::Int(0),
        LocalOpPartMut::Function(_)
        | LocalOpPartMut::Tiles(_)
        | LocalOpPartMut::Combiner(_)
        | LocalOpPartMut::Mean(_)
        | LocalOpPartMut::Dimension(_)
        | LocalOpPartMut::Count(_)
        | LocalOpPartMut::Rule(_)
        | LocalOpPartMut::Permutation(_)
        | LocalOpPartMut::Runs(_)
        | LocalOpPartMut::Places(_)
        | LocalOpPartMut::Number(_) => {}
    });
    let used: Vec<BufferId> = [op.dst()].into_iter().chain(op.srcs()).collect();
    Ok(LocalMeaning::Computes(Computation {
        op: bare,
        part: op.part().map(value).transpose()?,
        sizes: used.iter().map(|b| dims(*b)).collect::<Result<_, _>>()?,
        dtypes: used.iter().map(|b| mem_dtype(program.schedule, Mem::Buffer(b.0))).collect(),
    }))
}
