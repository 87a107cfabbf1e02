//! Exchange of edges between trees, so that the deepest trees become shallower.
//!
//! The trees that are packed last get the edges that are left, and may be many times as deep as the
//! others. Two trees that both reach a node v may exchange the edges by which they do, as long as
//! neither gets a cycle: the load of every edge stays what it is, so nothing has to be tested. An
//! edge with spare capacity may be used without an exchange. The deepest tree is improved first,
//! and its partner must stay less deep than it was, so the search ends. It is a heuristic: packings
//! of less depth may exist.

use crate::grow::PackedTree;
use std::collections::BTreeSet;

/// Limit of the search: pairs of trees that are looked at, for each edge of each tree.
const LOOKS: usize = 400;

/// An exchange with a part of a class divides it. One class may be added for so many.
const MORE_CLASSES: usize = 4;

const NONE: usize = usize::MAX;

/// A tree as the edge that enters each node.
#[derive(Clone)]
struct Shape {
    root: usize,
    trees: u128,
    entry: Vec<usize>,
    /// Distance of each node from the root.
    depth: Vec<usize>,
    /// Length of the longest path from each node down.
    below: Vec<usize>,
    /// Nodes by distance from the root.
    order: Vec<usize>,
}

impl Shape {
    /// Computes depths anew.
    fn measure(&mut self, ends: &[(usize, usize)]) {
        let n = self.entry.len();
        let mut children: Vec<Vec<usize>> = vec![vec![]; n];
        for (v, &e) in self.entry.iter().enumerate().filter(|e| *e.1 != NONE) {
            children[ends[e].0].push(v);
        }
        self.order.clear();
        self.order.push(self.root);
        self.depth[self.root] = 0;
        let mut head = 0;
        while let Some(&x) = self.order.get(head) {
            head += 1;
            for &y in &children[x] {
                self.depth[y] = self.depth[x] + 1;
                self.order.push(y);
            }
        }
        self.below.fill(0);
        for &v in self.order.iter().skip(1).rev() {
            let parent = ends[self.entry[v]].0;
            self.below[parent] = self.below[parent].max(self.below[v] + 1);
        }
    }

    fn height(&self) -> usize {
        self.below[self.root]
    }

    /// Whether `v` is `x` or lies on the path to it.
    fn is_above(&self, ends: &[(usize, usize)], v: usize, mut x: usize) -> bool {
        while self.depth[x] > self.depth[v] {
            x = ends[self.entry[x]].0;
        }
        x == v
    }

    /// Returns the nodes on a longest path from the root, without the root.
    fn longest(&self, ends: &[(usize, usize)]) -> Vec<usize> {
        let mut path = vec![];
        let Some(&last) = self.order.last() else { return path };
        let mut v = last;
        while v != self.root {
            path.push(v);
            v = ends[self.entry[v]].0;
        }
        path.reverse();
        path
    }
}

/// A change that makes a tree shallower.
struct Improvement {
    node: usize,
    edge: usize,
    /// The other tree, unless the edge has spare capacity.
    partner: Option<usize>,
}

struct Exchange<'e> {
    ends: &'e [(usize, usize)],
    entering: Vec<Vec<usize>>,
    spare: Vec<u128>,
    shapes: Vec<Shape>,
    /// Trees that use each edge.
    users: Vec<Vec<usize>>,
    /// Trees that may still be added by dividing a class.
    more: usize,
    looks: usize,
}

/// Returns trees with the same roots, most of them less deep. No edge carries more than its
/// capacity.
pub(crate) fn shallower(
    nodes: usize,
    ends: &[(usize, usize)],
    capacities: &[u128],
    trees: Vec<PackedTree>,
) -> Vec<PackedTree> {
    let mut entering = vec![vec![]; nodes];
    ends.iter().enumerate().for_each(|(i, e)| entering[e.1].push(i));
    let mut spare = capacities.to_vec();
    let mut users = vec![vec![]; ends.len()];
    let mut shapes = vec![];
    for (i, tree) in trees.iter().enumerate() {
        let mut entry = vec![NONE; nodes];
        for &e in &tree.edges {
            entry[ends[e].1] = e;
            spare[e] -= tree.trees;
            users[e].push(i);
        }
        let (depth, below, order) = (vec![0; nodes], vec![0; nodes], vec![]);
        let mut shape = Shape { root: tree.root, trees: tree.trees, entry, depth, below, order };
        shape.measure(ends);
        shapes.push(shape);
    }
    let (more, looks) = (trees.len() / MORE_CLASSES + 1, LOOKS * trees.len() * nodes);
    let mut exchange = Exchange { ends, entering, spare, shapes, users, more, looks };
    exchange.run();
    let packed = |s: Shape| {
        let edges = s.order[1..].iter().map(|&v| s.entry[v]).collect();
        PackedTree { root: s.root, trees: s.trees, edges }
    };
    exchange.shapes.into_iter().map(packed).collect()
}

impl Exchange<'_> {
    fn run(&mut self) {
        let nearest = self.least_heights();
        let mut open: BTreeSet<(usize, usize)> =
            self.shapes.iter().enumerate().map(|(i, s)| (s.height(), i)).collect();
        while let Some((height, i)) = open.pop_last() {
            if height <= nearest[self.shapes[i].root] {
                continue;
            }
            let Some(found) = self.improvement(i) else { continue };
            let partner = found.partner.map(|j| {
                open.remove(&(self.shapes[j].height(), j));
                self.divided(j, self.shapes[i].trees, &mut open)
            });
            self.apply(i, found.node, found.edge, partner);
            for j in partner.into_iter().chain([i]) {
                open.insert((self.shapes[j].height(), j));
            }
        }
    }

    /// Returns the distance of the farthest node from each root, which no tree can beat.
    fn least_heights(&self) -> Vec<usize> {
        let n = self.entering.len();
        let mut leaving = vec![vec![]; n];
        self.ends.iter().for_each(|e| leaving[e.0].push(e.1));
        let mut heights = vec![0; n];
        let roots: BTreeSet<usize> = self.shapes.iter().map(|s| s.root).collect();
        for root in roots {
            let mut depth = vec![NONE; n];
            depth[root] = 0;
            let mut queue = vec![root];
            let mut head = 0;
            while let Some(&x) = queue.get(head) {
                head += 1;
                heights[root] = depth[x];
                for &y in &leaving[x] {
                    if depth[y] == NONE {
                        depth[y] = depth[x] + 1;
                        queue.push(y);
                    }
                }
            }
        }
        heights
    }

    /// Returns a change that brings a node on the longest path of a tree nearer to the root.
    fn improvement(&mut self, i: usize) -> Option<Improvement> {
        let tree = &self.shapes[i];
        for v in tree.longest(self.ends) {
            let p = self.ends[tree.entry[v]].0;
            let mut nearer: Vec<usize> = self.entering[v]
                .iter()
                .copied()
                .filter(|&e| tree.depth[self.ends[e].0] + 1 < tree.depth[v])
                .collect();
            nearer.sort_by_key(|&e| (tree.depth[self.ends[e].0], e));
            for edge in nearer {
                if self.spare[edge] >= tree.trees {
                    return Some(Improvement { node: v, edge, partner: None });
                }
                for &j in &self.users[edge] {
                    let other = &self.shapes[j];
                    self.looks = self.looks.saturating_sub(1);
                    // A class with fewer trees cannot serve all of this one.
                    let fits = other.trees == tree.trees || (other.trees > tree.trees && self.more > 0);
                    let deep = other.depth[p] + 1 + other.below[v];
                    if fits && deep < tree.height() && !other.is_above(self.ends, v, p) {
                        return Some(Improvement { node: v, edge, partner: Some(j) });
                    }
                }
                if self.looks == 0 {
                    return None;
                }
            }
        }
        None
    }

    /// Divides a class, so that a part of it has the given number of trees, and returns that part.
    fn divided(&mut self, j: usize, trees: u128, open: &mut BTreeSet<(usize, usize)>) -> usize {
        if self.shapes[j].trees == trees {
            return j;
        }
        self.more -= 1;
        let part = self.shapes.len();
        let mut shape = self.shapes[j].clone();
        shape.trees = trees;
        self.shapes[j].trees -= trees;
        open.insert((shape.height(), j));
        shape.entry.iter().filter(|e| **e != NONE).for_each(|&e| self.users[e].push(part));
        self.shapes.push(shape);
        part
    }

    fn apply(&mut self, i: usize, v: usize, edge: usize, partner: Option<usize>) {
        let old = std::mem::replace(&mut self.shapes[i].entry[v], edge);
        self.users[old].retain(|&u| u != i);
        self.users[edge].push(i);
        self.shapes[i].measure(self.ends);
        match partner {
            Some(j) => {
                self.shapes[j].entry[v] = old;
                self.users[edge].retain(|&u| u != j);
                self.users[old].push(j);
                self.shapes[j].measure(self.ends);
            }
            None => {
                self.spare[edge] -= self.shapes[i].trees;
                self.spare[old] += self.shapes[i].trees;
            }
        }
    }
}
