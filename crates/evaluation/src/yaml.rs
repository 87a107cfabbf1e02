//! YAML files with a format of kbc: reading a file, and the position of an error.

use kbc_diag::{FileId, Span};
use kbc_frontend::machine::fault::{Fault, fault};
use kbc_frontend::machine::nesting;
use serde::de::DeserializeOwned;

/// Reads a file. `old` are keys that are accepted and that no message names.
///
/// # Errors
/// Returns what is wrong, and where.
pub fn read<T: DeserializeOwned>(text: &str, file: FileId, old: &[&str]) -> Result<T, (Fault, Span)> {
    if let Some(at) = nesting::too_deep(text) {
        return Err((Fault::new("brackets nest too deeply"), Span::new(file, at, at + 1)));
    }
    serde_yaml::from_str(text).map_err(|e| {
        let at = e.location().map_or(0, |l| l.index().min(text.len()));
        let rest = text.get(at..).unwrap_or("");
        let word = rest.find(|c: char| c.is_whitespace() || ":,]}".contains(c)).unwrap_or(rest.len());
        (fault(&e, old), Span::new(file, at, at + word))
    })
}
