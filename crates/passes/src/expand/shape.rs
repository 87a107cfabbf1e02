//! Lowering of operations that move elements to local operations: transposes, copies, slices, and
//! packing into and out of a line.
//!
//! If a cut does not carry over to the result, `infer` has made the dimension whole. So ranks need
//! no data from each other here.

use super::lower::Lower;
use kbc_diag::Span;
use kbc_ir::Parts;
use kbc_ir::expr::Expr;
use kbc_ir::schedule::{BufferId, Filling, LocalOp};
use kbc_ir::shape::ShapeOp;
use kbc_ir::types::{CutRule, TensorType};

impl Lower<'_> {
    /// Returns the last local operation of a shape operation. Those before it are added to the
    /// pending operations.
    pub(super) fn shape(
        &mut self,
        s: &ShapeOp,
        (dst, ty): (BufferId, &TensorType),
        args: &[(BufferId, TensorType)],
        span: Span,
    ) -> LocalOp {
        let src = args[0].0;
        // `Parts::row` does not fail here: the list has at least one length and adds up to a size.
        let lengths = |of: &[u64]| Parts::row(of).map_or(CutRule::Even, CutRule::Lengths);
        match s {
            ShapeOp::Transpose(perm) => {
                LocalOp::Transpose { dst, src, perm: perm.iter().map(|d| *d as u32).collect() }
            }
            ShapeOp::Reshape(_) => LocalOp::Copy { dst, src },
            ShapeOp::Slice { dim, from, to } => {
                let size = args[0].1.dims[*dim].size;
                if (*from, *to) == (0, size) {
                    return LocalOp::Copy { dst, src };
                }
                let rule = lengths(&[*from, to - from, size - to]);
                LocalOp::Slice { dst, src, dim: *dim as u32, index: Expr::Int(1), of: 3, rule }
            }
            ShapeOp::Entry(index) => LocalOp::Slice {
                dst,
                src,
                dim: 0,
                index: Expr::Int(*index as i64),
                of: args[0].1.dims[0].size,
                rule: CutRule::Even,
            },
            ShapeOp::Pad { before: 0, after: 0, .. } => LocalOp::Copy { dst, src },
            ShapeOp::Pad { dim, before, after, value } => {
                let sizes = [*before, args[0].1.dims[*dim].size, *after];
                let line = self.value("padded", ty, span);
                let at = |i: i64| (*dim as u32, lengths(&sizes), Some(Expr::Int(i)));
                for (i, n) in sizes.into_iter().enumerate().filter(|(_, n)| *n > 0) {
                    let part = if i == 1 {
                        src
                    } else {
                        let mut ty = ty.clone();
                        (ty.dims[*dim].size, ty.partial) = (n, None);
                        let part = self.value("pad", &ty, span);
                        let fill = LocalOp::Fill { dst: part, with: Filling::Number(*value) };
                        self.pending.push((fill, None, span));
                        part
                    };
                    let (dim, rule, at) = at(i as i64);
                    let pack = LocalOp::Pack { dst: line, src: part, dim, parts: 3, rule, at };
                    self.pending.push((pack, None, span));
                }
                LocalOp::Unpack {
                    dst,
                    src: line,
                    dim: *dim as u32,
                    parts: 3,
                    rule: lengths(&sizes),
                    at: None,
                }
            }
            ShapeOp::Concat { .. } if args.len() == 1 => LocalOp::Copy { dst, src },
            ShapeOp::Concat { dim } => {
                let rule = lengths(&args.iter().map(|a| a.1.dims[*dim].size).collect::<Vec<_>>());
                let (along, parts) = (*dim as u32, args.len() as u64);
                let line = self.value("joined", ty, span);
                for (i, (src, _)) in args.iter().enumerate() {
                    let at = Some(Expr::Int(i as i64));
                    let pack =
                        LocalOp::Pack { dst: line, src: *src, dim: along, parts, rule: rule.clone(), at };
                    self.pending.push((pack, None, span));
                }
                LocalOp::Unpack { dst, src: line, dim: along, parts, rule, at: None }
            }
        }
    }
}
