//! Lowering of `barrier` and of collectives defined by their contract.
//!
//! This module maps a rank's part to the vector or the blocks of the contract. Places that the
//! contract does not cover become zero. A barrier is a region on a line without elements, whose
//! transfers are signals only.

use super::interpret::contract_of;
use super::lower::Lower;
use crate::part_of::library_for;
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::contract_sides::{HeldPart, on, sides};
use kbc_ir::expr::Expr;
use kbc_ir::graph::{Collective, GraphOp};
use kbc_ir::schedule::*;
use kbc_ir::types::{Axis, CutRule, ReduceOp, TensorType};

impl Lower<'_> {
    /// Lowers a barrier. Its value is the value before it.
    pub(super) fn barrier(
        &mut self,
        op: &GraphOp,
        c: &Collective,
        axis: &Axis,
        (src, ty): (BufferId, &TensorType),
    ) -> Result<BufferId, Diagnostics> {
        let nothing = TensorType::replicated(ty.dtype, &[0]);
        let v = self.value(&format!("{}_v", op.name), &nothing, op.span);
        let line = Line { parts: axis.size, ..Line::vector(Expr::Int(0)) };
        self.flush();
        self.region(op, c, axis, vec![(v, line)])?;
        Ok(src)
    }

    /// Lowers a collective defined by its contract, and returns the buffer of its value.
    pub(super) fn own(
        &mut self,
        op: &GraphOp,
        c: &Collective,
        axis: &Axis,
        (src, from): (BufferId, &TensorType),
        to: &TensorType,
    ) -> Result<BufferId, Diagnostics> {
        let contract = match c.own.as_ref().and_then(|o| o.contract.clone()) {
            Some(p) => p,
            None => {
                let coll = self.lib.find_collective(op.span.file, c.name(), op.span).map_err(|d| *d)?;
                let red = c.red.unwrap_or(ReduceOp::Sum);
                let lib = library_for(self.lib, c.own.as_deref(), op.span.file);
                contract_of(&lib, lib.collective(coll), c.root, red).map_err(|d| *d)?
            }
        };
        let both = sides(&contract).map_err(|why| {
            Diagnostic::error("E208", format!("{}: {why}", c.name())).primary(op.span, "in a program")
        })?;
        let (p, dim, span) = (axis.size, c.dim.unwrap_or(0), op.span);
        let me = Expr::Var(axis.name.clone());
        let here = |e: &Expr| on(&contract, e, &me, p).simplify();
        // The input, on the ranks that contribute one.
        let first = self.line_of(
            &format!("{}_{}", op.name, contract.buffers[both.start.buffer].name),
            from,
            dim,
            &both.start.held,
            p,
            op,
        );
        let (along, parts) = (dim as u32, p);
        let even = || CutRule::Even;
        let into = match &both.start.held {
            HeldPart::Vector => LocalOp::Copy { dst: first.0, src },
            HeldPart::Blocks => {
                LocalOp::Pack { dst: first.0, src, dim: along, parts, rule: even(), at: None }
            }
            HeldPart::Block(e) => {
                LocalOp::Pack { dst: first.0, src, dim: along, parts, rule: even(), at: Some(here(e)) }
            }
        };
        let cond = both.start.cond.as_ref().map(&here);
        self.pending.push((into, cond, span));
        let mut operands = vec![first];
        if both.end.buffer != both.start.buffer {
            let name = format!("{}_{}", op.name, contract.buffers[both.end.buffer].name);
            operands.push(self.line_of(&name, to, dim, &both.end.held, p, op));
            if both.end.buffer < both.start.buffer {
                operands.reverse();
            }
        }
        let last = operands[both.end.buffer.min(operands.len() - 1)].0;
        self.flush();
        self.region(op, c, axis, operands)?;
        // The output: zero on the ranks for which the contract states nothing.
        let dst = self.value(&op.name, to, span);
        let out = match &both.end.held {
            HeldPart::Vector => LocalOp::Copy { dst, src: last },
            HeldPart::Blocks => LocalOp::Unpack { dst, src: last, dim: along, parts, rule: even(), at: None },
            HeldPart::Block(e) => {
                LocalOp::Unpack { dst, src: last, dim: along, parts, rule: even(), at: Some(here(e)) }
            }
        };
        let cond = both.end.cond.as_ref().map(&here);
        // These ranks are the same in every call, so no operation ever writes there.
        self.out.buffers[dst.0 as usize].zero = cond.is_some();
        self.pending.push((out, cond, span));
        Ok(dst)
    }

    /// Returns the buffer of an operand of the collective, with its line.
    fn line_of(
        &mut self,
        name: &str,
        ty: &TensorType,
        dim: usize,
        held: &HeldPart,
        p: u64,
        op: &GraphOp,
    ) -> (BufferId, Line) {
        let mut dims = super::sizes::local_dims(ty, &self.out.mesh);
        if let HeldPart::Block(_) = held {
            dims[dim] = dims[dim].clone() * Expr::Int(p as i64);
        }
        let b = self.buffer(name, ty, dims, BufferRole::Temp, op.span);
        let line = match held {
            HeldPart::Vector => Line::vector(self.unit(b, None)),
            _ => Line {
                parts: p,
                extent: self.out.buffer(b).dims[dim].clone(),
                unit: self.unit(b, Some(dim)),
                rule: CutRule::Even,
                row: Expr::Int(0),
            },
        };
        (b, line)
    }
}
