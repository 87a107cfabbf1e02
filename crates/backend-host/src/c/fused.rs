//! Runs of elementwise operations as one loop: values of elements are in registers, not in tiles.
//!
//! A function such as gelu is some forty operations on a tile. As a loop for each of them, every
//! one reads and writes a tile. Here consecutive operations on the same elements become one
//! function of the C, with one loop that compilers vectorise, and a tile is written only if a later
//! statement may read it. Loads and stores of this rank's memory are part of the loop. Every
//! operation rounds as it does alone, so the bits are the same.

use super::direct::Live;
use super::function::Function;
use super::names::{ctype, mentions};
use super::printer::Printer;
use kbc_ir::expr::Expr;
use kbc_ir::types::DType;
use kbc_tiles::tile::{Gm, Op, Space, Stmt, TileId, VArg, VecOp};
use std::collections::BTreeMap;

/// A loop ends before it has more operations, and before it reads memory by more pointers: their
/// values would not stay in registers. Tiles that are read later get pointers of their own.
const MOST: (usize, usize) = (160, 14);

/// Consecutive statements as one loop.
pub(super) struct Fused {
    /// Number of statements.
    pub statements: usize,
    /// The parameters and the body of the function.
    pub function: Function,
    /// The arguments of its call, behind the number of elements.
    pub arguments: Vec<String>,
    /// Number of elements, in C.
    pub len: String,
}

/// A loop that is being made.
#[derive(Default)]
struct Maker {
    lines: Vec<String>,
    /// The value of a tile's element.
    values: BTreeMap<u32, String>,
    /// The tiles that are read from memory, and those that operations write, in the order of the
    /// last operation on each.
    read: Vec<TileId>,
    written: Vec<TileId>,
    pointers: Vec<(String, String)>,
    /// Places in memory outside of the tiles.
    loaded: Vec<Gm>,
    stored: Vec<Gm>,
    next: usize,
}

impl Maker {
    /// Returns the element behind a pointer.
    fn element(&mut self, ty: String, argument: String) -> String {
        self.pointers.push((ty, argument));
        format!("p{}[i]", self.pointers.len() - 1)
    }

    fn value(&mut self, ty: &str, is: &str) -> String {
        let name = format!("v{}", self.next);
        self.next += 1;
        self.lines.push(format!("const {ty} {name} = {is};"));
        name
    }

    fn set(&mut self, tile: TileId, value: String) {
        self.written.retain(|t| *t != tile);
        self.written.push(tile);
        self.values.insert(tile.0, value);
    }
}

/// Checks whether values of a type are computed in registers.
fn computes(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::I32)
}

impl Printer<'_> {
    /// Returns the longest run of operations at the beginning of a list that one loop computes, if
    /// that is more than one operation. The list is a part of the body of a loop over tiles.
    pub(super) fn fused(&self, list: &[Stmt], live: &Live) -> Option<Fused> {
        let mut maker = Maker::default();
        let mut len: Option<&Expr> = None;
        // The operations up to the last one that computes or stores, and what is known there.
        let (mut statements, mut operations, mut computed) = (0, 0, 0);
        for (at, stmt) in list.iter().enumerate() {
            let op = match stmt {
                Stmt::Op(op) => op,
                Stmt::Note { .. } if operations > 0 => continue,
                _ => break,
            };
            let Some(own) = self.elementwise(op) else { break };
            let fits =
                len.is_none_or(|l| l == own) && operations < MOST.0 && maker.pointers.len() + 3 < MOST.1;
            if !fits || !self.free(op, &maker) || (operations == 0 && matches!(op, Op::Store { .. })) {
                break;
            }
            len = Some(own);
            self.add(op, &mut maker);
            operations += 1;
            computed += usize::from(!matches!(op, Op::Load { .. } | Op::Store { .. }));
            statements = at + 1;
        }
        if operations < 2 || computed == 0 {
            return None;
        }
        let (last, len) = (list.get(statements.checked_sub(1)?)?, len?);
        for tile in maker.written.clone() {
            if live.after(last, tile) {
                let ty = ctype(self.k.tile(tile).dtype);
                let to = maker.element(format!("{ty} *"), self.tile(tile).to_owned());
                let value = maker.values.get(&tile.0)?.clone();
                maker.lines.push(format!("{to} = {value};"));
                maker.stored_tiles(tile, self)?;
            }
        }
        // C compilers complain about values that nothing reads.
        for name in (0..maker.next).map(|i| format!("v{i}")) {
            if !maker.lines.iter().any(|l| !l.contains(&format!(" {name} = ")) && mentions(l, &name)) {
                maker.lines.push(format!("(void){name};"));
            }
        }
        let (parameters, arguments) = maker.pointers.into_iter().unzip();
        let function = Function { parameters, lines: maker.lines };
        Some(Fused { statements, function, arguments, len: self.extent(len) })
    }

    /// Returns the number of elements of an operation that can be a part of a loop.
    fn elementwise<'o>(&'o self, op: &'o Op) -> Option<&'o Expr> {
        let dtype = |t: &TileId| self.k.tile(*t).dtype;
        let vector = |t: &TileId| self.k.tile(*t).space == Space::Vector;
        match op {
            Op::Load { tile, len, from: place } | Op::Store { to: place, tile, len } => {
                let held = computes(dtype(tile)) || dtype(tile) == DType::BF16;
                let whole = self.rows_at(len).is_none_or(|l| l.elements == l.pitch);
                (place.peer.is_none() && vector(tile) && held && whole).then_some(len)
            }
            // There are no vectors of quotients of integers, and a logarithm is a call.
            Op::Vector { op: VecOp::Div, dst, .. } if dtype(dst) == DType::I32 => None,
            Op::Vector { op: VecOp::Log, .. } => None,
            Op::Vector { dst, len, .. } | Op::Select { dst, len, .. } => computes(dtype(dst)).then_some(len),
            Op::Convert { dst, src, .. } => match (dtype(dst), dtype(src)) {
                (DType::F32, DType::BF16 | DType::I32) | (DType::BF16, DType::F32) => self.lengths.of(op),
                _ => None,
            },
            _ => None,
        }
    }

    /// Checks whether a loop may access memory where an operation does, after what it accesses
    /// already: an element is not read after another iteration wrote it.
    fn free(&self, op: &Op, maker: &Maker) -> bool {
        match op {
            Op::Load { from, .. } => maker.stored.iter().all(|s| s.object != from.object),
            Op::Store { to, .. } => {
                maker.stored.iter().all(|s| s.object != to.object)
                    && maker.loaded.iter().all(|l| l.object != to.object || l == to)
            }
            Op::Vector { .. } | Op::Select { .. } | Op::Convert { .. } => true,
            // No other operation is a part of a loop.
            _ => false,
        }
    }

    /// Returns the value of a tile's element.
    fn read(&self, tile: TileId, maker: &mut Maker) -> String {
        if let Some(value) = maker.values.get(&tile.0) {
            return value.clone();
        }
        let ty = ctype(self.k.tile(tile).dtype);
        let from = maker.element(format!("const {ty} *"), self.tile(tile).to_owned());
        let value = maker.value(ty, &from);
        maker.read.push(tile);
        maker.values.insert(tile.0, value.clone());
        value
    }

    fn add(&self, op: &Op, maker: &mut Maker) {
        match op {
            Op::Load { tile, from, .. } => {
                let ty = ctype(self.k.tile(*tile).dtype);
                let element = maker.element(format!("const {ty} *"), self.place(from));
                let value = maker.value(ty, &element);
                maker.loaded.push(from.clone());
                maker.set(*tile, value);
            }
            Op::Store { to, tile, .. } => {
                let (value, ty) = (self.read(*tile, maker), ctype(self.k.tile(*tile).dtype));
                let element = maker.element(format!("{ty} *"), self.place(to));
                maker.lines.push(format!("{element} = {value};"));
                maker.stored.push(to.clone());
            }
            Op::Vector { op, dst, args, .. } => {
                let dtype = self.k.tile(*dst).dtype;
                let args: Vec<String> = args
                    .iter()
                    .map(|a| match a {
                        VArg::Tile(t) => self.read(*t, maker),
                        VArg::Num(v) => self.number(dtype, *v),
                    })
                    .collect();
                let value = maker.value(ctype(dtype), &computed(*op, dtype, &args));
                maker.set(*dst, value);
            }
            Op::Select { cmp, dst, a, b, x, y, .. } => {
                let dtype = self.k.tile(*dst).dtype;
                let [a, b, x, y] = [a, b, x, y].map(|t| self.read(*t, maker));
                let choose = if dtype == DType::F32 { "kbc_choose" } else { "kbc_choose_i32" };
                let value =
                    maker.value(ctype(dtype), &format!("{choose}({a} {} {b}, {x}, {y})", cmp.symbol()));
                maker.set(*dst, value);
            }
            Op::Convert { dst, src, .. } => {
                let (to, from) = (self.k.tile(*dst).dtype, self.k.tile(*src).dtype);
                let x = self.read(*src, maker);
                let is = match (to, from) {
                    (DType::BF16, _) => format!("kbc_put_bf16({x})"),
                    (_, DType::BF16) => format!("kbc_get_bf16({x})"),
                    _ => format!("({}){x}", ctype(to)),
                };
                let value = maker.value(ctype(to), &is);
                maker.set(*dst, value);
            }
            // `elementwise` admits no others.
            _ => {}
        }
    }
}

impl Maker {
    /// Checks a tile that the loop stores: its memory may be that of a tile that the loop reads or
    /// stored before only if their elements are at the same addresses.
    fn stored_tiles(&self, tile: TileId, printer: &Printer<'_>) -> Option<()> {
        let range = |t: TileId| {
            let of = printer.k.tile(t);
            let at = *printer.places.get(t.0 as usize)?;
            Some((at?, at? + of.all_bytes(), of.dtype.bytes()))
        };
        let (low, high, bytes) = range(tile)?;
        for other in self.read.iter().chain(&self.written) {
            let (from, to, size) = range(*other)?;
            let apart = to <= low || high <= from;
            if !apart && (from, size) != (low, bytes) {
                return None;
            }
        }
        Some(())
    }
}

/// Returns an operation on elements as an expression.
fn computed(op: VecOp, dtype: DType, args: &[String]) -> String {
    let (a, b) = (args.first().map_or("", String::as_str), args.get(1).map_or("", String::as_str));
    let real = dtype == DType::F32;
    match op {
        VecOp::Fill => a.to_owned(),
        VecOp::Add if real => format!("{a} + {b}"),
        VecOp::Sub if real => format!("{a} - {b}"),
        VecOp::Mul if real => format!("{a} * {b}"),
        VecOp::Div if real => format!("{a} / {b}"),
        VecOp::Max | VecOp::Min if real => format!("kbc_op_{}({a}, {b})", op.name()),
        VecOp::Abs => format!("kbc_float(kbc_bits({a}) & 0x7fffffffu)"),
        VecOp::Exp => format!("kbc_exp({a})"),
        VecOp::Log => format!("logf({a})"),
        VecOp::Sqrt => format!("sqrtf({a})"),
        VecOp::Rsqrt => format!("1.0f / sqrtf({a})"),
        VecOp::Add | VecOp::Sub | VecOp::Mul | VecOp::Div | VecOp::Max | VecOp::Min => {
            format!("kbc_int_{}({a}, {b})", op.name())
        }
    }
}
