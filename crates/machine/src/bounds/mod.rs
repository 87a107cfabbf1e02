//! Bounds: lower limits on the time of a collective on a machine (docs/explanation/bounds.md).
//!
//! This module owns the rows of a collective's bound (latency, bandwidth over the best cut or
//! partition, reduction) and their combination: the bound is the largest row, never the sum. A row
//! counts only what every algorithm must do, on links that are always full and devices that combine
//! and forward without delay. No simulated time may therefore be below it. There is no row for
//! memory traffic, because what passes through a device's memory depends on the schedule. Devices
//! outside the group may forward messages, but neither combine nor copy them. Switches do so only
//! where the machine says it (`switch: reduce, multicast`).
//!
//! Bounds of whole programs (arithmetic, dependences between collectives) are computed in
//! `src/bounds`, and times of schedules by the event engine (crate `kbc_time`).

mod all_reduce;
mod cuts;
mod demand;
mod flow;
mod latency;
mod node_sets;
mod search;
pub(crate) mod strength;
mod together;
mod words;

use fixedbitset::FixedBitSet;
use kbc_diag::Diagnostic;
use kbc_ir::collective::Holding;

use crate::topology::{DeviceId, Topology};
use cuts::{Best, Capacity, Cut, SendingSide};
use demand::Demand;

pub use demand::{Problem, Sizes, bounded, bus_factor};
pub use kbc_ir::collective::CollKind;
pub use latency::{Distances, distances};
pub use together::together;

/// The method that found a bandwidth row. It decides whether the row is known to be the largest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Method {
    /// Largest by proof: the machine is a uniform generator and all its devices are in the group.
    Symmetry,
    /// Largest of all: on a cycle or a path, the best cut or partition consists of intervals, and
    /// all of them were evaluated.
    Intervals,
    /// Largest of all, by maximum flows (strength of a graph, or minimum cuts).
    Search,
    /// Largest of the rows that were evaluated. A larger one may exist.
    Found,
}

impl Method {
    /// Returns the text for reports.
    pub fn words(self) -> &'static str {
        match self {
            Method::Symmetry => "exact, by symmetry",
            Method::Intervals => "exact, over all intervals",
            Method::Search => "exact, by maximum flows",
            Method::Found => "from this partition, the best of those examined",
        }
    }
}

/// A lower bound with the rows and the partition behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct Bound {
    /// The bound in ns: the largest row. 0 for one rank or no bytes.
    pub ns: f64,
    /// The latency row, in ns.
    pub latency_ns: f64,
    /// The bandwidth row, in ns, less [`Bound::slack_ns`].
    pub bandwidth_ns: f64,
    /// The reduction row, in ns. 0 if the vector unit is assumed infinitely fast.
    pub reduction_ns: f64,
    /// Number of hops of the path that the latency row counts.
    pub hops: u32,
    /// The amount, in ns, that was taken off the bandwidth row because the machine rounds times
    /// down. No schedule gains more, however many messages it sends. 0 if times of links are exact.
    pub slack_ns: f64,
    /// Text of the largest row's bottleneck. `-` if the bound is 0.
    pub bottleneck: String,
    /// Text of the bandwidth row's bottleneck.
    pub bandwidth_bottleneck: String,
    /// Whether no partition of the ranks gives a larger bandwidth row. If false, reports add "from
    /// this partition".
    pub exact: bool,
    /// The method that found the bandwidth row.
    pub method: Method,
    /// The partition of the ranks behind the bandwidth row. A cut has two parts, the sending one
    /// first.
    pub partition: Vec<Vec<DeviceId>>,
}

impl Bound {
    /// Returns the bound as a percentage of the time `ns`. None if the bound is 0.
    pub fn percent(&self, ns: f64) -> Option<f64> {
        (self.ns > 0.0).then(|| self.ns / ns * 100.0)
    }

    /// Checks whether a time is below the bound by more than rounding (1e-9). Such a time is an
    /// internal error of whoever measured it.
    pub fn contradicts(&self, ns: f64) -> bool {
        ns < self.ns * (1.0 - 1e-9)
    }
}

/// Returns algbw in GB/s: bytes as in [`Problem::bytes`] over the time in ns.
pub fn algbw(bytes: u64, ns: f64) -> f64 {
    bytes as f64 / ns
}

/// Returns busbw in GB/s on p ranks. It is comparable with the bandwidth of a link only on a flat
/// fabric.
pub fn busbw(kind: CollKind, p: usize, bytes: u64, ns: f64) -> f64 {
    algbw(bytes, ns) * bus_factor(kind, p)
}

/// The cut or partition behind a bandwidth row.
#[derive(Clone, PartialEq, Debug)]
enum Split {
    /// The partition into single ranks.
    Singletons,
    /// A cut into two sides.
    Cut(SendingSide),
    /// A partition, as ranks of each part.
    Parts(Vec<Vec<usize>>),
}

/// A bandwidth row: time, partition and method.
#[derive(Clone, PartialEq, Debug)]
struct Row {
    ns: f64,
    split: Split,
    method: Method,
}

/// Computes the lower bound of a collective.
///
/// # Errors
/// Returns E448 if the problem is not valid on this machine: a device that is unknown or in the
/// group twice, a missing or superfluous root, or sizes that do not fit.
pub fn bound(topo: &Topology, problem: &Problem) -> Result<Bound, Diagnostic> {
    problem.check(topo)?;
    let machine_for_bounds = topo.for_bounds();
    let topo = (*machine_for_bounds).as_ref().unwrap_or(topo);
    if problem.is_nothing() {
        return Ok(Bound {
            ns: 0.0,
            latency_ns: 0.0,
            bandwidth_ns: 0.0,
            reduction_ns: 0.0,
            hops: 0,
            slack_ns: 0.0,
            bottleneck: "-".to_owned(),
            bandwidth_bottleneck: "-".to_owned(),
            exact: true,
            method: Method::Symmetry,
            partition: vec![],
        });
    }
    let demand = Demand::new(problem);
    let capacity = Capacity::of(topo);
    let latency = latency::latency(topo, &demand);
    let row = match problem.kind {
        CollKind::AllReduce => all_reduce::row(topo, &demand, &capacity),
        _ => cut_row(topo, &demand, &capacity),
    };
    let reduction_ns = reduction(topo, problem);
    let words = words::words(topo, &demand, &row);
    let slack_ns = row.ns * (1.0 - occupied(topo, problem));
    let bandwidth_ns = row.ns - slack_ns;
    let ns = bandwidth_ns.max(latency.ns).max(reduction_ns);
    let bottleneck = if ns == bandwidth_ns && slack_ns > 0.0 {
        format!("{words}, minus {slack_ns} ns for rounding down")
    } else if ns == bandwidth_ns {
        words.clone()
    } else if ns == latency.ns {
        let plural = if latency.hops == 1 { "" } else { "s" };
        let (from, to) = (topo.name(latency.from), topo.name(latency.to));
        format!("latency of {} hop{plural} from {from} to {to}", latency.hops)
    } else {
        "reduction on every device".to_owned()
    };
    Ok(Bound {
        ns,
        latency_ns: latency.ns,
        bandwidth_ns,
        reduction_ns,
        hops: latency.hops,
        slack_ns,
        bottleneck,
        bandwidth_bottleneck: words,
        exact: row.method != Method::Found,
        method: row.method,
        partition: words::parts(topo, &demand, &row.split),
    })
}

/// Returns the fraction of the bytes' time on the links that every algorithm needs on a machine
/// that rounds times down. A message of m elements holds a link for at least m times the rounded
/// time of one element. 1 if times are exact.
fn occupied(topo: &Topology, problem: &Problem) -> f64 {
    if topo.settings().round_ns().is_none() {
        return 1.0;
    }
    let part = |bandwidth: f64| {
        let ns = problem.element as f64 / bandwidth * 1e9;
        if ns > 0.0 { topo.settings().rounded_at_least(ns) / ns } else { 1.0 }
    };
    let common = (!topo.is_listed()).then(|| topo.settings().link().bandwidth);
    let own = topo.own_rates().filter(|(_, rate)| !rate.is_failed()).map(|(_, rate)| rate.bandwidth);
    common.into_iter().chain(own).map(part).fold(1.0, f64::min)
}

/// Returns the reduction row in ns: (p - 1) n bytes over the vector rates of all ranks together. A
/// slowed rank counts with its lower rate. 0 where switches can add instead of ranks.
fn reduction(topo: &Topology, problem: &Problem) -> f64 {
    if topo.settings().switching().reduce {
        return 0.0;
    }
    let p = problem.group.len() as f64;
    let ranks = match topo.paces().next() {
        None => p,
        Some(_) => problem.group.iter().map(|&d| 1.0 / topo.pace(d).slower[2]).sum(),
    };
    match problem.kind.reduces() {
        true => (p - 1.0) / ranks * problem.bytes as f64 / topo.settings().vector() * 1e9,
        false => 0.0,
    }
}

/// Returns the bandwidth row of every collective except all-reduce: that of the best cut.
fn cut_row(topo: &Topology, demand: &Demand, capacity: &Capacity) -> Row {
    let mut best = Best::default();
    cuts::offer(topo, demand, capacity, &mut best);
    let found = best.0.as_ref().map_or(0.0, |c| c.ns);
    let method = if found >= ceiling(topo, demand) * (1.0 - 1e-12) {
        Method::Symmetry
    } else if cuts::complete(topo) {
        Method::Intervals
    } else if search::offer(topo, demand, &mut best) {
        Method::Search
    } else {
        node_sets::offer(topo, demand, &mut best);
        Method::Found
    };
    match best.0 {
        Some(Cut { ns, inside }) => Row { ns, split: Split::Cut(inside), method },
        None => Row { ns: 0.0, split: Split::Singletons, method },
    }
}

/// Number of links up to which [`evaluate`] sums link bandwidths.
const MAX_EVALUATED: u64 = 1 << 20;

/// Evaluates a given partition of a problem's ranks. Returns the bandwidth that leaves each part,
/// in bytes per second, and the bandwidth row of the partition, in ns. For all-reduce the row is 2
/// (k - 1) n over the sum of these bandwidths (k n where switches combine or copy), and with two
/// parts at least n over the smaller one.
/// For other collectives it is the bytes that must leave the first part, over its bandwidth. None
/// if there are too many links, or if flows through other devices would take too long.
pub fn evaluate(topo: &Topology, problem: &Problem, parts: &[Vec<DeviceId>]) -> Option<(Vec<f64>, f64)> {
    let machine_for_bounds = topo.for_bounds();
    let topo = (*machine_for_bounds).as_ref().unwrap_or(topo);
    let demand = Demand::new(problem);
    let out = leaving(topo, &demand, parts)?;
    let n = problem.bytes as f64;
    let first = *out.first()?;
    let ns = if problem.kind == CollKind::AllReduce {
        let both = all_reduce::departures(topo, parts.len()) * n / out.iter().sum::<f64>();
        let one_way = if parts.len() == 2 { n / out.iter().copied().fold(first, f64::min) } else { 0.0 };
        both.max(one_way)
    } else {
        search::must_leave(&demand, &ranks_of(&demand, parts.first()?)) / first
    };
    Some((out, ns * 1e9))
}

/// Returns the ranks of a problem that run on some devices.
fn ranks_of(demand: &Demand, part: &[DeviceId]) -> FixedBitSet {
    let devices: FixedBitSet = part.iter().map(|d| d.0 as usize).collect();
    (0..demand.ranks()).filter(|&r| devices.contains(demand.problem.group[r].0 as usize)).collect()
}

/// Returns the bandwidth that leaves each part of a partition of a problem's ranks, in bytes per
/// second. None if that would take too long.
fn leaving(topo: &Topology, demand: &Demand, parts: &[Vec<DeviceId>]) -> Option<Vec<f64>> {
    if demand.ranks() == topo.node_count() {
        if topo.link_count() > MAX_EVALUATED {
            return None;
        }
        let leaves = |part: &Vec<DeviceId>| {
            let devices: FixedBitSet = part.iter().map(|d| d.0 as usize).collect();
            let links = part.iter().flat_map(|&d| topo.links_from(d));
            links.filter(|l| !devices.contains(l.to.0 as usize)).map(|l| l.rate.bandwidth).sum()
        };
        return Some(parts.iter().map(leaves).collect());
    }
    if !search::affordable(topo, parts.len()) {
        return None;
    }
    let net = flow::Net::of(topo);
    let values = search::out_of(topo, demand, parts.iter().map(|part| ranks_of(demand, part)));
    Some(values.iter().map(|&v| net.rate(v)).collect())
}

/// Returns a time in ns that the row of no cut exceeds on a uniform generator whose devices are all
/// ranks. Infinite for other machines.
///
/// On a machine without switches, no cut has fewer links than its device of least degree (edge
/// connectivity of products of cycles, paths and complete graphs). So no cut needs longer than all
/// bytes to be sent over that many links. For an all-to-all of equal blocks, the evaluated cuts are
/// the best: along each axis, shortest routes with ties shared evenly load the links of the middle
/// cut with exactly the bytes that must cross it.
fn ceiling(topo: &Topology, demand: &Demand) -> f64 {
    let problem = demand.problem;
    if !topo.has_uniform_links() || demand.ranks() != topo.node_count() {
        return f64::INFINITY;
    }
    let lightest = (0..demand.ranks()).map(|r| demand.weight(r)).min().unwrap_or(0);
    let own = problem.root.map_or(lightest, |r| demand.weight(r));
    let bytes = match problem.kind {
        kind if !kind.blocked() => problem.bytes as f64,
        kind if kind.takes(Holding::SplitFrom) => {
            return if problem.sizes == Sizes::Even { 0.0 } else { f64::INFINITY };
        }
        _ => (demand.total - own) as f64 * demand.unit,
    };
    // The first device is a corner of a mesh. On other generators all devices are equivalent.
    bytes / capacity_of_corner(topo) * 1e9
}

fn capacity_of_corner(topo: &Topology) -> f64 {
    f64::from(topo.degree(DeviceId(0))) * topo.settings().link().bandwidth
}

/// Returns the bandwidth row of an all-reduce over the partition that the search finds, in ns.
pub(crate) fn strongest_partition(topo: &Topology, problem: &Problem) -> f64 {
    all_reduce::strongest(topo, &Demand::new(problem)).ns
}

/// Returns the time in ns of the best of the cuts that are evaluated without a search.
pub(crate) fn evaluated_cut(topo: &Topology, problem: &Problem) -> Option<f64> {
    let mut best = Best::default();
    cuts::offer(topo, &Demand::new(problem), &Capacity::of(topo), &mut best);
    best.0.map(|cut| cut.ns)
}

/// Returns the time in ns of the best cut that the search finds, and whether it is the best of all.
pub(crate) fn searched_cut(topo: &Topology, problem: &Problem) -> (Option<f64>, bool) {
    let mut best = Best::default();
    let of_all = search::offer(topo, &Demand::new(problem), &mut best);
    (best.0.map(|cut| cut.ns), of_all)
}
