//! The longest chain of latencies in a program: the latency row for collectives that depend on each
//! other.
//!
//! For every buffer on every rank, this module computes the earliest times at which the first and
//! the last of its elements can be present. An element of a result depends on the elements from
//! which it is computed, wherever they come from, so these times hold for every schedule,
//! whether or not it works in pieces. Where it is unknown which elements a result needs, the time
//! of the first element is used.

use super::{Group, RegionProblem};
use kbc_diag::Diagnostics;
use kbc_ir::Name;
use kbc_ir::collective::Movement;
use kbc_ir::schedule::{
    BufferId, BufferRole, LocalOp, Operand, RankSet, Region, RegionId, SOp, SStmt, Schedule,
};
use kbc_ir::walk::{Fault, Program};
use kbc_machine::bounds::{Distances, Problem, Sizes, distances};
use kbc_machine::topology::{DeviceId, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Largest number of ranks for which chains are followed. Every collective is evaluated for all
/// pairs of its group.
const CHAINED: u64 = 256;

/// The earliest times at which the first and the last element of a part can be present, in ns.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Span {
    first: f64,
    last: f64,
}

impl Span {
    fn both(ns: f64) -> Span {
        Span { first: ns, last: ns }
    }
}

/// Returns the longest chain of a schedule in ns. Returns 0 if there are more than [`CHAINED`]
/// ranks, or if a host decides when regions run.
pub(super) fn longest(
    schedule: &Schedule,
    program: &Program<'_>,
    topology: &Topology,
    needs: &[RegionProblem],
) -> Result<f64, Diagnostics> {
    if schedule.host.is_some() || needs.is_empty() {
        return Ok(0.0);
    }
    let ranks = schedule.mesh.ranks();
    if ranks > CHAINED {
        return Ok(0.0);
    }
    let devices: Vec<DeviceId> = (0..ranks).map(|r| DeviceId(r as u32)).collect();
    let Some(distances) = distances(topology, &devices) else { return Ok(0.0) };
    let fault = |f: Fault| Diagnostics::from(f.diagnostic(|r| schedule.mesh.show(r)));
    let mut chain = Chain {
        schedule,
        program,
        distances,
        ranks,
        held: schedule
            .buffers
            .iter()
            .map(|b| {
                let there = b.zero || matches!(b.role, BufferRole::Input(_));
                vec![there.then(Span::default); ranks as usize]
            })
            .collect(),
        writers: writers(schedule),
        before: before(schedule),
        longest: 0.0,
    };
    for (i, region) in schedule.regions.iter().enumerate() {
        let id = RegionId(i as u32);
        if region.over.is_empty() {
            chain.local(region, id).map_err(fault)?;
        } else {
            let need = needs.iter().find(|n| n.id == id);
            chain.collective(region, id, need.and_then(|n| n.groups.first())).map_err(fault)?;
        }
    }
    Ok(chain.longest)
}

/// Returns the regions that write each buffer.
fn writers(schedule: &Schedule) -> Vec<BTreeSet<usize>> {
    let mut out = vec![BTreeSet::new(); schedule.buffers.len()];
    for (i, region) in schedule.regions.iter().enumerate() {
        let mut written: BTreeSet<BufferId> = region.operands.iter().map(|o| o.buffer).collect();
        for stream in region.roles.iter().flat_map(|r| &r.streams) {
            each(&stream.body, &mut |op, _| {
                written.insert(op.dst());
            });
        }
        written.into_iter().for_each(|b| {
            out[b.0 as usize].insert(i);
        });
    }
    out
}

/// Returns, for each region, the regions that are certain to be over before it begins: those it
/// names in `after`, those before it on a stream that both use alone, and their own predecessors.
fn before(schedule: &Schedule) -> Vec<Vec<bool>> {
    let streams = |r: &Region| -> Option<Name> {
        let mut all = r.roles.iter().flat_map(|r| &r.streams).map(|s| &s.name);
        let first = all.next()?;
        all.all(|s| s == first).then(|| first.clone())
    };
    let mut last: BTreeMap<Name, usize> = BTreeMap::new();
    let mut out: Vec<Vec<bool>> = vec![];
    for (i, region) in schedule.regions.iter().enumerate() {
        let mut own = vec![false; i];
        let stream = streams(region);
        let one = stream.as_ref().and_then(|s| last.get(s)).copied();
        for b in region.after.iter().map(|a| a.0 as usize).filter(|a| *a < i).chain(one) {
            own[b] = true;
            own.iter_mut().zip(&out[b]).for_each(|(o, e)| *o |= e);
        }
        out.push(own);
        if let Some(stream) = stream {
            last.insert(stream, i);
        }
    }
    out
}

/// Calls `f` for each local operation of a body, with whether it is certain to run exactly once.
pub(super) fn each<'s>(body: &'s [SStmt], f: &mut dyn FnMut(&'s LocalOp, bool)) {
    fn inner<'s>(body: &'s [SStmt], once: bool, f: &mut dyn FnMut(&'s LocalOp, bool)) {
        for st in body {
            match st {
                SStmt::Op(SOp::Local(op), _) => f(op, once),
                SStmt::Op(..) => {}
                SStmt::For { body, .. } => inner(body, false, f),
                SStmt::If { then, other, .. } => {
                    inner(then, false, f);
                    inner(other, false, f);
                }
            }
        }
    }
    inner(body, true, f);
}

struct Chain<'a> {
    schedule: &'a Schedule,
    program: &'a Program<'a>,
    distances: Arc<Distances>,
    ranks: u64,
    /// Times by buffer and rank; `None` while the buffer holds nothing.
    held: Vec<Vec<Option<Span>>>,
    /// The regions that write each buffer.
    writers: Vec<BTreeSet<usize>>,
    before: Vec<Vec<bool>>,
    longest: f64,
}

impl Chain<'_> {
    /// Returns the times of a buffer's elements as a region finds them on a rank, or `None` if the
    /// buffer has no elements there. The times of earlier regions count only if all regions that
    /// write the buffer before this one are certain to be over.
    fn found(&self, b: BufferId, rank: u64, region: RegionId) -> Result<Option<Span>, Fault> {
        if self.program.elements(b, rank)? == 0 {
            return Ok(None);
        }
        let at = region.0 as usize;
        let known = self.writers[b.0 as usize].range(..at).all(|w| self.before[at][*w]);
        Ok(Some(self.held[b.0 as usize][rank as usize].filter(|_| known).unwrap_or_default()))
    }

    fn set(&mut self, b: BufferId, rank: u64, span: Span) {
        self.longest = self.longest.max(span.last);
        self.held[b.0 as usize][rank as usize] = Some(span);
    }

    fn local(&mut self, region: &Region, id: RegionId) -> Result<(), Fault> {
        for rank in 0..self.ranks {
            let Some(role) = role(self.program, region, id, rank)? else { continue };
            for stream in &region.roles[role].streams {
                let mut all = vec![];
                each(&stream.body, &mut |op, once| all.push((op, once)));
                for (op, once) in all {
                    self.operation(op, once, rank, id)?;
                }
            }
        }
        Ok(())
    }

    fn operation(&mut self, op: &LocalOp, once: bool, rank: u64, region: RegionId) -> Result<(), Fault> {
        let dst = op.dst();
        if !once {
            self.set(dst, rank, Span::default());
            return Ok(());
        }
        if self.program.elements(dst, rank)? == 0 {
            return Ok(());
        }
        let mut out = Span::default();
        let mut empty = false;
        for (src, all) in op.needed() {
            let Some(found) = self.found(src, rank, region)? else {
                empty = true;
                continue;
            };
            out.first = out.first.max(found.first);
            out.last = out.last.max(if all { found.last } else { found.first });
        }
        out.last = out.last.max(out.first);
        let part = matches!(op.line_block(), Some(b) if b.line == dst);
        let before = self.held[dst.0 as usize][rank as usize];
        let span = match before {
            // An empty part adds no element to the line.
            Some(before) if part && empty => before,
            None if part && empty => return Ok(()),
            Some(before) if part => Span::both(before.first.min(out.first)),
            _ => out,
        };
        self.set(dst, rank, span);
        Ok(())
    }

    fn collective(&mut self, region: &Region, id: RegionId, group: Option<&Group>) -> Result<(), Fault> {
        let Some((group, (from, to))) = group.zip(ends(&region.operands)) else {
            for operand in &region.operands {
                for rank in 0..self.ranks {
                    self.set(operand.buffer, rank, Span::default());
                }
            }
            return Ok(());
        };
        let p = self.schedule.group_size(region);
        let leads = (0..self.ranks).filter(|r| self.program.group_rank(id, *r, 0) == *r);
        for lead in leads.collect::<Vec<_>>() {
            let ranks: Vec<u64> = (0..p).map(|i| self.program.group_rank(id, lead, i)).collect();
            let found = ranks.iter().map(|r| self.found(from, *r, id)).collect::<Result<Vec<_>, _>>()?;
            let ns = |i: usize, j: usize| self.distances.ns(ranks[i] as usize, ranks[j] as usize);
            let out = after(&group.problem, &found, &ns);
            for (rank, span) in ranks.into_iter().zip(out) {
                match span {
                    Some(span) => self.set(to, rank, span),
                    None => self.set(to, rank, Span::default()),
                }
            }
        }
        Ok(())
    }
}

/// Returns the role of a rank in a region, if it has one.
pub(super) fn role(
    program: &Program<'_>,
    region: &Region,
    id: RegionId,
    rank: u64,
) -> Result<Option<usize>, Fault> {
    match region.roles.first() {
        None => Ok(None),
        Some(first) if matches!(first.ranks, RankSet::All) => Ok(Some(0)),
        Some(_) => program.role_of(id, rank),
    }
}

/// Returns the buffer that a collective reads and the buffer that it writes, if there is one of
/// each.
fn ends(operands: &[Operand]) -> Option<(BufferId, BufferId)> {
    let own: Vec<&Operand> = operands.iter().filter(|o| !o.scratch).collect();
    let named = |name: &str| own.iter().find(|o| o.name == *name).map(|o| o.buffer);
    match own[..] {
        [only] => Some((only.buffer, only.buffer)),
        [_, _] => named("src").zip(named("dst")),
        _ => None,
    }
}

/// Returns the times at which the ranks of a group can have the result of a collective. `None`
/// means that nothing is known about a rank's result.
fn after(problem: &Problem, found: &[Option<Span>], ns: &dyn Fn(usize, usize) -> f64) -> Vec<Option<Span>> {
    let p = found.len();
    if problem.group.len() != p {
        // The problem covers only a part of the group, so nothing is known about the other ranks.
        return vec![None; p];
    }
    let filled = |i: usize| match &problem.sizes {
        Sizes::Blocks(blocks) => blocks[i] > 0,
        Sizes::Even | Sizes::Pairs(_) => true,
    };
    let root = problem.root.unwrap_or(0);
    let all = |j: usize, of: fn(&Span) -> f64, from: &dyn Fn(usize) -> bool| {
        let each = (0..p).filter(|i| from(*i)).filter_map(|i| Some(of(found[i].as_ref()?) + ns(i, j)));
        each.fold(0.0, f64::max)
    };
    let any = |j: usize, from: &dyn Fn(usize) -> bool| {
        let each = (0..p).filter(|i| from(*i)).filter_map(|i| Some(found[i]?.first + ns(i, j)));
        let least = each.fold(f64::INFINITY, f64::min);
        if least < f64::INFINITY { least } else { 0.0 }
    };
    let (first, last) = (|s: &Span| s.first, |s: &Span| s.last);
    let everybody = |_: usize| true;
    let sum = |j| Span { first: all(j, first, &everybody), last: all(j, last, &everybody) };
    let gathered = |j| Span { first: any(j, &filled), last: all(j, last, &filled) };
    (0..p)
        .map(|j| match problem.kind.movement()? {
            Movement::PartialToWhole => Some(sum(j)),
            Movement::PartialToRoot => (j == root).then(|| sum(j)),
            Movement::SplitToWhole => Some(gathered(j)),
            Movement::SplitToRoot => (j == root).then(|| gathered(j)),
            Movement::PartialToSplit => filled(j).then(|| Span::both(all(j, first, &everybody))),
            Movement::RootToWhole => {
                found[root].map(|s| Span { first: s.first + ns(root, j), last: s.last + ns(root, j) })
            }
            Movement::RootToSplit => {
                found[root].filter(|_| filled(j)).map(|s| Span::both(s.first + ns(root, j)))
            }
            Movement::SplitFromToSplit => match &problem.sizes {
                Sizes::Pairs(bytes) => {
                    let from = |i: usize| bytes[i * p + j] > 0;
                    // Elements that a rank keeps may be absent from the sizes.
                    let own = |i: usize| i == j || from(i);
                    Some(Span { first: any(j, &own), last: all(j, first, &from) })
                }
                Sizes::Even | Sizes::Blocks(_) => {
                    filled(j).then(|| Span { first: any(j, &everybody), last: all(j, first, &everybody) })
                }
            },
        })
        .collect()
}
