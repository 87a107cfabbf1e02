//! Estimates: extrapolation to many ranks.

use kbc_passes::testing::{growth, halved};

#[test]
fn growth_is_exact_for_the_terms_of_the_library() {
    let terms: [fn(f64) -> f64; 5] =
        [|p| 2.0 * (p - 1.0), |p| p.log2() + 2.0, |p| (p - 1.0) / p, |p| p * p / 8.0, |_| 7.0];
    for f in terms {
        let got = growth([f(16.0), f(32.0), f(64.0)], [16, 32, 64], 4096);
        assert!((got - f(4096.0)).abs() <= 1e-9 * f(4096.0).max(1.0), "{got} {}", f(4096.0));
    }
}

#[test]
fn sides_shrink_in_their_class() {
    assert_eq!((0..5).map(|h| halved(64, h)).collect::<Vec<_>>(), [64, 32, 16, 8, 4]);
    assert_eq!((0..6).map(|h| halved(100, h)).collect::<Vec<_>>(), [100, 48, 24, 12, 6, 3]);
    assert_eq!(halved(2, 4), 1);
}
