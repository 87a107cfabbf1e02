//! Joint bandwidth row of several collectives of one program: the bytes that they must move
//! together over one cut.
//!
//! This module owns the sums. Two collectives of one program may run at the same time, so their
//! times do not add up. The bytes that each of them must move over the same cut or partition do add
//! up, whatever the order. For collectives on the same devices, the partition behind each one's own
//! row is tried for all of them. In addition, every device's links are evaluated with all
//! collectives that the device takes part in.

use std::collections::BTreeMap;

use super::CollKind;
use super::all_reduce::departures;
use super::demand::{Demand, Problem, Sizes};
use super::search::must_leave;
use super::{Bound, MAX_EVALUATED, leaving, occupied, ranks_of};
use crate::topology::{DeviceId, Topology};

/// Number of partitions that are tried for the collectives of one group.
const TRIED: usize = 16;
/// Number of ranks of a group up to which every device's links are evaluated.
const DEVICES: usize = 1024;

/// Returns the largest joint row in ns, and its text. 0 if no two collectives have a link in
/// common.
pub fn together(topo: &Topology, all: &[(&Problem, &Bound)]) -> (f64, String) {
    let machine_for_bounds = topo.for_bounds();
    let topo = (*machine_for_bounds).as_ref().unwrap_or(topo);
    let mut best = (0.0, "-".to_owned());
    let mut offer = |ns: f64, what: &dyn Fn() -> String| {
        if ns > best.0 * (1.0 + 1e-12) {
            best = (ns, what());
        }
    };
    let mut groups: BTreeMap<Vec<DeviceId>, Vec<(&Problem, &Bound)>> = BTreeMap::new();
    // Collectives that only signal move no bytes.
    let all: Vec<(&Problem, &Bound)> = all.iter().copied().filter(|(_, b)| b.bandwidth_ns > 0.0).collect();
    for &(problem, bound) in &all {
        let mut devices = problem.group.clone();
        devices.sort_unstable();
        groups.entry(devices).or_default().push((problem, bound));
    }
    for list in groups.values().filter(|list| list.len() > 1) {
        let distinct = counted(topo, list);
        // The row of one kind and root scales with the bytes if the blocks are equal.
        let mut alike: BTreeMap<(CollKind, Option<usize>), (f64, usize)> = BTreeMap::new();
        for (problem, bound) in list.iter().filter(|(p, _)| p.sizes == Sizes::Even) {
            let sum = alike.entry((problem.kind, problem.root)).or_default();
            *sum = (sum.0 + bound.bandwidth_ns, sum.1 + 1);
        }
        for ((kind, _), (ns, count)) in alike.into_iter().filter(|a| a.1.1 > 1) {
            offer(ns, &|| format!("bandwidth of {count} collectives together, each {}", kind.name()));
        }
        let singles: Vec<Vec<DeviceId>> = list[0].0.group.iter().map(|d| vec![*d]).collect();
        let mut tried: Vec<&Vec<Vec<DeviceId>>> = vec![];
        if singles.len() <= DEVICES {
            tried.push(&singles);
            if let Some(ns) = over(topo, &distinct, &singles) {
                let what = "traffic of every single rank";
                offer(ns, &|| format!("bandwidth of {} collectives together: {what}", list.len()));
            }
        }
        for (_, bound) in list {
            if tried.len() >= TRIED || tried.contains(&&bound.partition) {
                continue;
            }
            tried.push(&bound.partition);
            let words = &bound.bandwidth_bottleneck;
            let what = || format!("bandwidth of {} collectives together: {words}", list.len());
            if let Some(ns) = over(topo, &distinct, &bound.partition) {
                offer(ns, &what);
            }
        }
    }
    let (ns, device, into) = busiest(topo, &all);
    offer(ns, &|| {
        let way = if into { "into" } else { "out of" };
        format!("bandwidth of all collectives together: links {way} {}", topo.name(device))
    });
    best
}

/// Returns the distinct problems, each with the factor for its bytes: the number of times that it
/// occurs, less the part that rounding down takes off.
fn counted<'p>(topo: &Topology, list: &[(&'p Problem, &Bound)]) -> Vec<(&'p Problem, f64)> {
    let mut out: Vec<(&Problem, f64)> = vec![];
    for (problem, _) in list {
        let part = occupied(topo, problem);
        match out.iter_mut().find(|o| o.0 == *problem) {
            Some(o) => o.1 += part,
            None => out.push((problem, part)),
        }
    }
    out
}

/// Returns the time in ns that problems on one group need together over a partition of its devices.
fn over(topo: &Topology, problems: &[(&Problem, f64)], parts: &[Vec<DeviceId>]) -> Option<f64> {
    let (first, _) = problems.first()?;
    let out = leaving(topo, &Demand::new(first), parts)?;
    let demands: Vec<(Demand, f64)> = problems.iter().map(|(p, n)| (Demand::new(p), *n)).collect();
    let all = |bytes: &dyn Fn(&Demand) -> f64| demands.iter().map(|(d, n)| bytes(d) * n).sum::<f64>();
    let mut ns = all(&|d| crossing(topo, d, parts)) / out.iter().sum::<f64>();
    if parts.len() == 2 {
        for (part, rate) in parts.iter().zip(out) {
            ns = ns.max(all(&|d| must_leave(d, &ranks_of(d, part))) / rate);
        }
    }
    Some(ns * 1e9)
}

/// Returns the bytes that must leave the parts of a partition, summed over all parts. Bytes that
/// enter a part have left another one, unless a switch has copied them.
fn crossing(topo: &Topology, demand: &Demand, parts: &[Vec<DeviceId>]) -> f64 {
    if demand.problem.kind == CollKind::AllReduce {
        return departures(topo, parts.len()) * demand.problem.bytes as f64;
    }
    let (mut leave, mut enter) = (0.0, 0.0);
    for part in parts {
        let inside = ranks_of(demand, part);
        let mut outside = inside.clone();
        outside.grow(demand.ranks());
        outside.toggle_range(..);
        leave += must_leave(demand, &inside);
        enter += must_leave(demand, &outside);
    }
    if topo.settings().switching().multicast { leave } else { f64::max(leave, enter) }
}

/// Returns the device whose own links need longest for all collectives that it takes part in, with
/// that time in ns. The flag is true if the links into the device are meant.
fn busiest(topo: &Topology, all: &[(&Problem, &Bound)]) -> (f64, DeviceId, bool) {
    let mut bytes: BTreeMap<DeviceId, (f64, f64)> = BTreeMap::new();
    for (problem, part) in counted(topo, all) {
        let demand = Demand::new(problem);
        let p = demand.ranks();
        if p > DEVICES || problem.is_nothing() {
            continue;
        }
        for (r, device) in problem.group.iter().enumerate() {
            let (out, into) = match demand.pairs() {
                Some(m) => {
                    let others = || (0..p).filter(|&o| o != r);
                    let sum = |at: &dyn Fn(usize) -> usize| others().map(|o| m[at(o)] as f64).sum::<f64>();
                    (sum(&|o| r * p + o), sum(&|o| o * p + r))
                }
                None => {
                    let side = demand.one(r);
                    (demand.out(side), demand.out(demand.rest(side)))
                }
            };
            let sum = bytes.entry(*device).or_default();
            *sum = (sum.0 + out * part, sum.1 + into * part);
        }
    }
    let mut best = (0.0, DeviceId(0), false);
    if topo.link_count() > MAX_EVALUATED {
        return best;
    }
    let rate = |links: &[crate::topology::Link]| links.iter().map(|l| l.rate.bandwidth).sum::<f64>();
    for (device, (out, into)) in bytes {
        for (bytes, links, inwards) in
            [(out, topo.links_from(device), false), (into, topo.links_into(device), true)]
        {
            let (rate, limited) = (rate(&links), bytes > 0.0);
            let ns = bytes / rate * 1e9;
            if limited && rate > 0.0 && ns > best.0 * (1.0 + 1e-12) {
                best = (ns, device, inwards);
            }
        }
    }
    best
}
