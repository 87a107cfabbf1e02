//! Runs of filled elements.

use kbc_checker::testing::{Memory, Runs, Writer};

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

/// A memory knows of each element the last writer, and the first in the text of the last call that
/// wrote it, in whatever form it is stored.
#[test]
fn memories_are_elements() {
    const N: u64 = 6;
    let mut seed = 3u64;
    let mut roll = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let mut single = 0;
    for _ in 0..2000 {
        let (mut memory, mut call) = (Memory::default(), 0);
        let (mut last, mut first) = (vec![None; N as usize], vec![None::<Writer>; N as usize]);
        for _ in 0..8 {
            // Most writes are to the whole memory.
            let lo = if roll(3) > 0 { 0 } else { roll(N) };
            let hi = if lo == 0 && roll(3) > 0 { N } else { lo + 1 + roll(N - lo) };
            call += roll(2) as u32;
            let at = lo as usize..hi as usize;
            if roll(5) == 0 {
                memory.clear(lo, hi);
                last[at.clone()].fill(None);
                first[at].fill(None);
            } else {
                let by = Writer { call, region: roll(3) as u32 };
                memory.write(lo, hi, by);
                last[at.clone()].fill(Some(by));
                for was in &mut first[at] {
                    let earlier = |was: Writer| was.call < by.call || by.region < was.region;
                    if was.is_none_or(earlier) {
                        *was = Some(by);
                    }
                }
            }
            single += u32::from(matches!(memory, Memory::One(..)));
            let elements = |runs: Vec<(u64, u64, Option<Writer>)>| -> Vec<_> {
                runs.iter().flat_map(|(lo, hi, by)| (*lo..*hi).map(|_| *by)).collect()
            };
            assert_eq!(elements(memory.last(0, N)), last);
            assert_eq!(elements(memory.first(0, N)), first);
        }
    }
    assert!(single > 2000, "most memories hold one run: {single}");
}
