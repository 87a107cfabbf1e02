//! Rows of a table by indices that are in memory.
//!
//! The indices are loaded into a tile like other data, and the scalar unit reads them there. So it
//! reads no cache line that would have to be invalidated first
//! (`docs/adr/052-rows-tiles-pieces.md`). A row that the table does not have is zeros: every tile
//! is filled with zeros before its row is loaded, and the load is omitted if there is no such row.

use super::address::{add, mul, product};
use super::errors::refuse;
use super::state::Lower;
use crate::tile::{Gm, Op, Stmt};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::Expr;
use kbc_ir::schedule::BufferId;
use kbc_ir::types::DType;

impl Lower<'_, '_> {
    /// Lowers `dst[i] = table[ids[i] - first]`, with zeros if there is no such row.
    pub(super) fn embedding(
        &mut self,
        dst: BufferId,
        [table, ids]: [BufferId; 2],
        first: &Expr,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let (dtype, number) = (self.schedule.buffer(table).dtype, self.schedule.buffer(ids).dtype);
        if dtype == DType::I64 {
            return Err(refuse(
                span,
                "an embedding in a table of i64",
                "64-bit elements cannot be filled with zeros: use i32",
            ));
        }
        let sizes = self.dims(table);
        let row = self.build.name_it("row", &product(&sizes[1..]));
        let total = product(&self.dims(ids));
        let first = self.expr(first);
        let first = self.build.name_it("first", &first);
        let (to, from, numbers) = (self.whole(dst), self.whole(table), self.whole(ids));
        let chosen = self.tile(number, 0);
        let tile = self.tile(dtype, usize::from(dtype == number));
        let within = |g: &Gm, by: &Expr| Gm { offset: add(&g.offset, by), ..g.clone() };
        self.tiles_loop(&total, |this, pos, len| {
            this.load(chosen, len, &numbers, pos);
            this.rows("at", len, |this, i| {
                this.build.push(Stmt::Op(Op::Choose { ids: chosen, index: i.clone(), first: first.clone() }));
                let to = within(&to, &mul(&add(pos, i), &row));
                this.tiles_loop(&row, |this, p, n| {
                    let zeros = Op::Index { dst: tile, value: Expr::Int(0), len: n.clone() };
                    let load = Op::LoadRow {
                        tile,
                        len: n.clone(),
                        from: within(&from, p),
                        pitch: row.clone(),
                        rows: sizes[0].clone(),
                    };
                    this.build.extend(vec![Stmt::Op(zeros), Stmt::Op(load)]);
                    this.store(&to, p, tile, n);
                });
            });
        });
        Ok(())
    }
}
