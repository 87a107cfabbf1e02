//! Brackets that nest too deeply.

use kbc_frontend::machine::nesting::{MAX_DEPTH, too_deep};

#[test]
fn brackets_that_are_open_are_counted() {
    let deep = "[".repeat(MAX_DEPTH + 1);
    assert_eq!(too_deep(&deep), Some(MAX_DEPTH));
    assert_eq!(too_deep(&format!("a: {}", "{b: ".repeat(100_000))).map(|at| at % 4), Some(3));
    for fine in [
        "a: [1, {b: 2}]\n".repeat(1000),
        format!("# {deep}"),
        format!("a: \"\\\"{deep}\""),
        format!("'{deep}'"),
    ] {
        assert_eq!(too_deep(&fine), None);
    }
}
