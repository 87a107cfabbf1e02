//! Type rule of tile kernels: each variable of the kernel is a dimension that operands share.

use super::Typing;
use super::rules::{Operand, Outcome};
use super::site::Site;
use kbc_diag::Diagnostic;
use kbc_ir::graph::{GraphOp, OpId};
use kbc_ir::result::result_of;
use kbc_ir::tiles::TileKernel;
use kbc_ir::types::ReduceOp;

impl Typing<'_> {
    /// Types a kernel over tiles: the placements that its operands need, and its result.
    pub(super) fn tiles(
        &mut self,
        id: OpId,
        op: &GraphOp,
        kernel: &TileKernel,
        operands: &[Operand],
    ) -> Option<Outcome> {
        if operands.len() != kernel.params.len() {
            self.malformed(op, kernel.params.len(), operands.len());
            return None;
        }
        let facts = match kernel.facts() {
            Ok(facts) => facts,
            Err(fault) => {
                let d = Diagnostic::error("E581", format!("kernel {}: {}", kernel.name, fault.what));
                self.found.push(d.primary(op.span, fault.label).help(fault.help));
                return None;
            }
        };
        let known: Vec<_> = operands.iter().map(|o| (o.1.dtype, o.1.sizes())).collect();
        let sizes: Vec<&[u64]> = known.iter().map(|o| &o.1[..]).collect();
        let (made, extents) = match (result_of(&op.kind, &known), kernel.extents(&sizes, None)) {
            (Ok(made), Ok(extents)) => (made?, extents),
            (Err(why), _) | (_, Err(why)) => {
                self.shapes_differ(op, operands, &why);
                return None;
            }
        };
        let result = self.whole(op, made.0, &made.1)?;
        // Labels: first the variables, then one for each dimension that must be whole.
        let mut all = extents;
        let mut whole: Vec<usize> = facts.whole.iter().map(|v| *v as usize).collect();
        let mut labels = vec![];
        for (of, sizes) in facts.params.iter().zip(&sizes) {
            let mut mine = vec![];
            for (v, size) in of.iter().zip(*sizes) {
                mine.push(Some(match v {
                    Some(v) => *v as usize,
                    None => {
                        whole.push(all.len());
                        all.push(*size);
                        all.len() - 1
                    }
                }));
            }
            labels.push(mine);
        }
        let site = Site {
            sizes: all,
            operands: labels,
            result: facts.result.iter().map(|v| v.map(|v| v as usize)).collect(),
            whole,
            combine: ReduceOp::Sum,
        };
        self.settle(id, op, site, operands, false, result)
    }
}
