//! Runs of rows.

use kbc_ir::grouped::Runs;

#[test]
fn rows_meet_the_matrix_of_their_run() {
    let runs = Runs::new(vec![(0, 2), (1, 0), (0, 1), (2, 3)]).expect("few");
    assert_eq!((runs.rows(), runs.matrices(1, 3)), (6, vec![0, 0, 2]));
    assert_eq!((runs.matrices(6, 2), runs.matrices(5, 9)), (vec![], vec![2]));
    assert_eq!(runs.lengths(&[0, 2, 2, 3]), Some(vec![3, 0, 3]));
    let back = Runs::new(vec![(2, 1), (0, 1)]).expect("few");
    assert_eq!((back.lengths(&[0, 2, 3]), back.lengths(&[0, 3])), (None, Some(vec![2])));
    assert_eq!(runs.fit(6, 3), Ok(()));
    assert_eq!(runs.fit(6, 2), Err("matrix 2 does not exist; there are 2".into()));
    assert_eq!(runs.fit(7, 3), Err("the counts add up to 6, and there are 7 rows".into()));
    assert!(Runs::new(vec![(0, u64::MAX), (0, 1)]).is_none());
    assert_eq!(runs.to_string(), "[[0, 2], [1, 0], [0, 1], [2, 3]]");
}
