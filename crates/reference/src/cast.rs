//! Casts: to nearest even; from floats to integers saturating; between integers the low bits.

use super::RefTensor;
use super::precision::Precision;
use super::scalar::rounded;
use kbc_ir::types::DType;

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
    match to {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::U8 => (u8::MIN.into(), u8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

fn low_bits(i: i64, to: DType) -> i64 {
    match to {
        DType::I8 => (i as i8).into(),
        DType::U8 => (i as u8).into(),
        DType::I16 => (i as i16).into(),
        DType::I32 => (i as i32).into(),
        _ => i,
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
