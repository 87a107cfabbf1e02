//! Collectives that a contract defines (`shift`, `permute`, `send_recv` and those of a program's
//! file): which blocks of the operand each block of the result holds.

use super::elementwise::broken;
use crate::package::description::{MovedBlock, MovedBlocks};
use crate::package::python::{quoted, tuple};
use kbc_diag::Diagnostic;
use kbc_ir::contract::Clause;
use kbc_ir::contract_sides::{HeldPart, sides};
use kbc_ir::contract_terms::terms;
use kbc_ir::graph::{CollKind, Collective, Graph, GraphOp, OpKind};

/// Returns what the collectives by contract of a graph move, in order.
///
/// # Errors
/// Returns E457 for a contract that is not known or does not map one value to one value.
pub fn moved_blocks(graph: &Graph) -> Result<Vec<MovedBlocks>, Diagnostic> {
    let all = graph.order().iter().map(|id| graph.op(*id));
    all.filter_map(|op| by_contract(op).map(|c| blocks(op, c))).collect()
}

/// Returns the collective of an operation, if a contract defines it.
pub(super) fn by_contract(op: &GraphOp) -> Option<&Collective> {
    match &op.kind {
        OpKind::Collective(c) if c.kind == CollKind::ByContract => Some(c),
        _ => None,
    }
}

/// Checks whether the contract of a collective combines blocks.
pub(super) fn combines(c: &Collective) -> bool {
    let mut clauses = c.own.iter().flat_map(|own| &own.contract).flat_map(|contract| &contract.clauses);
    clauses.any(|clause| matches!(clause, Clause::End { sum: Some(_), .. }))
}

fn blocks(op: &GraphOp, c: &Collective) -> Result<MovedBlocks, Diagnostic> {
    let known = c.own.as_deref().and_then(|own| Some((own.ranks.max(1), own.contract.as_ref()?)));
    let (p, contract) = known.ok_or_else(|| broken(op, "its contract is not known"))?;
    let both = sides(contract).map_err(|why| broken(op, &why))?;
    let many = |h: &HeldPart| if *h == HeldPart::Blocks { p } else { 1 };
    let place = |h: &HeldPart, rank: u64, block: u64| match h {
        HeldPart::Blocks => rank * p + block,
        HeldPart::Vector | HeldPart::Block(_) => rank,
    };
    let mut named = vec![];
    for r in 0..p {
        for t in terms(contract, p, r).map_err(|why| broken(op, &why))? {
            if t.from.is_empty() {
                return Err(broken(op, "its contract combines nothing"));
            }
            named.push(MovedBlock {
                at: place(&both.end.held, r, t.block),
                from: t.from.iter().map(|(q, b)| place(&both.start.held, *q, *b)).collect(),
                combiner: contract.red.filter(|_| t.reduces),
            });
        }
    }
    Ok(MovedBlocks { before: p * many(&both.start.held), after: p * many(&both.end.held), named })
}

/// Prints the table of a collective for `rearranged` (`templates/moved.py`).
pub(super) fn table(moved: &MovedBlocks) -> String {
    let named = moved.named.iter().map(|b| {
        let how = b.combiner.map_or_else(|| "None".to_owned(), |c| quoted(&c.to_string()));
        tuple([b.at.to_string(), tuple(b.from.iter().map(u64::to_string)), how])
    });
    tuple([moved.before.to_string(), moved.after.to_string(), tuple(named)])
}
