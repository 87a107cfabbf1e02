//! Vector clocks.

use kbc_checker::testing::{Clock, Group, Recent};
use std::sync::Arc;

/// A shared clock equals the flat clock entry by entry through sets and joins, and joins of
/// equal clocks share nodes.
#[test]
fn shared_clocks_are_flat_ones() {
    let streams = 3000;
    let group = Group::new(streams as u64, vec![]);
    let mut shared = vec![Clock::new(streams, &group); 4];
    assert!(matches!(shared[0], Clock::Shared(_)));
    let mut flat = vec![Clock::Flat(vec![0; streams]); 4];
    let mut x = 1u64;
    let mut recent = Recent::default();
    let mut draw = |n: usize| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) as usize % n
    };
    for _ in 0..2000 {
        let (a, b) = (draw(4), draw(4));
        if draw(3) == 0 && a != b {
            let from = (shared[b].clone(), flat[b].clone());
            shared[a].join(&group, 0, 1, &from.0, &mut recent);
            flat[a].join(&group, 0, 1, &from.1, &mut recent);
        } else {
            let (i, to) = (draw(streams), draw(1000) as u32);
            shared[a].raise(i, to);
            flat[a].raise(i, to);
        }
    }
    for (s, f) in shared.iter().zip(&flat) {
        assert!((0..streams).all(|i| s.get(i) == f.get(i)));
    }
    let whole = shared[0].clone();
    shared[0].join(&group, 0, 1, &whole, &mut recent);
    let (Clock::Shared(a), Clock::Shared(b)) = (&shared[0], &whole) else { panic!("shared") };
    assert!(Arc::ptr_eq(a, b));
}
