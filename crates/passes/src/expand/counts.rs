//! Lowering of `all_to_all` with a matrix of counts.
//!
//! A rank's rows are in the order of destinations, and the rows that it receives are in the order
//! of sources, so nothing is packed. The line of each side has the lengths of its blocks in a table
//! with one row per rank.

use super::lower::Lower;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::Parts;
use kbc_ir::expr::Expr;
use kbc_ir::graph::{Collective, GraphOp};
use kbc_ir::schedule::*;
use kbc_ir::types::{Axis, CutRule, TensorType};

impl Lower<'_> {
    /// Lowers an `all_to_all` with counts, and returns the buffer of its value. `lines` are the
    /// types of the data on which the region works, before and after.
    pub(super) fn counted(
        &mut self,
        op: &GraphOp,
        c: &Collective,
        (axis, me): (&Axis, Expr),
        src: BufferId,
        lines: (&TensorType, &TensorType),
        to: &TensorType,
    ) -> Result<BufferId, Diagnostics> {
        let tables = c.counts.clone().and_then(|m| Some((m.transposed()?, m)));
        let Some((received, sent)) = tables else {
            return Err(Diagnostic::error("E217", "a matrix of counts must have rows and columns")
                .primary(op.span, "needed by this all_to_all")
                .into());
        };
        let s = self.value(&format!("{}_src", op.name), lines.0, op.span);
        let d = self.value(&format!("{}_dst", op.name), lines.1, op.span);
        self.pending.push((LocalOp::Copy { dst: s, src }, None, op.span));
        let line = |l: &Self, b: BufferId, table: Parts| Line {
            parts: axis.size,
            extent: l.out.buffer(b).dims[0].clone(),
            unit: l.unit(b, Some(0)),
            row: if table.rows() == 1 { Expr::Int(0) } else { me.clone() },
            rule: CutRule::Lengths(table),
        };
        let operands = vec![(s, line(self, s, sent)), (d, line(self, d, received))];
        self.flush();
        self.region(op, c, axis, operands)?;
        let dst = self.value(&op.name, to, op.span);
        self.pending.push((LocalOp::Copy { dst, src: d }, None, op.span));
        Ok(dst)
    }
}
