//! Promises: what a region says its collective does, as text the checker can read without any library.
//!
//! `start` clauses name the places that hold something at first (each rank's own contribution), `end` clauses say
//! what must be where. A name that is not bound ranges over everything: over the blocks of a `v[p][n]`, and over the
//! chunks of a vector. `r` is the linear index of a rank in its group and `p` the size of the group; the names used
//! here are those of the promise (`rank`, `size`).

use crate::expr::Expr;
use crate::name::Name;
use crate::types::ReduceOp;

pub use crate::promise_std::standard;

/// `buffer[e]` or `buffer[e][e]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// Operand by name.
    pub buffer: Name,
    /// Indices: one for `v[n]`, two for `v[p][n]`.
    pub index: Vec<Expr>,
}

/// A clause.
#[derive(Clone, PartialEq, Debug)]
pub enum Clause {
    /// This rank's own contribution is there.
    Start {
        /// The place.
        cell: Cell,
        /// When; true if absent.
        cond: Option<Expr>,
    },
    /// What must be there at the end.
    End {
        /// The place.
        cell: Cell,
        /// When; true if absent.
        cond: Option<Expr>,
        /// The contribution: what rank `at` started with in `from`.
        from: Cell,
        /// The rank it comes from.
        at: Expr,
        /// With a variable and a range: one contribution for each value (a sum).
        sum: Option<SumOver>,
    },
}

/// `for q in lo..hi if cond`.
#[derive(Clone, PartialEq, Debug)]
pub struct SumOver {
    /// The variable.
    pub var: Name,
    /// First value.
    pub lo: Expr,
    /// One past the last.
    pub hi: Expr,
    /// Filter.
    pub cond: Option<Expr>,
}

/// A buffer of the collective: `v[n]` (one vector) or `v[p][n]` (one block a rank).
#[derive(Clone, PartialEq, Debug)]
pub struct PromiseBuffer {
    /// Name.
    pub name: Name,
    /// Whether it has a block a rank.
    pub blocks: bool,
}

/// A promise.
#[derive(Clone, PartialEq, Debug)]
pub struct Promise {
    /// The collective's name (`all_reduce`); the clauses are what counts.
    pub collective: Name,
    /// The combiner, where contributions are combined.
    pub red: Option<ReduceOp>,
    /// Root by linear index, already put into the clauses.
    pub root: Option<u64>,
    /// Name of the rank's linear index in the clauses.
    pub rank: Name,
    /// Name of the group's size in the clauses.
    pub size: Name,
    /// Its buffers.
    pub buffers: Vec<PromiseBuffer>,
    /// The clauses, with the root put in.
    pub clauses: Vec<Clause>,
}

impl Promise {
    /// Whether every rank's result is promised to depend on every rank's input: some unconditional `end` takes a
    /// contribution of every rank, by a sum over all of them or from the rank that numbers each block.
    pub fn is_total(&self) -> bool {
        self.clauses.iter().any(|c| match c {
            Clause::Start { .. } => false,
            Clause::End { cell, cond, at, sum, .. } => {
                let everywhere = cond.as_ref().is_none_or(Expr::is_true);
                let all = match sum {
                    Some(s) => {
                        s.lo.as_int() == Some(0)
                            && s.hi == Expr::Var(self.size.clone())
                            && s.cond.as_ref().is_none_or(Expr::is_true)
                            && *at == Expr::Var(s.var.clone())
                    }
                    None => match at {
                        Expr::Var(v) => *v != self.rank && *v != self.size && cell.index.first() == Some(at),
                        _ => false,
                    },
                };
                everywhere && all
            }
        })
    }
}
