//! Safe display of foreign text: control characters that a terminal would obey are escaped.

use std::borrow::Cow;

/// Returns whether a terminal or an SVG viewer would not show this character as text. This holds
/// for control characters except line feed and tab, for other line separators, for direction marks,
/// and for code points that are not characters.
fn acts(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}' => true,
        '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

/// Returns the text with every character that a terminal would obey escaped as `\u001b`. This
/// escape is also valid in JSON strings. A line may end with `\r\n`.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    // Most texts are printable ASCII, and outputs have megabytes.
    let plain = |b: u8| matches!(b, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(plain) || !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if acts(c) && !(c == '\r' && rest.peek() == Some(&'\n')) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Returns a name on one line: like [`escape_controls`], but line ends are escaped too.
pub fn escape_name(name: &str) -> Cow<'_, str> {
    match name.contains('\n') {
        true => Cow::Owned(escape_controls(name).replace('\n', "\\u000a")),
        false => escape_controls(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_text() {
        assert_eq!(escape_controls("a\tb\r\nc ä"), "a\tb\r\nc ä");
        assert_eq!(escape_controls("\u{1b}[31mred\r"), "\\u001b[31mred\\u000d");
        assert_eq!(escape_controls("\u{9b}2J\u{7f}\u{202e}\0"), "\\u009b2J\\u007f\\u202e\\u0000");
    }
}
