//! Multisets of contributions.

use kbc_rounds::testing::{Bag, words_for};

#[test]
fn sums_count() {
    let w = words_for(70);
    let (a, b) = (Bag::single(3, 1, w), Bag::single(3, 69, w));
    let ab = a.plus(&b, 7);
    assert_eq!(ab.contributions().collect::<Vec<_>>(), [(3, 1), (3, 69)]);
    let abb = ab.plus(&b, 8);
    let three = abb.plus(&b, 9).plus(&Bag::single(2, 0, w), 10);
    assert_eq!(
        (three.count(3, 69), three.first(3, 69), three.count(3, 1), three.count(2, 0)),
        (3, Some(8), 1, 1)
    );
    assert_eq!((three.count(4, 0), three.first(3, 1)), (0, None));
    assert!(ab.is(&Bag::single(1, 69, w).plus(&Bag::single(1, 1, w), 0), 2));
    assert!(!abb.is(&ab, 0) && !ab.is(&abb, 0));
}
