//! Growth of one tree against the sets of nodes that are known to limit it.
//!
//! A tree must enter every set that does not contain its root once. Each further entry uses
//! capacity that the set may need for the trees of other roots: its *slack* says how much it can
//! lose. A set that contains the root loses with every entry.

use crate::connectivity::{Connectivity, Supplied};
use fixedbitset::FixedBitSet;

/// Trees of one root and shape. `edges` are positions in the list of edges, in the order of growth.
#[derive(Clone, Debug)]
pub(crate) struct PackedTree {
    pub root: usize,
    pub trees: u128,
    pub edges: Vec<usize>,
}

/// A directed graph with capacities in trees, and what remains to be packed in it.
#[derive(Clone)]
pub(crate) struct Remainder {
    /// Capacity of each edge.
    pub capacities: Vec<u128>,
    /// Trees of each node.
    pub supplies: Vec<u128>,
}

impl Remainder {
    /// Removes what a tree uses. The tree must fit.
    pub fn remove(&mut self, tree: &PackedTree) {
        tree.edges.iter().for_each(|&e| self.capacities[e] -= tree.trees);
        self.supplies[tree.root] -= tree.trees;
    }
}

/// The result of growing a tree.
pub(crate) enum Growth {
    /// A complete tree.
    Tree(PackedTree),
    /// No edge can be added to a part of a tree.
    Stuck {
        /// Nodes of the part.
        nodes: Vec<usize>,
        /// Edges of the part.
        edges: Vec<usize>,
    },
}

/// Sets of nodes with little slack.
pub(crate) struct KnownSets {
    ends: Vec<(usize, usize)>,
    /// Edges that leave each node.
    leaving: Vec<Vec<usize>>,
    sets: Vec<FixedBitSet>,
    slack: Vec<u128>,
    /// For each node, the sets that contain it, 64 to a word.
    inside: Vec<Vec<u64>>,
}

impl KnownSets {
    /// Returns no sets, for a graph with edges (from, to).
    pub fn new(nodes: usize, ends: &[(usize, usize)]) -> KnownSets {
        let (leaving, inside) = (vec![vec![]; nodes], vec![vec![]; nodes]);
        let mut known = KnownSets { ends: vec![], leaving, sets: vec![], slack: vec![], inside };
        known.set_edges(ends);
        known
    }

    /// Replaces the edges. Only edges without capacity may be missing.
    pub fn set_edges(&mut self, ends: &[(usize, usize)]) {
        self.ends = ends.to_vec();
        self.leaving.iter_mut().for_each(Vec::clear);
        ends.iter().enumerate().for_each(|(i, e)| self.leaving[e.0].push(i));
    }

    /// Returns the number of sets.
    pub fn count(&self) -> usize {
        self.sets.len()
    }

    /// Returns by how many trees the capacity into each set exceeds what it needs.
    pub fn slack(&self) -> &[u128] {
        &self.slack
    }

    /// Sets the slack of every set to what it was before some trees.
    pub fn restore(&mut self, slack: Vec<u128>) {
        self.slack = slack;
    }

    /// Adds a set, unless it is known.
    pub fn add(&mut self, set: FixedBitSet, state: &Remainder) {
        if self.sets.contains(&set) {
            return;
        }
        let enters = |e: &(usize, usize)| !set.contains(e.0) && set.contains(e.1);
        let entering: u128 =
            self.ends.iter().zip(&state.capacities).filter(|e| enters(e.0)).map(|e| e.1).sum();
        let outside = state.supplies.iter().enumerate().filter(|s| !set.contains(s.0));
        self.slack.push(entering.saturating_sub(outside.map(|s| s.1).sum()));
        let (word, bit) = (self.sets.len() / 64, self.sets.len() % 64);
        for (v, words) in self.inside.iter_mut().enumerate() {
            words.resize(word + 1, 0);
            words[word] |= u64::from(set.contains(v)) << bit;
        }
        self.sets.push(set);
    }

    /// Lowers the slacks by a tree.
    pub fn used(&mut self, tree: &PackedTree) {
        let mut entries = Entries::new(self, tree.root);
        for &e in &tree.edges {
            entries.add(self, e);
        }
        for (slack, lost) in self.slack.iter_mut().zip(&entries.lost) {
            *slack = slack.saturating_sub(tree.trees * u128::from(*lost));
        }
    }

    /// Grows a tree with the largest multiplicity that capacities and known sets allow. With
    /// `exact`, each edge is tested by a maximum flow, and the sets that this finds become known.
    pub fn grow(&mut self, root: usize, state: &Remainder, mut exact: Option<&mut Connectivity>) -> Growth {
        let mut trees = state.supplies[root].min(self.widest(root, state));
        loop {
            let mut attempt = Attempt::new(self, root);
            attempt.grow(self, state, trees.max(1), exact.as_deref_mut());
            if attempt.nodes.len() == self.leaving.len() {
                return Growth::Tree(PackedTree { root, trees, edges: attempt.edges });
            }
            // The widest edge that is left allows the next multiplicity.
            let next = attempt.widest_left(self, state);
            if next == 0 || trees == 0 {
                return Growth::Stuck { nodes: attempt.nodes, edges: attempt.edges };
            }
            trees = next.min(trees - 1);
        }
    }

    /// Returns the largest capacity c for which the edges of capacity c or more reach all nodes.
    fn widest(&self, root: usize, state: &Remainder) -> u128 {
        let mut width = vec![0u128; self.leaving.len()];
        let mut inside = vec![false; self.leaving.len()];
        let mut open = std::collections::BinaryHeap::from([(u128::MAX, root)]);
        let (mut least, mut count) = (u128::MAX, 0);
        while let Some((w, x)) = open.pop() {
            if inside[x] {
                continue;
            }
            inside[x] = true;
            count += 1;
            least = least.min(w);
            for &e in &self.leaving[x] {
                let (y, c) = (self.ends[e].1, state.capacities[e]);
                if !inside[y] && c > width[y] {
                    width[y] = c;
                    open.push((c, y));
                }
            }
        }
        if count == self.leaving.len() { least } else { 0 }
    }
}

/// How often a tree in progress enters the known sets beyond what it must.
struct Entries {
    /// Sets that contain a node of the tree.
    touched: Vec<u64>,
    /// Entries of each set that cost slack.
    lost: Vec<u32>,
}

impl Entries {
    fn new(known: &KnownSets, root: usize) -> Entries {
        Entries { touched: known.inside[root].clone(), lost: vec![0; known.sets.len()] }
    }

    /// Calls `each` for every set that loses slack by an edge.
    fn losing(&self, known: &KnownSets, edge: usize, mut each: impl FnMut(usize)) {
        let (x, y) = known.ends[edge];
        let words = known.inside[x].iter().zip(&known.inside[y]).zip(&self.touched).enumerate();
        for (i, ((&from, &to), &touched)) in words {
            let mut word = to & !from & touched;
            while word != 0 {
                each(i * 64 + word.trailing_zeros() as usize);
                word &= word - 1;
            }
        }
    }

    /// Returns the largest multiplicity of the tree with which an edge may be added.
    fn allowed(&self, known: &KnownSets, edge: usize) -> u128 {
        let mut most = u128::MAX;
        self.losing(known, edge, |s| most = most.min(known.slack[s] / (u128::from(self.lost[s]) + 1)));
        most
    }

    fn add(&mut self, known: &KnownSets, edge: usize) {
        let mut sets = vec![];
        self.losing(known, edge, |s| sets.push(s));
        sets.into_iter().for_each(|s| self.lost[s] += 1);
        let to = &known.inside[known.ends[edge].1];
        self.touched.iter_mut().zip(to).for_each(|(touched, to)| *touched |= to);
    }
}

/// The test of Bérczi and Frank whether an edge may be added to a tree in progress: a flow from the
/// other trees' roots and from the edge's begin, which has the tree's data, to its end.
struct ExactTest<'c> {
    check: &'c mut Connectivity,
    /// What is left beside the tree in progress.
    left: Remainder,
    /// The flow that is needed: all other trees, and the multiplicity of this one.
    need: u128,
}

impl ExactTest<'_> {
    /// Returns the set that would lose too much by an edge.
    fn limit(&mut self, (from, to): (usize, usize)) -> Option<FixedBitSet> {
        let Remainder { capacities, supplies } = &self.left;
        self.check.limit(&Supplied { capacities, supplies, growing: None }, from, to, self.need)
    }
}

/// A tree in progress.
struct Attempt {
    nodes: Vec<usize>,
    edges: Vec<usize>,
    inside: Vec<bool>,
    entries: Entries,
}

impl Attempt {
    fn new(known: &KnownSets, root: usize) -> Attempt {
        let mut inside = vec![false; known.leaving.len()];
        inside[root] = true;
        Attempt { nodes: vec![root], edges: vec![], inside, entries: Entries::new(known, root) }
    }

    /// Adds edges layer by layer, in each layer those with the most capacity first.
    fn grow(
        &mut self,
        known: &mut KnownSets,
        state: &Remainder,
        trees: u128,
        exact: Option<&mut Connectivity>,
    ) {
        let mut layer = 0..1;
        let mut test = exact.map(|check| {
            let mut left = state.clone();
            left.supplies[self.nodes[0]] = left.supplies[self.nodes[0]].saturating_sub(trees);
            ExactTest { check, need: left.supplies.iter().sum::<u128>() + trees, left }
        });
        while !layer.is_empty() {
            let leaving = layer.clone().flat_map(|i| known.leaving[self.nodes[i]].iter().copied());
            let wide = |e: &usize| !self.inside[known.ends[*e].1] && state.capacities[*e] >= trees;
            let mut candidates: Vec<usize> = leaving.filter(wide).collect();
            candidates.sort_by_key(|&e| (u128::MAX - state.capacities[e], e));
            for e in candidates {
                let y = known.ends[e].1;
                if !self.inside[y] && self.entries.allowed(known, e) >= trees {
                    if let Some(test) = &mut test {
                        if let Some(set) = test.limit(known.ends[e]) {
                            known.add(set, state);
                            self.count_entries(known);
                            continue;
                        }
                        test.left.capacities[e] -= trees;
                    }
                    self.entries.add(known, e);
                    self.inside[y] = true;
                    self.nodes.push(y);
                    self.edges.push(e);
                }
            }
            layer = layer.end..self.nodes.len();
        }
    }

    /// Counts entries anew, for sets that became known while the tree grew.
    fn count_entries(&mut self, known: &KnownSets) {
        self.entries = Entries::new(known, self.nodes[0]);
        self.edges.iter().for_each(|&e| self.entries.add(known, e));
    }

    /// Returns the largest multiplicity with which some edge could still be added.
    fn widest_left(&self, known: &KnownSets, state: &Remainder) -> u128 {
        let leaving = self.nodes.iter().flat_map(|&x| known.leaving[x].iter().copied());
        let left = leaving.filter(|&e| !self.inside[known.ends[e].1] && state.capacities[e] > 0);
        left.map(|e| self.entries.allowed(known, e).min(state.capacities[e])).max().unwrap_or(0)
    }
}
