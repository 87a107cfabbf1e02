//! Parser of one operation of a `.tile` text.

use super::reader::Reader;
use crate::tile::Dialect;
use crate::tile::*;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::Expr;
use kbc_ir::scalar::CompareOp;
use kbc_ir::text::reader::{Label, LineCursor, ParseResult, TokenKind, expr, unknown};

const COMPARE: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Le, CompareOp::Ge, CompareOp::Lt, CompareOp::Gt];

const STATEMENTS: [&str; 36] = [
    "choose",
    "load.row",
    "index",
    "task",
    "let",
    "for",
    "if",
    "else",
    "tiles",
    "from",
    "load",
    "store",
    "select",
    "convert",
    "notify",
    "wait",
    "defer",
    "fence.release",
    "fence.acquire",
    "fence.complete",
    "barrier",
    "dsb",
    "flag.set",
    "flag.wait",
    "reduce.add",
    "reduce.max",
    "reduce.min",
    "expand",
    "fill.rows",
    "load.rows",
    "store.rows",
    "load.block",
    "store.block",
    "move",
    "matmul",
    "matmul.add",
];

impl Reader<'_> {
    pub(super) fn tile_of(&self, c: &mut LineCursor) -> ParseResult<TileId> {
        let span = c.here();
        let label: &Label = c.dollar_name("`$` and a tile")?;
        Ok(TileId(self.tiles.find(label, span)? as u32))
    }

    fn signal(&self, c: &mut LineCursor) -> ParseResult<(SignalsId, Expr)> {
        let id = SignalsId(c.at_of(&self.signals, "`@` and an array of signals")? as u32);
        Ok((id, index(c)?))
    }

    fn gm(&self, c: &mut LineCursor) -> ParseResult<Gm> {
        let object = match c.peek() {
            Some(TokenKind::Percent(_)) => {
                Object::Tensor(TensorId(c.percent_of(&self.tensors, "a tensor")? as u32))
            }
            Some(TokenKind::At(_)) => Object::Area(AreaId(c.at_of(&self.areas, "a window")? as u32)),
            _ => return Err(c.expected("`%` and a tensor or `@` and a window")),
        };
        let mut slot = Expr::Int(0);
        let mut offset = index(c)?;
        if c.is_sym("[") {
            slot = offset;
            offset = index(c)?;
        } else if let Object::Area(_) = object {
            return Err(c.expected("`[` and the element in the slot"));
        }
        let mut peer = None;
        if c.eat_word("at") {
            c.expect("(")?;
            peer = Some(expr(c)?);
            c.expect(")")?;
        }
        Ok(Gm { object, slot, offset, peer })
    }

    pub(super) fn operation(&self, c: &mut LineCursor, word: &str, line: Span) -> ParseResult<Op> {
        if let Some(op) = VecOp::ALL.into_iter().find(|o| o.name() == word) {
            return self.vector(c, op);
        }
        Ok(match word {
            "load" => {
                let tile = self.tile_of(c)?;
                let len = index(c)?;
                c.expect("=")?;
                Op::Load { tile, len, from: self.gm(c)? }
            }
            "store" => {
                let to = self.gm(c)?;
                c.expect("=")?;
                let tile = self.tile_of(c)?;
                Op::Store { to, tile, len: index(c)? }
            }
            "select" => self.select(c)?,
            "reduce.add" => self.reduce(c, VecOp::Add)?,
            "reduce.max" => self.reduce(c, VecOp::Max)?,
            "reduce.min" => self.reduce(c, VecOp::Min)?,
            "index" => {
                let dst = self.tile_of(c)?;
                let len = index(c)?;
                c.expect("=")?;
                Op::Index { dst, value: expr(c)?, len }
            }
            "choose" => {
                let ids = self.tile_of(c)?;
                let index = index(c)?;
                c.expect_word("from")?;
                Op::Choose { ids, index, first: expr(c)? }
            }
            "load.row" => {
                let tile = self.tile_of(c)?;
                let len = index(c)?;
                c.expect("=")?;
                let from = self.gm(c)?;
                c.expect_word("pitch")?;
                let pitch = expr(c)?;
                c.expect_word("of")?;
                Op::LoadRow { tile, len, from, pitch, rows: expr(c)? }
            }
            "expand" => {
                let dst = self.tile_of(c)?;
                let len = index(c)?;
                c.expect("=")?;
                Op::Expand { dst, src: self.tile_of(c)?, len }
            }
            "load.rows" => {
                let tile = self.tile_of(c)?;
                let len = index(c)?;
                c.expect("=")?;
                let from = self.gm(c)?;
                c.expect_word("pitch")?;
                Op::LoadRows { tile, len, from, pitch: expr(c)? }
            }
            "store.rows" => {
                let to = self.gm(c)?;
                c.expect_word("pitch")?;
                let pitch = expr(c)?;
                c.expect("=")?;
                let tile = self.tile_of(c)?;
                Op::StoreRows { to, pitch, tile, len: index(c)? }
            }
            "fill.rows" => {
                let dst = self.tile_of(c)?;
                let len = index(c)?;
                c.expect("=")?;
                Op::Spread { dst, src: self.tile_of(c)?, len }
            }
            "load.block" => {
                let (tile, rows, cols) = self.block(c)?;
                c.expect("=")?;
                let from = self.gm(c)?;
                c.expect_word("pitch")?;
                Op::LoadBlock { tile, rows, cols, from, pitch: expr(c)? }
            }
            "store.block" => {
                let to = self.gm(c)?;
                c.expect_word("pitch")?;
                let pitch = expr(c)?;
                c.expect("=")?;
                let (tile, rows, cols) = self.block(c)?;
                Op::StoreBlock { to, pitch, tile, rows, cols }
            }
            "move" => {
                let (dst, rows, cols) = self.block(c)?;
                c.expect("=")?;
                let (src, row, col) = self.block(c)?;
                Op::Move { dst, src, from: [row, col], rows, cols }
            }
            "matmul" | "matmul.add" => {
                let (dst, m, n) = self.block(c)?;
                c.expect("=")?;
                let left = self.tile_of(c)?;
                c.expect(",")?;
                let right = self.tile_of(c)?;
                c.expect_word("over")?;
                Op::Matmul { dst, left, right, m, n, k: expr(c)?, add: word == "matmul.add" }
            }
            "convert" => {
                let dst = self.tile_of(c)?;
                c.expect("=")?;
                let src = self.tile_of(c)?;
                let parse = |w: &str| Rounding::ALL.into_iter().find(|r| r.name() == w);
                Op::Convert {
                    dst,
                    src,
                    rounding: c.one_of("rounding", parse, &Rounding::ALL.map(Rounding::name))?,
                }
            }
            "notify" => {
                c.expect("(")?;
                let peer = expr(c)?;
                c.expect(")")?;
                c.expect(":")?;
                let (signals, index) = self.signal(c)?;
                Op::Notify { peer, signals, index }
            }
            "wait" => {
                let (signals, index) = self.signal(c)?;
                c.expect(">=")?;
                Op::Wait { signals, index, value: expr(c)? }
            }
            "defer" => {
                let (signals, index) = self.signal(c)?;
                c.expect(">=")?;
                Op::Defer { signals, index, value: expr(c)? }
            }
            "fence.release" => Op::Release,
            "fence.acquire" => Op::Acquire,
            "fence.complete" => Op::Complete,
            "barrier" if c.eat_word("all") => Op::Barrier(Barrier::All),
            "barrier" => Op::Barrier(Barrier::Pipe(pipe(self.k.dialect, c)?)),
            "dsb" => Op::MemoryBarrier,
            "flag.set" => {
                let (from, to, event) = flag(self.k.dialect, c)?;
                Op::SetFlag { from, to, event }
            }
            "flag.wait" => {
                let (from, to, event) = flag(self.k.dialect, c)?;
                Op::WaitFlag { from, to, event }
            }
            _ => {
                let text = if word.is_empty() { "this" } else { word };
                let valid = STATEMENTS.into_iter().chain(VecOp::ALL.map(VecOp::name));
                return Err(unknown("E315", "statement", text, valid, line));
            }
        })
    }

    fn vector(&self, c: &mut LineCursor, op: VecOp) -> ParseResult<Op> {
        let dst = self.tile_of(c)?;
        let len = index(c)?;
        c.expect("=")?;
        let place = c.here();
        let mut args = vec![];
        loop {
            args.push(match c.peek() {
                Some(TokenKind::DollarName(_)) => VArg::Tile(self.tile_of(c)?),
                _ => VArg::Num(c.number("a tile or a number")?),
            });
            if !c.eat(",") {
                break;
            }
        }
        if args.len() != op.arity() {
            let counts = format!("{} takes {} operands, and {} are given", op.name(), op.arity(), args.len());
            return Err(Diagnostic::error("E311", counts).primary(place, "here"));
        }
        Ok(Op::Vector { op, dst, args, len })
    }

    /// Parses `$tile[ROWS, COLUMNS]`.
    fn block(&self, c: &mut LineCursor) -> ParseResult<(TileId, Expr, Expr)> {
        let tile = self.tile_of(c)?;
        c.expect("[")?;
        let rows = expr(c)?;
        c.expect(",")?;
        let cols = expr(c)?;
        c.expect("]")?;
        Ok((tile, rows, cols))
    }

    fn reduce(&self, c: &mut LineCursor, op: VecOp) -> ParseResult<Op> {
        let dst = self.tile_of(c)?;
        c.expect("=")?;
        let src = self.tile_of(c)?;
        let len = index(c)?;
        c.expect_word("work")?;
        Ok(Op::Reduce { op, dst, src, work: self.tile_of(c)?, len })
    }

    fn select(&self, c: &mut LineCursor) -> ParseResult<Op> {
        let dst = self.tile_of(c)?;
        let len = index(c)?;
        c.expect("=")?;
        let a = self.tile_of(c)?;
        let cmp =
            COMPARE.into_iter().find(|o| c.eat(o.symbol())).ok_or_else(|| c.expected("a comparison"))?;
        let b = self.tile_of(c)?;
        c.expect(",")?;
        let x = self.tile_of(c)?;
        c.expect(",")?;
        let y = self.tile_of(c)?;
        c.expect_word("mask")?;
        Ok(Op::Select { cmp, dst, a, b, x, y, mask: self.tile_of(c)?, len })
    }
}

/// Parses `[EXPR]`.
pub(super) fn index(c: &mut LineCursor) -> ParseResult<Expr> {
    c.expect("[")?;
    let e = expr(c)?;
    c.expect("]")?;
    Ok(e)
}

fn pipe(dialect: &Dialect, c: &mut LineCursor) -> ParseResult<Pipe> {
    c.one_of("pipe", |w| dialect.find_pipe(w), &dialect.pipes)
}

/// Parses `FROM -> TO EVENT`.
fn flag(dialect: &Dialect, c: &mut LineCursor) -> ParseResult<(Pipe, Pipe, u8)> {
    let from = pipe(dialect, c)?;
    c.expect("->")?;
    Ok((from, pipe(dialect, c)?, c.small("the number of the event")?))
}
