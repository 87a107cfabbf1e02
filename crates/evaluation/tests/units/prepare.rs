//! Words of names, and ranks in rows.

use kbc_evaluation::testing::{rows_of, words};

#[test]
fn names_have_words() {
    assert_eq!(words("RingAllreduce-tcm_2d"), ["ring", "allreduce", "tcm", "2d"]);
    assert_eq!(words("__IPCQ ring"), ["ipcq", "ring"]);
    assert!(words("-").is_empty());
}

#[test]
fn ranks_are_laid_out_as_square_as_they_can_be() {
    let sides: Vec<(u64, u64)> = [1, 2, 6, 7, 8, 12, 16].map(|n| (n / rows_of(n), rows_of(n))).into();
    assert_eq!(sides, [(1, 1), (2, 1), (3, 2), (7, 1), (4, 2), (4, 3), (4, 4)]);
}
