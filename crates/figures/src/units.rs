//! Units: formats numbers with units, prefixes and significant digits, and chooses ticks for axes.

use libm::{exp2, floor, log2, log10, pow, round};

/// The quantity on an axis, which defines the unit of its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// A time in nanoseconds, shown as ns, us, ms or s.
    Time,
    /// A number of bytes, shown as B, KB, MB or GB of 1000 each, as in all reports.
    Bytes,
    /// A number of ranks or of other things, with ticks at powers of two.
    Count,
    /// FLOP/s, shown with the prefixes G, T and P.
    Flops,
    /// FLOP per byte, with ticks at powers of two.
    Intensity,
    /// A percentage.
    Percent,
    /// A bandwidth in GB/s, of 1e9 bytes each.
    Bandwidth,
    /// A ratio.
    Ratio,
}

impl Quantity {
    /// Returns whether the ticks are at powers of two.
    pub fn is_binary(self) -> bool {
        matches!(self, Quantity::Count | Quantity::Intensity)
    }

    /// Formats a value with its unit, rounded to `digits` significant digits: `12 KB`, `1.68 us`.
    pub fn show(self, value: f64, digits: usize) -> String {
        let value = significant(value, digits);
        let steps = |base: f64, names: &[&str]| {
            let mut i = 0;
            while i + 1 < names.len() && value.abs() >= pow(base, (i + 1) as f64) {
                i += 1;
            }
            format!("{} {}", plain(value / pow(base, i as f64), digits), names[i])
        };
        match self {
            Quantity::Time => steps(1e3, &["ns", "us", "ms", "s"]),
            Quantity::Bytes => steps(1e3, &["B", "KB", "MB", "GB", "TB"]),
            Quantity::Flops => steps(1e3, &["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"]),
            Quantity::Count | Quantity::Intensity => plain(value, digits),
            Quantity::Percent => format!("{} %", plain(value, digits)),
            Quantity::Bandwidth => format!("{} GB/s", plain(value, digits)),
            Quantity::Ratio => format!("{}x", plain(value, digits)),
        }
    }
}

/// Rounds a value to this many significant digits.
pub fn significant(value: f64, digits: usize) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = digits as f64 - 1.0 - floor(log10(value.abs()));
    // For large numbers the unit is a whole number, and dividing by it is exact.
    if unit >= 0.0 {
        round(value * pow(10.0, unit)) / pow(10.0, unit)
    } else {
        round(value / pow(10.0, -unit)) * pow(10.0, -unit)
    }
}

/// Formats a value without an exponent and without trailing zeros.
fn plain(value: f64, digits: usize) -> String {
    let value = significant(value, digits);
    let whole = if value == 0.0 { 0.0 } else { floor(log10(value.abs())) };
    let behind = (digits as f64 - 1.0 - whole).max(0.0) as usize;
    let text = format!("{value:.behind$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A tick of an axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    /// The value.
    pub value: f64,
    /// The label. Empty for a grid line without a label.
    pub label: String,
}

/// Returns the ticks of a logarithmic axis from `lo` to `hi`, at most `most` of them with labels.
/// They are at powers of two for quantities that are counted in these. Otherwise the labels are at
/// 1, 2 and 5 times powers of ten, or more or less densely as room allows, and unlabelled grid
/// lines lie between them.
pub fn log_ticks(quantity: Quantity, lo: f64, hi: f64, most: usize) -> Vec<Tick> {
    if quantity.is_binary() {
        binary(quantity, lo, hi, most.max(2))
    } else {
        decimal(quantity, lo, hi, most.max(2))
    }
}

fn inside(value: f64, lo: f64, hi: f64) -> bool {
    value >= lo * (1.0 - 1e-9) && value <= hi * (1.0 + 1e-9)
}

fn binary(quantity: Quantity, lo: f64, hi: f64, most: usize) -> Vec<Tick> {
    let (first, last) = (floor(log2(lo)) as i32, floor(log2(hi)) as i32 + 1);
    let all: Vec<i32> = (first..=last).filter(|e| inside(exp2(f64::from(*e)), lo, hi)).collect();
    let fits = |step: &i32| all.iter().filter(|e| *e % step == 0).count() <= most;
    let step = [1, 2, 4, 5, 10, 20].into_iter().find(fits).unwrap_or(40);
    all.into_iter()
        .map(|e| {
            let value = exp2(f64::from(e));
            let label = if e % step == 0 { quantity.show(value, 4) } else { String::new() };
            Tick { value, label }
        })
        .collect()
}

fn decimal(quantity: Quantity, lo: f64, hi: f64, most: usize) -> Vec<Tick> {
    const NARROW: [f64; 11] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let (first, last) = (floor(log10(lo)) as i32, floor(log10(hi)) as i32 + 1);
    let of = |marks: &[f64], step: i32| -> Vec<f64> {
        (first..=last)
            .filter(|e| e % step == 0)
            .flat_map(|e| marks.iter().map(move |m| significant(m * pow(10.0, f64::from(e)), 3)))
            .filter(|v| inside(*v, lo, hi))
            .collect()
    };
    let choices: [(&[f64], i32); 7] = [
        (&NARROW, 1),
        (&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], 1),
        (&[1.0, 2.0, 5.0], 1),
        (&[1.0, 3.0], 1),
        (&[1.0], 1),
        (&[1.0], 2),
        (&[1.0], 3),
    ];
    let labelled =
        choices.iter().map(|(m, s)| of(m, *s)).find(|v| v.len() <= most).unwrap_or_else(|| of(&[1.0], 6));
    let mut out: Vec<Tick> =
        labelled.iter().map(|v| Tick { value: *v, label: quantity.show(*v, 3) }).collect();
    let lines: &[f64] =
        if last - first > 4 { &[1.0] } else { &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0] };
    for value in of(lines, 1) {
        if !labelled.iter().any(|l| (l / value - 1.0).abs() < 1e-9) {
            out.push(Tick { value, label: String::new() });
        }
    }
    out.sort_by(|a, b| a.value.total_cmp(&b.value));
    out
}

/// Returns the ticks of a linear axis from `lo` to `hi`, at most `most` of them, at multiples of 1,
/// 2, 2.5 or 5 times a power of ten.
pub fn linear_ticks(quantity: Quantity, lo: f64, hi: f64, most: usize) -> Vec<Tick> {
    let span = (hi - lo).max(f64::MIN_POSITIVE);
    let unit = pow(10.0, floor(log10(span / most.max(1) as f64)));
    let step = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0]
        .into_iter()
        .map(|m| m * unit)
        .find(|s| floor(hi / s) - libm::ceil(lo / s) < most.max(1) as f64)
        .unwrap_or(20.0 * unit);
    let (first, last) = (libm::ceil(lo / step - 1e-9) as i64, floor(hi / step + 1e-9) as i64);
    (first..=last)
        .map(|i| significant(i as f64 * step, 6))
        .map(|value| {
            let label = if value == 0.0 { "0".to_owned() } else { quantity.show(value, 4) };
            Tick { value, label }
        })
        .collect()
}
