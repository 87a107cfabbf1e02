//! Tests of the entries of heaps.

use kbc_synthesis::testing::Timed;
use std::collections::BinaryHeap;

#[test]
fn the_earliest_comes_first() {
    let entries = [(2.0, 0), (0.5, 7), (0.0, 9), (0.5, 3), (1e300, 1), (0.0, 2)];
    let mut heap: BinaryHeap<Timed> = entries.iter().map(|e| Timed::new(e.0, e.1)).collect();
    let mut order = vec![];
    while let Some(next) = heap.pop() {
        order.push((next.time(), next.number));
    }
    assert_eq!(order, [(0.0, 2), (0.0, 9), (0.5, 3), (0.5, 7), (2.0, 0), (1e300, 1)]);
}
