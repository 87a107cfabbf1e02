//! Values with units, and ticks of axes.

use kbc_figures::units::{Quantity, Tick, linear_ticks, log_ticks};
use libm::log2;

fn labels(ticks: &[Tick]) -> Vec<&str> {
    ticks.iter().map(|t| t.label.as_str()).filter(|l| !l.is_empty()).collect()
}

#[test]
fn values_with_units() {
    for (quantity, value, digits, text) in [
        (Quantity::Time, 1678.04, 3, "1.68 us"),
        (Quantity::Time, 999.96, 3, "1 us"),
        (Quantity::Time, 31.14, 4, "31.14 ns"),
        (Quantity::Time, 366_000.0, 3, "366 us"),
        (Quantity::Bytes, 12_345.0, 2, "12 KB"),
        (Quantity::Bytes, 98_304.0, 4, "98.3 KB"),
        (Quantity::Bytes, 256.0, 4, "256 B"),
        (Quantity::Bytes, 1_048_576.0, 4, "1.049 MB"),
        (Quantity::Bytes, 524_288.0, 3, "524 KB"),
        (Quantity::Flops, 376e12, 3, "376 TFLOP/s"),
        (Quantity::Count, 64.0, 4, "64"),
        (Quantity::Intensity, 0.25, 4, "0.25"),
        (Quantity::Percent, 87.26, 2, "87 %"),
        (Quantity::Ratio, 1.5, 3, "1.5x"),
    ] {
        assert_eq!(quantity.show(value, digits), text);
    }
}

#[test]
fn counts_have_powers_of_two_and_bytes_decades() {
    let ticks = log_ticks(Quantity::Bytes, 16.0, 98_304.0, 8);
    assert_eq!(labels(&ticks), ["30 B", "100 B", "300 B", "1 KB", "3 KB", "10 KB", "30 KB"]);
    let ticks = log_ticks(Quantity::Count, 2.0, 64.0, 8);
    assert!(ticks.iter().all(|t| log2(t.value).fract() == 0.0));
    assert_eq!(labels(&log_ticks(Quantity::Count, 2.0, 64.0, 8)), ["2", "4", "8", "16", "32", "64"]);
}

#[test]
fn times_have_decades() {
    assert_eq!(
        labels(&log_ticks(Quantity::Time, 900.0, 2e6, 8)),
        ["1 us", "3 us", "10 us", "30 us", "100 us", "300 us", "1 ms"]
    );
    assert_eq!(
        labels(&log_ticks(Quantity::Time, 1600.0, 5500.0, 8)),
        ["2 us", "2.5 us", "3 us", "4 us", "5 us"]
    );
    assert_eq!(
        labels(&linear_ticks(Quantity::Time, 0.0, 12_000.0, 7)),
        ["0", "2 us", "4 us", "6 us", "8 us", "10 us", "12 us"]
    );
}
