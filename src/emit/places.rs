//! Where a piece of an emitted kernel comes from, as a reader of the kernel wants it: file, line and the words there.

use kbc_diag::{SourceMap, Span};
use std::path::Path;

/// Characters of a quotation.
const LONG: usize = 72;

/// `file:line` and the text of a span in one line; the name of a file has no folder, so that output does not depend on
/// where it lies.
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
