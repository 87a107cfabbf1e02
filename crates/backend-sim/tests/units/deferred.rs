//! Records of copies that are put off.

use kbc_backend_sim::testing::{Deferred, Piece, Reader};

fn piece(place: usize, start: u64, len: u64) -> Piece {
    Piece { place, start, len }
}

#[test]
fn a_range_is_made_of_what_it_refers_to() {
    let mut all = Deferred::default();
    assert!(all.is_empty() && all.pieces(piece(0, 0, 10)) == Some(vec![piece(0, 0, 10)]));
    all.refer(piece(1, 2, 4), (0, 10));
    assert_eq!(all.pieces(piece(1, 0, 8)).unwrap(), [piece(1, 0, 2), piece(0, 10, 4), piece(1, 6, 2)]);
    // By way of another memory.
    all.refer(piece(2, 0, 8), (1, 0));
    assert_eq!(all.pieces(piece(2, 1, 3)).unwrap(), [piece(1, 1, 1), piece(0, 10, 2)]);
    // A part of a part, and one that is replaced in the middle.
    assert_eq!(all.followed(piece(1, 3, 2)), piece(0, 11, 2));
    assert_eq!(all.followed(piece(2, 0, 8)), piece(1, 0, 8));
    assert_eq!(all.followed(piece(2, 3, 2)), piece(0, 11, 2));
    all.refer(piece(1, 3, 1), (3, 0));
    let want = [piece(0, 10, 1), piece(3, 0, 1), piece(0, 12, 2)];
    assert_eq!(all.pieces(piece(1, 2, 4)).unwrap(), want);
    all.forget(piece(1, 0, 3));
    assert_eq!(all.pieces(piece(1, 2, 4)).unwrap(), [piece(1, 2, 1), piece(3, 0, 1), piece(0, 12, 2)]);
    assert!(all.concerns(piece(1, 5, 9)) && !all.concerns(piece(1, 6, 9)) && !all.concerns(piece(1, 4, 0)));
}

#[test]
fn readers_are_known_by_what_they_read() {
    let mut all = Deferred::default();
    all.refer(piece(1, 20, 4), (0, 10));
    all.refer(piece(2, 0, 2), (0, 12));
    let reader = |place, start, len, taken| Reader { piece: piece(place, start, len), taken };
    assert_eq!(all.readers(piece(0, 11, 2)), [reader(1, 21, 2, false), reader(2, 0, 1, false)]);
    assert_eq!(all.readers(piece(0, 14, 2)), []);
    // What was read completely is taken; what was read in part is not.
    all.take(piece(1, 20, 3));
    all.take(piece(2, 0, 2));
    assert_eq!(all.readers(piece(0, 0, 99)), [reader(1, 20, 4, false), reader(2, 0, 2, true)]);
    all.lose(piece(2, 0, 2));
    assert_eq!(
        (all.pieces(piece(2, 1, 5)), all.readers(piece(0, 12, 2))),
        (None, vec![reader(1, 22, 2, false)])
    );
    all.forget(piece(2, 0, 9));
    all.forget(piece(1, 0, 99));
    assert!(all.is_empty() && all.readers(piece(0, 0, 99)).is_empty());
}
