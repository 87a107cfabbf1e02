//! Seeded random number generator for interleavings: the same sequence on every machine,
//! permanently.
//!
//! splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). It does
//! not generate data; inputs come from [`crate::generate`].

/// State of a sequence.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates the sequence of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(mix64(seed ^ 0x6b62_6373_696d_0001))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }

    /// Returns a number below `n`; 0 for n = 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Returns true with probability 1 / `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The finaliser of splitmix64.
#[inline]
pub fn mix64(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
