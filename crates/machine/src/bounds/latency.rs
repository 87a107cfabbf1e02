//! Latency row: the distance that the farthest contribution has to travel.
//!
//! This module owns distances in time. A device can use all its links at once, so the row is a
//! distance and not a logarithm of rounds. If a search over all pairs would take too long, the
//! distance of a pair that is certainly needed is taken instead. The row may then be lower than the
//! best one, but never higher.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::demand::Demand;
use super::search::group;
use crate::topology::{DeviceId, Topology};

/// Number of pairs of ranks up to which each pair is looked at.
const MAX_PAIRS: usize = 1 << 18;
/// Limit on sources times links up to which distances over links with their own latencies are
/// searched exactly.
const MAX_SEARCH: u64 = 1 << 18;

/// The latency row: its time, its hops, and the two devices.
#[derive(Clone, Copy)]
pub(super) struct Latency {
    pub ns: f64,
    pub hops: u32,
    pub from: DeviceId,
    pub to: DeviceId,
}

/// Returns the latency row of a problem on at least two ranks.
pub(super) fn latency(topo: &Topology, demand: &Demand) -> Latency {
    let mut row = on_links(topo, demand);
    if row.hops > 0 {
        row.ns += topo.settings().endpoint_ns();
    }
    row
}

/// Returns the row without the endpoint time of the first message.
fn on_links(topo: &Topology, demand: &Demand) -> Latency {
    let settings = topo.settings();
    let group = &demand.problem.group;
    let (sources, sinks) = demand.ends();
    if !topo.has_uniform_links() {
        if sources.len() as u64 * topo.link_count() <= MAX_SEARCH {
            return found(topo, demand, &sources, &sinks);
        }
        if topo.is_listed() {
            // From the first source to the farthest sink, and from there to the sink farthest from
            // it: a distance that is certainly needed.
            let first = found(topo, demand, &sources[..sources.len().min(1)], &sinks);
            let back = group.iter().position(|d| *d == first.to).filter(|s| sources.contains(s));
            let second = back.map(|s| found(topo, demand, &[s], &sinks));
            return second.filter(|s| s.ns > first.ns).unwrap_or(first);
        }
        let least =
            topo.links().map(|l| settings.rounded_at_least(l.rate.latency_ns)).fold(f64::INFINITY, f64::min);
        let (hops, from, to) = farthest(topo, demand, &sources, &sinks);
        return Latency { ns: f64::from(hops) * least, hops, from: group[from], to: group[to] };
    }
    let (hops, from, to) = farthest(topo, demand, &sources, &sinks);
    let ns = f64::from(hops) * settings.rounded_at_least(settings.link().latency_ns);
    Latency { ns, hops, from: group[from], to: group[to] }
}

/// Returns the hops of the farthest pair, or of a pair that is far, with its positions in the
/// group.
fn farthest(topo: &Topology, demand: &Demand, sources: &[usize], sinks: &[usize]) -> (u32, usize, usize) {
    let group = &demand.problem.group;
    let hops = |s: usize, d: usize| topo.hops(group[s], group[d]);
    let all = topo.device_count();
    let everybody = sources.len() == all && sinks.len() == all;
    let mut best = (0, 0, 0);
    let mut take = |s: usize, d: usize| {
        let h = hops(s, d);
        if h > best.0 {
            best = (h, s, d);
        }
    };
    if let Some(pairs) = demand.pairs() {
        let p = group.len();
        for i in (0..p * p).filter(|&i| pairs[i] > 0) {
            take(i / p, i % p);
        }
    } else if !everybody && sources.len().saturating_mul(sinks.len()) <= MAX_PAIRS {
        for &s in sources {
            sinks.iter().for_each(|&d| take(s, d));
        }
    } else {
        // From the first source to the farthest sink, and from there to the farthest source. If
        // every device of a generator is a rank, this is the diameter: the farthest device from any
        // device is a corner of a mesh, and on other generators all devices are equivalent.
        let far = |from: usize, of: &[usize]| of.iter().copied().max_by_key(|&d| (hops(from, d), Reverse(d)));
        if let Some(&s) = sources.first()
            && let Some(d) = far(s, sinks)
        {
            take(s, d);
            if let Some(back) = far(d, sources) {
                take(back, d);
            }
        }
    }
    best
}

/// An entry of the priority queue (time, hops, node), earliest first.
#[derive(PartialEq)]
struct QueueEntry(f64, u32, u32);

impl Eq for QueueEntry {}

impl Ord for QueueEntry {
    fn cmp(&self, other: &QueueEntry) -> Ordering {
        other.0.total_cmp(&self.0).then(other.2.cmp(&self.2))
    }
}

impl PartialOrd for QueueEntry {
    fn partial_cmp(&self, other: &QueueEntry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the result of [`searched`], memoised per machine unless the demand is by pairs.
fn found(topo: &Topology, demand: &Demand, sources: &[usize], sinks: &[usize]) -> Latency {
    if demand.pairs().is_some() {
        return searched(topo, demand, sources, sinks);
    }
    let mut of = group(demand);
    for ends in [sources, sinks] {
        of.push(u32::MAX);
        of.extend(ends.iter().map(|r| *r as u32));
    }
    *topo.memoised("longest route", of, || searched(topo, demand, sources, sinks))
}

/// Returns the least time over all paths from a device to each node, with its hops. None for nodes
/// that it does not reach. A relayed message may take another path than the route.
fn times(topo: &Topology, from: DeviceId) -> Vec<Option<(f64, u32)>> {
    let mut seen = vec![None; topo.node_count()];
    let mut heap = BinaryHeap::from([QueueEntry(0.0, 0, from.0)]);
    while let Some(QueueEntry(time, hops, at)) = heap.pop() {
        if seen[at as usize].is_some() {
            continue;
        }
        seen[at as usize] = Some((time, hops));
        for l in topo.links_from(DeviceId(at)) {
            if seen[l.to.0 as usize].is_none() && !l.rate.is_failed() {
                heap.push(QueueEntry(
                    time + topo.settings().rounded_at_least(l.rate.latency_ns),
                    hops + 1,
                    l.to.0,
                ));
            }
        }
    }
    seen
}

/// Returns the farthest pair by [`times`].
fn searched(topo: &Topology, demand: &Demand, sources: &[usize], sinks: &[usize]) -> Latency {
    let group = &demand.problem.group;
    let p = group.len();
    let mut best = Latency { ns: -1.0, hops: 0, from: DeviceId(0), to: DeviceId(0) };
    for &s in sources {
        let seen = times(topo, group[s]);
        for &d in sinks {
            if s == d || demand.pairs().is_some_and(|m| m[s * p + d] == 0) {
                continue;
            }
            if let Some((ns, hops)) = seen[group[d].0 as usize]
                && ns > best.ns
            {
                best = Latency { ns, hops, from: group[s], to: group[d] };
            }
        }
    }
    Latency { ns: best.ns.max(0.0), ..best }
}

/// Least times of a message between the devices of a list.
#[derive(Clone, Debug)]
pub struct Distances {
    devices: usize,
    ns: Vec<f64>,
}

impl Distances {
    /// Returns the time in ns between two devices, by their positions in the list.
    pub fn ns(&self, from: usize, to: usize) -> f64 {
        self.ns[from * self.devices + to]
    }
}

/// Computes the distances between some devices: the least times over all paths plus the endpoint
/// time of a message. None if there are too many pairs.
pub fn distances(topo: &Topology, devices: &[DeviceId]) -> Option<std::sync::Arc<Distances>> {
    let machine_for_bounds = topo.for_bounds();
    let topo = (*machine_for_bounds).as_ref().unwrap_or(topo);
    let p = devices.len();
    let uniform = topo.has_uniform_links();
    if p * p > MAX_PAIRS || !uniform && p as u64 * topo.link_count() > 4 * MAX_SEARCH {
        return None;
    }
    let of: Vec<u32> = devices.iter().map(|d| d.0).collect();
    Some(topo.memoised("distances", of, || {
        let settings = topo.settings();
        let (hop, endpoint) = (settings.rounded_at_least(settings.link().latency_ns), settings.endpoint_ns());
        let mut ns = Vec::with_capacity(p * p);
        for &from in devices {
            let times = if uniform { vec![] } else { times(topo, from) };
            ns.extend(devices.iter().map(|&to| match (from == to, uniform) {
                (true, _) => 0.0,
                (_, true) => f64::from(topo.hops(from, to)) * hop + endpoint,
                // No path leads there, so the distance is unknown and 0 is a valid lower limit.
                _ => times[to.0 as usize].map_or(0.0, |t| t.0 + endpoint),
            }));
        }
        Distances { devices: p, ns }
    }))
}
