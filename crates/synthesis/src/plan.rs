//! Plan of a switch: which edge in is joined with which edge out.
//!
//! The plan decides nothing about correctness, which the caller tests. It aims at few tests
//! and shallow trees: data of one part of the machine crosses the switch to another part, and each
//! edge in is divided over many edges out.

use crate::exact::common_divisor;
use crate::logical::{Logical, Splitting};
use fixedbitset::FixedBitSet;
use std::collections::BTreeMap;

/// Ports of a switch up to which every pair of them may get an edge. A larger switch would bring
/// more edges than its trees use.
const ALL_PAIRS: usize = 64;
/// Number of partners of a port of a larger switch.
const PARTNERS: usize = 20;

/// How desirable it is to join two ports. Earlier ones are joined first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PairClass {
    /// A member and another switch: what a member sends up, or receives from above.
    Uplink,
    /// Two members that are far apart without this switch.
    Far,
    /// Two members that are at most two edges apart without this switch.
    Near,
    /// Two switches.
    Transit,
    /// The same node twice: the capacity would be given up.
    Same,
}

const CLASSES: [PairClass; 5] =
    [PairClass::Uplink, PairClass::Far, PairClass::Near, PairClass::Transit, PairClass::Same];

/// The neighbours of a switch, and the capacities of their edges.
pub(crate) struct Ports {
    at: usize,
    /// Neighbour, capacity to the switch, capacity from the switch.
    ports: Vec<(usize, u128, u128)>,
    member: Vec<bool>,
    /// Nodes that a port's node reaches in at most two edges without the switch.
    near: Vec<FixedBitSet>,
}

impl Ports {
    /// Returns the ports of a node.
    pub fn of(logical: &Logical, at: usize) -> Ports {
        let mut ports: BTreeMap<usize, (u128, u128)> = BTreeMap::new();
        let mut after: Vec<Vec<usize>> = vec![vec![]; logical.nodes];
        for (&(u, v), &c) in &logical.edges {
            if v == at {
                ports.entry(u).or_default().0 += c;
            } else if u == at {
                ports.entry(v).or_default().1 += c;
            } else {
                after[u].push(v);
            }
        }
        let ports: Vec<(usize, u128, u128)> = ports.into_iter().map(|(v, (a, b))| (v, a, b)).collect();
        let near = |&(v, ..): &(usize, u128, u128)| {
            let mut near = FixedBitSet::with_capacity(logical.nodes);
            for &x in &after[v] {
                near.insert(x);
                after[x].iter().for_each(|&y| near.insert(y));
            }
            near
        };
        let member = ports.iter().map(|p| logical.members.binary_search(&p.0).is_ok()).collect();
        Ports { at, near: ports.iter().map(near).collect(), member, ports }
    }

    fn class(&self, i: usize, j: usize) -> PairClass {
        match (self.member[i], self.member[j]) {
            _ if i == j => PairClass::Same,
            (true, true) if self.near[i].contains(self.ports[j].0) => PairClass::Near,
            (true, true) => PairClass::Far,
            (false, false) => PairClass::Transit,
            _ => PairClass::Uplink,
        }
    }

    /// Whether a tight set forbids to join two ports: both or neither of their nodes are inside,
    /// and the switch is on the other side.
    fn forbidden(&self, i: usize, j: usize, tight: &[FixedBitSet]) -> bool {
        let (u, t) = (self.ports[i].0, self.ports[j].0);
        tight.iter().any(|x| x.contains(u) == x.contains(t) && x.contains(u) != x.contains(self.at))
    }

    /// Returns the plan. It uses all capacity, except where tight sets forbid it.
    pub fn plan(mut self, tight: &[FixedBitSet]) -> Vec<Splitting> {
        let n = self.ports.len();
        // Only tight sets that separate the switch from some neighbour matter.
        let at = self.at;
        let matters = |x: &&FixedBitSet| self.ports.iter().any(|p| x.contains(p.0) != x.contains(at));
        let tight: Vec<FixedBitSet> = tight.iter().filter(matters).cloned().collect();
        let mut plan: BTreeMap<(usize, usize), u128> = BTreeMap::new();
        let all = spread(n);
        let few = all[..if n <= ALL_PAIRS { n } else { PARTNERS }].to_vec();
        for class in CLASSES {
            let allowed = |p: &Ports, i: usize, j: usize| {
                p.ports[i].1 > 0 && p.ports[j].2 > 0 && p.class(i, j) == class && !p.forbidden(i, j, &tight)
            };
            // First an equal share for every partner, then what is left.
            let partners = |i: usize| few.iter().filter(|&&s| allowed(&self, i, (i + s) % n)).count();
            let share: Vec<u128> =
                (0..n).map(|i| self.ports[i].1.div_ceil(partners(i).max(1) as u128)).collect();
            for (shifts, shared) in [(&few, true), (&all, false)] {
                for &s in shifts {
                    for (i, &equal) in share.iter().enumerate() {
                        let j = (i + s) % n;
                        if allowed(&self, i, j) {
                            let most = if shared { equal } else { u128::MAX };
                            let trees = most.min(self.ports[i].1).min(self.ports[j].2);
                            self.ports[i].1 -= trees;
                            self.ports[j].2 -= trees;
                            *plan.entry((i, j)).or_insert(0) += trees;
                        }
                    }
                }
            }
        }
        self.exchange(&mut plan, &tight);
        let mut plan: Vec<((usize, usize), u128)> = plan.into_iter().collect();
        plan.sort_by_key(|((i, j), _)| (self.class(*i, *j), (*j + n - *i) % n, *i));
        let node = |i: usize| self.ports[i].0;
        plan.iter()
            .map(|&((i, j), trees)| Splitting { from: node(i), at: self.at, to: node(j), trees })
            .collect()
    }

    /// Avoids pairs of a node with itself: (i, i) and (p, q) become (i, q) and (p, i).
    fn exchange(&self, plan: &mut BTreeMap<(usize, usize), u128>, tight: &[FixedBitSet]) {
        let same: Vec<usize> = plan.keys().filter(|k| k.0 == k.1).map(|k| k.0).collect();
        for i in same {
            let others: Vec<(usize, usize)> =
                plan.keys().copied().filter(|&(p, q)| p != i && q != i).collect();
            for (p, q) in others {
                let left = plan.get(&(i, i)).copied().unwrap_or(0);
                let trees = left.min(plan.get(&(p, q)).copied().unwrap_or(0));
                if p == q || trees == 0 || self.forbidden(i, q, tight) || self.forbidden(p, i, tight) {
                    continue;
                }
                for (pair, more) in [((i, i), false), ((p, q), false), ((i, q), true), ((p, i), true)] {
                    let entry = plan.entry(pair).or_insert(0);
                    *entry = if more { *entry + trees } else { *entry - trees };
                }
                plan.retain(|_, trees| *trees > 0);
            }
        }
    }
}

/// Returns all distances between ports in the order in which they are joined.
///
/// First come powers of 2 both ways, with which every port is a few steps from every other. All are
/// multiplied by a number near the golden ratio of `n` that has no common divisor with it, which
/// spreads them evenly: neighbouring ports often belong to one box, and each port should get
/// partners in many boxes.
fn spread(n: usize) -> Vec<usize> {
    let near = (n as f64 * 0.618) as usize;
    let coprime = |g: &usize| common_divisor(*g as u128, n as u128) == 1;
    let step = (near..n).find(coprime).unwrap_or(1);
    let powers = (0..usize::BITS).map(|i| 1usize << i).take_while(|&p| p <= n / 2);
    let mut order: Vec<usize> = powers.flat_map(|p| [p, n - p]).collect();
    let mut seen = vec![false; n];
    order.extend(0..n);
    order.retain(|&i| !std::mem::replace(&mut seen[i], true));
    order.into_iter().map(|i| i * step % n).collect()
}
