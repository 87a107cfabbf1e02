//! Elementwise functions of one operand: one row of meaning and errors per function.
//!
//! A new function is a name in [`kbc_ir::scalar::ScalarUn`], a row here, and a row in each backend.
//! The interpreter, compiled code, the reference evaluator, the import of PyTorch programs and the
//! table in `docs/reference/numbers.md` read this table.

use kbc_ir::scalar::ScalarUn;
use std::f64::consts::FRAC_2_SQRT_PI;

/// Meaning and errors of a function.
pub struct Function {
    /// Its value in f32, which is what an execution computes. Compiled code calls it, too.
    pub f32: extern "C" fn(f32) -> f32,
    /// Its value in f64, for the reference evaluator.
    pub f64: fn(f64) -> f64,
    /// Its value in i32, if integers have it.
    pub i32: Option<fn(i32) -> i32>,
    /// How far the f32 function may be off, and what it makes of the error of its operand.
    pub errors: Errors,
}

/// Error rule of a function.
#[derive(Clone, Copy)]
pub enum Errors {
    /// It changes the sign bit alone, and the error stays as it is.
    Sign,
    /// A square root, rounded correctly.
    Root,
    /// 1 divided by a square root, each rounded correctly.
    InverseRoot,
    /// A function of a library.
    Library(Library),
}

/// Errors of a library's function.
#[derive(Clone, Copy)]
pub struct Library {
    /// Maximum error of kbc's own function, in units in the last place of the f32 result.
    pub ulps: f64,
    /// Maximum error of the functions of PyTorch and of emitted kernels.
    pub others: Accuracy,
    /// The operand for which the f32 function is exact.
    pub exact_at: Option<f64>,
    /// Bound on `|f(x + d) - f(x)|` for `|d| <= e`, from `x`, `f(x)` and `e > 0`; infinite if there
    /// is none.
    pub passed: Passed,
}

/// A bound on the change of a function's value ([`Library::passed`]).
pub type Passed = fn(f64, f64, f64) -> f64;

/// Maximum error of a function.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Accuracy {
    /// In units in the last place of the f32 result.
    Ulps(f64),
    /// An absolute error, for results of any size.
    Absolute(f64),
}

/// Returns a function of f32 as one that compiled code can call.
macro_rules! shared {
    ($x:ident => $e:expr) => {{
        extern "C" fn shared($x: f32) -> f32 {
            $e
        }
        shared
    }};
}

const fn library(ulps: f64, others: Accuracy, exact_at: Option<f64>, passed: Passed) -> Errors {
    Errors::Library(Library { ulps, others, exact_at, passed })
}

/// Returns the row of a function. `Library` errors are measured over every 13th f32 (see the
/// reference evaluator).
pub fn function(f: ScalarUn) -> &'static Function {
    use Accuracy::{Absolute, Ulps};
    match f {
        ScalarUn::Neg => {
            const {
                &Function {
                    f32: shared!(x => -x),
                    f64: |x| -x,
                    i32: Some(i32::wrapping_neg),
                    errors: Errors::Sign,
                }
            }
        }
        ScalarUn::Abs => {
            const {
                &Function {
                    f32: shared!(x => x.abs()),
                    f64: f64::abs,
                    i32: Some(i32::wrapping_abs),
                    errors: Errors::Sign,
                }
            }
        }
        ScalarUn::Sqrt => {
            const { &Function { f32: shared!(x => x.sqrt()), f64: f64::sqrt, i32: None, errors: Errors::Root } }
        }
        ScalarUn::Rsqrt => {
            const {
                &Function {
                    f32: shared!(x => 1.0 / x.sqrt()),
                    f64: |x| 1.0 / x.sqrt(),
                    i32: None,
                    errors: Errors::InverseRoot,
                }
            }
        }
        ScalarUn::Exp => {
            const {
                &Function {
                    f32: shared!(x => libm::expf(x)),
                    f64: libm::exp,
                    i32: None,
                    errors: library(1.0, Ulps(20.0), Some(0.0), |_, v, e| times(v, libm::expm1(e))),
                }
            }
        }
        ScalarUn::Log => {
            const {
                &Function {
                    f32: shared!(x => libm::logf(x)),
                    f64: libm::log,
                    i32: None,
                    errors: library(1.0, Ulps(1.0), Some(1.0), |x, _, e| logarithm(x, e)),
                }
            }
        }
        // The emitted kernels of `log1p` have an error of 4 ulp; PyTorch's function is SLEEF's
        // `log1pf_u10` (1 ulp).
        ScalarUn::Log1p => {
            const {
                &Function {
                    f32: shared!(x => libm::log1pf(x)),
                    f64: libm::log1p,
                    i32: None,
                    errors: library(1.0, Ulps(4.0), Some(0.0), |x, _, e| logarithm(1.0 + x, e)),
                }
            }
        }
        ScalarUn::Tanh => {
            const {
                &Function {
                    f32: shared!(x => libm::tanhf(x)),
                    f64: libm::tanh,
                    i32: None,
                    errors: library(2.5, Ulps(2.5), Some(0.0), |x, _, e| {
                        let t = libm::tanh(least(x, e));
                        times(e, 1.0 - t * t).min(2.0)
                    }),
                }
            }
        }
        // PyTorch has a polynomial (Abramowitz and Stegun 7.1.26, 1.5e-7) in f32.
        ScalarUn::Erf => {
            const {
                &Function {
                    f32: shared!(x => libm::erff(x)),
                    f64: libm::erf,
                    i32: None,
                    errors: library(1.0, Absolute(5e-7), Some(0.0), |x, _, e| {
                        let near = least(x, e);
                        times(e, FRAC_2_SQRT_PI * libm::exp(-near * near)).min(2.0)
                    }),
                }
            }
        }
        // Up to 30,000: the error of emitted kernels (docs/reference/ascend.md).
        ScalarUn::Sin => {
            const {
                &Function {
                    f32: shared!(x => libm::sinf(x)),
                    f64: libm::sin,
                    i32: None,
                    errors: library(1.0, Absolute(2.5e-7), Some(0.0), |x, _, e| {
                        times(e, (libm::cos(x).abs() + e).min(1.0)).min(2.0)
                    }),
                }
            }
        }
        ScalarUn::Cos => {
            const {
                &Function {
                    f32: shared!(x => libm::cosf(x)),
                    f64: libm::cos,
                    i32: None,
                    errors: library(1.0, Absolute(2.5e-7), Some(0.0), |x, _, e| {
                        times(e, (libm::sin(x).abs() + e).min(1.0)).min(2.0)
                    }),
                }
            }
        }
    }
}

/// Returns the rows of library functions, grouped by their maximum error: names and ulps.
pub fn accuracies() -> Vec<(Vec<&'static str>, f64)> {
    let mut out: Vec<(Vec<&'static str>, f64)> = vec![];
    for f in ScalarUn::ALL {
        let Errors::Library(l) = function(*f).errors else { continue };
        match out.iter_mut().find(|o| o.1 == l.ulps) {
            Some((names, _)) => names.push(f.name()),
            None => out.push((vec![f.name()], l.ulps)),
        }
    }
    out
}

/// The end of the interval that is nearest to 0, where slopes of sigmoid curves are largest.
fn least(x: f64, e: f64) -> f64 {
    (x.abs() - e).max(0.0)
}

/// The error of a logarithm, largest at the lower end of the interval. The logarithm of a negative
/// number is certainly NaN.
fn logarithm(x: f64, e: f64) -> f64 {
    if x + e < 0.0 {
        0.0
    } else if x <= e {
        f64::INFINITY
    } else {
        -libm::log1p(-e / x)
    }
}

/// Returns `x y`, where zero times anything, also infinity, is zero.
fn times(x: f64, y: f64) -> f64 {
    if x == 0.0 || y == 0.0 { 0.0 } else { x * y }
}
