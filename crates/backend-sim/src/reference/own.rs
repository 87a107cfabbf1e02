//! Collectives that are known by their promise: every place of the result from the clauses themselves.
//!
//! The parts of the split dimension are the ranks' vectors or blocks; a place that no clause names is 0. Nothing here
//! knows algorithms: who adds in what order is covered by the bound, as for a partial input of as many ranks.

use super::precision::{Precision, common_grain};
use super::reduce::{Item, extreme, integers, multiply};
use super::{RefTensor, Step, Value};
use kbc_diag::Diagnostic;
use kbc_ir::Name;
use kbc_ir::expr::Expr;
use kbc_ir::graph::{Collective, Own};
use kbc_ir::promise::{Cell, Clause, Promise};
use kbc_ir::promise_sides::{Held, Sides, sides};
use kbc_ir::types::ReduceOp;

/// What one block of the result is made of: the first elements along the split dimension, of it and of its sources.
struct Block {
    to: usize,
    from: Vec<usize>,
    /// A sum (or another reduction); otherwise a copy.
    reduces: bool,
}

/// The result, or why there is none.
pub(super) fn run(step: &Step<'_>, x: &Value, c: &Collective) -> Result<Value, Diagnostic> {
    let missing = || step.broken("its promise is not known; `infer` runs before");
    let own = c.own.as_deref().ok_or_else(missing)?;
    let promise = own.promise.as_ref().ok_or_else(missing)?;
    let both = sides(promise).map_err(|why| step.broken(&why))?;
    let dim = c.dim.filter(|d| *d < x.t.shape.len()).ok_or_else(missing)?;
    let size = x.t.shape[dim];
    let result = both.result_size(size, own.ranks).map_err(|why| step.broken(&why))?;
    let p = own.ranks.max(1);
    let many = |h: &Held| if *h == Held::Blocks { p } else { 1 };
    let len = (size / p / many(&both.start.held)) as usize;
    let at = Reader { step, own, promise, both: &both, len };
    let blocks = at.blocks()?;
    let mut shape = x.t.shape.clone();
    shape[dim] = result;
    step.room(&shape)?;
    let (outer, inner) = (step.room(&shape[..dim])?, step.room(&shape[dim + 1..])?);
    let (n, m) = (size as usize, result as usize);
    let elements = outer * m * inner;
    let red = promise.red.unwrap_or(ReduceOp::Sum);
    let mut bound = vec![0.0; elements];
    let place = |o: usize, width: usize, first: usize, i: usize, j: usize| (o * width + first + i) * inner + j;
    if let Some(values) = &x.t.exact {
        let mut out = vec![0i64; elements];
        for b in &blocks {
            for (o, i, j) in every(outer, len, inner) {
                let to = place(o, m, b.to, i, j);
                let items = b.from.iter().map(|f| place(o, n, *f, i, j)).map(|k| (values[k], x.t.bound[k]));
                (out[to], bound[to]) = match b.reduces {
                    true => integers(red, &items.collect::<Vec<_>>()),
                    false => items.last().unwrap_or((0, 0.0)),
                };
            }
        }
        return Ok(Value::whole(RefTensor::integers(x.t.dtype, shape, out, bound)));
    }
    let stored = Precision::of(x.t.dtype);
    let mut value = vec![0.0; elements];
    for b in &blocks {
        for (o, i, j) in every(outer, len, inner) {
            let to = place(o, m, b.to, i, j);
            let items = b.from.iter().map(|f| place(o, n, *f, i, j));
            let items: Vec<Item> =
                items.map(|k| (x.t.value[k], x.t.bound[k], x.t.value[k].abs())).collect();
            (value[to], bound[to]) = match (&stored, b.reduces) {
                (Some(p), true) => combined(p, red, &items),
                (None, true) => return Err(step.broken("this type moves and does not compute")),
                (_, false) => items.last().map_or((0.0, 0.0), |i| (i.0, i.1)),
            };
        }
    }
    Ok(Value::whole(RefTensor::real(x.t.dtype, shape, value, bound)))
}

fn every(outer: usize, len: usize, inner: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..outer).flat_map(move |o| (0..len).flat_map(move |i| (0..inner).map(move |j| (o, i, j))))
}

/// Values combined in their type, in some order.
fn combined(stored: &Precision, op: ReduceOp, items: &[Item]) -> (f64, f64) {
    match op {
        ReduceOp::Min | ReduceOp::Max => extreme(op, items),
        ReduceOp::Prod => {
            let (v, e, _) = multiply(stored, items, items.iter().all(|i| i.0.fract() == 0.0));
            (v, e)
        }
        ReduceOp::Sum => {
            let v: f64 = items.iter().map(|i| i.0).sum();
            let size: f64 = items.iter().map(|i| i.2).sum();
            let propagated: f64 = items.iter().map(|i| i.1).sum();
            if !v.is_finite() {
                return (v, if propagated == 0.0 { 0.0 } else { f64::INFINITY });
            }
            if propagated == 0.0 && stored.exact(size, common_grain(items.iter().map(|i| i.0))) {
                return (v, 0.0);
            }
            let roundings = items.len().saturating_sub(1) as f64;
            let e = propagated + stored.gamma(roundings) * (size + propagated);
            if e.is_nan() || size + e > stored.max { (v, f64::INFINITY) } else { (v, e) }
        }
    }
}

/// Clauses on concrete ranks.
struct Reader<'a> {
    step: &'a Step<'a>,
    own: &'a Own,
    promise: &'a Promise,
    both: &'a Sides,
    /// Elements of a block along the split dimension.
    len: usize,
}

type Names = Vec<(Name, i64)>;

impl Reader<'_> {
    fn value(&self, e: &Expr, env: &Names) -> Result<i64, Diagnostic> {
        let get = |n: &Name| env.iter().rev().find(|(m, _)| m == n).map(|(_, v)| *v);
        e.eval(&get).map_err(|e| self.step.broken(&format!("its promise: {e}")))
    }

    fn holds(&self, cond: &Option<Expr>, env: &Names) -> Result<bool, Diagnostic> {
        cond.as_ref().map_or(Ok(true), |c| Ok(self.value(c, env)? != 0))
    }

    /// First element of a cell on a rank, along the split dimension.
    fn first(&self, held: &Held, cell: &Cell, rank: i64, env: &Names) -> Result<usize, Diagnostic> {
        let p = self.own.ranks as i64;
        let outside = |what: &str, v: i64| self.step.broken(&format!("its promise names {what} {v} of {p}"));
        if !(0..p).contains(&rank) {
            return Err(outside("rank", rank));
        }
        let place = match (held, cell.index.first()) {
            (Held::Blocks, Some(e)) => {
                let b = self.value(e, env)?;
                if !(0..p).contains(&b) {
                    return Err(outside("block", b));
                }
                rank * p + b
            }
            (Held::Block(own), Some(e)) => {
                let here = vec![(self.promise.rank.clone(), rank), (self.promise.size.clone(), p)];
                let (has, wanted) = (self.value(own, &here)?, self.value(e, env)?);
                if has != wanted {
                    let what = format!("it takes block {wanted} of rank {rank}, which has block {has} alone");
                    return Err(self.step.broken(&what));
                }
                rank
            }
            _ => rank,
        };
        Ok(place as usize * self.len)
    }

    fn blocks(&self) -> Result<Vec<Block>, Diagnostic> {
        let p = self.own.ranks as i64;
        let mut out = vec![];
        for r in 0..p {
            let mut env: Names = vec![(self.promise.rank.clone(), r), (self.promise.size.clone(), p)];
            for clause in &self.promise.clauses {
                let Clause::End { cell, cond, from, at, sum } = clause else { continue };
                let free = match (&self.both.end.held, cell.index.first()) {
                    (Held::Blocks, Some(Expr::Var(n))) => Some(n.clone()),
                    _ => None,
                };
                for b in 0..if free.is_some() { p } else { 1 } {
                    let bound = env.len();
                    env.extend(free.iter().map(|n| (n.clone(), b)));
                    if self.holds(cond, &env)? {
                        let to = self.first(&self.both.end.held, cell, r, &env)?;
                        let mut sources = vec![];
                        match sum {
                            None => {
                                let q = self.value(at, &env)?;
                                sources.push(self.first(&self.both.start.held, from, q, &env)?);
                            }
                            Some(s) => {
                                for q in self.value(&s.lo, &env)?..self.value(&s.hi, &env)? {
                                    env.push((s.var.clone(), q));
                                    if self.holds(&s.cond, &env)? {
                                        let q = self.value(at, &env)?;
                                        sources.push(self.first(&self.both.start.held, from, q, &env)?);
                                    }
                                    env.pop();
                                }
                            }
                        }
                        out.push(Block { to, from: sources, reduces: sum.is_some() });
                    }
                    env.truncate(bound);
                }
            }
        }
        Ok(out)
    }
}
