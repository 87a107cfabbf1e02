//! Operations that become several of kbc's: norms, softmax, losses, attention, and
//! backward operations.
//!
//! The formulas are those of `torch/_decomp/decompositions.py` (PyTorch 2.10). As there, they are
//! computed in f32 for half-precision types.

use super::consts::Const;
use super::graph::{Graph, Layer, NodeId, NodeOp, Operand, RankCollective};
use super::step::{StepResult, Translation};
use super::values::Val;
use crate::torch::dtype::DType;
use crate::torch::rule::Rule;
use kbc_ir::collective::CollKind;

use Operand::{Node, Num};

fn node(o: Operand) -> StepResult<NodeId> {
    match o {
        Node(n) => Ok(n),
        Num(_) => Err("all operands are numbers".into()),
    }
}

impl Graph {
    /// Returns the square of a tensor.
    fn square(&mut self, x: Operand) -> Operand {
        self.infix('*', x, x)
    }

    /// Builds exp(x - max) / sum or its logarithm as a library program; always in f32.
    fn softmax(&mut self, x: NodeId, dim: usize, log: bool) -> NodeId {
        let (dtype, sizes) = (self.nodes[x].dtype, self.nodes[x].sizes.clone());
        let layer = if log { Layer::LogSoftmax(dim) } else { Layer::Softmax(dim) };
        self.push(NodeOp::Layer(layer), vec![Node(x)], dtype, sizes)
    }

    /// Returns the derivative of gelu at x.
    fn gelu_slope(&mut self, x: Operand, tanh: bool) -> Operand {
        let xx = self.square(x);
        if !tanh {
            // `0.5 (1 + erf(x / sqrt 2)) + x exp(-x^2 / 2) / sqrt(2 pi)`
            let scaled = self.infix('*', x, Num(std::f64::consts::FRAC_1_SQRT_2));
            let e = self.call("erf", &[scaled]);
            let e = self.infix('+', e, Num(1.0));
            let cdf = self.infix('*', e, Num(0.5));
            let half = self.infix('*', xx, Num(-0.5));
            let bell = self.call("exp", &[half]);
            let pdf = self.infix('*', bell, Num(0.398_942_280_401_432_7));
            let right = self.infix('*', x, pdf);
            return self.infix('+', cdf, right);
        }
        let (k, c) = (0.797_884_560_802_865_4, 0.044715);
        let cube = self.infix('*', xx, x);
        let cube = self.infix('*', cube, Num(c));
        let sum = self.infix('+', x, cube);
        let inner = self.infix('*', sum, Num(k));
        let t = self.call("tanh", &[inner]);
        let one = self.infix('+', t, Num(1.0));
        let left = self.infix('*', one, Num(0.5));
        let tt = self.square(t);
        let slope = self.infix('-', Num(1.0), tt);
        let inner = self.infix('*', xx, Num(3.0 * c));
        let inner = self.infix('+', inner, Num(1.0));
        let inner = self.infix('*', inner, Num(k));
        let right = self.infix('*', slope, inner);
        let half = self.infix('*', x, Num(0.5));
        let right = self.infix('*', half, right);
        self.infix('+', left, right)
    }
}

impl Translation<'_> {
    /// Translates norms, softmax, losses and similar operations.
    pub fn formula(&mut self, rule: Rule) -> StepResult<Vec<Val>> {
        match rule {
            Rule::Softmax | Rule::SoftmaxTo => {
                // If a half-precision operand becomes f32, it is converted first.
                let up = self.first()?.0 == DType::F32;
                let x = self.tensor("self", up)?;
                let dim = self.dim(self.int("dim")?, self.g.nodes[x].sizes.len())?;
                if self.g.nodes[x].sizes.is_empty() {
                    return Err("its operand has no dimensions".into());
                }
                let out = self.g.softmax(x, dim, self.node.op.name.contains("log"));
                Ok(vec![self.give(out, 0)?])
            }
            Rule::SoftmaxBackward => {
                let (grad, out) = (self.tensor("grad_output", true)?, self.tensor("output", true)?);
                let dim = self.dim(self.int("dim")?, self.g.nodes[out].sizes.len())?;
                let both = node(self.g.infix('*', Node(grad), Node(out)))?;
                let sum = self.g.reduce("sum", both, dim, true);
                let rest = self.g.infix('-', Node(grad), Node(sum));
                let back = node(self.g.infix('*', rest, Node(out)))?;
                Ok(vec![self.give(back, 0)?])
            }
            Rule::LayerNorm => self.norm(),
            Rule::LayerNormBackward => self.norm_backward(),
            Rule::Loss => {
                let (x, y) = (self.tensor("self", true)?, self.tensor("target", true)?);
                let d = self.g.infix('-', Node(x), Node(y));
                let s = node(self.g.square(d))?;
                let out = match self.int("reduction")? {
                    0 => s,
                    how => self.total(s, if how == 1 { "mean" } else { "sum" }),
                };
                Ok(vec![self.give(out, 0)?])
            }
            Rule::LossBackward => {
                let grad = self.val("grad_output")?;
                let grad = self.g.operand(&grad, DType::F32)?;
                let (x, y) = (self.tensor("self", true)?, self.tensor("target", true)?);
                let elements = self.first()?.1.iter().product::<i64>() as f64;
                let norm = if self.int("reduction")? == 1 { 2.0 / elements } else { 2.0 };
                let d = self.g.infix('-', Node(x), Node(y));
                let d = self.g.infix('*', d, Num(norm));
                let back = node(self.g.infix('*', d, grad))?;
                Ok(vec![self.give(back, 0)?])
            }
            Rule::Backward => {
                let (grad, x) = (self.tensor("grad_output", true)?, self.tensor("self", true)?);
                let out = match self.node.op.name {
                    "aten.gelu_backward.default" => {
                        let tanh = self.word("approximate") == "tanh";
                        let slope = self.g.gelu_slope(Node(x), tanh);
                        self.g.infix('*', Node(grad), slope)
                    }
                    "aten.silu_backward.default" => {
                        // `s (1 + x (1 - s))`, where s is the sigmoid
                        let s = self.g.call("sigmoid", &[Node(x)]);
                        let rest = self.g.infix('-', Num(1.0), s);
                        let rest = self.g.infix('*', Node(x), rest);
                        let rest = self.g.infix('+', rest, Num(1.0));
                        let slope = self.g.infix('*', s, rest);
                        self.g.infix('*', Node(grad), slope)
                    }
                    _ => {
                        let at = Num(self.number("threshold")?);
                        self.g.elementwise(NodeOp::Select("<="), &[Node(x), at, Num(0.0), Node(grad)])
                    }
                };
                Ok(vec![self.give(node(out)?, 0)?])
            }
            Rule::Attention => self.attention(),
            _ => Err("kbc does not support this operation".into()),
        }
    }

    /// Reduces a whole tensor to one number.
    pub fn total(&mut self, x: NodeId, how: &'static str) -> NodeId {
        if self.g.nodes[x].sizes.is_empty() {
            return x;
        }
        let n = self.g.nodes[x].sizes.iter().product();
        let flat = self.g.reshape(x, &[n]);
        self.g.reduce(how, flat, 0, false)
    }

    /// Builds the mean over dimensions, which are kept.
    fn mean(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        self.g.reduce_all("mean", x, dims, true)
    }

    /// Builds (x - mean) / sqrt(variance + eps), times weight, plus bias; also the mean and 1 /
    /// sqrt(variance + eps).
    fn norm(&mut self) -> StepResult<Vec<Val>> {
        let over = self.ints("normalized_shape")?.len();
        // The library program serves if nothing uses the statistics.
        if over == 1 && self.has("weight") && !self.node.outputs.iter().skip(1).any(|v| self.used[*v]) {
            let x = self.tensor("input", false)?;
            let mut args = vec![Node(x), Node(self.tensor("weight", false)?)];
            if self.has("bias") {
                args.push(Node(self.tensor("bias", false)?));
            }
            let (dtype, sizes) = (self.g.nodes[x].dtype, self.g.nodes[x].sizes.clone());
            if args.iter().all(|a| matches!(a, Node(n) if self.g.nodes[*n].dtype == dtype)) {
                let layer = NodeOp::Layer(Layer::Norm(self.number("eps")?));
                let n = self.g.push(layer, args, dtype, sizes);
                return Ok(vec![self.give(n, 0)?]);
            }
        }
        let x = self.tensor("input", true)?;
        let rank = self.g.nodes[x].sizes.len();
        let outer = rank - over.min(rank);
        let dims: Vec<usize> = (outer..rank).collect();
        let mean = self.mean(x, &dims);
        let d = self.g.infix('-', Node(x), Node(mean));
        let dd = node(self.g.square(d))?;
        let variance = self.mean(dd, &dims);
        let sum = self.g.infix('+', Node(variance), Num(self.number("eps")?));
        let r = self.g.call("rsqrt", &[sum]);
        let mut y = self.g.infix('*', d, r);
        for (name, op) in [("weight", '*'), ("bias", '+')] {
            if self.has(name) {
                let w = self.tensor(name, true)?;
                y = self.g.infix(op, y, Node(w));
            }
        }
        let mut out = vec![self.give(node(y)?, 0)?];
        if self.node.outputs.len() == 3 {
            for (i, n) in [mean, node(r)?].into_iter().enumerate() {
                // Statistics that nothing uses have no record.
                out.push(self.give(n, i + 1)?);
            }
        }
        Ok(out)
    }

    fn norm_backward(&mut self) -> StepResult<Vec<Val>> {
        let (grad, x) = (self.tensor("grad_out", true)?, self.tensor("input", true)?);
        let (mean, r) = (self.tensor("mean", true)?, self.tensor("rstd", true)?);
        let rank = self.g.nodes[x].sizes.len();
        let over = self.ints("normalized_shape")?;
        let outer = rank - over.len().min(rank);
        let dims: Vec<usize> = (outer..rank).collect();
        let d = self.g.infix('-', Node(x), Node(mean));
        let hat = node(self.g.infix('*', d, Node(r)))?;
        let weight = if self.has("weight") { Some(self.tensor("weight", true)?) } else { None };
        let g = match weight {
            Some(w) => node(self.g.infix('*', Node(grad), Node(w)))?,
            None => grad,
        };
        let first = self.mean(g, &dims);
        let both = node(self.g.infix('*', Node(g), Node(hat)))?;
        let second = self.mean(both, &dims);
        let second = self.g.infix('*', Node(hat), Node(second));
        let rest = self.g.infix('-', Node(g), Node(first));
        let rest = self.g.infix('-', rest, second);
        let dx = node(self.g.infix('*', rest, Node(r)))?;
        let batch: Vec<usize> = (0..outer).collect();
        let by = node(self.g.infix('*', Node(grad), Node(hat)))?;
        let dw = self.g.reduce_all("sum", by, &batch, false);
        let db = self.g.reduce_all("sum", grad, &batch, false);
        [dx, dw, db].into_iter().enumerate().map(|(i, n)| self.give(n, i)).collect()
    }

    /// Builds softmax(q k^T scale + mask) v.
    fn attention(&mut self) -> StepResult<Vec<Val>> {
        if self.flag("enable_gqa") || self.number("dropout_p")? != 0.0 {
            return Err(
                "attention with grouped heads or dropout is not supported: export after run_decompositions()"
                    .into(),
            );
        }
        let (q, k, v) = (self.tensor("query", true)?, self.tensor("key", true)?, self.tensor("value", true)?);
        let sizes = self.g.nodes[q].sizes.clone();
        let rank = sizes.len();
        let last = *sizes.last().ok_or("no dimensions")? as f64;
        let scale = if self.has("scale") { self.number("scale")? } else { 1.0 / last.sqrt() };
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        let kt = self.g.transpose(k, &order);
        let s = self.g.matmul(q, kt);
        let mut s = self.g.infix('*', Node(s), Num(scale));
        let mask = if self.flag("is_causal") {
            let (rows, cols) = (sizes[rank - 2], self.g.nodes[k].sizes[rank - 2]);
            let below = (0..rows).flat_map(|i| (0..cols).map(move |j| f64::from(u8::from(j <= i)))).collect();
            Some(Val::Const(Const::each(DType::Bool, &[rows, cols], below)?))
        } else {
            self.maybe("attn_mask")?
        };
        match (mask, self.dtype_of("attn_mask")) {
            (Some(m), None | Some(DType::Bool)) => {
                let none = Val::Const(Const::one(DType::F32, &[], f64::NEG_INFINITY)?);
                s = self.g.select(&m, &Val::Node(node(s)?), &none, DType::F32)?;
            }
            (Some(m), Some(_)) => {
                let m = self.g.operand(&m, DType::F32)?;
                s = self.g.infix('+', s, m);
            }
            (None, _) => {}
        }
        let a = self.g.softmax(node(s)?, rank - 1, false);
        let out = self.g.matmul(a, v);
        Ok(vec![self.give(out, 0)?])
    }

    /// Translates a collective, whose result is pending until a wait.
    pub fn collective(
        &mut self,
        rule: Rule,
        over: Option<&std::ops::Range<usize>>,
        counts: &[Vec<i64>],
    ) -> StepResult<Vec<Val>> {
        let how = match self.word("reduce_op") {
            "" => "",
            "sum" => "sum",
            "avg" => "avg",
            "product" => "prod",
            "min" => "min",
            "max" => "max",
            other => return Err(format!("kbc has no reduction '{other}'")),
        };
        let kind = rule.collective().ok_or("it is not a collective")?;
        let first = self.node.op.params[0].name;
        let mut out = vec![];
        for (i, v) in self.list(first)?.into_iter().enumerate() {
            let (dtype, sizes) = self.meta(i)?;
            let mut x = self.g.whole(&v, super::values::stored_dtype(dtype)?)?;
            // In a group of one rank the result is the operand; only a number gains a dimension.
            let Some(over) = over else {
                x = self.g.reshape(x, &sizes);
                out.push(Val::Node(x));
                continue;
            };
            if self.g.nodes[x].sizes.is_empty() && rule == Rule::AllGather {
                x = self.g.reshape(x, &[1]);
            }
            let coll = match kind {
                CollKind::AllReduce => RankCollective::AllReduce(how),
                CollKind::AllGather => RankCollective::AllGather(0),
                CollKind::ReduceScatter => RankCollective::ReduceScatter(how, 0),
                CollKind::Broadcast => RankCollective::Broadcast(self.int("src")? as u64),
                CollKind::AllToAll if rule != Rule::ShardDim => RankCollective::Rows(counts.to_vec()),
                CollKind::AllToAll => {
                    let rank = sizes.len();
                    RankCollective::Dims(
                        self.dim(self.int("gather_dim")?, rank)?,
                        self.dim(self.int("shard_dim")?, rank)?,
                    )
                }
                _ => return Err(format!("kbc does not import {}", kind.name())),
            };
            let kb = self.g.nodes[x].dtype;
            let n = self.g.push(NodeOp::Collective(coll, over.clone()), vec![Node(x)], kb, sizes);
            out.push(Val::Node(if rule.is_pending() { n } else { self.g.wait(n) }));
        }
        Ok(out)
    }

    /// Translates a wait. A second wait does nothing.
    pub fn waited(&mut self) -> StepResult<Vec<Val>> {
        let first = self.node.op.params[0].name;
        let each = self.list(first)?.into_iter().map(|v| match v {
            Val::Node(n) if matches!(self.g.nodes[n].op, NodeOp::Collective(..)) => Val::Node(self.g.wait(n)),
            other => other,
        });
        Ok(each.collect())
    }
}
