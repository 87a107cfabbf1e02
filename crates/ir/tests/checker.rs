//! The checker accepts what is right, in every way that applies, and says how.

mod common;

use common::{codes, files, schedule};
use kbc_ir::checker::{CheckOptions, Method, Way, check};
use kbc_ir::schedule::Calls;

#[test]
fn good_schedules_are_accepted() {
    for (name, text) in files("good") {
        let s = schedule(&name, &text);
        for calls in [Calls::First, Calls::Any] {
            for way in [Way::Auto, Way::Fingerprints] {
                let v = check(&s, &CheckOptions { calls: Some(calls), way, ..Default::default() });
                assert!(v.ok(), "{name}, {calls:?}, {way:?}: {:#?}\n{}", v.errors.list, v.text);
                let method = if way == Way::Auto { Method::Exact } else { Method::Fingerprints };
                assert_eq!(v.meaning, method, "{name}");
                assert_eq!(codes(&v), [""; 0]);
            }
        }
    }
}

#[test]
fn every_way_accepts_what_is_right() {
    let list = [
        ("ring 5", common::ring(5), true),
        ("ring 8", common::ring(8), true),
        ("doubling 8", common::doubling(3), true),
        ("halving 8", common::halving(3), true),
        ("torus 2x3", common::torus(2, 3), true),
        ("torus 4x4", common::torus(4, 4), true),
        ("all_to_all 6", common::all_to_all(6), true),
        ("pull 5", common::pull(5), true),
    ];
    for (name, text, symmetric) in list {
        let s = schedule(name, &text);
        for calls in [Calls::First, Calls::Any] {
            for way in [Way::Expanded, Way::Fingerprints, Way::Symmetric] {
                if way == Way::Symmetric && !symmetric {
                    continue;
                }
                let v = check(&s, &CheckOptions { calls: Some(calls), way, ..Default::default() });
                assert!(v.ok(), "{name}, {calls:?}, {way:?}: {:#?}\n{}", v.errors.list, v.text);
            }
        }
    }
}

#[test]
#[ignore = "timing, for release builds"]
fn timing() {
    let list = [
        ("ring 64", common::ring(64), Way::Auto),
        ("ring 64 symmetric", common::ring(64), Way::Symmetric),
        ("ring 64 fingerprints", common::ring(64), Way::Fingerprints),
        ("ring 256 fingerprints", common::ring(256), Way::Fingerprints),
        ("ring 1024", common::ring(1024), Way::Auto),
        ("ring 4096", common::ring(4096), Way::Auto),
        ("halving 4096", common::halving(12), Way::Auto),
        ("doubling 65536", common::doubling(16), Way::Auto),
        ("torus 32x32", common::torus(32, 32), Way::Auto),
        ("torus 100x100", common::torus(100, 100), Way::Auto),
        ("all_to_all 1024", common::all_to_all(1024), Way::Auto),
    ];
    for (name, text, way) in list {
        let s = schedule(name, &text);
        let t = std::time::Instant::now();
        let v = check(&s, &CheckOptions { way, ..Default::default() });
        println!("{name:24} {:?} {:?} {}", t.elapsed(), v.meaning, v.acts);
        assert!(v.ok(), "{:#?} {:?}", v.errors.list, v.asymmetric);
    }
}
