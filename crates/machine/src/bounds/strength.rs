//! Strength of a graph: the partition that minimises (sum of the capacities that leave its parts) /
//! (number of parts - 1).
//!
//! This module owns the exact search of Cunningham (1985), in Barahona's form (1992) with one
//! minimum cut per node. C_out of a set of ranks is the minimum cut between it and all other ranks.
//! It is submodular, also with relays, which are on the side where they cost least. For a ratio
//! `x = a/b`, the partition that minimises `b C_out(P) - a |P|` is found greedily: the ranks are
//! added one by one, the tightest set that contains the rank just added is a minimum cut, and tight
//! sets that intersect are united. The search is repeated with the ratio of the partition found
//! until no ratio is smaller (Dinkelbach). All numbers are integers. The all-reduce row of a
//! partition is `2 n (|P| - 1) / C_out(P)` (docs/explanation/bounds.md).

use super::flow::Flow;

/// A network. Nodes `0..ranks` are ranks, and the nodes after them only forward.
pub struct Graph {
    /// Number of ranks.
    pub ranks: usize,
    /// Number of nodes, including the ranks.
    pub nodes: usize,
    /// Arcs: from, to, capacity.
    pub arcs: Vec<(usize, usize, i128)>,
}

/// Returns the minimising partition of a strongly connected network of two or more ranks, and the
/// sum of the capacities that leave its parts. Parts are ordered by their smallest rank.
pub fn partition(graph: &Graph) -> (Vec<Vec<usize>>, i128) {
    let mut best: Vec<usize> = (0..graph.ranks).collect();
    loop {
        let (weight, parts) = graph.measure(&best);
        let next = graph.cheapest(weight, parts as i128 - 1);
        let (w, k) = graph.measure(&next);
        // The ratio strictly decreases, so the loop ends. A single part is not a partition.
        if k < 2 || w * (parts as i128 - 1) >= weight * (k as i128 - 1) {
            return (blocks(&best), weight);
        }
        best = next;
    }
}

fn blocks(part: &[usize]) -> Vec<Vec<usize>> {
    let mut out: Vec<Vec<usize>> = vec![];
    let mut number = vec![usize::MAX; part.len()];
    for (v, &p) in part.iter().enumerate() {
        if number[p] == usize::MAX {
            number[p] = out.len();
            out.push(vec![]);
        }
        out[number[p]].push(v);
    }
    out
}

impl Graph {
    /// Returns a capacity that exceeds that of every cut.
    fn much(&self) -> i128 {
        self.arcs.iter().map(|a| a.2).sum::<i128>() + 1
    }

    /// Returns the sum of the capacities that leave the parts, and the number of parts. `part[v]`
    /// is the part of rank v.
    pub fn measure(&self, part: &[usize]) -> (i128, usize) {
        let blocks = blocks(part);
        let weight = if self.nodes == self.ranks {
            self.arcs.iter().filter(|a| part[a.0] != part[a.1]).map(|a| a.2).sum()
        } else {
            blocks.iter().map(|b| self.leaves(b)).sum()
        };
        (weight, blocks.len())
    }

    /// Returns C_out of a part.
    fn leaves(&self, inside: &[usize]) -> i128 {
        let (source, sink, much) = (self.nodes, self.nodes + 1, self.much());
        let mut flow = Flow::new(self.nodes + 2);
        self.arcs.iter().for_each(|&(u, v, c)| flow.arc(u, v, c, 0));
        for r in 0..self.ranks {
            if inside.contains(&r) {
                flow.arc(source, r, much, 0);
            } else {
                flow.arc(r, sink, much, 0);
            }
        }
        flow.run(source, sink)
    }

    /// Returns the partition that minimises `b C_out(P) - a |P|`.
    ///
    /// `value[v]` is the greedy vector: value(S) <= b C_out(S) - a for all sets S of the ranks
    /// added so far, with equality on the parts.
    fn cheapest(&self, a: i128, b: i128) -> Vec<usize> {
        let mut part: Vec<usize> = (0..self.ranks).collect();
        let mut value = vec![0i128; self.ranks];
        let sink = self.nodes;
        for v in 0..self.ranks {
            // Minimises b C_out(S) - value(S without v) over all S that contain v and ranks added
            // before.
            let mut flow = Flow::new(self.nodes + 1);
            let mut least = -a;
            let much = b * self.much();
            for u in (0..self.ranks).filter(|&u| u != v) {
                if u > v {
                    flow.arc(u, sink, much, 0);
                } else if value[u] > 0 {
                    flow.arc(v, u, value[u], 0);
                    least -= value[u];
                } else {
                    flow.arc(u, sink, -value[u], 0);
                }
            }
            self.arcs.iter().for_each(|&(from, to, c)| flow.arc(from, to, b * c, 0));
            least += flow.run(v, sink);
            value[v] = least;
            let tight = flow.layer(v);
            let met: Vec<usize> = (0..v).filter(|&u| tight.contains(u)).map(|u| part[u]).collect();
            for p in &mut part[..v] {
                if met.contains(p) {
                    *p = v;
                }
            }
        }
        part
    }
}
