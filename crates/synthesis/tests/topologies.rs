//! Networks that the tests use: published machines, regular graphs, random graphs.

use kbc_synthesis::{Network, SynthesisError};

/// A network in progress.
#[derive(Clone, Default)]
pub struct Sketch {
    pub nodes: usize,
    pub edges: Vec<(usize, usize, u64)>,
    pub members: Vec<usize>,
}

impl Sketch {
    /// Returns a network of nodes that are all members.
    pub fn of_members(n: usize) -> Sketch {
        Sketch { nodes: n, edges: vec![], members: (0..n).collect() }
    }

    /// Adds a node that only forwards.
    pub fn switch(&mut self) -> usize {
        self.nodes += 1;
        self.nodes - 1
    }

    /// Adds a link: an edge each way.
    pub fn link(&mut self, u: usize, v: usize, capacity: u64) {
        self.edges.extend([(u, v, capacity), (v, u, capacity)]);
    }

    /// Removes all edges between two nodes.
    pub fn unlink(&mut self, u: usize, v: usize) {
        self.edges.retain(|e| (e.0, e.1) != (u, v) && (e.0, e.1) != (v, u));
    }

    pub fn build(&self) -> Result<Network, SynthesisError> {
        Network::new(self.nodes, self.edges.iter().copied(), self.members.iter().copied())
    }

    pub fn network(&self) -> Network {
        self.build().expect("a sound network")
    }
}

pub fn ring(n: usize) -> Sketch {
    grid(&[n], true)
}

/// A mesh, or a torus if `wrap`. An axis of size 2 has one link.
pub fn grid(axes: &[usize], wrap: bool) -> Sketch {
    let n = axes.iter().product();
    let mut s = Sketch::of_members(n);
    let mut stride = 1;
    for &size in axes {
        for v in 0..n {
            let at = v / stride % size;
            if at + 1 < size {
                s.link(v, v + stride, 1);
            } else if wrap && size > 2 {
                s.link(v, v - at * stride, 1);
            }
        }
        stride *= size;
    }
    s
}

pub fn hypercube(dimensions: usize) -> Sketch {
    grid(&vec![2; dimensions], false)
}

pub fn full(n: usize) -> Sketch {
    let mut s = Sketch::of_members(n);
    (0..n).for_each(|u| (u + 1..n).for_each(|v| s.link(u, v, 1)));
    s
}

/// All members at one switch.
pub fn star(n: usize, capacity: u64) -> Sketch {
    let mut s = Sketch::of_members(n);
    let w = s.switch();
    (0..n).for_each(|v| s.link(v, w, capacity));
    s
}

/// Boxes of `each` members at a switch, and one more switch to which every member has a card.
pub fn boxes(count: usize, each: usize, inside: u64, card: u64) -> Sketch {
    let mut s = Sketch::of_members(count * each);
    for b in 0..count {
        let w = s.switch();
        (0..each).for_each(|g| s.link(b * each + g, w, inside));
    }
    if count > 1 {
        let w = s.switch();
        (0..count * each).for_each(|v| s.link(v, w, card));
    }
    s
}

/// Leaves of `each` members with links of capacity `down`, each leaf linked to all of `spines`
/// switches with capacity `up`.
pub fn fat_tree(leaves: usize, each: usize, spines: usize, down: u64, up: u64) -> Sketch {
    let mut s = Sketch::of_members(leaves * each);
    let leaf: Vec<usize> = (0..leaves).map(|_| s.switch()).collect();
    let spine: Vec<usize> = (0..spines).map(|_| s.switch()).collect();
    for (l, &w) in leaf.iter().enumerate() {
        (0..each).for_each(|g| s.link(l * each + g, w, down));
        spine.iter().for_each(|&top| s.link(w, top, up));
    }
    s
}

/// NVIDIA A100 boxes in GB/s: NVSwitch 300; from 2 boxes on a card of 25 per device, those of even
/// and of odd devices at a switch each.
pub fn a100(count: usize) -> Sketch {
    let mut s = boxes(count, 8, 300, 25);
    if count > 1 {
        let outer = s.nodes - 1;
        s.edges.retain(|e| e.0 != outer && e.1 != outer);
        let switches = [outer, s.switch()];
        for v in 0..8 * count {
            let card = s.switch();
            s.link(v, card, 25);
            s.link(card, switches[v % 2], 25);
        }
    }
    s
}

/// NVIDIA H100 boxes in GB/s: NVSwitch 450, a card of 50 per device.
pub fn h100(count: usize) -> Sketch {
    boxes(count, 8, 450, 50)
}

/// Pairs of the 16 dies of an AMD MI250 box with four links of 50 GB/s per direction, with two and
/// with one.
const MI250_LINKS: [(u64, &[(usize, usize)]); 3] = [
    (200, &[(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15)]),
    (100, &[(0, 4), (3, 7), (8, 12), (11, 15)]),
    (
        50,
        &[
            (0, 8),
            (1, 5),
            (1, 9),
            (1, 10),
            (2, 6),
            (2, 9),
            (2, 10),
            (3, 11),
            (4, 6),
            (5, 6),
            (5, 7),
            (9, 13),
            (10, 14),
            (12, 14),
            (13, 14),
            (13, 15),
        ],
    ),
];

/// AMD MI250 boxes in GB/s, with the first `dies` of the 16 dies of each, and a card of 16 per die
/// from 2 boxes on.
pub fn mi250(count: usize, dies: usize) -> Sketch {
    let mut s = Sketch::of_members(count * 16);
    for b in 0..count {
        for (capacity, pairs) in MI250_LINKS {
            pairs.iter().for_each(|&(u, v)| s.link(16 * b + u, 16 * b + v, capacity));
        }
    }
    if count > 1 {
        let w = s.switch();
        (0..count * 16).for_each(|v| s.link(v, w, 16));
    }
    let out = |v: usize| v < count * 16 && v % 16 >= dies;
    s.edges.retain(|e| !out(e.0) && !out(e.1));
    s.members.retain(|&v| !out(v));
    s
}

/// A small deterministic generator (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// A random connected network of `members` members and `switches` switches. Capacities of links
/// are 1 to `most`, the same in both directions. Some edges between members have one direction.
pub fn random(dice: &mut Dice, members: usize, switches: usize, most: u64, one_way: usize) -> Sketch {
    let n = members + switches;
    let mut s = Sketch { nodes: n, edges: vec![], members: (0..members).collect() };
    let capacity = |dice: &mut Dice| 1 + dice.next() % most;
    for v in 1..n {
        let u = dice.below(v);
        let c = capacity(dice);
        s.link(u, v, c);
    }
    for _ in 0..n + dice.below(n) {
        let (u, v, c) = (dice.below(n), dice.below(n), capacity(dice));
        if u != v {
            s.link(u, v, c);
        }
    }
    for _ in 0..one_way {
        let (u, v, c) = (dice.below(members), dice.below(members), capacity(dice));
        s.edges.push((u, v, c));
    }
    s
}

/// A random graph in which every node has about `degree` links: a union of random rings.
pub fn random_regular(dice: &mut Dice, n: usize, degree: usize) -> Sketch {
    let mut s = Sketch::of_members(n);
    for _ in 0..degree / 2 {
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|i| order.swap(i, dice.below(i + 1)));
        (0..n).for_each(|i| s.link(order[i], order[(i + 1) % n], 1));
    }
    s
}
