//! Golden values of tile kernels: their meaning with one tile per loop, statement by statement.

use super::elementwise::{Elementwise, Names, Numbers, arguments, broken};
use kbc_diag::Diagnostic;
use kbc_ir::graph::GraphOp;
use kbc_ir::tiles::{Index, Stmt, Tile, TileKernel};
use kbc_ir::types::DType;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A value of a tile kernel and its Python name.
#[derive(Clone)]
struct Value {
    name: String,
    dtype: DType,
    index: Vec<Index>,
}

struct Tiles<'a> {
    op: &'a GraphOp,
    kernel: &'a TileKernel,
    args: &'a [String],
    numbers: Numbers,
    /// Whether the ranks' parts of the result are summed.
    shared: bool,
    names: &'a mut Names,
    values: BTreeMap<u32, Option<Value>>,
    out: String,
    result: Option<String>,
}

/// Returns the statements that compute the result of a tile kernel, and the name of the result.
///
/// # Errors
/// Returns E457 if the ranks' parts have a narrow type and are summed, unless each of them is a
/// single matmul; and if operands do not fit.
pub(super) fn tiles(
    op: &GraphOp,
    kernel: &TileKernel,
    args: &[String],
    numbers: Numbers,
    names: &mut Names,
) -> Result<(String, String), Diagnostic> {
    let shared = op.ty.as_ref().is_some_and(|t| t.partial.is_some());
    if args.len() != kernel.params.len() {
        return Err(broken(op, "its operands do not match its kernel"));
    }
    let (values, out) = (BTreeMap::new(), String::new());
    let mut t = Tiles { op, kernel, args, numbers, shared, names, values, out, result: None };
    t.body(&kernel.body)?;
    let result = t.result.take().ok_or_else(|| broken(op, "it has no `store`"))?;
    Ok((t.out, result))
}

impl Tiles<'_> {
    fn bounded(&self) -> bool {
        self.numbers == Numbers::Bounded
    }

    fn named(&mut self, hint: &str, value: &str) -> String {
        let name = self.names.fresh(&hint.into());
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "    {name} = {value}");
        name
    }

    fn body(&mut self, list: &[Stmt]) -> Result<(), Diagnostic> {
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
                            let hint = self.kernel.values[*value as usize].to_string();
                            let mut text = format!("{} + {}", sum.name, more.name);
                            if !sum.dtype.is_float() {
                                text = format!("stored({text}, \"{}\")", sum.dtype);
                            }
                            let index =
                                if more.index.len() > sum.index.len() { more.index } else { sum.index };
                            Value { name: self.named(&hint, &text), dtype: sum.dtype, index }
                        }
                    };
                    self.values.insert(*value, Some(sum));
                }
                Stmt::Store { index, is } => self.store(index, is)?,
            }
        }
        Ok(())
    }

    fn store(&mut self, index: &[Index], is: &Tile) -> Result<(), Diagnostic> {
        let dtype = self.kernel.result.dtype;
        let v = if self.shared && self.bounded() && dtype != DType::F32 {
            self.part(is, dtype)?
        } else {
            self.tile(is)?
        };
        let mut name = v.name;
        if v.index != index {
            let sizes: Vec<String> = index.iter().map(|i| self.size(i)).collect();
            let shape = crate::package::python::tuple(sizes);
            let text = match self.bounded() {
                true => format!("moved(lambda t: t[0].expand({shape}), {name})"),
                false => format!("{name}.expand({shape})"),
            };
            name = self.named(self.kernel.result.name.as_str(), &text);
        }
        self.result = Some(name);
        Ok(())
    }

    /// Prints a part that is rounded on every rank before the parts are summed: it must be a single
    /// matmul.
    fn part(&mut self, is: &Tile, dtype: DType) -> Result<Value, Diagnostic> {
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
        let text = format!("matmul({}, {}, \"{dtype}\", shared=True)", a.name, b.name);
        let mut index = a.index;
        index.pop();
        index.extend(b.index.last().copied());
        Ok(Value { name: self.named(self.kernel.result.name.as_str(), &text), dtype, index })
    }

    /// Prints the size of a dimension, read from some operand that has this dimension.
    fn size(&self, i: &Index) -> String {
        let of = |(side, index): (Option<u32>, &[Index])| {
            let at = index.iter().position(|j| j == i)?;
            let value = if self.bounded() { ".value" } else { "" };
            Some(format!("{}{value}.shape[{at}]", self.args[side? as usize]))
        };
        match i {
            Index::At(_) => "1".into(),
            Index::Var(_) => self.kernel.accesses().into_iter().find_map(of).unwrap_or_else(|| "1".into()),
        }
    }

    fn tile(&mut self, t: &Tile) -> Result<Value, Diagnostic> {
        let bounded = self.bounded();
        Ok(match t {
            Tile::Load { param, index } => {
                let (mut name, side) =
                    (self.args[*param as usize].clone(), &self.kernel.params[*param as usize]);
                let (dtype, hint) = (side.dtype, side.name.to_string());
                for (d, i) in index.iter().enumerate() {
                    let Index::At(at) = i else { continue };
                    let text = match bounded {
                        true => format!("moved(lambda t: t[0].narrow({d}, {at}, 1), {name})"),
                        false => format!("{name}.narrow({d}, {at}, 1)"),
                    };
                    name = self.named(&hint, &text);
                }
                Value { name, dtype, index: index.clone() }
            }
            Tile::Value(v) => {
                let known = self.values.get(v).cloned().flatten();
                known.ok_or_else(|| broken(self.op, "it reads an empty sum"))?
            }
            Tile::Dot(a, b) => {
                let (a, b) = (self.tile(a)?, self.tile(b)?);
                let float = a.dtype.is_float();
                let text = match (bounded && float, float) {
                    (true, _) => format!("matmul({}, {}, \"f32\")", a.name, b.name),
                    (_, true) => format!("torch.matmul({}, {})", a.name, b.name),
                    (_, false) => return Err(broken(self.op, "there is no kernel for a matmul of integers")),
                };
                let mut index = a.index;
                index.pop();
                index.extend(b.index.last().copied());
                Value { name: self.named("product", &text), dtype: DType::F32, index }
            }
            Tile::Map(f, of) => {
                let of = of.iter().map(|a| self.tile(a)).collect::<Result<Vec<_>, _>>()?;
                let dtype = of.first().map_or(DType::F32, |a| a.dtype);
                let args: Vec<String> = of.iter().map(|a| a.name.clone()).collect();
                let mut text = Elementwise { args: &args, dtype, numbers: self.numbers }.scalar(&f.body);
                let read = arguments(&f.body);
                if !(0..args.len()).all(|i| read.contains(&i)) {
                    text = match bounded {
                        true => format!("spread({text}, {})", args.join(", ")),
                        false => format!("torch.broadcast_tensors({text}, {})[0]", args.join(", ")),
                    };
                }
                if bounded && dtype.computes_in_f32() && dtype != DType::F32 {
                    text = format!("stored({text}, \"{dtype}\")");
                }
                let index = wider(of.into_iter().map(|a| a.index));
                Value { name: self.named(f.name.as_str(), &text), dtype, index }
            }
            Tile::Cast(to, a) => {
                let a = self.tile(a)?;
                let text = match bounded {
                    true => format!("stored({}, \"{to}\")", a.name),
                    false => format!("stored({}.to(torch.float64), \"{to}\")", a.name),
                };
                Value { name: self.named(to.name(), &text), dtype: *to, index: a.index }
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
