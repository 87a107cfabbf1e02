//! Rooting: from which node each spanning tree is entered, so that both directions of a link carry
//! as many pieces up as down.
//!
//! An edge that only carries pieces down is idle at the start of an all-reduce, and one that only
//! carries pieces up is idle at its end. To enter a tree from the other end of one of its links
//! turns that link alone.

use crate::certificate::SpanningClass;
use std::collections::BTreeMap;

/// How often all trees are looked at.
const PASSES: usize = 4;
/// Cost of a tree that is deeper by 1, where that of an edge is the difference between its trees up
/// and down, ten times: a small part of a tree. (On a torus 4x4x4 this gave the shortest plans.)
const DEEPER: i64 = 3;
const DIFFERENCE: i64 = 10;

/// A spanning tree: the number of trees that are alike, and the edges as (end nearer to the root,
/// other end), nearest first.
pub(crate) type RootedTree = (u128, Vec<(usize, usize)>);

/// Returns the trees as they are.
pub(crate) fn given(classes: &[SpanningClass]) -> Vec<RootedTree> {
    classes.iter().map(|c| (c.trees, c.edges.clone())).collect()
}

/// Returns the trees with roots for which directions are used evenly. There are fewer than 2^31
/// trees.
pub(crate) fn level(classes: &[SpanningClass]) -> Vec<RootedTree> {
    let mut trees = given(classes);
    let mut up: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    for (count, edges) in &trees {
        for &(near, far) in edges {
            *up.entry((far, near)).or_insert(0) += *count as i64;
            up.entry((near, far)).or_insert(0);
        }
    }
    for _ in 0..PASSES {
        for (count, edges) in &mut trees {
            turn(*count as i64, edges, &mut up);
        }
    }
    trees
}

/// Gives a tree its best root. `up` holds, for each edge of the network, the trees that send up it.
fn turn(count: i64, edges: &mut [(usize, usize)], up: &mut BTreeMap<(usize, usize), i64>) {
    let Some(&(root, _)) = edges.first() else { return };
    let add = |edges: &[(usize, usize)], more: i64, up: &mut BTreeMap<(usize, usize), i64>| {
        edges.iter().for_each(|&(near, far)| *up.entry((far, near)).or_insert(0) += more);
    };
    add(edges, -count, up);
    // The cost of each root, relative to the present one. A step from u to v turns one link.
    let mut cost: BTreeMap<usize, i64> = BTreeMap::from([(root, 0)]);
    for &(u, v) in edges.iter() {
        let (to_u, to_v) = (up[&(v, u)], up[&(u, v)]);
        let changed = (to_u - to_v - count).abs() - (to_u + count - to_v).abs();
        cost.insert(v, cost[&u] + count * changed);
    }
    let around = neighbours(edges);
    let farthest = |d: &BTreeMap<usize, usize>| d.iter().max_by_key(|e| e.1).map_or(root, |e| *e.0);
    let first = distances(&around, farthest(&distances(&around, root)));
    let second = distances(&around, farthest(&first));
    // Every node is farthest from an end of a longest path.
    let depth = |v: usize| first[&v].max(second[&v]) as i64;
    let price = |v: usize, cost: i64| DIFFERENCE * cost + DEEPER * count * depth(v);
    let Some(best) = cost.iter().min_by_key(|(v, c)| price(**v, **c)).map(|e| *e.0) else { return };
    let from_best = distances(&around, best);
    for edge in edges.iter_mut() {
        if from_best[&edge.0] > from_best[&edge.1] {
            *edge = (edge.1, edge.0);
        }
    }
    edges.sort_by_key(|&(u, v)| (from_best[&v], u, v));
    add(edges, count, up);
}

fn neighbours(edges: &[(usize, usize)]) -> BTreeMap<usize, Vec<usize>> {
    let mut around: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &(u, v) in edges {
        around.entry(u).or_default().push(v);
        around.entry(v).or_default().push(u);
    }
    around
}

/// Returns the distances from a node of the tree.
fn distances(around: &BTreeMap<usize, Vec<usize>>, start: usize) -> BTreeMap<usize, usize> {
    let mut distance = BTreeMap::from([(start, 0)]);
    let mut open = vec![start];
    while let Some(u) = open.pop() {
        for &v in &around[&u] {
            if !distance.contains_key(&v) {
                distance.insert(v, distance[&u] + 1);
                open.push(v);
            }
        }
    }
    distance
}
