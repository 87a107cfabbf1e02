//! Sets of ranks.

use kbc_checker::testing::{Ranks, Rotation};

fn pseudo(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut x = seed;
    move |n| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) % n
    }
}

/// Union, overlap and moves equal those of plain lists, in every form.
#[test]
fn sets_are_sets() {
    for ranks in [5u64, 64, 65, 96, 720] {
        let mut draw = pseudo(ranks);
        for round in 0..300 {
            let mut list = |long: u64| {
                let mut out: Vec<u32> = vec![];
                for _ in 0..=draw(4) {
                    let lo = draw(ranks);
                    let len = 1 + draw(long.min(ranks));
                    out.extend((lo..(lo + len).min(ranks)).map(|r| r as u32));
                }
                if round % 5 == 0 {
                    out.extend((0..ranks as u32).filter(|r| r % 3 == 0));
                }
                out.sort_unstable();
                out.dedup();
                out
            };
            let (a, b) = (list(1), list(ranks));
            let set = |l: &[u32]| Ranks::collect(ranks, l.to_vec()).expect("no rank twice");
            let mut sum = set(&a);
            let both = sum.add(ranks, &set(&b));
            assert_eq!(both, a.iter().copied().filter(|r| b.contains(r)).collect::<Vec<_>>());
            let mut all: Vec<u32> = a.iter().chain(&b).copied().collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(sum, set(&all));
            assert_eq!(sum.iter().collect::<Vec<_>>(), all);
            assert!((0..ranks as u32).all(|r| sum.contains(r) == all.contains(&r)));
            let divisors: Vec<u64> = (1..=ranks).filter(|d| ranks % d == 0).collect();
            let block = divisors[draw(divisors.len() as u64) as usize];
            let by = [Rotation { block, by: draw(block) }, Rotation { block: ranks, by: draw(ranks) }];
            let moved = all.iter().map(|r| by.iter().fold(*r as u64, |i, r| r.act(i)) as u32).collect();
            assert_eq!(sum.moved(ranks, &by), Ranks::collect(ranks, moved).expect("no rank twice"));
        }
    }
}

#[test]
fn a_rank_twice_is_said() {
    assert_eq!(Ranks::collect(100, vec![3, 9, 3]), Err(3));
}
