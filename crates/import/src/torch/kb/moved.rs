//! Operations that move elements, applied to nodes and to constants.

use super::consts::{Const, strides};
use super::graph::{NodeId, NodeOp, Operand};
use super::step::{StepResult, Translation};
use super::values::{Val, stored_dtype};
use crate::torch::dtype::DType;
use crate::torch::rule::Rule;

/// Greatest number of operands of a concat.
const MAX_OPERANDS: usize = 255;

impl Translation<'_> {
    /// Translates views, slices and splits.
    pub fn moved(&mut self, rule: Rule) -> StepResult<Vec<Val>> {
        match rule {
            Rule::Cat | Rule::Stack => return self.joined(rule),
            Rule::Pad => return self.padded(),
            _ => {}
        }
        let x = self.val("self")?;
        let sizes = self.g.sizes(&x).to_vec();
        let rank = sizes.len();
        let out = self.first()?.1;
        if rule == Rule::Split {
            let dim = self.dim(self.int("dim")?, rank)?;
            let mut from = 0;
            let mut list = vec![];
            for i in 0..self.node.outputs.len() {
                let n = self.meta(i)?.1[dim];
                list.push(self.cut(&x, dim, from, from + n)?);
                from += n;
            }
            return Ok(list);
        }
        let one = match rule {
            Rule::View if sizes == out => x,
            Rule::View | Rule::Unsqueeze | Rule::Squeeze => match x {
                Val::Const(c) => Val::Const(c.viewed(&out)),
                x => {
                    let n = self.node_of(&x)?;
                    Val::Node(self.g.reshape(n, &out))
                }
            },
            Rule::Expand => match x {
                Val::Const(c) => Val::Const(c.broadcast(&out)?),
                Val::Node(n) | Val::Wide(n, _) => self.g.of(Operand::Node(n), DType::F32, &out)?,
                x => {
                    let n = self.node_of(&x)?;
                    self.g.of(Operand::Node(n), DType::F32, &out)?
                }
            },
            Rule::Permute | Rule::Transpose => {
                let order: Vec<usize> = if rule == Rule::Permute {
                    self.ints("dims")?.into_iter().map(|d| self.dim(d, rank)).collect::<StepResult<_>>()?
                } else if self.has("dim0") {
                    let mut order: Vec<usize> = (0..rank).collect();
                    order.swap(self.dim(self.int("dim0")?, rank)?, self.dim(self.int("dim1")?, rank)?);
                    order
                } else {
                    (0..rank).rev().collect()
                };
                match x {
                    Val::Const(c) => {
                        let steps = strides(&sizes);
                        let steps: Vec<i64> = order.iter().map(|d| steps[*d]).collect();
                        Val::Const(c.walked(&out, &steps, 0)?)
                    }
                    x => {
                        let n = self.node_of(&x)?;
                        Val::Node(self.g.transpose(n, &order))
                    }
                }
            }
            Rule::Slice => {
                let dim = self.dim(self.int("dim")?, rank)?;
                let (from, step) = (self.begin(sizes[dim])?, self.int("step")?);
                match x {
                    Val::Const(c) => {
                        let mut steps = strides(&sizes);
                        let first = from * steps[dim];
                        steps[dim] *= step;
                        Val::Const(c.walked(&out, &steps, first)?)
                    }
                    x if step == 1 => self.cut(&x, dim, from, from + out[dim])?,
                    x => {
                        let n = self.node_of(&x)?;
                        Val::Node(self.stepped(n, dim, from, out[dim], step)?)
                    }
                }
            }
            Rule::Select => {
                let dim = self.dim(self.int("dim")?, rank)?;
                let i = self.int("index")?;
                let i = if i < 0 { i + sizes[dim] } else { i };
                match self.cut(&x, dim, i, i + 1)? {
                    Val::Const(c) => Val::Const(c.viewed(&out)),
                    cut => {
                        let n = self.node_of(&cut)?;
                        Val::Node(self.g.reshape(n, &out))
                    }
                }
            }
            _ => return Err("kbc does not support this operation".into()),
        };
        Ok(vec![one])
    }

    /// Returns the node with all elements of a value that is not a constant.
    fn node_of(&mut self, v: &Val) -> StepResult<NodeId> {
        let dtype = match v {
            Val::Node(n) | Val::Wide(n, _) => self.g.nodes[*n].dtype,
            Val::Compared(_) => DType::I32,
            Val::Const(c) => stored_dtype(c.dtype)?,
        };
        self.g.whole(v, dtype)
    }

    /// Returns the first index of a slice.
    fn begin(&self, n: i64) -> StepResult<i64> {
        let start = if self.has("start") { self.int("start")? } else { 0 };
        Ok(if start < 0 { (start + n).max(0) } else { start.min(n) })
    }

    /// Returns elements `from..to` of a dimension.
    fn cut(&mut self, x: &Val, dim: usize, from: i64, to: i64) -> StepResult<Val> {
        if let Val::Const(c) = x {
            let steps = strides(&c.sizes);
            let mut sizes = c.sizes.clone();
            sizes[dim] = to - from;
            return c.walked(&sizes, &steps, from * steps[dim]).map(Val::Const);
        }
        let n = self.node_of(x)?;
        Ok(Val::Node(self.g.slice(n, dim, from, to)))
    }

    /// Translates `cat` and `stack`.
    fn joined(&mut self, rule: Rule) -> StepResult<Vec<Val>> {
        let (dtype, sizes) = self.first()?;
        let dim = self.dim(self.int("dim")?, sizes.len())?;
        let mut list = vec![];
        for v in self.list("tensors")? {
            let mut own = self.g.sizes(&v).to_vec();
            // PyTorch ignores empty vectors here.
            if rule == Rule::Cat && own == [0] && sizes.len() != 1 {
                continue;
            }
            if rule == Rule::Stack {
                own.insert(dim, 1);
            }
            list.push((v, own));
        }
        if let Some(all) = list
            .iter()
            .map(|(v, own)| if let Val::Const(c) = v { Some(c.clone().viewed(own)) } else { None })
            .collect::<Option<Vec<Const>>>()
        {
            return together(dtype, &sizes, dim, &all).map(|c| vec![Val::Const(c)]);
        }
        let keep = stored_dtype(dtype)?;
        let mut nodes = vec![];
        for (v, own) in list {
            let n = self.g.whole(&v, keep)?;
            if own[dim] > 0 {
                nodes.push(self.g.reshape(n, &own));
            }
        }
        self.chain(&nodes, dim).map(|n| vec![Val::Node(n)])
    }

    /// Concatenates nodes, in several steps if there are more than [`MAX_OPERANDS`].
    fn chain(&mut self, nodes: &[NodeId], dim: usize) -> StepResult<NodeId> {
        let mut rest = nodes.to_vec();
        while rest.len() > MAX_OPERANDS {
            rest = rest.chunks(MAX_OPERANDS).map(|c| self.g.concat(c, dim)).collect();
        }
        if rest.is_empty() { Err("there are no parts".into()) } else { Ok(self.g.concat(&rest, dim)) }
    }

    /// Translates `constant_pad_nd`: two numbers per dimension, starting with the last dimension.
    /// Negative numbers remove elements.
    fn padded(&mut self) -> StepResult<Vec<Val>> {
        let (dtype, _) = self.first()?;
        let keep = stored_dtype(dtype)?;
        let mut x = self.val("self")?;
        let (by, value) = (self.ints("pad")?, self.number("value")?);
        for (i, two) in by.chunks(2).enumerate() {
            let sizes = self.g.sizes(&x).to_vec();
            let dim = sizes.len() - 1 - i;
            let (a, b) = (two[0], two.get(1).copied().unwrap_or(0));
            x = self.cut(&x, dim, (-a).max(0), sizes[dim] - (-b).max(0))?;
            let mut side = self.g.sizes(&x).to_vec();
            let mut parts = vec![];
            for (n, at) in [(a.max(0), 0), (b.max(0), 1)] {
                if at == 1 {
                    parts.push(x.clone());
                }
                if n > 0 {
                    side[dim] = n;
                    parts.push(Val::Const(Const::one(dtype, &side, value)?));
                }
            }
            if parts.len() == 1 {
                continue;
            }
            let known: Vec<Const> = parts
                .iter()
                .filter_map(|v| if let Val::Const(c) = v { Some(c.clone()) } else { None })
                .collect();
            x = if known.len() == parts.len() {
                let mut all = known[0].sizes.clone();
                all[dim] = known.iter().map(|c| c.sizes[dim]).sum();
                Val::Const(together(dtype, &all, dim, &known)?)
            } else {
                let nodes = parts.iter().map(|v| self.g.whole(v, keep)).collect::<StepResult<Vec<_>>>()?;
                Val::Node(self.g.concat(&nodes, dim))
            };
        }
        Ok(vec![x])
    }

    /// Translates `slice_scatter`, which replaces a part of a tensor.
    pub fn scattered(&mut self) -> StepResult<Vec<Val>> {
        let (dtype, sizes) = self.first()?;
        let dim = self.dim(self.int("dim")?, sizes.len())?;
        if self.int("step")? != 1 {
            return Err("kbc does not support slices with a step".into());
        }
        let (x, part) = (self.val("self")?, self.val("src")?);
        let from = self.begin(sizes[dim])?;
        let to = from + self.g.sizes(&part)[dim];
        let keep = stored_dtype(dtype)?;
        let mut nodes = vec![];
        for (a, b) in [(0, from), (from, to), (to, sizes[dim])] {
            if a == b {
                continue;
            }
            let v = if a == from && b == to { part.clone() } else { self.cut(&x, dim, a, b)? };
            nodes.push(self.g.whole(&v, keep)?);
        }
        self.chain(&nodes, dim).map(|n| vec![Val::Node(n)])
    }

    /// Translates `tril` and `triu`: the elements below or above a diagonal.
    pub fn triangle(&mut self, upper: bool) -> StepResult<Vec<Val>> {
        let (dtype, sizes) = self.first()?;
        let x = self.val("self")?;
        let k = self.int("diagonal")?;
        let rank = sizes.len();
        if rank < 2 {
            return Err("a triangle needs two dimensions".into());
        }
        let (rows, cols) = (sizes[rank - 2], sizes[rank - 1]);
        let inside = |i: i64, j: i64| if upper { j - i >= k } else { j - i <= k };
        let mask =
            (0..rows).flat_map(|i| (0..cols).map(move |j| f64::from(u8::from(inside(i, j))))).collect();
        let mask = Const::each(DType::Bool, &[rows, cols], mask)?;
        if let Val::Const(c) = &x {
            let all = Const::map(dtype, &sizes, &[c, &mask], |v| if v[1] != 0.0 { v[0] } else { 0.0 })?;
            return Ok(vec![Val::Const(all)]);
        }
        let zero = Val::Const(Const::one(dtype, &[], 0.0)?);
        let out = self.g.select(&Val::Const(mask), &x, &zero, stored_dtype(dtype)?)?;
        Ok(vec![self.g.of(out, dtype, &sizes)?])
    }

    /// Translates `one_hot`, of constant or computed numbers.
    pub fn one_hot(&mut self) -> StepResult<Vec<Val>> {
        let (dtype, sizes) = self.first()?;
        let n = *sizes.last().ok_or("there are no classes")?;
        let x = self.val("self")?;
        let mut column = self.g.sizes(&x).to_vec();
        column.push(1);
        let classes = Const::each(DType::I64, &[n], (0..n).map(|i| i as f64).collect())?;
        if let Val::Const(c) = x {
            let c = c.viewed(&column);
            let out = Const::map(dtype, &sizes, &[&c, &classes], |v| f64::from(u8::from(v[0] == v[1])))?;
            return Ok(vec![Val::Const(out)]);
        }
        let x = self.node_of(&x)?;
        let x = self.g.reshape(x, &column);
        let classes = self.g.operand(&Val::Const(classes), DType::I32)?;
        let x = Operand::Node(self.g.cast(x, DType::I32));
        let args = [x, classes, Operand::Num(1.0), Operand::Num(0.0)];
        let out = self.g.elementwise(NodeOp::Select("=="), &args);
        Ok(vec![self.g.of(out, dtype, &sizes)?])
    }
}

/// Concatenates constants.
pub(super) fn together(dtype: DType, sizes: &[i64], dim: usize, list: &[Const]) -> StepResult<Const> {
    let inner: usize = sizes[dim + 1..].iter().product::<i64>() as usize;
    let outer: usize = sizes[..dim].iter().product::<i64>() as usize;
    let parts = list
        .iter()
        .map(|c| Ok((c.sizes[dim] as usize * inner, c.elements()?)))
        .collect::<StepResult<Vec<_>>>()?;
    let mut out = vec![];
    for o in 0..outer {
        for (n, l) in &parts {
            out.extend(l.get(o * n..(o + 1) * n).ok_or("a constant of other sizes")?);
        }
    }
    Const::each(dtype, sizes, out)
}
