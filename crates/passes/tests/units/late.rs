//! When a rank takes messages that it may take late.

use kbc_passes::testing::brought_forward;

/// Messages are (sender, deadline, place).
#[test]
fn a_message_is_taken_before_the_next_of_its_sender() {
    assert_eq!(brought_forward(&[(1, 9, 0), (1, 3, 1), (1, 5, 2)]), [3, 3, 5]);
    // Another sender says nothing about it.
    assert_eq!(brought_forward(&[(1, 9, 0), (2, 3, 1)]), [9, 3]);
}

/// A message that is added first may not have arrived. It is not asked for before its deadline, and
/// the ones that are added after it follow it.
#[test]
fn nothing_is_waited_for_before_it_must_be() {
    assert_eq!(brought_forward(&[(2, 7, 0), (1, 9, 0), (1, 3, 1)]), [7, 7, 3]);
    assert_eq!(brought_forward(&[(2, 2, 0), (1, 9, 0), (1, 3, 1)]), [2, 3, 3]);
}
