//! Casts: to nearest even; from floats to integers saturating; between integers the low bits.

use super::RefTensor;
use super::precision::Precision;
use super::scalar::rounded;
use kbc_ir::dtype::{DType, Format};

/// Returns the tensor in another type.
pub(super) fn run(x: &RefTensor, to: DType) -> RefTensor {
    let shape = x.shape.clone();
    let floats = (Precision::of(x.dtype), Precision::of(to));
    match (&x.exact, floats) {
        (None, (Some(from), Some(into))) => {
            // A wider type holds every value that the execution may have.
            let wider = into.bits >= from.bits && into.eta <= from.eta && into.max >= from.max;
            let pairs = x.value.iter().zip(&x.bound);
            let (value, bound) =
                pairs.map(|(v, e)| if wider { (*v, *e) } else { rounded(&into, *v, *e, true) }).unzip();
            RefTensor::real(to, shape, value, bound)
        }
        (Some(ints), (_, Some(into))) => {
            let one = |(i, e): (&i64, &f64)| {
                let v = *i as f64;
                rounded(&into, v, *e, i128::from(*i) == v as i128)
            };
            let (value, bound) = ints.iter().zip(&x.bound).map(one).unzip();
            RefTensor::real(to, shape, value, bound)
        }
        (None, _) => {
            let (exact, bound) = x.value.iter().zip(&x.bound).map(|(v, e)| to_integer(*v, *e, to)).unzip();
            RefTensor::integers(to, shape, exact, bound)
        }
        (Some(ints), _) => {
            let one = |(i, e): (&i64, &f64)| {
                let (lo, hi) = limits(to);
                let inside = (*i as f64 - e) >= lo as f64 && (*i as f64 + e) <= hi as f64;
                // A value that wraps jumps, so an uncertain value near the limits may become
                // anything.
                (low_bits(*i, to), if *e == 0.0 || inside { *e } else { f64::INFINITY })
            };
            let (exact, bound) = ints.iter().zip(&x.bound).map(one).unzip();
            RefTensor::integers(to, shape, exact, bound)
        }
    }
}

/// Returns the smallest and largest value of an integer type.
fn limits(to: DType) -> (i64, i64) {
    to.range().unwrap_or((i64::MIN, i64::MAX))
}

/// Returns the number with the low bits of an integer in another integer type.
fn low_bits(i: i64, to: DType) -> i64 {
    match to.row().format {
        Format::Int { bits, signed: true } => i << (64 - bits) >> (64 - bits),
        Format::Int { bits, signed: false } => i & i64::MAX >> (63 - bits.min(63)),
        Format::Float(_) => i,
    }
}

/// Returns the nearest integer in range (0 for NaN), and its distance to the images of the ends of
/// the interval.
fn to_integer(v: f64, e: f64, to: DType) -> (i64, f64) {
    let (lo, hi) = limits(to);
    // `as` saturates at i64 and converts NaN to 0.
    let image = |x: f64| (x.round_ties_even() as i64).clamp(lo, hi);
    let at = image(v);
    if e == 0.0 {
        return (at, 0.0);
    }
    if v.is_nan() || e.is_infinite() {
        return (at, f64::INFINITY);
    }
    let (below, above) = (image(v - e), image(v + e));
    (at, (above.abs_diff(at)).max(at.abs_diff(below)) as f64)
}
