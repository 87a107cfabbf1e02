//! Sequences of collectives that meet or do not.

use kbc_ir::match_collectives::{CircularWait, SequenceDifference, first_difference, match_collectives};

fn first(all: &[&[u32]]) -> Option<SequenceDifference<()>> {
    let all: Vec<Vec<u32>> = all.iter().map(|l| l.to_vec()).collect();
    first_difference(&all, |_| None)
}

#[test]
fn a_missing_one_is_told_from_another_one() {
    assert_eq!(first(&[&[1, 2], &[1, 2]]), None);
    assert_eq!(first(&[&[1, 2], &[1]]), Some(SequenceDifference::Never { most: 0, step: 1, other: 1 }));
    // The second member lacks the first member's 1: it issues the first member's next
    // collective instead.
    assert_eq!(first(&[&[1, 2], &[2]]), Some(SequenceDifference::Never { most: 0, step: 0, other: 1 }));
    assert_eq!(first(&[&[1, 2], &[3, 2]]), Some(SequenceDifference::Another { most: 0, step: 0, other: 1 }));
}

#[test]
fn groups_meet_or_wait_in_a_circle() {
    let members = [vec![0, 1], vec![1, 2]];
    assert_eq!(match_collectives(&members, &[vec![0], vec![0, 1], vec![1]]), Ok(vec![0, 1]));
    // Program 0 waits in group 0 for program 1, which waits in group 1 for program 0.
    let members = [vec![0, 1], vec![0, 1]];
    let circle = match_collectives(&members, &[vec![0, 1], vec![1, 0]]).unwrap_err();
    assert_eq!(circle, CircularWait { programs: vec![0, 1], next: vec![0, 0] });
}
