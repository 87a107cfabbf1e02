//! Tests of expected values: the rows of a table of moved blocks.

use kbc_backend_host::expected::{rows, steps};
use kbc_ir::types::ReduceOp;
use kbc_tiles::package::MovedBlock;

fn block(at: u64, from: &[u64], combiner: Option<ReduceOp>) -> MovedBlock {
    MovedBlock { at, from: from.to_vec(), combiner }
}

/// Every block of a table is in its rows, in order of its sources, and nothing else is.
#[test]
fn rows_hold_the_blocks_of_a_table() {
    let sum = Some(ReduceOp::Sum);
    let turned: Vec<u64> = (0..9).map(|i| (i + 7) % 9).collect();
    let transposed: Vec<u64> = (0..16).map(|i| i % 4 * 4 + i / 4).collect();
    for (named, expected) in [
        (vec![], 0),
        (rows(&turned).named, 2),
        (rows(&transposed).named, 4),
        (rows(&[5, 1, 0, 7]).named, 2),
        // The last of two, and a block that is not named.
        (vec![block(0, &[1, 3], None), block(2, &[0], None)], 1),
        // All sources of every block, and those of fewer.
        ((0..6).map(|i| block(i, &[0, 1, 2, 3, 4, 5], sum)).collect(), 6),
        ((1..5).map(|i| block(i, &(0..i).collect::<Vec<_>>(), sum)).collect(), 4),
        (vec![block(0, &[0], None), block(1, &[1, 0], sum), block(2, &[2], None)], 4),
    ] {
        let mut listed = vec![];
        for s in steps(&named) {
            for i in 0..s.n as i64 {
                listed.push((s.at[0] + i * s.at[1], s.from[0] + i * s.from[1], s.combiner));
            }
        }
        for b in &named {
            let found: Vec<_> = listed.iter().filter(|l| l.0 == b.at as i64).map(|l| l.1 as u64).collect();
            let from = if b.combiner.is_some() { &b.from[..] } else { &b.from[b.from.len() - 1..] };
            assert_eq!(found, from, "{b:?} in {listed:?}");
        }
        let all: usize = named.iter().map(|b| if b.combiner.is_some() { b.from.len() } else { 1 }).sum();
        assert_eq!((listed.len(), steps(&named).len()), (all, expected), "{named:?}");
    }
}
