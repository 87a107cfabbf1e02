//! Maps whose keys are small numbers that no user chooses, with a hash of one multiplication.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from numbers.
pub(super) type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// An odd number near 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming,
/// volume 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of the numbers so far.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        // The high bits of a product depend on all bits of its factors.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(b.into()));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(32) ^ n).wrapping_mul(GOLDEN);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}
