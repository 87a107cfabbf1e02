//! The strength of a graph: the partition that minimises (weight between parts) / (parts - 1).
//!
//! Owns the exact search (Cunningham 1985; the form with one minimum cut a node is Barahona's 1992). For a ratio
//! x = a/b, the partition that minimises b w(P) - a |P| is found greedily: node after node, the tightest set
//! that ends with it is a minimum cut, and tight sets that meet are united. From its ratio the search starts again
//! until nothing is smaller (Dinkelbach). All in whole numbers. All-reduce: T = 2 n / min w(P) / (|P| - 1), with w
//! the capacity of both directions (BOUNDS.md; SEMANTICS.md 7).

use super::flow::Flow;

/// An undirected edge with its weight, both directions together.
pub(super) type Edge = (usize, usize, i128);

/// The minimising partition of a connected graph of two or more nodes; parts by their smallest node.
pub(super) fn partition(nodes: usize, edges: &[Edge]) -> Vec<Vec<usize>> {
    let mut best: Vec<usize> = (0..nodes).collect();
    loop {
        let (weight, parts) = measure(edges, &best);
        let next = cheapest(nodes, edges, weight, parts as i128 - 1);
        let (w, k) = measure(edges, &next);
        // Strictly smaller ratio, so this ends; one part is no partition.
        if k < 2 || w * (parts as i128 - 1) >= weight * (k as i128 - 1) {
            return blocks(&best);
        }
        best = next;
    }
}

/// Weight between parts and number of parts; `part[v]` is the part of node v.
fn measure(edges: &[Edge], part: &[usize]) -> (i128, usize) {
    let weight = edges.iter().filter(|e| part[e.0] != part[e.1]).map(|e| e.2).sum();
    (weight, blocks(part).len())
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

/// The partition that minimises `b w(P) - a |P|`.
///
/// With g(S) = -2 b w(inside S) - 2 a, the sum over the parts is that up to a constant. `value[v]` is the greedy
/// vector: value(S) <= g(S) for all S of the nodes seen, with equality on the parts.
fn cheapest(nodes: usize, edges: &[Edge], a: i128, b: i128) -> Vec<usize> {
    let mut part: Vec<usize> = (0..nodes).collect();
    let mut value = vec![0i128; nodes];
    let mut degree = vec![0i128; nodes];
    for v in 0..nodes {
        let inside: Vec<&Edge> = edges.iter().filter(|e| e.0.max(e.1) <= v).collect();
        for e in inside.iter().filter(|e| e.0.max(e.1) == v) {
            degree[e.0] += e.2;
            degree[e.1] += e.2;
        }
        // Minimise over S with v: sum of (-value(u) - b degree(u)) over S without v, plus b times the cut of S.
        let sink = v + 1;
        let mut flow = Flow::new(v + 2);
        let mut least = -b * degree[v] - 2 * a;
        for u in 0..v {
            let cost = -value[u] - b * degree[u];
            if cost > 0 {
                flow.arc(u, sink, cost, 0);
            } else {
                flow.arc(v, u, -cost, 0);
                least += cost;
            }
        }
        for e in inside {
            flow.arc(e.0, e.1, b * e.2, b * e.2);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All partitions, by restricted growth.
    fn brute(nodes: usize, edges: &[Edge]) -> (i128, usize) {
        let mut best = (i128::MAX, 1usize);
        let mut part = vec![0usize; nodes];
        loop {
            let (w, k) = measure(edges, &part);
            if k > 1 && (best.0 == i128::MAX || w * (best.1 as i128 - 1) < best.0 * (k as i128 - 1)) {
                best = (w, k);
            }
            let Some(i) = (1..nodes).rev().find(|&i| part[i] <= *part[..i].iter().max().unwrap()) else {
                return best;
            };
            part[i] += 1;
            part[i + 1..].fill(0);
        }
    }

    #[test]
    fn equals_the_best_of_all_partitions() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut coarse = 0;
        for _ in 0..300 {
            let nodes = 2 + random(6) as usize;
            let mut edges: Vec<Edge> = vec![];
            for v in 1..nodes {
                edges.push((random(v as u64) as usize, v, 1 + i128::from(random(20))));
            }
            for _ in 0..random(9) {
                let (u, v) = (random(nodes as u64) as usize, random(nodes as u64) as usize);
                if u != v {
                    edges.push((u, v, 1 + i128::from(random(20))));
                }
            }
            let found = partition(nodes, &edges);
            let mut part = vec![0; nodes];
            for (i, block) in found.iter().enumerate() {
                block.iter().for_each(|&v| part[v] = i);
            }
            let (w, k) = measure(&edges, &part);
            let (bw, bk) = brute(nodes, &edges);
            assert_eq!(w * (bk as i128 - 1), bw * (k as i128 - 1), "{edges:?}: {found:?}");
            coarse += usize::from(k < nodes);
        }
        assert!(coarse > 100, "most of these graphs are not about singletons: {coarse}");
    }
}
