//! Times, sizes, counts and shares as text for people.

/// Formats nanoseconds with a unit that keeps the number readable.
pub fn time(ns: f64) -> String {
    match ns {
        // A time that would round up to 1000 of a unit is shown as 1 of the next.
        t if t >= 999_999_950.0 => format!("{:.4} s", t / 1e9),
        t if t >= 999_999.5 => format!("{:.4} ms", t / 1e6),
        t if t >= 999.95 => format!("{:.3} us", t / 1e3),
        t => format!("{t:.1} ns"),
    }
}

/// Formats bytes with a unit.
pub fn bytes(n: u64) -> String {
    match n {
        n if n >= 10_000_000_000 => format!("{:.2} GB", n as f64 / 1e9),
        n if n >= 10_000_000 => format!("{:.2} MB", n as f64 / 1e6),
        n if n >= 10_000 => format!("{:.2} KB", n as f64 / 1e3),
        n => format!("{n} B"),
    }
}

/// Formats a count: `1 rank`, `2 ranks`.
pub fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Formats a percentage as `12.5 %`, or `-` if there is none.
pub fn percent(p: Option<f64>) -> String {
    p.map_or_else(|| "-".into(), |p| format!("{p:.1} %"))
}
