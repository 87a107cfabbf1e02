//! Words and strings of the text: what is a plain word, and quoting of everything else.

pub(super) fn is_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Returns the length in bytes of the plain word at the start of a text: letters, digits, `_`, and
/// single dots between them.
pub(super) fn word_length(text: &str) -> usize {
    let b = text.as_bytes();
    let word = |i: usize| b.get(i).is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_');
    if !text.starts_with(is_start) {
        return 0;
    }
    let mut n = 1;
    while word(n) || (b.get(n) == Some(&b'.') && word(n + 1)) {
        n += 1;
    }
    n
}

/// Returns a name as a word, in back quotes if it is not one.
pub fn quoted(name: &str) -> String {
    if !name.is_empty() && word_length(name) == name.len() {
        return name.to_string();
    }
    escaped(name, '`')
}

/// Returns a text in double quotes.
pub fn string(text: &str) -> String {
    escaped(text, '"')
}

fn escaped(text: &str, quote: char) -> String {
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if c == quote => {
                out.push('\\');
                out.push(c);
            }
            _ if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            _ => out.push(c),
        }
    }
    out.push(quote);
    out
}
