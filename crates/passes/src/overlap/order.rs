//! Issue order and streams: list scheduling on the estimated times of operations.
//!
//! A rank has one stream for local work and `width` for the collectives of each group of axes.
//! Among the operations whose operands are available, the one that can start first is next. Ties go
//! to the operation with the longest path to the end, then to the first in program order. A
//! collective runs on the stream of its group that is free first.
//!
//! The estimate does not know which links collectives share. With more than one stream per group it
//! says only what could be gained at most, and the simulation decides.

use crate::expand::ends;
use kbc_ir::Name;
use kbc_ir::graph::{CollKind, Collective, Graph, HostOp, OpId, OpKind};
use kbc_ir::tiles::TileKernel;
use kbc_ir::types::{Mesh, TensorType};
use kbc_machine::topology::Settings;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// An order with its estimated time.
pub(super) struct Plan {
    /// The operations in order.
    pub(super) order: Vec<OpId>,
    /// The number of each operation's stream among those of its group, counted from 0.
    pub(super) streams: BTreeMap<OpId, usize>,
    /// Nanoseconds with streams.
    pub(super) ns: f64,
    /// Nanoseconds of serial execution.
    pub(super) serial: f64,
}

/// Whether of every two operations that take time one needs the other, directly or not. Then no
/// order and no streams are faster than one after another.
pub(super) fn is_chain(graph: &Graph, takes_time: &dyn Fn(OpId) -> bool) -> bool {
    // For each operation, how many operations that take time are on the longest path to it.
    let mut depths: BTreeMap<OpId, usize> = BTreeMap::new();
    let (mut number, mut deepest) = (0, 0);
    for &id in graph.order() {
        let before = graph.operands(id).iter().filter_map(|o| depths.get(o)).max().copied().unwrap_or(0);
        let own = usize::from(takes_time(id));
        depths.insert(id, before + own);
        number += own;
        deepest = deepest.max(before + own);
    }
    number == deepest
}

/// Returns the first stream of a collective's group, such as `comm_tp`, if it can have a stream of
/// its own.
pub(super) fn stream_of(c: &Collective) -> Option<Name> {
    if matches!(c.kind, CollKind::Slice | CollKind::Barrier) {
        return None;
    }
    let axes: Vec<String> = c.axes().iter().map(Name::to_string).collect();
    Some(format!("comm_{}", axes.join("_")).into())
}

/// A number with a total order.
#[derive(Clone, Copy, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// An operation that can be issued: the smallest one is next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Issue {
    start: Ordered,
    path: Reverse<Ordered>,
    number: usize,
}

/// The operations of one group of streams whose operands have been issued.
struct Ready {
    /// For each stream of the group, the time at which it is free.
    free: Vec<f64>,
    /// Operations by the time at which their operands are available.
    waiting: BinaryHeap<Reverse<Issue>>,
    /// Operations whose operands are available when a stream is free, by their paths alone.
    available: BinaryHeap<Reverse<(Reverse<Ordered>, usize)>>,
}

impl Ready {
    fn new(width: usize) -> Ready {
        Ready { free: vec![0.0; width], waiting: BinaryHeap::new(), available: BinaryHeap::new() }
    }

    /// Returns the stream that is free first, and the time from which it is free.
    fn next(&self) -> (usize, f64) {
        let all = self.free.iter().copied().enumerate();
        all.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    }

    /// Adds an operation whose operands are available from a time on.
    fn add(&mut self, number: usize, there: f64, path: f64) {
        self.waiting.push(Reverse(Issue { start: Ordered(there), path: Reverse(Ordered(path)), number }));
    }

    /// Returns the operation that the stream issues next.
    fn first(&mut self) -> Option<Issue> {
        let (_, free) = self.next();
        while let Some(Reverse(first)) = self.waiting.peek().filter(|w| w.0.start.0 <= free) {
            self.available.push(Reverse((first.path, first.number)));
            self.waiting.pop();
        }
        match self.available.peek() {
            Some(Reverse((path, number))) => {
                Some(Issue { start: Ordered(free), path: *path, number: *number })
            }
            None => self.waiting.peek().map(|w| w.0),
        }
    }

    /// Removes that operation, which occupies its stream until a time. Returns the number of the
    /// stream.
    fn issued(&mut self, end: f64) -> usize {
        if self.available.pop().is_none() {
            self.waiting.pop();
        }
        let (stream, _) = self.next();
        self.free[stream] = end;
        stream
    }
}

/// Returns the order that list scheduling finds, with `width` streams for each group of axes.
/// `cost` prices an operation in nanoseconds.
pub(super) fn plan(graph: &Graph, width: usize, cost: &dyn Fn(OpId) -> f64) -> Plan {
    let all = graph.order();
    let place: BTreeMap<OpId, usize> = all.iter().copied().zip(0..).collect();
    let operands: Vec<Vec<usize>> =
        all.iter().map(|id| graph.operands(*id).iter().map(|o| place[o]).collect()).collect();
    let mut users: Vec<Vec<usize>> = vec![vec![]; all.len()];
    for (i, list) in operands.iter().enumerate() {
        list.iter().for_each(|o| users[*o].push(i));
    }
    let costs: Vec<f64> = all.iter().map(|id| cost(*id)).collect();
    // The longest path to the end, including the operation itself.
    let mut path = costs.clone();
    for i in (0..all.len()).rev() {
        path[i] += users[i].iter().map(|u| path[*u]).fold(0.0, f64::max);
    }
    let groups: Vec<Option<Name>> = all
        .iter()
        .map(|id| match &graph.op(*id).kind {
            OpKind::Collective(c) => stream_of(c),
            _ => None,
        })
        .collect();
    let mut missing: Vec<usize> = operands.iter().map(|o| o.iter().collect::<BTreeSet<_>>().len()).collect();
    let mut end = vec![0.0f64; all.len()];
    let mut ready: BTreeMap<&Option<Name>, Ready> = BTreeMap::new();
    // Local work has one stream.
    let empty = |group: &Option<Name>| Ready::new(if group.is_some() { width } else { 1 });
    for i in (0..all.len()).filter(|i| missing[*i] == 0) {
        let group = &groups[i];
        ready.entry(group).or_insert_with(|| empty(group)).add(i, 0.0, path[i]);
    }
    let mut order = vec![];
    let mut streams = BTreeMap::new();
    let mut ns = 0.0f64;
    loop {
        let firsts = ready.values_mut().filter_map(Ready::first);
        let Some(Issue { start, number: next, .. }) = firsts.min() else { break };
        end[next] = start.0 + costs[next];
        ns = ns.max(end[next]);
        if let Some(ready) = ready.get_mut(&groups[next]) {
            streams.insert(all[next], ready.issued(end[next]));
        }
        order.push(all[next]);
        for u in users[next].iter().copied().collect::<BTreeSet<_>>() {
            missing[u] -= 1;
            if missing[u] == 0 {
                let there = operands[u].iter().map(|o| end[*o]).fold(0.0, f64::max);
                let group = &groups[u];
                ready.entry(group).or_insert_with(|| empty(group)).add(u, there, path[u]);
            }
        }
    }
    Plan { order, streams, ns, serial: costs.iter().sum() }
}

/// Returns the number of elements of the first rank.
fn elements(ty: &TensorType, mesh: &Mesh) -> f64 {
    let first = vec![0; mesh.axes.len()];
    ty.local_box(mesh, &first).iter().map(|(lo, hi)| (hi - lo) as f64).product()
}

/// Returns the nanoseconds of an operation that is not a collective, by the rates of the machine
/// (docs/explanation/time.md, local work).
pub(super) fn local(graph: &Graph, id: OpId, mesh: &Mesh, rates: &Settings) -> f64 {
    let op = graph.op(id);
    let types = graph.operands(id).into_iter().filter_map(|o| graph.op(o).ty.clone()).collect::<Vec<_>>();
    let Some(ty) = &op.ty else { return 0.0 };
    let bytes = |t: &TensorType| elements(t, mesh) * t.dtype.bytes() as f64;
    let written = bytes(ty);
    // An operand that occurs twice in an operation is read once.
    let once: BTreeSet<OpId> = graph.operands(id).into_iter().collect();
    let read: f64 = once.iter().filter_map(|o| graph.op(*o).ty.as_ref()).map(bytes).sum();
    let [flops, memory, vector] = match &op.kind {
        OpKind::Matmul { .. } | OpKind::Grouped(_) => {
            let k = types.first().and_then(|a| {
                let first = vec![0; mesh.axes.len()];
                a.local_box(mesh, &first).last().map(|(lo, hi)| (hi - lo) as f64)
            });
            [2.0 * elements(ty, mesh) * k.unwrap_or(0.0), read + written, 0.0]
        }
        OpKind::Tiles(k) => tiles(k, &types, mesh),
        OpKind::Map(_) => [0.0, read + written, written],
        OpKind::ReduceDim { .. } => [0.0, read + written, read],
        OpKind::Cast(_) => [0.0, read + written, read.max(written)],
        OpKind::Embedding => [0.0, 2.0 * written, 0.0],
        OpKind::Fill(_) => [0.0, written, written],
        OpKind::Output(_) if graph.operands(id).iter().all(|o| ends(graph).contains_key(o)) => [0.0; 3],
        OpKind::Shape(_) | OpKind::Output(_) => [0.0, 2.0 * written, 0.0],
        OpKind::Collective(c) if c.kind == CollKind::Slice => [0.0, 2.0 * written, 0.0],
        OpKind::Host(HostOp::Write) => [0.0, 2.0 * written, 0.0],
        OpKind::Input(_)
        | OpKind::Collective(_)
        | OpKind::Demand
        | OpKind::PartialDemand(_)
        | OpKind::Wait
        | OpKind::Host(HostOp::Read | HostOp::Wait | HostOp::Drain) => [0.0; 3],
    };
    let times = [flops / rates.flops(), memory / rates.memory(), rates.vector_bytes(vector) / rates.vector()];
    1e9 * times.into_iter().fold(0.0, f64::max)
}

/// Returns the FLOP, memory bytes and vector bytes of a kernel over tiles on the first rank.
fn tiles(kernel: &TileKernel, operands: &[TensorType], mesh: &Mesh) -> [f64; 3] {
    let first = vec![0; mesh.axes.len()];
    let sizes =
        |t: &TensorType| t.local_box(mesh, &first).iter().map(|(lo, hi)| hi - lo).collect::<Vec<u64>>();
    let sizes: Vec<Vec<u64>> = operands.iter().map(sizes).collect();
    let views: Vec<&[u64]> = sizes.iter().map(|s| &s[..]).collect();
    let work = kernel.work(&views).unwrap_or_default();
    work.total().map(|amount| amount as f64)
}

/// Returns the nanoseconds of the copies into and out of a collective.
pub(super) fn copies(graph: &Graph, id: OpId, mesh: &Mesh, rates: &Settings) -> f64 {
    let from = graph.operands(id).first().and_then(|o| graph.op(*o).ty.clone());
    let both = from.iter().chain(&graph.op(id).ty);
    let bytes: f64 = both.map(|t| 2.0 * elements(t, mesh) * t.dtype.bytes() as f64).sum();
    1e9 * bytes / rates.memory()
}
