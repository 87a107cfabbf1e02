//! The data path of the interpreter, and a switch that forbids it in tests of machine code.

use std::sync::atomic::{AtomicBool, Ordering};

static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Forbids, for tests, that anything in this process enters the interpreter's data path. From then
/// on [`crate::interp::run`] and every operation that the interpreter or the adversary computes
/// panics, so whatever still runs is machine code alone. This cannot be undone, so a test that
/// calls it has a binary of its own.
pub fn forbid() {
    FORBIDDEN.store(true, Ordering::SeqCst);
}

/// Marks the entry of the interpreter's data path.
pub fn entered() {
    assert!(
        !FORBIDDEN.load(Ordering::Relaxed),
        "the interpreter's data path was entered, which is forbidden here"
    );
}
