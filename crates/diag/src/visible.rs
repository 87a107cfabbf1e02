//! Text from outside as it may be shown: characters that a terminal obeys become text.

use std::borrow::Cow;

/// Whether a terminal or a reader of SVG does not show this character as text. These are control characters except
/// line feed and tab, other line separators, direction marks, and code points that are no characters.
fn acts(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}' => true,
        '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

/// The text with every character that a terminal would obey spelled as `\u001b`, which strings of JSON keep as it is.
/// The end of a line may be `\r\n`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
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

/// A name on one line: [`visible`], and a line end is no line end.
pub fn visible_name(name: &str) -> Cow<'_, str> {
    match name.contains('\n') {
        true => Cow::Owned(visible(name).replace('\n', "\\u000a")),
        false => visible(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_text() {
        assert_eq!(visible("a\tb\r\nc ä"), "a\tb\r\nc ä");
        assert_eq!(visible("\u{1b}[31mred\r"), "\\u001b[31mred\\u000d");
        assert_eq!(visible("\u{9b}2J\u{7f}\u{202e}\0"), "\\u009b2J\\u007f\\u202e\\u0000");
    }
}
