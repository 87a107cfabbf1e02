//! Spanning trees for an all-reduce on a network whose links are alike both ways.
//!
//! Data is reduced up a tree and broadcast down the same tree, so a tree uses both directions of
//! its links once. By Tutte and Nash-Williams (1961) the best rate is the strength of the network:
//! the minimum over partitions of (capacity between parts) / (parts - 1).
//!
//! * *Strength.* For a rate p/q, links of capacity q c are filled one after another as long as
//!   every set X of nodes holds at most p (|X| - 1) of them. This greedy filling of a matroid union
//!   reaches p (n - 1) if and only if the rate is possible. Where it does not, the sets that became
//!   full are the parts of a partition with a smaller ratio, which is tested next (Dinkelbach). The
//!   test whether more fits is the pebble game (Lee and Streinu, 2008) with multiplicities: every
//!   node has p pebbles, each unit of a link is covered by a pebble of one of its ends, and a link
//!   is filled as far as its ends together can free more than p pebbles.
//! * *Trees.* When all is filled, p pebbles are free. A link covered by a pebble of its end v
//!   becomes an edge to v. Every set of nodes with s free pebbles is then entered by p - s edges or
//!   more (Frank, 1978), so a tree from each free pebble's node exists (Edmonds, 1973), which
//!   [`crate::pack`] finds. The free pebbles are spread over all nodes, and both ends cover a link
//!   alike where possible: the trees then lead in all directions, and every edge of the network has
//!   something to carry from the start of an all-reduce to its end.

use crate::centre::centred;
use crate::certificate::{EdgeLoad, SpanningClass, SpanningEdge, SpanningPacking, TightPartition};
use crate::error::SynthesisError;
use crate::exact::{ExactRatio, common_divisor};
use crate::exchange::shallower;
use crate::grow::{PackedTree, Remainder};
use crate::network::Network;
use crate::pack::pack;
use std::collections::BTreeMap;

/// How often trees are made less deep as seen from their centres.
const CENTRINGS: usize = 3;

/// A link: its two ends and the capacity of one direction.
pub(crate) type LinkEnds = (usize, usize, u128);

/// Returns spanning trees that carry an all-reduce at the best rate, and the proof.
///
/// # Errors
///
/// [`SynthesisError::ForwardingNode`] if some node is not a member,
/// [`SynthesisError::UnequalDirections`] if some link has unequal capacities in its two directions,
/// [`SynthesisError::Unreachable`] if the network is not connected.
pub fn pack_spanning_trees(network: &Network) -> Result<SpanningPacking, SynthesisError> {
    let links = links(network)?;
    let nodes = network.nodes();
    let (parts, filled, divisor) = strength(nodes, &links)?;
    let (crossing, pieces) = (crossing(&links, &parts), count(&parts) as u128 - 1);
    let step = "the packing of spanning trees";
    let ratio = |a, b| ExactRatio::new(a, b).ok_or(SynthesisError::Inconsistent { step });
    let (scale, rate) = (ratio(pieces, divisor)?, ratio(crossing, pieces)?);
    let trees = filled.pebbles;
    let (ends, packed) = filled.trees(&links)?;
    let mut classes: Vec<SpanningClass> = packed.iter().map(|t| class(&ends, t)).collect();
    for _ in 0..CENTRINGS {
        classes = improved(nodes, &links, classes);
    }
    let loads = link_loads(&links, &classes, scale).ok_or(SynthesisError::Inconsistent { step })?;
    let proof = Some(TightPartition { parts: lists(&parts), crossing });
    Ok(SpanningPacking { trees, scale, rate, proof, classes, loads })
}

/// Returns the load of every link. None if a number leaves 128 bits.
pub(crate) fn link_loads(
    links: &[LinkEnds],
    classes: &[SpanningClass],
    scale: ExactRatio,
) -> Option<Vec<EdgeLoad>> {
    let mut sums: BTreeMap<(usize, usize), u128> = BTreeMap::new();
    for class in classes {
        for nodes in class.edges.iter().map(SpanningEdge::nodes) {
            for step in nodes.windows(2) {
                *sums.entry((step[0].min(step[1]), step[0].max(step[1]))).or_insert(0) += class.trees;
            }
        }
    }
    let load = |&(from, to, capacity): &LinkEnds| {
        let limit = capacity.checked_mul(scale.numerator())? / scale.denominator();
        Some(EdgeLoad { from, to, trees: sums.get(&(from, to)).copied().unwrap_or(0), limit })
    };
    links.iter().map(load).collect()
}

/// Returns the links of a network without nodes that only forward.
fn links(network: &Network) -> Result<Vec<LinkEnds>, SynthesisError> {
    let members = network.members();
    if let Some(node) = (0..network.nodes()).find(|v| members.binary_search(v).is_err()) {
        return Err(SynthesisError::ForwardingNode { node });
    }
    alike_links(network)
}

/// Returns the links of a network whose members are joined by links that are alike both ways.
pub(crate) fn alike_links(network: &Network) -> Result<Vec<LinkEnds>, SynthesisError> {
    let members = network.members();
    let all: BTreeMap<(usize, usize), u64> =
        network.edges().iter().map(|e| ((e.from, e.to), e.capacity)).collect();
    for (&(from, to), &c) in &all {
        if all.get(&(to, from)) != Some(&c) {
            return Err(SynthesisError::UnequalDirections { from: from.min(to), to: from.max(to) });
        }
    }
    if let Some(to) = network.unreached(members[0]) {
        return Err(SynthesisError::Unreachable { from: members[0], to });
    }
    Ok(all.into_iter().filter(|((u, v), _)| u < v).map(|((u, v), c)| (u, v, u128::from(c))).collect())
}

/// Returns the capacity between different parts. `parts[v]` is the part of node v.
fn crossing(links: &[LinkEnds], parts: &[usize]) -> u128 {
    links.iter().filter(|l| parts[l.0] != parts[l.1]).map(|l| l.2).sum()
}

fn count(parts: &[usize]) -> usize {
    let mut names = parts.to_vec();
    names.sort_unstable();
    names.dedup();
    names.len()
}

fn lists(parts: &[usize]) -> Vec<Vec<usize>> {
    let mut lists: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    parts.iter().enumerate().for_each(|(v, &p)| lists.entry(p).or_default().push(v));
    let mut lists: Vec<Vec<usize>> = lists.into_values().collect();
    lists.sort();
    lists
}

/// Returns the partition that attains the strength, the filled links at that rate, and the divisor
/// by which capacities were lowered to make numbers small: a link holds
/// `capacity * (parts - 1) / divisor`.
fn strength(nodes: usize, links: &[LinkEnds]) -> Result<(Vec<usize>, FilledLinks, u128), SynthesisError> {
    let mut parts: Vec<usize> = (0..nodes).collect();
    loop {
        let (p, q) = (crossing(links, &parts), count(&parts) as u128 - 1);
        // Numbers stay below 2^64 * 2^24.
        let divisor = links.iter().fold(p, |g, l| common_divisor(g, l.2 * q));
        let mut filled = FilledLinks::new(nodes, links, p / divisor);
        for (i, &(u, v, c)) in links.iter().enumerate() {
            filled.fill(i, u, v, c * q / divisor);
        }
        if filled.complete() {
            return Ok((parts, filled, divisor));
        }
        let next = filled.parts();
        let (p2, q2) = (crossing(links, &next), count(&next) as u128 - 1);
        if q2 == 0 || ExactRatio::new(p2, q2) >= ExactRatio::new(p, q) {
            return Err(SynthesisError::Inconsistent { step: "the strength of the network" });
        }
        parts = next;
    }
}

/// Links filled so far, and the pebbles that cover them.
struct FilledLinks {
    nodes: usize,
    /// Pebbles of every node: the number of trees.
    pebbles: u128,
    free: Vec<u128>,
    /// Links of each node: number of the link, other end.
    around: Vec<Vec<(usize, usize)>>,
    /// Ends of each link.
    ends: Vec<(usize, usize)>,
    /// Pebbles of the first and of the second end that cover each link.
    cover: Vec<[u128; 2]>,
    /// The part of each node: nodes of one full set have the same part.
    part: Vec<usize>,
}

impl FilledLinks {
    fn new(nodes: usize, links: &[LinkEnds], pebbles: u128) -> FilledLinks {
        let mut around = vec![vec![]; nodes];
        for (i, &(u, v, _)) in links.iter().enumerate() {
            around[u].push((i, v));
            around[v].push((i, u));
        }
        FilledLinks {
            nodes,
            pebbles,
            free: vec![pebbles; nodes],
            ends: links.iter().map(|l| (l.0, l.1)).collect(),
            cover: vec![[0; 2]; links.len()],
            part: (0..nodes).collect(),
            around,
        }
    }

    /// Fills a link as far as possible, up to `most`.
    fn fill(&mut self, link: usize, u: usize, v: usize, most: u128) {
        let before = self.free[u] + self.free[v];
        let missing = (self.pebbles + most).saturating_sub(before);
        let (gained, reached) = self.gather(&[u, v], missing);
        let trees = most.min((before + gained).saturating_sub(self.pebbles));
        if trees < most {
            // The set that was searched holds as much as it can.
            let to = self.part[u];
            let full: Vec<usize> = reached.iter().map(|&x| self.part[x]).collect();
            self.part.iter_mut().filter(|p| full.contains(p)).for_each(|p| *p = to);
        }
        self.cover_link(link, trees);
    }

    /// Covers a link with free pebbles of its ends: half of each, as far as they have so many.
    fn cover_link(&mut self, link: usize, trees: u128) {
        let (u, v) = self.ends[link];
        let half = if self.free[u] > self.free[v] { trees.div_ceil(2) } else { trees / 2 };
        let of_u = half.min(self.free[u]).max(trees.saturating_sub(self.free[v]));
        self.free[u] -= of_u;
        self.free[v] -= trees - of_u;
        self.cover[link][0] += of_u;
        self.cover[link][1] += trees - of_u;
    }

    /// Covers all links anew, so that half of the trees of a link lead each way where possible.
    fn level(&mut self) {
        let filled: Vec<u128> = self.cover.iter().map(|c| c[0] + c[1]).collect();
        self.free.fill(self.pebbles);
        self.cover.fill([0; 2]);
        for (link, trees) in filled.into_iter().enumerate() {
            let (u, v) = self.ends[link];
            let missing = trees.saturating_sub(self.free[u] + self.free[v]);
            self.gather(&[u, v], missing);
            self.cover_link(link, trees);
        }
    }

    /// Frees up to `most` more pebbles of the given nodes together. A pebble that covers a link is
    /// freed by a free pebble of the link's other end, which may have to be freed in the same way.
    /// Returns how many were freed, and the nodes that the last search reached.
    fn gather(&mut self, targets: &[usize], most: u128) -> (u128, Vec<usize>) {
        let mut total = 0;
        loop {
            let mut from = vec![usize::MAX; self.nodes];
            let mut queue = targets.to_vec();
            let mut seen = vec![false; self.nodes];
            targets.iter().for_each(|&t| seen[t] = true);
            let (mut head, mut end) = (0, None);
            while total < most && end.is_none() && head < queue.len() {
                let x = queue[head];
                head += 1;
                for &(link, y) in &self.around[x] {
                    let side = usize::from(self.ends[link].1 == x);
                    if !seen[y] && self.cover[link][side] > 0 {
                        seen[y] = true;
                        from[y] = link;
                        queue.push(y);
                        if self.free[y] > 0 {
                            end = Some(y);
                            break;
                        }
                    }
                }
            }
            let Some(end) = end else { return (total, queue) };
            total += self.shift(end, &from, most - total);
        }
    }

    /// Moves free pebbles of a node along the path on which it was found.
    fn shift(&mut self, end: usize, from: &[usize], most: u128) -> u128 {
        let mut amount = most.min(self.free[end]);
        let mut path = vec![];
        let mut y = end;
        while from[y] != usize::MAX {
            let link = from[y];
            let x = self.ends[link].0 ^ self.ends[link].1 ^ y;
            let side = usize::from(self.ends[link].1 == x);
            amount = amount.min(self.cover[link][side]);
            path.push((link, side));
            y = x;
        }
        for (link, side) in path {
            self.cover[link][side] -= amount;
            self.cover[link][1 - side] += amount;
        }
        self.free[end] -= amount;
        self.free[y] += amount;
        amount
    }

    /// Whether the links hold as many trees as the nodes have pebbles.
    fn complete(&self) -> bool {
        self.free.iter().sum::<u128>() == self.pebbles
    }

    /// Returns the parts of nodes that belong to common full sets.
    fn parts(&self) -> Vec<usize> {
        self.part.clone()
    }

    /// Spreads the free pebbles evenly over the nodes, and returns how many each has: the number of
    /// trees that are packed from it.
    fn roots(&mut self) -> Vec<u128> {
        let (p, n) = (self.pebbles, self.nodes as u128);
        let mut supplies = vec![0; self.nodes];
        for (v, supply) in supplies.iter_mut().enumerate() {
            let share = (v as u128 + 1) * p / n - v as u128 * p / n;
            self.gather(&[v], share.saturating_sub(self.free[v]));
            *supply = share.min(self.free[v]);
            self.free[v] -= *supply;
        }
        // Some nodes cannot get their share.
        supplies.iter_mut().zip(&mut self.free).for_each(|(s, f)| *s += std::mem::take(f));
        supplies
    }

    /// Packs the trees in the edges that the covered links become.
    #[allow(clippy::type_complexity, reason = "ends of edges, and trees as lists of edges")]
    fn trees(mut self, links: &[LinkEnds]) -> Result<(Vec<(usize, usize)>, Vec<PackedTree>), SynthesisError> {
        self.level();
        let supplies = self.roots();
        let (mut ends, mut capacities) = (vec![], vec![]);
        for (&(u, v, _), cover) in links.iter().zip(&self.cover) {
            for ((from, to), trees) in [((v, u), cover[0]), ((u, v), cover[1])] {
                if trees > 0 {
                    ends.push((from, to));
                    capacities.push(trees);
                }
            }
        }
        let packed = pack(self.nodes, &ends, Remainder { capacities: capacities.clone(), supplies })?;
        let packed = shallower(self.nodes, &ends, &capacities, packed);
        Ok((ends, packed))
    }
}

/// Returns trees of which most are less deep, by exchanges between the trees as they lead from
/// their centres.
fn improved(nodes: usize, links: &[LinkEnds], classes: Vec<SpanningClass>) -> Vec<SpanningClass> {
    let ends: Vec<(usize, usize)> = links.iter().flat_map(|l| [(l.0, l.1), (l.1, l.0)]).collect();
    let number: BTreeMap<(usize, usize), usize> = ends.iter().enumerate().map(|(i, e)| (*e, i)).collect();
    let mut used = vec![0; ends.len()];
    let mut trees = vec![];
    for class in &classes {
        let edges: Vec<usize> = class.edges.iter().map(|e| number[&(e.near, e.far)]).collect();
        edges.iter().for_each(|&e| used[e] += class.trees);
        trees.push(PackedTree { root: class.centre, trees: class.trees, edges });
    }
    shallower(nodes, &ends, &used, trees).iter().map(|t| class(&ends, t)).collect()
}

/// Returns a tree with its edges ordered from its centre.
fn class(ends: &[(usize, usize)], tree: &PackedTree) -> SpanningClass {
    let edge = |&e: &usize| SpanningEdge::direct(ends[e].0, ends[e].1);
    let (centre, edges) = centred(tree.edges.iter().map(edge).collect());
    SpanningClass { centre, trees: tree.trees, edges }
}
