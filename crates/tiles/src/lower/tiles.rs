//! Tile kernels as matmuls and elementwise functions of whole tensors, which the cores can compute.
//!
//! No element of a tile kernel's result depends on where its tiles begin
//! (`docs/adr/039-tile-kernels.md`), so the kernel has the meaning that it would have with one tile
//! per loop. Every `dot` becomes a matmul on a matrix core, in blocks of the loops' own tiles if
//! these are small enough. What is between matmuls becomes functions on vector cores, whose values
//! are in memory. Consecutive functions of f32 and of integers become one function, and a value
//! that is cast is rounded where it is stored, so that no value is written only to be read by the
//! next function.

use super::errors::refuse;
use kbc_diag::{Diagnostic, Span};
use kbc_ir::expr::Expr;
use kbc_ir::scalar::{Compare, Scalar, ScalarBin, ScalarFn};
use kbc_ir::schedule::{Buffer, BufferId, BufferRole, Filling, LocalOp, SOp, SStmt, Schedule};
use kbc_ir::tiles::{Index, Stmt, Tile, TileKernel};
use kbc_ir::types::{CutRule, DType, MemKind};
use std::collections::{BTreeMap, BTreeSet};

/// What is known about operations that were parts of tile kernels.
#[derive(Default)]
pub(super) struct Parts {
    /// Rows and columns of the blocks of the matmul that makes a buffer.
    pub blocks: BTreeMap<BufferId, [u32; 2]>,
    /// Buffers of a narrow type whose function is computed in f32 and rounded where it is stored.
    pub wide: BTreeSet<BufferId>,
}

/// Maximum number of nodes of a function that is substituted into another one; the value of a
/// larger function is stored.
const LARGEST: usize = 200;

/// Returns the schedule with its tile kernels split; `None` if it has none.
///
/// # Errors
/// Returns E470 for a single element of a dimension whose size depends on the rank, and for
/// `preload`.
pub(super) fn split_tile_kernels(schedule: &Schedule) -> Result<Option<(Schedule, Parts)>, Diagnostic> {
    let mut parts = Parts::default();
    let mut out = schedule.clone();
    let mut found = false;
    for r in 0..out.regions.len() {
        for role in 0..out.regions[r].roles.len() {
            for s in 0..out.regions[r].roles[role].streams.len() {
                let body = std::mem::take(&mut out.regions[r].roles[role].streams[s].body);
                let body = list(body, &mut out.buffers, &mut parts, &mut found)?;
                out.regions[r].roles[role].streams[s].body = body;
            }
        }
    }
    Ok(found.then_some((out, parts)))
}

fn list(
    stmts: Vec<SStmt>,
    buffers: &mut Vec<Buffer>,
    parts: &mut Parts,
    found: &mut bool,
) -> Result<Vec<SStmt>, Diagnostic> {
    let mut out = vec![];
    for s in stmts {
        match s {
            SStmt::For { var, lo, hi, body } => {
                out.push(SStmt::For { var, lo, hi, body: list(body, buffers, parts, found)? });
            }
            SStmt::If { cond, then, other } => {
                let (then, other) = (list(then, buffers, parts, found)?, list(other, buffers, parts, found)?);
                out.push(SStmt::If { cond, then, other });
            }
            SStmt::Op(SOp::Local(LocalOp::Tiles { kernel, dst, args }), span) => {
                *found = true;
                let mut m = Maker {
                    kernel: &kernel,
                    args: &args,
                    dst,
                    span,
                    buffers,
                    parts,
                    ops: vec![],
                    values: BTreeMap::new(),
                    uses: BTreeMap::new(),
                };
                m.count(&kernel.body);
                m.body(&kernel.body)?;
                out.extend(m.ops.into_iter().map(|op| SStmt::Op(SOp::Local(op), span)));
            }
            op => out.push(op),
        }
    }
    Ok(out)
}

/// A whole value of a kernel.
#[derive(Clone)]
struct Value {
    dtype: DType,
    /// The variable that runs along each dimension.
    index: Vec<Index>,
    dims: Vec<Expr>,
    is: ValueForm,
}

#[derive(Clone)]
enum ValueForm {
    /// Elements in memory.
    Stored(BufferId),
    /// A function, in f32 or integers, of elements in memory.
    Function(Scalar, Vec<BufferId>),
}

struct Maker<'a> {
    kernel: &'a TileKernel,
    args: &'a [BufferId],
    dst: BufferId,
    span: Span,
    buffers: &'a mut Vec<Buffer>,
    parts: &'a mut Parts,
    ops: Vec<LocalOp>,
    /// Values that were computed, and sums so far.
    values: BTreeMap<u32, Value>,
    /// Number of reads of each value.
    uses: BTreeMap<u32, usize>,
}

type R<T> = Result<T, Diagnostic>;

impl Maker<'_> {
    fn count(&mut self, list: &[Stmt]) {
        fn tile(t: &Tile, uses: &mut BTreeMap<u32, usize>) {
            match t {
                Tile::Load { .. } => {}
                Tile::Value(v) => *uses.entry(*v).or_default() += 1,
                Tile::Dot(a, b) => [a, b].into_iter().for_each(|t| tile(t, uses)),
                Tile::Map(_, args) => args.iter().for_each(|t| tile(t, uses)),
                Tile::Cast(_, a) => tile(a, uses),
            }
        }
        for s in list {
            match s {
                Stmt::For { body, .. } => self.count(body),
                Stmt::Preload { .. } | Stmt::Zeros { .. } => {}
                Stmt::Let { is, .. } | Stmt::Add { is, .. } | Stmt::Store { is, .. } => {
                    tile(is, &mut self.uses)
                }
            }
        }
    }

    /// Converts statements as if every loop had one tile.
    fn body(&mut self, list: &[Stmt]) -> R<()> {
        for s in list {
            match s {
                Stmt::Preload { .. } => {
                    let help = "remove `preload`: cores load blocks of their operands";
                    return Err(refuse(self.span, "an operand with `preload`", help));
                }
                Stmt::For { body, .. } => self.body(body)?,
                Stmt::Zeros { value, dtype, index } => {
                    let (dtype, index) = (*dtype, index.clone());
                    let dims = self.dims(&index);
                    let zero =
                        Value { dtype, index, dims, is: ValueForm::Function(Scalar::Num(0.0), vec![]) };
                    self.values.insert(*value, zero);
                }
                Stmt::Let { value, is } => {
                    let v = self.tile(is)?;
                    self.values.insert(*value, v);
                }
                Stmt::Add { value, is } => self.add(*value, is)?,
                Stmt::Store { is, index } => self.store(is, index)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, value: u32, is: &Tile) -> R<()> {
        let more = self.tile(is)?;
        let Some(sum) = self.values.remove(&value) else { return Err(self.broken()) };
        // A matmul already adds to zeros.
        let begins = matches!(&sum.is, ValueForm::Function(Scalar::Num(_), _));
        let new = if begins && matches!(is, Tile::Dot(..)) && more.index == sum.index {
            more
        } else {
            let plus = Scalar::Bin(ScalarBin::Add, Box::new(Scalar::Arg(0)), Box::new(Scalar::Arg(1)));
            let (dtype, index, dims) = (sum.dtype, sum.index.clone(), sum.dims.clone());
            let is = self.function(&plus, vec![sum, more])?;
            Value { dtype, index, dims, is }
        };
        self.values.insert(value, new);
        Ok(())
    }

    fn store(&mut self, is: &Tile, index: &[Index]) -> R<()> {
        let (is, rounded) = match is {
            Tile::Cast(to, inner) => (inner.as_ref(), Some(*to)),
            is => (is, None),
        };
        let v = self.tile(is)?;
        let dtype = rounded.unwrap_or(v.dtype);
        let made = |m: &Self, b: BufferId| {
            let product = |op: &LocalOp| matches!(op, LocalOp::Matmul { dst, .. } if *dst == b);
            let read = m.ops.iter().any(|op| op.srcs().contains(&b));
            m.ops.iter().position(product).filter(|_| !read)
        };
        let whole = v.index == index;
        match v.is {
            // The matmul itself rounds where it stores.
            ValueForm::Stored(b) if whole && let Some(at) = made(self, b) => {
                if let LocalOp::Matmul { dst, .. } = &mut self.ops[at] {
                    *dst = self.dst;
                }
                let blocks = self.parts.blocks.remove(&b);
                self.parts.blocks.extend(blocks.map(|s| (self.dst, s)));
            }
            ValueForm::Stored(b) if whole && v.dtype == dtype => {
                self.ops.push(LocalOp::Copy { dst: self.dst, src: b });
            }
            is => {
                let (body, args) = match is {
                    ValueForm::Stored(b) => (Scalar::Arg(0), vec![b]),
                    ValueForm::Function(body, args) => (body, args),
                };
                self.compute(self.dst, body, args, v.dtype, dtype);
            }
        }
        Ok(())
    }

    /// Adds a function into a buffer of type `to`. If `to` is narrower than the type in which the
    /// function is computed, the value is rounded there.
    fn compute(&mut self, dst: BufferId, body: Scalar, args: Vec<BufferId>, from: DType, to: DType) {
        if from != to {
            self.parts.wide.insert(dst);
        }
        let params = (0..args.len()).map(|i| format!("x{i}").into()).collect();
        let func = ScalarFn { name: self.kernel.name.clone(), params, body };
        let number = if args.is_empty()
            && let Scalar::Num(v) = &func.body
        {
            Some(*v)
        } else {
            None
        };
        self.ops.push(match number {
            Some(v) => LocalOp::Fill { dst, with: Filling::Number(v) },
            None => LocalOp::Compute { func, dst, args },
        });
    }

    fn tile(&mut self, t: &Tile) -> R<Value> {
        match t {
            Tile::Load { param, index } => self.load(*param, index),
            Tile::Value(v) => {
                let known = self.values.get(v).cloned().ok_or_else(|| self.broken())?;
                let again = self.uses.get(v).is_some_and(|n| *n > 1);
                if let (true, ValueForm::Function(_, args)) = (again, &known.is)
                    && !args.is_empty()
                {
                    let kept = self.stored(known)?;
                    self.values.insert(*v, kept.clone());
                    return Ok(kept);
                }
                Ok(known)
            }
            Tile::Dot(a, b) => {
                let (a, b) = (self.tile(a)?, self.tile(b)?);
                let (a, b) = (self.stored(a)?, self.stored(b)?);
                self.product(&a, &b)
            }
            Tile::Map(f, args) => {
                let args = args.iter().map(|a| self.tile(a)).collect::<R<Vec<_>>>()?;
                let dtype = args.first().map_or(DType::F32, |a| a.dtype);
                let (index, dims) = spread(&args);
                if matches!(dtype, DType::F32 | DType::I32) {
                    let is = self.function(&f.body, args)?;
                    return Ok(Value { dtype, index, dims, is });
                }
                // In a narrow type, the result of each function is rounded.
                let args = args.into_iter().map(|a| self.in_memory(a)).collect::<R<Vec<_>>>()?;
                let dst = self.temp(dtype, dims.clone());
                self.compute(dst, f.body.clone(), args, dtype, dtype);
                Ok(Value { dtype, index, dims, is: ValueForm::Stored(dst) })
            }
            Tile::Cast(to, a) => {
                let v = self.tile(a)?;
                let Value { dtype, index, dims, is } = v;
                if dtype == *to {
                    return Ok(Value { dtype, index, dims, is });
                }
                let is = match (is, to) {
                    // A function widens the value when it loads it.
                    (ValueForm::Stored(b), DType::F32) => ValueForm::Function(Scalar::Arg(0), vec![b]),
                    (ValueForm::Stored(b), _) if dtype != DType::F32 => {
                        let dst = self.temp(*to, dims.clone());
                        self.ops.push(LocalOp::Cast { dst, src: b });
                        ValueForm::Stored(dst)
                    }
                    (is, _) => {
                        let (body, args) = match is {
                            ValueForm::Stored(b) => (Scalar::Arg(0), vec![b]),
                            ValueForm::Function(body, args) => (body, args),
                        };
                        let dst = self.temp(*to, dims.clone());
                        self.compute(dst, body, args, dtype, *to);
                        ValueForm::Stored(dst)
                    }
                };
                Ok(Value { dtype: *to, index, dims, is })
            }
        }
    }

    /// Returns an operand. In dimensions that are indexed by a number, it has that one element.
    fn load(&mut self, param: u32, index: &[Index]) -> R<Value> {
        let mut b = self.args[param as usize];
        let dtype = self.buffers[b.0 as usize].dtype;
        for (d, i) in index.iter().enumerate() {
            let mut dims = self.buffers[b.0 as usize].dims.clone();
            let Index::At(at) = i else { continue };
            if dims[d] == Expr::Int(1) {
                continue;
            }
            let Some(of) = dims[d].as_int() else {
                let help = "make the dimension whole on every rank, or `slice` it before the kernel";
                return Err(refuse(self.span, "a single element of a split dimension", help));
            };
            dims[d] = Expr::Int(1);
            let dst = self.temp(dtype, dims);
            let (index, of) = (Expr::Int(*at as i64), of as u64);
            let dim = d as u32;
            self.ops.push(LocalOp::Slice { dst, src: b, dim, index, of, rule: CutRule::Even });
            b = dst;
        }
        let dims = self.buffers[b.0 as usize].dims.clone();
        Ok(Value { dtype, index: index.to_vec(), dims, is: ValueForm::Stored(b) })
    }

    fn product(&mut self, a: &Value, b: &Value) -> R<Value> {
        let (ValueForm::Stored(left), ValueForm::Stored(right)) = (&a.is, &b.is) else {
            return Err(self.broken());
        };
        let (left, right) = (*left, *right);
        let dtype = if a.dtype.is_float() { DType::F32 } else { DType::I32 };
        let (mut index, mut dims) = (a.index.clone(), a.dims.clone());
        let (Some(_), Some(n)) = (index.pop(), b.index.last().copied()) else { return Err(self.broken()) };
        dims.pop();
        let m = index.last().copied().unwrap_or(n);
        index.push(n);
        dims.extend(b.dims.last().cloned());
        let dst = self.temp(dtype, dims.clone());
        let block = |i: Index| match i {
            Index::Var(v) => self.kernel.vars[v as usize].tile.min(u32::MAX.into()) as u32,
            Index::At(_) => 1,
        };
        self.parts.blocks.insert(dst, [m, n].map(block));
        self.ops.push(LocalOp::Matmul { dst, a: left, b: right });
        Ok(Value { dtype, index, dims, is: ValueForm::Stored(dst) })
    }

    /// Returns a function of values as a function of what these are computed from, as long as it
    /// stays small.
    fn function(&mut self, body: &Scalar, values: Vec<Value>) -> R<ValueForm> {
        let mut args: Vec<BufferId> = vec![];
        let mut inner = vec![];
        for v in values {
            let large =
                matches!(&v.is, ValueForm::Function(f, _) if size(f) * uses(body, inner.len()) > LARGEST);
            let v = if large { self.stored(v)? } else { v };
            let mut arg = |b: BufferId| {
                let at = args.iter().position(|a| *a == b);
                Scalar::Arg(at.unwrap_or_else(|| {
                    args.push(b);
                    args.len() - 1
                }))
            };
            inner.push(match v.is {
                ValueForm::Stored(b) => arg(b),
                ValueForm::Function(f, of) => {
                    let of: Vec<Scalar> = of.into_iter().map(arg).collect();
                    put(&f, &of)
                }
            });
        }
        Ok(ValueForm::Function(put(body, &inner), args))
    }

    /// Returns the whole value in memory.
    fn stored(&mut self, v: Value) -> R<Value> {
        let ValueForm::Function(body, args) = v.is else { return Ok(v) };
        let dst = self.temp(v.dtype, v.dims.clone());
        self.compute(dst, body, args, v.dtype, v.dtype);
        Ok(Value { is: ValueForm::Stored(dst), ..v })
    }

    fn in_memory(&mut self, v: Value) -> R<BufferId> {
        match self.stored(v)?.is {
            ValueForm::Stored(b) => Ok(b),
            ValueForm::Function(..) => Err(self.broken()),
        }
    }

    /// Creates a buffer of this rank alone.
    fn temp(&mut self, dtype: DType, dims: Vec<Expr>) -> BufferId {
        let stem = self.buffers[self.dst.0 as usize].name.clone();
        let taken = |n: &str| self.buffers.iter().any(|b| b.name.as_str() == n);
        let number = (1..).find(|i| !taken(&format!("{stem}_{i}"))).unwrap_or(0u32);
        self.buffers.push(Buffer {
            name: format!("{stem}_{number}").into(),
            dtype,
            dims,
            memory: MemKind::Hbm,
            zero: false,
            role: BufferRole::Temp,
            global: None,
            span: self.span,
        });
        BufferId(self.buffers.len() as u32 - 1)
    }

    /// Returns the whole sizes of the dimensions that these variables index.
    fn dims(&self, index: &[Index]) -> Vec<Expr> {
        let size = |i: &Index| {
            let of = |(side, index_of): (Option<u32>, &[Index])| {
                let buffer = side.map_or(self.dst, |p| self.args[p as usize]);
                let at = index_of.iter().position(|j| j == i)?;
                self.buffers[buffer.0 as usize].dims.get(at).cloned()
            };
            match i {
                Index::At(_) => Expr::Int(1),
                Index::Var(_) => self.kernel.accesses().into_iter().find_map(of).unwrap_or(Expr::Int(1)),
            }
        };
        index.iter().map(size).collect()
    }

    /// Returns E901: the verifier of the IR should have rejected this kernel.
    fn broken(&self) -> Diagnostic {
        Diagnostic::error("E901", format!("tile kernel {} was not typed correctly", self.kernel.name))
            .primary(self.span, "here")
    }
}

/// Returns the dimensions of values, aligned from the right.
fn spread(values: &[Value]) -> (Vec<Index>, Vec<Expr>) {
    let most = values.iter().map(|v| v.index.len()).max().unwrap_or(0);
    let one = |d: usize| {
        let of = |v: &Value| {
            let at = (v.index.len() + d).checked_sub(most)?;
            Some((v.index[at], v.dims[at].clone()))
        };
        let all: Vec<(Index, Expr)> = values.iter().filter_map(of).collect();
        let wide = all.iter().find(|(i, _)| matches!(i, Index::Var(_))).or(all.first()).cloned();
        wide.unwrap_or((Index::At(0), Expr::Int(1)))
    };
    (0..most).map(one).unzip()
}

/// Returns a function with its arguments replaced.
fn put(e: &Scalar, args: &[Scalar]) -> Scalar {
    let boxed = |e: &Scalar| Box::new(put(e, args));
    match e {
        Scalar::Num(v) => Scalar::Num(*v),
        Scalar::Arg(i) => args.get(*i).cloned().unwrap_or(Scalar::Arg(*i)),
        Scalar::Un(op, a) => Scalar::Un(*op, boxed(a)),
        Scalar::Bin(op, a, b) => Scalar::Bin(*op, boxed(a), boxed(b)),
        Scalar::Pow(a, n) => Scalar::Pow(boxed(a), *n),
        Scalar::If(c, x, y) => {
            let c = Compare { op: c.op, a: put(&c.a, args), b: put(&c.b, args) };
            Scalar::If(Box::new(c), boxed(x), boxed(y))
        }
    }
}

/// Calls `f` with every subexpression of a function.
fn each(e: &Scalar, f: &mut impl FnMut(&Scalar)) {
    f(e);
    match e {
        Scalar::Num(_) | Scalar::Arg(_) => {}
        Scalar::Un(_, a) | Scalar::Pow(a, _) => each(a, f),
        Scalar::Bin(_, a, b) => [a, b].into_iter().for_each(|x| each(x, f)),
        Scalar::If(c, x, y) => [&c.a, &c.b, x, y].into_iter().for_each(|x| each(x, f)),
    }
}

fn size(e: &Scalar) -> usize {
    let mut n = 0;
    each(e, &mut |_| n += 1);
    n
}

fn uses(e: &Scalar, arg: usize) -> usize {
    let mut n = 0;
    each(e, &mut |e| n += usize::from(*e == Scalar::Arg(arg)));
    n
}
