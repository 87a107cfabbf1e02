//! Matmuls on a matrix core: blocks of the result, each summed over blocks of the operands.
//!
//! The module owns the sizes of blocks and the loops over them. Operands are row-major. A block
//! goes from global memory to the stage, and from there to the operands. Sums stay in their memory
//! until they are complete. Blocks at the edges are smaller.

use super::address::{add, mul, product};
use super::errors::refuse;
use super::state::Lower;
use crate::tile::{Gm, Op, Space, Stmt, Tile, TileId};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::{BinOp, Expr};
use kbc_ir::schedule::BufferId;
use kbc_ir::types::DType;

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
            if dd[d] == Expr::Int(1) {
                continue;
            }
            self.build.open();
            let var = self.build.fresh("matrix");
            let index = Expr::var(var.clone());
            for (place, dims) in &mut places {
                let before = dd.len() - dims.len();
                if d >= before && dims[d - before] == dd[d] {
                    place.offset = add(&place.offset, &mul(&index, &product(&dims[d - before + 1..])));
                }
            }
            loops.push((var, dd[d].clone()));
        }
        let [to, left, right] = places.map(|p| p.0);
        let matrix = |at: Gm, pitch: &Expr| Matrix { at, pitch: pitch.clone() };
        let (n, k) = (sizes.n.clone(), sizes.k.clone());
        let steps =
            self.parts.and_then(|p| p.blocks.get(&dst).copied()).unwrap_or([self.device.limits().block; 3]);
        let operands = [&matrix(left, &k), &matrix(right, &n)];
        self.blocks(dtype, &matrix(to, &n), operands, (&sizes, steps), span)?;
        for (var, hi) in loops.into_iter().rev() {
            let body = self.build.close();
            self.build.push(Stmt::For { var, lo: Expr::Int(0), hi, body });
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
        if types.iter().any(|t| !t.is_float()) {
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

    /// Lowers `to = left right`, in blocks of the given numbers of rows, columns and terms.
    ///
    /// # Errors
    /// Returns E470 if the rows of a matrix are too far apart for the instructions.
    pub(super) fn blocks(
        &mut self,
        dtype: DType,
        to: &Matrix,
        [left, right]: [&Matrix; 2],
        (sizes, [rows, cols, terms]): (&Sizes, [u32; 3]),
        span: Span,
    ) -> Result<(), Diagnostic> {
        let [stage_a, stage_b] = [0, 1].map(|i| self.block_tile(Space::Stage, dtype, i));
        let (left_tile, right_tile) =
            (self.block_tile(Space::Left, dtype, 0), self.block_tile(Space::Right, dtype, 0));
        let sums = self.block_tile(Space::Sums, DType::F32, 0);
        self.pitches_fit([(stage_a, left), (stage_b, right)], (sums, to), span)?;
        self.blocks_of(["i", "m"], (&sizes.m, rows), |this, i, m| {
            this.blocks_of(["j", "n"], (&sizes.n, cols), |this, j, n| {
                this.blocks_of(["q", "k"], (&sizes.k, terms), |this, q, k| {
                    this.load_block(stage_a, [m, k], left, i, q);
                    this.load_block(stage_b, [k, n], right, q, j);
                    let moved = |dst, src, rows: &Expr, cols: &Expr| {
                        Stmt::Op(Op::Move { dst, src, rows: rows.clone(), cols: cols.clone() })
                    };
                    this.build.push(moved(left_tile, stage_a, m, k));
                    this.build.push(moved(right_tile, stage_b, k, n));
                    let product = |add| {
                        let (m, n, k) = (m.clone(), n.clone(), k.clone());
                        vec![Stmt::Op(Op::Matmul {
                            dst: sums,
                            left: left_tile,
                            right: right_tile,
                            m,
                            n,
                            k,
                            add,
                        })]
                    };
                    let cond = Expr::bin(BinOp::Eq, q.clone(), Expr::Int(0));
                    this.build.push(Stmt::If { cond, then: product(false), other: product(true) });
                });
                let (pitch, rows, cols) = (to.pitch.clone(), m.clone(), n.clone());
                let to = within(to, i, j);
                this.build.push(Stmt::Op(Op::StoreBlock { to, pitch, tile: sums, rows, cols }));
            });
        });
        Ok(())
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

    /// Returns the tile number `index` of an element type in a memory of a matrix core, and creates
    /// it if necessary.
    fn block_tile(&mut self, space: Space, dtype: DType, index: usize) -> TileId {
        let mut of =
            (0..self.tiles.len()).filter(|i| self.tiles[*i].space == space && self.tiles[*i].dtype == dtype);
        if let Some(i) = of.nth(index) {
            return TileId(i as u32);
        }
        let (name, block) = (self.tile_name(), self.device.limits().block);
        self.tiles.push(Tile { name, dtype, space, rows: block, elements: block, copies: 1, at: None });
        self.block_tile(space, dtype, index)
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
        self.build.push(Stmt::Tiles { pos, len, total: total.clone(), step, twice: false, body });
    }
}

/// Returns the place of the element at a row and a column of a matrix.
fn within(m: &Matrix, row: &Expr, col: &Expr) -> Gm {
    Gm { offset: add(&m.at.offset, &add(&mul(row, &m.pitch), col)), ..m.at.clone() }
}
