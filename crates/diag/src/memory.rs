//! Limits of memory: whether what a step needs fits, and the message if it does not (E369).

use crate::Diagnostic;

/// Variable of the environment that names the limit of the command line: `8GiB`, `500MB`, or a
/// number of bytes.
pub const VARIABLE: &str = "KBC_MEMORY";

/// Compares the needed memory, in bytes, with the limit; without a limit everything fits.
///
/// # Errors
/// Returns E369 if it does not fit.
pub fn fits(limit: Option<u64>, need: u128, what: &str) -> Result<(), Diagnostic> {
    match limit {
        Some(most) if need > u128::from(most) => Err(Diagnostic::error(
            "E369",
            format!("{what} would need {} of memory (limit of kbc: {})", shown(need), shown(most.into())),
        )
        .help(format!(
            "use smaller sizes, fewer ranks or fewer calls, or raise the limit with {VARIABLE}=8GiB"
        ))),
        _ => Ok(()),
    }
}

/// A number of bytes for people.
fn shown(bytes: u128) -> String {
    match bytes {
        0..1_048_576 => format!("{bytes} bytes"),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown() {
        assert_eq!((shown(12), shown(3 << 29)), ("12 bytes".into(), "1.5 GiB".into()));
    }
}
