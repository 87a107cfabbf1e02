//! Local programs: evaluates all ranks in step, from one meeting to the next.
//!
//! The module owns the effect of a collective on the values of a group's ranks. The operations
//! between collectives are those of a global program, on each rank's own values. Sums have the
//! bound of a user-defined collective, whatever the order.

use super::contract_collectives::combined;
use super::precision::Precision;
use super::probe;
use super::reduce::{Item, input, integers};
use super::shape::moved;
use super::{
    EvalMode, EvalOptions, Fed, RefTensor, Value, broken, computed, disturb, done_with, room, terms, widened,
};
use kbc_diag::{Diagnostic, Diagnostics};
use kbc_ir::graph::{CollKind, Collective, GraphOp, Movement, OpId, OpKind};
use kbc_ir::local::{Groups, Local, MatchedCollective, matched_collectives};
use kbc_ir::types::{Mesh, ReduceOp};
use kbc_numerics::tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Runs a typed local program on these inputs and returns its results. Both are stacks as in
/// [`Local::inputs`] and [`Local::results`], with one row per rank.
///
/// # Errors
/// Returns the errors of [`super::evaluate`] and of [`matched_collectives`].
pub fn evaluate_local(
    local: &Local,
    mesh: &Mesh,
    inputs: &[Tensor],
    options: &EvalOptions,
) -> Result<Vec<RefTensor>, Diagnostics> {
    let ports = local.inputs(mesh);
    let fits = |(t, p): (&Tensor, &kbc_ir::local::Port)| t.shape() == p.ty.sizes() && t.dtype() == p.ty.dtype;
    if inputs.len() != ports.len() || !inputs.iter().zip(&ports).all(fits) {
        return Err(Diagnostic::error("E405", "the data does not match the inputs of the program").into());
    }
    let tail =
        |p: &kbc_ir::local::LocalPart| if options.terms { terms::tail(&p.graph) } else { BTreeSet::new() };
    let mut lockstep = Lockstep {
        local,
        mesh,
        matched: matched_collectives(local, mesh)?,
        fed: rows(local, &ports, inputs)?,
        done: local.parts.iter().map(|p| done_with(&p.graph)).collect(),
        tails: local.parts.iter().map(tail).collect(),
    };
    let how = EvalMode { parts: 1.0, accuracy: options.accuracy, coins: None, limits: None };
    let mut results = lockstep.run(how)?;
    lockstep.tails.iter_mut().for_each(BTreeSet::clear);
    if results.iter().any(probe::loose) {
        let probes = probe::disturbed(|coins| lockstep.run(EvalMode { coins: Some(coins), ..how }))?;
        probe::tighten(&mut results, &probes);
    }
    room::clear();
    Ok(results)
}

/// Returns the inputs of every rank of every part.
fn rows(
    local: &Local,
    ports: &[kbc_ir::local::Port],
    inputs: &[Tensor],
) -> Result<Vec<Vec<Vec<Fed<'static>>>>, Diagnostic> {
    let mut out: Vec<Vec<Vec<Tensor>>> = local.parts.iter().map(|p| vec![vec![]; p.ranks.len()]).collect();
    for (port, tensor) in ports.iter().zip(inputs) {
        for (row, of) in (0u64..).zip(&mut out[port.part]) {
            let mut range: Vec<(u64, u64)> = tensor.shape().iter().map(|n| (0, *n)).collect();
            range[0] = (row, row + 1);
            let shape = tensor.shape()[1..].to_vec();
            let one = tensor.extract(&range).and_then(|t| t.reshaped(shape));
            of.push(
                one.ok_or_else(|| {
                    Diagnostic::error("E405", format!("input {} has no row {row}", port.name))
                })?,
            );
        }
    }
    let all = local.parts.iter().zip(out);
    let values = |p: &kbc_ir::local::LocalPart, own: &[Tensor]| {
        let each = p.graph.inputs.iter().zip(own);
        each.map(|(declared, tensor)| Ok(Fed::Value(input(declared, tensor)?))).collect()
    };
    all.map(|(p, ranks)| ranks.iter().map(|own| values(p, own)).collect()).collect()
}

struct Lockstep<'a> {
    local: &'a Local,
    mesh: &'a Mesh,
    matched: Vec<MatchedCollective>,
    fed: Vec<Vec<Vec<Fed<'static>>>>,
    done: Vec<BTreeMap<OpId, Vec<OpId>>>,
    /// For each part, the operations that get the sums of their terms.
    tails: Vec<BTreeSet<OpId>>,
}

/// The values so far: for each part one map per rank, and the index of the part's next operation.
struct State {
    values: Vec<Vec<BTreeMap<OpId, Value>>>,
    next: Vec<usize>,
}

impl Lockstep<'_> {
    fn run(&self, how: EvalMode<'_>) -> Result<Vec<RefTensor>, Diagnostic> {
        let parts = &self.local.parts;
        let mut state = State {
            values: parts.iter().map(|p| vec![BTreeMap::new(); p.ranks.len()]).collect(),
            next: vec![0; parts.len()],
        };
        for matched in &self.matched {
            for (part, until) in &matched.members {
                self.walk(&mut state, *part, Some(*until), how)?;
            }
            self.run_collective(&mut state, matched, how)?;
        }
        for part in 0..parts.len() {
            self.walk(&mut state, part, None, how)?;
        }
        let mut out = vec![];
        for port in self.local.results(self.mesh) {
            let g = &parts[port.part].graph;
            let of = |id: &&OpId| g.op(**id).kind == OpKind::Output(port.index);
            let id = g.order().iter().find(of).expect("every result has an output");
            let held: Vec<Arc<RefTensor>> =
                state.values[port.part].iter().map(|v| v[id].clone().complete().t).collect();
            let list: Vec<&RefTensor> = held.iter().map(|t| &**t).collect();
            let mut all = widened(moved(list[0], port.ty.sizes(), &list, |i| {
                (i / elements(list[0]), i % elements(list[0]))
            }));
            let terms: Option<Vec<&Vec<f64>>> = list.iter().map(|t| t.terms.as_ref()).collect();
            all.terms = terms.map(|t| t.into_iter().flatten().copied().collect());
            out.push(all);
        }
        Ok(out)
    }

    /// Evaluates the operations of a part up to a collective, or to its end.
    fn walk(
        &self,
        state: &mut State,
        part: usize,
        until: Option<OpId>,
        how: EvalMode<'_>,
    ) -> Result<(), Diagnostic> {
        let g = &self.local.parts[part].graph;
        while let Some(&id) = g.order().get(state.next[part]) {
            state.next[part] += 1;
            if Some(id) == until {
                break;
            }
            for (values, fed) in state.values[part].iter_mut().zip(&self.fed[part]) {
                let value = computed(g, id, values, fed, (how, &self.tails[part]))?;
                values.insert(id, value);
                self.done[part].get(&id).into_iter().flatten().for_each(|o| drop(values.remove(o)));
            }
        }
        Ok(())
    }

    /// Evaluates a collective on all ranks that take part in it.
    fn run_collective(
        &self,
        state: &mut State,
        matched: &MatchedCollective,
        how: EvalMode<'_>,
    ) -> Result<(), Diagnostic> {
        let (part, id) = matched.members[0];
        let op = self.local.parts[part].graph.op(id);
        let OpKind::Collective(c) = &op.kind else { return Ok(()) };
        let groups = Groups::over(self.mesh, &c.axes())
            .ok_or_else(|| broken(op, "its axes are not axes of the mesh"))?;
        let member: BTreeMap<usize, OpId> = matched.members.iter().copied().collect();
        for ranks in &groups.list {
            let places: Option<Vec<(usize, usize, OpId)>> =
                ranks.iter().map(|r| self.place(&member, *r)).collect();
            // A group that takes no part.
            let Some(places) = places else { continue };
            let operands: Vec<Value> = places
                .iter()
                .map(|(part, row, id)| {
                    let operand = self.local.parts[*part].graph.operands(*id)[0];
                    state.values[*part][*row].get(&operand).cloned().map(Value::complete)
                })
                .collect::<Option<_>>()
                .ok_or_else(|| broken(op, "its operand is not computed"))?;
            let mut results = exchanged(op, c, &operands)?;
            if places.iter().any(|(part, _, id)| self.tails[*part].contains(id)) {
                let moved: Option<Vec<Value>> = operands.iter().map(terms::moved_by).collect();
                for (value, by) in results.iter_mut().zip(moved.map_or(Ok(vec![]), |m| exchanged(op, c, &m))?)
                {
                    terms::put(value, terms::divided(&by.t));
                }
            }
            for ((part, row, id), value) in places.iter().zip(&mut results) {
                disturb(*id, value, how.coins);
                let values = &mut state.values[*part][*row];
                values.insert(*id, value.clone());
                self.done[*part].get(id).into_iter().flatten().for_each(|o| drop(values.remove(o)));
            }
        }
        Ok(())
    }

    /// Returns part, row in the part and operation of a rank that takes part.
    fn place(&self, member: &BTreeMap<usize, OpId>, rank: u64) -> Option<(usize, usize, OpId)> {
        let part = self.local.part_of(rank)?;
        let row = self.local.parts[part].ranks.binary_search(&rank).ok()?;
        Some((part, row, *member.get(&part)?))
    }
}

fn elements(t: &RefTensor) -> usize {
    t.value.len().max(1)
}

/// Returns the value of each rank of a group after a collective, from the values before.
fn exchanged(op: &GraphOp, c: &Collective, operands: &[Value]) -> Result<Vec<Value>, Diagnostic> {
    let p = operands.len();
    let list: Vec<&RefTensor> = operands.iter().map(|v| &*v.t).collect();
    let exact = operands.iter().all(|v| v.exact);
    let moves = |t: RefTensor| Value { exact, ..Value::whole(t) };
    let first = list[0];
    let size = |d: Option<usize>| {
        let d = d.unwrap_or(0);
        first.shape.get(d).map(|n| (d, *n as usize)).ok_or_else(|| broken(op, "it has no such dimension"))
    };
    let inner = |d: usize| first.shape[d + 1..].iter().product::<u64>() as usize;
    let with = |d: usize, n: usize| {
        let mut shape = first.shape.clone();
        shape[d] = n as u64;
        shape
    };
    Ok(match c.kind.movement() {
        Some(Movement::PartialToWhole) => vec![Value::whole(reduced(op, c, &list)?); p],
        Some(Movement::PartialToSplit) => {
            let sum = reduced(op, c, &list)?;
            let (d, n) = size(c.dim)?;
            let (part, inner) = (n / p, inner(d));
            let of = |me: usize| {
                move |i: usize| {
                    let (o, k, j) =
                        (i / (part * inner).max(1), i / inner.max(1) % part.max(1), i % inner.max(1));
                    (0, (o * n + me * part + k) * inner + j)
                }
            };
            (0..p).map(|me| Value::whole(moved(first, with(d, part), &[&sum], of(me)))).collect()
        }
        Some(Movement::SplitToWhole) => {
            let (d, n) = size(c.dim)?;
            let inner = inner(d);
            let of = |i: usize| {
                let (o, k, j) =
                    (i / (p * n * inner).max(1), i / inner.max(1) % (p * n).max(1), i % inner.max(1));
                (k / n.max(1), (o * n + k % n.max(1)) * inner + j)
            };
            vec![moves(moved(first, with(d, p * n), &list, of)); p]
        }
        Some(Movement::SplitFromToSplit) => match &c.counts {
            Some(counts) => (0..p)
                .map(|me| {
                    let width = inner(0);
                    let rows = (0..p).flat_map(|s| {
                        let (a, b) =
                            (counts.boundary(s as u64, me as u64), counts.boundary(s as u64, me as u64 + 1));
                        (a..b).map(move |row| (s, row as usize))
                    });
                    let rows: Vec<(usize, usize)> = rows.collect();
                    let of = |i: usize| (rows[i / width].0, rows[i / width].1 * width + i % width);
                    moves(moved(first, with(0, rows.len()), &list, of))
                })
                .collect(),
            None => {
                let ((f, nf), (t, nt)) = (size(c.from_dim)?, size(c.dim)?);
                let block = if f == t { nf / p } else { nf };
                let mut shape = with(t, nt / p);
                shape[f] *= p as u64;
                let of = |me: usize| {
                    let shape = shape.clone();
                    move |i: usize| {
                        let mut at = kbc_numerics::tensor::multi_index(&shape, i as u64);
                        let source = at[f] as usize / block.max(1);
                        at[f] %= (block as u64).max(1);
                        at[t] += (me * (nt / p)) as u64;
                        (
                            source,
                            at.iter().zip(&first.shape).fold(0, |k, (a, n)| k * *n as usize + *a as usize),
                        )
                    }
                };
                (0..p).map(|me| moves(moved(first, shape.clone(), &list, of(me)))).collect()
            }
        },
        Some(Movement::RootToWhole) => {
            let root =
                c.root.and_then(|r| operands.get(r as usize)).ok_or_else(|| broken(op, "it has no root"))?;
            vec![root.clone(); p]
        }
        None if c.kind == CollKind::Barrier => operands.to_vec(),
        Some(Movement::PartialToRoot | Movement::SplitToRoot | Movement::RootToSplit) | None => {
            return Err(broken(op, "it is not a collective of local programs"));
        }
    })
}

/// Combines the values of all ranks in their type, in some order.
fn reduced(op: &GraphOp, c: &Collective, list: &[&RefTensor]) -> Result<RefTensor, Diagnostic> {
    let red = c.red.unwrap_or(ReduceOp::Sum);
    let first = list[0];
    let n = first.value.len();
    let whole: Option<Vec<&Vec<i64>>> = list.iter().map(|t| t.exact.as_ref()).collect();
    if let Some(whole) = whole {
        let all = (0..n).map(|i| {
            let items: Vec<(i64, f64)> = whole.iter().zip(list).map(|(w, t)| (w[i], t.bound[i])).collect();
            integers(red, &items)
        });
        let (values, bound) = all.unzip();
        return Ok(RefTensor::integers(first.dtype, first.shape.clone(), values, bound));
    }
    let stored = Precision::of(first.dtype)
        .ok_or_else(|| broken(op, "kbc can move this type but not compute with it"))?;
    let all = (0..n).map(|i| {
        let items: Vec<Item> = list.iter().map(|t| (t.value[i], t.bound[i], t.value[i].abs())).collect();
        combined(&stored, red, &items)
    });
    let (values, bound) = all.unzip();
    Ok(RefTensor::real(first.dtype, first.shape.clone(), values, bound))
}
