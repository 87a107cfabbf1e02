//! Copies of rows that are apart in memory: one transfer for as many of them as a tile holds.
//!
//! Transposes, slices and parts of tensors move rows that are one after another on one side and a
//! distance apart on the other. A row may be a single element.

use super::address::{add, mul};
use super::state::Lower;
use crate::tile::{Gm, Op, Stmt, TileRows};
use kbc_ir::expr::Expr;
use kbc_ir::types::DType;

/// Rows in memory.
pub(super) struct Rows<'a> {
    /// Place of the first element of the first row.
    pub at: &'a Gm,
    /// Distance between the starts of consecutive rows.
    pub pitch: &'a Expr,
}

impl Lower<'_, '_> {
    /// Checks whether several of `count` rows of `row` elements can be in one tile.
    pub(super) fn several_rows(&self, dtype: DType, row: &Expr, count: &Expr) -> bool {
        let elements = row.as_int().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
        // Elements of one byte do not begin rows at multiples of 32 bytes.
        let aligned = dtype.bytes() > 1;
        self.chains
            && aligned
            && count.as_int().is_none_or(|n| n > 1)
            && elements.is_some_and(|n| tile_rows(n).of(self.device.limits().tile) > 1)
    }

    /// Copies `count` rows of `row` elements, for which [`Lower::several_rows`] holds.
    pub(super) fn copy_rows(
        &mut self,
        dtype: DType,
        to: &Rows<'_>,
        from: &Rows<'_>,
        row: &Expr,
        count: &Expr,
    ) {
        let elements = row.as_int().and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        let total = mul(row, count);
        let tile = self.tile(dtype, 0);
        self.build.open();
        let [pos, len, first, rows] = ["i", "m", "row", "rows"].map(|n| self.build.fresh(n));
        let at = |side: &Rows<'_>| {
            let whole = side.pitch == row;
            let by = if whole { Expr::Var(pos.clone()) } else { mul(&Expr::Var(first.clone()), side.pitch) };
            (whole, Gm { offset: add(&side.at.offset, &by), ..side.at.clone() })
        };
        let m = Expr::Var(len.clone());
        self.build.push(Stmt::Op(match at(from) {
            (true, from) => Op::Load { tile, len: m.clone(), from },
            (false, place) => Op::LoadRows { tile, len: m.clone(), from: place, pitch: from.pitch.clone() },
        }));
        self.build.push(Stmt::Op(match at(to) {
            (true, to) => Op::Store { to, tile, len: m },
            (false, place) => Op::StoreRows { to: place, pitch: to.pitch.clone(), tile, len: m },
        }));
        let body = self.build.close();
        let rows = TileRows { first, count: rows, elements };
        let step = rows.of(self.device.limits().tile) * elements;
        self.build.push(Stmt::Tiles { pos, len, total, step, twice: false, rows: Some(rows), body });
    }
}

/// Returns rows of so many elements, without names.
fn tile_rows(elements: u32) -> TileRows {
    TileRows { first: "".into(), count: "".into(), elements }
}
