//! The two sides of a contract: the form of the value that a rank starts with, and of the value
//! that it ends with.
//!
//! A collective in a program takes one value and returns one. The module decides which contracts
//! can be used in this way, and computes the sizes of their results. [`crate::contract`] defines
//! the contracts.

use crate::contract::{Cell, Clause, Contract};
use crate::expr::{BinOp, Expr};
use crate::name::Name;

/// Part of a buffer that a rank holds.
#[derive(Clone, PartialEq, Debug)]
pub enum HeldPart {
    /// The whole vector.
    Vector,
    /// One block for every rank.
    Blocks,
    /// One block, with its number as an expression in the names of the contract.
    Block(Expr),
}

/// One side of a collective.
#[derive(Clone, PartialEq, Debug)]
pub struct ContractSide {
    /// Position of the buffer.
    pub buffer: usize,
    /// Part of the buffer that a rank holds.
    pub held: HeldPart,
    /// Condition for a rank to hold it, in the names of the contract; all ranks if absent.
    pub cond: Option<Expr>,
}

/// Both sides of a collective.
#[derive(Clone, PartialEq, Debug)]
pub struct ContractSides {
    /// What a rank starts with.
    pub start: ContractSide,
    /// What a rank ends with.
    pub end: ContractSide,
}

impl HeldPart {
    /// Returns the number of blocks that a rank holds, in a group of `ranks`.
    fn blocks(&self, ranks: u64) -> u64 {
        if *self == HeldPart::Blocks { ranks } else { 1 }
    }
}

impl ContractSides {
    /// Returns the size of the result's split dimension if that of the operand is `n`, on `ranks`
    /// ranks.
    ///
    /// # Errors
    /// Returns a message if the operand cannot be cut into parts and blocks of equal length.
    pub fn result_size(&self, n: u64, ranks: u64) -> Result<u64, String> {
        let p = ranks.max(1);
        if !n.is_multiple_of(p) {
            return Err(format!("{n} elements cannot be divided into {p} parts of equal length"));
        }
        let (part, blocks) = (n / p, self.start.held.blocks(p));
        if !part.is_multiple_of(blocks) {
            return Err(format!(
                "parts of {part} elements cannot be divided into {blocks} blocks of equal length"
            ));
        }
        Ok((part / blocks).saturating_mul(self.end.held.blocks(p)).saturating_mul(p))
    }
}

/// Returns both sides of a contract.
///
/// # Errors
/// Returns a message if the contract does not map one value to one value.
pub fn sides(contract: &Contract) -> Result<ContractSides, String> {
    let place = |c: &Clause| match c {
        Clause::Start { cell, cond } => (true, cell.clone(), cond.clone()),
        Clause::End { cell, cond, .. } => (false, cell.clone(), cond.clone()),
    };
    let all: Vec<(bool, Cell, Option<Expr>)> = contract.clauses.iter().map(place).collect();
    let of = |start: bool, word: &str| -> Result<ContractSide, String> {
        let mut side: Option<ContractSide> = None;
        for (_, cell, cond) in all.iter().filter(|c| c.0 == start) {
            let next = one(contract, cell, cond)?;
            side = Some(match side {
                None => next,
                Some(s) if s.buffer != next.buffer => {
                    return Err(format!("its `{word}` clauses name two buffers"));
                }
                Some(s) if s.held != next.held => {
                    return Err(format!("its `{word}` clauses mix places with and without a block"));
                }
                Some(ContractSide { held: HeldPart::Block(_), .. }) => {
                    return Err(format!("it has several `{word}` clauses of one block each"));
                }
                Some(s) => {
                    ContractSide { cond: s.cond.zip(next.cond).map(|(a, b)| Expr::bin(BinOp::Or, a, b)), ..s }
                }
            });
        }
        side.ok_or_else(|| format!("it has no `{word}` clause"))
    };
    let (start, end) = (of(true, "start")?, of(false, "end")?);
    let reads = contract.clauses.iter().filter_map(|c| match c {
        Clause::End { from, .. } => Some(&from.buffer),
        Clause::Start { .. } => None,
    });
    let first = &contract.buffers[start.buffer].name;
    if let Some(other) = reads.into_iter().find(|b| *b != first) {
        return Err(format!("its `end` clauses use `{other}`, and its input is `{first}`"));
    }
    if contract.buffers.len() > 2 || contract.buffers.len() == 2 && start.buffer == end.buffer {
        return Err("it has a buffer that is neither its input nor its output".into());
    }
    Ok(ContractSides { start, end })
}

fn one(contract: &Contract, cell: &Cell, cond: &Option<Expr>) -> Result<ContractSide, String> {
    let Some(buffer) = contract.buffers.iter().position(|b| b.name == cell.buffer) else {
        return Err(format!("it has no buffer `{}`", cell.buffer));
    };
    let bound = |n: &Name| *n == contract.rank || *n == contract.size;
    let held = match &cell.index[..] {
        [_] => HeldPart::Vector,
        [Expr::Var(n), _] if !bound(n) => {
            if cond.as_ref().is_some_and(|c| c.mentions(n)) {
                return Err(format!(
                    "the condition of a clause about `{}` depends on the block",
                    cell.buffer
                ));
            }
            HeldPart::Blocks
        }
        [e, _] => HeldPart::Block(e.clone()),
        _ => return Err(format!("`{}` has {} indices", cell.buffer, cell.index.len())),
    };
    Ok(ContractSide { buffer, held, cond: cond.clone().filter(|c| !c.is_true()) })
}

/// Returns an expression of the contract for one rank of a group of `size`: replaces the names of
/// the rank and of the size.
pub fn on(contract: &Contract, e: &Expr, rank: &Expr, size: u64) -> Expr {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    e.subst(&|n| match n {
        n if *n == contract.rank => Some(rank.clone()),
        n if *n == contract.size => Some(Expr::Int(size)),
        _ => None,
    })
}
