//! Runs of filled elements.

use kbc_checker::testing::{Runs, Writer};

/// Runs hold what an array of elements holds, whatever is written.
#[test]
fn runs_are_elements() {
    const N: u64 = 40;
    let mut seed = 9u64;
    let mut roll = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for _ in 0..200 {
        let (mut runs, mut plain) = (Runs::default(), vec![None; N as usize]);
        for _ in 0..30 {
            let lo = roll(N);
            let hi = lo + 1 + roll(N - lo);
            let by = Writer { call: roll(2) as u32, region: roll(2) as u32 };
            let by = (roll(4) > 0).then_some(by);
            match by {
                Some(by) => runs.write(lo, hi, by),
                None => runs.clear(lo, hi),
            }
            plain[lo as usize..hi as usize].fill(by);
            let (a, n) = (roll(N), roll(N));
            let b = (a + n).min(N);
            let mut seen = vec![];
            for (lo, hi, by) in runs.of(a, b) {
                seen.extend((lo..hi).map(|_| by));
            }
            assert_eq!(seen, plain[a as usize..b as usize]);
        }
        let neighbours: Vec<_> = runs.of(0, N).into_iter().filter(|run| run.2.is_some()).collect();
        assert!(neighbours.windows(2).all(|w| w[0].1 < w[1].0 || w[0].2 != w[1].2));
    }
}
