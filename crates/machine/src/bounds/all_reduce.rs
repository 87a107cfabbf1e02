//! The bandwidth row of all-reduce: the best partition.
//!
//! For every partition of the ranks into k parts, each value needs at least 2 (k - 1) messages between parts (that is
//! what it takes k nodes to all know the sum of all), and each part sends at most C_out: T >= 2 (k - 1) n / sum of
//! C_out (SEMANTICS.md 7). Where every device is a rank, a link between parts counts once in that sum, so the best
//! partition is that of the strength of the graph whose edges carry both directions together; where the directions
//! are equal too the bound is reached (BOUNDS.md).
//!
//! Which method answers: singletons, by proof, on uniform products of rings and complete graphs (vertex-transitive, and
//! no cut is smaller than a device's degree) and on meshes of up to two axes (a set of v nodes in an a x b box has at
//! most 2v - a - b links, so no set is denser than the whole); sorted links on a cycle or a path; the search of
//! [`super::strength`] up to [`MAX_NODES`], also for a group among relays;
//! otherwise singletons and cuts, and the row says that it is not exact.

use std::collections::BTreeMap;

use super::cuts::{Best, Capacity, Cut};
use super::demand::Demand;
use super::flow::Net;
use super::{Method, Row, Split, cuts, search, strength};
use crate::topology::{Shape, Topology};

/// Devices and switches up to which the strength is computed.
const MAX_NODES: usize = 128;
/// Links up to which it is.
const MAX_LINKS: u64 = 4096;

/// The row.
pub(super) fn row(topo: &Topology, demand: &Demand, capacity: &Capacity) -> Row {
    let p = demand.ranks();
    let everybody = p == topo.node_count();
    let closed = everybody && topo.has_uniform_links() && uniformly_dense(topo);
    let mut method = if closed { Method::Symmetry } else { Method::Found };
    let mut rows: Vec<Row> = vec![];
    let searched = topo.node_count() <= MAX_NODES && topo.link_count() <= MAX_LINKS;
    if everybody {
        let total: f64 = demand.problem.group.iter().map(|&d| capacity.out(d)).sum();
        rows.push(Row { ns: time(demand, p, total), split: Split::Singletons, method });
    }
    if closed {
        // Nothing is better than singletons.
    } else if everybody && let Some(axis) = topo.only_axis() {
        rows.push(chain(topo, demand, capacity, axis));
        method = Method::Intervals;
    } else if searched {
        rows.push(strongest(topo, demand));
        method = Method::Search;
    } else if !everybody {
        rows.push(among_relays(topo, demand, capacity));
        rows.extend(by_places(topo, demand));
    }
    let mut best = Best::default();
    cuts::offer(topo, demand, capacity, &mut best);
    if !closed {
        // A partition into two sums both directions; a single direction of a cut must carry n as well.
        let covered = everybody && symmetric(topo);
        if !covered && !cuts::complete(topo) && !search::offer(topo, demand, &mut best) {
            method = Method::Found;
        }
    }
    if let Some(Cut { ns, inside }) = best.0 {
        rows.push(Row { ns, split: Split::Cut(inside), method });
    }
    let longest = rows.into_iter().reduce(|a, b| if b.ns > a.ns * (1.0 + 1e-12) { b } else { a });
    let nothing = Row { ns: 0.0, split: Split::Singletons, method };
    Row { method, ..longest.unwrap_or(nothing) }
}

fn time(demand: &Demand, parts: usize, out: f64) -> f64 {
    2.0 * (parts - 1) as f64 * demand.problem.bytes as f64 / out * 1e9
}

/// Machines with uniform links whose best partition is all singletons (proofs at the top).
fn uniformly_dense(topo: &Topology) -> bool {
    match topo.shape() {
        Shape::Mesh(sizes) => sizes.iter().filter(|&&s| s > 1).count() <= 2,
        _ => topo.is_transitive(),
    }
}

/// Whether both directions of every pair have equal bandwidth: then two parts' links add up to twice one way.
fn symmetric(topo: &Topology) -> bool {
    let sum = |from, to| topo.links_between(from, to).iter().map(|l| l.rate.bandwidth).sum::<f64>();
    topo.own_rates().filter_map(|(id, _)| topo.link(id)).all(|l| sum(l.from, l.to) == sum(l.to, l.from))
}

/// A cycle or path: parts are intervals, so a partition is a choice of pairs to separate, and the weakest are best.
fn chain(topo: &Topology, demand: &Demand, capacity: &Capacity, axis: usize) -> Row {
    let size = topo.size(axis);
    let planes = capacity.planes(axis);
    let cycle = planes.len() == size as usize;
    let mut order: Vec<usize> = (0..planes.len()).collect();
    order.sort_by(|&a, &b| {
        (planes[a].0 + planes[a].1).total_cmp(&(planes[b].0 + planes[b].1)).then(a.cmp(&b))
    });
    let mut best: Option<(f64, usize)> = None;
    let mut out = 0.0;
    for (i, &pair) in order.iter().enumerate() {
        out += planes[pair].0 + planes[pair].1;
        // i + 1 separated pairs make i + 1 parts of a cycle and i + 2 of a path.
        let parts = if cycle { i + 1 } else { i + 2 };
        if parts > 1 {
            let ns = time(demand, parts, out);
            if best.is_none_or(|b| ns > b.0 * (1.0 + 1e-12)) {
                best = Some((ns, i + 1));
            }
        }
    }
    let (ns, count) = best.unwrap_or((0.0, 0));
    let mut after = vec![false; size as usize];
    order[..count].iter().for_each(|&pair| after[pair] = true);
    // Parts by coordinate; around a cycle the last interval joins the first unless they are separated.
    let mut part = vec![0usize; size as usize];
    for c in 1..size as usize {
        part[c] = part[c - 1] + usize::from(after[c - 1]);
    }
    if cycle && !after[size as usize - 1] {
        let last = part[size as usize - 1];
        part.iter_mut().filter(|p| **p == last).for_each(|p| *p = 0);
    }
    let mut blocks: Vec<Vec<usize>> = vec![vec![]; part.iter().max().map_or(0, |m| m + 1)];
    for (r, &device) in demand.problem.group.iter().enumerate() {
        blocks[part[topo.coordinate(device, axis) as usize]].push(r);
    }
    Row { ns, split: split(demand, blocks), method: Method::Intervals }
}

/// The strength, by search.
fn strongest(topo: &Topology, demand: &Demand) -> Row {
    let net = Net::of(topo);
    // Ranks first.
    let mut place = vec![usize::MAX; net.nodes];
    demand.problem.group.iter().enumerate().for_each(|(r, d)| place[d.0 as usize] = r);
    let relays = place.iter_mut().filter(|p| **p == usize::MAX);
    (demand.ranks()..).zip(relays).for_each(|(next, p)| *p = next);
    let found = topo.remembered("strongest partition", search::group(demand), || {
        let arcs = net.arcs.iter().map(|&(a, b, c)| (place[a], place[b], c)).collect();
        strength::partition(&strength::Graph { ranks: demand.ranks(), nodes: net.nodes, arcs })
    });
    let (parts, sum) = (found.0.clone(), found.1);
    let ns = time(demand, parts.len(), net.rate(sum));
    Row { ns, split: split(demand, parts), method: Method::Search }
}

fn split(demand: &Demand, parts: Vec<Vec<usize>>) -> Split {
    if parts.len() == demand.ranks() { Split::Singletons } else { Split::Parts(parts) }
}

/// A group among relays on a machine that is not searched: all singletons, with their flows or at least their links.
fn among_relays(topo: &Topology, demand: &Demand, capacity: &Capacity) -> Row {
    let p = demand.ranks();
    let total = if search::affordable(topo, p) {
        let net = Net::of(topo);
        let alone = search::out_of(topo, demand, (0..p).map(|r| std::iter::once(r).collect()));
        net.rate(alone.iter().sum())
    } else {
        // A device's links carry at least what flows from it to other ranks.
        demand.problem.group.iter().map(|&d| capacity.out(d)).sum()
    };
    Row { ns: time(demand, p, total), split: Split::Singletons, method: Method::Found }
}

/// Ranks that agree in their first coordinates as parts, for every number of these: SIPs, cubes, .. of a package, in which
/// links between parts are fewer and slower the larger the parts are.
fn by_places(topo: &Topology, demand: &Demand) -> Vec<Row> {
    let mut out = vec![];
    if !topo.is_listed() {
        return out;
    }
    let net = Net::of(topo);
    for axes in 1..topo.axes().len() {
        let mut parts: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
        for (r, device) in demand.problem.group.iter().enumerate() {
            parts.entry(topo.coordinates(*device)[..axes].to_vec()).or_default().push(r);
        }
        let parts: Vec<Vec<usize>> = parts.into_values().collect();
        if !(2..demand.ranks()).contains(&parts.len()) || !search::affordable(topo, parts.len()) {
            continue;
        }
        let leaving = search::out_of(topo, demand, parts.iter().map(|p| p.iter().copied().collect()));
        let ns = time(demand, parts.len(), net.rate(leaving.iter().sum()));
        out.push(Row { ns, split: Split::Parts(parts), method: Method::Found });
    }
    out
}

/// For tests of the proofs at the top: the search alone.
#[cfg(test)]
pub(super) fn searched(topo: &Topology, demand: &Demand) -> f64 {
    strongest(topo, demand).ns
}
