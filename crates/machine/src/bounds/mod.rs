//! Lower bounds on the time of a collective on a machine: the line on every plot.
//!
//! Owns the rows of BOUNDS.md that hold for the default machine and how they combine (SEMANTICS.md 7: the maximum,
//! never the sum): latency, bandwidth over the best cut or partition, reduction. A row counts only what every
//! algorithm must do, with links that are always full and devices that combine and forward without delay, so no
//! simulated time may be below it. There is no row for memory traffic: what passes through a device's memory depends
//! on the schedule. Devices outside the group may pass messages on but neither combine nor copy them.
//!
//! It leaves programs (compute, several collectives) to the reports and schedules to the event engine.

mod all_reduce;
mod cuts;
mod demand;
mod flow;
mod latency;
mod search;
mod strength;
mod together;
mod words;

use fixedbitset::FixedBitSet;
use kbc_diag::Diagnostic;

use crate::topology::{DeviceId, Topology};
use cuts::{Best, Capacity, Cut, Inside};
use demand::Demand;

pub use demand::{CollKind, Problem, Sizes};
pub use latency::{Distances, distances};
pub use together::together;

/// How a bandwidth row was found, and so whether it is the best of its kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Method {
    /// The best by proof: the machine is a uniform generator and all of it is the group.
    Symmetry,
    /// The best of all: on a cycle or a path it consists of intervals, which are all looked at.
    Intervals,
    /// The best of all: by maximum flows (strength of a graph, or least cuts).
    Search,
    /// The best of those that were looked at.
    Found,
}

impl Method {
    /// For reports.
    pub fn words(self) -> &'static str {
        match self {
            Method::Symmetry => "exact, by symmetry",
            Method::Intervals => "exact, over all intervals",
            Method::Search => "exact, by maximum flows",
            Method::Found => "from this partition, the best of those looked at",
        }
    }
}

/// A lower bound and where it comes from.
#[derive(Clone, PartialEq, Debug)]
pub struct Bound {
    /// The bound in nanoseconds: the largest row. 0 for one rank or no bytes.
    pub ns: f64,
    /// The latency row.
    pub latency_ns: f64,
    /// The bandwidth row.
    pub bandwidth_ns: f64,
    /// The reduction row; 0 where devices reduce without limit.
    pub reduction_ns: f64,
    /// Hops of the path that the latency row counts.
    pub hops: u32,
    /// What rounding down may take off the bandwidth row, whatever is sent in however many messages; 0 where times of
    /// links are exact.
    pub slack_ns: f64,
    /// What holds it up, in words: of the largest row. `-` if the bound is 0.
    pub bottleneck: String,
    /// The same of the bandwidth row.
    pub bandwidth_bottleneck: String,
    /// Whether no partition of the ranks gives a larger bandwidth row. Otherwise it is "from this partition".
    pub exact: bool,
    /// How that is known.
    pub method: Method,
    /// The partition of the ranks behind the bandwidth row: of a cut two parts, the sending one first.
    pub partition: Vec<Vec<DeviceId>>,
}

impl Bound {
    /// 100 if the time is the bound; None where the bound is 0.
    pub fn percent(&self, ns: f64) -> Option<f64> {
        (self.ns > 0.0).then(|| self.ns / ns * 100.0)
    }

    /// Whether a time contradicts the bound by more than rounding (1e-9): an internal error of whoever measured it.
    pub fn contradicts(&self, ns: f64) -> bool {
        ns < self.ns * (1.0 - 1e-9)
    }
}

/// algbw in GB/s: bytes as in [`Problem::bytes`] over the time.
pub fn algbw(bytes: u64, ns: f64) -> f64 {
    bytes as f64 / ns
}

/// busbw in GB/s on p ranks. It compares with a link only on a flat fabric.
pub fn busbw(kind: CollKind, p: usize, bytes: u64, ns: f64) -> f64 {
    algbw(bytes, ns) * kind.bus_factor(p)
}

/// What a bandwidth row comes from.
#[derive(Clone, PartialEq, Debug)]
enum Split {
    /// Every rank a part of its own.
    Singletons,
    /// Two sides.
    Cut(Inside),
    /// Parts, by rank.
    Parts(Vec<Vec<usize>>),
}

/// A bandwidth row.
#[derive(Clone, PartialEq, Debug)]
struct Row {
    ns: f64,
    split: Split,
    method: Method,
}

/// The lower bound of a collective.
///
/// # Errors
/// E448 for a problem that is none on this machine: a device twice or unknown, a root missing or superfluous, sizes
/// that do not fit.
pub fn bound(topo: &Topology, problem: &Problem) -> Result<Bound, Diagnostic> {
    problem.check(topo)?;
    let nearer = topo.for_bounds();
    let topo = (*nearer).as_ref().unwrap_or(topo);
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
        format!("{words}, less {slack_ns} ns that rounding down gives away")
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

/// The part of the time of bytes that every algorithm needs on the links of a machine that rounds times down: messages of m
/// elements hold a link for at least m times the rounded time of one element. 1 where times are exact.
fn occupied(topo: &Topology, problem: &Problem) -> f64 {
    if topo.settings().round_ns().is_none() {
        return 1.0;
    }
    let part = |bandwidth: f64| {
        let ns = problem.element as f64 / bandwidth * 1e9;
        if ns > 0.0 { topo.settings().rounded_at_least(ns) / ns } else { 1.0 }
    };
    let common = (!topo.is_listed()).then(|| topo.settings().link().bandwidth);
    let own = topo.own_rates().map(|(_, rate)| rate.bandwidth);
    common.into_iter().chain(own).map(part).fold(1.0, f64::min)
}

/// (p - 1) n bytes are added to others, at best on all p ranks alike, or as much faster as each of them is.
fn reduction(topo: &Topology, problem: &Problem) -> f64 {
    let p = problem.group.len() as f64;
    let ranks = match topo.paces().next() {
        None => p,
        Some(_) => problem.group.iter().map(|&d| 1.0 / topo.pace(d).slower[2]).sum(),
    };
    match problem.kind {
        CollKind::AllReduce | CollKind::ReduceScatter | CollKind::Reduce => {
            (p - 1.0) / ranks * problem.bytes as f64 / topo.settings().vector() * 1e9
        }
        _ => 0.0,
    }
}

/// The bandwidth row of everything but all-reduce: the best cut.
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
        Method::Found
    };
    match best.0 {
        Some(Cut { ns, inside }) => Row { ns, split: Split::Cut(inside), method },
        None => Row { ns: 0.0, split: Split::Singletons, method },
    }
}

/// Links up to which [`evaluate`] adds them up.
const MAX_EVALUATED: u64 = 1 << 20;

/// What can leave each part of a partition of a problem's ranks, in bytes a second, and the bandwidth row that the
/// partition stands for, in ns: all-reduce 2 (k - 1) n over the sum, and with two parts at least n over the lesser; of
/// others the bytes that must leave the first part. None where there are too many links, or flows through other devices
/// would take too long.
pub fn evaluate(topo: &Topology, problem: &Problem, parts: &[Vec<DeviceId>]) -> Option<(Vec<f64>, f64)> {
    let nearer = topo.for_bounds();
    let topo = (*nearer).as_ref().unwrap_or(topo);
    let demand = Demand::new(problem);
    let out = leaving(topo, &demand, parts)?;
    let n = problem.bytes as f64;
    let first = *out.first()?;
    let ns = if problem.kind == CollKind::AllReduce {
        let both = 2.0 * (parts.len() - 1) as f64 * n / out.iter().sum::<f64>();
        let one_way = if parts.len() == 2 { n / out.iter().copied().fold(first, f64::min) } else { 0.0 };
        both.max(one_way)
    } else {
        search::must_leave(&demand, &ranks_of(&demand, parts.first()?)) / first
    };
    Some((out, ns * 1e9))
}

/// The ranks of a problem that are some devices.
fn ranks_of(demand: &Demand, part: &[DeviceId]) -> FixedBitSet {
    let devices: FixedBitSet = part.iter().map(|d| d.0 as usize).collect();
    (0..demand.ranks()).filter(|&r| devices.contains(demand.problem.group[r].0 as usize)).collect()
}

/// What can leave each part of a partition of a problem's ranks, in bytes a second; none where that takes too long.
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

/// What no cut can exceed on a uniform generator whose devices are all ranks; infinite otherwise.
///
/// No cut of a machine without switches has fewer links than its device of least degree (edge
/// connectivity of products of cycles, paths and complete graphs), so no cut needs longer than all there is to send
/// over that many. For an all-to-all of equal blocks the evaluated cuts are the best: along each axis, shortest
/// routes with ties shared alike load the links of the middle cut just with what must cross it.
fn ceiling(topo: &Topology, demand: &Demand) -> f64 {
    let problem = demand.problem;
    if !topo.has_uniform_links() || demand.ranks() != topo.node_count() {
        return f64::INFINITY;
    }
    let lightest = (0..demand.ranks()).map(|r| demand.weight(r)).min().unwrap_or(0);
    let own = problem.root.map_or(lightest, |r| demand.weight(r));
    let bytes = match problem.kind {
        CollKind::AllReduce | CollKind::Broadcast | CollKind::Reduce => problem.bytes as f64,
        CollKind::AllToAll if problem.sizes == Sizes::Even => return 0.0,
        CollKind::AllToAll => return f64::INFINITY,
        _ => (demand.total - own) as f64 * demand.unit,
    };
    // The first device is a corner of a mesh; elsewhere all are alike.
    bytes / capacity_of_corner(topo) * 1e9
}

fn capacity_of_corner(topo: &Topology) -> f64 {
    f64::from(topo.degree(DeviceId(0))) * topo.settings().link().bandwidth
}

#[cfg(test)]
mod tests {
    use super::*;
    use kbc_diag::FileId;

    /// The shapes whose partition is said to be all singletons by proof: the search finds none better.
    #[test]
    fn closed_forms_equal_the_search() {
        let mut shapes: Vec<String> = (2..14).map(|n| format!("ring({n})")).collect();
        shapes.extend((2..10).map(|n| format!("full({n})")));
        shapes.extend((2..10).map(|n| format!("mesh({n})")));
        for a in 1..6 {
            for b in 2..6 {
                shapes.push(format!("mesh({a}, {b})"));
                shapes.push(format!("torus({a}, {b})"));
                shapes.push(format!("torus({a}, {b}) {{ wrap2: 2 }}"));
            }
        }
        shapes.extend(["torus(2, 2, 3)", "torus(3, 2, 4) { wrap2: 2 }", "torus(3, 3, 3)"].map(String::from));
        for text in shapes {
            let topo = Topology::parse(&text, FileId(0)).unwrap();
            let problem = Problem::new(CollKind::AllReduce, 1 << 20, topo.devices());
            let b = bound(&topo, &problem).unwrap();
            let searched = all_reduce::searched(&topo, &Demand::new(&problem));
            assert!((b.bandwidth_ns / searched - 1.0).abs() < 1e-12, "{text}: {} {searched}", b.bandwidth_ns);
            assert!(b.exact);
        }
    }

    /// The cuts that are evaluated on uniform machines and called exact: searches over all cuts find none better.
    #[test]
    fn evaluated_cuts_equal_the_search() {
        for text in [
            "ring(2)",
            "ring(7)",
            "torus(3, 4)",
            "torus(2, 5) { wrap2: 2 }",
            "torus(2, 2, 3)",
            "mesh(6)",
            "mesh(2, 3)",
            "mesh(3, 4)",
            "mesh(2, 2, 3)",
            "full(6)",
        ] {
            let topo = Topology::parse(text, FileId(0)).unwrap();
            for (name, kind) in CollKind::ALL {
                let p = topo.device_count();
                for root in if kind.rooted() { (0..p).map(Some).collect() } else { vec![None] } {
                    let problem = Problem { root, ..Problem::new(kind, 1 << 20, topo.devices()) };
                    let demand = Demand::new(&problem);
                    let mut quick = Best::default();
                    cuts::offer(&topo, &demand, &Capacity::of(&topo), &mut quick);
                    let mut all = Best::default();
                    assert!(search::offer(&topo, &demand, &mut all), "{text} {name}");
                    let (quick, all) = (quick.0.unwrap().ns, all.0.unwrap().ns);
                    assert!((quick / all - 1.0).abs() < 1e-12, "{text} {name} {root:?}: {quick} {all}");
                }
            }
        }
    }
}
