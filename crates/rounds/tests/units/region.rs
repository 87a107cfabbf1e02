//! Parts of buffers: parts of parts, and how they are named.

use kbc_rounds::region::{Cut, Interval, Region, cut, describe};

#[test]
fn parts_of_parts() {
    let v = Region::whole(0, 12);
    let odd = v.select(&[Interval { start: 3, len: 3 }, Interval { start: 9, len: 3 }]);
    assert_eq!(odd.places().collect::<Vec<_>>(), [3, 4, 5, 9, 10, 11]);
    let middle = odd.part(2, 2);
    assert_eq!(middle.places().collect::<Vec<_>>(), [5, 9]);
    assert_eq!(odd.part(0, 3).runs(), v.part(3, 3).runs());
    assert_eq!(cut(Interval { start: 0, len: 6 }, 1, 4), Err(Cut::Finer(2)));
    assert_eq!(cut(Interval { start: 6, len: 6 }, 1, 3), Ok(Interval { start: 8, len: 2 }));
    assert_eq!(odd.coarser(3).places().collect::<Vec<_>>(), [1, 3]);
    assert_eq!(v.part(1, 2).lane(2, 1).places().collect::<Vec<_>>(), [3, 5]);
}

#[test]
fn names_of_parts() {
    let cases =
        [((0, 12, 12), ".."), ((4, 4, 12), "1 of 3"), ((3, 6, 12), "1; 2 of 4"), ((5, 1, 12), "5 of 12")];
    for ((s, l, t), text) in cases {
        assert_eq!(describe(s, l, t), text);
    }
}
