//! C++ printer for loops whose tiles hold rows: the names of such a loop, and the objects for rows.

use super::body::{Body, Lines};
use super::views::{RowLoop, TileObject, View};
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::interval::Interval;
use kbc_ir::name::Name;
use kbc_tiles::tile::{Stmt, TileId, TileRows};

type R<T> = Result<T, Diagnostic>;

impl Body<'_> {
    /// Prints the body of a loop whose tiles hold rows, behind the names that it uses of: the
    /// number of the first row, the number of rows, and the elements from the first to the last
    /// row.
    pub(super) fn rows_of_tile(
        &mut self,
        rows: &TileRows,
        (i, len, m): (&str, &Name, &str),
        step: u32,
        body: &[Stmt],
    ) -> R<Lines> {
        let most = step / rows.elements.max(1);
        let first = self.scope.declare(&rows.first, Interval::from(0));
        let count = self.scope.declare(&rows.count, Interval::of(1, most.into()));
        let pitch = rows.pitch();
        let extent = match pitch == rows.elements {
            true => m.to_owned(),
            false => self.scope.fresh(&format!("{len}_extent")),
        };
        self.row_loop = Some(RowLoop {
            len: len.clone(),
            extent: extent.clone(),
            count: count.clone(),
            rows: rows.clone(),
            most,
        });
        let inner = self.statements(body)?;
        let uses = |name: &str| inner.iter().any(|(_, text)| mentions(text, name));
        let mut out = vec![];
        if uses(&first) {
            out.push((0, format!("const int64_t {first} = {i} / {};", rows.elements)));
        }
        if uses(&count) || extent != m && uses(&extent) {
            out.push((0, format!("const int64_t {count} = {m} / {};", rows.elements)));
        }
        if extent != m && uses(&extent) {
            out.push((0, format!("const int64_t {extent} = {count} * {pitch};")));
        }
        out.extend(inner);
        Ok(out)
    }

    /// Forgets the lengths of tile objects, because control flow joins here.
    pub(super) fn forget(&mut self) {
        self.lengths.clear();
        self.row_counts.clear();
    }

    /// Returns the loop around this place whose tiles hold rows, if this is the length of its
    /// tiles.
    pub(super) fn rows_at(&self, len: &Expr) -> Option<RowLoop> {
        self.row_loop.clone().filter(|l| matches!(len, Expr::Var(n) if *n == l.len))
    }

    /// Prints the length of an operation on elements, wherever rows are.
    pub(super) fn extent(&mut self, len: &Expr) -> String {
        match self.rows_at(len) {
            Some(l) => l.extent,
            None => self.expr(len),
        }
    }

    /// Returns the object of a tile for rows or for an element of each row, with the lines that set
    /// its number of rows unless it has that number already.
    pub(super) fn view(&mut self, id: TileId, view: View, count: &str) -> R<(String, Lines)> {
        self.tile_info(id)?;
        let object = TileObject { tile: id, view };
        if !self.names.views.contains_key(&object) {
            let rows = |v: &View| matches!(v, View::Rows { .. });
            let list = if rows(&view) { &self.names.rows } else { &self.names.columns };
            let alike = |o: &&TileObject| o.tile == id && rows(&o.view) == rows(&view);
            let name = match self.names.views.keys().filter(alike).count() {
                0 => list[id.0 as usize].clone(),
                n => format!("{}{}", list[id.0 as usize], n + 1),
            };
            self.names.views.insert(object, name);
        }
        self.uses.tiles.insert(object);
        let name = self.named(&object);
        if self.row_counts.get(&object).is_some_and(|c| c == count) {
            return Ok((name, vec![]));
        }
        self.row_counts.insert(object, count.to_owned());
        let set = vec![(0, format!("{name}.SetValidRow({count});"))];
        Ok((name, set))
    }
}

/// Checks whether a text has a name as a word.
fn mentions(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(word) && !text[at + name.len()..].starts_with(word))
}
