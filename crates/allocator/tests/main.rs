//! Tests of `kbc-allocator`, which is also the allocator of this binary.
#![allow(unsafe_code, reason = "allocators have no safe interface")]

use kbc_allocator::ALLOCATOR;
use std::alloc::{GlobalAlloc, Layout};

/// Sizes on both sides of the limit between small and large blocks, and of that for large pages.
const SIZES: [usize; 14] = [
    1,
    24,
    1000,
    8191,
    8192,
    8193,
    20_000,
    131_072,
    131_073,
    1 << 20,
    2_097_151,
    2 << 20,
    4 << 20,
    5_000_001,
];

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

/// The byte that a block has at a place.
fn byte(i: usize) -> u8 {
    (i % 251) as u8
}

/// A block keeps its content and its alignment when its size changes from any to any other.
#[test]
fn blocks_keep_their_content() {
    for align in [1, 8, 64, 4096] {
        for from in SIZES {
            for to in SIZES {
                let old = layout(from, align);
                // SAFETY: sizes are not zero, and every block is used within its size and returned
                // with its layout.
                unsafe {
                    let at = ALLOCATOR.alloc(old);
                    assert!(!at.is_null() && at.addr().is_multiple_of(align));
                    (0..from).for_each(|i| at.add(i).write(byte(i)));
                    let at = ALLOCATOR.realloc(at, old, to);
                    assert!(!at.is_null() && at.addr().is_multiple_of(align), "{from} {to} {align}");
                    assert!((0..from.min(to)).all(|i| at.add(i).read() == byte(i)), "{from} {to} {align}");
                    ALLOCATOR.dealloc(at, layout(to, align));
                }
            }
        }
    }
}

/// Zeroed blocks are zero, also where used blocks have been returned before.
#[test]
fn zeroed_blocks_are_zero() {
    for size in SIZES {
        for _ in 0..3 {
            // SAFETY: as above.
            unsafe {
                let at = ALLOCATOR.alloc_zeroed(layout(size, 8));
                assert!((0..size).all(|i| at.add(i).read() == 0), "{size}");
                at.write_bytes(0xff, size);
                ALLOCATOR.dealloc(at, layout(size, 8));
            }
        }
    }
}

/// A thread may return what another one has allocated, and ends with blocks that live on.
#[test]
fn blocks_move_between_threads() {
    let made = |seed: usize| -> Vec<Vec<u8>> {
        (0..300).map(|i| vec![byte(seed + i); SIZES[(seed + i) % 7]]).collect()
    };
    for round in 0..20 {
        let there = std::thread::spawn(move || made(round)).join().expect("it ends");
        let back = std::thread::spawn(move || {
            let sum: usize = there.iter().map(|v| v.iter().map(|b| usize::from(*b)).sum::<usize>()).sum();
            (sum, made(round))
        });
        let (sum, again) = back.join().expect("it ends");
        let own = |all: &[Vec<u8>]| all.iter().flatten().map(|b| usize::from(*b)).sum::<usize>();
        assert_eq!((sum, own(&again)), (own(&made(round)), own(&made(round))));
    }
}

/// The memory of small blocks is not advised to be in large pages (`hg` in `VmFlags`), and that of
/// large blocks is.
#[cfg(target_os = "linux")]
#[test]
fn small_blocks_are_not_in_large_pages() {
    let advised = |at: usize| {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("a list of maps");
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|r| r.split_once('-'));
            let ends = range.and_then(|(a, b)| {
                let [a, b] = [a, b].map(|x| usize::from_str_radix(x, 16).ok());
                Some((a?, b?))
            });
            if let Some((first, end)) = ends {
                inside = (first..end).contains(&at);
            } else if let (true, Some(flags)) = (inside, line.strip_prefix("VmFlags:")) {
                return flags.split(' ').any(|f| f == "hg");
            }
        }
        panic!("no map has this address");
    };
    let small: Vec<Box<[u8; 2000]>> = (0..5000).map(|i| Box::new([byte(i); 2000])).collect();
    for block in &small {
        assert!(block[0] < 251);
    }
    assert!(!advised(small[0].as_ptr().addr()) && !advised(small[4999].as_ptr().addr()));
    if cfg!(target_arch = "x86_64") {
        let large = vec![1u8; 64 << 20];
        assert!(advised(large.as_ptr().addr() + (32 << 20)), "large blocks of data are");
        let page = vec![1u8; 2 << 20];
        assert!(page.as_ptr().addr().is_multiple_of(2 << 20) && advised(page.as_ptr().addr()));
    }
}
