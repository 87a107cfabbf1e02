//! Element types.

use kbc_ir::dtype::{DType, DTypeRow};
use std::collections::BTreeSet;

#[test]
fn names_are_unique_and_sizes_are_whole_bytes() {
    let all = |of: fn(&DTypeRow) -> Vec<&'static str>| {
        let list: Vec<&str> = DType::ALL.iter().flat_map(|d| of(d.row())).collect();
        assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len(), "{list:?}");
    };
    all(|r| vec![r.name]);
    all(|r| vec![r.torch]);
    all(|r| vec![r.safetensors]);
    all(|r| r.numpy.into_iter().collect());
    all(|r| [r.foreign_name, &[r.name]].concat());
    for d in DType::ALL {
        assert!(d.bytes().is_power_of_two() && d.bytes() <= 8);
        assert_eq!((DType::parse(d.name()), d.is_float()), (Some(d), d.range().is_none()));
    }
}

/// A format is determined by its digits and exponents; the largest number has to agree.
#[test]
fn largest_numbers_agree_with_their_formats() {
    for f in DType::ALL.into_iter().filter_map(DType::float) {
        let step = f.max.log2().floor() - f64::from(f.digits - 1);
        assert_eq!(f.max % step.exp2(), 0.0);
        // The exponents that are left over hold infinity and NaN, or NaN alone.
        let exponents = f.bits - f.digits;
        let top = f.least + (1 << exponents) - if f.infinite { 3 } else { 2 };
        assert_eq!(f.max.log2().floor(), f64::from(top));
    }
    assert_eq!(DType::I8.range(), Some((-128, 127)));
    assert_eq!(DType::U8.range(), Some((0, 255)));
    assert_eq!(DType::I64.range(), Some((i64::MIN, i64::MAX)));
}
