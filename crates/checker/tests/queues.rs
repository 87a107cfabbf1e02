//! Tests of queues: correct schedules are accepted in every mode that applies, and each of their
//! operations is needed (row IO-1). Files with one error each are `kir/check/e340_queue_empty.kir`
//! and those beside it.

use crate::common;

use common::{files, schedule};
use kbc_checker::mutate::{MutationKind, apply, mutations};
use kbc_checker::{CheckOptions, Strategy, check};
use kbc_ir::schedule::Calls;

#[test]
fn right_ones_are_accepted() {
    for (name, text) in files("queues") {
        let s = schedule(&name, &text);
        for calls in [Calls::First, Calls::Any] {
            for strategy in [Strategy::Auto, Strategy::Expanded, Strategy::Fingerprints] {
                let v = check(&s, &CheckOptions { calls: Some(calls), strategy, ..Default::default() });
                assert!(v.ok(), "{name}, {calls:?}, {strategy:?}: {:#?}", v.errors.list);
            }
        }
    }
}

#[test]
fn no_rank_stands_for_others() {
    for (name, text) in files("queues") {
        let options = CheckOptions { strategy: Strategy::Symmetric, ..Default::default() };
        let v = check(&schedule(&name, &text), &options);
        assert_eq!(v.errors.list.first().map(|d| d.code), Some("E354"), "{name}");
    }
}

#[test]
fn every_message_is_needed() {
    let mut seen = 0;
    for (name, text) in files("queues") {
        let s = schedule(&name, &text);
        for m in mutations(&s) {
            if m.kind == MutationKind::Drop && ["send", "recv", "combine"].contains(&m.word) {
                let v = check(&apply(&s, &m), &CheckOptions::default());
                assert!(!v.ok(), "{name}: {} is accepted", m.text);
                seen += 1;
            }
        }
    }
    assert!(seen >= 8, "{seen}");
}
