//! The functions of elements, and how they pass on errors.

use kbc_ir::scalar::ScalarUn;
use kbc_numerics::functions::{Errors, function};

#[test]
fn integers_have_the_functions_of_the_representation() {
    for f in ScalarUn::ALL {
        assert_eq!(function(*f).i32.is_some(), f.has_integers(), "{}", f.name());
    }
}

/// The propagated error against differences of the function itself.
#[test]
fn propagated_errors_bound_differences() {
    for f in ScalarUn::ALL {
        let row = function(*f);
        let Errors::Library(l) = row.errors else { continue };
        for x in [-30.0, -2.5, -0.9, -1e-3, 0.0, 0.3, 1.0, 2.0, 17.0] {
            for e in [1e-9, 1e-3, 0.4, 3.0] {
                let bound = (l.passed)(x, (row.f64)(x), e);
                let at = (row.f64)(x);
                for d in [-e, -0.5 * e, 0.5 * e, e] {
                    let off = ((row.f64)(x + d) - at).abs();
                    // Differences of f64 are off by their own roundings.
                    let slack = 1e-6 * bound + 1e-15 * (1.0 + at.abs());
                    assert!(off.is_nan() || off <= bound + slack, "{} {x} {e}", f.name());
                }
            }
        }
        if let Some(x) = l.exact_at {
            assert_eq!(f64::from((row.f32)(x as f32)), (row.f64)(x), "{}", f.name());
        }
    }
}
