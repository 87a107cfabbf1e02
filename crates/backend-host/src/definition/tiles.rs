//! Tile kernels of a definition: their meaning with one tile per loop, statement by statement.

use super::{Definer, broken, list, narrow};
use kbc_diag::Diagnostic;
use kbc_ir::graph::GraphOp;
use kbc_ir::tiles::{Index, Stmt, Tile, TileKernel};
use kbc_ir::types::DType;
use std::collections::BTreeMap;

/// A value of a tile kernel and its name in C.
#[derive(Clone)]
struct Value {
    name: String,
    dtype: DType,
    index: Vec<Index>,
}

struct Tiles<'a, 'p, 'f> {
    op: &'a GraphOp,
    kernel: &'a TileKernel,
    args: &'a [String],
    /// Whether the ranks' parts of the result are summed.
    shared: bool,
    values: BTreeMap<u32, Option<Value>>,
    out: &'a mut Definer<'p, 'f>,
    result: Option<String>,
}

type R<T> = Result<T, Diagnostic>;

impl Definer<'_, '_> {
    /// Adds the statements of a tile kernel; returns the name of its result.
    pub(super) fn tiles(&mut self, op: &GraphOp, kernel: &TileKernel, args: &[String]) -> R<String> {
        let shared = op.ty.as_ref().is_some_and(|t| t.partial.is_some());
        if args.len() != kernel.params.len() {
            return Err(broken(op, "its operands do not match its kernel"));
        }
        let mut t = Tiles { op, kernel, args, shared, values: BTreeMap::new(), out: self, result: None };
        t.body(&kernel.body)?;
        t.result.take().ok_or_else(|| broken(op, "it has no `store`"))
    }
}

impl Tiles<'_, '_, '_> {
    fn body(&mut self, list: &[Stmt]) -> R<()> {
        for s in list {
            match s {
                Stmt::Preload { .. } => {}
                Stmt::For { body, .. } => self.body(body)?,
                Stmt::Zeros { value, .. } => {
                    self.values.insert(*value, None);
                }
                Stmt::Let { value, is } => {
                    let v = self.tile(is)?;
                    self.values.insert(*value, Some(v));
                }
                Stmt::Add { value, is } => {
                    let more = self.tile(is)?;
                    let sum = match self.values.get(value).cloned().flatten() {
                        None => more,
                        Some(sum) => {
                            let name = self.out.sum(&sum.name, &more.name, sum.dtype);
                            let index =
                                if more.index.len() > sum.index.len() { more.index } else { sum.index };
                            Value { name, dtype: sum.dtype, index }
                        }
                    };
                    self.values.insert(*value, Some(sum));
                }
                Stmt::Store { index, is } => self.store(index, is)?,
            }
        }
        Ok(())
    }

    fn store(&mut self, index: &[Index], is: &Tile) -> R<()> {
        let dtype = self.kernel.result.dtype;
        let v = if self.shared && !self.out.exact && dtype != DType::F32 {
            self.part(is, dtype)?
        } else {
            self.tile(is)?
        };
        let mut name = v.name;
        if v.index != index {
            let sizes: Vec<String> = index.iter().map(|i| self.size(i)).collect();
            let sizes = format!("KBC_LIST({})", sizes.join(", "));
            name = self.out.named(&format!("kbc_spread(d, {name}, {}, {sizes})", index.len()));
        }
        self.result = Some(name);
        Ok(())
    }

    /// Adds a part that is rounded on every rank before the parts are summed: it must be a single
    /// matmul.
    fn part(&mut self, is: &Tile, dtype: DType) -> R<Value> {
        let why = "there is an error bound for parts of a narrow type only if they are one matmul";
        let mut at = is;
        let mut dots = vec![];
        while let Tile::Cast(_, inner) = at {
            at = inner;
        }
        if let Tile::Value(v) = at {
            added(&self.kernel.body, *v, &mut dots);
        }
        let [Tile::Dot(a, b)] = dots[..] else { return Err(broken(self.op, why)) };
        if !matches!((a.as_ref(), b.as_ref()), (Tile::Load { .. }, Tile::Load { .. })) {
            return Err(broken(self.op, why));
        }
        let (a, b) = (self.tile(a)?, self.tile(b)?);
        let name = self.out.named(&format!("kbc_matmul(d, {}, {}, KBC_{dtype}, 1)", a.name, b.name));
        let mut index = a.index;
        index.pop();
        index.extend(b.index.last().copied());
        Ok(Value { name, dtype, index })
    }

    /// Prints the size of a dimension, read from some operand that has this dimension.
    fn size(&self, i: &Index) -> String {
        let of = |(side, index): (Option<u32>, &[Index])| {
            let at = index.iter().position(|j| j == i)?;
            Some(format!("{}.size[{at}]", self.args[side? as usize]))
        };
        match i {
            Index::At(_) => "1".into(),
            Index::Var(_) => self.kernel.accesses().into_iter().find_map(of).unwrap_or_else(|| "1".into()),
        }
    }

    fn tile(&mut self, t: &Tile) -> R<Value> {
        Ok(match t {
            Tile::Load { param, index } => {
                let mut name = self.args[*param as usize].clone();
                let dtype = self.kernel.params[*param as usize].dtype;
                for (d, i) in index.iter().enumerate() {
                    if let Index::At(at) = i {
                        name = self.out.named(&format!("kbc_narrowed(d, {name}, {d}, {at}, 1)"));
                    }
                }
                Value { name, dtype, index: index.clone() }
            }
            Tile::Value(v) => {
                let known = self.values.get(v).cloned().flatten();
                known.ok_or_else(|| broken(self.op, "it reads an empty sum"))?
            }
            Tile::Dot(a, b) => {
                let (a, b) = (self.tile(a)?, self.tile(b)?);
                let (text, dtype) = match a.dtype.is_float() {
                    true => (format!("kbc_matmul(d, {}, {}, KBC_f32, 0)", a.name, b.name), DType::F32),
                    false => {
                        (format!("kbc_matmul_of_integers(d, {}, {}, KBC_i32)", a.name, b.name), DType::I32)
                    }
                };
                let mut index = a.index;
                index.pop();
                index.extend(b.index.last().copied());
                Value { name: self.out.named(&text), dtype, index }
            }
            Tile::Map(f, of) => {
                let of = of.iter().map(|a| self.tile(a)).collect::<R<Vec<_>>>()?;
                let dtype = of.first().map_or(DType::F32, |a| a.dtype);
                let args: Vec<String> = of.iter().map(|a| a.name.clone()).collect();
                let name = if args.is_empty() {
                    let function = self.out.functions.of(&f.body, dtype, narrow(dtype));
                    self.out.named(&format!("kbc_filled(d, 1, {}, {function}(0))", list([1])))
                } else {
                    self.out.mapped(&f.body, dtype, narrow(dtype), &args)
                };
                let index = wider(of.into_iter().map(|a| a.index));
                Value { name, dtype, index }
            }
            Tile::Cast(to, a) => {
                let a = self.tile(a)?;
                let name = self.out.named(&format!("kbc_cast(d, {}, 1, KBC_{to})", a.name));
                Value { name, dtype: *to, index: a.index }
            }
        })
    }
}

/// Collects the tiles that are added to a value.
fn added<'k>(list: &'k [Stmt], value: u32, out: &mut Vec<&'k Tile>) {
    for s in list {
        match s {
            Stmt::For { body, .. } => added(body, value, out),
            Stmt::Add { value: v, is } if *v == value => out.push(is),
            _ => {}
        }
    }
}

/// Returns the dimensions of several values, aligned from the right.
fn wider(all: impl Iterator<Item = Vec<Index>>) -> Vec<Index> {
    all.fold(vec![], |a, b| {
        let (mut long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
        let lead = long.len() - short.len();
        for (l, s) in long[lead..].iter_mut().zip(short) {
            if matches!(l, Index::At(_)) {
                *l = s;
            }
        }
        long
    })
}
