//! Lexer for the subset of Python that PyTorch prints.

use logos::{Lexer, Logos};

/// A token of a line.
#[derive(Logos, Clone, PartialEq, Debug)]
#[logos(skip r"[ \t\r\x0c]+")]
pub enum Token<'s> {
    /// A name, such as `mm_1`.
    #[regex("[A-Za-z_][A-Za-z0-9_]*")]
    Name(&'s str),
    /// An integer, such as `16`.
    #[regex("[0-9]+", |l| l.slice().parse().ok())]
    Int(i64),
    /// A floating-point number, such as `1e-05`.
    #[regex(r"[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+", |l| l.slice().parse().ok())]
    Float(f64),
    /// A string in either kind of quotes, as Python's repr writes it.
    #[token("'", quoted)]
    #[token("\"", quoted)]
    Text(String),
    /// A comment, to the end of the line.
    #[regex("#[^\n]*", allow_greedy = true)]
    Comment(&'s str),
    /// Punctuation of one or two characters.
    #[regex(r"[()\[\]{},:;=.+*/@%~&|^<>-]|\*\*|//|->|[=<>!]=|<<|>>")]
    Mark(&'s str),
}

/// Reads the rest of a string after its first quote.
fn quoted<'s>(lexer: &mut Lexer<'s, Token<'s>>) -> Option<String> {
    let quote = lexer.slice().chars().next()?;
    let mut out = String::new();
    let mut chars = lexer.remainder().char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => {
                lexer.bump(at + c.len_utf8());
                return Some(out);
            }
            '\\' => out.push(match chars.next()?.1 {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            _ => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_tokens() {
        let line = r#"mm: "f32[8]" = a.b('su"m;', -inf, 1e-05, [1, 0], 2);  a = None  # x"#;
        let all: Vec<_> = Token::lexer(line).collect::<Result<_, _>>().expect("tokens");
        assert!(all.contains(&Token::Text("su\"m;".into())) && all.contains(&Token::Float(1e-5)));
        assert_eq!(all.last(), Some(&Token::Comment("# x")));
        assert_eq!(Token::lexer("'open").next(), Some(Err(())));
        assert_eq!(Token::lexer("99999999999999999999").next(), Some(Err(())));
    }
}
