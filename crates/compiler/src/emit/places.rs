//! Source locations for readers of an emitted kernel: file, line and a quotation of the source.

use kbc_diag::{SourceMap, Span};
use std::path::Path;

/// Longest quotation, in characters.
const LONG: usize = 72;

/// Returns `file:line` and the text of a span on one line. The file name has no folder, so that
/// output does not depend on where the file lies.
pub fn of(map: &SourceMap, span: Span) -> Option<(String, String)> {
    if span.is_none() {
        return None;
    }
    let file = map.get(span.file)?;
    let (line, _) = map.line_col(span)?;
    let name = Path::new(&*file.name).file_name()?.to_string_lossy();
    let words: Vec<&str> =
        file.text.get(span.start as usize..span.end as usize)?.split_whitespace().collect();
    let text = words.join(" ");
    let text = match text.char_indices().nth(LONG) {
        Some((at, _)) => format!("{} ..", text[..at].trim_end()),
        None => text,
    };
    Some((format!("{name}:{line}"), text))
}
