//! Bandwidth row of all-reduce: the best partition of the ranks.
//!
//! For every partition of the ranks into k parts, each value needs at least 2 (k - 1) messages
//! between parts, because k nodes need that many messages until all of them know the sum. Part i
//! can send at most C_out(i) bytes per second, so T >= 2 (k - 1) n / sum of C_out. If every device
//! is a rank, a link between parts counts once in that sum. The best partition is then the one that
//! defines the strength of the graph whose edges carry both directions together. If the rates of
//! both directions are also equal, there is an algorithm that reaches the bound
//! (docs/explanation/bounds.md).
//!
//! Switches that combine or copy messages (`switch: reduce, multicast`) need fewer messages: each
//! part sends each value once, and receives it once. There the row is that of the best cut, n over
//! the bandwidth that leaves it.
//!
//! The first method that applies finds the row:
//!
//! * Singletons, by proof: on uniform products of rings and complete graphs (they are
//!   vertex-transitive, and no cut is smaller than a device's degree), and on meshes of up to two
//!   axes (a set of v nodes in an a x b box has at most 2v - a - b links, so no set is denser than
//!   the whole).
//! * Links in ascending order of bandwidth, on a cycle or a path.
//! * The search of [`super::strength`], up to [`MAX_NODES`], also for a group among relays.
//! * Otherwise singletons and cuts, and the row is reported as not exact.

use std::collections::BTreeMap;

use super::cuts::{Best, Capacity, Cut};
use super::demand::Demand;
use super::flow::Net;
use super::{Method, Row, Split, cuts, search, strength};
use crate::topology::{Shape, Switching, Topology};

/// Number of devices and switches up to which the strength is computed.
const MAX_NODES: usize = 128;
/// Number of links up to which the strength is computed.
const MAX_LINKS: u64 = 4096;

/// Returns the bandwidth row of an all-reduce.
pub(super) fn row(topo: &Topology, demand: &Demand, capacity: &Capacity) -> Row {
    if once(topo) {
        return cut_row(topo, demand, capacity);
    }
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
        // No partition is better than singletons.
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
        // A partition into two parts counts both directions together. Each direction alone must
        // carry n bytes as well.
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

/// Checks whether a value may have to leave a part only once, because switches combine or copy
/// messages.
fn once(topo: &Topology) -> bool {
    !topo.settings().switching().only_forwards()
}

/// Returns the number of times that the parts of a partition together must send each value of an
/// all-reduce.
pub(super) fn departures(topo: &Topology, parts: usize) -> f64 {
    if once(topo) { parts as f64 } else { 2.0 * (parts - 1) as f64 }
}

/// Returns the row of the best cut on a machine whose switches combine or copy. Switches that do
/// only one of both leave room for a larger row, which is not looked for.
fn cut_row(topo: &Topology, demand: &Demand, capacity: &Capacity) -> Row {
    let mut best = Best::default();
    cuts::offer(topo, demand, capacity, &mut best);
    let all = search::offer(topo, demand, &mut best);
    let both = topo.settings().switching() == Switching { reduce: true, multicast: true };
    let method = if all && both { Method::Search } else { Method::Found };
    let found = best.0.map(|Cut { ns, inside }| Row { ns, split: Split::Cut(inside), method });
    found.unwrap_or(Row { ns: 0.0, split: Split::Singletons, method })
}

fn time(demand: &Demand, parts: usize, out: f64) -> f64 {
    2.0 * (parts - 1) as f64 * demand.problem.bytes as f64 / out * 1e9
}

/// Checks whether the best partition of a machine with uniform links is all singletons (proofs in
/// the module header).
fn uniformly_dense(topo: &Topology) -> bool {
    match topo.shape() {
        Shape::Mesh(sizes) => sizes.iter().filter(|&&s| s > 1).count() <= 2,
        _ => topo.is_transitive(),
    }
}

/// Checks whether both directions between every two devices have the same bandwidth. A cut then
/// carries as much in one direction as in the other.
fn symmetric(topo: &Topology) -> bool {
    let sum = |from, to| topo.links_between(from, to).iter().map(|l| l.rate.bandwidth).sum::<f64>();
    topo.own_rates().filter_map(|(id, _)| topo.link(id)).all(|l| sum(l.from, l.to) == sum(l.to, l.from))
}

/// Returns the row of a cycle or a path. Parts are intervals, so a partition is a choice of
/// neighbouring pairs to separate, and for each number of pairs the ones with the least bandwidth
/// are best.
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
        // Separating i + 1 pairs gives i + 1 parts of a cycle and i + 2 parts of a path.
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
    // Numbers the parts by coordinate. On a cycle the last interval joins the first one unless the
    // pair between them is separated.
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

/// Returns the row of the partition that [`super::strength`] finds.
pub(super) fn strongest(topo: &Topology, demand: &Demand) -> Row {
    let net = Net::of(topo);
    // The search numbers the ranks first, and then the relays.
    let mut place = vec![usize::MAX; net.nodes];
    demand.problem.group.iter().enumerate().for_each(|(r, d)| place[d.0 as usize] = r);
    let relays = place.iter_mut().filter(|p| **p == usize::MAX);
    (demand.ranks()..).zip(relays).for_each(|(next, p)| *p = next);
    let found = topo.memoised("strongest partition", search::group(demand), || {
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

/// Returns the row of all singletons for a group among relays on a machine that is too large for
/// the search. It uses the flows out of the ranks, or if those are too expensive, the bandwidth of
/// their links.
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

/// Returns the rows of the partitions of ranks by their first coordinates, one for each number of
/// coordinates: by SIP, by cube and so on. On a package, larger parts have fewer and slower links
/// between them.
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
