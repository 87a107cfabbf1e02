//! Matmuls on several matrix cores: the task of a matmul, and the part of its result that a core
//! computes.
//!
//! The number of a core has a digit for each dimension that is cut. All cores run one text.

use super::address::{product, sub};
use super::shares::{Extent, divide};
use super::state::Lower;
use crate::tile::{CORE, Core, LINE, Object, Stmt};
use kbc_diag::Span;
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::{BufferId, LocalOp, SOp, SStmt};
use std::sync::Arc;

/// A part of a dimension, for this core: the first element, one past the last one, and the number
/// of elements.
pub(super) struct Part {
    pub first: Expr,
    pub end: Expr,
    pub size: Expr,
}

impl Lower<'_, '_> {
    /// Begins the task of a statement that is for matrix cores. A matmul for several cores has a
    /// task of its own, because no core waits for what another one computes; consecutive matmuls
    /// for one core share a task.
    pub(super) fn enter_matmul(&mut self, stmt: &SStmt) {
        let cores = match stmt {
            SStmt::Op(SOp::Local(op), span) => self.share(op, *span),
            _ => 1,
        };
        if cores > 1 || self.task_cores > 1 {
            self.leave();
        }
        self.enter(Core::Matrix);
        self.task_cores = cores;
    }

    /// Returns the number of cores of a matmul, after deciding how it is divided if this is not
    /// known yet, or is known for a result of other dimensions.
    fn share(&mut self, op: &LocalOp, span: Span) -> u32 {
        let dst = op.dst();
        let most = u64::from(self.device.limits().matrix_cores);
        let extents = self.extents(op, span).unwrap_or_default();
        if self.shares.parts.get(&dst).is_none_or(|parts| parts.len() != extents.len()) {
            self.shares.parts.insert(dst, divide(&extents, most));
        }
        self.shares.cores(dst)
    }

    /// Returns the dimensions of a matmul's result, each with its largest size on a rank; `None` if
    /// a size is not known.
    fn extents(&self, op: &LocalOp, span: Span) -> Option<Vec<Extent>> {
        let most = |sizes: &dyn Fn(u64) -> Option<u64>| -> Option<u64> {
            let all: Option<Vec<u64>> = (0..self.program.ranks()).map(sizes).collect();
            all?.into_iter().max()
        };
        let dim = |e: &Expr| {
            let on = |rank: u64| u64::try_from(self.expr_on(e, &Expr::Int(rank as i64)).as_int()?).ok();
            most(&on)
        };
        let dims = |b: BufferId| &self.schedule.buffer(b).dims;
        let whole = |size: u64| Extent { size, unit: 1, parts: size };
        let (dst, lead, rows, cols) = match op {
            LocalOp::Matmul { dst, a, b } => {
                let (dd, da, db) = (dims(*dst), dims(*a), dims(*b));
                if da.len() < 2 || db.len() < 2 || dd.len() < 2 {
                    return None;
                }
                // As in the lowering: with one matrix on the right, all rows on the left are rows
                // of one matrix.
                let flat = db.len() == 2;
                let rows = if flat { product(&da[..da.len() - 1]) } else { da[da.len() - 2].clone() };
                let lead = if flat { &[][..] } else { &dd[..dd.len() - 2] };
                let lead = lead.iter().map(|e| dim(e).map(whole)).collect::<Option<Vec<_>>>()?;
                (*dst, lead, dim(&rows)?, dim(&db[db.len() - 1])?)
            }
            LocalOp::Grouped { dst, x, w, .. } => {
                let runs = self.runs(op, *x, span).ok()?;
                let number = runs.iter().map(Vec::len).max()? as u64;
                let rows = runs.iter().flatten().map(|r| r[1]).max().unwrap_or(0);
                (*dst, vec![whole(number)], u64::try_from(rows).ok()?, dim(&dims(*w)[2])?)
            }
            _ => return None,
        };
        let block = self.block_of(dst);
        let units = [self.row_unit(), self.column_unit(self.storage.object(dst))];
        let cut =
            |size: u64, at: usize| Extent { size, unit: units[at], parts: size.div_ceil(block[at].into()) };
        Some(lead.into_iter().chain([cut(rows, 0), cut(cols, 1)]).collect())
    }

    /// Returns the number of which the first rows of parts are multiples: blocks are whole boxes.
    fn row_unit(&self) -> u64 {
        u64::from(self.device.limits().box_side.max(1))
    }

    /// Returns the number of which the first columns of parts are multiples: whole boxes that begin
    /// at lines, if rows do.
    fn column_unit(&self, object: Object) -> u64 {
        let bytes = match object {
            Object::Tensor(t) => self.storage.tensors[t.0 as usize].dtype.bytes(),
            Object::Area(a) => self.storage.areas[a.0 as usize].dtype.bytes(),
        };
        self.row_unit().max(LINE / bytes)
    }

    /// Returns the most rows and columns of a block of a result.
    pub(super) fn block_of(&self, dst: BufferId) -> [u32; 2] {
        let most = self.block_sizes.block;
        let own = self.parts.and_then(|p| p.blocks.get(&dst));
        own.map_or(most, |own| [own[0].min(most[0]), own[1].min(most[1])])
    }

    /// Returns this core's part of dimension `at` of a result, of `total` elements: matrices of a
    /// batch (any number), rows or columns of a matrix.
    pub(super) fn own_part(&mut self, dst: BufferId, at: usize, total: &Expr) -> Part {
        let parts = self.shares.parts(dst);
        let (of, dims) = (parts.get(at).copied().unwrap_or(1), parts.len());
        if of == 1 {
            return Part { first: Expr::Int(0), end: total.clone(), size: total.clone() };
        }
        let (inner, outer) = (parts[at + 1..].iter().product::<u32>(), parts[..at].iter().product::<u32>());
        let (unit, hint) = match dims - at {
            1 => (self.column_unit(self.storage.object(dst)), "col"),
            2 => (self.row_unit(), "row"),
            _ => (1, "matrix"),
        };
        // Not folded, so that kernels for other sizes differ in numbers alone.
        let int = |n: u32| Expr::Int(n.into());
        let plain = |op, a: Expr, b: Expr| Expr::Bin(op, Arc::new(a), Arc::new(b));
        let mut digit = Expr::var(CORE);
        if inner > 1 {
            digit = plain(BinOp::Div, digit, int(inner));
        }
        if outer > 1 {
            digit = plain(BinOp::Mod, digit, int(of));
        }
        let digit = self.named("share", digit);
        let unit = Expr::Int(unit as i64);
        let edge = |digit: Expr| {
            let (step, most) =
                (plain(BinOp::Mul, unit.clone(), int(of)), plain(BinOp::Mul, total.clone(), digit));
            let up = plain(BinOp::Add, most, plain(BinOp::Sub, step.clone(), Expr::Int(1)));
            let lines = plain(BinOp::Div, up, step);
            plain(BinOp::Min, plain(BinOp::Mul, lines, unit.clone()), total.clone())
        };
        let first = self.named(&format!("first_{hint}"), edge(digit.clone()));
        let end = self.named(&format!("end_{hint}"), edge(plain(BinOp::Add, digit, Expr::Int(1))));
        Part { size: sub(&end, &first), first, end }
    }

    /// Names a value that is kept as it is.
    fn named(&mut self, hint: &str, value: Expr) -> Expr {
        let name = self.build.fresh(hint);
        self.build.push(Stmt::Let { name: name.clone(), value });
        Expr::var(name)
    }
}
