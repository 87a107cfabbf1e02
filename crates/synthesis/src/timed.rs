//! Entries of heaps that are ordered by time.

use std::cmp::Ordering;

/// Something that happens at a time, by its number. A heap of these yields the earliest first, and
/// of equally early ones that with the least number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timed {
    /// The bits of a time, which is not negative: they are ordered as times are.
    bits: u64,
    pub number: u64,
}

impl Timed {
    /// `time` is not negative.
    pub fn new(time: f64, number: u64) -> Timed {
        Timed { bits: time.to_bits(), number }
    }

    pub fn time(self) -> f64 {
        f64::from_bits(self.bits)
    }
}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Timed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Timed) -> Ordering {
        let key = |t: &Timed| u128::from(t.bits) << 64 | u128::from(t.number);
        key(other).cmp(&key(self))
    }
}

#[cfg(test)]
mod tests {
    use super::Timed;
    use std::collections::BinaryHeap;

    #[test]
    fn the_earliest_comes_first() {
        let entries = [(2.0, 0), (0.5, 7), (0.0, 9), (0.5, 3), (1e300, 1), (0.0, 2)];
        let mut heap: BinaryHeap<Timed> = entries.iter().map(|e| Timed::new(e.0, e.1)).collect();
        let mut order = vec![];
        while let Some(next) = heap.pop() {
            order.push((next.time(), next.number));
        }
        assert_eq!(order, [(0.0, 2), (0.0, 9), (0.5, 3), (0.5, 7), (2.0, 0), (1e300, 1)]);
    }
}
