//! Centres of spanning trees, and trees as they lead from a node.

use crate::certificate::SpanningEdge;
use std::collections::BTreeMap;

/// Returns the nodes to which each node of a tree is joined.
pub(crate) fn neighbours(edges: &[SpanningEdge]) -> BTreeMap<usize, Vec<usize>> {
    let mut around: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for edge in edges {
        around.entry(edge.near).or_default().push(edge.far);
        around.entry(edge.far).or_default().push(edge.near);
    }
    around
}

/// Returns the distances from a node of the tree.
pub(crate) fn distances(around: &BTreeMap<usize, Vec<usize>>, start: usize) -> BTreeMap<usize, usize> {
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

/// Returns the last of the nodes that are farthest away.
pub(crate) fn farthest(distance: &BTreeMap<usize, usize>) -> Option<usize> {
    distance.iter().max_by_key(|d| d.1).map(|d| *d.0)
}

/// Turns and orders the edges of a tree so that it leads from the node with these distances.
pub(crate) fn lead(edges: &mut [SpanningEdge], distance: &BTreeMap<usize, usize>) {
    for edge in edges.iter_mut().filter(|e| distance[&e.near] > distance[&e.far]) {
        edge.turn();
    }
    edges.sort_by_key(|e| (distance[&e.far], e.near, e.far));
}

/// Returns the centre of a tree, the middle of a longest path, and its edges as they lead from
/// there.
pub(crate) fn centred(mut edges: Vec<SpanningEdge>) -> (usize, Vec<SpanningEdge>) {
    let around = neighbours(&edges);
    let Some(&first) = around.keys().next() else { return (0, edges) };
    let end = farthest(&distances(&around, first)).unwrap_or(first);
    let from_end = distances(&around, end);
    let mut centre = farthest(&from_end).unwrap_or(first);
    let half = from_end[&centre] / 2;
    while from_end[&centre] > half {
        let Some(&next) = around[&centre].iter().find(|v| from_end[v] < from_end[&centre]) else { break };
        centre = next;
    }
    lead(&mut edges, &distances(&around, centre));
    (centre, edges)
}
