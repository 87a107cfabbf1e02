//! Contracts of collectives: what a region states about its operands, as text that the checker
//! reads without a library. The keyword, and the type here, is `contract`.
//!
//! `start` clauses name the places that hold each rank's own contribution at the start. `end`
//! clauses state which contributions each place must hold at the end. A name that is not bound
//! ranges over everything: over the blocks of a `v[p][n]`, and over the chunks of a vector. `r` is
//! the linear index of a rank in its group and `p` the size of the group; the contract may name
//! both differently (`rank`, `size`).

use crate::expr::Expr;
use crate::name::Name;
use crate::types::ReduceOp;

/// A place: `buffer[e]` or `buffer[e][e]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// Name of the operand.
    pub buffer: Name,
    /// Indices: one for `v[n]`, two for `v[p][n]`.
    pub index: Vec<Expr>,
}

/// A clause of a contract.
#[derive(Clone, PartialEq, Debug)]
pub enum Clause {
    /// At the start, the place holds this rank's own contribution.
    Start {
        /// Place.
        cell: Cell,
        /// Condition; true if absent.
        cond: Option<Expr>,
    },
    /// At the end, the place must hold a contribution.
    End {
        /// Place.
        cell: Cell,
        /// Condition; true if absent.
        cond: Option<Expr>,
        /// Contribution: what rank `at` held in `from` at the start.
        from: Cell,
        /// Rank that the contribution comes from.
        at: Expr,
        /// Range of a variable, if the place must hold the combination of one contribution for each
        /// of its values.
        sum: Option<SumOver>,
    },
}

/// Range of a sum: `for q in lo..hi if cond`.
#[derive(Clone, PartialEq, Debug)]
pub struct SumOver {
    /// Variable.
    pub var: Name,
    /// First value.
    pub lo: Expr,
    /// One past the last value.
    pub hi: Expr,
    /// Condition on the values; true if absent.
    pub cond: Option<Expr>,
}

/// A buffer of the collective: `v[n]` (one vector) or `v[p][n]` (one block per rank).
#[derive(Clone, PartialEq, Debug)]
pub struct ContractBuffer {
    /// Name.
    pub name: Name,
    /// Whether the buffer has one block per rank.
    pub blocks: bool,
}

/// Contract of a collective.
#[derive(Clone, PartialEq, Debug)]
pub struct Contract {
    /// Name of the collective (`all_reduce`). Only the clauses have a meaning.
    pub collective: Name,
    /// Combiner, if contributions are combined.
    pub red: Option<ReduceOp>,
    /// Linear index of the root, which is already substituted in the clauses.
    pub root: Option<u64>,
    /// Name of the rank's linear index in the clauses.
    pub rank: Name,
    /// Name of the group's size in the clauses.
    pub size: Name,
    /// Buffers of the collective.
    pub buffers: Vec<ContractBuffer>,
    /// Clauses, with the root substituted.
    pub clauses: Vec<Clause>,
}

impl Contract {
    /// Checks whether the contract makes every rank's result depend on every rank's input. This is
    /// so if an unconditional `end` clause takes a contribution of every rank: by a sum over all of
    /// them, or because the block's number is the rank that it comes from.
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
