//! Files that are damaged at random.

use kbc_audit::fuzz::readers::damage::damage;
use kbc_audit::fuzz::rng::Rng;

#[test]
fn the_same_seed_makes_the_same_file() {
    let (a, b) = ("x = 12\n  y: [a, 7]\n", "z\n");
    let make = |seed| damage(a.as_bytes(), b.as_bytes(), false, &mut Rng::new(&[seed]));
    let all: std::collections::BTreeSet<Vec<u8>> = (0..100).map(make).collect();
    assert_eq!(make(3), make(3));
    assert!(all.len() > 60, "{}", all.len());
    for text in ["", "\n", "ä", " "] {
        for seed in 0..200 {
            for binary in [false, true] {
                let out = damage(text.as_bytes(), b.as_bytes(), binary, &mut Rng::new(&[seed]));
                assert!(binary || std::str::from_utf8(&out).is_ok());
            }
        }
    }
}
