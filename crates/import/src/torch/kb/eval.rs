//! Evaluator of the programs of all ranks, in step and in f64: computes them as formulas, without
//! the rounding of their types.
//!
//! This module owns the value of each operation. It exists to compare a sharded program with an
//! unsharded one, and shares no code with compilation or execution.

use super::axes::Axes;
use super::consts::strides;
use super::graph::{Graph, GraphNode, Layer, NodeId, NodeOp, Operand, RankCollective};
use super::vocabulary::holds;
use crate::torch::dtype::DType;
use kbc_ir::scalar::ScalarUn;
use kbc_numerics::functions;
use std::ops::Range;

/// A tensor.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Values {
    /// One size per dimension.
    pub sizes: Vec<i64>,
    /// Elements in row-major order.
    pub data: Vec<f64>,
}

/// Greatest number of elements of all values of all ranks together.
const MAX_ELEMENTS: i64 = 1 << 26;

/// A value, or the reason why there is none.
type EvalResult = Result<Values, String>;

fn count(sizes: &[i64]) -> usize {
    sizes.iter().product::<i64>().max(0) as usize
}

impl Values {
    fn new(sizes: &[i64], data: Vec<f64>) -> Values {
        Values { sizes: sizes.to_vec(), data }
    }

    /// Gathers a strided view: sizes of the result, the stride for each of its dimensions, and the
    /// index of the first element.
    fn walked(&self, sizes: &[i64], steps: &[i64], first: i64) -> Values {
        let mut data = Vec::with_capacity(count(sizes));
        let mut at = vec![0i64; sizes.len()];
        for _ in 0..count(sizes) {
            let place = first + at.iter().zip(steps).map(|(a, s)| a * s).sum::<i64>();
            data.push(self.data.get(place.max(0) as usize).copied().unwrap_or(f64::NAN));
            for d in (0..sizes.len()).rev() {
                at[d] += 1;
                if at[d] < sizes[d] {
                    break;
                }
                at[d] = 0;
            }
        }
        Values::new(sizes, data)
    }

    /// Broadcasts the tensor to larger sizes. Dimensions of length 1 and missing
    /// dimensions are repeated.
    fn wide(&self, sizes: &[i64]) -> Values {
        if self.sizes == sizes {
            return self.clone();
        }
        let own = strides(&self.sizes);
        let new = sizes.len().saturating_sub(self.sizes.len());
        let step = |d: usize| if d < new || self.sizes[d - new] == 1 { 0 } else { own[d - new] };
        self.walked(sizes, &(0..sizes.len()).map(step).collect::<Vec<_>>(), 0)
    }

    /// Returns elements `from..to` of a dimension.
    pub fn slice(&self, dim: usize, from: i64, to: i64) -> Values {
        let steps = strides(&self.sizes);
        let mut sizes = self.sizes.clone();
        sizes[dim] = to - from;
        self.walked(&sizes, &steps, from * steps[dim])
    }

    /// Concatenates tensors along a dimension.
    ///
    /// # Errors
    /// Returns a sentence if the sizes of the parts do not fit.
    pub fn concat(parts: &[&Values], dim: usize) -> EvalResult {
        let first = parts.first().ok_or("there are no parts")?;
        let rest =
            |v: &Values| v.sizes.iter().enumerate().filter(|s| s.0 != dim).map(|s| *s.1).collect::<Vec<_>>();
        if dim >= first.sizes.len() || parts.iter().any(|p| rest(p) != rest(first)) {
            return Err("the sizes of the parts differ".into());
        }
        let mut sizes = first.sizes.clone();
        sizes[dim] = parts.iter().map(|p| p.sizes[dim]).sum();
        let outer = count(&sizes[..dim]);
        let mut data = Vec::with_capacity(count(&sizes));
        for o in 0..outer {
            for p in parts {
                let run = p.data.len() / outer;
                data.extend_from_slice(&p.data[o * run..(o + 1) * run]);
            }
        }
        Ok(Values::new(&sizes, data))
    }

    /// Reduces along a dimension, which remains with length 1.
    fn reduced(&self, dim: usize, start: f64, f: impl Fn(f64, f64) -> f64) -> Values {
        let mut sizes = self.sizes.clone();
        let n = std::mem::replace(&mut sizes[dim], 1) as usize;
        let inner = count(&sizes[dim + 1..]);
        let mut data = vec![start; count(&sizes)];
        for (i, x) in self.data.iter().enumerate() {
            let to = &mut data[i / (n * inner).max(1) * inner + i % inner.max(1)];
            *to = f(*to, *x);
        }
        Values::new(&sizes, data)
    }

    fn with(&self, other: &Values, f: impl Fn(f64, f64) -> f64) -> Values {
        let other = other.wide(&self.sizes);
        Values::new(&self.sizes, self.data.iter().zip(&other.data).map(|(a, b)| f(*a, *b)).collect())
    }

    /// Combines several tensors of the same shape by the reduction `how`.
    ///
    /// # Errors
    /// Returns a sentence if the reduction is unknown or the shapes differ.
    pub fn combined(how: &str, parts: &[&Values]) -> EvalResult {
        let mut out = (*parts.first().ok_or("there is nothing to combine")?).clone();
        for p in &parts[1..] {
            let f: fn(f64, f64) -> f64 = match how {
                "sum" | "avg" => |a, b| a + b,
                "max" => f64::max,
                "min" => f64::min,
                "prod" => |a, b| a * b,
                other => return Err(format!("unknown reduction '{other}'")),
            };
            out = out.with(p, f);
        }
        if how == "avg" {
            out.data.iter_mut().for_each(|x| *x /= parts.len() as f64);
        }
        Ok(out)
    }
}

/// Returns the value of every live node on every rank; nodes that are not live have no value.
///
/// # Errors
/// Returns a sentence about an operation that has no value, or about too many elements.
pub fn evaluate(
    all: &[&Graph],
    live: &[bool],
    axes: &Axes,
    inputs: &[Vec<Values>],
) -> Result<Vec<Vec<Values>>, String> {
    let first = all.first().ok_or("no program")?;
    let elements =
        |n: &GraphNode| n.sizes.iter().try_fold(1i64, |a, b| a.checked_mul(*b)).unwrap_or(i64::MAX);
    let total = first.nodes.iter().zip(live).filter(|n| *n.1).map(|n| elements(n.0));
    let total = total.fold(0i64, i64::saturating_add).saturating_mul(all.len() as i64);
    if total > MAX_ELEMENTS {
        return Err(format!("{total} elements are too many to evaluate in f64 (limit: {MAX_ELEMENTS})"));
    }
    let mut out: Vec<Vec<Values>> = vec![Vec::with_capacity(first.nodes.len()); all.len()];
    for (n, does) in live.iter().enumerate().take(first.nodes.len()) {
        let new: Vec<Values> = if !does {
            vec![Values::default(); all.len()]
        } else if let NodeOp::Collective(c, over) = &first.nodes[n].op {
            let Some(Operand::Node(x)) = first.nodes[n].args.first() else {
                return Err("a collective without an operand".into());
            };
            let of: Vec<&Values> = out.iter().map(|v| &v[*x]).collect();
            (0..all.len()).map(|at| exchanged(c, over, axes, at, &of)).collect::<Result<_, String>>()?
        } else {
            let each = all.iter().zip(&out).zip(inputs);
            each.map(|((g, values), inputs)| value(g, n, values, inputs)).collect::<Result<_, String>>()?
        };
        for (new, (to, g)) in new.into_iter().zip(out.iter_mut().zip(all)) {
            if *does && new.data.len() != count(&g.nodes[n].sizes) {
                return Err(format!(
                    "an operation computes the shape {:?} instead of {:?}",
                    new.sizes, g.nodes[n].sizes
                ));
            }
            to.push(Values { sizes: if *does { g.nodes[n].sizes.clone() } else { vec![] }, data: new.data });
        }
    }
    Ok(out)
}

/// Returns the result of a collective on one rank.
fn exchanged(c: &RankCollective, over: &Range<usize>, axes: &Axes, at: usize, of: &[&Values]) -> EvalResult {
    let (ranks, me) = members(axes, over, at);
    let parts: Vec<&Values> = ranks.iter().filter_map(|r| of.get(*r).copied()).collect();
    let n = parts.len() as i64;
    match c {
        RankCollective::AllReduce(how) => Values::combined(how, &parts),
        RankCollective::AllGather(d) => Values::concat(&parts, *d),
        RankCollective::ReduceScatter(how, d) => {
            let all = Values::combined(how, &parts)?;
            let size = *all.sizes.get(*d).ok_or("the dimension does not exist")? / n;
            Ok(all.slice(*d, me as i64 * size, (me as i64 + 1) * size))
        }
        RankCollective::Dims(from, to) => {
            let size = *parts[0].sizes.get(*to).ok_or("the dimension does not exist")? / n;
            let cut: Vec<Values> =
                parts.iter().map(|p| p.slice(*to, me as i64 * size, (me as i64 + 1) * size)).collect();
            Values::concat(&cut.iter().collect::<Vec<_>>(), *from)
        }
        RankCollective::Rows(counts) => {
            let mut cut = vec![];
            for (r, p) in counts.iter().zip(&parts) {
                let from: i64 = r.iter().take(me).sum();
                cut.push(p.slice(0, from, from + r.get(me).copied().unwrap_or(0)));
            }
            Values::concat(&cut.iter().collect::<Vec<_>>(), 0)
        }
        RankCollective::Broadcast(root) => {
            let root = *root as usize;
            let of = ranks.iter().position(|r| *r == root).unwrap_or(root);
            parts.get(of).map(|v| (*v).clone()).ok_or_else(|| "the root is not a member of the group".into())
        }
    }
}

/// Returns the ranks of a group over some axes, in order, and the position of rank `at` among them.
pub fn members(axes: &Axes, over: &Range<usize>, at: usize) -> (Vec<usize>, usize) {
    let mut base = at as u64;
    let mut size = 1;
    for a in &axes.list[over.clone()] {
        base -= at as u64 / a.stride % a.size * a.stride;
        size *= a.size;
    }
    let ranks: Vec<usize> = (0..size)
        .map(|k| {
            let (mut rest, mut rank) = (k, base);
            for a in axes.list[over.clone()].iter().rev() {
                rank += rest % a.size * a.stride;
                rest /= a.size;
            }
            rank as usize
        })
        .collect();
    let me = ranks.iter().position(|r| *r == at).unwrap_or(0);
    (ranks, me)
}

/// Returns the value of an operation on one rank.
fn value(g: &Graph, n: NodeId, values: &[Values], inputs: &[Values]) -> EvalResult {
    let node = &g.nodes[n];
    let arg = |i: usize| match node.args.get(i) {
        Some(Operand::Node(m)) => Ok(values[*m].clone()),
        Some(Operand::Num(x)) => Ok(Values::new(&[], vec![*x])),
        None => Err("an operand is missing".to_owned()),
    };
    let wide = |i: usize| Ok::<_, String>(arg(i)?.wide(&node.sizes));
    let whole = node.dtype == DType::I32;
    match &node.op {
        NodeOp::Input(i) => Ok(inputs[*i].clone()),
        NodeOp::Constant(k) => Ok(Values::new(&node.sizes, g.constants[*k].1.elements()?)),
        NodeOp::Full(x) => Ok(Values::new(&node.sizes, vec![*x; count(&node.sizes)])),
        NodeOp::Iota(d) => {
            let inner = count(&node.sizes[d + 1..]).max(1);
            let n = node.sizes[*d].max(1) as usize;
            Ok(Values::new(&node.sizes, (0..count(&node.sizes)).map(|i| (i / inner % n) as f64).collect()))
        }
        NodeOp::Infix(op) => {
            let f: fn(f64, f64) -> f64 = match (op, whole) {
                ('+', _) => |a, b| a + b,
                ('-', _) => |a, b| a - b,
                ('*', _) => |a, b| a * b,
                (_, true) => |a, b| (a / b).trunc(),
                (_, false) => |a, b| a / b,
            };
            let mut out = wide(0)?.with(&wide(1)?, f);
            if whole {
                out.data.iter_mut().for_each(|x| *x = f64::from(*x as i64 as i32));
            }
            Ok(out)
        }
        NodeOp::Call("embedding") => {
            let (table, ids) = (arg(0)?, arg(1)?);
            let width = count(&table.sizes[1..]);
            let mut data = Vec::with_capacity(count(&node.sizes));
            for i in &ids.data {
                let row = *i as usize * width;
                let row = table.data.get(row..row + width).filter(|_| *i >= 0.0);
                data.extend_from_slice(row.ok_or("a row number is outside its table")?);
            }
            Ok(Values::new(&node.sizes, data))
        }
        NodeOp::Call("argmax") => {
            let x = arg(0)?;
            let n = x.sizes.last().copied().unwrap_or(1).max(1) as usize;
            let best =
                |row: &[f64]| (0..row.len()).fold(0, |b, i| if row[i] > row[b] { i } else { b }) as f64;
            Ok(Values::new(&node.sizes, x.data.chunks(n).map(best).collect()))
        }
        NodeOp::Call("cumsum") => {
            let mut x = arg(0)?;
            let n = x.sizes.last().copied().unwrap_or(1).max(1) as usize;
            for row in x.data.chunks_mut(n) {
                (1..row.len()).for_each(|i| row[i] += row[i - 1]);
            }
            Ok(x)
        }
        NodeOp::Call(f) if node.args.len() == 2 => {
            let f: fn(f64, f64) -> f64 = match *f {
                "max" => f64::max,
                "min" => f64::min,
                "pow_int" => |a, b| a.powi(b as i32),
                other => return Err(format!("unknown function `{other}`")),
            };
            Ok(wide(0)?.with(&wide(1)?, f))
        }
        NodeOp::Call(f) => {
            let mut x = wide(0)?;
            let f = function(f)?;
            x.data.iter_mut().for_each(|x| *x = f(*x));
            Ok(x)
        }
        NodeOp::Select(how) => {
            let [a, b, x, y] = [wide(0)?, wide(1)?, wide(2)?, wide(3)?];
            let pick = |i: usize| if holds(how, a.data[i], b.data[i]) { x.data[i] } else { y.data[i] };
            Ok(Values::new(&node.sizes, (0..count(&node.sizes)).map(pick).collect()))
        }
        NodeOp::Matmul => product(&arg(0)?, &arg(1)?, &node.sizes),
        NodeOp::Layer(layer) => {
            layered(*layer, &arg(0)?, node.args.get(1).map(|_| arg(1)), node.args.get(2).map(|_| arg(2)))
        }
        NodeOp::Reduce(how, dim, _) => {
            let x = arg(0)?;
            let n = x.sizes[*dim] as f64;
            let mut out = match *how {
                "sum" | "mean" => x.reduced(*dim, 0.0, |a, b| a + b),
                "max" => x.reduced(*dim, f64::NEG_INFINITY, f64::max),
                "min" => x.reduced(*dim, f64::INFINITY, f64::min),
                "prod" => x.reduced(*dim, 1.0, |a, b| a * b),
                other => return Err(format!("unknown reduction `{other}`")),
            };
            if *how == "mean" {
                out.data.iter_mut().for_each(|x| *x /= n);
            }
            Ok(out)
        }
        NodeOp::Reshape | NodeOp::Wait | NodeOp::Placed => arg(0),
        NodeOp::Transpose(order) => {
            let x = arg(0)?;
            let steps = strides(&x.sizes);
            Ok(x.walked(&node.sizes, &order.iter().map(|d| steps[*d]).collect::<Vec<_>>(), 0))
        }
        NodeOp::Slice(dim, from, to) => Ok(arg(0)?.slice(*dim, *from, *to)),
        NodeOp::Concat(dim) => {
            let parts = (0..node.args.len()).map(arg).collect::<Result<Vec<_>, String>>()?;
            Values::concat(&parts.iter().collect::<Vec<_>>(), *dim)
        }
        NodeOp::Cast => {
            let mut x = arg(0)?;
            if whole {
                x.data.iter_mut().for_each(|x| *x = x.trunc());
            }
            Ok(x)
        }
        NodeOp::Collective(..) => Err("a collective cannot be evaluated on one rank".into()),
        NodeOp::Numbered(_) | NodeOp::Owned | NodeOp::Opaque => {
            Err("an operation that kbc cannot express".into())
        }
    }
}

fn function(name: &str) -> Result<fn(f64) -> f64, String> {
    Ok(match name {
        "-" => |x| -x,
        "relu" => |x| if x < 0.0 { 0.0 } else { x },
        "sigmoid" => |x| 1.0 / (1.0 + (-x).exp()),
        "silu" => |x| x / (1.0 + (-x).exp()),
        "gelu" => |x| 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        "gelu_tanh" => |x| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        },
        other => match ScalarUn::parse(other) {
            Some(f) => functions::function(f).f64,
            None => return Err(format!("unknown function `{other}`")),
        },
    })
}

fn product(a: &Values, b: &Values, sizes: &[i64]) -> EvalResult {
    let rank = sizes.len();
    let (batch, rows, cols) = (&sizes[..rank - 2], sizes[rank - 2], sizes[rank - 1]);
    let k = *a.sizes.last().ok_or("a matmul of numbers")?;
    let x = a.wide(&[batch, &[rows, k]].concat());
    let y = b.wide(&[batch, &[k, cols]].concat());
    let (rows, cols, k) = (rows as usize, cols as usize, k as usize);
    let mut data = vec![0.0; count(sizes)];
    for t in 0..count(batch) {
        for i in 0..rows {
            let to = &mut data[(t * rows + i) * cols..(t * rows + i + 1) * cols];
            for l in 0..k {
                let f = x.data[(t * rows + i) * k + l];
                let row = &y.data[(t * k + l) * cols..(t * k + l + 1) * cols];
                to.iter_mut().zip(row).for_each(|(o, y)| *o += f * y);
            }
        }
    }
    Ok(Values::new(sizes, data))
}

fn layered(layer: Layer, x: &Values, w: Option<EvalResult>, b: Option<EvalResult>) -> EvalResult {
    match layer {
        Layer::Softmax(d) | Layer::LogSoftmax(d) => {
            let top = x.reduced(d, f64::NEG_INFINITY, f64::max);
            let moved = x.with(&top, |a, b| a - b);
            let mut e = moved.clone();
            e.data.iter_mut().for_each(|x| *x = x.exp());
            let sum = e.reduced(d, 0.0, |a, b| a + b);
            Ok(match layer {
                Layer::Softmax(_) => e.with(&sum, |a, b| a / b),
                _ => moved.with(&sum, |a, b| a - b.ln()),
            })
        }
        Layer::Norm(eps) => {
            let last = x.sizes.len() - 1;
            let n = x.sizes[last] as f64;
            let mean = x.reduced(last, 0.0, |a, b| a + b);
            let moved = x.with(&mean, |a, b| a - b / n);
            let square = moved.with(&moved, |a, b| a * b);
            let var = square.reduced(last, 0.0, |a, b| a + b);
            let mut out = moved.with(&var, |a, b| a / (b / n + eps).sqrt());
            if let Some(w) = w {
                out = out.with(&w?, |a, b| a * b);
            }
            if let Some(b) = b {
                out = out.with(&b?, |a, b| a + b);
            }
            Ok(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::axes::Axis;
    use super::*;

    fn v(sizes: &[i64], data: &[f64]) -> Values {
        Values::new(sizes, data.to_vec())
    }

    #[test]
    fn parts_and_groups() {
        let x = v(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(x.slice(1, 1, 2), v(&[2, 1], &[2.0, 4.0]));
        assert_eq!(Values::concat(&[&x.slice(1, 0, 1), &x.slice(1, 1, 2)], 1), Ok(x.clone()));
        assert_eq!(x.reduced(0, 0.0, |a, b| a + b), v(&[1, 2], &[4.0, 6.0]));
        assert_eq!(x.reduced(1, 0.0, |a, b| a + b), v(&[2, 1], &[3.0, 7.0]));
        let eye = v(&[2, 2], &[0.0, 1.0, 1.0, 0.0]);
        assert_eq!(product(&x, &eye, &[2, 2]), Ok(v(&[2, 2], &[2.0, 1.0, 4.0, 3.0])));
        let list =
            [("dp", 2, 2), ("tp", 2, 1)].map(|(n, size, stride)| Axis { name: n.into(), size, stride });
        let axes = Axes { list: list.to_vec() };
        assert_eq!(members(&axes, &(0..1), 3), (vec![1, 3], 1));
        assert_eq!(members(&axes, &(1..2), 2), (vec![2, 3], 0));
        assert_eq!(members(&axes, &(0..2), 2), (vec![0, 1, 2, 3], 2));
    }
}
