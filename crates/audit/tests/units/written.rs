//! Schedules that are written by hand.

use kbc_audit::testing::{OFTEN, TEXTS, schedules};
use kbc_checker::{CheckOptions, check};
use kbc_diag::FileId;
use kbc_ir::text::parse;
use kbc_ir::verify::verify;

/// A schedule that is changed at random must be correct before the change.
#[test]
fn what_is_written_by_hand_is_right() {
    assert_eq!(schedules().len(), TEXTS.len() * OFTEN, "each of them can be read");
    for text in TEXTS {
        let module = parse(FileId(0), text).expect("a schedule");
        let found = verify(&module);
        assert!(found.list.is_empty(), "{text}\n{:?}", found.list);
        let verdict = check(module.schedule().expect("a schedule"), &CheckOptions::default());
        assert!(verdict.ok(), "{text}\n{:?}", verdict.errors.list);
    }
}
