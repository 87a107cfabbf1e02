//! Widths of texts.

use kbc_figures::testing::{Weight, fit, width, wrap};

#[test]
fn widths_come_from_the_font() {
    assert!(width("W", 10.0, Weight::Regular) > 2.0 * width("i", 10.0, Weight::Regular));
    assert!(width("kbc", 10.0, Weight::Bold) > width("kbc", 10.0, Weight::Regular));
    // Digits have the same width: 0.636 em.
    assert!((width("0", 1000.0, Weight::Regular) - 636.0).abs() < 1.0);
}

#[test]
fn lines_are_broken_and_cut() {
    let room = width("one two", 12.0, Weight::Regular);
    assert_eq!(wrap("one two three", 12.0, Weight::Regular, room), ["one two", "three"]);
    let cut = fit("a long name", 12.0, Weight::Regular, room);
    assert!(cut.ends_with("..") && width(&cut, 12.0, Weight::Regular) <= room);
}
