//! T2 and T8: instructions, their element types, and lengths.

use super::Sink;
use crate::tile::path::Path;
use crate::tile::{Access, Gm, Object, Op, Reach, Stmt, TensorId, TileId, VArg, VecOp};
use kbc_diag::Diagnostic;
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::types::DType;
use std::collections::BTreeSet;

/// Checks T2 and T8.
pub(super) fn check(sink: &mut Sink<'_>) {
    let kernel = sink.kernel;
    let mut walk = Walk { sink, path: vec![], loops: vec![], stored: BTreeSet::new() };
    walk.block(&kernel.body, 0);
    let stored = walk.stored;
    for (i, t) in kernel.tensors.iter().enumerate() {
        if t.access == Access::Out && !stored.contains(&TensorId(i as u32)) {
            let d = Diagnostic::error("E459", format!("nothing writes {}, which is an output", t.name));
            sink.at(&[], d.note("an output is not copied in: its bytes would be anything"));
        }
    }
}

struct Walk<'s, 'k> {
    sink: &'s mut Sink<'k>,
    path: Path,
    /// Loops over tiles around this place: length, elements of a full tile.
    loops: Vec<(Name, u32)>,
    stored: BTreeSet<TensorId>,
}

fn shape(text: String) -> Diagnostic {
    Diagnostic::error("E459", text)
}

fn instruction(text: String) -> Diagnostic {
    Diagnostic::error("E451", text)
}

/// Whether a number is a value of a type; for floating-point types every number is rounded to one.
fn holds(dtype: DType, n: f64) -> bool {
    let range = |lo: f64, hi: f64| n.fract() == 0.0 && (lo..=hi).contains(&n);
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => true,
        DType::I32 => range(f64::from(i32::MIN), f64::from(i32::MAX)),
        DType::I16 => range(f64::from(i16::MIN), f64::from(i16::MAX)),
        DType::I8 => range(-128.0, 127.0),
        DType::U8 => range(0.0, 255.0),
        DType::I64 => range(-9_007_199_254_740_992.0, 9_007_199_254_740_992.0),
    }
}

impl Walk<'_, '_> {
    fn block(&mut self, list: &[Stmt], first: usize) {
        for (i, s) in list.iter().enumerate() {
            self.path.push((first + i) as u32);
            match s {
                Stmt::For { body, .. } => self.block(body, 0),
                Stmt::Tiles { len, step, body, .. } => {
                    if *step == 0 {
                        self.sink.at(&self.path, shape("a loop over tiles by steps of 0".into()));
                    }
                    self.loops.push((len.clone(), *step));
                    self.block(body, 0);
                    self.loops.pop();
                }
                Stmt::If { then, other, .. } => {
                    self.block(then, 0);
                    self.block(other, then.len());
                }
                Stmt::Op(op) => self.op(op),
                Stmt::Let { .. } | Stmt::Note { .. } => {}
            }
            self.path.pop();
        }
    }

    fn report(&mut self, op: &Op, d: Diagnostic) {
        self.sink.op(&self.path, op, d);
    }

    /// The length of an operation on tiles.
    fn len(&mut self, op: &Op, len: &Expr, tiles: &[TileId]) {
        let most = match len {
            Expr::Int(n) if *n > 0 => *n,
            Expr::Var(n) => match self.loops.iter().find(|(l, _)| l == n) {
                Some((_, step)) => i64::from(*step),
                None => return self.report(op, shape(format!("`{n}` is not the length of a tile here"))),
            },
            e => {
                let d = shape(format!("{e} is not the length of a tile"));
                return self.report(
                    op,
                    d.help("a length is that of the loop over tiles around it, or a positive number"),
                );
            }
        };
        for t in tiles {
            let t = self.sink.kernel.tile(*t);
            if most > i64::from(t.elements) {
                let text = format!("up to {most} elements of tile {}, which has {}", t.name, t.elements);
                self.report(op, shape(text));
            }
        }
    }

    /// Tiles of one operation are alike: instructions take one type and one static length.
    fn alike(&mut self, op: &Op, tiles: &[TileId]) {
        let k = self.sink.kernel;
        let first = k.tile(tiles[0]);
        if let Some(t) = tiles.iter().map(|t| k.tile(*t)).find(|t| t.dtype != first.dtype) {
            let text = format!("tile {} of {} with tile {} of {}", t.name, t.dtype, first.name, first.dtype);
            self.report(op, shape(text).help("convert one of them"));
        }
        if let Some(t) = tiles.iter().map(|t| k.tile(*t)).find(|t| t.elements != first.elements) {
            let text = format!(
                "tile {} of {} elements with tile {} of {}",
                t.name, t.elements, first.name, first.elements
            );
            self.report(op, shape(text));
        }
    }

    fn transfer(&mut self, op: &Op, tile: TileId, gm: &Gm, write: bool) {
        let k = self.sink.kernel;
        let (have, want) = (k.tile(tile).dtype, k.dtype(gm.object));
        if have != want {
            let text = format!("a tile of {have} for memory of {want}");
            self.report(op, shape(text).help("convert in UB: a transfer moves bytes"));
        }
        match gm.object {
            Object::Tensor(t) => {
                let tensor = k.tensor(t);
                if gm.peer.is_some() {
                    self.report(op, shape(format!("{} is a tensor, which no peer reaches", tensor.name)));
                }
                if gm.slot != Expr::Int(0) {
                    self.report(op, shape(format!("{} is a tensor, which has no slots", tensor.name)));
                }
                if write && tensor.access == Access::In {
                    self.report(op, shape(format!("{} is written and is an input", tensor.name)));
                }
                if write {
                    self.stored.insert(t);
                }
            }
            Object::Area(a) => {
                let area = k.area(a);
                if gm.peer.is_some() && area.reach == Reach::Own {
                    self.report(
                        op,
                        shape(format!("{} is this rank's own, which no peer reaches", area.name)),
                    );
                }
            }
        }
        if matches!(gm.offset, Expr::Int(n) if n < 0) || matches!(gm.slot, Expr::Int(n) if n < 0) {
            self.report(op, shape("a place in front of its memory".into()));
        }
    }

    fn vector(&mut self, op: &Op, which: VecOp, dst: TileId, args: &[VArg], len: &Expr) {
        let mut tiles = vec![dst];
        let mut number = None;
        for (i, a) in args.iter().enumerate() {
            match a {
                VArg::Tile(t) => tiles.push(*t),
                VArg::Num(n) if i + 1 == args.len() => number = Some(*n),
                VArg::Num(_) => {
                    self.report(op, instruction("a number that is not the last operand".into()));
                }
            }
        }
        if args.len() != which.arity() || (which == VecOp::Fill) != (which.arity() == 1 && number.is_some()) {
            let text = format!("{} takes {} operands", which.name(), which.arity());
            self.report(
                op,
                instruction(text).note("`fill` takes a number, and no other takes a number alone"),
            );
        }
        self.alike(op, &tiles);
        self.len(op, len, &tiles);
        let dtype = self.sink.kernel.tile(dst).dtype;
        let by = if number.is_some() { " and a number" } else { "" };
        if let Err(why) = self.sink.profile.vector(which, dtype, number.is_some()) {
            self.report(op, instruction(format!("there is no {} of {dtype}{by}", which.name())).note(why));
        }
        if let Some(n) = number.filter(|n| !holds(dtype, *n)) {
            self.report(op, instruction(format!("{n:?} is no value of {dtype}")));
        }
    }

    fn op(&mut self, op: &Op) {
        let (k, profile) = (self.sink.kernel, self.sink.profile);
        match op {
            Op::Load { tile, len, from: gm } | Op::Store { to: gm, tile, len } => {
                self.transfer(op, *tile, gm, matches!(op, Op::Store { .. }));
                self.len(op, len, &[*tile]);
            }
            Op::Vector { op: which, dst, args, len } => self.vector(op, *which, *dst, args, len),
            Op::Select { cmp, dst, a, b, x, y, mask, len } => {
                let tiles = [*dst, *a, *b, *x, *y];
                self.alike(op, &tiles);
                self.len(op, len, &tiles);
                let t = k.tile(*dst);
                if let Err(why) = profile.compare(*cmp, t.dtype) {
                    let text = format!("there is no comparison {} of {}", cmp.symbol(), t.dtype);
                    self.report(op, instruction(text).note(why));
                    return;
                }
                let step = profile.select_step(t.dtype);
                if t.elements % step != 0 {
                    let text = format!("tile {} is no multiple of {step} elements", t.name);
                    self.report(op, shape(text).note("comparisons read whole steps of 256 bytes"));
                }
                let (m, need) = (k.tile(*mask), profile.mask_bytes(t.elements, t.dtype));
                if m.dtype != DType::U8 || m.elements < need {
                    let text = format!("mask {} is not {need} elements of u8", m.name);
                    self.report(op, shape(text).note("a bit an element, and 32 bytes that `select` uses"));
                }
                if tiles.contains(mask) {
                    self.report(op, shape(format!("mask {} is an operand too", m.name)));
                }
            }
            Op::Convert { dst, src, rounding } => {
                let (d, s) = (k.tile(*dst), k.tile(*src));
                let have = profile.convert(s.dtype, d.dtype);
                if !have.contains(rounding) {
                    let text = format!("there is no conversion of {} to {} ({rounding:?})", s.dtype, d.dtype);
                    let note = format!("roundings there are: {have:?}");
                    self.report(op, instruction(text).note(note));
                }
                if d.elements != s.elements {
                    let text = format!("{} elements become {}", s.elements, d.elements);
                    self.report(op, shape(text).note("a conversion is of a whole tile"));
                }
            }
            Op::Barrier(b) if !profile.barrier(*b) => {
                self.report(op, instruction("the core has no such barrier".into()));
            }
            _ => {}
        }
    }
}
