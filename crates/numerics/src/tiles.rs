//! Tile kernels: what a kernel computes, tile by tile.
//!
//! The module owns the order of additions in matmuls. [`crate::scalar_eval`] implements elementwise
//! functions, [`crate::numbers`] rounding. The machine code of `kbc_backend_sim::jit` gives the
//! same bits.

use crate::broadcast::broadcast;
use crate::numbers::{self, Refusal};
use crate::scalar_eval;
use crate::tensor::{Data, Tensor, count};
use kbc_ir::tiles::{Index, Stmt, Tile, TileKernel};
use kbc_ir::types::{DType, ReduceOp};
use std::collections::BTreeMap;

/// Runs a kernel on whole operands. Returns the elements of a result of these sizes.
pub fn run(kernel: &TileKernel, operands: &[&Tensor], sizes: &[u64]) -> Result<Data, Refusal> {
    let shapes: Vec<&[u64]> = operands.iter().map(|t| t.shape()).collect();
    let refuse = |why| Refusal::new(why, "a variable of a kernel must have the same extent in all operands");
    let extents = kernel.extents(&shapes, Some(sizes)).map_err(refuse)?;
    if let Some((p, t)) = kernel.params.iter().zip(operands).find(|(p, t)| p.dtype != t.dtype()) {
        return Err(Refusal::new(format!("{} is {}, not {}", p.name, p.dtype, t.dtype()), "cast it first"));
    }
    let n = count(sizes)
        .ok_or_else(|| Refusal::new("a shape has more than 2^64 elements", "use smaller sizes"))?;
    let result = Tensor::new(sizes.to_vec(), Data::zeros(kernel.result.dtype, n as usize));
    let result =
        result.ok_or_else(|| Refusal::new("the result has another size", "use the size of the kernel"))?;
    let mut r = Run {
        kernel,
        operands,
        ranges: vec![(0, 0); extents.len()],
        extents,
        values: BTreeMap::new(),
        result,
    };
    r.body(&kernel.body)?;
    Ok(r.result.into_data())
}

struct Run<'a> {
    kernel: &'a TileKernel,
    operands: &'a [&'a Tensor],
    extents: Vec<u64>,
    /// For each variable, the elements of the current tile.
    ranges: Vec<(u64, u64)>,
    values: BTreeMap<u32, Tensor>,
    result: Tensor,
}

impl Run<'_> {
    fn body(&mut self, list: &[Stmt]) -> Result<(), Refusal> {
        list.iter().try_for_each(|s| self.stmt(s))
    }

    fn stmt(&mut self, s: &Stmt) -> Result<(), Refusal> {
        match s {
            Stmt::Preload { .. } => {}
            Stmt::For { vars, body } => self.nest(vars, body)?,
            Stmt::Zeros { value, dtype, index } => {
                let sizes: Vec<u64> = self.boxes(index).iter().map(|b| b.1 - b.0).collect();
                let n = sizes.iter().product::<u64>() as usize;
                self.values.insert(*value, tensor(sizes, Data::zeros(*dtype, n))?);
            }
            Stmt::Let { value, is } => {
                let t = self.tile(is)?;
                self.values.insert(*value, t);
            }
            Stmt::Add { value, is } => {
                let missing = || Refusal::new("a sum has no accumulator", "declare it with `zeros`");
                let mut acc = self.values.remove(value).ok_or_else(missing)?;
                if let Tile::Dot(a, b) = is {
                    let (a, b) = (self.tile(a)?, self.tile(b)?);
                    acc = products(acc, &a, &b)?;
                } else {
                    let t = self.tile(is)?;
                    let more = broadcast(&t, acc.shape())?;
                    let sizes = acc.shape().to_vec();
                    let mut data = acc.into_data();
                    numbers::combine(ReduceOp::Sum, &mut data, &more)?;
                    acc = tensor(sizes, data)?;
                }
                self.values.insert(*value, acc);
            }
            Stmt::Store { index, is } => {
                let t = self.tile(is)?;
                let boxes = self.boxes(index);
                let sizes: Vec<u64> = boxes.iter().map(|b| b.1 - b.0).collect();
                let t = tensor(sizes.clone(), broadcast(&t, &sizes)?)?;
                if self.result.insert(&boxes, &t).is_none() {
                    return Err(Refusal::new(
                        "a tile is outside the result",
                        "the sizes of the result must match",
                    ));
                }
            }
        }
        Ok(())
    }

    fn nest(&mut self, vars: &[u32], body: &[Stmt]) -> Result<(), Refusal> {
        let Some((v, rest)) = vars.split_first() else { return self.body(body) };
        let (n, tile) = (self.extents[*v as usize], self.kernel.vars[*v as usize].tile);
        let mut at = 0;
        while at < n {
            self.ranges[*v as usize] = (at, n.min(at + tile));
            self.nest(rest, body)?;
            at += tile;
        }
        Ok(())
    }

    fn boxes(&self, index: &[Index]) -> Vec<(u64, u64)> {
        let one = |i: &Index| match i {
            Index::Var(v) => self.ranges[*v as usize],
            Index::At(n) => (*n, n + 1),
        };
        index.iter().map(one).collect()
    }

    fn tile(&self, t: &Tile) -> Result<Tensor, Refusal> {
        match t {
            Tile::Load { param, index } => {
                let boxes = self.boxes(index);
                let from = self.operands[*param as usize];
                from.extract(&boxes)
                    .ok_or_else(|| Refusal::new("a tile is outside its operand", "the sizes must match"))
            }
            Tile::Value(v) => self
                .values
                .get(v)
                .cloned()
                .ok_or_else(|| Refusal::new("a value is used before it is computed", "declare it first")),
            Tile::Dot(a, b) => {
                let (a, b) = (self.tile(a)?, self.tile(b)?);
                let mut sizes = a.shape().to_vec();
                if let (Some(n), Some(last)) = (b.shape().last(), sizes.last_mut()) {
                    *last = *n;
                }
                let dtype = if a.dtype().is_float() { DType::F32 } else { DType::I32 };
                let zeros = Data::zeros(dtype, sizes.iter().product::<u64>() as usize);
                products(tensor(sizes, zeros)?, &a, &b)
            }
            Tile::Map(f, args) => {
                let args = args.iter().map(|a| self.tile(a)).collect::<Result<Vec<_>, _>>()?;
                let shapes: Vec<Vec<u64>> = args.iter().map(|a| a.shape().to_vec()).collect();
                let sizes = kbc_ir::result::broadcast(&shapes).map_err(|why| {
                    Refusal::new(why, "tiles must have the same variables in the same dimensions")
                })?;
                let n = sizes.iter().product::<u64>() as usize;
                let dtype = args.first().map_or(DType::F32, Tensor::dtype);
                let data = args.iter().map(|a| broadcast(a, &sizes)).collect::<Result<Vec<_>, _>>()?;
                let data: Vec<&Data> = data.iter().collect();
                tensor(sizes, scalar_eval::map(f, &data, n, dtype)?)
            }
            Tile::Cast(to, a) => {
                let a = self.tile(a)?;
                tensor(a.shape().to_vec(), numbers::cast(a.data(), *to))
            }
        }
    }
}

fn tensor(sizes: Vec<u64>, data: Data) -> Result<Tensor, Refusal> {
    Tensor::new(sizes, data).ok_or_else(|| Refusal::new("a tile has another size", "the sizes must match"))
}

/// Computes `acc + a b`: the products of an element are added one after another, by ascending k,
/// without fusing.
fn products(acc: Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor, Refusal> {
    let ([.., m, k], [.., n]) = (a.shape(), b.shape()) else {
        return Err(Refusal::new("the operands of `dot` have other dimensions", "[.., m, k] x [.., k, n]"));
    };
    let (m, k, n) = (*m as usize, *k as usize, *n as usize);
    let sizes = acc.shape().to_vec();
    /// Multiplies one pair of matrices after another.
    fn all<T: Copy>(c: &mut [T], (a, b): (&[T], &[T]), [m, k, n]: [usize; 3], add: impl Fn(T, T, T) -> T) {
        let (a, b) = (a.chunks_exact((m * k).max(1)), b.chunks_exact((k * n).max(1)));
        for (c, (a, b)) in c.chunks_exact_mut((m * n).max(1)).zip(a.zip(b)) {
            for (i, row) in c.chunks_exact_mut(n.max(1)).enumerate() {
                for (j, x) in row.iter_mut().enumerate() {
                    *x = (0..k).fold(*x, |sum, l| add(sum, a[i * k + l], b[l * n + j]));
                }
            }
        }
    }
    let data = match (acc.into_data(), a.data(), b.data()) {
        (Data::I32(mut c), Data::I32(x), Data::I32(y)) => {
            all(&mut c, (x, y), [m, k, n], |s: i32, x, y| s.wrapping_add(x.wrapping_mul(y)));
            Data::I32(c)
        }
        (Data::F32(mut c), x, y) => {
            let (x, y) = (numbers::widen(x)?, numbers::widen(y)?);
            all(&mut c, (&x, &y), [m, k, n], |s: f32, x, y| s + x * y);
            Data::F32(c)
        }
        (c, ..) => {
            return Err(Refusal::new(format!("products cannot be summed in {}", c.dtype()), "f32 or i32"));
        }
    };
    tensor(sizes, data)
}
