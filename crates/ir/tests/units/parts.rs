//! Tables of lengths.

use kbc_ir::Parts;

#[test]
fn boundaries_lengths_and_columns() {
    let m = Parts::new(&[vec![3, 0, 1], vec![0, 0, 0], vec![2, 5, 4]]).expect("a matrix");
    assert_eq!((m.of(), m.rows()), (3, 3));
    assert_eq!((0..=4).map(|i| m.boundary(2, i)).collect::<Vec<_>>(), [0, 2, 7, 11, 11]);
    assert_eq!(m.boundary(3, 1), 0);
    assert_eq!(m.totals(), [4, 0, 11]);
    let t = m.transposed().expect("a matrix");
    assert_eq!(t.lengths(1), [0, 0, 5]);
    assert_eq!(t.transposed(), Some(m.clone()));
    assert_eq!((m.longest_run(1), m.longest_run(2), m.longest_run(9)), (5, 9, 11));
    assert_eq!(m.to_string(), "[3, 0, 1], [0, 0, 0], [2, 5, 4]");
}

#[test]
fn what_is_no_table() {
    assert_eq!(Parts::new(&[]), None);
    assert_eq!(Parts::new(&[vec![]]), None);
    assert_eq!(Parts::new(&[vec![1], vec![1, 2]]), None);
    assert_eq!(Parts::row(&[u64::MAX, 1]), None);
}
