//! Entries of heaps that are ordered by time.

use std::cmp::Ordering;

/// Something that happens at a time, by its number. A heap of these yields the earliest first, and
/// of equally early ones that with the least number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timed {
    /// The bits of a time, which is not negative: they are ordered as times are.
    bits: u64,
    /// The number.
    pub number: u64,
}

impl Timed {
    /// Creates an entry. `time` is not negative.
    pub fn new(time: f64, number: u64) -> Timed {
        Timed { bits: time.to_bits(), number }
    }

    /// Returns the time.
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
