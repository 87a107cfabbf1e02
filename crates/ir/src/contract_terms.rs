//! Evaluation of a contract for one rank of a group of given size: the blocks of which ranks make
//! up each block at the end.
//!
//! It evaluates the `end` clauses. It serves the meaning of a collective in a program and its lower
//! bound; the checker has an evaluation of its own, on atoms.

use crate::contract::{Cell, Clause, Contract};
use crate::expr::Expr;
use crate::name::Name;

/// A block that a rank must hold at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// Position of its buffer.
    pub to: usize,
    /// Number of the block; 0 for a vector.
    pub block: u64,
    /// Position of the buffer that held the contributions at the start.
    pub source: usize,
    /// Contributions, as (rank, block).
    pub from: Vec<(u64, u64)>,
    /// Whether the contributions are combined. If not, there is one, and it is copied.
    pub reduces: bool,
}

/// Returns what the contract requires rank `rank` of `size` to hold at the end.
///
/// # Errors
/// Returns a message if an expression has no value, or names a rank, block or buffer that does not
/// exist.
pub fn terms(contract: &Contract, size: u64, rank: u64) -> Result<Vec<Term>, String> {
    let mut at = TermEvaluator { contract, size, env: vec![] };
    let int = |v: u64| i64::try_from(v).unwrap_or(i64::MAX);
    at.env.push((contract.rank.clone(), int(rank)));
    at.env.push((contract.size.clone(), int(size)));
    let mut out = vec![];
    for clause in &contract.clauses {
        let Clause::End { cell, cond, from, at: source, sum } = clause else { continue };
        let free = match &cell.index[..] {
            [Expr::Var(n), _] if !at.env.iter().any(|(m, _)| m == n) => Some(n.clone()),
            _ => None,
        };
        for b in 0..if free.is_some() { int(size) } else { 1 } {
            let bound = at.env.len();
            at.env.extend(free.iter().map(|n| (n.clone(), b)));
            if at.holds(cond)? {
                let block = at.block(cell)?;
                let mut list = vec![];
                match sum {
                    None => list.push((at.rank(source)?, at.block(from)?)),
                    Some(s) => {
                        for q in at.value(&s.lo)?..at.value(&s.hi)? {
                            at.env.push((s.var.clone(), q));
                            if at.holds(&s.cond)? {
                                list.push((at.rank(source)?, at.block(from)?));
                            }
                            at.env.pop();
                        }
                    }
                }
                let (to, source) = (at.buffer(cell)?, at.buffer(from)?);
                out.push(Term { to, block, source, from: list, reduces: sum.is_some() });
            }
            at.env.truncate(bound);
        }
    }
    Ok(out)
}

struct TermEvaluator<'a> {
    contract: &'a Contract,
    size: u64,
    env: Vec<(Name, i64)>,
}

impl TermEvaluator<'_> {
    fn value(&self, e: &Expr) -> Result<i64, String> {
        let get = |n: &Name| self.env.iter().rev().find(|(m, _)| m == n).map(|(_, v)| *v);
        e.eval(&get).map_err(|e| e.to_string())
    }

    fn holds(&self, cond: &Option<Expr>) -> Result<bool, String> {
        cond.as_ref().map_or(Ok(true), |c| Ok(self.value(c)? != 0))
    }

    fn within(&self, e: &Expr, what: &str) -> Result<u64, String> {
        let v = self.value(e)?;
        let found = u64::try_from(v).ok().filter(|v| *v < self.size);
        found.ok_or_else(|| {
            format!(
                "the contract of {} names {what} {v}, and there are {}",
                self.contract.collective, self.size
            )
        })
    }

    fn rank(&self, e: &Expr) -> Result<u64, String> {
        self.within(e, "rank")
    }

    fn buffer(&self, cell: &Cell) -> Result<usize, String> {
        let found = self.contract.buffers.iter().position(|b| b.name == cell.buffer);
        found.ok_or_else(|| format!("the contract has no buffer {}", cell.buffer))
    }

    fn block(&self, cell: &Cell) -> Result<u64, String> {
        match &cell.index[..] {
            [e, _] => self.within(e, "block"),
            _ => Ok(0),
        }
    }
}
