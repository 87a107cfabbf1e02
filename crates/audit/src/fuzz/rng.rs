//! Seeded random numbers: splitmix64, which gives the same sequence on every machine and in every
//! version.

/// State of a sequence.
#[derive(Clone, Debug)]
pub struct Rng(u64);

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Rng {
    /// Creates the sequence of a list of numbers.
    pub fn new(seeds: &[u64]) -> Rng {
        Rng(seeds
            .iter()
            .fold(0x6b62_635f_6675_7a7a, |s, x| mix(s ^ mix(x.wrapping_add(0x9e37_79b9_7f4a_7c15)))))
    }

    /// Returns 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `n`, or 0 for n = 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.draw()) * n as u128) >> 64) as usize
    }

    /// Returns true with a probability of `percent` %.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns an element of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Returns an element of a list, with probabilities proportional to the weights.
    pub fn weighted<T: Copy>(&mut self, list: &[(usize, T)]) -> T {
        let mut at = self.below(list.iter().map(|w| w.0).sum());
        for (weight, item) in list {
            if at < *weight {
                return *item;
            }
            at -= weight;
        }
        list[0].1
    }
}
