//! Order of notifies behind puts, on machines where messages between the same two ranks may
//! overtake each other: with two links in each direction around a wrap of size two, with data in
//! memories that are nodes of their own, with limits on cores, where messages name relays (`via`),
//! and where they choose between equal links (`routing: adaptive`).
//!
//! A notify must not take effect before the earlier puts of its rank to that peer have arrived.
//! This module decides until when it is held back, and `engine/notify_order.rs` delivers it then.
//! Elsewhere messages stay in order.

use std::collections::{BTreeMap, BTreeSet};

/// The puts of a rank to a peer, and the notifies that wait for them.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// Number of puts so far.
    sent: u64,
    /// Numbers of the puts that have not arrived.
    under_way: BTreeSet<u64>,
    /// Notifies that are held back: the counter (or the message, for a notify through memory), and
    /// how many of the first puts must have arrived.
    held: Vec<(u32, u64)>,
}

impl Pair {
    fn covers(&self, after: u64) -> bool {
        self.under_way.first().is_none_or(|first| *first >= after)
    }
}

/// The pairs of all ranks, on a machine that needs them.
#[derive(Clone, Debug)]
pub(super) struct NotifyOrder {
    pairs: Option<BTreeMap<(u64, u64), Pair>>,
}

impl NotifyOrder {
    pub(super) fn new(unordered: bool) -> NotifyOrder {
        NotifyOrder { pairs: unordered.then(BTreeMap::new) }
    }

    /// Notes that a put leaves. Returns its number.
    pub(super) fn put(&mut self, from: u64, peer: u64) -> u64 {
        let Some(pairs) = &mut self.pairs else { return 0 };
        let pair = pairs.entry((from, peer)).or_default();
        pair.under_way.insert(pair.sent);
        pair.sent += 1;
        pair.sent - 1
    }

    /// Returns the number of puts that a notify to the peer has to follow.
    pub(super) fn sent(&self, from: u64, peer: u64) -> u64 {
        self.pairs.as_ref().and_then(|p| p.get(&(from, peer))).map_or(0, |p| p.sent)
    }

    /// Notes that a put has arrived. Returns the notifies that waited for it, in order.
    pub(super) fn arrived(&mut self, from: u64, peer: u64, number: u64) -> Vec<u32> {
        let Some(pair) = self.pairs.as_mut().and_then(|p| p.get_mut(&(from, peer))) else { return vec![] };
        pair.under_way.remove(&number);
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

    /// Checks whether a notify may take effect. If not, it is held back.
    pub(super) fn pass(&mut self, from: u64, peer: u64, counter: u32, after: u64) -> bool {
        let Some(pair) = self.pairs.as_mut().and_then(|p| p.get_mut(&(from, peer))) else { return true };
        if pair.covers(after) {
            return true;
        }
        pair.held.push((counter, after));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notify_waits_for_the_puts_before_it_in_whatever_order_they_come() {
        let mut w = NotifyOrder::new(true);
        let first = w.put(0, 1);
        let second = w.put(0, 1);
        let after = w.sent(0, 1);
        let third = w.put(0, 1);
        assert!(!w.pass(0, 1, 7, after));
        // Two puts have arrived, but one of those that come first is missing.
        assert!(w.arrived(0, 1, third).is_empty() && w.arrived(0, 1, second).is_empty());
        assert_eq!(w.arrived(0, 1, first), [7]);
        assert!(w.pass(0, 1, 8, after) && w.pass(1, 0, 8, 0));
    }
}
