//! The problem that a collective region solves. It is read from the contract and the operand of the
//! region, never from its body.

use kbc_diag::Diagnostics;
use kbc_ir::contract::Contract;
use kbc_ir::contract_terms::terms;
use kbc_ir::schedule::{OperandId, Region, RegionId, Schedule};
use kbc_ir::types::CutRule;
use kbc_ir::walk::Program;
use kbc_machine::bounds::{self, Problem, Sizes};
use kbc_machine::topology::DeviceId;
use std::collections::BTreeSet;

/// Returns the problem that a collective region solves on a group, and S of the bandwidth
/// conventions.
pub(super) fn problem(
    schedule: &Schedule,
    program: &Program<'_>,
    region: &Region,
    id: RegionId,
    group: Vec<DeviceId>,
) -> Result<Option<(Problem, Option<u64>)>, Diagnostics> {
    let Some(contract) = &region.contract else { return Ok(None) };
    let p = schedule.group_size(region);
    let Some(operand) = region.operands.first() else { return Ok(None) };
    let fault = |f: kbc_ir::walk::Fault| Diagnostics::from(f.diagnostic(|r| schedule.mesh.show(r)));
    // Parts that another axis cuts differ from group to group, and may be empty in some groups.
    let lead = group.first().map_or(0, |d| u64::from(d.0));
    let mut elements = program.elements(operand.buffer, lead).map_err(fault)?;
    if let CutRule::Lengths(_) = operand.line.rule {
        // The first rank need not have the most elements.
        for r in 1..p {
            let rank = program.group_rank(id, lead, r);
            elements = elements.max(program.elements(operand.buffer, rank).map_err(fault)?);
        }
    }
    let width = schedule.buffer(operand.buffer).dtype.bytes();
    let bytes = elements * width;
    if is_barrier(region) {
        // An all_gather of one byte uses the same routes.
        return Ok(Some((Problem::new(bounds::CollKind::AllGather, p, group), None)));
    }
    // The lanes of cores are not blocks of the collective.
    let blocks = if matches!(operand.line.rule, CutRule::Lines(_)) { 1 } else { operand.line.parts.max(1) };
    let known = bounds::CollKind::parse(&contract.collective).filter(|k| k.movement().is_some());
    let Some(kind) = known else {
        return Ok(at_least(contract, bytes / blocks, group).map(|p| (p.element(width), None)));
    };
    let mut problem = Problem::new(kind, bytes, group).element(width);
    if let Some(root) = contract.root {
        problem = problem.root(root as usize);
    }
    if blocks > 1 && kind == bounds::CollKind::AllToAll {
        problem = problem.sizes(pairs(schedule, program, (region, id), lead, width).map_err(fault)?);
    } else if blocks > 1
        && let (Some(extent), Some(unit)) = (operand.line.extent.as_int(), operand.line.unit.as_int())
    {
        let blocks = (0..p)
            .map(|b| {
                let part = operand.line.rule.part(extent as u64, b, p);
                (part.end - part.start) * unit as u64 * width
            })
            .collect();
        problem = problem.sizes(Sizes::Blocks(blocks));
    } else if kind == bounds::CollKind::AllToAll && bytes > 0 {
        // The blocks differ by one element: count what all of them have.
        problem.bytes = elements / p * p * width;
    } else if kind.blocked() && elements % p != 0 {
        let at = |b: u64| program.chunk_start(id, OperandId(0), lead, b as i64, p as i64).map_err(fault);
        let blocks =
            (0..p).map(|b| Ok((at(b + 1)? - at(b)?) * width)).collect::<Result<Vec<_>, Diagnostics>>()?;
        if blocks.iter().sum::<u64>() == bytes {
            problem = problem.sizes(Sizes::Blocks(blocks));
        }
    }
    Ok(Some((problem, Some(bytes))))
}

/// Checks whether a region serves only its signals: every rank hears from every other, and no data
/// moves.
pub(super) fn is_barrier(region: &Region) -> bool {
    // The content of the operand stays where it is.
    region.contract.as_ref().is_some_and(|p| p.collective == *"barrier" && p.is_total())
}

/// Returns the name under which reports show a collective and its bound.
pub(super) fn named(region: &Region, problem: &Problem) -> String {
    let name = region.contract.as_ref().map_or(region.name.as_str(), |p| p.collective.as_str());
    match problem.kind.name() {
        kind if kind == name => name.to_owned(),
        "all_to_all" => name.to_owned(),
        "all_gather" if name == "barrier" => name.to_owned(),
        kind => format!("{name} (at least a {kind})"),
    }
}

/// Largest number of ranks for which the contract of a user-defined collective is evaluated.
const PROMISED: u64 = 1024;

/// Returns a standard problem that a user-defined collective must solve at least, from its
/// contract. `bytes` is the size of a block.
///
/// * If every block goes to at most one other rank, the problem is exactly that all_to_all.
/// * If some rank ends with something from every rank, it is a reduce to that rank.
/// * Otherwise it is the broadcast of the contribution that most other ranks need.
fn at_least(contract: &Contract, bytes: u64, group: Vec<DeviceId>) -> Option<Problem> {
    let p = group.len();
    if p as u64 > PROMISED {
        return None;
    }
    let mut wanted = vec![0u64; p * p];
    let mut copies: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut once = true;
    // The ranks from which each rank needs something.
    let mut needs: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); p];
    for r in 0..p {
        for t in terms(contract, p as u64, r as u64).ok()? {
            once &= !t.reduces || t.from.len() == 1;
            for (q, b) in t.from.into_iter().filter(|(q, _)| *q as usize != r) {
                once &= copies.insert((q, b));
                wanted[q as usize * p + r] += bytes;
                needs[r].insert(q as usize);
            }
        }
    }
    if once {
        let whole = Problem::new(bounds::CollKind::AllToAll, bytes, group);
        return Some(whole.sizes(Sizes::Pairs(wanted)));
    }
    if let Some(r) = (0..p).find(|r| needs[*r].len() + 1 == p) {
        return Some(Problem::new(bounds::CollKind::Reduce, bytes, group).root(r));
    }
    let users = |q: usize| (0..p).filter(|r| needs[*r].contains(&q)).collect::<Vec<_>>();
    let best = (0..p).max_by_key(|q| (users(*q).len(), std::cmp::Reverse(*q)))?;
    let part = std::iter::once(best).chain(users(best)).map(|i| group[i]);
    Some(Problem::new(bounds::CollKind::Broadcast, bytes, part).root(0))
}

/// Returns the bytes that every rank has for every other in an all_to_all.
fn pairs(
    schedule: &Schedule,
    program: &Program<'_>,
    (region, id): (&Region, RegionId),
    lead: u64,
    width: u64,
) -> Result<Sizes, kbc_ir::walk::Fault> {
    let p = schedule.group_size(region);
    let mut all = vec![];
    for src in 0..p {
        let rank = program.group_rank(id, lead, src);
        let at = |b: u64| program.chunk_start(id, OperandId(0), rank, b as i64, p as i64);
        for dst in 0..p {
            all.push((at(dst + 1)? - at(dst)?) * width);
        }
    }
    Ok(Sizes::Pairs(all))
}
