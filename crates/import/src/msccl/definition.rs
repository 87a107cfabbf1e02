//! Definition of a collective on numbers: the results that a contract requires, given the
//! inputs of all ranks.
//!
//! Contributions are taken from the inputs and combined in f64. Nothing of a schedule is read. This
//! module interprets the clauses of a contract by itself and shares no code with the checker.

use kbc_ir::contract::{Cell, Clause, Contract};
use kbc_ir::expr::Expr;
use kbc_ir::name::Name;
use kbc_ir::types::ReduceOp;

/// The results that a contract requires.
#[derive(Clone, Debug)]
pub struct RequiredResults {
    /// One value per element of the result of each rank; none where the contract states nothing.
    pub values: Vec<Vec<Option<f64>>>,
    /// Greatest number of contributions to one element.
    pub summands: u64,
}

struct Reader<'a> {
    contract: &'a Contract,
    ranks: i64,
    env: Vec<(Name, i64)>,
}

/// Computes the required results of all ranks. `inputs[r]` holds the contributions of rank r, in
/// the order in which they fill the places of its `start` clauses. `output` is the buffer of the
/// result, and `elements` is its length.
///
/// # Errors
/// Returns a sentence about a clause that cannot be evaluated.
pub fn required_results(
    contract: &Contract,
    inputs: &[Vec<f64>],
    output: &str,
    elements: u64,
) -> Result<RequiredResults, String> {
    let ranks = inputs.len() as i64;
    let mut out = RequiredResults { values: vec![vec![None; elements as usize]; inputs.len()], summands: 1 };
    for rank in 0..ranks {
        let mut r = Reader { contract, ranks, env: vec![] };
        r.env.push((contract.rank.clone(), rank));
        r.env.push((contract.size.clone(), ranks));
        for clause in &contract.clauses {
            let Clause::End { cell, cond, from, at, sum } = clause else { continue };
            if *cell.buffer != *output {
                continue;
            }
            for block in r.blocks(cell) {
                if let Some(b) = &block {
                    r.env.push(b.clone());
                }
                if r.holds(cond)? {
                    let (lo, n) = r.place(cell, elements)?;
                    let (value, count) = r.value(from, at, sum.as_ref(), inputs, n)?;
                    out.summands = out.summands.max(count);
                    let to = &mut out.values[rank as usize];
                    let room =
                        to.get_mut(lo as usize..(lo + n) as usize).ok_or("a place outside its buffer")?;
                    room.iter_mut().zip(value).for_each(|(t, v)| *t = Some(v));
                }
                if block.is_some() {
                    r.env.pop();
                }
            }
        }
    }
    Ok(out)
}

impl Reader<'_> {
    fn eval(&self, e: &Expr) -> Result<i64, String> {
        let get = |n: &Name| self.env.iter().rev().find(|(m, _)| m == n).map(|(_, v)| *v);
        e.eval(&get).map_err(|e| e.to_string())
    }

    fn holds(&self, cond: &Option<Expr>) -> Result<bool, String> {
        cond.as_ref().map_or(Ok(true), |c| Ok(self.eval(c)? != 0))
    }

    /// Returns the variable that ranges over all blocks of a cell, with each of its values; a
    /// single none if the cell has no such variable.
    fn blocks(&self, cell: &Cell) -> Vec<Option<(Name, i64)>> {
        match &cell.index[..] {
            [Expr::Var(n), _] if !self.env.iter().any(|(m, _)| m == n) => {
                (0..self.ranks).map(|b| Some((n.clone(), b))).collect()
            }
            _ => vec![None],
        }
    }

    /// Returns the first element and the number of elements of a cell in a buffer of
    /// `elements` elements.
    fn place(&self, cell: &Cell, elements: u64) -> Result<(u64, u64), String> {
        match &cell.index[..] {
            [_] => Ok((0, elements)),
            [block, _] => {
                let b = self.eval(block)?;
                let n = elements / self.ranks.max(1) as u64;
                let b = u64::try_from(b).ok().filter(|b| (*b as i64) < self.ranks);
                b.map(|b| (b * n, n)).ok_or_else(|| "a block that no rank has".into())
            }
            _ => Err("a place with more than two indices".into()),
        }
    }

    /// Returns the contribution of a rank to a cell: the part of its input that fills the
    /// cell at the start.
    fn start(&self, from: &Cell, rank: i64, inputs: &[Vec<f64>], n: u64) -> Result<Vec<f64>, String> {
        let input =
            usize::try_from(rank).ok().and_then(|r| inputs.get(r)).ok_or("a rank that does not exist")?;
        let mut r = Reader { contract: self.contract, ranks: self.ranks, env: vec![] };
        r.env.push((self.contract.rank.clone(), rank));
        r.env.push((self.contract.size.clone(), self.ranks));
        // The input has the blocks in the order in which the rank owns them.
        let wanted = match &from.index[..] {
            [block, _] => Some(self.eval(block)?),
            _ => None,
        };
        let mut own = vec![];
        for clause in &self.contract.clauses {
            let Clause::Start { cell, cond } = clause else { continue };
            if cell.buffer != from.buffer {
                continue;
            }
            for block in r.blocks(cell) {
                if let Some(b) = &block {
                    r.env.push(b.clone());
                }
                if r.holds(cond)? {
                    own.push(match &cell.index[..] {
                        [b, _] => Some(r.eval(b)?),
                        _ => None,
                    });
                }
                if block.is_some() {
                    r.env.pop();
                }
            }
        }
        let at = own
            .iter()
            .position(|b| *b == wanted)
            .ok_or("a contribution that its rank does not hold at the start")?;
        let each = input.len() / own.len().max(1);
        let lo = at * each;
        if each as u64 != n {
            return Err(format!("a contribution of {each} elements for a place of {n}"));
        }
        Ok(input[lo..lo + each].to_vec())
    }

    fn value(
        &mut self,
        from: &Cell,
        at: &Expr,
        sum: Option<&kbc_ir::contract::SumOver>,
        inputs: &[Vec<f64>],
        n: u64,
    ) -> Result<(Vec<f64>, u64), String> {
        let Some(s) = sum else {
            let rank = self.eval(at)?;
            return Ok((self.start(from, rank, inputs, n)?, 1));
        };
        let (lo, hi) = (self.eval(&s.lo)?, self.eval(&s.hi)?);
        let mut total: Option<Vec<f64>> = None;
        let mut count = 0;
        for q in lo..hi {
            self.env.push((s.var.clone(), q));
            if self.holds(&s.cond)? {
                let rank = self.eval(at)?;
                let one = self.start(from, rank, inputs, n)?;
                count += 1;
                total = Some(match total {
                    None => one,
                    Some(t) => t.into_iter().zip(one).map(|(a, b)| self.combine(a, b)).collect(),
                });
            }
            self.env.pop();
        }
        Ok((total.ok_or("an empty sum")?, count))
    }

    fn combine(&self, a: f64, b: f64) -> f64 {
        match self.contract.red.unwrap_or(ReduceOp::Sum) {
            ReduceOp::Sum => a + b,
            ReduceOp::Prod => a * b,
            ReduceOp::Min => a.min(b),
            ReduceOp::Max => a.max(b),
        }
    }
}
