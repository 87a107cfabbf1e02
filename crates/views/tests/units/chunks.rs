//! Sets of ranks as texts.

use kbc_views::page::chunks::runs;

#[test]
fn sets_are_written_as_runs() {
    assert_eq!(runs(&[]), "");
    assert_eq!(runs(&[3]), "3");
    assert_eq!(runs(&[0, 1, 2, 5, 5, 6, 8, 9]), "0-2,5*2,6,8-9");
}
