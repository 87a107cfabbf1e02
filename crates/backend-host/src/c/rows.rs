//! Loops whose tiles hold rows: the names of such a loop, and transfers of rows.

use super::printer::{Printer, R, RowLoop};
use crate::refused::no_form;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_tiles::tile::{Gm, Op, TileId, TileRows};

impl Printer<'_> {
    /// Prints the names of a loop whose tiles hold rows, at the beginning of its body. `len` is the
    /// length of a tile, `i` and `m` are its first element and its length in C.
    pub(super) fn row_names(&mut self, rows: &TileRows, (len, i, m): (&Name, &str, &str), depth: usize) {
        let (first, count) = (self.scope.declare(&rows.first), self.scope.declare(&rows.count));
        let extent = self.scope.fresh(&format!("{len}_extent"));
        let (elements, pitch) = (rows.elements, rows.pitch());
        self.line(depth, &format!("const int64_t {first} = {i} / {elements}, {count} = {m} / {elements};"));
        self.line(depth, &format!("const int64_t {extent} = {count} * {pitch};"));
        self.line(depth, &format!("(void){first};"));
        self.line(depth, &format!("(void){extent};"));
        self.row_loop = Some(RowLoop { len: len.clone(), count, extent, elements, pitch });
    }

    /// Returns the loop around this place whose tiles hold rows, if this is the length of its
    /// tiles.
    pub(super) fn rows_at(&self, len: &Expr) -> Option<&RowLoop> {
        self.row_loop.as_ref().filter(|l| matches!(len, Expr::Var(n) if *n == l.len))
    }

    /// Prints the length of an operation on elements, wherever rows are.
    pub(super) fn extent(&self, len: &Expr) -> String {
        self.rows_at(len).map_or_else(|| self.expr(len, 0), |l| l.extent.clone())
    }

    /// Returns the statement of a transfer of rows.
    pub(super) fn row_transfer(&self, op: &Op) -> R<String> {
        // Rows in memory: one after another, or a distance apart.
        let (tile, len, place, pitch, stores): (&TileId, &Expr, &Gm, Option<&Expr>, bool) = match op {
            Op::Load { tile, len, from } => (tile, len, from, None, false),
            Op::Store { to, tile, len } => (tile, len, to, None, true),
            Op::LoadRows { tile, len, from, pitch } => (tile, len, from, Some(pitch), false),
            Op::StoreRows { to, pitch, tile, len } => (tile, len, to, Some(pitch), true),
            Op::Spread { dst, src, len } => {
                let l = self.rows_at(len).ok_or_else(|| no_form(op))?;
                let (to, from) = (self.tile(*dst), self.tile(*src));
                let RowLoop { count, elements, pitch, .. } = l;
                return Ok(format!(
                    "kbc_copy_rows({to}, {pitch}, {from}, 0, {count}, {elements}, sizeof *{to});"
                ));
            }
            _ => return Err(no_form(op)),
        };
        let l = self.rows_at(len).filter(|_| place.peer.is_none()).ok_or_else(|| no_form(op))?;
        let RowLoop { count, elements, pitch: own, .. } = l;
        let apart = pitch.map_or_else(|| elements.to_string(), |p| self.expr(p, 0));
        let (tile, place) = (self.tile(*tile), self.place(place));
        let (to, from) = (format!("{tile}, {own}"), format!("{place}, {apart}"));
        let (to, from) = if stores { (from, to) } else { (to, from) };
        Ok(format!("kbc_copy_rows({to}, {from}, {count}, {elements}, sizeof *{tile});"))
    }
}
