//! Two ways to the same peer, around a wrap of size two with two links each way.
//!
//! On one way messages stay in order by themselves. A notify that goes one way must not arrive before the puts that its
//! rank sent the other way before it: this module holds it back until they have. Other machines have one way.

use std::collections::BTreeMap;

/// Puts of a rank to a peer, by way, and notifies that wait for them.
#[derive(Clone, Debug, Default)]
struct Pair {
    sent: [u64; 2],
    arrived: [u64; 2],
    /// Counter, and how many puts of each way must have arrived.
    held: Vec<(u32, [u64; 2])>,
}

impl Pair {
    fn covers(&self, after: [u64; 2]) -> bool {
        self.arrived[0] >= after[0] && self.arrived[1] >= after[1]
    }
}

/// The pairs of all ranks, on a machine that has two ways.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    pairs: Option<BTreeMap<(u64, u64), Pair>>,
}

impl Ways {
    pub(super) fn new(doubled: bool) -> Ways {
        Ways { pairs: doubled.then(BTreeMap::new) }
    }

    /// A put leaves.
    pub(super) fn put(&mut self, from: u64, peer: u64, way: usize) {
        if let Some(pairs) = &mut self.pairs {
            pairs.entry((from, peer)).or_default().sent[way] += 1;
        }
    }

    /// What a notify to the peer has to come after.
    pub(super) fn sent(&self, from: u64, peer: u64) -> [u64; 2] {
        self.pairs.as_ref().and_then(|p| p.get(&(from, peer))).map_or([0; 2], |p| p.sent)
    }

    /// A put has arrived. The counters of notifies that waited for it, in order.
    pub(super) fn arrived(&mut self, from: u64, peer: u64, way: usize) -> Vec<u32> {
        let Some(pair) = self.pairs.as_mut().and_then(|p| p.get_mut(&(from, peer))) else { return vec![] };
        pair.arrived[way] += 1;
        let (mut free, mut held) = (vec![], vec![]);
        for (counter, after) in std::mem::take(&mut pair.held) {
            if pair.covers(after) {
                free.push(counter);
            } else {
                held.push((counter, after));
            }
        }
        pair.held = held;
        free
    }

    /// Whether a notify may take effect; otherwise it is kept.
    pub(super) fn pass(&mut self, from: u64, peer: u64, counter: u32, after: [u64; 2]) -> bool {
        let Some(pair) = self.pairs.as_mut().and_then(|p| p.get_mut(&(from, peer))) else { return true };
        if pair.covers(after) {
            return true;
        }
        pair.held.push((counter, after));
        false
    }
}
