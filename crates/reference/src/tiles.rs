//! Tile kernels: evaluates the same expressions on whole tensors, with the terms of a product in
//! any order.
//!
//! Every loop is treated as one tile. A kernel's sums over tiles are bounded like sums over ranks:
//! a value that is still to be summed over tiles is partial, in as many parts. Terms that are added
//! to one sum may come in alternation. They get, beside their own bounds, `gamma_n` of the sum of
//! all absolute values, where n counts all additions (Higham 4.2).

use super::precision::{F32, Precision, common_grain};
use super::reduce::{Sum, store};
use super::{Pending, RefTensor, Step, Value, matmul, scalar};
use kbc_diag::Diagnostic;
use kbc_ir::Name;
use kbc_ir::graph::{GraphOp, OpKind};
use kbc_ir::scalar::{Scalar, ScalarBin, ScalarFn};
use kbc_ir::tiles::{Facts, Index, NodeFacts, Stmt, Tile, TileKernel, extent};
use kbc_ir::types::{DType, ReduceOp, TensorType};
use kbc_numerics::tensor::for_rows;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the value of a kernel.
pub(super) fn run(step: &Step<'_>, kernel: &TileKernel) -> Result<Value, Diagnostic> {
    let facts = kernel.facts().map_err(|f| step.broken(&f.what))?;
    let shapes: Vec<&[u64]> = step.operands.iter().map(|o| &o.t.shape[..]).collect();
    let extents = kernel.extents(&shapes, None).map_err(|why| step.broken(&why))?;
    let mut r = Run { step, kernel, facts: &facts, extents, next: 0, values: BTreeMap::new(), result: None };
    r.body(&kernel.body)?;
    r.result.ok_or_else(|| step.broken("its kernel has no `store`"))
}

/// A named value, with facts about the sum that it is.
struct Named {
    value: Value,
    /// Maximum number of additions that an element of it has passed.
    terms: f64,
    /// For each element, the sum of the absolute values of the terms.
    size: Vec<f64>,
    /// A number of which the terms are multiples, where bounds are 0.
    grain: f64,
}

struct Run<'a> {
    step: &'a Step<'a>,
    kernel: &'a TileKernel,
    facts: &'a Facts,
    extents: Vec<u64>,
    next: usize,
    values: BTreeMap<u32, Named>,
    result: Option<Value>,
}

impl<'a> Run<'a> {
    fn node(&mut self) -> &'a NodeFacts {
        self.next += 1;
        &self.facts.nodes[self.next - 1]
    }

    fn sizes(&self, index: &[Index]) -> Vec<u64> {
        index.iter().map(|i| extent(*i, &self.extents)).collect()
    }

    /// Returns the number of parts of a value, over tiles and over ranks, or None if it is whole.
    fn parts(&self, node: &NodeFacts) -> Option<f64> {
        let tiles =
            |v: &u32| self.extents[*v as usize].div_ceil(self.kernel.vars[*v as usize].tile).max(1) as f64;
        let split = self.step.partial() == Some(ReduceOp::Sum);
        let mut over = node.sums.iter().chain(&node.pending);
        let shared = split && over.any(|v| self.facts.sums.contains(v));
        let parts =
            node.pending.iter().map(tiles).product::<f64>() * if shared { self.step.parts } else { 1.0 };
        (shared || !node.pending.is_empty()).then_some(parts)
    }

    /// Executes an operation of the evaluator as if it were one of the program.
    fn as_step<T>(&self, node: &NodeFacts, operands: &[Value], f: impl FnOnce(&Step<'_>) -> T) -> T {
        let sizes = self.sizes(&node.index);
        let parts = self.parts(node);
        let partial = parts.map(|_| (ReduceOp::Sum, vec![]));
        let ty = TensorType { partial, ..TensorType::replicated(node.dtype, &sizes) };
        let (name, span) = (self.step.op.name.clone(), self.step.op.span);
        let op = GraphOp { kind: OpKind::Output(0), name, ty: Some(ty), want: None, span };
        let terms = self.step.terms.map(|_| operands);
        f(&Step { op: &op, operands, parts: parts.unwrap_or(1.0), terms, coins: None, ..*self.step })
    }

    fn body(&mut self, list: &[Stmt]) -> Result<(), Diagnostic> {
        list.iter().try_for_each(|s| self.stmt(s))
    }

    fn stmt(&mut self, s: &Stmt) -> Result<(), Diagnostic> {
        let node = self.node();
        match s {
            Stmt::Preload { .. } => {}
            Stmt::For { body, .. } => self.body(body)?,
            Stmt::Zeros { value, .. } => {
                let n = self.step.room(&self.sizes(&node.index))?;
                let none = zeros_of(node.dtype, self.sizes(&node.index), n);
                let zeros = Named { value: none, terms: 0.0, size: vec![0.0; n], grain: f64::INFINITY };
                self.values.insert(*value, zeros);
            }
            Stmt::Let { value, is } => {
                let v = self.tile(is)?;
                let known = Named { value: v, terms: 0.0, size: vec![], grain: 0.0 };
                self.values.insert(*value, known);
            }
            Stmt::Add { value, is } => {
                let depth = match is {
                    Tile::Dot(..) => {
                        self.facts.nodes[self.next].contracted.map_or(1, |i| extent(i, &self.extents))
                    }
                    _ => 1,
                };
                let more = self.tile(is)?;
                self.add(node, *value, more, depth as f64)?;
            }
            Stmt::Store { index, is } => {
                let v = self.tile(is)?;
                let like = NodeFacts { index: index.clone(), ..node.clone() };
                let v = if v.t.shape == self.sizes(index) { v } else { self.spread(&like, v)? };
                let keep = self.step.partial() == Some(ReduceOp::Sum);
                self.result = Some(Value { pending: v.pending.filter(|_| keep), ..v });
            }
        }
        Ok(())
    }

    /// Repeats a value to the dimensions of a node.
    fn spread(&self, node: &NodeFacts, v: Value) -> Result<Value, Diagnostic> {
        let sizes = self.sizes(&node.index);
        let n = self.step.room(&sizes)?;
        let second = ScalarFn { name: "x".into(), params: names(), body: Scalar::Arg(1) };
        let zeros = zeros_of(node.dtype, sizes, n);
        self.as_step(node, &[zeros, v], |s| scalar::run(s, &second))
    }

    fn add(&mut self, node: &NodeFacts, value: u32, more: Value, depth: f64) -> Result<(), Diagnostic> {
        let sizes = self.sizes(&node.index);
        let more = if more.t.shape == sizes { more } else { self.spread(node, more)? };
        let missing = || self.step.broken("its kernel adds to an unknown accumulator");
        let acc = self.values.get(&value).ok_or_else(missing)?;
        let first = acc.terms == 0.0;
        let added = match &more.pending {
            Some(p) => p.size.clone(),
            None => more.t.value.iter().zip(&more.t.bound).map(|(v, e)| v.abs() + e).collect::<Vec<_>>(),
        };
        let parts = more.pending.as_ref().map_or(1.0, |p| p.parts);
        let grain = match &more.pending {
            Some(p) => p.grain,
            None => common_grain(more.t.value.iter().copied()),
        };
        let terms = acc.terms + depth + parts;
        let size: Vec<f64> = acc.size.iter().zip(&added).map(|(a, b)| a + b).collect();
        let grain = acc.grain.min(grain);
        let before = acc.value.clone();
        let mut sum = if first {
            more
        } else {
            let body = Scalar::bin(ScalarBin::Add, Scalar::Arg(0), Scalar::Arg(1));
            let add = ScalarFn { name: "add".into(), params: names(), body };
            self.as_step(node, &[before, more], |s| scalar::run(s, &add))?
        };
        if !first && sum.t.exact.is_none() && self.step.terms.is_none() {
            let gamma = F32.gamma(terms);
            let t = Arc::make_mut(&mut sum.t);
            for (e, s) in t.bound.iter_mut().zip(&size) {
                if *e > 0.0 || !F32.exact(*s, grain) {
                    *e += gamma * s;
                }
            }
            sum.exact = false;
        }
        // Over tiles it is complete now; over ranks it may not be.
        if self.parts(node).is_none() {
            sum.pending = None;
        }
        self.values.insert(value, Named { value: sum, terms, size, grain });
        Ok(())
    }

    fn tile(&mut self, t: &Tile) -> Result<Value, Diagnostic> {
        let node = self.node();
        let operands: Vec<Value> =
            t.operands().into_iter().map(|o| self.tile(o)).collect::<Result<_, _>>()?;
        match t {
            Tile::Load { param, index } => {
                let x = self.step.operands.get(*param as usize);
                let x = x.ok_or_else(|| self.step.broken("an operand is missing"))?;
                Ok(Value { pending: None, ..self.part(x, index) })
            }
            Tile::Value(v) => {
                let known = self.values.get(v).map(|k| k.value.clone());
                known.ok_or_else(|| self.step.broken("its kernel uses a value before it is computed"))
            }
            Tile::Dot(..) => self.as_step(node, &operands, |s| {
                let [a, b] = s.two()?;
                let float = a.t.dtype.is_float();
                let mut product = matmul::run(&Step { terms: None, ..*s }, a, b, float)?;
                if s.terms.is_some() {
                    // The sums of its terms replace the bound.
                    let sums = matmul::run(s, a, b, float)?;
                    Arc::make_mut(&mut product.t).bound.clone_from(&sums.t.bound);
                }
                Ok(product)
            }),
            Tile::Map(f, _) => self.as_step(node, &operands, |s| scalar::run(s, f)),
            Tile::Cast(to, _) => self.as_step(node, &operands, |s| Ok(cast(s, s.one()?, *to))),
        }
    }

    /// Returns the elements of an operand that an index names.
    fn part(&self, x: &Value, index: &[Index]) -> Value {
        if index.iter().all(|i| matches!(i, Index::Var(_))) {
            return x.clone();
        }
        let one = |(i, n): (&Index, &u64)| match i {
            Index::Var(_) => (0, *n),
            Index::At(at) => (*at, at + 1),
        };
        let bounds: Vec<(u64, u64)> = index.iter().zip(&x.t.shape).map(one).collect();
        let mut order = vec![];
        for_rows(&x.t.shape, &bounds, |start, len| order.extend(start..start + len));
        let pick = |v: &[f64]| order.iter().map(|i| v[*i]).collect::<Vec<f64>>();
        let t = RefTensor {
            dtype: x.t.dtype,
            shape: self.sizes(index),
            value: pick(&x.t.value),
            bound: pick(&x.t.bound),
            terms: None,
            exact: x.t.exact.as_ref().map(|v| order.iter().map(|i| v[*i]).collect()),
        };
        Value { t: Arc::new(t), pending: None, exact: x.exact }
    }
}

/// Evaluates a cast. Each rank rounds its part of a partial value.
fn cast(step: &Step<'_>, x: &Value, to: DType) -> Value {
    let pending = x.pending_for(step.partial());
    let (Some(p), Some(into)) = (pending, Precision::of(to)) else {
        return Value { pending: x.pending.clone(), ..Value::whole(super::cast::run(&x.t, to)) };
    };
    let wider = Precision::of(x.t.dtype).is_some_and(|from| into.bits >= from.bits && into.max >= from.max);
    let stored = |i: usize| {
        let (v, e) = (x.t.value[i], x.t.bound[i]);
        if wider {
            return (v, e);
        }
        store(&into, Sum { v, size: p.size[i], grain: p.grain, propagated: e, own: 0.0 }, p.parts)
    };
    let (value, bound): (Vec<f64>, Vec<f64>) = (0..x.t.value.len()).map(stored).unzip();
    let t = Arc::new(RefTensor::real(to, x.t.shape.clone(), value, bound));
    let pending = Pending { op: p.op, parts: p.parts, size: p.size.clone(), grain: p.grain };
    Value { t, pending: Some(Arc::new(pending)), exact: false }
}

fn names() -> Vec<Name> {
    ["a", "b"].map(Name::from).to_vec()
}

/// Returns `n` zeros with bound 0.
fn zeros_of(dtype: DType, sizes: Vec<u64>, n: usize) -> Value {
    let zeros = vec![0.0; n];
    Value::whole(match dtype.is_float() {
        true => RefTensor::real(dtype, sizes, zeros.clone(), zeros),
        false => RefTensor::integers(dtype, sizes, vec![0; n], zeros),
    })
}
