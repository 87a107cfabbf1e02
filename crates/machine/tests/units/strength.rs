//! The best partition of a network.

use kbc_machine::testing::{Graph, partition};

/// Returns the best of all partitions, enumerated as restricted growth strings.
fn brute(graph: &Graph) -> (i128, usize) {
    let mut best = (i128::MAX, 1usize);
    let mut part = vec![0usize; graph.ranks];
    loop {
        let (w, k) = graph.measure(&part);
        if k > 1 && (best.0 == i128::MAX || w * (best.1 as i128 - 1) < best.0 * (k as i128 - 1)) {
            best = (w, k);
        }
        let Some(i) = (1..graph.ranks).rev().find(|&i| part[i] <= *part[..i].iter().max().expect("a rank"))
        else {
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
    let (mut coarse, mut relayed) = (0, 0);
    for _ in 0..400 {
        let ranks = 2 + random(5) as usize;
        let nodes = ranks + random(4) as usize;
        let mut arcs = vec![];
        let mut both = |u: usize, v: usize, random: &mut dyn FnMut(u64) -> u64| {
            let c = 1 + i128::from(random(20));
            let back = if random(3) == 0 { 1 + i128::from(random(20)) } else { c };
            arcs.extend([(u, v, c), (v, u, back)]);
        };
        for v in 1..nodes {
            let u = random(v as u64) as usize;
            both(u, v, &mut random);
        }
        for _ in 0..random(9) {
            let (u, v) = (random(nodes as u64) as usize, random(nodes as u64) as usize);
            if u != v {
                both(u, v, &mut random);
            }
        }
        let graph = Graph { ranks, nodes, arcs };
        let (found, sum) = partition(&graph);
        let mut part = vec![0; ranks];
        for (i, block) in found.iter().enumerate() {
            block.iter().for_each(|&v| part[v] = i);
        }
        let (w, k) = graph.measure(&part);
        let (bw, bk) = brute(&graph);
        assert_eq!(w, sum);
        assert_eq!(w * (bk as i128 - 1), bw * (k as i128 - 1), "{:?}: {found:?}", graph.arcs);
        coarse += usize::from(k < ranks);
        relayed += usize::from(nodes > ranks);
    }
    assert!(coarse > 100, "most of these graphs are not about singletons: {coarse}");
    assert!(relayed > 200, "{relayed}");
}
