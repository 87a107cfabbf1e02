//! How deep lists and mappings of a YAML text are put into one another, before anything reads it.
//!
//! The reader of YAML looks at every open bracket again for every word, so that a text of nothing but `[` takes a time
//! that grows with the square of its length, before it is refused for its depth.

/// Brackets that may be open at once; the reader of YAML takes fewer levels than that.
const MOST: usize = 200;

/// The byte of the bracket that is one too many, if there is one.
pub fn too_deep(text: &str) -> Option<usize> {
    let mut open = 0usize;
    let mut last = '\n';
    let mut rest = text.char_indices();
    while let Some((at, c)) = rest.next() {
        match c {
            // A comment, and a quoted value: brackets in them are text.
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
                if open > MOST {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_that_are_open_are_counted() {
        let deep = "[".repeat(MOST + 1);
        assert_eq!(too_deep(&deep), Some(MOST));
        assert_eq!(too_deep(&format!("a: {}", "{b: ".repeat(100_000))).map(|at| at % 4), Some(3));
        for fine in [
            "a: [1, {b: 2}]\n".repeat(1000),
            format!("# {deep}"),
            format!("a: \"\\\"{deep}\""),
            format!("'{deep}'"),
        ] {
            assert_eq!(too_deep(&fine), None);
        }
    }
}
