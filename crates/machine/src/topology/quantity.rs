//! Quantities: numbers with a unit, parsed exactly and printed in their shortest exact form.
//!
//! This module owns the table of units. `value -> text -> value` gives the same `f64`: a decimal
//! unit moves the exponent of the text (one rounding), and a binary unit multiplies by a power of
//! two (no rounding).

use std::fmt;

/// The dimension of a quantity. Each is named after the base unit of its amounts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dimension {
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// Floating-point operations per second.
    FlopPerSecond,
}

impl Dimension {
    /// Returns a description of the expected value, with an example, for diagnostics.
    pub fn example(self) -> &'static str {
        match self {
            Dimension::Bytes => "a size such as `4 B`",
            Dimension::BytesPerSecond => "a bandwidth such as `50 GB/s`",
            Dimension::Nanoseconds => "a time such as `500 ns`",
            Dimension::FlopPerSecond => "a rate such as `100 TFLOP/s`",
        }
    }
}

/// A number with a unit, in the base unit of its dimension.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantity {
    /// Number of base units. Finite and not negative.
    pub amount: f64,
    /// The dimension.
    pub dimension: Dimension,
}

/// The scale of a unit relative to its base unit.
#[derive(Clone, Copy)]
enum Scale {
    /// Ten to this power.
    Ten(i32),
    /// Two to this power.
    Two(i32),
}

const UNITS: [(&str, Dimension, Scale); 19] = [
    ("B", Dimension::Bytes, Scale::Ten(0)),
    ("KB", Dimension::Bytes, Scale::Ten(3)),
    ("MB", Dimension::Bytes, Scale::Ten(6)),
    ("GB", Dimension::Bytes, Scale::Ten(9)),
    ("TB", Dimension::Bytes, Scale::Ten(12)),
    ("KiB", Dimension::Bytes, Scale::Two(10)),
    ("MiB", Dimension::Bytes, Scale::Two(20)),
    ("GiB", Dimension::Bytes, Scale::Two(30)),
    ("B/s", Dimension::BytesPerSecond, Scale::Ten(0)),
    ("KB/s", Dimension::BytesPerSecond, Scale::Ten(3)),
    ("MB/s", Dimension::BytesPerSecond, Scale::Ten(6)),
    ("GB/s", Dimension::BytesPerSecond, Scale::Ten(9)),
    ("TB/s", Dimension::BytesPerSecond, Scale::Ten(12)),
    ("KiB/s", Dimension::BytesPerSecond, Scale::Two(10)),
    ("MiB/s", Dimension::BytesPerSecond, Scale::Two(20)),
    ("GiB/s", Dimension::BytesPerSecond, Scale::Two(30)),
    ("ns", Dimension::Nanoseconds, Scale::Ten(0)),
    ("us", Dimension::Nanoseconds, Scale::Ten(3)),
    ("ms", Dimension::Nanoseconds, Scale::Ten(6)),
];

const FLOPS: [(&str, Dimension, Scale); 2] = [
    ("GFLOP/s", Dimension::FlopPerSecond, Scale::Ten(9)),
    ("TFLOP/s", Dimension::FlopPerSecond, Scale::Ten(12)),
];

fn units() -> impl Iterator<Item = &'static (&'static str, Dimension, Scale)> {
    UNITS.iter().chain(&FLOPS)
}

/// Returns the names of all units.
pub fn unit_names() -> Vec<&'static str> {
    units().map(|u| u.0).collect()
}

/// Parses the quantity `number unit`, where `number` is decimal digits with an optional fraction
/// and exponent. None if the unit is unknown, or if the number is malformed or out of range.
pub fn quantity(number: &str, unit: &str) -> Option<Quantity> {
    let &(_, dimension, scale) = units().find(|u| u.0 == unit)?;
    let amount = match scale {
        Scale::Two(k) => number.parse::<f64>().ok()? * 2f64.powi(k),
        Scale::Ten(k) => {
            let (digits, exponent) = match number.split_once(['e', 'E']) {
                Some((d, e)) => (d, e.parse::<i32>().ok()?),
                None => (number, 0),
            };
            format!("{digits}e{}", exponent.checked_add(k)?).parse::<f64>().ok()?
        }
    };
    (amount.is_finite() && amount >= 0.0).then_some(Quantity { amount, dimension })
}

/// Returns the advice for a rate in another spelling. Networks are specified in bits: `400 Gbps` is
/// `50 GB/s`. `40 GBps` is in bytes: `40 GB/s`. None for other units.
pub fn rate_in_bits(number: f64, unit: &str) -> Option<String> {
    if let Some(prefix) = unit.strip_suffix("Bps").filter(|p| ["K", "k", "M", "G", "T"].contains(p)) {
        return Some(format!("write `{number} {}B/s`", prefix.to_uppercase()));
    }
    let bytes = match unit.trim_end_matches("/s").to_lowercase().as_str() {
        "kbps" | "kbit" | "kbits" => "KB/s",
        "mbps" | "mbit" | "mbits" => "MB/s",
        "gbps" | "gbit" | "gbits" => "GB/s",
        "tbps" | "tbit" | "tbits" => "TB/s",
        _ if unit == "Gb" || unit == "Gb/s" => "GB/s",
        _ if unit == "Mb" || unit == "Mb/s" => "MB/s",
        _ => return None,
    };
    let rate = number / 8.0;
    rate.is_finite().then(|| format!("bandwidths are in bytes, not in bits: write `{rate} {bytes}`"))
}

/// Moves the decimal point of a plain decimal text `k` places to the left.
fn shift(text: &str, k: usize) -> String {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let padded = format!("{whole:0>width$}", width = k + 1);
    let (head, tail) = padded.split_at(padded.len() - k);
    let head = head.trim_start_matches('0');
    let tail = format!("{tail}{fraction}");
    let tail = tail.trim_end_matches('0');
    let head = if head.is_empty() { "0" } else { head };
    if tail.is_empty() { head.to_owned() } else { format!("{head}.{tail}") }
}

impl fmt::Display for Quantity {
    /// Writes the shortest text that parses as the same quantity, preferring units in which the
    /// number is at least 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = format!("{}", self.amount);
        let mut best: Option<(bool, usize, String)> = None;
        for &(unit, dimension, scale) in units() {
            if dimension != self.dimension {
                continue;
            }
            let (number, below) = match scale {
                Scale::Ten(k) => (shift(&plain, k.unsigned_abs() as usize), self.amount < 10f64.powi(k)),
                Scale::Two(k) => (format!("{}", self.amount / 2f64.powi(k)), self.amount < 2f64.powi(k)),
            };
            // Zero is written in its base unit, which is the shortest.
            let key = (below && self.amount != 0.0, number.len() + unit.len(), format!("{number} {unit}"));
            if best.as_ref().is_none_or(|b| (key.0, key.1) < (b.0, b.1)) {
                best = Some(key);
            }
        }
        best.map_or(Err(fmt::Error), |(_, _, text)| f.write_str(&text))
    }
}
