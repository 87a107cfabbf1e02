//! C++ printer for operations on rows and on blocks of matrices.

use super::body::{Body, Lines};
use super::errors::no_instruction;
use super::expr::{ADD, MUL};
use super::helpers::Helper;
use super::numbers::ctype;
use super::views::{RowLoop, View};
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::types::DType;
use kbc_tiles::tile::*;

type R<T> = Result<T, Diagnostic>;

impl Body<'_> {
    /// Checks whether an operation moves rows between which there is room in the core.
    pub(super) fn moves_rows(&self, op: &Op) -> bool {
        let (Op::Load { len, .. } | Op::Store { len, .. }) = op else { return false };
        self.rows_at(len).is_some_and(|l| l.rows.pitch() != l.rows.elements)
    }

    /// Prints an operation on rows: transfer, reduction, expansion, index, or a row chosen by
    /// index.
    pub(super) fn row(&mut self, op: &Op, out: &mut Lines) -> R<()> {
        match op {
            Op::Load { tile, len, from } => {
                let (Some(l), from) = (self.rows_at(len), self.gm(from)?) else { return Ok(()) };
                let (name, set) = self.view(*tile, l.view(), &l.count)?;
                self.used.insert(Helper::LoadBlock);
                out.extend(set);
                let n = l.rows.elements;
                out.push((0, format!("LoadBlock({name}, {from}, {}, {n}, {n});", l.count)));
            }
            Op::Store { to, tile, len } => {
                let (Some(l), to) = (self.rows_at(len), self.gm(to)?) else { return Ok(()) };
                let (name, set) = self.view(*tile, l.view(), &l.count)?;
                self.used.insert(Helper::StoreBlock);
                out.extend(set);
                let n = l.rows.elements;
                out.push((0, format!("StoreBlock({to}, {name}, {}, {n}, {n});", l.count)));
            }
            Op::Reduce { op: which, dst, src, work, len } if self.rows_at(len).is_some() => {
                let Some(l) = self.rows_at(len) else { return Ok(()) };
                let views = [(*dst, l.column()), (*src, l.view()), (*work, l.view())];
                let [d, s, w] = self.views(views, &l.count, out)?;
                let mut name = combiner(*which)?;
                if *which == VecOp::Add && l.column() != (View::Column { most: l.most }) {
                    self.used.insert(Helper::RowSum);
                    name = Helper::RowSum.name();
                }
                out.push((0, format!("{name}({d}, {s}, {w});")));
            }
            Op::Expand { dst, src, len } if self.rows_at(len).is_some() => {
                let Some(l) = self.rows_at(len) else { return Ok(()) };
                let [d, s] = self.views([(*dst, l.view()), (*src, l.column())], &l.count, out)?;
                out.push((0, format!("TROWEXPAND({d}, {s});")));
            }
            Op::LoadRows { tile, len, from, pitch } => {
                let (l, from, pitch) = (self.on_rows(len)?, self.gm(from)?, self.expr(pitch));
                let [name] = self.views([(*tile, l.view())], &l.count, out)?;
                self.used.insert(Helper::LoadBlock);
                let n = l.rows.elements;
                out.push((0, format!("LoadBlock({name}, {from}, {}, {n}, {pitch});", l.count)));
            }
            Op::StoreRows { to, pitch, tile, len } => {
                let (l, to, pitch) = (self.on_rows(len)?, self.gm(to)?, self.expr(pitch));
                let [name] = self.views([(*tile, l.view())], &l.count, out)?;
                self.used.insert(Helper::StoreBlock);
                let n = l.rows.elements;
                out.push((0, format!("StoreBlock({to}, {name}, {}, {n}, {pitch});", l.count)));
            }
            Op::Spread { dst, src, len } => {
                let l = self.on_rows(len)?;
                let [d] = self.views([(*dst, l.view())], &l.count, out)?;
                out.extend(self.length(*src, &l.rows.elements.to_string())?);
                let s = self.tile(*src)?;
                out.push((0, format!("TCOLEXPAND({d}, {s});")));
            }
            Op::Reduce { op: which, dst, src, work, len } => {
                let m = self.expr(len);
                for (tile, len) in [(*src, m.as_str()), (*work, m.as_str()), (*dst, "1")] {
                    out.extend(self.length(tile, len)?);
                }
                let name = combiner(*which)?;
                let (d, s, w) = (self.tile(*dst)?, self.tile(*src)?, self.tile(*work)?);
                out.push((0, format!("{name}({d}, {s}, {w});")));
            }
            Op::Index { dst, value, len } => {
                let (m, value) = (self.extent(len), self.expr(value));
                out.extend(self.length(*dst, &m)?);
                let (d, dtype) = (self.tile(*dst)?, self.tile_info(*dst)?.dtype);
                // A 16-bit floating-point value is made from an f32.
                let half = dtype.is_float() && dtype != DType::F32;
                let value = if half { format!("static_cast<float>({value})") } else { value };
                out.push((0, format!("TEXPANDS({d}, static_cast<{}>({value}));", ctype(dtype))));
            }
            Op::Choose { ids, index, first } => {
                let (index, first) = (self.expr(index), self.expr(first));
                let (ids, row) = (self.tile(*ids)?, self.chosen());
                self.used.insert(Helper::RowAt);
                out.push((0, format!("{row} = RowAt({ids}, {index}, {first});")));
            }
            Op::LoadRow { tile, len, from, pitch, rows } => {
                let (m, from) = (self.expr(len), self.gm(from)?);
                let (pitch, rows) = (self.operand(pitch, MUL), self.operand(rows, ADD));
                out.extend(self.length(*tile, &m)?);
                let (tile, row) = (self.tile(*tile)?, self.chosen());
                self.used.insert(Helper::Load);
                out.push((0, format!("if ({row} >= 0 && {row} < {rows}) {{")));
                out.push((1, format!("Load({tile}, {from} + {row} * {pitch}, {m});")));
                out.push((0, "}".into()));
            }
            Op::Expand { dst, src, len } => {
                let m = self.expr(len);
                out.extend(self.length(*src, "1")?);
                out.extend(self.length(*dst, &m)?);
                let (d, s) = (self.tile(*dst)?, self.tile(*src)?);
                out.push((0, format!("TROWEXPAND({d}, {s});")));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the loop around this place whose tiles hold rows of this length.
    fn on_rows(&self, len: &Expr) -> R<RowLoop> {
        let none = || no_instruction("an operation on rows where tiles hold none".into());
        self.rows_at(len).ok_or_else(none)
    }

    /// Returns objects of tiles that have so many rows, after the lines that set this.
    fn views<const N: usize>(
        &mut self,
        list: [(TileId, View); N],
        count: &str,
        out: &mut Lines,
    ) -> R<[String; N]> {
        let mut names = std::array::from_fn(|_| String::new());
        for (name, (tile, view)) in names.iter_mut().zip(list) {
            let (object, set) = self.view(tile, view, count)?;
            out.extend(set);
            *name = object;
        }
        Ok(names)
    }

    /// Returns the variable with the number of the chosen row.
    fn chosen(&mut self) -> String {
        self.uses.chosen = true;
        self.names.chosen.clone()
    }

    /// Prints an operation on blocks of matrices.
    pub(super) fn block_op(&mut self, op: &Op, out: &mut Lines) -> R<()> {
        match op {
            Op::LoadBlock { tile, rows, cols, from, pitch } => {
                let (m, n, pitch) = (self.expr(rows), self.expr(cols), self.expr(pitch));
                let (set, from) = (self.block_size(*tile, &m, &n)?, self.gm(from)?);
                let name = self.tile(*tile)?;
                self.used.insert(Helper::LoadBlock);
                out.extend(set);
                out.push((0, format!("LoadBlock({name}, {from}, {m}, {n}, {pitch});")));
            }
            Op::StoreBlock { to, pitch, tile, rows, cols } => {
                let (m, n, pitch) = (self.expr(rows), self.expr(cols), self.expr(pitch));
                let (set, to) = (self.block_size(*tile, &m, &n)?, self.gm(to)?);
                let name = self.tile(*tile)?;
                self.used.insert(Helper::StoreBlock);
                out.extend(set);
                out.push((0, format!("StoreBlock({to}, {name}, {m}, {n}, {pitch});")));
            }
            Op::Move { dst, src, from: [row, col], rows, cols } => {
                let (m, n) = (self.expr(rows), self.expr(cols));
                let (row, col) = (self.expr(row), self.expr(col));
                // The source has the size with which it was loaded.
                out.extend(self.block_size(*dst, &m, &n)?);
                out.push((0, format!("TEXTRACT({}, {}, {row}, {col});", self.tile(*dst)?, self.tile(*src)?)));
            }
            Op::Matmul { dst, left, right, m, n, k, add } => {
                let (m, n, k) = (self.expr(m), self.expr(n), self.expr(k));
                for (tile, rows, cols) in [(*left, &m, &k), (*right, &k, &n), (*dst, &m, &n)] {
                    out.extend(self.block_size(tile, rows, cols)?);
                }
                let (d, l, r) = (self.tile(*dst)?, self.tile(*left)?, self.tile(*right)?);
                out.push((
                    0,
                    match add {
                        false => format!("TMATMUL({d}, {l}, {r});"),
                        true => format!("TMATMUL_ACC({d}, {d}, {l}, {r});"),
                    },
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Sets the rows and columns of a block, unless it has them already.
    fn block_size(&mut self, id: TileId, rows: &str, cols: &str) -> R<Lines> {
        let name = self.tile(id)?;
        let size = format!("{rows}, {cols}");
        if self.lengths.get(&id).is_some_and(|l| *l == size) {
            return Ok(vec![]);
        }
        self.lengths.insert(id, size.clone());
        Ok(vec![(0, format!("{name}.SetValidShape({size});"))])
    }
}

/// Returns the instruction that combines the elements of rows.
fn combiner(op: VecOp) -> R<&'static str> {
    match op {
        VecOp::Add => Ok("TROWSUM"),
        VecOp::Max => Ok("TROWMAX"),
        VecOp::Min => Ok("TROWMIN"),
        _ => Err(no_instruction(format!("rows cannot be combined by `{}`", op.name()))),
    }
}
