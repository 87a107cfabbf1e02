//! Nesting check: finds lists and mappings of a YAML text that are nested too deeply, before the
//! text is parsed.
//!
//! For every word, the YAML parser looks at all open brackets again. A text of nothing but `[`
//! therefore takes quadratic time before the parser rejects it for its depth.

/// The largest number of open brackets. The YAML parser accepts fewer levels.
pub const MAX_DEPTH: usize = 200;

/// Returns the byte of the first bracket that exceeds the limit, if there is one.
pub fn too_deep(text: &str) -> Option<usize> {
    let mut open = 0usize;
    let mut last = '\n';
    let mut rest = text.char_indices();
    while let Some((at, c)) = rest.next() {
        match c {
            // Brackets in comments and quoted values are text.
            '#' if last.is_whitespace() => {
                rest.by_ref().find(|(_, c)| *c == '\n');
                last = '\n';
                continue;
            }
            '"' | '\'' if last.is_whitespace() || "[{,:-".contains(last) => {
                let mut escaped = false;
                rest.by_ref().find(|(_, d)| {
                    let end = *d == c && !escaped;
                    escaped = c == '"' && *d == '\\' && !escaped;
                    end
                });
            }
            '[' | '{' => {
                open += 1;
                if open > MAX_DEPTH {
                    return Some(at);
                }
            }
            ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        last = c;
    }
    None
}
