//! Boxes of a machine: runs of ranks that are nearer to each other than to others.

use super::{DeviceId, Link, Topology};
use petgraph::unionfind::UnionFind;
use std::collections::{BTreeSet, VecDeque};

impl Topology {
    /// Returns the sizes of the boxes of a list of links, ascending: numbers g, of which 1 and the
    /// number of ranks are none, for which every g consecutive ranks of `group` are linked closely
    /// and no others are.
    ///
    /// Ranks are linked closely if links of at least some rate join them, or if they are at most
    /// some number of links apart. Every rate and number of links is tried. The result is empty for
    /// machines that a generator makes: their axes say what their levels are. The time is that of
    /// one search through the links for each rank.
    pub fn box_sizes(&self, group: &[DeviceId]) -> Vec<u64> {
        let mut out = BTreeSet::new();
        if self.is_listed() {
            self.boxes_by_rate(group, &mut out);
            self.boxes_by_distance(group, &mut out);
        }
        out.into_iter().collect()
    }

    fn boxes_by_rate(&self, group: &[DeviceId], out: &mut BTreeSet<u64>) {
        let mut links: Vec<Link> = self.links().collect();
        links.sort_by(|a, b| b.rate.bandwidth.total_cmp(&a.rate.bandwidth));
        let mut joined = UnionFind::<u32>::new(self.node_count());
        for same in links.chunk_by(|a, b| a.rate.bandwidth == b.rate.bandwidth) {
            let new = same.iter().filter(|l| joined.union(l.from.0, l.to.0)).count();
            if new > 0 {
                out.extend(run_length(group, &joined));
            }
        }
    }

    fn boxes_by_distance(&self, group: &[DeviceId], out: &mut BTreeSet<u64>) {
        let members: BTreeSet<DeviceId> = group.iter().copied().collect();
        // Pairs of ranks by their distance, counted in links.
        let mut near: Vec<Vec<(u32, u32)>> = vec![];
        for &from in group {
            let mut far = vec![usize::MAX; self.node_count()];
            far[from.0 as usize] = 0;
            let mut waiting = VecDeque::from([from]);
            while let Some(node) = waiting.pop_front() {
                let next = far[node.0 as usize] + 1;
                for link in self.links_from(node) {
                    let to = &mut far[link.to.0 as usize];
                    if *to == usize::MAX {
                        *to = next;
                        waiting.push_back(link.to);
                        if members.contains(&link.to) {
                            near.resize_with(near.len().max(next + 1), Vec::new);
                            near[next].push((from.0, link.to.0));
                        }
                    }
                }
            }
        }
        let mut joined = UnionFind::<u32>::new(self.node_count());
        for pairs in near {
            let new = pairs.into_iter().filter(|&(a, b)| joined.union(a, b)).count();
            if new > 0 {
                out.extend(run_length(group, &joined));
            }
        }
    }
}

/// Returns the number of ranks in each set, if the sets are runs of equally many ranks, several
/// ranks in each, and there are several sets.
fn run_length(group: &[DeviceId], joined: &UnionFind<u32>) -> Option<u64> {
    let sets: Vec<u32> = group.iter().map(|d| joined.find(d.0)).collect();
    let runs: Vec<&[u32]> = sets.chunk_by(|a, b| a == b).collect();
    let length = runs.first()?.len();
    let equal = runs.iter().all(|r| r.len() == length);
    let several = runs.iter().map(|r| r[0]).collect::<BTreeSet<_>>().len() == runs.len();
    (length > 1 && runs.len() > 1 && equal && several).then_some(length as u64)
}
