//! Sparse tables.

use kbc_checker::testing::Sparse;
use std::collections::BTreeMap;

/// A sparse table holds what a map holds, whatever is inserted, changed and removed.
#[test]
fn tables_are_maps() {
    const N: u64 = 50;
    let mut seed = 3u64;
    let mut roll = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let (mut table, mut map) = (Sparse::new(N as usize), BTreeMap::new());
    for step in 0..10_000u64 {
        let number = roll(N) as usize;
        match roll(4) {
            0 => {
                table.remove(number);
                map.remove(&number);
            }
            1 => {
                assert_eq!(table.entry(number, || step), map.entry(number).or_insert(step));
            }
            2 => {
                if let Some(entry) = table.get_mut(number) {
                    *entry += 1;
                }
                if let Some(entry) = map.get_mut(&number) {
                    *entry += 1;
                }
            }
            _ => assert_eq!(table.get(number), map.get(&number)),
        }
    }
    assert!((0..N as usize).all(|number| table.get(number) == map.get(&number)));
}
