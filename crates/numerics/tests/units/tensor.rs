//! Boxes of tensors.

use kbc_numerics::tensor::{for_rows, side_by_side};

/// A box lies side by side exactly if its rows, in order, leave nothing out.
#[test]
fn boxes_side_by_side_are_one_run() {
    let shape = [3u64, 2, 4];
    let ranges = |n: u64| (0..n).flat_map(move |lo| (lo + 1..=n).map(move |hi| (lo, hi)));
    let (mut runs, mut split) = (0, 0);
    for a in ranges(3) {
        for b in ranges(2) {
            for c in ranges(4) {
                let mut elements = vec![];
                for_rows(&shape, &[a, b, c], |start, len| elements.extend(start..start + len));
                let one_run = elements.windows(2).all(|w| w[1] == w[0] + 1);
                let found = side_by_side(&shape, &[a, b, c]);
                assert_eq!(found, one_run.then(|| elements[0]), "{a:?} {b:?} {c:?}");
                runs += u32::from(one_run);
                split += u32::from(!one_run);
            }
        }
    }
    assert!(runs > 20 && split > 20, "{runs} {split}");
    assert_eq!(side_by_side(&[], &[]), Some(0));
}
