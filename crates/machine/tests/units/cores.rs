//! Times of what moves data of cores.

use kbc_machine::topology::cores::Mover;

#[test]
fn a_tile_takes_its_time_whole_or_not_and_never_less_than_its_way() {
    let tiles = Mover::Tiles { bytes: 4096, ns: 730.0 };
    let at = |bytes| tiles.ns(bytes, 0.0);
    assert_eq!((at(0), at(1), at(4096), at(4097), at(1 << 20)), (0.0, 730.0, 730.0, 1460.0, 256.0 * 730.0));
    assert_eq!((tiles.ns(8192, 1000.0), tiles.ns(8192, 500.0)), (2000.0, 1460.0));
    let queue = Mover::Queue { bandwidth: 21e9, ns: 2500.0 };
    assert_eq!((queue.ns(0, 0.0), queue.ns(21_000, 0.0), queue.ns(21_000, 3000.0)), (0.0, 3500.0, 4000.0));
}
