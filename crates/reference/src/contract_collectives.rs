//! User-defined collectives: evaluates every place of the result from the clauses of the contract.
//!
//! The parts of the split dimension are the ranks' vectors or blocks; a place that no clause names
//! is 0. The module knows no algorithms. The bound covers every order of additions, as for an input
//! that is partial over as many ranks.

use super::precision::{Precision, common_grain};
use super::reduce::{Item, extreme, integers, multiply};
use super::{RefTensor, Step, Value};
use kbc_diag::Diagnostic;
use kbc_ir::Name;
use kbc_ir::contract::Contract;
use kbc_ir::contract_sides::{ContractSides, HeldPart, on, sides};
use kbc_ir::contract_terms::terms;
use kbc_ir::expr::Expr;
use kbc_ir::graph::Collective;
use kbc_ir::types::ReduceOp;

/// One block of the result: its first element along the split dimension, and those of its sources.
struct Block {
    to: usize,
    from: Vec<usize>,
    /// Whether the sources are summed (or otherwise reduced); otherwise the block is a copy.
    reduces: bool,
}

/// Returns the result, or an error if there is none.
pub(super) fn run(step: &Step<'_>, x: &Value, c: &Collective) -> Result<Value, Diagnostic> {
    let missing = || step.broken("its contract is not known; run `infer` first");
    let own = c.own.as_deref().ok_or_else(missing)?;
    let contract = own.contract.as_ref().ok_or_else(missing)?;
    let both = sides(contract).map_err(|why| step.broken(&why))?;
    let dim = c.dim.filter(|d| *d < x.t.shape.len()).ok_or_else(missing)?;
    let size = x.t.shape[dim];
    let result = both.result_size(size, own.ranks).map_err(|why| step.broken(&why))?;
    let p = own.ranks.max(1);
    let many = |h: &HeldPart| if *h == HeldPart::Blocks { p } else { 1 };
    let len = (size / p / many(&both.start.held)) as usize;
    let blocks = Places { step, ranks: p, contract, both: &both, len }.blocks()?;
    let mut shape = x.t.shape.clone();
    shape[dim] = result;
    step.room(&shape)?;
    let (outer, inner) = (step.room(&shape[..dim])?, step.room(&shape[dim + 1..])?);
    let (n, m) = (size as usize, result as usize);
    let elements = outer * m * inner;
    let red = contract.red.unwrap_or(ReduceOp::Sum);
    let mut bound = vec![0.0; elements];
    let place =
        |o: usize, width: usize, first: usize, i: usize, j: usize| (o * width + first + i) * inner + j;
    if let Some(values) = &x.t.exact {
        let mut out = vec![0i64; elements];
        for b in &blocks {
            for (o, i, j) in every(outer, len, inner) {
                let to = place(o, m, b.to, i, j);
                let mut items =
                    b.from.iter().map(|f| place(o, n, *f, i, j)).map(|k| (values[k], x.t.bound[k]));
                (out[to], bound[to]) = match b.reduces {
                    true => integers(red, &items.collect::<Vec<_>>()),
                    false => items.next_back().unwrap_or((0, 0.0)),
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
            let items: Vec<Item> = items.map(|k| (x.t.value[k], x.t.bound[k], x.t.value[k].abs())).collect();
            (value[to], bound[to]) = match (&stored, b.reduces) {
                (Some(p), true) => combined(p, red, &items),
                (None, true) => return Err(step.broken("kbc can move this type but not compute with it")),
                (_, false) => items.last().map_or((0.0, 0.0), |i| (i.0, i.1)),
            };
        }
    }
    Ok(Value::whole(RefTensor::real(x.t.dtype, shape, value, bound)))
}

fn every(outer: usize, len: usize, inner: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..outer).flat_map(move |o| (0..len).flat_map(move |i| (0..inner).map(move |j| (o, i, j))))
}

/// Combines values in their type, in some order. Returns value and bound.
pub fn combined(stored: &Precision, op: ReduceOp, items: &[Item]) -> (f64, f64) {
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

/// Computes first elements along the split dimension, of the blocks of a contract and of their
/// sources.
struct Places<'a> {
    step: &'a Step<'a>,
    ranks: u64,
    contract: &'a Contract,
    both: &'a ContractSides,
    /// Number of elements of a block along the split dimension.
    len: usize,
}

impl Places<'_> {
    fn blocks(&self) -> Result<Vec<Block>, Diagnostic> {
        let mut out = vec![];
        for r in 0..self.ranks {
            for t in terms(self.contract, self.ranks, r).map_err(|why| self.step.broken(&why))? {
                let from = t.from.iter().map(|(q, b)| self.first(&self.both.start.held, *q, *b));
                let from = from.collect::<Result<_, _>>()?;
                let to = self.first(&self.both.end.held, r, t.block)?;
                out.push(Block { to, from, reduces: t.reduces });
            }
        }
        Ok(out)
    }

    fn first(&self, held: &HeldPart, rank: u64, block: u64) -> Result<usize, Diagnostic> {
        let place = match held {
            HeldPart::Vector => rank,
            HeldPart::Blocks => rank * self.ranks + block,
            HeldPart::Block(own) => {
                let (r, p) = (Expr::Int(rank as i64), self.ranks);
                let has = on(self.contract, own, &r, p).eval(&|_: &Name| None);
                if has.ok() != i64::try_from(block).ok() {
                    let what =
                        format!("its contract reads block {block} of rank {rank}, which does not exist");
                    return Err(self.step.broken(&what));
                }
                rank
            }
        };
        Ok(place as usize * self.len)
    }
}
