//! Rooting: from which node each spanning tree is entered, so that both directions of a link carry
//! as many pieces up as down.
//!
//! An edge that only carries pieces down is idle at the start of an all-reduce, and one that only
//! carries pieces up is idle at its end. To enter a tree from the other end of one of its links
//! turns that link alone.

use crate::centre::{distances, farthest, lead, neighbours};
use crate::certificate::{SpanningClass, SpanningEdge};
use std::collections::BTreeMap;

/// How often all trees are looked at.
const PASSES: usize = 4;
/// Cost of a tree that is deeper by 1, where that of an edge is the difference between its trees up
/// and down, ten times: a small part of a tree. (On a torus 4x4x4 this gave the shortest plans.)
const DEEPER: i64 = 3;
const DIFFERENCE: i64 = 10;

/// A spanning tree: the number of trees that are alike, and the edges, those that are nearer to the
/// root first.
pub(crate) type RootedTree = (u128, Vec<SpanningEdge>);

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
        for nodes in edges.iter().map(SpanningEdge::nodes) {
            for step in nodes.windows(2) {
                *up.entry((step[1], step[0])).or_insert(0) += *count as i64;
                up.entry((step[0], step[1])).or_insert(0);
            }
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
fn turn(count: i64, edges: &mut [SpanningEdge], up: &mut BTreeMap<(usize, usize), i64>) {
    let Some(root) = edges.first().map(|e| e.near) else { return };
    let add = |edges: &[SpanningEdge], more: i64, up: &mut BTreeMap<(usize, usize), i64>| {
        for nodes in edges.iter().map(SpanningEdge::nodes) {
            nodes.windows(2).for_each(|s| *up.entry((s[1], s[0])).or_insert(0) += more);
        }
    };
    add(edges, -count, up);
    // The cost of each root, relative to the present one. A step from u to v turns one edge. Links
    // that the tree uses several times, over switches, are judged as if each use were the only one.
    let mut cost: BTreeMap<usize, i64> = BTreeMap::from([(root, 0)]);
    for edge in edges.iter() {
        let changed = |step: &[usize]| {
            let (to_u, to_v) = (up[&(step[1], step[0])], up[&(step[0], step[1])]);
            (to_u - to_v - count).abs() - (to_u + count - to_v).abs()
        };
        let turned: i64 = edge.nodes().windows(2).map(changed).sum();
        cost.insert(edge.far, cost[&edge.near] + count * turned);
    }
    let around = neighbours(edges);
    let end = |d: &BTreeMap<usize, usize>| farthest(d).unwrap_or(root);
    let first = distances(&around, end(&distances(&around, root)));
    let second = distances(&around, end(&first));
    // Every node is farthest from an end of a longest path.
    let depth = |v: usize| first[&v].max(second[&v]) as i64;
    let price = |v: usize, cost: i64| DIFFERENCE * cost + DEEPER * count * depth(v);
    let Some(best) = cost.iter().min_by_key(|(v, c)| price(**v, **c)).map(|e| *e.0) else { return };
    lead(edges, &distances(&around, best));
    add(edges, count, up);
}
