//! YAML files with a format of kbc: reading a file, and the position of an error.

use kbc_diag::{FileId, Span};
use kbc_frontend::machine::nesting;
use serde::de::DeserializeOwned;

/// Reads a file.
///
/// # Errors
/// Returns the message without a position, and the position.
pub fn read<T: DeserializeOwned>(text: &str, file: FileId) -> Result<T, (String, Span)> {
    if let Some(at) = nesting::too_deep(text) {
        return Err(("brackets nest too deeply".into(), Span::new(file, at, at + 1)));
    }
    serde_yaml::from_str(text).map_err(|e| {
        let at = e.location().map_or(0, |l| l.index().min(text.len()));
        let words = e.to_string();
        (words.split(" at line ").next().unwrap_or("").to_owned(), Span::new(file, at, at))
    })
}
