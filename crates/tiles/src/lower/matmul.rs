//! Matmuls on a matrix core: blocks of the result, each summed over blocks of the operands.
//!
//! The module owns the loops over blocks; `panels` owns their sizes. Operands are row-major. A
//! panel of an operand, which has several slices of terms, goes from global memory to the stage.
//! Its slices go from there to the operands of the matrix unit. Sums stay in their memory until
//! they are complete. Blocks at the edges are smaller.
//!
//! Panels take turns between two copies in the stage, and slices between two copies in the memories
//! of operands, so that the next one is loaded or moved while one is used. Where all panels of a
//! row of blocks have a copy, they are loaded for its first block alone, and the other blocks use
//! them again. The same holds for the panels of a column of blocks, if the result has only one
//! column.

use super::address::{self, add, mul, product};
use super::errors::refuse;
use super::state::Lower;
use crate::tile::{Gm, Op, Space, Stmt, Tile, TileId};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::BufferId;
use kbc_ir::types::DType;
use std::sync::Arc;

/// A matrix in memory: its first element, and the distance between consecutive rows in elements.
pub(super) struct Matrix {
    pub at: Gm,
    pub pitch: Expr,
}

/// Numbers of rows, of columns, and of terms per sum.
pub(super) struct Sizes {
    pub m: Expr,
    pub n: Expr,
    pub k: Expr,
}

/// The tiles of the matmuls of an element type.
struct BlockTiles {
    /// Panels of left operands in the stage, and their slices as operands.
    left: [TileId; 2],
    /// The same for right operands.
    right: [TileId; 2],
    /// Sums.
    sums: TileId,
}

impl Lower<'_, '_> {
    /// Lowers `dst = a b`, for every index of the dimensions before the last two.
    pub(super) fn matmul(
        &mut self,
        dst: BufferId,
        a: BufferId,
        b: BufferId,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let dtype = self.operand_dtype([dst, a, b], span)?;
        let [dd, da, db] = [dst, a, b].map(|x| self.dims(x));
        if da.len() < 2 || db.len() < 2 {
            return Err(refuse(
                span,
                "a matmul with a vector",
                "give the vector a second dimension of size 1",
            ));
        }
        let [k, n] = [db[db.len() - 2].clone(), db[db.len() - 1].clone()];
        let [to, left, right] = [dst, a, b].map(|x| self.whole(x));
        // If there is one matrix on the right, the rows of all matrices on the left are rows of one
        // matrix.
        let flat = db.len() == 2;
        let m = if flat { product(&da[..da.len() - 1]) } else { da[da.len() - 2].clone() };
        let m = self.build.name_it("rows", &m);
        let sizes = Sizes { m, n, k };
        let lead = if flat { 0 } else { dd.len() - 2 };
        let mut places = [(to, &dd), (left, &da), (right, &db)];
        let mut loops = vec![];
        for d in 0..lead {
            if dd[d] == Expr::Int(1) && self.shares.parts(dst).get(d).is_none_or(|n| *n == 1) {
                continue;
            }
            let part = self.own_part(dst, d, &dd[d]);
            self.build.open();
            let var = self.build.fresh("matrix");
            let index = Expr::var(var.clone());
            for (place, dims) in &mut places {
                let before = dd.len() - dims.len();
                if d >= before && dims[d - before] == dd[d] {
                    place.offset = add(&place.offset, &mul(&index, &product(&dims[d - before + 1..])));
                }
            }
            loops.push((var, part));
        }
        let [to, left, right] = places.map(|p| p.0);
        let matrix = |at: Gm, pitch: &Expr| Matrix { at, pitch: pitch.clone() };
        let (n, k) = (sizes.n.clone(), sizes.k.clone());
        let operands = [&matrix(left, &k), &matrix(right, &n)];
        self.blocks(dtype, &matrix(to, &n), operands, (&sizes, dst), span)?;
        for (var, part) in loops.into_iter().rev() {
            let body = self.build.close();
            self.build.push(Stmt::For { var, lo: part.first, hi: part.end, body });
        }
        Ok(())
    }

    /// Returns the element type of a matmul's operands, after checking that the matrix unit
    /// multiplies it and that no rank has sums over a dimension without elements.
    pub(super) fn operand_dtype(
        &mut self,
        [dst, a, b]: [BufferId; 3],
        span: Span,
    ) -> Result<DType, Diagnostic> {
        let types = [dst, a, b].map(|x| self.schedule.buffer(x).dtype);
        let whole = |t: &DType| *t == DType::I32 && self.device.multiply(DType::I32).is_ok();
        if !types.iter().all(|t| t.is_float()) && !types.iter().all(whole) {
            let unit = self.device.dialect().matrix_word;
            let help = format!(
                "the {unit} unit multiplies only f32, f16 and bf16: convert the operands, or use `--target sim`"
            );
            return Err(refuse(span, format!("a matmul of {}", types[1]), help));
        }
        for rank in 0..self.program.ranks() {
            let elements = |x: BufferId| self.program.elements(x, rank).map_err(|f| super::errors::fault(&f));
            if elements(dst)? > 0 && elements(a)? == 0 {
                let help =
                    "on some ranks the contracted dimension is empty: use fewer ranks, or `--target sim`";
                return Err(refuse(span, "a matmul over an empty dimension", help));
            }
        }
        Ok(types[1])
    }

    /// Lowers this core's part of `to = left right`, where `to` is a matrix of buffer `dst`, block
    /// by block.
    ///
    /// # Errors
    /// Returns E470 if the rows of a matrix are too far apart for the instructions.
    pub(super) fn blocks(
        &mut self,
        dtype: DType,
        to: &Matrix,
        [left, right]: [&Matrix; 2],
        (sizes, dst): (&Sizes, BufferId),
        span: Span,
    ) -> Result<(), Diagnostic> {
        let tiles = self.block_tiles(dtype);
        self.pitches_fit([(tiles.left[0], left), (tiles.right[0], right)], (tiles.sums, to), span)?;
        let [rows, cols] = self.block_of(dst);
        let lead = self.shares.parts(dst).len().saturating_sub(2);
        let (i, j) = (self.own_part(dst, lead, &sizes.m), self.own_part(dst, lead + 1, &sizes.n));
        let shifted =
            |m: &Matrix, row: &Expr, col: &Expr| Matrix { at: within(m, row, col), pitch: m.pitch.clone() };
        let none = Expr::Int(0);
        let to = &shifted(to, &i.first, &j.first);
        let (left, right) = (&shifted(left, &i.first, &none), &shifted(right, &none, &j.first));
        let sizes = &Sizes { m: i.size, n: j.size, k: sizes.k.clone() };
        let [slice, panel] = self.block_sizes.terms(dtype);
        let copies = self.block_sizes.copies;
        // Not folded, so that kernels for other sizes differ in numbers alone.
        let plain = |op, a: Expr, b: i64| Expr::Bin(op, Arc::new(a), Arc::new(Expr::Int(b)));
        let beyond = |e: &Expr, most: u32| plain(BinOp::Gt, e.clone(), most.into());
        let again = beyond(&sizes.k, panel * copies);
        let panels =
            plain(BinOp::Div, plain(BinOp::Add, sizes.k.clone(), i64::from(panel) - 1), panel.into());
        let first = |pos: &Expr| pos.clone().equals(Expr::Int(0));
        let either = |a: Expr, b: Expr| Expr::Bin(BinOp::Or, Arc::new(a), Arc::new(b));
        let number = |pos: &Expr, step: u32| address::bin(BinOp::Div, pos, &Expr::Int(step.into()));
        let turn = |pos: &Expr, step: u32, q: &Expr| {
            let before = Expr::Bin(BinOp::Mul, Arc::new(number(pos, step)), Arc::new(panels.clone()));
            Expr::Bin(BinOp::Add, Arc::new(before), Arc::new(number(q, panel)))
        };
        self.blocks_of(["i", "m"], (&sizes.m, rows), |this, i, m| {
            this.blocks_of(["j", "n"], (&sizes.n, cols), |this, j, n| {
                this.blocks_of(["q", "k"], (&sizes.k, panel), |this, q, k| {
                    let [a, b] = [tiles.left[0], tiles.right[0]];
                    this.in_turn(&[a], turn(i, rows, q), |this| {
                        this.build.open();
                        this.load_block(a, [m, k], left, i, q);
                        let then = this.build.close();
                        let cond = either(again.clone(), first(j));
                        this.build.push(Stmt::If { cond, then, other: vec![] });
                        this.in_turn(&[b], turn(j, cols, q), |this| {
                            this.build.open();
                            this.load_block(b, [k, n], right, q, j);
                            let then = this.build.close();
                            let cond = either(again.clone(), either(beyond(&sizes.n, cols), first(i)));
                            this.build.push(Stmt::If { cond, then, other: vec![] });
                            this.slices(&tiles, [m, n, k], (q, slice));
                        });
                    });
                });
                let (pitch, rows, cols) = (to.pitch.clone(), m.clone(), n.clone());
                let to = within(to, i, j);
                this.build.push(Stmt::Op(Op::StoreBlock { to, pitch, tile: tiles.sums, rows, cols }));
            });
        });
        Ok(())
    }

    /// Multiplies the panels in the stage that begin at term `q`, slice by slice.
    fn slices(&mut self, tiles: &BlockTiles, [m, n, k]: [&Expr; 3], (q, slice): (&Expr, u32)) {
        let zero = || Expr::Int(0);
        self.blocks_of(["s", "t"], (k, slice), |this, s, t| {
            let ([from_left, left], [from_right, right]) = (tiles.left, tiles.right);
            let by = address::bin(BinOp::Div, s, &Expr::Int(slice.into()));
            this.in_turn(&[left, right], by, |this| {
                let moved = |dst, src, from, [rows, cols]: [&Expr; 2]| {
                    Stmt::Op(Op::Move { dst, src, from, rows: rows.clone(), cols: cols.clone() })
                };
                this.build.push(moved(left, from_left, [zero(), s.clone()], [m, t]));
                this.build.push(moved(right, from_right, [s.clone(), zero()], [t, n]));
                let product = |add| {
                    let (dst, m, n, k) = (tiles.sums, m.clone(), n.clone(), t.clone());
                    vec![Stmt::Op(Op::Matmul { dst, left, right, m, n, k, add })]
                };
                let cond = (q.clone() + s.clone()).equals(zero());
                this.build.push(Stmt::If { cond, then: product(false), other: product(true) });
            });
        });
    }

    /// Adds what `f` adds, in a turn of tiles if they have several copies.
    fn in_turn(&mut self, tiles: &[TileId], by: Expr, f: impl FnOnce(&mut Self)) {
        if self.block_sizes.copies == 1 {
            return f(self);
        }
        self.build.open();
        f(self);
        let body = self.build.close();
        self.build.push(Stmt::Turn { tiles: tiles.to_vec(), by, body });
    }

    /// Checks that the distances between the rows of matrices fit into the fields of the
    /// instructions that load and store their blocks.
    fn pitches_fit(
        &self,
        loads: [(TileId, &Matrix); 2],
        (tile, to): (TileId, &Matrix),
        span: Span,
    ) -> Result<(), Diagnostic> {
        let one = || Expr::Int(1);
        let load = |(tile, m): (TileId, &Matrix)| Op::LoadBlock {
            tile,
            rows: one(),
            cols: one(),
            from: m.at.clone(),
            pitch: m.pitch.clone(),
        };
        let store =
            Op::StoreBlock { to: to.at.clone(), pitch: to.pitch.clone(), tile, rows: one(), cols: one() };
        let ops = loads.map(load).into_iter().chain([store]);
        for op in ops {
            for field in self.device.narrow_fields(&op) {
                // A number that is no constant here differs between ranks.
                let on = |rank: u64| self.expr_on(field.value, &Expr::Int(rank as i64)).as_int();
                let largest = (0..self.program.ranks()).filter_map(on).max();
                if let Some(v) = largest.filter(|v| *v > field.most) {
                    let (what, most) = (field.what, field.most);
                    let why = format!("a matmul: the {what} is {v}, and an instruction takes up to {most}");
                    let help = "use more ranks, write the matrix as several with shorter rows, or use `--target sim`";
                    return Err(refuse(span, why, help).note(field.source));
                }
            }
        }
        Ok(())
    }

    /// Returns the tiles of matmuls of an element type, and creates them if necessary.
    fn block_tiles(&mut self, dtype: DType) -> BlockTiles {
        let ([rows, cols], copies) = (self.block_sizes.block, self.block_sizes.copies);
        let [slice, panel] = self.block_sizes.terms(dtype);
        let mut tile =
            |space, dtype, size, copies, number| self.block_tile(space, dtype, size, copies, number);
        BlockTiles {
            left: [
                tile(Space::Stage, dtype, [rows, panel], copies, 0),
                tile(Space::Left, dtype, [rows, slice], copies, 0),
            ],
            right: [
                tile(Space::Stage, dtype, [panel, cols], copies, 1),
                tile(Space::Right, dtype, [slice, cols], copies, 0),
            ],
            sums: tile(Space::Sums, if dtype.is_float() { DType::F32 } else { dtype }, [rows, cols], 1, 0),
        }
    }

    /// Returns the tile number `number` of an element type in a memory of a matrix core, and
    /// creates it if necessary.
    fn block_tile(
        &mut self,
        space: Space,
        dtype: DType,
        [rows, elements]: [u32; 2],
        copies: u32,
        number: usize,
    ) -> TileId {
        let mut of =
            (0..self.tiles.len()).filter(|i| self.tiles[*i].space == space && self.tiles[*i].dtype == dtype);
        if let Some(i) = of.nth(number) {
            return TileId(i as u32);
        }
        let name = self.tile_name();
        self.tiles.push(Tile { name, dtype, space, rows, elements, copies, at: None });
        TileId(self.tiles.len() as u32 - 1)
    }

    fn load_block(&mut self, tile: TileId, size: [&Expr; 2], from: &Matrix, row: &Expr, col: &Expr) {
        let [rows, cols] = size.map(Expr::clone);
        let pitch = from.pitch.clone();
        self.build.push(Stmt::Op(Op::LoadBlock { tile, rows, cols, from: within(from, row, col), pitch }));
    }

    fn blocks_of(
        &mut self,
        [pos, len]: [&str; 2],
        (total, step): (&Expr, u32),
        f: impl FnOnce(&mut Self, &Expr, &Expr),
    ) {
        self.build.open();
        let (pos, len) = (self.build.fresh(pos), self.build.fresh(len));
        f(self, &Expr::var(pos.clone()), &Expr::var(len.clone()));
        let body = self.build.close();
        self.build.push(Stmt::Tiles { pos, len, total: total.clone(), step, twice: false, rows: None, body });
    }
}

/// Returns the place of the element at a row and a column of a matrix.
fn within(m: &Matrix, row: &Expr, col: &Expr) -> Gm {
    Gm { offset: add(&m.at.offset, &add(&mul(row, &m.pitch), col)), ..m.at.clone() }
}
