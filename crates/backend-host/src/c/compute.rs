//! Operations that compute, as calls of the functions of `kbc_compute.h`.

use super::expr::{self, ADD, MUL};
use super::names::ctype;
use super::printer::{Printer, R, RowLoop};
use crate::definition::word;
use crate::device::BlockForm;
use crate::refused::no_form;
use kbc_ir::expr::Expr;
use kbc_tiles::tile::*;

impl Printer<'_> {
    /// Returns the statement of an operation that computes.
    pub(super) fn computed(&self, whole: &Op) -> R<String> {
        Ok(match whole {
            Op::Vector { op, dst, args, len } => self.vector((*op, *dst), args, len, whole)?,
            Op::Select { cmp, dst, a, b, x, y, mask: _, len } => {
                let dtype = self.k.tile(*dst).dtype;
                let [d, a, b, x, y] = [dst, a, b, x, y].map(|t| self.tile(*t));
                let m = self.extent(len);
                format!("kbc_select_{}_{dtype}({d}, {a}, {b}, {x}, {y}, {m});", word(*cmp))
            }
            Op::Convert { dst, src, rounding: Rounding::Exact | Rounding::Nearest } => {
                let (to, from) = (self.k.tile(*dst).dtype, self.k.tile(*src).dtype);
                let n = match self.lengths.of(whole) {
                    Some(len) => self.extent(len),
                    None => self.k.tile(*src).elements.to_string(),
                };
                format!("kbc_{to}_from_{from}({}, {}, {n});", self.tile(*dst), self.tile(*src))
            }
            Op::Reduce { op, dst, src, work: _, len } => {
                let (dtype, name) = (self.k.tile(*src).dtype, op.name());
                let (d, s) = (self.tile(*dst), self.tile(*src));
                match self.rows_at(len) {
                    Some(RowLoop { count, elements, pitch, .. }) => format!(
                        "KBC_EACH_ROW({count}, kbc_reduce_{name}_{dtype}({d} + kbc_row, {s} + kbc_row * {pitch}, {elements}));"
                    ),
                    None => format!("kbc_reduce_{name}_{dtype}({d}, {s}, {});", self.expr(len, 0)),
                }
            }
            Op::Expand { dst, src, len } => {
                let (dtype, d, s) = (self.k.tile(*src).dtype, self.tile(*dst), self.tile(*src));
                match self.rows_at(len) {
                    Some(RowLoop { count, elements, pitch, .. }) => format!(
                        "KBC_EACH_ROW({count}, kbc_expand_{dtype}({d} + kbc_row * {pitch}, {s} + kbc_row, {elements}));"
                    ),
                    None => format!("kbc_expand_{dtype}({d}, {s}, {});", self.expr(len, 0)),
                }
            }
            Op::Index { dst, value, len } => {
                let (dtype, value, m) = (self.k.tile(*dst).dtype, self.expr(value, 0), self.extent(len));
                format!("kbc_index_{dtype}({}, {value}, {m});", self.tile(*dst))
            }
            Op::Choose { ids, index, first } => {
                let (index, first) = (self.expr(index, 0), self.expr(first, MUL));
                format!("{} = (int64_t){}[{index}] - {first};", self.chosen, self.tile(*ids))
            }
            Op::LoadRow { tile, len, from, pitch, rows } => {
                let (to, m, row) = (self.tile(*tile), self.expr(len, 0), &self.chosen);
                let (rows, pitch) = (self.expr(rows, MUL), self.expr(pitch, expr::ATOM));
                if from.peer.is_some() {
                    return Err(no_form(whole));
                }
                let place = self.place(from);
                format!(
                    "if ({row} >= 0 && {row} < {rows}) kbc_copy({to}, {place} + {row} * {pitch}, {m}, sizeof *{to});"
                )
            }
            // A panel is read where it is: the operands of a product do not change in its task.
            Op::LoadBlock { tile, from, pitch, rows: _, cols: _ } if from.peer.is_none() => {
                let (panel, apart) = (self.tile(*tile), self.pitch(*tile));
                format!("{panel} = {}, {apart} = {};", self.place(from), self.expr(pitch, 0))
            }
            Op::Move { dst, src, from: [row, col], rows, cols } => {
                let (to, panel, held) = (self.tile(*dst), self.tile(*src), BlockForm::of(self.k.tile(*dst)));
                let (dtype, apart) = (self.k.tile(*src).dtype, self.pitch(*src));
                let side = if self.k.tile(*dst).space == Space::Left { "left" } else { "right" };
                let mut place = panel.to_owned();
                if *row != Expr::Int(0) {
                    place += &format!(" + {} * {apart}", self.expr(row, MUL));
                }
                if *col != Expr::Int(0) {
                    place += &format!(" + {}", self.expr(col, ADD));
                }
                let (rows, cols, stride) = (self.expr(rows, 0), self.expr(cols, 0), held.stride);
                format!("kbc_{side}_{dtype}({to}, {stride}, {place}, {apart}, {rows}, {cols});")
            }
            Op::Matmul { dst, left, right, m, n, k, add } => {
                let [c, a, b] = [dst, left, right].map(|t| self.tile(*t));
                let [sums, rows, panels] = [dst, left, right].map(|t| BlockForm::of(self.k.tile(*t)).stride);
                let dtype = self.k.tile(*dst).dtype;
                let [m, n, k] = [m, n, k].map(|e| self.expr(e, 0));
                let add = u8::from(*add);
                format!("kbc_product_{dtype}({c}, {sums}, {a}, {rows}, {b}, {panels}, {m}, {n}, {k}, {add});")
            }
            Op::StoreBlock { to, pitch, tile, rows, cols } if to.peer.is_none() => {
                let (dtype, stride) = (self.k.dtype(to.object), BlockForm::of(self.k.tile(*tile)).stride);
                let [pitch, rows, cols] = [pitch, rows, cols].map(|e| self.expr(e, 0));
                let (place, sums) = (self.place(to), self.tile(*tile));
                format!("kbc_sums_{dtype}({place}, {pitch}, {sums}, {stride}, {rows}, {cols});")
            }
            _ => return Err(no_form(whole)),
        })
    }

    fn vector(&self, (op, dst): (VecOp, TileId), args: &[VArg], len: &Expr, whole: &Op) -> R<String> {
        let dtype = self.k.tile(dst).dtype;
        let (d, m, name) = (self.tile(dst), self.extent(len), op.name());
        Ok(match args {
            [VArg::Num(v)] if op == VecOp::Fill => {
                format!("kbc_fill_{dtype}({d}, {}, {m});", self.number(dtype, *v))
            }
            [VArg::Tile(a)] => format!("kbc_{name}_{dtype}({d}, {}, {m});", self.tile(*a)),
            [VArg::Tile(a), VArg::Tile(b)] => {
                format!("kbc_{name}_{dtype}({d}, {}, {}, {m});", self.tile(*a), self.tile(*b))
            }
            [VArg::Tile(a), VArg::Num(v)] => {
                format!("kbc_{name}_by_{dtype}({d}, {}, {}, {m});", self.tile(*a), self.number(dtype, *v))
            }
            _ => return Err(no_form(whole)),
        })
    }

    /// Returns the declaration of a tile at an address.
    pub(super) fn declared(&self, t: &Tile, [ident, pitch]: [&str; 2], at: u64) -> String {
        let ty = match t.space {
            Space::Vector => ctype(t.dtype),
            Space::Stage => {
                return format!("const {} *{ident} = 0; int64_t {pitch} = 0;", ctype(t.dtype));
            }
            Space::Left | Space::Right | Space::Sums if t.dtype.is_float() => "float",
            Space::Left | Space::Right | Space::Sums => "int32_t",
        };
        format!("{ty} *const {ident} = ({ty} *)(me->tiles + {at});")
    }
}

/// Checks whether a kernel needs `kbc_compute.h`.
pub(super) fn computes(list: &[Stmt]) -> bool {
    list.iter().any(|s| match s {
        Stmt::Op(op) => match op {
            Op::Load { .. }
            | Op::Store { .. }
            | Op::Notify { .. }
            | Op::Wait { .. }
            | Op::Defer { .. }
            | Op::Release
            | Op::Acquire
            | Op::Complete => false,
            Op::Vector { op: VecOp::Fill, .. } => false,
            Op::Vector { op, args, .. } => {
                let combines = matches!(op, VecOp::Add | VecOp::Mul | VecOp::Max | VecOp::Min);
                !combines || !matches!(args[..], [VArg::Tile(_), VArg::Tile(_)])
            }
            _ => true,
        },
        other => other.blocks().any(|b| computes(b)),
    })
}
